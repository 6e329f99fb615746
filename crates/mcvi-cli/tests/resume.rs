//! `mcvi fit --from` and `--repeat`: fits that are stopped, gone on with and done again give the same, to the last bit.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.args(arguments);
    command
}

fn mcvi(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

/// A fit that works out; its result, less the time it took.
fn fit(arguments: &[&str]) -> Value {
    let output = mcvi(&[&["fit", "--json"][..], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    timeless(&output.stdout)
}

fn timeless(bytes: &[u8]) -> Value {
    let mut result: Value = serde_json::from_slice(bytes).expect("an object");
    assert!(result.as_object_mut().expect("an object").remove("seconds").is_some());
    result
}

fn fails(arguments: &[&str], says: &str) {
    let output = mcvi(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?} said: {said}");
    assert!(said.contains(says) && !said.contains("panicked"), "{arguments:?} said: {said}");
    assert!(output.stdout.is_empty());
}

/// That two folders hold the same draws and the same fit.
fn assert_same_draws(a: &Path, b: &Path) {
    for name in ["draws.csv", "draws.arrow"] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).expect(name);
        assert!(read(a) == read(b), "{name} of {} and {}", a.display(), b.display());
    }
}

#[test]
fn a_stopped_fit_goes_on_as_if_it_never_had() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    let chain = ["banana", "--steps", "1", "--leapfrogs", "2", "--draws", "300", "--seed", "3"];
    let whole = fit(&[&chain[..], &["--iterations", "1200", "--out", &at("whole")]].concat());
    let part = fit(&[&chain[..], &["--iterations", "333", "--out", &at("part")]].concat());
    assert!(whole["iterations"] == 1200 && part["iterations"] == 333 && part["interrupted"] == false);
    assert!(part["reasons"].to_string().contains("budget") && part["bound"] != whole["bound"], "{part}");
    assert_eq!(fit(&["--from", &at("part"), "--iterations", "700", "--out", &at("more")])["iterations"], 700);
    let end = fit(&["--from", &at("more"), "--iterations", "1200", "--out", &at("end"), "--threads", "1"]);
    assert_eq!(whole, end);
    assert_same_draws(&base.path().join("whole"), &base.path().join("end"));
    // The same again, by its settings alone.
    assert_eq!(whole, fit(&["--repeat", &at("whole"), "--out", &at("again")]));
    assert_same_draws(&base.path().join("whole"), &base.path().join("again"));
    let said = mcvi(&["fit", "--from", &at("part"), "--iterations", "340", "--out", &at("said")]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("stopped by the budget") && said.contains("mcvi fit --from "), "{said}");

    fails(&["fit", "--from", &at("part"), "--iterations", "100"], "the fit has already taken 333 iterations");
    fails(&["fit", "banana", "--from", &at("part")], "cannot be used with");
    fails(&["fit", "--from", &at("part"), "--seed", "4"], "cannot be used with");
    fails(&["fit", "--repeat", &at("part"), "--iterations", "4"], "cannot be used with");
    fails(&["fit", "--from", &at("nowhere")], "not the folder of a fit");
    fails(&["fit", "--repeat", &at("nowhere")], "not the folder of a fit");
}

#[test]
fn the_ladder_goes_on_from_its_rung() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    let whole = fit(&["banana", "--out", &at("whole")]);
    let total = whole["iterations"].as_u64().expect("a number");
    // Within the Gaussian alone, and within the chain that follows it.
    fit(&["banana", "--iterations", "120", "--out", &at("a")]);
    let later = (total - 990).to_string();
    assert_eq!(fit(&["--from", &at("a"), "--iterations", &later, "--out", &at("b")])["iterations"], total - 990);
    assert_eq!(fit(&["--from", &at("b"), "--out", &at("c")]), whole);
    assert_same_draws(&base.path().join("whole"), &base.path().join("c"));
    // It had ended: it stays as it is.
    let said = mcvi(&["fit", "--from", &at("c")]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("nothing left to do"));
    assert_eq!(fit(&["--from", &at("c")]), whole);
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_goes_on_as_if_it_never_had() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    // It would take minutes.
    let chain = ["fit", "eight-schools", "--steps", "2", "--leapfrogs", "3", "--rate", "0.001"];
    let mut child = command(&chain);
    let child = child.args(["--iterations", "2000000", "--json", "--out", &at("part")]);
    let mut child = child.stdout(Stdio::null()).spawn().expect("it starts");
    let begun = Instant::now();
    while !base.path().read_dir().expect("a folder").any(|e| e.is_ok()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it has not begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let summary = timeless(&std::fs::read(base.path().join("part/summary.json")).expect("a summary"));
    assert_eq!(summary["interrupted"], true, "{summary}");
    let more = (summary["iterations"].as_u64().expect("a number") + 470).to_string();
    let end = fit(&["--from", &at("part"), "--iterations", &more, "--out", &at("end")]);
    let whole = fit(&[&chain[1..], &["--iterations", &more, "--out", &at("whole")]].concat());
    assert_eq!(end, whole);
    assert_same_draws(&base.path().join("whole"), &base.path().join("end"));
    // How far it had come can be had again.
    let again = fit(&["--repeat", &at("part"), "--out", &at("again")]);
    assert_eq!((&again["bound"], &again["iterations"]), (&summary["bound"], &summary["iterations"]));
    assert_same_draws(&base.path().join("part"), &base.path().join("again"));
}

