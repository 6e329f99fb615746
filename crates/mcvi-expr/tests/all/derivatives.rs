//! Every operation alone: its first and second derivative in every operand against finite differences, and a few third
//! derivatives against formulas.

use crate::common::{array, assert_close, check_derivatives, differentiates, evaluate, irregular, value, weights};
use mcvi_expr::{Array, DType, Expr, External, Graph, grad};
use std::ops::Range;
use std::sync::Arc;

/// Functions of one number, on arrays drawn from each of the ranges.
fn differentiates_on(ranges: &[Range<f64>], f: &dyn for<'g> Fn(Expr<'g>) -> Expr<'g>) {
    for range in ranges {
        differentiates(&[(&[2, 3], range.clone())], |x| f(x[0]));
    }
}

/// One test for each function of one number, on arrays drawn from the ranges given.
macro_rules! functions {
    ($($name:ident: $method:expr, $($range:expr),+;)*) => {$(
        #[test]
        fn $name() {
            differentiates_on(&[$($range),+], &$method);
        }
    )*};
}

functions! {
    neg_differentiates_twice: |x| -x * 1.0, -2.0..2.0;
    recip_differentiates_twice: |x| x.recip(), 0.3..3.0, -3.0..-0.3;
    square_differentiates_twice: |x| x.square(), -2.0..2.0;
    sqrt_differentiates_twice: |x| x.sqrt(), 0.3..4.0;
    abs_differentiates_twice_away_from_zero: |x| x.abs(), 0.2..2.0, -2.0..-0.2;
    sign_has_derivative_zero: |x| x.sign() * x, 0.2..2.0, -2.0..-0.2;
    floor_has_derivative_zero: |x| x.floor() * x, 1.1..1.9, -2.9..-2.1;
    exp_differentiates_twice: |x| x.exp(), -3.0..3.0;
    expm1_differentiates_twice: |x| x.expm1(), -1.0..1.0, -1e-3..1e-3;
    ln_differentiates_twice: |x| x.ln(), 0.2..5.0;
    log1p_differentiates_twice: |x| x.log1p(), -0.5..3.0, -1e-3..1e-3;
    softplus_differentiates_twice: |x| x.softplus(), -4.0..4.0, 20.0..30.0, -30.0..-20.0;
    sigmoid_differentiates_twice: |x| x.sigmoid(), -4.0..4.0;
    log_sigmoid_differentiates_twice: |x| x.log_sigmoid(), -4.0..4.0, -40.0..-30.0;
    tanh_differentiates_twice: |x| x.tanh(), -2.0..2.0;
    atan_differentiates_twice: |x| x.atan(), -2.0..2.0;
    sin_differentiates_twice: |x| x.sin(), -4.0..4.0;
    cos_differentiates_twice: |x| x.cos(), -4.0..4.0;
    erf_differentiates_twice: |x| x.erf(), -2.0..2.0;
    erfc_differentiates_twice: |x| x.erfc(), -2.0..2.0;
    erfcx_differentiates_twice: |x| x.erfcx(), -1.5..2.0, 5.0..8.0;
    log_erfc_differentiates_twice: |x| x.log_erfc(), -2.0..2.0, 5.0..8.0, 30.0..40.0;
    lgamma_differentiates_twice: |x| x.lgamma(), 0.3..4.0, 50.0..100.0, -1.8..-1.2;
    digamma_differentiates_twice: |x| x.digamma(), 0.3..4.0, 50.0..100.0, -1.8..-1.2;
    trigamma_differentiates_twice: |x| x.polygamma(1), 0.3..4.0, 50.0..100.0;
    tetragamma_differentiates_twice: |x| x.polygamma(2), 0.3..4.0, 50.0..100.0;
    small_whole_powers_differentiate_twice: |x| x.powf(3.0) + x.powf(4.0) + x.powf(7.0), -1.5..1.5;
    negative_and_half_powers_differentiate_twice: |x| x.powf(-3.0) + x.powf(-0.5) + x.powf(0.5), 0.5..2.0;
    other_constant_powers_differentiate_twice: |x| x.powf(1.7) + x.pow(-2.3) + x.powf(0.0), 0.4..2.0;
}

