//! The order of images in an epoch, and the random bits behind it: for a seed, the same on every machine and in every
//! version.
//!
//! ChaCha8 by name, because the generators that `rand` calls standard may change between versions.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// The purpose of random bits: different purposes never share them.
pub(super) const PIXELS: &[u8; 16] = b"mcvi grey pixels";
const ORDER: &[u8; 16] = b"mcvi epoch order";

/// A generator whose key is made of the seed, a number and the purpose.
pub(super) fn generator(seed: u64, number: u64, purpose: &[u8; 16]) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&number.to_le_bytes());
    key[16..].copy_from_slice(purpose);
    ChaCha8Rng::from_seed(key)
}

/// A permutation of 0..n for an epoch: Fisher–Yates with 64 random bits per swap.
///
/// # Panics
/// If n is over `i32::MAX`, more than any [`Images`](super::Images) has.
pub fn order(seed: u64, epoch: u64, n: usize) -> Vec<i32> {
    let last = i32::try_from(n).expect("a set has at most i32::MAX images");
    let mut rng = generator(seed, epoch, ORDER);
    let mut order: Vec<i32> = (0..last).collect();
    for i in (1..n).rev() {
        // A number of 0..=i, each with a probability off by less than 2⁻⁶⁴.
        let j = (u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64;
        order.swap(i, j as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by an independent implementation in Python. These must never change: resumed runs depend on them.
    #[test]
    fn known_answers() {
        assert_eq!(order(1, 0, 12), [0, 10, 1, 9, 8, 4, 5, 3, 11, 2, 6, 7]);
        assert_eq!(order(1, 1, 12), [4, 9, 3, 0, 6, 1, 5, 7, 8, 10, 11, 2]);
        assert_eq!(order(u64::MAX, 1 << 40, 12), [2, 9, 11, 0, 7, 3, 10, 4, 8, 1, 5, 6]);
        assert_eq!(order(5, 2, 100)[..8], [57, 98, 13, 37, 8, 31, 15, 30]);
        assert_eq!(generator(7, 2, PIXELS).next_u32(), 0xf17c_43ab);
    }

    #[test]
    fn permutations() {
        for n in [0, 1, 2, 3, 1000] {
            let mut sorted = order(3, 5, n);
            assert_eq!(sorted, order(3, 5, n));
            sorted.sort();
            assert_eq!(sorted, (0..n as i32).collect::<Vec<_>>());
        }
        assert_ne!(order(3, 5, 1000), order(3, 6, 1000));
        assert_ne!(order(3, 5, 1000), order(4, 5, 1000));
    }

    /// Of three things all six orders come equally often.
    #[test]
    fn uniform() {
        let mut counts = std::collections::HashMap::new();
        (0..6000).for_each(|epoch| *counts.entry(order(9, epoch, 3)).or_insert(0.0) += 1.0);
        let chi: f64 = counts.values().map(|c: &f64| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(counts.len() == 6 && chi < 25.7, "{counts:?}"); // one in ten thousand
    }
}
