//! A folder of pictures of one size, in the order of their names: PNG, and PGM.
//!
//! Only grey ones: how to convert colours is the user's choice, so pictures with colours are refused.

use super::file::{read_all, too_much, unreadable};
use super::{Images, image_size, wrong};
use crate::error::{Error, Result};
use crate::limits;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Picture formats that are not read, but must not be silently ignored either.
const OTHERS: [&str; 8] = ["jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp", "pbm"];

/// Memory for what a PNG holds besides its pixels, such as colour profiles.
const EXTRAS: usize = 1 << 24;

/// A picture: rows, columns, a byte per pixel.
type Picture = Result<(usize, usize, Vec<u8>), Bad>;

/// What is wrong with a picture: what was found, what was expected, and what to do; or its size.
enum Bad {
    Picture(String, &'static str, &'static str),
    Size(Error),
}

pub(super) fn is_picture(name: &Path) -> bool {
    extension(name).is_some_and(|e| e == "png" || e == "pgm")
}

fn extension(name: &Path) -> Option<String> {
    Some(name.extension()?.to_str()?.to_ascii_lowercase())
}

pub(super) fn read(folder: &Path) -> Result<Images> {
    let failed = |e| unreadable(folder, &e);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let entries: Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect();
    let mut paths = entries?;
    paths.sort();
    let other = |path: &&PathBuf| extension(path).is_some_and(|e| OTHERS.contains(&e.as_str()));
    if let Some(path) = paths.iter().find(other) {
        return Err(wrong(path, "a picture in another format", "PNG or PGM", "convert it, or remove it"));
    }
    // Files that macOS leaves beside pictures on other systems start with a dot.
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    paths.retain(|path| is_picture(path) && !hidden(path));
    let count = paths.len();
    let mut first: Option<(usize, usize, PathBuf)> = None;
    let mut grey = vec![];
    for path in paths {
        let bytes = read_all(&path)?;
        // All have the size of the first: whether they fit into memory is known from its header.
        let (height, width, pixels) = picture(&bytes, &path, |size| {
            if first.is_none() && size.saturating_mul(count) > limits::UNPACKED {
                Err(too_much(folder))
            } else {
                Ok(())
            }
        })?;
        let (h, w, name) = first.get_or_insert_with(|| (height, width, path.clone()));
        if (height, width) != (*h, *w) {
            let expected = format!("{h}×{w} as in {}", name.display());
            return Err(wrong(&path, format!("{height}×{width} pixels"), expected, "scale all pictures to one size"));
        }
        grey.extend(pixels);
    }
    let Some((height, width, _)) = first else {
        let expected = "pictures ending in .png or .pgm";
        return Err(wrong(folder, "none", expected, "put them there, not in folders below"));
    };
    Images::new(height, width, grey)
}

/// One picture as a set.
pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Images> {
    let (height, width, grey) = picture(bytes, path, |_| Ok(()))?;
    Images::new(height, width, grey)
}

/// Rows, columns and a byte per pixel. The number of pixels is checked once the header is read.
fn picture(bytes: &[u8], path: &Path, check: impl Fn(usize) -> Result<()>) -> Result<(usize, usize, Vec<u8>)> {
    let check = |height: usize, width: usize| image_size(path, height, width).and_then(|()| check(height * width));
    let picture = if bytes.starts_with(b"P") { pgm(bytes, check) } else { png(bytes, check) };
    picture.map_err(|error| match error {
        Bad::Picture(found, expected, remedy) => wrong(path, found, expected, remedy),
        Bad::Size(error) => error,
    })
}

const DAMAGED: &str = "the file is damaged or incomplete; make it again";

