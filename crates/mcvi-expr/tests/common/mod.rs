//! What the tests share: evaluation of expressions on given numbers, finite differences, and the comparison of first
//! and second derivatives with them.

#![allow(dead_code, reason = "every test file uses its own part of this")]

use mcvi_expr::{Array, DType, Expr, Graph, Program, Shape, grad};
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::ops::Range;

/// An array of doubles.
#[track_caller]
pub fn array(shape: impl Into<Shape>, data: impl Into<Vec<f64>>) -> Array {
    Array::new(shape, data.into()).expect("a test's array has the length of its shape")
}

/// Numbers of both signs and of sizes between 0.2 and 1.5, without any regularity a wrong derivative could hide in.
pub fn irregular(n: usize, seed: usize) -> Vec<f64> {
    let number = |k: usize| {
        let mixed = |n: usize, by: u64| (n as u64 + 1).wrapping_mul(by);
        let bits = mixed(k, 0x9E37_79B9_7F4A_7C15) ^ mixed(seed, 0xD1B5_4A32_D192_ED03);
        let bits = (bits ^ (bits >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let size = 0.2 + 1.3 * ((bits >> 11) as f64 / (1u64 << 53) as f64);
        if bits & 1 == 0 { size } else { -size }
    };
    (0..n).map(number).collect()
}

/// A constant with irregular elements.
pub fn weights<'g>(graph: &'g Graph, shape: Shape, seed: usize) -> Expr<'g> {
    graph.literal(array(shape.clone(), irregular(shape.size(), seed)))
}

/// An input for each array, named `x0`, `x1`, ….
pub fn declare<'g>(graph: &'g Graph, values: &[Array]) -> Vec<Expr<'g>> {
    values.iter().enumerate().map(|(i, v)| graph.input(&format!("x{i}"), v.dtype(), v.shape())).collect()
}

/// Write the arrays to the inputs `x0`, `x1`, … the program kept.
pub fn supply(program: &mut Program, values: &[Array]) {
    let names: Vec<String> = program.input_names().into_iter().map(str::to_owned).collect();
    for name in names {
        let i: usize = name[1..].parse().expect("inputs are named x0, x1, …");
        program.write(&name, &values[i]).expect("values have the shapes declared");
    }
}

/// The values of expressions of the inputs.
pub fn evaluate(values: &[Array], f: impl for<'a, 'g> Fn(&'a [Expr<'g>]) -> Vec<Expr<'g>>) -> Vec<Array> {
    run_once(values, &f)
}

fn run_once(values: &[Array], f: &dyn for<'a, 'g> Fn(&'a [Expr<'g>]) -> Vec<Expr<'g>>) -> Vec<Array> {
    let graph = Graph::new();
    let outputs = f(&declare(&graph, values));
    let builder = outputs.iter().enumerate().fold(graph.program(), |b, (i, e)| b.output(&format!("y{i}"), *e));
    let mut program = builder.threads(1).compile().expect("the expressions are well formed");
    supply(&mut program, values);
    program.run(1).expect("the program runs");
    (0..outputs.len()).map(|i| program.output(&format!("y{i}")).expect("it ran")).collect()
}

/// The elements of the one expression `f` makes of the inputs.
pub fn value(values: &[Array], f: impl for<'a, 'g> Fn(&'a [Expr<'g>]) -> Expr<'g>) -> Vec<f64> {
    evaluate(values, |x| vec![f(x)])[0].to_f64()
}

/// Panics unless the numbers agree to `tolerance`, relative to those above 1.
#[track_caller]
pub fn assert_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{got:?} and {want:?} differ in length");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let equal = g == w || (g.is_nan() && w.is_nan());
        assert!(equal || (g - w).abs() <= tolerance * w.abs().max(1.0), "element {i}: {g} instead of {w}");
    }
}

/// A derivative found by finite differences, with the step taken.
pub struct Difference {
    /// Which element of the input was varied.
    pub place: usize,
    /// The derivative.
    pub slope: f64,
    /// The step.
    pub step: f64,
}

/// Derivatives of a scalar output in some elements of the input `name`, by the five-point rule: for a step h its
/// error is h⁴/30 times the fifth derivative, plus rounding of some 10⁻¹⁶/h times the value.
pub fn differences(
    program: &mut Program,
    output: &str,
    name: &str,
    value: &Array,
    places: impl Iterator<Item = usize>,
) -> Vec<Difference> {
    let centre = value.to_f64();
    let mut found = vec![];
    for place in places {
        let step = 1e-3 * centre[place].abs().max(0.2);
        let mut at = |shift: f64| {
            let mut moved = centre.clone();
            moved[place] += shift;
            program.write(name, &array(value.shape(), moved)).expect("the shape is the same");
            program.run(1).expect("the program runs");
            program.output(output).expect("it ran").to_f64()[0]
        };
        let (near, far) = (at(step) - at(-step), at(2.0 * step) - at(-2.0 * step));
        found.push(Difference { place, slope: (8.0 * near - far) / (12.0 * step), step });
    }
    program.write(name, value).expect("the shape is the same");
    found
}

/// How far a derivative may be from its finite difference, relative to the largest of its array.
pub const TOLERANCE: f64 = 1e-7;

