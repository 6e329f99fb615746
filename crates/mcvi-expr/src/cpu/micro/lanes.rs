//! What operations do to one lane, where it does not fit in a row of [`crate::table`].

use super::loops::Lane;
use super::real::{Real, sel};
use super::{elementary as e, gamma, scalar};

/// a·b + c.
pub(super) struct MulAdd;

impl<T: Real> Lane<T> for MulAdd {
    const ARITY: usize = 3;
    #[inline(always)]
    fn full<const F: bool>(a: T, b: T, c: T) -> [T; 1] {
        [a.fma::<F>(b, c)]
    }
}

/// Whether x is NaN.
#[inline(always)]
#[allow(clippy::eq_op)]
pub(super) fn is_nan<T: Real>(x: T) -> bool {
    x != x
}

/// Functions whose fast path ends at |x| = 10⁵.
macro_rules! trig {
    ($($name:ident, $f:ident, $std:ident;)*) => {$(
        pub(super) struct $name;
        impl<T: Real> Lane<T> for $name {
            const ARITY: usize = 1;
            const ODD: bool = true;
            #[inline(always)]
            fn full<const F: bool>(a: T, _: T, _: T) -> [T; 1] {
                [e::$f::<T, F>(a)]
            }
            #[inline(always)]
            fn odd(a: T, _: T) -> T::Bits {
                a.beyond(T::lit(1e5))
            }
            fn fix(a: T, _: T) -> [T; 1] {
                [a.$std()]
            }
        }
    )*};
}

trig! {
    Sin, sin, std_sin;
    Cos, cos, std_cos;
}

/// The power of a positive normal number; the rest by the standard library.
pub(super) struct Pow;

impl<T: Real> Lane<T> for Pow {
    const ARITY: usize = 2;
    const ODD: bool = true;
    #[inline(always)]
    fn full<const F: bool>(a: T, b: T, _: T) -> [T; 1] {
        [a.pow_lane::<F>(b)]
    }
    #[inline(always)]
    fn odd(a: T, b: T) -> T::Bits {
        a.outside(T::MIN_NORMAL, T::MAX) | b.beyond(T::MAX)
    }
    fn fix(a: T, b: T) -> [T; 1] {
        [a.std_pow(b)]
    }
}

/// The results of a lane that was computed in `f64` along with others: an easy one gets its fast
/// form, which in `f32` is another number, so that no result depends on the other lanes. (In `f64`
/// the two forms agree to the bit.)
#[inline(always)]
fn settle<T: Real, L: Lane<T, W>, const F: bool, const W: usize>(a: T, b: T, wide: [f64; W]) -> [T; W] {
    let mut r = wide.map(T::lit);
    if T::LANES != f64::LANES {
        let easy = L::hard(a, b) >= T::Bits::default();
        let fast = L::fast::<F>(a, b, a);
        for w in 0..W {
            r[w] = sel(easy, fast[w], r[w]);
        }
    }
    r
}

/// lgamma and the first two polygammas; in f64 unless the whole chunk is easy.
macro_rules! gammas {
    ($($name:ident, $f:ident, $asym:ident;)*) => {$(
        pub(super) struct $name;
        impl<T: Real> Lane<T> for $name {
            const ARITY: usize = 1;
            const EASY: bool = true;
            const ODD: bool = true;
            #[inline(always)]
            fn full<const F: bool>(a: T, _: T, _: T) -> [T; 1] {
                settle::<T, Self, F, 1>(a, a, [gamma::$f::<F>(a.to_f64())])
            }
            #[inline(always)]
            fn hard(a: T, _: T) -> T::Bits {
                a.outside(T::lit(gamma::BIG), T::MAX)
            }
            #[inline(always)]
            fn fast<const F: bool>(a: T, _: T, _: T) -> [T; 1] {
                [gamma::$asym::<T, F>(a)]
            }
            #[inline(always)]
            fn odd(a: T, _: T) -> T::Bits {
                a.outside(at_least(gamma::TINY), T::MAX)
            }
            fn fix(a: T, _: T) -> [T; 1] {
                [T::lit(scalar::$f(a.to_f64()))]
            }
        }
    )*};
}

gammas! {
    Lgamma, lgamma, lgamma_asym;
    Digamma, digamma, digamma_asym;
    Trigamma, trigamma, trigamma_asym;
}

/// The first `W` of x.
#[inline(always)]
fn firsts<T: Copy, const V: usize, const W: usize>(x: [T; V]) -> [T; W] {
    let mut r = [x[0]; W];
    r.copy_from_slice(&x[..W]);
    r
}

