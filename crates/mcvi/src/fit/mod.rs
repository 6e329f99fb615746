//! Algorithm 2: maximise the bound by stochastic gradients.
//!
//! # When to stop
//!
//! With [`Schedule::Automatic`] a fit is a sequence of rounds. In each the learning rate falls to zero along half a cosine, and the next
//! one takes twice as many iterations: warm restarts (Loshchilov & Hutter 2017, "SGDR"). At the end of a round the average
//! of its iterates, the last ones weighted most, replaces the parameters if it is better, by the same draws each time. The fit ends when a round
//! has improved the bound by less than the tolerance or the standard error of the difference, or when it reaches the maximum
//! number of iterations. So it takes at most about twice the iterations that the last improvement needed, and can be judged between
//! rounds, when its rate is zero ([`Fit::run_round`]).

mod iteration;
mod machine;
mod non_finite;
mod optimiser;
mod settings;
mod state;
mod training;
mod warm_start;

pub use crate::bound::{KL_WEIGHT, Objective};
pub use machine::Fit;
pub use optimiser::Optimiser;
pub use settings::{Schedule, Settings};
pub use state::FitState;
pub use training::{IterationStats, Training};

use crate::approximation::Approximation;
use crate::chain::Chain;
use crate::error::Result;
use crate::hardware::{Ranks, agreed};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::Instant;

/// Why a fit stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A further round no longer improved the bound.
    Converged,
    /// Its verdict is good: there is no need for more.
    Sufficient,
    /// It reached the maximum number of iterations in its settings.
    MaxIterations,
    /// The budget of iterations or seconds was used up, or was too small for the next chain.
    Budget,
    /// The observer stopped it.
    Interrupted,
}

impl StopReason {
    /// Whether there is nothing left to do: continuing would change nothing.
    pub fn is_complete(self) -> bool {
        matches!(self, StopReason::Converged | StopReason::Sufficient | StopReason::MaxIterations)
    }
}

/// A trace point: what an observer sees while a fit runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TracePoint {
    /// Iterations so far.
    pub iteration: usize,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Mean of the bound's estimates since the last trace point; −∞ if a draw had no weight.
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
    /// The trace that the observer saw.
    pub trace: Vec<TracePoint>,
    /// Draws whose bound was not finite, over all iterations.
    pub diverged: usize,
    /// Iterations without a step, because the gradient was not finite.
    pub skipped: usize,
    /// How often the fit was reset to the best parameters so far, with a lower learning rate.
    pub rescues: usize,
}

impl FitReport {
    /// Of what was not fitted, since there was no need or no time.
    pub(crate) fn untouched(stop_reason: StopReason) -> Self {
        let (trace, seconds) = (vec![], 0.0);
        FitReport { stop_reason, iterations: 0, seconds, trace, diverged: 0, skipped: 0, rescues: 0 }
    }

    /// This fit and another one after it, whose trace is not kept.
    pub(crate) fn and(self, other: FitReport) -> Self {
        let last = !other.stop_reason.is_complete() || self.stop_reason == StopReason::Converged;
        FitReport {
            stop_reason: if last { other.stop_reason } else { self.stop_reason },
            iterations: self.iterations + other.iterations,
            seconds: self.seconds + other.seconds,
            trace: self.trace,
            diverged: self.diverged + other.diverged,
            skipped: self.skipped + other.skipped,
            rescues: self.rescues + other.rescues,
        }
    }
}

/// Maximise the bound over everything that is learned.
///
/// A chain with networks in time is fitted without them first and never ends below that (see
/// [`Chain::contained`](crate::Chain::contained)). If it has many steps, both are done with fewer, which are then halved until there are
/// as many. Each such stage has an equal share of the time that is left.
pub fn fit(approximation: &mut Approximation, settings: &Settings) -> Result<FitReport> {
    fit_observed(approximation, settings, |_| ControlFlow::Continue(()))
}

/// The same, with an observer that sees every trace point and may stop the fit. To save a fit and resume it later, use
/// [`Fit`] itself.
pub fn fit_observed(
    approximation: &mut Approximation,
    settings: &Settings,
    mut observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
) -> Result<FitReport> {
    // From the innermost chain outwards.
    let mut stages: Vec<Chain> = std::iter::successors(approximation.chain.before(), Chain::before).collect();
    let ranks = approximation.target.ranks();
    let mut allowed = Allowance::new(None, settings.seconds).shared_by(ranks);
    let whole = approximation.chain.clone();
    if let Some(innermost) = stages.last() {
        *approximation = approximation.fresh(innermost.clone())?;
    }
    while let Some(chain) = stages.pop() {
        let share = allowed.seconds_left().map(|s| s / (stages.len() + 2) as f64);
        *approximation = approximation.extended(chain)?;
        let report =
            fit_stage(approximation, settings, &mut Allowance::new(None, share).shared_by(ranks), &mut observe)?;
        allowed.spend(report.iterations);
        if report.stop_reason == StopReason::Interrupted {
            return Ok(report);
        }
    }
    *approximation = approximation.extended(whole)?;
    fit_stage(approximation, settings, &mut allowed, observe)
}

