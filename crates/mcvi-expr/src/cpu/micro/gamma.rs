//! lgamma, digamma, trigamma and their differences for one positive lane.
//!
//! Below 8 the argument is moved up by 8 through the recurrence, gathered into one product or one
//! fraction; from 8 on the asymptotic series, refitted in 1/z², is used. The `*_asym` forms serve
//! arguments that are all ≥ 8, in either type; the others any in [`TINY`, ∞), in `f64`.

use super::elementary::{ln_normal, ln_ratio};
use super::real::{Float, Real, sel};

/// Where the asymptotic series take over.
pub(super) const BIG: f64 = 8.0;
/// Below this the lane forms may underflow; see `scalar`.
pub(super) const TINY: f64 = 1e-290;
/// Above this the arguments of a difference are not moved together.
const FAR: f64 = 64.0;

/// lgamma(z) = (z − ½)(ln z − 1) + ½ ln 2π − ½ + LG(1/z²)/z; fit error 8e-20.
const LG: [f64; 7] = [
    0.08333333333333333,
    -0.0027777777777674272,
    0.0007936507864054509,
    -0.0005952358521747168,
    0.000841392144946827,
    -0.0018863996521408784,
    0.004987580333611265,
];
/// digamma(z) = ln z − 1/2z − DG(1/z²)/z²; fit error 2e-19.
const DG: [f64; 7] = [
    0.08333333333333316,
    -0.00833333333304068,
    0.003968253804289715,
    -0.004166622944965859,
    0.007569475515194266,
    -0.020588891826400446,
    0.061535119806012194,
];
/// trigamma(z) = TG(1/z²)/z + 1/2z²; fit error 2e-20.
const TG: [f64; 9] = [
    1.0,
    0.16666666666666646,
    -0.03333333333301063,
    0.023809523611556974,
    -0.03333327178573967,
    0.07574662587255222,
    -0.25194292142405006,
    1.0912216749165424,
    -4.2802583750535,
];
/// ½ ln 2π − ½
const LG_CONST: f64 = 0.4189385332046727;

/// Terms of a series that matter: all in `f64`, the first few in `f32`.
#[inline(always)]
fn terms<T: Real, const N: usize>() -> usize {
    let few = sel(N == TG.len(), 5, 3);
    sel(T::LANES == f64::LANES, N, few)
}

/// The series c at w by Horner's rule.
#[inline(always)]
fn series<T: Real, const F: bool, const N: usize>(w: T, c: &[f64; N]) -> T {
    let mut i = terms::<T, N>() - 1;
    let mut p = T::lit(c[i]);
    while i > 0 {
        i -= 1;
        p = p.fma::<F>(w, T::lit(c[i]));
    }
    p
}

/// (p(w), divided difference p[u, w]) of the series p with coefficients c.
#[inline(always)]
fn series_diff<T: Real, const F: bool, const N: usize>(u: T, w: T, c: &[f64; N]) -> (T, T) {
    let mut i = terms::<T, N>() - 1;
    let (mut p, mut d) = (T::lit(c[i]), T::lit(0.0));
    while i > 0 {
        i -= 1;
        d = d.fma::<F>(u, p);
        p = p.fma::<F>(w, T::lit(c[i]));
    }
    (p, d)
}

/// lgamma(z), z ≥ 8. Relative error 1e-15; `f32` 2.1 ulp.
#[inline(always)]
pub(super) fn lgamma_asym<T: Real, const F: bool>(z: T) -> T {
    let u = T::lit(1.0) / z;
    let s = u.fma::<F>(series::<T, F, 7>(u * u, &LG), T::lit(LG_CONST));
    (z - T::lit(0.5)).fma::<F>(ln_normal::<T, F>(z) - T::lit(1.0), s)
}

/// lgamma(x). Error ≤ 6e-15·max(1, |value|), so absolute about its zeros 1 and 2.
#[inline(always)]
pub(super) fn lgamma<const F: bool>(x: f64) -> f64 {
    let small = x < BIG;
    // x(x+1)…(x+7), the factors paired from the ends.
    let y = x * (x + 7.0);
    let p = y * (y + 6.0) * (y + 10.0) * (y + 12.0);
    let l = ln_normal::<f64, F>(sel(small, p, 1.0));
    lgamma_asym::<f64, F>(sel(small, x + BIG, x)) - l
}