#[test]
fn states_that_do_not_belong_or_are_damaged_are_refused() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    let quick = ["--steps", "1", "--leapfrogs", "1", "--iterations", "60", "--out"];
    fit(&[&["banana"][..], &quick, &[&at("a")]].concat());
    fit(&[&["eight-schools"][..], &quick, &[&at("b")]].concat());
    fit(&["banana", "--steps", "1", "--leapfrogs", "2", "--iterations", "60", "--out", &at("c")]);
    let state = base.path().join("a/state.safetensors");
    let whole = std::fs::read(&state).expect("a state");
    let refused = |bytes: &[u8], says: &str| {
        std::fs::write(&state, bytes).expect("written");
        fails(&["fit", "--from", &at("a")], says);
    };
    let other = |name: &str| std::fs::read(base.path().join(name).join("state.safetensors")).expect("a state");
    refused(&other("b"), "another model: it has 10 dimensions, this one 2");
    refused(&other("c"), "another chain: a Hamiltonian step of 2 leapfrogs");
    refused(&whole[..whole.len() - 100], "damaged");
    refused(b"", "state.safetensors");
    refused(&std::fs::read(base.path().join("a/fit.safetensors")).expect("a fit"), "is not the state of a fit");
    std::fs::remove_file(&state).expect("removed");
    fails(&["fit", "--from", &at("a")], "state.safetensors");
    // Other settings than the fit was made with.
    std::fs::write(&state, &whole).expect("written");
    let settings = base.path().join("a/settings.json");
    let text = std::fs::read_to_string(&settings).expect("settings");
    std::fs::write(&settings, text.replace("\"rate\": 0.03", "\"rate\": 0.04")).expect("written");
    fails(&["fit", "--from", &at("a")], "other settings");
    std::fs::write(&settings, text.replace("\"adam\"", "\"eve\"")).expect("written");
    fails(&["fit", "--from", &at("a")], "unknown variant `eve`");

    // Data that have changed since.
    let table = |slope: f64| {
        let rows: Vec<String> = (0..30).map(|i| format!("{i},{}", slope * f64::from(i) + f64::from(i % 3))).collect();
        format!("x,y\n{}\n", rows.join("\n"))
    };
    let data = base.path().join("data.csv");
    std::fs::write(&data, table(1.0)).expect("written");
    fit(&[&["linear", "--data", &at("data.csv"), "--target", "y"][..], &quick, &[&at("d")]].concat());
    std::fs::write(&data, table(2.0)).expect("written");
    fails(&["fit", "--from", &at("d")], "of other data");
}

#[test]
fn a_time_budget_is_kept_and_what_was_fitted_in_it_goes_on() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    let begun = Instant::now();
    let timed = fit(&["funnel", "--seconds", "0.7", "--out", &at("timed")]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(timed["interrupted"], false);
    assert!(timed["reasons"].to_string().contains("budget"), "{timed}");
    let more = (timed["iterations"].as_u64().expect("a number") + 50).to_string();
    let resumed = fit(&["--from", &at("timed"), "--iterations", &more, "--out", &at("more")]);
    assert_eq!(resumed["iterations"].to_string(), more);
    fit(&["--repeat", &at("timed")]);
}
