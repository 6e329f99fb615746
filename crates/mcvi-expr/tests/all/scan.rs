//! Loops: values and derivatives against the same body written out, and what a body may contain.

use crate::common::{array, assert_close, differentiates, evaluate, irregular, supply, value};
use mcvi_expr::{Array, DType, Error, Expr, Graph, Run, grad};

/// A body: from carries and elements to the next carries and results.
type Body = for<'g> fn(&[Expr<'g>], &[Expr<'g>], &[Expr<'g>]) -> (Vec<Expr<'g>>, Vec<Expr<'g>>);

/// The loop written out.
fn unrolled<'g>(
    length: usize,
    carry: &[Expr<'g>],
    xs: &[Expr<'g>],
    body: impl Fn(&[Expr<'g>], &[Expr<'g>]) -> (Vec<Expr<'g>>, Vec<Expr<'g>>),
) -> (Vec<Expr<'g>>, Vec<Expr<'g>>) {
    let graph = carry[0].graph();
    let mut carry = carry.to_vec();
    let mut stacks: Vec<Vec<Expr<'g>>> = vec![];
    for t in 0..length {
        let element = |x: &Expr<'g>| x.slice(0, t..t + 1).reshape(x.shape().dims()[1..].to_vec());
        let (next, ys) = body(&carry, &xs.iter().map(element).collect::<Vec<_>>());
        let row = |y: &Expr<'g>| y.reshape([&[1], y.shape().dims()].concat());
        stacks.push(ys.iter().map(row).collect());
        carry = next;
    }
    let stacks = (0..stacks[0].len()).map(|i| graph.concat(&stacks.iter().map(|s| s[i]).collect::<Vec<_>>(), 0));
    let stacks = stacks.collect();
    (carry, stacks)
}

/// Everything a loop gives, as one list.
fn all<'g>((last, stacks): (Vec<Expr<'g>>, Vec<Expr<'g>>)) -> Vec<Expr<'g>> {
    last.into_iter().chain(stacks).collect()
}

fn summed<'g>(results: &[Expr<'g>]) -> Expr<'g> {
    let weighted = |(i, e): (usize, &Expr<'g>)| {
        let w = irregular(e.shape().size(), i);
        (*e * e.graph().literal(array(e.shape(), w))).sum_all()
    };
    results.iter().enumerate().map(weighted).reduce(|a, b| a + b).unwrap()
}

/// Values, gradients and gradients of gradients of a loop and of the same written out, on the given operands: the first
/// `carries` are carries, the next `xs` are gone through, and the others are used from outside.
fn same_as_unrolled(values: &[Array], carries: usize, xs: usize, length: usize, body: Body) {
    let outputs = |looped: bool| {
        evaluate(values, |v| {
            let (carry, rest) = v.split_at(carries);
            let (elements, outside) = rest.split_at(xs);
            let graph = v[0].graph();
            let results = if looped {
                graph.scan(length, carry, elements, |c, x| body(c, x, outside))
            } else {
                unrolled(length, carry, elements, |c, x| body(c, x, outside))
            };
            let mut results = all(results);
            let first = grad(summed(&results), v).unwrap();
            let second = grad(summed(&first), v).unwrap();
            results.extend(first);
            results.extend(second);
            results
        })
    };
    for (i, (got, want)) in outputs(true).iter().zip(outputs(false)).enumerate() {
        assert_eq!(got.shape(), want.shape(), "result {i}");
        assert_close(&got.to_f64(), &want.to_f64(), 1e-10);
    }
}

fn irregulars(shapes: &[&[usize]]) -> Vec<Array> {
    let one = |(i, shape): (usize, &&[usize])| array(*shape, irregular(shape.iter().product(), i));
    shapes.iter().enumerate().map(one).collect()
}

#[test]
fn a_loop_is_the_same_as_its_body_written_out() {
    let values = irregulars(&[&[3], &[3], &[5, 3], &[5], &[3], &[]]);
    same_as_unrolled(&values, 2, 2, 5, |c, x, o| {
        let next = (c[0] * o[0] + x[0] * c[1]).tanh() + x[1] * o[1];
        (vec![next, c[1] * 0.5 + c[0].sin()], vec![next * c[1], x[1] + c[0].sum_all()])
    });
}