/// A function of two numbers on equal shapes, and with broadcasting on the left, on the right, and on both sides.
fn differentiates_with_broadcasting(
    left: Range<f64>,
    right: Range<f64>,
    f: impl for<'g> Fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) {
    let shapes: [(&[usize], &[usize]); 6] =
        [(&[2, 3], &[2, 3]), (&[2, 3], &[3]), (&[2, 1], &[2, 3]), (&[], &[2, 3]), (&[2, 3], &[]), (&[2, 1], &[1, 3])];
    for (a, b) in shapes {
        differentiates(&[(a, left.clone()), (b, right.clone())], |x| f(x[0], x[1]));
    }
}

#[test]
fn arithmetic_differentiates_twice_and_broadcasts() {
    differentiates_with_broadcasting(-2.0..2.0, -2.0..2.0, |a, b| a + b * b);
    differentiates_with_broadcasting(-2.0..2.0, -2.0..2.0, |a, b| a * a - b);
    differentiates_with_broadcasting(-2.0..2.0, -2.0..2.0, |a, b| a * b);
    differentiates_with_broadcasting(-2.0..2.0, 0.5..2.0, |a, b| a / b);
}

#[test]
fn arithmetic_with_numbers_differentiates_twice() {
    differentiates(&[(&[5], 0.5..2.0)], |x| (x[0] + 1.5) * x[0] - (0.5 - x[0]) * 3.0);
    differentiates(&[(&[5], 0.5..2.0)], |x| 2.0 / x[0] + x[0] / 3.0 + x[0] / 4.0 + (1.0 + x[0]) * (2.0 * x[0]));
    differentiates(&[(&[5], 0.5..2.0)], |x| -(x[0] - 2.0 * x[0].square()) * -(x[0] - 1.0) + (-x[0]) * x[0].exp());
}

#[test]
fn pow_differentiates_twice_in_both_arguments() {
    differentiates_with_broadcasting(0.5..2.5, -2.0..2.0, |a, b| a.pow(b));
}

#[test]
fn the_power_of_zero_has_finite_derivatives() {
    let graph = Graph::new();
    let (a, b) = (graph.input("x0", DType::F64, [2]), graph.input("x1", DType::F64, [2]));
    let d = grad(a.pow(b).sum_all(), &[a, b]).unwrap();
    let mut program = graph.program().output("a", d[0]).output("b", d[1]).compile().unwrap();
    crate::common::supply(&mut program, &[array(2, [0.0, 0.0]), array(2, [2.0, 1.0])]);
    program.run(1).unwrap();
    assert_eq!(program.output("a").unwrap().to_f64(), [0.0, 1.0]);
    assert_eq!(program.output("b").unwrap().to_f64(), [0.0, 0.0]);
}

#[test]
fn lgamma_diff_differentiates_twice_in_both_arguments() {
    differentiates_with_broadcasting(0.5..4.0, 1.0..9.0, |a, n| a.lgamma_diff(n));
    differentiates(&[(&[4], 0.5..4.0)], |x| x[0].lgamma_diff(7.0));
}

#[test]
fn polygamma_diff_differentiates_twice_in_both_arguments() {
    for order in [1, 2] {
        differentiates_with_broadcasting(0.7..4.0, 1.0..9.0, |a, n| a.polygamma_diff(order, n));
    }
}

#[test]
fn differences_of_gamma_functions_keep_their_derivatives_at_large_arguments() {
    // At 10⁶ the plain difference has lost six digits, its second derivative all of them.
    differentiates(&[(&[4], 1e6..2e6), (&[4], 1.0..20.0)], |x| x[0].lgamma_diff(x[1]));
    differentiates(&[(&[4], 1e6..2e6)], |x| x[0].lgamma_diff(12.0));
    differentiates(&[(&[4], 1e6..2e6)], |x| x[0].polygamma_diff(1, 12.0));
    differentiates(&[(&[4], 1e4..2e4)], |x| x[0].polygamma_diff(2, 12.0));
}

/// Offsets of ±1, to set elements well apart while both orders occur.
fn offsets<'g>(x: Expr<'g>) -> Expr<'g> {
    let n = x.shape().size();
    let signs: Vec<f64> = irregular(n, 7).into_iter().map(f64::signum).collect();
    x.graph().literal(array(x.shape(), signs))
}

#[test]
fn min_and_max_differentiate_twice_away_from_ties() {
    differentiates(&[(&[3, 4], -0.3..0.3), (&[3, 4], -0.3..0.3)], |x| {
        let (a, b) = (x[0] + offsets(x[0]), x[1]);
        a.min(b).square() + a.max(b).exp() + a.max(0.1) * b.min(2.0)
    });
    differentiates(&[(&[3, 4], -0.3..0.3), (&[4], -0.3..0.3)], |x| {
        let a = x[0] + offsets(x[0]);
        a.min(x[1]).exp() * x[1].max(a)
    });
}

