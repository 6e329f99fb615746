//! The loops around the lane functions.

use super::real::{Real, sel};
use std::mem::MaybeUninit;

/// A kernel: writes `dst[i]` from `a[i]`, `b[i]`, `c[i]` for i < n.
///
/// Of a pair of results ([`Heavy`] with `W` = 2) c is no operand but a second result: `c[i]` is written, never read,
/// and the pointer must be one that may be written through.
pub type Micro<T> = unsafe fn(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize);

/// Elements the loops of the expensive functions choose a form for at a time.
const CHUNK: usize = 64;

/// What one lane does, with `W` results. `F`: fused multiply-add available.
pub(super) trait Lane<T: Real, const W: usize = 1> {
    /// Operands read; the pointers of the others are never followed.
    const ARITY: usize;
    /// Whether a cheaper form, with the same results, serves chunks whose lanes are all `easy`.
    const EASY: bool = false;
    /// Whether some lanes are `few`, with a form of their own.
    const FEW: bool = false;
    /// Whether some lanes are `odd`, redone in scalar code.
    const ODD: bool = false;

    /// The function.
    fn full<const F: bool>(a: T, b: T, c: T) -> [T; W];
    /// Negative unless `fast` is right for this lane.
    #[inline(always)]
    fn hard(_a: T, _b: T) -> T::Bits {
        T::Bits::default()
    }
    /// The function where every lane is easy.
    #[inline(always)]
    fn fast<const F: bool>(a: T, b: T, c: T) -> [T; W] {
        Self::full::<F>(a, b, c)
    }
    /// Whether the result is that of `brief`, and of no other form; never where the lane is easy.
    #[inline(always)]
    fn few(_a: T, _b: T) -> bool {
        false
    }
    /// The function of few lanes.
    #[inline(always)]
    fn brief<const F: bool>(a: T, _b: T) -> [T; W] {
        [a; W]
    }
    /// Negative if the lane needs `fix`.
    #[inline(always)]
    fn odd(_a: T, _b: T) -> T::Bits {
        T::Bits::default()
    }
    /// The function for odd lanes.
    fn fix(a: T, _b: T) -> [T; W] {
        [a; W]
    }
}

/// A whole kernel body, to be compiled once per level.
pub(super) trait Kernel<T: Real> {
    /// # Safety
    /// As for [`Micro`].
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize);
}

/// Loop of a cheap function: one vector of each operand at a time, in arrays held by value.
pub(super) struct Light<L>(L);

/// # Safety
/// As for [`Micro`]; n a multiple of `N`.
#[inline(always)]
pub(super) unsafe fn light<T: Real, L: Lane<T>, const F: bool, const N: usize>(
    dst: *mut T,
    a: *const T,
    b: *const T,
    c: *const T,
    n: usize,
) {
    let mut i = 0;
    while i < n {
        // SAFETY: i + N ≤ n, and operands past ARITY are not touched; all loads precede the
        // store, so that dst may be one of the operands.
        unsafe {
            let x = a.add(i).cast::<[T; N]>().read_unaligned();
            let y = if L::ARITY > 1 { b.add(i).cast::<[T; N]>().read_unaligned() } else { x };
            let z = if L::ARITY > 2 { c.add(i).cast::<[T; N]>().read_unaligned() } else { x };
            let mut r = x;
            for j in 0..N {
                [r[j]] = L::full::<F>(x[j], y[j], z[j]);
            }
            dst.add(i).cast::<[T; N]>().write_unaligned(r);
        }
        i += N;
    }
}

impl<T: Real, L: Lane<T>> Kernel<T> for Light<L> {
    #[inline(always)]
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
        // SAFETY: the caller's promise; n is a multiple of LANES.
        unsafe {
            if T::LANES == 16 {
                light::<T, L, F, 16>(dst, a, b, c, n);
            } else {
                light::<T, L, F, 8>(dst, a, b, c, n);
            }
        }
    }
}

/// Loop of an expensive function: a block at a time, by the cheapest form that serves all its lanes.
/// The second of `W` results goes to c.
pub(super) struct Heavy<L, const W: usize = 1>(L);

impl<T: Real, L: Lane<T, W>, const W: usize> Kernel<T> for Heavy<L, W> {
    #[inline(always)]
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, c: *const T, n: usize) {
        let mut to = [dst; W];
        for second in &mut to[1..] {
            *second = c.cast_mut();
        }
        // SAFETY: the caller's promise; n is a multiple of LANES.
        unsafe {
            if T::LANES == 16 {
                heavy::<T, L, F, 16, 8, W>(to, a, b, n);
            } else {
                heavy::<T, L, F, 8, 4, W>(to, a, b, n);
            }
        }
    }
}

