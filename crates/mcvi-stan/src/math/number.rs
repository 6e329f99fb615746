//! What formulas are written in: the host's numbers, or expressions of the engine.

use super::integral::Rule;
use mcvi_expr::{Array, DType, Expr};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number, or an expression of numbers.
pub trait Number:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// A constant of the same kind.
    fn constant(self, x: f64) -> Self;
    fn exp(self) -> Self;
    fn expm1(self) -> Self;
    fn ln(self) -> Self;
    fn log1p(self) -> Self;
    fn sqrt(self) -> Self;
    fn square(self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn atan(self) -> Self;
    fn tanh(self) -> Self;
    fn sigmoid(self) -> Self;
    fn softplus(self) -> Self;
    fn erf(self) -> Self;
    fn erfc(self) -> Self;
    fn log_erfc(self) -> Self;
    fn lgamma(self) -> Self;
    fn digamma(self) -> Self;
    fn trigamma(self) -> Self;
    /// lgamma(self + n) − lgamma(self), without cancellation where it matters.
    fn lgamma_diff(self, n: Self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// 1 where less, else 0.
    fn lt(self, other: Self) -> Self;
    fn le(self, other: Self) -> Self;
    fn eq(self, other: Self) -> Self;
    /// One value where this is not 0, another where it is.
    fn select(self, then: Self, otherwise: Self) -> Self;
    /// Σ wᵢ f(yᵢ, arguments) over a rule's points.
    fn weighted_sum(rule: &Rule, arguments: &[Self], f: impl Fn(Self, &[Self]) -> Self) -> Self;
}

fn flag(condition: bool) -> f64 {
    f64::from(u8::from(condition))
}

impl Number for f64 {
    fn constant(self, x: f64) -> f64 {
        x
    }
    fn exp(self) -> f64 {
        f64::exp(self)
    }
    fn expm1(self) -> f64 {
        self.exp_m1()
    }
    fn ln(self) -> f64 {
        f64::ln(self)
    }
    fn log1p(self) -> f64 {
        self.ln_1p()
    }
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    fn square(self) -> f64 {
        self * self
    }
    fn abs(self) -> f64 {
        f64::abs(self)
    }
    fn floor(self) -> f64 {
        f64::floor(self)
    }
    fn sin(self) -> f64 {
        f64::sin(self)
    }
    fn cos(self) -> f64 {
        f64::cos(self)
    }
    fn atan(self) -> f64 {
        f64::atan(self)
    }
    fn tanh(self) -> f64 {
        f64::tanh(self)
    }
    fn sigmoid(self) -> f64 {
        let e = (-self.abs()).exp();
        if self < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
    }
    fn softplus(self) -> f64 {
        f64::max(self, 0.0) + (-self.abs()).exp().ln_1p()
    }
    fn erf(self) -> f64 {
        libm::erf(self)
    }
    fn erfc(self) -> f64 {
        libm::erfc(self)
    }
    fn log_erfc(self) -> f64 {
        if self < 5.0 {
            return libm::erfc(self).ln();
        }
        // The continued fraction of erfc, from far enough out that it has converged.
        let tail = (1..60).rev().fold(0.0, |tail, k| 0.5 * f64::from(k) / (self + tail));
        -self * self - (self + tail).ln() - 0.5 * std::f64::consts::PI.ln()
    }
    fn lgamma(self) -> f64 {
        libm::lgamma(self)
    }
    fn digamma(self) -> f64 {
        statrs::function::gamma::digamma(self)
    }
    fn trigamma(self) -> f64 {
        // Shifted up to where the series converges.
        let (mut x, mut sum) = (self, 0.0);
        while x < 20.0 {
            sum += 1.0 / (x * x);
            x += 1.0;
        }
        let r = 1.0 / (x * x);
        sum + 1.0 / x + 0.5 * r + r / x * (1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0 - r / 30.0)))
    }
    fn lgamma_diff(self, n: f64) -> f64 {
        if self < 20.0 || n < 0.0 {
            return libm::lgamma(self + n) - libm::lgamma(self);
        }
        // Stirling's series, term by term.
        let rest = |x: f64| {
            let r = 1.0 / (x * x);
            (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r / 1680.0))) / x
        };
        (self + n - 0.5) * (n / self).ln_1p() + n * self.ln() - n + rest(self + n) - rest(self)
    }
    fn pow(self, exponent: f64) -> f64 {
        self.powf(exponent)
    }
    fn min(self, other: f64) -> f64 {
        f64::min(self, other)
    }
    fn max(self, other: f64) -> f64 {
        f64::max(self, other)
    }
    fn lt(self, other: f64) -> f64 {
        flag(self < other)
    }
    fn le(self, other: f64) -> f64 {
        flag(self <= other)
    }
    fn eq(self, other: f64) -> f64 {
        flag(self == other)
    }
    fn select(self, then: f64, otherwise: f64) -> f64 {
        if self != 0.0 { then } else { otherwise }
    }
    fn weighted_sum(rule: &Rule, arguments: &[f64], f: impl Fn(f64, &[f64]) -> f64) -> f64 {
        rule.points.iter().zip(&rule.weights).map(|(y, w)| w * f(*y, arguments)).sum()
    }
}

