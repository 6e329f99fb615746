//! Where to start: the mode of the target and its curvature there.

use crate::density::Units;
use crate::error::{Error, Result};
use crate::minimise::minimise;
use crate::params::Params;
use crate::scope::{Choices, Scope};
use crate::target::{Landscape, Target};
use mcvi_expr::{Array, DType, Graph, Program, grad};
use nalgebra::{DMatrix, DVector, SymmetricEigen};

/// A Gaussian picture of the target: a centre, and a covariance that step sizes and scales are taken from.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The centre.
    pub center: Vec<f64>,
    /// The covariance, row by row.
    pub covariance: Vec<f64>,
    /// What was not as it should be, such as a mode that was not found.
    pub warning: Option<String>,
    /// The seed of the weights that networks start from.
    pub seed: u64,
}

/// Most dimensions for which the whole matrix of second derivatives is taken.
const WHOLE_HESSIAN: usize = 512;

impl Start {
    /// A centre and a standard deviation for each coordinate.
    pub fn new(center: &[f64], sd: &[f64]) -> Result<Self> {
        let d = center.len();
        let ok = d > 0 && sd.len() == d && center.iter().all(|c| c.is_finite());
        if !ok || !sd.iter().all(|s| s.is_finite() && *s > 0.0) {
            let why = "needs a finite centre and a positive standard deviation for each coordinate".to_owned();
            return Err(Error::Setting { what: "start", why });
        }
        let covariance = (0..d * d).map(|i| if i / d == i % d { sd[i / d] * sd[i / d] } else { 0.0 }).collect();
        Ok(Start { center: center.to_vec(), covariance, warning: None, seed: 0 })
    }

    /// The standard normal: for targets that are given in sensible units and need no search.
    pub fn standard(dim: usize) -> Self {
        let covariance = (0..dim * dim).map(|i| f64::from(i / dim == i % dim)).collect();
        Start { center: vec![0.0; dim], covariance, warning: None, seed: 0 }
    }

    /// Climb to a mode from `guess` (or the origin) and take the curvature there.
    pub fn laplace(target: &dyn Target, params: &Params, guess: Option<&[f64]>) -> Result<Self> {
        let d = target.dim();
        if d == 0 {
            return Err(Error::Target { why: "it has no coordinates".to_owned() });
        }
        let origin = vec![0.0; d];
        let guess = guess.unwrap_or(&origin);
        if guess.len() != d {
            let why = format!("the guess has {} coordinates, the target {d}", guess.len());
            return Err(Error::Setting { what: "start", why });
        }
        let mut value = Values::new(target, params, 1)?;
        let (first, _) = value.descent(guess)?;
        if !first.is_finite() {
            let why = format!("its log density is {} at the starting point; give one where it is finite", -first);
            return Err(Error::Target { why });
        }
        let (center, settled) = minimise(|z| value.descent(z), guess, 3000)?;
        let (center, covariance, settled, bent) = if d <= WHOLE_HESSIAN {
            newton(&mut value, &mut Values::new(target, params, d)?, center)?
        } else {
            // One row holds the sum of a row of the matrix: for a diagonal that leads it, near enough to start from.
            let sums = Values::new(target, params, 1)?.curvature(&center, &vec![1.0; d])?;
            let precision = DMatrix::from_diagonal(&DVector::from_iterator(d, sums.iter().map(|h| -h)));
            let (covariance, bent) = positive_inverse(precision, |_| Ok(None))?;
            (center, covariance, settled, bent)
        };
        let warning = match (settled, bent) {
            (true, false) => None,
            (false, _) => Some("no mode was found: the log density still rises where the search stopped".to_owned()),
            (true, true) => Some("the log density is not curved downwards at the mode in every direction".to_owned()),
        };
        Ok(Start { center, covariance: covariance.as_slice().to_vec(), warning, seed: 0 })
    }

    fn matrix(&self) -> DMatrix<f64> {
        let d = self.center.len();
        DMatrix::from_row_slice(d, d, &self.covariance)
    }

    /// Typical values of z.
    pub(crate) fn positions(&self) -> Units {
        units(self.center.clone(), &self.matrix())
    }