/// # Safety
/// As for [`Micro`]; n a multiple of `N`.
#[inline(always)]
unsafe fn heavy<T: Real, L: Lane<T, W>, const F: bool, const N: usize, const H: usize, const W: usize>(
    dst: [*mut T; W],
    a: *const T,
    b: *const T,
    n: usize,
) {
    // SAFETY: start + m ≤ n; b is not followed if it is no operand.
    unsafe {
        if !L::FEW && !L::EASY && !L::ODD {
            return blocks::<T, L, FULL, F, N, W>(dst, a, if L::ARITY > 1 { b } else { a }, n);
        }
        let mut start = 0;
        while start < n {
            let m = (n - start).min(CHUNK) / N * N;
            let a = a.add(start);
            let b = if L::ARITY > 1 { b.add(start) } else { a };
            chunk::<T, L, F, N, H, W>(at(dst, start), a, b, m);
            start += m;
        }
    }
}

/// All pointers advanced by i elements.
///
/// # Safety
/// As for `add` of each.
#[inline(always)]
unsafe fn at<T, const W: usize>(mut to: [*mut T; W], i: usize) -> [*mut T; W] {
    for p in &mut to {
        // SAFETY: the caller's promise.
        *p = unsafe { p.add(i) };
    }
    to
}

/// The forms of a lane function. (Not closures: those may end up as functions of their own, compiled
/// for the baseline.)
const FULL: u8 = 0;
const FAST: u8 = 1;
const BRIEF: u8 = 2;

/// The form of every lane, a block at a time. The loads of a block precede its stores, so that dst
/// may be one of the operands.
///
/// # Safety
/// All pointers valid for n elements, a multiple of `N`.
#[inline(always)]
unsafe fn blocks<T: Real, L: Lane<T, W>, const FORM: u8, const F: bool, const N: usize, const W: usize>(
    dst: [*mut T; W],
    a: *const T,
    b: *const T,
    n: usize,
) {
    let mut i = 0;
    while i < n {
        // SAFETY: i + N ≤ n.
        unsafe {
            let u = a.add(i).cast::<[T; N]>().read_unaligned();
            let v = b.add(i).cast::<[T; N]>().read_unaligned();
            let mut r = [u; W];
            for j in 0..N {
                let each = match FORM {
                    FAST => L::fast::<F>(u[j], v[j], u[j]),
                    BRIEF => L::brief::<F>(u[j], v[j]),
                    _ => L::full::<F>(u[j], v[j], u[j]),
                };
                for w in 0..W {
                    r[w][j] = each[w];
                }
            }
            for w in 0..W {
                dst[w].add(i).cast::<[T; N]>().write_unaligned(r[w]);
            }
        }
        i += N;
    }
}

/// Whether any lane is odd (`ODD`), or hard.
///
/// # Safety
/// Both pointers valid for m elements.
#[inline(always)]
unsafe fn any<T: Real, L: Lane<T, W>, const ODD: bool, const W: usize>(a: *const T, b: *const T, m: usize) -> bool {
    let mut all = T::Bits::default();
    for j in 0..m {
        // SAFETY: j < m.
        let (x, y) = unsafe { (*a.add(j), *b.add(j)) };
        all = all | if ODD { L::odd(x, y) } else { L::hard(x, y) };
    }
    all < T::Bits::default()
}

/// A chunk by the cheapest form that serves all its lanes.
///
/// # Safety
/// All pointers valid for m elements, a multiple of `N` and at most `CHUNK`.
#[inline(always)]
unsafe fn chunk<T: Real, L: Lane<T, W>, const F: bool, const N: usize, const H: usize, const W: usize>(
    dst: [*mut T; W],
    a: *const T,
    b: *const T,
    m: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        // Most chunks that are not easy show it in the first lane.
        let easy = L::EASY && L::hard(*a, *b) >= T::Bits::default() && !any::<T, L, false, W>(a, b, m);
        if easy {
            blocks::<T, L, FAST, F, N, W>(dst, a, b, m);
        } else if L::FEW {
            sorted::<T, L, F, N, H, W>(dst, a, b, m);
        } else {
            full::<T, L, F, N, W>(dst, a, b, m);
        }
    }
}

/// A chunk by the form that serves all lanes but the odd and the few.
///
/// # Safety
/// As for [`chunk`].
#[inline(always)]
unsafe fn full<T: Real, L: Lane<T, W>, const F: bool, const N: usize, const W: usize>(
    dst: [*mut T; W],
    a: *const T,
    b: *const T,
    m: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut fixed = [MaybeUninit::<(usize, [T; W])>::uninit(); CHUNK];
        let mut count = 0;
        if L::ODD && any::<T, L, true, W>(a, b, m) {
            for j in 0..m {
                let (x, y) = (*a.add(j), *b.add(j));
                if L::odd(x, y) < T::Bits::default() {
                    fixed[count].write((j, L::fix(x, y)));
                    count += 1;
                }
            }
        }
        blocks::<T, L, FULL, F, N, W>(dst, a, b, m);
        for f in &fixed[..count] {
            let (j, r) = f.assume_init();
            for w in 0..W {
                *dst[w].add(j) = r[w];
            }
        }
    }
}

