//! Sets of images: reading and checking the formats they are published in, and the order of images in an epoch.
//!
//! ```no_run
//! use mcvi::data::{Binarization, Dataset, Split, order};
//!
//! let data = Dataset::open("data/binarized_mnist")?;
//! let [train, valid] = data.read([Split::Train, Split::Valid], Binarization::Fresh, 1)?;
//! println!("{}: {} images of {} by {}", data.format(), train.len(), train.height(), train.width());
//! for epoch in 0..10 {
//!     for batch in order(1, epoch, train.len()).chunks_exact(100) {
//!         let x = train.batch(batch)?; // [100, 784]
//!     }
//! }
//! # Ok::<(), mcvi::Error>(())
//! ```
//!
//! | format | files in the folder | splits |
//! |---|---|---|
//! | packed bits | `train.bits`, `valid.bits`, `test.bits`: 28×28 binary pixels, 98 bytes an image | as named |
//! | AMAT | `binarized_mnist_train.amat`, `…_valid.amat`, `…_test.amat`, or `.amat.gz` | as named |
//! | IDX | `train-images-idx3-ubyte`, `t10k-images-idx3-ubyte`, or `.gz` | valid is the last sixth of the training file |
//! | NumPy | `train.npy`, `valid.npy`, `test.npy`, or the path of one `.npy` file | as named; one file by sixths |
//! | pictures | `.png` and `.pgm` in the folders `train`, `valid`, `test`, or in the folder itself | as named; one folder by sixths |
//!
//! An image has at most 2²⁰ pixels. Compressed files and pictures unpack to at most 1 GiB; `.npy` arrays and other
//! uncompressed files may have any size that fits into memory.
//!
//! Sixths: test is the last sixth, valid the one before it, train the rest. Nothing is shuffled, so a split is the same
//! for everyone. Images sorted by class have to be shuffled when they are written.

mod amat;
mod bits;
mod file;
mod find;
mod idx;
mod images;
mod known;
mod npy;
mod order;
mod pictures;

pub use find::{Dataset, Format};
pub use images::Images;
pub use order::order;

use crate::error::{Error, Result};
use crate::limits;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A split of the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Split {
    /// Images to train on.
    Train,
    /// Images to validate on: they decide when to stop.
    Valid,
    /// Images to report results on.
    Test,
}

impl Split {
    /// All of them.
    pub const ALL: [Split; 3] = [Split::Train, Split::Valid, Split::Test];
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Split::Train => "train",
            Split::Valid => "valid",
            Split::Test => "test",
        })
    }
}

impl FromStr for Split {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        let known = Split::ALL.into_iter().find(|split| split.to_string() == s);
        known.ok_or_else(|| Error::Setting { what: "split", why: format!("`{s}` is none of train, valid, test") })
    }
}

/// How grey images are binarized. Images that are already binary are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binarization {
    /// Every pixel is drawn once, white with the probability of its grey value, by seed and split.
    Fixed,
    /// Images stay grey; training draws every pixel afresh each time it is used.
    Fresh,
}

impl fmt::Display for Binarization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Binarization::Fixed => "fixed",
            Binarization::Fresh => "fresh",
        })
    }
}

impl FromStr for Binarization {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "fixed" => Ok(Binarization::Fixed),
            "fresh" => Ok(Binarization::Fresh),
            _ => Err(Error::Setting { what: "binarization", why: format!("`{s}` is neither fixed nor fresh") }),
        }
    }
}

/// An error if images have more pixels than a model can have.
fn image_size(path: &Path, height: usize, width: usize) -> Result<()> {
    if height.saturating_mul(width) <= limits::PIXELS {
        return Ok(());
    }
    let expected = format!("at most {} pixels an image", limits::PIXELS);
    Err(wrong(path, format!("images of {height}×{width} pixels"), expected, "scale the images down"))
}

/// The error of a file with unexpected contents.
fn wrong(path: &Path, found: impl Into<String>, expected: impl Into<String>, remedy: impl Into<String>) -> Error {
    Error::Data {
        path: path.display().to_string(),
        found: found.into(),
        expected: expected.into(),
        remedy: remedy.into(),
    }
}
