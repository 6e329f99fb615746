//! The loops around the lane functions, and the choice of loop by operation and level.

use super::lanes::*;
use super::real::Real;
use super::{Level, MicroOp};
use std::mem::MaybeUninit;

/// A kernel: writes `dst[i]` from `a[i]`, `b[i]`, `c[i]` for i < n.
pub type Micro<T> = unsafe fn(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize);

/// Elements worked on at a time by the loops of the expensive functions.
const CHUNK: usize = 64;

/// What one lane does. `F`: fused multiply-add available.
pub(super) trait Lane<T: Real> {
    /// Operands read; the pointers of the others are never followed.
    const ARITY: usize;
    /// Whether a cheaper form, with the same results, serves chunks whose lanes are all `easy`.
    const EASY: bool = false;
    /// Whether some lanes are `odd`, redone in scalar code.
    const ODD: bool = false;

    /// The function.
    fn full<const F: bool>(a: T, b: T, c: T) -> T;
    /// Whether `fast` is right for this lane.
    #[inline(always)]
    fn easy(_a: T, _b: T) -> bool {
        true
    }
    /// The function where every lane is easy.
    #[inline(always)]
    fn fast<const F: bool>(a: T, b: T, c: T) -> T {
        Self::full::<F>(a, b, c)
    }
    /// Whether the lane needs `fix`.
    #[inline(always)]
    fn odd(_a: T, _b: T) -> bool {
        false
    }
    /// The function for odd lanes.
    fn fix(a: T, _b: T) -> T {
        a
    }
}

/// A whole kernel body, to be compiled once per level.
trait Kernel<T: Real> {
    /// # Safety
    /// As for [`Micro`].
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize);
}

/// Loop of a cheap function: one vector of each operand at a time, in arrays held by value.
struct Light<L>(L);

/// # Safety
/// As for [`Micro`]; n a multiple of `N`.
#[inline(always)]
unsafe fn light<T: Real, L: Lane<T>, const F: bool, const N: usize>(
    dst: *mut T,
    a: *const T,
    b: *const T,
    c: *const T,
    n: usize,
) {
    let mut i = 0;
    while i < n {
        // SAFETY: i + N ≤ n, and operands past ARITY are not touched; all loads precede the
        // store, so that dst may be one of the operands.
        unsafe {
            let x = a.add(i).cast::<[T; N]>().read_unaligned();
            let y = if L::ARITY > 1 { b.add(i).cast::<[T; N]>().read_unaligned() } else { x };
            let z = if L::ARITY > 2 { c.add(i).cast::<[T; N]>().read_unaligned() } else { x };
            let mut r = x;
            for j in 0..N {
                r[j] = L::full::<F>(x[j], y[j], z[j]);
            }
            dst.add(i).cast::<[T; N]>().write_unaligned(r);
        }
        i += N;
    }
}

impl<T: Real, L: Lane<T>> Kernel<T> for Light<L> {
    #[inline(always)]
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
        // SAFETY: the caller's promise; n is a multiple of LANES.
        unsafe {
            if T::LANES == 16 {
                light::<T, L, F, 16>(dst, a, b, c, n);
            } else {
                light::<T, L, F, 8>(dst, a, b, c, n);
            }
        }
    }
}

/// Loop of an expensive function: a chunk at a time into a local buffer, which no operand aliases
/// (so that the loop is vectorised), then copied out.
struct Heavy<L>(L);

impl<T: Real, L: Lane<T>> Kernel<T> for Heavy<L> {
    #[inline(always)]
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
        let mut buf = [MaybeUninit::<T>::uninit(); CHUNK];
        let out = buf.as_mut_ptr().cast::<T>();
        let mut start = 0;
        while start < n {
            let m = (n - start).min(CHUNK) / T::LANES * T::LANES;
            // SAFETY: start + m ≤ n and m ≤ CHUNK; operands past ARITY are not touched.
            unsafe {
                let a = a.add(start);
                let b = if L::ARITY > 1 { b.add(start) } else { a };
                let c = if L::ARITY > 2 { c.add(start) } else { a };
                let easy = L::EASY && {
                    let mut hard = 0u64;
                    for j in 0..m {
                        hard |= u64::from(!L::easy(*a.add(j), *b.add(j)));
                    }
                    hard == 0
                };
                if easy {
                    for j in 0..m {
                        *out.add(j) = L::fast::<F>(*a.add(j), *b.add(j), *c.add(j));
                    }
                } else {
                    for j in 0..m {
                        *out.add(j) = L::full::<F>(*a.add(j), *b.add(j), *c.add(j));
                    }
                    if L::ODD {
                        redo::<T, L>(out, a, b, m);
                    }
                }
                std::ptr::copy_nonoverlapping(out, dst.add(start), m);
            }
            start += m;
        }
    }
}

