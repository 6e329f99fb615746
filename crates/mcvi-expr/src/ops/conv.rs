//! Two-dimensional convolution with its two adjoints, and nearest-neighbour resizing with its adjoint. Every one of
//! them is linear in each operand, so the five are closed under differentiation.

use super::Vjp;
use crate::error::Error;
use crate::graph::{Expr, Op, Window};
use crate::shape::Shape;
use std::panic::Location;

pub(super) fn vjp<'g>(op: &Op, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    let ct = v.ct;
    let like = |op: Op, args: [Expr<'g>; 2], target: Expr<'g>| {
        let name = op.name();
        target.graph().build(name, &args, Location::caller(), || Ok((op, target.shape(), target.dtype())))
    };
    let resize = |op: Op, target: Expr<'g>| {
        let name = op.name();
        target.graph().build(name, &[ct], Location::caller(), || Ok((op, target.shape(), target.dtype())))
    };
    match *op {
        Op::Conv(w) => {
            let (x, f) = (v.args[0], v.args[1]);
            let dx = || like(Op::ConvInput(w), [ct, f], x);
            let df = || like(Op::ConvWeight(w), [x, ct], f);
            vec![v.wanted[0].then(dx), v.wanted[1].then(df)]
        }
        Op::ConvInput(w) => {
            let (y, f) = (v.args[0], v.args[1]);
            let dy = || like(Op::Conv(w), [ct, f], y);
            let df = || like(Op::ConvWeight(w), [ct, y], f);
            vec![v.wanted[0].then(dy), v.wanted[1].then(df)]
        }
        Op::ConvWeight(w) => {
            let (x, y) = (v.args[0], v.args[1]);
            let dx = || like(Op::ConvInput(w), [y, ct], x);
            let dy = || like(Op::Conv(w), [x, ct], y);
            vec![v.wanted[0].then(dx), v.wanted[1].then(dy)]
        }
        Op::Upsample => vec![Some(resize(Op::Downsample, v.args[0]))],
        Op::Downsample => vec![Some(resize(Op::Upsample, v.args[0]))],
        _ => unreachable!("{} is no convolution", op.name()),
    }
}

impl<'g> Expr<'g> {
    /// Convolve images `[n, channels, height, width]` with filters `[out, channels, fh, fw]` (no flip, as in every
    /// deep-learning library), moving by `stride`, with `padding` zeros before and after rows and columns.
    #[track_caller]
    pub fn conv2d(self, filters: Expr<'g>, stride: usize, padding: (usize, usize)) -> Expr<'g> {
        let (at, op) = (Location::caller(), "conv2d");
        let window = Window { stride, before: padding.0, after: padding.1 };
        self.graph().build(op, &[self, filters], at, || {
            let (left, right) = (self.shape(), filters.shape());
            let misfit = |why| Error::Shapes { op, left: left.clone(), right: right.clone(), why, at };
            let (&[n, c, h, w], &[o, fc, fh, fw]) = (left.dims(), right.dims()) else {
                return Err(misfit("needs images [n, c, h, w] and filters [o, c, fh, fw]"));
            };
            if c != fc {
                return Err(misfit("images and filters need the same number of channels"));
            }
            if stride == 0 || window.before >= fh.min(fw) || window.after >= fh.min(fw) {
                let why = format!("stride {stride} must be positive and padding {padding:?} smaller than the filter");
                return Err(Error::Argument { op, shape: right, why, at });
            }
            if !self.dtype().is_float() {
                let why = "integers only serve as indices; convert with `cast` to compute".to_owned();
                return Err(Error::Argument { op, shape: left, why, at });
            }
            if self.dtype() != filters.dtype() {
                return Err(Error::DTypes { op, left: self.dtype(), right: filters.dtype(), at });
            }
            let (Some(oh), Some(ow)) = (window.output(h, fh), window.output(w, fw)) else {
                return Err(misfit("the filter is larger than the padded image"));
            };
            Ok((Op::Conv(window), [n, o, oh, ow].into(), self.dtype()))
        })
    }

    /// Resize the last two axes by repeating the nearest element; any size not below the present one.
    #[track_caller]
    pub fn upsample(self, height: usize, width: usize) -> Expr<'g> {
        let (at, op, shape) = (Location::caller(), "upsample", self.shape());
        let Some((lead, &[h, w])) = shape.dims().split_last_chunk::<2>() else {
            if self.error().is_some() {
                return self;
            }
            let why = "needs at least two axes".to_owned();
            return self.graph().poison(Error::Argument { op, shape, why, at });
        };
        if (h, w) == (height, width) {
            return self;
        }
        let out: Shape = [lead, &[height, width]].concat().into();
        self.graph().build(op, &[self], at, || {
            if height < h || width < w || !self.dtype().is_float() {
                let why = "floats only, and the new extents must not be smaller";
                return Err(Error::Shapes { op, left: shape.clone(), right: out, why, at });
            }
            Ok((Op::Upsample, out, self.dtype()))
        })
    }
}
