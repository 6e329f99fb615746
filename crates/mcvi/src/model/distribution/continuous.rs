//! Log densities of single real numbers.

use super::within;
use mcvi_expr::Expr;
use std::f64::consts::{LN_2, PI, TAU};

#[track_caller]
pub(super) fn normal<'g>(x: Expr<'g>, mean: Expr<'g>, sd: Expr<'g>) -> Expr<'g> {
    ((x - mean) / sd).square() * -0.5 - sd.ln() - 0.5 * TAU.ln()
}

#[track_caller]
pub(super) fn student_t<'g>(x: Expr<'g>, df: Expr<'g>, location: Expr<'g>, scale: Expr<'g>) -> Expr<'g> {
    let z = (x - location) / scale;
    // lnΓ(df/2 + ½) − lnΓ(df/2) by its own function: for large df a plain difference has no digits left.
    let constant = (df * 0.5).lgamma_diff(0.5) - (df * PI).ln() * 0.5 - scale.ln();
    constant - (df + 1.0) * 0.5 * (z.square() / df).log1p()
}

#[track_caller]
pub(super) fn cauchy<'g>(x: Expr<'g>, location: Expr<'g>, scale: Expr<'g>) -> Expr<'g> {
    -((x - location) / scale).square().log1p() - scale.ln() - PI.ln()
}

/// The density of |x| from that of x, which is symmetric about 0.
#[track_caller]
pub(super) fn half<'g>(x: Expr<'g>, density: Expr<'g>) -> Expr<'g> {
    within(x.ge(0.0), density + LN_2)
}

#[track_caller]
pub(super) fn laplace<'g>(x: Expr<'g>, location: Expr<'g>, scale: Expr<'g>) -> Expr<'g> {
    -((x - location) / scale).abs() - scale.ln() - LN_2
}

#[track_caller]
pub(super) fn log_normal<'g>(x: Expr<'g>, mean: Expr<'g>, sd: Expr<'g>) -> Expr<'g> {
    let log = x.ln();
    within(x.gt(0.0), normal(log, mean, sd) - log)
}

#[track_caller]
pub(super) fn exponential<'g>(x: Expr<'g>, rate: Expr<'g>) -> Expr<'g> {
    within(x.ge(0.0), rate.ln() - rate * x)
}

#[track_caller]
pub(super) fn gamma<'g>(x: Expr<'g>, shape: Expr<'g>, rate: Expr<'g>) -> Expr<'g> {
    let density = shape * rate.ln() - shape.lgamma() + log_power(x, x.ln(), shape - 1.0) - rate * x;
    within(x.ge(0.0), density)
}

#[track_caller]
pub(super) fn inverse_gamma<'g>(x: Expr<'g>, shape: Expr<'g>, scale: Expr<'g>) -> Expr<'g> {
    within(x.gt(0.0), shape * scale.ln() - shape.lgamma() - (shape + 1.0) * x.ln() - scale / x)
}

#[track_caller]
pub(super) fn beta<'g>(x: Expr<'g>, a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let rest = 1.0 - x;
    let powers = log_power(x, x.ln(), a - 1.0) + log_power(rest, (-x).log1p(), b - 1.0);
    within(x.ge(0.0) * rest.ge(0.0), powers - log_beta(a, b))
}

#[track_caller]
pub(super) fn uniform<'g>(x: Expr<'g>, low: Expr<'g>, high: Expr<'g>) -> Expr<'g> {
    within(x.ge(low) * x.le(high), -(high - low).ln())
}

/// `exponent · ln base`, given the logarithm; at base 0 the limit, as a constant: derivatives there are not finite.
#[track_caller]
pub(super) fn log_power<'g>(base: Expr<'g>, log: Expr<'g>, exponent: Expr<'g>) -> Expr<'g> {
    // ∞, 0 or −∞: 0 · ln 0 would be NaN.
    let limit = exponent.eq(0.0).select(0.0, exponent.gt(0.0).select(f64::NEG_INFINITY, f64::INFINITY));
    base.eq(0.0).select(limit, exponent * log)
}

/// ln B(a, b), without cancellation when one of them is large.
#[track_caller]
pub(super) fn log_beta<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    // One choice for both, not min and max, which at a = b would both send their derivative to a.
    let first = a.le(b);
    let (small, large) = (first.select(a, b), first.select(b, a));
    small.lgamma() - large.lgamma_diff(small)
}
