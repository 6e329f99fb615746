//! Scalar gamma functions: the lanes the vector forms leave out, and the higher orders.

use super::gamma;
use std::f64::consts::PI;

/// Highest order m for which ψ⁽ᵐ⁾ is continued to negative arguments (NaN there beyond it).
const REFLECT: u32 = 20;

/// (sin πx, cos πx).
fn sincos_pi(x: f64) -> (f64, f64) {
    let q = (2.0 * x).round();
    let r = PI * (x - 0.5 * q);
    match q.rem_euclid(4.0) as u32 {
        0 => (r.sin(), r.cos()),
        1 => (r.cos(), -r.sin()),
        2 => (-r.sin(), -r.cos()),
        _ => (-r.cos(), r.sin()),
    }
}

/// ln|Γ(x)| for every x; +inf at the poles and at ±inf.
pub(super) fn lgamma(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x.is_infinite() || (x <= 0.0 && x == x.floor()) {
        f64::INFINITY
    } else if x.abs() < 1e-20 {
        -x.abs().ln()
    } else if x > 0.0 {
        gamma::lgamma::<false>(x)
    } else {
        (PI / sincos_pi(x).0.abs()).ln() - gamma::lgamma::<false>(1.0 - x)
    }
}

/// ψ(x) for every x; ∓inf at ±0, NaN at the other poles and at −inf.
pub(super) fn digamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY {
        x
    } else if x.abs() < 1e-20 {
        -1.0 / x
    } else if x > 0.0 {
        gamma::digamma::<false>(x)
    } else if x == x.floor() {
        f64::NAN
    } else {
        let (s, c) = sincos_pi(x);
        gamma::digamma::<false>(1.0 - x) - PI * (c / s)
    }
}

/// ψ′(x) for every x; +inf at the poles, NaN at −inf.
pub(super) fn trigamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::NEG_INFINITY {
        f64::NAN
    } else if x == f64::INFINITY {
        0.0
    } else if x.abs() < 1e-20 {
        1.0 / x / x
    } else if x > 0.0 {
        gamma::trigamma::<false>(x)
    } else if x == x.floor() {
        f64::INFINITY
    } else {
        let s = PI / sincos_pi(x).0;
        s * s - gamma::trigamma::<false>(1.0 - x)
    }
}

/// ψ⁽ᵐ⁾(x). Relative error ≤ 1e-12 for x > 0; for negative x by reflection up to m = 20 (and
/// there absolute, in units of the larger of the two terms), NaN beyond.
pub(super) fn polygamma(m: u32, x: f64) -> f64 {
    match m {
        0 => digamma(x),
        1 => trigamma(x),
        _ if x.is_nan() || x == f64::NEG_INFINITY => f64::NAN,
        _ if x == f64::INFINITY => sign(m) * 0.0,
        _ if x > 0.0 => sign(m) * zeta_sum(m, x, None),
        _ if x == 0.0 => sign(m) * sel_odd(m, f64::INFINITY, 1.0 / x),
        // An odd order has the same infinity on both sides of a pole.
        _ if x == x.floor() => sel_odd(m, f64::INFINITY, f64::NAN),
        _ if m > REFLECT => f64::NAN,
        _ => {
            let (s, c) = sincos_pi(x);
            let flip = sel_odd(m, -1.0, 1.0);
            flip * polygamma(m, 1.0 - x) - PI * cot_derivative(m, c / s)
        }
    }
}

