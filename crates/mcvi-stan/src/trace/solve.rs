//! Ordinary differential equations, solved in steps of fixed size: a loop of the engine.

use super::plan::Plan;
use mcvi_expr::{Array, DType, Expr};

/// The stages of Dormand and Prince's method of order 5: times, weights of earlier stages, and weights of the step.
pub const TIMES: [f64; 6] = [0.0, 1.0 / 5.0, 3.0 / 10.0, 4.0 / 5.0, 8.0 / 9.0, 1.0];
pub const STAGES: [&[f64]; 6] = [
    &[],
    &[1.0 / 5.0],
    &[3.0 / 40.0, 9.0 / 40.0],
    &[44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0],
    &[19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0],
    &[9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0],
];
pub const WEIGHTS: [f64; 6] = [35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0];

/// When to step, and after which steps the solution is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// Times and sizes of all steps.
    pub starts: Vec<f64>,
    pub sizes: Vec<f64>,
    /// For each time asked for, how many steps come before it.
    pub ends: Vec<usize>,
}

impl Steps {
    /// About `number` steps of equal size from t0 through increasing times, at least one up to each of them.
    pub fn new(t0: f64, times: &[f64], number: usize) -> Steps {
        let whole = times.last().map_or(0.0, |t| t - t0);
        let mut steps = Steps { starts: vec![], sizes: vec![], ends: vec![] };
        let mut t = t0;
        for &next in times {
            let count = (number as f64 * (next - t) / whole).ceil().max(1.0);
            let size = (next - t) / count;
            for k in 0..count as usize {
                steps.starts.push(t + size * k as f64);
                steps.sizes.push(size);
            }
            steps.ends.push(steps.starts.len());
            t = next;
        }
        steps
    }
}

/// A system of equations: dy/dt from y, t and what else it depends on.
#[derive(Clone, Debug)]
pub struct Solver {
    /// From `[y, t, rest]` to dy/dt.
    pub derivative: Plan,
    pub size: usize,
    pub steps: Steps,
}

impl Solver {
    /// The solution at the times asked for, `[rows, times · size]`, from its start and the rest.
    pub fn solve<'g>(&self, start: Expr<'g>, rest: Option<Expr<'g>>) -> Expr<'g> {
        let graph = start.graph();
        let rows = start.shape().dims().first().copied().unwrap_or(1);
        let count = self.steps.starts.len();
        let literal = |list: &[f64]| match Array::new([list.len()], list.to_vec()) {
            Ok(array) => graph.literal(array),
            Err(_) => graph.full(DType::F64, [list.len()], f64::NAN),
        };
        let derivative = |y: Expr<'g>, t: Expr<'g>| {
            let mut parts = vec![y, t.broadcast_to([rows, 1])];
            parts.extend(rest);
            let built = self.derivative.build(graph.concat(&parts, 1));
            built.outputs.into_iter().next().flatten().unwrap_or(y)
        };
        let times = [literal(&self.steps.starts), literal(&self.steps.sizes)];
        let (_, all) = graph.scan(count, &[start], &times, |carry, x| {
            let (y, t, h) = (carry[0], x[0], x[1]);
            let mut slopes: Vec<Expr<'g>> = vec![];
            for (c, row) in TIMES.iter().zip(STAGES) {
                let sum = row.iter().zip(&slopes).fold(y, |sum, (a, k)| sum + *k * (h * *a));
                slopes.push(derivative(sum, t + h * *c));
            }
            let used = WEIGHTS.iter().zip(&slopes).filter(|(w, _)| **w != 0.0);
            let next = used.fold(y, |sum, (w, k)| sum + *k * (h * *w));
            (vec![next], vec![next])
        });
        let ends: Vec<Expr<'g>> =
            self.steps.ends.iter().map(|&e| all[0].at(0, e - 1).reshape([rows, self.size])).collect();
        if let [one] = ends.as_slice() { *one } else { graph.concat(&ends, 1) }
    }
}
