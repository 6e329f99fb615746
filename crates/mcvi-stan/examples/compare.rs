//! Compares log densities and gradients with those that another implementation of Stan recorded.
//!
//! `cargo run --release -p mcvi-stan --example compare -- refs.json [NAME...]`, where the file holds, for each name,
//! the paths `program` and `data`, and lists `points`, `lp` and `grad`. Values are compared up to a constant, unless
//! `absolute` is true.

use mcvi_expr::{Array, DType, Graph, grad};
use mcvi_stan::{Posterior, Program};
use serde_json::Value;
use std::time::Instant;

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().map(|l| l.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

/// The largest relative errors of differences of values and of gradients.
struct Errors {
    value: f64,
    gradient: f64,
    seconds: [f64; 2],
    operations: usize,
}

fn compare(case: &Value) -> Result<Errors, String> {
    let path = |key: &str| case[key].as_str().unwrap_or("").to_owned();
    let text = std::fs::read_to_string(path("program")).map_err(|e| e.to_string())?;
    let data = std::fs::read_to_string(path("data")).map_err(|e| e.to_string())?;
    let data: Value = serde_json::from_str(&data).map_err(|e| e.to_string())?;
    let start = Instant::now();
    let program = Program::read(&path("program"), &text, &|_| None).map_err(|e| e.to_string())?;
    let posterior = Posterior::new(&program, &data).map_err(|e| {
        let first = &e.list[0];
        format!("line {}: {}", e.sources.line(first.span), first.message)
    })?;
    let lowered = start.elapsed().as_secs_f64();
    let points: Vec<Vec<f64>> = case["points"].as_array().into_iter().flatten().map(numbers).collect();
    if points[0].len() != posterior.dim() {
        return Err(format!("{} unconstrained parameters, {} expected", posterior.dim(), points[0].len()));
    }
    let start = Instant::now();
    let (rows, dim) = (points.len(), posterior.dim());
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [rows, dim]);
    let log_density = posterior.log_density(z);
    let gradient = grad(log_density.sum_all(), &[z]).map_err(|e| e.to_string())?[0];
    let mut compiled = graph
        .program()
        .output("lp", log_density)
        .output("grad", gradient)
        .threads(1)
        .compile()
        .map_err(|e| e.to_string())?;
    let seconds = [lowered, start.elapsed().as_secs_f64()];
    compiled
        .write("z", &Array::new([rows, dim], points.concat()).map_err(|e| e.to_string())?)
        .map_err(|e| e.to_string())?;
    compiled.run(1).map_err(|e| e.to_string())?;
    let lp = compiled.output("lp").map_err(|e| e.to_string())?.to_f64();
    let gradient = compiled.output("grad").map_err(|e| e.to_string())?.to_f64();
    let mut errors = Errors { value: 0.0, gradient: 0.0, seconds, operations: posterior.operations() };
    let mut first = (case["absolute"] == true).then_some((0.0, 0.0));
    for row in 0..rows {
        let Some(expected) = case["lp"][row].as_f64() else { continue };
        if let Some((l, e)) = first {
            let error = ((lp[row] - l) - (expected - e)).abs() / expected.abs().max(e.abs()).max(1.0);
            errors.value = if error.is_nan() { f64::NAN } else { errors.value.max(error) };
        } else {
            first = Some((lp[row], expected));
        }
        let expected = numbers(&case["grad"][row]);
        let scale = expected.iter().fold(1.0f64, |m, g| m.max(g.abs()));
        for (i, e) in expected.iter().enumerate() {
            let error = (gradient[row * dim + i] - e).abs() / e.abs().max(1e-3 * scale).max(1.0);
            errors.gradient = if error.is_nan() { f64::NAN } else { errors.gradient.max(error) };
        }
    }
    Ok(errors)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&arguments[0]).expect("the file of references");
    let cases: Value = serde_json::from_str(&text).expect("JSON");
    let (mut lowered, mut values, mut gradients, mut total) = (0, 0, 0, 0);
    for (name, case) in cases.as_object().into_iter().flatten() {
        if arguments.len() > 1 && !arguments[1..].contains(name) {
            continue;
        }
        total += 1;
        match compare(case) {
            Err(why) => println!("{name}: NOT LOWERED: {why}"),
            Ok(e) => {
                lowered += 1;
                values += usize::from(e.value < 1e-10);
                gradients += usize::from(e.gradient < 1e-9);
                let mark = if e.value < 1e-10 && e.gradient < 1e-9 { "ok" } else { "DIFFERS" };
                println!(
                    "{name}: {mark} value {:.1e} gradient {:.1e}; {} operations, {:.0} ms to lower, {:.0} ms to compile",
                    e.value,
                    e.gradient,
                    e.operations,
                    1e3 * e.seconds[0],
                    1e3 * e.seconds[1]
                );
            }
        }
    }
    println!("{total} posteriors, {lowered} lowered, {values} values and {gradients} gradients agree");
}
