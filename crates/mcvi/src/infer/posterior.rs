//! The result of inference: a fitted approximation, draws from it, a verdict, and summaries of the model's parameters.

use super::{Checkpoint, FEW, Mode, Verdict};
use crate::approximation::{Diagnostics, Draws, Mixture};
use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::diagnostics::{LogMean, Mean, RELIABLE_K, SummaryTable, Weights, mean, summarise};
use crate::error::Result;
use crate::fit::{FitReport, StopReason};
use crate::hardware::Hardware;
use crate::model::{Quantities, Quantity};
use std::sync::Arc;

/// A fitted approximation with draws and a verdict.
#[non_exhaustive]
pub struct Posterior {
    /// The model.
    pub model: Arc<dyn BayesianModel>,
    /// The fitted approximation, with a part for each mode.
    pub approximation: Mixture,
    /// Draws from it.
    pub draws: Draws,
    /// Their diagnostics.
    pub diagnostics: Diagnostics,
    /// Whether to trust it.
    pub verdict: Verdict,
    /// The modes found, the best first.
    pub modes: Vec<Mode>,
    /// log p(x) by annealing from wide starts, without the fit; none where that was not possible.
    pub outside: Option<LogMean>,
    /// The chains that were tried, in order, those that failed included.
    pub attempts: Vec<Attempt>,
    /// The index of the one that was kept.
    pub kept: usize,
    /// Why inference stopped.
    pub stop_reason: StopReason,
    /// Iterations over all fits, including those that failed. As a [`Budget`](super::Budget) they repeat a fit that was
    /// interrupted exactly; where time was limited, searching and drawing depended on it too.
    pub iterations: usize,
    /// The state of every fit, for resuming.
    pub checkpoint: Checkpoint,
}

/// A chain that was tried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The chain.
    pub chain: Chain,
    /// How its fit went, or why it failed.
    pub outcome: std::result::Result<Fitted, String>,
}

/// A fit that was judged.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fitted {
    /// How the fit went.
    pub report: FitReport,
    /// Diagnostics of its draws.
    pub diagnostics: Diagnostics,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// Numbers of which summaries are made at most: large generated quantities of all draws would not fit into memory.
const NUMBERS: usize = 50_000_000;

/// How many of the draws have their quantities summarised and judged.
pub(super) fn reportable(model: &dyn BayesianModel, z: &[Vec<f64>]) -> Result<usize> {
    let one = model.quantities(&z[..1], None, Hardware::default())?;
    let size: usize = one.parameters.iter().chain(&one.generated).map(Quantity::size).sum();
    Ok((NUMBERS / size.max(1)).max(FEW).min(z.len()))
}

impl Posterior {
    /// Whether draws can be reweighted: the tail of their weights is light enough, and no draw has zero weight.
    pub fn is_reweightable(&self) -> bool {
        self.diagnostics.pareto_k <= RELIABLE_K && self.diagnostics.lost == 0
    }

    /// The weights to use in averages over the draws: Pareto-smoothed importance weights if these are reliable,
    /// otherwise equal ones.
    pub fn weights(&self) -> Weights {
        if self.is_reweightable() {
            Weights::smoothed(&self.draws.log_weights)
        } else {
            Weights::even(self.draws.log_weights.len())
        }
    }

    /// The effective share of the draws, given the weights.
    pub fn effective_share(&self) -> f64 {
        self.diagnostics.effective_share()
    }

    /// The marginal of every element of every parameter and generated quantity. Print it for a table.
    pub fn summaries(&self) -> Result<SummaryTable> {
        let (z, hardware) = (&self.draws.z, self.approximation.hardware());
        let count = reportable(self.model.as_ref(), z)?;
        let weights = self.weights().first(count);
        let all = self.model.quantities(&z[..count], None, hardware)?;
        let summary = |(name, column): (String, Vec<f64>)| (name, summarise(&column, &weights));
        let quantities = all.parameters.iter().chain(&all.generated);
        Ok(SummaryTable(quantities.flat_map(Quantity::columns).map(summary).collect()))
    }

    /// Quantities of the first `count` draws, without reweighting: parameters, generated quantities, the log likelihood
    /// of each observation, and replicated observations.
    pub fn quantities(&self, count: usize, seed: u64) -> Result<Quantities> {
        let count = count.min(self.draws.z.len());
        self.model.quantities(&self.draws.z[..count], Some(seed), self.approximation.hardware())
    }

    /// `count` draws of equal weight, resampled from all of them in random order; none if they cannot be reweighted.
    pub fn resampled(&self, count: usize, seed: u64) -> Option<Draws> {
        self.is_reweightable().then(|| self.draws.resampled(count, seed))
    }

    /// An *estimate* of the upper bound on log p(x): the mean of U from `count` draws, resampled by their weights, in
    /// place of draws from the posterior. None if they cannot be reweighted.
    ///
    /// It is no bound: mass that the draws have missed is missing here too. The standard error is that of independent
    /// draws, which resampled ones are only nearly.
    pub fn upper_estimate(&self, count: usize, seed: u64) -> Result<Option<Mean>> {
        let Some(draws) = self.resampled(count, seed) else { return Ok(None) };
        self.approximation.upper_bounds(&draws.z, seed).map(|upper| Some(mean(&upper)))
    }
}
