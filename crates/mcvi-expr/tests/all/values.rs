//! Values of single operations against the standard library and plain loops, and what happens at infinities and NaN.

use crate::common::{array, assert_close, erf, evaluate, irregular, lgamma, value};
use mcvi_expr::{Array, DType, Expr, grad};

const POINTS: [f64; 11] = [-30.0, -2.5, -1.0, -0.3, -1e-9, 0.0, 1e-9, 0.7, 1.0, 3.3, 30.0];

fn agrees(f: impl for<'g> Fn(Expr<'g>) -> Expr<'g>, exact: impl Fn(f64) -> f64, points: &[f64]) {
    let want: Vec<f64> = points.iter().map(|x| exact(*x)).collect();
    let got = value(&[array(points.len(), points)], |x| f(x[0]));
    for ((x, got), want) in points.iter().zip(got).zip(want) {
        let equal = got == want || (got.is_nan() && want.is_nan());
        assert!(equal || (got - want).abs() <= 1e-14 * want.abs(), "at {x}: {got} instead of {want}");
    }
}

#[test]
fn elementwise_functions_agree_with_the_standard_library() {
    agrees(|x| -x, |x| -x, &POINTS);
    agrees(|x| x.recip(), |x| 1.0 / x, &POINTS);
    agrees(|x| x.square(), |x| x * x, &POINTS);
    agrees(|x| x.sqrt(), f64::sqrt, &POINTS);
    agrees(|x| x.abs(), f64::abs, &POINTS);
    agrees(|x| x.sign(), |x| if x == 0.0 { 0.0 } else { x.signum() }, &POINTS);
    agrees(|x| x.floor(), f64::floor, &POINTS);
    agrees(|x| x.exp(), f64::exp, &POINTS);
    agrees(|x| x.expm1(), f64::exp_m1, &POINTS);
    agrees(|x| x.ln(), f64::ln, &POINTS);
    agrees(|x| x.log1p(), f64::ln_1p, &POINTS);
    agrees(|x| x.softplus(), |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), &POINTS);
    agrees(|x| x.log_sigmoid(), |x| -((-x).max(0.0) + (-x.abs()).exp().ln_1p()), &POINTS);
    agrees(|x| x.sigmoid(), |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }, &POINTS);
    agrees(|x| x.tanh(), f64::tanh, &POINTS);
    agrees(|x| x.sin(), f64::sin, &POINTS);
    agrees(|x| x.cos(), f64::cos, &POINTS);
    agrees(|x| x.atan(), f64::atan, &POINTS);
    agrees(|x| x.atan() * 3.0, |x| 3.0 * x.atan(), &[0.6599, 0.6601, 2.41, 2.42, -1e9, 1e300]);
    agrees(|x| x.powf(3.0), |x| x.powi(3), &POINTS);
    agrees(|x| x.powf(-2.0), |x| x.powi(-2), &POINTS);
    agrees(|x| x.powf(0.3), |x| x.powf(0.3), &POINTS[5..]);
    agrees(|x| x.min(0.5) + x.max(-0.5), |x| x.min(0.5) + x.max(-0.5), &POINTS);
    agrees(
        |x| x.lt(0.7) + x.le(0.7) * 2.0 + x.gt(0.7) * 4.0,
        |x| match x {
            x if x < 0.7 => 3.0,
            x if x > 0.7 => 4.0,
            _ => 2.0,
        },
        &POINTS,
    );
    agrees(|x| x.ge(1.0) + x.eq(1.0) * 2.0, |x| f64::from(x >= 1.0) + 2.0 * f64::from(x == 1.0), &POINTS);
}

