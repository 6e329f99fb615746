//! Ordinary differential equations: `integrate_ode_*` and `ode_*`, by steps of fixed size.

use super::expression::joined;
use super::{Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::Base;
use crate::trace::plan::Plan;
use crate::trace::solve::{STAGES, Solver, Steps, TIMES, WEIGHTS};
use crate::trace::{Flat, Op, Trace};
use crate::value::Value;
use std::sync::Arc;

/// Fewest and most steps that are tried, and the error they should have, relative to the largest number.
const FEWEST: usize = 25;
const MOST: usize = 6400;
const TOLERANCE: f64 = 1e-9;

/// A call of a solver: the function, and what it is called with.
struct Problem<'a> {
    function: &'a str,
    /// Older functions take and give arrays, and pass on three arguments of fixed kinds.
    old: bool,
    passed: Vec<Value>,
}

impl Machine<'_> {
    /// The solution of a system of equations at some times.
    pub fn ode(&mut self, name: &str, function: &str, arguments: &[Value], span: Span) -> Run<Value> {
        let old = name.starts_with("integrate_ode");
        let [start, t0, times, rest @ ..] = arguments else {
            return fail(span, format!("`{name}` needs a start and times"));
        };
        let tolerances = if name.ends_with("_tol") { 3 } else { 0 };
        let passed = if old { &rest[..3.min(rest.len())] } else { &rest[tolerances.min(rest.len())..] };
        let (Some(t0), Some(times)) = (t0.number(), times.numbers()) else {
            return fail(span, "the times of differential equations cannot depend on parameters");
        };
        let increasing = times.windows(2).all(|w| w[0] < w[1]) && times.first().is_some_and(|t| *t > t0);
        if !increasing {
            return fail(span, "times must increase, and come after the first");
        }
        let problem = Problem { function, old, passed: passed.to_vec() };
        let (size, count) = (start.len(), times.len());
        let known = start.numbers().is_some() && passed.iter().all(|p| p.numbers().is_some());
        let flat = match known {
            true => {
                let steps = self.enough(&problem, start, t0, times, span)?.0;
                self.stepped(&problem, start, &steps, span)?
            }
            false => self.traced(&problem, start, t0, times, span)?,
        };
        let base = if old { Base::Real } else { Base::Vector };
        Ok(Value { base, shape: vec![count, size], flat })
    }

    /// dy/dt.
    fn derivative(&mut self, problem: &Problem<'_>, t: Value, y: Flat, passed: &[Value], span: Span) -> Run<Value> {
        let base = if problem.old { Base::Real } else { Base::Vector };
        let y = Value { base, shape: vec![y.len()], flat: y };
        let arguments = [t, y].into_iter().chain(passed.iter().cloned()).collect();
        self.apply(problem.function, arguments, span)
    }

    /// Writes the function down once, for a loop of the engine.
    fn traced(&mut self, problem: &Problem<'_>, start: &Value, t0: f64, times: &[f64], span: Span) -> Run<Flat> {
        let size = start.len();
        let steps = self.enough_at_origin(problem, start, t0, times, span)?;
        // The function's trace has y, t and what is not known of the rest as its input.
        let unknown: Vec<Value> = problem.passed.iter().filter(|p| p.numbers().is_none()).cloned().collect();
        let total: usize = unknown.iter().map(Value::len).sum();
        let outer = std::mem::replace(&mut self.trace, Trace::new(size + 1 + total));
        let part = |start: usize, len: usize| Flat::Part { node: 0, start: start as u32, len: len as u32 };
        let mut next = size + 1;
        let mut passed = vec![];
        for value in &problem.passed {
            if value.numbers().is_some() {
                passed.push(value.clone());
            } else {
                passed.push(Value { flat: part(next, value.len()), ..value.clone() });
                next += value.len();
            }
        }
        let t = Value::scalar(part(size, 1));
        let result = self.derivative(problem, t, part(0, size), &passed, span);
        let inner = std::mem::replace(&mut self.trace, outer);
        let result = result?;
        if result.len() != size {
            return fail(span, format!("the function gives {} derivatives of {size} numbers", result.len()));
        }
        let solver = Solver { derivative: Plan::new(&inner, &[], &[result.flat]), size, steps };
        let rest = if unknown.is_empty() { Flat::from_numbers(vec![]) } else { joined(&unknown) };
        let number = self.trace.add_solver(Arc::new(solver));
        Ok(self.trace.push(Op::Solve(number), &[start.flat.clone(), rest], times.len() * size))
    }

    /// Enough steps for the values that unconstrained parameters of 0 give.
    fn enough_at_origin(
        &mut self,
        problem: &Problem<'_>,
        start: &Value,
        t0: f64,
        times: &[f64],
        span: Span,
    ) -> Run<Steps> {
        let all: Vec<&Value> = std::iter::once(start).chain(&problem.passed).collect();
        let flats: Vec<Flat> = all.iter().map(|v| v.flat.clone()).collect();
        let plan = Plan::new(&self.trace, &[], &flats);
        let numbers = match plan.outputs_at(&vec![0.0; self.free()]) {
            Ok(numbers) => numbers,
            Err(error) => return fail(span, error.to_string()),
        };
        let known = |v: &Value, n: &Vec<f64>| Value { flat: Flat::from_numbers(n.clone()), ..v.clone() };
        let mut values = all.iter().zip(&numbers).map(|(v, n)| known(v, n));
        let Some(start) = values.next() else { return fail(span, "a system needs a start") };
        let at_origin = Problem { function: problem.function, old: problem.old, passed: values.collect() };
        let (steps, error) = self.enough(&at_origin, &start, t0, times, span)?;
        self.solver_error = self.solver_error.max(error);
        Ok(steps)
    }

    /// As many steps as half of them change little, and how much they did.
    fn enough(
        &mut self,
        problem: &Problem<'_>,
        start: &Value,
        t0: f64,
        times: &[f64],
        span: Span,
    ) -> Run<(Steps, f64)> {
        let mut number = FEWEST;
        let mut before: Option<Flat> = None;
        loop {
            let steps = Steps::new(t0, times, number);
            let now = self.stepped(problem, start, &steps, span)?;
            if let (Some(a), Some(b)) = (before.as_ref().and_then(Flat::numbers), now.numbers()) {
                let scale = b.iter().fold(1e-300f64, |m, x| m.max(x.abs()));
                // The error of a method of order 5 falls by 2⁵ as steps are halved.
                let error = a.iter().zip(b).fold(0.0f64, |m, (x, y)| m.max((x - y).abs())) / scale / 31.0;
                if error < TOLERANCE || number >= MOST {
                    return Ok((steps, error));
                }
            }
            before = Some(now);
            number *= 2;
        }
    }

    /// The same steps on known numbers.
    fn stepped(&mut self, problem: &Problem<'_>, start: &Value, steps: &Steps, span: Span) -> Run<Flat> {
        let mut y = start.numbers().unwrap_or(&[]).to_vec();
        let mut out = vec![];
        for (i, (t, h)) in steps.starts.iter().zip(&steps.sizes).enumerate() {
            let mut slopes: Vec<Vec<f64>> = vec![];
            for (c, row) in TIMES.iter().zip(STAGES) {
                let at = (0..y.len()).map(|j| y[j] + h * row.iter().zip(&slopes).map(|(a, k)| a * k[j]).sum::<f64>());
                let at = Flat::from_numbers(at.collect());
                let slope = self.derivative(problem, Value::real(t + c * h), at, &problem.passed, span)?;
                match slope.numbers() {
                    Some(numbers) if numbers.len() == y.len() => slopes.push(numbers.to_vec()),
                    _ => return fail(span, "the function does not give a derivative for each number"),
                }
            }
            for (j, y) in y.iter_mut().enumerate() {
                *y += h * WEIGHTS.iter().zip(&slopes).map(|(w, k)| w * k[j]).sum::<f64>();
            }
            out.extend(std::iter::repeat_n(&y, steps.ends.iter().filter(|e| **e == i + 1).count()).flatten());
        }
        Ok(Flat::from_numbers(out))
    }
}
