//! The verdict: whether to trust an approximation, why, and what to try next.

use super::modes::Mode;
use crate::approximation::{Diagnostics, Draws};
use crate::diagnostics::{RELIABLE_K, Weights, summarise};
use crate::fit::StopReason;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Minimum effective share of the draws.
const EFFECTIVE: f64 = 0.25;
/// Maximum distance between the means of draws with and without weights, in standard deviations.
const OFF: f64 = 0.1;
/// Maximum factor by which reweighting may change a standard deviation: weights can correct the draws only so far.
const STRETCHED: f64 = 1.25;
/// Pareto k̂ and effective share at which a Gaussian alone counts as good: its tails are thinner than most.
const PLAIN_K: f64 = 0.5;
const PLAIN_EFFECTIVE: f64 = 0.8;

/// Number of modes listed one by one.
const NAMED: usize = 4;

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// Draws and bound can be used as they are.
    Good,
    /// Usable if the draws are reweighted.
    Reweight,
    /// Not reliable.
    DoNotTrust,
}

impl VerdictKind {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            VerdictKind::Good => "good",
            VerdictKind::Reweight => "reweight",
            VerdictKind::DoNotTrust => "do-not-trust",
        }
    }
}

/// Whether to trust an approximation.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In one word.
    pub kind: VerdictKind,
    /// Why.
    pub reasons: Vec<String>,
    /// What to try next.
    pub advice: Vec<Advice>,
}

/// What to try next. How to do it depends on the caller: a command has options, a program has settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Advice {
    /// Constrain the parameters so that the density is finite everywhere.
    Constrain,
    /// Fit the modes separately, or break the symmetry that causes them.
    SeparateModes,
    /// Add a chain after the Gaussian.
    AddChain,
    /// Use a longer chain.
    LongerChain,
    /// Use parameters in which the posterior is closer to a Gaussian.
    Reparameterise,
    /// Use more and smaller leapfrogs.
    SmallerSteps,
    /// Allow a larger budget.
    LargerBudget,
    /// Let the fit finish.
    Finish,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Advice::Constrain => "constrain the parameters so that the density is finite everywhere",
            Advice::SeparateModes => "fit the modes separately, or break the symmetry that causes them",
            Advice::AddChain => "add a chain after the Gaussian",
            Advice::LongerChain => "use a longer chain",
            Advice::Reparameterise => "use parameters in which the posterior is closer to a Gaussian",
            Advice::SmallerSteps => "use more and smaller leapfrogs",
            Advice::LargerBudget => "allow a larger budget",
            Advice::Finish => "let the fit finish",
        })
    }
}

impl Verdict {
    fn find(&mut self, worse: VerdictKind, reason: String, advice: Advice) {
        self.kind = self.kind.max(worse);
        self.reasons.push(reason);
        self.advise(advice);
    }

    fn advise(&mut self, advice: Advice) {
        if !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }

    /// Add why it stopped, if it was not complete.
    pub(super) fn note(&mut self, stop_reason: StopReason) {
        let (reason, advice) = match stop_reason {
            StopReason::Converged | StopReason::MaxIterations => return,
            StopReason::Budget => ("the budget was used up before the fit was complete", Advice::LargerBudget),
            StopReason::Interrupted => ("the fit was interrupted before it was complete", Advice::Finish),
        };
        self.find(VerdictKind::Good, reason.to_owned(), advice);
    }
}

