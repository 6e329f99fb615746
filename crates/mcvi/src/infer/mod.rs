//! One call from a model to a judged posterior, with every choice made and every choice open.
//!
//! Several overdispersed starts are compared by place and bound, so that separate modes are noticed. From the best,
//! chains of rising length are fitted until one is judged good, the ladder ends or the budget is used: a step is added
//! only where one is not enough.
//!
//! Every rung of the ladder is a fit of its own that depends on no other. What [`Checkpoint`] keeps is where each of
//! them stood; [`infer_from`] climbs the ladder again with those, so that it ends where it would have ended had it
//! never been stopped.

mod budget;
mod checkpoint;
mod climb;
mod ladder;
mod modes;
mod posterior;
mod verdict;

pub use budget::Budget;
pub use checkpoint::Checkpoint;
pub use climb::infer_from;
pub use ladder::hamiltonian as hamiltonian_chain;
pub use modes::Mode;
pub use posterior::{Attempt, Posterior};
pub use verdict::{Advice, Verdict, VerdictKind};

use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::{Settings, TracePoint};
use crate::hardware::Hardware;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Fewest draws a verdict is based on, so that it does not change with the seed.
const FEWEST: usize = 50_000;

/// What chain to fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChainChoice {
    /// From the target: longer ones where shorter ones are not good enough.
    Auto,
    /// None: plain variational inference with a Gaussian.
    None,
    /// Hamiltonian steps after a Gaussian.
    Hamiltonian {
        /// T.
        steps: usize,
        /// Leapfrogs of each.
        leapfrogs: usize,
    },
    /// This one.
    Given(Chain),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The chain.
    pub chain: ChainChoice,
    /// Whether q(z₀) has a full covariance; by default where there are few dimensions.
    pub full_covariance: Option<bool>,
    /// Starts of the search for modes.
    pub starts: usize,
    /// Draws to judge and to report from, at least 50,000.
    pub draws: usize,
    /// How to fit, each chain that is tried.
    pub settings: Settings,
    /// What may be spent on all of them together.
    pub budget: Budget,
    /// What to compute with. It belongs to the machine, not to the request that is saved.
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
    fn check(&self) -> Result<()> {
        let no = |what: &'static str, why: &str| Err(Error::Setting { what, why: why.to_owned() });
        if self.starts == 0 {
            return no("starts", "at least one is needed");
        }
        if let ChainChoice::Hamiltonian { steps, leapfrogs } = self.chain
            && (steps == 0 || leapfrogs == 0)
        {
            return no("chain", "needs at least one step and one leapfrog; for none, choose no chain");
        }
        self.budget.check()
    }
}

/// Find modes, fit, draw and judge.
pub fn infer(model: impl BayesianModel + 'static, request: &Request) -> Result<Posterior> {
    infer_observed(model, request, |_, _| ControlFlow::Continue(()))
}

/// The same, with an observer that sees every point of every fit's trace and may stop them.
pub fn infer_observed(
    model: impl BayesianModel + 'static,
    request: &Request,
    observe: impl FnMut(&str, &TracePoint) -> ControlFlow<()>,
) -> Result<Posterior> {
    infer_from(model, request, &Checkpoint::default(), observe)
}
