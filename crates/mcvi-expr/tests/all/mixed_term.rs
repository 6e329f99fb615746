//! The term the method stands on: ∂_θ (vᵀ ∇_z log p_θ(x, z)), a gradient inside a gradient, for the networks used.

use crate::common::{Difference, array, declare, differences, irregular, supply};
use mcvi_expr::{Array, Expr, Graph, grad};

/// Arrays of irregular numbers, scaled to the size weights have.
fn arrays(shapes: &[&[usize]], scale: f64) -> Vec<Array> {
    let filled = |(i, shape): (usize, &&[usize])| {
        let n = shape.iter().product();
        array(*shape, irregular(n, 10 + i).into_iter().map(|x| x * scale).collect::<Vec<_>>())
    };
    shapes.iter().enumerate().map(filled).collect()
}

/// Zeros and ones.
fn pixels(shape: &[usize]) -> Array {
    let n = shape.iter().product();
    array(shape, irregular(n, 99).into_iter().map(|x| f64::from(x > 0.1)).collect::<Vec<_>>())
}

/// Log likelihood of independent Bernoulli pixels.
fn bernoulli<'g>(x: Expr<'g>, logits: Expr<'g>) -> Expr<'g> {
    (x * logits - logits.softplus()).sum_all()
}

/// Compares the derivatives of `y` in every input with finite differences at no more than `sample` elements of each.
fn check<'g>(graph: &'g Graph, y: Expr<'g>, inputs: &[Expr<'g>], values: &[Array], sample: usize) {
    let d = grad(y, inputs).unwrap();
    let builder = d.iter().enumerate().fold(graph.program(), |b, (i, e)| b.output(&format!("d{i}"), *e));
    let mut exact = builder.threads(1).compile().unwrap();
    let mut plain = graph.program().output("y", y).threads(1).compile().unwrap();
    supply(&mut exact, values);
    supply(&mut plain, values);
    exact.run(1).unwrap();
    plain.run(1).unwrap();
    let size = plain.output("y").unwrap().to_f64()[0].abs().max(1.0);
    for (i, value) in values.iter().enumerate() {
        let n = value.shape().size();
        let got = exact.output(&format!("d{i}")).unwrap().to_f64();
        let places = (0..n).step_by(n.div_ceil(sample));
        let found = differences(&mut plain, "y", &format!("x{i}"), value, places);
        let largest = got.iter().map(|d| d.abs()).fold(0.0, f64::max);
        for Difference { place, slope, step } in found {
            let (d, allowed) = (got[place], 1e-7 * largest + 1e-12 * size / step);
            assert!((d - slope).abs() <= allowed, "element {place} of x{i}: {d}, by differences {slope}");
        }
    }
}

/// The gradient of log p in z, then the mixed term vᵀ ∇_z log p, each in all of θ, z and v.
fn check_mixed_term(shapes: &[&[usize]], scale: f64, sample: usize, log_p: impl for<'g> Fn(&[Expr<'g>]) -> Expr<'g>) {
    // The first array is z, the second v, and the rest θ.
    let values = arrays(shapes, scale);
    let graph = Graph::new();
    let inputs = declare(&graph, &values);
    let (z, v) = (inputs[0], inputs[1]);
    let log_p = log_p(&inputs);
    assert_eq!(log_p.error().map(|e| e.to_string()), None);
    check(&graph, log_p + v.sum_all() * 0.0, &inputs, &values, sample);
    let mixed = (v * grad(log_p, &[z]).unwrap()[0]).sum_all();
    check(&graph, mixed, &inputs, &values, sample);
}

#[test]
fn the_mixed_term_of_a_dense_decoder_is_right() {
    let shapes: [&[usize]; 8] = [&[5, 4], &[5, 4], &[4, 6], &[6], &[6, 6], &[6], &[6, 9], &[9]];
    check_mixed_term(&shapes, 0.8, usize::MAX, |x| {
        let &[z, _, w1, b1, w2, b2, w3, b3] = x else { unreachable!() };
        let data = z.graph().literal(pixels(&[5, 9]));
        let h = (z.matmul(w1) + b1).softplus();
        let h = (h.matmul(w2) + b2).softplus();
        bernoulli(data, h.matmul(w3) + b3) - z.square().sum_all() * 0.5
    });
}

#[test]
fn the_mixed_term_of_a_convolutional_decoder_is_right() {
    let shapes: [&[usize]; 10] = [
        &[2, 3],
        &[2, 3],
        &[3, 32],
        &[32],
        &[3, 2, 5, 5],
        &[3, 1, 1],
        &[2, 3, 5, 5],
        &[2, 1, 1],
        &[1, 2, 5, 5],
        &[1, 1, 1],
    ];
    check_mixed_term(&shapes, 0.3, 9, |x| {
        let &[z, _, w, b, f1, b1, f2, b2, f3, b3] = x else { unreachable!() };
        let data = z.graph().literal(pixels(&[2, 1, 28, 28]));
        let h = (z.matmul(w) + b).softplus().reshape([2, 2, 4, 4]).upsample(7, 7);
        let h = (h.conv2d(f1, 1, (2, 2)) + b1).softplus().upsample(14, 14);
        let h = (h.conv2d(f2, 1, (2, 2)) + b2).softplus().upsample(28, 28);
        bernoulli(data, h.conv2d(f3, 1, (2, 2)) + b3) - z.square().sum_all() * 0.5
    });
}

#[test]
fn the_mixed_term_of_a_convolutional_encoder_is_right() {
    // Here z stands for the image, and the encoder's output is scored by a smooth function.
    let shapes: [&[usize]; 8] =
        [&[2, 1, 28, 28], &[2, 1, 28, 28], &[2, 1, 5, 5], &[2, 1, 1], &[3, 2, 5, 5], &[2, 3, 5, 5], &[32, 4], &[4]];
    check_mixed_term(&shapes, 0.3, 9, |x| {
        let &[z, _, f1, b1, f2, f3, w, b] = x else { unreachable!() };
        let h = (z.conv2d(f1, 2, (2, 2)) + b1).softplus();
        let h = h.conv2d(f2, 2, (2, 2)).softplus();
        let h = h.conv2d(f3, 2, (2, 2)).softplus();
        assert_eq!(h.shape().dims(), [2, 2, 4, 4]);
        let out = h.reshape([2, 32]).matmul(w) + b;
        (out.tanh().square() + out.softplus()).sum_all()
    });
}
