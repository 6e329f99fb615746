//! Sums over ranks: the same bits on any number of them, and derivatives of any order.

use mcvi_expr::{Array, Communicator, DType, Expr, Graph, Parts, Program, Result, ThreadRank, grad};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PARTS: usize = 4;
const ROWS: usize = 6;

/// Log likelihoods of the rows of a part.
fn density<'g>(part: usize, theta: Expr<'g>) -> Expr<'g> {
    let data = (0..ROWS * 3).map(|i| ((i * 7 + part * 5) % 13) as f64 * 0.37 - 1.9).collect::<Vec<_>>();
    let x = theta.graph().literal(Array::new([ROWS, 3], data).expect("an array"));
    let odds = theta.expand(0).matmul(x.t());
    (odds.softplus() + (odds * 0.3).tanh()).sum(&[0, 1]) * -1.0
}

/// The log density of the rows of all parts.
fn sum<'g>(theta: Expr<'g>, parts: &Parts) -> Expr<'g> {
    let local = theta.to_parts(parts);
    let one = |(i, part)| density(part, local.slice(0, i..i + 1).reshape(3)).expand(0);
    let each: Vec<Expr<'g>> = parts.mine().enumerate().map(one).collect();
    theta.graph().concat(&each, 0).sum_over_parts(parts)
}

/// The sum over all parts, its gradient, and a product with its Hessian, as a leapfrog that is differentiated has them.
fn program(parts: &Parts, threads: usize) -> Result<Program> {
    let graph = Graph::new();
    let theta = graph.input("theta", DType::F64, 3);
    let value = sum(theta, parts);
    let gradient = grad(value, &[theta])?[0];
    let moved = theta + gradient * 0.05;
    let after = sum(moved, parts) + (gradient * gradient).sum_all();
    let second = grad(after, &[theta])?[0];
    let builder = graph.program().threads(threads).output("value", value);
    builder.output("gradient", gradient).output("after", after).output("second", second).compile()
}

fn run(parts: &Parts, threads: usize) -> Vec<u64> {
    let mut program = program(parts, threads).expect("a program");
    program.write("theta", &Array::new(3, vec![0.3, -0.7, 1.1]).expect("an array")).expect("written");
    program.run(2).expect("it runs");
    let bits = |name: &str| program.output(name).expect("an output").to_f64().iter().map(|x| x.to_bits()).collect();
    ["value", "gradient", "after", "second"].map(bits).into_iter().flat_map(|b: Vec<u64>| b).collect()
}

fn on_ranks<T: Send>(size: usize, work: impl Fn(ThreadRank) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = ThreadRank::new(size).into_iter().map(|rank| scope.spawn(move || work(rank))).collect();
        running.into_iter().map(|rank| rank.join().expect("it ended well")).collect()
    })
}

#[test]
fn the_number_of_ranks_changes_no_bit() {
    let alone = run(&Parts::alone(PARTS), 1);
    for size in 1..=4 {
        for threads in [1, 2] {
            let all = on_ranks(size, |rank| run(&Parts::new(Arc::new(rank), PARTS).expect("parts"), threads));
            all.iter().for_each(|bits| assert_eq!(*bits, alone, "{size} ranks, {threads} threads"));
        }
    }
}

#[test]
fn a_sum_over_parts_has_the_derivatives_of_the_sum() {
    let graph = Graph::new();
    let theta = graph.input("theta", DType::F64, 3);
    let all = |theta| (0..PARTS).map(|part| density(part, theta)).reduce(|a, b| a + b).expect("parts");
    let value = all(theta);
    let gradient = grad(value, &[theta]).expect("a gradient")[0];
    let after = all(theta + gradient * 0.05) + (gradient * gradient).sum_all();
    let second = grad(after, &[theta]).expect("a gradient")[0];
    let builder = graph.program().output("value", value).output("gradient", gradient);
    let mut program = builder.output("after", after).output("second", second).compile().expect("a program");
    program.write("theta", &Array::new(3, vec![0.3, -0.7, 1.1]).expect("an array")).expect("written");
    program.run(1).expect("it runs");
    let expected: Vec<f64> = ["value", "gradient", "after", "second"]
        .into_iter()
        .flat_map(|name| program.output(name).expect("an output").to_f64())
        .collect();
    for (found, expected) in run(&Parts::alone(PARTS), 1).into_iter().map(f64::from_bits).zip(expected) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} {expected}");
    }
}

#[test]
fn a_rank_that_ends_ends_the_others() {
    let ended = on_ranks(3, |rank| {
        if rank.rank() == 1 {
            return None;
        }
        let mut program = program(&Parts::new(Arc::new(rank), PARTS).expect("parts"), 1).expect("a program");
        program.write("theta", &Array::new(3, vec![0.0; 3]).expect("an array")).expect("written");
        Some(program.run(1).expect_err("a rank is lost").to_string())
    });
    assert!(ended[1].is_none());
    for error in [&ended[0], &ended[2]].into_iter().flatten() {
        assert!(error.contains("the sum over ranks failed: rank"), "{error}");
    }
}

