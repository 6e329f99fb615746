//! Means and variances of draws, and the standard error of a Monte Carlo mean (Gelman et al. 2013, "Bayesian Data
//! Analysis", section 10.5).

/// A Monte Carlo estimate of an expectation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The average of the draws.
    pub value: f64,
    /// Its standard error, sd / sqrt(n); NaN for fewer than two draws or a value that is not finite.
    pub se: f64,
    /// How many draws were averaged: all of them, those at -inf or NaN too.
    pub n: usize,
}

/// The mean of independent log weights, such as the lower bound `E[L]`, with its standard error.
///
/// NaN counts as -inf, and one -inf makes the mean -inf. Draws at both infinities, or no draws, give NaN.
pub fn mean(log_weights: &[f64]) -> Mean {
    let draws = nan_as_zero_weight(log_weights);
    let value = average(&draws);
    let n = draws.len();
    let se = if value.is_finite() { (variance(&draws) / n as f64).sqrt() } else { f64::NAN };
    Mean { value, se, n }
}

/// A copy of the log weights in which NaN, a draw whose computation failed, is the log of a weight of zero.
pub(super) fn nan_as_zero_weight(log_weights: &[f64]) -> Vec<f64> {
    log_weights.iter().map(|&l| if l.is_nan() { f64::NEG_INFINITY } else { l }).collect()
}

/// The average of the draws; NaN of none.
pub(super) fn average(draws: &[f64]) -> f64 {
    let Some(&first) = draws.first() else { return f64::NAN };
    // Differences from one of the draws are summed, so that the average of a constant is exactly that constant, and
    // its variance exactly zero.
    let origin = if first.is_finite() { first } else { 0.0 };
    origin + draws.iter().map(|x| x - origin).sum::<f64>() / draws.len() as f64
}

/// The sample variance, over n - 1; NaN for fewer than two draws or where a draw is not finite.
pub(super) fn variance(draws: &[f64]) -> f64 {
    if draws.len() < 2 {
        return f64::NAN;
    }
    let centre = average(draws);
    draws.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (draws.len() - 1) as f64
}

/// The largest draw; -inf of none.
pub(super) fn largest(draws: &[f64]) -> f64 {
    draws.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
