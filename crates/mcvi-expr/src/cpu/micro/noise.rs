//! Counter-based noise: Philox 4x32-10 streams of uniform and normal numbers.
//!
//! Element i of a stream comes from words of one Philox block, with counter
//! [block (low 32 bits), stream, step low, step high] and key = seed (low, high) (iterations of a loop count in step high); its value
//! depends on nothing else, in particular not on the range it is asked for with. Blocks are
//! computed many at a time, word by word in separate arrays, so that everything vectorises.
//! Between levels with and without fused multiply-add normal numbers may differ in the last bits.

use super::elementary::box_muller;
use super::{Level, Real};
use std::mem::MaybeUninit;

/// Blocks computed at a time.
const BATCH: usize = 64;
/// Up to this many blocks are computed one by one.
const SINGLE: usize = 2;
/// The number of blocks computed at a time is a multiple of this.
const ROUND: usize = 16;

/// One Philox 4x32-10 block (Salmon et al. 2011, as in Random123).
#[cfg(test)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox(counter[0], counter[1], [counter[2], counter[3]], &keys(key))
}

/// The round keys.
#[inline(always)]
fn keys(key: [u32; 2]) -> [[u32; 2]; 10] {
    let mut k = [key; 10];
    for i in 1..10 {
        k[i] = [k[i - 1][0].wrapping_add(0x9e37_79b9), k[i - 1][1].wrapping_add(0xbb67_ae85)];
    }
    k
}

/// Ten rounds, on 32-bit words kept in 64-bit lanes (which is what the multiplier works on).
#[inline(always)]
fn philox(block: u32, stream: u32, step: [u32; 2], keys: &[[u32; 2]; 10]) -> [u32; 4] {
    const LOW: u64 = 0xffff_ffff;
    let (mut c0, mut c1) = (u64::from(block), u64::from(stream));
    let (mut c2, mut c3) = (u64::from(step[0]), u64::from(step[1]));
    for k in keys {
        // The high halves hold rubbish from here on: a vector multiplier ignores them anyway.
        let p = 0xd251_1f53 * (c0 & LOW);
        let q = 0xcd9e_8d57 * (c2 & LOW);
        c0 = (q >> 32) ^ c1 ^ u64::from(k[0]);
        c1 = q;
        c2 = (p >> 32) ^ c3 ^ u64::from(k[1]);
        c3 = p;
    }
    [c0 as u32, c1 as u32, c2 as u32, c3 as u32]
}

/// What is drawn, from where.
#[derive(Clone, Copy)]
struct Draw {
    seed: u64,
    stream: u32,
    step: u64,
    first: u64,
}

/// The numbers of a block's words; those past `PER_BLOCK` mean nothing.
#[inline(always)]
fn numbers<T: Real, const NORMAL: bool, const F: bool>(w: [u32; 4]) -> [T; 4] {
    if NORMAL {
        let [(u, v), (s, t)] = T::normal_pairs(w);
        let (x, y) = box_muller::<T, F>(u, v);
        if T::PER_BLOCK == 2 {
            return [x, y, x, y];
        }
        let (z, w) = box_muller::<T, F>(s, t);
        [x, y, z, w]
    } else {
        T::uniforms(w)
    }
}

