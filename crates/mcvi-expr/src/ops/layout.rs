//! Operations that rearrange elements without computing: broadcast, reshape, permute, slice, concat.

use super::Vjp;
use crate::error::Error;
use crate::graph::{Expr, Graph, Op, Span};
use crate::shape::Shape;
use std::ops::Range;
use std::panic::Location;

fn whole(shape: &Shape) -> Vec<Span> {
    shape.dims().iter().map(|&d| Span::whole(d)).collect()
}

pub(super) fn vjp<'g>(op: &Op, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    let (x, ct) = (v.args[0], v.ct);
    let shape = x.shape();
    match op {
        Op::Broadcast => {
            let (from, to) = (shape.dims(), v.out.shape());
            let lead = to.rank() - from.len();
            let axes: Vec<usize> =
                (0..to.rank()).filter(|&i| i < lead || (from[i - lead] == 1 && to.dims()[i] > 1)).collect();
            vec![Some(ct.sum(&axes).reshape(shape))]
        }
        Op::Reshape => vec![Some(ct.reshape(shape))],
        Op::Permute(order) => {
            let mut inverse = vec![0; order.len()];
            order.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
            vec![Some(ct.permute(&inverse))]
        }
        Op::Slice(spans) => vec![Some(ct.embed(spans.clone(), shape))],
        Op::Embed(spans) => vec![Some(ct.slices(spans.clone()))],
        Op::Concat(axis) => {
            let mut start = 0;
            let parts = v.args.iter().zip(v.wanted).map(|(arg, wanted)| {
                let len = arg.shape().dims()[*axis];
                start += len;
                wanted.then(|| ct.slice(*axis, start - len..start))
            });
            parts.collect()
        }
        _ => unreachable!("{} is no layout operation", op.name()),
    }
}

impl<'g> Expr<'g> {
    #[track_caller]
    fn bad(self, op: &'static str, why: String) -> Expr<'g> {
        if self.error().is_some() {
            return self;
        }
        self.graph().poison(Error::Argument { op, shape: self.shape(), why, at: Location::caller() })
    }

    /// Repeat along new leading axes and axes of length 1 until the shape is `shape`.
    #[track_caller]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Expr<'g> {
        let (shape, from, at) = (shape.into(), self.shape(), Location::caller());
        if self.error().is_some() || from == shape {
            return self;
        }
        if let Op::Broadcast = self.op()
            && from.broadcast(&shape).as_ref() == Some(&shape)
        {
            return self.args()[0].broadcast_to(shape);
        }
        self.graph().build("broadcast", &[self], at, || {
            if from.broadcast(&shape).as_ref() != Some(&shape) {
                let why = "extents must agree or be 1, counted from the last axis";
                return Err(Error::Shapes { op: "broadcast", left: from, right: shape, why, at });
            }
            Ok((Op::Broadcast, shape, self.dtype()))
        })
    }

