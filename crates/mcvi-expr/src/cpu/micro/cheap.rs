//! Cheap operations on one block each, as a list that is walked without a call for every operation: where arrays hold a few
//! elements the calls take longer than the arithmetic.

use super::kernels::light;
use super::lanes::{Add, Mul, MulAdd, Neg, Sub};
use super::real::Real;
use super::{Level, MicroOp};

/// One cheap operation on one block of `LANES` elements; operands are bytes from a base.
#[derive(Clone, Copy)]
pub struct OneBlock {
    pub op: Cheap,
    pub to: u32,
    pub args: [u32; 3],
}

/// Operations worth making without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cheap {
    Add,
    Sub,
    Mul,
    MulAdd,
    Neg,
    /// The first element for all of them.
    Splat,
    /// The first element alone.
    First,
}

impl Cheap {
    /// The operation, if it is one of these.
    pub fn of(op: MicroOp) -> Option<Cheap> {
        Some(match op {
            MicroOp::Add => Cheap::Add,
            MicroOp::Sub => Cheap::Sub,
            MicroOp::Mul => Cheap::Mul,
            MicroOp::MulAdd => Cheap::MulAdd,
            MicroOp::Neg => Cheap::Neg,
            _ => return None,
        })
    }
}

/// Runs operations on blocks, one after the other.
pub type Blocks = unsafe fn(base: *mut u8, blocks: &[OneBlock]);

/// # Safety
/// Operands as for [`Micro`] with n = `LANES` = `N`, from `base` on.
#[inline(always)]
unsafe fn each_block<T: Real, const F: bool, const N: usize>(base: *mut u8, blocks: &[OneBlock]) {
    for block in blocks {
        let at = |bytes: u32| base.wrapping_add(bytes as usize).cast::<T>();
        let (to, [a, b, c]) = (at(block.to), block.args.map(at));
        // SAFETY: the caller's promise.
        unsafe {
            match block.op {
                Cheap::Add => light::<T, Add, F, N>(to, a, b, c, N),
                Cheap::Sub => light::<T, Sub, F, N>(to, a, b, c, N),
                Cheap::Mul => light::<T, Mul, F, N>(to, a, b, c, N),
                Cheap::MulAdd => light::<T, MulAdd, F, N>(to, a, b, c, N),
                Cheap::Neg => light::<T, Neg, F, N>(to, a, b, c, N),
                Cheap::Splat => to.cast::<[T; N]>().write_unaligned([*a; N]),
                Cheap::First => *to = *a,
            }
        }
    }
}

/// # Safety
/// As for [`each_block`].
unsafe fn baseline_blocks<T: Real, const N: usize>(base: *mut u8, blocks: &[OneBlock]) {
    // SAFETY: the caller's promise.
    unsafe { each_block::<T, { super::BASE_FMA }, N>(base, blocks) }
}

/// # Safety
/// As for [`each_block`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2_blocks<T: Real, const N: usize>(base: *mut u8, blocks: &[OneBlock]) {
    // SAFETY: the caller's promise.
    unsafe { each_block::<T, true, N>(base, blocks) }
}

/// # Safety
/// As for [`each_block`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512_blocks<T: Real, const N: usize>(base: *mut u8, blocks: &[OneBlock]) {
    // SAFETY: the caller's promise.
    unsafe { each_block::<T, true, N>(base, blocks) }
}

/// What runs operations on blocks at a level, which must not be above [`Level::detect`] when it is run.
pub fn cheap_blocks<T: Real>(level: Level) -> Blocks {
    fn pick<T: Real, const N: usize>(level: Level) -> Blocks {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512_blocks::<T, N>,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2_blocks::<T, N>,
            _ => baseline_blocks::<T, N>,
        }
    }
    if T::LANES == 16 { pick::<T, 16>(level) } else { pick::<T, 8>(level) }
}
