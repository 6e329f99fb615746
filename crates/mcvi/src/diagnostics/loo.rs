//! Leave-one-out cross-validation by Pareto-smoothed importance sampling (Vehtari, Gelman and Gabry 2017), "Practical
//! Bayesian model evaluation using leave-one-out cross-validation and WAIC".

use super::importance::log_sum_exp;
use super::moments::{Mean, mean};
use super::psis::psis;

/// How well a model predicts observations that it has not seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Loo {
    /// The log predictive density of each observation given all others.
    pub pointwise: Vec<f64>,
    /// The Pareto k̂ of each: above [`RELIABLE_K`](super::RELIABLE_K) its estimate is not reliable.
    pub k: Vec<f64>,
    /// The effective number of parameters.
    pub parameters: f64,
}

impl Loo {
    /// From the log likelihoods of `n` observations in draws of equal weight, draw by draw.
    pub fn new(log_likelihood: &[f64], n: usize) -> Self {
        let (mut pointwise, mut k, mut within) = (vec![], vec![], 0.0);
        for i in 0..n {
            let of: Vec<f64> = log_likelihood.iter().skip(i).step_by(n).copied().collect();
            let smoothed = psis(&of.iter().map(|l| -l).collect::<Vec<_>>());
            let terms: Vec<f64> = smoothed.log_weights.iter().zip(&of).map(|(w, l)| w + l).collect();
            pointwise.push(log_sum_exp(&terms));
            k.push(smoothed.k);
            within += log_sum_exp(&of) - (of.len() as f64).ln();
        }
        let parameters = within - pointwise.iter().sum::<f64>();
        Loo { pointwise, k, parameters }
    }

    /// The expected log predictive density of as many new observations, with its standard error.
    pub fn elpd(&self) -> Mean {
        total(&self.pointwise)
    }

    /// How much more another model of the same observations has, with the standard error of the difference.
    pub fn difference(&self, other: &Loo) -> Mean {
        total(&other.pointwise.iter().zip(&self.pointwise).map(|(a, b)| a - b).collect::<Vec<_>>())
    }
}

/// The sum of independent terms.
fn total(terms: &[f64]) -> Mean {
    let (n, each) = (terms.len() as f64, mean(terms));
    Mean { value: each.value * n, se: each.se * n, n: terms.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conjugate_normal_has_its_exact_value() {
        // y ~ normal(m, 1) with a flat m: the posterior is normal(mean, 1/√n), and given all others y_i is normal around
        // their mean with variance 1 + 1/(n − 1).
        let y = [0.3, -1.2, 0.8, 2.1, -0.4, 0.1, 1.4, -0.9];
        let n = y.len() as f64;
        let sum: f64 = y.iter().sum();
        // Quantiles of the posterior in place of draws.
        let draws = 20_000;
        let mut state = 1_u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let log = |y: f64, m: f64, v: f64| -0.5 * (y - m).powi(2) / v - 0.5 * (std::f64::consts::TAU * v).ln();
        let likelihood: Vec<f64> = (0..draws)
            .flat_map(|_| {
                let m = sum / n + normal() / n.sqrt();
                y.map(|y| log(y, m, 1.0))
            })
            .collect();
        let loo = Loo::new(&likelihood, y.len());
        for (i, y) in y.iter().enumerate() {
            let exact = log(*y, (sum - y) / (n - 1.0), n / (n - 1.0));
            assert!((loo.pointwise[i] - exact).abs() < 0.02, "{i}: {} {exact}", loo.pointwise[i]);
        }
        assert!(loo.k.iter().all(|k| *k < 0.7) && loo.parameters > 0.5 && loo.parameters < 2.0, "{loo:?}");
        let zero = loo.difference(&loo);
        assert_eq!((zero.value, zero.se), (0.0, 0.0));
    }
}