#[test]
fn one_iteration_is_the_body() {
    let values = irregulars(&[&[2, 3], &[1, 3], &[2, 1]]);
    same_as_unrolled(&values, 1, 1, 1, |c, x, o| (vec![c[0] * x[0] + o[0]], vec![c[0].exp() * o[0]]));
}

#[test]
fn carries_may_be_exchanged_shifted_or_left_alone() {
    let values = irregulars(&[&[2], &[2], &[2], &[2], &[4, 2]]);
    same_as_unrolled(&values, 4, 1, 4, |c, x, _| {
        // (b, a, x, unchanged)
        (vec![c[1], c[0], x[0], c[3]], vec![c[0] * c[2] + c[3]])
    });
}

#[test]
fn elements_and_constants_may_be_results() {
    let values = irregulars(&[&[], &[6], &[2]]);
    same_as_unrolled(&values, 1, 1, 6, |c, x, o| {
        let three = c[0].graph().full(DType::F64, [2], 3.0);
        (vec![x[0] + c[0] * 0.3], vec![x[0], c[0], three, o[0], o[0] * c[0]])
    });
}

#[test]
fn products_and_reductions_work_in_a_body() {
    let values = irregulars(&[&[2, 3], &[4, 3, 3], &[3, 3], &[3]]);
    same_as_unrolled(&values, 1, 1, 4, |c, x, o| {
        let z = (c[0].matmul(x[0]) + c[0].matmul(o[0])).tanh();
        (vec![z + o[1]], vec![z.logsumexp(&[1]), z.sum(&[0]), z.t().matmul(z)])
    });
}

#[test]
fn large_bodies_are_shared_by_threads_and_give_the_same_bits() {
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, [200, 300]);
    let w = graph.input("w", DType::F64, [300, 300]);
    let noise = graph.fresh_stream();
    let (last, ys) = graph.scan(7, &[z], &[], |c, _| {
        let next = (c[0].matmul(w) * 0.05 + c[0]).tanh() + graph.normal(noise, DType::F64, [200, 300]) * 0.1;
        (vec![next], vec![next.sum(&[1])])
    });
    let d = grad(last[0].square().sum_all() + ys[0].exp().sum_all() * 1e-3, &[z, w]).unwrap();
    let builder = graph.program().output("dz", d[0]).output("dw", d[1]).output("y", ys[0]);
    let mut program = builder.threads(1).compile().unwrap();
    program.write("z", &array([200, 300], irregular(60000, 1))).unwrap();
    program.write("w", &array([300, 300], irregular(90000, 2))).unwrap();
    let mut results = vec![];
    for threads in [1, 2, 3, 8] {
        program.set_threads(threads).unwrap();
        program.set_step(0);
        program.run(1).unwrap();
        results.push(["dz", "dw", "y"].map(|name| program.output(name).unwrap().to_f64()));
    }
    assert!(results.iter().all(|r| *r == results[0]));
}

#[test]
fn derivatives_of_loops_agree_with_differences() {
    differentiates(&[(&[3], -1.0..1.0), (&[4, 3], -1.0..1.0), (&[], 0.3..1.0)], |v| {
        let graph = v[0].graph();
        let (last, ys) = graph.scan(4, &[v[0]], &[v[1]], |c, x| {
            let next = (c[0] * v[2] + x[0]).sin();
            (vec![next], vec![next * c[0]])
        });
        (last[0] * ys[0].sum(&[0])).exp()
    });
    // A loop over indices, and over a constant.
    differentiates(&[(&[5], -1.0..1.0), (&[2], -1.0..1.0)], |v| {
        let graph = v[0].graph();
        let index = graph.literal(Array::new([3, 2], vec![4, 1, 0, 0, 2, 3]).unwrap());
        let (last, _) = graph.scan(3, &[v[1]], &[index, graph.arange(DType::F64, 3)], |c, x| {
            (vec![(c[0] * v[0].take(0, x[0])).tanh() + x[1] * c[0]], vec![])
        });
        last[0]
    });
}