#[test]
fn special_functions_agree_with_series_and_recurrences() {
    let points = [0.1, 0.5, 1.0, 1.5, 2.0, 3.7, 12.0, 150.0];
    let got = |f: &dyn for<'g> Fn(Expr<'g>) -> Expr<'g>| value(&[array(8, points)], |x| f(x[0]));
    assert_close(&got(&|x| x.lgamma()), &points.map(lgamma), 1e-13);
    assert_close(&got(&|x| x.erf()), &points.map(erf), 1e-13);
    // ψ(x+1) = ψ(x) + 1/x, and likewise for its derivatives.
    assert_close(&got(&|x| (x + 1.0).digamma() - x.digamma()), &points.map(|x| 1.0 / x), 1e-13);
    assert_close(&got(&|x| (x + 1.0).polygamma(1) - x.polygamma(1)), &points.map(|x| -1.0 / (x * x)), 1e-12);
    assert_close(&got(&|x| (x + 1.0).polygamma(2) - x.polygamma(2)), &points.map(|x| 2.0 / x.powi(3)), 1e-12);
    let at_one = value(&[array(1, [1.0])], |x| x[0].graph().concat(&[x[0].digamma(), x[0].polygamma(1)], 0));
    let (euler, zeta2) = (0.577_215_664_901_532_9, std::f64::consts::PI.powi(2) / 6.0);
    assert_close(&at_one, &[-euler, zeta2], 1e-14);
    // Γ(x+3)/Γ(x) = x (x+1) (x+2).
    let rising = |x: f64| (x * (x + 1.0) * (x + 2.0)).ln();
    assert_close(&got(&|x| x.lgamma_diff(3.0)), &points.map(rising), 1e-13);
    let digammas = |x: f64| 1.0 / x + 1.0 / (x + 1.0) + 1.0 / (x + 2.0);
    assert_close(&got(&|x| x.polygamma_diff(1, 3.0)), &points.map(digammas), 1e-13);
}

#[test]
fn lgamma_diff_is_accurate_where_a_plain_difference_is_lost() {
    let a = [1e8, 1e12, 1e15];
    let got = value(&[array(3, a)], |x| x[0].lgamma_diff(5.0));
    let want = a.map(|a| (0..5).map(|k| (a + f64::from(k)).ln()).sum::<f64>());
    assert_close(&got, &want, 1e-14);
    let slopes = value(&[array(3, a)], |x| grad(x[0].lgamma_diff(5.0).sum_all(), x).unwrap()[0]);
    for (got, a) in slopes.iter().zip(a) {
        let want: f64 = (0..5).map(|k| 1.0 / (a + f64::from(k))).sum();
        assert!((got / want - 1.0).abs() < 1e-12, "{got} instead of {want} at {a}");
    }
}

