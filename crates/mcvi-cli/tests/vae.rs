//! The command `mcvi vae` as a user runs it: training, killing, resuming, evaluating, and every mistake.

use mcvi::vae::Checkpoint;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Extent of the images.
const SIDE: usize = 6;

/// A folder of images whose quarters are on or off, with some pixels flipped, as .npy files.
fn images(dir: &Path) -> PathBuf {
    let data = dir.join("images");
    std::fs::create_dir(&data).unwrap();
    let mut state = 1u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for (split, count) in [("train", 200), ("valid", 60), ("test", 60)] {
        let mut pixels: Vec<u8> = vec![];
        for _ in 0..count {
            let on: Vec<bool> = (0..4).map(|_| next(2) == 1).collect();
            for i in 0..SIDE * SIDE {
                let quarter = 2 * (2 * (i / SIDE) / SIDE) + 2 * (i % SIDE) / SIDE;
                pixels.push(u8::from(on[quarter] != (next(20) == 0)));
            }
        }
        std::fs::write(data.join(format!("{split}.npy")), npy(count, &pixels)).unwrap();
    }
    data
}

/// Bytes as NumPy saves an array of them.
fn npy(count: usize, pixels: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {SIDE}, {SIDE}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), pixels].concat()
}

fn mcvi(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).args(args).output().unwrap()
}

