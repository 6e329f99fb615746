//! The command as a user runs it: what it prints, what it writes, and what it says when asked for the impossible.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn mcvi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).args(arguments).output().expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = mcvi(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON object")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn gaussian_learns_what_is_exact() {
    let result = json(&["paper", "gaussian", "--sweeps", "4,1", "--json"]);
    assert!((number(&result["log_z"]) - 3.447315).abs() < 1e-5);
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|r| number(&r["sweeps"])).collect::<Vec<_>>(), [1.0, 4.0]);
    for row in rows {
        let (gibbs, over) = (&row["gibbs"], &row["over_relaxation"]);
        for (learned, best) in [(gibbs, &gibbs["exact"]), (over, &over["best"])] {
            let short = number(best) - number(&learned["bound"]);
            assert!(short.abs() < 0.01 + 3.0 * number(&learned["se"]), "{row}");
        }
    }
    let over = &rows[1]["over_relaxation"];
    assert!((number(&over["alpha"]) - number(&over["best_alpha"])).abs() < 0.02, "{over}");
    assert!((number(&over["best"]) - 2.6211).abs() < 1e-4);
}

#[test]
fn stomach_cancer_adds_up() {
    let result = json(&["paper", "stomach-cancer", "--leapfrogs", "0,1", "--json"]);
    let log_z = number(&result["log_z"]);
    let rows = result["rows"].as_array().expect("rows");
    for row in rows {
        let sum = ["bound", "kl", "r_gap"].iter().map(|k| number(&row[*k])).sum::<f64>();
        assert!((sum - log_z).abs() < 4.0 * number(&row["se"]), "{row}");
    }
    assert!(number(&rows[1]["kl"]) < number(&rows[0]["kl"]));
    assert!(number(&rows[1]["r2"]) > number(&rows[0]["r2"]));
    assert_eq!(rows[0]["r_gap"], 0.0);
}

#[test]
fn the_same_seed_gives_the_same_results_on_any_number_of_threads() {
    let run = |seed: &str, threads: &str| {
        json(&["paper", "gaussian", "--sweeps", "2,3", "--json", "--seed", seed, "--threads", threads])
    };
    assert_eq!(run("3", "1"), run("3", "2"));
    assert_ne!(run("3", "2"), run("4", "2"));
}

#[test]
fn figures_and_results_are_written_where_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("made/here");
    let output = mcvi(&["paper", "gaussian", "--sweeps", "1", "--out", &out.display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("over-relaxation") && text.contains("figure1.png"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 90 || line.starts_with("Written")), "{text}");
    for name in ["figure1.svg", "figure1.png", "results.json"] {
        assert!(std::fs::metadata(out.join(name)).expect(name).len() > 100, "{name}");
    }
    assert_eq!(std::fs::read_dir(&out).expect("a folder").count(), 3, "nothing half-written stays behind");
}

#[test]
fn mistakes_are_named_and_nothing_is_done() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let blocked = file.path().join("sub").display().to_string();
    for (arguments, says) in [
        (vec!["paper", "gaussian", "--sweeps", "0"], "0 is not in 1..=200"),
        (vec!["paper", "gaussian", "--sweeps", "two"], "invalid digit"),
        (vec!["paper", "stomach-cancer", "--momentum", "cubic"], "possible values: linear, constant"),
        (vec!["paper", "stomach-cancer", "--threads", "0"], "0 is not in 1..=1024"),
        (vec!["paper", "gaussian", "--out", &blocked], "choose another with --out"),
        (vec!["paper"], "Usage"),
    ] {
        let output = mcvi(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(says), "{arguments:?} said: {said}");
        assert!(output.stdout.is_empty());
    }
    assert!(!Path::new("mcvi-out").exists(), "tests leave nothing in the tree");
}
