//! Kernels other than Hamiltonian steps, through every command.

use crate::{contents, failed, images, mcvi, succeeded, text, train};
use std::path::Path;
use tempfile::TempDir;

/// Arguments of a short training with a kernel.
fn with<'a>(data: &'a str, out: &'a Path, epochs: &'a str, kernel: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    train(data, text(out), epochs, &[&["--kernel", kernel], more].concat())
}

#[test]
fn a_kernel_goes_through_every_command() {
    let dir = TempDir::new().unwrap();
    let data = images(dir.path());
    let [uha, cmcd, again] = ["uha", "cmcd", "again"].map(|name| dir.path().join(name));
    succeeded(&mcvi(&with(text(&data), &uha, "3", "uha", &[])));
    let settings = std::fs::read_to_string(uha.join("settings.toml")).unwrap();
    assert!(settings.contains("kernel = \"uha\""), "{settings}");
    // A drift is added to the trained chain; a run that is resumed is the one that was not stopped.
    let from = ["--from", text(&uha)];
    succeeded(&mcvi(&with(text(&data), &cmcd, "4", "cmcd", &[&from[..], &["--decay", "none"]].concat())));
    succeeded(&mcvi(&with(text(&data), &again, "2", "cmcd", &[&from[..], &["--decay", "none"]].concat())));
    succeeded(&mcvi(&["vae", "train", "--resume", "--out", text(&again), "--epochs", "4", "--threads", "1"]));
    assert!(contents(&cmcd) == contents(&again));
    let other = ["vae", "train", "--resume", "--out", text(&again), "--kernel", "ldvi"];
    failed(&mcvi(&other), 2, &["started with other values of --kernel"]);

    let result = succeeded(&mcvi(&["vae", "evaluate", text(&cmcd), "--samples", "20", "--json"]));
    let result: serde_json::Value = serde_json::from_str(result.trim()).unwrap();
    let (bound, log_p) = (result["bound"]["value"].as_f64().unwrap(), result["log_p"]["value"].as_f64().unwrap());
    assert!(bound < log_p && log_p < 0.0, "{result}");
    let report = succeeded(&mcvi(&["vae", "report", text(&cmcd), "--images", "50", "--json"]));
    let report: serde_json::Value = serde_json::from_str(report.trim()).unwrap();
    let page = std::fs::read_to_string(cmcd.join("report.html")).unwrap();
    assert!(page.contains("2 CMCD steps of 1 leapfrog, annealed at learned temperatures"));
    assert!(!page.contains("Inverse model r(v|x, z)") && page.contains("no: CMCD"));
    let after = report["leapfrogs"]["after"].as_array().unwrap();
    assert_eq!(after.len(), 3);
    assert_eq!(after[0]["bound"], report["leapfrogs"]["start"]);
}

#[test]
fn a_sweep_has_kernels_and_mixes_them() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all = format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nepochs = 2\n", text(&data));
    let runs = "leapfrogs = 1\n[run.a]\nkernel = \"riemannian-uha\"\nfrom = \"b\"\n[run.b]\nkernel = \"uha\"\n\
                [run.c]\nkernel = \"hmc\"\nmomentum = \"network\"\n";
    std::fs::write(&file, format!("{all}{runs}")).unwrap();
    succeeded(&mcvi(&["vae", "sweep", text(&file), "--out", text(&out)]));
    for (run, kernel) in [("a", "riemannian-uha"), ("b", "uha"), ("c", "hamiltonian")] {
        let settings = std::fs::read_to_string(out.join(run).join("settings.toml")).unwrap();
        assert!(settings.contains(&format!("kernel = \"{kernel}\"")), "{settings}");
    }
}

#[test]
fn what_a_kernel_does_not_have_is_refused() {
    let dir = TempDir::new().unwrap();
    let (data, uha, no) = (images(dir.path()), dir.path().join("uha"), dir.path().join("no"));
    let refused = |kernel: &str, more: &[&str], words: &[&str]| {
        failed(&mcvi(&with(text(&data), &no, "1", kernel, more)), 2, words);
        assert!(!no.exists());
    };
    refused("hcm", &[], &["hcm", "hamiltonian", "uha", "cmcd"]);
    refused("uha", &["--steps", "2"], &["steps", "every leapfrog is a step"]);
    refused("ldvi", &["--inverse", "gradient"], &["kernel", "momentum and inverse", "hamiltonian"]);
    refused("cmcd", &["--momentum", "network"], &["kernel", "momentum and inverse"]);
    // Temperatures belong to a number of leapfrogs.
    succeeded(&mcvi(&with(text(&data), &uha, "1", "uha", &[])));
    let mut longer = with(text(&data), &no, "1", "uha", &["--from", text(&uha)]);
    let at = longer.iter().position(|arg| *arg == "--leapfrogs").unwrap();
    longer[at + 1] = "3";
    failed(&mcvi(&longer), 2, &["beta.logits", "--leapfrogs"]);
}
