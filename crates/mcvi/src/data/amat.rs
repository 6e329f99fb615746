//! Binarized MNIST as it was published: text, one image of 28×28 a line, "0" or "1" for a pixel, spaces between.

use super::file::Source;
use super::{Images, Split, known, wrong};
use crate::error::{Error, Result};
use std::path::Path;

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
/// Bytes of a line as it is published, each pixel followed by a space or by the end of the line.
const LINE: usize = 2 * PIXELS;

pub(super) fn read(mut source: Source, split: Split) -> Result<Images> {
    let path = source.path.clone();
    let mut lines = Lines { line: 1, ..Lines::default() };
    let mut buffer = vec![0; 1 << 17];
    // Bytes at the start of the buffer that are not parsed yet: a part of a line.
    let mut kept = 0;
    loop {
        let n = source.fill(&mut buffer[kept..])?;
        let text = &buffer[..kept + n];
        let rest = lines.parse(text, n == 0).map_err(|bad| bad.at(&path))?;
        kept = rest.len();
        let at = text.len() - kept;
        buffer.copy_within(at..at + kept, 0);
        if n == 0 {
            break;
        }
    }
    lines.end().map_err(|bad| bad.at(&path))?;
    if lines.bits.is_empty() {
        return Err(wrong(&path, "no images", "one image a line", "get the file again"));
    }
    let images = Images::from_bits(SIDE, SIDE, lines.bits)?;
    known::check(&path, split, &images)?;
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
    /// Parse text, all of it if it is the last. Returns what is left, less than a line.
    fn parse<'a>(&mut self, mut text: &'a [u8], last: bool) -> Result<&'a [u8], Bad> {
        while let Some((line, rest)) = text.split_first_chunk::<LINE>() {
            if self.so_far == 0 && !self.joined && self.plain(line) {
                text = rest;
                continue;
            }
            if self.so_far == 0 {
                let blank = text.iter().take_while(|byte| **byte == b'\n').count();
                (self.line, self.joined) = (self.line + blank, self.joined && blank == 0);
                text = &text[blank..];
            }
            // Written differently, or wrong: byte by byte to the end of the line.
            let end = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1);
            text[..end].iter().try_for_each(|byte| self.byte(*byte))?;
            text = &text[end..];
        }
        if last {
            text.iter().try_for_each(|byte| self.byte(*byte))?;
            text = &[];
        }
        Ok(text)
    }

    /// Add a line in the form in which it is published, if it has that form.
    fn plain(&mut self, line: &[u8; LINE]) -> bool {
        let (pairs, _) = line.as_chunks::<2>();
        let spaced = pairs[..PIXELS - 1].iter().all(|[_, space]| *space == b' ') && line[LINE - 1] == b'\n';
        if !spaced || !pairs.iter().all(|[pixel, _]| *pixel & !1 == b'0') {
            return false;
        }
        let (bytes, _) = pairs.as_chunks::<8>();
        self.bits.extend(bytes.iter().map(|eight| eight.iter().fold(0, |byte, [pixel, _]| byte << 1 | pixel & 1)));
        self.line += 1;
        true
    }

    fn byte(&mut self, byte: u8) -> Result<(), Bad> {
        match byte {
            b'0' | b'1' if !self.joined && self.so_far < PIXELS => {
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
            b'0' | b'1' if !self.joined => return Err(Bad::Long { line: self.line }),
            b' ' | b'\t' | b'\r' => self.joined = false,
            b'\n' => self.end()?,
            _ => return Err(Bad::Byte { byte, line: self.line, pixel: self.so_far + 1 }),
        }
        Ok(())
    }

    /// The end of a line, or of the file. Empty lines are ignored.
    fn end(&mut self) -> Result<(), Bad> {
        if self.so_far != 0 && self.so_far != PIXELS {
            return Err(Bad::Short { found: self.so_far, line: self.line });
        }
        (self.line, self.so_far, self.joined) = (self.line + 1, 0, false);
        Ok(())
    }
}

enum Bad {
    Byte { byte: u8, line: usize, pixel: usize },
    Short { found: usize, line: usize },
    Long { line: usize },
}

impl Bad {
    fn at(self, path: &Path) -> Error {
        let size = |found: String| {
            let remedy = "the file is incomplete, get it again; write images of other sizes as .npy arrays";
            wrong(path, found, format!("{PIXELS}, an image"), remedy)
        };
        match self {
            Bad::Byte { byte, line, pixel } => {
                let found = format!("`{}` at pixel {pixel} of line {line}", byte.escape_ascii());
                let remedy = "the file is damaged or no AMAT file of binary images; get it again";
                wrong(path, found, "0 or 1, with spaces between", remedy)
            }
            Bad::Short { found, line } => size(format!("{found} pixels in line {line}")),
            Bad::Long { line } => size(format!("more than {PIXELS} pixels in line {line}")),
        }
    }
}
