//! The largest sizes that can be asked for. They hold in every door: arguments of the command, files of settings, saved
//! fits and states, and programs that call the library. What is larger is refused before memory is taken.

use crate::error::{Error, Result};
use std::ops::RangeInclusive;

/// Draws from an approximation, and importance samples of an image.
pub const DRAWS: usize = 10_000_000;
/// Draws for a gradient.
pub const GRADIENT_DRAWS: usize = 100_000;
/// Iterations of the first round of a fit.
pub const ROUND: usize = 1_000_000;
/// The factor by which each round is longer than the one before.
pub const GROWTH: usize = 100;
/// Starting points for the search for modes.
pub const STARTS: usize = 1000;
/// Modes that are fitted, each by a chain of its own.
pub const MODES: usize = 16;
/// Steps of a chain. Long ones of one kind run as a loop.
pub const STEPS: usize = 4096;
/// Leapfrogs, or kicks, of a step.
pub const LEAPFROGS: usize = 1000;
/// Gradients of the target in a pass through a chain: a program is as large.
pub const GRADIENTS: usize = 4096;
/// Hidden layers of a network, and feature maps of a convolutional one.
pub const LAYERS: usize = 20;
/// Units of a hidden layer.
pub const HIDDEN: usize = 100_000;
/// Latent variables of a deep model.
pub const LATENT: usize = 10_000;
/// Weights of a model: what training keeps for each is several times as large.
pub const WEIGHTS: usize = 1 << 29;
/// Epochs of training.
pub const EPOCHS: usize = 10_000_000;
/// Pixels of an image.
pub const PIXELS: usize = 1 << 20;
/// Bytes that compressed files of a set of images may unpack to. Memory for other files grows with their size.
pub const UNPACKED: usize = 1 << 30;

/// An error if a number is outside its range.
pub(crate) fn within(what: &'static str, n: usize, range: RangeInclusive<usize>) -> Result<()> {
    if range.contains(&n) {
        return Ok(());
    }
    let why = format!("{n} is not between {} and {}", range.start(), range.end());
    Err(Error::Setting { what, why })
}

/// An error if a number is not positive and finite.
pub(crate) fn positive(what: &'static str, x: f64) -> Result<()> {
    if x > 0.0 && x.is_finite() {
        return Ok(());
    }
    Err(Error::Setting { what, why: format!("{x} is not a positive number") })
}
