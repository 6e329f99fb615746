//! The folder of a run: settings, metrics, checkpoints and the best model, each file written atomically.

use super::results::Evaluation;
use super::settings::Config;
use crate::mistake::Mistake;
use anyhow::{Context, Result, anyhow};
use mcvi::data::Split;
use mcvi::disk::{self, Lock, LockError};
use mcvi::vae::{Deep, EpochReport, TrainingCheckpoint};
use serde::{Deserialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};

/// More seconds than an epoch takes.
const LONGEST: f64 = 1e9;
const SETTINGS: &str = "settings.toml";
const METRICS: &str = "metrics.csv";
const TIMES: &str = "times.csv";
const CHECKPOINT: &str = "checkpoint.safetensors";
const PREVIOUS: &str = "checkpoint.previous.safetensors";
/// The next checkpoint, until the last one has been kept as the previous one.
const NEXT: &str = "checkpoint.next.safetensors";
const MODEL: &str = "model.safetensors";
const LOCK: &str = ".lock";

/// The folder of a training run.
pub struct RunFolder {
    path: PathBuf,
    /// Held by the process that trains in it.
    lock: Option<Lock>,
    /// Whether this is a rank that leaves writing to the first.
    follows: bool,
}

impl RunFolder {
    /// A new run. The folder must not exist, or be empty.
    pub fn create(path: &Path, settings: &Config) -> Result<Self> {
        let exists = || {
            let shown = path.display();
            Mistake(format!("{shown} already exists; resume it with --resume, choose another --out, or remove it"))
        };
        if path.exists() && !path.is_dir() {
            return Err(exists().into());
        }
        disk::create_dir_all(path)
            .map_err(|e| Mistake(format!("cannot create the folder {}: {e}; choose another --out", path.display())))?;
        let folder = RunFolder { path: path.to_owned(), lock: Some(lock(path)?), follows: false };
        folder.remove_leftovers();
        let others = |entry: std::fs::DirEntry| entry.file_name() != LOCK;
        if std::fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(others)) {
            return Err(exists().into());
        }
        folder.save(SETTINGS, settings.write()?.as_bytes())?;
        Ok(folder)
    }

    /// The folder of a run for a rank that leaves writing to the first.
    pub fn follow(path: &Path) -> Self {
        RunFolder { path: path.to_owned(), lock: None, follows: true }
    }

    /// The folder of an existing run, to train in it.
    pub fn resume(path: &Path) -> Result<Self> {
        let mut folder = RunFolder::open(path)?;
        folder.lock = Some(lock(path)?);
        folder.remove_leftovers();
        Ok(folder)
    }

    /// Remove what a killed process has left. It is not running: this one holds the lock.
    fn remove_leftovers(&self) {
        if !self.lock.as_ref().is_some_and(Lock::is_exclusive) {
            return;
        }
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name() == NEXT || entry.file_name().to_string_lossy().ends_with(".tmp") {
                // What cannot be removed does no harm.
                let _ = disk::remove_file(entry.path());
            }
        }
    }

    /// Check that the folder still has the files of a run that has finished epochs.
    pub fn check(&self) -> Result<()> {
        if self.follows {
            return Ok(());
        }
        let removed = |what: &str| {
            let path = self.path.display();
            anyhow!("{what} of {path} was removed while the run was writing to it; what is left may be incomplete")
        };
        if !self.lock.as_ref().is_none_or(Lock::is_in_place) {
            return Err(removed("the folder"));
        }
        match [SETTINGS, METRICS, CHECKPOINT, MODEL].iter().find(|name| !self.path.join(name).is_file()) {
            Some(name) => Err(removed(name)),
            None => Ok(()),
        }
    }

    /// The folder of an existing run.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.join(SETTINGS).is_file() {
            let why = format!(
                "{} is not the folder of a run: it has no {SETTINGS}; give the folder that was passed to `mcvi vae train --out`",
                path.display()
            );
            return Err(Mistake(why).into());
        }
        Ok(RunFolder { path: path.to_owned(), lock: None, follows: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn settings(&self) -> Result<Config> {
        Config::read(&self.path.join(SETTINGS))
    }

    /// Replace the settings.
    pub fn set_settings(&self, settings: &Config) -> Result<()> {
        self.save(SETTINGS, settings.write()?.as_bytes())
    }

    /// The last readable checkpoint, with a notice if it is not the latest. None if there is none yet.
    pub fn checkpoint(&self) -> Result<(Option<TrainingCheckpoint>, Option<String>)> {
        let read = |name: &str| -> Option<Result<TrainingCheckpoint>> {
            let path = self.path.join(name);
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
                Err(e) => return Some(Err(anyhow::Error::new(e).context(format!("cannot read {}", path.display())))),
            };
            Some(TrainingCheckpoint::from_bytes(&bytes, &path).map_err(Into::into))
        };
        match (read(CHECKPOINT), read(PREVIOUS)) {
            (Some(Ok(last)), _) => Ok((Some(last), None)),
            (Some(Err(error)), Some(Ok(before))) if is_damaged(&error) => {
                // Otherwise the next checkpoint would replace the good one by the damaged one.
                let _ = if self.follows { Ok(()) } else { disk::remove_file(self.path.join(CHECKPOINT)) };
                let epochs = before.progress.epochs.len();
                Ok((
                    Some(before),
                    Some(format!("{error:#}; resuming from the previous checkpoint, after epoch {epochs}")),
                ))
            }
            // Killed between renaming one checkpoint and writing the next.
            (None, Some(Ok(before))) => Ok((Some(before), None)),
            // A file that cannot be read for another reason, such as permissions or a newer version, is left alone.
            (Some(Err(error)), _) | (None, Some(Err(error))) => Err(error.context("the checkpoint cannot be read")),
            (None, None) => Ok((None, None)),
        }
    }

    /// Save a checkpoint, and keep the previous one.
    pub fn keep(&self, checkpoint: &TrainingCheckpoint) -> Result<()> {
        if self.follows {
            return Ok(());
        }
        let (last, before) = (self.path.join(CHECKPOINT), self.path.join(PREVIOUS));
        let bytes = checkpoint.to_bytes()?;
        // Written under another name first, so that a full disk leaves both intact.
        let next = self.path.join(NEXT);
        disk::atomic_write(&next, &bytes)
            .and_then(|()| if last.exists() { disk::rename(&last, &before) } else { Ok(()) })
            .and_then(|()| disk::rename(&next, &last))
            .with_context(|| self.lost(CHECKPOINT))?;
        self.keep_metrics(&checkpoint.progress.epochs)
    }

    /// Save the best model.
    pub fn keep_model(&self, model: &Deep) -> Result<()> {
        if self.follows {
            return Ok(());
        }
        // Evaluations of another model do not hold for this one.
        for split in Split::ALL {
            let stale = self.path.join(Evaluation::file(split));
            if stale.exists() {
                disk::remove_file(&stale).with_context(|| format!("cannot remove {}", stale.display()))?;
            }
        }
        self.save(MODEL, &model.to_bytes()?)
    }

    /// The best model so far.
    pub fn model(&self) -> Result<Deep> {
        let path = self.path.join(MODEL);
        let bytes = std::fs::read(&path).map_err(|e| {
            let why = format!("cannot read {}: {e}; a model is saved after the first epoch", path.display());
            Mistake(why)
        })?;
        Ok(Deep::from_bytes(&bytes, &path)?)
    }

    /// The epochs so far, from the metrics; none if no epoch has finished.
    pub fn epochs(&self) -> Result<Vec<EpochReport>> {
        let path = self.path.join(METRICS);
        if !path.exists() {
            return Ok(vec![]);
        }
        let bad = |e: &dyn std::fmt::Display| Mistake(format!("{}: {e}", path.display()));
        Ok(parse_epochs(&std::fs::read(&path).map_err(|e| bad(&e))?).map_err(|e| bad(&e))?)
    }

    /// A file of results, read as JSON. None if it does not exist.
    pub fn results<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path.join(name);
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Save the metrics of all epochs so far.
    pub fn keep_metrics(&self, epochs: &[EpochReport]) -> Result<()> {
        let mut text =
            "epoch,train_bound,valid_bound,valid_se,rate,kl_weight,active,step_sizes,diverged,skipped\n".to_owned();
        for e in epochs {
            let sizes: Vec<String> = e.step_sizes.iter().map(f64::to_string).collect();
            text += &format!(
                "{},{},{},{},{},{},{},{},{},{}\n",
                e.epoch,
                e.train_bound,
                e.valid_bound,
                e.valid_se,
                e.rate,
                e.kl_weight,
                e.active,
                sizes.join(" "),
                e.diverged,
                e.skipped
            );
        }
        self.save(METRICS, text.as_bytes())
    }

    /// Seconds per epoch, which is all that differs between two runs with the same settings.
    pub fn times(&self) -> Vec<f64> {
        let text = std::fs::read_to_string(self.path.join(TIMES)).unwrap_or_default();
        let seconds = |line: &str| line.split(',').nth(1)?.parse().ok().filter(|s| (0.0..=LONGEST).contains(s));
        text.lines().skip(1).filter_map(seconds).collect()
    }

    pub fn keep_times(&self, seconds: &[f64]) -> Result<()> {
        let rows = seconds.iter().enumerate().map(|(i, s)| format!("{},{s:.3}\n", i + 1));
        self.save(TIMES, format!("epoch,seconds\n{}", rows.collect::<String>()).as_bytes())
    }

    /// Write a file of the run.
    pub fn save(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if self.follows {
            return Ok(());
        }
        disk::atomic_write(self.path.join(name), bytes).with_context(|| self.lost(name))
    }

    fn lost(&self, name: &str) -> String {
        let path = self.path.display();
        format!(
            "cannot write {name} in {path}; the previous file is intact: free some disk space and resume with --resume"
        )
    }
}

