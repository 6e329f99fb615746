//! Elementary functions of one lane: exp, ln and their relatives, generic over the type.
//!
//! Branch-free (the vectoriser turns a loop over them into packed code). Each takes the flag `F`:
//! fused multiply-add available. Errors stated are the largest
//! found for `f64` (thousands of points against mpmath) and `f32` (one float in 37 of all there
//! are, against the `f64` form), over all levels.

use super::real::{Float, Real, horner, sel};

/// x limited to [lo, hi]; NaN stays.
#[inline(always)]
fn clamp<T: Real>(x: T, lo: T, hi: T) -> T {
    let x = sel(x > hi, hi, x);
    sel(x < lo, lo, x)
}

/// (k, r) with x = k·ln 2 + r, |r| ≤ ½ ln 2.
#[inline(always)]
fn reduce<T: Real, const F: bool>(x: T) -> (T, T) {
    let t = x.fma::<F>(T::lit(std::f64::consts::LOG2_E), T::MAGIC);
    let k = t - T::MAGIC;
    let r = (-k).fma::<F>(T::LN2_HI, x);
    (k, (-k).fma::<F>(T::LN2_LO, r))
}

/// e^x; subnormal results are right, overflow gives inf. Error 0.9 ulp, `f32` 1.1.
#[inline(always)]
pub(super) fn exp<T: Real, const F: bool>(x: T) -> T {
    let (k, r) = reduce::<T, F>(clamp(x, T::EXP_LO, T::EXP_HI));
    exp_core::<T, F>(k, r)
}

/// 2^k·e^r.
#[inline(always)]
fn exp_core<T: Real, const F: bool>(k: T, r: T) -> T {
    let p = (r * r).fma::<F>(T::exp_poly::<F>(r), r) + T::lit(1.0);
    // 2^k in two factors: k may lie outside the normal exponents.
    let t1 = k.fma::<F>(T::lit(0.5), T::MAGIC_BIAS);
    let t2 = (k - (t1 - T::MAGIC_BIAS)) + T::MAGIC_BIAS;
    p * t1.pow2() * t2.pow2()
}

/// e^x − 1. Error 1.7 ulp, `f32` 1.7.
#[inline(always)]
pub(super) fn expm1<T: Real, const F: bool>(x: T) -> T {
    let (k, r) = reduce::<T, F>(clamp(x, T::lit(-50.0), T::EXP_HI));
    let q = (r * r).fma::<F>(T::exp_poly::<F>(r), r);
    // Half of 2^k, since 2^k itself may overflow where the result does not.
    let s = ((k - T::lit(1.0)) + T::MAGIC_BIAS).pow2();
    let h = s.fma::<F>(q, s - T::lit(0.5));
    (h + h).copysign(x)
}

/// k·ln 2 + ln(1 + f), f in [√½ − 1, √2 − 1].
#[inline(always)]
fn ln_core<T: Real, const F: bool>(k: T, f: T) -> T {
    let s = f / (T::lit(2.0) + f);
    let z = s * s;
    let h = T::lit(0.5) * f * f;
    let t = s * z.fma::<F>(T::ln_poly::<F>(z), h);
    k.fma::<F>(T::LN2_HI, f - (h - k.fma::<F>(T::LN2_LO, t)))
}

/// ln x for positive normal finite x.
#[inline(always)]
pub(super) fn ln_normal<T: Real, const F: bool>(x: T) -> T {
    let (k, m) = x.split();
    ln_core::<T, F>(k, m - T::lit(1.0))
}

/// ln x: −inf at 0, NaN below. Error 0.8 ulp, `f32` 0.9.
#[inline(always)]
pub(super) fn ln<T: Real, const F: bool>(x: T) -> T {
    let tiny = x < T::MIN_NORMAL;
    let (k, m) = sel(tiny, x * T::lit(18014398509481984.0), x).split();
    let k = k - sel(tiny, T::lit(54.0), T::lit(0.0));
    let r = ln_core::<T, F>(k, m - T::lit(1.0));
    let edge = sel(x == T::INF, x, sel(x == T::lit(0.0), -T::INF, T::NAN));
    sel((x > T::lit(0.0)) & (x < T::INF), r, edge)
}

/// ln(1 + x): −inf at −1, NaN below. Error 1.0 ulp, `f32` 1.4.
#[inline(always)]
pub(super) fn log1p<T: Real, const F: bool>(x: T) -> T {
    let one = T::lit(1.0);
    let u = one + x;
    let (k, m) = u.split();
    // What rounding 1 + x lost, brought to the scale of m.
    let c = sel(x > one, one - (u - x), x - (u - one));
    // (c is at most 1 where k is large; there it does not matter how little it counts.)
    let down = sel(k > T::lit(64.0), T::lit(64.0), k);
    let f = c.fma::<F>((T::MAGIC_BIAS - down).pow2(), m - one);
    let r = ln_core::<T, F>(k, f).copysign(x);
    let edge = sel(x == T::INF, x, sel(x == -one, -T::INF, T::NAN));
    sel((x > -one) & (x < T::INF), r, edge)
}