#[test]
fn third_derivatives_of_a_loop_are_right() {
    // x^(2^3): its third derivative is 8·7·6·x⁵.
    let got = value(&[Array::scalar(1.3)], |v| {
        let graph = v[0].graph();
        let (last, _) = graph.scan(3, &[v[0]], &[], |c, _| (vec![c[0].square()], vec![]));
        let mut y = last[0];
        for _ in 0..3 {
            y = grad(y, &[v[0]]).unwrap()[0];
        }
        y
    });
    assert_close(&got, &[336.0 * 1.3f64.powi(5)], 1e-12);
}

#[test]
fn loops_nest_to_any_depth() {
    let values = irregulars(&[&[2], &[3, 4, 2], &[2]]);
    same_as_unrolled(&values, 1, 1, 3, |c, x, o| {
        let graph = c[0].graph();
        let (inner, ys) = graph.scan(4, &[c[0] * 0.5], &[x[0]], |d, y| {
            let (deepest, _) = graph.scan(2, &[d[0]], &[], |e, _| (vec![(e[0] + o[0] * c[0]).tanh() + y[0]], vec![]));
            (vec![deepest[0] * c[0]], vec![deepest[0] + y[0]])
        });
        (vec![inner[0] + o[0]], vec![ys[0], inner[0].exp()])
    });
}

#[test]
fn a_body_may_take_gradients() {
    let values = irregulars(&[&[3], &[5], &[3]]);
    // Steps along the gradient of a function, with step sizes that are gone through.
    same_as_unrolled(&values, 1, 1, 5, |c, x, o| {
        let height = (c[0].sin() * o[0]).sum_all() + c[0].square().sum_all().sqrt();
        let slope = grad(height, &[c[0]]).unwrap()[0];
        (vec![c[0] + slope * x[0] * 0.1], vec![height])
    });
}

#[test]
fn a_loop_that_does_not_depend_on_the_outer_one_is_computed_once() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [3]);
    let (last, _) = graph.scan(4, &[x], &[], |c, _| {
        let (inner, _) = graph.scan(5, &[x * 0.1], &[], |d, _| (vec![d[0].sin()], vec![]));
        (vec![c[0] + inner[0]], vec![])
    });
    let mut program = graph.program().output("y", last[0]).threads(1).compile().unwrap();
    program.write("x", &array(3, [0.5, 1.0, 2.0])).unwrap();
    program.run(1).unwrap();
    let inner = |x: f64| (0..5).fold(x * 0.1, |v, _| v.sin());
    let want = [0.5, 1.0, 2.0].map(|x| x + 4.0 * inner(x));
    assert_close(&program.output("y").unwrap().to_f64(), &want, 1e-14);
}

/// Draws are fresh in each iteration, those of the first are as outside loops, and they do not depend on how many others
/// there are.
#[test]
fn each_iteration_draws_afresh() {
    let draws = |dtype: DType, n: usize| {
        let graph = Graph::new();
        let (_, ys) = graph.scan(4, &[], &[], |_, _| (vec![], vec![graph.normal(7, dtype, [n])]));
        let (_, nested) = graph.scan(3, &[], &[], |_, _| {
            let (_, ys) = graph.scan(2, &[], &[], |_, _| (vec![], vec![graph.uniform(8, dtype, [n])]));
            (vec![], ys)
        });
        let program = graph.program().output("y", ys[0]).output("nested", nested[0]);
        let mut program = program.output("plain", graph.normal(9, dtype, [n])).seed(3).compile().unwrap();
        program.run(2).unwrap();
        ["y", "nested"].map(|name| program.output(name).unwrap().to_f64())
    };
    for dtype in [DType::F64, DType::F32] {
        for (many, few) in draws(dtype, 16).iter().zip(draws(dtype, 5)) {
            let rows = many.chunks(16).zip(few.chunks(5));
            assert!(rows.clone().all(|(many, few)| many[..5] == *few));
            let mut all = many.clone();
            all.sort_by(f64::total_cmp);
            all.dedup();
            assert_eq!(all.len(), many.len(), "all draws differ");
        }
        let graph = Graph::new();
        let mut program = graph.program().output("y", graph.normal(7, dtype, [16])).seed(3).compile().unwrap();
        program.run(2).unwrap();
        assert_eq!(program.output("y").unwrap().to_f64(), draws(dtype, 16)[0][..16]);
    }
}

