//! Draws from an approximation with their weights, and diagnostics computed from them.

use super::Approximation;
use crate::bound::Objective;
use crate::diagnostics::{
    LogMean, Mean, Weights, effective_sample_size, log_mean_exp, mean, psis, r_squared, zero_weights,
};
use crate::error::Result;
use crate::limits::{self, within};
use crate::params::Params;
use crate::scope::{Choices, write};
use crate::seed::derive_seed;
use crate::target::rows_at_once;
use crate::transition::Diagnostic;
use mcvi_expr::{Program, Run};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Rows per evaluation.
const ROWS: usize = 1000;

/// ΔH above which a trajectory counts as diverged, as in Stan.
const DIVERGED: f64 = 1000.0;

/// Independent draws of z with the log weight L of the path that led to each.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Draws {
    /// Rows of z.
    pub z: Vec<Vec<f64>>,
    /// The lower bound estimate L of each draw: E exp(L) = p(x).
    pub log_weights: Vec<f64>,
    /// log p(x, z) of each draw.
    pub log_p: Vec<f64>,
    /// The bound before the first step, for each draw.
    pub first: Vec<f64>,
    /// log αₜ of each step, for each draw.
    pub steps: Vec<Vec<f64>>,
    /// Diagnostics of each step, for each draw.
    pub diagnostics: Vec<Vec<(Diagnostic, Vec<f64>)>>,
}

/// Diagnostics of an approximation, computed from its draws.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnostics {
    /// The bound, with its standard error.
    pub bound: Mean,
    /// Importance-weighted log p(x).
    pub log_evidence: LogMean,
    /// Effective sample size of the weights.
    pub effective: f64,
    /// Pareto k̂ of the weights: above [`RELIABLE_K`](crate::diagnostics::RELIABLE_K) they are not reliable. Where no weight
    /// is twice the average there is no tail to speak of, and it is 0.
    pub pareto_k: f64,
    /// R² of Salimans & Knowles (2013) over paths: L in place of log p − log q.
    pub r2_path: f64,
    /// What each step adds to the bound, E log αₜ.
    pub steps: Vec<Mean>,
    /// Mean |ΔH| of each step that has one.
    pub delta_h: Vec<Option<f64>>,
    /// Mean acceptance probability of each step that has one.
    pub accept: Vec<Option<f64>>,
    /// Draws with a trajectory that diverged.
    pub diverged: usize,
    /// Draws of weight zero: their bound is −∞ or NaN. They make the bound −∞.
    pub lost: usize,
}

impl Diagnostics {
    /// The effective share of the draws, given the weights.
    pub fn effective_share(&self) -> f64 {
        self.effective / self.bound.n as f64
    }
}

impl Approximation {
    /// Independent draws. The same seed gives the same draws.
    pub fn draw(&self, count: usize, seed: u64) -> Result<Draws> {
        within("draws", count, 1..=limits::DRAWS)?;
        let (rows, d) = (rows_at_once(self.target.as_ref(), count.min(ROWS)), self.target.dim());
        let (mut program, kinds) = self.program(rows, Choices::Sample, |_, estimate, program| {
            let mut program = program.seed(seed).output("z", estimate.z).output("bound", estimate.bound);
            program = program.output("log_p", estimate.log_p).output("first", estimate.first);
            for (t, log_alpha) in estimate.steps.iter().enumerate() {
                program = program.output(&format!("step{t}"), *log_alpha);
                for (kind, value) in &estimate.diagnostics[t] {
                    program = program.output(&format!("{kind}{t}"), *value);
                }
            }
            let kinds = |step: &Vec<(Diagnostic, _)>| step.iter().map(|(kind, _)| (*kind, vec![])).collect();
            Ok((program, estimate.diagnostics.iter().map(kinds).collect::<Vec<_>>()))
        })?;
        let column = |p: &mut Program, name: &str| -> Result<Vec<f64>> { Ok(p.output(name)?.to_f64()) };
        let mut all = Draws::empty(kinds);
        while all.z.len() < count {
            program.run(1)?;
            let z = column(&mut program, "z")?;
            all.z.extend(z.chunks(d).map(<[f64]>::to_vec));
            all.log_weights.extend(column(&mut program, "bound")?);
            all.log_p.extend(column(&mut program, "log_p")?);
            all.first.extend(column(&mut program, "first")?);
            for t in 0..all.steps.len() {
                all.steps[t].extend(column(&mut program, &format!("step{t}"))?);
                for (kind, values) in &mut all.diagnostics[t] {
                    values.extend(column(&mut program, &format!("{kind}{t}"))?);
                }
            }
        }
        all.truncate(count);
        all.log_weights.iter_mut().for_each(nan_to_zero_weight);
        Ok(all)
    }
}

impl Approximation {
    /// The bound's estimate for each of `draws` draws, with choices drawn or averaged over.
    pub fn bounds(&self, draws: usize, choices: Choices, seed: u64) -> Result<Vec<f64>> {
        Bounds::new(self, Objective::Bound, choices, seed)?.evaluate(&self.params, draws)
    }
}

impl Draws {
    fn empty(diagnostics: Vec<Vec<(Diagnostic, Vec<f64>)>>) -> Self {
        Draws {
            z: vec![],
            log_weights: vec![],
            log_p: vec![],
            first: vec![],
            steps: vec![vec![]; diagnostics.len()],
            diagnostics,
        }
    }