    /// The same elements, in row-major order, under another shape.
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Expr<'g> {
        let (shape, from, at) = (shape.into(), self.shape(), Location::caller());
        if self.error().is_some() || from == shape {
            return self;
        }
        match self.op() {
            Op::Reshape => return self.args()[0].reshape(shape),
            _ if self.as_const().is_some() && from.size() == shape.size() && shape.defect().is_none() => {
                return self.graph().full(self.dtype(), shape, self.as_const().unwrap_or(f64::NAN));
            }
            _ => {}
        }
        self.graph().build("reshape", &[self], at, || {
            if from.size() != shape.size() {
                let why = "the number of elements must stay the same";
                return Err(Error::Shapes { op: "reshape", left: from, right: shape, why, at });
            }
            Ok((Op::Reshape, shape, self.dtype()))
        })
    }

    /// All elements in a row.
    #[track_caller]
    pub fn flatten(self) -> Expr<'g> {
        self.reshape(self.shape().size())
    }

    /// A new axis of length 1 before `axis`.
    #[track_caller]
    pub fn expand(self, axis: usize) -> Expr<'g> {
        let mut dims = self.shape().dims().to_vec();
        if axis > dims.len() {
            return self.bad("expand", format!("there is no place for an axis {axis}"));
        }
        dims.insert(axis, 1);
        self.reshape(dims)
    }

    /// Axes in another order: axis `i` of the result is axis `order[i]` of this.
    #[track_caller]
    pub fn permute(self, order: &[usize]) -> Expr<'g> {
        let shape = self.shape();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if self.error().is_some() || order.is_sorted() && sorted == (0..shape.rank()).collect::<Vec<_>>() {
            return self;
        }
        if sorted != (0..shape.rank()).collect::<Vec<_>>() {
            return self.bad("permute", format!("{order:?} is not an order of its axes"));
        }
        if let Op::Permute(first) = self.op() {
            return self.args()[0].permute(&order.iter().map(|&i| first[i]).collect::<Vec<_>>());
        }
        let dims: Vec<usize> = order.iter().map(|&i| shape.dims()[i]).collect();
        self.graph().build("permute", &[self], Location::caller(), || {
            Ok((Op::Permute(order.to_vec()), dims.into(), self.dtype()))
        })
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(self) -> Expr<'g> {
        let rank = self.shape().rank();
        if rank < 2 {
            return self.bad("t", "needs at least two axes".to_owned());
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 1, rank - 2);
        self.permute(&order)
    }

    /// Elements `range` of one axis.
    #[track_caller]
    pub fn slice(self, axis: usize, range: Range<usize>) -> Expr<'g> {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`-th element of `range` of one axis.
    #[track_caller]
    pub fn slice_step(self, axis: usize, range: Range<usize>, step: usize) -> Expr<'g> {
        let shape = self.shape();
        if axis >= shape.rank() || range.is_empty() || range.end > shape.dims()[axis] || step == 0 {
            return self.bad("slice", format!("{range:?} in steps of {step} is no part of axis {axis}"));
        }
        let mut spans = whole(&shape);
        let len = range.len().div_ceil(step);
        spans[axis] = Span { start: range.start, len, step: if len == 1 { 1 } else { step } };
        self.slices(spans)
    }

    /// Element `i` of an axis; the axis goes away.
    #[track_caller]
    pub fn at(self, axis: usize, i: usize) -> Expr<'g> {
        let part = self.slice(axis, i..i.saturating_add(1));
        if part.error().is_some() { part } else { part.reshape(self.shape().without(&[axis])) }
    }

    #[track_caller]
    pub(super) fn slices(self, spans: Vec<Span>) -> Expr<'g> {
        if self.error().is_some() || spans == whole(&self.shape()) {
            return self;
        }
        let shape: Shape = spans.iter().map(|s| s.len).collect::<Vec<_>>().into();
        if let Some(c) = self.as_const() {
            return self.graph().full(self.dtype(), shape, c);
        }
        match self.op() {
            Op::Slice(inner) => {
                let composed = inner.iter().zip(&spans).map(|(i, s)| Span {
                    start: i.start + s.start * i.step,
                    len: s.len,
                    step: i.step * s.step,
                });
                return self.args()[0].slices(composed.collect());
            }
            Op::Embed(inner) if inner == spans => return self.args()[0],
            // A part that lies within one piece of a concatenation is a part of that piece.
            Op::Concat(axis) => {
                let mut start = 0;
                for piece in self.args() {
                    let len = piece.shape().dims()[axis];
                    if spans[axis].start >= start && spans[axis].end() <= start + len {
                        let mut spans = spans;
                        spans[axis].start -= start;
                        return piece.slices(spans);
                    }
                    start += len;
                }
            }
            _ => {}
        }
        self.graph().build("slice", &[self], Location::caller(), || Ok((Op::Slice(spans), shape, self.dtype())))
    }

    /// Zeros of shape `shape` with this expression at `spans`.
    #[track_caller]
    pub(super) fn embed(self, spans: Vec<Span>, shape: Shape) -> Expr<'g> {
        if self.error().is_some() || self.shape() == shape {
            return self;
        }
        if self.as_const() == Some(0.0) {
            return self.graph().full(self.dtype(), shape, 0.0);
        }
        self.graph().build("embed", &[self], Location::caller(), || Ok((Op::Embed(spans), shape, self.dtype())))
    }

    /// Zeros before and after along one axis.
    #[track_caller]
    pub fn pad(self, axis: usize, before: usize, after: usize) -> Expr<'g> {
        let shape = self.shape();
        if axis >= shape.rank() {
            return self.bad("pad", format!("there is no axis {axis}"));
        }
        let mut spans = whole(&shape);
        spans[axis].start = before;
        let extent = shape.dims()[axis].saturating_add(before).saturating_add(after);
        self.embed(spans, shape.with(axis, extent))
    }

    /// The sum with another expression, if both are embedded side by side in zeros: then it is a concatenation.
    pub(super) fn joined_with(self, other: Expr<'g>) -> Option<Expr<'g>> {
        let (Op::Embed(a), Op::Embed(b)) = (self.op(), other.op()) else { return None };
        if self.shape() != other.shape() {
            return None;
        }
        let mut differing = (0..a.len()).filter(|&i| a[i] != b[i]);
        let (axis, None) = (differing.next()?, differing.next()) else { return None };
        let (first, second) = if a[axis].start < b[axis].start { (self, other) } else { (other, self) };
        let (left, right) = if a[axis].start < b[axis].start { (a[axis], b[axis]) } else { (b[axis], a[axis]) };
        if left.step != 1 || right.step != 1 || left.end() != right.start {
            return None;
        }
        let joined = self.graph().concat(&[first.args()[0], second.args()[0]], axis);
        let mut spans = a.clone();
        spans[axis] = Span { start: left.start, len: left.len + right.len, step: 1 };
        Some(joined.embed(spans, self.shape()))
    }
}

impl Graph {
    /// Expressions one after the other along an axis.
    #[track_caller]
    pub fn concat<'g>(&'g self, parts: &[Expr<'g>], axis: usize) -> Expr<'g> {
        let at = Location::caller();
        let Some(first) = parts.first().copied() else {
            let (shape, why) = (Shape::scalar(), "needs at least one expression".to_owned());
            return self.poison(Error::Argument { op: "concat", shape, why, at });
        };
        // Pieces that are concatenations along the same axis become one flat list.
        let mut flat = Vec::new();
        for part in parts {
            match part.op() {
                Op::Concat(inner) if inner == axis => flat.extend(part.args()),
                _ => flat.push(*part),
            }
        }
        if flat.len() == 1 && std::ptr::eq(first.graph(), self) && axis < first.shape().rank() {
            return first;
        }
        self.build("concat", &flat, at, || {
            let shape = first.shape();
            if axis >= shape.rank() {
                let why = format!("there is no axis {axis}");
                return Err(Error::Argument { op: "concat", shape, why, at });
            }
            let mut extent = 0usize;
            for part in &flat {
                let (left, right) = (shape.clone(), part.shape());
                if right.rank() != left.rank() || right.with(axis, 1) != left.with(axis, 1) {
                    let why = "extents must agree on every other axis";
                    return Err(Error::Shapes { op: "concat", left, right, why, at });
                }
                if part.dtype() != first.dtype() {
                    return Err(Error::DTypes { op: "concat", left: first.dtype(), right: part.dtype(), at });
                }
                extent = extent.saturating_add(right.dims()[axis]);
            }
            Ok((Op::Concat(axis), shape.with(axis, extent), first.dtype()))
        })
    }
}
