//! What follows from literals is computed as a graph is built, and changes no value.

use mcvi_expr::{Array, DType, Expr, Graph, grad};

fn literal<'g>(g: &'g Graph, shape: &[usize], f: impl Fn(usize) -> f64) -> Expr<'g> {
    let values = (0..shape.iter().product()).map(f).collect::<Vec<f64>>();
    g.literal(Array::new(shape, values).unwrap())
}

fn number(i: usize) -> f64 {
    (i as f64 * 0.7 + 0.3).sin()
}

#[test]
fn elementwise_functions_of_literals_are_literals() {
    let g = Graph::new();
    let y = literal(&g, &[4], |i| (i % 2) as f64);
    let x = g.input("x", DType::F64, 4);
    // All hold, so that nothing is left of the condition.
    let known = y.eq(0.0).select(1.0, y.eq(1.0));
    assert!(known.select(x, 0.0).is_same(x));
    assert!((y * 2.0 - 1.0).is_same(literal(&g, &[4], |i| if i % 2 == 1 { 1.0 } else { -1.0 })));
    assert!((-y).exp().is_same(literal(&g, &[4], |i| (-((i % 2) as f64)).exp())));
    assert!((x - x).is_same(g.full(DType::F64, 4, 0.0)));
}

/// The value and the gradients of a function of z: with literals, and with inputs in their place.
fn both(signs: bool, turned: bool) -> [Vec<Vec<f64>>; 2] {
    [true, false].map(|known| {
        let g = Graph::new();
        let (shapes, names) = ([vec![3, 3], vec![3], vec![3, 5], vec![5]], ["l", "c", "x", "s"]);
        let value = |k: usize, i: usize| match k {
            3 => [1.0, -1.0][i % 2],
            _ => number(100 * k + i),
        };
        let [l, c, x, s] = [0, 1, 2, 3].map(|k| {
            let shape = if k == 2 && turned { vec![5, 3] } else { shapes[k].clone() };
            if known { literal(&g, &shape, |i| value(k, i)) } else { g.input(names[k], DType::F64, shape) }
        });
        let z = g.input("z", DType::F64, [2, 3]);
        let w = z.matmul(l.t()) + c;
        let eta = w.matmul(if turned { x.t() } else { x });
        let eta = if signs { s * eta } else { eta };
        let f = -(eta.softplus().sum_all() + w.square().sum_all());
        let df = grad(f, &[z]).unwrap()[0];
        let d2f = grad((df * literal(&g, &[2, 3], number)).sum_all(), &[z]).unwrap()[0];
        let mut p = g.program().output("f", f).output("df", df).output("d2f", d2f).compile().unwrap();
        let write = |p: &mut mcvi_expr::Program, name: &str, k: usize| {
            let shape = if k == 2 && turned { vec![5, 3] } else { shapes[k].clone() };
            let values = (0..shape.iter().product()).map(|i| value(k, i)).collect::<Vec<f64>>();
            p.write(name, &Array::new(shape, values).unwrap()).unwrap();
        };
        if !known {
            (0..if signs { 4 } else { 3 }).for_each(|k| write(&mut p, names[k], k));
        }
        p.write("z", &Array::new([2, 3], (0..6).map(|i| number(7 * i)).collect::<Vec<f64>>()).unwrap()).unwrap();
        p.run(1).unwrap();
        ["f", "df", "d2f"].map(|name| p.output(name).unwrap().to_f64()).to_vec()
    })
}

#[test]
fn products_with_literals_are_joined_without_a_change_of_value() {
    for (signs, turned) in [(false, false), (false, true), (true, false), (true, true)] {
        let [known, given] = both(signs, turned);
        for (a, b) in known.iter().flatten().zip(given.iter().flatten()) {
            assert!((a - b).abs() < 1e-13 * b.abs().max(1.0), "{a} {b}");
        }
    }
}

#[test]
fn a_single_number_is_added_to_all_columns() {
    let g = Graph::new();
    let z = g.input("z", DType::F64, [1, 2]);
    let (one, two) = (literal(&g, &[1], |_| 1.0), literal(&g, &[2, 2], |i| i as f64));
    let y = (z.matmul(two) + one).matmul(two) * literal(&g, &[1], |_| -1.0);
    let mut p = g.program().output("y", y).compile().unwrap();
    p.write("z", &Array::new([1, 2], vec![1.0, 1.0]).unwrap()).unwrap();
    p.run(1).unwrap();
    assert_eq!(p.output("y").unwrap().to_f64(), [-10.0, -18.0]);
}

#[test]
fn a_product_of_different_types_is_still_an_error() {
    let g = Graph::new();
    let z = g.input("z", DType::F64, [2, 3]);
    let l = literal(&g, &[3, 3], number);
    assert!(z.matmul(l).matmul(l.cast(DType::F32)).error().is_some());
}