#[test]
fn reductions_agree_with_loops() {
    let data = irregular(60, 3);
    let x = [array([3, 4, 5], data.clone())];
    let at = |i: usize, j: usize, k: usize| data[(i * 4 + j) * 5 + k];
    let middle: Vec<f64> = (0..15).map(|r| (0..4).map(|j| at(r / 5, j, r % 5)).sum()).collect();
    assert_close(&value(&x, |x| x[0].sum(&[1])), &middle, 1e-14);
    let outer: Vec<f64> = (0..4).map(|j| (0..15).map(|r| at(r / 5, j, r % 5)).sum::<f64>() / 15.0).collect();
    assert_close(&value(&x, |x| x[0].mean(&[0, 2])), &outer, 1e-14);
    let last: Vec<f64> = data.chunks(5).map(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
    assert_eq!(value(&x, |x| x[0].max_over(&[2])), last);
    let total: f64 = data.iter().sum();
    assert_close(&value(&x, |x| x[0].sum_all()), &[total], 1e-14);
    assert_close(&value(&x, |x| x[0].mean_all()), &[total / 60.0], 1e-14);
    assert_close(&value(&x, |x| x[0].logsumexp(&[0, 1, 2])), &[data.iter().map(|x| x.exp()).sum::<f64>().ln()], 1e-14);
    let mut running = data.clone();
    (5..20).for_each(|k| running[k] += running[k - 5]);
    (25..40).for_each(|k| running[k] += running[k - 5]);
    (45..60).for_each(|k| running[k] += running[k - 5]);
    assert_close(&value(&x, |x| x[0].cumsum(1)), &running, 1e-14);
}

#[test]
fn matrix_products_agree_with_loops() {
    for (m, k, n) in [(1, 1, 1), (2, 3, 4), (17, 5, 9), (33, 70, 65), (128, 64, 100), (1, 300, 40), (300, 40, 1)] {
        let (a, b) = (irregular(m * k, 1), irregular(k * n, 2));
        let cell = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f64>();
        let want: Vec<f64> = (0..m * n).map(|r| cell(r / n, r % n)).collect();
        let x = [array([m, k], a.clone()), array([k, n], b.clone())];
        assert_close(&value(&x, |x| x[0].matmul(x[1])), &want, 1e-12);
        // The same product with each operand stored transposed, and with something added to it.
        let flip = |data: &[f64], r: usize, c: usize| (0..r * c).map(|p| data[p % r * c + p / r]).collect::<Vec<_>>();
        let flipped = [array([k, m], flip(&a, m, k)), array([n, k], flip(&b, k, n)), array([m, n], want.clone())];
        assert_close(&value(&flipped, |x| x[0].t().matmul(x[1].t())), &want, 1e-12);
        let twice: Vec<f64> = want.iter().map(|x| 2.0 * x).collect();
        assert_close(&value(&flipped, |x| x[2] * 1.0 + x[0].t().matmul(x[1].t())), &twice, 1e-12);
        assert_close(
            &value(&flipped, |x| {
                x[2].abs().max(x[2]) * x[2].sign() + x[0].t().matmul(x[1].t()) - x[2].abs().max(x[2]) * x[2].sign()
                    + x[2]
            }),
            &twice,
            1e-12,
        );
    }
}

#[test]
fn products_with_a_constant_agree_however_it_is_viewed() {
    // The last is too large to be laid out again.
    for (m, k, n) in [(2, 3, 4), (16, 61, 208), (3, 300, 240)] {
        let (a, b) = (array([m, k], irregular(m * k, 1)), array([n, k], irregular(k * n, 2)));
        let both = [a.clone(), b.clone()];
        let compare = |f: &dyn for<'g> Fn(Expr<'g>, Expr<'g>) -> Expr<'g>| {
            let constant = value(std::slice::from_ref(&a), |x| f(x[0], x[0].graph().literal(b.clone())));
            assert_close(&constant, &value(&both, |x| f(x[0], x[1])), 1e-12);
        };
        compare(&|a, b| a.matmul(b.t()));
        compare(&|a, b| a.matmul(b.slice(0, 1..n).t()));
        compare(&|a, b| a.slice(1, 1..k).matmul(b.slice(1, 1..k).t()));
        // Both ways round, as a density and its gradient read it, and a sum of products.
        compare(&|a, b| a.matmul(b.t()).matmul(b));
        compare(&|a, b| a.matmul(b.t()) + (a * 0.5).matmul(b.t()));
        compare(&|a, b| b.matmul(a.t()));
    }
}

#[test]
fn matrix_products_of_awkward_sizes_agree_with_loops_in_single_precision() {
    for (m, k, n) in
        [(1, 513, 17), (7, 31, 33), (65, 129, 97), (130, 257, 1), (16, 784, 300), (301, 16, 48), (97, 1, 5)]
    {
        let (a, b) = (array([m, k], irregular(m * k, 1)), array([n, k], irregular(k * n, 2)));
        let (x, y) = (a.to_f64(), b.to_f64());
        let cell = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * y[j * k + l]).sum::<f64>();
        let want: Vec<f64> = (0..m * n).map(|r| cell(r / n, r % n)).collect();
        let inputs = [a.cast(DType::F32), b.cast(DType::F32)];
        // k terms, each of size 2 at most and rounded twice, and as many partial sums.
        let tolerance = 4.0 * k as f64 * f64::from(f32::EPSILON);
        assert_close(&value(&inputs, |x| x[0].matmul(x[1].t())), &want, tolerance);
        assert_close(&value(&inputs, |x| x[1].matmul(x[0].t()).t()), &want, tolerance);
        // Added to another product, in place.
        let sum = value(&inputs, |x| {
            let (a, b) = (x[0], x[1].t());
            a.matmul(b) + (a * 0.5).matmul(b) + a.matmul(b * 2.0)
        });
        assert_close(&sum, &want.iter().map(|w| 3.5 * w).collect::<Vec<_>>(), 4.0 * tolerance);
    }
}

#[test]
fn batched_matrix_products_agree_with_loops() {
    let (a, b) = (irregular(2 * 3 * 4 * 5, 1), irregular(3 * 5 * 2, 2));
    let x = [array([2, 3, 4, 5], a.clone()), array([3, 5, 2], b.clone())];
    let mut want = vec![];
    for item in 0..6 {
        for i in 0..4 {
            for j in 0..2 {
                want.push((0..5).map(|l| a[(item * 4 + i) * 5 + l] * b[(item % 3 * 5 + l) * 2 + j]).sum::<f64>());
            }
        }
    }
    assert_close(&value(&x, |x| x[0].matmul(x[1])), &want, 1e-13);
}

