//! Cache-line aligned memory.

use crate::error::{Error, Result};

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A growing block of zeroed, aligned bytes.
#[derive(Default, Clone)]
pub(crate) struct Arena(Vec<Line>);

impl Arena {
    /// Zeroed bytes; an error if the system does not grant them.
    pub fn new(bytes: usize) -> Result<Self> {
        let mut arena = Arena::empty(bytes)?;
        arena.reserve(bytes);
        Ok(arena)
    }

    /// Room for this many bytes, not touched yet; an error if the system does not grant it.
    pub fn empty(bytes: usize) -> Result<Self> {
        let mut arena = Arena::default();
        arena.0.try_reserve_exact(bytes.div_ceil(64)).map_err(|_| Error::Memory { bytes })?;
        Ok(arena)
    }

    /// Make room for this many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        let lines = bytes.div_ceil(64);
        if lines > self.0.len() {
            self.0.resize(lines, Line([0; 64]));
        }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `Line` is a C struct of bytes without padding, and the length covers the whole vector.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 64) }
    }
}
