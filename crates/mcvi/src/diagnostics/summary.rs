//! Means, standard deviations and quantiles of weighted draws.

use super::psis;
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
    /// Draws of equal weight: the index of the draw to take for each. Systematic resampling; the seed sets its offset.
    pub fn resample(&self, seed: u64) -> Vec<usize> {
        let Weights(weights) = self;
        let (n, total) = (weights.len(), weights.iter().sum::<f64>());
        let offset = (seed as f64 * 0.618_033_988_749_895).fract();
        let (mut picked, mut reached, mut i) = (Vec::with_capacity(n), weights.first().copied().unwrap_or(0.0), 0);
        for k in 0..n {
            let at = (k as f64 + offset) / n as f64 * total;
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
}

/// The marginal of one quantity.
pub fn summarise(values: &[f64], weights: &Weights) -> Summary {
    let w = &weights.0;
    let mean: f64 = values.iter().zip(w).map(|(x, w)| x * w).sum();
    let variance: f64 = values.iter().zip(w).map(|(x, w)| w * (x - mean).powi(2)).sum();
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
    Summary { mean, sd: variance.sqrt(), q05: quantile(0.05), q50: quantile(0.5), q95: quantile(0.95) }
}

/// Marginals by name, as a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryTable(pub Vec<(String, Summary)>);

impl fmt::Display for SummaryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(4).max(4);
        write!(f, "{:<width$}  {:>10} {:>10} {:>10} {:>10} {:>10}", "", "mean", "sd", "5 %", "50 %", "95 %")?;
        for (name, s) in &self.0 {
            let cells = [s.mean, s.sd, s.q05, s.q50, s.q95].map(|x| format!("{:>10}", short(x)));
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
