//! Runs that two processes want to write, that are told to end, whose folder is removed, and whose disk fails.
#![cfg(unix)]

use crate::{contents, failed, images, mcvi, said, succeeded, text, train};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn begin(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_run_has_one_writer() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let mut first = begin(&train(text(&data), text(&run), "1000000", &["--decay", "none", "--stop", "1000000"]));
    wait_for(&run.join("checkpoint.safetensors"));
    let holder = format!("process {} on ", first.id());
    let second = mcvi(&train(text(&data), text(&run), "2", &[]));
    failed(&second, 2, &[&holder, "is writing to it"]);
    let resumed = mcvi(&["vae", "train", "--resume", "--out", text(&run)]);
    failed(&resumed, 2, &[&holder, "is writing to it"]);
    assert!(first.try_wait().unwrap().is_none(), "the first goes on");
    // Evaluating only reads the run.
    succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "2"]));
    first.kill().unwrap();
    first.wait().unwrap();
    std::fs::write(run.join(".model.safetensors.0123456789abcdef.tmp"), "half").unwrap();
    let done = std::fs::read_to_string(run.join("metrics.csv")).unwrap().lines().count().to_string();
    succeeded(&mcvi(&["vae", "train", "--resume", "--out", text(&run), "--epochs", &done]));
    let left: Vec<_> = run.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| name != ".lock" && !name.ends_with(".tmp")), "{left:?}");
}

#[test]
fn of_many_trainings_with_one_folder_one_succeeds() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let all: Vec<Child> =
        ["1", "2", "3", "4", "5"].map(|seed| begin(&train(text(&data), text(&run), "3", &["--seed", seed]))).into();
    let outputs: Vec<_> = all.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let winners: Vec<usize> = (0..5).filter(|i| outputs[*i].status.success()).collect();
    assert_eq!(winners.len(), 1);
    outputs.iter().filter(|o| !o.status.success()).for_each(|o| failed(o, 2, &["run"]));
    let alone = dir.path().join("alone");
    succeeded(&mcvi(&train(text(&data), text(&alone), "3", &["--seed", &(winners[0] + 1).to_string()])));
    assert!(contents(&run) == contents(&alone));
}

#[test]
fn a_sweep_has_one_writer_and_ends_on_signals() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all =
        format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nstop = 1000000\n", text(&data));
    std::fs::write(&file, format!("{all}epochs = 1000000\n[run.a]\n[run.b]\nleapfrogs = 0\n")).unwrap();
    let sweep = ["vae", "sweep", text(&file), "--out", text(&out)];
    let first = begin(&sweep);
    wait_for(&out.join("a/checkpoint.safetensors"));
    failed(&mcvi(&sweep), 2, &[&format!("process {} on ", first.id()), "is writing to it"]);
    send(&first, "-TERM");
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    assert!(!out.join(".lock").exists() && !out.join("a/.lock").exists());
}

#[test]
fn a_training_told_to_end_goes_on_as_if_it_never_had() {
    let dir = TempDir::new().unwrap();
    let (data, whole) = (images(dir.path()), dir.path().join("whole"));
    succeeded(&mcvi(&train(text(&data), text(&whole), "40", &[])));
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let run = dir.path().join(format!("run{code}"));
        let child = begin(&train(text(&data), text(&run), "40", &[]));
        wait_for(&run.join("checkpoint.safetensors"));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        // Unless it was over by then.
        assert!([Some(code), Some(0)].contains(&output.status.code()), "{:?} {}", output.status, said(&output));
        succeeded(&mcvi(&train(text(&data), text(&run), "40", &["--resume"])));
        assert!(contents(&run) == contents(&whole), "{signal}");
    }
}

#[test]
fn a_training_that_takes_no_step_fails() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    // One step an epoch and three epochs: too few to be judged on the way.
    let args = ["vae", "train", "--data", text(&data), "--out", text(&run), "--batch", "200", "--epochs", "3"];
    let output = mcvi(&[&args[..], &["--initial-step-size", "1e150", "--leapfrogs", "2", "--hidden", "4"]].concat());
    failed(&output, 1, &["no model was saved", "--rate"]);
    assert!(!run.join("model.safetensors").exists());
}

#[test]
fn a_folder_removed_while_a_run_writes_to_it_is_noticed() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let child = begin(&train(text(&data), text(&run), "400", &["--stop", "1000000"]));
    wait_for(&run.join("checkpoint.safetensors"));
    // Not the folder itself: what was removed stays away, and what is written later appears again.
    for name in ["settings.toml", ".lock"] {
        std::fs::remove_file(run.join(name)).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    failed(&output, 1, &["was removed while the run was writing to it"]);
}

#[test]
fn a_training_survives_every_fault_of_the_disk() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: faults are injected in debug builds only");
        return;
    }
    let dir = TempDir::new().unwrap();
    let (data, whole, run) = (images(dir.path()), dir.path().join("whole"), dir.path().join("run"));
    let go = |out: &Path, more: &[&str], fault: usize| {
        let args = train(text(&data), text(out), "2", more);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
        command.args(args).env("MCVI_FAULT", fault.to_string()).output().unwrap()
    };
    succeeded(&go(&whole, &[], 0));
    let expected = contents(&whole);
    let mut faults = 0;
    for fault in 1.. {
        let output = go(&run, &[], fault);
        let injected = said(&output).contains(&format!("injected fault {fault}:"));
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
        if run.join("settings.toml").exists() {
            succeeded(&go(&run, &["--resume"], 0));
        } else {
            assert!(!output.status.success());
            succeeded(&go(&run, &[], 0));
        }
        assert!(contents(&run) == expected, "fault {fault}: {}", said(&output));
        std::fs::remove_dir_all(&run).unwrap();
        if !injected {
            assert!(output.status.success());
            break;
        }
        faults = fault;
    }
    assert!(faults > 40, "{faults}");
}
