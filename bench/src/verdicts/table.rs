//! The table of verdicts against truth, by family.

use super::families::{FAMILIES, Family};
use super::outcome::Outcome;
use super::rules::{evidence_error, finds_modes, is_wrong, reaches_two_modes};
use std::fmt::Write;

/// Wrong ones that are listed.
const LISTED: usize = 40;

/// How many of how many.
#[derive(Clone, Copy)]
struct Share(usize, usize);

impl Share {
    fn of<T>(all: impl IntoIterator<Item = T>, holds: impl Fn(&T) -> bool) -> Self {
        all.into_iter().fold(Share(0, 0), |Share(n, of), x| Share(n + usize::from(holds(&x)), of + 1))
    }

    fn percent(self) -> f64 {
        100.0 * self.0 as f64 / self.1 as f64
    }

    /// As two cells of a table.
    fn cells(self) -> String {
        if self.1 == 0 { "– | –".to_owned() } else { format!("{} | {:.1} %", self.0, self.percent()) }
    }

    /// As one.
    fn cell(self) -> String {
        if self.1 == 0 { "–".to_owned() } else { format!("{} of {}", self.0, self.1) }
    }

    fn words(self) -> String {
        if self.1 == 0 {
            "none to count".to_owned()
        } else {
            format!("{} of {} ({:.1} %)", self.0, self.1, self.percent())
        }
    }
}

fn said<'a>(outcomes: &[&'a Outcome], verdict: &str) -> Vec<&'a Outcome> {
    outcomes.iter().copied().filter(|o| o.verdict == verdict).collect()
}

fn wrong(outcomes: &[&Outcome], verdict: &str) -> Share {
    Share::of(said(outcomes, verdict), |o| is_wrong(o))
}

/// Targets whose modes were all found, of those with modes to be found.
fn found(outcomes: &[&Outcome]) -> Share {
    Share::of(outcomes.iter().filter_map(|o| finds_modes(o)), |all| *all)
}

fn quantile(outcomes: &[&Outcome], share: f64) -> f64 {
    let mut seconds: Vec<f64> = outcomes.iter().map(|o| o.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let at = (share * seconds.len() as f64).ceil() as usize;
    seconds.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn row(name: &str, outcomes: &[&Outcome], has_two_modes: bool) -> String {
    let count = |verdict| said(outcomes, verdict).len();
    let two = if has_two_modes { Share::of(outcomes, |o| reaches_two_modes(o)) } else { Share(0, 0) };
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {} | {} |\n",
        outcomes.len(),
        count("good"),
        count("reweight"),
        count("do-not-trust"),
        count(super::outcome::FAILED),
        wrong(outcomes, "good").cells(),
        wrong(outcomes, "reweight").cells(),
        quantile(outcomes, 0.5),
        quantile(outcomes, 0.9),
        found(outcomes).cell(),
        two.cell(),
    )
}

/// The outcomes by family as a table in Markdown, what the goals come to, and the `good` verdicts that are wrong.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let of = |family: &Family| -> Vec<&Outcome> { outcomes.iter().filter(|o| o.family == family.name).collect() };
    let among = |chosen: &dyn Fn(&Family) -> bool| -> Vec<&Outcome> {
        FAMILIES.iter().filter(|f| chosen(f)).flat_map(of).collect()
    };
    let head = "family | targets | good | reweight | do-not-trust | failed | good wrong | % | reweight wrong | % | median s | 90 % s | modes found | two modes right";
    let mut text = format!("| {head} |\n|{}\n", "---|".repeat(head.split('|').count()));
    let mut worst: Option<(&str, Share)> = None;
    for family in &FAMILIES {
        let these = of(family);
        if these.is_empty() {
            continue;
        }
        text += &row(family.name, &these, family.name == "two-mode");
        let share = wrong(&these, "good");
        if family.has_threshold && share.1 > 0 && worst.is_none_or(|(_, w)| share.percent() > w.percent()) {
            worst = Some((family.name, share));
        }
    }
    text += &row("all", &among(&|_| true), false);
    let counted = among(&|f| f.has_threshold);
    let unimodal = among(&|f| f.unimodal);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nThe families wide-ratio and spike are reported without a threshold. Without them:\n\n\
         - `good` and wrong: {}, at most 1 % wanted; most in {}, at most 5 % wanted\n\
         - `good` on unimodal families: {}\n\
         - targets with all modes found that are to be found: {}, at least 95 % wanted\n\
         - two-mode targets `good`, with log p(x) and masses right: {}, at least 90 % wanted\n",
        wrong(&counted, "good").words(),
        worst.map_or("none".to_owned(), |(name, share)| format!("{name}: {}", share.words())),
        Share::of(&unimodal, |o| o.verdict == "good").words(),
        found(&counted).words(),
        Share::of(among(&|f| f.name == "two-mode"), |o| reaches_two_modes(o)).words(),
    );
    let stopped = Share::of(outcomes, |o| o.is_stopped);
    let _ = writeln!(
        text,
        "\nThe limit on time played a part in {}: their outcomes depend on the machine.",
        stopped.words()
    );
    let listed: Vec<&Outcome> = outcomes.iter().filter(|o| o.verdict == "good" && is_wrong(o)).collect();
    if !listed.is_empty() {
        text += "\n`good` and wrong:\n\n";
    }
    for outcome in listed.iter().take(LISTED) {
        let number = |x: Option<f64>| x.map_or("none".to_owned(), |x| format!("{x:.3}"));
        let (off, mean) = (number(evidence_error(outcome)), number(outcome.mean_error));
        let (name, index, dim) = (&outcome.family, outcome.index, outcome.dim);
        let _ = writeln!(text, "- {name} {index}, {dim} dimensions: log p(x) off by {off}, a mean by {mean} sd");
    }
    if listed.len() > LISTED {
        let _ = writeln!(text, "- and {} more", listed.len() - LISTED);
    }
    text
}
