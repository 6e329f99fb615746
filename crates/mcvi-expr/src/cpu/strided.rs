//! Reading and writing elements through strides.

use super::micro::Level;
use crate::shape::MAX_RANK;

/// # Safety
/// `to` must be valid for n elements.
pub(super) unsafe fn fill<T: Copy>(to: *mut T, value: T, n: usize) {
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts_mut(to, n) }.fill(value);
}

/// Bytes to an element; no axes stand for contiguous elements.
pub(super) fn offset<T>(dims: &[usize], strides: &[isize], element: usize) -> isize {
    let (mut rest, mut offset) = (element, if dims.is_empty() { element as isize } else { 0 });
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        offset += (rest % dim) as isize * stride;
        rest /= dim;
    }
    offset * size_of::<T>() as isize
}

/// Elements that are copied at once.
const BLOCK: usize = 8;
/// Elements from which a row is worth a call.
const LONG: usize = 128;

/// Copy elements `first..first + n` of an array with these dims and strides.
pub(super) type Gather<T> =
    unsafe fn(to: *mut T, from: *const T, dims: &[usize], strides: &[isize], first: usize, n: usize);

/// Copy rows of fewer than [`BLOCK`] elements.
///
/// # Safety
/// `to` must be valid for `rows * N` elements, and `from` wherever the strides reach.
#[inline(always)]
unsafe fn short_rows<T: Copy, const N: usize>(to: *mut T, from: *const T, rows: usize, outer: isize, step: isize) {
    for r in 0..rows {
        for c in 0..N {
            // SAFETY: promised by the caller.
            unsafe { *to.add(r * N + c) = *from.offset(r as isize * outer + c as isize * step) };
        }
    }
}

/// Copy rows of at least [`BLOCK`] elements that are contiguous or all the same. The last block of a row may overlap the one before it.
///
/// # Safety
/// `to` must be valid for `rows * inner` elements, and `from` wherever the strides reach; `inner >= BLOCK`.
#[inline(always)]
unsafe fn blocks<T: Copy, const STEP: usize>(to: *mut T, from: *const T, rows: usize, inner: usize, outer: isize) {
    let (mut to, mut from, last) = (to, from, inner - BLOCK);
    for _ in 0..rows {
        let mut at = 0;
        loop {
            // SAFETY: promised by the caller.
            unsafe {
                let values = match STEP {
                    0 => [*from; BLOCK],
                    _ => from.add(at).cast::<[T; BLOCK]>().read_unaligned(),
                };
                to.add(at).cast::<[T; BLOCK]>().write_unaligned(values);
            }
            if at == last {
                break;
            }
            at = last.min(at + BLOCK);
        }
        to = to.wrapping_add(inner);
        from = from.wrapping_offset(outer);
    }
}

/// Copy whole rows.
///
/// # Safety
/// `to` must be valid for `rows * inner` elements, and `from` wherever the strides reach.
#[inline(always)]
unsafe fn whole_rows<T: Copy>(to: *mut T, from: *const T, rows: usize, inner: usize, [outer, step]: [isize; 2]) {
    // SAFETY: promised by the caller; rows that are not short have a block.
    unsafe {
        match (inner, step) {
            (1, _) => short_rows::<T, 1>(to, from, rows, outer, step),
            (2, _) => short_rows::<T, 2>(to, from, rows, outer, step),
            (3, _) => short_rows::<T, 3>(to, from, rows, outer, step),
            (4, _) => short_rows::<T, 4>(to, from, rows, outer, step),
            (5, _) => short_rows::<T, 5>(to, from, rows, outer, step),
            (6, _) => short_rows::<T, 6>(to, from, rows, outer, step),
            (7, _) => short_rows::<T, 7>(to, from, rows, outer, step),
            (LONG.., 1) => {
                for r in 0..rows {
                    std::ptr::copy_nonoverlapping(from.offset(r as isize * outer), to.add(r * inner), inner);
                }
            }
            (_, 0) => blocks::<T, 0>(to, from, rows, inner, outer),
            (_, 1) => blocks::<T, 1>(to, from, rows, inner, outer),
            _ => {
                for r in 0..rows {
                    let (to, from) = (to.add(r * inner), from.offset(r as isize * outer));
                    for i in 0..inner {
                        *to.add(i) = *from.offset(i as isize * step);
                    }
                }
            }
        }
    }
}

