//! Algorithm 2 over minibatches: decoder, inference network and chain learned together, epoch by epoch.
//!
//! The state of the loop is [`Progress`] and that of the optimiser. Both are in a [`TrainingCheckpoint`], so that
//! training resumes from it bit for bit. Noise depends on the step alone and the order of images on the epoch alone.

use super::architecture::Architecture;
use super::checkpoint::{Deep, TrainingCheckpoint};
use super::evaluate::Evaluator;
use super::model::{IMAGES, Observed, ROWS};
use super::settings::{Decay, TrainSettings};
use crate::approximation::Approximation;
use crate::data::order;
use crate::diagnostics::mean;
use crate::error::{Error, Result};
use crate::fit::{KL_WEIGHT, Objective, Optimiser, Settings, Training};
use crate::hardware::Hardware;
use crate::params::Params;
use crate::seed::derive_seed;
use mcvi_expr::Array;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Steps between checks of the observer.
const CHUNK: usize = 50;
/// Number of images with which the activity of latent variables is estimated.
const JUDGED: usize = 2000;
/// Burda et al. (2016): a latent variable is in use if its mean varies over images by more than this, significantly.
const ACTIVE: f64 = 0.01;
/// Number of recent steps that may be skipped before training is stopped.
const MISSED: usize = 10;
/// Prefix of the names of averages in a checkpoint.
const AVERAGE: &str = "average.";
/// More steps than an epoch can have.
const MOST_STEPS: usize = i32::MAX as usize;
/// A step size below which a chain hardly moves.
const VANISHED: f64 = 0.01;
/// The smallest improvement of the validation bound, in nats, that counts.
const WORTH: f64 = 0.01;

/// The report of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// The epoch, from 1 on.
    pub epoch: usize,
    /// The mean bound over its steps, at the weights of each step.
    #[serde(with = "exact")]
    pub train_bound: f64,
    /// The bound of the validation images, with averaged weights.
    #[serde(with = "exact")]
    pub valid_bound: f64,
    /// Its standard error over images.
    #[serde(with = "exact")]
    pub valid_se: f64,
    /// The learning rate at its end.
    pub rate: f64,
    /// The KL weight at its end.
    #[serde(alias = "warmth")]
    pub kl_weight: f64,
    /// Latent variables in use.
    pub active: usize,
    /// The step size of each step.
    #[serde(with = "exact_list")]
    pub step_sizes: Vec<f64>,
    /// Draws whose bound was not finite.
    pub diverged: usize,
    /// Steps skipped because the gradient was not finite.
    pub skipped: usize,
}

/// Numbers that may be infinite, which JSON cannot represent, as text.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&x.to_string())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The same for lists of them.
mod exact_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(numbers: &[f64], to: S) -> Result<S::Ok, S::Error> {
        numbers.iter().map(f64::to_string).collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

/// The progress of training: the part of its state that is not arrays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The epochs so far.
    pub epochs: Vec<EpochReport>,
    /// The best of them by the validation bound.
    pub best: Option<usize>,
    /// How often the rate has been lowered.
    pub lowered: usize,
    /// The epoch from which patience is counted.
    pub waiting_since: usize,
    /// Whether training was stopped early, because the validation bound no longer improved.
    pub stopped: bool,
}

impl Progress {
    /// The best epoch.
    pub fn best(&self) -> Option<&EpochReport> {
        self.best.and_then(|epoch| self.epochs.get(epoch.checked_sub(1)?))
    }

    /// What is wrong with it, if it cannot be the progress of a training.
    pub(super) fn check(&self) -> Result<(), String> {
        let done = self.epochs.len();
        let counted = self.epochs.iter().zip(1..).all(|(report, n)| report.epoch == n && report.skipped <= MOST_STEPS);
        let inside = self.best.is_none_or(|best| (1..=done).contains(&best)) && self.waiting_since <= done;
        // A rate is lowered, or an epoch repeated, a few times at most for each epoch.
        if counted && inside && self.lowered <= 10 * (done + 1) {
            return Ok(());
        }
        Err(format!("is damaged: its progress after {done} epochs contradicts itself"))
    }
}

/// What an observer sees within an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// The epoch, from 1 on.
    pub epoch: usize,
    /// Steps taken in it.
    pub step: usize,
    /// Steps it has.
    pub steps: usize,
    /// The mean bound of the steps since the last tick.
    pub bound: f64,
}