/// digamma(z), z ≥ 8. Relative error 4e-16; `f32` 1.1 ulp.
#[inline(always)]
pub(super) fn digamma_asym<T: Real, const F: bool>(z: T) -> T {
    let u = T::lit(1.0) / z;
    let s = u.fma::<F>(series::<T, F, 7>(u * u, &DG), T::lit(0.5));
    (-u).fma::<F>(s, ln_normal::<T, F>(z))
}

/// digamma(x). Error ≤ 1.5e-15·max(1, |value|), so absolute about its zero.
#[inline(always)]
pub(super) fn digamma<const F: bool>(x: f64) -> f64 {
    let small = x < BIG;
    // Σ 1/(x+i), the terms paired from the ends: each pair is (2x+7)/(y+c).
    let y = x * (x + 7.0);
    let (y1, y2, y3) = (y + 6.0, y + 10.0, y + 12.0);
    let (p, q) = (y * y1, y2 * y3);
    let num = Float::fma::<F>(y + y1, q, (y2 + y3) * p);
    let sum = (x + (x + 7.0)) * num / sel(small, p * q, 1.0);
    digamma_asym::<f64, F>(sel(small, x + BIG, x)) - sel(small, sum, 0.0)
}

/// trigamma(z), z ≥ 8. Relative error 4e-16; `f32` 2.3 ulp.
#[inline(always)]
pub(super) fn trigamma_asym<T: Real, const F: bool>(z: T) -> T {
    let u = T::lit(1.0) / z;
    u * u.fma::<F>(T::lit(0.5), series::<T, F, 9>(u * u, &TG))
}

/// trigamma(x). Relative error ≤ 7e-16.
#[inline(always)]
pub(super) fn trigamma<const F: bool>(x: f64) -> f64 {
    let small = x < BIG;
    // Σ 1/(x+i)², paired: each pair is (2y + 49 − 2c)/(y+c)², c = 0, 6, 10, 12.
    let y = x * (x + 7.0);
    let (mut num, mut den) = (y + y + 49.0, y * y);
    for c in [6.0, 10.0, 12.0] {
        let q = (y + c) * (y + c);
        num = Float::fma::<F>(num, q, den * (y + y + (49.0 - 2.0 * c)));
        den *= q;
    }
    let sum = num / sel(small, den, 1.0);
    trigamma_asym::<f64, F>(sel(small, x + BIG, x)) + sel(small, sum, 0.0)
}

/// lgamma(b) − lgamma(a), b = a + n, both ≥ 8. `f32`: 3 ulp.
#[inline(always)]
pub(super) fn lgamma_diff_asym<T: Real, const F: bool>(a: T, b: T, n: T) -> T {
    let (one, half) = (T::lit(1.0), T::lit(0.5));
    let (ua, ub) = (one / a, one / b);
    let t = n * ua;
    // (a − ½) ln(b/a); where n/a is about to underflow it is n(1 − 1/2a).
    let first = (a - half) * ln_ratio::<T, F>(b * ua, t);
    let vanishing = t.abs() < T::MIN_NORMAL * T::lit(1e6);
    let first = sel(vanishing, n * (-half).fma::<F>(ua, one), first);
    let (g, d) = series_diff::<T, F, 7>(ub * ub, ua * ua, &LG);
    let tail = t * ub * (ub * (ua + ub)).fma::<F>(d, g);
    n.fma::<F>(ln_normal::<T, F>(b) - one, first - tail)
}

/// Which of a and b are moved up by 8: all that are not far, if either is small.
#[inline(always)]
fn moved(a: f64, b: f64) -> (bool, bool, f64) {
    let small = (a < BIG) | (b < BIG);
    let (sa, sb) = (small & (a < FAR), small & (b < FAR));
    (sa, sb, sel(sb, BIG, 0.0) - sel(sa, BIG, 0.0))
}

/// lgamma(a + n) − lgamma(a). Relative error ≤ 3e-15, absolute about its zeros (2e-15).
#[inline(always)]
pub(super) fn lgamma_diff<const F: bool>(a: f64, n: f64) -> f64 {
    let b = a + n;
    let (sa, sb, dn) = moved(a, b);
    let both = sa & sb;
    // P(b)/P(a) and P(b)/P(a) − 1 = (y_b − y_a) P[y_a, y_b]/P(a), with P as in `lgamma`.
    let (ya, yb) = (a * (a + 7.0), b * (b + 7.0));
    let (mut pa, mut pb, mut d) = (ya, yb, 1.0);
    for c in [6.0, 10.0, 12.0] {
        d = Float::fma::<F>(d, yb + c, pa);
        pa *= ya + c;
        pb *= yb + c;
    }
    let inv = 1.0 / sel(sa, pa, 1.0);
    let t = sel(both, n * (a + b + 7.0) * d * inv, 1.0);
    let l = ln_ratio::<f64, F>(sel(sb, pb, 1.0) * inv, t);
    let l = sel(sa | sb, l, 0.0);
    lgamma_diff_asym::<f64, F>(a + sel(sa, BIG, 0.0), b + sel(sb, BIG, 0.0), n + dn) - l
}

