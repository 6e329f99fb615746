//! The budget for all fits together, and whether it suffices for one more.

use super::{Attempt, FEW, FEWEST};
use crate::chain::Chain;
use crate::compile::Compile;
use crate::error::{Error, Result};
use crate::fit::{Allowance, FitReport, Schedule, Settings};
use crate::hardware::{Hardware, Ranks, agreed};
use crate::in_parts::InParts;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::Choices;
use crate::target::{Target, evaluate};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The budget for all fits together; unlimited by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Maximum number of iterations. Results depend on this number alone.
    pub iterations: Option<usize>,
    /// Maximum number of seconds for all of it: searching, fitting, drawing and judging. Results depend on the machine.
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

/// Share of the time that the search for modes may take.
const SEARCH: f64 = 0.25;

/// A time by which something is to end, if there is one: on the clock of the first rank.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    end: Option<Instant>,
    ranks: Option<Ranks>,
}

impl Deadline {
    /// The end of the search.
    pub fn of_search(allowed: &Allowance, ranks: Option<Ranks>) -> Self {
        // None beyond what a clock can show.
        let end = |left: f64| {
            let share = Duration::try_from_secs_f64(SEARCH * left.max(0.0)).ok()?;
            Instant::now().checked_add(share)
        };
        Deadline { end: allowed.seconds_left().and_then(end), ranks }
    }

    /// Seconds until then.
    pub fn left(self) -> Option<f64> {
        self.end.map(|end| agreed(self.ranks, end.saturating_duration_since(Instant::now()).as_secs_f64()))
    }

    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left <= 0.0)
    }

    /// How often there is time for what takes so many seconds.
    pub fn times(self, seconds: f64) -> Option<f64> {
        self.left().map(|left| agreed(self.ranks, left / seconds))
    }
}

/// Rows of which the cost is estimated.
const ESTIMATED: usize = 64;

/// Rough nanoseconds that log p takes at a place, the same on every machine and on any number of ranks.
pub(super) fn evaluation(target: Arc<dyn Target>, hardware: Hardware) -> Result<f64> {
    let target = &InParts::one(target, Hardware { ranks: hardware.ranks, ..Hardware::default() });
    let compile = Compile {
        dtype: target.dtype(),
        rows: ESTIMATED,
        choices: Choices::Sample,
        initialisation: &Initialisation::standard(target.dim()),
        params: &Params::default(),
        hardware: Hardware::default(),
    };
    let (program, ()) = compile.program(|scope, program| {
        let z = scope.normal([ESTIMATED, target.dim()]);
        Ok((program.output("log_p", evaluate(target, scope, z)?), ()))
    })?;
    let cost = |part: f64| part * target.parts() as f64 / ESTIMATED as f64;
    let here = program.cost().map_or(1.0, |part| cost(part).max(1.0));
    Ok(agreed(hardware.ranks, here))
}

/// Nanoseconds that drawing for a verdict may take, and the fewest draws that it is made by.
const JUDGING: f64 = 4e9;
const LEAST: usize = 4000;
/// Evaluations of log p that a gradient costs.
const GRADIENT: f64 = 3.0;

/// Draws from a chain for a verdict, if one evaluation of log p takes `cost` nanoseconds: of nearly equal weights, and of others.
pub(super) fn draws(cost: f64, chain: &Chain) -> [usize; 2] {
    let affordable = JUDGING / (cost * GRADIENT * chain.gradients() as f64);
    [FEW, FEWEST].map(|most| (affordable as usize).clamp(LEAST, most))
}

/// Share of the time left that drawing for a verdict may take.
const DRAWING: f64 = 0.25;

/// Draws that time allows, if there are seconds `left` and one takes `pace`.
pub(super) fn timely(left: Option<f64>, pace: f64) -> usize {
    left.map_or(usize::MAX, |left| (DRAWING * left.max(0.0) / pace) as usize)
}

/// What it takes to draw from a chain and judge it, as measured on those before.
#[derive(Default)]
pub(super) struct Judging {
    /// Seconds for each gradient that a draw takes, times the draws of a verdict.
    pace: f64,
}

impl Judging {
    /// Count the seconds it took.
    pub fn took(&mut self, chain: &Chain, seconds: f64) {
        self.pace = seconds / chain.gradients() as f64;
    }

    /// What it will take.
    pub fn expected(&self, chain: &Chain) -> f64 {
        self.pace * chain.gradients() as f64
    }
}

/// Whether the next fit can start. Iterations are given to the last one, so that a fit stopped by the clock can be
/// repeated by their number. Time is planned, so that none is spent on a fit that is not expected to finish.
pub(super) fn affordable(allowed: &Allowance, chain: &Chain, settings: &Settings, past: &[Attempt]) -> bool {
    let Some((chain_before, last)) = fitted(past).last() else { return true };
    let expected =
        last.seconds / cost(chain_before, last.iterations) * cost(chain, expected_iterations(settings, past));
    allowed.iterations_left(0.0) > 0 && allowed.suffices(expected)
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
