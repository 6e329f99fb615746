//! One training run in its folder: begun, resumed, and taken to its end. What is shown meanwhile is the caller's.

use super::folder::RunFolder;
use super::settings::{Config, Meant};
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

/// How often an epoch that cannot be finished is begun again, at a lower rate each time.
const AGAIN: usize = 3;

/// What is said where an error ends a run.
const STOPPED: &str = "training stopped, and can be resumed: what was saved is intact";

/// What happens in a run.
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
    /// Something looks wrong; said once.
    Warning(String),
}

/// What an epoch leaves.
struct Left {
    /// Where it is the best so far.
    model: Option<Deep>,
    checkpoint: Arc<TrainingCheckpoint>,
    times: Vec<f64>,
}

impl Left {
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
    /// A new run in a folder that is not there yet.
    pub fn begin(typed: &Config, out: &Path, hardware: Hardware) -> Result<Self> {
        let (meant, train, valid) = read(typed)?;
        let data = names(&train, &valid);
        let (train, valid) = (train.array()?, valid.array()?);
        // Everything is checked before the folder is made.
        let trainer = Trainer::with_weights(start(&meant)?, &meant.training, (&train, &valid, &data), hardware)?;
        let folder = RunFolder::create(out, &meant.config())?;
        Ok(Session { folder, trainer, training: meant.training, times: vec![] })
    }

    /// A run that was begun, with what is to be said about it.
    pub fn resume(typed: &Config, out: &Path, hardware: Hardware) -> Result<(Self, Option<String>)> {
        let folder = RunFolder::open(out)?;
        let saved = folder.settings()?;
        // Where the images and the model it began with are, and for how long to go on, may change; nothing else may.
        let free = Config { data: None, epochs: None, from: None, ..typed.clone() };
        let differ = free.against(&saved)?;
        if !differ.is_empty() {
            let why = format!(
                "{} was begun with other values of {}; leave them out to go on, or begin another run",
                out.display(),
                differ.join(", ")
            );
            return Err(Mistake(why).into());
        }
        let (mut meant, train, valid) = read(&typed.or(&saved)?)?;
        let data = names(&train, &valid);
        let (train, valid) = (train.array()?, valid.array()?);
        let images = (&train, &valid, data.as_str());
        let (checkpoint, mut said) = folder.checkpoint()?;
        let trainer = match checkpoint {
            None => Trainer::with_weights(start(&meant)?, &meant.training, images, hardware)?,
            Some(mut checkpoint) => {
                // What it began with is settled.
                meant.from = saved.from.clone();
                if checkpoint.architecture != meant.architecture {
                    let why = format!(
                        "the checkpoint in {} is of another architecture, {:?}, than its settings say, {:?}",
                        out.display(),
                        checkpoint.architecture,
                        meant.architecture
                    );
                    return Err(Mistake(why).into());
                }
                let trained = TrainSettings { epochs: meant.training.epochs, ..checkpoint.settings.clone() };
                if trained != meant.training {
                    let why = format!(
                        "{}: its settings are not those its checkpoint was trained with; restore settings.toml, or \
                         begin another run",
                        out.display()
                    );
                    return Err(Mistake(why).into());
                }
                let done = checkpoint.progress.epochs.len();
                if let Some(asked) = typed.epochs.filter(|asked| *asked < done) {
                    return Err(Mistake(format!("--epochs {asked} is less than the {done} that are done")).into());
                }
                // Asked for more, a run that had stopped early has as much patience again.
                if meant.training.epochs > checkpoint.settings.epochs && checkpoint.progress.stopped {
                    checkpoint.progress.stopped = false;
                    checkpoint.progress.waiting_since = done;
                }
                let goes_on = !checkpoint.progress.stopped && done < meant.training.epochs;
                let device = checkpoint.device.as_ref().filter(|device| goes_on && *device != hardware.kind());
                if let Some(device) = device {
                    let moved = format!(
                        "this run was on {device} so far and goes on on {}: not bit for bit as it would have there",
                        hardware.kind()
                    );
                    said = Some(said.map_or(moved.clone(), |said| format!("{said}; {moved}")));
                }
                checkpoint.settings = trained;
                Trainer::resume(&checkpoint, images, hardware).map_err(|e| match e {
                    mcvi::Error::Params { .. } => mistaken(e.into()),
                    other => other.into(),
                })?
            }
        };
        folder.set_settings(&meant.config())?;
        let mut times = folder.times();
        times.truncate(trainer.progress().epochs.len());
        Ok((Session { folder, trainer, training: meant.training, times }, said))
    }

