//! A Gaussian approximation of the target, which initialises everything and provides the units in which it is learned.

use crate::error::{Error, Result};
use crate::units::Units;
use nalgebra::{DMatrix, DVector, SymmetricEigen};

/// A Gaussian approximation of the target: a centre, and a covariance from which step sizes and scales are derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Initialisation {
    /// The centre.
    pub center: Vec<f64>,
    /// The covariance, row by row.
    pub covariance: Vec<f64>,
    /// A warning, such as that no mode was found.
    pub warning: Option<String>,
    /// The seed of the initial weights of networks.
    pub seed: u64,
}

impl Initialisation {
    /// A centre and a standard deviation for each coordinate.
    pub fn new(center: &[f64], sd: &[f64]) -> Result<Self> {
        let d = center.len();
        let ok = d > 0 && sd.len() == d && center.iter().all(|c| c.is_finite());
        if !ok || !sd.iter().all(|s| s.is_finite() && *s > 0.0) {
            let why = "needs a finite centre and a positive standard deviation for each coordinate".to_owned();
            return Err(Error::Setting { what: "initialisation", why });
        }
        let covariance = (0..d * d).map(|i| if i / d == i % d { sd[i / d] * sd[i / d] } else { 0.0 }).collect();
        Ok(Initialisation { center: center.to_vec(), covariance, warning: None, seed: 0 })
    }

    /// The standard normal: for targets that have sensible units and need no search.
    pub fn standard(dim: usize) -> Self {
        let covariance = (0..dim * dim).map(|i| f64::from(i / dim == i % dim)).collect();
        Initialisation { center: vec![0.0; dim], covariance, warning: None, seed: 0 }
    }

    /// The mean and the covariance of points, such as the draws of a fit.
    pub fn moments(points: &[Vec<f64>]) -> Self {
        let (n, d) = (points.len() as f64, points.first().map_or(0, Vec::len));
        let center: Vec<f64> = (0..d).map(|i| points.iter().map(|z| z[i]).sum::<f64>() / n).collect();
        let product =
            |i: usize, j: usize| points.iter().map(|z| (z[i] - center[i]) * (z[j] - center[j])).sum::<f64>() / n;
        let covariance = (0..d * d).map(|k| product(k / d, k % d)).collect();
        Initialisation { center, covariance, warning: None, seed: 0 }
    }

    fn matrix(&self) -> DMatrix<f64> {
        let d = self.center.len();
        DMatrix::from_row_slice(d, d, &self.covariance)
    }

    /// Typical values of z.
    pub(crate) fn positions(&self) -> Units {
        units(self.center.clone(), &self.matrix())
    }

    /// Typical values of a momentum or of a gradient, whose covariance is the inverse.
    pub(crate) fn momenta(&self) -> Units {
        let (inverse, _) = inverse(self.matrix());
        units(vec![0.0; self.center.len()], &inverse)
    }
}

fn units(center: Vec<f64>, covariance: &DMatrix<f64>) -> Units {
    let d = center.len();
    let (precision, _) = inverse(covariance.clone());
    let scale = (0..d).map(|i| covariance[(i, i)].sqrt()).collect();
    let conditional = (0..d).map(|i| precision[(i, i)].sqrt().recip()).collect();
    let lower = covariance
        .clone()
        .cholesky()
        .map_or_else(|| DMatrix::from_diagonal(&covariance.diagonal().map(f64::sqrt)), |factor| factor.l());
    let factor = (0..d * d).map(|i| lower[(i / d, i % d)]).collect();
    Units { center, scale, conditional, factor }
}

/// The inverse of a matrix that is nearly a covariance.
fn inverse(matrix: DMatrix<f64>) -> (DMatrix<f64>, bool) {
    let d = matrix.nrows();
    positive_inverse(matrix, |_| Ok(None)).unwrap_or_else(|_| (DMatrix::identity(d, d), true))
}

/// The inverse of a symmetric matrix with its eigenvalues made positive, and whether that was necessary. If there is no
/// curvature along a direction, `width` may say how far the log density extends there.
pub(crate) fn positive_inverse(
    matrix: DMatrix<f64>,
    mut width: impl FnMut(DVector<f64>) -> Result<Option<f64>>,
) -> Result<(DMatrix<f64>, bool)> {
    let d = matrix.nrows();
    if !matrix.iter().all(|x| x.is_finite()) {
        return Ok((DMatrix::identity(d, d), true));
    }
    // Scaled to a unit diagonal, so that coordinates with large units do not dominate the others.
    let scale = matrix.diagonal().map(|x| if x == 0.0 { 1.0 } else { x.abs().sqrt() });
    let scaled = DMatrix::from_fn(d, d, |i, j| 0.5 * (matrix[(i, j)] + matrix[(j, i)]) / (scale[i] * scale[j]));
    let eigen = SymmetricEigen::new(scaled);
    let top = eigen.eigenvalues.amax();
    let bent = eigen.eigenvalues.iter().any(|&l| l <= 1e-12 * top);
    let v = &eigen.eigenvectors;
    let mut variances = DVector::zeros(d);
    for (i, l) in eigen.eigenvalues.iter().enumerate() {
        variances[i] = if l.abs() > 1e-12 * top {
            l.abs().recip()
        } else {
            let direction = DVector::from_fn(d, |j, _| v[(j, i)] / scale[j]);
            width(direction)?.unwrap_or(1.0).powi(2)
        };
    }
    let whole = v * DMatrix::from_diagonal(&variances) * v.transpose();
    Ok((DMatrix::from_fn(d, d, |i, j| whole[(i, j)] / (scale[i] * scale[j])), bent))
}
