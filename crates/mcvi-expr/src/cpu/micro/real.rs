//! The element types: bit tricks, constants and polynomials the generic lane code is written in.

use super::elementary;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// An element type of the kernels: `f32` or `f64`.
pub trait Real: Float + 'static {
    /// Elements per block: every length given to a kernel is a multiple of it (64 bytes).
    const LANES: usize;
}

impl Real for f32 {
    const LANES: usize = 16;
}

impl Real for f64 {
    const LANES: usize = 8;
}

/// `if cond { a } else { b }`, as a blend: written as a branch, the optimiser may duplicate what
/// follows into both arms, and then compute both for every lane.
#[inline(always)]
pub(super) fn sel<T: Copy>(cond: bool, a: T, b: T) -> T {
    std::hint::select_unpredictable(cond, a, b)
}

/// Σ c[i] xⁱ by Horner's rule.
#[inline(always)]
pub(super) fn horner<T: Float, const F: bool, const N: usize>(x: T, c: &[T; N]) -> T {
    let mut p = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        p = p.fma::<F>(x, c[i]);
    }
    p
}

/// What the lane code needs of a floating-point type. Everything here is branch-free and inlined.
///
/// The flag `F` says whether the code is compiled for a target with fused multiply-add.
pub trait Float:
    Copy
    + Send
    + Sync
    + PartialOrd
    + std::fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The signed integer of the same size.
    type Bits: Copy + Default + PartialOrd + std::ops::BitOr<Output = Self::Bits>;
    /// 1.5·2^(mantissa bits): adding it rounds to an integer held in the low bits.
    const MAGIC: Self;
    /// `MAGIC` plus the exponent bias, so that the low bits are a biased exponent.
    const MAGIC_BIAS: Self;
    /// High part of ln 2; its products with exponents are exact.
    const LN2_HI: Self;
    /// ln 2 minus `LN2_HI`.
    const LN2_LO: Self;
    /// exp overflows from here on (an argument is clamped to it).
    const EXP_HI: Self;
    /// exp rounds to zero up to here (an argument is clamped to it).
    const EXP_LO: Self;
    /// Smallest normal number.
    const MIN_NORMAL: Self;
    /// Largest finite number.
    const MAX: Self;
    /// Positive infinity.
    const INF: Self;
    /// A quiet NaN.
    const NAN: Self;
    /// erf is 1 from here on, as an offset from 2.
    const ERF_TOP: Self;
    /// From here on products of six powers of an argument are normal numbers.
    const LOW: Self;
    /// Random elements per Philox block.
    const PER_BLOCK: usize;

    /// A constant; folded at compile time.
    fn lit(x: f64) -> Self;
    /// Conversion to `f64`, exact.
    fn to_f64(self) -> f64;
    /// `self * b + c`, fused where `F` says so.
    fn fma<const F: bool>(self, b: Self, c: Self) -> Self;
    /// A negative number unless x is in [lo, hi], 0 ≤ lo; negative at NaN. Cheaper than comparisons.
    fn outside(self, lo: Self, hi: Self) -> Self::Bits;
    /// A negative number if |x| is above hi; negative at NaN.
    fn beyond(self, hi: Self) -> Self::Bits;
    /// |x|
    fn abs(self) -> Self;
    /// √x
    fn sqrt(self) -> Self;
    /// Largest integer not above x.
    fn floor<const F: bool>(self) -> Self;
    /// Magnitude of `self`, sign of `s`.
    fn copysign(self, s: Self) -> Self;
    /// 2^k for `self` = k + `MAGIC_BIAS`, k within the normal exponents (one below gives 0).
    fn pow2(self) -> Self;
    /// (k, m) with x = 2^k·m and m in [√½, √2), for positive normal x.
    fn split(self) -> (Self, Self);
    /// (k, 2^k·a) for positive normal b = `self` and a, the quotient of b and 2^k·a in [⅔, 1.502];
    /// k = 0 if b/a is in [0.75, 1.33].
    fn near_power(self, a: Self) -> (Self, Self);
    /// P of e^r = 1 + r + r²P(r), |r| ≤ ½ ln 2.
    fn exp_poly<const F: bool>(r: Self) -> Self;
    /// L of ln((1+s)/(1−s)) = 2s + s³L(s²), |s| ≤ 0.2004.
    fn ln_poly<const F: bool>(z: Self) -> Self;
    /// S of sin r = r + r³S(r²), |r| ≤ π/4.
    fn sin_poly<const F: bool>(z: Self) -> Self;
    /// C of cos r = 1 − r²/2 + r⁴C(r²), |r| ≤ π/4.
    fn cos_poly<const F: bool>(z: Self) -> Self;
    /// E of erf x = x + xE(x²), |x| ≤ 1.
    fn erf_poly<const F: bool>(z: Self) -> Self;
    /// ln erfc(2 + v), −1 ≤ v ≤ `ERF_TOP`.
    fn ln_erfc_poly<const F: bool>(v: Self) -> Self;
    /// (r, tail of r, q odd, q & 2) with x = q·π/2 + r, for |x| < 10⁵.
    fn trig_reduce<const F: bool>(self) -> (Self, Self, bool, bool);
    /// (q odd, q & 2) of an integer q = `self` − `MAGIC`.
    fn quadrant(self) -> (bool, bool);
    /// The standard library's functions, for the lanes off the fast path.
    fn std_sin(self) -> Self;
    /// As `std_sin`, for the cosine.
    fn std_cos(self) -> Self;
    /// As `std_sin`, for the power.
    fn std_pow(self, b: Self) -> Self;
    /// a^b for positive normal a and finite b; in `f64` only where `F`.
    fn pow_lane<const F: bool>(self, b: Self) -> Self;
    /// The uniform numbers in (0, 1) of a block's words; those past `PER_BLOCK` mean nothing.
    fn uniforms(w: [u32; 4]) -> [Self; 4];
    /// The (u, v) pairs in (0, 1] × (0, 1) that a block's normal numbers are made of.
    fn normal_pairs(w: [u32; 4]) -> [(Self, Self); 2];
}

