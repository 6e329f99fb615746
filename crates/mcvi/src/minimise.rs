//! Quasi-Newton minimisation of a smooth function: for modes, and for bounds over a fixed sample.

use crate::error::Result;
use nalgebra::DVector;
use std::cell::Cell;

/// Value and gradient at a point.
type Valued = (f64, DVector<f64>);

/// L-BFGS with backtracking (Nocedal & Wright, algorithms 7.4 and 3.1). Returns the point, and whether the search
/// converged. Points where the function is not finite are rejected. The search takes at most this many evaluations.
pub(crate) fn minimise(
    mut function: impl FnMut(&[f64]) -> Result<Valued>,
    start: &[f64],
    evaluations: usize,
) -> Result<(Vec<f64>, bool)> {
    let left = Cell::new(evaluations);
    let mut function = |z: &[f64]| {
        left.set(left.get().saturating_sub(1));
        function(z)
    };
    let mut z = DVector::from_column_slice(start);
    let (mut value, mut gradient) = function(z.as_slice())?;
    let mut history: Vec<(DVector<f64>, DVector<f64>)> = vec![];
    let mut stalled = 0;
    while left.get() > 0 {
        if !value.is_finite() || !gradient.iter().all(|g| g.is_finite()) {
            break;
        }
        let mut direction = -two_loops(&history, &gradient);
        let mut slope = direction.dot(&gradient);
        if slope >= 0.0 {
            history.clear();
            direction = -&gradient;
            slope = direction.dot(&gradient);
        }
        // The expected decrease is negligible compared to the rounding error of the value.
        if -slope <= 1e-13 * value.abs().max(1e-2) {
            return Ok((z.as_slice().to_vec(), true));
        }
        let first = if history.is_empty() { (1.0 / gradient.norm()).min(1.0) } else { 1.0 };
        let Some((step, next)) = backtrack(&mut function, &left, &z, value, &direction, slope, first)? else {
            if history.is_empty() {
                return Ok((z.as_slice().to_vec(), -slope <= 1e-6 * value.abs().max(1.0)));
            }
            history.clear();
            continue;
        };
        let moved = &direction * step;
        let change = &next.1 - &gradient;
        if moved.dot(&change) > 1e-12 * moved.norm() * change.norm() {
            history.push((moved.clone(), change));
            if history.len() > 10 {
                history.remove(0);
            }
        }
        // Steps that are accepted by rounding alone, or because the gradient is not quite that of the value, make no
        // progress.
        let small = value - next.0 <= 1e-12 * value.abs().max(1e-2);
        stalled = if small { stalled + 1 } else { 0 };
        if stalled > 3 {
            return Ok((z.as_slice().to_vec(), -slope <= 1e-6 * value.abs().max(1.0)));
        }
        z += moved;
        (value, gradient) = next;
    }
    Ok((z.as_slice().to_vec(), false))
}

/// A step that lowers the value enough, with the value and gradient there.
fn backtrack(
    function: &mut impl FnMut(&[f64]) -> Result<Valued>,
    left: &Cell<usize>,
    z: &DVector<f64>,
    value: f64,
    direction: &DVector<f64>,
    slope: f64,
    first: f64,
) -> Result<Option<(f64, Valued)>> {
    let mut step = first;
    for _ in 0..60 {
        let next = function((z + direction * step).as_slice())?;
        if next.0 <= value + 1e-4 * step * slope && next.1.iter().all(|g| g.is_finite()) {
            return Ok(Some((step, next)));
        }
        if left.get() == 0 {
            break;
        }
        step *= 0.5;
    }
    Ok(None)
}

/// The inverse Hessian approximated by the history, times a vector.
fn two_loops(history: &[(DVector<f64>, DVector<f64>)], gradient: &DVector<f64>) -> DVector<f64> {
    let mut q = gradient.clone();
    let mut weights = vec![];
    for (s, y) in history.iter().rev() {
        let a = s.dot(&q) / s.dot(y);
        q -= y * a;
        weights.push(a);
    }
    if let Some((s, y)) = history.last() {
        q *= s.dot(y) / y.dot(y);
    }
    for ((s, y), a) in history.iter().zip(weights.iter().rev()) {
        let b = y.dot(&q) / s.dot(y);
        q += s * (a - b);
    }
    q
}
