//! A training run in its folder: started, resumed and finished. The caller decides what to show meanwhile.

use super::folder::RunFolder;
use super::settings::{Config, ResolvedConfig};
use crate::mistake::{Mistake, mistaken};
use anyhow::{Context, Result, anyhow};
use mcvi::Hardware;
use mcvi::data::{Dataset, Images, Split};
use mcvi::vae::{Deep, Progress, Tick, TrainSettings, Trainer, TrainingCheckpoint};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How often an epoch that fails is repeated, each time at a lower rate.
const RETRIES: usize = 3;

/// The context of an error that ends a run.
const STOPPED: &str = "training stopped, but can be resumed: saved files are intact";

/// What an observer sees of a run.
pub enum Event<'a> {
    /// Some steps were taken.
    Steps {
        tick: &'a Tick,
        progress: &'a Progress,
        epochs: usize,
        /// Seconds since the epoch began, and of each epoch before it.
        seconds: f64,
        times: &'a [f64],
    },
    /// Something looks wrong; reported once.
    Warning(String),
}

/// What is written after an epoch.
struct EpochOutput {
    /// The model, if it is the best so far.
    model: Option<Deep>,
    checkpoint: Arc<TrainingCheckpoint>,
    times: Vec<f64>,
}

impl EpochOutput {
    fn write(self, folder: &RunFolder) -> Result<()> {
        if let Some(model) = &self.model {
            folder.keep_model(model)?;
        }
        folder.keep(&self.checkpoint)?;
        folder.keep_times(&self.times)
    }
}

/// A run in its folder.
pub struct Session {
    folder: RunFolder,
    trainer: Trainer,
    training: TrainSettings,
    times: Vec<f64>,
}

impl Session {
    /// A new run in a folder that does not exist yet.
    pub fn start(typed: &Config, out: &Path, hardware: Hardware) -> Result<Self> {
        let (resolved, train, valid) = read(typed)?;
        let data = checksums(&train, &valid);
        let (train, valid) = (train.array()?, valid.array()?);
        // Everything is checked before the folder is created.
        let trainer =
            Trainer::with_weights(initial_model(&resolved)?, &resolved.training, (&train, &valid, &data), hardware)?;
        let config = resolved.config();
        let folder = if hardware.is_first() { RunFolder::create(out, &config)? } else { RunFolder::follow(out) };
        Ok(Session { folder, trainer, training: resolved.training, times: vec![] })
    }

    /// An existing run, and a notice about how it is resumed.
    pub fn resume(typed: &Config, out: &Path, hardware: Hardware) -> Result<(Self, Option<String>)> {
        let folder = if hardware.is_first() { RunFolder::resume(out)? } else { RunFolder::follow(out) };
        let saved = folder.settings()?;
        // The folders of the images and of the initial weights may change, and so may the number of epochs; nothing else may.
        let free = Config { data: None, epochs: None, from: None, ..typed.clone() };
        let differ = free.against(&saved)?;
        if !differ.is_empty() {
            let why = format!(
                "{} was started with other values of {}; omit them to resume it, or start another run",
                out.display(),
                differ.join(", ")
            );
            return Err(Mistake(why).into());
        }
        let (mut resolved, train, valid) = read(&typed.or(&saved)?)?;
        let data = checksums(&train, &valid);
        let (train, valid) = (train.array()?, valid.array()?);
        let images = (&train, &valid, data.as_str());
        let (checkpoint, mut notice) = folder.checkpoint()?;
        let trainer = match checkpoint {
            None => Trainer::with_weights(initial_model(&resolved)?, &resolved.training, images, hardware)?,
            Some(mut checkpoint) => {
                // The initial weights no longer matter.
                resolved.from = saved.from.clone();
                if checkpoint.architecture != resolved.architecture {
                    let why = format!(
                        "the checkpoint in {} has the architecture {:?}, but its settings say {:?}",
                        out.display(),
                        checkpoint.architecture,
                        resolved.architecture
                    );
                    return Err(Mistake(why).into());
                }
                let trained = TrainSettings { epochs: resolved.training.epochs, ..checkpoint.settings.clone() };
                if trained != resolved.training {
                    let why = format!(
                        "{}: its settings are not those its checkpoint was trained with; restore settings.toml, or \
                         start another run",
                        out.display()
                    );
                    return Err(Mistake(why).into());
                }
                let done = checkpoint.progress.epochs.len();
                if let Some(asked) = typed.epochs.filter(|asked| *asked < done) {
                    return Err(Mistake(format!("--epochs {asked} is less than the {done} epochs already done")).into());
                }
                // If more epochs are requested, a run that had stopped early gets its full patience again.
                if resolved.training.epochs > checkpoint.settings.epochs && checkpoint.progress.stopped {
                    checkpoint.progress.stopped = false;
                    checkpoint.progress.waiting_since = done;
                }
                let goes_on = !checkpoint.progress.stopped && done < resolved.training.epochs;
                let device = checkpoint.device.as_ref().filter(|device| goes_on && *device != hardware.kind());
                if let Some(device) = device {
                    let moved = format!(
                        "this run was on {device} so far and is resumed on {}: results will differ in the last digits",
                        hardware.kind()
                    );
                    notice = Some(notice.map_or(moved.clone(), |notice| format!("{notice}; {moved}")));
                }
                checkpoint.settings = trained;
                Trainer::resume(&checkpoint, images, hardware).map_err(|e| match e {
                    mcvi::Error::Params { .. } => mistaken(e.into()),
                    other => other.into(),
                })?
            }
        };
        folder.set_settings(&resolved.config())?;
        // The run may have ended between writing the checkpoint and the metrics.
        if !trainer.progress().epochs.is_empty() {
            folder.keep_metrics(&trainer.progress().epochs)?;
        }
        let mut times = folder.times();
        times.truncate(trainer.progress().epochs.len());
        Ok((Session { folder, trainer, training: resolved.training, times }, notice))
    }

