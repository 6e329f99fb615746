//! Elementary functions, by Stan's names.

use super::Number;
use std::f64::consts::{LN_2, LN_10, PI, SQRT_2};

pub fn inv<N: Number>(x: N) -> N {
    x.constant(1.0) / x
}

/// The square root. Below 10⁻²⁰⁰ it is a straight line, so that sqrt(exp(−1000)) has derivatives of every order; there they
/// would be 0 · ∞.
pub fn sqrt<N: Number>(x: N) -> N {
    let tiny = x.abs().lt(x.constant(1e-200));
    tiny.select(x * 1e100, tiny.select(x.constant(1.0), x).sqrt())
}

pub fn inv_sqrt<N: Number>(x: N) -> N {
    inv(x.sqrt())
}

pub fn inv_square<N: Number>(x: N) -> N {
    inv(x.square())
}

pub fn exp2<N: Number>(x: N) -> N {
    (x * LN_2).exp()
}

pub fn log2<N: Number>(x: N) -> N {
    x.ln() / LN_2
}

pub fn log10<N: Number>(x: N) -> N {
    x.ln() / LN_10
}

pub fn log1m<N: Number>(x: N) -> N {
    (-x).log1p()
}

/// ln(1 − eˣ) for x < 0, by the form that keeps its digits.
pub fn log1m_exp<N: Number>(x: N) -> N {
    let near = x.constant(-LN_2).lt(x);
    // Each form sees only arguments where it is defined.
    let (small, large) = (near.select(x, x.constant(-LN_2)), near.select(x.constant(-LN_2), x));
    near.select((-small.expm1()).ln(), log1m(large.exp()))
}

pub fn log_inv_logit<N: Number>(x: N) -> N {
    -(-x).softplus()
}

pub fn log1m_inv_logit<N: Number>(x: N) -> N {
    -x.softplus()
}

pub fn logit<N: Number>(x: N) -> N {
    x.ln() - log1m(x)
}

pub fn inv_cloglog<N: Number>(x: N) -> N {
    -(-x.exp()).expm1()
}

pub fn phi<N: Number>(x: N) -> N {
    (x / -SQRT_2).erfc() * 0.5
}

pub fn phi_approx<N: Number>(x: N) -> N {
    (x * x.square() * 0.07056 + x * 1.5976).sigmoid()
}

pub fn tan<N: Number>(x: N) -> N {
    x.sin() / x.cos()
}

/// Each by the tangent that keeps its digits.
pub fn asin<N: Number>(x: N) -> N {
    (x / ((-x + 1.0) * (x + 1.0)).sqrt()).atan()
}

pub fn acos<N: Number>(x: N) -> N {
    ((-x + 1.0) / (x + 1.0)).sqrt().atan() * 2.0
}

pub fn atan2<N: Number>(y: N, x: N) -> N {
    let (zero, one) = (x.constant(0.0), x.constant(1.0));
    let is_steep = x.abs().lt(y.abs());
    let side = y.lt(zero).select(x.constant(-PI), x.constant(PI));
    // The smaller over the larger.
    let steep = side * 0.5 - (x / is_steep.select(y, one)).atan();
    let safe = is_steep.select(one, x.eq(zero).select(one, x));
    let flat = (y / safe).atan();
    is_steep.select(steep, x.lt(zero).select(flat + side, flat))
}

pub fn sinh<N: Number>(x: N) -> N {
    (x.expm1() - (-x).expm1()) * 0.5
}

pub fn cosh<N: Number>(x: N) -> N {
    (x.exp() + (-x).exp()) * 0.5
}

pub fn asinh<N: Number>(x: N) -> N {
    // Not |x|, whose derivative at 0 is 0.
    let a = x.lt(x.constant(0.0)).select(-x, x);
    let y = (a + a.square() / ((a.square() + 1.0).sqrt() + 1.0)).log1p();
    x.lt(x.constant(0.0)).select(-y, y)
}

pub fn acosh<N: Number>(x: N) -> N {
    (x + (x.square() - 1.0).sqrt()).ln()
}

pub fn atanh<N: Number>(x: N) -> N {
    (x.log1p() - log1m(x)) * 0.5
}

pub fn cbrt<N: Number>(x: N) -> N {
    let y = x.abs().pow(x.constant(1.0 / 3.0));
    x.lt(x.constant(0.0)).select(-y, y)
}

pub fn tgamma<N: Number>(x: N) -> N {
    x.lgamma().exp()
}

pub fn ceil<N: Number>(x: N) -> N {
    -(-x).floor()
}

/// Halves away from zero.
pub fn round<N: Number>(x: N) -> N {
    let y = (x.abs() + 0.5).floor();
    x.lt(x.constant(0.0)).select(-y, y)
}