/// Lock a folder for writing.
pub fn lock(folder: &Path) -> Result<Lock> {
    Lock::acquire(folder.join(LOCK)).map_err(|error| {
        let remedy = match error {
            LockError::Held(_) => "wait until it ends, or choose another --out",
            LockError::Failed(_) => "choose another --out",
        };
        Mistake(format!("{}: {error}; {remedy}", folder.display())).into()
    })
}

/// Whether an error means that a file is damaged, and nothing else.
fn is_damaged(error: &anyhow::Error) -> bool {
    error.chain().any(|e| matches!(e.downcast_ref(), Some(mcvi::Error::Damaged { .. })))
}

/// A row of the metrics: the report of an epoch, without its list of step sizes.
#[derive(Deserialize)]
struct Line {
    epoch: usize,
    train_bound: f64,
    valid_bound: f64,
    valid_se: f64,
    rate: f64,
    #[serde(alias = "warmth")]
    kl_weight: f64,
    active: usize,
    step_sizes: String,
    diverged: usize,
    skipped: usize,
}

impl Line {
    fn report(self) -> Result<EpochReport, std::num::ParseFloatError> {
        let Line { epoch, train_bound, valid_bound, valid_se, rate, kl_weight, active, step_sizes, diverged, skipped } =
            self;
        let step_sizes = step_sizes.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let numbers = EpochReport {
            epoch,
            train_bound,
            valid_bound,
            valid_se,
            rate,
            kl_weight,
            active,
            step_sizes,
            diverged,
            skipped,
        };
        Ok(numbers)
    }
}

/// Read the bytes of a file of metrics.
pub fn parse_epochs(bytes: &[u8]) -> Result<Vec<EpochReport>, String> {
    let report = |line: csv::Result<Line>| line.map_err(|e| e.to_string())?.report().map_err(|e| e.to_string());
    csv::Reader::from_reader(bytes).deserialize::<Line>().map(report).collect()
}

/// Read a JSON file written by mcvi.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bad = |e: &dyn std::fmt::Display| Mistake(format!("{}: {e}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| bad(&e))?;
    Ok(serde_json::from_slice(&bytes).map_err(|e| bad(&e))?)
}
