//! Compiled programs: states and their updates, outputs of every kind, dead code, runs with inputs fed and outputs
//! recorded, checkpoints, and a whole training step.

use crate::common::{array, assert_close, irregular};
use mcvi_expr::{Array, DType, Error, Expr, Graph, Program, Result, Run, grad};

fn numbers(program: &mut Program, output: &str) -> Vec<f64> {
    program.output(output).unwrap().to_f64()
}

#[test]
fn many_steps_in_one_run_equal_as_many_runs() {
    let build = || {
        let graph = Graph::new();
        let a = graph.state("a", array([3, 3], irregular(9, 1)));
        let b = graph.state("b", array(3, irregular(3, 2)));
        let next = (a.matmul(a) * 0.3 + b).tanh();
        graph.program().output("sum", next.sum_all()).update(a, next).update(b, a.sum(&[0]).sin()).compile().unwrap()
    };
    let (mut once, mut often) = (build(), build());
    once.run(25).unwrap();
    for _ in 0..25 {
        often.run(1).unwrap();
    }
    for name in ["a", "b"] {
        assert_eq!(once.read(name).unwrap(), often.read(name).unwrap());
    }
    assert_eq!(once.output("sum").unwrap(), often.output("sum").unwrap());
    assert_eq!((once.step(), often.step()), (25, 25));
}

#[test]
fn all_updates_see_the_old_states() {
    let graph = Graph::new();
    let (a, b) = (graph.state("a", array(2, [1.0, 2.0])), graph.state("b", array(2, [3.0, 4.0])));
    let mut swap = graph.program().update(a, b).update(b, a).compile().unwrap();
    swap.run(3).unwrap();
    assert_eq!(swap.read("a").unwrap().to_f64(), [3.0, 4.0]);
    assert_eq!(swap.read("b").unwrap().to_f64(), [1.0, 2.0]);

    let graph = Graph::new();
    let (a, b) = (graph.state("a", array((), [0.0])), graph.state("b", array((), [1.0])));
    let mut fibonacci = graph.program().update(a, b).update(b, a + b).compile().unwrap();
    fibonacci.run(50).unwrap();
    assert_eq!(fibonacci.read("a").unwrap().to_f64(), [12_586_269_025.0]);

    let graph = Graph::new();
    let [a, b, c] = ["a", "b", "c"].map(|n| graph.state(n, array(4, irregular(4, n.len() + n.as_bytes()[0] as usize))));
    let mut round = graph.program().update(a, b * 1.0).update(b, c).update(c, a).compile().unwrap();
    let before = ["a", "b", "c"].map(|n| round.read(n).unwrap());
    round.run(1).unwrap();
    assert_eq!(["b", "c", "a"].map(|n| round.read(n).unwrap()).as_slice(), {
        let [a, b, c] = before;
        [c, a, b]
    });
}

#[test]
fn every_reader_of_a_state_sees_its_old_value_however_late_it_reads() {
    // The update is ready long before the other readers, some of which read the state rearranged.
    let graph = Graph::new();
    let data = irregular(12, 3);
    let s = graph.state("s", array([3, 4], data.clone()));
    let late = s.matmul(s.t()).exp().matmul(s).sum(&[0]).cumsum(0) * s.at(0, 1);
    let builder = graph.program().update(s, s * 2.0 + 1.0).output("late", late).output("t", s.t().exp());
    let mut program = builder.output("s", s).output("row", s.at(0, 2)).compile().unwrap();
    program.run(1).unwrap();
    let plain = crate::common::value(&[array([3, 4], data.clone())], |x| {
        let s = x[0];
        s.matmul(s.t()).exp().matmul(s).sum(&[0]).cumsum(0) * s.at(0, 1)
    });
    assert_close(&numbers(&mut program, "late"), &plain, 1e-14);
    assert_eq!(numbers(&mut program, "s"), data);
    assert_eq!(numbers(&mut program, "row"), data[8..]);
    let t: Vec<f64> = (0..12).map(|k| data[k % 3 * 4 + k / 3].exp()).collect();
    assert_close(&numbers(&mut program, "t"), &t, 1e-15);
    let new: Vec<f64> = data.iter().map(|x| x * 2.0 + 1.0).collect();
    assert_close(&program.read("s").unwrap().to_f64(), &new, 1e-15);
}