/// Judge by the weights of the draws and the modes found.
pub(super) fn judge(draws: &Draws, diagnostics: &Diagnostics, modes: &[Mode]) -> Verdict {
    let n = draws.z.len() as f64;
    let plain = draws.steps.is_empty();
    let share = diagnostics.effective_share();
    let mut verdict = Verdict { kind: VerdictKind::Good, reasons: vec![], advice: vec![] };
    if diagnostics.lost > 0 {
        let reason = format!("{} of {n} draws have no weight: the bound is −∞", diagnostics.lost);
        verdict.find(VerdictKind::DoNotTrust, reason, Advice::Constrain);
    }
    if modes.len() > 1 {
        let reason = format!(
            "{} separate modes were found and only the largest was fitted; the others hold about {:.0} % of the mass",
            modes.len(),
            100.0 * (1.0 - modes[0].share)
        );
        verdict.find(VerdictKind::DoNotTrust, reason, Advice::SeparateModes);
        verdict.reasons.extend(modes.iter().take(NAMED).enumerate().map(|(i, mode)| name(i + 1, mode)));
        if modes.len() > NAMED {
            verdict.reasons.push(format!("and {} smaller modes", modes.len() - NAMED));
        }
    }
    if diagnostics.pareto_k.is_nan() || diagnostics.pareto_k > RELIABLE_K {
        let reason = format!("Pareto k̂ = {:.2}: the tail of the weights is too heavy", diagnostics.pareto_k);
        verdict.find(VerdictKind::DoNotTrust, reason, Advice::LongerChain);
        verdict.advise(Advice::Reparameterise);
    }
    if diagnostics.diverged > 0 {
        let reason = format!("{} of {n} trajectories diverged", diagnostics.diverged);
        let worse =
            if diagnostics.diverged as f64 > 0.01 * n { VerdictKind::DoNotTrust } else { VerdictKind::Reweight };
        verdict.find(worse, reason, Advice::SmallerSteps);
    }
    if verdict.kind < VerdictKind::DoNotTrust {
        if share < EFFECTIVE {
            let reason = format!("the effective sample size is {:.0} % of the draws", 100.0 * share);
            verdict.find(VerdictKind::Reweight, reason, Advice::LongerChain);
        }
        if plain && (diagnostics.pareto_k > PLAIN_K || share < PLAIN_EFFECTIVE) {
            let reason = format!(
                "a Gaussian alone, with k̂ = {:.2} and an effective {:.0} %, misses part of the tails",
                diagnostics.pareto_k,
                100.0 * share
            );
            verdict.find(VerdictKind::Reweight, reason, Advice::AddChain);
        }
        let (off, stretched) = furthest(draws);
        if off > OFF {
            let reason = format!("reweighting moves a mean by {off:.2} standard deviations");
            verdict.find(VerdictKind::Reweight, reason, Advice::LongerChain);
        }
        if stretched > STRETCHED {
            let reason = format!("reweighting changes a standard deviation by a factor of {stretched:.2}");
            verdict.find(VerdictKind::Reweight, reason, Advice::LongerChain);
        }
    }
    if verdict.kind == VerdictKind::Good {
        verdict.reasons.push(format!(
            "Pareto k̂ = {:.2}, effective {:.0} % of the draws, one mode from all starting points",
            diagnostics.pareto_k,
            100.0 * share
        ));
    }
    verdict
}

/// A mode in words: its location in free coordinates, the bound of a Gaussian fitted there, its share.
fn name(i: usize, mode: &Mode) -> String {
    let center = &mode.initialisation.center;
    let mut place: Vec<String> = center.iter().take(3).map(|x| format!("{x:.2}")).collect();
    if center.len() > 3 {
        place.push("…".to_owned());
    }
    let bound = mode.diagnostics.as_ref().map_or_else(String::new, |j| {
        format!(": log p(x) ≥ {:.3} ± {:.3} by a Gaussian there", j.bound.value, j.bound.se)
    });
    format!("mode {i} at ({}){bound}, {:.1} % of the mass", place.join(", "), 100.0 * mode.share).replace('-', "−")
}

/// The largest distance by which reweighting moves the mean of a coordinate, in standard deviations, and the largest
/// factor by which it changes a standard deviation.
fn furthest(draws: &Draws) -> (f64, f64) {
    let weights = Weights::smoothed(&draws.log_weights);
    let even = Weights::even(draws.z.len());
    let d = draws.z.first().map_or(0, Vec::len);
    let changes = (0..d).map(|i| {
        let column: Vec<f64> = draws.z.iter().map(|z| z[i]).collect();
        let (a, b) = (summarise(&column, &weights), summarise(&column, &even));
        ((a.mean - b.mean).abs() / a.sd, (a.sd / b.sd).max(b.sd / a.sd))
    });
    changes.fold((0.0, 1.0), |(off, stretched): (f64, f64), (o, s)| (off.max(o), stretched.max(s)))
}