    /// Typical values of a momentum, or of a gradient: the inverse covariance is theirs.
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

/// Newton's method from a place near the mode, where the units of the coordinates no longer matter: the mode, the
/// covariance there, whether the search has settled and whether the curvature had to be mended.
fn newton(value: &mut Values, rows: &mut Values, mut center: Vec<f64>) -> Result<(Vec<f64>, DMatrix<f64>, bool, bool)> {
    let d = center.len();
    let mut steps = 0;
    loop {
        let (here, gradient) = value.descent(&center)?;
        let (covariance, bent) = positive_inverse(precision(rows, &center)?, |u| value.width(&center, here, &u))?;
        let direction = -(&covariance * &gradient);
        // The decrease that a quadratic would show, twice: the squared distance in standard deviations.
        let decrement = -direction.dot(&gradient);
        let settled = decrement <= 1e-4;
        let next = if decrement > 1e-12 && steps < 50 && direction.iter().all(|x| x.is_finite()) {
            let mut next = None;
            for halvings in 0..30 {
                let to: Vec<f64> = (0..d).map(|i| center[i] + direction[i] * 0.5f64.powi(halvings)).collect();
                let (there, slope) = value.descent(&to)?;
                if there < here && there.is_finite() && slope.iter().all(|g| g.is_finite()) {
                    next = Some(to);
                    break;
                }
            }
            next
        } else {
            None
        };
        match next {
            Some(next) => (center, steps) = (next, steps + 1),
            None => return Ok((center, covariance, settled, bent)),
        }
    }
}

/// The inverse of a matrix that is nearly a covariance.
fn inverse(matrix: DMatrix<f64>) -> (DMatrix<f64>, bool) {
    let d = matrix.nrows();
    positive_inverse(matrix, |_| Ok(None)).unwrap_or_else(|_| (DMatrix::identity(d, d), true))
}

/// The inverse of a symmetric matrix with its eigenvalues made positive, and whether they had to be. Where there is
/// no curvature along a direction, `width` may tell how far the log density reaches there.
fn positive_inverse(
    matrix: DMatrix<f64>,
    mut width: impl FnMut(DVector<f64>) -> Result<Option<f64>>,
) -> Result<(DMatrix<f64>, bool)> {
    let d = matrix.nrows();
    if !matrix.iter().all(|x| x.is_finite()) {
        return Ok((DMatrix::identity(d, d), true));
    }
    // Scaled to a unit diagonal, so that coordinates of very different units do not drown each other.
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

/// Compiled log density, gradient and Hessian-vector product over some rows.
struct Values {
    program: Program,
    rows: usize,
    d: usize,
    dtype: DType,
}

impl Values {
    fn new(target: &dyn Target, params: &Params, rows: usize) -> Result<Self> {
        let (graph, d, dtype) = (Graph::new(), target.dim(), target.dtype());
        let scope = Scope::new(&graph, rows, dtype, Choices::Sample, &Start::standard(d), params)?;
        let (z, v) = (graph.input("z", dtype, [rows, d]), graph.input("v", dtype, [rows, d]));
        let at = Landscape { target, scope, bridge: None }.at(z)?;
        let product = grad((at.gradient * v).sum_all(), &[z])?[0];
        let program = graph.program().output("log_p", at.log_p).output("gradient", at.gradient);
        let program = program.output("product", product).threads(1).compile()?;
        Ok(Values { program, rows, d, dtype })
    }

    fn run(&mut self, z: &[f64], v: &[f64]) -> Result<()> {
        for (name, values) in [("z", z), ("v", v)] {
            self.program.write(name, &Array::new([self.rows, self.d], values.to_vec())?.cast(self.dtype))?;
        }
        Ok(self.program.run(1)?)
    }

    /// −log p and its gradient.
    fn descent(&mut self, z: &[f64]) -> Result<(f64, DVector<f64>)> {
        self.run(z, &vec![0.0; z.len()])?;
        let value = -self.program.output("log_p")?.to_f64()[0];
        let gradient = DVector::from_vec(self.program.output("gradient")?.to_f64());
        Ok((if value.is_nan() { f64::INFINITY } else { value }, -gradient))
    }

    /// How far from the centre, along a direction, the log density has fallen by a half; none where it does not.
    fn width(&mut self, center: &[f64], here: f64, direction: &DVector<f64>) -> Result<Option<f64>> {
        let mut falls = |s: f64| -> Result<bool> {
            let mut both = [s, -s].into_iter().map(|s| {
                let to: Vec<f64> = center.iter().zip(direction.iter()).map(|(c, u)| c + s * u).collect();
                Ok(self.descent(&to)?.0 - here)
            });
            Ok(both.try_fold(0.0, |sum: f64, fall: Result<f64>| fall.map(|f| sum + f))? > 1.0)
        };
        let mut s = 1.0;
        let outside = falls(s)?;
        for _ in 0..60 {
            let next = if outside { 0.5 * s } else { 2.0 * s };
            if falls(next)? != outside {
                return Ok(Some(s.min(next)));
            }
            s = next;
        }
        Ok(None)
    }

    /// Second derivatives times v.
    fn curvature(&mut self, z: &[f64], v: &[f64]) -> Result<Vec<f64>> {
        self.run(z, v)?;
        Ok(self.program.output("product")?.to_f64())
    }
}

/// log p(x, z) at some places.
pub fn log_density(target: &dyn Target, places: &[Vec<f64>]) -> Result<Vec<f64>> {
    let d = target.dim();
    if places.is_empty() || places.iter().any(|z| z.len() != d) {
        let why = format!("needs at least one place, and {d} coordinates for each");
        return Err(Error::Setting { what: "log density", why });
    }
    let mut values = Values::new(target, &Params::default(), places.len())?;
    values.run(&places.concat(), &vec![0.0; places.len() * d])?;
    Ok(values.program.output("log_p")?.to_f64())
}

/// The negative matrix of second derivatives.
fn precision(rows: &mut Values, z: &[f64]) -> Result<DMatrix<f64>> {
    let d = z.len();
    // Every row is a copy of z with its own direction, so one evaluation gives the whole matrix.
    let unit: Vec<f64> = (0..d * d).map(|i| f64::from(i / d == i % d)).collect();
    let products = rows.curvature(&z.repeat(d), &unit)?;
    Ok(DMatrix::from_row_slice(d, d, &products) * -1.0)
}
