//! The budget for all fits together, and whether it suffices for one more.

use super::Attempt;
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::{Allowance, FitReport, Schedule, Settings};
use serde::{Deserialize, Serialize};

/// The budget for all fits together; unlimited by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Maximum number of iterations. Results depend on this number alone.
    pub iterations: Option<usize>,
    /// Maximum number of seconds for searching and fitting, not counting drawing from and judging the last fit. Results
    /// depend on the machine.
    pub seconds: Option<f64>,
}

impl Budget {
    pub(super) fn check(self) -> Result<()> {
        let no = |what, why: String| Err(Error::Setting { what, why });
        match self {
            Budget { iterations: Some(0), .. } => no("iterations", "at least one is needed".to_owned()),
            Budget { seconds: Some(s), .. } if !(s > 0.0 && s.is_finite()) => {
                no("seconds", format!("{s} is not a positive number"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the next fit can start. Iterations are given to the last one, so that a fit stopped by the clock can be
/// repeated by their number. Time is planned, so that none is spent on a fit that is not expected to finish.
pub(super) fn affordable(allowed: &Allowance, chain: &Chain, settings: &Settings, past: &[Attempt]) -> bool {
    let Some((chain_before, last)) = fitted(past).last() else { return true };
    let expected =
        last.seconds / cost(chain_before, last.iterations) * cost(chain, expected_iterations(settings, past));
    allowed.iterations_left(0.0) > 0 && allowed.seconds_left().is_none_or(|left| expected <= left)
}

fn fitted(past: &[Attempt]) -> impl Iterator<Item = (&Chain, &FitReport)> {
    past.iter().filter_map(|a| Some((&a.chain, &a.outcome.as_ref().ok()?.report)))
}

/// A schedule runs to its end; a fit that stops by itself is likely to take about as long as the last one.
fn expected_iterations(settings: &Settings, past: &[Attempt]) -> usize {
    let longest = fitted(past).map(|(_, report)| report.iterations).max().unwrap_or(0);
    if settings.schedule == Schedule::Automatic { longest.min(settings.iterations) } else { settings.iterations }
}

/// The cost of a fit, in units of one gradient of the target over the rows of an iteration.
fn cost(chain: &Chain, iterations: usize) -> f64 {
    // Networks take twice the rows, and time of their own.
    let networks = if chain.has_network() { 4 } else { 1 };
    (chain.gradients() * networks * iterations.max(1)) as f64
}