/// a^b for positive normal a and finite b, by a logarithm of twice the precision. Only worth its
/// cost (and only right) with fused multiply-add. Error 1.1 ulp.
#[inline(always)]
pub(super) fn pow_double(a: f64, b: f64) -> f64 {
    /// Q of ln((1+s)/(1−s)) = 2s + s³(2/3 + s²Q(s²)); fit error 4e-20.
    const Q: [f64; 7] = [
        0.4000000000000227,
        0.2857142857009231,
        0.22222222521250007,
        0.18181784247253738,
        0.15386763048960655,
        0.1325667988277401,
        0.13197651561110377,
    ];
    const THIRDS: f64 = 2.0 / 3.0;
    /// 2/3 − THIRDS
    const THIRDS_LO: f64 = 3.700743415417188e-17;
    let (k, m) = a.split();
    // s = (m − 1)/(m + 1), as s + sl; every following x likewise has its tail xl.
    let d = 1.0 + m;
    let dl = m - (d - 1.0);
    let f = m - 1.0;
    let inv = 1.0 / d;
    let s = f * inv;
    let sl = (-s).mul_add(dl, (-s).mul_add(d, f)) * inv;
    let z = s * s;
    let zl = (2.0 * s).mul_add(sl, s.mul_add(s, -z));
    let p = z * horner::<f64, true, 7>(z, &Q);
    let l = THIRDS + p;
    let ll = ((THIRDS - l) + p) + THIRDS_LO;
    let t = z * l;
    let tl = z.mul_add(l, -t) + z.mul_add(ll, zl * l);
    let u = s * t;
    let ul = s.mul_add(t, -u) + s.mul_add(tl, sl * t);
    // k ln 2 + 2s + u, from the largest down.
    let (base, twice) = (k * f64::LN2_HI, 2.0 * s);
    let h1 = base + twice;
    let h = h1 + u;
    let lost = ((base - h1) + twice) + ((h1 - h) + u);
    let tail = k.mul_add(f64::LN2_LO, lost + (2.0f64.mul_add(sl, ul)));
    let hi = h + tail;
    let lo = (h - hi) + tail;
    let y = b * hi;
    let yl = b.mul_add(hi, -y) + b * lo;
    let (k, r) = reduce::<f64, true>(clamp(y, f64::EXP_LO, f64::EXP_HI));
    exp_core::<f64, true>(k, r + sel(y.abs() < 1000.0, yl, 0.0))
}

/// ln(1 + e^x). Error 1.4 ulp, `f32` 1.7, relative also where the result is tiny.
#[inline(always)]
pub(super) fn softplus<T: Real, const F: bool>(x: T) -> T {
    softplus_of::<T, F>(x, exp::<T, F>(-x.abs()))
}

/// The same given t = e^−|x|.
#[inline(always)]
fn softplus_of<T: Real, const F: bool>(x: T, t: T) -> T {
    let (zero, one, half) = (T::lit(0.0), T::lit(1.0), T::lit(0.5));
    // log1p on [0, 1]: halve 1 + t above √2.
    let big = t > T::lit(std::f64::consts::SQRT_2 - 1.0);
    let l = ln_core::<T, F>(sel(big, one, zero), sel(big, (t - one) * half, t));
    sel(x > zero, x, zero) + l
}

/// 1/(1 + e^−x). Error 1.5 ulp, `f32` 2.4, relative also where the result is tiny.
#[inline(always)]
pub(super) fn sigmoid<T: Real, const F: bool>(x: T) -> T {
    sigmoid_of(x, exp::<T, F>(-x.abs()))
}

/// The same given t = e^−|x|.
#[inline(always)]
fn sigmoid_of<T: Real>(x: T, t: T) -> T {
    sel(x < T::lit(0.0), t, T::lit(1.0)) / (T::lit(1.0) + t)
}

/// The softplus and the sigmoid, with the same bits as one by one.
#[inline(always)]
pub(super) fn softplus_sigmoid<T: Real, const F: bool>(x: T) -> [T; 2] {
    let t = exp::<T, F>(-x.abs());
    [softplus_of::<T, F>(x, t), sigmoid_of(x, t)]
}

/// tanh x. Error 2.0 ulp, `f32` 2.6.
#[inline(always)]
pub(super) fn tanh<T: Real, const F: bool>(x: T) -> T {
    let a = x.abs();
    let a = sel(a > T::lit(20.0), T::lit(20.0), a);
    let e = expm1::<T, F>(a + a);
    (e / (e + T::lit(2.0))).copysign(x)
}