    /// Train to the end, or until the observer stops it. Returns the summary that is saved in the folder.
    pub fn train(&mut self, mut observe: impl FnMut(Event<'_>) -> ControlFlow<()>) -> Result<Value> {
        let Session { folder, trainer, training, times } = self;
        let (epochs, joined) = (training.epochs, training.join);
        let (folder, mut interrupted) = (&*folder, false);
        // Files are written while the next epoch runs; training waits if writing is slower.
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::sync_channel::<EpochOutput>(0);
            let writer = scope.spawn(move || receive.into_iter().try_for_each(|output| output.write(folder)));
            let trained = (|| -> Result<()> {
                let mut warned: Vec<String> = vec![];
                let (mut checkpoint, mut retries) = (Arc::new(trainer.checkpoint().context(STOPPED)?), 0);
                while !trainer.is_over() && !interrupted {
                    let (started, progress) = (Instant::now(), trainer.progress().clone());
                    let report = trainer.epoch(|tick| {
                        let seconds = started.elapsed().as_secs_f64();
                        observe(Event::Steps { tick, progress: &progress, epochs, seconds, times })
                    });
                    let epoch = match report {
                        Ok(Some(report)) => report.epoch,
                        Ok(None) => {
                            interrupted = true;
                            break;
                        }
                        Err(lost @ mcvi::Error::Fit { .. }) if retries < RETRIES => {
                            retries += 1;
                            trainer.go_back(&checkpoint).context(STOPPED)?;
                            checkpoint = Arc::new(trainer.checkpoint().context(STOPPED)?);
                            let factor = training.factor;
                            let warning = format!(
                                "{lost}. The epoch is repeated, at {factor} times the learning rate from here on"
                            );
                            interrupted |= observe(Event::Warning(warning)).is_break();
                            continue;
                        }
                        Err(lost @ mcvi::Error::Fit { .. }) => {
                            return Err(anyhow!(
                                "{lost} (also at lower learning rates). The last checkpoint is intact"
                            ));
                        }
                        Err(error) => return Err(error).context(STOPPED),
                    };
                    retries = 0;
                    let model = (trainer.progress().best == Some(epoch)).then(|| trainer.model());
                    checkpoint = Arc::new(trainer.checkpoint().context(STOPPED)?);
                    times.push(started.elapsed().as_secs_f64());
                    if send.send(EpochOutput { model, checkpoint: checkpoint.clone(), times: times.clone() }).is_err() {
                        // The writer has failed; its error is the one to report.
                        break;
                    }
                    for warning in trainer.warnings() {
                        // Each kind of warning once, not every epoch.
                        let kind: String = warning.chars().filter(|c| c.is_alphabetic()).take(30).collect();
                        if !warned.contains(&kind) {
                            interrupted |= observe(Event::Warning(format!("epoch {epoch}: {warning}"))).is_break();
                            warned.push(kind);
                        }
                    }
                }
                Ok(())
            })();
            drop(send);
            writer.join().map_err(|_| anyhow!("writing a checkpoint stopped unexpectedly"))??;
            trained
        })?;
        let result =
            summary(trainer.progress(), times.iter().fold(0.0, |sum, s| sum + s), folder.path(), interrupted, joined);
        folder.save("summary.json", format!("{result:#}\n").as_bytes())?;
        let progress = trainer.progress();
        if !interrupted && progress.best.is_none() {
            let taken = progress.epochs.iter().any(|e| e.skipped < trainer.steps());
            let why =
                if taken { "no validation bound was finite" } else { "no gradient was finite, so no step was taken" };
            return Err(anyhow!("{why}, and no model was saved; try a lower --rate or --initial-step-size"));
        }
        if progress.best.is_some() {
            folder.check()?;
        }
        Ok(result)
    }

    /// Training progress.
    pub fn progress(&self) -> &Progress {
        self.trainer.progress()
    }
}

