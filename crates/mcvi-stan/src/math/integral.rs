//! Integrals over a half line of functions whose logarithm is concave: incomplete gamma and beta functions, and the
//! distribution function of Student's t.
//!
//! In the logarithm (or logit, or inverse hyperbolic sine) of the variable the integrand is smooth with one mode. Where it has fallen
//! by e⁻⁴⁰ it is cut off, and what is left is summed by Gauss and Legendre's rule over three panels. No sign ever changes, so
//! that tails keep their digits. The rule is written in expressions: all derivatives, those of the parameters too, are its own.

use super::Number;
use super::functions::{asinh, cosh, lbeta, log_sum, log1m_exp, sinh};
use std::f64::consts::{LN_2, PI, SQRT_2};
use std::sync::OnceLock;

/// Points of a panel.
const POINTS: usize = 40;
/// How far the logarithm falls before it is cut off.
const FALL: f64 = 40.0;

/// Points of Gauss and Legendre's rule in (0, 1), and their weights.
pub struct Rule {
    pub points: Vec<f64>,
    pub weights: Vec<f64>,
}

impl Rule {
    /// Of the panels below.
    pub fn get() -> &'static Rule {
        static RULE: OnceLock<Rule> = OnceLock::new();
        RULE.get_or_init(|| Rule::new(POINTS))
    }

    fn new(n: usize) -> Rule {
        let mut rule = Rule { points: vec![], weights: vec![] };
        for i in 0..n {
            // A root of Legendre's polynomial of degree n, by Newton's method.
            let mut x = (PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
            let mut slope = 0.0;
            for _ in 0..10 {
                let (mut before, mut p) = (1.0, x);
                for k in 2..=n {
                    let k = k as f64;
                    (before, p) = (p, ((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k);
                }
                slope = n as f64 * (x * p - before) / (x * x - 1.0);
                x -= p / slope;
            }
            rule.points.push(0.5 * (1.0 + x));
            rule.weights.push(1.0 / ((1.0 - x * x) * slope * slope));
        }
        rule
    }
}

/// ln ∫ exp h between the first and the last of four rising edges, one of which is the mode; h takes a place and parameters.
fn log_integral<N: Number>(edges: [N; 4], mode: N, parameters: &[N], h: impl Fn(N, &[N]) -> N) -> N {
    let top = h(mode, parameters);
    let panel = |low: N, high: N| {
        let arguments = [&[low, high - low, top][..], parameters].concat();
        N::weighted_sum(Rule::get(), &arguments, |y, a| (h(a[0] + a[1] * y, &a[3..]) - a[2]).exp()) * (high - low)
    };
    let [a, b, c, d] = edges;
    (panel(a, b) + panel(b, c) + panel(c, d)).ln() + top
}

/// Where a (d − 1 + exp(−d)) has certainly reached the fall.
fn fall<N: Number>(a: N) -> N {
    let third = a.constant(FALL / 3.0) / a;
    third + (third * (third + 6.0)).sqrt()
}

/// Where a (exp(d) − 1 − d) has.
fn steep_fall<N: Number>(a: N) -> N {
    let r = a.constant(FALL) / a;
    (r + (r * 2.0).sqrt()).log1p()
}

/// A bound by a slope, where it is positive.
fn fall_by_slope<N: Number>(slope: N, otherwise: N) -> N {
    let is_falling = slope.constant(0.0).lt(slope);
    let bound = slope.constant(FALL) / is_falling.select(slope, slope.constant(1.0));
    is_falling.select(otherwise.min(bound), otherwise)
}

/// ln γ(a, exp l) / Γ(a): the logarithm of the regularised lower incomplete gamma function.
pub fn log_gamma_lower<N: Number>(a: N, l: N) -> N {
    // By parts, a γ(a, x) = xᵃ exp(−x) + γ(a + 1, x), whose integrand falls fast on the left.
    let a1 = a + 1.0;
    let x = l.exp();
    let h = |u: N, p: &[N]| p[0] * u - u.exp();
    let mode = l.min(a1.ln());
    let low = mode - fall_by_slope(a1 - x, fall(a1));
    let high = l.min(mode + steep_fall(a1));
    let rest = log_integral([low, mode, mode, high], mode, &[a1], h);
    log_sum(a * l - x, rest) - a1.lgamma()
}

/// ln Γ(a, exp l) / Γ(a).
pub fn log_gamma_upper<N: Number>(a: N, l: N) -> N {
    let h = |u: N, p: &[N]| p[0] * u - u.exp();
    let mode = l.max(a.ln());
    let low = l.max(mode - fall(a));
    // Beyond x the logarithm falls by at least (x − a)(exp(d) − 1).
    let beyond = mode.exp() - a;
    let is_beyond = beyond.constant(1e-3).lt(beyond);
    let by_slope = (beyond.constant(FALL) / is_beyond.select(beyond, beyond.constant(1.0))).log1p();
    let steep = steep_fall(a);
    let high = mode + is_beyond.select(steep.min(by_slope), steep);
    // The integrand turns where exp u is about 1.
    let turn = low.max(high.min(low.constant(0.0)));
    log_integral([low, mode.min(turn), mode.max(turn), high], mode, &[a], h) - a.lgamma()
}

/// ln I(a, b), the regularised incomplete beta function, at the logit l.
pub fn log_beta_lower<N: Number>(a: N, b: N, l: N) -> N {
    // By parts, a B(a, b) = xᵃ (1 − x)ᵇ + (a + b) B(a + 1, b).
    let a1 = a + 1.0;
    let n = a1 + b;
    let (p, q) = (a1 / n, b / n);
    let h = |u: N, p: &[N]| -p[0] * (-u).softplus() - p[1] * u.softplus();
    let mode = l.min((a1 / b).ln());
    let even = fall(n * p * q);
    let fall = n.constant(FALL) / n;
    let left = fall_by_slope(n * (p - l.sigmoid()), even.min((fall - q.ln()) / p));
    let right = even.min((fall - p.ln()) / q);
    let (low, high) = (mode - left, l.min(mode + right));
    // The integrand turns at 0.
    let turn = low.max(high.min(low.constant(0.0)));
    let rest = log_integral([low, mode.min(turn), mode.max(turn), high], mode, &[a1, b], h);
    log_sum(h(l, &[a, b]), (a + b).ln() + rest) - a.ln() - lbeta(a, b)
}

/// ln P(T ≤ t) of Student's t with ν degrees of freedom.
pub fn log_student_t<N: Number>(t: N, nu: N) -> N {
    // With t = √ν sinh u the density is cosh(u)^(−ν).
    let zero = t.constant(0.0);
    let l = asinh(t / nu.sqrt());
    let h = |u: N, p: &[N]| -p[0] * (u + (u * -2.0).softplus() - LN_2);
    let mode = l.min(zero);
    let r = nu.constant(FALL) / nu;
    let whole = r + (-(r * -2.0).expm1()).sqrt().log1p();
    let left = fall_by_slope(nu * (-mode).tanh(), whole);
    let high = mode.max(l.min(whole));
    let near = left.min(left.constant(4.0));
    let all = log_integral([mode - left, mode - near, mode, high], mode, &[nu], h);
    all - lbeta(nu.constant(0.5), nu * 0.5)
}

/// ln P(Z ≤ z) of the standard skew normal distribution of shape α.
pub fn log_skew_normal<N: Number>(z: N, alpha: N) -> N {
    // With x = sinh s in ∫ exp(−½ z² (1 + x²)) / (1 + x²) dx / π: near the middle it is taken from 0 to α off Φ(z), farther out
    // it is the tail.
    let is_near = (z.square() * (alpha.square() + 1.0)).lt(z.constant(1.0));
    let (near, far) = (is_near.select(z, z.constant(0.0)), is_near.select(z.constant(-1.0), z));
    let value = |s: N, a: &[N]| (a[1] * cosh(s).square() * -0.5).exp() / cosh(s);
    let panel = |from: N, to: N| {
        let square = near.square();
        N::weighted_sum(Rule::get(), &[from, to - from, square], |y, a| value(a[0] + a[1] * y, &a[1..])) * (to - from)
    };
    let end = asinh(is_near.select(alpha, alpha.constant(0.0)));
    let middle = (-near / SQRT_2).erfc() * 0.5 - (panel(end * 0.0, end * 0.5) + panel(end * 0.5, end)) / PI;
    is_near.select(middle.ln(), log_skew_normal_tail(far, alpha))
}

/// The same where z is not near 0.
fn log_skew_normal_tail<N: Number>(z: N, alpha: N) -> N {
    // For z < 0 the integral from α on; else 1 − P(Z ≤ −z) of −α.
    let zero = z.constant(0.0);
    let is_low = z.lt(zero);
    let from = is_low.select(alpha, -alpha);
    let (square, top) = (z.square(), from.max(zero));
    let high = asinh((top.square() + square.constant(2.0 * FALL) / square).sqrt());
    let (low, mode) = (asinh(from).max(-high), asinh(top));
    let panel = |from: N, to: N| {
        let exponent = |x: N, a: &[N]| (a[1] - x) * (a[1] + x) * a[0] * 0.5;
        let value = |s: N, a: &[N]| exponent(sinh(s), a).exp() / cosh(s);
        N::weighted_sum(Rule::get(), &[from, to - from, square, top], |y, a| value(a[0] + a[1] * y, &a[2..]))
            * (to - from)
    };
    // Short panels beside the mode and where it falls, where the integrand turns.
    let side = |end: N| {
        let length = (end - mode) / 3.0;
        let short = length.min(length.constant(5.0)).max(length.constant(-5.0));
        panel(mode, mode + short) + panel(mode + short, end - short) + panel(end - short, end)
    };
    let below = (side(high) - side(low)).ln() - PI.ln() - square * (top.square() + 1.0) * 0.5;
    is_low.select(below, log1m_exp(is_low.select(zero.constant(-1.0), below)))
}

/// ln I₀(κ), the modified Bessel function: the mean of exp(κ cos θ), cut off where it has fallen.
pub fn log_bessel_i0<N: Number>(kappa: N) -> N {
    let (zero, k) = (kappa.constant(0.0), kappa.abs());
    // 1 − cos θ is at least 2 (θ/π)².
    let wide = k.lt(k.constant(0.5 * FALL));
    let end = wide.select(k.constant(PI), (k.constant(0.5 * FALL) / wide.select(k.constant(FALL), k)).sqrt() * PI);
    let panel = |from: N, to: N| {
        N::weighted_sum(Rule::get(), &[from, to - from, k], |y, a| (a[2] * ((a[0] + a[1] * y).cos() - 1.0)).exp())
            * (to - from)
    };
    (panel(zero, end * 0.5) + panel(end * 0.5, end)).ln() + k - PI.ln()
}
