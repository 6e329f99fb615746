//! How to fit: what was asked, checked once.

use super::{Objective, Optimiser};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the learning rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Lowered whenever the iterates have become stationary, until lowering it no longer helps; see [`fit`](super::fit).
    Automatic,
    /// The same throughout.
    Constant,
    /// Down to nothing along half a cosine.
    Cosine,
    /// Halved after this many iterations, again and again.
    Halving(usize),
}

/// How to fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// What is maximised.
    pub objective: Objective,
    /// Before the first iteration, improve the start over a fixed sample where the inverse models are regressions.
    pub warm_start: bool,
    /// Draws for each gradient.
    pub draws: usize,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The learning rate to begin with, in units of each parameter's scale.
    pub rate: f64,
    /// The rate of the transitions' parameters (step sizes, masses, momenta, temperatures) relative to the others.
    pub transition_rate: f64,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// Clip gradients at this multiple of their usual size.
    pub clip: f64,
    /// Shrink arrays of two axes or more, which are weights, by this times the learning rate in every iteration
    /// (Loshchilov & Hutter, 2019).
    pub weight_decay: f64,
    /// Average the iterates as they come. What is large is better averaged from time to time, outside.
    pub average: bool,
    /// Most iterations.
    pub iterations: usize,
    /// Most seconds, if not as many as it takes. What is reached then depends on the machine; the same number of
    /// iterations, asked for as such, repeats it exactly.
    pub seconds: Option<f64>,
    /// An improvement of the bound, in nats, that is not worth going on for.
    pub tolerance: f64,
    /// The seed of all draws.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            objective: Objective::Bound,
            warm_start: true,
            draws: 16,
            optimiser: Optimiser::default(),
            rate: 0.03,
            transition_rate: 1.0,
            schedule: Schedule::Automatic,
            clip: 10.0,
            weight_decay: 0.0,
            average: true,
            iterations: 100_000,
            seconds: None,
            tolerance: 2e-3,
            seed: 1,
        }
    }
}

impl Settings {
    /// What a fit depends on: all but how long it may take, unless the rate follows from it.
    pub(super) fn identity(&self) -> Self {
        let iterations = if self.schedule == Schedule::Cosine { self.iterations } else { 0 };
        Settings { iterations, seconds: None, ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<()> {
        let positive = |what: &'static str, x: f64| match x > 0.0 && x.is_finite() {
            true => Ok(()),
            false => Err(Error::Setting { what, why: format!("{x} is not a positive number") }),
        };
        positive("learning rate", self.rate)?;
        positive("rate of the transitions", self.transition_rate)?;
        positive("clipping", self.clip)?;
        positive("tolerance", self.tolerance)?;
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            let why = format!("{} is not a number from 0 on", self.weight_decay);
            return Err(Error::Setting { what: "weight decay", why });
        }
        self.seconds.map_or(Ok(()), |s| positive("seconds", s))?;
        for (what, n) in [("draws", self.draws), ("iterations", self.iterations)] {
            if n == 0 {
                return Err(Error::Setting { what, why: "at least one is needed".to_owned() });
            }
        }
        let (names, decays): (&str, &[f64]) = match &self.optimiser {
            Optimiser::Adam { beta1, beta2 } => ("the decays of Adam", &[*beta1, *beta2]),
            Optimiser::Sgd { momentum } => ("the momentum", &[*momentum]),
            Optimiser::RmsProp { decay } => ("the decay of RMSProp", &[*decay]),
            Optimiser::AdaGrad => ("", &[]),
        };
        if !decays.iter().all(|d| (0.0..1.0).contains(d)) {
            let why = format!("{names} must be at least 0 and less than 1; got {decays:?}");
            return Err(Error::Setting { what: "optimiser", why });
        }
        if let Schedule::Halving(0) = self.schedule {
            return Err(Error::Setting { what: "schedule", why: "halve after at least one iteration".to_owned() });
        }
        Ok(())
    }
}