#[test]
fn updates_that_rearrange_their_own_state_are_right() {
    let graph = Graph::new();
    let data: Vec<f64> = (0..9).map(f64::from).collect();
    let s = graph.state("s", array([3, 3], data));
    let turned = graph.concat(&[s.t().slice(0, 1..3), s.t().slice(0, 0..1)], 0);
    let mut program = graph.program().update(s, turned + 0.0).compile().unwrap();
    program.run(1).unwrap();
    assert_eq!(program.read("s").unwrap().to_f64(), [1.0, 4.0, 7.0, 2.0, 5.0, 8.0, 0.0, 3.0, 6.0]);

    let graph = Graph::new();
    let s = graph.state("s", array([2, 2], [1.0, 2.0, 3.0, 4.0]));
    let mut program = graph.program().update(s, s.t() * 2.0 + s.sum(&[0])).compile().unwrap();
    program.run(1).unwrap();
    assert_eq!(program.read("s").unwrap().to_f64(), [6.0, 12.0, 8.0, 14.0]);

    let graph = Graph::new();
    let s = graph.state("s", array([2, 2], [1.0, 1.0, 0.0, 1.0]));
    let mut program = graph.program().update(s, s.matmul(s)).output("old", s).compile().unwrap();
    program.run(3).unwrap();
    assert_eq!(program.read("s").unwrap().to_f64(), [1.0, 8.0, 0.0, 1.0]);
    assert_eq!(numbers(&mut program, "old"), [1.0, 4.0, 0.0, 1.0]);
}

#[test]
fn states_of_a_few_elements_are_updated_from_their_own_elements() {
    for n in 1..=4 {
        for dtype in [DType::F32, DType::F64] {
            let graph = Graph::new();
            let (first, second) = (irregular(n, 1), irregular(n, 2));
            let s = graph.state("s", array(n, first.clone()).cast(dtype));
            let t = graph.state("t", array(n, second.clone()).cast(dtype));
            let turned = graph.concat(&(0..n).rev().map(|i| t.slice(0, i..i + 1)).collect::<Vec<_>>(), 0);
            // Every element of `s` needs the old first one; `t` is turned around, with a function of one element.
            let next = s * s.at(0, 0) - turned;
            let program = graph.program().update(s, next).update(t, turned + s.at(0, n - 1).exp());
            let program = program.output("sum", s.sum_all()).output("max", t.max_over(&[0]));
            let program = program.output("pad", s.slice(0, 0..1).pad(0, 1, 1)).output("s", s);
            let mut program = program.compile().unwrap();
            let (mut want_s, mut want_t) = (first, second);
            for _ in 0..3 {
                program.run(1).unwrap();
                let tolerance = if dtype == DType::F32 { 1e-5 } else { 1e-14 };
                assert_close(&numbers(&mut program, "sum"), &[want_s.iter().sum()], tolerance);
                let max = want_t.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
                assert_close(&numbers(&mut program, "max"), &[max], tolerance);
                assert_close(&numbers(&mut program, "pad"), &[0.0, want_s[0], 0.0], tolerance);
                assert_close(&numbers(&mut program, "s"), &want_s, tolerance);
                let (old, turned) = (want_s.clone(), want_t.iter().rev().copied().collect::<Vec<f64>>());
                want_s = old.iter().zip(&turned).map(|(x, y)| x * old[0] - y).collect();
                want_t = turned.iter().map(|y| y + old[n - 1].exp()).collect();
                assert_close(&program.read("s").unwrap().to_f64(), &want_s, tolerance);
                assert_close(&program.read("t").unwrap().to_f64(), &want_t, tolerance);
            }
        }
    }
}

