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
        Ok(Start { center: center.to_vec(), covariance, warning: None })
    }

    /// The standard normal: for targets that are given in sensible units and need no search.
    pub fn standard(dim: usize) -> Self {
        let covariance = (0..dim * dim).map(|i| f64::from(i / dim == i % dim)).collect();
        Start { center: vec![0.0; dim], covariance, warning: None }
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
        let (center, settled) = minimise(|z| value.descent(z), guess, 1000)?;
        let precision = if d <= WHOLE_HESSIAN {
            precision(target, params, &center)?
        } else {
            // One row holds the sum of a row of the matrix: for a diagonal that leads it, near enough to start from.
            let sums = Values::new(target, params, 1)?.curvature(&center, &vec![1.0; d])?;
            DMatrix::from_diagonal(&DVector::from_iterator(d, sums.iter().map(|h| -h)))
        };
        let (covariance, bent) = positive_inverse(precision);
        let warning = match (settled, bent) {
            (true, false) => None,
            (false, _) => Some("no mode was found: the log density still rises where the search stopped".to_owned()),
            (true, true) => Some("the log density is not curved downwards at the mode in every direction".to_owned()),
        };
        Ok(Start { center, covariance: covariance.as_slice().to_vec(), warning })
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
        let (inverse, _) = positive_inverse(self.matrix());
        units(vec![0.0; self.center.len()], &inverse)
    }
}

fn units(center: Vec<f64>, covariance: &DMatrix<f64>) -> Units {
    let d = center.len();
    let (precision, _) = positive_inverse(covariance.clone());
    let scale = (0..d).map(|i| covariance[(i, i)].sqrt()).collect();
    let conditional = (0..d).map(|i| precision[(i, i)].sqrt().recip()).collect();
    let lower = covariance
        .clone()
        .cholesky()
        .map_or_else(|| DMatrix::from_diagonal(&covariance.diagonal().map(f64::sqrt)), |factor| factor.l());
    let factor = (0..d * d).map(|i| lower[(i / d, i % d)]).collect();
    Units { center, scale, conditional, factor }
}

/// The inverse of a symmetric matrix with its eigenvalues made positive, and whether they had to be.
fn positive_inverse(matrix: DMatrix<f64>) -> (DMatrix<f64>, bool) {
    let d = matrix.nrows();
    if !matrix.iter().all(|x| x.is_finite()) {
        return (DMatrix::identity(d, d), true);
    }
    // Scaled to a unit diagonal, so that coordinates of very different units do not drown each other.
    let scale = matrix.diagonal().map(|x| if x == 0.0 { 1.0 } else { x.abs().sqrt() });
    let scaled = DMatrix::from_fn(d, d, |i, j| 0.5 * (matrix[(i, j)] + matrix[(j, i)]) / (scale[i] * scale[j]));
    let eigen = SymmetricEigen::new(scaled);
    let top = eigen.eigenvalues.amax().max(f64::MIN_POSITIVE);
    let bent = eigen.eigenvalues.iter().any(|&l| l <= 1e-12 * top);
    let inverse = eigen.eigenvalues.map(|l| l.abs().max(1e-12 * top).recip());
    let v = &eigen.eigenvectors;
    let whole = v * DMatrix::from_diagonal(&inverse) * v.transpose();
    (DMatrix::from_fn(d, d, |i, j| whole[(i, j)] / (scale[i] * scale[j])), bent)
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
fn precision(target: &dyn Target, params: &Params, z: &[f64]) -> Result<DMatrix<f64>> {
    let d = z.len();
    // Every row is a copy of z with its own direction, so one evaluation gives the whole matrix.
    let unit: Vec<f64> = (0..d * d).map(|i| f64::from(i / d == i % d)).collect();
    let products = Values::new(target, params, d)?.curvature(&z.repeat(d), &unit)?;
    Ok(DMatrix::from_row_slice(d, d, &products) * -1.0)
}