/// Their differences, of orders k to k + w − 1; in f64 unless the whole chunk is easy. (A form may come
/// with one order more, which the optimiser drops where it is not used.)
macro_rules! gamma_diffs {
    ($($name:ident, $k:literal, $w:literal, $f:ident, $asym:ident, $few:ident;)*) => {$(
        pub(super) struct $name;
        impl<T: Real> Lane<T, $w> for $name {
            const ARITY: usize = 2;
            const FEW: bool = true;
            const EASY: bool = true;
            const ODD: bool = true;
            #[inline(always)]
            fn full<const F: bool>(a: T, n: T, _: T) -> [T; $w] {
                let wide = gamma::$f::<F, { $w > 1 }>(a.to_f64(), n.to_f64());
                settle::<T, Self, F, $w>(a, n, firsts(wide))
            }
            #[inline(always)]
            fn few(a: T, n: T) -> bool {
                let whole = (n + T::MAGIC) - T::MAGIC == n;
                whole & (n >= T::lit(0.0)) & (n <= T::lit(3.0)) & (a >= T::LOW) & (a < T::lit(gamma::BIG))
            }
            #[inline(always)]
            fn brief<const F: bool>(a: T, n: T) -> [T; $w] {
                firsts(gamma::$few::<T, F, { $w > 1 }>(a, n))
            }
            #[inline(always)]
            fn hard(a: T, n: T) -> T::Bits {
                let high = T::lit(if T::LANES == f64::LANES { gamma::DIFF_HIGH } else { 1e12 });
                a.outside(T::lit(gamma::BIG), high) | (a + n).outside(T::lit(gamma::BIG), high)
            }
            #[inline(always)]
            fn fast<const F: bool>(a: T, n: T, _: T) -> [T; $w] {
                firsts(gamma::$asym::<T, F>(a, a + n, n))
            }
            #[inline(always)]
            fn odd(a: T, n: T) -> T::Bits {
                let (low, high) = (at_least(gamma::DIFF_LOW), T::lit(gamma::DIFF_HIGH));
                a.outside(low, high) | (a + n).outside(low, high)
            }
            fn fix(a: T, n: T) -> [T; $w] {
                let mut r = [a; $w];
                for (w, r) in r.iter_mut().enumerate() {
                    *r = T::lit(scalar::polygamma_diff($k + w as u32, a.to_f64(), n.to_f64()));
                }
                r
            }
        }
    )*};
}

gamma_diffs! {
    LgammaDiff, 0, 1, lgamma_diff, lgamma_diff_asym, lgamma_few;
    DigammaDiff, 1, 1, digamma_diff, digamma_diff_asym, digamma_few;
    TrigammaDiff, 2, 1, trigamma_diff, trigamma_diff_asym, trigamma_few;
    LgammaPair, 0, 2, lgamma_diff, lgamma_diff_asym, lgamma_few;
    DigammaPair, 1, 2, digamma_diff, digamma_diff_asym, digamma_few;
}

/// The softplus and the sigmoid.
pub(super) struct SoftplusPair;

impl<T: Real> Lane<T, 2> for SoftplusPair {
    const ARITY: usize = 1;
    #[inline(always)]
    fn full<const F: bool>(a: T, _: T, _: T) -> [T; 2] {
        e::softplus_sigmoid::<T, F>(a)
    }
}

/// x, or the smallest positive number where x is below it.
#[inline(always)]
fn at_least<T: Real>(x: f64) -> T {
    T::lit(if T::LANES == f64::LANES { x } else { 1.5e-45 })
}

/// ψ⁽ᴷ⁾ in scalar code.
pub(super) struct Poly<const K: u32>;

impl<T: Real, const K: u32> Lane<T> for Poly<K> {
    const ARITY: usize = 1;
    #[inline(always)]
    fn full<const F: bool>(a: T, _: T, _: T) -> [T; 1] {
        [a]
    }
    fn fix(a: T, _: T) -> [T; 1] {
        [T::lit(scalar::polygamma(K, a.to_f64()))]
    }
}

/// ψ⁽ᴷ⁻¹⁾(a + n) − ψ⁽ᴷ⁻¹⁾(a) in scalar code.
pub(super) struct PolyDiff<const K: u32>;

impl<T: Real, const K: u32> Lane<T> for PolyDiff<K> {
    const ARITY: usize = 2;
    #[inline(always)]
    fn full<const F: bool>(a: T, _: T, _: T) -> [T; 1] {
        [a]
    }
    fn fix(a: T, n: T) -> [T; 1] {
        [T::lit(scalar::polygamma_diff(K, a.to_f64(), n.to_f64()))]
    }
}
