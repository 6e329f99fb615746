//! IDX files, as MNIST was published: a magic number, three sizes, and a byte for each pixel.

use super::file::Source;
use super::{Images, image_size, wrong};
use crate::error::Result;
use std::path::Path;

pub(super) fn read(mut source: Source) -> Result<Images> {
    let path = source.path.clone();
    let path: &Path = &path;
    let head = source.read(16)?;
    let bad = |found: String, expected: String| {
        wrong(path, found, expected, "the file is damaged, incomplete or another one; get it again")
    };
    let words: Vec<usize> = head.as_chunks().0.iter().map(|b| u32::from_be_bytes(*b) as usize).collect();
    if let Some(magic) = words.first().filter(|magic| **magic != 0x803) {
        let labels = if *magic == 0x801 { ", the one of labels" } else { "" };
        let expected = "00000803, the one of images in bytes".to_owned();
        return Err(bad(format!("the magic number {magic:08x}{labels}"), expected));
    }
    let [_, count, height, width] = words[..] else {
        return Err(bad(format!("{} bytes", head.len()), "an IDX header of 16 bytes".to_owned()));
    };
    let size = count.checked_mul(height).and_then(|size| size.checked_mul(width)).filter(|size| *size > 0);
    let Some(size) = size else {
        return Err(bad(format!("{count} images of {height}×{width}"), "at least one image with pixels".to_owned()));
    };
    image_size(path, height, width)?;
    let expected = || format!("{size} bytes of pixels for {count} images of {height}×{width}");
    let grey = source.read(size)?;
    if grey.len() < size {
        return Err(bad(format!("{} bytes of pixels", grey.len()), expected()));
    }
    if !source.read(1)?.is_empty() {
        return Err(bad("more after the last image".to_owned(), expected()));
    }
    Images::new(height, width, grey)
}
