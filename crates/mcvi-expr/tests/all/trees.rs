//! Random expressions: their values against a plain interpreter, their derivatives against finite differences.

use crate::common::{array, assert_close, check_derivatives, erf, lgamma, runner, value};
use mcvi_expr::{Array, Expr};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

/// The shapes of the four inputs; broadcasting leads from them to no other.
const SHAPES: [&[usize]; 4] = [&[3, 4], &[4], &[3, 1], &[]];

/// Smooth functions of one number, none of which grows fast.
const FUNCTIONS: [&str; 13] = [
    "tanh",
    "sigmoid",
    "softplus",
    "sin",
    "cos",
    "erf",
    "bell",
    "root",
    "log",
    "recip",
    "lgamma",
    "power",
    "log_sigmoid",
];

/// Functions of one array that mix the elements of its last axis.
const ALONG: [&str; 4] = ["mean", "logsumexp", "cumsum", "roll"];

/// Functions of two arrays.
const PAIRS: [&str; 6] = ["add", "sub", "mul", "div", "pow", "product"];

#[derive(Clone, Debug)]
enum Tree {
    Input(usize),
    Number(f64),
    Function(&'static str, Box<Tree>),
    Along(&'static str, Box<Tree>),
    Pair(&'static str, Box<Tree>, Box<Tree>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        6 => any::<usize>().prop_map(|i| Tree::Input(i % SHAPES.len())),
        1 => (0.3..1.5).prop_map(Tree::Number),
        1 => Just(Tree::Input(0)),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            3 => (select(&FUNCTIONS[..]), inner.clone()).prop_map(|(f, t)| Tree::Function(f, t.into())),
            1 => (select(&ALONG[..]), inner.clone()).prop_map(|(f, t)| Tree::Along(f, t.into())),
            3 => (select(&PAIRS[..]), inner.clone(), inner).prop_map(|(f, a, b)| Tree::Pair(f, a.into(), b.into())),
        ]
    })
}

fn inputs() -> impl Strategy<Value = Vec<Array>> {
    let numbers: Vec<_> = SHAPES.iter().map(|shape| vec(-1.5..1.5, shape.iter().product::<usize>())).collect();
    numbers.prop_map(|all| all.into_iter().zip(SHAPES).map(|(data, shape)| array(shape, data)).collect())
}