/// Body shared by the two implementations: what differs only in names and literals.
macro_rules! common {
    ($t:ident, $bits:ident, $ints:ident, $shift:literal, $half:literal, $expo:literal, $off:literal) => {
        type Bits = $ints;
        const MIN_NORMAL: Self = $t::MIN_POSITIVE;
        const MAX: Self = $t::MAX;
        const INF: Self = $t::INFINITY;
        const NAN: Self = $t::NAN;

        #[inline(always)]
        fn lit(x: f64) -> Self {
            x as $t
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            f64::from(self)
        }
        #[inline(always)]
        fn fma<const F: bool>(self, b: Self, c: Self) -> Self {
            if F { self.mul_add(b, c) } else { self * b + c }
        }
        #[inline(always)]
        fn outside(self, lo: Self, hi: Self) -> $ints {
            // Of a negative number one of the two differences is negative, or wraps around to be.
            let x = self.to_bits() as $ints;
            x.wrapping_sub(lo.to_bits() as $ints) | (hi.to_bits() as $ints).wrapping_sub(x)
        }
        #[inline(always)]
        fn beyond(self, hi: Self) -> $ints {
            (hi.to_bits() as $ints).wrapping_sub(self.abs().to_bits() as $ints)
        }
        #[inline(always)]
        fn abs(self) -> Self {
            $t::abs(self)
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            $t::sqrt(self)
        }
        #[inline(always)]
        fn floor<const F: bool>(self) -> Self {
            if F {
                return $t::floor(self);
            }
            // Without a rounding instruction `floor` is a call: round by adding 2^mantissa.
            let a = self.abs();
            let r = ((a + $half) - $half).copysign(self);
            let r = r - sel(r > self, 1.0, 0.0);
            sel(a < $half, r.copysign(self), self)
        }
        #[inline(always)]
        fn copysign(self, s: Self) -> Self {
            $t::copysign(self, s)
        }
        #[inline(always)]
        fn pow2(self) -> Self {
            $t::from_bits(self.to_bits() << $shift)
        }
        #[inline(always)]
        fn split(self) -> (Self, Self) {
            const ONE: $bits = (1.0 as $t).to_bits();
            const MANT: $bits = (1 << $shift) - 1;
            const HALF_BITS: $bits = ($half as $t).to_bits();
            let i = self.to_bits().wrapping_add(ONE - $off);
            let k = $t::from_bits((i >> $shift) | HALF_BITS) - ($half + $expo);
            (k, $t::from_bits((i & MANT).wrapping_add($off)))
        }
        #[inline(always)]
        fn near_power(self, a: Self) -> (Self, Self) {
            const ONE: $bits = (1.0 as $t).to_bits();
            const HALF_BITS: $bits = ($half as $t).to_bits();
            // The bits of a number, as an integer, are its logarithm, linearly interpolated.
            let d = self.to_bits().wrapping_sub(a.to_bits()).wrapping_add(ONE + (1 << ($shift - 1))) >> $shift;
            let k = $t::from_bits(d | HALF_BITS) - ($half + $expo);
            (k, $t::from_bits(a.to_bits().wrapping_add(d << $shift).wrapping_sub(ONE)))
        }
        #[inline(always)]
        fn quadrant(self) -> (bool, bool) {
            let q = self.to_bits();
            (q & 1 != 0, q & 2 != 0)
        }
        fn std_sin(self) -> Self {
            self.sin()
        }
        fn std_cos(self) -> Self {
            self.cos()
        }
        fn std_pow(self, b: Self) -> Self {
            self.powf(b)
        }
    };
}

