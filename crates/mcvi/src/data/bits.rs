//! Binarized MNIST as packed bits: 28×28 pixels, 98 bytes per image, row by row, the most significant bit first.

use super::file::read_all;
use super::{Images, Split, known, wrong};
use crate::error::Result;
use std::path::Path;

const SIDE: usize = 28;
const BYTES: usize = SIDE * SIDE / 8;

pub(super) fn read(path: &Path, split: Split) -> Result<Images> {
    parse(read_all(path)?, path, split)
}

pub(super) fn parse(bits: Vec<u8>, path: &Path, split: Split) -> Result<Images> {
    if bits.is_empty() || !bits.len().is_multiple_of(BYTES) {
        let (found, expected) =
            (format!("{} bytes", bits.len()), format!("a multiple of {BYTES}, the bytes of an image"));
        return Err(wrong(path, found, expected, "the file is incomplete, or no packed bits; write or get it again"));
    }
    let images = Images::from_bits(SIDE, SIDE, bits)?;
    known::check(path, split, &images)?;
    Ok(images)
}
