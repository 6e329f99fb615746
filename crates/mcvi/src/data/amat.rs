//! Binarized MNIST as it was published: text, one image of 28×28 a line, "0" or "1" for a pixel, spaces between.

use super::file::Source;
use super::{Images, Split, known, wrong};
use crate::error::{Error, Result};
use std::path::Path;

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;

pub(super) fn read(path: &Path, split: Split) -> Result<Images> {
    let mut source = Source::open(path)?;
    let mut lines = Lines { line: 1, ..Lines::default() };
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = source.fill(&mut buffer)?;
        buffer[..n].iter().try_for_each(|byte| lines.byte(*byte)).map_err(|bad| bad.at(path))?;
        if n == 0 {
            break;
        }
    }
    lines.end().map_err(|bad| bad.at(path))?;
    if lines.bits.is_empty() {
        return Err(wrong(path, "no images", "one image a line", "get the file again"));
    }
    let images = Images::from_bits(SIDE, SIDE, lines.bits)?;
    known::check(path, split, &images)?;
    Ok(images)
}

/// Packs the text as it is read: it is sixteen times the size of the bits.
#[derive(Default)]
struct Lines {
    /// Number of the current line, from 1.
    line: usize,
    /// Pixels in it so far.
    so_far: usize,
    /// Whether the last byte was a pixel, after which another needs a space.
    joined: bool,
    bits: Vec<u8>,
}

impl Lines {
    fn byte(&mut self, byte: u8) -> Result<(), Bad> {
        match byte {
            b'0' | b'1' if !self.joined => {
                let place = self.so_far % 8;
                if place == 0 {
                    self.bits.push(0);
                }
                if let Some(last) = self.bits.last_mut() {
                    *last |= (byte - b'0') << (7 - place);
                }
                self.so_far += 1;
                self.joined = true;
            }
            b' ' | b'\t' | b'\r' => self.joined = false,
            b'\n' => self.end()?,
            _ => return Err(Bad::Byte { byte, line: self.line, pixel: self.so_far + 1 }),
        }
        Ok(())
    }

    /// The end of a line, or of the file. Empty lines are ignored.
    fn end(&mut self) -> Result<(), Bad> {
        if self.so_far != 0 && self.so_far != PIXELS {
            return Err(Bad::Length { found: self.so_far, line: self.line });
        }
        (self.line, self.so_far, self.joined) = (self.line + 1, 0, false);
        Ok(())
    }
}

enum Bad {
    Byte { byte: u8, line: usize, pixel: usize },
    Length { found: usize, line: usize },
}

impl Bad {
    fn at(self, path: &Path) -> Error {
        match self {
            Bad::Byte { byte, line, pixel } => {
                let found = format!("`{}` at pixel {pixel} of line {line}", byte.escape_ascii());
                let remedy = "the file is damaged or no AMAT file of binary images; get it again";
                wrong(path, found, "0 or 1, with spaces between", remedy)
            }
            Bad::Length { found, line } => {
                let remedy = "the file is incomplete, get it again; write images of other sizes as .npy arrays";
                wrong(path, format!("{found} pixels in line {line}"), format!("{PIXELS}, an image"), remedy)
            }
        }
    }
}
