//! The kernel of each operation at each level: a loop and what it does to a lane, as the table says.

use super::Level;
use super::elementary as e;
use super::lanes::*;
use super::loops::{Heavy, Kernel, Lane, Light, Micro, Plain};
use super::real::{Real, sel};
use crate::table::{Binary, Function, Pair, Ternary, Unary, elementwise};

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
            k => panic!("{}({k}): orders above {} are not built", $what, crate::table::MAX_ORDER),
        }
    };
}

/// The power. (The f64 form needs fused multiply-add.)
fn pow<T: Real>(level: Level, _: u32) -> Micro<T> {
    if T::LANES == 8 && level == Level::Baseline { baseline::<T, Plain<Pow>> } else { pick::<T, Heavy<Pow>>(level) }
}

/// ψ⁽ᵏ⁾. Orders 0 and 1 to 1e-14·max(1, |value|), in `f32` 2e-7; the others, in scalar code, to 1e-12 relative for a > 0.
fn polygamma<T: Real>(level: Level, order: u32) -> Micro<T> {
    match order {
        0 => pick::<T, Heavy<Digamma>>(level),
        1 => pick::<T, Heavy<Trigamma>>(level),
        _ => order!(order, Poly, "Polygamma", [
            2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
        ]),
    }
}

/// ψ⁽ᵏ⁻¹⁾(a + b) − ψ⁽ᵏ⁻¹⁾(a), lgamma standing for ψ⁽⁻¹⁾. For positive a and a + b to 1e-14 relative (k ≤ 2; absolute near
/// the zeros of k = 0; in `f32` 5e-7) or 1e-12 (k ≥ 3, scalar code), however large a or small b; elsewhere the plain
/// difference.
fn polygamma_diff<T: Real>(level: Level, order: u32) -> Micro<T> {
    match order {
        0 => pick::<T, Heavy<LgammaDiff>>(level),
        1 => pick::<T, Heavy<DigammaDiff>>(level),
        2 => pick::<T, Heavy<TrigammaDiff>>(level),
        _ => order!(order, PolyDiff, "PolygammaDiff", [
            3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
        ]),
    }
}

/// Two functions at once: the first goes to `dst`, the other to `c`, a second result that the kernel writes through that
/// pointer. Either result may be a or b, the other not the same; errors are those of the single operations.
fn pair<T: Real>(level: Level, both: Pair) -> Micro<T> {
    match both {
        Pair::Diff(0) => pick::<T, Heavy<LgammaPair, 2>>(level),
        Pair::Diff(1) => pick::<T, Heavy<DigammaPair, 2>>(level),
        Pair::Diff(k) => panic!("Pair::Diff({k}): only 0 and 1 are built"),
        Pair::Softplus => pick::<T, Heavy<SoftplusPair, 2>>(level),
    }
}

/// The kernel of a row of the table.
macro_rules! kernel {
    (($loop:ident $lane:ident), $f:ident, $level:ident) => {
        kernel!(@ $loop, $lane, $f, $level)
    };
    (($loop:ident |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr), $f:ident, $level:ident) => {{
        struct Row;
        impl<T: Real> Lane<T> for Row {
            const ARITY: usize = [stringify!($a) $(, stringify!($b) $(, stringify!($c))?)?].len();
            #[inline(always)]
            fn full<const F: bool>($a: T, _b: T, _c: T) -> [T; 1] {
                $(let $b = _b; $(let $c = _c;)?)?
                [$value]
            }
        }
        kernel!(@ $loop, Row, $f, $level)
    }};
    (@ light, $lane:ident, $f:ident, $level:ident) => {
        pick::<T, Light<$lane>>($level)
    };
    (@ heavy, $lane:ident, $f:ident, $level:ident) => {
        pick::<T, Heavy<$lane>>($level)
    };
    (@ kernel, $choose:ident, $f:ident, $level:ident) => {
        $choose::<T>($level, $f.order())
    };
}

macro_rules! kernels {
    (
        unary {$(
            $($(#[$doc:meta])+ pub fn $method:ident =)?
            $unary:ident $(($order:ident: $type:ty))? $name:literal {
                $(fold $fold:tt)? vjp $vjp:tt cost $cost:tt cpu $cpu:tt cuda $cuda:tt
            }
        )*}
        binary {$(
            $($(#[$doc2:meta])+ pub fn $method2:ident =)?
            $binary:ident $(($order2:ident: $type2:ty))? $name2:literal {
                $(fold $fold2:tt)? vjp $vjp2:tt cost $cost2:tt cpu $cpu2:tt cuda $cuda2:tt
            }
        )*}
        ternary {$(
            $ternary:ident $name3:literal { cost $cost3:tt cpu $cpu3:tt cuda $cuda3:tt }
        )*}
    ) => {
        fn unary<T: Real>(level: Level, f: Unary) -> Micro<T> {
            match f {
                $(Unary::$unary { .. } => kernel!($cpu, f, level),)*
            }
        }

        fn binary<T: Real>(level: Level, f: Binary) -> Micro<T> {
            match f {
                $(Binary::$binary { .. } => kernel!($cpu2, f, level),)*
            }
        }

        fn ternary<T: Real>(level: Level, f: Ternary) -> Micro<T> {
            match f {
                $(Ternary::$ternary => kernel!($cpu3, f, level),)*
            }
        }
    };
}
elementwise!(kernels);

/// The kernel of a function at a level, which must not be above [`Level::detect`] when the kernel is run.
///
/// # Panics
/// If the order of a polygamma function is above [`crate::table::MAX_ORDER`], that of a pair above 1; and for
/// `Second`, which the operation before it computes.
pub fn micro<T: Real>(level: Level, function: Function) -> Micro<T> {
    match function {
        Function::Unary(f) => unary(level, f),
        Function::Binary(f) => binary(level, f),
        Function::Ternary(f) => ternary(level, f),
        Function::Pair(both) => pair(level, both),
        Function::Second => unreachable!("computed by the operation before"),
    }
}
