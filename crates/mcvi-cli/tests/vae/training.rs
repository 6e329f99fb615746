//! Training and evaluation: what they print and leave, and every mistake.

use crate::{SIDE, contents, failed, images, mcvi, succeeded, text, train};
use std::path::Path;
use tempfile::TempDir;

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

    let more = ["--samples", "200", "--annealed", "10", "--temperatures", "100", "--two-sided", "--json"];
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
    let (both, width) = (&result["two_sided"], &result["two_sided"]["width"]);
    assert_eq!(both["simulations"], 60);
    assert!(width["value"].as_f64().unwrap() > -4.0 * width["se"].as_f64().unwrap(), "{both}");
    assert!(run.join("evaluation-test.json").is_file());
    let figure = dir.path().join("bounds");
    succeeded(&mcvi(&["vae", "curves", text(&run), text(&run), "--out", text(&figure)]));
    let drawn = std::fs::read_to_string(figure.with_extension("svg")).unwrap();
    assert!(drawn.contains("Validation images") && figure.with_extension("png").is_file());
    let table =
        succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "20", "--split", "valid", "--two-sided"]));
    assert!(table.contains("from both sides"), "{table}");
    assert!(table.contains("log p(x)") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
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
fn validation_images_can_be_joined() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    let said = succeeded(&mcvi(&train(text(&data), text(&run), "2", &["--join"])));
    assert!(said.contains("which were also trained on, after epoch 2 of 2"), "{said}");
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
    refused(&joined, &[], &["joined was also trained on the validation images", "--join"]);
    let table = succeeded(&mcvi(&["paper", "mnist", text(dir.path())]));
    assert!(table.contains("second: started from the weights of first\n"), "{table}");
    // What it began with does not change, whatever is said later.
    let again = ["vae", "train", "--resume", "--out", text(&second), "--from", text(&joined), "--epochs", "5"];
    succeeded(&mcvi(&again));
    assert!(
        std::fs::read_to_string(second.join("settings.toml")).unwrap() == settings.replace("epochs = 3", "epochs = 5")
    );
    std::fs::rename(dir.path().join("moved"), &first).unwrap();
    let table = succeeded(&mcvi(&["paper", "mnist", text(dir.path())]));
    assert!(table.contains("second: started from the weights of first, after 20 epochs"), "{table}");
    // Made again, and from the one that had begun with it.
    std::fs::remove_dir_all(&first).unwrap();
    succeeded(&begin(&first, &["--from", text(&second), "--leapfrogs", "0"]));
    let table = succeeded(&mcvi(&["paper", "mnist", text(dir.path())]));
    assert!(table.contains("second: started from the weights of first\n"), "{table}");
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
    failed(&run_with(&["--data", text(&data), "--weight-decay", "-1"]), 2, &["weight decay: -1", "at least 0"]);
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
    failed(&mcvi(&train(text(&data), text(&run), "1", &[])), 2, &["already exists", "--resume"]);
    failed(&mcvi(&["vae", "evaluate", text(&run), "--split", "tset"]), 2, &["tset"]);
    failed(&mcvi(&["vae", "evaluate", text(&run), "--samples", "0"]), 2, &["0"]);
    std::fs::write(run.join("model.safetensors"), b"no").unwrap();
    failed(&mcvi(&["vae", "evaluate", text(&run)]), 2, &["model.safetensors", "damaged"]);
}