#[test]
fn derivatives_see_the_draws_that_the_loop_made() {
    // Σ over t of z·noise: its derivative is the sum of the noise, its second derivative in the scale as well.
    let graph = Graph::new();
    let z = graph.input("z", DType::F64, ());
    let (last, ys) = graph.scan(6, &[z], &[], |c, _| {
        let noise = graph.normal(2, DType::F64, ());
        (vec![c[0] * (noise * 0.1).exp()], vec![noise])
    });
    let d = grad(last[0], &[z]).unwrap()[0];
    let mut program = graph.program().output("d", d).output("noise", ys[0]).compile().unwrap();
    program.write("z", &Array::scalar(2.0)).unwrap();
    program.run(3).unwrap();
    let sum: f64 = program.output("noise").unwrap().to_f64().iter().sum();
    assert_close(&program.output("d").unwrap().to_f64(), &[(0.1 * sum).exp()], 1e-14);
}

#[test]
fn states_are_updated_from_loops_over_many_steps() {
    let graph = Graph::new();
    let state = graph.state("state", array([2], [0.1, 0.2]));
    let memory = graph.state("memory", array([3, 2], [0.0; 6]));
    let (last, ys) = graph.scan(3, &[state], &[memory], |c, x| {
        let next = (c[0] * 0.9 + x[0]).sin();
        (vec![next], vec![next * 0.5])
    });
    let builder = graph.program().output("sum", last[0].sum_all()).update(state, last[0]).update(memory, ys[0]);
    let mut program = builder.compile().unwrap();
    let sums = program.execute(&Run::steps(5).record("sum")).unwrap()[0].to_f64();
    let (mut s, mut m) = ([0.1f64, 0.2], [[0.0f64; 2]; 3]);
    for sum in sums {
        for row in &mut m {
            for i in 0..2 {
                s[i] = (s[i] * 0.9 + row[i]).sin();
                row[i] = s[i] * 0.5;
            }
        }
        assert_close(&[sum], &[s[0] + s[1]], 1e-14);
    }
    assert_close(&program.read("state").unwrap().to_f64(), &s, 1e-14);
    assert_close(&program.read("memory").unwrap().to_f64(), &m.concat(), 1e-14);
}

#[test]
fn loops_of_f32_and_carries_of_integers_work() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4, 3]);
    let index = graph.literal(Array::new([3], vec![2, 0, 1]).unwrap());
    let zero = graph.full(DType::F32, [3], 0.0);
    let (last, ys) = graph.scan(4, &[zero, index], &[x], |c, x| {
        (vec![c[0] + x[0].take(0, c[1]), c[1]], vec![c[1], c[0].cast(DType::I32)])
    });
    let d = grad(last[0].square().sum_all(), &[x]).unwrap()[0];
    let builder = graph.program().output("sum", last[0]).output("index", ys[0]).output("d", d);
    let mut program = builder.output("whole", ys[1]).compile().unwrap();
    let rows: Vec<f32> = (0..12).map(|i| i as f32).collect();
    program.write("x", &Array::new([4, 3], rows).unwrap()).unwrap();
    program.run(1).unwrap();
    assert_eq!(program.output("sum").unwrap().to_f64(), [26.0, 18.0, 22.0]);
    assert_eq!(program.output("index").unwrap().to_f64(), [2.0, 0.0, 1.0].repeat(4));
    assert_eq!(program.output("whole").unwrap().to_f64()[9..], [15.0, 9.0, 12.0]);
    assert_eq!(program.output("d").unwrap().to_f64(), [36.0, 44.0, 52.0].repeat(4));
}

#[test]
fn what_is_gone_through_may_be_a_view() {
    let values = irregulars(&[&[2], &[2, 4], &[1, 2], &[7, 2]]);
    let results = |looped: bool| {
        evaluate(&values, |v| {
            // Columns, the same row again and again, every second row.
            let xs = [v[1].t(), v[2].broadcast_to([4, 2]), v[3].slice_step(0, 0..7, 2)];
            let graph = v[0].graph();
            let results = if looped {
                graph.scan(4, &v[..1], &xs, |c, x| (vec![c[0] * x[0] + x[1]], vec![x[2].exp() * c[0]]))
            } else {
                unrolled(4, &v[..1], &xs, |c, x| (vec![c[0] * x[0] + x[1]], vec![x[2].exp() * c[0]]))
            };
            let mut results = all(results);
            results.extend(grad(summed(&results), v).unwrap());
            results
        })
    };
    for (got, want) in results(true).iter().zip(results(false)) {
        assert_close(&got.to_f64(), &want.to_f64(), 1e-12);
    }
}

