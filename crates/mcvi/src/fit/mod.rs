//! Algorithm 2: maximise the bound by stochastic gradients.
//!
//! # When to stop
//!
//! With [`Schedule::Automatic`] the rule is that of Dhaka et al. (2020), "Robust, Accurate Stochastic Optimization for
//! Variational Inference", with the decreasing rates of Welandawe et al. (2022), "Robust, Automated, and Accurate
//! Black-box Variational Inference". At a constant rate the iterates of a stochastic optimiser become stationary and
//! wander about the optimum. They count as stationary when the split R̂ of every parameter, over the latter half of the
//! iterates at this rate, is below a threshold. Their average then replaces them, its bound is estimated with the same
//! noise each time, and the rate is lowered. The fit ends when a lower rate has improved the bound by less than the
//! tolerance or the error of the difference, or when it has taken all iterations allowed. What is returned is the
//! best average met.

mod iteration;
mod machine;
mod non_finite;
mod optimiser;
mod settings;
mod state;
mod training;
mod warm_start;

pub use crate::bound::Objective;
pub use iteration::KL_WEIGHT;
pub use machine::Fit;
pub use optimiser::Optimiser;
pub use settings::{Schedule, Settings};
pub use state::FitState;
pub use training::{IterationStats, Training};

use crate::approximation::Approximation;
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::Instant;

/// Why a fit stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A lower rate no longer improved the bound.
    Converged,
    /// It took all iterations that its settings allow.
    MaxIterations,
    /// The budget of iterations or seconds was used up, or would not have sufficed for the next chain.
    Budget,
    /// The observer asked for it.
    Interrupted,
}

impl StopReason {
    /// Whether there is nothing left to do: going on would change nothing.
    pub fn is_complete(self) -> bool {
        matches!(self, StopReason::Converged | StopReason::MaxIterations)
    }
}

/// A point of the trace: what an observer sees while a fit runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracePoint {
    /// Iterations so far.
    pub iteration: usize,
    /// Most iterations.
    pub iterations: usize,
    /// Mean of the bound's estimates since the last point; −∞ where a draw had no weight.
    pub bound: f64,
    /// Its standard error.
    pub se: f64,
    /// The learning rate.
    pub rate: f64,
    /// Seconds since the start.
    pub seconds: f64,
}

/// How a fit went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FitReport {
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// Iterations taken.
    pub iterations: usize,
    /// Seconds taken.
    pub seconds: f64,
    /// What the observer saw.
    pub trace: Vec<TracePoint>,
    /// Draws whose bound was not finite, over all iterations.
    pub diverged: usize,
    /// Iterations without a step, because the gradient was not finite.
    pub skipped: usize,
    /// How often the fit was taken back to the best place met, with a lower rate.
    pub rescues: usize,
}

/// Maximise the bound over everything that is learned.
pub fn fit(approximation: &mut Approximation, settings: &Settings) -> Result<FitReport> {
    fit_observed(approximation, settings, |_| ControlFlow::Continue(()))
}

/// The same, with an observer that sees every point of the trace and may stop the fit. To save a fit and resume it later,
/// use [`Fit`] itself.
pub fn fit_observed(
    approximation: &mut Approximation,
    settings: &Settings,
    observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
) -> Result<FitReport> {
    let mut allowed = Allowance::new(None, settings.seconds);
    let mut fit = Fit::new(approximation, settings)?;
    let stop_reason = fit.run(&mut allowed, observe)?;
    let (params, report) = fit.finish(stop_reason)?;
    approximation.params = params;
    Ok(report)
}

/// How much may still be spent, from now on.
#[derive(Clone, Debug)]
pub struct Allowance {
    iterations: Option<usize>,
    seconds: Option<f64>,
    begun: Instant,
    spent: usize,
}

impl Allowance {
    /// At most this many iterations and seconds, as far as given.
    pub fn new(iterations: Option<usize>, seconds: Option<f64>) -> Self {
        Allowance { iterations, seconds, begun: Instant::now(), spent: 0 }
    }

    /// Iterations spent so far.
    pub fn spent(&self) -> usize {
        self.spent
    }

    /// Count iterations that were taken elsewhere.
    pub fn spend(&mut self, iterations: usize) {
        self.spent += iterations;
    }

    /// Seconds left.
    pub fn seconds_left(&self) -> Option<f64> {
        self.seconds.map(|s| s - self.begun.elapsed().as_secs_f64())
    }

    /// Iterations left, where each takes `pace` seconds. However little time is given, one can be afforded: a fit
    /// that has not begun has nothing to show.
    pub fn iterations_left(&self, pace: f64) -> usize {
        let left = self.iterations.map_or(usize::MAX, |n| n.saturating_sub(self.spent));
        let timely = match self.seconds_left() {
            None => usize::MAX,
            Some(s) if s <= 0.0 => 0,
            // A number too large for its type becomes the largest.
            Some(s) => ((s / pace) as usize).max(1),
        };
        left.min(if self.spent == 0 { timely.max(1) } else { timely })
    }
}

impl Fit {
    /// Step until the fit is over, the allowance is used up ([`StopReason::Budget`]) or the observer asks for an end.
    pub fn run(
        &mut self,
        allowed: &mut Allowance,
        mut observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        loop {
            let most = allowed.iterations_left(self.pace());
            match self.complete() {
                Some(reason) => return Ok(reason),
                None if most == 0 => return Ok(StopReason::Budget),
                None => {}
            }
            let before = self.iterations();
            let point = self.step(most);
            allowed.spend(self.iterations() - before);
            if let Some(point) = point?
                && observe(&point).is_break()
            {
                return Ok(self.complete().unwrap_or(StopReason::Interrupted));
            }
        }
    }
}
