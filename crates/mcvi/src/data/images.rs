//! A set of images in memory: one bit per binary pixel, one byte per grey one, floats only on demand.

use super::order::{PIXELS, generator};
use super::{Split, known};
use crate::error::{Error, Result};
use mcvi_expr::Array;
use rand::Rng;
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;

/// Grey or binary images of one size, at least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Images {
    height: usize,
    width: usize,
    count: usize,
    pixels: Pixels,
}

#[derive(Clone, PartialEq, Eq)]
enum Pixels {
    /// Row by row, the most significant bit first. Each image starts with a new byte, and the unused bits of its last
    /// byte are zero.
    Binary(Vec<u8>),
    /// Row by row, 0 black and 255 white.
    Grey(Vec<u8>),
}

impl Images {
    /// Images from their pixels row by row, 0 black and 255 white; binary if there is nothing in between.
    pub fn new(height: usize, width: usize, grey: Vec<u8>) -> Result<Self> {
        let count = counted(height, width, height.saturating_mul(width), grey.len())?;
        let images = Images { height, width, count, pixels: Pixels::Grey(grey) };
        Ok(images.packed_if(|p| p == 0 || p == 255, |p| p == 255).unwrap_or(images))
    }

    /// Binary images from packed bits: row by row, the most significant bit first, each image starting with a new byte.
    pub fn from_bits(height: usize, width: usize, mut bits: Vec<u8>) -> Result<Self> {
        let pixels = height.saturating_mul(width);
        let stride = pixels.div_ceil(8);
        let count = counted(height, width, stride, bits.len())?;
        if !pixels.is_multiple_of(8) {
            // Equal images have equal bytes: unused bits are cleared.
            let mask = 0xff << (8 - pixels % 8);
            bits.chunks_exact_mut(stride).for_each(|image| image[stride - 1] &= mask);
        }
        Ok(Images { height, width, count, pixels: Pixels::Binary(bits) })
    }

