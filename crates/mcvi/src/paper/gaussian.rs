//! Section 2.1: a bivariate Gaussian, Gibbs sampling and over-relaxation.

use crate::chain::{Chain, Sharing};
use crate::density::{Covariance, Gaussian, Inputs, Predictor};
use crate::scope::Scope;
use crate::target::{Conditional, Target};
use crate::transition::{Gibbs, Inverse, OverRelaxation};
use mcvi_expr::Expr;
use nalgebra::{Matrix2, Vector2};

/// log p(z) = −(z¹ − z²)²/2σ₁² − (z¹ + z²)²/2σ₂², unnormalised.
#[derive(Clone, Copy, Debug)]
pub struct BivariateGaussian {
    /// σ₁.
    pub sigma1: f64,
    /// σ₂.
    pub sigma2: f64,
}

impl Default for BivariateGaussian {
    fn default() -> Self {
        BivariateGaussian { sigma1: 1.0, sigma2: 10.0 }
    }
}

/// Where the chain starts, in both coordinates.
pub const START: f64 = -10.0;
/// The standard deviation of the start.
pub const START_SD: f64 = 1e-5;

impl BivariateGaussian {
    /// The inverse covariance: diagonal and off-diagonal.
    fn precision(&self) -> (f64, f64) {
        let (a, b) = (self.sigma1.powi(-2), self.sigma2.powi(-2));
        (a + b, b - a)
    }

    /// log Z.
    pub fn log_evidence(&self) -> f64 {
        let (diagonal, off) = self.precision();
        std::f64::consts::TAU.ln() - 0.5 * (diagonal * diagonal - off * off).ln()
    }
}

impl Target for BivariateGaussian {
    fn dim(&self) -> usize {
        2
    }

    fn log_density<'g>(&self, _: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let (a, b) = (z.at(1, 0), z.at(1, 1));
        (a - b).square() * (-0.5 * self.sigma1.powi(-2)) + (a + b).square() * (-0.5 * self.sigma2.powi(-2))
    }

    fn conditional<'g>(&self, scope: &Scope<'g>, z: Expr<'g>, coordinate: usize) -> Option<Conditional<'g>> {
        let (diagonal, off) = self.precision();
        let mean = z.at(1, 1 - coordinate) * (-off / diagonal);
        let sd = scope.graph().scalar(scope.dtype(), diagonal.sqrt().recip());
        Some(Conditional::Gaussian { mean, sd })
    }
}

/// Which sampler of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Gibbs sampling.
    Gibbs,
    /// Adler's over-relaxation.
    OverRelaxation,
}

/// The section's approximation: a very narrow initial distribution, a number of sweeps with one α, and for each sweep
/// an inverse model with mean linear in zₜ and full covariance.
pub fn chain(sampler: Sampler, sweeps: usize) -> Chain {
    let linear = Gaussian::new(Predictor::Linear(Inputs::POSITION), Covariance::Full);
    let chain = Chain::new(Gaussian::fixed(&[START; 2], &[START_SD; 2]));
    match sampler {
        Sampler::Gibbs => chain.steps(sweeps, Sharing::Transitions, Gibbs { inverse: Inverse::learned(linear) }),
        Sampler::OverRelaxation => {
            chain.steps(sweeps, Sharing::Transitions, OverRelaxation { inverse: Inverse::learned(linear) })
        }
    }
}

/// The bound after a number of sweeps at a given α (0 for Gibbs) with the exact inverse: log Z − KL(q(z_T) ‖ p), as the
/// chain is linear and Gaussian.
pub fn exact_bound(target: &BivariateGaussian, sweeps: usize, alpha: f64) -> f64 {
    let (diagonal, off) = target.precision();
    let (pull, variance) = (-off / diagonal, (1.0 - alpha * alpha) / diagonal);
    // zⁱ ← (1 − α) · pull · z^{other} + α zⁱ + noise, for each coordinate in turn.
    let updates =
        [Matrix2::new(alpha, (1.0 - alpha) * pull, 0.0, 1.0), Matrix2::new(1.0, 0.0, (1.0 - alpha) * pull, alpha)];
    let mut mean = Vector2::new(START, START);
    let mut covariance = Matrix2::identity() * (START_SD * START_SD);
    for _ in 0..sweeps {
        for (i, update) in updates.iter().enumerate() {
            mean = update * mean;
            covariance = update * covariance * update.transpose();
            covariance[(i, i)] += variance;
        }
    }
    let precision = Matrix2::new(diagonal, off, off, diagonal);
    let expected_log_p = -0.5 * ((precision * covariance).trace() + (mean.transpose() * precision * mean)[0]);
    expected_log_p + 0.5 * covariance.determinant().ln() + 1.0 + std::f64::consts::TAU.ln()
}

/// The α that maximises the exact bound, and that bound.
pub fn best_alpha(target: &BivariateGaussian, sweeps: usize) -> (f64, f64) {
    let bound = |alpha: f64| exact_bound(target, sweeps, alpha);
    let grid = (-99..=99).map(|i| f64::from(i) / 100.0);
    let top = grid.max_by(|a, b| bound(*a).total_cmp(&bound(*b))).unwrap_or(0.0);
    // Golden section between the grid's neighbours.
    let (mut low, mut high) = (top - 0.01, top + 0.01);
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let (a, b) = (high - ratio * (high - low), low + ratio * (high - low));
        if bound(a) < bound(b) { low = a } else { high = b }
    }
    let alpha = 0.5 * (low + high);
    (alpha, bound(alpha))
}
