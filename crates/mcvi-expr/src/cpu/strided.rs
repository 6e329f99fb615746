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

/// Copy rows of N elements.
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
    if let (&[_, inner @ ..8], &[outer, step]) = (dims, strides)
        && first.is_multiple_of(inner)
        && n.is_multiple_of(inner)
    {
        // Short rows, without the cost of a run for each.
        let (rows, from) = (n / inner, from.wrapping_offset((first / inner) as isize * outer));
        // SAFETY: promised by the caller: rows and columns stay within `dims`, and all of them within n.
        return unsafe {
            match inner {
                2 => short_rows::<T, 2>(to, from, rows, outer, step),
                3 => short_rows::<T, 3>(to, from, rows, outer, step),
                4 => short_rows::<T, 4>(to, from, rows, outer, step),
                5 => short_rows::<T, 5>(to, from, rows, outer, step),
                6 => short_rows::<T, 6>(to, from, rows, outer, step),
                _ => short_rows::<T, 7>(to, from, rows, outer, step),
            }
        };
    }
    let (inner, step) = (dims[rank - 1], strides[rank - 1]);
    let mut index = [0usize; MAX_RANK];
    let (mut rest, mut offset) = (first, 0isize);
    for axis in (0..rank).rev() {
        index[axis] = rest % dims[axis];
        rest /= dims[axis];
        offset += index[axis] as isize * strides[axis];
    }
    let mut done = 0;
    loop {
        let run = (inner - index[rank - 1]).min(n - done);
        // SAFETY: promised by the caller: `index` stays within `dims`, and `done + run` within n.
        unsafe {
            let (to, from) = (to.add(done), from.offset(offset));
            match step {
                1 => std::ptr::copy_nonoverlapping(from, to, run),
                0 => fill(to, *from, run),
                _ => (0..run).for_each(|i| *to.add(i) = *from.offset(i as isize * step)),
            }
        }
        done += run;
        if done == n {
            return;
        }
        // On to the next run: the innermost index returns to 0, the others count up.
        offset -= index[rank - 1] as isize * step;
        index[rank - 1] = 0;
        for axis in (0..rank - 1).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            offset -= dims[axis] as isize * strides[axis];
            index[axis] = 0;
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