/// Arguments of a short training.
fn train<'a>(data: &'a str, out: &'a str, epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["vae", "train", "--data", data, "--out", out, "--epochs", epochs];
    args.extend(["--hidden", "12", "--latent", "3", "--leapfrogs", "2", "--batch", "10", "--layers", "1"]);
    args.extend(["--warm-up", "2", "--rate", "0.01", "--threads", "1"]);
    args.extend(more);
    args
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Exit code and what was said on standard error.
fn failed(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files whose bytes depend on nothing but the settings.
fn contents(run: &Path) -> Vec<Vec<u8>> {
    let files = ["checkpoint.safetensors", "model.safetensors", "metrics.csv", "settings.toml"];
    files.map(|name| std::fs::read(run.join(name)).unwrap()).to_vec()
}

#[test]
fn a_model_is_trained_and_evaluated() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let out = succeeded(&mcvi(&train(text(&data), text(&run), "30", &["--json"])));
    let result: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(result["epochs"], 30);
    assert_eq!(result["run"], text(&run));
    let (train_bound, valid_bound) = (result["train_bound"].as_f64().unwrap(), result["valid_bound"].as_f64().unwrap());
    // Independent pixels have −36 log 2 ≈ −25 nats; quarters explain most of that.
    assert!(train_bound > -22.0 && valid_bound > -22.0, "{result}");
    assert!(result["best_epoch"].as_u64().unwrap() <= 30 && result["seconds"].as_f64().unwrap() > 0.0);
    let metrics = std::fs::read_to_string(run.join("metrics.csv")).unwrap();
    assert_eq!(metrics.lines().count(), 31, "{metrics}");

    let more = ["--samples", "200", "--annealed", "10", "--temperatures", "100", "--json"];
    let out = succeeded(&mcvi(&[&["vae", "evaluate", text(&run)], &more[..]].concat()));
    let result: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(
        (result["split"].as_str(), &result["images"], &result["samples"]),
        (Some("test"), &60.into(), &200.into())
    );
    let part = |name: &str| (result[name]["value"].as_f64().unwrap(), result[name]["se"].as_f64().unwrap());
    let ((bound, _), (log_p, se)) = (part("bound"), part("log_p"));
    assert!(bound < log_p && se > 0.0);
    assert!((result["gap"].as_f64().unwrap() - (log_p - bound)).abs() < 1e-9);
    let difference = &result["annealed"]["minus_importance_sampling"];
    let (value, se) = (difference["value"].as_f64().unwrap(), difference["se"].as_f64().unwrap());
    assert!(value.abs() < 4.0 * se + 0.05, "{difference}");
    assert!(run.join("evaluation-test.json").is_file());
    let figure = dir.path().join("bounds");
    succeeded(&mcvi(&["vae", "curves", text(&run), text(&run), "--out", text(&figure)]));
    let drawn = std::fs::read_to_string(figure.with_extension("svg")).unwrap();
    assert!(drawn.contains("Validation images") && figure.with_extension("png").is_file());
    let table = succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "20", "--split", "valid"]));
    assert!(table.contains("log p(x)") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

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
fn settings_come_from_a_file_and_what_is_typed_goes_before_it() {
    let dir = TempDir::new().unwrap();
    let (data, run, config) = (images(dir.path()), dir.path().join("run"), dir.path().join("c.toml"));
    let lines = format!("data = {:?}\nhidden = 8\nlatent = 2\nleapfrogs = 0\nepochs = 9\nbatch = 20\n", text(&data));
    std::fs::write(&config, lines).unwrap();
    succeeded(&mcvi(&["vae", "train", "--config", text(&config), "--epochs", "2", "--out", text(&run)]));
    let saved = std::fs::read_to_string(run.join("settings.toml")).unwrap();
    assert!(saved.contains("hidden = 8") && saved.contains("epochs = 2"), "{saved}");
    // What was saved is a file of settings again.
    let again = dir.path().join("again");
    let saved = run.join("settings.toml");
    succeeded(&mcvi(&["vae", "train", "--config", text(&saved), "--out", text(&again)]));
    assert!(contents(&run) == contents(&again));

    std::fs::write(&config, "rate = nan\n").unwrap();
    let output = mcvi(&["vae", "train", "--config", text(&config), "--out", text(&dir.path().join("no"))]);
    failed(&output, 2, &["c.toml", "rate", "finite"]);
    std::fs::write(&config, "hiden = 8\n").unwrap();
    let output = mcvi(&["vae", "train", "--config", text(&config), "--out", text(&dir.path().join("no"))]);
    failed(&output, 2, &["c.toml", "hiden", "hidden"]);
    let output = mcvi(&["vae", "train", "--config", "nowhere.toml", "--out", text(&dir.path().join("no"))]);
    failed(&output, 2, &["nowhere.toml"]);
    assert!(!dir.path().join("no").exists());
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
    Checkpoint::from_bytes(&std::fs::read(&previous).unwrap(), &previous).unwrap();

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
    failed(&resume(&[]), 2, &["another architecture"]);
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
    let mut checkpoint = Checkpoint::from_bytes(&std::fs::read(&path).unwrap(), &path).unwrap();
    assert_eq!(checkpoint.device.as_deref(), Some("cpu"));
    checkpoint.device = Some("cuda".to_owned());
    std::fs::write(&path, checkpoint.to_bytes().unwrap()).unwrap();
    let resumed = mcvi(&["vae", "train", "--resume", "--out", text(&run), "--epochs", "2"]);
    let said = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success() && said.contains("on cuda so far and goes on on cpu"), "{said}");
}

#[test]
fn validation_images_can_be_joined() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let said = succeeded(&mcvi(&train(text(&data), text(&run), "2", &["--join"])));
    assert!(said.contains("which were learned from too, after epoch 2 of 2"), "{said}");
    let settings = std::fs::read_to_string(run.join("settings.toml")).unwrap();
    assert!(settings.contains("join = true"), "{settings}");
    let args = train(text(&data), "nowhere", "2", &["--join", "--decay", "plateau"]);
    failed(&mcvi(&args), 2, &["decay", "cosine"]);
}

