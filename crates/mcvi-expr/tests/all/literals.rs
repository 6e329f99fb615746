//! What follows from literals is computed as a graph is built, and changes no value.

use mcvi_expr::{Array, DType, Expr, Graph};

fn literal<'g>(g: &'g Graph, shape: &[usize], f: impl Fn(usize) -> f64) -> Expr<'g> {
    let values = (0..shape.iter().product()).map(f).collect::<Vec<f64>>();
    g.literal(Array::new(shape, values).unwrap())
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
