//! Opening files, gzipped or not, and distinguishing damage from other failures.

use super::wrong;
use crate::error::{Error, Result};
use crate::limits;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// An open file, decompressed on the fly if its first bytes say that it is gzipped.
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// Bytes of the file, compressed if it is.
    pub(super) len: u64,
    zipped: bool,
    stream: Box<dyn Read>,
    /// Bytes that may still be unpacked.
    left: usize,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (file, len) = open(path)?;
        Source::new(path, BufReader::with_capacity(1 << 17, file), len)
    }

    /// The same from any reader of `len` bytes.
    pub(super) fn new(path: &Path, mut file: impl BufRead + 'static, len: u64) -> Result<Self> {
        let zipped = file.fill_buf().map_err(|e| unreadable(path, &e))?.starts_with(&[0x1f, 0x8b]);
        let stream: Box<dyn Read> = if zipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Ok(Source { path: path.to_owned(), len, zipped, stream, left: limits::UNPACKED })
    }

    /// Up to `most` bytes; fewer only at the end of the file. Memory grows with the file, not with `most`, and not
    /// beyond the limit if the file is compressed.
    pub(super) fn read(&mut self, most: usize) -> Result<Vec<u8>> {
        if self.zipped && most > self.left {
            return Err(too_much(&self.path));
        }
        let mut bytes = vec![];
        self.stream.by_ref().take(most as u64).read_to_end(&mut bytes).map_err(|e| self.failed(&e))?;
        self.left = self.left.saturating_sub(bytes.len());
        Ok(bytes)
    }

    /// Read some bytes into the buffer; none only at the end of the file.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(n) if self.zipped && n > self.left => return Err(too_much(&self.path)),
                done => {
                    let n = done.map_err(|e| self.failed(&e))?;
                    self.left = self.left.saturating_sub(n);
                    return Ok(n);
                }
            }
        }
    }

    fn failed(&self, e: &io::Error) -> Error {
        match e.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData if self.zipped => {
                wrong(&self.path, format!("gzipped data with damage ({e})"), "a whole gzip file", "get the file again")
            }
            _ => unreadable(&self.path, e),
        }
    }
}

/// The error of compressed files that would fill the memory.
pub(super) fn too_much(path: &Path) -> Error {
    let most = limits::UNPACKED >> 20;
    let found = format!("over {most} MiB of images once unpacked");
    wrong(path, found, format!("at most {most} MiB"), "write them as .npy arrays, which may have any size")
}

/// Open a file, and get its length.
fn open(path: &Path) -> Result<(File, u64)> {
    let failed = |e| unreadable(path, &e);
    let found = std::fs::metadata(path).map_err(failed)?;
    // A pipe may never open, and a device never end.
    if !found.is_file() {
        return Err(wrong(path, "something else", "a file", "copy its contents to a file"));
    }
    Ok((File::open(path).map_err(failed)?, found.len()))
}

/// All bytes of a file.
pub(super) fn read_all(path: &Path) -> Result<Vec<u8>> {
    let (file, len) = open(path)?;
    let mut bytes = vec![];
    file.take(len).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    Ok(bytes)
}

pub(super) fn unreadable(path: &Path, e: &io::Error) -> Error {
    Error::File { path: path.display().to_string(), why: format!("cannot be read: {e}") }
}
