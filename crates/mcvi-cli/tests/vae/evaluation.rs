//! Evaluations name their images, keep to the run's own, and know which of them were learned from.

use crate::{SIDE, images, mcvi, npy, succeeded, text, train};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The result of an evaluation with few samples.
fn evaluate(run: &Path, more: &[&str]) -> Value {
    let args = [&["vae", "evaluate", text(run), "--samples", "5", "--json"], more].concat();
    serde_json::from_str(succeeded(&mcvi(&args)).trim()).unwrap()
}

/// A copy of a folder of images, with another test set.
fn copy(data: &Path, name: &str, test: &[u8]) -> PathBuf {
    let to = data.with_file_name(name);
    std::fs::create_dir(&to).unwrap();
    for split in ["train.npy", "valid.npy"] {
        std::fs::copy(data.join(split), to.join(split)).unwrap();
    }
    std::fs::write(to.join("test.npy"), test).unwrap();
    to
}

#[test]
fn other_images_do_not_replace_the_evaluation_of_a_run() {
    let dir = TempDir::new().unwrap();
    let (data, run) = (images(dir.path()), dir.path().join("run"));
    succeeded(&mcvi(&train(text(&data), text(&run), "2", &[])));
    let own = evaluate(&run, &[]);
    assert_eq!((&own["data"]["own"], &own["learned_from"]), (&true.into(), &false.into()), "{own}");
    assert_eq!(own["data"]["folder"], text(&data.canonicalize().unwrap()));
    assert_eq!(own["data"]["checksum"].as_str().unwrap().len(), 64);
    let file = run.join("evaluation-test.json");
    let kept = std::fs::read(&file).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), own);

    // The training images as a test set.
    let seen = std::fs::read(data.join("train.npy")).unwrap();
    let other = copy(&data, "other", &seen);
    let result = evaluate(&run, &["--data", text(&other)]);
    assert_eq!((&result["data"]["own"], &result["learned_from"]), (&false.into(), &true.into()), "{result}");
    assert_eq!((&result["images"], &result["learned_images"]), (&200.into(), &200.into()));
    assert_ne!(result["data"]["checksum"], own["data"]["checksum"]);
    // Some of them, and a pattern that no training image has.
    let pixels = &seen[seen.len() - 200 * SIDE * SIDE..][..10 * SIDE * SIDE];
    let stripes: Vec<u8> = (0..2 * SIDE * SIDE).map(|i| (i % 2) as u8).collect();
    let mixed = copy(&data, "mixed", &npy(12, &[pixels, &stripes].concat()));
    let result = evaluate(&run, &["--data", text(&mixed)]);
    assert_eq!((&result["learned_images"], &result["learned_from"]), (&10.into(), &false.into()), "{result}");
    let said = succeeded(&mcvi(&["vae", "evaluate", text(&run), "--samples", "5", "--data", text(&mixed)]));
    assert!(said.contains("trained on 10 of these images") && said.contains("not saved"), "{said}");
    assert!(said.contains(text(&mixed)), "{said}");
    assert!(std::fs::read(&file).unwrap() == kept, "the run's own evaluation stays");

    // The same images elsewhere are the run's own.
    let moved = dir.path().join("moved");
    std::fs::rename(&data, &moved).unwrap();
    let result = evaluate(&run, &["--data", text(&moved)]);
    assert_eq!((&result["data"]["own"], &result["learned_images"]), (&true.into(), &own["learned_images"]), "{result}");
    assert!(std::fs::read(&file).unwrap() != kept, "saved, with the new folder");
    // Other images in the old place are not.
    std::fs::rename(&other, &data).unwrap();
    std::fs::copy(data.join("valid.npy"), data.join("train.npy")).unwrap();
    assert_eq!(evaluate(&run, &[])["data"]["own"], false);
}

#[test]
fn validation_images_are_learned_from_if_they_were_joined() {
    let dir = TempDir::new().unwrap();
    let data = images(dir.path());
    for (name, more, learned) in [("apart", &[][..], false), ("joined", &["--join"], true)] {
        let run = dir.path().join(name);
        succeeded(&mcvi(&train(text(&data), text(&run), "1", more)));
        assert_eq!(evaluate(&run, &["--split", "valid"])["learned_from"], learned, "{name}");
        assert_eq!(evaluate(&run, &["--split", "train", "--images", "20"])["learned_images"], 20);
        // The validation images under another name.
        let other = copy(&data, &format!("for-{name}"), &std::fs::read(data.join("valid.npy")).unwrap());
        assert_eq!(evaluate(&run, &["--data", text(&other)])["learned_from"], learned, "{name}");
        // Without the training images there is no telling.
        std::fs::rename(data.join("train.npy"), data.join("away")).unwrap();
        let test = evaluate(&run, &[]);
        assert_eq!((&test["learned_from"], &test["data"]["own"]), (&Value::Null, &true.into()), "{test}");
        std::fs::rename(data.join("away"), data.join("train.npy")).unwrap();
    }
}