#[test]
fn states_of_a_few_elements_that_read_each_other_are_read_as_they_were() {
    for n in 1..=3 {
        for dtype in [DType::F32, DType::F64] {
            let graph = Graph::new();
            let (one, two) = ([3.0, 5.0, 7.0][..n].to_vec(), [0.5, 4.0, 2.0][..n].to_vec());
            let s = graph.state("s", array(n, one.clone()).cast(dtype));
            let t = graph.state("t", array(n, two.clone()).cast(dtype));
            let mut program = graph.program().update(s, s + t).update(t, s - t).compile().unwrap();
            program.run(1).unwrap();
            let pairs = || one.iter().zip(&two);
            assert_eq!(program.read("s").unwrap().to_f64(), pairs().map(|(a, b)| a + b).collect::<Vec<f64>>());
            assert_eq!(program.read("t").unwrap().to_f64(), pairs().map(|(a, b)| a - b).collect::<Vec<f64>>());
        }
    }
}

#[test]
fn products_of_a_few_elements_are_right() {
    for (m, k, n) in [(1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 2), (2, 4, 2), (3, 2, 3)] {
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-14)] {
            let graph = Graph::new();
            let (x, y, c) = (irregular(2 * m * k, 3), irregular(2 * k * n, 4), irregular(m * n, 5));
            let a = graph.state("a", array([2, m, k], x.clone()).cast(dtype));
            let b = graph.state("b", array([2, k, n], y.clone()).cast(dtype));
            let turned = b.at(0, 0).t().matmul(a.at(0, 1).t()).t();
            let sum = a.at(0, 0).matmul(b.at(0, 1)) + turned + graph.literal(array([m, n], c.clone()).cast(dtype));
            let mut program = graph.program().output("both", a.matmul(b)).output("sum", sum).compile().unwrap();
            program.run(1).unwrap();
            let product = |p: usize, q: usize| -> Vec<f64> {
                let element =
                    |i: usize, j: usize| (0..k).map(|l| x[(p * m + i) * k + l] * y[(q * k + l) * n + j]).sum();
                (0..m * n).map(|at| element(at / n, at % n)).collect()
            };
            assert_close(&numbers(&mut program, "both"), &[product(0, 0), product(1, 1)].concat(), tolerance);
            let want: Vec<f64> = (0..m * n).map(|i| product(0, 1)[i] + product(1, 0)[i] + c[i]).collect();
            assert_close(&numbers(&mut program, "sum"), &want, tolerance);
        }
    }
}

#[test]
fn one_value_may_update_two_states_and_be_an_output() {
    let graph = Graph::new();
    let (a, b) = (graph.state("a", array(3, [0.0; 3])), graph.state("b", array(3, [0.0; 3])));
    let next = a + 1.0;
    let mut program = graph.program().update(a, next).update(b, next).output("next", next).compile().unwrap();
    program.run(4).unwrap();
    assert_eq!(program.read("a").unwrap().to_f64(), [4.0; 3]);
    assert_eq!(program.read("b").unwrap().to_f64(), [4.0; 3]);
    assert_eq!(numbers(&mut program, "next"), [4.0; 3]);
}

