//! Selection by index and its adjoint.

use super::arena::Arena;
use super::sources::Float;
use super::{At, Ctx, Job, Layout};
use crate::error::Error;
use crate::plan::Kernel;

/// Elements of the inner extent a tile handles.
const INNER: usize = 4096;
/// Elements taken by one tile, if each is long; more if they are short.
const PICKS: usize = 16;
/// Numbers that one tile takes at least.
const NUMBERS: usize = 4096;

pub(super) fn job<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let &Kernel::Index { take, outer, len, picks, inner, from, index, to, .. } = kernel else {
        unreachable!("called for selection");
    };
    let (from, index, to) = (layout.at::<T>(from), layout.at(index), layout.at(to));
    Box::new(Indexing { take, outer, len, picks, inner, from, index, to })
}

struct Indexing<T> {
    take: bool,
    outer: usize,
    len: usize,
    picks: usize,
    inner: usize,
    from: At<T>,
    index: At<i32>,
    to: At<T>,
}

impl<T> Indexing<T> {
    /// Picks of a tile.
    fn each(&self) -> usize {
        PICKS.max(NUMBERS / self.inner.max(1))
    }

    /// Blocks of picks. Values may be added to the same place twice, so that one tile adds all of them.
    fn blocks(&self) -> usize {
        if self.take { self.picks.div_ceil(self.each()) } else { 1 }
    }

    /// Outer elements of a tile: several where each is little work.
    fn outers(&self) -> usize {
        match self.inner <= INNER && self.blocks() == 1 {
            true => (NUMBERS / ((self.picks + self.len) * self.inner).max(1)).clamp(1, self.outer.max(1)),
            false => 1,
        }
    }
}

impl<T: Float> Job for Indexing<T> {
    fn tiles(&self) -> usize {
        self.outer.div_ceil(self.outers()) * self.inner.div_ceil(INNER) * self.blocks()
    }
    fn cost(&self) -> f64 {
        20.0 + (self.outer * self.picks * self.inner) as f64 * 0.3 + (self.picks as f64)
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, _: &mut Arena) {
        let (blocks, parts) = (self.blocks(), self.inner.div_ceil(INNER));
        let (tile, block) = (tile / blocks, tile % blocks);
        let (first_outer, first) = (tile / parts * self.outers(), tile % parts * INNER);
        for outer in first_outer..(first_outer + self.outers()).min(self.outer) {
            // SAFETY: promised by the caller.
            unsafe { self.columns(ctx, outer, first, block) };
        }
    }
}

impl<T: Float> Indexing<T> {
    /// One block of picks of the columns from `first` on.
    ///
    /// # Safety
    /// The tile that runs owns these columns of the result.
    unsafe fn columns(&self, ctx: &Ctx<'_>, outer: usize, first: usize, block: usize) {
        let n = INNER.min(self.inner - first);
        let blocks = self.blocks();
        // SAFETY: the plan's extents describe complete buffers.
        unsafe {
            let index = std::slice::from_raw_parts(ctx.ptr(self.index), self.picks);
            let (from_rows, to_rows) = if self.take { (self.len, self.picks) } else { (self.picks, self.len) };
            let from = ctx.ptr(self.from).add(outer * from_rows * self.inner + first);
            let to = ctx.ptr(self.to).add(outer * to_rows * self.inner + first);
            if !self.take {
                if n == self.inner {
                    std::slice::from_raw_parts_mut(to, self.len * n).fill(T::of(0.0));
                } else {
                    (0..self.len).for_each(|row| {
                        std::slice::from_raw_parts_mut(to.add(row * self.inner), n).fill(T::of(0.0));
                    });
                }
            }
            let (skip, most) = if blocks == 1 { (0, self.picks) } else { (block * self.each(), self.each()) };
            for (pick, &i) in index.iter().enumerate().skip(skip).take(most) {
                let Some(place) = usize::try_from(i).ok().filter(|i| *i < self.len) else {
                    let op = if self.take { "take" } else { "scatter_add" };
                    ctx.fail(Error::Index { op, index: i64::from(i), len: self.len });
                    continue;
                };
                let (source, target) = if self.take { (place, pick) } else { (pick, place) };
                let (from, to) = (from.add(source * self.inner), to.add(target * self.inner));
                // Single numbers, as of an axis that is the last one, need no loop.
                if n == 1 {
                    *to = if self.take { *from } else { (*to).plus(*from) };
                } else if self.take {
                    std::ptr::copy_nonoverlapping(from, to, n);
                } else {
                    (0..n).for_each(|j| *to.add(j) = (*to.add(j)).plus(*from.add(j)));
                }
            }
        }
    }
}