#[test]
fn parts_and_shapes_must_fit() {
    let error = on_ranks(3, |rank| Parts::new(Arc::new(rank), 2).err().map(|e| e.to_string()));
    assert!(error.iter().flatten().all(|e| e.contains("3 ranks need at least as many parts")) && error[0].is_some());
    let graph = Graph::new();
    let wrong = graph.input("x", DType::F64, [3, 2]).sum_over_parts(&Parts::alone(2));
    assert!(wrong.error().is_some_and(|e| e.to_string().contains("first axis of 2")));
}

const OBSERVED: usize = 6007;
const GROUPS: usize = 5;

/// A log density of rows of z written for all data at once, as users write them: a linear predictor, effects of groups, weights,
/// a mixture, a sum that cannot be divided, and a short one.
fn written<'g>(z: Expr<'g>) -> Expr<'g> {
    let (graph, draws) = (z.graph(), z.shape().dims()[0]);
    let number = |i: usize, by: usize| ((i * by) % 101) as f64 * 0.02 - 1.0;
    let vector = |by: usize| {
        let values: Vec<f64> = (0..OBSERVED).map(|i| number(i, by)).collect();
        graph.literal(Array::new(OBSERVED, values).expect("an array"))
    };
    let design: Vec<f64> = (0..2 * OBSERVED).map(|i| number(i, 37)).collect();
    let x = graph.literal(Array::new([OBSERVED, 2], design).expect("an array"));
    let group: Vec<i32> = (0..OBSERVED as i32).map(|i| i * i % GROUPS as i32).collect();
    let group = graph.literal(Array::new(OBSERVED, group).expect("an array"));
    let (slopes, effects, scale) = (z.slice(1, 0..2), z.slice(1, 2..2 + GROUPS), z.slice(1, 7..8).exp());
    let eta = slopes.matmul(x.t()) + effects.take(1, group) + vector(11);
    let residual = (vector(7) - eta) / scale;
    let first = (residual.square() * -0.5 - scale.ln()) * vector(13).abs();
    let second = vector(3).gt(0.0).select((eta * 0.3).tanh(), eta.square());
    let pairs = (first.expand(2) + second.expand(2)).broadcast_to([draws, OBSERVED, 2]).permute(&[0, 2, 1]);
    // Every row is compared with the mean of all, or with the one before: the mean is divided.
    let centred = (eta - eta.mean(&[1]).expand(1)).square().sum(&[1]);
    let change = (graph.concat(&[eta, eta.square()], 1).slice(1, 1..OBSERVED + 1) - eta).tanh().sum(&[1]);
    pairs.sum(&[1, 2]) + centred + change + z.square().sum(&[1]) * -0.5 + eta.cumsum(1).tanh().sum(&[1])
}

/// Divided sums, their gradients, and products with the Hessian.
fn divided(parts: Option<&Parts>, threads: usize) -> Vec<f64> {
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [3, 8]);
    let divide = |rows| parts.filter(|_| rows >= OBSERVED).cloned();
    let value = |z| {
        let z = Expr::opaque(z);
        written(z).sums_by_parts(z, &divide).sum_all()
    };
    let gradient = grad(value(z), &[z]).expect("a gradient")[0];
    let after = value(z + gradient * 0.01) + (gradient * gradient).sum_all();
    let second = grad(after, &[z]).expect("a gradient")[0];
    let builder = graph.program().threads(threads).output("value", value(z)).output("gradient", gradient);
    let mut program = builder.output("after", after).output("second", second).compile().expect("a program");
    let start = (0..24).map(|i| (i * 7 % 24) as f64 * 0.05 - 0.6).collect::<Vec<_>>();
    program.write("z", &Array::new([3, 8], start).expect("an array")).expect("written");
    program.run(1).expect("it runs");
    ["value", "gradient", "after", "second"]
        .iter()
        .flat_map(|n| program.output(n).expect("an output").to_f64())
        .collect()
}

/// A rank that counts the times it exchanges messages.
struct Counting(ThreadRank, Arc<AtomicUsize>);

impl Communicator for Counting {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn exchange(&self, tag: u32, messages: Vec<Vec<u8>>) -> std::result::Result<Vec<Vec<u8>>, String> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.exchange(tag, messages)
    }
}