/// # Safety
/// `to` must be valid for n elements, and every element the strides reach within `dims` must be readable.
#[inline(always)]
unsafe fn gather_rows<T: Copy>(to: *mut T, from: *const T, dims: &[usize], strides: &[isize], first: usize, n: usize) {
    let rank = dims.len();
    let (inner, step) = (dims[rank - 1], strides[rank - 1]);
    let (rows, outer) = if rank == 1 { (1, 0) } else { (dims[rank - 2], strides[rank - 2]) };
    let mut index = [0usize; MAX_RANK];
    let (mut rest, mut offset) = (first, 0isize);
    for axis in (0..rank).rev() {
        index[axis] = rest % dims[axis];
        rest /= dims[axis];
        offset += index[axis] as isize * strides[axis];
    }
    let mut done = 0;
    while done < n {
        // The rest of a row, or as many rows as follow each other.
        let column = index[rank - 1];
        let row = if rank == 1 { 0 } else { index[rank - 2] };
        let (count, width) = match (rows - row).min((n - done) / inner) {
            whole if column == 0 && whole > 0 => (whole, inner),
            _ => (1, (inner - column).min(n - done)),
        };
        // SAFETY: promised by the caller: `index` stays within `dims`, and what is copied within n.
        unsafe { whole_rows(to.add(done), from.offset(offset), count, width, [outer, step]) };
        done += count * width;
        // On to the next row: the innermost index returns to 0, the others count up.
        offset -= column as isize * step;
        index[rank - 1] = 0;
        let mut by = count;
        for axis in (0..rank - 1).rev() {
            index[axis] += by;
            offset += by as isize * strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            offset -= dims[axis] as isize * strides[axis];
            index[axis] = 0;
            by = 1;
        }
    }
}

/// The function of a level.
macro_rules! level {
    ($name:ident $(, $feature:literal)?) => {
        mod $name {
            /// # Safety
            /// As for [`super::gather_rows`], on a processor with the level's features.
            $(#[target_feature(enable = $feature)])?
            pub unsafe fn gather<T: Copy>(
                to: *mut T,
                from: *const T,
                dims: &[usize],
                strides: &[isize],
                first: usize,
                n: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::gather_rows(to, from, dims, strides, first, n) }
            }
        }
    };
}

level!(baseline);
#[cfg(target_arch = "x86_64")]
level!(avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
level!(avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");

pub(super) use baseline::gather;

/// What copies at a level, which must not be above [`Level::detect`] when it runs.
pub(super) fn gatherer<T: Copy>(level: Level) -> Gather<T> {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => avx512::gather::<T>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => avx2::gather::<T>,
        _ => baseline::gather::<T>,
    }
}

/// Write n elements to the places `first..first + n` of a strided array.
///
/// # Safety
/// `from` must be valid for n elements, and every element the strides reach within `dims` writable.
pub(super) unsafe fn scatter<T: Copy>(
    from: *const T,
    to: *mut T,
    dims: &[usize],
    strides: &[isize],
    first: usize,
    n: usize,
) {
    let rank = dims.len();
    let (inner, step) = (dims[rank - 1], strides[rank - 1]);
    let mut done = 0;
    while done < n {
        let (mut rest, column) = ((first + done) / inner, (first + done) % inner);
        let mut offset = column as isize * step;
        for axis in (0..rank - 1).rev() {
            offset += (rest % dims[axis]) as isize * strides[axis];
            rest /= dims[axis];
        }
        let run = (inner - column).min(n - done);
        // SAFETY: promised by the caller.
        unsafe {
            let (from, to) = (from.add(done), to.offset(offset));
            match step {
                1 => std::ptr::copy_nonoverlapping(from, to, run),
                _ => (0..run).for_each(|i| *to.offset(i as isize * step) = *from.add(i)),
            }
        }
        done += run;
    }
}
