//! Folders that were damaged or forged: they ask for too much, or hold numbers that are none. The command says so.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn mcvi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).args(arguments).output().expect("the command starts")
}

#[track_caller]
fn fails(arguments: &[&str], code: i32, says: &[&str]) {
    let output = mcvi(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?} said: {said}");
    assert!(says.iter().all(|part| said.contains(part)) && !said.contains("panicked"), "{arguments:?} said: {said}");
    assert!(output.stdout.is_empty());
}

fn fitted(folder: &Path) -> String {
    let run = folder.join("run").display().to_string();
    let fit = ["fit", "banana", "--chain", "none", "--iterations", "50", "--starts", "1", "--out", &run];
    assert!(mcvi(&fit).status.success());
    run
}

/// Set all numbers of an array of a saved fit, and the checksum that belongs to them.
fn set(path: &Path, name: &str, value: f64) {
    let mut bytes = std::fs::read(path).expect("a file");
    let start = 8 + u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..start]).expect("a header");
    let place = [0, 1].map(|i| header[name]["data_offsets"][i].as_u64().expect("a place") as usize);
    bytes[start + place[0]..start + place[1]].as_chunks_mut().0.fill(value.to_le_bytes());
    std::fs::write(path, mcvi::reseal(&bytes)).expect("written");
}

#[test]
fn a_fit_without_finite_numbers_is_not_drawn_from() {
    let base = tempfile::tempdir().expect("a folder");
    let run = fitted(base.path());
    let path = base.path().join("run/fit.safetensors");
    let intact = std::fs::read(&path).expect("a file");
    assert!(mcvi(&["draw", &run, "--draws", "5"]).status.success());
    set(&path, "q0.bias", f64::NAN);
    fails(&["draw", &run], 2, &["fit.safetensors", "is damaged", "`q0.bias`", "not finite"]);
    // Numbers that are finite, and draws that are not.
    std::fs::write(&path, intact).expect("written");
    set(&path, "q0.log_sd", 1e9);
    let out = base.path().join("draws.csv");
    fails(&["draw", &run, "--out", &out.display().to_string()], 1, &["draws are not finite", "fit again"]);
    assert!(!out.exists());
}

#[test]
fn settings_of_a_fit_cannot_ask_for_more_than_the_command_line() {
    let base = tempfile::tempdir().expect("a folder");
    let run = fitted(base.path());
    let path = base.path().join("run/settings.json");
    let intact: Value = serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("an object");
    let huge = serde_json::json!(1_000_000_000);
    let chain = serde_json::json!({ "hamiltonian": { "steps": 1_000_000_000, "leapfrogs": 1 } });
    for (place, value, says) in [
        ("/request/draws", &huge, "draws: 1000000000 is not between 1 and 10000000"),
        ("/request/starts", &huge, "starts: 1000000000 is not between 1 and 1000"),
        ("/request/settings/draws", &huge, "draws per gradient"),
        ("/request/chain", &chain, "steps of a chain"),
    ] {
        let mut settings = intact.clone();
        *settings.pointer_mut(place).expect("a setting") = value.clone();
        std::fs::write(&path, settings.to_string()).expect("written");
        for way in ["--from", "--repeat"] {
            fails(&["fit", way, &run], 2, &["settings.json", says]);
        }
    }
}

#[test]
fn chains_and_sweeps_in_files_cannot_either() {
    let base = tempfile::tempdir().expect("a folder");
    let file = base.path().join("chain.toml").display().to_string();
    std::fs::write(&file, "[[steps]]\ntransition = { kind = \"hamiltonian\", leapfrogs = 1000000000 }\n")
        .expect("written");
    fails(&["fit", "banana", "--chain", &file], 2, &["chain.toml", "leapfrogs: 1000000000 is not between 0 and 1000"]);
    std::fs::write(
        &file,
        "[[steps]]\ntransition = { kind = \"hamiltonian\", leapfrogs = 1, initial_step_size = nan }\n",
    )
    .expect("written");
    fails(&["fit", "banana", "--chain", &file], 2, &["chain.toml", "NaN is not a positive number"]);
    fails(&["vae", "sweep", &file, "--out", &file, "--evaluate", "4000000000"], 2, &["10000000"]);
    fails(&["fit", "linear", "--data", "/dev/zero", "--target", "y"], 2, &["/dev/zero", "does not end"]);
}
