//! Means, standard deviations and quantiles of weighted draws.

use super::{RELIABLE_K, psis};
use std::fmt;

/// Weights of draws that sum to one.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights(Vec<f64>);

impl Weights {
    /// Equal weights.
    pub fn even(n: usize) -> Self {
        Weights(vec![1.0 / n as f64; n])
    }

    /// Importance weights, Pareto-smoothed.
    pub fn smoothed(log_weights: &[f64]) -> Self {
        Weights(psis(log_weights).log_weights.iter().map(|l| l.exp()).collect())
    }
}

impl Weights {
    /// Those of the first draws alone.
    pub fn first(self, count: usize) -> Self {
        let Weights(mut weights) = self;
        weights.truncate(count);
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= total);
        Weights(weights)
    }

    /// `count` draws of equal weight: the index of the draw to take for each. Systematic resampling; the seed sets its offset.
    pub fn resample(&self, count: usize, seed: u64) -> Vec<usize> {
        let Weights(weights) = self;
        let (n, total) = (weights.len(), weights.iter().sum::<f64>());
        let offset = (seed as f64 * 0.618_033_988_749_895).fract();
        let (mut picked, mut reached, mut i) = (Vec::with_capacity(count), weights.first().copied().unwrap_or(0.0), 0);
        for k in 0..count {
            let at = (k as f64 + offset) / count as f64 * total;
            while reached < at && i + 1 < n {
                i += 1;
                reached += weights[i];
            }
            picked.push(i);
        }
        picked
    }

    /// The total weight of the values below a number.
    pub fn below(&self, values: &[f64], number: f64) -> f64 {
        values.iter().zip(&self.0).filter(|(x, _)| **x < number).map(|(_, w)| w).sum()
    }
}

/// Summary of a marginal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
    /// The 5 % quantile.
    pub q05: f64,
    /// The median.
    pub q50: f64,
    /// The 95 % quantile.
    pub q95: f64,
    /// Whether the tails are light enough for the mean to be estimated by an average.
    pub has_mean: bool,
    /// The same for the standard deviation.
    pub has_sd: bool,
}

/// The share of a sum that one draw may have without any question.
const NO_QUESTION: f64 = 0.01;
/// Draws from which tails can be judged.
const ENOUGH: usize = 1000;

/// Relative differences between values of a constant, such as the first element of a Cholesky factor of correlations: processors round.
const ROUNDING: f64 = 1e-12;

/// Whether values differ by no more than rounding. NaN differs.
fn is_constant(values: &[f64]) -> bool {
    let Some(&first) = values.first() else { return false };
    values.iter().all(|x| (x - first).abs() <= ROUNDING * first.abs())
}

/// Whether a sum of terms of one sign can be relied on: no term dominates it, or the tail of the terms has a shape of at most 0.7.
fn is_reliable(terms: &[f64]) -> bool {
    let (total, largest) = terms.iter().fold((0.0, 0.0f64), |(total, largest), x| (total + x, largest.max(*x)));
    if largest <= NO_QUESTION * total || terms.len() < ENOUGH {
        return true;
    }
    let logs: Vec<f64> = terms.iter().map(|x| x.ln()).collect();
    // Not greater: NaN is not reliable.
    psis(&logs).k <= RELIABLE_K
}

/// Mean and standard deviation, and whether each can be relied on: by the tails of w(x − x̄), on both sides, and of
/// w(x − x̄)².
pub(crate) struct Moments {
    pub mean: f64,
    pub sd: f64,
    pub has_mean: bool,
    pub has_sd: bool,
}

impl Moments {
    pub fn new(values: &[f64], weights: &Weights) -> Self {
        if is_constant(values) {
            return Moments { mean: values[0], sd: 0.0, has_mean: true, has_sd: true };
        }
        let w = &weights.0;
        let mean: f64 = values.iter().zip(w).map(|(x, w)| x * w).sum();
        let squares: Vec<f64> = values.iter().zip(w).map(|(x, w)| w * (x - mean).powi(2)).collect();
        let variance: f64 = squares.iter().sum();
        let side =
            |sign: f64| -> Vec<f64> { values.iter().zip(w).map(|(x, w)| (sign * w * (x - mean)).max(0.0)).collect() };
        let has_sd = is_reliable(&squares);
        // Where squares have a light tail, so have the terms themselves.
        let has_mean = has_sd || (is_reliable(&side(1.0)) && is_reliable(&side(-1.0)));
        Moments { mean, sd: variance.sqrt(), has_mean, has_sd }
    }
}

/// The marginal of one quantity.
pub fn summarise(values: &[f64], weights: &Weights) -> Summary {
    let w = &weights.0;
    let Moments { mean, sd, has_mean, has_sd } = Moments::new(values, weights);
    let mut order: Vec<usize> = (0..values.len().min(w.len())).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut below = vec![];
    let mut total = 0.0;
    for &i in &order {
        // The middle of each draw's share of the distribution function.
        below.push(total + 0.5 * w[i]);
        total += w[i];
    }
    let quantile = |share: f64| {
        let at = below.partition_point(|b| *b < share * total);
        match (at.checked_sub(1), order.get(at)) {
            (Some(before), Some(&after)) => {
                let (low, high) = (values[order[before]], values[after]);
                let part = (share * total - below[before]) / (below[at] - below[before]).max(f64::MIN_POSITIVE);
                low + part * (high - low)
            }
            (None, Some(&first)) => values[first],
            (Some(last), None) => values[order[last]],
            (None, None) => f64::NAN,
        }
    };
    Summary { mean, sd, q05: quantile(0.05), q50: quantile(0.5), q95: quantile(0.95), has_mean, has_sd }
}

/// Marginals by name, as a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryTable(pub Vec<(String, Summary)>);

impl fmt::Display for SummaryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(4).max(4);
        write!(f, "{:<width$}  {:>10} {:>10} {:>10} {:>10} {:>10}", "", "mean", "sd", "5 %", "50 %", "95 %")?;
        for (name, s) in &self.0 {
            let known = |x: f64, is_known: bool| if is_known { short(x) } else { "–".to_owned() };
            let cells = [known(s.mean, s.has_mean), known(s.sd, s.has_sd), short(s.q05), short(s.q50), short(s.q95)];
            let cells = cells.map(|x| format!("{x:>10}"));
            write!(f, "\n{name:<width$}  {}", cells.join(" "))?;
        }
        Ok(())
    }
}

/// A number with about four digits.
fn short(x: f64) -> String {
    let text = match x.abs() {
        size if size != 0.0 && !(1e-3..1e6).contains(&size) => format!("{x:.3e}"),
        size if size >= 1000.0 => format!("{x:.1}"),
        size if size >= 10.0 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    };
    text.replace('-', "−")
}
