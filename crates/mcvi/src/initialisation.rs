//! A Gaussian approximation of the target, which initialises everything and provides the units in which it is learned.

use crate::dense::Factor;
use crate::error::{Error, Result};
use crate::units::{Covariance, Units};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// A Gaussian approximation of the target: a centre, and a covariance from which step sizes and scales are derived. Copies
/// share the covariance and what was derived from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Initialisation {
    /// The centre.
    pub center: Vec<f64>,
    /// The covariance.
    spread: Arc<Spread>,
    /// A warning, such as that no mode was found.
    pub warning: Option<String>,
    /// The seed of the initial weights of networks.
    pub seed: u64,
}

/// A covariance.
#[derive(Debug)]
enum Spread {
    /// The standard deviations of independent coordinates.
    Diagonal(Vec<f64>),
    /// A matrix.
    Full { covariance: Arc<Covariance>, scales: OnceLock<Scales> },
}

/// What is derived from a covariance: standard deviations of positions and momenta, as in [`Units`], and the covariance of
/// momenta.
#[derive(Debug)]
struct Scales {
    positions: [Vec<f64>; 2],
    momenta: [Vec<f64>; 2],
    precision: Arc<Covariance>,
}

impl PartialEq for Spread {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Spread::Diagonal(a), Spread::Diagonal(b)) => a == b,
            (Spread::Full { covariance: a, .. }, Spread::Full { covariance: b, .. }) => a.matrix == b.matrix,
            _ => false,
        }
    }
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
        Ok(Initialisation::from_spread(center.to_vec(), Spread::Diagonal(sd.to_vec())))
    }

    /// The standard normal: for targets that have sensible units and need no search.
    pub fn standard(dim: usize) -> Self {
        Initialisation::from_spread(vec![0.0; dim], Spread::Diagonal(vec![1.0; dim]))
    }

    /// A centre and a covariance, row by row.
    pub fn with_covariance(center: &[f64], covariance: &[f64]) -> Result<Self> {
        let d = center.len();
        if d == 0 || covariance.len() != d * d || !center.iter().all(|c| c.is_finite()) {
            let why = "needs a finite centre, and a covariance of as many rows and columns".to_owned();
            return Err(Error::Setting { what: "initialisation", why });
        }
        Ok(Initialisation::gaussian(center.to_vec(), DMatrix::from_row_slice(d, d, covariance)))
    }

    /// The mean and the covariance of points, such as the draws of a fit.
    pub fn moments(points: &[Vec<f64>]) -> Self {
        let (n, d) = (points.len() as f64, points.first().map_or(0, Vec::len));
        let center: Vec<f64> = (0..d).map(|i| points.iter().map(|z| z[i]).sum::<f64>() / n).collect();
        let mut covariance = DMatrix::zeros(d, d);
        // A thousand at once: a copy of all would double the memory that the points take.
        for points in points.chunks(1000) {
            let apart = DMatrix::from_fn(d, points.len(), |i, k| points[k][i] - center[i]);
            covariance.gemm(1.0 / n, &apart, &apart.transpose(), 1.0);
        }
        Initialisation::gaussian(center, covariance)
    }

    /// A centre and any symmetric matrix in place of a covariance.
    pub(crate) fn gaussian(center: Vec<f64>, matrix: DMatrix<f64>) -> Self {
        let d = center.len();
        let independent = (0..d).all(|j| {
            let column = matrix.column(j);
            column[j] > 0.0 && column[j].is_finite() && (0..d).all(|i| i == j || column[i] == 0.0)
        });
        let spread = if independent {
            Spread::Diagonal(matrix.diagonal().map(f64::sqrt).as_slice().to_vec())
        } else {
            Spread::Full { covariance: Covariance::new(matrix), scales: OnceLock::new() }
        };
        Initialisation::from_spread(center, spread)
    }

    fn from_spread(center: Vec<f64>, spread: Spread) -> Self {
        Initialisation { center, spread: Arc::new(spread), warning: None, seed: 0 }
    }

    /// The covariance, row by row.
    pub fn covariance(&self) -> Cow<'_, [f64]> {
        let d = self.center.len();
        match self.spread.as_ref() {
            // A symmetric matrix: its columns are its rows.
            Spread::Full { covariance, .. } => covariance.matrix.as_slice().into(),
            Spread::Diagonal(sd) => {
                (0..d * d).map(|i| if i / d == i % d { sd[i / d] * sd[i / d] } else { 0.0 }).collect()
            }
        }
    }

    /// Typical values of z.
    pub(crate) fn positions(&self) -> Units {
        let center = self.center.clone();
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => Units { center, scale: sd.clone(), conditional: sd.clone(), covariance: None },
            Spread::Full { covariance, scales } => {
                let [scale, conditional] = scales.get_or_init(|| Scales::new(&covariance.matrix)).positions.clone();
                Units { center, scale, conditional, covariance: Some(covariance.clone()) }
            }
        }
    }

    /// Typical values of a momentum or of a gradient, whose covariance is the inverse.
    pub(crate) fn momenta(&self) -> Units {
        let center = vec![0.0; self.center.len()];
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => {
                let scale: Vec<f64> = sd.iter().map(|s| s.recip()).collect();
                Units { center, conditional: scale.clone(), scale, covariance: None }
            }
            Spread::Full { covariance, scales } => {
                let scales = scales.get_or_init(|| Scales::new(&covariance.matrix));
                let [scale, conditional] = scales.momenta.clone();
                Units { center, scale, conditional, covariance: Some(scales.precision.clone()) }
            }
        }
    }
}