#[test]
fn outputs_may_be_views_constants_inputs_and_states() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [2, 3]);
    let s = graph.state("s", array(2, [5.0, 6.0]));
    let i = graph.input("i", DType::I32, [2]);
    let five = graph.scalar(DType::F64, 5.0);
    let table = graph.literal(array([2, 2], [1.0, 2.0, 3.0, 4.0]));
    let outputs: [(&str, Expr<'_>, &[f64]); 12] = [
        ("input", x, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("transposed", x.t(), &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]),
        ("part", x.slice(1, 1..3), &[1.0, 2.0, 4.0, 5.0]),
        ("state", s, &[5.0, 6.0]),
        ("wide", s.broadcast_to([2, 2]), &[5.0, 6.0, 5.0, 6.0]),
        ("number", five, &[5.0]),
        ("numbers", five.broadcast_to([3]), &[5.0; 3]),
        ("literal", table, &[1.0, 2.0, 3.0, 4.0]),
        ("flipped", table.t(), &[1.0, 3.0, 2.0, 4.0]),
        ("integers", i, &[7.0, 8.0]),
        ("stopped", x.stop_gradient().at(0, 1), &[3.0, 4.0, 5.0]),
        ("view of computed", (x * 2.0).t().slice(0, 0..1), &[0.0, 6.0]),
    ];
    let builder = outputs.iter().fold(graph.program(), |b, (name, e, _)| b.output(name, *e));
    let mut program = builder.update(s, s + 1.0).compile().unwrap();
    program.write("x", &array([2, 3], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])).unwrap();
    program.write("i", &Array::new(2, vec![7, 8]).unwrap()).unwrap();
    program.run(1).unwrap();
    for (name, e, want) in outputs {
        let got = program.output(name).unwrap();
        assert_eq!((got.to_f64().as_slice(), got.shape(), got.dtype()), (want, &e.shape(), e.dtype()), "{name}");
    }
    // The same expression under two names.
    let mut twice = graph.program().output("a", x * 2.0).output("b", x * 2.0).compile().unwrap();
    twice.write("x", &array([2, 3], [1.0; 6])).unwrap();
    twice.run(1).unwrap();
    assert_eq!(twice.output("a").unwrap(), twice.output("b").unwrap());
}

#[test]
fn what_nothing_needs_is_not_run() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [40, 40]);
    let used = x.exp().sum_all();
    let (alone, _) = graph.program().output("y", used).compile().unwrap().kernels();
    let noise = graph.normal(0, DType::F64, [1000, 1000]);
    let waste = x.matmul(x).cholesky().sum_all() + noise.sum_all() + graph.input("w", DType::F64, [9]).sum_all();
    let mut program = graph.program().output("y", used).compile().unwrap();
    assert_eq!(program.kernels().0, alone);
    assert_eq!(program.input_names(), ["x"]);
    assert!(program.memory_bytes() < 100_000, "unused noise needs no memory: {}", program.memory_bytes());
    program.write("x", &Array::zeros(DType::F64, [40, 40]).unwrap()).unwrap();
    program.run(1).unwrap();
    assert_eq!(numbers(&mut program, "y"), [1600.0]);
    assert!(graph.program().output("y", used).output("waste", waste).compile().unwrap().kernels().0 > alone);
}

#[test]
fn equal_expressions_are_one_node() {
    let graph = Graph::new();
    let (a, b) = (graph.input("a", DType::F64, [3]), graph.input("b", DType::F64, [3]));
    let (first, len) = ((a + b).exp(), graph.len());
    assert!(first.is_same((a + b).exp()));
    assert_eq!(graph.len(), len);
    assert!(graph.literal(array(2, [1.0, f64::NAN])).is_same(graph.literal(array(2, [1.0, f64::NAN]))));
    assert!(!graph.literal(array(2, [1.0, 0.0])).is_same(graph.literal(array(2, [1.0, -0.0]))));
    assert!(!graph.scalar(DType::F64, 0.1).is_same(graph.scalar(DType::F32, 0.1)));
    let d = grad(first.sum_all(), &[a]).unwrap()[0];
    let len = graph.len();
    assert!(d.is_same(grad(first.sum_all(), &[a]).unwrap()[0]));
    assert_eq!(graph.len(), len, "a derivative built again adds nothing");
}

