//! Estimates from importance weights: of log p(x) (Burda, Grosse and Salakhutdinov 2016, "Importance weighted
//! autoencoders") and of the quality of the approximation they come from (Kong, Liu and Wong 1994, "Sequential
//! imputations and Bayesian missing data problems"; Salimans and Knowles 2013, "Fixed-form variational posterior
//! approximation through stochastic linear regression").

use super::moments::{average, largest, nan_as_zero_weight, variance};

/// An importance-sampled estimate of log p(x).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogMean {
    /// The log of the average weight.
    pub value: f64,
    /// Its standard error by the delta method; NaN for fewer than two draws or a value that is not finite.
    pub se: f64,
}

/// The importance-weighted log p(x), log (1/n) sum exp(L), with the standard error sd(w) / (mean(w) sqrt(n)).
///
/// Draws at -inf or NaN have weight zero and count in n: the result is -inf only if all draws are. NaN without draws.
pub fn log_mean_exp(log_weights: &[f64]) -> LogMean {
    if log_weights.is_empty() {
        return LogMean { value: f64::NAN, se: f64::NAN };
    }
    let (max, weights) = scaled_weights(log_weights);
    if max.is_infinite() {
        return LogMean { value: max, se: f64::NAN };
    }
    let mean = average(&weights);
    let se = (variance(&weights) / weights.len() as f64).sqrt() / mean;
    LogMean { value: max + mean.ln(), se }
}

/// The effective number of draws behind an average with these weights, (sum w)^2 / sum w^2, from 1 to n.
///
/// It is 0 where no draw has any weight (all are -inf or NaN, or there are none), and NaN where one is +inf.
pub fn effective_sample_size(log_weights: &[f64]) -> f64 {
    let (max, weights) = scaled_weights(log_weights);
    if max.is_infinite() {
        return if max < 0.0 { 0.0 } else { f64::NAN };
    }
    weights.iter().sum::<f64>().powi(2) / weights.iter().map(|w| w * w).sum::<f64>()
}

/// The number of draws without any weight: a log weight of -inf or NaN.
pub fn zero_weights(log_weights: &[f64]) -> usize {
    log_weights.iter().filter(|l| l.is_nan() || **l == f64::NEG_INFINITY).count()
}

/// The share of the variance of log p(x, z) under q that log q(z) explains, `1 - Var[log p - log q] / Var[log p]`: 1
/// where q is the posterior.
///
/// NaN for fewer than two draws, slices of different lengths, any value that is not finite, or where neither log p
/// nor log p - log q varies.
pub fn r_squared(log_p: &[f64], log_q: &[f64]) -> f64 {
    if log_p.len() != log_q.len() {
        return f64::NAN;
    }
    let residual: Vec<f64> = log_p.iter().zip(log_q).map(|(p, q)| p - q).collect();
    1.0 - variance(&residual) / variance(log_p)
}

/// log sum exp(L); -inf of nothing.
pub(super) fn log_sum_exp(log_weights: &[f64]) -> f64 {
    let (max, weights) = scaled_weights(log_weights);
    if max.is_infinite() { max } else { max + weights.iter().sum::<f64>().ln() }
}

/// The largest log weight, and every weight relative to it, which keeps them from overflowing whatever their offset.
fn scaled_weights(log_weights: &[f64]) -> (f64, Vec<f64>) {
    let mut weights = nan_as_zero_weight(log_weights);
    let max = largest(&weights);
    weights.iter_mut().for_each(|w| *w = (*w - max).exp());
    (max, weights)
}