/// The elements of a draw into `dst[0..n]`.
///
/// # Safety
/// `dst` valid for writing n elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops run over several arrays at once
unsafe fn fill<T: Real, const NORMAL: bool, const F: bool>(draw: Draw, dst: *mut T, n: usize) {
    let per = T::PER_BLOCK;
    let keys = keys([draw.seed as u32, (draw.seed >> 32) as u32]);
    let step = [draw.step as u32, (draw.step >> 32) as u32];
    let at = draw.first;
    if (at % per as u64) as usize + n <= SINGLE * per {
        // Too few to be worth a vector.
        for i in 0..n as u64 {
            let at = at.wrapping_add(i);
            let k = (at % per as u64) as usize;
            if k > 0 && i > 0 {
                continue;
            }
            let x = numbers::<T, NORMAL, F>(philox((at / per as u64) as u32, draw.stream, step, &keys));
            for (x, j) in x[k..per].iter().zip(i as usize..n) {
                // SAFETY: j < n.
                unsafe { *dst.add(j) = *x };
            }
        }
        return;
    }
    let mut words = [[MaybeUninit::<u32>::uninit(); BATCH]; 4];
    let mut out = [[MaybeUninit::<T>::uninit(); BATCH]; 4];
    let mut flat = [MaybeUninit::<T>::uninit(); 4 * BATCH];
    let mut done = 0;
    while done < n {
        let at = draw.first.wrapping_add(done as u64);
        let block = at / per as u64;
        let skip = (at % per as u64) as usize;
        let take = (n - done).min(per * BATCH - skip);
        let blocks = (skip + take).div_ceil(per).div_ceil(ROUND) * ROUND;
        let blocks = blocks.min(BATCH);
        for j in 0..blocks {
            let w = philox((block as u32).wrapping_add(j as u32), draw.stream, step, &keys);
            for k in 0..4 {
                words[k][j].write(w[k]);
            }
        }
        for j in 0..blocks {
            // SAFETY: words[..][j] was written just above.
            let w = unsafe {
                [
                    words[0][j].assume_init(),
                    words[1][j].assume_init(),
                    words[2][j].assume_init(),
                    words[3][j].assume_init(),
                ]
            };
            for (k, x) in numbers::<T, NORMAL, F>(w).into_iter().take(per).enumerate() {
                out[k][j].write(x);
            }
        }
        for j in 0..blocks {
            for k in 0..per {
                flat[per * j + k] = out[k][j];
            }
        }
        // SAFETY: done + take ≤ n, and skip + take ≤ per·blocks elements were computed.
        unsafe {
            let from = flat.as_ptr().cast::<T>().add(skip);
            std::ptr::copy_nonoverlapping(from, dst.add(done), take);
        }
        done += take;
    }
}

/// # Safety
/// As for [`fill`].
unsafe fn fill_baseline<T: Real, const NORMAL: bool>(draw: Draw, dst: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { fill::<T, NORMAL, { super::BASE_FMA }>(draw, dst, n) }
}

/// # Safety
/// As for [`fill`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn fill_avx2<T: Real, const NORMAL: bool>(draw: Draw, dst: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { fill::<T, NORMAL, true>(draw, dst, n) }
}

/// # Safety
/// As for [`fill`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn fill_avx512<T: Real, const NORMAL: bool>(draw: Draw, dst: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { fill::<T, NORMAL, true>(draw, dst, n) }
}

/// # Safety
/// As for [`fill`], on a processor of this level.
unsafe fn dispatch<T: Real, const NORMAL: bool>(level: Level, draw: Draw, dst: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => fill_avx512::<T, NORMAL>(draw, dst, n),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => fill_avx2::<T, NORMAL>(draw, dst, n),
            _ => fill_baseline::<T, NORMAL>(draw, dst, n),
        }
    }
}

/// Elements first..first+n of a uniform stream on (0, 1) into `dst`; any n.
///
/// `f32`: element i is (2m + 1)·2⁻²⁴, m the top 23 bits of word i mod 4 of block ⌊i/4⌋. `f64`: it
/// is (2m + 1)·2⁻⁵³, m the top 52 bits of the words 2(i mod 2) (low half) and 2(i mod 2) + 1 (high
/// half) of block ⌊i/2⌋. Neither 0 nor 1 occurs; the values are the same at every level.
///
/// # Safety
/// `dst` valid for writing n elements, and the processor of this level.
pub unsafe fn uniform<T: Real>(level: Level, seed: u64, stream: u32, step: u64, first: u64, dst: *mut T, n: usize) {
    let draw = Draw { seed, stream, step, first };
    // SAFETY: the caller's promise.
    unsafe { dispatch::<T, false>(level, draw, dst, n) }
}

/// Elements first..first+n of a standard normal stream into `dst`; any n.
///
/// Elements 2j and 2j + 1 are √(−2 ln u)·(cos 2πv, sin 2πv) (Box–Muller): for `f32`, u is
/// (w + ½)·2⁻³², rounded, of the first word of the pair and v the uniform number of the second;
/// for `f64` both are the uniform numbers. The largest value is 6.8 (`f32`), 8.6 (`f64`).
///
/// # Safety
/// `dst` valid for writing n elements, and the processor of this level.
pub unsafe fn normal<T: Real>(level: Level, seed: u64, stream: u32, step: u64, first: u64, dst: *mut T, n: usize) {
    let draw = Draw { seed, stream, step, first };
    // SAFETY: the caller's promise.
    unsafe { dispatch::<T, true>(level, draw, dst, n) }
}
