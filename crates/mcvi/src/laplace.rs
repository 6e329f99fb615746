//! The Laplace approximation: the mode of the target and its curvature there.

use crate::compile::Compile;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::{FULL, Initialisation, positive_inverse};
use crate::low_rank::{Found, LowRank, RANK};
use crate::minimise::minimise;
use crate::params::Params;
use crate::scope::Choices;
use crate::target::{Landscape, Target, evaluate, rows_at_once};
use mcvi_expr::{Array, DType, Program, grad};
use nalgebra::{DMatrix, DVector};

/// Maximum dimension in which the full Hessian is inverted. Above [`FULL`] that is done only where a low rank does not do.
const WHOLE_HESSIAN: usize = 2048;
/// What a low rank may leave out, as a squared norm: four times the nats that are lost.
const LEFT_OUT: f64 = 4.0;
/// Evaluations in a search for the mode, in the units given and in those of the curvature.
const EVALUATIONS: usize = 3000;
const EVALUATIONS_AGAIN: usize = 500;
/// Rows of the Hessian that are computed at once.
pub(crate) const ROWS: usize = 512;
/// Places at which the log density is computed at once.
const PLACES: usize = 64;

impl Initialisation {
    /// Search for a mode from `guess` (or the origin) and compute the curvature there.
    pub fn laplace(target: &dyn Target, params: &Params, guess: Option<&[f64]>) -> Result<Self> {
        let mut climber = Climber::new(target, params)?;
        match guess {
            Some(guess) => climber.climb(guess),
            None => climber.climb(&vec![0.0; target.dim()]),
        }
    }
}

/// Searches for modes from any number of places, with programs that are compiled once.
pub(crate) struct Climber<'a> {
    target: &'a dyn Target,
    params: &'a Params,
    value: Values,
    /// Rows of the Hessian; compiled when first needed.
    rows: Option<Values>,
}

impl<'a> Climber<'a> {
    pub fn new(target: &'a dyn Target, params: &'a Params) -> Result<Self> {
        if target.dim() == 0 {
            return Err(Error::Target { why: "it has no coordinates".to_owned() });
        }
        // In many dimensions the curvature is that along some directions.
        let order = if target.dim() > FULL { Order::Curvature } else { Order::Gradient };
        Ok(Climber { target, params, value: Values::new(target, params, 1, order)?, rows: None })
    }

    /// Search for a mode from `guess` and compute the curvature there.
    pub fn climb(&mut self, guess: &[f64]) -> Result<Initialisation> {
        let d = self.target.dim();
        if guess.len() != d {
            let why = format!("the guess has {} coordinates, the target {d}", guess.len());
            return Err(Error::Setting { what: "initialisation", why });
        }
        let Climber { target, params, value, rows } = self;
        let (first, _) = value.descent(guess)?;
        if !first.is_finite() {
            let why = format!("its log density is {} at the starting point; give one where it is finite", -first);
            return Err(Error::Target { why });
        }
        let rows = match rows {
            Some(rows) => rows,
            None => rows.insert(Values::new(*target, params, rows_at_once(*target, d.min(ROWS)), Order::Curvature)?),
        };
        let (center, settled) = minimise(|z| value.descent(z), guess, EVALUATIONS)?;
        let low_rank = if d > FULL { Some(low_rank(value, rows, center.clone())?) } else { None };
        let (mut initialisation, settled, bent) = match low_rank {
            Some((center, found, again)) if d > WHOLE_HESSIAN || found.left_out <= LEFT_OUT => {
                (Initialisation::low_rank(center, found.covariance), settled || again, !found.positive)
            }
            _ => {
                let (center, covariance, settled, bent) = newton(value, rows, center)?;
                (Initialisation::gaussian(center, covariance), settled, bent)
            }
        };
        let warning = match (settled, bent) {
            (true, false) => None,
            (false, _) => Some("no mode was found: the log density still rises where the search stopped".to_owned()),
            (true, true) => Some("the log density is not curved downwards at the mode in every direction".to_owned()),
        };
        initialisation.warning = warning;
        Ok(initialisation)
    }
}

/// The curvature by a low rank, and the mode, searched for again in its units; whether that search converged.
fn low_rank(value: &mut Values, rows: &mut Values, center: Vec<f64>) -> Result<(Vec<f64>, Found, bool)> {
    let mut curvature = |value: &mut Values, z: &[f64]| {
        let mut diagonal = vec![];
        rows.hessian(z, |i, row| diagonal.push(-row[i]))?;
        curvature(value, &[z.to_vec()], &diagonal)
    };
    let found = curvature(value, &center)?;
    let at = Initialisation::low_rank(center, found.covariance.clone());
    let in_units = |y: &[f64]| {
        let (height, slope) = value.descent(&at.original(y))?;
        Ok((height, found.covariance.transposed(&slope)))
    };
    let (y, settled) = minimise(in_units, &vec![0.0; at.center.len()], EVALUATIONS_AGAIN)?;
    // Where the centre has hardly moved, the curvature is the same.
    if y.iter().map(|y| y * y).sum::<f64>() < 1e-2 {
        return Ok((at.center, found, settled));
    }
    let center = at.original(&y);
    let found = curvature(value, &center)?;
    Ok((center, found, settled))
}

