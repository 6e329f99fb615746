//! Judging fits by their draws: by few where these say already that a fit is not good, otherwise by many.

use super::budget::timely;
use super::ladder;
use super::verdict::{Evidence, Verdict, VerdictKind, may_be_good};
use super::{Attempt, Fitted, Request};
use crate::approximation::{Approximation, Diagnostics, Draws, Mixture};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::FitReport;
use crate::hardware::agreed;
use crate::seed::derive_seed;
use std::time::Instant;

/// Draws by which the time that more of them take is planned.
const PILOT: usize = 1000;
/// Effective share and k̂ of weights that are nearly equal.
const SETTLED: f64 = 0.9;
const SETTLED_K: f64 = 0.5;

/// What fits are judged by.
pub(super) struct Judge<'a> {
    pub evidence: Evidence<'a>,
    pub request: &'a Request,
}

/// Draws, and the seconds that one took.
struct Drawn {
    draws: Draws,
    diagnostics: Diagnostics,
    pace: f64,
}

/// A fit with draws and a verdict.
pub(super) struct Judged {
    pub approximation: Mixture,
    pub draws: Draws,
    pub diagnostics: Diagnostics,
    pub verdict: Verdict,
    /// Whether it is only a stage of the chain asked for.
    is_stage: bool,
    /// Draws that a verdict takes if their weights are not nearly equal, and whether it was made by them.
    many: usize,
    is_settled: bool,
    /// Seconds that a draw took, and that a verdict by many takes.
    pace: f64,
    seconds: f64,
}

impl Judge<'_> {
    /// A verdict by `few` draws where these cannot be called good, and else by `many`, as far as the seconds `left` allow.
    pub fn judge(
        &self,
        parts: Vec<Approximation>,
        is_stage: bool,
        [few, many]: [usize; 2],
        left: Option<f64>,
    ) -> Result<Judged> {
        let since = Instant::now();
        let approximation = Mixture::new(parts, self.request.settings.seed)?;
        let first = if left.is_some() { PILOT.min(few) } else { few };
        let mut drawn = self.draw(&approximation, first)?;
        let count = timely(left, drawn.pace).clamp(self.request.draws.min(few), few);
        if count > first {
            drawn = self.draw(&approximation, count)?;
        }
        let is_settled = may_be_good(&drawn.draws, &drawn.diagnostics);
        if is_settled {
            drawn = self.more(&approximation, drawn, many, left)?;
        }
        let Drawn { draws, diagnostics, pace } = drawn;
        let verdict = self.evidence.judge(&approximation, &draws, &diagnostics)?;
        let seconds = since.elapsed().as_secs_f64() * (many as f64 / draws.z.len() as f64).max(1.0);
        Ok(Judged { approximation, draws, diagnostics, verdict, is_stage, many, is_settled, pace, seconds })
    }

    /// The verdict by many draws, if it was made by few.
    fn settle(&self, judged: Judged, left: Option<f64>) -> Result<Judged> {
        let Judged { approximation, draws, diagnostics, many, pace, .. } = judged;
        let drawn = Drawn { draws, diagnostics, pace };
        let Drawn { draws, diagnostics, pace } = self.more(&approximation, drawn, many, left)?;
        let verdict = self.evidence.judge(&approximation, &draws, &diagnostics)?;
        Ok(Judged { approximation, draws, diagnostics, verdict, is_settled: true, pace, ..judged })
    }

    /// As many draws as a verdict takes and the request wants.
    fn more(&self, approximation: &Mixture, drawn: Drawn, many: usize, left: Option<f64>) -> Result<Drawn> {
        let has = drawn.draws.z.len();
        // More of nearly equal weights say nothing new.
        let is_even = drawn.diagnostics.effective_share() >= SETTLED && drawn.diagnostics.pareto_k <= SETTLED_K;
        let enough = if is_even { has } else { many };
        let count = enough.min(timely(left, drawn.pace)).max(self.request.draws);
        if count > has { self.draw(approximation, count) } else { Ok(drawn) }
    }

    fn draw(&self, approximation: &Mixture, count: usize) -> Result<Drawn> {
        let since = Instant::now();
        let draws = approximation.draw(count, derive_seed(self.request.settings.seed, "posterior draws"))?;
        let diagnostics = draws.diagnose();
        // Ranks go by one clock.
        let ranks = approximation.parts().next().and_then(|(part, _)| part.target().ranks());
        Ok(Drawn { draws, diagnostics, pace: agreed(ranks, since.elapsed().as_secs_f64() / count as f64) })
    }
}

impl Judged {
    pub fn is_good(&self) -> bool {
        self.verdict.kind == VerdictKind::Good
    }

    /// Whether there is no need of a longer chain, after so many.
    pub fn is_enough(&self, chain: &Chain, before: usize) -> bool {
        !self.is_stage && self.is_good() && ladder::is_enough(chain, &self.diagnostics, before + 1)
    }

    /// What is said of the fit.
    pub fn fitted(&self, report: FitReport) -> Fitted {
        Fitted { report, diagnostics: self.diagnostics.clone(), verdict: self.verdict.clone() }
    }

    /// Seconds that a verdict by many draws takes.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Smaller is better.
    fn rank(&self) -> (bool, usize, f64) {
        (self.is_stage, self.verdict.kind as usize, -self.diagnostics.bound.value)
    }
}

/// The fits so far, each with the index of its attempt.
#[derive(Default)]
pub(super) struct Tried(Vec<(usize, Judged)>);

impl Tried {
    pub fn add(&mut self, attempt: usize, judged: Judged) {
        self.0.push((attempt, judged));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The best kind of verdict so far.
    pub fn best_kind(&self) -> Option<VerdictKind> {
        self.best().map(|i| self.0[i].1.verdict.kind)
    }

    /// A longer chain that is no better is not used.
    fn best(&self) -> Option<usize> {
        let better = |best: usize, i: usize| if self.0[i].1.rank() < self.0[best].1.rank() { i } else { best };
        (0..self.0.len()).reduce(better)
    }

    /// The best of them, judged by many draws, and the index of its attempt. Attempts learn what these say.
    pub fn into_best(
        mut self,
        judge: &Judge<'_>,
        left: impl Fn() -> Option<f64>,
        attempts: &mut [Attempt],
    ) -> Result<(usize, Judged)> {
        loop {
            let best = self.best().ok_or_else(|| Error::Fit { why: "nothing was fitted".to_owned() })?;
            let (attempt, judged) = self.0.swap_remove(best);
            if judged.is_settled {
                return Ok((attempt, judged));
            }
            let judged = judge.settle(judged, left())?;
            if let Ok(fitted) = &mut attempts[attempt].outcome {
                *fitted = judged.fitted(fitted.report.clone());
            }
            self.0.push((attempt, judged));
            self.0.sort_by_key(|(attempt, _)| *attempt);
        }
    }
}
