//! Rewrites of elementwise arithmetic as it is built: what derivatives leave behind, and what is exact to leave out.

use super::elementwise::fold_binary;
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
            (_, Some(y)) => Some(a - y),
            (Some(x), None) => Some(b - x),
            _ => a.joined_with(b),
        },
        Binary::Sub if cb == Some(0.0) => Some(a),
        Binary::Sub if ca == Some(0.0) => Some(-b),
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
                _ => None,
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