fn png(bytes: &[u8], check: impl Fn(usize, usize) -> Result<()>) -> Picture {
    let damaged = |e: png::DecodingError| Bad::Picture(format!("no readable PNG ({e})"), "a grey PNG", DAMAGED);
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: EXTRAS });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (height, width) = (reader.info().height as usize, reader.info().width as usize);
    check(height, width).map_err(Bad::Size)?;
    // A pixel has at most four samples.
    let mut samples = vec![0; reader.output_buffer_size().unwrap_or(4 * height * width)];
    let frame = reader.next_frame(&mut samples).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    samples.truncate(frame.buffer_size());
    let colour = || {
        let remedy = "convert the pictures to grey first, in the way that suits them";
        Err(Bad::Picture("colours or transparency".to_owned(), "a grey picture", remedy))
    };
    // Grey pictures are often saved with three equal channels.
    let grey = match frame.color_type {
        png::ColorType::Grayscale => Some(samples),
        png::ColorType::GrayscaleAlpha => samples.chunks_exact(2).map(|p| (p[1] == 255).then_some(p[0])).collect(),
        png::ColorType::Rgb | png::ColorType::Indexed => {
            samples.chunks_exact(3).map(|p| (p[0] == p[1] && p[1] == p[2]).then_some(p[0])).collect()
        }
        png::ColorType::Rgba => {
            samples.chunks_exact(4).map(|p| (p[0] == p[1] && p[1] == p[2] && p[3] == 255).then_some(p[0])).collect()
        }
    };
    match grey {
        Some(grey) if grey.len() == height * width => Ok((height, width, grey)),
        _ => colour(),
    }
}

/// PGM, as text (P2) or bytes (P5).
fn pgm(bytes: &[u8], check: impl Fn(usize, usize) -> Result<()>) -> Picture {
    let bad = |found: &str| Err(Bad::Picture(found.to_owned(), "a PGM picture (P2 or P5)", DAMAGED));
    let text = match bytes.get(..2) {
        Some(b"P2") => true,
        Some(b"P5") => false,
        _ => return bad("another kind of file"),
    };
    let mut rest = &bytes[2..];
    let (Some(width), Some(height), Some(white)) = (number(&mut rest), number(&mut rest), number(&mut rest)) else {
        return bad("a header without width, height and largest value");
    };
    check(height, width).map_err(Bad::Size)?;
    let pixels = width * height;
    if pixels == 0 || !(1..=65535).contains(&white) {
        return bad(&format!("{width}×{height} pixels up to {white}"));
    }
    let mut values = vec![];
    if text {
        while values.len() <= pixels
            && let Some(value) = number(&mut rest)
        {
            values.push(value);
        }
        if values.len() <= pixels && !rest.trim_ascii().is_empty() {
            return bad("something other than numbers among the pixels");
        }
    } else {
        // One space; whatever follows it is a pixel.
        rest = rest.get(1..).unwrap_or_default();
        let (samples, behind) = rest.split_at(rest.len().min(pixels * if white > 255 { 2 } else { 1 }));
        if !behind.trim_ascii().is_empty() {
            return bad("more after the last pixel");
        }
        if white > 255 {
            values.extend(samples.as_chunks().0.iter().map(|b| u16::from_be_bytes(*b) as usize));
        } else {
            values.extend(samples.iter().map(|b| usize::from(*b)));
        }
    }
    if values.len() != pixels {
        return bad(&format!("{} pixels of {pixels}", values.len()));
    }
    if let Some(value) = values.iter().find(|value| **value > white) {
        return bad(&format!("a pixel of {value} where {white} is the largest value"));
    }
    // To the nearest of 256 greys.
    Ok((height, width, values.into_iter().map(|value| ((value * 255 + white / 2) / white) as u8).collect()))
}

/// The next number, after white space and comments. If there is none, `rest` points to what is there instead.
fn number(rest: &mut &[u8]) -> Option<usize> {
    loop {
        *rest = rest.trim_ascii_start();
        if !rest.starts_with(b"#") {
            break;
        }
        let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        *rest = &rest[line..];
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = rest.split_at(digits);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    *rest = after;
    Some(number)
}