/// A polynomial method over a literal coefficient table, lowest order first.
macro_rules! poly {
    ($name:ident, $x:ident, [$($c:literal),* $(,)?]) => {
        #[inline(always)]
        fn $name<const F: bool>($x: Self) -> Self {
            horner::<Self, F, _>($x, &[$($c),*])
        }
    };
}

// The coefficients are minimax fits made with mpmath at 50 digits (iteratively reweighted least
// squares in a Chebyshev basis); the error of each, relative to its function, is below 2e-17
// (f64) and 5e-8 (f32, most below 6e-9).

impl Float for f64 {
    common!(f64, u64, i64, 52, 4503599627370496.0, 1023.0, 0x3fe6_a09e_0000_0000);

    const MAGIC: f64 = 6755399441055744.0;
    const MAGIC_BIAS: f64 = 6755399441055744.0 + 1023.0;
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const EXP_HI: f64 = 710.0;
    const EXP_LO: f64 = -746.0;
    const ERF_TOP: f64 = 3.95;
    const LOW: f64 = 1e-40;
    const PER_BLOCK: usize = 2;

    poly!(
        exp_poly,
        r,
        [
            0.5000000000000013,
            0.1666666666666669,
            0.04166666666651381,
            0.008333333333312072,
            0.0013888888947427242,
            0.00019841269907596375,
            2.4801489514864934e-05,
            2.755722454514685e-06,
            2.763143530397922e-07,
            2.5115373589079846e-08
        ]
    );
    poly!(
        ln_poly,
        z,
        [
            0.6666666666667291,
            0.3999999999605388,
            0.28571429414600125,
            0.2222213692685585,
            0.18186420470902592,
            0.1524890173159184,
            0.15378186543766556
        ]
    );
    poly!(
        sin_poly,
        z,
        [
            -0.16666666666666632,
            0.008333333333322313,
            -0.00019841269829723248,
            2.755731366147503e-06,
            -2.505075318437816e-08,
            1.589650079376196e-10
        ]
    );
    poly!(
        cos_poly,
        z,
        [
            0.0416666666666666,
            -0.0013888888888873986,
            2.4801587289392294e-05,
            -2.7557314325331123e-07,
            2.0875719469910973e-09,
            -1.1359444349178381e-11
        ]
    );
    poly!(
        erf_poly,
        z,
        [
            0.12837916709551256,
            -0.3761263890318355,
            0.11283791670945241,
            -0.026866170643274435,
            0.005223977607409633,
            -0.0008548325989068848,
            0.0001205529530267633,
            -1.4924744337833655e-05,
            1.6447513850079232e-06,
            -1.6209147910778212e-07,
            1.3722860331365006e-08,
            -7.800981307001408e-10
        ]
    );
    poly!(
        ln_erfc_poly,
        v,
        [
            -5.364941264616638,
            -4.418160805994417,
            -0.9237508418238051,
            -0.01646511813686376,
            0.0035707563461620595,
            -0.0007323993857340296,
            0.00013530933471693927,
            -2.070643262353429e-05,
            1.9521937714176636e-06,
            2.0364264296733626e-07,
            -1.7320478910095608e-07,
            5.779707331277365e-08,
            -1.3950725998504397e-08,
            2.539208172199802e-09,
            -2.7428202001119326e-10,
            -4.312238103831327e-11,
            3.7362136623257766e-11,
            -1.0104358050887282e-11,
            1.0377896263542439e-12
        ]
    );

