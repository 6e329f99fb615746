//! `mcvi fit`, `mcvi draw` and `mcvi list` as users and programs meet them: output, files, exit codes, interrupts.

#[path = "common/python.rs"]
mod interpreter;

use interpreter::python;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A fit of a moment.
const QUICK: [&str; 6] = ["--steps", "1", "--leapfrogs", "1", "--iterations", "300"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.args(arguments);
    command
}

fn mcvi(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("standard output is one JSON object")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The command fails with this code, says this, prints nothing.
fn fails(arguments: &[&str], code: i32, says: &[&str]) {
    let output = mcvi(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?} said: {said}");
    assert!(says.iter().all(|s| said.contains(s)), "{arguments:?} said: {said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed: {}", text(&output.stdout));
}

#[test]
fn strict_fails_unless_the_verdict_is_good() {
    assert_eq!(mcvi(&["fit", "banana", "--strict", "--json"]).status.code(), Some(0));
    let output = mcvi(&["fit", "banana", "--chain", "none", "--strict", "--json"]);
    assert_eq!((output.status.code(), &json(&output.stdout)["verdict"]), (Some(1), &"reweight".into()));
    assert!(text(&output.stderr).contains("the verdict is reweight"), "{}", text(&output.stderr));
}

#[test]
fn json_has_exactly_the_promised_keys() {
    let output = mcvi(&["fit", "banana", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "quiet without a terminal: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    let result = json(&output.stdout);
    let promised = "model bound log_evidence upper_estimate pareto_k ess_fraction r2_path divergences predictive verdict reasons advice summaries outside modes attempts \
                    interrupted iterations seconds parameters";
    assert_eq!(keys(&result), promised.split_whitespace().collect::<Vec<_>>());
    assert_eq!(result["model"], "banana");
    for estimate in ["bound", "log_evidence"] {
        assert_eq!(keys(&result[estimate]), ["value", "se"]);
        assert!(result[estimate]["value"].is_f64() && result[estimate]["se"].as_f64().expect("a number") > 0.0);
    }
    let number = |key: &str| result[key].as_f64().unwrap_or_else(|| panic!("{key} is no number"));
    assert!(number("pareto_k") < 0.7 && (0.0..=1.0).contains(&number("ess_fraction")) && number("r2_path") <= 1.0);
    assert!(result["divergences"].is_u64() && result["iterations"].as_u64() > Some(0) && number("seconds") > 0.0);
    assert_eq!((&result["verdict"], &result["summaries"]), (&Value::from("good"), &Value::from("reweighted")));
    assert_eq!(result["interrupted"], Value::Bool(false));
    let reasons = result["reasons"].as_array().expect("a list");
    assert!(!reasons.is_empty() && reasons.iter().all(Value::is_string));
    assert_eq!(keys(&result["parameters"]), ["x", "y"]);
    for parameter in ["x", "y"] {
        let summary = &result["parameters"][parameter];
        assert_eq!(keys(summary), ["mean", "sd", "q05", "q50", "q95"]);
        let of = |key: &str| summary[key].as_f64().expect("a number");
        assert!(of("sd") > 0.0 && of("q05") < of("q50") && of("q50") < of("q95"), "{summary}");
    }
    let evidence = &result["log_evidence"];
    let (value, se) = (evidence["value"].as_f64().expect("a number"), evidence["se"].as_f64().expect("a number"));
    assert!(value.abs() < 0.01 + 4.0 * se, "log Z is 0: {evidence}");
    assert!(result["bound"]["value"].as_f64().expect("a number") >= -0.05, "{}", result["bound"]);
}

#[test]
fn the_table_says_what_the_object_says() {
    let arguments = [&["fit", "gaussian-mixture"][..], &QUICK].concat();
    let output = mcvi(&arguments);
    // Whatever the verdict, the work is done.
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    let said = text(&output.stdout);
    for part in ["Verdict: good", "2 separate modes", "log p(x) ≥", "Pareto k̂", "z[1]", "z[2]", "95 %"] {
        assert!(said.contains(part), "no {part} in: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 120), "{said}");
    let result = json(&mcvi(&[&arguments[..], &["--json"]].concat()).stdout);
    assert_eq!((&result["verdict"], &result["modes"]), (&"good".into(), &2.into()));
    assert_eq!(keys(&result["parameters"]), ["z[1]", "z[2]"]);
}

#[test]
fn the_default_model_is_stomach_cancer() {
    let result = json(&mcvi(&[&["fit", "--json"][..], &QUICK].concat()).stdout);
    assert_eq!(result["model"], "stomach-cancer");
    assert_eq!(keys(&result["parameters"]), ["logit_eta", "log_K", "K", "eta"]);
}

#[test]
fn unknown_models_are_named_with_the_nearest_known() {
    fails(&["fit", "eight-school"], 2, &["`eight-school`", "did you mean eight-schools?", "mcvi list"]);
    fails(&["fit", "Funnell"], 2, &["did you mean funnel?"]);
    fails(&["fit", "logisitc"], 2, &["did you mean logistic?"]);
    let nothing_near = mcvi(&["fit", "xyzzyxyzzyxyzzy"]);
    let said = text(&nothing_near.stderr);
    assert!(said.contains("no model `xyzzyxyzzyxyzzy`; `mcvi list`") && !said.contains("did you mean"), "{said}");
    assert_eq!(nothing_near.status.code(), Some(2));
    fails(&["fit", "banana", "--data", "x.csv"], 2, &["banana comes with its own data"]);
}

#[test]
fn impossible_settings_are_refused() {
    for (settings, says) in [
        (&["--chain", "none", "--steps", "3"][..], "--chain none asks for none"),
        (&["--chain", "none", "--leapfrogs", "3"], "--chain none asks for none"),
        (&["--chain", "metropolis"], "possible values: auto, none, hamiltonian"),
        (&["--draws", "0"], "0 is not in 1.."),
        (&["--draws", "many"], "invalid digit"),
        (&["--rate", "0"], "0 is not a positive number"),
        (&["--rate", "nan"], "NaN is not a positive number"),
        (&["--rate=-1"], "-1 is not a positive number"),
        (&["--rate", "inf"], "inf is not a positive number"),
        (&["--iterations", "0"], "0 is not in 1.."),
        (&["--seconds", "0"], "0 is not a positive number"),
        (&["--seconds", "nan"], "NaN is not a positive number"),
        (&["--threads", "0"], "0 is not in 1.."),
        (&["--starts", "0"], "0 is not in 1.."),
        (&["--steps", "0"], "0 is not in 1.."),
        (&["--leapfrogs", "0"], "0 is not in 1.."),
        (&["--seed=-1"], "--seed"),
        (&["--covariance", "round"], "possible values: diagonal, full"),
        (&["--unknown"], "unexpected argument"),
    ] {
        let base = tempfile::tempdir().expect("a folder");
        let out = base.path().join("out").display().to_string();
        fails(&[&["fit", "banana", "--out", &out][..], settings].concat(), 2, &[says]);
        assert!(names(base.path()).is_empty(), "{settings:?} left something");
    }
}

#[test]
fn results_are_never_written_over_or_beside_others() {
    let base = tempfile::tempdir().expect("a folder");
    let out = base.path().join("out");
    std::fs::create_dir(&out).expect("made");
    std::fs::write(out.join("precious"), "mine").expect("written");
    let begun = Instant::now();
    fails(&["fit", "funnel", "--out", &out.display().to_string()], 2, &["exists and is not empty", "choose another"]);
    assert!(begun.elapsed() < Duration::from_secs(2), "before any work is done");
    assert_eq!((names(base.path()), names(&out)), (vec!["out".to_owned()], vec!["precious".to_owned()]));
    assert_eq!(std::fs::read_to_string(out.join("precious")).expect("still there"), "mine");
}

#[test]
fn places_that_cannot_be_written_to_are_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let at = file.path().display().to_string();
    fails(&["fit", "banana", "--out", &at], 2, &[&at, "not a folder", "choose another --out"]);
    fails(&["fit", "banana", "--out", &format!("{at}/sub")], 2, &[&at, "choose another --out"]);
    // Nothing can be made here, not even by root.
    if cfg!(target_os = "linux") {
        fails(&["fit", "banana", "--out", "/proc/mcvi/out"], 2, &["/proc/mcvi", "choose another --out"]);
    }
    assert_eq!(std::fs::metadata(file.path()).expect("still there").len(), 0);
}

#[test]
fn the_list_names_everything_that_can_be_fitted() {
    let output = mcvi(&["list"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let said = text(&output.stdout);
    for name in
        ["stomach-cancer", "eight-schools", "funnel", "banana", "gaussian-mixture", "logistic", "linear", "poisson"]
    {
        assert!(said.lines().any(|line| line.split_whitespace().next() == Some(name)), "no {name} in: {said}");
    }
}

/// Columns of a CSV file, by name.
fn table(csv: &str) -> Vec<(String, Vec<f64>)> {
    let mut lines = csv.lines();
    let split = |line: &str| -> Vec<String> {
        // Commas within quotes belong to the name: "L[1,2]".
        let mut cells = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().expect("a cell").push(c),
            }
        }
        cells
    };
    let mut columns: Vec<(String, Vec<f64>)> =
        split(lines.next().expect("a header")).into_iter().map(|name| (name, vec![])).collect();
    for line in lines {
        let cells = split(line);
        assert_eq!(cells.len(), columns.len(), "{line}");
        columns.iter_mut().zip(&cells).for_each(|(c, x)| c.1.push(x.parse().expect("a number")));
    }
    columns
}

#[test]
fn a_run_leaves_everything_and_nothing_else_and_can_be_drawn_from_again() {
    let base = tempfile::tempdir().expect("a folder");
    let out = base.path().join("deep/run");
    let at = out.display().to_string();
    let output = mcvi(&["fit", "eight-schools", "--json", "--out", &at, "--draws", "700", "--steps", "1"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!(names(&base.path().join("deep")), ["run"], "nothing hidden stays behind");
    let files =
        "arviz.zarr draws.arrow draws.csv fit.safetensors report.html settings.json state.safetensors summary.json";
    assert_eq!(names(&out), files.split(' ').collect::<Vec<_>>());
    let read = |name: &str| std::fs::read(out.join(name)).expect(name);
    assert_eq!(json(&read("summary.json")), json(&output.stdout), "the summary is what was printed");
    let settings = json(&read("settings.json"));
    assert_eq!((&settings["model"], &settings["seed"]), (&Value::from("eight-schools"), &Value::from(1)));
    assert_eq!(settings["chain"]["steps"][0]["transition"]["leapfrogs"], 4);
    assert_eq!((&settings["format"], &settings["stop_reason"]), (&Value::from(2), &Value::from("converged")));
    let report = text(&read("report.html"));
    assert!(report.contains("eight-schools") && report.matches("<svg").count() >= 5 && report.contains("</html>"));
    assert!(read("draws.arrow").starts_with(b"ARROW1"));

    let drawn = table(&text(&read("draws.csv")));
    let columns: Vec<&str> = drawn.iter().map(|c| c.0.as_str()).collect();
    assert_eq!((columns[0], columns[1], columns[2], columns.len()), ("mu", "tau", "eta[1]", 19));
    assert_eq!(
        columns[10..],
        ["theta[1]", "theta[2]", "theta[3]", "theta[4]", "theta[5]", "theta[6]", "theta[7]", "theta[8]", "log_p"]
    );
    assert!(drawn.iter().all(|c| c.1.len() == 700 && c.1.iter().all(|x| x.is_finite())));
    for i in 0..700 {
        let (mu, tau, eta, theta) = (drawn[0].1[i], drawn[1].1[i], drawn[2].1[i], drawn[10].1[i]);
        assert!(tau > 0.0 && (mu + tau * eta - theta).abs() < 1e-9);
    }

    let more = |arguments: &[&str]| {
        let output = mcvi(&[&["draw", &at][..], arguments].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let again = more(&["--draws", "50", "--seed", "9"]);
    assert_eq!(again, more(&["--draws", "50", "--seed", "9"]), "the same seed, the same draws");
    assert_ne!(again, more(&["--draws", "50", "--seed", "10"]));
    let (again, default) = (table(&again), table(&more(&[])));
    assert_eq!(again.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), columns);
    assert!(again.iter().all(|c| c.1.len() == 50) && default.iter().all(|c| c.1.len() == 1000));
    // They come from the same approximation: the bound, which is the mean log weight of raw draws, is the one reported.
    let raw = table(&more(&["--raw"]));
    assert_eq!(raw[18].0, "log_weight");
    let weights = &raw[18].1;
    let mean = weights.iter().sum::<f64>() / 1000.0;
    let se = (weights.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / 999.0 / 1000.0).sqrt();
    let bound = json(&output.stdout)["bound"]["value"].as_f64().expect("a number");
    assert!((mean - bound).abs() < 5.0 * se, "{mean} ± {se}, not {bound}");
    let csv = base.path().join("more.csv");
    assert_eq!(more(&["--draws", "50", "--seed", "9", "--out", &csv.display().to_string()]), "");
    assert_eq!(table(&std::fs::read_to_string(&csv).expect("written")), again);
    fails(&["draw", &at, "--draws", "0"], 2, &["0 is not in 1.."]);
    fails(&["draw", &at, "--out", &format!("{at}/no/such/more.csv")], 2, &["cannot write", "more.csv"]);

    python("arviz, zarr", "fit_opens.py", &[&out]);
}

#[test]
fn folders_that_are_no_run_cannot_be_drawn_from() {
    let base = tempfile::tempdir().expect("a folder");
    let at = base.path().display().to_string();
    fails(&["draw", &at], 2, &[&at, "is not the folder of a fit", "settings.json"]);
    fails(&["draw", &format!("{at}/nowhere")], 2, &["nowhere", "is not the folder of a fit"]);
    for (settings, says) in [
        ("{", "settings.json"),
        ("{}", "names no model"),
        (r#"{"model": "banana"}"#, "what chain was fitted"),
        (r#"{"model": "apple", "chain": {}}"#, "no model `apple`"),
        (r#"{"model": "banana", "chain": {"steps": 1, "leapfrogs": 2, "hidden": 0}}"#, "fit.safetensors"),
    ] {
        std::fs::write(base.path().join("settings.json"), settings).expect("written");
        fails(&["draw", &at], 2, &[says]);
    }
    // A fit of something else.
    std::fs::write(base.path().join("fit.safetensors"), [0; 64]).expect("written");
    fails(&["draw", &at], 2, &["fit.safetensors"]);
}

#[test]
fn the_seed_alone_decides_the_result() {
    let run = |seed: &str, threads: &str| {
        let arguments = [&["fit", "banana", "--json", "--seed", seed, "--threads", threads][..], &QUICK].concat();
        let mut result = json(&mcvi(&arguments).stdout);
        assert!(result.as_object_mut().expect("an object").remove("seconds").is_some());
        result
    };
    let one = run("5", "1");
    assert_eq!(one, run("5", "2"));
    assert_ne!(one["bound"], run("6", "1")["bound"]);
}

/// A fit that takes minutes unless it is interrupted. Its output goes to files, so that nothing blocks.
fn long_fit(base: &Path) -> Child {
    let file = |name: &str| Stdio::from(std::fs::File::create(base.join(name)).expect("a file"));
    let out = base.join("out").display().to_string();
    let mut command =
        command(&["fit", "funnel", "--iterations", "2000000", "--rate", "0.001", "--json", "--out", &out]);
    let child = command.stdout(file("stdout")).stderr(file("stderr")).spawn().expect("the command starts");
    // It is at work once its folder is there; the handler is set right after.
    let begun = Instant::now();
    while !names(base).iter().any(|name| name.starts_with(".out.mcvi")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it has not begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1000));
    child
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
}

#[cfg(unix)]
#[test]
fn the_first_interrupt_ends_the_fit_and_delivers_what_there_is() {
    let base = tempfile::tempdir().expect("a folder");
    let mut child = long_fit(base.path());
    interrupt(&child);
    let status = child.wait().expect("it ends");
    let read = |name: &str| std::fs::read(base.path().join(name)).expect(name);
    assert_eq!(status.code(), Some(130), "{}", text(&read("stderr")));
    assert!(read("stderr").is_empty());
    let result = json(&read("stdout"));
    assert_eq!(result["interrupted"], Value::Bool(true));
    assert!(result["reasons"].to_string().contains("interrupted"), "{}", result["reasons"]);
    assert!(result["iterations"].as_u64().expect("a number") < 2_000_000);
    assert_eq!(names(base.path()), ["out", "stderr", "stdout"]);
    assert_eq!(json(&read("out/summary.json")), result);
    assert!(text(&read("out/report.html")).contains("interrupted"));
}

#[cfg(unix)]
#[test]
fn the_second_interrupt_stops_at_once_and_leaves_nothing_but_the_state() {
    let base = tempfile::tempdir().expect("a folder");
    let mut child = long_fit(base.path());
    interrupt(&child);
    // Long enough for the first to be taken on its own, too short for it to be answered.
    std::thread::sleep(Duration::from_millis(30));
    interrupt(&child);
    let begun = Instant::now();
    let status = child.wait().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(1), "at once, not after {:?}", begun.elapsed());
    assert_eq!(status.code(), Some(130));
    // The state is saved first, if there was time for it.
    if base.path().join("out").exists() {
        assert_eq!(names(&base.path().join("out")), ["settings.json", "state.safetensors"]);
        std::fs::remove_dir_all(base.path().join("out")).expect("removed");
    }
    assert_eq!(names(base.path()), ["stderr", "stdout"]);
    assert_eq!(std::fs::metadata(base.path().join("stdout")).expect("a file").len(), 0);
}
