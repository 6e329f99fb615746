//! Settings of a fit, validated once.

use super::{Objective, Optimiser};
use crate::error::{Error, Result};
use crate::limits::{self, positive, within};
use serde::{Deserialize, Serialize};

/// Learning rate schedules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// To zero in rounds, each longer than the one before, until a round no longer helps; see [`fit`](super::fit).
    Automatic,
    /// Constant.
    Constant,
    /// To zero along half a cosine.
    Cosine,
    /// Halved each time this many iterations have been taken.
    Halving(usize),
}

/// Settings of a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The objective.
    pub objective: Objective,
    /// Before the first iteration, improve the initial parameters over a fixed sample, if the inverse models are
    /// regressions.
    pub warm_start: bool,
    /// Draws per gradient.
    pub draws: usize,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// The initial learning rate, in units of each parameter's scale.
    pub rate: f64,
    /// The learning rate of the transitions' parameters (step sizes, masses, momenta, temperatures) relative to the
    /// others.
    pub transition_rate: f64,
    /// The learning rate schedule.
    pub schedule: Schedule,
    /// Iterations of the first round of an automatic schedule.
    pub first_round: usize,
    /// Each round takes this many times the iterations of the one before.
    pub growth: usize,
    /// Clip gradients at this multiple of their usual size.
    pub clip: f64,
    /// Weight decay: shrink arrays of two axes or more, which are weights, by this times the learning rate in every
    /// iteration (Loshchilov & Hutter, 2019).
    pub weight_decay: f64,
    /// Average all iterates. Large models are better averaged now and then, outside of the fit.
    pub average: bool,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Maximum number of seconds, if limited. The result then depends on the machine; it can be repeated exactly with
    /// the number of iterations taken.
    pub seconds: Option<f64>,
    /// An improvement of the bound, in nats, that is too small to continue for.
    pub tolerance: f64,
    /// The random seed.
    pub seed: u64,
    /// Parts that draws are divided into: gradients are computed for each and added in their order, by as many ranks as there are. Results
    /// depend on it, not on the number of ranks.
    #[serde(skip)]
    pub parts: usize,
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
            first_round: 500,
            growth: 2,
            clip: 10.0,
            weight_decay: 0.0,
            average: true,
            iterations: 100_000,
            seconds: None,
            tolerance: 2e-3,
            seed: 1,
            parts: 1,
        }
    }
}

impl Settings {
    /// The settings that a fit depends on: all but its time limit and, unless the learning rate depends on it, its
    /// maximum number of iterations.
    pub(super) fn identity(&self) -> Self {
        let iterations = if self.schedule == Schedule::Cosine { self.iterations } else { 0 };
        Settings { iterations, seconds: None, ..self.clone() }
    }

    /// These settings for a chain with networks. They cannot be initialised by regression: they are learned with more draws, more
    /// slowly, and to the end of the schedule.
    pub(crate) fn for_networks(&self) -> Self {
        if self.schedule != Schedule::Automatic {
            return self.clone();
        }
        Settings { draws: 2 * self.draws, rate: self.rate / 3.0, schedule: Schedule::Cosine, ..self.clone() }
    }

    pub(crate) fn check(&self) -> Result<()> {
        positive("learning rate", self.rate)?;
        positive("rate of the transitions", self.transition_rate)?;
        positive("clipping", self.clip)?;
        positive("tolerance", self.tolerance)?;
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            let why = format!("{} is not a finite number of at least 0", self.weight_decay);
            return Err(Error::Setting { what: "weight decay", why });
        }
        self.seconds.map_or(Ok(()), |s| positive("seconds", s))?;
        within("draws per gradient", self.draws, 1..=limits::GRADIENT_DRAWS)?;
        within("iterations of the first round", self.first_round, 1..=limits::ROUND)?;
        within("growth of rounds", self.growth, 1..=limits::GROWTH)?;
        if self.iterations == 0 {
            return Err(Error::Setting { what: "iterations", why: "at least one is needed".to_owned() });
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
