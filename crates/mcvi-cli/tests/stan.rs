//! Stan programs from the command: checked, evaluated, fitted, saved and opened again.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = "data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; }
model { y ~ normal(mu, sigma); sigma ~ exponential(1); }
generated quantities {
  vector[N] log_lik;
  array[N] real y_rep = normal_rng(rep_vector(mu, N), sigma);
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, sigma);
}
";
const DATA: &str = r#"{"N": 4, "y": [0.5, 1.5, 2.0, -0.25]}"#;

/// A folder with the program and its data.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("model.stan"), PROGRAM).expect("written");
    std::fs::write(folder.path().join("data.json"), DATA).expect("written");
    folder
}

fn mcvi(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).current_dir(folder).args(arguments).output().expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_exits_with_2_and_shows_the_line() {
    let folder = folder();
    assert!(mcvi(folder.path(), &["stan", "check", "model.stan"]).status.success());
    let with_data = mcvi(folder.path(), &["stan", "check", "model.stan", "--data", "data.json"]);
    assert!(with_data.status.success());
    std::fs::write(folder.path().join("more.json"), DATA.replace("{", "{\"extra\": 1, ")).expect("written");
    let extra = mcvi(folder.path(), &["stan", "check", "model.stan", "--data", "more.json"]);
    assert!(text(&extra.stdout).contains("not declared by the program: extra"), "{}", text(&extra.stdout));
    std::fs::write(folder.path().join("bad.stan"), PROGRAM.replace("sigma ~", "sigme ~")).expect("written");
    let bad = mcvi(folder.path(), &["stan", "check", "bad.stan"]);
    assert_eq!(bad.status.code(), Some(2));
    let message = text(&bad.stderr);
    assert!(message.contains("bad.stan:3:") && message.contains("did you mean `sigma`?"), "{message}");
}

#[test]
fn log_density_is_stans() {
    let folder = folder();
    std::fs::write(folder.path().join("at.json"), "[0.5, 0.2]").expect("written");
    let arguments = ["stan", "log-density", "model.stan", "--data", "data.json", "--at", "at.json", "--json"];
    let output = mcvi(folder.path(), &arguments);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (mu, u) = (0.5, 0.2f64);
    let sigma = u.exp();
    let y = [0.5, 1.5, 2.0, -0.25];
    let squares: f64 = y.iter().map(|y| ((y - mu) / sigma).powi(2)).sum();
    let expected = -0.5 * squares - 4.0 * (u + 0.5 * std::f64::consts::TAU.ln()) - sigma + u;
    assert!((found["log_density"].as_f64().expect("a number") - expected).abs() < 1e-12);
    let slope: f64 = y.iter().map(|y| (y - mu) / (sigma * sigma)).sum();
    assert!((found["gradient"][0].as_f64().expect("a number") - slope).abs() < 1e-12);
    assert!((found["gradient"][1].as_f64().expect("a number") - (squares - 4.0 - sigma + 1.0)).abs() < 1e-12);
    std::fs::write(folder.path().join("at.json"), "[0.5]").expect("written");
    assert_eq!(mcvi(folder.path(), &arguments).status.code(), Some(2));
}

#[test]
fn a_fit_is_saved_and_drawn_from() {
    let folder = folder();
    let fit = [
        "fit",
        "model.stan",
        "--data",
        "data.json",
        "--chain",
        "none",
        "--out",
        "run",
        "--draws",
        "50",
        "--threads",
        "1",
    ];
    let output = mcvi(folder.path(), &fit);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("mu") && shown.contains("sigma"), "{shown}");
    let draw = mcvi(folder.path(), &["draw", "run", "--draws", "20"]);
    assert!(draw.status.success(), "{}", text(&draw.stderr));
    // Other data are noticed.
    std::fs::write(folder.path().join("data.json"), DATA.replace("1.5", "1.6")).expect("written");
    let other = mcvi(folder.path(), &["draw", "run", "--draws", "20"]);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stdout));
    // A mistake in the data names the item.
    std::fs::write(folder.path().join("data.json"), "{\"N\": 4}").expect("written");
    let missing = mcvi(folder.path(), &fit[..4]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("the data item y is missing"));
}
