//! Log densities, gradients and products with the Hessian: against another implementation of Stan, and how long they take.

use mcvi_expr::{Array, DType, Device, Graph, Program, Result, grad};
use mcvi_stan::Posterior;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Rows of the programs that are timed.
const ROWS: usize = 64;
/// Seconds of a gradient that are averaged over.
const TIMED: f64 = 0.1;
/// By how much points are moved for differences of gradients.
const STEP: f64 = 1e-5;

/// What another implementation computed at some points; nothing if it could not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Unconstrained parameters.
    pub points: Vec<Vec<f64>>,
    /// Up to a constant, with the Jacobian; none where it is not finite.
    pub log_density: Vec<Option<f64>>,
    /// Its gradient.
    pub gradient: Vec<Vec<Option<f64>>>,
    /// What one gradient took.
    pub seconds: Option<f64>,
    /// Then its coordinates are other ones than Stan 2.35 has, and nothing is compared.
    pub has_simplex: bool,
    /// Why there is nothing.
    pub error: Option<String>,
}

/// The largest relative errors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agreement {
    /// Of log densities relative to the one at the first point. None here and below stands for what is not a number.
    pub value: Option<f64>,
    /// Of gradients.
    pub gradient: Option<f64>,
    /// Of products of the Hessian with a vector, against differences of gradients.
    pub product: Option<f64>,
    /// Points where the reference is finite; none are compared if coordinates differ.
    pub points: usize,
    /// Whether coordinates differ: then values and gradients are not compared.
    pub has_other_coordinates: bool,
}

/// Seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Speed {
    /// To read, check and lower the program.
    pub lowering: f64,
    /// To compile density, gradient and a product with the Hessian for 64 rows.
    pub compiling: f64,
    /// Of a gradient of 64 rows on one thread, for each row.
    pub gradient: f64,
    /// Of one gradient of the other implementation, when its references were made.
    pub reference: Option<f64>,
}

/// A compiled log density with its gradient g, and the product of the Hessian with v.
fn compiled(posterior: &Posterior, rows: usize, device: Device) -> Result<Program> {
    let graph = Graph::new();
    let shape = [rows, posterior.dim()];
    let (z, v) = (graph.input("z", DType::F64, shape), graph.input("v", DType::F64, shape));
    let value = posterior.log_density(z);
    let gradient = grad(value.sum_all(), &[z])?[0];
    let product = grad((gradient * v).sum_all(), &[z])?[0];
    let program = graph.program().output("value", value).output("gradient", gradient).output("product", product);
    program.device(device).threads(1).compile()
}

/// What lowering took is passed on.
pub fn speed(posterior: &Posterior, lowering: f64, reference: Option<&Reference>, device: Device) -> Result<Speed> {
    let start = Instant::now();
    compiled(posterior, ROWS, device)?;
    let compiling = start.elapsed().as_secs_f64();
    let graph = Graph::new();
    let shape = [ROWS, posterior.dim()];
    let z = graph.input("z", DType::F64, shape);
    let value = posterior.log_density(z);
    let gradient = grad(value.sum_all(), &[z])?[0];
    let program = graph.program().output("value", value).output("gradient", gradient);
    let mut program = program.device(device).threads(1).compile()?;
    let points: Vec<f64> = (0..ROWS * posterior.dim()).map(|i| 0.05 * ((i * 7919 % 11) as f64 - 5.0)).collect();
    program.write("z", &Array::new(shape, points)?)?;
    program.run(1)?;
    let (mut runs, start) = (0, Instant::now());
    while start.elapsed().as_secs_f64() < TIMED {
        program.run(1)?;
        runs += 1;
    }
    let gradient = start.elapsed().as_secs_f64() / (runs * ROWS) as f64;
    Ok(Speed { lowering, compiling, gradient, reference: reference.and_then(|r| r.seconds) })
}

/// The larger of two errors; one that is not a number stays.
fn worse(error: &mut Option<f64>, other: f64) {
    *error = error.filter(|_| !other.is_nan()).map(|e| e.max(other));
}

/// None if the reference has no points.
pub fn agreement(posterior: &Posterior, reference: &Reference, device: Device) -> Result<Option<Agreement>> {
    let (points, dim) = (&reference.points, posterior.dim());
    let others = reference.has_simplex;
    let rows = points.len();
    if rows == 0 || (!others && points.iter().any(|p| p.len() != dim)) {
        return Ok(None);
    }
    let direction: Vec<f64> = (0..dim).map(|i| (i as f64).cos()).collect();
    // Every point, and every point a little further and back.
    let mut z = vec![];
    for step in [0.0, STEP, -STEP] {
        let moved = |p: &Vec<f64>| (0..dim).map(|i| p.get(i).unwrap_or(&0.0) + step * direction[i]).collect::<Vec<_>>();
        z.extend(points.iter().flat_map(moved));
    }
    let mut program = compiled(posterior, 3 * rows, device)?;
    program.write("z", &Array::new([3 * rows, dim], z)?)?;
    program.write("v", &Array::new([3 * rows, dim], direction.repeat(3 * rows))?)?;
    program.run(1)?;
    let value = program.output("value")?.to_f64();
    let gradient = program.output("gradient")?.to_f64();
    let product = program.output("product")?.to_f64();
    let none = Some(0.0);
    let mut found = Agreement { value: none, gradient: none, product: none, points: 0, has_other_coordinates: others };
    let mut first = None;
    for row in 0..rows {
        if !value[row].is_finite() && reference.log_density[row].is_none() {
            continue;
        }
        let own = &gradient[row * dim..][..dim];
        let scale = own.iter().fold(1.0f64, |m, g| m.max(g.abs()));
        for i in 0..dim {
            let at = |block: usize| (block * rows + row) * dim + i;
            let difference = (gradient[at(1)] - gradient[at(2)]) / (2.0 * STEP);
            worse(&mut found.product, (product[at(0)] - difference).abs() / difference.abs().max(scale));
        }
        if others {
            continue;
        }
        found.points += 1;
        let expected = reference.log_density[row].unwrap_or(f64::NAN);
        let (own_first, first) = *first.get_or_insert((value[row], expected));
        let error = ((value[row] - own_first) - (expected - first)).abs();
        worse(&mut found.value, error / expected.abs().max(first.abs()).max(1.0));
        for (own, expected) in own.iter().zip(&reference.gradient[row]) {
            let expected = expected.unwrap_or(f64::NAN);
            worse(&mut found.gradient, (own - expected).abs() / expected.abs().max(1e-3 * scale).max(1.0));
        }
    }
    Ok(Some(found))
}