/// The inverse tangent, by Cephes' rational function up to 0.66 and reflections beyond.
#[inline(always)]
pub(super) fn atan<T: Real, const F: bool>(x: T) -> T {
    const P: [f64; 5] =
        [-64.85021904942025, -122.88666844901361, -75.00855792314705, -16.157537187333652, -0.8750608600031904];
    const Q: [f64; 6] =
        [194.5506571482614, 485.3903996359137, 432.88106049129027, 165.02700983169885, 24.858464901423062, 1.0];
    let (zero, one) = (T::lit(0.0), T::lit(1.0));
    let a = x.abs();
    // Beyond tan 3π/8: π/2 − atan 1/a; beyond 0.66: π/4 + atan (a − 1)/(a + 1). The sums have their tails.
    let (far, middle) = (a > T::lit(2.414213562373095), a > T::lit(0.66));
    let t = sel(far, -one, sel(middle, a - one, a)) / sel(far, a, sel(middle, a + one, one));
    let z = t * t;
    let ratio = z * horner::<T, F, 5>(z, &P.map(T::lit)) / horner::<T, F, 6>(z, &Q.map(T::lit));
    let turn = sel(far, T::lit(std::f64::consts::FRAC_PI_2), sel(middle, T::lit(std::f64::consts::FRAC_PI_4), zero));
    let tail = sel(far, T::lit(6.123233995736766e-17), sel(middle, T::lit(3.061616997868383e-17), zero));
    (turn + (t.fma::<F>(ratio, tail) + t)).copysign(x)
}

/// (sin, cos) of r + tail, |r| ≤ π/4.
#[inline(always)]
pub(super) fn sincos_core<T: Real, const F: bool>(r: T, tail: T) -> (T, T) {
    let (one, half) = (T::lit(1.0), T::lit(0.5));
    let z = r * r;
    let s = r + (z * r).fma::<F>(T::sin_poly::<F>(z), tail - half * z * tail);
    let hz = half * z;
    let w = one - hz;
    let c = w + (((one - w) - hz) + (z * z).fma::<F>(T::cos_poly::<F>(z), -(r * tail)));
    (s, c)
}

/// sin x for |x| < 10⁵. Error 0.7 ulp, `f32` 1.6.
#[inline(always)]
pub(super) fn sin<T: Real, const F: bool>(x: T) -> T {
    let (r, tail, odd, two) = x.trig_reduce::<F>();
    let (s, c) = sincos_core::<T, F>(r, tail);
    let v = sel(odd, c, s);
    sel(x == T::lit(0.0), x, sel(two, -v, v))
}

/// cos x for |x| < 10⁵. Error 0.7 ulp, `f32` 1.6.
#[inline(always)]
pub(super) fn cos<T: Real, const F: bool>(x: T) -> T {
    let (r, tail, odd, two) = x.trig_reduce::<F>();
    let (s, c) = sincos_core::<T, F>(r, tail);
    let v = sel(odd, s, c);
    sel(odd != two, -v, v)
}

/// erf x. Error 1.7 ulp, `f32` 1.9.
#[inline(always)]
pub(super) fn erf<T: Real, const F: bool>(x: T) -> T {
    let one = T::lit(1.0);
    let a = x.abs();
    let small = a.fma::<F>(T::erf_poly::<F>(a * a), a);
    let v = a - T::lit(2.0);
    let v = sel(v > T::ERF_TOP, T::ERF_TOP, v);
    let large = one - exp::<T, F>(T::ln_erfc_poly::<F>(v));
    sel(a < one, small, large).copysign(x)
}

/// erfcx a = e^(a²)·erfc a for a ≥ 0: (1 + 2a)·erfcx a is a polynomial of t = (a − 3.5)/(a + 3.5), which is in [−1, 1].
#[inline(always)]
fn erfcx_core<T: Real, const F: bool>(a: T) -> T {
    /// Interpolation at Chebyshev nodes made with mpmath; relative error 1.1e-17.
    const DOUBLE: [f64; 25] = [
        1.2423492448711544,
        -0.1400091801376197,
        -0.010555596332218569,
        0.09751909515328706,
        -0.11508959816017852,
        0.08798315382403678,
        -0.04882332582812556,
        0.019099330953271165,
        -0.004215019906373612,
        -0.0003022679534333239,
        0.000564384418191686,
        -0.00012151212091980101,
        -4.278228563287069e-05,
        2.4260300984917994e-05,
        2.328626178388271e-06,
        -3.814012584490695e-06,
        -4.5143146280953446e-08,
        6.014823849950426e-07,
        -6.466973089768061e-09,
        -9.64004253144383e-08,
        -7.57017975707362e-10,
        1.3624442778701048e-08,
        6.021972015439118e-10,
        -1.1656687889203665e-09,
        -9.029888342508032e-11,
    ];
    /// The same; relative error 3.2e-9.
    const SINGLE: [f64; 13] = [
        1.2423493,
        -0.14000922,
        -0.010555621,
        0.0975204,
        -0.11508919,
        0.08797247,
        -0.048825767,
        0.019137133,
        -0.004207996,
        -0.00036867568,
        0.0005539717,
        -6.25224e-05,
        -3.505493e-05,
    ];
    let one = T::lit(1.0);
    // From there on t is 1.
    let b = sel(a > T::lit(1e17), T::lit(1e17), a);
    let t = (b - T::lit(3.5)) / (b + T::lit(3.5));
    let p = if T::LANES == f64::LANES {
        horner::<T, F, 25>(t, &DOUBLE.map(T::lit))
    } else {
        horner::<T, F, 13>(t, &SINGLE.map(T::lit))
    };
    p / (one + (a + a))
}