#[test]
fn factors_and_triangular_solves_invert_their_products() {
    let n = 7;
    let a = array([2, n, n], irregular(2 * n * n, 4));
    let b = array([2, n, 3], irregular(6 * n, 5));
    let got = evaluate(&[a, b.clone()], |x| {
        let unit: Vec<f64> = (0..n * n).map(|k| if k % (n + 1) == 0 { 7.0 } else { 0.0 }).collect();
        let s = x[0].matmul(x[0].t()) + x[0].graph().literal(array([n, n], unit));
        let l = s.cholesky();
        let back = l.solve_lower(l.matmul(x[1]));
        let across = l.solve_lower_t(l.t().matmul(x[1]));
        let upper = l.t().solve_upper(l.t().matmul(x[1]));
        vec![l.matmul(l.t()) - s, back, across, upper, l - l.tril(), l.diagonal()]
    });
    assert_close(&got[0].to_f64(), &vec![0.0; 2 * n * n], 1e-13);
    for solved in &got[1..4] {
        assert_close(&solved.to_f64(), &b.to_f64(), 1e-12);
    }
    assert!(got[4].to_f64().iter().all(|x| *x == 0.0), "a lower factor has nothing above its diagonal");
    assert!(got[5].to_f64().iter().all(|x| *x > 0.0));
}

#[test]
fn the_factor_of_an_indefinite_matrix_is_nan() {
    let l = value(&[array([2, 2], [1.0, 2.0, 2.0, 1.0])], |x| x[0].cholesky());
    assert!(l[3].is_nan(), "{l:?}");
}

#[test]
fn convolutions_agree_with_a_naive_loop() {
    for (n, c, o, h, w, f, stride, (before, after)) in [
        (2, 3, 4, 8, 8, 5, 1, (2, 2)),
        (3, 1, 2, 28, 28, 5, 2, (2, 2)),
        (1, 2, 2, 7, 9, 3, 2, (0, 1)),
        (9, 2, 3, 6, 5, 3, 1, (1, 0)),
        (1, 1, 1, 5, 5, 5, 1, (0, 0)),
        (10, 17, 3, 6, 7, 3, 2, (1, 1)),
        (2, 3, 17, 9, 4, 2, 3, (0, 0)),
        (1, 16, 1, 12, 12, 5, 1, (2, 2)),
        (2, 2, 3, 5, 5, 1, 2, (0, 0)),
        (1, 2, 2, 3, 3, 3, 1, (2, 1)),
    ] {
        let (x, k) = (irregular(n * c * h * w, 1), irregular(o * c * f * f, 2));
        let out = |extent: usize| (extent + before + after - f) / stride + 1;
        let (oh, ow) = (out(h), out(w));
        let weights = irregular(n * o * oh * ow, 3);
        let (mut want, mut images, mut filters) = (vec![], vec![0.0; x.len()], vec![0.0; k.len()]);
        for (place, weight) in weights.iter().enumerate() {
            let (image, filter, i, j) = (place / (o * oh * ow), place / (oh * ow) % o, place / ow % oh, place % ow);
            let mut sum = 0.0;
            for ch in 0..c {
                for di in 0..f {
                    for dj in 0..f {
                        let (row, col) =
                            ((i * stride + di).wrapping_sub(before), (j * stride + dj).wrapping_sub(before));
                        if row < h && col < w {
                            let (pixel, element) =
                                (((image * c + ch) * h + row) * w + col, ((filter * c + ch) * f + di) * f + dj);
                            sum += x[pixel] * k[element];
                            images[pixel] += weight * k[element];
                            filters[element] += weight * x[pixel];
                        }
                    }
                }
            }
            want.push(sum);
        }
        let inputs = [array([n, c, h, w], x), array([o, c, f, f], k), array([n, o, oh, ow], weights)];
        assert_close(&value(&inputs, |x| x[0].conv2d(x[1], stride, (before, after))), &want, 1e-12);
        for (which, want) in [(0, images), (1, filters)] {
            let gradient = value(&inputs, |x| {
                let sum = (x[0].conv2d(x[1], stride, (before, after)) * x[2]).sum_all();
                grad(sum, &[x[which]]).unwrap()[0]
            });
            assert_close(&gradient, &want, 1e-12);
        }
    }
}

#[test]
fn upsampling_repeats_the_nearest_element() {
    for (small, large) in [(4, 7), (7, 14), (14, 28), (3, 3), (2, 5)] {
        let x: Vec<f64> = irregular(2 * small * small, 1);
        let near = |i: usize| i * small / large;
        let at = |p: usize| {
            let (plane, i, j) = (p / (large * large), p / large % large, p % large);
            x[(plane * small + near(i)) * small + near(j)]
        };
        let want: Vec<f64> = (0..2 * large * large).map(at).collect();
        assert_eq!(value(&[array([2, small, small], x.clone())], |x| x[0].upsample(large, large)), want);
    }
}

