//! Where numbers come from: the floating-point types, random draws, users' black boxes.

use super::arena::Arena;
use super::micro::{Level, Real, noise};
use super::{At, Ctx, Job, Layout};
use crate::graph::{Blackbox, Draw, ExternalPart};
use crate::plan::Kernel;
use crate::ranks::{Number, Parts};

/// The arithmetic that kernels without a vector form need.
pub(super) trait Float: Real + Number + super::copy::Convert + super::product::Multiply {
    fn of(x: f64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn root(self) -> Self;
    /// The larger; NaN if either is.
    fn larger(self, other: Self) -> Self;
    fn bytes(self) -> Vec<u8>;
    /// Equal bits.
    fn same(self, other: Self) -> bool;
    fn positive(self) -> bool;
}
macro_rules! float {
    ($($type:ty),*) => {$(
        impl Float for $type {
            #[inline(always)]
            fn of(x: f64) -> Self { x as $type }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            fn times(self, other: Self) -> Self { self * other }
            fn minus(self, other: Self) -> Self { self - other }
            fn over(self, other: Self) -> Self { self / other }
            fn root(self) -> Self { self.sqrt() }
            #[inline(always)]
            fn larger(self, other: Self) -> Self { if self >= other || self.is_nan() { self } else { other } }
            fn bytes(self) -> Vec<u8> { self.to_ne_bytes().to_vec() }
            fn same(self, other: Self) -> bool { self.to_bits() == other.to_bits() }
            fn positive(self) -> bool { self > 0.0 }
        }
    )*};
}
float!(f32, f64);

/// Elements drawn by one tile: whole blocks of the generator.
const DRAWS: usize = 2048;

pub(super) fn noise<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let &Kernel::Noise { draw, stream, iteration, len, to, .. } = kernel else { unreachable!("called for noise") };
    let (iteration, to, level) = (iteration.map(|i| layout.at(i)), layout.at::<T>(to), layout.level);
    Box::new(NoiseJob { draw, stream, iteration, len, to, level })
}

struct NoiseJob<T> {
    draw: Draw,
    stream: u32,
    /// The number of the iteration of a loop, as a float.
    iteration: Option<At<f64>>,
    len: usize,
    to: At<T>,
    level: Level,
}

impl<T: Float> Job for NoiseJob<T> {
    fn tiles(&self) -> usize {
        self.len.div_ceil(DRAWS)
    }
    fn cost(&self) -> f64 {
        50.0 + self.len as f64 * 2.0
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, _: &mut Arena) {
        let first = tile * DRAWS;
        let n = DRAWS.min(self.len - first);
        // SAFETY: the tile owns these n elements, and the number of the iteration is complete.
        unsafe {
            let to = ctx.ptr(self.to).add(first);
            // In the high word of the step, so that a draw does not depend on how many others there are.
            let iteration = self.iteration.map_or(0.0, |i| *ctx.ptr(i)) as u64;
            let (step, first) = (ctx.step.wrapping_add(iteration << 32), first as u64);
            match self.draw {
                Draw::Normal => noise::normal(self.level, ctx.seed, self.stream, step, first, to, n),
                Draw::Uniform => noise::uniform(self.level, ctx.seed, self.stream, step, first, to, n),
            }
        }
    }
}

pub(super) fn external(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let Kernel::External { part, function, rows, d, z, v, to } = kernel else {
        unreachable!("called for external functions");
    };
    let (part, function, rows, d) = (*part, function.clone(), *rows, *d);
    let at_once = function.rows_at_once(rows);
    Box::new(ExternalJob {
        part,
        function,
        rows,
        at_once,
        d,
        z: layout.at(*z),
        v: v.map(|v| layout.at(v)),
        to: layout.at(*to),
    })
}

struct ExternalJob {
    part: ExternalPart,
    function: Blackbox,
    rows: usize,
    /// Rows of a tile.
    at_once: usize,
    d: usize,
    z: At<f64>,
    v: Option<At<f64>>,
    to: At<f64>,
}

impl Job for ExternalJob {
    fn tiles(&self) -> usize {
        self.rows.div_ceil(self.at_once)
    }
    fn cost(&self) -> f64 {
        // Unknown; taken as dear enough to share.
        self.rows as f64 * 5000.0
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, _: &mut Arena) {
        let width = if self.part == ExternalPart::Value { 1 } else { self.d };
        let first = tile * self.at_once;
        let rows = self.at_once.min(self.rows - first);
        // SAFETY: rows of complete `[rows, d]` buffers; the tile owns its rows of the result.
        let (z, v, to) = unsafe {
            let row = |at: At<f64>| std::slice::from_raw_parts(ctx.ptr(at).add(first * self.d), rows * self.d);
            let z = row(self.z);
            let to = std::slice::from_raw_parts_mut(ctx.ptr(self.to).add(first * width), rows * width);
            (z, self.v.map_or(z, row), to)
        };
        if let Err(error) = self.function.call(self.part, z, v, to) {
            ctx.fail(error);
        }
    }
}

pub(super) fn sum_parts<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let Kernel::SumParts { parts, tag, len, from, to, .. } = kernel else { unreachable!("called for sums over parts") };
    let (from, to) = (layout.at(*from), layout.at::<T>(*to));
    Box::new(SumPartsJob { parts: parts.clone(), tag: *tag, len: *len, from, to })
}

struct SumPartsJob<T> {
    parts: Parts,
    tag: u32,
    len: usize,
    from: At<T>,
    to: At<T>,
}

impl<T: Float> Job for SumPartsJob<T> {
    fn tiles(&self) -> usize {
        1
    }
    fn cost(&self) -> f64 {
        // The time of a message.
        10_000.0 + self.len as f64
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, _: usize, _: &mut Arena) {
        // SAFETY: the parts are complete, and the only tile owns the result.
        let (from, to) = unsafe {
            let held = self.parts.mine().len() * self.len;
            let from = std::slice::from_raw_parts(ctx.ptr(self.from), held);
            (from, std::slice::from_raw_parts_mut(ctx.ptr(self.to), self.len))
        };
        if let Err(error) = self.parts.sum(self.tag, from, to) {
            ctx.fail(error);
        }
    }
}