#[test]
fn a_run_begins_with_the_weights_of_another() {
    let dir = TempDir::new().unwrap();
    let data = images(dir.path());
    let [first, second, joined] = ["first", "second", "joined"].map(|name| dir.path().join(name));
    let begin = |out: &Path, more: &[&str]| {
        // What is given goes before what a short training has.
        let mut args = train(text(&data), text(out), "3", &[]);
        for pair in more.chunks(2) {
            match args.iter().position(|arg| *arg == pair[0]) {
                Some(at) => args[at + 1] = pair[1],
                None => args.extend(pair),
            }
        }
        mcvi(&args)
    };
    let bound = |run: &Path, epoch: usize| -> f64 {
        let metrics = std::fs::read_to_string(run.join("metrics.csv")).unwrap();
        metrics.lines().nth(epoch).unwrap().split(',').nth(2).unwrap().parse().unwrap()
    };
    succeeded(&begin(&first, &["--leapfrogs", "0", "--epochs", "20"]));
    succeeded(&begin(
        &second,
        &["--from", text(&first), "--warm-up", "0", "--rate", "0.0001", "--first-step", "0.001"],
    ));
    // A chain that hardly moves, added at a low rate, leaves the bound about where it was.
    let (start, end, goes_on) = (bound(&first, 1), bound(&first, 20), bound(&second, 1));
    assert!(end > start + 2.0 && (goes_on - end).abs() < 0.5, "{start} {end} {goes_on}");
    let settings = std::fs::read_to_string(second.join("settings.toml")).unwrap();
    assert!(settings.contains(&format!("from = \"{}\"", std::fs::canonicalize(&first).unwrap().display())));
    // It has all it needs.
    std::fs::rename(&first, dir.path().join("moved")).unwrap();
    succeeded(&mcvi(&["vae", "train", "--resume", "--out", text(&second), "--epochs", "4"]));

    let nowhere = dir.path().join("nowhere");
    let refused = |from: &Path, more: &[&str], words: &[&str]| {
        failed(&begin(&nowhere, &[&["--from", text(from)], more].concat()), 2, words);
        assert!(!nowhere.exists());
    };
    refused(&first, &[], &["first is not the folder of a run"]);
    refused(&second, &["--hidden", "13"], &["second", "[13", "[12", "--hidden"]);
    succeeded(&begin(&joined, &["--join", "true"]));
    refused(&joined, &[], &["joined learned from the validation images", "--join"]);
    let table = succeeded(&mcvi(&["paper", "mnist", text(dir.path())]));
    assert!(table.contains("second: began with the weights of first\n"), "{table}");
    // What it began with does not change, whatever is said later.
    let again = ["vae", "train", "--resume", "--out", text(&second), "--from", text(&joined), "--epochs", "5"];
    succeeded(&mcvi(&again));
    assert!(
        std::fs::read_to_string(second.join("settings.toml")).unwrap() == settings.replace("epochs = 3", "epochs = 5")
    );
    std::fs::rename(dir.path().join("moved"), &first).unwrap();
    let table = succeeded(&mcvi(&["paper", "mnist", text(dir.path())]));
    assert!(table.contains("second: began with the weights of first, after 20 epochs"), "{table}");
    // Made again, and from the one that had begun with it.
    std::fs::remove_dir_all(&first).unwrap();
    succeeded(&begin(&first, &["--from", text(&second), "--leapfrogs", "0"]));
    let table = succeeded(&mcvi(&["paper", "mnist", text(dir.path())]));
    assert!(table.contains("second: began with the weights of first\n"), "{table}");
}

/// A driver that has no GPU behind it (driver.c), in a folder of its own.
#[cfg(target_os = "linux")]
fn driver(dir: &Path) -> PathBuf {
    let folder = dir.join("driver");
    std::fs::create_dir(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("driver.c");
    let library = folder.join("libcuda.so.1");
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
    failed(&mcvi(&args), 1, &["epoch 1, from step", "is not finite", "also at a lower rate", "try"]);
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
        output.status.success() && said.matches("begins again, at 0.000000000001 of the rate").count() == 2,
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
    assert!(!String::from_utf8_lossy(&resumed.stderr).contains("begins again"));
}

#[test]
fn a_training_that_is_lost_later_keeps_its_last_checkpoint() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "2", &["--decay", "none"])));
    // From here on a rate that no model survives, in the checkpoint and in the settings.
    let path = run.join("checkpoint.safetensors");
    let mut checkpoint = Checkpoint::from_bytes(&std::fs::read(&path).unwrap(), &path).unwrap();
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