/// A model in training.
pub struct Trainer {
    approximation: Approximation,
    architecture: Architecture,
    settings: TrainSettings,
    training: Training,
    /// The weights averaged over the last epochs.
    average: Params,
    validation: Evaluator,
    progress: Progress,
    images: usize,
    data: String,
    hardware: Hardware,
}

impl Trainer {
    /// Start training. Images are rows of pixels; `data` identifies them, so that a checkpoint is only resumed with the
    /// same ones.
    pub fn new(
        architecture: &Architecture,
        settings: &TrainSettings,
        images: (&Array, &Array, &str),
        hardware: Hardware,
    ) -> Result<Self> {
        Trainer::with_weights(Deep::new(architecture.clone(), settings.seed)?, settings, images, hardware)
    }

    /// Start from the weights of a model; missing ones are initialised from the seed.
    pub fn with_weights(
        mut deep: Deep,
        settings: &TrainSettings,
        (train, valid, data): (&Array, &Array, &str),
        hardware: Hardware,
    ) -> Result<Self> {
        let architecture = &deep.architecture;
        let joined;
        let train = if settings.join {
            joined = stacked(train, valid, architecture)?;
            &joined
        } else {
            train
        };
        let images = architecture.count(train)?;
        settings.check(images)?;
        let observed = Observed::Fed { images, fresh: settings.fresh };
        let approximation = architecture.approximation(deep.params, observed, settings.seed, hardware)?;
        deep.params = approximation.params.clone();
        let mut training = Training::new(
            &approximation,
            &Settings {
                objective: Objective::KlWeighted,
                warm_start: false,
                draws: settings.batch,
                optimiser: Optimiser::default(),
                rate: settings.rate,
                transition_rate: settings.chain_rate,
                clip: settings.clip,
                weight_decay: settings.weight_decay,
                average: false,
                seed: settings.seed,
                parts: settings.parts,
                ..Settings::default()
            },
        )?;
        training.write(IMAGES, train)?;
        let validation =
            Evaluator::new(&deep, valid, settings.fresh, derive_seed(settings.seed, "validation"), hardware)?;
        Ok(Trainer {
            approximation,
            architecture: deep.architecture,
            settings: settings.clone(),
            training,
            average: deep.params,
            validation,
            progress: Progress::default(),
            images,
            data: data.to_owned(),
            hardware,
        })
    }

    /// Resume from a checkpoint, with the images it was made with.
    pub fn resume(checkpoint: &TrainingCheckpoint, images: (&Array, &Array, &str), hardware: Hardware) -> Result<Self> {
        if checkpoint.data != images.2 {
            let why = "the images are not those this model was trained with so far".to_owned();
            return Err(Error::Setting { what: "data", why });
        }
        let mut made = Trainer::new(&checkpoint.architecture, &checkpoint.settings, images, hardware)?;
        made.restore(checkpoint)?;
        Ok(made)
    }

    /// Reset to a checkpoint of this run, and continue from there at a lower learning rate.
    pub fn go_back(&mut self, checkpoint: &TrainingCheckpoint) -> Result<()> {
        self.restore(checkpoint)?;
        self.progress.lowered += 1;
        Ok(())
    }

    fn restore(&mut self, checkpoint: &TrainingCheckpoint) -> Result<()> {
        self.training.restore(&self.approximation, &checkpoint.state)?;
        for (name, value) in &checkpoint.state {
            if let Some(name) = name.strip_prefix(AVERAGE) {
                self.average.set(name, value.clone())?;
            }
        }
        self.progress = checkpoint.progress.clone();
        Ok(())
    }

    /// Everything needed to resume training.
    pub fn checkpoint(&mut self) -> Result<TrainingCheckpoint> {
        let mut state = self.training.state()?;
        state.extend(self.average.iter().map(|(name, p)| (format!("{AVERAGE}{name}"), p.value.clone())));
        Ok(TrainingCheckpoint {
            architecture: self.architecture.clone(),
            settings: self.settings.clone(),
            data: self.data.clone(),
            device: Some(self.hardware.kind().to_owned()),
            progress: self.progress.clone(),
            state,
        })
    }

    /// The model with averaged weights.
    pub fn model(&self) -> Deep {
        Deep { architecture: self.architecture.clone(), params: self.average.clone() }
    }

    /// The progress of training.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether there is nothing left to do.
    pub fn is_over(&self) -> bool {
        self.progress.stopped || self.progress.epochs.len() >= self.settings.epochs
    }

