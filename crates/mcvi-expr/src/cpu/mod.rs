//! Runs a plan on the CPU.
//!
//! All threads of a team walk through the same list of segments. A segment too small to share is run by the first
//! thread; the tiles of a larger one go to whichever is free. What a tile computes is fixed by the plan, so results do
//! not depend on the number of threads.

mod arena;
mod conv;
mod copy;
mod executor;
mod gemm;
mod indexing;
mod linalg;
mod map;
mod micro;
mod product;
mod reduce;
mod resize;
mod segment;
mod sources;
mod strided;
mod tape;
mod team;

pub(crate) use executor::{Around, Executor, Memory};

use crate::error::{Error, Result};
use crate::plan::{BufId, Kernel, Place, Plan};
use crate::shape::DType;
use arena::Arena;
use micro::Level;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tape::{Draft, Loc};

/// One kernel made ready for this machine.
trait Job: Send + Sync {
    /// Independent parts of the work.
    fn tiles(&self) -> usize {
        1
    }
    /// Rough nanoseconds of the whole.
    fn cost(&self) -> f64;
    /// Bytes of scratch memory a thread needs.
    fn scratch(&self) -> usize {
        0
    }
    /// Write the whole work out as a few calls, if it is small; says whether it did.
    fn write_out(&self, draft: &mut Draft) -> bool {
        let _ = draft;
        false
    }
    /// Do one part.
    ///
    /// # Safety
    /// `ctx` must belong to the arena the job was made for, with every buffer the kernel reads complete, and no other
    /// thread may touch what this tile writes or write what it reads. The plan's levels guarantee that.
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, scratch: &mut Arena);
}

/// What a job may use while it runs.
#[derive(Clone, Copy)]
pub(super) struct Ctx<'a> {
    base: *mut u8,
    pub seed: u64,
    pub step: u64,
    /// The row of the innermost loop that is at work.
    pub row: usize,
    /// No other thread is at work.
    pub alone: bool,
    failure: &'a Mutex<Option<Error>>,
    /// Whether there is a failure, to be looked at often.
    failed: &'a AtomicBool,
}

// SAFETY: the pointer is only used by jobs, under the contract of `Job::run`, and between steps by one thread.
unsafe impl Sync for Ctx<'_> {}

impl Ctx<'_> {
    /// Pointer to an element. Offsets come from the plan and lie inside the arena.
    pub fn ptr<T>(&self, at: At<T>) -> *mut T {
        self.base.wrapping_add(at.bytes).wrapping_add(self.row.wrapping_mul(at.step)).cast()
    }

    /// Keep the first failure; the step's effects are undone afterwards.
    pub fn fail(&self, error: Error) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(error);
        }
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Bytes from the start of the arena to elements of type `T`.
pub(super) struct At<T> {
    bytes: usize,
    /// Bytes further on for each row of a loop (modulo 2⁶⁴, for steps back).
    step: usize,
    of: std::marker::PhantomData<T>,
}
impl<T> At<T> {
    /// The place of an element this many bytes further on.
    pub fn loc(self, bytes: isize) -> Loc {
        Loc::Memory(self.bytes.wrapping_add_signed(bytes), self.step)
    }
}
impl<T> Clone for At<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for At<T> {}
// SAFETY: an offset, no pointer.
unsafe impl<T> Send for At<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for At<T> {}

/// Translates places of the plan to addresses in the arena.
pub(super) struct Layout<'a> {
    plan: &'a Plan,
    pub level: Level,
}

impl Layout<'_> {
    /// Whether a buffer has this many elements and memory of its own, with room at its end.
    pub fn is_roomy(&self, buf: BufId, len: usize) -> bool {
        let buffer = &self.plan.buffers[buf.0 as usize];
        buffer.len == len && buffer.window.is_none()
    }

    pub fn at<T>(&self, place: Place) -> At<T> {
        let buffer = &self.plan.buffers[place.buf.0 as usize];
        debug_assert_eq!(buffer.dtype.bytes(), size_of::<T>());
        let size = buffer.dtype.bytes();
        let step = buffer.window.map_or(0, |w| (w.step as usize).wrapping_mul(size));
        At { bytes: buffer.offset + place.first * size, step, of: std::marker::PhantomData }
    }
}

/// The instructions to use: the best the processor has, or less if the environment variable `MCVI_SIMD` says so.
fn level() -> Result<Level> {
    let best = Level::detect();
    match std::env::var("MCVI_SIMD").as_deref() {
        Err(_) | Ok("") => Ok(best),
        Ok("baseline") => Ok(Level::Baseline),
        Ok("avx2") => Ok(best.min(Level::Avx2)),
        Ok("avx512") => Ok(best),
        Ok(other) => {
            let why = format!("`{other}` is not one of baseline, avx2, avx512");
            Err(Error::Setting { what: "MCVI_SIMD", why })
        }
    }
}

fn job(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    fn typed<T: sources::Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
        match kernel {
            Kernel::Map(map) => Box::new(map::MapJob::<T>::new(map, layout)),
            Kernel::Combine { how, parts, len, from, to, .. } => Box::new(reduce::CombineJob::<T>::new(
                *how,
                *parts,
                *len,
                layout.at(*from),
                layout.at(*to),
                layout.level,
            )),
            Kernel::MatMul(m) => gemm::job::<T>(m, layout),
            Kernel::Copy { from_type, from, to, zero_first, .. } => {
                let listed = Some((micro::lists::<T>(layout.level), Draft::copy::<T> as copy::CopyElement));
                copy::job::<T>(*from_type, from, to, zero_first.as_ref(), layout, listed)
            }
            Kernel::CumSum { .. } => linalg::cumsum::<T>(kernel, layout),
            Kernel::Cholesky { .. } => linalg::cholesky::<T>(kernel, layout),
            Kernel::TriSolve { .. } => linalg::solve::<T>(kernel, layout),
            Kernel::Conv(c) => conv::job::<T>(c, layout),
            Kernel::Resize { .. } => resize::job::<T>(kernel, layout),
            Kernel::Index { .. } => indexing::job::<T>(kernel, layout),
            Kernel::Noise { .. } => sources::noise::<T>(kernel, layout),
            Kernel::External { .. } => sources::external(kernel, layout),
            Kernel::SumParts { .. } => sources::sum_parts::<T>(kernel, layout),
            Kernel::Loop(_) => unreachable!("the executor walks through its kernels"),
        }
    }
    match kernel {
        Kernel::Copy { to_type: DType::I32, from_type, from, to, zero_first } => {
            copy::job::<i32>(*from_type, from, to, zero_first.as_ref(), layout, None)
        }
        _ => match kernel.dtype() {
            DType::F32 => typed::<f32>(kernel, layout),
            _ => typed::<f64>(kernel, layout),
        },
    }
}

impl Kernel {
    /// The type of the elements written.
    fn dtype(&self) -> DType {
        match self {
            Kernel::Map(m) => m.dtype,
            Kernel::MatMul(m) => m.dtype,
            Kernel::Conv(c) => c.dtype,
            Kernel::Copy { to_type, .. } => *to_type,
            Kernel::Combine { dtype, .. }
            | Kernel::CumSum { dtype, .. }
            | Kernel::Cholesky { dtype, .. }
            | Kernel::TriSolve { dtype, .. }
            | Kernel::Resize { dtype, .. }
            | Kernel::Index { dtype, .. }
            | Kernel::SumParts { dtype, .. }
            | Kernel::Noise { dtype, .. } => *dtype,
            Kernel::External { .. } | Kernel::Loop(_) => DType::F64,
        }
    }
}
