//! A small posteriordb in the published layout, with exact answers.

use mcvi::Hardware;
use mcvi_bench::posteriordb::{Plan, Reference, entries, markdown, run};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> tau; }
model { y ~ normal(mu, 2); mu ~ normal(0, 1); tau ~ exponential(0.5); }";

fn put(folder: &Path, path: &str, bytes: &[u8]) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn zipped(value: &serde_json::Value) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(vec![]));
    archive.start_file("a.json", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(value.to_string().as_bytes()).unwrap();
    archive.finish().unwrap().into_inner()
}

/// The folder; the posterior of mu given 1, 2, 3, 4 is normal(1.25, sqrt(1/2)), that of tau exponential with mean 2.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcvi-posteriordb-{}-{name}", std::process::id()));
    let inner = folder.join("posterior_database");
    let about = json!({ "name": "a-b", "model_name": "b", "data_name": "a", "reference_posterior_name": "a-b" });
    put(&inner, "posteriors/a-b.json", about.to_string().as_bytes());
    put(&inner, "models/stan/b.stan", PROGRAM.as_bytes());
    put(&inner, "data/data/a.json.zip", &zipped(&json!({ "N": 4, "y": [1, 2, 3, 4] })));
    let half = 0.5f64.sqrt();
    // Two chains of two draws with the mean and the standard deviation of the posterior, n - 1 in the denominator.
    let spread = |mean: f64, sd: f64| [mean - sd * 0.75f64.sqrt(), mean + sd * 0.75f64.sqrt()];
    let chain = json!({ "mu": spread(1.25, half), "tau": spread(2.0, 2.0) });
    put(&inner, "reference_posteriors/draws/draws/a-b.json.zip", &zipped(&json!([chain, chain])));
    folder
}

#[test]
fn a_posterior_agrees_with_its_references() {
    let folder = folder("agrees");
    let list = entries(&folder).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].moments["mu"].mean, 1.25);
    // By hand, up to a constant: -(y - mu)^2/8 - mu^2/2 - tau/2 + log(tau), where log(tau) is the second coordinate.
    let points = vec![vec![0.5, 0.25], vec![-1.0, 0.0]];
    let square = |mu: f64| (1..=4).map(|y| (f64::from(y) - mu).powi(2)).sum::<f64>();
    let value = |p: &Vec<f64>| Some(-square(p[0]) / 8.0 - p[0] * p[0] / 2.0 - p[1].exp() / 2.0 + p[1]);
    let gradient = |p: &Vec<f64>| vec![Some((10.0 - 4.0 * p[0]) / 4.0 - p[0]), Some(1.0 - p[1].exp() / 2.0)];
    let reference = Reference {
        log_density: points.iter().map(value).collect(),
        gradient: points.iter().map(gradient).collect(),
        points,
        ..Reference::default()
    };
    let plan = Plan { seconds: Some(60.0), hardware: Hardware::with_threads(1), densities: true };
    let outcome = run(&list[0], Some(&reference), plan);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(outcome.error, None);
    let found = outcome.agreement.as_ref().unwrap();
    assert!(found.value.unwrap() < 1e-12 && found.gradient.unwrap() < 1e-12 && found.product.unwrap() < 1e-6);
    let fit = outcome.fit.as_ref().unwrap();
    assert_eq!((fit.verdict.as_str(), fit.compared, fit.unreported), ("good", 2, 0));
    // 50,000 draws: five standard errors of a mean are 0.022 sd, of an exponential's sd 0.032.
    assert!(fit.mean_error.as_ref().unwrap().0 < 0.03, "{:?}", fit.mean_error);
    assert!(fit.sd_error.as_ref().unwrap().0.abs() < 0.05, "{:?}", fit.sd_error);
    let table = markdown(&[outcome]);
    assert!(table.contains("- 1 of 1 posteriors are lowered") && table.contains("| a-b | 2 |"), "{table}");
}

#[test]
fn what_is_missing_or_not_supported_is_that_posteriors_outcome() {
    let folder = folder("missing");
    std::fs::remove_file(folder.join("posterior_database/data/data/a.json.zip")).unwrap();
    let plan = Plan { seconds: None, hardware: Hardware::with_threads(1), densities: true };
    let outcome = run(&entries(&folder).unwrap()[0], None, plan);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(outcome.error.as_deref(), Some("its data are not in the folder"));
}
