//! The functions that work element by element, under the names that JAX gives them. Truth is 1 and falsehood 0.

use mcvi_expr::Expr;
use std::f64::consts::{FRAC_PI_2, LN_2, PI};

/// A function by name, with its number of operands.
#[derive(Clone, Copy)]
pub struct Function {
    pub name: &'static str,
    pub operands: usize,
    pub apply: for<'g> fn(&[Expr<'g>]) -> Expr<'g>,
}

/// The function of this name.
pub fn get(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|f| f.name == name).copied()
}

/// The names of all functions.
pub fn names() -> Vec<&'static str> {
    FUNCTIONS.iter().map(|f| f.name).collect()
}

macro_rules! functions {
    ($($name:literal |$($x:ident),+| $value:expr;)*) => {
        const FUNCTIONS: &[Function] = &[$(Function {
            name: $name,
            operands: [$(stringify!($x)),+].len(),
            apply: |operands| {
                let &[$($x),+] = operands else { unreachable!("the number of operands is checked before") };
                $value
            },
        }),*];
    };
}

functions! {
    "abs" |x| x.abs();
    "acos" |x| acos(x);
    // ln(x + √(x² − 1)), accurate near 1.
    "acosh" |x| ((x - 1.0) + ((x - 1.0) * (x + 1.0)).sqrt()).log1p();
    "add" |a, b| a + b;
    "add_any" |a, b| a + b;
    "and" |a, b| a * b;
    "asin" |x| (x / ((1.0 - x) * (x + 1.0)).sqrt()).atan();
    // ln(x + √(x² + 1)) of |x|, accurate near 0.
    "asinh" |x| x.lt(0.0).select(-asinh(-x), asinh(x));
    "atan" |x| x.atan();
    "atan2" |y, x| atan2(y, x);
    "atanh" |x| (x.log1p() - (-x).log1p()) * 0.5;
    "cbrt" |x| x.sign() * x.abs().powf(1.0 / 3.0);
    "ceil" |x| -(-x).floor();
    // No derivative at the bounds, which are taken where they are met.
    "clamp" |low, x, high| x.le(low).select(low, x.ge(high).select(high, x));
    "cos" |x| x.cos();
    "cosh" |x| (x.exp() + (-x).exp()) * 0.5;
    "digamma" |x| x.digamma();
    "div" |a, b| a / b;
    "eq" |a, b| a.eq(b);
    "erf" |x| x.erf();
    "erfc" |x| x.erfc();
    "exp" |x| x.exp();
    "exp2" |x| (x * LN_2).exp();
    "expm1" |x| x.expm1();
    "floor" |x| x.floor();
    "ge" |a, b| a.ge(b);
    "gt" |a, b| a.gt(b);
    "is_finite" |x| x.abs().lt(f64::INFINITY);
    "le" |a, b| a.le(b);
    "lgamma" |x| x.lgamma();
    "log" |x| x.ln();
    "log1p" |x| x.log1p();
    "logaddexp" |a, b| logaddexp(a, b);
    "logistic" |x| x.sigmoid();
    "lt" |a, b| a.lt(b);
    // Where both are equal, the derivative is shared, as in JAX.
    "max" |a, b| a.eq(b).select((a + b) * 0.5, a.max(b));
    "min" |a, b| a.eq(b).select((a + b) * 0.5, a.min(b));
    "mul" |a, b| a * b;
    "ne" |a, b| 1.0 - a.eq(b);
    "neg" |x| -x;
    "not" |x| 1.0 - x;
    "or" |a, b| a.max(b);
    "pow" |a, b| a.pow(b);
    "relu" |x| x.le(0.0).select(0.0, x);
    // The remainder has the sign of the first.
    "rem" |a, b| a - b * truncated(a / b);
    "rsqrt" |x| x.sqrt().recip();
    "select" |condition, otherwise, then| condition.select(then, otherwise);
    "sign" |x| x.sign();
    "sin" |x| x.sin();
    "sinh" |x| sinh(x);
    "softplus" |x| x.softplus();
    "sqrt" |x| x.sqrt();
    "square" |x| x.square();
    "stop_gradient" |x| x.stop_gradient();
    "sub" |a, b| a - b;
    "tan" |x| x.sin() / x.cos();
    "tanh" |x| x.tanh();
    "xor" |a, b| 1.0 - a.eq(b);
}

fn acos(x: Expr<'_>) -> Expr<'_> {
    FRAC_PI_2 - (x / ((1.0 - x) * (x + 1.0)).sqrt()).atan()
}

fn asinh(x: Expr<'_>) -> Expr<'_> {
    let square = x.square();
    (x + square / ((square + 1.0).sqrt() + 1.0)).log1p()
}

fn atan2<'g>(y: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
    // Of the two quotients, the one that is at most 1.
    let steep = x.abs().lt(y.abs());
    let flat = (y / steep.select(1.0, x)).atan() + x.lt(0.0).select(y.lt(0.0).select(-PI, PI), 0.0);
    steep.select(y.sign() * FRAC_PI_2 - (x / steep.select(y, 1.0)).atan(), flat)
}

pub fn logaddexp<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    // Where one is infinite, it or the other is the result.
    let apart = a - b;
    apart.abs().lt(f64::INFINITY).select(b + apart.softplus(), a.max(b))
}

fn truncated(x: Expr<'_>) -> Expr<'_> {
    x.sign() * x.abs().floor()
}

fn sinh(x: Expr<'_>) -> Expr<'_> {
    let e = x.expm1();
    x.abs().lt(1.0).select((e + e / (e + 1.0)) * 0.5, (x.exp() - (-x).exp()) * 0.5)
}
