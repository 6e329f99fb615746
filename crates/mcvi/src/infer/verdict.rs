//! The verdict: whether to trust an approximation, why, and what to try next.

use super::modes::Mode;
use super::outside::{Elsewhere, Outside};
use super::posterior::reportable;
use crate::approximation::{Diagnostics, Draws, Mixture};
use crate::bayesian_model::BayesianModel;
use crate::diagnostics::{Moments, RELIABLE_K, Weights, effective_sample_size};
use crate::error::Result;
use crate::fit::StopReason;
use crate::hardware::Hardware;
use crate::model::Quantity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Minimum effective share of the draws, and the share below which no weights can make up for it.
const EFFECTIVE: f64 = 0.25;
const USELESS: f64 = 0.1;
/// Maximum distance between the means of draws with and without weights, in standard deviations.
const OFF: f64 = 0.1;
/// Maximum factor by which reweighting may change a standard deviation: weights can correct the draws only so far.
const STRETCHED: f64 = 1.25;
/// Effective share from which a Gaussian alone counts as good: its tails are thinner than most.
const PLAIN_EFFECTIVE: f64 = 0.8;
/// What few draws may be off by: k̂ by this much, and the effective share by this factor.
const DOUBT_K: f64 = 0.15;
const DOUBT: f64 = 0.8;
/// Pareto k̂ that is said to be near its limit.
const NEAR_K: f64 = 0.6;
/// Nats by which log p(x) from outside may exceed the fit's, and standard errors of the difference.
const MISSED: f64 = 0.1;
const SURE: f64 = 3.0;
/// Nats by which it may stay below, and still say something of mass elsewhere.
const BEHIND: f64 = 1.0;
/// Share of the mass found from outside that may lie where the fit has no draws.
const ELSEWHERE: f64 = 0.05;
/// Relative difference between numbers that count as the same.
const SAME: f64 = 1e-6;

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
    /// Of what no mean or no standard deviation is reported, because its tails are too heavy.
    pub unreported: Vec<String>,
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
    /// Use a longer chain, or one with networks.
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

    /// Whether no longer chain could help.
    pub(super) fn is_hopeless(&self) -> bool {
        self.advice.contains(&Advice::SeparateModes)
    }

    /// Add why it stopped, if it was not complete.
    pub(super) fn note(&mut self, stop_reason: StopReason) {
        let (reason, advice) = match stop_reason {
            StopReason::Converged | StopReason::Sufficient | StopReason::MaxIterations => return,
            StopReason::Budget => ("the budget was used up before the fit was complete", Advice::LargerBudget),
            StopReason::Interrupted => ("the fit was interrupted before it was complete", Advice::Finish),
        };
        self.find(VerdictKind::Good, reason.to_owned(), advice);
    }
}

/// What a fit is judged by.
pub(super) struct Evidence<'a> {
    pub model: &'a dyn BayesianModel,
    pub modes: &'a [Mode],
    pub outside: Option<&'a Outside>,
    /// How many starting points there were.
    pub starts: usize,
}