#[test]
fn what_is_not_needed_of_a_loop_is_not_computed() {
    let graph = Graph::new();
    let (x, unused) = (graph.input("x", DType::F64, [5]), graph.input("unused", DType::F64, [5, 100]));
    let zero = graph.scalar(DType::F64, 0.0);
    let (last, ys) = graph.scan(5, &[zero, graph.full(DType::F64, [100], 0.0)], &[x, unused], |c, x| {
        (vec![c[0] + x[0], c[1] + x[1]], vec![c[1].exp()])
    });
    let mut program = graph.program().output("sum", last[0]).compile().unwrap();
    assert_eq!(program.input_names(), ["x"]);
    program.write("x", &array(5, [1.0; 5])).unwrap();
    program.run(1).unwrap();
    assert_eq!(program.output("sum").unwrap().to_f64(), [5.0]);
    // Nor is its derivative.
    let d = grad(last[0] + ys[0].sum_all() * 0.0, &[x]).unwrap()[0];
    let mut program = graph.program().output("d", d).compile().unwrap();
    supply_ones(&mut program);
    program.run(1).unwrap();
    assert_eq!(program.output("d").unwrap().to_f64(), [1.0; 5]);
}

fn supply_ones(program: &mut mcvi_expr::Program) {
    let names: Vec<String> = program.input_names().into_iter().map(str::to_owned).collect();
    for name in names {
        let shape: Vec<usize> = if name == "x" { vec![5] } else { vec![5, 100] };
        let n = shape.iter().product();
        program.write(&name, &array(shape, vec![1.0; n])).unwrap();
    }
}

#[test]
fn a_failure_within_a_loop_undoes_the_step() {
    let graph = Graph::new();
    let (x, index) = (graph.input("x0", DType::F64, [3]), graph.input("x1", DType::I32, [2, 1]));
    let count = graph.state("count", Array::scalar(0.0));
    let (_, ys) = graph.scan(2, &[], &[index], |_, i| (vec![], vec![x.take(0, i[0])]));
    let builder = graph.program().output("y", ys[0]).update(count, count + 1.0);
    let mut program = builder.compile().unwrap();
    supply(&mut program, &[array(3, [1.0, 2.0, 3.0]), Array::new([2, 1], vec![2, 0]).unwrap()]);
    program.run(1).unwrap();
    assert_eq!(program.output("y").unwrap().to_f64(), [3.0, 1.0]);
    program.write("x1", &Array::new([2, 1], vec![0, 3]).unwrap()).unwrap();
    assert!(matches!(program.run(1), Err(Error::Index { index: 3, len: 3, .. })));
    assert_eq!(program.read("count").unwrap().to_f64(), [1.0]);
}

#[test]
fn mistakes_in_loops_are_errors_that_name_them() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [3, 2]);
    let zero = graph.scalar(DType::F64, 0.0);
    let fails = |(last, ys): (Vec<Expr<'_>>, Vec<Expr<'_>>), part: &str| {
        let message = last.iter().chain(&ys).next().unwrap().error().unwrap().to_string();
        assert!(message.starts_with("scan") && message.contains(part), "{message}");
        assert!(message.contains("scan.rs"), "{message}");
    };
    fails(graph.scan(0, &[zero], &[], |c, _| (c.to_vec(), vec![])), "at least one iteration");
    fails(graph.scan(4, &[zero], &[x], |c, _| (c.to_vec(), vec![])), "[3, 2] and [4, 2]");
    fails(graph.scan(4, &[zero], &[zero], |c, x| (c.to_vec(), x.to_vec())), "[] and [4]");
    fails(graph.scan(3, &[zero], &[x], |_, x| (x.to_vec(), vec![])), "a carry keeps its shape");
    fails(graph.scan(3, &[zero], &[x], |c, x| (vec![c[0], x[0]], vec![])), "1 carries, its body returned 2");
    fails(graph.scan(3, &[zero], &[], |c, _| (vec![c[0].cast(DType::F32)], vec![])), "f64 and f32");
    let other = Graph::new();
    let foreign = other.scalar(DType::F64, 1.0);
    fails(graph.scan(3, &[zero], &[], |c, _| (vec![c[0]], vec![foreign])), "two different graphs");
    // A mistake in the body is what the loop is poisoned with, and so is one in an operand.
    let (last, _) = graph.scan(3, &[zero], &[x], |c, x| (vec![c[0] + x[0].matmul(x[0]).sum_all()], vec![]));
    assert!(last[0].error().unwrap().to_string().starts_with("matmul"));
    let (last, ys) = graph.scan(3, &[x.matmul(x)], &[x], |c, x| (vec![c[0]], vec![x[0], c[0]]));
    assert!(last.iter().chain(&ys).all(|e| e.error().unwrap().to_string().starts_with("matmul")));
    assert_eq!((last.len(), ys.len()), (1, 2));
}