impl Scales {
    fn new(covariance: &DMatrix<f64>) -> Self {
        let (precision, bent) = inverse(covariance);
        let scale = |matrix: &DMatrix<f64>| matrix.diagonal().map(f64::sqrt).as_slice().to_vec();
        let conditional = |inverse: &DMatrix<f64>| inverse.diagonal().map(|x| x.sqrt().recip()).as_slice().to_vec();
        Scales {
            positions: [scale(covariance), conditional(&precision)],
            // Unless it was corrected, the inverse of the inverse is the covariance.
            momenta: [
                scale(&precision),
                if bent { conditional(&inverse(&precision).0) } else { conditional(covariance) },
            ],
            precision: Covariance::new(precision),
        }
    }
}

/// The inverse of a matrix that is nearly a covariance, and whether it had to be corrected.
fn inverse(matrix: &DMatrix<f64>) -> (DMatrix<f64>, bool) {
    let d = matrix.nrows();
    positive_inverse(matrix, |_| Ok(None)).unwrap_or_else(|_| (DMatrix::identity(d, d), true))
}

/// The inverse of a symmetric matrix with its eigenvalues made positive, and whether that was necessary. If there is no
/// curvature along a direction, `width` may say how far the log density extends there.
pub(crate) fn positive_inverse(
    matrix: &DMatrix<f64>,
    mut width: impl FnMut(DVector<f64>) -> Result<Option<f64>>,
) -> Result<(DMatrix<f64>, bool)> {
    let d = matrix.nrows();
    if !matrix.iter().all(|x| x.is_finite()) {
        return Ok((DMatrix::identity(d, d), true));
    }
    // Scaled to a unit diagonal, so that coordinates with large units do not dominate the others.
    let scale = matrix.diagonal().map(|x| if x == 0.0 { 1.0 } else { x.abs().sqrt() });
    let scaled = DMatrix::from_fn(d, d, |i, j| 0.5 * (matrix[(i, j)] + matrix[(j, i)]) / (scale[i] * scale[j]));
    let unscaled = |whole: DMatrix<f64>| DMatrix::from_fn(d, d, |i, j| whole[(i, j)] / (scale[i] * scale[j]));
    // Far from singular, as nearly always, Cholesky's factor will do. No eigenvalue exceeds d, and none falls short of the
    // reciprocal of the inverse's trace.
    if let Some(factor) = Factor::new(&scaled)
        && factor.inverse.norm_squared() * (d as f64) < 1e12
    {
        return Ok((unscaled(factor.matrix_inverse()), false));
    }
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
    Ok((unscaled(whole), bent))
}
