//! Settings for training a deep model, validated once.

use crate::error::{Error, Result};
use crate::limits::{self, positive, within};
use serde::{Deserialize, Serialize};

/// Learning rate schedules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// Constant.
    None,
    /// To zero over all epochs, along half a cosine.
    Cosine,
    /// Lowered by a factor whenever the validation bound has not improved for some epochs.
    Plateau,
}

/// Settings for training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainSettings {
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Images per minibatch.
    pub batch: usize,
    /// The initial learning rate of Adam.
    pub rate: f64,
    /// The learning rate of step sizes, masses and momentum distributions, relative to the others.
    pub chain_rate: f64,
    /// The learning rate schedule.
    pub decay: Decay,
    /// Epochs without a better validation bound before the learning rate is lowered, with [`Decay::Plateau`].
    pub patience: usize,
    /// The factor by which the learning rate is lowered, then and when training is reset to a checkpoint.
    pub factor: f64,
    /// Early stopping: epochs without a better validation bound before training ends.
    pub stop: usize,
    /// KL warm-up: epochs over which the KL weight rises from 0 to 1.
    pub warm_up: f64,
    /// Epochs over which weights are averaged; validation, and everything after training, uses the average.
    pub average: f64,
    /// Clip gradients at this multiple of their usual size.
    pub clip: f64,
    /// Weight decay: shrink the weights of networks, not their biases, by this times the learning rate in every step.
    pub weight_decay: f64,
    /// Train on the validation images too. They then decide nothing: training runs for all epochs and keeps the last.
    pub join: bool,
    /// Draw pixels afresh from grey values every time.
    pub fresh: bool,
    /// The random seed of weights, noise and the order of images.
    pub seed: u64,
    /// Parts of a minibatch, for as many ranks at most. Results depend on it, not on the number of ranks.
    pub parts: usize,
}

impl Default for TrainSettings {
    fn default() -> Self {
        TrainSettings {
            epochs: 100,
            batch: 100,
            rate: 1e-3,
            chain_rate: 5.0,
            decay: Decay::Cosine,
            patience: 10,
            factor: 0.5,
            stop: 50,
            warm_up: 10.0,
            average: 2.0,
            clip: 10.0,
            weight_decay: 0.0,
            join: false,
            fresh: false,
            seed: 1,
            parts: 1,
        }
    }
}

impl TrainSettings {
    /// Returns the first invalid setting as an error.
    pub fn check(&self, images: usize) -> Result<()> {
        for (what, x) in [("rate", self.rate), ("rate of the chain", self.chain_rate), ("clipping", self.clip)] {
            positive(what, x)?;
        }
        for (what, x) in [("warm-up", self.warm_up), ("averaging", self.average), ("weight decay", self.weight_decay)] {
            if !(x >= 0.0 && x.is_finite()) {
                return Err(Error::Setting { what, why: format!("{x} is not a finite number of at least 0") });
            }
        }
        for (what, n) in [("epochs", self.epochs), ("patience", self.patience), ("early stopping", self.stop)] {
            if n == 0 {
                return Err(Error::Setting { what, why: "at least one epoch is needed".to_owned() });
            }
        }
        within("epochs", self.epochs, 1..=limits::EPOCHS)?;
        if !(self.factor > 0.0 && self.factor < 1.0) {
            let why = format!("the factor that lowers the learning rate must lie between 0 and 1; got {}", self.factor);
            return Err(Error::Setting { what: "decay", why });
        }
        if self.join && self.decay == Decay::Plateau {
            let why = "validation images that are trained on cannot decide when to lower the learning rate; use cosine or none";
            return Err(Error::Setting { what: "decay", why: why.to_owned() });
        }
        if self.batch == 0 || self.batch > images {
            let why = format!("{} is not between 1 and {images}, the number of training images", self.batch);
            return Err(Error::Setting { what: "batch", why });
        }
        if self.parts == 0 || !self.batch.is_multiple_of(self.parts) {
            let why = format!("a batch of {} images cannot be divided into {} equal parts", self.batch, self.parts);
            return Err(Error::Setting { what: "parts", why });
        }
        Ok(())
    }
}
