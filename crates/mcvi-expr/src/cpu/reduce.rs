//! Reductions of runs, rows and columns, and the combination of what tiles have reduced.

use super::arena::Arena;
use super::micro::{Level, Micro, micro};
use super::sources::Float;
use super::{At, Ctx, Job};
use crate::graph::Reduction;
use crate::table::{Binary, Function};

#[inline(always)]
pub(super) fn fold<T: Float>(how: Reduction, a: T, b: T) -> T {
    match how {
        Reduction::Sum => a.plus(b),
        Reduction::Max => a.larger(b),
    }
}

/// Reduce n ≥ 1 elements, in an order that depends on n alone.
pub(super) type Run<T> = unsafe fn(from: *const T, n: usize) -> T;

/// Reduce rows of this length, each as [`Run`] does.
pub(super) type Rows<T> = unsafe fn(to: *mut T, from: *const T, rows: usize, row: usize);

/// Take n elements, which begin in this column of rows of this length, into what their columns have been reduced to.
pub(super) type Columns<T> = unsafe fn(to: *mut T, from: *const T, n: usize, column: usize, row: usize);

/// Elements that are reduced side by side.
const WIDTH: usize = 16;

/// # Safety
/// `from` must be valid for n elements.
#[inline(always)]
unsafe fn run<T: Float, const MAX: bool>(from: *const T, n: usize) -> T {
    let (how, nothing) = if MAX { (Reduction::Max, f64::NEG_INFINITY) } else { (Reduction::Sum, -0.0) };
    // SAFETY: promised by the caller.
    unsafe {
        if n < WIDTH {
            let mut value = *from;
            for i in 1..n {
                value = fold(how, value, *from.add(i));
            }
            return value;
        }
        let mut lanes = from.cast::<[T; WIDTH]>().read_unaligned();
        let mut done = WIDTH;
        while done < n {
            // The last elements once more, without those that have been counted.
            let start = done.min(n - WIDTH);
            let block = from.add(start).cast::<[T; WIDTH]>().read_unaligned();
            for i in 0..WIDTH {
                lanes[i] = fold(how, lanes[i], if start + i < done { T::of(nothing) } else { block[i] });
            }
            done = start + WIDTH;
        }
        let mut width = WIDTH;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[i] = fold(how, lanes[i], lanes[i + width]);
            }
        }
        lanes[0]
    }
}

/// # Safety
/// `from` must be valid for `rows * row` elements, `to` for one of each row.
#[inline(always)]
unsafe fn all_rows<T: Float, const MAX: bool>(to: *mut T, from: *const T, rows: usize, row: usize) {
    const TOGETHER: usize = 8;
    let how = if MAX { Reduction::Max } else { Reduction::Sum };
    let mut r = 0;
    // A short row is a chain of operations that wait for each other; several of them need not.
    while row < WIDTH && r + TOGETHER <= rows {
        // SAFETY: promised by the caller.
        unsafe {
            let from = from.add(r * row);
            let mut values: [T; TOGETHER] = std::array::from_fn(|i| *from.add(i * row));
            for column in 1..row {
                for (i, value) in values.iter_mut().enumerate() {
                    *value = fold(how, *value, *from.add(i * row + column));
                }
            }
            to.add(r).cast::<[T; TOGETHER]>().write_unaligned(values);
        }
        r += TOGETHER;
    }
    while r < rows {
        // SAFETY: promised by the caller.
        unsafe { *to.add(r) = run::<T, MAX>(from.add(r * row), row) };
        r += 1;
    }
}

/// # Safety
/// `from` must be valid for n elements, `to` for a row.
#[inline(always)]
unsafe fn add_columns<T: Float, const MAX: bool>(to: *mut T, from: *const T, n: usize, column: usize, row: usize) {
    const WIDTH: usize = 8;
    let how = if MAX { Reduction::Max } else { Reduction::Sum };
    let (mut column, mut done) = (column, 0);
    while done < n {
        let len = (row - column).min(n - done);
        // SAFETY: promised by the caller.
        unsafe {
            let (to, from) = (to.add(column), from.add(done));
            let mut i = 0;
            while i + WIDTH <= len {
                let place = to.add(i).cast::<[T; WIDTH]>();
                let (mut sums, block) = (place.read_unaligned(), from.add(i).cast::<[T; WIDTH]>().read_unaligned());
                for j in 0..WIDTH {
                    sums[j] = fold(how, sums[j], block[j]);
                }
                place.write_unaligned(sums);
                i += WIDTH;
            }
            while i < len {
                *to.add(i) = fold(how, *to.add(i), *from.add(i));
                i += 1;
            }
        }
        done += len;
        column = 0;
    }
}

/// The functions of a level.
macro_rules! level {
    ($name:ident $(, $feature:literal)?) => {
        mod $name {
            use super::Float;

            /// # Safety
            /// As for [`super::run`], on a processor with the level's features.
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn run<T: Float, const MAX: bool>(from: *const T, n: usize) -> T {
                // SAFETY: the caller's promise.
                unsafe { super::run::<T, MAX>(from, n) }
            }

            /// # Safety
            /// As for [`super::all_rows`], on a processor with the level's features.
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn rows<T: Float, const MAX: bool>(to: *mut T, from: *const T, rows: usize, row: usize) {
                // SAFETY: the caller's promise.
                unsafe { super::all_rows::<T, MAX>(to, from, rows, row) }
            }

            /// # Safety
            /// As for [`super::add_columns`], on a processor with the level's features.
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn columns<T: Float, const MAX: bool>(
                to: *mut T,
                from: *const T,
                n: usize,
                column: usize,
                row: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::add_columns::<T, MAX>(to, from, n, column, row) }
            }
        }
    };
}

level!(baseline);
#[cfg(target_arch = "x86_64")]
level!(avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
level!(avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");

/// What reduces at a level.
pub(super) struct Reducers<T> {
    pub run: Run<T>,
    pub rows: Rows<T>,
    pub columns: Columns<T>,
}

/// What reduces at a level, which must not be above [`Level::detect`] when it runs.
pub(super) fn reducers<T: Float>(level: Level, how: Reduction) -> Reducers<T> {
    fn of<T: Float, const MAX: bool>(level: Level) -> Reducers<T> {
        macro_rules! at {
            ($level:ident) => {
                Reducers {
                    run: $level::run::<T, MAX>,
                    rows: $level::rows::<T, MAX>,
                    columns: $level::columns::<T, MAX>,
                }
            };
        }
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => at!(avx512),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => at!(avx2),
            _ => at!(baseline),
        }
    }
    if how == Reduction::Max { of::<T, true>(level) } else { of::<T, false>(level) }
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
    for i in 0..n / row {
        // SAFETY: promised by the caller.
        unsafe { *to.add(i) = run::<T, MAX>(from.add(i * row), row) };
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
