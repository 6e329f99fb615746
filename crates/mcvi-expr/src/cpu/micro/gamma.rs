//! lgamma, digamma, trigamma and their differences for one positive lane.
//!
//! Below 8 the argument is moved up by 8 through the recurrence, gathered into one product or one
//! fraction; from 8 on the asymptotic series, refitted in 1/z², is used. The `*_asym` forms serve
//! arguments that are all ≥ 8, in either type; the others any in [`TINY`, ∞), in `f64`. Differences
//! have limits of their own, the `*_few` forms where a < 8 and n = 0, 1, 2 or 3, and all divisions
//! of a form gathered into one. Those of lgamma and digamma come with the next order, what can be
//! shared computed once; the optimiser drops it from a kernel of one order.

use super::elementary::ln_normal;
use super::real::{Float, Real, sel};

/// Where the asymptotic series take over.
pub(super) const BIG: f64 = 8.0;
/// Below this the lane forms may underflow; see `scalar`.
pub(super) const TINY: f64 = 1e-290;
/// The lane forms of differences take arguments in [`DIFF_LOW`, `DIFF_HIGH`]; see `diff_far`.
pub(super) const DIFF_LOW: f64 = 1e-60;
pub(super) const DIFF_HIGH: f64 = 1e14;

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
/// LG, DG and TG′ (trigamma(z) = 1/z + 1/2z² + TG′(1/z²)/z³) for differences: fitted in the
/// derivative, relative to that of the whole function; fit errors 5e-17, 2e-17, 3e-16.
const LG_DIFF: [f64; 5] =
    [0.08333333333283127, -0.002777777636673348, 0.0007936268625905735, -0.0005930812177186681, 0.0007429327509931431];