/// A chunk all of whose lanes are few but 1 to `H`, those of the bits of `rest`.
///
/// # Safety
/// As for [`chunk`].
#[inline(always)]
unsafe fn handful<T: Real, L: Lane<T, W>, const F: bool, const N: usize, const H: usize, const W: usize>(
    dst: [*mut T; W],
    a: *const T,
    b: *const T,
    m: usize,
    rest: u64,
) {
    // SAFETY: all indices are below m. The operands are taken before dst, which may be one, is written,
    // and are held by value (a wide load of narrow stores is slow).
    unsafe {
        let mut at = [0; H];
        let (mut u, mut v) = ([*a; H], [*b; H]);
        let mut odd = T::Bits::default();
        // Without a branch on their number: the last is repeated.
        let mut left = rest;
        for k in 0..H {
            at[k] = left.trailing_zeros() as usize;
            (u[k], v[k]) = (*a.add(at[k]), *b.add(at[k]));
            odd = odd | L::odd(u[k], v[k]);
            let next = left & (left - 1);
            left = sel(next == 0, left, next);
        }
        blocks::<T, L, BRIEF, F, N, W>(dst, a, b, m);
        let mut r = [u; W];
        for k in 0..H {
            let each = L::full::<F>(u[k], v[k], u[k]);
            for w in 0..W {
                r[w][k] = each[w];
            }
        }
        for k in 0..H {
            for w in 0..W {
                *dst[w].add(at[k]) = r[w][k];
            }
        }
        if odd < T::Bits::default() {
            for k in 0..H {
                if L::odd(u[k], v[k]) < T::Bits::default() {
                    let fixed = L::fix(u[k], v[k]);
                    for w in 0..W {
                        *dst[w].add(at[k]) = fixed[w];
                    }
                }
            }
        }
    }
}

/// A chunk some of whose lanes may be few: the others, gathered into as few blocks as may be, are
/// done apart; a block of `H` lanes if that holds them.
///
/// # Safety
/// As for [`chunk`].
#[inline(always)]
unsafe fn sorted<T: Real, L: Lane<T, W>, const F: bool, const N: usize, const H: usize, const W: usize>(
    dst: [*mut T; W],
    a: *const T,
    b: *const T,
    m: usize,
) {
    let mut parts = [[MaybeUninit::<T>::uninit(); CHUNK]; 2];
    let [x, y] = parts.each_mut().map(|p| p.as_mut_ptr().cast::<T>());
    let mut results = [[MaybeUninit::<T>::uninit(); CHUNK]; W];
    let z = results.each_mut().map(|p| p.as_mut_ptr().cast::<T>());
    // SAFETY: all indices are below m, and the parts are written where they are read. The operands are
    // taken before dst, which may be one, is written.
    unsafe {
        let mut rest = 0;
        for j in 0..m {
            rest |= sel(L::few(*a.add(j), *b.add(j)), 0u64, 1 << j);
        }
        if rest == 0 {
            return blocks::<T, L, BRIEF, F, N, W>(dst, a, b, m);
        } else if rest == u64::MAX >> (64 - m) {
            return full::<T, L, F, N, W>(dst, a, b, m);
        }
        if rest.count_ones() as usize <= H {
            return handful::<T, L, F, N, H, W>(dst, a, b, m, rest);
        }
        let (mut left, mut count) = (rest, 0);
        while left != 0 {
            let j = left.trailing_zeros() as usize;
            (*x.add(count), *y.add(count)) = (*a.add(j), *b.add(j));
            left &= left - 1;
            count += 1;
        }
        // A block is filled up with lanes that are not odd.
        while !count.is_multiple_of(N) {
            (*x.add(count), *y.add(count)) = (T::lit(9.0), T::lit(9.0));
            count += 1;
        }
        blocks::<T, L, BRIEF, F, N, W>(dst, a, b, m);
        full::<T, L, F, N, W>(z, x, y, count);
        let (mut left, mut k) = (rest, 0);
        while left != 0 {
            let j = left.trailing_zeros() as usize;
            for w in 0..W {
                *dst[w].add(j) = *z[w].add(k);
            }
            left &= left - 1;
            k += 1;
        }
    }
}

/// Loop of a scalar function.
pub(super) struct Plain<L>(L);

impl<T: Real, L: Lane<T>> Kernel<T> for Plain<L> {
    #[inline(always)]
    unsafe fn run<const F: bool>(dst: *mut T, a: *const T, b: *const T, _: *const T, n: usize) {
        for j in 0..n {
            // SAFETY: j < n, and b is followed only if it is an operand.
            unsafe {
                let x = *a.add(j);
                let y = if L::ARITY > 1 { *b.add(j) } else { x };
                [*dst.add(j)] = L::fix(x, y);
            }
        }
    }
}