#[test]
fn what_stands_for_a_carry_means_nothing_outside() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F64, [3]);
    let mut kept = None;
    let (last, _) = graph.scan(3, &[x], &[], |c, _| {
        kept = Some(c[0] * 2.0);
        (c.to_vec(), vec![])
    });
    let error = graph.program().output("y", kept.unwrap() + last[0]).compile().unwrap_err().to_string();
    assert!(error.starts_with("scan") && error.contains("only within that loop"), "{error}");
    let (second, _) = graph.scan(2, &[x], &[], |c, _| (vec![c[0] + kept.unwrap()], vec![]));
    let error = graph.program().output("y", second[0]).compile().unwrap_err().to_string();
    assert!(error.contains("only within that loop"), "{error}");
}

/// Values and derivatives to second order of a loop with noise, of this length.
fn noisy(length: usize, checkpointed: bool) -> Vec<Array> {
    let values = irregulars(&[&[3], &[length, 3], &[]]);
    evaluate(&values, |v| {
        let graph = v[0].graph();
        fn body<'g>(c: Expr<'g>, x: Expr<'g>, scale: Expr<'g>) -> (Vec<Expr<'g>>, Vec<Expr<'g>>) {
            let noise = c.graph().normal(5, DType::F64, [3]) * 0.1;
            let next = (c * scale + x).tanh() + noise;
            (vec![next], vec![next * noise])
        }
        let results = all(if checkpointed {
            graph.scan_checkpointed(length, &v[..1], &v[1..2], |c, x| body(c[0], x[0], v[2]))
        } else {
            graph.scan(length, &v[..1], &v[1..2], |c, x| body(c[0], x[0], v[2]))
        });
        let first = grad(summed(&results), v).unwrap();
        let second = grad(summed(&first), v).unwrap();
        results.into_iter().chain(first).chain(second).collect()
    })
}

#[test]
fn segments_make_no_difference_but_in_memory() {
    for length in [1, 2, 3, 4, 9, 23] {
        for (got, want) in noisy(length, true).iter().zip(noisy(length, false)) {
            assert_eq!(got.shape(), want.shape());
            assert_close(&got.to_f64(), &want.to_f64(), 1e-12);
        }
    }
    let graph = Graph::new();
    let zero = graph.scalar(DType::F64, 0.0);
    let (last, ys) = graph.scan_checkpointed(0, &[zero], &[], |c, _| (c.to_vec(), c.to_vec()));
    let errors = last.iter().chain(&ys).map(|e| e.error().unwrap().to_string());
    assert!(errors.collect::<Vec<_>>().iter().all(|e| e.contains("at least one iteration")));
}

#[test]
fn memory_of_segments_grows_with_the_root_of_the_length() {
    let bytes = |length: usize, order: usize| {
        let graph = Graph::new();
        let z = graph.input("z", DType::F64, [1000]);
        let (last, _) = graph.scan_checkpointed(length, &[z], &[], |c, _| (vec![(c[0].sin() * 1.1).exp()], vec![]));
        let mut y = last[0].sum_all();
        for _ in 0..order {
            y = grad(y, &[z]).unwrap()[0].sum_all();
        }
        graph.program().output("y", y).compile().unwrap().memory_bytes() as f64
    };
    for order in [1, 2] {
        let ratio = bytes(10_000, order) / bytes(100, order);
        assert!((5.0..12.0).contains(&ratio), "{ratio} times the memory for 100 times the length");
    }
}

