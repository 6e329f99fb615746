//! Killing, resuming, and what is kept where a disk, a GPU or a training is lost.

use crate::{contents, failed, images, mcvi, succeeded, text, train};
use mcvi::vae::TrainingCheckpoint;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[test]
fn a_run_killed_at_any_moment_goes_on_as_if_it_never_stopped() {
    let dir = TempDir::new().unwrap();
    let data = images(dir.path());
    let whole = dir.path().join("whole");
    succeeded(&mcvi(&train(text(&data), text(&whole), "40", &[])));
    let killed = dir.path().join("killed");
    let begin = |resume: bool| {
        let args = train(text(&data), text(&killed), "40", if resume { &["--resume"] } else { &[] });
        Command::new(env!("CARGO_BIN_EXE_mcvi")).args(args).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let (mut kills, mut child) = (0, begin(false));
    let deadline = Instant::now() + Duration::from_secs(60);
    // Killed again and again, at moments that have nothing to do with what it does.
    while kills < 6 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(30 + 17 * kills));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        // Before the folder is there, there is nothing to go on with.
        child = begin(killed.join("settings.toml").is_file());
    }
    child.wait().unwrap();
    if !killed.join("settings.toml").is_file() {
        succeeded(&mcvi(&train(text(&data), text(&killed), "40", &[])));
    }
    succeeded(&mcvi(&train(text(&data), text(&killed), "40", &["--resume"])));
    assert!(contents(&killed) == contents(&whole), "after {kills} kills");
    assert!(kills > 0);
}

#[test]
fn damaged_checkpoints_are_told_and_the_one_before_is_used() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "3", &["--decay", "none"])));
    let before = contents(&run);
    let checkpoint = run.join("checkpoint.safetensors");
    let mut bytes = std::fs::read(&checkpoint).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&checkpoint, &bytes).unwrap();
    let output = mcvi(&train(text(&data), text(&run), "3", &["--decay", "none", "--resume"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("damaged") && said.contains("after epoch 2"), "{said}");
    succeeded(&output);
    assert!(contents(&run) == before);
    // The damaged one has not taken the place of the good one.
    let previous = run.join("checkpoint.previous.safetensors");
    TrainingCheckpoint::from_bytes(&std::fs::read(&previous).unwrap(), &previous).unwrap();

    std::fs::write(&checkpoint, &bytes[..100]).unwrap();
    std::fs::remove_file(run.join("checkpoint.previous.safetensors")).unwrap();
    let output = mcvi(&train(text(&data), text(&run), "3", &["--decay", "none", "--resume"]));
    failed(&output, 2, &["checkpoint.safetensors", "damaged"]);
}

#[test]
fn a_run_goes_on_only_with_what_it_was_begun_with() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "1", &["--decay", "none"])));
    let resume = |more: &[&str]| mcvi(&[&["vae", "train", "--resume", "--out", text(&run)], more].concat());
    failed(&resume(&["--latent", "5"]), 2, &["--latent", "other values"]);
    // Another architecture's checkpoint under these settings.
    let other = dir.path().join("other");
    succeeded(&mcvi(&train(text(&data), text(&other), "1", &["--decay", "none", "--steps", "2"])));
    let mine = std::fs::read(run.join("checkpoint.safetensors")).unwrap();
    std::fs::copy(other.join("checkpoint.safetensors"), run.join("checkpoint.safetensors")).unwrap();
    failed(&resume(&[]), 2, &["has the architecture"]);
    std::fs::write(run.join("checkpoint.safetensors"), mine).unwrap();
    // Other images under the same name.
    std::fs::copy(data.join("test.npy"), data.join("valid.npy")).unwrap();
    failed(&resume(&["--epochs", "2"]), 2, &["images are not those"]);
    // A run that is over says so and changes nothing.
    std::fs::remove_dir_all(&data).unwrap();
    images(dir.path());
    succeeded(&resume(&[]));
    // More epochs than it was begun with. What was found out about the model before is gone with it.
    succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "5"]));
    let improved = || std::fs::read(run.join("model.safetensors")).unwrap();
    let before = improved();
    succeeded(&resume(&["--epochs", "2"]));
    assert_eq!(run.join("evaluation-test.json").exists(), improved() == before);
    assert_eq!(std::fs::read_to_string(run.join("metrics.csv")).unwrap().lines().count(), 3);
}