/// ψ⁽ᵏ⁻¹⁾(a + n) − ψ⁽ᵏ⁻¹⁾(a), ψ⁽⁻¹⁾ being lgamma. For positive arguments relative error ≤ 1e-12
/// (k ≤ 2: 1e-14), however small n is; elsewhere the plain difference.
pub(super) fn polygamma_diff(k: u32, a: f64, n: f64) -> f64 {
    let b = a + n;
    let inside = a > 0.0 && b > 0.0 && a < f64::INFINITY && b < f64::INFINITY;
    if inside && n == 0.0 {
        return 0.0;
    }
    if a == f64::INFINITY && b == a {
        return if k == 0 && n != 0.0 { n * a } else { 0.0 };
    }
    match k {
        0..=2 if inside => gamma::diff_far(k, a, n),
        0 => lgamma(b) - lgamma(a),
        1 => digamma(b) - digamma(a),
        2 => trigamma(b) - trigamma(a),
        _ if !inside => polygamma(k - 1, b) - polygamma(k - 1, a),
        // The smaller argument is the base.
        _ if n < 0.0 => -polygamma_diff(k, b, -n),
        _ => sign(k - 1) * zeta_sum(k - 1, a, Some(n)),
    }
}

/// (−1)^(m+1)
fn sign(m: u32) -> f64 {
    sel_odd(m, 1.0, -1.0)
}

fn sel_odd(m: u32, odd: f64, even: f64) -> f64 {
    if m % 2 == 1 { odd } else { even }
}

/// m! Σ_{i≥0} (x+i)^−s, s = m + 1, or the same sum at x + n less that at x, by Euler–Maclaurin
/// summation. In a difference each term c·X^−p comes with the factor (1 + n/X)^−p − 1.
fn zeta_sum(m: u32, x: f64, n: Option<f64>) -> f64 {
    /// B₂ⱼ/(2j)!
    const BERNOULLI: [f64; 12] = [
        8.333_333_333_333_333e-2,
        -1.388_888_888_888_889e-3,
        3.306_878_306_878_307e-5,
        -8.267_195_767_195_768e-7,
        2.087_675_698_786_81e-8,
        -5.284_190_138_687_493e-10,
        1.338_253_653_068_467_9e-11,
        -3.389_680_296_322_583e-13,
        8.586_062_056_277_845e-15,
        -2.174_868_698_558_062e-16,
        5.509_002_828_360_23e-18,
        -1.395_446_468_581_252_3e-19,
    ];
    let s = f64::from(m) + 1.0;
    // m!·x^−s, the factor all terms are taken relative to.
    let base = if m <= 170 {
        (1..=m).fold(1.0 / x, |b, j| b * (f64::from(j) / x))
    } else {
        (gamma::lgamma::<false>(s) - s * x.ln()).exp()
    };
    let log = |y: f64| n.map_or(0.0, |n| (n / y).ln_1p());
    let factor = |p: f64, log: f64| n.map_or(1.0, |_| (-p * log).exp_m1());
    if base.is_infinite() {
        return base * factor(s, log(x));
    }
    let rel = |y: f64| {
        if m < 32 { (x / y).powi(m as i32 + 1) } else { (x / y).powf(s) }
    };
    let top = 12.0 + 0.5 * s;
    let (mut sum, mut y) = (0.0, x);
    while y < top {
        sum += rel(y) * factor(s, log(y));
        y += 1.0;
    }
    let l = log(y);
    let mut tail = y / (s - 1.0) * factor(s - 1.0, l) + 0.5 * factor(s, l);
    let mut c = s / y;
    for (j, b) in BERNOULLI.iter().enumerate() {
        let p = s + 2.0 * j as f64 + 1.0;
        let term = b * c * factor(p, l);
        tail += term;
        if term.abs() < 1e-17 * tail.abs() {
            break;
        }
        c *= p / y * ((p + 1.0) / y);
    }
    base * (sum + rel(y) * tail)
}

/// dᵐ/dxᵐ cot(πx) given c = cot(πx), as a polynomial in c: p ↦ −π(1 + c²)p′.
fn cot_derivative(m: u32, c: f64) -> f64 {
    let mut p = vec![0.0, 1.0];
    for _ in 0..m {
        let mut q = vec![0.0; p.len() + 1];
        for (i, v) in p.iter().enumerate().skip(1) {
            let d = -PI * v * i as f64;
            q[i - 1] += d;
            q[i + 1] += d;
        }
        p = q;
    }
    p.iter().rev().fold(0.0, |r, v| r * c + v)
}