const DG_DIFF: [f64; 6] = [
    0.08333333333328391,
    -0.00833333330199179,
    0.0039682451372646515,
    -0.0041653738865219244,
    0.007472520942994236,
    -0.01673602638303684,
];
const TG_DIFF: [f64; 6] = [
    0.1666666666662023,
    -0.03333333297704953,
    0.023809415548117014,
    -0.033316797609987715,
    0.07439772623489721,
    -0.19423382984228374,
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

/// What the tails of differences are made of, symmetric in u = 1/a and v = 1/b: with h_k the complete
/// homogeneous polynomials of u² and v², the divided difference [u, v] of x^(2k+2) is (u + v)h_k, and
/// that of x^(2k+1) is h_k + uv·h_(k−1).
struct Ends<T> {
    /// uv
    prod: T,
    /// u + v
    sum: T,
    /// u² + v² and (uv)²: h_(k+1) = `p`·h_k − `q`·h_(k−1).
    p: T,
    q: T,
}

impl<T: Real> Ends<T> {
    /// Given 1/ab.
    #[inline(always)]
    fn new<const F: bool>(a: T, b: T, prod: T) -> Ends<T> {
        let sum = (a + b) * prod;
        Ends { prod, sum, p: sum.fma::<F>(sum, -(prod + prod)), q: prod * prod }
    }
    /// (Σ c_k h_k, Σ c_(k+1) h_k), by Clenshaw's recurrence.
    #[inline(always)]
    fn series<const F: bool, const N: usize>(&self, c: &[f64; N]) -> (T, T) {
        let mut i = terms::<T, N>() - 2;
        let mut next = T::lit(c[i + 1]);
        let mut p = next.fma::<F>(self.p, T::lit(c[i]));
        while i > 0 {
            i -= 1;
            let rest = (-self.q).fma::<F>(next, T::lit(c[i]));
            (p, next) = (p.fma::<F>(self.p, rest), p);
        }
        (p, next)
    }
    /// Of the tail LG(x²)x of lgamma.
    #[inline(always)]
    fn lgamma<const F: bool>(&self) -> T {
        let (g, next) = self.series::<F, 5>(&LG_DIFF);
        self.prod.fma::<F>(next, g)
    }
    /// Of the tail x/2 + DG(x²)x² of digamma.
    #[inline(always)]
    fn digamma<const F: bool>(&self) -> T {
        self.sum.fma::<F>(self.series::<F, 6>(&DG_DIFF).0, T::lit(0.5))
    }
    /// Of trigamma, x + x²/2 + TG′(x²)x³.
    #[inline(always)]
    fn trigamma<const F: bool>(&self) -> T {
        let (g, next) = self.series::<F, 6>(&TG_DIFF);
        let cubes = (self.p + self.prod).fma::<F>(g, (-self.q) * next);
        self.sum.fma::<F>(T::lit(0.5), cubes) + T::lit(1.0)
    }
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

/// (k, num, den) with ln(b/a) = k ln 2 + ln((1+q)/(1−q)), q = num/den, for b = a + n.
#[inline(always)]
fn ratio<T: Real>(a: T, b: T, n: T) -> (T, T, T) {
    let (k, s) = b.near_power(a);
    (k, sel(k == T::lit(0.0), n, b - s), b + s)
}

/// k ln 2 + ln((1+q)/(1−q)), to 2 ulp.
#[inline(always)]
fn ln_parts<T: Real, const F: bool>(k: T, q: T) -> T {
    let z = q * q;
    let l = q * z.fma::<F>(T::ln_poly::<F>(z), T::lit(2.0));
    k.fma::<F>(T::lit(std::f64::consts::LN_2), l)
}

/// Both of a difference's arguments moved up by 8, and whether they are: if either is small.
#[inline(always)]
fn moved(a: f64, b: f64) -> (f64, f64, bool) {
    let small = (a < BIG) | (b < BIG);
    let up = sel(small, BIG, 0.0);
    (a + up, b + up, small)
}

/// Sums over the moves by 8 of a difference's arguments, the terms of x + c and x + 7 − c paired: with
/// y = x(x+7) the denominators are q_c = (y_a + c)(y_b + c), c = 0, 6, 10, 12. All is made of a + b and
/// ab, without a subtraction that matters.
struct Moves {
    /// 2ab + 7(a + b) + 49
    t: f64,
    /// a + b + 7
    s: f64,
    /// y_a + y_b
    y: f64,
    q: [f64; 4],
    /// q₀q₆ and q₁₀q₁₂
    p: [f64; 2],
}

impl Moves {
    #[inline(always)]
    fn new<const F: bool>(a: f64, b: f64) -> Moves {
        let (x, sum) = (a * b, a + b);
        let (s, s7) = (sum + 7.0, Float::fma::<F>(sum, 7.0, 49.0));
        let y = Float::fma::<F>(x, -2.0, sum * s);
        let q0 = x * (x + s7);
        let q6 = Float::fma::<F>(y, 6.0, q0 + 36.0);
        let q10 = Float::fma::<F>(y, 10.0, q0 + 100.0);
        let q12 = Float::fma::<F>(y, 12.0, q0 + 144.0);
        Moves { t: Float::fma::<F>(x, 2.0, s7), s, y, q: [q0, q6, q10, q12], p: [q0 * q6, q10 * q12] }
    }
    /// The denominator common to the sums below.
    #[inline(always)]
    fn den(&self) -> f64 {
        self.p[0] * self.p[1]
    }
    /// Σ 1/(a+i) − 1/(b+i) is n/`den` times this: each pair is n(t − 2c)/q_c.
    #[inline(always)]
    fn digamma<const F: bool>(&self) -> f64 {
        let (t, q) = (self.t, &self.q);
        let n0 = Float::fma::<F>(t, q[1], (t - 12.0) * q[0]);
        let n1 = Float::fma::<F>(t - 20.0, q[3], (t - 24.0) * q[2]);
        Float::fma::<F>(n0, self.p[1], n1 * self.p[0])
    }
    /// Σ 1/(a+i)² − 1/(b+i)² is n/`den`² times this: with r = y_a + y_b + 2c each pair is
    /// n(a + b + 7)(2q_c + (49 − 4c)r)/q_c².
    #[inline(always)]
    fn trigamma<const F: bool>(&self) -> f64 {
        let [q0, q1, q2, q3] = self.q;
        let n0 = Float::fma::<F>(self.y, 49.0, q0 + q0);
        let n1 = Float::fma::<F>(self.y, 25.0, Float::fma::<F>(q1, 2.0, 300.0));
        let n2 = Float::fma::<F>(self.y, 9.0, Float::fma::<F>(q2, 2.0, 180.0));
        let n3 = Float::fma::<F>(self.y, 1.0, Float::fma::<F>(q3, 2.0, 24.0));
        let n0 = Float::fma::<F>(n0, q1 * q1, n1 * (q0 * q0));
        let n1 = Float::fma::<F>(n2, q3 * q3, n3 * (q2 * q2));
        let [p0, p1] = self.p;
        self.s * Float::fma::<F>(n0, p1 * p1, n1 * (p0 * p0))
    }
}

/// The differences of lgamma and digamma from a to b = a + n, both in [8, `DIFF_HIGH`], and 1/more. The
/// differences do not depend on `more` but by rounding, and not even so where that is 1.
#[inline(always)]
fn lgamma_diff_core<T: Real, const F: bool>(a: T, b: T, n: T, more: T) -> ([T; 2], T) {
    let (one, two) = (T::lit(1.0), T::lit(2.0));
    let (k, num, d1) = ratio(a, b, n);
    let (kb, m) = b.split();
    let d2 = m + one;
    let (ab, d) = (a * b, d1 * d2);
    let rest = ab * d;
    let inv = one / (rest * more);
    let r = inv * more;
    let (iab, id) = (r * d, r * ab);
    let ends = Ends::new::<F>(a, b, iab);
    // (a − ½) ln(b/a), so that a tiny num is not divided.
    let i1 = id * d2;
    let q = num * i1;
    let z = q * q;
    let l = z.fma::<F>(T::ln_poly::<F>(z), two);
    let ln2 = T::lit(std::f64::consts::LN_2);
    let ah = a - T::lit(0.5);
    let first = (k * ln2).fma::<F>(ah, num * (ah * i1) * l);
    let lb = ln_parts::<T, F>(kb, (m - one) * (id * d1));
    let slope = (-iab).fma::<F>(ends.lgamma::<F>(), lb - one);
    let next = (n * iab).fma::<F>(ends.digamma::<F>(), k.fma::<F>(ln2, q * l));
    ([n.fma::<F>(slope, first), next], inv * rest)
}

/// The differences of lgamma and digamma from a to b = a + n, both in [8, 1e14]. `f32`: 3 and 4 ulp.
#[inline(always)]
pub(super) fn lgamma_diff_asym<T: Real, const F: bool>(a: T, b: T, n: T) -> [T; 2] {
    lgamma_diff_core::<T, F>(a, b, n, T::lit(1.0)).0
}

/// lgamma(a + n) − lgamma(a) and, if `BOTH`, that of digamma. Relative errors ≤ 5e-15, absolute about the
/// zeros of the first (5e-15).
#[inline(always)]
pub(super) fn lgamma_diff<const F: bool, const BOTH: bool>(a: f64, n: f64) -> [f64; 2] {
    let b = a + n;
    let (za, zb, small) = moved(a, b);
    // ln P(b)/P(a), with P as in `lgamma` and P(b) − P(a) = (y_b − y_a) P[y_a, y_b].
    let (ya, yb) = (a * (a + 7.0), b * (b + 7.0));
    let (qa, qb) = (ya * (ya + 12.0), yb * (yb + 12.0));
    let (ra, rb) = ((ya + 6.0) * (ya + 10.0), (yb + 6.0) * (yb + 10.0));
    let d = Float::fma::<F>(ya + yb + 12.0, rb, qa * (ya + yb + 16.0));
    let (pa, pb) = (qa * ra, qb * rb);
    let (k, num, den) = ratio(pa, pb, n * (a + b + 7.0) * d);
    if !BOTH {
        let ([asym, _], inv) = lgamma_diff_core::<f64, F>(za, zb, n, sel(small, den, 1.0));
        return [asym - sel(small, ln_parts::<f64, F>(k, num * inv), 0.0); 2];
    }
    let moves = Moves::new::<F>(a, b);
    let ([first, next], inv) = lgamma_diff_core::<f64, F>(za, zb, n, sel(small, den * moves.den(), 1.0));
    let l = ln_parts::<f64, F>(k, num * (moves.den() * inv));
    let sum = n * moves.digamma::<F>() * (den * inv);
    [first - sel(small, l, 0.0), next + sel(small, sum, 0.0)]
}

/// As `lgamma_diff_core`, of digamma and trigamma.
#[inline(always)]
fn digamma_diff_core<T: Real, const F: bool>(a: T, b: T, n: T, more: T) -> ([T; 2], T) {
    let (k, num, d) = ratio(a, b, n);
    let ab = a * b;
    let rest = ab * d;
    let inv = T::lit(1.0) / (rest * more);
    let r = inv * more;
    let iab = r * d;
    let ends = Ends::new::<F>(a, b, iab);
    let l = ln_parts::<T, F>(k, num * (r * ab));
    let ni = n * iab;
    ([ni.fma::<F>(ends.digamma::<F>(), l), -ni * ends.trigamma::<F>()], inv * rest)
}

/// The differences of digamma and trigamma from a to b = a + n, both in [8, 1e14]. `f32`: 4 ulp.
#[inline(always)]
pub(super) fn digamma_diff_asym<T: Real, const F: bool>(a: T, b: T, n: T) -> [T; 2] {
    digamma_diff_core::<T, F>(a, b, n, T::lit(1.0)).0
}

/// The differences of digamma and trigamma from a to a + n. Relative errors ≤ 2e-15.
#[inline(always)]
pub(super) fn digamma_diff<const F: bool, const BOTH: bool>(a: f64, n: f64) -> [f64; 2] {
    let b = a + n;
    let (za, zb, small) = moved(a, b);
    let moves = Moves::new::<F>(a, b);
    let sum = n * moves.digamma::<F>();
    let ([first, next], inv) = digamma_diff_core::<f64, F>(za, zb, n, sel(small, moves.den(), 1.0));
    let first = first + sel(small, sum * inv, 0.0);
    if !BOTH {
        return [first; 2];
    }
    [first, next - sel(small, moves.trigamma::<F>() * inv * (n * inv), 0.0)]
}

/// As `lgamma_diff_core`, of trigamma alone.
#[inline(always)]
fn trigamma_diff_core<T: Real, const F: bool>(a: T, b: T, n: T, more: T) -> (T, T) {
    let ab = a * b;
    let inv = T::lit(1.0) / (ab * more);
    let iab = inv * more;
    (-(n * iab) * Ends::new::<F>(a, b, iab).trigamma::<F>(), inv * ab)
}

/// trigamma(b) − trigamma(a), b = a + n, both in [8, 1e14]. `f32`: 4 ulp.
#[inline(always)]
pub(super) fn trigamma_diff_asym<T: Real, const F: bool>(a: T, b: T, n: T) -> [T; 1] {
    [trigamma_diff_core::<T, F>(a, b, n, T::lit(1.0)).0]
}

/// trigamma(a + n) − trigamma(a). Relative error ≤ 2e-15.
#[inline(always)]
pub(super) fn trigamma_diff<const F: bool, const BOTH: bool>(a: f64, n: f64) -> [f64; 1] {
    let b = a + n;
    let (za, zb, small) = moved(a, b);
    let moves = Moves::new::<F>(a, b);
    let (asym, inv) = trigamma_diff_core::<f64, F>(za, zb, n, sel(small, moves.den(), 1.0));
    [asym - sel(small, moves.trigamma::<F>() * inv * (n * inv), 0.0)]
}

/// The factors of a(a+1)…(a+n−1), n = 0, 1, 2 or 3; those missing are 1.
#[inline(always)]
fn rising<T: Real>(a: T, n: T) -> (T, T, T) {
    let (zero, one) = (T::lit(0.0), T::lit(1.0));
    (sel(n > zero, a, one), sel(n > one, a + one, one), sel(n > T::lit(2.0), a + T::lit(2.0), one))
}

/// 1/x + 1/y + 1/z is this over xyz, the missing factors of `rising` left out.
#[inline(always)]
fn few_sum<T: Real, const F: bool>((x, y, z): (T, T, T), n: T) -> T {
    let (zero, one, two) = (T::lit(0.0), T::lit(1.0), T::lit(2.0));
    let on = |k: T| sel(n > k, one, zero);
    on(zero).fma::<F>(y, on(one) * x).fma::<F>(z, on(two) * (x * y))
}

/// lgamma(a + n) − lgamma(a), n = 0, 1, 2 or 3, a in [`Float::LOW`, 8), and, if `BOTH`, that of digamma.
/// Relative errors 1e-15, absolute about the zeros of the first at n = 2 and 3.
#[inline(always)]
pub(super) fn lgamma_few<T: Real, const F: bool, const BOTH: bool>(a: T, n: T) -> [T; 2] {
    let one = T::lit(1.0);
    let (x, y, z) = rising(a, n);
    let p = x * y * z;
    let (k, m) = p.split();
    if !BOTH {
        return [ln_parts::<T, F>(k, (m - one) / (m + one)); 2];
    }
    let inv = one / ((m + one) * p);
    let sum = few_sum::<T, F>((x, y, z), n) * (m + one);
    [ln_parts::<T, F>(k, ((m - one) * p) * inv), sum * inv]
}

/// The difference of digamma and, if `BOTH`, that of trigamma, as `lgamma_few`. Relative errors 1e-15.
#[inline(always)]
pub(super) fn digamma_few<T: Real, const F: bool, const BOTH: bool>(a: T, n: T) -> [T; 2] {
    let (x, y, z) = rising(a, n);
    let p = x * y * z;
    if !BOTH {
        return [few_sum::<T, F>((x, y, z), n) / p; 2];
    }
    let inv = T::lit(1.0) / p;
    let squares = few_sum::<T, F>((x * x, y * y, z * z), n);
    [few_sum::<T, F>((x, y, z), n) * inv, T::lit(0.0) - squares * (inv * inv)]
}

/// trigamma(a + n) − trigamma(a), as `lgamma_few`. Relative error 1e-15.
#[inline(always)]
pub(super) fn trigamma_few<T: Real, const F: bool, const BOTH: bool>(a: T, n: T) -> [T; 1] {
    let (x, y, z) = rising(a, n);
    let (x, y, z) = (x * x, y * y, z * z);
    [T::lit(0.0) - few_sum::<T, F>((x, y, z), n) / (x * y * z)]
}

/// The difference of order k = 0, 1 or 2 (as `polygamma_diff`) for any positive finite a and b = a + n.
/// Relative error 1e-14, absolute about its zeros.
pub(super) fn diff_far(k: u32, a: f64, n: f64) -> f64 {
    let b = a + n;
    let up = sel((a < BIG) | (b < BIG), 8, 0);
    let mut sum = 0.0;
    for i in 0..up {
        let (x, y) = (a + f64::from(i), b + f64::from(i));
        let t = n / x;
        sum += match k {
            0 if t < f64::INFINITY => -t.ln_1p(),
            0 => x.ln() - y.ln(),
            1 => t / y,
            _ => -(t / y) * (1.0 / x + 1.0 / y),
        };
    }
    let (a, b) = (a + f64::from(up), b + f64::from(up));
    let (t, ua, ub) = (n / a, 1.0 / a, 1.0 / b);
    let ends = Ends { prod: ua * ub, sum: ua + ub, p: ua * ua + ub * ub, q: (ua * ub) * (ua * ub) };
    let asym = match k {
        0 => {
            // Where n/a may underflow, its logarithm is n/a less half its square.
            let small = n * (1.0 - 0.5 * ua) * (1.0 - 0.5 * t);
            let first = if t.abs() < 1e-9 { small } else { (a - 0.5) * t.ln_1p() };
            first + n * ((b.ln() - 1.0) - ua * ub * ends.lgamma::<false>())
        }
        1 => t.ln_1p() + t * ub * ends.digamma::<false>(),
        _ => -(t * ub) * ends.trigamma::<false>(),
    };
    asym + sum
}
