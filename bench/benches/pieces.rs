//! The pieces by themselves: elementwise functions, products, convolutions, noise, compilation, whole steps.
//!
//! `cargo bench -p mcvi-bench` runs all, `cargo bench -p mcvi-bench -- matmul` some. All on one thread, but for the
//! training steps.

use divan::{Bencher, counter::ItemsCount};
use mcvi_bench::{stomach, vae};
use mcvi_expr::{Array, DType, Expr, Graph, Program};

fn main() {
    divan::main();
}

const N: usize = 1 << 16;

fn ramp(dtype: DType, shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| 0.5 + 20.0 * (i as f64 * 0.618).fract()).collect();
    Array::new(shape, values).expect("as many values as elements").cast(dtype)
}

fn program<'g>(graph: &'g Graph, inputs: &[(&str, &Array)], out: Expr<'g>) -> Program {
    let mut program = graph.program().output("out", out).threads(1).compile().expect("a valid program");
    for (name, value) in inputs {
        program.write(name, value).expect("an input of the program");
    }
    program
}

const FUNCTIONS: &[&str] =
    &["mul", "exp", "ln", "softplus", "sigmoid", "tanh", "erf", "lgamma", "digamma", "trigamma", "lgamma_diff"];

fn apply<'g>(name: &str, x: Expr<'g>) -> Expr<'g> {
    match name {
        "mul" => x * x.stop_gradient(),
        "exp" => x.exp(),
        "ln" => x.ln(),
        "softplus" => x.softplus(),
        "sigmoid" => x.sigmoid(),
        "tanh" => x.tanh(),
        "erf" => x.erf(),
        "lgamma" => x.lgamma(),
        "digamma" => x.digamma(),
        "trigamma" => x.polygamma(1),
        _ => x.lgamma_diff(3.0),
    }
}

fn elementwise(bencher: Bencher<'_, '_>, dtype: DType, name: &str) {
    let g = Graph::new();
    let x = g.input("x", dtype, N);
    let mut program = program(&g, &[("x", &ramp(dtype, &[N]))], apply(name, x));
    bencher.counter(ItemsCount::new(N)).bench_local(|| program.run(1));
}

#[divan::bench(args = FUNCTIONS)]
fn elementwise_f32(bencher: Bencher<'_, '_>, name: &str) {
    elementwise(bencher, DType::F32, name);
}

#[divan::bench(args = FUNCTIONS)]
fn elementwise_f64(bencher: Bencher<'_, '_>, name: &str) {
    elementwise(bencher, DType::F64, name);
}

#[divan::bench(args = ["normal_f32", "normal_f64", "uniform_f32", "uniform_f64"])]
fn noise(bencher: Bencher<'_, '_>, name: &str) {
    let g = Graph::new();
    let dtype = if name.ends_with("32") { DType::F32 } else { DType::F64 };
    let out = if name.starts_with('n') { g.normal(0, dtype, N) } else { g.uniform(0, dtype, N) };
    let mut program = program(&g, &[], out);
    bencher.counter(ItemsCount::new(N)).bench_local(|| program.run(1));
}

/// Items are multiply-adds, so items per second times two are FLOP/s.
#[divan::bench(args = [[100, 784, 300], [100, 300, 300], [100, 300, 784], [1000, 300, 784], [100, 32, 300]])]
fn matmul(bencher: Bencher<'_, '_>, [m, k, n]: [usize; 3]) {
    let g = Graph::new();
    let (a, b) = (g.input("a", DType::F32, [m, k]), g.input("b", DType::F32, [k, n]));
    let inputs = [("a", &ramp(DType::F32, &[m, k])), ("b", &ramp(DType::F32, &[k, n]))];
    let mut program = program(&g, &inputs, a.matmul(b));
    bencher.counter(ItemsCount::new(m * k * n)).bench_local(|| program.run(1));
}

#[divan::bench(args = ["rows", "columns", "all"])]
fn sum_f32(bencher: Bencher<'_, '_>, name: &str) {
    let g = Graph::new();
    let x = g.input("x", DType::F32, [256, 256]);
    let out = match name {
        "rows" => x.sum(&[1]),
        "columns" => x.sum(&[0]),
        _ => x.sum_all(),
    };
    let mut program = program(&g, &[("x", &ramp(DType::F32, &[256, 256]))], out);
    bencher.counter(ItemsCount::new(N)).bench_local(|| program.run(1));
}

/// The convolutional layers of the paper, batch 20.
#[divan::bench(args = [[1, 16, 28], [16, 32, 14], [32, 32, 7]])]
fn conv2d_stride_2(bencher: Bencher<'_, '_>, [channels, maps, side]: [usize; 3]) {
    let g = Graph::new();
    let x = g.input("x", DType::F32, [20, channels, side, side]);
    let w = g.input("w", DType::F32, [maps, channels, 5, 5]);
    let inputs =
        [("x", &ramp(DType::F32, &[20, channels, side, side])), ("w", &ramp(DType::F32, &[maps, channels, 5, 5]))];
    let mut program = program(&g, &inputs, x.conv2d(w, 2, (2, 2)));
    bencher.bench_local(|| program.run(1));
}

/// Building, differentiating and compiling the training step.
#[divan::bench(args = [0, 1, 4, 8, 16], sample_count = 20)]
fn compile_vae(bencher: Bencher<'_, '_>, leapfrogs: usize) {
    let initial = Array::zeros(DType::F32, vae::parameters(leapfrogs)).expect("parameters");
    bencher.bench_local(|| {
        let graph = Graph::new();
        let workload = vae::build(&graph, leapfrogs, 100, initial.clone(), false).expect("a valid workload");
        workload.training(2).expect("a valid program")
    });
}

#[divan::bench(args = [0, 1, 4, 8, 16], sample_count = 20)]
fn step_vae(bencher: Bencher<'_, '_>, leapfrogs: usize) {
    let graph = Graph::new();
    let initial = Array::filled(DType::F32, vae::parameters(leapfrogs), 0.01).expect("parameters");
    let workload = vae::build(&graph, leapfrogs, 100, initial, false).expect("a valid workload");
    let mut program = workload.training(2).expect("a valid program");
    let batch = Array::zeros(DType::F32, [100, 784]).expect("a batch");
    program.write("x", &batch).expect("an input");
    bencher.bench_local(|| program.run(1));
}

#[divan::bench(args = [[1, 1], [1, 64], [4, 1], [4, 64]])]
fn step_stomach(bencher: Bencher<'_, '_>, [leapfrogs, draws]: [usize; 2]) {
    let graph = Graph::new();
    let initial = Array::new(stomach::PARAMETERS, stomach::start()).expect("as many values as parameters");
    let workload = stomach::build(&graph, leapfrogs, draws, initial, false).expect("a valid workload");
    let mut program = workload.training(2).expect("a valid program");
    bencher.counter(ItemsCount::new(100usize)).bench_local(|| program.run(100));
}
