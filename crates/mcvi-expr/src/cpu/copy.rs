//! Rearranging elements: concatenation, embedding in zeros, conversion of types, states committed at the end of a step.

use super::arena::Arena;
use super::micro::Lists;
use super::strided::{Gather, gatherer, offset, scatter};
use super::tape::{Draft, Loc};
use super::{At, Ctx, Job, Layout};
use crate::plan::{Place, Strided};
use crate::shape::DType;
use std::any::TypeId;

/// Elements moved at a time.
const CHUNK: usize = 1024;

/// Elements up to which each is moved by an operation of a list.
const FEW: usize = 4;

/// Writes out the copy of an element.
pub(super) type CopyElement = fn(&mut Draft, Lists, Loc, Loc);

/// A type elements can be converted to.
pub(super) trait Convert: Copy + Send + Sync + 'static {
    const ZERO: Self;
    fn from_f32(x: f32) -> Self;
    fn from_f64(x: f64) -> Self;
    fn from_i32(x: i32) -> Self;
}
macro_rules! convert {
    ($($type:ty),*) => {$(
        impl Convert for $type {
            const ZERO: Self = 0 as $type;
            fn from_f32(x: f32) -> Self { x as $type }
            fn from_f64(x: f64) -> Self { x as $type }
            fn from_i32(x: i32) -> Self { x as $type }
        }
    )*};
}
convert!(f32, f64, i32);

pub(super) fn job<T: Convert>(
    from_type: DType,
    from: &Strided,
    to: &Strided,
    zero_first: Option<&(Place, usize)>,
    layout: &Layout<'_>,
    listed: Option<(Lists, CopyElement)>,
) -> Box<dyn Job> {
    fn typed<S: Copy + Send + Sync + 'static, T: Convert>(
        from: &Strided,
        to: &Strided,
        zero_first: Option<&(Place, usize)>,
        layout: &Layout<'_>,
        convert: fn(S) -> T,
        listed: Option<(Lists, CopyElement)>,
    ) -> Box<dyn Job> {
        // A scalar counts as one axis of length 1.
        let axes =
            |s: &Strided| if s.dims.is_empty() { (vec![1], vec![1]) } else { (s.dims.clone(), s.strides.clone()) };
        let (from_dims, from_strides) = axes(from);
        let (to_dims, to_strides) = axes(to);
        Box::new(CopyJob {
            total: from_dims.iter().product(),
            from: layout.at::<S>(from.place),
            from_dims,
            from_strides,
            to: layout.at::<T>(to.place),
            to_dims,
            to_strides,
            zero_first: zero_first.map(|&(place, len)| (layout.at(place), len)),
            convert,
            gather: gatherer(layout.level),
            listed: listed.filter(|_| TypeId::of::<S>() == TypeId::of::<T>()),
        })
    }
    match from_type {
        DType::F32 => typed::<f32, T>(from, to, zero_first, layout, T::from_f32, listed),
        DType::F64 => typed::<f64, T>(from, to, zero_first, layout, T::from_f64, listed),
        DType::I32 => typed::<i32, T>(from, to, zero_first, layout, T::from_i32, listed),
    }
}

struct CopyJob<S, T> {
    total: usize,
    from: At<S>,
    from_dims: Vec<usize>,
    from_strides: Vec<isize>,
    to: At<T>,
    to_dims: Vec<usize>,
    to_strides: Vec<isize>,
    zero_first: Option<(At<T>, usize)>,
    convert: fn(S) -> T,
    gather: Gather<S>,
    /// How to copy a few elements, if they are moved as they are.
    listed: Option<(Lists, CopyElement)>,
}

impl<S, T: Convert> CopyJob<S, T> {
    /// Write the copy out element by element, if it is that small; says whether it did.
    fn elements(&self, draft: &mut Draft) -> bool {
        let Some((lists, copy)) = self.listed else { return false };
        if !draft.near || self.total > FEW || self.zero_first.as_ref().is_some_and(|z| z.1 > FEW) {
            return false;
        }
        if let Some((at, len)) = &self.zero_first {
            let size = size_of::<T>();
            let zero = draft.constant(&[0; 8][..size], 64 / size);
            (0..*len).for_each(|e| copy(draft, lists, at.loc((e * size) as isize), zero));
        }
        for e in 0..self.total {
            let from = self.from.loc(offset::<S>(&self.from_dims, &self.from_strides, e));
            let to = self.to.loc(offset::<T>(&self.to_dims, &self.to_strides, e));
            copy(draft, lists, to, from);
        }
        true
    }
}

impl<S: Copy + Send + Sync + 'static, T: Convert> Job for CopyJob<S, T> {
    fn write_out(&self, draft: &mut Draft) -> bool {
        if self.elements(draft) {
            return true;
        }
        let plain = TypeId::of::<S>() == TypeId::of::<T>() && self.zero_first.is_none();
        if !plain || self.total > CHUNK || self.to_dims.len() > 1 || self.to_strides[0] != 1 {
            return false;
        }
        let (from, to) = (self.from.loc(0), self.to.loc(0));
        draft.gather::<T>(to, from, &self.from_dims, &self.from_strides, self.total);
        true
    }

    fn tiles(&self) -> usize {
        // Zeros must all be written before the first element, so one thread does both.
        if self.zero_first.is_some() { 1 } else { self.total.div_ceil(16 * CHUNK) }
    }

    fn cost(&self) -> f64 {
        20.0 + self.total as f64 * 0.3 + self.zero_first.map_or(0.0, |z| z.1 as f64 * 0.1)
    }

    fn scratch(&self) -> usize {
        CHUNK * (size_of::<S>() + size_of::<T>())
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, scratch: &mut Arena) {
        let (start, end) = match self.zero_first {
            None => (tile * 16 * CHUNK, ((tile + 1) * 16 * CHUNK).min(self.total)),
            Some((at, len)) => {
                // SAFETY: this job alone writes the buffer.
                unsafe { std::slice::from_raw_parts_mut(ctx.ptr(at), len) }.fill(T::ZERO);
                (0, self.total)
            }
        };
        // Both from one borrow: another call of `bytes` would end the validity of the first pointer.
        let memory = scratch.bytes().as_mut_ptr();
        let read: *mut S = memory.cast();
        let converted: *mut T = memory.wrapping_add(CHUNK * size_of::<S>()).cast();
        let same = TypeId::of::<S>() == TypeId::of::<T>();
        let mut first = start;
        while first < end {
            let n = CHUNK.min(end - first);
            // SAFETY: scratch holds a chunk of each type; strides stay within complete buffers, and the tile owns
            // the elements it writes.
            unsafe {
                (self.gather)(read, ctx.ptr(self.from), &self.from_dims, &self.from_strides, first, n);
                let moved = if same { read.cast() } else { converted };
                for i in 0..if same { 0 } else { n } {
                    *converted.add(i) = (self.convert)(*read.add(i));
                }
                scatter(moved, ctx.ptr(self.to), &self.to_dims, &self.to_strides, first, n);
            }
            first += n;
        }
    }
}