    /// Steps per epoch. Images that do not fill a batch are left for another epoch's order.
    pub fn steps(&self) -> usize {
        self.images / self.settings.batch
    }

    /// The time of a step by kernel; see [`Training::profile`].
    pub fn training(&mut self) -> &mut Training {
        &mut self.training
    }

    /// Train for one epoch. If the observer stops it there is no report, and everything since the last checkpoint is
    /// lost. If most steps could not be taken it is an [`Error::Fit`]; see [`go_back`](Self::go_back).
    pub fn epoch(&mut self, mut observe: impl FnMut(&Tick) -> ControlFlow<()>) -> Result<Option<&EpochReport>> {
        let (epoch, steps) = (self.progress.epochs.len() + 1, self.steps());
        let order = order(self.settings.seed, epoch as u64, self.images);
        let (mut bounds, mut diverged, mut skipped) = (vec![], 0, 0);
        let mut done = 0;
        while done < steps {
            let n = CHUNK.min(steps - done);
            let progress = self.some_steps(&order, epoch, done, n)?;
            done += n;
            diverged += progress.diverged;
            skipped += progress.skipped;
            // Judged over several steps: the rest of an epoch may be a single one, and so may an epoch.
            let before = self.progress.epochs.iter().rev().take(CHUNK / steps);
            let missed = skipped + before.map(|e| e.skipped).sum::<usize>();
            if 2 * progress.skipped > n && missed >= MISSED {
                return Err(self.lost(&order, epoch, done - n, progress.first_skipped.unwrap_or(0)));
            }
            let tick = Tick { epoch, step: done, steps, bound: honest(&progress.bounds, progress.diverged) };
            bounds.extend(progress.bounds);
            if self.hardware.any(observe(&tick).is_break())? {
                return Ok(None);
            }
        }
        let report = self.judge(epoch, honest(&bounds, diverged), diverged, skipped)?;
        self.learn_from(&report);
        self.progress.epochs.push(report);
        Ok(self.progress.epochs.last())
    }

    /// Steps `done` to `done + n` of an epoch.
    fn some_steps(&mut self, order: &[i32], epoch: usize, done: usize, n: usize) -> Result<crate::fit::IterationStats> {
        let (batch, first) = (self.settings.batch, (epoch - 1) * self.steps() + done);
        let rows = Array::new([n, batch], order[done * batch..(done + n) * batch].to_vec())?;
        let kl_weight = Array::new(n, (0..n).map(|i| self.kl_weight(first + i) as f32).collect::<Vec<_>>())?;
        let rates: Vec<f64> = (0..n).map(|i| self.rate(first + i)).collect();
        let taken = self.training.iterations();
        let rate = |t: usize| rates[t - taken];
        let progress = self.training.run_with(n, rate, &[], &[(ROWS, &rows), (KL_WEIGHT, &kl_weight)])?;
        // Initially the mean of all weights, leaning towards the last; later an exponential moving average.
        let (n, first) = (n as f64, first as f64);
        let horizon = (self.settings.average * self.steps() as f64).max(n);
        let share = (4.0 * n / (first + 4.0 * n)).max(n / horizon);
        self.average.approach(&self.training.params(&self.average)?, share)?;
        Ok(progress)
    }

    /// The learning rate of a step, counted from the first of all epochs.
    fn rate(&self, step: usize) -> f64 {
        let TrainSettings { rate, factor, epochs, .. } = self.settings;
        let rate = rate * factor.powi(self.progress.lowered as i32);
        match self.settings.decay {
            Decay::None | Decay::Plateau => rate,
            Decay::Cosine => {
                let share = step as f64 / (epochs * self.steps()) as f64;
                rate * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
            }
        }
    }

    /// The KL weight of a step, counted from the first of all epochs.
    fn kl_weight(&self, step: usize) -> f64 {
        let over = self.settings.warm_up * self.steps() as f64;
        if over > 0.0 { ((step + 1) as f64 / over).min(1.0) } else { 1.0 }
    }