/// Redoes the odd lanes of a chunk.
///
/// # Safety
/// All three pointers valid for m elements.
#[inline(always)]
unsafe fn redo<T: Real, L: Lane<T>>(out: *mut T, a: *const T, b: *const T, m: usize) {
    // SAFETY: j < m.
    unsafe {
        let mut any = 0u64;
        for j in 0..m {
            any |= u64::from(L::odd(*a.add(j), *b.add(j)));
        }
        if any != 0 {
            for j in 0..m {
                if L::odd(*a.add(j), *b.add(j)) {
                    *out.add(j) = L::fix(*a.add(j), *b.add(j));
                }
            }
        }
    }
}

/// Loop of a scalar function.
struct Plain<L>(L);

impl<T: Real, L: Lane<T>> Kernel<T> for Plain<L> {
    #[inline(always)]
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, _: *const T, n: usize) {
        for j in 0..n {
            // SAFETY: j < n, and b is followed only if it is an operand.
            unsafe {
                let x = *a.add(j);
                let y = if L::ARITY > 1 { *b.add(j) } else { x };
                *dst.add(j) = L::fix(x, y);
            }
        }
    }
}

/// # Safety
/// As for [`Micro`].
unsafe fn baseline<T: Real, K: Kernel<T>>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<{ super::BASE_FMA }>(dst, a, b, c, n) }
}

/// # Safety
/// As for [`Micro`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<T: Real, K: Kernel<T>>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<true>(dst, a, b, c, n) }
}

/// # Safety
/// As for [`Micro`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<T: Real, K: Kernel<T>>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<true>(dst, a, b, c, n) }
}

fn pick<T: Real, K: Kernel<T>>(level: Level) -> Micro<T> {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => avx512::<T, K>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => avx2::<T, K>,
        _ => baseline::<T, K>,
    }
}

/// The kernel of the scalar order `k`, one instance each (a kernel has no room for a parameter).
macro_rules! order {
    ($k:expr, $kind:ident, $what:literal, [$($n:literal)*]) => {
        match $k {
            $($n => baseline::<T, Plain<$kind<$n>>>,)*
            k => panic!("{}({k}): orders above {} are not built", $what, super::MAX_ORDER),
        }
    };
}

/// The kernel of an operation at a level, which must not be above [`Level::detect`] when the kernel is run.
///
/// # Panics
/// If the order of `Polygamma` or `PolygammaDiff` is above [`super::MAX_ORDER`].
pub fn micro<T: Real>(level: Level, op: MicroOp) -> Micro<T> {
    use MicroOp as O;
    macro_rules! at {
        ($loop:ident, $($op:ident)*) => {
            match op {
                $(O::$op => Some(pick::<T, $loop<$op>>(level)),)*
                _ => None,
            }
        };
    }
    let light = at!(Light, Neg Recip Square Sqrt Abs Sign Floor Add Sub Mul Div Min Max Lt Le
        Eq MulAdd Select);
    let heavy = at!(Heavy, Exp Expm1 Ln Log1p Softplus Sigmoid Tanh Sin Cos Erf Lgamma);
    if let Some(k) = light.or(heavy) {
        return k;
    }
    match op {
        // The f64 form needs fused multiply-add.
        O::Pow if T::LANES == 8 && level == Level::Baseline => baseline::<T, Plain<Pow>>,
        O::Pow => pick::<T, Heavy<Pow>>(level),
        O::Polygamma(0) => pick::<T, Heavy<Digamma>>(level),
        O::Polygamma(1) => pick::<T, Heavy<Trigamma>>(level),
        O::PolygammaDiff(0) => pick::<T, Heavy<LgammaDiff>>(level),
        O::PolygammaDiff(1) => pick::<T, Heavy<DigammaDiff>>(level),
        O::PolygammaDiff(2) => pick::<T, Heavy<TrigammaDiff>>(level),
        O::Polygamma(k) => order!(k, Poly, "Polygamma", [
            2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
        ]),
        O::PolygammaDiff(k) => order!(k, PolyDiff, "PolygammaDiff", [
            3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
        ]),
        _ => unreachable!("every other operation is listed above"),
    }
}
