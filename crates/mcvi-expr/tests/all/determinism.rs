//! What a program computes depends on its expressions, inputs, seed and step, and on nothing else: not on the number
//! of threads, not on what else is computed, not on the order of building.

use crate::common::{array, irregular};
use mcvi_expr::{Array, DType, Graph, Program, grad};

/// Noise, matrix products, fused maps, all kinds of reductions over more than 100 000 elements, and a convolution.
fn everything(dtype: DType, threads: usize) -> Program {
    let graph = Graph::new();
    let x = graph.normal(0, dtype, [200, 300]);
    let w = graph.state("w", array([300, 120], irregular(36_000, 1)).cast(dtype));
    let big = graph.uniform(1, dtype, [450, 301]);
    let images = graph.normal(2, dtype, [20, 2, 14, 14]);
    let filters = graph.state("f", array([3, 2, 5, 5], irregular(150, 2)).cast(dtype));
    let h = (x.matmul(w) * 0.05).softplus();
    let mapped = (big * 3.0 - 1.0).exp() + big.lgamma();
    let features = images.conv2d(filters, 2, (2, 2)).tanh();
    let loss = h.square().mean_all() + mapped.ln().mean_all() + features.square().sum_all() * 0.01;
    let d = grad(loss, &[w, filters]).unwrap();
    let builder = graph.program().output("loss", loss).output("dw", d[0]).output("df", d[1]);
    let builder = builder.output("rows", mapped.sum(&[1])).output("columns", mapped.sum(&[0]));
    let builder = builder.output("all", mapped.sum_all()).output("top", mapped.max_over(&[0]));
    let builder = builder.output("lse", mapped.logsumexp(&[1])).output("features", features);
    let builder = builder.output("batched", images.matmul(images.t())).output("running", big.cumsum(0));
    let builder = builder.update(w, w - d[0] * 0.1).update(filters, filters - d[1] * 0.1);
    builder.threads(threads).seed(7).compile().unwrap()
}

fn results(program: &mut Program) -> Vec<Array> {
    program.run(3).unwrap();
    let names: Vec<String> = program.output_names().into_iter().map(str::to_owned).collect();
    let outputs: Vec<Array> = names.iter().map(|n| program.output(n).unwrap()).collect();
    outputs.into_iter().chain(program.states().unwrap().into_iter().map(|s| s.1)).collect()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for dtype in [DType::F32, DType::F64] {
        let alone = results(&mut everything(dtype, 1));
        assert!(alone.iter().all(|a| a.to_f64().iter().all(|x| x.is_finite())));
        for threads in [2, 3, 8] {
            let together = results(&mut everything(dtype, threads));
            for (i, (a, b)) in alone.iter().zip(&together).enumerate() {
                assert!(a == b, "result {i} in {dtype} changes with {threads} threads");
            }
        }
    }
}

#[test]
fn the_number_of_threads_can_be_changed_between_runs() {
    let (mut fixed, mut changing) = (everything(DType::F32, 1), everything(DType::F32, 2));
    for threads in [1, 3, 2] {
        fixed.run(1).unwrap();
        changing.set_threads(threads).unwrap();
        changing.run(1).unwrap();
    }
    assert_eq!(fixed.states().unwrap(), changing.states().unwrap());
}

#[test]
fn programs_on_several_threads_of_the_caller_do_not_disturb_each_other() {
    let want = results(&mut everything(DType::F32, 1));
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3).map(|_| scope.spawn(|| results(&mut everything(DType::F32, 2)))).collect();
        for other in others {
            assert!(other.join().unwrap() == want);
        }
    });
}

/// The draws of two streams, normal and uniform, in the given step.
fn draws(seed: u64, step: u64, streams: [u32; 2], dtype: DType, n: usize) -> [Vec<f64>; 2] {
    let graph = Graph::new();
    let (z, u) = (graph.normal(streams[0], dtype, n), graph.uniform(streams[1], dtype, n));
    let mut program = graph.program().output("z", z).output("u", u).seed(seed).compile().unwrap();
    program.set_step(step);
    program.run(1).unwrap();
    ["z", "u"].map(|name| program.output(name).unwrap().to_f64())
}

