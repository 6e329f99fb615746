//! Buffers as kernels are emitted: the program's share the arena, those of the body of a loop a piece of it, and windows show
//! elements of others.

use super::emit::Emitter;
use super::memory::{Life, place};
use super::{BufId, Buffer, Window};
use crate::shape::DType;

/// A buffer, and where it lies.
pub(super) struct Draft {
    pub dtype: DType,
    pub len: usize,
    pub home: Home,
}

pub(super) enum Home {
    /// By itself, among the buffers of the program (0) or of the body of a loop.
    Own { scope: usize, life: Life },
    /// An offset in bytes, in the arena or in another buffer.
    Inside(Option<BufId>, usize),
    /// Where another one's elements are.
    Window(Window),
}

impl Emitter {
    pub fn new_buffer(&mut self, dtype: DType, len: usize, (from, until): (usize, usize)) -> BufId {
        let life = Life { bytes: len.saturating_mul(dtype.bytes()), from, until };
        self.draft(dtype, len, Home::Own { scope: self.scope, life })
    }

    /// A buffer that keeps what it holds, whichever body it is for.
    pub fn lasting(&mut self, dtype: DType, len: usize) -> BufId {
        let life = Life { bytes: len.saturating_mul(dtype.bytes()), from: 0, until: usize::MAX };
        self.draft(dtype, len, Home::Own { scope: 0, life })
    }

    fn draft(&mut self, dtype: DType, len: usize, home: Home) -> BufId {
        self.bufs.push(Draft { dtype, len, home });
        BufId(self.bufs.len() as u32 - 1)
    }

    /// A buffer for what is seen through a window.
    pub fn window(&mut self, dtype: DType, len: usize, window: Window) -> BufId {
        let whole = window.first == 0 && window.step == 0 && self.bufs[window.of.0 as usize].len == len;
        if whole { window.of } else { self.draft(dtype, len, Home::Window(window)) }
    }

    /// Give the buffers of a body a piece of memory at this level.
    pub fn workspace(&mut self, scope: usize, level: usize) {
        let of = self.new_buffer(DType::F64, 0, (level, level));
        let outer = std::mem::replace(&mut self.scope, scope);
        let bytes = self.place_scope(Some(of));
        self.scope = outer;
        let len = bytes.div_ceil(DType::F64.bytes());
        self.bufs[of.0 as usize].len = len;
        if let Home::Own { life, .. } = &mut self.bufs[of.0 as usize].home {
            life.bytes = len.saturating_mul(DType::F64.bytes());
        }
    }

    /// Place the buffers of this scope in the arena, or in a buffer of another one; returns the bytes that takes.
    pub fn place_scope(&mut self, within: Option<BufId>) -> usize {
        let mut own: Vec<(usize, Life)> = vec![];
        for (i, buf) in self.bufs.iter().enumerate() {
            if let Home::Own { scope, life } = buf.home
                && scope == self.scope
            {
                own.push((i, life));
            }
        }
        let lives: Vec<Life> = own.iter().map(|o| o.1).collect();
        let (offsets, bytes) = place(&lives);
        for ((i, _), offset) in own.into_iter().zip(offsets) {
            self.bufs[i].home = Home::Inside(within, offset);
        }
        bytes
    }

    /// A buffer whose place is known.
    pub fn buffer(&self, id: BufId) -> Buffer {
        let draft = &self.bufs[id.0 as usize];
        let (offset, window) = match draft.home {
            Home::Inside(within, bytes) => (within.map_or(0, |of| self.buffer(of).offset) + bytes, None),
            Home::Window(w) => (self.buffer(w.of).offset + w.first * draft.dtype.bytes(), Some(w)),
            Home::Own { .. } => unreachable!("all scopes are placed"),
        };
        Buffer { dtype: draft.dtype, len: draft.len, offset, window }
    }
}
