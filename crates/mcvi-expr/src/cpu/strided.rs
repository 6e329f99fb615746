//! Reading and writing elements through strides.

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

/// Copy rows of fewer than [`BLOCK`] elements.
///
/// # Safety
/// `to` must be valid for `rows * N` elements, and `from` wherever the strides reach.
unsafe fn short_rows<T: Copy, const N: usize>(to: *mut T, from: *const T, rows: usize, outer: isize, step: isize) {
    for r in 0..rows {
        for c in 0..N {
            // SAFETY: promised by the caller.
            unsafe { *to.add(r * N + c) = *from.offset(r as isize * outer + c as isize * step) };
        }
    }
}

/// Copy rows of at least [`BLOCK`] elements that are contiguous or all the same. The last block of a row overlaps the one before it.
///
/// # Safety
/// `to` must be valid for `rows * inner` elements, and `from` wherever the strides reach; `inner >= BLOCK`.
unsafe fn blocks<T: Copy, const STEP: usize>(to: *mut T, from: *const T, rows: usize, inner: usize, outer: isize) {
    for r in 0..rows {
        // SAFETY: promised by the caller.
        unsafe {
            let (to, from) = (to.add(r * inner), from.offset(r as isize * outer));
            let block = |at: usize| {
                let values: [T; BLOCK] = std::array::from_fn(|i| *from.add((at + i) * STEP));
                to.add(at).cast::<[T; BLOCK]>().write_unaligned(values);
            };
            (0..inner / BLOCK).for_each(|b| block(b * BLOCK));
            block(inner - BLOCK);
        }
    }
}

/// Copy whole rows.
///
/// # Safety
/// `to` must be valid for `rows * inner` elements, and `from` wherever the strides reach.
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
            (LONG.., 1) => (0..rows).for_each(|r| {
                std::ptr::copy_nonoverlapping(from.offset(r as isize * outer), to.add(r * inner), inner);
            }),
            (_, 0) => blocks::<T, 0>(to, from, rows, inner, outer),
            (_, 1) => blocks::<T, 1>(to, from, rows, inner, outer),
            _ => (0..rows).for_each(|r| {
                let (to, from) = (to.add(r * inner), from.offset(r as isize * outer));
                (0..inner).for_each(|i| *to.add(i) = *from.offset(i as isize * step));
            }),
        }
    }
}

/// Copy elements `first..first + n` of a strided array to `to`.
///
/// # Safety
/// `to` must be valid for n elements, and every element the strides reach within `dims` must be readable.
pub(super) unsafe fn gather<T: Copy>(
    to: *mut T,
    from: *const T,
    dims: &[usize],
    strides: &[isize],
    first: usize,
    n: usize,
) {
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