    /// Train until it is done, or the observer breaks it off. Returns the summary that is kept in the folder.
    pub fn train(&mut self, mut observe: impl FnMut(Event<'_>) -> ControlFlow<()>) -> Result<Value> {
        let Session { folder, trainer, training, times } = self;
        let (epochs, joined) = (training.epochs, training.join);
        let (folder, mut interrupted) = (&*folder, false);
        // What an epoch leaves is written while the next one runs; training waits where writing is slower.
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::sync_channel::<Left>(0);
            let writer = scope.spawn(move || receive.into_iter().try_for_each(|left| left.write(folder)));
            let trained = (|| -> Result<()> {
                let mut said: Vec<String> = vec![];
                let (mut checkpoint, mut again) = (Arc::new(trainer.checkpoint().context(STOPPED)?), 0);
                while !trainer.is_over() && !interrupted {
                    let (begun, progress) = (Instant::now(), trainer.progress().clone());
                    let report = trainer.epoch(|tick| {
                        let seconds = begun.elapsed().as_secs_f64();
                        observe(Event::Steps { tick, progress: &progress, epochs, seconds, times })
                    });
                    let epoch = match report {
                        Ok(Some(report)) => report.epoch,
                        Ok(None) => {
                            interrupted = true;
                            break;
                        }
                        Err(lost @ mcvi::Error::Fit { .. }) if again < AGAIN => {
                            again += 1;
                            trainer.go_back(&checkpoint).context(STOPPED)?;
                            checkpoint = Arc::new(trainer.checkpoint().context(STOPPED)?);
                            let factor = training.factor;
                            let warning =
                                format!("{lost}. The epoch begins again, at {factor} of the rate from here on");
                            interrupted |= observe(Event::Warning(warning)).is_break();
                            continue;
                        }
                        Err(lost @ mcvi::Error::Fit { .. }) => {
                            return Err(anyhow!("{lost} (also at a lower rate). The last checkpoint is intact"));
                        }
                        Err(error) => return Err(error).context(STOPPED),
                    };
                    again = 0;
                    let model = (trainer.progress().best == Some(epoch)).then(|| trainer.model());
                    checkpoint = Arc::new(trainer.checkpoint().context(STOPPED)?);
                    times.push(begun.elapsed().as_secs_f64());
                    if send.send(Left { model, checkpoint: checkpoint.clone(), times: times.clone() }).is_err() {
                        // The writer has failed; what it met is the error to report.
                        break;
                    }
                    for warning in trainer.warnings() {
                        // Each kind of warning once, not every epoch.
                        let kind: String = warning.chars().filter(|c| c.is_alphabetic()).take(30).collect();
                        if !said.contains(&kind) {
                            interrupted |= observe(Event::Warning(format!("epoch {epoch}: {warning}"))).is_break();
                            said.push(kind);
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
        Ok(result)
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        self.trainer.progress()
    }
}

/// What was meant, with the images it is about.
fn read(typed: &Config) -> Result<(Meant, Images, Images)> {
    let mut meant = typed.meant([1, 1])?;
    let dataset = Dataset::open(&meant.data)?;
    // Saved as it is found from anywhere.
    meant.data = std::fs::canonicalize(&meant.data)?;
    meant.from = meant.from.map(|from| std::fs::canonicalize(&from).unwrap_or(from));
    let [train, valid] =
        dataset.read([Split::Train, Split::Valid], meant.binarization.library(), meant.training.seed)?;
    meant.architecture.image = [train.height(), train.width()];
    meant.training.fresh = !train.is_binary();
    Ok((meant, train, valid))
}

/// The model a run begins with.
fn start(meant: &Meant) -> Result<Deep> {
    let mut deep = Deep::new(meant.architecture.clone(), meant.training.seed)?;
    let Some(path) = &meant.from else { return Ok(deep) };
    let (from, shown) = (RunFolder::open(path)?, path.display());
    if from.settings()?.join == Some(true) && !meant.training.join {
        let why = format!(
            "{shown} learned from the validation images too, so that nothing can be judged by them here; add --join, or \
             begin with another run"
        );
        return Err(Mistake(why).into());
    }
    let model = from.model()?;
    let taken = deep.take_over(&model).map_err(|e| {
        Mistake(format!("cannot begin with the weights of {shown}: {e}; give --decoder, --hidden and so on as there"))
    })?;
    if taken == 0 {
        return Err(Mistake(format!("no weights of {shown} have a place in this model")).into());
    }
    Ok(deep)
}

/// What tells these images from others.
fn names(train: &Images, valid: &Images) -> String {
    format!("{} {}", train.checksum(), valid.checksum())
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