#[test]
fn layout_operations_move_elements_where_they_say() {
    let x = [array([2, 3, 4], (0..24).map(f64::from).collect::<Vec<_>>())];
    let moved = value(&x, |x| x[0].permute(&[2, 0, 1]));
    let want: Vec<f64> = (0..24).map(|p| f64::from(p % 6 / 3 * 12 + p % 3 * 4 + p / 6)).collect();
    assert_eq!(moved, want);
    assert_eq!(value(&x, |x| x[0].at(1, 2).at(0, 1)), [20.0, 21.0, 22.0, 23.0]);
    assert_eq!(value(&x, |x| x[0].slice(2, 1..3).at(0, 0)), [1.0, 2.0, 5.0, 6.0, 9.0, 10.0]);
    assert_eq!(value(&x, |x| x[0].flatten().slice_step(0, 1..24, 10)), [1.0, 11.0, 21.0]);
    assert_eq!(value(&x, |x| x[0].at(0, 0).at(0, 0).pad(0, 1, 2)), [0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0]);
    assert_eq!(value(&x, |x| x[0].t().reshape([2, 12]).at(0, 0)), [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
    let joined = value(&x, |x| {
        let (a, b) = (x[0].at(0, 0), x[0].at(0, 1));
        x[0].graph().concat(&[a.slice(1, 0..1), b.slice(1, 2..4)], 1)
    });
    assert_eq!(joined, [0.0, 14.0, 15.0, 4.0, 18.0, 19.0, 8.0, 22.0, 23.0]);
    let spread = value(&[array([2, 1], [1.0, 2.0])], |x| x[0].broadcast_to([2, 2, 3]));
    assert_eq!(spread, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0].repeat(2));
}

#[test]
fn selection_by_index_and_its_adjoint_agree_with_loops() {
    let index = Array::new([4], vec![2, 0, 2, 1]).unwrap();
    let x = array([3, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rows = value(&[x.clone(), index.clone()], |x| x[0].take(0, x[1]));
    assert_eq!(rows, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0, 3.0, 4.0]);
    let columns = value(&[x, Array::new([2, 1], vec![1, 0]).unwrap()], |x| x[0].take(1, x[1]));
    assert_eq!(columns, [2.0, 1.0, 4.0, 3.0, 6.0, 5.0]);
    let sums = value(&[array([4], [1.0, 10.0, 100.0, 1000.0]), index], |x| x[0].scatter_add(x[1], 4));
    assert_eq!(sums, [10.0, 1000.0, 101.0, 0.0]);
}

#[test]
fn conversions_round_to_single_precision_and_truncate_to_integers() {
    let got = evaluate(&[array(3, [0.1, -2.7, 2.7])], |x| {
        vec![x[0].cast(DType::F32), x[0].cast(DType::I32), x[0].cast(DType::I32).cast(DType::F64)]
    });
    assert_eq!(got[0].as_slice::<f32>().unwrap(), [0.1, -2.7, 2.7]);
    assert_eq!(got[1].as_slice::<i32>().unwrap(), [0, -2, 2]);
    assert_eq!(got[2].as_slice::<f64>().unwrap(), [0.0, -2.0, 2.0]);
}

#[test]
fn the_side_of_a_select_not_taken_never_leaks() {
    // √x and ln x are NaN, and their derivatives too, exactly where they are not taken.
    let got = evaluate(&[array(4, [-1.0, 0.0, 2.0, -3.0])], |x| {
        let taken = x[0].gt(0.0);
        let y = taken.select(x[0].sqrt() * x[0].ln(), x[0] * 2.0);
        let first = grad(y.sum_all(), x).unwrap()[0];
        let second = grad(first.sum_all(), x).unwrap()[0];
        vec![y, first, second]
    });
    assert_close(&got[0].to_f64(), &[-2.0, 0.0, 2f64.sqrt() * 2f64.ln(), -6.0], 1e-15);
    // d/dx √x ln x = (ln x / 2 + 1) / √x, d²/dx² = −ln x / (4 x^{3/2}).
    assert_close(&got[1].to_f64(), &[2.0, 2.0, (2f64.ln() / 2.0 + 1.0) / 2f64.sqrt(), 2.0], 1e-14);
    assert_close(&got[2].to_f64(), &[0.0, 0.0, -2f64.ln() / (4.0 * 2f64.powf(1.5)), 0.0], 1e-14);
}

#[test]
fn nothing_leaks_past_a_select_through_longer_paths() {
    // u has an infinite derivative at 0 and is NaN below; it is used twice, summed over rows, moved and converted.
    let got = evaluate(&[array([2, 3], [-1.0, 0.0, -3.0, 1.0, 2.0, 4.0])], |x| {
        let u = x[0].sqrt();
        let rows = (u * u.ln() + u.t().reshape([3, 2]).t().exp()).sum(&[1]);
        let single = u.cast(DType::F32).sin().cast(DType::F64);
        let safe = x[0].min(0.0).sum(&[1]).lt(0.0).select(1.0, rows).sum_all();
        let y = safe + x[0].gt(0.0).select(x[0].ge(3.0).select(single, u / x[0].ln()), 0.5).sum_all();
        let first = grad(y, x).unwrap()[0];
        vec![first, grad(first.sum_all(), x).unwrap()[0]]
    });
    for d in got {
        let d = d.to_f64();
        assert!(d[..3].iter().all(|d| *d == 0.0), "{d:?}");
        assert!(d[4..].iter().all(|d| d.is_finite()) && d[3].is_infinite() | d[3].is_nan(), "1/ln 1 is taken: {d:?}");
    }
}

#[test]
fn logsumexp_copes_with_infinite_and_huge_elements() {
    let (inf, none) = (f64::INFINITY, f64::NEG_INFINITY);
    let x = array([4, 2], [none, none, 0.0, none, 1000.0, 1000.0, inf, 0.0]);
    let got = value(std::slice::from_ref(&x), |x| x[0].logsumexp(&[1]));
    assert_eq!(got[0], none);
    assert_eq!(got[1], 0.0);
    assert!((got[2] - (1000.0 + 2f64.ln())).abs() < 1e-12);
    assert_eq!(got[3], inf);
    let share = value(&[array([2], [0.0, none])], |x| grad(x[0].logsumexp(&[0]), x).unwrap()[0]);
    assert_eq!(share, [1.0, 0.0]);
}

#[test]
fn a_maximum_over_nan_is_nan() {
    let got = value(&[array([2, 2], [1.0, f64::NAN, 3.0, 2.0])], |x| x[0].max_over(&[1]));
    assert!(got[0].is_nan() && got[1] == 3.0);
}

/// Known indices that form a grid are views; others, and those of an axis in the middle, are selected as they are.
#[test]
fn selections_by_known_indices_agree_with_loops() {
    let (outer, len, inner) = (2, 12, 3);
    let x: Vec<f64> = (0..outer * len * inner).map(|i| (i as f64).sqrt()).collect();
    let regular = [&[5][..], &[2, 3, 4], &[7, 7, 7], &[1, 4, 7, 10], &[0, 1, 0, 1, 0, 1], &[3, 3, 4, 4], &[0, 2, 1, 3]];
    let gapped = [&[0, 1, 6, 7][..], &[0, 6, 1, 7], &[2, 3, 8, 9], &[0, 1, 10, 11], &[0, 0, 6, 6, 1, 1, 7, 7]];
    let irregular = [&[4, 3, 2][..], &[0, 1, 2, 4], &[0, 1, 1, 2], &[11, 0, 5, 5]];
    for index in [&regular[..], &gapped, &irregular].concat() {
        let places =
            |o: usize| index.iter().flat_map(move |p| (0..inner).map(move |j| (o * len + *p as usize) * inner + j));
        let expected: Vec<f64> = (0..outer).flat_map(places).map(|i| x[i]).collect();
        fn taken<'g>(x: Expr<'g>, index: &[i32]) -> Expr<'g> {
            x.take(1, x.graph().literal(Array::new(index.len(), index.to_vec()).unwrap()))
        }
        assert_eq!(value(&[array([outer, len, inner], x.clone())], |x| taken(x[0], index)), expected, "{index:?}");
        // The derivative of half the sum of squares: each element as often as it was taken.
        let counted = |i: usize| x[i] * index.iter().filter(|p| **p as usize == i / inner % len).count() as f64;
        let counted: Vec<f64> = (0..x.len()).map(counted).collect();
        let gradient = value(&[array([outer, len, inner], x.clone())], |x| {
            grad(taken(x[0], index).square().sum_all() * 0.5, &[x[0]]).unwrap()[0]
        });
        assert_close(&gradient, &counted, 1e-14);
    }
}
