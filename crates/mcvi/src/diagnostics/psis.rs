//! Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry 2024), step for step as ArviZ's
//! `psislw` with a relative efficiency of one, with the generalised Pareto fit of Zhang and Stephens (2009), "A new
//! and efficient estimation method for the generalized Pareto distribution".

use super::importance::log_sum_exp;
use super::moments::{average, largest, nan_as_zero_weight};

/// Pareto k̂ up to which averages with the weights are reliable (Vehtari et al. 2024).
pub const RELIABLE_K: f64 = 0.7;

/// Tails up to this length are left alone, being too short to fit.
const SHORT_TAIL: usize = 4;
/// Scale of the prior for b, in terms of the first quartile.
const PRIOR_B: f64 = 3.0;
/// The weight of the prior for k, centred on [`PRIOR_K_MEAN`], in observations.
const PRIOR_K: f64 = 10.0;
/// Where the prior for k is centred.
const PRIOR_K_MEAN: f64 = 0.5;

/// Pareto-smoothed importance weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Psis {
    /// The log weights in the order of the draws, the largest of them smoothed, normalised to sum to one as weights.
    pub log_weights: Vec<f64>,
    /// The estimated shape of their tail: the weights have about 1/k finite moments, and above about 0.7 averages with
    /// them are unreliable. Inf if no tail could be fitted.
    pub k: f64,
}

/// Smooth the largest importance weights by a generalised Pareto distribution fitted to them.
///
/// A draw at -inf, or NaN, counts in n, and so in the length of the tail, but is never in the tail: its weight stays
/// zero. Tied weights of the tail are smoothed in the order of the draws. Where the tail spans less than about 1e-4 the
/// last bit of each exp shows in k, from its tenth digit on.
///
/// The weights stay as they were, except for normalisation, with k = inf:
/// - where at most four draws lie in the tail, as in ArviZ: up to 20 draws, or ties at the start of the tail;
/// - where the tail's excesses are too small for the fit, as with weights equal but for rounding. (Here ArviZ returns
///   weights of NaN, with the prior's k.)
///
/// Where all are -inf nothing can be normalised and all stay -inf; where one is +inf all are NaN.
pub fn psis(log_weights: &[f64]) -> Psis {
    let mut x = nan_as_zero_weight(log_weights);
    let max = largest(&x);
    if max == f64::INFINITY {
        x.fill(f64::NAN);
    }
    if max.is_infinite() {
        return Psis { log_weights: x, k: f64::INFINITY };
    }
    shift(&mut x, -max);
    let k = smooth_tail(&mut x).unwrap_or(f64::INFINITY);
    let total = log_sum_exp(&x);
    shift(&mut x, -total);
    Psis { log_weights: x, k }
}

/// Add `by` to every value.
fn shift(x: &mut [f64], by: f64) {
    x.iter_mut().for_each(|x| *x += by);
}

/// Replace the tail of the log weights, of which the largest is zero, by the quantiles of the distribution fitted to
/// it, and return its shape; do nothing where it cannot be fitted.
fn smooth_tail(x: &mut [f64]) -> Option<f64> {
    let cutoff = tail_cutoff(x)?;
    let mut tail: Vec<usize> = (0..x.len()).filter(|&i| x[i] > cutoff).collect();
    if tail.len() <= SHORT_TAIL {
        return None;
    }
    tail.sort_by(|&i, &j| x[i].total_cmp(&x[j]));
    let threshold = cutoff.exp();
    let excesses: Vec<f64> = tail.iter().map(|&i| x[i].exp() - threshold).collect();
    let fitted = GeneralizedPareto::fit(&excesses)?;
    for (rank, &i) in tail.iter().enumerate() {
        let p = (rank as f64 + 0.5) / tail.len() as f64;
        // No smoothed weight may exceed the largest raw one.
        x[i] = (fitted.quantile(p) + threshold).ln().min(0.0);
    }
    Some(fitted.k)
}

/// The log weight that the tail lies above: the largest outside the M = min(n / 5, 3 sqrt(n)) largest.
fn tail_cutoff(x: &[f64]) -> Option<f64> {
    let n = x.len() as f64;
    let tail = (n / 5.0).min(3.0 * n.sqrt()).ceil() as usize;
    let below = x.len().checked_sub(tail + 1)?;
    let mut sorted = x.to_vec();
    let (_, cutoff, _) = sorted.select_nth_unstable_by(below, f64::total_cmp);
    // Lower, and the weights in the tail would not be normal numbers.
    Some(cutoff.max(f64::MIN_POSITIVE.ln()))
}

/// A generalised Pareto distribution of excesses over zero.
struct GeneralizedPareto {
    /// Shape.
    k: f64,
    /// Scale.
    sigma: f64,
}

impl GeneralizedPareto {
    /// The empirical Bayes fit to five or more excesses in ascending order; `None` where they are too small for it.
    fn fit(x: &[f64]) -> Option<Self> {
        let n = x.len() as f64;
        let b = posterior_mean_b(x)?;
        let k = profile_k(b, x);
        let sigma = -k / b;
        // Few excesses say little of k: shrink it toward the prior.
        let k = (n * k + PRIOR_K * PRIOR_K_MEAN) / (n + PRIOR_K);
        (k.is_finite() && sigma.is_finite() && sigma > 0.0).then_some(Self { k, sigma })
    }

    /// The value below which a draw lies with probability `p`.
    fn quantile(&self, p: f64) -> f64 {
        let exponential = -(-p).ln_1p();
        let standard = if self.k.abs() < f64::EPSILON { exponential } else { (self.k * exponential).exp_m1() / self.k };
        self.sigma * standard
    }
}

/// The posterior mean of b = -k / sigma, the parameter that the fit is one-dimensional in, by quadrature over
/// quantiles of its prior.
fn posterior_mean_b(x: &[f64]) -> Option<f64> {
    let n = x.len() as f64;
    let candidates = candidate_bs(x);
    let log_likelihoods: Vec<f64> = candidates
        .iter()
        .map(|&b| {
            let k = profile_k(b, x);
            n * ((-b / k).ln() - k - 1.0)
        })
        .collect();
    if log_likelihoods.iter().any(|l| l.is_nan()) {
        return None;
    }
    let total = log_sum_exp(&log_likelihoods);
    let weighted = candidates.iter().zip(&log_likelihoods).map(|(&b, l)| (b, (l - total).exp()));
    // Negligible weights are left out, as ArviZ does.
    let kept = weighted.filter(|&(_, weight)| weight >= 10.0 * f64::EPSILON);
    let (sum, mass) = kept.fold((0.0, 0.0), |(sum, mass), (b, weight)| (sum + b * weight, mass + weight));
    Some(sum / mass)
}

/// The values of b that the quadrature is over, all below 1 / max x, where the likelihood ends.
fn candidate_bs(x: &[f64]) -> Vec<f64> {
    let m = 30 + x.len().isqrt();
    let first_quartile = x[(x.len() as f64 / 4.0 + 0.5) as usize - 1];
    let largest = x[x.len() - 1];
    (1..=m).map(|j| (1.0 - (m as f64 / (j as f64 - 0.5)).sqrt()) / (PRIOR_B * first_quartile) + 1.0 / largest).collect()
}

/// The shape that maximises the likelihood where b is given.
fn profile_k(b: f64, x: &[f64]) -> f64 {
    average(&x.iter().map(|x| (-b * x).ln_1p()).collect::<Vec<_>>())
}
