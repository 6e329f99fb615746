//! Rewrites of elementwise arithmetic as it is built: what derivatives leave behind, and what is exact to leave out.

use super::affine;
use super::elementwise::fold_binary;
use crate::array::Array;
use crate::graph::{Expr, Op};
use crate::shape::DType;
use crate::table::{Binary, Unary};

/// Rewrites that are exact for every finite operand.
pub(super) fn simplify<'g>(f: Binary, a: Expr<'g>, b: Expr<'g>) -> Option<Expr<'g>> {
    let (ca, cb) = (a.as_const(), b.as_const());
    if let (Some(x), Some(y)) = (ca, cb) {
        return fold_binary(f, x, y).map(|v| a.same_type(v));
    }
    let negated = |e: Expr<'g>| (e.op() == Op::Unary(Unary::Neg)).then(|| e.args()[0]);
    match f {
        Binary::Add if ca == Some(0.0) => Some(b),
        Binary::Add if cb == Some(0.0) => Some(a),
        Binary::Add => match (negated(a), negated(b)) {
            (Some(x), Some(y)) => Some(-(x + y)),
            (None, Some(y)) => Some(a - y),
            (Some(x), None) => Some(b - x),
            _ => a.joined_with(b).or_else(|| affine::summed(a, b)).or_else(|| affine::summed(b, a)),
        },
        Binary::Sub if cb == Some(0.0) => Some(a),
        Binary::Sub if ca == Some(0.0) => Some(-b),
        Binary::Sub if a.is_same(b) => Some(a.same_type(0.0)),
        Binary::Sub => negated(b).map(|y| a + y),
        Binary::Mul if ca == Some(1.0) => Some(b),
        Binary::Mul if cb == Some(1.0) => Some(a),
        Binary::Mul if ca == Some(-1.0) => Some(-b),
        Binary::Mul if cb == Some(-1.0) => Some(-a),
        Binary::Mul if a.is_same(b) => Some(a.square()),
        Binary::Mul => match (negated(a), negated(b)) {
            (Some(x), Some(y)) => Some(x * y),
            (Some(x), None) => Some(-(x * b)),
            (None, Some(y)) => Some(-(a * y)),
            // c₁ · (c₂ · x): scale factors met in derivatives of means.
            _ => match (ca, cb) {
                (Some(c), None) => rescaled(b, c),
                (None, Some(c)) => rescaled(a, c),
                _ => [(a, b), (b, a)].into_iter().find_map(|(a, b)| handed_on(a, b).or_else(|| affine::signed(a, b))),
            },
        },
        Binary::Div if cb == Some(1.0) => Some(a),
        Binary::Div if ca == Some(1.0) => Some(b.recip()),
        Binary::Div => match cb {
            // Dividing by a power of two is multiplying by another.
            Some(c) if c.abs().log2().fract() == 0.0 && is_normal(a.dtype(), 1.0 / c) => Some(a * (1.0 / c)),
            _ => negated(a).map(|x| -(x / b)),
        },
        _ => None,
    }
}

/// The product of `c₂ · x` with `c`, as a single multiplication of x, if that neither overflows nor underflows.
fn rescaled(e: Expr<'_>, c: f64) -> Option<Expr<'_>> {
    let (inner, x) = scaled(e)?;
    let factor = inner * c;
    factor.as_const().is_some_and(|f| is_normal(x.dtype(), f)).then(|| x * factor)
}

/// The product of `c · x` with a broadcast, as that of x with `c` times what is broadcast, which is fewer products. For powers
/// of two, which change no digit.
fn handed_on<'g>(e: Expr<'g>, other: Expr<'g>) -> Option<Expr<'g>> {
    let (c, x) = scaled(e)?;
    let exact = c.as_const().is_some_and(|c| c.abs().log2().fract() == 0.0);
    (exact && other.op() == Op::Broadcast && e.op() != Op::Broadcast).then(|| x * (other * c))
}

/// Elements up to which what follows from literals alone is computed as it is built, and is a literal too.
const FOLDED: usize = 1 << 14;

/// A function of literals of one shape, and of numbers, element by element. Where all elements are equal it is a number.
pub(super) fn fold_literals<'g, const N: usize>(
    args: [Expr<'g>; N],
    f: impl Fn([f64; N]) -> Option<f64>,
) -> Option<Expr<'g>> {
    let literals = args.map(|e| match e.op() {
        Op::Literal(array) => Some(array),
        _ => None,
    });
    let first = literals.iter().flatten().next()?;
    let (shape, dtype) = (first.shape().clone(), first.dtype());
    let numbers = args.map(Expr::as_const);
    let known = |(literal, number): (&Option<Array>, &Option<f64>)| {
        number.is_some() || literal.as_ref().is_some_and(|l| *l.shape() == shape)
    };
    if shape.size() > FOLDED || !literals.iter().zip(&numbers).all(known) {
        return None;
    }
    let literals = literals.map(|l| l.map(|l| l.to_f64()));
    let element =
        |i: usize| f(std::array::from_fn(|k| literals[k].as_ref().map_or(numbers[k].unwrap_or(0.0), |l| l[i])));
    let values: Vec<f64> = (0..shape.size()).map(element).collect::<Option<_>>()?;
    let graph = args[0].graph();
    Some(match values.first() {
        Some(&x) if values.iter().all(|v| v.to_bits() == x.to_bits()) => graph.full(dtype, shape, x),
        _ => graph.literal(Array::from_f64s(dtype, shape, values)),
    })
}

/// Whether a constant keeps all its digits in this type.
fn is_normal(dtype: DType, c: f64) -> bool {
    if dtype == DType::F32 { (c as f32).is_normal() } else { c.is_normal() }
}

/// `(c, x)` when the expression is `c · x` with a constant `c`.
fn scaled<'g>(e: Expr<'g>) -> Option<(Expr<'g>, Expr<'g>)> {
    if e.op() != Op::Binary(Binary::Mul) {
        return None;
    }
    let args = e.args();
    match (args[0].as_const(), args[1].as_const()) {
        (Some(c), _) => Some((e.same_type(c), args[1])),
        (_, Some(c)) => Some((e.same_type(c), args[0])),
        _ => None,
    }
}