impl Tree {
    fn build<'g>(&self, x: &[Expr<'g>]) -> Expr<'g> {
        match self {
            Tree::Input(i) => x[*i],
            Tree::Number(c) => x[0].graph().scalar(mcvi_expr::DType::F64, *c),
            Tree::Function(f, t) => {
                let a = t.build(x);
                match *f {
                    "tanh" => a.tanh(),
                    "sigmoid" => a.sigmoid(),
                    "softplus" => a.softplus(),
                    "sin" => a.sin(),
                    "cos" => a.cos(),
                    "erf" => a.erf(),
                    "bell" => (-a.square()).exp(),
                    "root" => (a.square() + 0.5).sqrt(),
                    "log" => (1.0 + a * a).ln(),
                    "recip" => 1.0 / (a.square() + 1.0),
                    "lgamma" => (a.softplus() + 0.5).lgamma(),
                    "power" => a.tanh().powf(3.0),
                    _ => a.log_sigmoid(),
                }
            }
            Tree::Along(f, t) => {
                let a = t.build(x);
                let Some(last) = a.shape().rank().checked_sub(1) else { return a };
                let kept = |e: Expr<'g>| if last == 1 { e.expand(1) } else { e };
                match *f {
                    "mean" => kept(a.mean(&[last])),
                    "logsumexp" => kept(a.logsumexp(&[last])),
                    "cumsum" => a.cumsum(last),
                    _ if a.shape().dims()[last] == 1 => a,
                    _ => a.graph().concat(&[a.slice(last, 1..4), a.slice(last, 0..1)], last),
                }
            }
            Tree::Pair(f, a, b) => {
                let (a, b) = (a.build(x), b.build(x));
                match *f {
                    "add" => a + b,
                    "sub" => a - b,
                    "mul" => a * b,
                    "div" => a / (1.0 + b.square()),
                    "pow" => (a.softplus() + 0.2).pow(b.tanh()),
                    // a bᵀ b / 12: a matrix product where both are matrices.
                    _ if a.shape().rank() == 2 && b.shape().dims() == [3, 4] && a.shape() == b.shape() => {
                        a.matmul(b.t()).matmul(b) * (1.0 / 12.0)
                    }
                    _ => a * b,
                }
            }
        }
    }

    /// The shape and, broadcast to 3×4, the elements.
    fn interpret(&self, x: &[Array]) -> (&'static [usize], [[f64; 4]; 3]) {
        let table = |f: &dyn Fn(usize, usize) -> f64| std::array::from_fn(|i| std::array::from_fn(|j| f(i, j)));
        match self {
            Tree::Input(k) => {
                let data = x[*k].to_f64();
                let at = |i: usize, j: usize| match SHAPES[*k] {
                    [3, 4] => data[i * 4 + j],
                    [4] => data[j],
                    [3, 1] => data[i],
                    _ => data[0],
                };
                (SHAPES[*k], table(&at))
            }
            Tree::Number(c) => (&[], [[*c; 4]; 3]),
            Tree::Function(f, t) => {
                let (shape, a) = t.interpret(x);
                let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
                let at = |x: f64| match *f {
                    "tanh" => x.tanh(),
                    "sigmoid" => 1.0 / (1.0 + (-x).exp()),
                    "softplus" => softplus(x),
                    "sin" => x.sin(),
                    "cos" => x.cos(),
                    "erf" => erf(x),
                    "bell" => (-x * x).exp(),
                    "root" => (x * x + 0.5).sqrt(),
                    "log" => (1.0 + x * x).ln(),
                    "recip" => 1.0 / (x * x + 1.0),
                    "lgamma" => lgamma(softplus(x) + 0.5),
                    "power" => x.tanh().powi(3),
                    _ => -softplus(-x),
                };
                (shape, a.map(|row| row.map(at)))
            }
            Tree::Along(f, t) => {
                let (shape, a) = t.interpret(x);
                // Along an axis of length 1 these change nothing.
                let (reduced, wide): (&'static [usize], bool) = match shape {
                    [3, 4] => (&[3, 1], true),
                    [4] => (&[], true),
                    other => (other, false),
                };
                match *f {
                    _ if !wide => (shape, a),
                    "mean" => (reduced, a.map(|row| [row.iter().sum::<f64>() / 4.0; 4])),
                    "logsumexp" => (reduced, a.map(|row| [row.iter().map(|x| x.exp()).sum::<f64>().ln(); 4])),
                    "cumsum" => (shape, table(&|i, j| a[i][..=j].iter().sum())),
                    _ => (shape, table(&|i, j| a[i][(j + 1) % 4])),
                }
            }
            Tree::Pair(f, a, b) => {
                let ((left, a), (right, b)) = (a.interpret(x), b.interpret(x));
                let wide = |s: &[usize]| s.last() == Some(&4);
                let tall = |s: &[usize]| s.len() == 2;
                let shape = match (wide(left) || wide(right), tall(left) || tall(right)) {
                    (true, true) => SHAPES[0],
                    (true, false) => SHAPES[1],
                    (false, true) => SHAPES[2],
                    (false, false) => SHAPES[3],
                };
                let both: &dyn Fn(usize, usize) -> f64 = match *f {
                    "add" => &|i, j| a[i][j] + b[i][j],
                    "sub" => &|i, j| a[i][j] - b[i][j],
                    "div" => &|i, j| a[i][j] / (1.0 + b[i][j] * b[i][j]),
                    "pow" => &|i, j| {
                        let x = a[i][j];
                        (x.max(0.0) + (-x.abs()).exp().ln_1p() + 0.2).powf(b[i][j].tanh())
                    },
                    "product" if left == SHAPES[0] && right == SHAPES[0] => &|i, j| {
                        let gram = |k: usize| (0..4).map(|l| a[i][l] * b[k][l]).sum::<f64>();
                        (0..3).map(|k| gram(k) * b[k][j]).sum::<f64>() / 12.0
                    },
                    _ => &|i, j| a[i][j] * b[i][j],
                };
                (shape, table(both))
            }
        }
    }
}