#[test]
fn a_long_chain_fed_step_by_step_equals_a_loop() {
    let graph = Graph::new();
    let beta = graph.input("beta", DType::F64, ());
    let x = graph.state("x", array(2, [1.0, -0.5]));
    let next = x + 0.1 * (beta * x.sin() - x);
    let mut program = graph.program().output("x", next).output("beta", beta).update(x, next).compile().unwrap();
    let betas: Vec<f64> = (0..5000).map(|t| f64::from(t) / 5000.0 * 2.0).collect();
    let fed = array(5000, betas.clone());
    let recorded = program.execute(&Run::steps(5000).feed("beta", &fed).record("x").record("beta")).unwrap();
    assert_eq!(recorded[0].shape().dims(), [5000, 2]);
    assert_eq!(recorded[1].to_f64(), betas);
    let mut state = [1.0f64, -0.5];
    for (beta, row) in betas.iter().zip(recorded[0].to_f64().chunks(2)) {
        state = state.map(|x| x + 0.1 * (beta * x.sin() - x));
        assert_close(row, &state, 1e-12);
        // Rounding differences must not accumulate over the chain.
        state.copy_from_slice(row);
    }
    assert_eq!(program.read("x").unwrap().to_f64(), state);
    assert_eq!(program.read("beta").unwrap().to_f64(), betas[4999..]);
}

/// A program with noise, matrix products and several states.
fn noisy() -> Program {
    let graph = Graph::new();
    let w = graph.state("w", Array::new([20, 10], irregular(200, 1)).unwrap().cast(DType::F32));
    let m = graph.state("m", Array::zeros(DType::F32, [20, 10]).unwrap());
    let count = graph.state("count", Array::scalar(0.0f64));
    let x = graph.normal(3, DType::F32, [32, 20]);
    let u = graph.uniform(4, DType::F32, [32, 10]);
    let loss = (x.matmul(w).tanh() - u).square().mean_all();
    let g = grad(loss, &[w]).unwrap()[0];
    let m1 = m * 0.9 + g;
    let builder = graph.program().output("loss", loss).update(w, w - m1 * 0.1).update(m, m1).update(count, count + 1.0);
    builder.seed(42).compile().unwrap()
}

#[test]
fn a_run_continued_from_a_checkpoint_is_bit_identical() {
    let (mut whole, mut first) = (noisy(), noisy());
    whole.run(12).unwrap();
    first.run(7).unwrap();
    let (states, step) = (first.states().unwrap(), first.step());
    drop(first);
    let mut second = noisy();
    for (name, value) in &states {
        second.write(name, value).unwrap();
    }
    second.set_step(step);
    second.run(5).unwrap();
    assert_eq!(states.len(), 3);
    assert_eq!(second.states().unwrap(), whole.states().unwrap());
    assert_eq!(second.output("loss").unwrap(), whole.output("loss").unwrap());
    assert_eq!(second.step(), 12);
}

#[test]
fn written_states_and_inputs_read_back() {
    let mut program = noisy();
    let w = Array::filled(DType::F32, [20, 10], 0.25).unwrap();
    program.write("w", &w).unwrap();
    assert_eq!(program.read("w").unwrap(), w);
    assert!(program.input_names().is_empty());
    assert_eq!(program.output_names(), ["loss"]);
    program.set_seed(9);
    assert_eq!(program.seed(), 9);
    assert!(format!("{program:?}").contains("kernels"));
}

#[test]
fn single_precision_is_close_to_double() {
    let run = |dtype: DType| -> Result<Vec<Vec<f64>>> {
        let graph = Graph::new();
        let x = graph.literal(array([50, 30], irregular(1500, 1)).cast(dtype));
        let w = graph.state("w", array([30, 20], irregular(600, 2)).cast(dtype));
        let h = (x.matmul(w) * 0.2).softplus();
        let y = (h.ln() + h.lgamma() * 0.1).logsumexp(&[1]).mean_all();
        let g = grad(y, &[w])?[0];
        let curved = grad((g * w).sum_all(), &[w])?[0];
        let mut program = graph.program().output("y", y).output("g", g).output("c", curved).compile()?;
        program.run(1)?;
        ["y", "g", "c"].into_iter().map(|o| Ok(program.output(o)?.to_f64())).collect()
    };
    let (single, double) = (run(DType::F32).unwrap(), run(DType::F64).unwrap());
    for (single, double) in single.iter().zip(&double) {
        assert_close(single, double, 2e-5);
    }
}

