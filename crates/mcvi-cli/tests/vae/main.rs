//! The command `mcvi vae` as a user runs it. Here: images to learn from, and how the command is called.

mod evaluation;
mod kernels;
mod safety;
mod sweep;
mod training;
mod version1;
mod writers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit code and what was said on standard error.
fn failed(output: &Output, code: i32, words: &[&str]) {
    let said = said(output);
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