#[test]
fn draws_depend_on_seed_stream_and_step_and_on_nothing_else() {
    let base = draws(1, 0, [0, 1], DType::F64, 100);
    assert_eq!(base, draws(1, 0, [0, 1], DType::F64, 100));
    for other in [
        draws(2, 0, [0, 1], DType::F64, 100),
        draws(1, 1, [0, 1], DType::F64, 100),
        draws(1, 0, [2, 3], DType::F64, 100),
        draws(1 << 40, 0, [0, 1], DType::F64, 100),
        draws(1, 1 << 40, [0, 1], DType::F64, 100),
    ] {
        for (a, b) in base.iter().zip(&other) {
            assert!(a.iter().zip(b).all(|(a, b)| a != b));
        }
    }
    // A longer array starts with the draws of a shorter one, and draws in single precision are those in double.
    let longer = draws(1, 0, [0, 1], DType::F64, 5000);
    assert_eq!(base[0], longer[0][..100]);
}

#[test]
fn draws_of_consecutive_steps_are_those_of_a_program_set_to_each_step() {
    let graph = Graph::new();
    let z = graph.normal(5, DType::F32, 17);
    let mut program = graph.program().output("z", z).seed(3).compile().unwrap();
    let all = program.execute(&mcvi_expr::Run::steps(4).record("z")).unwrap().remove(0).to_f64();
    for step in [2u64, 0, 3, 1] {
        program.set_step(step);
        program.run(1).unwrap();
        assert_eq!(program.output("z").unwrap().to_f64(), all[step as usize * 17..][..17]);
    }
}

#[test]
fn draws_do_not_change_with_the_rest_of_the_program_or_the_order_of_building() {
    let want = draws(1, 0, [0, 1], DType::F64, 300);
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [300]);
    let u = graph.uniform(1, DType::F64, [300]);
    let other = graph.normal(9, DType::F64, [10, 300]);
    let z = graph.normal(0, DType::F64, [300]);
    let builder = graph.program().output("more", (other * z + x).exp().sum_all()).output("u", u).output("z", z);
    let mut program = builder.seed(1).threads(2).compile().unwrap();
    program.write("x", &Array::zeros(DType::F64, [300]).unwrap()).unwrap();
    program.run(1).unwrap();
    assert_eq!(program.output("z").unwrap().to_f64(), want[0]);
    assert_eq!(program.output("u").unwrap().to_f64(), want[1]);
}

#[test]
fn noise_has_the_moments_of_its_distribution_and_streams_are_uncorrelated() {
    let n = 200_000;
    let count = n as f64;
    for dtype in [DType::F32, DType::F64] {
        let [z, u] = draws(11, 0, [0, 1], dtype, n);
        let [z2, _] = draws(11, 0, [2, 3], dtype, n);
        let [z3, _] = draws(11, 1, [0, 1], dtype, n);
        let mean = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>() / count;
        // Five standard errors: Var z = 1, Var z² = 2, Var z³ = 15, Var z⁴ = 96.
        assert!(mean(&|i| z[i]).abs() < 5.0 * (1.0 / count).sqrt());
        assert!((mean(&|i| z[i].powi(2)) - 1.0).abs() < 5.0 * (2.0 / count).sqrt());
        assert!(mean(&|i| z[i].powi(3)).abs() < 5.0 * (15.0 / count).sqrt());
        assert!((mean(&|i| z[i].powi(4)) - 3.0).abs() < 5.0 * (96.0 / count).sqrt());
        // Var u = 1/12, Var (u − ½)² = 1/180.
        assert!((mean(&|i| u[i]) - 0.5).abs() < 5.0 * (1.0 / 12.0 / count).sqrt());
        assert!((mean(&|i| (u[i] - 0.5).powi(2)) - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / count).sqrt());
        assert!(u.iter().all(|u| 0.0 < *u && *u < 1.0));
        // Products of independent standard normals have variance 1.
        for other in [&z2, &z3] {
            assert!(mean(&|i| z[i] * other[i]).abs() < 5.0 / count.sqrt());
        }
        assert!(mean(&|i| z[i] * (u[i] - 0.5) * 12f64.sqrt()).abs() < 5.0 / count.sqrt());
        for lag in [1, 2, 4, 2048] {
            assert!(mean(&|i| z[i] * z[(i + lag) % n]).abs() < 5.0 / count.sqrt());
        }
    }
}

#[test]
fn a_fresh_stream_is_one_not_in_use() {
    let graph = Graph::new();
    assert_eq!(graph.fresh_stream(), 0);
    let a = graph.normal(graph.fresh_stream(), DType::F64, 4);
    graph.normal(1, DType::F64, 4);
    let b = graph.normal(graph.fresh_stream(), DType::F64, 4);
    assert!(!a.is_same(b) && graph.fresh_stream() == 3);
}