#[test]
fn equal_loops_are_one_node() {
    let graph = Graph::new();
    let (x, scale) = (graph.input("x", DType::F64, [4, 3]), graph.input("scale", DType::F64, ()));
    let looped = |factor: f64| {
        let (_, ys) = graph.scan(4, &[x.slice(0, 0..1).reshape([3])], &[x], |c, x| {
            let next = (c[0] * scale * factor + x[0].exp()).sin();
            (vec![next], vec![next * 2.0])
        });
        ys[0]
    };
    assert!(looped(1.5).is_same(looped(1.5)));
    assert!(!looped(1.5).is_same(looped(2.5)));
    // Their derivatives are too.
    let slopes = [1.5, 1.5].map(|factor| grad(looped(factor).sum_all(), &[scale]).unwrap()[0]);
    assert!(slopes[0].is_same(slopes[1]));
}

/// A body of random operations, of loops within it too, on rows of three.
fn random_body<'g>(
    seed: usize,
    nested: bool,
    c: &[Expr<'g>],
    x: &[Expr<'g>],
    o: &[Expr<'g>],
) -> (Vec<Expr<'g>>, Vec<Expr<'g>>) {
    let graph = c[0].graph();
    let mut pool: Vec<Expr<'g>> = c.iter().chain(x).chain(o).copied().collect();
    let numbers = irregular(60, seed);
    let mut next = numbers.iter().map(|n| (n.abs() * 1e6) as usize);
    let mut pick = |n: usize| next.next().unwrap_or(0) % n;
    for _ in 0..9 {
        let (a, b) = (pool[pick(pool.len())], pool[pick(pool.len())]);
        let made = match pick(9) {
            0 => a * b,
            1 => a + b * 0.7,
            2 => (a - b).tanh(),
            3 => (a * 0.5).sin(),
            4 => a.gt(b).select(a, b * 0.3),
            5 => a.sum(&[1]).reshape([2, 1]) * b,
            6 => graph.concat(&[b.slice(1, 1..3), a.slice(1, 0..1)], 1),
            7 if nested => {
                graph.scan(3, &[a * 0.5], &[], |d, _| (vec![(d[0] + b * 0.1).sin()], vec![d[0] * a])).1[0].sum(&[0])
            }
            _ => a.t().matmul(b).sum(&[0]).broadcast_to([2, 3]).tanh(),
        };
        pool.push(made);
    }
    let n = pool.len();
    let carries = (0..c.len()).map(|_| pool[n - 1 - pick(6)].tanh()).collect();
    (carries, vec![pool[pick(n)], pool[n - 1]])
}

#[test]
fn random_loops_are_the_same_as_their_bodies_written_out() {
    let values = irregulars(&[&[2, 3], &[2, 3], &[4, 2, 3], &[2, 3]]);
    for seed in 0..60 {
        let outputs = |form: usize| {
            evaluate(&values, |v| {
                let (graph, o) = (v[0].graph(), &v[3..]);
                let (carry, xs, nested) = (&v[..2], &v[2..3], seed % 3 == 0);
                let results = all(match form {
                    0 => unrolled(4, carry, xs, |c, x| random_body(seed, nested, c, x, o)),
                    1 => graph.scan(4, carry, xs, |c, x| random_body(seed, nested, c, x, o)),
                    _ => graph.scan_checkpointed(4, carry, xs, |c, x| random_body(seed, nested, c, x, o)),
                });
                let first = grad(summed(&results), v).unwrap();
                let second = grad(summed(&first), v).unwrap();
                results.into_iter().chain(first).chain(second).collect()
            })
        };
        let want = outputs(0);
        for form in [1, 2] {
            for (i, (got, want)) in outputs(form).iter().zip(&want).enumerate() {
                let size = want.to_f64().iter().fold(1.0f64, |a, x| a.max(x.abs()));
                let off = got.to_f64().iter().zip(want.to_f64()).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
                assert!(off <= 1e-9 * size, "seed {seed}, form {form}, result {i}: off by {off:e} of {size:e}");
            }
        }
    }
}
