//! Compares log densities and gradients with those that another implementation of Stan recorded.
//!
//! `cargo run --release -p mcvi-stan --example compare -- refs.json [NAME...]`, where the file holds, for each name,
//! the paths `program` and `data`, and lists `points`, `lp` and `grad`. Values are compared up to a constant, unless
//! `absolute` is true. Where there are `columns`, the values of parameters and generated quantities at the point with the
//! number `columns_point`, those are compared too.

use mcvi::{BayesianModel, Hardware};
use mcvi_expr::{Array, DType, Graph, grad};
use mcvi_stan::{Posterior, Program, StanModel};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Instant;

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().map(|l| l.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

/// Rows of the program that is timed.
const ROWS: usize = 64;

/// The largest relative errors, and what it took.
struct Errors {
    value: f64,
    gradient: f64,
    /// Of products of the Hessian with a vector, against differences of gradients.
    product: f64,
    /// To read and lower; to compile density, gradient and one product with the Hessian for 64 rows; to compute a
    /// gradient of 64 rows, for each row.
    seconds: [f64; 3],
    operations: usize,
    columns: Option<(f64, usize)>,
}

/// The largest relative error of parameters and generated quantities, and how many there are; none if none are given.
fn columns(case: &Value, program: &str, data: &Value, points: &[Vec<f64>]) -> Result<Option<(f64, usize)>, String> {
    let Some(columns) = case["columns"].as_object() else { return Ok(None) };
    let model = StanModel::compile(program, data).map_err(|e| e.to_string())?;
    let point = &points[case["columns_point"].as_u64().unwrap_or(0) as usize];
    let q = model.quantities(std::slice::from_ref(point), Some(1), Hardware::with_threads(1));
    let q = q.map_err(|e| e.to_string())?;
    let all = [&q.parameters, &q.generated, &q.log_likelihood, &q.predictive].into_iter().flatten();
    let found: HashMap<String, f64> = all.flat_map(|q| q.names().into_iter().zip(q.values.clone())).collect();
    let mut worst = 0.0f64;
    for (name, value) in columns {
        let Some(expected) = value.as_f64() else { continue };
        let Some(value) = found.get(name) else { return Err(format!("no column {name}")) };
        worst = worst.max((value - expected).abs() / expected.abs().max(1.0));
    }
    Ok(Some((worst, columns.len())))
}

/// A compiled log density with its gradient g, and the product of the Hessian with v.
fn compiled(posterior: &Posterior, rows: usize) -> Result<mcvi_expr::Program, mcvi_expr::Error> {
    let graph = Graph::new();
    let shape = [rows, posterior.dim()];
    let (z, v) = (graph.input("z", DType::F64, shape), graph.input("v", DType::F64, shape));
    let log_density = posterior.log_density(z);
    let gradient = grad(log_density.sum_all(), &[z])?[0];
    let product = grad((gradient * v).sum_all(), &[z])?[0];
    let program = graph.program().output("lp", log_density).output("grad", gradient).output("product", product);
    program.threads(1).compile()
}

/// The seconds that a gradient takes for each of 64 rows.
fn gradient_seconds(posterior: &Posterior, point: &[f64]) -> Result<f64, mcvi_expr::Error> {
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [ROWS, posterior.dim()]);
    let log_density = posterior.log_density(z);
    let gradient = grad(log_density.sum_all(), &[z])?[0];
    let mut program = graph.program().output("lp", log_density).output("grad", gradient).threads(1).compile()?;
    program.write("z", &Array::new([ROWS, posterior.dim()], point.repeat(ROWS))?)?;
    program.run(1)?;
    let start = Instant::now();
    program.run(5)?;
    Ok(start.elapsed().as_secs_f64() / (5 * ROWS) as f64)
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
    compiled(&posterior, ROWS).map_err(|e| e.to_string())?;
    let compiling = start.elapsed().as_secs_f64();
    let (rows, dim) = (points.len(), posterior.dim());
    // Every point, and every point a little further and back along v.
    let (h, v) = (1e-5, (0..dim).map(|i| (i as f64).cos()).collect::<Vec<_>>());
    let shifted =
        |step: f64| points.iter().flat_map(move |p| p.iter().zip(&v).map(|(x, v)| x + step * v).collect::<Vec<_>>());
    let all: Vec<f64> = [0.0, h, -h].iter().flat_map(|s| shifted.clone()(*s)).collect();
    let v: Vec<f64> = (0..3 * rows).flat_map(|_| (0..dim).map(|i| (i as f64).cos())).collect();
    let run = || -> Result<_, mcvi_expr::Error> {
        let mut program = compiled(&posterior, 3 * rows)?;
        program.write("z", &Array::new([3 * rows, dim], all.clone())?)?;
        program.write("v", &Array::new([3 * rows, dim], v.clone())?)?;
        program.run(1)?;
        let mut read = |name: &str| Ok::<_, mcvi_expr::Error>(program.output(name)?.to_f64());
        Ok((read("lp")?, read("grad")?, read("product")?, gradient_seconds(&posterior, &points[rows - 1])?))
    };
    let (lp, gradient, product, each) = run().map_err(|e| e.to_string())?;
    let seconds = [lowered, compiling, each];
    let columns = columns(case, &text, &data, &points)?;
    let mut errors =
        Errors { value: 0.0, gradient: 0.0, product: 0.0, seconds, operations: posterior.operations(), columns };
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
            let at = |block: usize| (block * rows + row) * dim + i;
            let difference = (gradient[at(1)] - gradient[at(2)]) / (2.0 * h);
            let error = (product[at(0)] - difference).abs() / difference.abs().max(scale);
            errors.product = if error.is_nan() { f64::NAN } else { errors.product.max(error) };
        }
    }
    Ok(errors)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&arguments[0]).expect("the file of references");
    let cases: Value = serde_json::from_str(&text).expect("JSON");
    let (mut lowered, mut values, mut gradients, mut products, mut total) = (0, 0, 0, 0, 0);
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
                products += usize::from(e.product < 1e-6);
                if let Some((error, count)) = e.columns {
                    println!("{name}: {count} columns, {error:.1e}");
                }
                println!(
                    "{name}: {mark} value {:.1e} gradient {:.1e} product {:.1e}; {} operations, {:.0} ms to lower, {:.0} ms to compile, {:.1} us a gradient",
                    e.value,
                    e.gradient,
                    e.product,
                    e.operations,
                    1e3 * e.seconds[0],
                    1e3 * e.seconds[1],
                    1e6 * e.seconds[2]
                );
            }
        }
    }
    println!(
        "{total} posteriors, {lowered} lowered, {values} values and {gradients} gradients agree, {products} products"
    );
}