#[test]
fn large_reductions_agree_with_loops() {
    // Large enough for several tiles, with a ragged end.
    let (rows, cols) = (523, 217);
    let data = irregular(rows * cols, 5);
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [rows, cols]);
    let e = x.exp();
    let builder = graph.program().output("rows", e.sum(&[1])).output("cols", e.sum(&[0])).output("all", e.sum_all());
    let builder = builder.output("top", x.max_over(&[0, 1])).output("tops", x.max_over(&[0]));
    let builder = builder.output("t", e.t()).output("centred", e - e.mean(&[0]));
    let mut program = builder.output("products", x.t().matmul(x)).threads(2).compile().unwrap();
    program.write("x", &array([rows, cols], data.clone())).unwrap();
    program.run(1).unwrap();
    let exp: Vec<f64> = data.iter().map(|x| x.exp()).collect();
    let by_row: Vec<f64> = exp.chunks(cols).map(|row| row.iter().sum()).collect();
    let column = |j: usize| (0..rows).map(move |i| i * cols + j);
    let by_col: Vec<f64> = (0..cols).map(|j| column(j).map(|p| exp[p]).sum()).collect();
    let tops: Vec<f64> = (0..cols).map(|j| column(j).map(|p| data[p]).fold(f64::MIN, f64::max)).collect();
    assert_close(&numbers(&mut program, "rows"), &by_row, 1e-13);
    assert_close(&numbers(&mut program, "cols"), &by_col, 1e-13);
    assert_close(&numbers(&mut program, "all"), &[exp.iter().sum()], 1e-13);
    assert_eq!(numbers(&mut program, "tops"), tops);
    assert_eq!(numbers(&mut program, "top"), [tops.iter().copied().fold(f64::MIN, f64::max)]);
    let t: Vec<f64> = (0..rows * cols).map(|k| exp[k % rows * cols + k / rows]).collect();
    assert_close(&numbers(&mut program, "t"), &t, 1e-14);
    let centred: Vec<f64> = exp.iter().enumerate().map(|(k, e)| e - by_col[k % cols] / rows as f64).collect();
    assert_close(&numbers(&mut program, "centred"), &centred, 1e-13);
    let products = numbers(&mut program, "products");
    let at = |a: usize, b: usize| (0..rows).map(|i| data[i * cols + a] * data[i * cols + b]).sum::<f64>();
    for (a, b) in [(0, 0), (3, 200), (216, 216), (100, 7)] {
        assert_close(&[products[a * cols + b]], &[at(a, b)], 1e-12);
    }
}

#[test]
fn a_training_step_of_logistic_regression_reaches_the_optimum_newton_finds() -> Result<(), Error> {
    let (n, d) = (200, 3);
    let x = irregular(n * d, 1);
    let truth = [1.5, -0.7, 0.3];
    let score = |i: usize, w: &[f64]| (0..d).map(|k| x[i * d + k] * w[k]).sum::<f64>();
    let noise = irregular(n, 2);
    let y: Vec<f64> = (0..n).map(|i| f64::from(score(i, &truth) + 1.5 * noise[i] > 0.0)).collect();

    // Adam, with the whole step in one program.
    let graph = Graph::new();
    let (xs, ys) = (graph.literal(array([n, d], x.clone())), graph.literal(array(n, y.clone())));
    let names = ["w", "m", "v"];
    let [w, m, v] = names.map(|name| graph.state(name, Array::zeros(DType::F64, d).unwrap()));
    let t = graph.state("t", Array::scalar(0.0f64));
    let logits = xs.matmul(w.expand(1)).flatten();
    let loss = (logits.softplus() - ys * logits).sum_all() + w.square().sum_all() * 0.5;
    let g = grad(loss, &[w])?[0];
    let t1 = t + 1.0;
    let (m1, v1) = (m * 0.9 + g * 0.1, v * 0.999 + g.square() * 0.001);
    let rate = 0.05 / (1.0 + t1 * 0.01);
    let corrected = m1 / (1.0 - (t1 * 0.9f64.ln()).exp());
    let spread = (v1 / (1.0 - (t1 * 0.999f64.ln()).exp())).sqrt();
    let builder = graph.program().output("loss", loss).update(w, w - rate * corrected / (spread + 1e-8));
    let mut program = builder.update(m, m1).update(v, v1).update(t, t1).compile()?;
    let recorded = program.execute(&Run::steps(4000).record("loss"))?.remove(0).to_f64();

    // Newton's method on the same loss.
    let mut best = [0.0; 3];
    for _ in 0..30 {
        let mut gradient = best;
        let mut hessian = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        for i in 0..n {
            let p = 1.0 / (1.0 + (-score(i, &best)).exp());
            for k in 0..d {
                gradient[k] += (p - y[i]) * x[i * d + k];
                (0..d).for_each(|l| hessian[k][l] += p * (1.0 - p) * x[i * d + k] * x[i * d + l]);
            }
        }
        let det = |m: [[f64; 3]; 3]| {
            m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
                + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
        };
        let step: [f64; 3] = std::array::from_fn(|k| {
            let mut replaced = hessian;
            (0..3).for_each(|r| replaced[r][k] = gradient[r]);
            det(replaced) / det(hessian)
        });
        (0..3).for_each(|k| best[k] -= step[k]);
    }
    assert_close(&program.read("w")?.to_f64(), &best, 1e-6);
    assert!(recorded[3999] < recorded[0] && (recorded[3999] - recorded[3000]).abs() < 1e-6);
    assert_eq!(program.read("t")?.to_f64(), [4000.0]);
    Ok(())
}

