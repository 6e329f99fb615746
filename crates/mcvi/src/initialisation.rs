//! A Gaussian approximation of the target, which initialises everything and provides the units in which it is learned.

use crate::dense::Factor;
use crate::error::{Error, Result};
use crate::low_rank::{LowRank, RANK};
use crate::record::{Record, finite};
use crate::units::{Covariance, Dependence, Units};
use mcvi_expr::Array;
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
    /// A few directions beside independent coordinates.
    LowRank { covariance: Arc<LowRank>, precision: Arc<LowRank> },
}

/// Dimension up to which a covariance is a matrix without asking whether a low rank would do.
pub(crate) const FULL: usize = 500;

/// Points that a covariance of low rank is made of, at most.
const MOMENTS: usize = 5000;

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
            (Spread::LowRank { covariance: a, .. }, Spread::LowRank { covariance: b, .. }) => a == b,
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

    /// The mean and the covariance of points, such as the draws of a fit; in many dimensions, the covariance by a low rank.
    pub fn moments(points: &[Vec<f64>]) -> Self {
        let (n, d) = (points.len() as f64, points.first().map_or(0, Vec::len));
        let center: Vec<f64> = (0..d).map(|i| points.iter().map(|z| z[i]).sum::<f64>() / n).collect();
        if d > FULL {
            // Where points are not finite, neither is the covariance.
            let lost = |_| Initialisation::from_spread(center.clone(), Spread::Diagonal(vec![f64::NAN; d]));
            let few = &points[..points.len().min(MOMENTS)];
            let found = LowRank::of_points(few, &center, RANK);
            return found.map(|low| Initialisation::low_rank(center.clone(), low)).unwrap_or_else(lost);
        }
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

    /// A centre and a covariance of low rank plus a diagonal.
    pub(crate) fn low_rank(center: Vec<f64>, covariance: LowRank) -> Self {
        let spread = if covariance.gain.is_empty() {
            Spread::Diagonal(covariance.sd)
        } else {
            let precision = Arc::new(covariance.inverse());
            Spread::LowRank { covariance: Arc::new(covariance), precision }
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
            Spread::LowRank { covariance, .. } => covariance.matrix().as_slice().to_vec().into(),
            Spread::Diagonal(sd) => {
                (0..d * d).map(|i| if i / d == i % d { sd[i / d] * sd[i / d] } else { 0.0 }).collect()
            }
        }
    }

    /// The covariance, if it is of low rank plus a diagonal.
    pub(crate) fn as_low_rank(&self) -> Option<&LowRank> {
        match self.spread.as_ref() {
            Spread::LowRank { covariance, .. } => Some(covariance),
            _ => None,
        }
    }

    /// Whether all of it is finite.
    pub(crate) fn is_finite(&self) -> bool {
        let spread: &mut dyn Iterator<Item = &f64> = match self.spread.as_ref() {
            Spread::Diagonal(sd) => &mut sd.iter(),
            Spread::Full { covariance, .. } => &mut covariance.matrix.iter(),
            Spread::LowRank { covariance, .. } => &mut covariance.sd.iter().chain(&covariance.gain),
        };
        spread.chain(&self.center).all(|x| x.is_finite())
    }

    /// c + Ly, where LLᵀ is the covariance.
    pub(crate) fn original(&self, y: &[f64]) -> Vec<f64> {
        let d = y.len();
        let apart = |i: usize, x: f64| self.center[i] + x;
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => (0..d).map(|i| apart(i, sd[i] * y[i])).collect(),
            Spread::Full { covariance, .. } => {
                let row = |i: usize| covariance.factor()[i * d..=i * d + i].iter().zip(y).map(|(l, y)| l * y).sum();
                (0..d).map(|i| apart(i, row(i))).collect()
            }
            Spread::LowRank { covariance, .. } => {
                let v = covariance.times(&DVector::from_column_slice(y));
                (0..d).map(|i| apart(i, v[i])).collect()
            }
        }
    }

    /// y of z = c + Ly.
    pub(crate) fn standardised(&self, z: &[f64]) -> DVector<f64> {
        let d = z.len();
        let mut y = DVector::from_fn(d, |i, _| z[i] - self.center[i]);
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => (0..d).for_each(|i| y[i] /= sd[i]),
            Spread::Full { covariance, .. } => {
                let factor = covariance.factor();
                for i in 0..d {
                    let row = &factor[i * d..=i * d + i];
                    let before: f64 = row[..i].iter().zip(y.iter()).map(|(l, y)| l * y).sum();
                    y[i] = (y[i] - before) / row[i];
                }
            }
            Spread::LowRank { covariance, .. } => y = covariance.solve(&y),
        }
        y
    }

    /// log |det L|.
    pub(crate) fn log_det(&self) -> f64 {
        let d = self.center.len();
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => sd.iter().map(|s| s.ln()).sum(),
            Spread::Full { covariance, .. } => covariance.factor().iter().step_by(d + 1).map(|s| s.ln()).sum(),
            Spread::LowRank { covariance, .. } => covariance.log_det(),
        }
    }

    /// Add centre and covariance to a record, under names that begin so.
    pub(crate) fn record(&self, record: &mut Record, prefix: &str) -> Result<()> {
        let d = self.center.len();
        let mut set = |name: &str, array| record.set_array(&format!("{prefix}{name}"), array);
        set("center", Array::new(d, self.center.clone())?);
        match self.as_low_rank() {
            None => set("covariance", Array::new([d, d], self.covariance().into_owned())?),
            Some(low) => {
                let (sd, gain) = (low.sd.clone(), low.gain.clone());
                set("sd", Array::new(d, sd)?);
                set("directions", Array::new([gain.len(), d], low.directions.as_slice().to_vec())?);
                set("gain", Array::new(gain.len(), gain)?);
            }
        }
        Ok(())
    }

    /// The same from a record.
    pub(crate) fn recorded(record: &Record, prefix: &str) -> Result<Self, String> {
        let read = |name: &str| record.array(&format!("{prefix}{name}"));
        let center = read("center")?;
        finite(&format!("{prefix}center"), center)?;
        let (center, text) = (center.to_f64(), |e: Error| e.to_string());
        let Ok(gain) = read("gain") else {
            let covariance = read("covariance")?.to_f64();
            if covariance.len() != center.len().pow(2) {
                return Err(format!("`{prefix}covariance` is not a matrix of {} rows", center.len()));
            }
            return Initialisation::with_covariance(&center, &covariance).map_err(text);
        };
        let (sd, directions, gain) = (read("sd")?.to_f64(), read("directions")?.to_f64(), gain.to_f64());
        if sd.len() != center.len() || directions.len() != center.len() * gain.len() {
            return Err(format!("`{prefix}directions` are not {} of {} numbers", gain.len(), center.len()));
        }
        let directions = DMatrix::from_vec(sd.len(), gain.len(), directions);
        Ok(Initialisation::low_rank(center, LowRank::new(sd, directions, gain).map_err(text)?))
    }

    /// Typical values of z.
    pub(crate) fn positions(&self) -> Units {
        let center = self.center.clone();
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => {
                let dependence = Dependence::Independent;
                Units { center, scale: sd.clone(), conditional: sd.clone(), dependence }
            }
            Spread::Full { covariance, scales } => {
                let [scale, conditional] = scales.get_or_init(|| Scales::new(&covariance.matrix)).positions.clone();
                Units { center, scale, conditional, dependence: Dependence::Full(covariance.clone()) }
            }
            Spread::LowRank { covariance, precision } => low_rank_units(center, covariance, precision),
        }
    }

    /// Typical values of a momentum or of a gradient, whose covariance is the inverse.
    pub(crate) fn momenta(&self) -> Units {
        let center = vec![0.0; self.center.len()];
        match self.spread.as_ref() {
            Spread::Diagonal(sd) => {
                let scale: Vec<f64> = sd.iter().map(|s| s.recip()).collect();
                Units { center, conditional: scale.clone(), scale, dependence: Dependence::Independent }
            }
            Spread::Full { covariance, scales } => {
                let scales = scales.get_or_init(|| Scales::new(&covariance.matrix));
                let [scale, conditional] = scales.momenta.clone();
                Units { center, scale, conditional, dependence: Dependence::Full(scales.precision.clone()) }
            }
            Spread::LowRank { covariance, precision } => low_rank_units(center, precision, covariance),
        }
    }
}

/// Units of a covariance and its inverse.
fn low_rank_units(center: Vec<f64>, covariance: &Arc<LowRank>, inverse: &LowRank) -> Units {
    let conditional = inverse.scale().iter().map(|s| s.recip()).collect();
    Units { center, scale: covariance.scale(), conditional, dependence: Dependence::LowRank(covariance.clone()) }
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