impl Number for Expr<'_> {
    fn constant(self, x: f64) -> Self {
        self.graph().scalar(DType::F64, x)
    }
    fn exp(self) -> Self {
        Expr::exp(self)
    }
    fn expm1(self) -> Self {
        Expr::expm1(self)
    }
    fn ln(self) -> Self {
        Expr::ln(self)
    }
    fn log1p(self) -> Self {
        Expr::log1p(self)
    }
    fn sqrt(self) -> Self {
        Expr::sqrt(self)
    }
    fn square(self) -> Self {
        Expr::square(self)
    }
    fn abs(self) -> Self {
        Expr::abs(self)
    }
    fn floor(self) -> Self {
        Expr::floor(self)
    }
    fn sin(self) -> Self {
        Expr::sin(self)
    }
    fn cos(self) -> Self {
        Expr::cos(self)
    }
    fn atan(self) -> Self {
        Expr::atan(self)
    }
    fn tanh(self) -> Self {
        Expr::tanh(self)
    }
    fn sigmoid(self) -> Self {
        Expr::sigmoid(self)
    }
    fn softplus(self) -> Self {
        Expr::softplus(self)
    }
    fn erf(self) -> Self {
        Expr::erf(self)
    }
    fn erfc(self) -> Self {
        Expr::erfc(self)
    }
    fn log_erfc(self) -> Self {
        Expr::log_erfc(self)
    }
    fn lgamma(self) -> Self {
        Expr::lgamma(self)
    }
    fn digamma(self) -> Self {
        Expr::digamma(self)
    }
    fn trigamma(self) -> Self {
        self.polygamma(1)
    }
    fn lgamma_diff(self, n: Self) -> Self {
        Expr::lgamma_diff(self, n)
    }
    fn pow(self, exponent: Self) -> Self {
        Expr::pow(self, exponent)
    }
    fn min(self, other: Self) -> Self {
        Expr::min(self, other)
    }
    fn max(self, other: Self) -> Self {
        Expr::max(self, other)
    }
    fn lt(self, other: Self) -> Self {
        Expr::lt(self, other)
    }
    fn le(self, other: Self) -> Self {
        Expr::le(self, other)
    }
    fn eq(self, other: Self) -> Self {
        Expr::eq(self, other)
    }
    fn select(self, then: Self, otherwise: Self) -> Self {
        Expr::select(self, then, otherwise)
    }
    /// The points are a last axis of their own.
    fn weighted_sum(rule: &Rule, arguments: &[Self], f: impl Fn(Self, &[Self]) -> Self) -> Self {
        let graph = arguments[0].graph();
        let literal = |list: &[f64]| match Array::new([list.len()], list.to_vec()) {
            Ok(array) => graph.literal(array),
            Err(_) => graph.full(DType::F64, [list.len()], f64::NAN),
        };
        let spread = |a: &Self| a.reshape([a.shape().dims(), &[1]].concat());
        let arguments: Vec<Self> = arguments.iter().map(spread).collect();
        let terms = f(literal(&rule.points), &arguments) * literal(&rule.weights);
        terms.sum(&[terms.shape().rank() - 1])
    }
}
