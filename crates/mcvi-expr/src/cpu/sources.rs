//! Where numbers come from: the floating-point types, random draws, users' black boxes.

use super::arena::Arena;
use super::micro::{Level, Real, noise};
use super::{At, Ctx, Job, Layout};
use crate::graph::{Blackbox, Draw, ExternalPart};
use crate::plan::Kernel;

/// The arithmetic that kernels without a vector form need.
pub(super) trait Float: Real + super::copy::Convert + super::product::Multiply {
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
            fn of(x: f64) -> Self { x as $type }
            fn plus(self, other: Self) -> Self { self + other }
            fn times(self, other: Self) -> Self { self * other }
            fn minus(self, other: Self) -> Self { self - other }
            fn over(self, other: Self) -> Self { self / other }
            fn root(self) -> Self { self.sqrt() }
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
    let &Kernel::Noise { draw, stream, row, len, to, .. } = kernel else { unreachable!("called for noise") };
    let (row, to, level) = (row.map(|r| layout.at(r)), layout.at::<T>(to), layout.level);
    Box::new(NoiseJob { draw, stream, row, len, to, level })
}

struct NoiseJob<T> {
    draw: Draw,
    stream: u32,
    /// The number of the row that is drawn, as a float.
    row: Option<At<f64>>,
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
        // SAFETY: the tile owns these n elements, and the number of the row is complete.
        unsafe {
            let to = ctx.ptr(self.to).add(first);
            let row = self.row.map_or(0.0, |row| *ctx.ptr(row)) as u64;
            let first = row.wrapping_mul(self.len as u64).wrapping_add(first as u64);
            match self.draw {
                Draw::Normal => noise::normal(self.level, ctx.seed, self.stream, ctx.step, first, to, n),
                Draw::Uniform => noise::uniform(self.level, ctx.seed, self.stream, ctx.step, first, to, n),
            }
        }
    }
}

pub(super) fn external(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let Kernel::External { part, function, rows, d, z, v, to } = kernel else {
        unreachable!("called for external functions");
    };
    let (part, function, rows, d) = (*part, function.clone(), *rows, *d);
    Box::new(ExternalJob { part, function, rows, d, z: layout.at(*z), v: v.map(|v| layout.at(v)), to: layout.at(*to) })
}

struct ExternalJob {
    part: ExternalPart,
    function: Blackbox,
    rows: usize,
    d: usize,
    z: At<f64>,
    v: Option<At<f64>>,
    to: At<f64>,
}

impl Job for ExternalJob {
    fn tiles(&self) -> usize {
        self.rows
    }
    fn cost(&self) -> f64 {
        // Unknown; taken as dear enough to share.
        self.rows as f64 * 5000.0
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, row: usize, _: &mut Arena) {
        let width = if self.part == ExternalPart::Value { 1 } else { self.d };
        // SAFETY: rows of complete `[rows, d]` buffers; the tile owns its row of the result.
        let (z, v, to) = unsafe {
            let z = std::slice::from_raw_parts(ctx.ptr(self.z).add(row * self.d), self.d);
            let v = self.v.map(|v| std::slice::from_raw_parts(ctx.ptr(v).add(row * self.d), self.d));
            (z, v.unwrap_or(z), std::slice::from_raw_parts_mut(ctx.ptr(self.to).add(row * width), width))
        };
        if let Err(error) = self.function.call(self.part, z, v, to) {
            ctx.fail(error);
        }
    }
}
