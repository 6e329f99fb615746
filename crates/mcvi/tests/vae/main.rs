//! Deep models: training improves the bound, goes on bit for bit, and its estimates of log p(x) are right.

mod evidence;
mod kernels;
mod ranks;
mod training;

use mcvi::vae::{Architecture, TrainSettings};
use mcvi_expr::Array;

/// Extent of the images.
pub const SIDE: usize = 6;

/// Images whose four quarters are each on or off, with some pixels flipped: a model has something to find.
pub fn quarters(count: usize, seed: u64) -> Array {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut pixels = vec![];
    for _ in 0..count {
        let on: Vec<bool> = (0..4).map(|_| next(2) == 1).collect();
        for i in 0..SIDE * SIDE {
            let quarter = 2 * (2 * (i / SIDE) / SIDE) + 2 * (i % SIDE) / SIDE;
            pixels.push(f32::from(on[quarter] != (next(20) == 0)));
        }
    }
    Array::new([count, SIDE * SIDE], pixels).unwrap()
}

/// A model small enough for a test.
pub fn small() -> Architecture {
    Architecture { image: [SIDE, SIDE], layers: 1, hidden: 16, latent: 4, leapfrogs: 2, ..Architecture::default() }
}

/// A few short epochs.
pub fn brief(epochs: usize) -> TrainSettings {
    TrainSettings { epochs, batch: 10, rate: 1e-2, warm_up: 2.0, ..TrainSettings::default() }
}