#[test]
fn select_and_comparisons_differentiate_twice_away_from_kinks() {
    differentiates(&[(&[3, 4], -0.3..0.3), (&[4], -0.3..0.3), (&[], 0.5..1.5)], |x| {
        let c = x[0] + offsets(x[0]);
        let picks = c.lt(x[1]).select(x[0].exp() * x[1], x[1].square() * x[2]);
        let steps = c.le(0.0) * x[2].exp() + c.gt(x[1]) * x[0].sin() + c.ge(0.0) * x[1] + c.eq(7.0) * x[2];
        picks + steps.square() + x[0].gt(5.0).select(x[0].ln(), 0.5)
    });
}

#[test]
fn sums_and_means_differentiate_twice_over_any_axes() {
    let axes: [&[usize]; 8] = [&[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2], &[]];
    for axes in axes {
        differentiates(&[(&[2, 3, 2], -1.0..1.0)], |x| x[0].exp().sum(axes).square());
        differentiates(&[(&[2, 3, 2], -1.0..1.0)], |x| x[0].sin().mean(axes).exp());
    }
    differentiates(&[(&[2, 1, 3], -1.0..1.0)], |x| x[0].exp().sum(&[1, 2]) * x[0].sum_all() + x[0].mean_all().exp());
}

#[test]
fn max_over_differentiates_twice_where_one_element_leads() {
    for axes in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]] {
        differentiates(&[(&[2, 3, 2], -0.02..0.02)], |x| {
            let apart = (0..12).map(|k| f64::from(k * 7 % 12) * 0.2).collect::<Vec<_>>();
            let x = x[0] + x[0].graph().literal(array([2, 3, 2], apart));
            x.max_over(axes).exp()
        });
    }
}

#[test]
fn tied_maxima_share_the_derivative() {
    let d = value(&[array(4, [1.0, 3.0, 3.0, 2.0])], |x| grad(x[0].max_over(&[0]), &[x[0]]).unwrap()[0]);
    assert_eq!(d, [0.0, 0.5, 0.5, 0.0]);
}

#[test]
fn logsumexp_differentiates_twice_over_any_axes() {
    for axes in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2]] {
        differentiates(&[(&[2, 3, 2], -2.0..2.0)], |x| x[0].logsumexp(axes));
    }
}

#[test]
fn cumsum_differentiates_twice_along_every_axis() {
    for axis in 0..3 {
        differentiates(&[(&[2, 3, 2], -1.0..1.0)], |x| x[0].sin().cumsum(axis).square());
    }
}

#[test]
fn rearrangements_differentiate_twice() {
    differentiates(&[(&[3, 1], -1.0..1.0)], |x| x[0].exp().broadcast_to([2, 3, 4]).square());
    differentiates(&[(&[2, 6], -1.0..1.0)], |x| x[0].exp().reshape([3, 4]) * x[0].reshape([3, 4]));
    differentiates(&[(&[2, 3], -1.0..1.0)], |x| x[0].flatten() * x[0].exp().flatten());
    differentiates(&[(&[2, 3], -1.0..1.0)], |x| x[0].expand(1).exp() * x[0].expand(0));
    differentiates(&[(&[2, 3, 4], -1.0..1.0)], |x| x[0].permute(&[2, 0, 1]).exp() * x[0].sin().permute(&[2, 0, 1]));
    differentiates(&[(&[2, 3, 3], -1.0..1.0)], |x| x[0].t().exp() * x[0] + x[0].t().reshape([2, 9]).sum_all().sin());
}

#[test]
fn parts_and_their_joining_differentiate_twice() {
    differentiates(&[(&[4, 5], -1.0..1.0)], |x| x[0].slice(0, 1..3).exp() * x[0].slice(0, 2..4));
    differentiates(&[(&[7, 2], -1.0..1.0)], |x| x[0].slice_step(0, 1..7, 2).exp() * x[0].slice_step(0, 0..7, 3));
    differentiates(&[(&[4, 5], -1.0..1.0)], |x| x[0].at(1, 3).exp() * x[0].at(1, 0) + x[0].at(0, 2).at(0, 1));
    differentiates(&[(&[2, 3], -1.0..1.0)], |x| x[0].exp().pad(1, 2, 1) * x[0].pad(1, 1, 2) + x[0].pad(1, 0, 3));
    for axis in 0..2 {
        differentiates(&[(&[2, 3], -1.0..1.0), (&[2, 3], -1.0..1.0)], |x| {
            let parts = [x[0].exp(), x[1] * x[0], x[0]];
            x[0].graph().concat(&parts, axis).square()
        });
    }
    differentiates(&[(&[2, 3], -1.0..1.0), (&[4, 3], -1.0..1.0)], |x| {
        let all = x[0].graph().concat(&[x[0], x[1].sin()], 0);
        all.slice(0, 1..5).exp() * all.slice(0, 2..6)
    });
}

