//! `mcvi benchmark evidence` as a user runs it.

use serde_json::Value;
use std::process::{Command, Output};

fn evidence(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.args(["benchmark", "evidence"]).args(arguments).output().expect("the command starts")
}

#[test]
fn bounds_lie_below_log_z_and_a_chain_is_tighter_than_its_gaussian() {
    let quick = ["--targets", "banana", "--kernels", "gaussian,uha", "--steps", "2,4", "--seconds", "20"];
    let output = evidence(&[&quick[..], &["--draws", "20000", "--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let rows = result["rows"].as_array().expect("rows");
    let number = |row: &Value, name: &str| row["bound"][name].as_f64().expect("a number");
    assert_eq!(rows.len(), 3);
    for (row, (kernel, steps)) in rows.iter().zip([("gaussian", 0), ("uha", 2), ("uha", 4)]) {
        assert_eq!((row["kernel"].as_str(), row["steps"].as_u64()), (Some(kernel), Some(steps)));
        assert_eq!(row["gradients_per_draw"].as_u64(), Some(steps + 1));
        assert!(number(row, "value") < 4.0 * number(row, "se"), "{row}");
        assert!(row["log_evidence"]["value"].as_f64().expect("a number").abs() < 0.2, "{row}");
    }
    for pair in rows.windows(2) {
        let se = number(&pair[0], "se").hypot(number(&pair[1], "se"));
        assert!(number(&pair[1], "value") > number(&pair[0], "value") + 3.0 * se, "{result}");
    }
}

#[test]
fn annealing_from_a_wide_start_estimates_log_z_of_many_wells() {
    let folder = tempfile::tempdir().expect("a folder");
    let (figure, table) = (folder.path().join("bounds.svg"), folder.path().join("bounds.md"));
    let quick = ["--targets", "many-well", "--steps", "100,400", "--draws", "4000", "--json"];
    let files = ["--figure", figure.to_str().expect("a name"), "--markdown", table.to_str().expect("a name")];
    let output = evidence(&[&quick[..], &files].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let rows = result["rows"].as_array().expect("rows");
    let number = |row: &Value, name: &str, part: &str| row[name][part].as_f64().expect("a number");
    assert_eq!(rows.len(), 2);
    for (row, steps) in rows.iter().zip([100, 400]) {
        assert_eq!((row["kernel"].as_str(), row["steps"].as_u64()), (Some("annealing"), Some(steps)));
        assert_eq!(row["gradients_per_draw"].as_u64(), Some(2 * steps));
        assert!(number(row, "bound", "value") < 164.6957, "{row}");
    }
    assert!(number(&rows[1], "bound", "value") > number(&rows[0], "bound", "value"), "{result}");
    let (estimate, se) = (number(&rows[1], "log_evidence", "value"), number(&rows[1], "log_evidence", "se"));
    assert!((estimate - 164.6957).abs() < 4.0 * se && se < 0.5, "{result}");
    assert!(std::fs::read_to_string(figure).expect("a figure").contains("many-well"));
    assert!(std::fs::read_to_string(table).expect("a table").contains("| many-well | annealing | 400 | 800 |"));
}

#[test]
fn mistakes_are_named() {
    for (arguments, says) in [
        (&["--targets", "sonnar"][..], "there is no `sonnar`"),
        (&["--targets", "sonar"], "sonar.csv"),
        (&["--targets", "sonar", "--data", "/nowhere"], "/nowhere/sonar.csv"),
        (&["--targets", "banana", "--seconds", "-1"], "--seconds"),
        (&["--targets", "banana", "--kernels", "hmm"], "hmm"),
        (&["--targets", "banana", "--steps", "5000"], "at most 4096"),
        (&["--targets", "banana", "--figure", "bounds.pdf"], ".svg or .png"),
    ] {
        let output = evidence(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{arguments:?}: {said}");
    }
}
