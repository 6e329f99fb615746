//! Tests of the noise: known answers, splits, moments.

use super::noise::{normal, philox4x32_10, uniform};
use super::tests::levels;
use super::{Level, Real};

#[test]
fn philox_known_answers() {
    let m = u32::MAX;
    let rows = [
        ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
        ([m; 4], [m; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
        (
            [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xa4093822, 0x299f31d0],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ),
    ];
    for (counter, key, want) in rows {
        assert_eq!(philox4x32_10(counter, key), want);
    }
}

type Fill<T> = unsafe fn(Level, u64, u32, u64, u64, *mut T, usize);

fn drawn<T: Real>(f: Fill<T>, level: Level, first: u64, n: usize) -> Vec<T> {
    let mut v = vec![T::lit(0.0); n];
    // SAFETY: v has n elements and the level is one the processor has.
    unsafe { f(level, 0x0123_4567_89ab_cdef, 7, 1 << 40 | 5, first, v.as_mut_ptr(), n) };
    v
}

fn splits<T: Real>(f: Fill<T>) {
    for level in levels() {
        let whole: Vec<u64> = drawn(f, level, 0, 700).iter().map(|x| x.to_f64().to_bits()).collect();
        for (first, n) in [(0, 1), (1, 1), (2, 3), (3, 64), (5, 300), (63, 258), (255, 2), (256, 256), (399, 301)] {
            let part = drawn(f, level, first as u64, n);
            let part: Vec<u64> = part.iter().map(|x| x.to_f64().to_bits()).collect();
            assert_eq!(part, whole[first..first + n], "{level:?} {first} {n}");
        }
    }
}

#[test]
fn noise_splits() {
    splits::<f32>(uniform);
    splits::<f64>(uniform);
    splits::<f32>(normal);
    splits::<f64>(normal);
}

#[test]
fn noise_words() {
    let key = [0x89ab_cdef, 0x0123_4567];
    for level in levels() {
        let (x, y) = (drawn::<f32>(uniform, level, 0, 40), drawn::<f64>(uniform, level, 0, 40));
        for i in 0..40u32 {
            let w = philox4x32_10([i / 4, 7, 5, 1 << 8], key);
            let m = f64::from(w[(i % 4) as usize] >> 9);
            assert_eq!(f64::from(x[i as usize]), (2.0 * m + 1.0) / f64::from(1 << 24));
            let w = philox4x32_10([i / 2, 7, 5, 1 << 8], key);
            let k = 2 * (i % 2) as usize;
            let m = (u64::from(w[k + 1]) << 32 | u64::from(w[k])) >> 12;
            assert_eq!(y[i as usize], (2 * m + 1) as f64 / (1u64 << 53) as f64);
        }
    }
}

/// The first four moments of a stream, and that it lies in the open interval.
fn moments<T: Real>(f: Fill<T>, inside: impl Fn(f64) -> bool, want: [f64; 4]) {
    let n = 400_000;
    for level in levels() {
        let v = drawn(f, level, 12345, n);
        let mut m = [0.0; 4];
        for x in v.iter().map(|x| x.to_f64()) {
            assert!(inside(x), "{x}");
            for (k, s) in m.iter_mut().enumerate() {
                *s += x.powi(k as i32 + 1) / n as f64;
            }
        }
        for k in 0..4 {
            // Five standard errors and more: the fourth power of a normal number has deviation 9.8.
            let tol = 5.0 * [1.0, 1.5, 3.9, 9.8][k] / (n as f64).sqrt();
            assert!((m[k] - want[k]).abs() < tol, "{level:?} moment {}: {}", k + 1, m[k]);
        }
        // Neighbours are uncorrelated.
        let mean = want[0];
        let cov: f64 = v.windows(2).map(|w| (w[0].to_f64() - mean) * (w[1].to_f64() - mean)).sum();
        assert!((cov / n as f64).abs() < 5.0 / (n as f64).sqrt());
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of draws")]
fn noise_moments() {
    let flat = [0.5, 1.0 / 3.0, 0.25, 0.2];
    moments::<f32>(uniform, |x| x > 0.0 && x < 1.0, flat);
    moments::<f64>(uniform, |x| x > 0.0 && x < 1.0, flat);
    moments::<f32>(normal, |x| x.abs() < 7.0, [0.0, 1.0, 0.0, 3.0]);
    moments::<f64>(normal, |x| x.abs() < 9.0, [0.0, 1.0, 0.0, 3.0]);
}