#[test]
fn a_run_that_moves_to_another_device_says_so() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "1", &[])));
    let path = run.join("checkpoint.safetensors");
    let mut checkpoint = TrainingCheckpoint::from_bytes(&std::fs::read(&path).unwrap(), &path).unwrap();
    assert_eq!(checkpoint.device.as_deref(), Some("cpu"));
    checkpoint.device = Some("cuda".to_owned());
    std::fs::write(&path, checkpoint.to_bytes().unwrap()).unwrap();
    let resumed = mcvi(&["vae", "train", "--resume", "--out", text(&run), "--epochs", "2"]);
    let said = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success() && said.contains("on cuda so far and is resumed on cpu"), "{said}");
}

/// A driver that has no GPU behind it (driver.c), in a folder of its own.
#[cfg(target_os = "linux")]
fn driver(dir: &Path) -> PathBuf {
    let folder = dir.join("driver");
    std::fs::create_dir(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vae/driver.c");
    // The name that is looked for first: another driver that is here stays out of the way.
    let library = folder.join("libcuda.so");
    // The linker that built this test.
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::copy(&library, folder.join("libnvrtc.so.13")).unwrap();
    folder
}

#[test]
#[cfg(target_os = "linux")]
fn a_gpu_that_is_lost_or_full_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let (data, whole, run) = (images(dir.path()), dir.path().join("whole"), dir.path().join("run"));
    let driver = driver(dir.path());
    let on_gpu = |limit: (&str, &str), args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
        command.args(args).args(["--device", "cuda"]).env("LD_LIBRARY_PATH", &driver).env("MCVI_NVRTC", &driver);
        command.env("MCVI_CACHE", "").env(limit.0, limit.1).output().unwrap()
    };
    let lost = ["the CUDA driver says: unspecified launch failure", "the GPU was lost"];
    let more = ["--decay", "none"];
    succeeded(&mcvi(&train(text(&data), text(&whole), "4", &more)));
    succeeded(&mcvi(&train(text(&data), text(&run), "2", &more)));
    let before = contents(&run);
    let again = train(text(&data), text(&run), "4", &["--decay", "none", "--resume"]);
    failed(&on_gpu(("MCVI_FAKE_LAUNCHES", "0"), &again), 1, &[&lost[..], &["intact", "resumed"]].concat());
    assert!(contents(&run)[..3] == before[..3]);
    failed(&on_gpu(("MCVI_FAKE_LAUNCHES", "0"), &["vae", "evaluate", text(&run)]), 1, &lost);
    assert!(!run.join("evaluation-test.json").exists());
    succeeded(&mcvi(&again));
    assert!(contents(&run) == contents(&whole));

    let full = dir.path().join("full");
    let begin = train(text(&data), text(&full), "4", &[]);
    failed(&on_gpu(("MCVI_FAKE_MEMORY", "20000"), &begin), 1, &["cuda:0", "bytes"]);
    assert!(!full.exists());
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "2", &["--decay", "none"])));
    let before = contents(&run);
    // Files may not grow beyond 4 blocks of 1024 bytes: to the program, a disk that is full.
    let args = train(text(&data), text(&run), "4", &["--decay", "none", "--resume"]).join("' '");
    let line = format!("trap '' XFSZ; ulimit -f 4; '{}' '{args}'", env!("CARGO_BIN_EXE_mcvi"));
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    failed(&output, 1, &["cannot write", "intact", "--resume"]);
    let after = contents(&run);
    assert!(after[..3] == before[..3]);
    let left: Vec<String> =
        std::fs::read_dir(&run).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
    succeeded(&mcvi(&train(text(&data), text(&run), "4", &["--decay", "none", "--resume"])));
}

#[test]
fn a_training_that_is_lost_stops_and_says_where() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let mut args = train(text(&data), text(&run), "5", &[]);
    let rate = args.iter().position(|a| *a == "0.01").unwrap();
    args[rate] = "1e18";
    failed(&mcvi(&args), 1, &["epoch 1, from step", "is not finite", "also at lower learning rates", "try"]);
}

