//! The best Gaussian by Newton's method with expected derivatives: a better start than the curvature at the mode.

use crate::error::Result;
use crate::initialisation::{Initialisation, positive_inverse};
use crate::laplace::{Order, ROWS, Values, curvature, precision};
use crate::params::Params;
use crate::seed::derive_seed;
use crate::target::{Target, rows_at_once};
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
        let mut point = Values::new(target, params, 1, Order::Gradient)?;
        let mut rows = None;
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
            let center = DVector::from_column_slice(&best.center);
            let to = if let Some(low) = best.as_low_rank() {
                let mut points = Values::new(target, params, sample.points.len(), Order::Curvature)?;
                let diagonal: Vec<f64> = low.sd.iter().map(|s| s.powi(-2)).collect();
                let low = curvature(&mut points, &sample.points, &diagonal)?.covariance;
                let center = center - low.times(&low.transposed(&sample.gradient));
                Some(Initialisation::low_rank(center.as_slice().to_vec(), low))
            } else {
                let rows = match &mut rows {
                    Some(rows) => rows,
                    none => {
                        none.insert(Values::new(target, params, rows_at_once(target, d.min(ROWS)), Order::Curvature)?)
                    }
                };
                let n = sample.points.len() as f64;
                let mut curvature = DMatrix::zeros(d, d);
                for z in &sample.points {
                    curvature += precision(rows, z)? / n;
                }
                let (covariance, bent) = positive_inverse(&curvature, |_| Ok(None))?;
                let center = center - &covariance * &sample.gradient;
                (!bent).then(|| Initialisation::gaussian(center.as_slice().to_vec(), covariance))
            };
            let Some(to) = to else { break };
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
        let d = at.center.len();
        let both = half.column_iter().flat_map(|e| [e.into_owned(), -e]);
        let points: Vec<Vec<f64>> = both.map(|e| at.original(e.as_slice())).collect();
        let n = points.len() as f64;
        let (mut gradient, mut value) = (DVector::zeros(d), 0.0);
        for z in &points {
            let (here, slope) = values.descent(z)?;
            gradient += slope / n;
            value += here / n;
        }
        Ok(Sample { at: at.clone(), points, gradient, bound: at.log_det() - value })
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
