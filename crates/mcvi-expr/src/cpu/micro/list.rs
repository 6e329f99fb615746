//! Lists of small operations that are walked without a call, or a jump that has to be foreseen, for every one of them:
//! where arrays hold a few elements those take longer than the arithmetic. So a list holds operations of one kind.

use super::Level;
use super::lanes::MulAdd;
use super::loops::light;
use super::real::Real;
use crate::table::{Binary, Function, Unary};

/// One operation of a list; operands are bytes from a base.
#[derive(Clone, Copy)]
pub struct Short {
    pub to: u32,
    pub args: [u32; 3],
}

/// Runs the operations of a list one after the other.
pub type RunList = unsafe fn(base: *mut u8, list: &[Short]);

/// What runs the lists of each kind.
#[derive(Clone, Copy)]
pub struct Lists {
    /// a·b + c of blocks of `LANES` elements.
    pub blocks: RunList,
    /// The same of single elements.
    pub elements: RunList,
    /// An element, for all of a block.
    pub splats: RunList,
}

/// An operand of a·b + c.
#[derive(Clone, Copy)]
pub enum Term {
    /// An operand of the operation.
    Arg(usize),
    /// A number.
    Number(f64),
}

/// The operation as a·b + c, with the same result to the bit (but for the bits of a NaN), if it is so cheap. (A negative
/// zero changes no sum.)
pub fn as_muladd(function: Function) -> Option<[Term; 3]> {
    use Term::{Arg, Number};
    Some(match function {
        Function::Binary(Binary::Add) => [Arg(0), Number(1.0), Arg(1)],
        Function::Binary(Binary::Sub) => [Arg(1), Number(-1.0), Arg(0)],
        Function::Binary(Binary::Mul) => [Arg(0), Arg(1), Number(-0.0)],
        Function::Unary(Unary::Square) => [Arg(0), Arg(0), Number(-0.0)],
        Function::Unary(Unary::Neg) => [Arg(0), Number(-1.0), Number(-0.0)],
        Function::MUL_ADD => [Arg(0), Arg(1), Arg(2)],
        _ => return None,
    })
}

/// # Safety
/// Operands as for [`super::Micro`] with n = `W`, from `base` on.
#[inline(always)]
unsafe fn muladds<T: Real, const F: bool, const W: usize>(base: *mut u8, list: &[Short]) {
    for short in list {
        let at = |bytes: u32| base.wrapping_add(bytes as usize).cast::<T>();
        let [a, b, c] = short.args.map(at);
        // SAFETY: the caller's promise.
        unsafe { light::<T, MulAdd, F, W>(at(short.to), a, b, c, W) };
    }
}

/// # Safety
/// As for [`muladds`], with one element read and `W` written.
#[inline(always)]
unsafe fn splats<T: Real, const W: usize>(base: *mut u8, list: &[Short]) {
    for short in list {
        let at = |bytes: u32| base.wrapping_add(bytes as usize).cast::<T>();
        // SAFETY: the caller's promise.
        unsafe { at(short.to).cast::<[T; W]>().write_unaligned([*at(short.args[0]); W]) };
    }
}

/// The functions of a level.
macro_rules! level {
    ($name:ident, $fma:expr $(, $feature:literal)?) => {
        mod $name {
            use super::{Lists, Real, Short};

            /// # Safety
            /// As for [`super::muladds`], on a processor with the level's features.
            $(#[target_feature(enable = $feature)])?
            unsafe fn muladds<T: Real, const W: usize>(base: *mut u8, list: &[Short]) {
                // SAFETY: the caller's promise.
                unsafe { super::muladds::<T, { $fma }, W>(base, list) }
            }

            /// # Safety
            /// As for [`super::splats`], on a processor with the level's features.
            $(#[target_feature(enable = $feature)])?
            unsafe fn splats<T: Real, const W: usize>(base: *mut u8, list: &[Short]) {
                // SAFETY: the caller's promise.
                unsafe { super::splats::<T, W>(base, list) }
            }

            pub(super) fn lists<T: Real, const N: usize>() -> Lists {
                Lists { blocks: muladds::<T, N>, elements: muladds::<T, 1>, splats: splats::<T, N> }
            }
        }
    };
}

level!(baseline, crate::cpu::micro::BASE_FMA);
#[cfg(target_arch = "x86_64")]
level!(avx2, true, "avx2,fma");
#[cfg(target_arch = "x86_64")]
level!(avx512, true, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");

/// What runs lists at a level, which must not be above [`Level::detect`] when they are run.
pub fn lists<T: Real>(level: Level) -> Lists {
    fn of<T: Real, const N: usize>(level: Level) -> Lists {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512::lists::<T, N>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::lists::<T, N>(),
            _ => baseline::lists::<T, N>(),
        }
    }
    if T::LANES == 16 { of::<T, 16>(level) } else { of::<T, 8>(level) }
}