#[test]
fn a_training_that_is_lost_begins_the_epoch_again_at_a_lower_rate() {
    let dir = TempDir::new().unwrap();
    let (data, run, plain) = (images(dir.path()), dir.path().join("run"), dir.path().join("plain"));
    let args = |out, rate, more: &[&'static str]| {
        let mut args = train(text(&data), out, "3", more);
        let at = args.iter().position(|a| *a == "0.01").unwrap();
        args[at] = rate;
        args
    };
    let output = mcvi(&args(text(&run), "1e22", &["--factor", "1e-12"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.matches("is repeated, at 0.000000000001 times the learning rate").count() == 2,
        "{said}"
    );
    // As if it had begun at that rate, but that 1e22 · 1e-12 · 1e-12 is 0.01 to the last place only.
    succeeded(&mcvi(&args(text(&plain), "0.01", &[])));
    let bounds = |run: &Path| -> Vec<f64> {
        let metrics = std::fs::read_to_string(run.join("metrics.csv")).unwrap();
        metrics.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect()
    };
    let (bounds, same) = (bounds(&run), bounds(&plain));
    assert!(bounds.len() == 3 && bounds.iter().zip(&same).all(|(a, b)| (a - b).abs() < 0.01), "{bounds:?} {same:?}");
    // It goes on at that rate.
    let resumed = mcvi(&["vae", "train", "--resume", "--out", text(&run), "--epochs", "4", "--threads", "1"]);
    succeeded(&resumed);
    assert!(!String::from_utf8_lossy(&resumed.stderr).contains("is repeated"));
}

#[test]
fn a_training_that_is_lost_later_keeps_its_last_checkpoint() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "2", &["--decay", "none"])));
    // From here on a rate that no model survives, in the checkpoint and in the settings.
    let path = run.join("checkpoint.safetensors");
    let mut checkpoint = TrainingCheckpoint::from_bytes(&std::fs::read(&path).unwrap(), &path).unwrap();
    checkpoint.settings.rate = 1e18;
    std::fs::write(&path, checkpoint.to_bytes().unwrap()).unwrap();
    let settings = std::fs::read_to_string(run.join("settings.toml")).unwrap();
    std::fs::write(run.join("settings.toml"), settings.replace("rate = 0.01", "rate = 1e18")).unwrap();
    let before = contents(&run);
    let output = mcvi(&["vae", "train", "--resume", "--out", text(&run), "--epochs", "4", "--threads", "1"]);
    failed(&output, 1, &["epoch 3, from step", "is not finite", "checkpoint is intact"]);
    assert!(contents(&run)[..3] == before[..3]);
    succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "5"]));
}

#[test]
fn a_run_that_stopped_early_stays_so_until_more_is_asked_for() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let still =
        ["--stop", "2", "--decay", "none", "--batch", "20", "--leapfrogs", "0", "--hidden", "4", "--latent", "2"];
    let go = |epochs: &str, rate: &str, more: &[&str]| {
        let args = ["vae", "train", "--data", text(&data), "--out", text(&run), "--warm-up", "0", "--rate", rate];
        mcvi(&[&args, &["--epochs", epochs][..], &still, more].concat())
    };
    succeeded(&go("30", "1e-9", &[]));
    let epochs = || std::fs::read_to_string(run.join("metrics.csv")).unwrap().lines().count() - 1;
    assert_eq!(epochs(), 3);
    let before = contents(&run);
    succeeded(&go("30", "1e-9", &["--resume"]));
    assert!(contents(&run) == before);
    // More epochs: as much patience again.
    succeeded(&go("40", "1e-9", &["--resume"]));
    assert_eq!(epochs(), 5);
    failed(&go("2", "1e-9", &["--resume"]), 2, &["--epochs 2", "5"]);
    // Settings that are not those of the checkpoint.
    let settings = std::fs::read_to_string(run.join("settings.toml")).unwrap();
    std::fs::write(run.join("settings.toml"), settings.replace("batch = 20", "batch = 10")).unwrap();
    failed(&mcvi(&["vae", "train", "--resume", "--out", text(&run)]), 2, &["settings.toml", "checkpoint"]);
}