/// Compares the gradient `d` of the scalar `y` with differences of y in every input. `size` bounds the terms y is
/// summed from, and so its rounding error.
fn compare<'g>(
    what: &str,
    graph: &'g Graph,
    values: &[Array],
    (y, size): (Expr<'g>, Expr<'g>),
    d: &[Expr<'g>],
) -> Result<(), TestCaseError> {
    let builder = d.iter().enumerate().fold(graph.program().output("y", y), |b, (i, e)| b.output(&format!("d{i}"), *e));
    let compiled = builder.output("size", size).threads(1).compile();
    let mut exact = compiled.map_err(|e| TestCaseError::fail(format!("{what}: {e}")))?;
    let mut plain = graph.program().output("y", y).threads(1).compile().expect("part of the program above");
    supply(&mut exact, values);
    supply(&mut plain, values);
    exact.run(1).map_err(|e| TestCaseError::fail(format!("{what}: {e}")))?;
    let size = exact.output("size").expect("it ran").to_f64()[0];
    for (i, value) in values.iter().enumerate() {
        let (name, got) = (format!("x{i}"), exact.output(&format!("d{i}")).expect("it ran"));
        if got.shape() != value.shape() {
            return Err(TestCaseError::fail(format!("{what}: the derivative in x{i} has shape {}", got.shape())));
        }
        let got = got.to_f64();
        if !plain.input_names().contains(&name.as_str()) {
            match got.iter().find(|d| **d != 0.0) {
                Some(d) => return Err(TestCaseError::fail(format!("{what}: {d} in x{i}, which has no influence"))),
                None => continue,
            }
        }
        let want = differences(&mut plain, "y", &name, value, 0..value.shape().size());
        let largest = want.iter().map(|w| w.slope.abs()).fold(0.0, f64::max);
        for Difference { place, slope, step } in want {
            let allowed = TOLERANCE * largest + 1e-13 * size / step;
            // Asked this way round, NaN is not close.
            let close = (got[place] - slope).abs() <= allowed;
            if !close {
                let found = got[place];
                return Err(TestCaseError::fail(format!(
                    "{what}: derivative in element {place} of x{i}: {found}, by differences {slope} (allowed {allowed:e})"
                )));
            }
        }
    }
    Ok(())
}

/// An expression of the inputs. (The checks are compiled once, not for each closure, which took minutes.)
type Build<'f> = &'f dyn for<'a, 'g> Fn(&'a [Expr<'g>]) -> Expr<'g>;

/// Compares first and second derivatives of f with finite differences: those of y = Σ w ⊙ f(x₀, x₁, …) with y's own,
/// then those of Σ u ⊙ dy/dx, summed over all inputs, with differences of it.
pub fn check_derivatives(
    values: &[Array],
    f: impl for<'a, 'g> Fn(&'a [Expr<'g>]) -> Expr<'g>,
) -> Result<(), TestCaseError> {
    check_point(values, &f)
}

fn check_point(values: &[Array], f: Build<'_>) -> Result<(), TestCaseError> {
    let graph = Graph::new();
    let x = declare(&graph, values);
    let out = f(&x);
    let fault = |what: &str, e: mcvi_expr::Error| TestCaseError::fail(format!("{what}: {e}"));
    if let Some(error) = out.error() {
        return Err(fault("value", error));
    }
    let terms = weights(&graph, out.shape(), 0) * out;
    let y = terms.sum_all();
    let first = grad(y, &x).map_err(|e| fault("first derivative", e))?;
    compare("first derivative", &graph, values, (y, terms.abs().sum_all()), &first)?;

    let terms: Vec<Expr<'_>> = first.iter().enumerate().map(|(i, d)| weights(&graph, d.shape(), i + 1) * *d).collect();
    let zero = graph.scalar(DType::F64, 0.0);
    let s = terms.iter().map(|t| t.sum_all()).reduce(|a, b| a + b).unwrap_or(zero);
    let size = terms.iter().map(|t| t.abs().sum_all()).reduce(|a, b| a + b).unwrap_or(zero);
    let second = grad(s, &x).map_err(|e| fault("second derivative", e))?;
    compare("second derivative", &graph, values, (s, size), &second)
}

/// A source of test cases that is the same in every run.
pub fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 64, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Checks the derivatives of f at several points, drawn from the ranges given for each input.
#[track_caller]
pub fn differentiates(inputs: &[(&[usize], Range<f64>)], f: impl for<'a, 'g> Fn(&'a [Expr<'g>]) -> Expr<'g>) {
    check_points(inputs, &f);
}

#[track_caller]
fn check_points(inputs: &[(&[usize], Range<f64>)], f: Build<'_>) {
    let points: Vec<_> =
        inputs.iter().map(|(shape, range)| vec(range.clone(), shape.iter().product::<usize>())).collect();
    let arrays = points.prop_map(|point| {
        point.into_iter().zip(inputs).map(|(data, (shape, _))| array(*shape, data)).collect::<Vec<Array>>()
    });
    if let Err(fault) = runner(8).run(&arrays, |values| check_point(&values, f)) {
        panic!("{fault}");
    }
}

/// ln Γ(x) for positive x, by Stirling's series after shifting x above 15.
pub fn lgamma(x: f64) -> f64 {
    let (mut y, mut shift) = (x, 0.0);
    while y < 15.0 {
        shift += y.ln();
        y += 1.0;
    }
    let series = 1.0 / (12.0 * y) - 1.0 / (360.0 * y.powi(3)) + 1.0 / (1260.0 * y.powi(5)) - 1.0 / (1680.0 * y.powi(7));
    (y - 0.5) * y.ln() - y + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

/// The error function, by Simpson's rule.
pub fn erf(x: f64) -> f64 {
    let (n, h) = (2000, x.clamp(-6.5, 6.5) / 2000.0);
    let weight = |i: i32| if i == 0 || i == n { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    let sum: f64 = (0..=n).map(|i| weight(i) * (-(f64::from(i) * h).powi(2)).exp()).sum();
    sum * h / 3.0 * 2.0 / std::f64::consts::PI.sqrt()
}