/// Iterations in which networks in time are learned.
const NETWORKS: usize = 60_000;

/// Fit one chain as it is.
fn fit_stage(
    approximation: &mut Approximation,
    settings: &Settings,
    allowed: &mut Allowance,
    observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
) -> Result<FitReport> {
    let settings = match approximation.chain.contained() {
        None => settings.clone(),
        Some(_) => Settings { iterations: settings.iterations.min(NETWORKS), ..settings.for_networks() },
    };
    let mut fit = Fit::new(approximation, &settings)?;
    fit.fit_in(allowed)?;
    let stop_reason = fit.run(allowed, observe)?;
    let (params, report) = fit.finish(stop_reason)?;
    approximation.params = params;
    Ok(report)
}

/// The remaining budget.
#[derive(Clone, Debug)]
pub struct Allowance {
    iterations: Option<usize>,
    seconds: Option<f64>,
    started: Instant,
    spent: usize,
    /// Those that go by the clock of the first.
    ranks: Option<Ranks>,
}

impl Allowance {
    /// At most this many iterations and seconds, if given.
    pub fn new(iterations: Option<usize>, seconds: Option<f64>) -> Self {
        Allowance { iterations, seconds, started: Instant::now(), spent: 0, ranks: None }
    }

    /// The same for ranks that work together: all go by the clock of the first.
    pub fn shared_by(self, ranks: Option<Ranks>) -> Self {
        Allowance { ranks, ..self }
    }

    /// Iterations spent so far.
    pub fn spent(&self) -> usize {
        self.spent
    }

    /// Count iterations taken elsewhere.
    pub fn spend(&mut self, iterations: usize) {
        self.spent += iterations;
    }

    /// What remains if so many seconds are kept back.
    pub(crate) fn without(&self, seconds: f64) -> Self {
        Allowance { seconds: self.seconds.map(|s| s - seconds), ..self.clone() }
    }

    /// Seconds left.
    pub fn seconds_left(&self) -> Option<f64> {
        self.seconds.map(|s| agreed(self.ranks, s - self.started.elapsed().as_secs_f64()))
    }

    /// Whether there is as much time left.
    pub(crate) fn suffices(&self, seconds: f64) -> bool {
        self.seconds_left().is_none_or(|left| agreed(self.ranks, seconds) <= left)
    }

    /// Iterations left, if each takes `pace` seconds. There is always at least one, however little time is given: a fit
    /// without any iteration would have no result.
    pub fn iterations_left(&self, pace: f64) -> usize {
        let left = self.iterations.map_or(usize::MAX, |n| n.saturating_sub(self.spent));
        let timely = match self.seconds_left() {
            None => usize::MAX,
            Some(s) if s <= 0.0 => 0,
            // A number too large for its type becomes the largest.
            Some(s) => (agreed(self.ranks, s / pace) as usize).max(1),
        };
        left.min(if self.spent == 0 { timely.max(1) } else { timely })
    }
}

impl Fit {
    /// If the learning rate depends on the number of iterations and time is limited, take the first iterations and lower that
    /// number to what time allows.
    fn fit_in(&mut self, allowed: &mut Allowance) -> Result<()> {
        if self.settings().schedule == Schedule::Cosine && allowed.seconds_left().is_some() {
            let before = self.iterations();
            self.step(usize::MAX)?;
            allowed.spend(self.iterations() - before);
            self.limit(self.iterations() + allowed.iterations_left(self.pace()));
        }
        Ok(())
    }

    /// Step until the fit is complete, the budget is used up ([`StopReason::Budget`]) or the observer stops it.
    pub fn run(
        &mut self,
        allowed: &mut Allowance,
        mut observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
    ) -> Result<StopReason> {
        loop {
            if let Some(reason) = self.run_round(allowed, &mut observe)? {
                return Ok(reason);
            }
        }
    }

    /// The same, but at most to the end of a round. None if there is more to come.
    pub fn run_round(
        &mut self,
        allowed: &mut Allowance,
        mut observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>> {
        loop {
            let most = allowed.iterations_left(self.pace());
            match self.complete() {
                Some(reason) => return Ok(Some(reason)),
                None if most == 0 => return Ok(Some(StopReason::Budget)),
                None => {}
            }
            let before = self.iterations();
            let point = self.step(most);
            allowed.spend(self.iterations() - before);
            if let Some(point) = point?
                && observe(&point).is_break()
            {
                return Ok(Some(self.complete().unwrap_or(StopReason::Interrupted)));
            }
            if self.is_between_rounds() && self.complete().is_none() {
                return Ok(None);
            }
        }
    }
}
