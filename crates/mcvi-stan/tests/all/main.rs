//! Tests of the whole way from a program to its model, each with programs of its own.

mod constraints;
mod cumulative;
mod data;
mod densities;
mod language;
mod matrices;
mod model;
mod ode;
mod read;
mod regressions;
mod simulate;
mod support;
mod written;

use mcvi_expr::{Array, DType, Graph, grad};
use mcvi_stan::{Diagnostics, Posterior, Program};
use serde_json::Value;

/// Reads a program that includes nothing.
fn read(text: &str) -> Result<Program, Box<Diagnostics>> {
    Program::read("test.stan", text, &|_| None)
}

/// The first mistake of a program that must have one.
fn mistake(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("no mistake was found in:\n{text}"),
        Err(mistakes) => mistakes.list[0].message.clone(),
    }
}

/// The posterior of a program and data without mistakes.
fn posterior(text: &str, data: Value) -> Posterior {
    let program = read(text).unwrap_or_else(|e| panic!("{e}"));
    Posterior::new(&program, &data).unwrap_or_else(|e| panic!("{e}"))
}

/// The first mistake of data, or of what cannot be lowered.
fn refusal(text: &str, data: Value) -> String {
    let program = read(text).unwrap_or_else(|e| panic!("{e}"));
    match Posterior::new(&program, &data) {
        Ok(_) => panic!("nothing was refused in:\n{text}"),
        Err(mistakes) => mistakes.list[0].message.clone(),
    }
}

/// Log densities and gradients at some points.
fn evaluate(posterior: &Posterior, points: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let (rows, dim) = (points.len(), posterior.dim());
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [rows, dim]);
    let log_density = posterior.log_density(z);
    let gradient = grad(log_density.sum_all(), &[z]).unwrap()[0];
    let mut program = graph.program().output("lp", log_density).output("grad", gradient).threads(1).compile().unwrap();
    program.write("z", &Array::new([rows, dim], points.concat()).unwrap()).unwrap();
    program.run(1).unwrap();
    (program.output("lp").unwrap().to_f64(), program.output("grad").unwrap().to_f64())
}

/// The product of the Hessian at a point with a direction.
fn hessian_product(posterior: &Posterior, point: &[f64], direction: &[f64]) -> Vec<f64> {
    let shape = [1, posterior.dim()];
    let graph = Graph::new();
    let (z, v) = (graph.input("z", DType::F64, shape), graph.input("v", DType::F64, shape));
    let gradient = grad(posterior.log_density(z).sum_all(), &[z]).unwrap()[0];
    let product = grad((gradient * v).sum_all(), &[z]).unwrap()[0];
    let mut program = graph.program().output("product", product).threads(1).compile().unwrap();
    program.write("z", &Array::new(shape, point.to_vec()).unwrap()).unwrap();
    program.write("v", &Array::new(shape, direction.to_vec()).unwrap()).unwrap();
    program.run(1).unwrap();
    program.output("product").unwrap().to_f64()
}

/// The log density at one point.
fn log_density(posterior: &Posterior, point: &[f64]) -> f64 {
    evaluate(posterior, &[point.to_vec()]).0[0]
}

/// Values of parameters and transformed parameters at a point.
fn constrained(posterior: &Posterior, point: &[f64]) -> Vec<Vec<f64>> {
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [1, posterior.dim()]);
    let values = posterior.constrained(z);
    let mut builder = graph.program();
    for (i, value) in values.iter().enumerate() {
        if let Some(value) = value {
            builder = builder.output(&i.to_string(), *value);
        }
    }
    let mut program = builder.compile().unwrap();
    program.write("z", &Array::new([1, posterior.dim()], point.to_vec()).unwrap()).unwrap();
    program.run(1).unwrap();
    let read = |i: usize| program.output(&i.to_string()).map_or(vec![], |a| a.to_f64());
    (0..values.len()).map(read).collect()
}

fn assert_near(found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(error <= 1e-11 * expected.abs().max(1.0), "found {found}, expected {expected}");
}