#[test]
fn selection_by_index_differentiates_twice_with_repeated_indices() {
    let index: &dyn for<'g> Fn(Expr<'g>) -> Expr<'g> =
        &|x| x.graph().literal(Array::new([2, 2], vec![2, 0, 2, 1]).unwrap());
    differentiates(&[(&[3, 2], -1.0..1.0)], |x| x[0].exp().take(0, index(x[0])) * x[0].take(0, index(x[0])));
    differentiates(&[(&[2, 3], -1.0..1.0)], |x| x[0].exp().take(1, index(x[0])).square());
    differentiates(&[(&[2, 2, 3], -1.0..1.0)], |x| x[0].exp().scatter_add(index(x[0]), 4).square());
    differentiates(&[(&[2, 2], -1.0..1.0)], |x| x[0].exp().scatter_add(index(x[0]), 3).square());
}

#[test]
fn matrix_products_differentiate_twice_plain_and_transposed() {
    differentiates(&[(&[2, 3], -1.0..1.0), (&[3, 4], -1.0..1.0)], |x| x[0].matmul(x[1]).exp());
    differentiates(&[(&[3, 2], -1.0..1.0), (&[3, 4], -1.0..1.0)], |x| x[0].t().matmul(x[1]).exp());
    differentiates(&[(&[2, 3], -1.0..1.0), (&[4, 3], -1.0..1.0)], |x| x[0].matmul(x[1].t()).exp());
    differentiates(&[(&[3, 2], -1.0..1.0), (&[4, 3], -1.0..1.0)], |x| x[0].t().matmul(x[1].t()).exp());
    differentiates(&[(&[3, 3], -1.0..1.0)], |x| x[0].matmul(x[0]) + x[0].t().matmul(x[0].sin()));
}

#[test]
fn matrix_products_differentiate_twice_in_batches() {
    differentiates(&[(&[2, 2, 3], -1.0..1.0), (&[2, 3, 2], -1.0..1.0)], |x| x[0].matmul(x[1]).sin());
    differentiates(&[(&[2, 3, 2], -1.0..1.0), (&[2, 2, 3], -1.0..1.0)], |x| x[0].t().matmul(x[1].t()).sin());
    differentiates(&[(&[2, 1, 2, 3], -1.0..1.0), (&[3, 3, 2], -1.0..1.0)], |x| x[0].matmul(x[1]).sin());
    differentiates(&[(&[2, 3], -1.0..1.0), (&[2, 3, 2], -1.0..1.0)], |x| x[0].matmul(x[1]).sin());
    differentiates(&[(&[2, 2, 3], -1.0..1.0), (&[3, 4], -1.0..1.0)], |x| x[0].matmul(x[1]).sin());
    differentiates(&[(&[2, 2, 3], -1.0..1.0), (&[4, 3], -1.0..1.0)], |x| x[0].matmul(x[1].t()).sin());
    differentiates(&[(&[2, 3, 2], -1.0..1.0), (&[3, 4], -1.0..1.0)], |x| x[0].t().matmul(x[1]).sin());
}

#[test]
fn triangles_and_diagonals_differentiate_twice() {
    differentiates(&[(&[2, 3, 3], -1.0..1.0)], |x| x[0].exp().tril().square());
    differentiates(&[(&[2, 3, 3], -1.0..1.0)], |x| x[0].exp().diagonal().square());
    differentiates(&[(&[3, 3], -1.0..1.0)], |x| x[0].sin().diagonal().exp());
}

