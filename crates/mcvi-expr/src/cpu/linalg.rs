//! Cumulative sums, Cholesky factors and triangular solves: sequential along an axis, parallel over batches.

use super::arena::Arena;
use super::sources::Float;
use super::{At, Ctx, Job, Layout};
use crate::plan::Kernel;

struct Batched<F> {
    batch: usize,
    cost: f64,
    run: F,
}

impl<F: Fn(&Ctx<'_>, usize) + Send + Sync> Job for Batched<F> {
    fn tiles(&self) -> usize {
        self.batch
    }
    fn cost(&self) -> f64 {
        self.cost
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, _: &mut Arena) {
        (self.run)(ctx, tile);
    }
}

/// The elements of one item of a batch.
///
/// # Safety
/// The buffer must hold them, and nobody may write them meanwhile.
unsafe fn item<'a, T>(ctx: &Ctx<'_>, at: At<T>, index: usize, len: usize) -> &'a [T] {
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(ctx.ptr(at).add(index * len), len) }
}

/// # Safety
/// As for `item`, and nobody else may read them.
unsafe fn item_mut<'a, T>(ctx: &Ctx<'_>, at: At<T>, index: usize, len: usize) -> &'a mut [T] {
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts_mut(ctx.ptr(at).add(index * len), len) }
}

pub(super) fn cumsum<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let &Kernel::CumSum { outer, len, inner, reverse, from, to, .. } = kernel else {
        unreachable!("called for cumulative sums");
    };
    let (from, to) = (layout.at::<T>(from), layout.at::<T>(to));
    let run = move |ctx: &Ctx<'_>, tile: usize| {
        let size = len * inner;
        // SAFETY: the plan gives both buffers `outer` items of this size, and the tile owns one of them.
        let (x, y) = unsafe { (item(ctx, from, tile, size), item_mut(ctx, to, tile, size)) };
        let mut before: Option<usize> = None;
        for step in 0..len {
            let row = if reverse { len - 1 - step } else { step } * inner;
            for i in 0..inner {
                y[row + i] = before.map_or(x[row + i], |b| y[b + i].plus(x[row + i]));
            }
            before = Some(row);
        }
    };
    Box::new(Batched { batch: outer, cost: 20.0 + (outer * len * inner) as f64, run })
}

pub(super) fn cholesky<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let &Kernel::Cholesky { batch, n, from, to, .. } = kernel else {
        unreachable!("called for Cholesky factors");
    };
    let (from, to) = (layout.at::<T>(from), layout.at::<T>(to));
    let run = move |ctx: &Ctx<'_>, tile: usize| {
        // SAFETY: the plan gives both buffers `batch` matrices, and the tile owns one of them.
        let (a, l) = unsafe { (item(ctx, from, tile, n * n), item_mut(ctx, to, tile, n * n)) };
        let half = T::of(0.5);
        for i in 0..n {
            for j in 0..n {
                l[i * n + j] = T::of(0.0);
            }
            for j in 0..=i {
                let mut s = a[i * n + j].plus(a[j * n + i]).times(half);
                for k in 0..j {
                    s = s.minus(l[i * n + k].times(l[j * n + k]));
                }
                l[i * n + j] = if i > j {
                    s.over(l[j * n + j])
                } else if s.positive() {
                    s.root()
                } else {
                    T::of(f64::NAN)
                };
            }
        }
    };
    Box::new(Batched { batch, cost: 20.0 + (batch * n * n * n) as f64 * 0.5, run })
}

pub(super) fn solve<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let &Kernel::TriSolve { batch, n, cols, upper, transpose, a, b, to, .. } = kernel else {
        unreachable!("called for triangular solves");
    };
    let (a, b, to) = (layout.at::<T>(a), layout.at::<T>(b), layout.at::<T>(to));
    let run = move |ctx: &Ctx<'_>, tile: usize| {
        // SAFETY: the plan gives each buffer `batch` matrices, and the tile owns one of the result.
        let (a, b, x) =
            unsafe { (item(ctx, a, tile, n * n), item(ctx, b, tile, n * cols), item_mut(ctx, to, tile, n * cols)) };
        let at = |i: usize, j: usize| if transpose { a[j * n + i] } else { a[i * n + j] };
        // A transposed lower triangle is an upper one.
        let backwards = upper != transpose;
        for step in 0..n {
            let i = if backwards { n - 1 - step } else { step };
            let solved = if backwards { i + 1..n } else { 0..i };
            for c in 0..cols {
                let mut s = b[i * cols + c];
                for j in solved.clone() {
                    s = s.minus(at(i, j).times(x[j * cols + c]));
                }
                x[i * cols + c] = s.over(at(i, i));
            }
        }
    };
    Box::new(Batched { batch, cost: 20.0 + (batch * n * n * cols) as f64, run })
}
