//! Affine maps z = centre + R (scale · u), R a rotation: what moves, stretches and correlates the densities of `shape.rs`.

use super::random::Random;
use mcvi::{Expr, Scope};

/// An affine map from u to z.
#[derive(Clone, Debug)]
pub struct Affine {
    /// Where u = 0 goes.
    pub centre: Vec<f64>,
    /// The factor of each coordinate of u.
    pub scale: Vec<f64>,
    /// R, row by row; none if it is the identity.
    pub rotation: Option<Vec<f64>>,
}

impl Affine {
    /// Moves and stretches along the axes.
    pub fn new(centre: Vec<f64>, scale: Vec<f64>) -> Self {
        Affine { centre, scale, rotation: None }
    }

    /// A rotated map of this overall size whose covariance R diag(scale²) Rᵀ has this condition number.
    pub fn correlated(random: &mut Random, centre: Vec<f64>, size: f64, condition: f64) -> Self {
        let d = centre.len();
        let part = |i: usize, random: &mut Random| match i {
            0 => 0.0,
            _ if i + 1 == d => 1.0,
            _ => random.uniform(),
        };
        let scale = (0..d).map(|i| size * condition.powf(-0.5 * part(i, random))).collect();
        Affine { centre, scale, rotation: Some(random.rotation(d)) }
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.centre.len()
    }

    /// ln |det|.
    pub fn log_det(&self) -> f64 {
        self.scale.iter().map(|s| s.ln()).sum()
    }

    /// The geometric mean of the scales.
    pub fn width(&self) -> f64 {
        (self.log_det() / self.dim() as f64).exp()
    }

    /// The same map with all scales multiplied, around another centre.
    pub fn moved(&self, centre: Vec<f64>, factor: f64) -> Self {
        let scale = self.scale.iter().map(|s| s * factor).collect();
        Affine { centre, scale, rotation: self.rotation.clone() }
    }

    /// z of u.
    pub fn forward(&self, u: &[f64]) -> Vec<f64> {
        let stretched: Vec<f64> = u.iter().zip(&self.scale).map(|(u, s)| u * s).collect();
        let row = |i: usize| match &self.rotation {
            Some(r) => r[i * u.len()..].iter().zip(&stretched).map(|(r, x)| r * x).sum(),
            None => stretched[i],
        };
        (0..u.len()).map(|i| self.centre[i] + row(i)).collect()
    }

    /// u of z.
    pub fn inverse(&self, z: &[f64]) -> Vec<f64> {
        let d = z.len();
        let from: Vec<f64> = z.iter().zip(&self.centre).map(|(z, c)| z - c).collect();
        let column = |j: usize| match &self.rotation {
            Some(r) => (0..d).map(|i| r[i * d + j] * from[i]).sum(),
            None => from[j],
        };
        (0..d).map(|j| column(j) / self.scale[j]).collect()
    }

    /// How far from the centre, in standard deviations where u is standard normal.
    pub fn distance(&self, z: &[f64]) -> f64 {
        self.inverse(z).iter().map(|u| u * u).sum::<f64>().sqrt()
    }

    /// Rows of u of rows of z.
    pub fn inverse_expr<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let from = z - scope.vector(&self.centre);
        let d = self.dim();
        let turned = match &self.rotation {
            Some(r) => from.matmul(scope.vector(r).reshape([d, d])),
            None => from,
        };
        turned / scope.vector(&self.scale)
    }

    /// Means and standard deviations of z, given means and variances of the coordinates of u, which are uncorrelated.
    pub fn moments(&self, mean: &[f64], variance: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let d = self.dim();
        let stretched: Vec<f64> = variance.iter().zip(&self.scale).map(|(v, s)| v * s * s).collect();
        let row = |i: usize| match &self.rotation {
            Some(r) => r[i * d..].iter().zip(&stretched).map(|(r, v)| r * r * v).sum::<f64>(),
            None => stretched[i],
        };
        (self.forward(mean), (0..d).map(|i| row(i).sqrt()).collect())
    }
}