    /// These rows of them.
    pub fn pick(&self, rows: &[usize]) -> Self {
        let column = |from: &Vec<f64>| -> Vec<f64> { rows.iter().map(|&i| from[i]).collect() };
        let diagnostics =
            |step: &Vec<(Diagnostic, Vec<f64>)>| step.iter().map(|(k, from)| (*k, column(from))).collect();
        Draws {
            z: rows.iter().map(|&i| self.z[i].clone()).collect(),
            log_weights: column(&self.log_weights),
            log_p: column(&self.log_p),
            first: column(&self.first),
            steps: self.steps.iter().map(column).collect(),
            diagnostics: self.diagnostics.iter().map(diagnostics).collect(),
        }
    }

    /// `count` draws of equal weight, resampled by Pareto-smoothed weights, in random order. Few appear twice if `count` is below
    /// the effective number of draws.
    pub fn resampled(&self, count: usize, seed: u64) -> Self {
        let mut rows = Weights::smoothed(&self.log_weights).resample(count, seed);
        rows.shuffle(&mut StdRng::seed_from_u64(derive_seed(seed, "resampled")));
        self.pick(&rows)
    }

    /// Draws of several approximations by the same chain, in the order in which their parts are named. None for a part that
    /// is not.
    pub(super) fn interleaved(parts: Vec<Option<Draws>>, order: &[usize]) -> Self {
        let kinds = parts.iter().flatten().next().map_or(vec![], |draws| {
            draws.diagnostics.iter().map(|step| step.iter().map(|(kind, _)| (*kind, vec![])).collect()).collect()
        });
        let (mut all, mut next) = (Draws::empty(kinds), vec![0; parts.len()]);
        for &m in order {
            let Some(draws) = &parts[m] else { continue };
            let i = next[m];
            next[m] += 1;
            all.z.push(draws.z[i].clone());
            all.log_weights.push(draws.log_weights[i]);
            all.log_p.push(draws.log_p[i]);
            all.first.push(draws.first[i]);
            all.steps.iter_mut().zip(&draws.steps).for_each(|(to, from)| to.push(from[i]));
            let diagnostics = all.diagnostics.iter_mut().flatten().zip(draws.diagnostics.iter().flatten());
            diagnostics.for_each(|((_, to), (_, from))| to.push(from[i]));
        }
        all.log_weights.iter_mut().for_each(nan_to_zero_weight);
        all
    }

    fn truncate(&mut self, count: usize) {
        self.z.truncate(count);
        let columns = [&mut self.log_weights, &mut self.log_p, &mut self.first];
        columns.into_iter().chain(&mut self.steps).for_each(|c| c.truncate(count));
        self.diagnostics.iter_mut().flatten().for_each(|(_, c)| c.truncate(count));
    }

    /// Diagnostics computed from these draws.
    pub fn diagnose(&self) -> Diagnostics {
        let log_q: Vec<f64> = self.log_p.iter().zip(&self.log_weights).map(|(p, l)| p - l).collect();
        let find = |kind: Diagnostic| -> Vec<Option<&Vec<f64>>> {
            let of = |step: &'_ Vec<(Diagnostic, Vec<f64>)>| step.iter().position(|(k, _)| *k == kind);
            self.diagnostics.iter().map(|step| of(step).map(|i| &step[i].1)).collect()
        };
        let diverges = |h: &Vec<f64>, i: usize| h[i].is_nan() || h[i] > DIVERGED;
        let energies = find(Diagnostic::EnergyChange);
        let diverged = (0..self.z.len()).filter(|&i| energies.iter().flatten().any(|h| diverges(h, i))).count();
        let average = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        Diagnostics {
            bound: mean(&self.log_weights),
            log_evidence: log_mean_exp(&self.log_weights),
            effective: effective_sample_size(&self.log_weights),
            pareto_k: if is_even(&self.log_weights) { 0.0 } else { psis(&self.log_weights).k },
            r2_path: r_squared(&self.log_p, &log_q),
            steps: self.steps.iter().map(|s| mean(s)).collect(),
            delta_h: energies.iter().map(|h| h.map(|h| average(&h.iter().map(|x| x.abs()).collect()))).collect(),
            accept: find(Diagnostic::Acceptance).into_iter().map(|a| a.map(average)).collect(),
            diverged,
            lost: zero_weights(&self.log_weights),
        }
    }
}

/// Whether no weight is twice the average.
fn is_even(log_weights: &[f64]) -> bool {
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest < log_mean_exp(log_weights).value + std::f64::consts::LN_2
}

/// A bound that is NaN counts as −∞.
fn nan_to_zero_weight(bound: &mut f64) {
    if bound.is_nan() {
        *bound = f64::NEG_INFINITY;
    }
}

/// The bound as a function of the parameters, always with the same noise, so that differences are precise.
pub(crate) struct Bounds {
    program: Program,
    seed: u64,
    rows: usize,
}

impl Bounds {
    pub fn new(approximation: &Approximation, objective: Objective, choices: Choices, seed: u64) -> Result<Self> {
        let (each, most) = (objective.draws_per_value(), rows_at_once(approximation.target.as_ref(), ROWS));
        let rows = (most / each).max(1);
        let (program, ()) = approximation.program(rows * each, choices, |_, estimate, program| {
            Ok((program.seed(seed).output("bound", estimate.of(objective)), ()))
        })?;
        Ok(Bounds { program, seed, rows })
    }

    /// The bound of each of `draws` draws, or groups of draws.
    pub fn evaluate(&mut self, params: &Params, draws: usize) -> Result<Vec<f64>> {
        write(&mut self.program, params)?;
        self.program.set_seed(self.seed);
        self.program.set_step(0);
        let recorded = self.program.execute(&Run::steps(draws.div_ceil(self.rows)).record("bound"))?;
        let mut bounds = recorded[0].to_f64();
        bounds.iter_mut().for_each(nan_to_zero_weight);
        bounds.truncate(draws);
        Ok(bounds)
    }
}