/// The resolved settings and the images.
fn read(typed: &Config) -> Result<(ResolvedConfig, Images, Images)> {
    let mut resolved = typed.resolve([1, 1])?;
    let dataset = Dataset::open(&resolved.data)?;
    // Saved as absolute paths.
    resolved.data = std::fs::canonicalize(&resolved.data)?;
    resolved.from = resolved.from.map(|from| std::fs::canonicalize(&from).unwrap_or(from));
    let [train, valid] =
        dataset.read([Split::Train, Split::Valid], resolved.binarization.library(), resolved.training.seed)?;
    resolved.architecture.image = [train.height(), train.width()];
    resolved.training.fresh = !train.is_binary();
    Ok((resolved, train, valid))
}

/// The initial model of a run.
fn initial_model(resolved: &ResolvedConfig) -> Result<Deep> {
    let mut deep = Deep::new(resolved.architecture.clone(), resolved.training.seed)?;
    let Some(path) = &resolved.from else { return Ok(deep) };
    let (from, shown) = (RunFolder::open(path)?, path.display());
    if from.settings()?.join == Some(true) && !resolved.training.join {
        let why = format!(
            "{shown} was also trained on the validation images, so they cannot be used to validate this run; add --join, or \
             start from another run"
        );
        return Err(Mistake(why).into());
    }
    let model = from.model()?;
    let taken = deep.take_over(&model).map_err(|e| {
        Mistake(format!(
            "cannot start from the weights of {shown}: {e}; use its --decoder, --hidden, --leapfrogs and so on"
        ))
    })?;
    if taken == 0 {
        return Err(Mistake(format!("this model has no weights in common with {shown}")).into());
    }
    Ok(deep)
}

/// Identifies these images.
pub(super) fn checksums(train: &Images, valid: &Images) -> String {
    format!("{} {}", train.checksum(), valid.checksum())
}

/// What there is of a run in a folder; none if no epoch has finished.
pub fn found(run: &Path) -> Result<Option<Value>> {
    if !run.is_dir() {
        return Ok(None);
    }
    let folder = RunFolder::open(run)?;
    let Some(checkpoint) = folder.checkpoint()?.0 else { return Ok(None) };
    let joined = folder.settings()?.join == Some(true);
    Ok(Some(summary(&checkpoint.progress, folder.times().iter().sum(), run, false, joined)))
}

fn summary(progress: &Progress, seconds: f64, run: &Path, interrupted: bool, joined: bool) -> Value {
    let best = progress.best();
    let number = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
    json!({
        "epochs": progress.epochs.len(),
        "best_epoch": best.map(|b| b.epoch),
        "train_bound": best.map_or(Value::Null, |b| number(b.train_bound)),
        "valid_bound": best.filter(|_| !joined).map_or(Value::Null, |b| number(b.valid_bound)),
        "seconds": seconds,
        "run": run.display().to_string(),
        "interrupted": interrupted,
        "joined": joined,
    })
}