/// A Aᵀ + n I: symmetric and well within the positive definite matrices.
fn definite(a: Expr<'_>) -> Expr<'_> {
    let n = a.shape().dims()[a.shape().rank() - 1];
    let unit = (0..n * n).map(|k| if k % (n + 1) == 0 { n as f64 } else { 0.0 }).collect::<Vec<_>>();
    a.matmul(a.t()) + a.graph().literal(array([n, n], unit))
}

#[test]
fn cholesky_factors_differentiate_twice() {
    differentiates(&[(&[3, 3], -1.0..1.0)], |x| definite(x[0]).cholesky());
    differentiates(&[(&[2, 3, 3], -1.0..1.0)], |x| definite(x[0]).cholesky().diagonal().ln());
    differentiates(&[(&[1, 1], 0.5..2.0)], |x| x[0].cholesky());
}

#[test]
fn triangular_solves_differentiate_twice_in_both_operands() {
    // A dominant diagonal keeps the systems well conditioned.
    let shifted: &dyn for<'g> Fn(Expr<'g>) -> Expr<'g> = &|a| {
        let unit = (0..9).map(|k| if k % 4 == 0 { 2.5 } else { 0.0 }).collect::<Vec<_>>();
        a + a.graph().literal(array([3, 3], unit))
    };
    let operands: [(&[usize], &[usize]); 4] =
        [(&[3, 3], &[3, 2]), (&[2, 3, 3], &[2, 3, 1]), (&[3, 3], &[2, 3, 2]), (&[2, 3, 3], &[3, 2])];
    for (a, b) in operands {
        let inputs = [(a, -1.0..1.0), (b, -1.0..1.0)];
        differentiates(&inputs, |x| shifted(x[0]).solve_lower(x[1]));
        differentiates(&inputs, |x| shifted(x[0]).solve_lower_t(x[1]));
        differentiates(&inputs, |x| shifted(x[0]).solve_upper(x[1]));
    }
}

#[test]
fn convolutions_differentiate_twice_for_strides_and_paddings() {
    for (stride, padding, size) in [(1, (0, 0), 4), (1, (1, 1), 4), (2, (1, 1), 5), (2, (0, 1), 4), (3, (2, 1), 5)] {
        differentiates(&[(&[2, 2, size, size], -1.0..1.0), (&[2, 2, 3, 3], -1.0..1.0)], |x| {
            x[0].conv2d(x[1], stride, padding).sin()
        });
    }
    differentiates(&[(&[1, 1, 5, 6], -1.0..1.0), (&[2, 1, 5, 5], -0.5..0.5)], |x| x[0].conv2d(x[1], 1, (2, 2)).sin());
    differentiates(&[(&[1, 1, 6, 5], -1.0..1.0), (&[1, 1, 5, 5], -0.5..0.5)], |x| x[0].conv2d(x[1], 2, (1, 2)).sin());
    differentiates(&[(&[1, 2, 3, 5], -1.0..1.0), (&[1, 2, 2, 3], -0.5..0.5)], |x| x[0].conv2d(x[1], 2, (1, 0)).sin());
}

#[test]
fn upsampling_differentiates_twice_for_whole_and_broken_ratios() {
    differentiates(&[(&[1, 4, 4], -1.0..1.0)], |x| x[0].exp().upsample(7, 7).square());
    differentiates(&[(&[7, 7], -1.0..1.0)], |x| x[0].sin().upsample(14, 14).exp());
    differentiates(&[(&[2, 3, 3], -1.0..1.0)], |x| x[0].upsample(3, 3).exp());
    differentiates(&[(&[2, 1, 2, 3], -1.0..1.0)], |x| x[0].exp().upsample(5, 3).square());
}

#[test]
fn derivatives_pass_through_a_conversion_to_single_precision_and_back() {
    let x = array(4, [-1.3, 0.2, 0.9, 1.7]);
    let got = evaluate(std::slice::from_ref(&x), |x| {
        let y = (x[0].cast(DType::F32).exp().cast(DType::F64) * weights(x[0].graph(), 4.into(), 0)).sum_all();
        let first = grad(y, x).unwrap()[0];
        vec![first, grad(first.sum_all(), x).unwrap()[0]]
    });
    let want: Vec<f64> = x.to_f64().iter().zip(irregular(4, 0)).map(|(x, w)| w * x.exp()).collect();
    assert_close(&got[0].to_f64(), &want, 1e-6);
    assert_close(&got[1].to_f64(), &want, 1e-6);
    assert_eq!(got[0].dtype(), DType::F64);
}