impl Evidence<'_> {
    /// Judge a fit by the weights of its draws, by what is reported of them, and by what was found elsewhere.
    pub fn judge(&self, approximation: &Mixture, draws: &Draws, diagnostics: &Diagnostics) -> Result<Verdict> {
        let mut verdict = Verdict { kind: VerdictKind::Good, reasons: vec![], advice: vec![], unreported: vec![] };
        let n = draws.z.len() as f64;
        if diagnostics.lost > 0 {
            let reason = format!("{} of {n} draws have no weight: the bound is −∞", diagnostics.lost);
            verdict.find(VerdictKind::DoNotTrust, reason, Advice::Constrain);
        }
        self.modes(&mut verdict, approximation);
        weights(&mut verdict, draws, diagnostics);
        if verdict.kind < VerdictKind::DoNotTrust {
            self.reported(&mut verdict, draws)?;
        }
        // Few draws of any weight cannot be compared with anything.
        if diagnostics.pareto_k <= RELIABLE_K && diagnostics.effective_share() >= USELESS {
            self.outside(&mut verdict, draws, diagnostics);
        }
        match verdict.kind {
            VerdictKind::Good => drop(verdict.reasons.splice(0..0, [praise(diagnostics), self.looked(diagnostics)])),
            VerdictKind::Reweight => verdict.reasons.push(self.looked(diagnostics)),
            VerdictKind::DoNotTrust => {}
        }
        Ok(verdict)
    }

    /// Several modes are listed. If there are too many, most of them were not fitted.
    fn modes(&self, verdict: &mut Verdict, approximation: &Mixture) {
        let (found, fitted) = (self.modes.len(), approximation.parts().len());
        if found == 1 {
            return;
        }
        let missed: f64 = self.modes.iter().skip(fitted).map(|mode| mode.share).sum();
        if found > fitted {
            let reason = format!(
                "{found} separate modes were found and only the {fitted} largest fitted; the others hold about {:.0} % of the mass",
                100.0 * missed
            );
            verdict.find(VerdictKind::DoNotTrust, reason, Advice::SeparateModes);
        } else {
            verdict
                .reasons
                .push(format!("{found} separate modes were found, and each was fitted by a chain of its own"));
        }
        let shares = approximation.parts().map(|(_, weight)| weight);
        let named = self.modes.iter().zip(shares).take(NAMED).enumerate();
        verdict.reasons.extend(named.map(|(i, (mode, share))| name(i + 1, mode, share)));
        if found > NAMED {
            verdict.reasons.push(format!("there are {} more modes", found - NAMED));
        }
        if let Some((a, b, how)) = symmetric(self.modes) {
            verdict.reasons.push(format!("modes {} and {} {how}", a + 1, b + 1));
        }
    }

    /// What is reported: parameters and generated quantities, as they are, not as free coordinates.
    fn reported(&self, verdict: &mut Verdict, draws: &Draws) -> Result<()> {
        let n = reportable(self.model, &draws.z)?;
        let (z, log_weights) = (&draws.z[..n], &draws.log_weights[..n]);
        let (weights, even) = (Weights::smoothed(log_weights), Weights::even(n));
        let (mut off, mut stretched) = ((0.0, String::new()), (1.0, String::new()));
        let (mut no_mean, mut no_sd) = (vec![], vec![]);
        let quantities = self.model.quantities(z, None, Hardware::default())?;
        for (name, column) in quantities.parameters.iter().chain(&quantities.generated).flat_map(Quantity::columns) {
            let (a, b) = (Moments::new(&column, &weights), Moments::new(&column, &even));
            if !a.has_mean {
                no_mean.push(name);
                continue;
            }
            // A constant has neither.
            if a.sd <= 0.0 {
                continue;
            }
            let apart = (a.mean - b.mean).abs() / a.sd;
            if apart > off.0 {
                off = (apart, name.clone());
            }
            if !a.has_sd {
                no_sd.push(name);
                continue;
            }
            let factor = (a.sd / b.sd).max(b.sd / a.sd);
            if factor > stretched.0 {
                stretched = (factor, name);
            }
        }
        if off.0 > OFF {
            let reason = format!("reweighting moves the mean of {} by {:.2} standard deviations", off.1, off.0);
            verdict.find(VerdictKind::Reweight, reason, Advice::LongerChain);
        }
        if stretched.0 > STRETCHED {
            let reason = format!(
                "reweighting changes the standard deviation of {} by a factor of {:.2}",
                stretched.1, stretched.0
            );
            verdict.find(VerdictKind::DoNotTrust, reason, Advice::LongerChain);
        }
        for (what, names) in [("mean and no standard deviation", no_mean), ("standard deviation", no_sd)] {
            if !names.is_empty() {
                let reason =
                    format!("no {what} is reported of {}: the tails are too heavy; see the quantiles", listed(&names));
                verdict.reasons.push(reason);
                verdict.unreported.extend(names);
            }
        }
        Ok(())
    }

    /// Mass that annealing found and the fit does not have.
    fn outside(&self, verdict: &mut Verdict, draws: &Draws, diagnostics: &Diagnostics) {
        let Some(outside) = self.outside else { return };
        let (theirs, ours) = (outside.log_evidence, diagnostics.log_evidence);
        let more = theirs.value - ours.value;
        let elsewhere = outside.elsewhere(draws, ours.value);
        if more > MISSED.max(SURE * theirs.se.hypot(ours.se)) {
            let reason = format!(
                "annealing finds more mass than the fit holds: log p(x) ≈ {:.2} ± {:.2}, the fit's is {:.2}",
                theirs.value, theirs.se, ours.value
            );
            verdict.find(VerdictKind::DoNotTrust, reason.replace('-', "−"), Advice::SeparateModes);
        }
        if let Some(Elsewhere { share, place }) = elsewhere.filter(|e| e.share > ELSEWHERE) {
            let reason = format!(
                "annealing finds {:.0} % of the mass where the fit has no draws, such as at {}",
                100.0 * share.min(1.0),
                place_of(&place)
            );
            verdict.find(VerdictKind::DoNotTrust, reason, Advice::SeparateModes);
        }
    }

    /// Where modes were looked for.
    fn looked(&self, diagnostics: &Diagnostics) -> String {
        let led: usize = self.modes.iter().map(|mode| mode.starts).sum();
        let modes = if self.modes.len() == 1 { "one mode".to_owned() } else { format!("{} modes", self.modes.len()) };
        let from = if led >= self.starts {
            format!("{modes} from {} starting points", self.starts)
        } else {
            format!("{modes}, to which {led} of {} starting points led", self.starts)
        };
        let outside = match self.outside.map(|outside| outside.log_evidence) {
            None => "annealing from wide starts was not possible, or not in the time given".to_owned(),
            // Where particles do not reach what the fit holds, they would not reach mass elsewhere either.
            Some(theirs) if diagnostics.log_evidence.value - theirs.value > BEHIND.max(SURE * theirs.se) => {
                "annealing from wide starts does not reach what the fit holds, and would not have seen other modes"
                    .to_owned()
            }
            Some(theirs) => {
                let about = format!("log p(x) ≈ {:.2} ± {:.2}", theirs.value, theirs.se);
                format!("annealing from wide starts adds none: {}", about.replace('-', "−"))
            }
        };
        format!("{from}; {outside}")
    }
}