#[test]
fn grey_images_have_one_log_p_by_both_estimates() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    for split in ["train", "valid", "test"] {
        let path = data.join(format!("{split}.npy"));
        let mut bytes = std::fs::read(&path).unwrap();
        let header = bytes.len() - if split == "train" { 200 } else { 60 } * SIDE * SIDE;
        bytes[header..].iter_mut().for_each(|b| *b = if *b == 1 { 230 } else { 20 });
        std::fs::write(&path, bytes).unwrap();
    }
    succeeded(&mcvi(&train(text(&data), text(&run), "10", &[])));
    let more = ["--samples", "400", "--annealed", "30", "--temperatures", "100", "--json"];
    let out = succeeded(&mcvi(&[&["vae", "evaluate", text(&run)], &more[..]].concat()));
    let result: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    let difference = &result["annealed"]["minus_importance_sampling"];
    let (value, se) = (difference["value"].as_f64().unwrap(), difference["se"].as_f64().unwrap());
    assert!(value.abs() < 4.0 * se + 0.05, "{difference}");
}

#[test]
fn mistakes_are_named_and_nothing_is_left_behind() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let run_with = |args: &[&str]| mcvi(&[&["vae", "train", "--out", text(&run)], args].concat());
    failed(&run_with(&[]), 2, &["--data"]);
    failed(&run_with(&["--data", "nowhere"]), 2, &["nowhere"]);
    failed(&run_with(&["--data", text(&data), "--decoder", "deep"]), 2, &["deep", "dense", "conv"]);
    failed(&run_with(&["--data", text(&data), "--batch", "500"]), 2, &["batch", "500", "200"]);
    failed(&run_with(&["--data", text(&data), "--latent", "0"]), 2, &["latent", "0"]);
    failed(&run_with(&["--data", text(&data), "--rate", "-1"]), 2, &["-1"]);
    failed(&run_with(&["--data", text(&data), "--weight-decay", "-1"]), 2, &["weight decay: -1", "from 0 on"]);
    failed(&run_with(&["--data", text(&data), "--rate", "nan"]), 2, &["finite"]);
    failed(&run_with(&["--data", text(&data), "--hidden", "60000"]), 2, &["hidden", "weights"]);
    failed(&run_with(&["--data", text(&data), "--epochs", "9000000000000000000"]), 2, &["epochs"]);
    failed(&run_with(&["--data", text(&data), "--device", "cuda:99"]), 2, &["cuda:99"]);
    assert!(!run.exists());

    // A split that is missing, and a file cut short.
    let valid = std::fs::read(data.join("valid.npy")).unwrap();
    std::fs::remove_file(data.join("valid.npy")).unwrap();
    failed(&run_with(&["--data", text(&data)]), 2, &["valid"]);
    std::fs::write(data.join("valid.npy"), &valid[..valid.len() - 3]).unwrap();
    failed(&run_with(&["--data", text(&data)]), 2, &["valid.npy"]);
    std::fs::write(data.join("valid.npy"), &valid).unwrap();
    assert!(!run.exists());

    failed(&mcvi(&["vae", "train", "--resume", "--out", text(&run)]), 2, &["not the folder of a run"]);
    failed(&mcvi(&["vae", "evaluate", text(&run)]), 2, &["not the folder of a run"]);
    succeeded(&mcvi(&train(text(&data), text(&run), "1", &[])));
    failed(&mcvi(&train(text(&data), text(&run), "1", &[])), 2, &["there already", "--resume"]);
    failed(&mcvi(&["vae", "evaluate", text(&run), "--split", "tset"]), 2, &["tset"]);
    failed(&mcvi(&["vae", "evaluate", text(&run), "--samples", "0"]), 2, &["0"]);
    std::fs::write(run.join("model.safetensors"), b"no").unwrap();
    failed(&mcvi(&["vae", "evaluate", text(&run)]), 2, &["model.safetensors", "damaged"]);
}