#[test]
fn a_state_reduced_in_the_kernel_that_updates_it_is_reduced_as_it_was() {
    for n in [1, 2, 4, 64, 1000, 20_000] {
        let data = irregular(n, 1);
        let graph = Graph::new();
        let s = graph.state("s", array(n, data.clone()));
        let total = graph.state("total", array((), [0.0]));
        let builder = graph.program().update(s, s * 0.5).update(total, s.sum_all()).output("top", s.max_over(&[0]));
        let mut program = builder.compile().unwrap();
        program.run(1).unwrap();
        assert_close(&program.read("total").unwrap().to_f64(), &[data.iter().sum()], 1e-12);
        assert_eq!(numbers(&mut program, "top"), [data.iter().copied().fold(f64::MIN, f64::max)]);
        assert_eq!(program.read("s").unwrap().to_f64(), data.iter().map(|x| x * 0.5).collect::<Vec<_>>());
    }
}

#[test]
fn states_exchanged_and_kept_in_one_kernel_are_those_from_before() {
    for n in [2, 4, 64, 1000, 20_000] {
        let (one, two) = (irregular(n, 1), irregular(n, 2));
        let graph = Graph::new();
        let (a, b) = (graph.state("a", array(n, one.clone())), graph.state("b", array(n, two.clone())));
        let builder = graph.program().update(a, b).update(b, a).output("a", a).output("b", b);
        let mut program = builder.output("sum", (a + b).sum_all()).compile().unwrap();
        program.run(1).unwrap();
        assert_eq!(
            (program.read("a").unwrap().to_f64(), program.read("b").unwrap().to_f64()),
            (two.clone(), one.clone())
        );
        assert_eq!((numbers(&mut program, "a"), numbers(&mut program, "b")), (one.clone(), two.clone()));

        let mut program = graph.program().update(a, a * 2.0).update(b, a).output("old", a).compile().unwrap();
        program.run(1).unwrap();
        assert_eq!(program.read("b").unwrap().to_f64(), one);
        assert_eq!(numbers(&mut program, "old"), one);
        let mut program = graph.program().update(b, a).update(a, b + a).output("old", b).compile().unwrap();
        program.run(1).unwrap();
        assert_eq!(program.read("b").unwrap().to_f64(), one);
        assert_eq!(numbers(&mut program, "old"), two);
        let sums: Vec<f64> = one.iter().zip(&two).map(|(a, b)| a + b).collect();
        assert_eq!(program.read("a").unwrap().to_f64(), sums);
    }
}