/// What is good about the draws.
fn praise(diagnostics: &Diagnostics) -> String {
    let near = if diagnostics.pareto_k > NEAR_K { format!(" (near its limit of {RELIABLE_K})") } else { String::new() };
    let (k, share) = (diagnostics.pareto_k, 100.0 * diagnostics.effective_share());
    format!("Pareto k̂ = {k:.2}{near}, effective {share:.0} % of the draws")
}

/// Whether many draws may be called good, judging by the weights of few, the largest of which may be an accident.
pub(super) fn may_be_good(draws: &Draws, diagnostics: &Diagnostics) -> bool {
    let mut log_weights = draws.log_weights.clone();
    log_weights.sort_by(f64::total_cmp);
    log_weights.pop();
    let share = effective_sample_size(&log_weights) / log_weights.len() as f64;
    let needed = if draws.steps.is_empty() { PLAIN_EFFECTIVE } else { EFFECTIVE };
    diagnostics.pareto_k <= RELIABLE_K + DOUBT_K && share >= DOUBT * needed
}

/// Judge by the weights of the draws.
fn weights(verdict: &mut Verdict, draws: &Draws, diagnostics: &Diagnostics) {
    let (n, share) = (draws.z.len() as f64, diagnostics.effective_share());
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
    if share < EFFECTIVE {
        let worse = if share < USELESS { VerdictKind::DoNotTrust } else { VerdictKind::Reweight };
        let reason = format!("the effective sample size is {:.0} % of the draws", 100.0 * share);
        verdict.find(worse, reason, Advice::LongerChain);
    } else if draws.steps.is_empty() && share < PLAIN_EFFECTIVE {
        let reason = format!("a Gaussian alone, with an effective {:.0} %, misses part of the tails", 100.0 * share);
        verdict.find(VerdictKind::Reweight, reason, Advice::AddChain);
    }
}

/// A mode in words: its location in free coordinates, the bound of a Gaussian fitted there, its share.
fn name(i: usize, mode: &Mode, share: f64) -> String {
    let bound = mode.diagnostics.as_ref().map_or_else(String::new, |j| {
        format!(": log p(x) ≥ {:.3} ± {:.3} by a Gaussian there", j.bound.value, j.bound.se)
    });
    let place = place_of(&mode.initialisation.center);
    format!("mode {i} at {place}{bound}, {:.1} % of the mass", 100.0 * share).replace('-', "−")
}

/// A place in free coordinates.
fn place_of(center: &[f64]) -> String {
    let mut place: Vec<String> = center.iter().take(3).map(|x| format!("{x:.2}")).collect();
    if center.len() > 3 {
        place.push("…".to_owned());
    }
    format!("({})", place.join(", ")).replace('-', "−")
}

/// The first names of a list.
fn listed(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => String::new(),
    }
}

/// Two modes that a symmetry of the model maps to each other, and what can be said of them: those of the same height, the same
/// curvature and the same evidence. Free coordinates of a simplex, or of a probability and its complement, are not in another order
/// where labels are.
fn symmetric(modes: &[Mode]) -> Option<(usize, usize, &'static str)> {
    let sorted = |mode: &Mode| {
        let mut center = mode.initialisation.center.clone();
        center.sort_by(f64::total_cmp);
        center
    };
    let equal = |x: f64, y: f64, by: f64| (x - y).abs() < by * (1.0 + x.abs());
    let is_permuted = |a: &Mode, b: &Mode| sorted(a).iter().zip(sorted(b)).all(|(x, y)| equal(*x, y, SAME.sqrt()));
    let is_same = |a: &Mode, b: &Mode| {
        let (Some(p), Some(q)) = (&a.diagnostics, &b.diagnostics) else { return false };
        let within = SURE * p.log_evidence.se.hypot(q.log_evidence.se);
        equal(a.log_density, b.log_density, SAME)
            && equal(a.laplace, b.laplace, SAME)
            && (p.log_evidence.value - q.log_evidence.value).abs() <= within.max(SAME)
    };
    let pairs = (0..modes.len()).flat_map(|a| (a + 1..modes.len()).map(move |b| (a, b)));
    let (a, b) = pairs.into_iter().find(|&(a, b)| is_same(&modes[a], &modes[b]))?;
    let how = if is_permuted(&modes[a], &modes[b]) {
        "differ only in the order of their coordinates: labels are switched"
    } else {
        "have the same height and width: a symmetry of the model, such as switched labels"
    };
    Some((a, b, how))
}