#[test]
fn what_can_be_divided_is() {
    let exchanges = on_ranks(2, |rank| {
        let count = Arc::new(AtomicUsize::new(0));
        let parts = Parts::new(Arc::new(Counting(rank, count.clone())), PARTS).expect("parts");
        let graph = Graph::new();
        let z = graph.literal(Array::new([1, 8], vec![0.1; 8]).expect("an array")).opaque();
        let value = written(z).sums_by_parts(z, &|rows| Some(parts.clone()).filter(|_| rows >= OBSERVED));
        let mut program = graph.program().output("value", value).compile().expect("a program");
        program.run(1).expect("it runs");
        count.load(Ordering::Relaxed)
    });
    // Two sums, each of which is gathered and given back.
    assert_eq!(exchanges, [4, 4]);
}

#[test]
fn sums_of_a_model_are_divided_and_keep_their_value() {
    let whole = divided(None, 1);
    let alone = divided(Some(&Parts::alone(PARTS)), 1);
    for (found, expected) in alone.iter().zip(&whole) {
        assert!((found - expected).abs() <= 1e-10 * expected.abs().max(1.0), "{found} {expected}");
    }
    let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for size in 1..=4 {
        let all = on_ranks(size, |rank| {
            let parts = Parts::new(Arc::new(rank), PARTS).expect("parts");
            divided(Some(&parts), 1 + size % 2)
        });
        all.iter().for_each(|found| assert_eq!(bits(found), bits(&alone), "{size} ranks"));
    }
}

/// A log density of data of which a rank holds the rows of its own parts.
fn of_held_rows<'g>(z: Expr<'g>, parts: &Parts) -> Expr<'g> {
    let number = |i: usize| ((i * 37) % 101) as f64 * 0.02 - 1.0;
    let held = parts.held(OBSERVED);
    let values: Vec<f64> = (2 * held.start..2 * held.end).map(number).collect();
    let x = z.graph().rows_of(Array::new([held.len(), 2], values).expect("an array"), held.start, OBSERVED);
    let all = Array::new(OBSERVED, (0..OBSERVED).map(|i| number(3 * i)).collect::<Vec<_>>()).expect("an array");
    let eta = z.matmul(x.t()) + z.graph().literal(all);
    (eta.softplus() * -1.0).sum(&[1])
}

#[test]
fn ranks_hold_no_more_than_the_rows_of_their_parts() {
    let run = |parts: &Parts| {
        let graph = Graph::new();
        let z = graph.input("z", DType::F64, [3, 2]).opaque();
        let density = of_held_rows(z, parts);
        let value = density.sums_by_parts(z, &|rows| Some(parts.clone()).filter(|_| rows == OBSERVED));
        let gradient = grad(value.sum_all(), &[z]).expect("a gradient")[0];
        let builder = graph.program().output("value", value).output("gradient", gradient);
        let mut program = builder.compile().expect("a program");
        let start = vec![0.3, -0.2, 1.0, 0.5, -1.5, 0.1];
        program.write("z", &Array::new([3, 2], start).expect("an array")).expect("written");
        program.run(1).expect("it runs");
        let whole = graph.program().output("whole", density).compile();
        let refused = whole.err().map(|e| e.to_string());
        assert_eq!(refused.is_some(), parts.mine().len() < PARTS, "{refused:?}");
        assert!(refused.is_none_or(|e| e.contains("other ranks hold some of its rows")));
        let bits = |name| program.output(name).expect("an output").to_f64().iter().map(|x| x.to_bits()).collect();
        ["value", "gradient"].map(bits).into_iter().flat_map(|b: Vec<u64>| b).collect::<Vec<_>>()
    };
    let alone = run(&Parts::alone(PARTS));
    for size in 1..=4 {
        let all = on_ranks(size, |rank| run(&Parts::new(Arc::new(rank), PARTS).expect("parts")));
        all.iter().for_each(|found| assert_eq!(*found, alone, "{size} ranks"));
    }
}

#[test]
fn some_rows_are_computed_alone() {
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [3, 8]);
    let number = |i: usize| ((i * 37) % 101) as f64 * 0.02 - 1.0;
    let x = Array::new([OBSERVED, 8], (0..8 * OBSERVED).map(number).collect::<Vec<_>>()).expect("an array");
    let each = (z.matmul(graph.literal(x).t()) * 0.3).tanh();
    let some = each.rows(1, 10..40).expect("rows of their own");
    assert_eq!(some.shape().dims(), [3, 30]);
    assert!(each.cumsum(1).rows(1, 10..40).is_none(), "rows that are computed from others");
    let mut program = graph.program().output("all", each).output("some", some).compile().expect("a program");
    program
        .write("z", &Array::new([3, 8], (0..24).map(number).collect::<Vec<_>>()).expect("an array"))
        .expect("written");
    program.run(1).expect("it runs");
    let (all, some) = (program.output("all").expect("all").to_f64(), program.output("some").expect("some").to_f64());
    for (i, x) in some.iter().enumerate() {
        assert!((x - all[i / 30 * OBSERVED + 10 + i % 30]).abs() < 1e-14);
    }
}