pub fn trunc<N: Number>(x: N) -> N {
    let y = x.abs().floor();
    x.lt(x.constant(0.0)).select(-y, y)
}

pub fn step<N: Number>(x: N) -> N {
    x.constant(0.0).le(x)
}

pub fn lbeta<N: Number>(a: N, b: N) -> N {
    a.lgamma() - b.lgamma_diff(a)
}

pub fn beta<N: Number>(a: N, b: N) -> N {
    lbeta(a, b).exp()
}

pub fn lchoose<N: Number>(n: N, k: N) -> N {
    // Γ(n + 1) / (Γ(k + 1) Γ(n − k + 1)).
    (n - k + 1.0).lgamma_diff(k) - (k + 1.0).lgamma()
}

pub fn log_sum_exp<N: Number>(a: N, b: N) -> N {
    // −∞ on either side must not become NaN, nor its derivative; equal numbers must share theirs.
    let low = a.constant(f64::NEG_INFINITY);
    let (no_a, no_b) = (a.eq(low), b.eq(low));
    let zero = a.constant(0.0);
    let (x, y) = (no_a.select(zero, a), no_b.select(zero, b));
    no_a.select(b, no_b.select(a, log_sum(x, y)))
}

/// ln(exp a + exp b) of finite numbers, from the larger: beside a far smaller one it would be lost in the difference.
pub fn log_sum<N: Number>(a: N, b: N) -> N {
    let is_less = a.lt(b);
    let (low, high) = (is_less.select(a, b), is_less.select(b, a));
    high + (low - high).softplus()
}

pub fn log_diff_exp<N: Number>(a: N, b: N) -> N {
    a + log1m_exp(b - a)
}

/// x ln y, and 0 where x is.
pub fn lmultiply<N: Number>(x: N, y: N) -> N {
    let zero = x.eq(x.constant(0.0));
    zero.select(x.constant(0.0), x * zero.select(x.constant(1.0), y).ln())
}

/// x ln(1 − y), and 0 where x is.
pub fn multiply_log1m<N: Number>(x: N, y: N) -> N {
    let zero = x.eq(x.constant(0.0));
    zero.select(x.constant(0.0), x * log1m(zero.select(x.constant(0.0), y)))
}

pub fn hypot<N: Number>(a: N, b: N) -> N {
    (a.square() + b.square()).sqrt()
}

pub fn fdim<N: Number>(a: N, b: N) -> N {
    (a - b).max(a.constant(0.0))
}

pub fn fmod<N: Number>(a: N, b: N) -> N {
    a - trunc(a / b) * b
}

pub fn log_falling_factorial<N: Number>(x: N, n: N) -> N {
    (x - n + 1.0).lgamma_diff(n)
}

pub fn log_rising_factorial<N: Number>(x: N, n: N) -> N {
    x.lgamma_diff(n)
}

pub fn falling_factorial<N: Number>(x: N, n: N) -> N {
    log_falling_factorial(x, n).exp()
}

pub fn rising_factorial<N: Number>(x: N, n: N) -> N {
    log_rising_factorial(x, n).exp()
}

pub fn log_inv_logit_diff<N: Number>(x: N, y: N) -> N {
    x - x.softplus() + log1m_exp(y - x) - y.softplus()
}

pub fn binary_log_loss<N: Number>(y: N, p: N) -> N {
    -super::discrete::bernoulli_lpmf(y, p)
}

pub fn fma<N: Number>(a: N, b: N, c: N) -> N {
    a * b + c
}

pub fn log_mix<N: Number>(theta: N, a: N, b: N) -> N {
    log_sum_exp(theta.ln() + a, log1m(theta) + b)
}

pub fn gt<N: Number>(a: N, b: N) -> N {
    b.lt(a)
}

pub fn ge<N: Number>(a: N, b: N) -> N {
    b.le(a)
}

pub fn ne<N: Number>(a: N, b: N) -> N {
    not(a.eq(b))
}

pub fn not<N: Number>(a: N) -> N {
    a.eq(a.constant(0.0))
}

pub fn and<N: Number>(a: N, b: N) -> N {
    ne(a, a.constant(0.0)) * ne(b, b.constant(0.0))
}

pub fn or<N: Number>(a: N, b: N) -> N {
    ne(a, a.constant(0.0)).max(ne(b, b.constant(0.0)))
}

pub fn add<N: Number>(a: N, b: N) -> N {
    a + b
}

pub fn subtract<N: Number>(a: N, b: N) -> N {
    a - b
}

pub fn multiply<N: Number>(a: N, b: N) -> N {
    a * b
}

pub fn divide<N: Number>(a: N, b: N) -> N {
    a / b
}

pub fn minus<N: Number>(a: N) -> N {
    -a
}
