//! A small fixed part of `bench/verdicts`: what is called good is right, and the same target gives the same outcome.

use mcvi_bench::verdicts::{FAMILIES, Outcome, is_wrong, run};

/// Targets that take little time.
const PART: [(&str, usize); 6] =
    [("student", 1), ("banana", 1), ("mixture", 0), ("two-mode", 0), ("many-mode", 1), ("skewed", 1)];

fn outcome(family: &str, index: usize) -> Outcome {
    let family = FAMILIES.iter().find(|f| f.name == family).expect("a family");
    run(&family.problem(index), 60.0)
}

#[test]
fn what_is_called_good_is_right() {
    let outcomes = PART.map(|(family, index)| outcome(family, index));
    for outcome in &outcomes {
        let Outcome { family, index, verdict, reasons, seconds, .. } = outcome;
        eprintln!("{family} {index}: {verdict}, {seconds:.1} s, {}", reasons.join("; "));
        assert_ne!(verdict, "failed", "{family} {index}: {reasons:?}");
        assert!(verdict != "good" || !is_wrong(outcome), "{outcome:?}");
    }
    let good = outcomes.iter().filter(|o| o.verdict == "good").count();
    assert!(good >= 3, "{good} of {} are good", outcomes.len());
}

#[test]
fn a_target_gives_the_same_outcome_again() {
    let written = |o: Outcome| serde_json::to_string(&Outcome { seconds: 0.0, ..o }).expect("JSON");
    let (one, two) = (outcome("skewed", 1), outcome("skewed", 1));
    assert_eq!(written(one), written(two));
}
