//! The Laplace approximation: the mode of the target and its curvature there.

use crate::compile::Compile;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::{Initialisation, positive_inverse};
use crate::minimise::minimise;
use crate::params::Params;
use crate::scope::Choices;
use crate::target::{Landscape, Target};
use mcvi_expr::{Array, DType, Program, grad};
use nalgebra::{DMatrix, DVector};

/// Maximum dimension in which the full Hessian is computed.
const WHOLE_HESSIAN: usize = 2048;
/// Rows of the Hessian that are computed at once.
pub(crate) const ROWS: usize = 512;

impl Initialisation {
    /// Search for a mode from `guess` (or the origin) and compute the curvature there.
    pub fn laplace(target: &dyn Target, params: &Params, guess: Option<&[f64]>) -> Result<Self> {
        let d = target.dim();
        if d == 0 {
            return Err(Error::Target { why: "it has no coordinates".to_owned() });
        }
        let origin = vec![0.0; d];
        let guess = guess.unwrap_or(&origin);
        if guess.len() != d {
            let why = format!("the guess has {} coordinates, the target {d}", guess.len());
            return Err(Error::Setting { what: "initialisation", why });
        }
        let mut value = Values::new(target, params, 1)?;
        let (first, _) = value.descent(guess)?;
        if !first.is_finite() {
            let why = format!("its log density is {} at the starting point; give one where it is finite", -first);
            return Err(Error::Target { why });
        }
        let (center, settled) = minimise(|z| value.descent(z), guess, 3000)?;
        let (center, covariance, settled, bent) = if d <= WHOLE_HESSIAN {
            newton(&mut value, &mut Values::new(target, params, d.min(ROWS))?, center)?
        } else {
            // One row of the product is the sum over a row of the matrix: for a dominant diagonal, close enough to
            // start from.
            let sums = Values::new(target, params, 1)?.curvature(&center, &vec![1.0; d])?;
            let precision = DMatrix::from_diagonal(&DVector::from_iterator(d, sums.iter().map(|h| -h)));
            let (covariance, bent) = positive_inverse(&precision, |_| Ok(None))?;
            (center, covariance, settled, bent)
        };
        let warning = match (settled, bent) {
            (true, false) => None,
            (false, _) => Some("no mode was found: the log density still rises where the search stopped".to_owned()),
            (true, true) => Some("the log density is not curved downwards at the mode in every direction".to_owned()),
        };
        let mut initialisation = Initialisation::gaussian(center, covariance);
        initialisation.warning = warning;
        Ok(initialisation)
    }
}

/// Newton's method from a point near the mode, where the units of the coordinates no longer matter: the mode, the
/// covariance there, whether the search converged, and whether the curvature had to be corrected.
fn newton(value: &mut Values, rows: &mut Values, mut center: Vec<f64>) -> Result<(Vec<f64>, DMatrix<f64>, bool, bool)> {
    let d = center.len();
    let mut steps = 0;
    loop {
        let (here, gradient) = value.descent(&center)?;
        let (covariance, bent) = positive_inverse(&precision(rows, &center)?, |u| value.width(&center, here, &u))?;
        let direction = -(&covariance * &gradient);
        // Twice the decrease that a quadratic would show: the squared distance in standard deviations.
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

/// Compiled log density, gradient and Hessian-vector product over some rows.
pub(crate) struct Values {
    program: Program,
    rows: usize,
    d: usize,
    dtype: DType,
}

impl Values {
    pub fn new(target: &dyn Target, params: &Params, rows: usize) -> Result<Self> {
        let (d, dtype) = (target.dim(), target.dtype());
        // A search is sequential: there is nothing to share among threads or to send to a GPU.
        let (initialisation, hardware) = (&Initialisation::standard(d), Hardware::with_threads(1));
        let compile = Compile { dtype, rows, choices: Choices::Sample, initialisation, params, hardware };
        let (program, ()) = compile.program(|scope, program| {
            let graph = scope.graph();
            let (z, v) = (graph.input("z", dtype, [rows, d]), graph.input("v", dtype, [rows, d]));
            let at = Landscape { target, scope: scope.clone(), bridge: None, known: None }.at(z)?;
            let product = grad((at.gradient * v).sum_all(), &[z])?[0];
            let program = program.output("log_p", at.log_p).output("gradient", at.gradient);
            Ok((program.output("product", product), ()))
        })?;
        Ok(Values { program, rows, d, dtype })
    }

    fn run(&mut self, z: &[f64], v: &[f64]) -> Result<()> {
        for (name, values) in [("z", z), ("v", v)] {
            self.program.write(name, &Array::new([self.rows, self.d], values.to_vec())?.cast(self.dtype))?;
        }
        Ok(self.program.run(1)?)
    }

    /// −log p and its gradient.
    pub fn descent(&mut self, z: &[f64]) -> Result<(f64, DVector<f64>)> {
        self.run(z, &vec![0.0; z.len()])?;
        let value = -self.program.output("log_p")?.to_f64()[0];
        let gradient = DVector::from_vec(self.program.output("gradient")?.to_f64());
        Ok((if value.is_nan() { f64::INFINITY } else { value }, -gradient))
    }

    /// The distance from the centre, along a direction, at which the log density has fallen by a half; none if it does
    /// not.
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

    /// The Hessian times v.
    fn curvature(&mut self, z: &[f64], v: &[f64]) -> Result<Vec<f64>> {
        self.run(z, v)?;
        Ok(self.program.output("product")?.to_f64())
    }
}

/// log p(x, z) at some points.
pub fn log_density(target: &dyn Target, places: &[Vec<f64>]) -> Result<Vec<f64>> {
    let d = target.dim();
    if places.is_empty() || places.iter().any(|z| z.len() != d) {
        let why = format!("needs at least one point, and {d} coordinates for each");
        return Err(Error::Setting { what: "log density", why });
    }
    let mut values = Values::new(target, &Params::default(), places.len())?;
    values.run(&places.concat(), &vec![0.0; places.len() * d])?;
    Ok(values.program.output("log_p")?.to_f64())
}

/// The negative Hessian.
pub(crate) fn precision(rows: &mut Values, z: &[f64]) -> Result<DMatrix<f64>> {
    let (d, at_once) = (z.len(), rows.rows);
    let copies = z.repeat(at_once);
    let mut hessian = Vec::with_capacity(d.next_multiple_of(at_once) * d);
    for first in (0..d).step_by(at_once) {
        // Every row is a copy of z with its own direction, so one evaluation gives as many rows of the matrix.
        let unit: Vec<f64> = (0..at_once * d).map(|i| f64::from(first + i / d == i % d)).collect();
        hessian.extend(rows.curvature(&copies, &unit)?);
    }
    Ok(DMatrix::from_row_slice(d, d, &hessian[..d * d]) * -1.0)
}
