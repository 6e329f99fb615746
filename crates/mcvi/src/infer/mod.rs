//! One call from a model to a posterior with a verdict; every choice has a default and can be changed.
//!
//! Several overdispersed starting points are compared by location and bound, to detect separate modes. From the best,
//! chains of increasing length are fitted until one is good, the ladder ends or the budget is used up: a step is added
//! only if one is not enough.
//!
//! Every rung of the ladder is a fit of its own, which may begin with the result of the one before. A [`Checkpoint`] holds
//! the state of each. [`infer_from`] climbs the ladder again with those, so that the result is the same as if it had never
//! stopped.

mod budget;
mod checkpoint;
mod climb;
mod judge;
mod ladder;
mod modes;
mod outside;
mod posterior;
mod predictive;
mod rays;
mod verdict;

pub use budget::Budget;
pub use checkpoint::Checkpoint;
pub use climb::infer_from;
pub use ladder::hamiltonian as hamiltonian_chain;
pub use modes::Mode;
pub use posterior::{Attempt, Fitted, Posterior};
pub use predictive::{PredictiveCheck, Statistic};
pub use verdict::{Advice, Verdict, VerdictKind};

use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::{Settings, StopReason, TracePoint};
use crate::hardware::Hardware;
use crate::limits::{self, within};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Number of draws for a verdict, so that it does not depend on the seed; fewer where the log density takes long.
const FEWEST: usize = 50_000;
/// The same where their weights are nearly equal.
const FEW: usize = 10_000;

/// Which chain to fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
// There is one of them in a request: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[non_exhaustive]
pub enum ChainChoice {
    /// Chosen by need: longer chains if shorter ones are not good enough.
    Auto,
    /// None: plain variational inference with a Gaussian.
    None,
    /// Hamiltonian steps after a Gaussian.
    Hamiltonian {
        /// T.
        steps: usize,
        /// Leapfrogs per step.
        leapfrogs: usize,
    },
    /// This chain.
    Given(Chain),
}

/// A request for inference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The chain.
    pub chain: ChainChoice,
    /// Whether q(z₀) has a full covariance; by default in few dimensions.
    pub full_covariance: Option<bool>,
    /// Starting points for the search for modes.
    pub starts: usize,
    /// Number of draws for the report; the verdict uses at least 50,000, or 10,000 of nearly equal weight; fewer, at least
    /// 4000, where the log density takes long.
    pub draws: usize,
    /// Settings for the fit of each chain that is tried.
    pub settings: Settings,
    /// The budget for all fits together.
    pub budget: Budget,
    /// The hardware. It belongs to the machine, and is not saved with the request.
    #[serde(skip)]
    pub hardware: Hardware,
}

impl Default for Request {
    fn default() -> Self {
        let settings = Settings { iterations: 40_000, ..Settings::default() };
        Request {
            chain: ChainChoice::Auto,
            full_covariance: None,
            starts: 8,
            draws: FEWEST,
            settings,
            budget: Budget::default(),
            hardware: Hardware::default(),
        }
    }
}

impl Request {
    /// Returns the first invalid setting as an error. It is called before anything is fitted; call it yourself where
    /// a request from a file is to be refused earlier.
    pub fn check(&self) -> Result<()> {
        within("starts", self.starts, 1..=limits::STARTS)?;
        within("draws", self.draws, 1..=limits::DRAWS)?;
        match &self.chain {
            ChainChoice::Hamiltonian { steps, leapfrogs } if *steps == 0 || *leapfrogs == 0 => {
                let why = "needs at least one step and one leapfrog; for none, choose no chain".to_owned();
                return Err(Error::Setting { what: "chain", why });
            }
            ChainChoice::Hamiltonian { steps, leapfrogs } => {
                hamiltonian_chain(1, false, *steps, *leapfrogs, 0).check()?;
            }
            ChainChoice::Given(chain) => chain.check()?,
            ChainChoice::Auto | ChainChoice::None => {}
        }
        self.settings.check()?;
        self.budget.check()
    }
}

/// What an observer of [`infer_from`] sees.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A point in the trace of the fit of this chain. Breaking here stops the fit.
    Trace {
        /// The chain, in words.
        chain: &'a str,
        /// The point.
        point: &'a TracePoint,
    },
    /// A round of a fit has ended, and another one follows. The state can be saved, lest the process be killed. Breaking here stops
    /// the fit.
    Round {
        /// The state to resume it from.
        state: &'a Checkpoint,
    },
    /// The fit has stopped before it was complete. The state can be saved now, before draws are made: a process that was
    /// told to end may have little time left.
    Stopped {
        /// Why it stopped.
        reason: StopReason,
        /// The state to resume it from.
        state: &'a Checkpoint,
    },
}

/// Find modes, fit, draw and judge.
pub fn infer(model: impl BayesianModel + 'static, request: &Request) -> Result<Posterior> {
    infer_observed(model, request, |_, _| ControlFlow::Continue(()))
}

/// The same, with an observer that sees every trace point of every fit and may stop them.
pub fn infer_observed(
    model: impl BayesianModel + 'static,
    request: &Request,
    mut observe: impl FnMut(&str, &TracePoint) -> ControlFlow<()>,
) -> Result<Posterior> {
    infer_from(model, request, &Checkpoint::default(), |event| match event {
        Event::Trace { chain, point } => observe(chain, point),
        Event::Round { .. } | Event::Stopped { .. } => ControlFlow::Continue(()),
    })
}
