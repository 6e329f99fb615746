//! Runs of `mcvi vae train` written by mcvi 0.1, and checkpoints that cannot be read.

use super::{failed, images, mcvi, succeeded, text};
use std::path::{Path, PathBuf};

/// A copy of the run of 0.1.
fn kept(into: &Path) -> PathBuf {
    let to = into.join("run");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir("tests/version1/vae").unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

/// The bounds of training, epoch by epoch.
fn train_bounds(metrics: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(metrics).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn a_run_goes_on_from_its_checkpoint_to_the_same_numbers() {
    let base = tempfile::tempdir().unwrap();
    let (data, run) = (images(base.path()), kept(base.path()));
    let resume = ["vae", "train", "--resume", "--epochs", "4", "--data", text(&data), "--out", text(&run)];
    succeeded(&mcvi(&[&resume[..], &["--threads", "1"]].concat()));
    // Validation has other draws since; training has the same, but for the last places on another processor.
    let (now, then) = (train_bounds(&run.join("metrics.csv")), train_bounds(&run.join("metrics-after-4-epochs.csv")));
    assert_eq!((now.len(), then.len()), (4, 4));
    assert!(now.iter().zip(&then).all(|(now, then)| (now - then).abs() < 1e-3), "{now:?}, not {then:?}");
    let settings = std::fs::read_to_string(run.join("settings.toml")).unwrap();
    assert!(settings.contains("initial-step-size = 0.2") && !settings.contains("first-step"), "{settings}");
    succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "5", "--data", text(&data)]));
}

#[test]
fn a_checkpoint_that_is_not_damaged_is_never_deleted() {
    let base = tempfile::tempdir().unwrap();
    let (data, run) = (images(base.path()), kept(base.path()));
    let resume = ["vae", "train", "--resume", "--epochs", "3", "--data", text(&data), "--out", text(&run)];
    let checkpoint = run.join("checkpoint.safetensors");
    let mut bytes = std::fs::read(&checkpoint).unwrap();
    let tag = b"mcvi checkpoint 1";
    let at = bytes.windows(tag.len()).position(|w| w == tag).unwrap();
    bytes[at + tag.len() - 1] = b'7';
    std::fs::write(&checkpoint, &bytes).unwrap();
    failed(&mcvi(&resume), 2, &["checkpoint.safetensors", "newer version of mcvi", "format 7"]);
    assert_eq!(std::fs::read(&checkpoint).unwrap(), bytes);
    // What cannot be opened at all.
    std::fs::remove_file(&checkpoint).unwrap();
    std::fs::create_dir(&checkpoint).unwrap();
    failed(&mcvi(&resume), 1, &["checkpoint.safetensors", "cannot be read"]);
    assert!(checkpoint.is_dir() && run.join("checkpoint.previous.safetensors").is_file());
}