/// digamma(b) − digamma(a), b = a + n, both ≥ 8. `f32`: 5 ulp.
#[inline(always)]
pub(super) fn digamma_diff_asym<T: Real, const F: bool>(a: T, b: T, n: T) -> T {
    let (ua, ub) = (T::lit(1.0) / a, T::lit(1.0) / b);
    let t = n * ua;
    let u = ub * ub;
    let (h, dh) = series_diff::<T, F, 7>(u, ua * ua, &DG);
    let s = (ua + ub).fma::<F>(dh.fma::<F>(u, h), T::lit(0.5));
    (t * ub).fma::<F>(s, ln_ratio::<T, F>(b * ua, t))
}

/// digamma(a + n) − digamma(a). Relative error ≤ 1e-15.
#[inline(always)]
pub(super) fn digamma_diff<const F: bool>(a: f64, n: f64) -> f64 {
    let b = a + n;
    let (sa, sb, dn) = moved(a, b);
    // Σ 1/(a+i) − 1/(b+i) = n Σ 1/((a+i)(b+i)); only one of the two sums where one is far.
    let (xa, xb) = (sel(sa, a, 1.0), sel(sb, b, 1.0));
    let (da, db) = (sel(sa, 1.0, 0.0), sel(sb, 1.0, 0.0));
    let (mut num, mut den) = (0.0, 1.0);
    for i in 1..8 {
        let i = f64::from(i);
        let q = Float::fma::<F>(da, i, xa) * Float::fma::<F>(db, i, xb);
        num = Float::fma::<F>(num, q, den);
        den *= q;
    }
    let m = sel(sa & sb, n, da - db);
    // The first term apart: its denominator may underflow.
    let sum = m / xa / xb + m * (num / den);
    let asym = digamma_diff_asym::<f64, F>(a + da * BIG, b + db * BIG, n + dn);
    asym + sel(sa | sb, sum, 0.0)
}

/// trigamma(b) − trigamma(a), b = a + n, both ≥ 8. `f32`: 4 ulp.
#[inline(always)]
pub(super) fn trigamma_diff_asym<T: Real, const F: bool>(a: T, b: T, n: T) -> T {
    let (ua, ub) = (T::lit(1.0) / a, T::lit(1.0) / b);
    let (g, dg) = series_diff::<T, F, 9>(ub * ub, ua * ua, &TG);
    let s = ua + ub;
    let f = (ub * s).fma::<F>(dg, g);
    -(n * ua * ub) * s.fma::<F>(T::lit(0.5), f)
}

/// trigamma(a + n) − trigamma(a). Relative error ≤ 1e-15.
#[inline(always)]
pub(super) fn trigamma_diff<const F: bool>(a: f64, n: f64) -> f64 {
    let b = a + n;
    let (sa, sb, dn) = moved(a, b);
    let both = sa & sb;
    // Σ 1/(a+i)² − 1/(b+i)² = n Σ (a+b+2i)/((a+i)²(b+i)²); one sum only where one is far.
    let (xa, xb) = (sel(sa, a, 1.0), sel(sb, b, 1.0));
    let (da, db) = (sel(sa, 1.0, 0.0), sel(sb, 1.0, 0.0));
    let (top, step) = (sel(both, a + b, 1.0), sel(both, 2.0, 0.0));
    let (mut num, mut den) = (0.0, 1.0);
    for i in 1..8 {
        let i = f64::from(i);
        let q = Float::fma::<F>(da, i, xa) * Float::fma::<F>(db, i, xb);
        let q = q * q;
        num = Float::fma::<F>(num, q, den * Float::fma::<F>(step, i, top));
        den *= q;
    }
    let m = sel(both, n, da - db);
    let (ra, rb) = (1.0 / xa, 1.0 / xb);
    // The first term apart: its denominator may underflow.
    let first = (m * ra * rb) * sel(both, ra + rb, ra * rb);
    let sum = first + m * (num / den);
    let asym = trigamma_diff_asym::<f64, F>(a + da * BIG, b + db * BIG, n + dn);
    asym - sel(sa | sb, sum, 0.0)
}
