//! Inference on one target, and what came of it beside the exact answers. Nothing is judged here.

use super::problem::Problem;
use mcvi::Hardware;
use mcvi::diagnostics::psis;
use mcvi::infer::{Budget, Posterior, Request, infer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The verdict of an outcome without a posterior: inference returned an error or panicked.
pub const FAILED: &str = "failed";

/// What came of a target. Numbers that are not finite, or that there are none of, are none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The name of the family.
    pub family: String,
    /// The number of the target in it.
    pub index: usize,
    /// The number of coordinates.
    pub dim: usize,
    /// What was drawn for the target.
    pub parameters: Value,
    /// The exact answers.
    pub truth: Truth,
    /// The verdict's word, or `failed`.
    pub verdict: String,
    /// Its reasons, or the error.
    pub reasons: Vec<String>,
    /// The bound.
    pub bound: Option<f64>,
    /// Its standard error.
    pub bound_se: Option<f64>,
    /// The importance-weighted log p(x) reported.
    pub log_evidence: Option<f64>,
    /// Its standard error.
    pub log_evidence_se: Option<f64>,
    /// Pareto k̂ of the weights.
    pub pareto_k: Option<f64>,
    /// Effective sample size of the weights.
    pub ess: Option<f64>,
    /// How many draws there are.
    pub draws: usize,
    /// The largest distance of a reweighted mean from the exact one, in exact standard deviations.
    pub mean_error: Option<f64>,
    /// The reweighted standard deviation over the exact one, where it is furthest from 1.
    pub sd_ratio: Option<f64>,
    /// The modes of a mixture.
    pub modes: Vec<ModeOutcome>,
    /// Whether the limit on time ended inference, or kept it from trying a longer chain. Then the outcome depends on the
    /// machine.
    pub is_stopped: bool,
    /// Wall time.
    pub seconds: f64,
}

/// The exact answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// log p(x).
    pub log_z: f64,
    /// The mean of each coordinate.
    pub mean: Vec<f64>,
    /// The standard deviation of each coordinate.
    pub sd: Vec<f64>,
    /// The widest component's width in widths of the narrowest.
    pub width_ratio: Option<f64>,
}

/// A mode of a mixture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModeOutcome {
    /// Its exact mass.
    pub mass: f64,
    /// The mass of the weighted draws there: the average probability that a draw belongs to it.
    pub drawn_mass: Option<f64>,
    /// How far the nearest other component is, in standard deviations of the wider of the two.
    pub apart: f64,
    /// How far the nearest mode listed by inference is, in standard deviations of this one.
    pub listed_at: Option<f64>,
}

/// Run inference with the default settings on one thread, for at most so many seconds.
pub fn run(problem: &Problem, seconds: f64) -> Outcome {
    let (mean, sd) = problem.moments();
    let truth = Truth { log_z: problem.log_z, mean, sd, width_ratio: width_ratio(problem) };
    let mut outcome = Outcome {
        family: problem.family.to_owned(),
        index: problem.index,
        dim: problem.dim(),
        parameters: problem.parameters.clone(),
        truth,
        verdict: FAILED.to_owned(),
        reasons: vec![],
        bound: None,
        bound_se: None,
        log_evidence: None,
        log_evidence_se: None,
        pareto_k: None,
        ess: None,
        draws: 0,
        mean_error: None,
        sd_ratio: None,
        modes: modes(problem),
        is_stopped: false,
        seconds: 0.0,
    };
    let budget = Budget { seconds: Some(seconds), ..Budget::default() };
    let request = Request { budget, hardware: Hardware::with_threads(1), ..Request::default() };
    let started = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| infer(problem.model(), &request)));
    outcome.seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(Ok(posterior)) => outcome.record(problem, &posterior),
        Ok(Err(error)) => outcome.reasons.push(error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            outcome.reasons.push(format!("panicked: {}", text.unwrap_or_default()));
        }
    }
    outcome
}

impl Outcome {
    fn record(&mut self, problem: &Problem, posterior: &Posterior) {
        let found = &posterior.diagnostics;
        self.verdict = posterior.verdict.kind.word().to_owned();
        self.reasons.clone_from(&posterior.verdict.reasons);
        (self.bound, self.bound_se) = (finite(found.bound.value), finite(found.bound.se));
        (self.log_evidence, self.log_evidence_se) = (finite(found.log_evidence.value), finite(found.log_evidence.se));
        (self.pareto_k, self.ess) = (finite(found.pareto_k), finite(found.effective));
        self.is_stopped = !posterior.stop_reason.is_complete();
        let draws = &posterior.draws;
        self.draws = draws.z.len();
        // Always reweighted, whether or not inference thinks that it may be.
        let weights: Vec<f64> = psis(&draws.log_weights).log_weights.iter().map(|l| l.exp()).collect();
        let average = |f: &dyn Fn(&[f64]) -> f64| -> f64 {
            // A draw of weight zero may lie anywhere, also where it is not a number.
            let terms = draws.z.iter().zip(&weights).filter(|(_, w)| **w != 0.0);
            terms.map(|(z, w)| w * f(z)).sum()
        };
        let (mut errors, mut ratios) = (vec![], vec![]);
        for (i, (exact, sd)) in self.truth.mean.iter().zip(&self.truth.sd).enumerate() {
            let mean = average(&|z| z[i]);
            errors.push((mean - exact).abs() / sd);
            ratios.push(average(&|z| (z[i] - mean).powi(2)).sqrt() / sd);
        }
        // NaN is the largest of all in this order, and stays.
        let from_one = |ratio: &f64| ratio.ln().abs();
        self.mean_error = errors.into_iter().max_by(f64::total_cmp).and_then(finite);
        self.sd_ratio = ratios.into_iter().max_by(|a, b| from_one(a).total_cmp(&from_one(b))).and_then(finite);
        let mut masses = vec![0.0; self.modes.len()];
        if !masses.is_empty() {
            for (z, w) in draws.z.iter().zip(&weights).filter(|(_, w)| **w != 0.0) {
                masses.iter_mut().zip(problem.responsibilities(z)).for_each(|(m, r)| *m += w * r);
            }
        }
        for ((mode, mass), component) in self.modes.iter_mut().zip(masses).zip(problem.components()) {
            mode.drawn_mass = finite(mass);
            let listed = posterior.modes.iter().map(|m| component.map.distance(&m.initialisation.center));
            mode.listed_at = finite(listed.fold(f64::INFINITY, f64::min));
        }
    }
}

/// The modes before inference.
fn modes(problem: &Problem) -> Vec<ModeOutcome> {
    let components = problem.components();
    let mode = |i: usize| {
        let this = &components[i];
        let others = components.iter().enumerate().filter(|(j, _)| *j != i);
        let distance = others.map(|(_, other)| {
            let (wider, narrower) = if this.map.width() >= other.map.width() { (this, other) } else { (other, this) };
            wider.map.distance(&narrower.map.centre)
        });
        let apart = distance.fold(f64::INFINITY, f64::min);
        ModeOutcome { mass: this.mass, drawn_mass: None, apart, listed_at: None }
    };
    (0..components.len()).map(mode).collect()
}

fn width_ratio(problem: &Problem) -> Option<f64> {
    let widths = || problem.components().iter().map(|c| c.map.width());
    finite(widths().fold(0.0, f64::max) / widths().fold(f64::INFINITY, f64::min)).filter(|_| widths().count() > 0)
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
