//! Runs found in a folder: folders of `mcvi vae train`, or single files of results.

use crate::mistake::Mistake;
use crate::vae::{Config, Estimate, Evaluation, RunFolder, Summary, read_json};
use anyhow::Result;
use mcvi::data::{Binarization, Dataset, Split};
use mcvi::vae::Architecture;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Number of test images of binarized MNIST.
pub const TEST_IMAGES: usize = 10_000;
/// Importance samples per image: the paper uses at least as many.
pub const SAMPLES: usize = 1000;
/// Longest sequence of runs that started from one another.
const MOST_BEFORE: usize = 100;

/// The results of a run in one file, `NAME.json`. Only the settings and the number of epochs are required.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Results {
    /// As in a run's settings.toml, with the same names and defaults.
    pub settings: Config,
    /// Epochs trained, and the one that was kept.
    pub epochs: usize,
    pub best_epoch: Option<usize>,
    /// Epochs of the runs whose weights it started from, where known.
    pub epochs_before: Option<usize>,
    /// Training time.
    pub seconds: Option<f64>,
    /// The seed, if the settings do not have it.
    pub seed: Option<u64>,
    /// The validation bound, by which runs of one row are sorted.
    pub valid_bound: Option<f64>,
    /// Number of test images, and of importance samples for each.
    pub images: Option<usize>,
    pub samples: Option<usize>,
    /// In nats per image, with standard errors over images.
    pub bound: Option<Estimate>,
    pub log_p: Option<Estimate>,
    /// The version of the program that made them.
    pub commit: Option<String>,
}

/// A run.
pub struct Found {
    pub path: PathBuf,
    pub results: Results,
    pub architecture: Architecture,
    /// Whether its images are those of Table 1, where known.
    pub binarized_mnist: Option<bool>,
}

impl Found {
    /// Its name in the table.
    pub fn name(&self) -> String {
        let name = if self.path.is_dir() { self.path.file_name() } else { self.path.file_stem() };
        name.unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// log p(x) minus the bound.
    pub fn gap(&self) -> Option<f64> {
        Some(self.results.log_p?.value? - self.results.bound?.value?)
    }

    /// Whether it was also trained on the validation images.
    pub fn joined(&self) -> bool {
        self.results.settings.join == Some(true)
    }

    /// The seed of its training.
    pub fn seed(&self) -> u64 {
        self.results.settings.seed.or(self.results.seed).unwrap_or(1)
    }

    fn new(path: PathBuf, mut results: Results) -> Result<Self> {
        let data = results.settings.data.get_or_insert_default().clone();
        let architecture = results.settings.resolve([28, 28])?.architecture;
        architecture.check()?;
        Ok(Found { path, results, architecture, binarized_mnist: binarized_mnist(&data) })
    }
}

/// Whether the images in a folder are binarized MNIST; unknown if they cannot be read.
fn binarized_mnist(data: &Path) -> Option<bool> {
    let [images] = Dataset::open(data).ok()?.read([Split::Test], Binarization::Fresh, 0).ok()?;
    Some(images.known().is_some_and(|name| name.starts_with("binarized MNIST")))
}

/// The runs in a folder, by name, and the errors from those that could not be read.
pub fn search(folder: &Path) -> Result<(Vec<Found>, Vec<String>)> {
    let cannot = |e: std::io::Error| Mistake(format!("cannot look for runs in {}: {e}", folder.display()));
    let mut paths = vec![];
    if is_run(folder) {
        paths.push(folder.to_owned());
    } else {
        for entry in std::fs::read_dir(folder).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if is_run(&path) || (path.is_file() && path.extension().is_some_and(|e| e == "json")) {
                paths.push(path);
            }
        }
    }
    paths.sort_by_key(|path| path.with_extension(""));
    let (mut found, mut wrong) = (vec![], vec![]);
    for path in paths {
        let read = if path.is_dir() { run(&path) } else { file(&path) };
        match read.and_then(|results| Found::new(path, results)) {
            Ok(run) => found.push(run),
            Err(e) => wrong.push(format!("{e:#}")),
        }
    }
    Ok((found, wrong))
}

fn is_run(path: &Path) -> bool {
    path.is_dir() && RunFolder::open(path).is_ok()
}

fn run(path: &Path) -> Result<Results> {
    let folder = RunFolder::open(path)?;
    let settings = folder.settings()?;
    let (summary, times) = (folder.results::<Summary>(Summary::FILE)?, folder.times());
    let evaluation = folder.results::<Evaluation>(&Evaluation::file(Split::Test))?;
    Ok(Results {
        seed: settings.seed,
        epochs_before: settings.from.as_deref().and_then(|from| epochs_until(from, MOST_BEFORE)),
        settings,
        // Without a summary it is still training.
        epochs: summary.as_ref().map_or(times.len(), |s| s.epochs),
        best_epoch: summary.as_ref().and_then(|s| s.best_epoch),
        seconds: Some(summary.as_ref().map_or_else(|| times.iter().sum(), |s| s.seconds)),
        valid_bound: summary.as_ref().and_then(|s| s.valid_bound),
        images: evaluation.as_ref().map(|e| e.images),
        samples: evaluation.as_ref().map(|e| e.samples),
        bound: evaluation.as_ref().map(|e| e.bound),
        log_p: evaluation.as_ref().map(|e| e.log_p),
        commit: None,
    })
}

/// Epochs of a run and of those before it; unknown if one of them is gone or the sequence is too long. (Folders can be
/// recreated, so that each of two runs says that it started from the other.)
fn epochs_until(run: &Path, most: usize) -> Option<usize> {
    let (folder, most) = (RunFolder::open(run).ok()?, most.checked_sub(1)?);
    let before = match folder.settings().ok()?.from {
        Some(from) => epochs_until(&from, most)?,
        None => 0,
    };
    Some(folder.times().len() + before)
}

fn file(path: &Path) -> Result<Results> {
    let remedy = "; see docs/vae.md for the format of result files";
    read_json(path).map_err(|e| Mistake(format!("{e}{remedy}")).into())
}