    fn judge(&mut self, epoch: usize, train_bound: f64, diverged: usize, skipped: usize) -> Result<EpochReport> {
        self.validation.set(&self.average)?;
        self.validation.rewind();
        let all: Vec<i32> = (0..self.validation.images() as i32).collect();
        let valid = mean(&self.validation.bounds(&all)?);
        // Images may be sorted by class, so a subset is drawn at random.
        let some = order(self.settings.seed, 0, all.len());
        let activity = self.validation.activity(&some[..JUDGED.min(some.len())])?;
        let last = epoch * self.steps() - 1;
        Ok(EpochReport {
            epoch,
            train_bound,
            valid_bound: valid.value,
            valid_se: valid.se,
            rate: self.rate(last),
            kl_weight: self.kl_weight(last),
            active: activity.iter().filter(|a| a.value > ACTIVE.max(4.0 * a.se)).count(),
            step_sizes: self.approximation.chain.step_sizes(&self.average),
            diverged,
            skipped,
        })
    }

    /// Lower the learning rate, or stop, if the validation bound no longer improves.
    fn learn_from(&mut self, report: &EpochReport) {
        let progress = &mut self.progress;
        if self.settings.join {
            if report.valid_bound.is_finite() {
                progress.best = Some(report.epoch);
            }
            return;
        }
        let best = progress.best().map_or(f64::NEG_INFINITY, |best| best.valid_bound);
        if report.valid_bound > best {
            progress.best = Some(report.epoch);
        }
        if report.valid_bound > best + WORTH || report.kl_weight < 1.0 {
            progress.waiting_since = report.epoch;
        }
        let waited = report.epoch - progress.waiting_since;
        if waited >= self.settings.stop {
            progress.stopped = true;
        } else if waited > 0 && waited.is_multiple_of(self.settings.patience) && self.settings.decay == Decay::Plateau {
            progress.lowered += 1;
        }
    }

    /// Warnings about the last epoch.
    pub fn warnings(&self) -> Vec<String> {
        let Some(last) = self.progress.epochs.last() else { return vec![] };
        let mut warnings = vec![];
        if last.kl_weight == 1.0 && 10 * last.active < self.architecture.latent {
            warnings.push(format!(
                "only {} of {} latent variables are in use; a longer KL warm-up or a lower learning rate keeps more of them",
                last.active, self.architecture.latent
            ));
        }
        if let Some(i) = last.step_sizes.iter().position(|s| *s < VANISHED) {
            warnings.push(format!(
                "the step size of step {} has shrunk to {:.1e}, so the chain hardly moves; a higher learning rate for the \
                 chain, or, if the step is Hamiltonian, an inverse model that also sees the gradient, may help",
                i + 1,
                last.step_sizes[i]
            ));
        }
        if last.diverged > 0 {
            warnings.push(format!("{} draws of epoch {} had no finite bound", last.diverged, last.epoch));
        }
        warnings
    }

    /// Training cannot continue: report where it failed.
    fn lost(&mut self, order: &[i32], epoch: usize, done: usize, skipped: usize) -> Error {
        let (batch, step) = (self.settings.batch, done + skipped);
        let kl_weight = self.kl_weight((epoch - 1) * self.steps() + step) as f32;
        let rows = Array::new(batch, order[step * batch..(step + 1) * batch].to_vec());
        let kl_weight = Array::new((), vec![kl_weight]);
        let place = match (rows, kl_weight) {
            (Ok(rows), Ok(kl_weight)) => {
                let inputs = [(ROWS, &rows), (KL_WEIGHT, &kl_weight)];
                let steps = (epoch - 1) * self.steps() + step;
                self.training.first_not_finite(&self.approximation, steps as u64, &inputs)
            }
            (Err(e), _) | (_, Err(e)) => Err(e.into()),
        };
        let place = place.ok().flatten().unwrap_or_else(|| "the gradient".to_owned());
        let why = format!(
            "in epoch {epoch}, from step {} on, no step could be taken: {place} is not finite; try a lower learning \
             rate, a smaller initial step size or stronger clipping",
            step + 1
        );
        Error::Fit { why }
    }
}

/// Concatenate two sets of images.
fn stacked(first: &Array, second: &Array, architecture: &Architecture) -> Result<Array> {
    let count = architecture.count(first)? + architecture.count(second)?;
    let pixels = first.to_f64().into_iter().chain(second.to_f64()).map(|x| x as f32).collect::<Vec<_>>();
    Ok(Array::new([count, architecture.pixels()], pixels)?)
}

/// The mean bound of some steps. Gradients leave out draws without weight; a bound does not.
fn honest(bounds: &[f64], diverged: usize) -> f64 {
    if diverged > 0 { f64::NEG_INFINITY } else { mean(bounds).value }
}
