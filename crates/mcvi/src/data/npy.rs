//! NumPy arrays: `[n, height, width]`, or `[n, pixels]` of square images, black to white as 0 to 1 or 0 to 255.
//!
//! The header is parsed here: it is one line of text with three fields, and crates for it bring a parser of Python
//! literals or an array library of their own.

use super::file::Source;
use super::{Images, image_size, wrong};
use crate::error::{Error, Result};
use std::path::Path;

/// Longer headers belong to arrays of records.
const LONGEST: usize = 1 << 16;

pub(super) fn read(mut source: Source) -> Result<Images> {
    let (path, len) = (source.path.clone(), source.len);
    let path: &Path = &path;
    let header = Header::read(&mut source)?;
    let (count, height, width) = header.shape;
    // Checked before allocating: a damaged header may claim any size.
    let rest = len.saturating_sub(header.bytes as u64);
    let pixels = height * width;
    let size = count.checked_mul(pixels).and_then(|n| n.checked_mul(header.kind.bytes()));
    if size.map(|n| n as u64) != Some(rest) {
        let expected = format!("{count} images of {height}×{width} in {}", header.kind.name());
        let remedy = "the file is damaged or incomplete; write it again with numpy.save";
        return Err(wrong(path, format!("{rest} bytes after the header"), expected, remedy));
    }
    image_size(path, height, width)?;
    let mut scale = Scale { grey: Vec::with_capacity(count * pixels), unit: true, whole: true };
    for image in 0..count {
        let bytes = source.read(pixels * header.kind.bytes())?;
        for value in header.kind.values(&bytes) {
            scale.push(value).map_err(|expected| {
                let found = format!("the value {value} in image {image}");
                wrong(path, found, expected, "scale the images before saving them")
            })?;
        }
    }
    Images::new(height, width, scale.grey)
}

#[derive(Clone, Copy)]
enum Kind {
    Byte,
    Bool,
    F32 { big: bool },
    F64 { big: bool },
}

impl Kind {
    fn parse(descr: &str) -> Option<Self> {
        Some(match descr {
            "|u1" | "<u1" | ">u1" => Kind::Byte,
            "|b1" => Kind::Bool,
            "<f4" => Kind::F32 { big: false },
            ">f4" => Kind::F32 { big: true },
            "<f8" => Kind::F64 { big: false },
            ">f8" => Kind::F64 { big: true },
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Byte => "uint8",
            Kind::Bool => "bool",
            Kind::F32 { .. } => "float32",
            Kind::F64 { .. } => "float64",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Kind::Byte | Kind::Bool => 1,
            Kind::F32 { .. } => 4,
            Kind::F64 { .. } => 8,
        }
    }

    fn values(self, bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
        bytes.chunks_exact(self.bytes()).map(move |b| match (self, b) {
            (Kind::F32 { big: false }, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (Kind::F32 { big: true }, &[a, b, c, d]) => f64::from(f32::from_be_bytes([a, b, c, d])),
            (Kind::F64 { big: false }, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (Kind::F64 { big: true }, &[a, b, c, d, e, f, g, h]) => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => f64::from(b[0]),
        })
    }
}

/// Determines whether white is 1 or 255 while reading the pixels.
struct Scale {
    /// In bytes, white being 255.
    grey: Vec<u8>,
    /// Whether no value was over 1.
    unit: bool,
    /// Whether all values were whole numbers.
    whole: bool,
}

impl Scale {
    /// Add a value, or say what it should have been.
    fn push(&mut self, value: f64) -> Result<(), &'static str> {
        if !(0.0..=255.0).contains(&value) {
            return Err("values from 0 to 1, or whole numbers from 0 to 255");
        }
        self.whole &= value.fract() == 0.0;
        if self.unit && value > 1.0 {
            self.unit = false;
            // So far there were only zeros and ones; otherwise the check below fails.
            self.grey.iter_mut().for_each(|p| *p = u8::from(*p > 0));
        }
        if !self.unit && !self.whole {
            return Err("values from 0 to 1, or whole numbers from 0 to 255, but not both");
        }
        self.grey.push(if self.unit { (value * 255.0).round() as u8 } else { value as u8 });
        Ok(())
    }
}

struct Header {
    kind: Kind,
    /// Images, rows, columns; rows times columns do not overflow.
    shape: (usize, usize, usize),
    /// Bytes before the pixels.
    bytes: usize,
}

impl Header {
    fn read(source: &mut Source) -> Result<Self> {
        let path = source.path.clone();
        let not = |found: String| wrong(&path, found, "a NumPy array", "write it with numpy.save");
        let head = source.read(8)?;
        let [0x93, b'N', b'U', b'M', b'P', b'Y', version, _] = head[..] else {
            return Err(not(format!("`{}` at the beginning", head.escape_ascii())));
        };
        let width = if version == 1 { 2 } else { 4 };
        let len = source.read(width)?;
        let len = match (version, &len[..]) {
            (1, &[a, b]) => u16::from_le_bytes([a, b]) as usize,
            (2 | 3, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => return Err(not(format!("a header of version {version}, or none"))),
        };
        if len > LONGEST {
            return Err(not(format!("a header of {len} bytes")));
        }
        let text = source.read(len)?;
        if text.len() < len {
            return Err(not("a file that ends in its header".to_owned()));
        }
        let text = String::from_utf8_lossy(&text);
        let Some((descr, order, shape)) = fields(&text) else {
            return Err(not(format!("the header `{}`", text.trim_end().escape_debug())));
        };
        let Some(kind) = Kind::parse(descr) else {
            let remedy = "convert it, for example with .astype(\"uint8\")";
            return Err(wrong(&path, format!("elements of type `{descr}`"), "uint8, bool, float32 or float64", remedy));
        };
        if order != "False" {
            let remedy = "save numpy.ascontiguousarray(images)";
            return Err(wrong(&path, "an array in Fortran order", "one in C order", remedy));
        }
        Ok(Header { kind, shape: image_shape(&path, shape)?, bytes: 8 + width + len })
    }
}

/// Element type, order and shape, as written.
fn fields(header: &str) -> Option<(&str, &str, &str)> {
    let field = |name: &str| {
        let (_, rest) = header.split_once(name)?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    let descr = field("'descr'")?;
    // Records have a list here; the error shows it as it is.
    let descr = descr.strip_prefix('\'').and_then(|d| d.split_once('\'')).map_or(descr, |(d, _)| d);
    let order = field("'fortran_order'")?.split([',', '}']).next()?.trim();
    let (shape, _) = field("'shape'")?.strip_prefix('(')?.split_once(')')?;
    Some((descr, order, shape))
}

fn image_shape(path: &Path, text: &str) -> Result<(usize, usize, usize)> {
    let dims = text.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims: Result<Vec<usize>, _> = dims.map(str::parse).collect();
    let bad = || -> Error {
        let expected = "[n, height, width], or [n, pixels] of square images, none of them 0";
        wrong(path, format!("an array of shape [{}]", text.escape_debug()), expected, "reshape it before saving it")
    };
    let (count, height, width) = match dims.as_deref() {
        Ok(&[count, pixels]) if pixels.isqrt().pow(2) == pixels => (count, pixels.isqrt(), pixels.isqrt()),
        Ok(&[count, height, width]) => (count, height, width),
        _ => return Err(bad()),
    };
    let whole = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(count));
    if whole.is_none_or(|size| size == 0) { Err(bad()) } else { Ok((count, height, width)) }
}