/// (a², what rounding it lost), for a < 100.
#[inline(always)]
fn square_exact<T: Real, const F: bool>(a: T) -> (T, T) {
    let s = a * a;
    if F {
        return (s, a.fma::<F>(a, -s));
    }
    // Veltkamp's splitting: products of halves are exact.
    let c = a * T::lit(if T::LANES == f64::LANES { 134217729.0 } else { 4097.0 });
    let hi = c - (c - a);
    let lo = a - hi;
    (s, ((hi * hi - s) + (hi + hi) * lo) + lo * lo)
}

/// erfc x = 1 − erf x, relative also where it is tiny. Error 2.9 ulp, `f32` 3.6.
#[inline(always)]
pub(super) fn erfc<T: Real, const F: bool>(x: T) -> T {
    // From there on the result is 0, or 2.
    let top = T::lit(if T::LANES == f64::LANES { 28.0 } else { 11.0 });
    let a = x.abs();
    let a = sel(a > top, top, a);
    let (s, lost) = square_exact::<T, F>(a);
    let e = exp::<T, F>(-s);
    let r = (e - e * lost) * erfcx_core::<T, F>(a);
    sel(x < T::lit(0.0), T::lit(2.0) - r, r)
}

/// erfcx x = e^(x²)·erfc x; inf where that overflows. Error 2.3 ulp, `f32` 3.6.
#[inline(always)]
pub(super) fn erfcx<T: Real, const F: bool>(x: T) -> T {
    let a = x.abs();
    let r = erfcx_core::<T, F>(a);
    // Of negative numbers: 2e^(x²) − erfcx |x|.
    let top = T::lit(if T::LANES == f64::LANES { 28.0 } else { 11.0 });
    let (s, lost) = square_exact::<T, F>(sel(a > top, top, a));
    let e = exp::<T, F>(s);
    let e = sel(e < T::INF, e + e * lost, e);
    sel(x < T::lit(0.0), (e + e) - r, r)
}

/// ln erfc x, which is finite wherever x² is. Error 2.3 ulp, `f32` 2.8.
#[inline(always)]
pub(super) fn log_erfc<T: Real, const F: bool>(x: T) -> T {
    let (one, half) = (T::lit(1.0), T::lit(0.5));
    let a = x.abs();
    let large = x >= half;
    // ln(1 − erf x) up to ½, ln(erfcx x) − x² from there on: both by one log1p.
    let scaled = erfcx_core::<T, F>(a);
    // Below this, ln(erfcx x) is lost beside x².
    let least = T::lit(if T::LANES == f64::LANES { 1e-12 } else { 1e-6 });
    let scaled = sel(scaled < least, least, scaled);
    let l = log1p::<T, F>(sel(large, scaled - one, -erf::<T, F>(x)));
    sel(large, (-a).fma::<F>(a, l), l)
}

/// √(−2 ln u)·(cos 2πv, sin 2πv): two normal numbers of u in (0, 1] and v in (0, 1).
#[inline(always)]
pub(super) fn box_muller<T: Real, const F: bool>(u: T, v: T) -> (T, T) {
    let radius = (T::lit(-2.0) * ln_normal::<T, F>(u)).abs().sqrt();
    // Quarter turns taken off v itself, exactly.
    let t = v.fma::<F>(T::lit(4.0), T::MAGIC);
    let f = (-(t - T::MAGIC)).fma::<F>(T::lit(0.25), v);
    let (s, c) = sincos_core::<T, F>(f * T::lit(std::f64::consts::TAU), T::lit(0.0));
    let (odd, two) = t.quadrant();
    let (x, y) = (sel(odd, s, c), sel(odd, c, s));
    (radius * sel(odd != two, -x, x), radius * sel(two, -y, y))
}
