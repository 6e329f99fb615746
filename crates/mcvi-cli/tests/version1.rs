//! Folders written by mcvi 0.1 are still read, newer ones are refused by name, and nothing of them is lost.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn mcvi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

/// A copy of a folder of 0.1.
fn kept(name: &str, into: &Path) -> PathBuf {
    let (from, to) = (Path::new("tests/version1").join(name), into.join(name));
    std::fs::create_dir(&to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
    to
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_fit_is_drawn_from() {
    let base = tempfile::tempdir().expect("a folder");
    let run = kept("fit", base.path());
    let drawn = succeeded(&mcvi(&["draw", &run.display().to_string(), "--draws", "4000", "--raw"]));
    let weights: Vec<f64> = drawn.lines().skip(1).map(|l| l.split(',').nth(2).unwrap().parse().unwrap()).collect();
    let (n, mean) = (weights.len() as f64, weights.iter().sum::<f64>() / weights.len() as f64);
    let se = (weights.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    let bound = json(&run.join("summary.json"))["bound"]["value"].as_f64().expect("a number");
    assert!((mean - bound).abs() < 5.0 * se, "{mean} ± {se}, not {bound}");
}

#[test]
fn a_stopped_fit_goes_on_and_is_then_a_folder_of_today() {
    let base = tempfile::tempdir().expect("a folder");
    let (run, out) = (kept("stopped", base.path()), base.path().join("more").display().to_string());
    let from = run.display().to_string();
    let more = succeeded(&mcvi(&["fit", "--from", &from, "--iterations", "1500", "--json", "--out", &out]));
    let (before, more) = (json(&run.join("summary.json")), serde_json::from_str::<Value>(&more).expect("JSON"));
    assert_eq!((&before["iterations"], &more["iterations"]), (&Value::from(700), &Value::from(1500)));
    let value = |of: &Value| (of["bound"]["value"].as_f64().unwrap(), of["bound"]["se"].as_f64().unwrap());
    let ((was, was_se), (is, se)) = (value(&before), value(&more));
    assert!(is > was - 5.0 * (was_se + se), "{is} is worse than {was}");
    let settings = json(&Path::new(&out).join("settings.json"));
    assert_eq!((&settings["format"], &settings["source"]["kind"]), (&Value::from(2), &Value::from("built-in")));
    succeeded(&mcvi(&["fit", "--from", &out, "--iterations", "1600", "--json"]));
    succeeded(&mcvi(&["fit", "--repeat", &from, "--json"]));
}

#[test]
fn newer_files_are_refused_by_name() {
    let base = tempfile::tempdir().expect("a folder");
    let run = kept("stopped", base.path());
    let from = run.display().to_string();
    let refused = |arguments: &[&str], file: &str| {
        let output = mcvi(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(file) && said.contains("newer version of mcvi"), "{said}");
    };
    for (file, tag) in [("state.safetensors", "mcvi inference 1"), ("fit.safetensors", "mcvi 1")] {
        newer(&run.join(file), tag);
    }
    refused(&["fit", "--from", &from, "--iterations", "1500"], "state.safetensors");
    refused(&["draw", &from], "fit.safetensors");
    std::fs::write(run.join("settings.json"), r#"{"format": 99}"#).expect("written");
    refused(&["draw", &from], "settings.json");
}

/// Let a file say that its format is of version 9.
fn newer(path: &Path, tag: &str) {
    let bytes = std::fs::read(path).expect("a file");
    let at = bytes.windows(tag.len()).position(|w| w == tag.as_bytes()).expect("a tag");
    let mut bytes = bytes;
    bytes[at + tag.len() - 1] = b'9';
    std::fs::write(path, bytes).expect("written");
}

/// A fit knows the data it was made from: no command takes others for them.
#[test]
fn changed_data_are_noticed_by_every_command() {
    let base = tempfile::tempdir().expect("a folder");
    let (data, run) = (base.path().join("d.csv"), base.path().join("run").display().to_string());
    let rows = [(1.0, 30.0, 0), (2.0, 41.0, 0), (3.0, 25.0, 1), (4.0, 33.0, 0), (5.0, 52.0, 1), (6.0, 47.0, 1)];
    let write = |header: &str, row: &dyn Fn(&(f64, f64, i32)) -> String| {
        let rows: Vec<String> = rows.iter().map(row).collect();
        std::fs::write(&data, format!("{header}\n{}\n", rows.join("\n"))).expect("written");
    };
    let straight = |(dose, age, y): &(f64, f64, i32)| format!("{dose},{age},{y}");
    write("dose,age,y", &straight);
    let at = data.display().to_string();
    succeeded(&mcvi(&[
        "fit",
        "logistic",
        "--data",
        &at,
        "--target",
        "y",
        "--iterations",
        "200",
        "--draws",
        "10",
        "--out",
        &run,
    ]));
    succeeded(&mcvi(&["draw", &run, "--draws", "2"]));
    let refused = |why: &str| {
        for arguments in
            [&["draw", &run][..], &["fit", "--from", &run, "--iterations", "300"], &["fit", "--repeat", &run]]
        {
            let output = mcvi(arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains("of other data") && said.contains(why) && said.contains("d.csv"), "{said}");
            assert!(output.stdout.is_empty());
        }
    };
    // The columns swapped, with their names.
    write("age,dose,y", &|(dose, age, y)| format!("{age},{dose},{y}"));
    refused("its data have changed");
    // The columns swapped, without their names.
    write("dose,age,y", &|(dose, age, y)| format!("{age},{dose},{y}"));
    refused("its data have changed");
    // One cell.
    write("dose,age,y", &|(dose, age, y)| format!("{},{age},{y}", if *dose == 4.0 { 4.0001 } else { *dose }));
    refused("its data have changed");
    write("dose,age,y", &straight);
    succeeded(&mcvi(&["draw", &run, "--draws", "2"]));
}
