//! Reductions of runs, rows and columns, and the combination of what tiles have reduced.

use super::arena::Arena;
use super::micro::{Level, Micro, micro};
use super::sources::Float;
use super::{At, Ctx, Job};
use crate::graph::Reduction;
use crate::table::{Binary, Function};

pub(super) fn fold<T: Float>(how: Reduction, a: T, b: T) -> T {
    match how {
        Reduction::Sum => a.plus(b),
        Reduction::Max => a.larger(b),
    }
}

/// Reduce n ≥ 1 elements, in an order that depends on n alone.
///
/// # Safety
/// `from` must be valid for n elements.
#[inline]
pub(super) unsafe fn reduce_run<T: Float>(how: Reduction, from: *const T, n: usize) -> T {
    const WIDTH: usize = 16;
    // SAFETY: promised by the caller.
    let values = unsafe { std::slice::from_raw_parts(from, n) };
    if let [first, rest @ ..] = values
        && n < WIDTH
    {
        return rest.iter().fold(*first, |a, b| fold(how, a, *b));
    }
    let (blocks, rest) = values.as_chunks::<WIDTH>();
    let tail = rest.iter().copied().reduce(|a, b| fold(how, a, b));
    let Some((head, blocks)) = blocks.split_first() else {
        return tail.unwrap_or(T::of(0.0));
    };
    let mut lanes = *head;
    for block in blocks {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane = fold(how, *lane, *value);
        }
    }
    let mut width = WIDTH;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = fold(how, lanes[i], lanes[i + width]);
        }
    }
    tail.map_or(lanes[0], |t| fold(how, lanes[0], t))
}

/// Reduce each row; the upper half of `lengths` is the number of elements, the lower that of a row.
///
/// # Safety
/// `from` must be valid for all elements, `to` for one of each row.
pub(super) unsafe fn rows<T: Float, const MAX: bool>(
    to: *mut T,
    from: *const T,
    _: *const T,
    _: *const T,
    lengths: usize,
) {
    let (n, row) = (lengths >> 32, lengths & 0xffff_ffff);
    let how = if MAX { Reduction::Max } else { Reduction::Sum };
    for i in 0..n / row {
        // SAFETY: promised by the caller.
        unsafe { *to.add(i) = reduce_run(how, from.add(i * row), row) };
    }
}

/// Reduce each column; lengths as for `rows`.
///
/// # Safety
/// `from` must be valid for all elements, `to` for a row.
pub(super) unsafe fn columns<T: Float, const MAX: bool>(
    to: *mut T,
    from: *const T,
    _: *const T,
    _: *const T,
    lengths: usize,
) {
    let (n, row) = (lengths >> 32, lengths & 0xffff_ffff);
    let how = if MAX { Reduction::Max } else { Reduction::Sum };
    for i in 0..row {
        // SAFETY: promised by the caller.
        unsafe { *to.add(i) = (1..n / row).fold(*from.add(i), |sum, r| fold(how, sum, *from.add(r * row + i))) };
    }
}

/// Sums partial results of tiles, in the order of the tiles.
pub(super) struct CombineJob<T> {
    how: Reduction,
    parts: usize,
    len: usize,
    from: At<T>,
    to: At<T>,
    step: Micro<T>,
}

impl<T: Float> CombineJob<T> {
    pub fn new(how: Reduction, parts: usize, len: usize, from: At<T>, to: At<T>, level: Level) -> Self {
        let op = Function::Binary(if how == Reduction::Sum { Binary::Add } else { Binary::Max });
        CombineJob { how, parts, len, from, to, step: micro(level, op) }
    }
    const COLUMNS: usize = 512;
}

impl<T: Float> Job for CombineJob<T> {
    fn tiles(&self) -> usize {
        self.len.div_ceil(Self::COLUMNS)
    }
    fn cost(&self) -> f64 {
        20.0 + (self.parts * self.len) as f64 * 0.1
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, _: &mut Arena) {
        let first = tile * Self::COLUMNS;
        let n = Self::COLUMNS.min(self.len - first);
        let whole = n - n % T::LANES;
        // SAFETY: columns `first..first + n` of every part are complete, and the tile owns those of the result.
        unsafe {
            let (to, from) = (ctx.ptr(self.to).add(first), ctx.ptr(self.from).add(first).cast_const());
            std::ptr::copy_nonoverlapping(from, to, n);
            for part in 1..self.parts {
                let from = from.add(part * self.len);
                (self.step)(to, to, from, from, whole);
                for i in whole..n {
                    *to.add(i) = fold(self.how, *to.add(i), *from.add(i));
                }
            }
        }
    }
}