/// The inverse of the negative Hessian, averaged over some points, by a low rank; about its diagonal is known. `values` has a
/// row for each point.
pub(crate) fn curvature(values: &mut Values, at: &[Vec<f64>], diagonal: &[f64]) -> Result<Found> {
    let (n, flat) = (at.len() as f64, at.concat());
    LowRank::of_precision(diagonal, RANK, |v| {
        let products = values.curvature(&flat, &v.as_slice().repeat(at.len()))?;
        let mut sum = DVector::zeros(v.len());
        products.chunks(v.len()).for_each(|product| sum -= DVector::from_column_slice(product) / n);
        Ok(sum)
    })
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

/// The highest derivative that is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Value,
    Gradient,
    Curvature,
}

/// Compiled log density, gradient and Hessian-vector product over some rows.
pub(crate) struct Values {
    program: Program,
    order: Order,
    rows: usize,
    d: usize,
    dtype: DType,
}

impl Values {
    pub fn new(target: &dyn Target, params: &Params, rows: usize, order: Order) -> Result<Self> {
        let (d, dtype) = (target.dim(), target.dtype());
        // A search is sequential: there is nothing to share among threads or to send to a GPU.
        let (initialisation, hardware) = (&Initialisation::standard(d), Hardware::with_threads(1));
        let compile = Compile { dtype, rows, choices: Choices::Sample, initialisation, params, hardware };
        let (program, ()) = compile.program(|scope, mut program| {
            let graph = scope.graph();
            let z = graph.input("z", dtype, [rows, d]);
            if order == Order::Value {
                return Ok((program.output("log_p", evaluate(target, scope, z)?), ()));
            }
            let at = Landscape { target, scope: scope.clone(), bridge: None, known: None }.at(z)?;
            program = program.output("log_p", at.log_p).output("gradient", at.gradient);
            if order == Order::Curvature {
                let v = graph.input("v", dtype, [rows, d]);
                program = program.output("product", grad((at.gradient * v).sum_all(), &[z])?[0]);
            }
            Ok((program, ()))
        })?;
        Ok(Values { program, order, rows, d, dtype })
    }

    fn run(&mut self, z: &[f64], v: Option<&[f64]>) -> Result<()> {
        let zero = (self.order == Order::Curvature && v.is_none()).then(|| vec![0.0; z.len()]);
        for (name, values) in [("z", Some(z)), ("v", v.or(zero.as_deref()))] {
            let Some(values) = values else { continue };
            self.program.write(name, &Array::new([self.rows, self.d], values.to_vec())?.cast(self.dtype))?;
        }
        Ok(self.program.run(1)?)
    }

    /// log p at any number of places, one after the other.
    pub fn heights(&mut self, places: &[f64]) -> Result<Vec<f64>> {
        let mut all = Vec::with_capacity(places.len() / self.d);
        for some in places.chunks(self.rows * self.d) {
            let mut z = some.to_vec();
            z.resize(self.rows * self.d, 0.0);
            self.run(&z, None)?;
            all.extend_from_slice(&self.program.output("log_p")?.to_f64()[..some.len() / self.d]);
        }
        Ok(all)
    }

    /// −log p and its gradient.
    pub fn descent(&mut self, z: &[f64]) -> Result<(f64, DVector<f64>)> {
        self.run(z, None)?;
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

    /// Each row of the Hessian, with its number.
    fn hessian(&mut self, z: &[f64], mut row: impl FnMut(usize, &[f64])) -> Result<()> {
        let (d, at_once) = (z.len(), self.rows);
        let copies = z.repeat(at_once);
        for first in (0..d).step_by(at_once) {
            // Every row is a copy of z with its own direction, so one evaluation gives as many rows of the matrix.
            let unit: Vec<f64> = (0..at_once * d).map(|i| f64::from(first + i / d == i % d)).collect();
            let products = self.curvature(&copies, &unit)?;
            products.chunks(d).zip(first..d).for_each(|(product, i)| row(i, product));
        }
        Ok(())
    }

    /// The Hessian times v, row by row.
    fn curvature(&mut self, z: &[f64], v: &[f64]) -> Result<Vec<f64>> {
        self.run(z, Some(v))?;
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
    let at_once = rows_at_once(target, places.len().min(PLACES));
    Values::new(target, &Params::default(), at_once, Order::Value)?.heights(&places.concat())
}

/// The negative Hessian.
pub(crate) fn precision(rows: &mut Values, z: &[f64]) -> Result<DMatrix<f64>> {
    let d = z.len();
    let mut hessian = Vec::with_capacity(d * d);
    rows.hessian(z, |_, row| hessian.extend_from_slice(row))?;
    Ok(DMatrix::from_row_slice(d, d, &hessian) * -1.0)
}
