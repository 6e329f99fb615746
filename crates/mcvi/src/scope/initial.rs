//! Initial values of parameters.

use crate::seed::SplitMix;

/// Initial value of a parameter, and the size of a change in it that matters.
pub struct Initial {
    /// The values, in row-major order.
    pub values: Vec<f64>,
    /// One scale for each value.
    pub scale: Vec<f64>,
}

impl Initial {
    /// Values whose changes matter at the scale of one.
    pub fn new(values: Vec<f64>) -> Self {
        let scale = vec![1.0; values.len()];
        Initial { values, scale }
    }

    /// With a scale for each value.
    pub fn scaled(values: Vec<f64>, scale: Vec<f64>) -> Self {
        Initial { values, scale }
    }
}

/// Numbers of unit variance, the same on every machine: a network needs units that differ, not randomness.
pub(super) fn spread_numbers(n: usize, path: &str, seed: u64) -> impl Iterator<Item = f64> + use<> {
    // The name is part of the seed, so that layers of one size differ.
    let mut numbers = SplitMix::new(seed, path);
    // A uniform distribution of variance one.
    (0..n).map(move |_| ((numbers.next() >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * 12f64.sqrt())
}