#[test]
fn a_sweep_trains_many_goes_on_and_one_that_fails_stops_no_other() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all = format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nepochs = 3\n", text(&data));
    let listed = "[run.plain]\nleapfrogs = 0\n[run.chain]\nleapfrogs = 2\n[run.lost]\nrate = 1e18\n";
    std::fs::write(&file, format!("{all}{listed}")).unwrap();
    let sweep = |more: &[&str]| mcvi(&[&["vae", "sweep", text(&file), "--out", text(&out)], more].concat());
    let output = sweep(&["--json", "--evaluate", "20"]);
    failed(&output, 1, &["lost: fit: in epoch 1", "1 of 3 runs failed"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["failed"], 1);
    for name in ["plain", "chain"] {
        assert_eq!(result["runs"][name]["epochs"], 3);
        let test = &result["runs"][name]["test"];
        assert!(test["log_p"]["value"].as_f64().unwrap() > test["bound"]["value"].as_f64().unwrap());
    }
    // Each is the same as if it had been trained alone.
    let alone = dir.path().join("alone");
    let settings = out.join("chain/settings.toml");
    succeeded(&mcvi(&["vae", "train", "--config", text(&settings), "--out", text(&alone)]));
    assert!(contents(&alone) == contents(&out.join("chain")));
    // Again, with more epochs and without the one that fails.
    std::fs::write(&file, format!("{}{listed}", all.replace("epochs = 3", "epochs = 4"))).unwrap();
    let table = succeeded(&sweep(&["--only", "plain,chain"]));
    assert!(table.contains("plain") && table.contains("chain") && !table.contains("lost"), "{table}");
    let metrics = std::fs::read_to_string(out.join("plain/metrics.csv")).unwrap();
    assert_eq!(metrics.lines().count(), 5);

    failed(&sweep(&["--device", "gpu"]), 2, &["gpu", "cuda"]);
    failed(&sweep(&["--only", "plane"]), 2, &["plane", "plain"]);
    std::fs::write(&file, "[run.\"../x\"]\n").unwrap();
    failed(&sweep(&[]), 2, &["../x"]);
    std::fs::write(&file, "[run]\n").unwrap();
    failed(&sweep(&[]), 2, &["no runs"]);
    std::fs::write(&file, "[run.a]\nlatents = 2\n").unwrap();
    failed(&sweep(&[]), 2, &["s.toml", "latents"]);
}

#[test]
fn a_run_of_a_sweep_begins_when_the_one_it_begins_with_is_over() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all = format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nepochs = 2\n", text(&data));
    let sweep = |listed: &str, more: &[&str]| {
        std::fs::write(&file, format!("{all}{listed}")).unwrap();
        mcvi(&[&["vae", "sweep", text(&file), "--out", text(&out)], more].concat())
    };
    // In the order of their names the last would be first.
    let listed = "[run.a]\nleapfrogs = 2\nfrom = \"b\"\n[run.b]\nleapfrogs = 1\nfrom = \"c\"\n[run.c]\nleapfrogs = 0\n";
    succeeded(&sweep(listed, &["--jobs", "3"]));
    for (run, from) in [("a", "b"), ("b", "c")] {
        let settings = std::fs::read_to_string(out.join(run).join("settings.toml")).unwrap();
        let from = std::fs::canonicalize(out.join(from)).unwrap();
        assert!(settings.contains(&format!("from = \"{}\"", from.display())), "{settings}");
    }
    // One alone begins with what is there.
    let before = contents(&out.join("a"));
    std::fs::remove_dir_all(out.join("a")).unwrap();
    succeeded(&sweep(listed, &["--only", "a"]));
    assert!(contents(&out.join("a")) == before);

    std::fs::remove_dir_all(&out).unwrap();
    let lost = listed.replace("leapfrogs = 0", "leapfrogs = 0\nrate = 1e18");
    failed(
        &sweep(&lost, &[]),
        1,
        &["c: fit: in epoch 1", "b: `c`, which it begins with", "a: `b`", "3 of 3 runs failed"],
    );
    failed(
        &sweep(&listed.replace("leapfrogs = 0", "from = \"a\""), &[]),
        2,
        &["s.toml", "`a` would begin with itself"],
    );
}