    /// Number of images.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.count
    }

    /// Rows of an image.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of an image.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Pixels of an image.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Whether every pixel is black or white.
    pub fn is_binary(&self) -> bool {
        matches!(self.pixels, Pixels::Binary(_))
    }

    /// All images, `[n, pixels]` in 32-bit floats from 0 to 1.
    pub fn array(&self) -> Result<Array> {
        self.gather(self.count, 0..self.count)
    }

    /// The images with these indices, as [`array`](Self::array) gives them: a minibatch.
    pub fn batch(&self, numbers: &[i32]) -> Result<Array> {
        let outside = |i: &&i32| usize::try_from(**i).map_or(true, |i| i >= self.count);
        if let Some(i) = numbers.iter().find(outside) {
            let why = format!("number {i} asked for, the set has 0 to {}", self.count - 1);
            return Err(Error::Setting { what: "images", why });
        }
        self.gather(numbers.len(), numbers.iter().map(|i| *i as usize))
    }

    fn gather(&self, rows: usize, numbers: impl Iterator<Item = usize>) -> Result<Array> {
        let size = rows.saturating_mul(self.pixels());
        let mut values = vec![];
        if values.try_reserve_exact(size).is_err() {
            return Err(mcvi_expr::Error::Memory { bytes: size.saturating_mul(4) }.into());
        }
        values.resize(size, 0.0);
        for (row, i) in values.chunks_exact_mut(self.pixels()).zip(numbers) {
            self.write(i, row);
        }
        Ok(Array::new([rows, self.pixels()], values)?)
    }

    /// One image, its pixels from 0 to 1.
    ///
    /// # Panics
    /// If the index is out of range, like indexing a slice.
    pub fn row(&self, i: usize) -> Vec<f32> {
        let mut row = vec![0.0; self.pixels()];
        self.write(i, &mut row);
        row
    }

    fn write(&self, i: usize, row: &mut [f32]) {
        let image = &self.bytes()[i * self.stride()..(i + 1) * self.stride()];
        match self.pixels {
            Pixels::Binary(_) => {
                for (eight, byte) in row.chunks_mut(8).zip(image) {
                    for (k, x) in eight.iter_mut().enumerate() {
                        *x = f32::from(byte >> (7 - k) & 1);
                    }
                }
            }
            Pixels::Grey(_) => {
                for (x, byte) in row.iter_mut().zip(image) {
                    *x = f32::from(*byte) / 255.0;
                }
            }
        }
    }

    /// The images of a range.
    pub fn take(&self, range: Range<usize>) -> Result<Self> {
        if range.is_empty() || range.end > self.count {
            let why = format!("{range:?} asked for, the set has {}", self.count);
            return Err(Error::Setting { what: "images", why });
        }
        let bytes = self.bytes()[range.start * self.stride()..range.end * self.stride()].to_vec();
        let pixels = if self.is_binary() { Pixels::Binary(bytes) } else { Pixels::Grey(bytes) };
        Ok(Images { count: range.len(), pixels, ..*self })
    }

    /// These images followed by the others, which must have the same size; grey if either are.
    pub fn joined(&self, other: &Images) -> Result<Self> {
        let sizes = [(self.height, self.width), (other.height, other.width)];
        if sizes[0] != sizes[1] || self.count + other.count > i32::MAX as usize {
            let [(h, w), (k, v)] = sizes;
            let why = format!(
                "{} of {h}×{w} and {} of {k}×{v} do not make one set; they must have one size",
                self.count, other.count
            );
            return Err(Error::Setting { what: "images", why });
        }
        let join = |a: &Images, b: &Images| [a.bytes(), b.bytes()].concat();
        let pixels = if self.is_binary() && other.is_binary() {
            Pixels::Binary(join(self, other))
        } else {
            Pixels::Grey(join(&self.grey(), &other.grey()))
        };
        Ok(Images { count: self.count + other.count, pixels, ..*self })
    }

    /// The same images with one byte per pixel.
    pub(super) fn grey(&self) -> Images {
        let Pixels::Binary(bits) = &self.pixels else { return self.clone() };
        let mut grey = Vec::with_capacity(self.count * self.pixels());
        for image in bits.chunks_exact(self.stride()) {
            grey.extend((0..self.pixels()).map(|k| if image[k / 8] >> (7 - k % 8) & 1 == 1 { 255 } else { 0 }));
        }
        Images { pixels: Pixels::Grey(grey), ..*self }
    }

    /// Binary images: each pixel is white with the probability of its grey value, drawn by seed and split, identically
    /// on every machine and in every version. Binary images are unchanged.
    pub fn binarized(&self, seed: u64, split: Split) -> Images {
        let mut rng = generator(seed, split as u64, PIXELS);
        // One draw for every pixel, even black ones, so that no pixel's draw depends on another's value.
        self.packed_if(|_| true, |p| (u64::from(rng.next_u32()) * 255) >> 32 < u64::from(p))
            .unwrap_or_else(|| self.clone())
    }

    /// Grey images packed by `white`, if they are grey and all pixels pass `fit`.
    fn packed_if(&self, fit: impl Fn(u8) -> bool, mut white: impl FnMut(u8) -> bool) -> Option<Images> {
        let Pixels::Grey(grey) = &self.pixels else { return None };
        if !grey.iter().all(|p| fit(*p)) {
            return None;
        }
        let mut bits = Vec::with_capacity(self.count * self.pixels().div_ceil(8));
        for image in grey.chunks_exact(self.pixels()) {
            for eight in image.chunks(8) {
                let byte = eight.iter().enumerate().map(|(k, p)| u8::from(white(*p)) << (7 - k)).sum();
                bits.push(byte);
            }
        }
        Some(Images { pixels: Pixels::Binary(bits), ..*self })
    }

    /// SHA-256 of size, kind and pixels, to tie a run to its data. The same images have the same checksum in any
    /// format.
    pub fn checksum(&self) -> String {
        let kind = if self.is_binary() { "binary" } else { "grey" };
        let head = format!("mcvi images 1: {} {kind} {}x{}\n", self.count, self.height, self.width);
        hex(Sha256::new().chain_update(head).chain_update(self.bytes()))
    }

    /// The published data set these images are, recognised by their pixels: "binarized MNIST, train", for example.
    pub fn known(&self) -> Option<String> {
        known::name(self)
    }

    /// SHA-256 of the pixels alone, as stored.
    pub(super) fn digest(&self) -> String {
        hex(Sha256::new().chain_update(self.bytes()))
    }

    fn bytes(&self) -> &[u8] {
        match &self.pixels {
            Pixels::Binary(bytes) | Pixels::Grey(bytes) => bytes,
        }
    }

    /// Bytes of an image.
    fn stride(&self) -> usize {
        if self.is_binary() { self.pixels().div_ceil(8) } else { self.pixels() }
    }
}

/// Without the pixels, of which there are millions.
impl fmt::Debug for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_binary() { "binary" } else { "grey" };
        write!(f, "Images({} {kind} {}×{})", self.count, self.height, self.width)
    }
}

/// The number of images of `stride` bytes in `len` bytes: at least one, and at most `i32::MAX`.
fn counted(height: usize, width: usize, stride: usize, len: usize) -> Result<usize> {
    let fits = stride > 0 && len > 0 && len.is_multiple_of(stride) && len / stride <= i32::MAX as usize;
    if !fits || height.checked_mul(width).is_none() {
        let why =
            format!("{len} bytes are not a whole number of images of {height}×{width} pixels, {stride} bytes each");
        return Err(Error::Setting { what: "images", why });
    }
    Ok(len / stride)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
