//! Opening files, gzipped or not, and distinguishing damage from other failures.

use super::wrong;
use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// An open file, decompressed on the fly if its first bytes say that it is gzipped.
pub(super) struct Source {
    pub(super) path: PathBuf,
    zipped: bool,
    stream: Box<dyn Read>,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |e| unreadable(path, &e);
        let mut file = BufReader::with_capacity(1 << 17, File::open(path).map_err(failed)?);
        let zipped = file.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        let stream: Box<dyn Read> = if zipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Ok(Source { path: path.to_owned(), zipped, stream })
    }

    /// Up to `most` bytes; fewer only at the end of the file. Memory grows with the file, not with `most`.
    pub(super) fn read(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![];
        self.stream.by_ref().take(most as u64).read_to_end(&mut bytes).map_err(|e| self.failed(&e))?;
        Ok(bytes)
    }

    /// Read some bytes into the buffer; none only at the end of the file.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => return done.map_err(|e| self.failed(&e)),
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

pub(super) fn unreadable(path: &Path, e: &io::Error) -> Error {
    Error::File { path: path.display().to_string(), why: format!("cannot be read: {e}") }
}