    #[inline(always)]
    fn trig_reduce<const F: bool>(self) -> (f64, f64, bool, bool) {
        // π/2 in parts of 33 + 33 + 53 bits: the products with |q| < 2^20 are exact.
        const P1: f64 = 1.5707963267341256;
        const P2: f64 = 6.077100506303966e-11;
        const P3: f64 = 2.0222662487959506e-21;
        let t = self.fma::<F>(std::f64::consts::FRAC_2_PI, Self::MAGIC);
        let k = t - Self::MAGIC;
        let r0 = self - k * P1;
        let w1 = k * P2;
        let r = r0 - w1;
        // What r lost, and the third part.
        let w = k * P3 - ((r0 - r) - w1);
        let y = r - w;
        let (odd, two) = t.quadrant();
        (y, (r - y) - w, odd, two)
    }
    #[inline(always)]
    fn pow_lane<const F: bool>(self, b: f64) -> f64 {
        if F { elementary::pow_double(self, b) } else { f64::NAN }
    }
    #[inline(always)]
    fn uniforms(w: [u32; 4]) -> [f64; 4] {
        let (u, v) = (unit(w[0], w[1]), unit(w[2], w[3]));
        [u, v, u, v]
    }
    #[inline(always)]
    fn normal_pairs(w: [u32; 4]) -> [(f64, f64); 2] {
        let p = (unit(w[0], w[1]), unit(w[2], w[3]));
        [p, p]
    }
}

/// (2m + 1)·2⁻⁵³ with m the top 52 bits of hi:lo.
#[inline(always)]
fn unit(lo: u32, hi: u32) -> f64 {
    let m = ((u64::from(hi) << 32) | u64::from(lo)) >> 12;
    f64::from_bits(m | 1.0f64.to_bits()) - (1.0 - 1.110_223_024_625_156_5e-16)
}

impl Float for f32 {
    common!(f32, u32, i32, 23, 8388608.0, 127.0, 0x3f35_04f3);

    const MAGIC: f32 = 12582912.0;
    const MAGIC_BIAS: f32 = 12582912.0 + 127.0;
    const LN2_HI: f32 = 6.931_457_5e-1;
    const LN2_LO: f32 = 1.428_606_8e-6;
    const EXP_HI: f32 = 89.0;
    const EXP_LO: f32 = -104.0;
    const ERF_TOP: f32 = 2.0;
    const LOW: f32 = 1e-5;
    const PER_BLOCK: usize = 4;

    poly!(exp_poly, r, [0.5, 0.166_665_18, 0.041666206, 0.008_368_957, 0.001_395_056_8]);
    poly!(ln_poly, z, [0.666_669_5, 0.399_574_28, 0.303_690_85]);
    poly!(sin_poly, z, [-0.166_666_55, 0.008_332_173, -0.000_195_166_37]);
    poly!(cos_poly, z, [0.041_666_646, -0.001_388_736_1, 2.4437697e-05]);
    poly!(
        erf_poly,
        z,
        [0.128_379_17, -0.37612626, 0.112_836, -0.026_854_442, 0.005_189_533, -0.000_802_082, 7.889_05e-5]
    );
    poly!(
        ln_erfc_poly,
        v,
        [
            -5.364_941,
            -4.418_161,
            -0.923_751,
            -0.016_465_815,
            0.003_570_494_7,
            -0.000_730_226_8,
            0.000_137_722_19,
            -2.168_473_3e-5
        ]
    );

    #[inline(always)]
    fn trig_reduce<const F: bool>(self) -> (f32, f32, bool, bool) {
        let (r, _, odd, two) = f64::from(self).trig_reduce::<F>();
        (r as f32, 0.0, odd, two)
    }
    #[inline(always)]
    fn pow_lane<const F: bool>(self, b: f32) -> f32 {
        let l = elementary::ln_normal::<f64, F>(f64::from(self));
        elementary::exp::<f64, F>(f64::from(b) * l) as f32
    }
    #[inline(always)]
    fn uniforms(w: [u32; 4]) -> [f32; 4] {
        [unit32(w[0]), unit32(w[1]), unit32(w[2]), unit32(w[3])]
    }
    #[inline(always)]
    fn normal_pairs(w: [u32; 4]) -> [(f32, f32); 2] {
        // All 32 bits of the radius's word: near 0, where the tail is made, they all count.
        let u = |w: u32| (w as f32 + 0.5) * 2.328_306_4e-10;
        [(u(w[0]), unit32(w[1])), (u(w[2]), unit32(w[3]))]
    }
}

/// (2m + 1)·2⁻²⁴ with m the top 23 bits.
#[inline(always)]
fn unit32(w: u32) -> f32 {
    f32::from_bits((w >> 9) | 1.0f32.to_bits()) - (1.0 - 5.960_464_5e-8)
}
