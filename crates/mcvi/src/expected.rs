//! The best Gaussian by Newton's method with expected derivatives: a better start than the curvature at the mode.

use crate::error::Result;
use crate::initialisation::{Initialisation, positive_inverse};
use crate::laplace::{ROWS, Values, precision};
use crate::params::Params;
use crate::seed::derive_seed;
use crate::target::Target;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

/// Iterations at most; a handful is usual.
const ITERATIONS: usize = 20;
/// A gain of the bound that is not worth another iteration.
const ENOUGH: f64 = 1e-2;

impl Initialisation {
    /// The Gaussian N(m, S) that maximises the bound over a fixed sample of `pairs` antithetic pairs, beginning with this one:
    /// S⁻¹ = −E ∇²log p and m ← m + S E ∇log p until the bound rises no further (Opper & Archambeau 2009).
    ///
    /// Every iteration takes a Hessian for each point of the sample. The bound never falls below that of the beginning, on
    /// the sample.
    pub fn refined(&self, target: &dyn Target, params: &Params, pairs: usize, seed: u64) -> Result<Self> {
        let d = target.dim();
        let mut rng = StdRng::seed_from_u64(derive_seed(seed, "expected curvature"));
        let half = DMatrix::from_fn(d, pairs, |_, _| -> f64 { StandardNormal.sample(&mut rng) });
        let mut point = Values::new(target, params, 1)?;
        let mut rows = Values::new(target, params, d.min(ROWS))?;
        let mut best = self.clone();
        let mut bound = f64::NEG_INFINITY;
        let mut next = Some(Sample::new(&mut point, self, &half)?);
        for _ in 0..ITERATIONS {
            let Some(sample) = next.take() else { break };
            let gain = sample.bound - bound;
            if gain.is_nan() || gain <= 0.0 {
                break;
            }
            (best, bound) = (sample.at.clone(), sample.bound);
            if gain < ENOUGH {
                break;
            }
            let n = sample.points.len() as f64;
            let mut curvature = DMatrix::zeros(d, d);
            for z in &sample.points {
                curvature += precision(&mut rows, z)? / n;
            }
            let (covariance, bent) = positive_inverse(&curvature, |_| Ok(None))?;
            if bent {
                break;
            }
            let center = DVector::from_column_slice(&best.center) - &covariance * &sample.gradient;
            let to = Initialisation::gaussian(center.as_slice().to_vec(), covariance);
            next = Some(Sample::new(&mut point, &to, &half)?);
        }
        best.warning.clone_from(&self.warning);
        best.seed = self.seed;
        Ok(best)
    }
}

/// Points of a Gaussian, and the averages of −∇log p and of the bound over them.
struct Sample {
    at: Initialisation,
    points: Vec<Vec<f64>>,
    gradient: DVector<f64>,
    bound: f64,
}

impl Sample {
    fn new(values: &mut Values, at: &Initialisation, half: &DMatrix<f64>) -> Result<Self> {
        let (d, units) = (at.center.len(), at.positions());
        let lower = DMatrix::from_row_slice(d, d, &units.factor());
        let center = DVector::from_column_slice(&at.center);
        let apart = &lower * half;
        let both = apart.column_iter().flat_map(|e| [&center + e, &center - e]);
        let points: Vec<Vec<f64>> = both.map(|z| z.as_slice().to_vec()).collect();
        let n = points.len() as f64;
        let (mut gradient, mut value) = (DVector::zeros(d), 0.0);
        for z in &points {
            let (here, slope) = values.descent(z)?;
            gradient += slope / n;
            value += here / n;
        }
        let log_det: f64 = lower.diagonal().iter().map(|s| s.ln()).sum();
        Ok(Sample { at: at.clone(), points, gradient, bound: log_det - value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_the_best_gaussian() {
        let target = crate::target::target(1, |_, z| (z * 3.0 - z.exp() - z.square() * 0.5).sum(&[1]));
        let laplace = Initialisation::laplace(&target, &Params::default(), None).unwrap();
        let refined = laplace.refined(&target, &Params::default(), 2000, 1).unwrap();
        // E log p is known under N(m, s); the bound is greatest where 3 − r = m and 1 / s = 1 + r, with r = E exp z.
        let bound = |m: f64, s: f64| 3.0 * m - (m + 0.5 * s).exp() - 0.5 * (m * m + s) + 0.5 * s.ln();
        let of = |start: &Initialisation| bound(start.center[0], start.covariance()[0]);
        let best = bound(0.687_422_729_064, 0.301_879_750_481);
        assert!(of(&refined) <= best && of(&refined) > best - ENOUGH, "{} of {best}", of(&refined));
        assert!(of(&laplace) < of(&refined) - ENOUGH, "{} and {}", of(&laplace), of(&refined));
    }
}