/// The elements of a 3×4 table that an array of the shape holds.
fn narrow(shape: &[usize], table: &[[f64; 4]; 3]) -> Vec<f64> {
    match shape {
        [3, 4] => table.concat(),
        [4] => table[0].to_vec(),
        [3, 1] => table.map(|row| row[0]).to_vec(),
        _ => vec![table[0][0]],
    }
}

#[test]
fn random_expressions_have_the_values_of_a_plain_interpreter() {
    let outcome = runner(200).run(&(tree(), inputs()), |(tree, x)| {
        let (shape, table) = tree.interpret(&x);
        assert_close(&value(&x, |x| tree.build(x)), &narrow(shape, &table), 1e-11);
        Ok(())
    });
    outcome.unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn random_expressions_differentiate_twice() {
    let outcome = runner(60).run(&(tree(), inputs()), |(tree, x)| check_derivatives(&x, |x| tree.build(x)));
    outcome.unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn several_expressions_in_one_program_have_the_values_they_have_alone() {
    let trees = vec(tree(), 5);
    let outcome = runner(40).run(&(trees, inputs()), |(trees, x)| {
        let together = crate::common::evaluate(&x, |x| trees.iter().map(|t| t.build(x)).collect());
        for (tree, got) in trees.iter().zip(together) {
            let (shape, table) = tree.interpret(&x);
            assert_close(&got.to_f64(), &narrow(shape, &table), 1e-11);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn states_updated_by_random_expressions_see_only_old_states() {
    let outcome = runner(100).run(&(vec(tree(), 6), inputs()), |(trees, start)| {
        let graph = mcvi_expr::Graph::new();
        let states: Vec<Expr<'_>> =
            start.iter().enumerate().map(|(i, value)| graph.state(&format!("s{i}"), value.clone())).collect();
        // Each state becomes the hyperbolic tangent of an expression, or half of itself where no shape leads to its own.
        let fits = |from: &[usize], to: &[usize]| match (from, to) {
            ([3, 4], to) => to == [3, 4],
            ([4], to) => to.last() == Some(&4),
            ([3, 1], to) => to.len() == 2,
            _ => true,
        };
        let mut builder = graph.program();
        for (k, tree) in trees.iter().enumerate() {
            let value = tree.build(&states);
            match states.get(k) {
                Some(state) if fits(value.shape().dims(), SHAPES[k]) => {
                    builder = builder.update(*state, value.tanh().broadcast_to(SHAPES[k]));
                }
                Some(state) => builder = builder.update(*state, *state * 0.5),
                None => builder = builder.output(&format!("y{k}"), value),
            }
        }
        let mut program = builder.threads(1).compile().expect("well formed");
        let mut expected = start;
        for _ in 0..3 {
            program.run(1).expect("the program runs");
            for (k, tree) in trees.iter().enumerate().skip(4) {
                let (shape, table) = tree.interpret(&expected);
                let got = program.output(&format!("y{k}")).expect("it ran").to_f64();
                assert_close(&got, &narrow(shape, &table), 1e-10);
            }
            let next = |(k, tree): (usize, &Tree)| {
                let (shape, table) = tree.interpret(&expected);
                match fits(shape, SHAPES[k]) {
                    true => array(SHAPES[k], narrow(SHAPES[k], &table.map(|row| row.map(f64::tanh)))),
                    false => array(SHAPES[k], expected[k].to_f64().iter().map(|x| x * 0.5).collect::<Vec<_>>()),
                }
            };
            expected = trees[..4].iter().enumerate().map(next).collect();
            for (name, got) in program.states().unwrap() {
                let k: usize = name[1..].parse().expect("s0 to s3");
                assert_close(&got.to_f64(), &expected[k].to_f64(), 1e-10);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|fault| panic!("{fault}"));
}