#[test]
fn no_derivative_flows_through_stop_gradient() {
    let x = [array(3, [0.3, -1.2, 2.0])];
    let d = value(&x, |x| grad(x[0].exp().stop_gradient().sum_all(), x).unwrap()[0]);
    assert_eq!(d, [0.0; 3]);
    let d = value(&x, |x| grad((x[0].stop_gradient() * x[0]).sum_all(), x).unwrap()[0]);
    assert_eq!(d, x[0].to_f64());
    let second = value(&x, |x| {
        let first = grad((x[0].square() * x[0].stop_gradient()).sum_all(), x).unwrap()[0];
        grad(first.sum_all(), x).unwrap()[0]
    });
    assert_close(&second, &[0.6, -2.4, 4.0], 1e-15);
}

/// Σ zᵢ⁴/4 + z₀ z₁, with all its derivatives.
struct Quartic;
impl External for Quartic {
    fn name(&self) -> &str {
        "quartic"
    }
    fn dimension(&self) -> usize {
        3
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        Ok(z.iter().map(|z| z.powi(4) / 4.0).sum::<f64>() + z[0] * z[1])
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        gradient.iter_mut().zip(z).for_each(|(g, z)| *g = z.powi(3));
        gradient[0] += z[1];
        gradient[1] += z[0];
        self.value(z)
    }
    fn hessian_vector(&self, z: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        (0..3).for_each(|i| product[i] = 3.0 * z[i] * z[i] * v[i]);
        product[0] += v[1];
        product[1] += v[0];
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        true
    }
}

#[test]
fn external_functions_differentiate_twice() {
    let quartic: Arc<dyn External> = Arc::new(Quartic);
    differentiates(&[(&[4, 3], -1.0..1.0)], |x| x[0].external(quartic.clone()));
    differentiates(&[(&[4, 3], -1.0..1.0), (&[], 0.5..1.5)], |x| (x[0].sin() * x[1]).external(quartic.clone()).exp());
}

#[test]
fn third_derivatives_match_known_formulas() {
    let points = [0.4, 1.3, 2.7];
    let third = |f: &dyn for<'g> Fn(Expr<'g>) -> Expr<'g>| {
        value(&[array(3, points)], |x| (0..3).fold(f(x[0]), |y, _| grad(y.sum_all(), x).unwrap()[0]))
    };
    assert_close(&third(&|x| x.exp()), &points.map(f64::exp), 1e-14);
    assert_close(&third(&|x| x.powf(5.0)), &points.map(|x| 60.0 * x * x), 1e-13);
    let tetragamma = value(&[array(3, points)], |x| x[0].polygamma(2));
    assert_close(&third(&|x| x.lgamma()), &tetragamma, 1e-13);
    let softplus = |x: f64| {
        let s = 1.0 / (1.0 + (-x).exp());
        s * (1.0 - s) * (1.0 - 2.0 * s)
    };
    assert_close(&third(&|x| x.softplus()), &points.map(softplus), 1e-14);
    assert_close(&third(&|x| x.ln()), &points.map(|x| 2.0 / x.powi(3)), 1e-13);
    assert_close(&third(&|x| x.sin()), &points.map(|x| -x.cos()), 1e-14);
}

#[test]
fn a_derivative_can_be_asked_in_a_node_that_is_no_input_and_in_one_without_influence() {
    let d = evaluate(&[array(2, [0.5, 1.5]), array(2, [2.0, 3.0])], |x| {
        let middle = x[0].exp();
        let y = (middle.square() * 3.0).sum_all();
        grad(y, &[middle, x[1], y]).unwrap()
    });
    assert_close(&d[0].to_f64(), &[6.0 * 0.5f64.exp(), 6.0 * 1.5f64.exp()], 1e-14);
    assert_eq!(d[1].to_f64(), [0.0, 0.0]);
    assert_eq!(d[2].to_f64(), [1.0]);
}

#[test]
fn the_comparison_with_finite_differences_notices_a_wrong_derivative() {
    let x = [array(3, [0.3, -1.2, 2.0])];
    let first = check_derivatives(&x, |x| x[0].exp() + x[0].stop_gradient() * 1e-5).unwrap_err();
    assert!(first.to_string().contains("first derivative"), "{first}");
    let second = check_derivatives(&x, |x| {
        // The value of x³ with the right first and a wrong second derivative.
        let (x, fixed) = (x[0], x[0].stop_gradient());
        x * fixed.square() * 3.0 - fixed.powf(3.0) * 2.0
    });
    assert!(second.unwrap_err().to_string().contains("second derivative"));
}
