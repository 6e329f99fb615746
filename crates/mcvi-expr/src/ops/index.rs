//! Selection by integer index, and its adjoint.

use super::Vjp;
use super::grid::Grid;
use crate::error::{At, Error, Result};
use crate::graph::{Expr, Op};
use crate::shape::DType;
use std::panic::Location;

pub(super) fn vjp<'g>(op: &Op, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    match *op {
        Op::Take(axis) => {
            let (x, index) = (v.args[0], v.args[1]);
            let scattered = x.graph().build("scatter_add", &[index, v.ct], Location::caller(), || {
                Ok((Op::ScatterAdd(axis), x.shape(), x.dtype()))
            });
            vec![Some(scattered), None]
        }
        Op::ScatterAdd(axis) => vec![None, Some(v.ct.take(axis, v.args[0]))],
        _ => unreachable!("{} selects nothing", op.name()),
    }
}

/// Values are floats, indices are not.
fn check_types(op: &'static str, values: Expr<'_>, index: Expr<'_>, at: At) -> Result<()> {
    if index.dtype() == DType::I32 && values.dtype().is_float() {
        return Ok(());
    }
    let why =
        format!("values must be floats and are {}, indices must be i32 and are {}", values.dtype(), index.dtype());
    Err(Error::Argument { op, shape: values.shape(), why, at })
}

impl<'g> Expr<'g> {
    /// The elements of an axis that `index` (of type `I32`) names; the axis is replaced by the axes of `index`.
    /// An index outside the axis is an error when the program runs.
    #[track_caller]
    pub fn take(self, axis: usize, index: Expr<'g>) -> Expr<'g> {
        let (at, op, shape) = (Location::caller(), "take", self.shape());
        if let Some(view) = self.regular(axis, index) {
            return view;
        }
        self.graph().build(op, &[self, index], at, || {
            if axis >= shape.rank() {
                let why = format!("there is no axis {axis}");
                return Err(Error::Argument { op, shape, why, at });
            }
            check_types(op, self, index, at)?;
            let (before, after) = (&shape.dims()[..axis], &shape.dims()[axis + 1..]);
            Ok((Op::Take(axis), [before, index.shape().dims(), after].concat().into(), self.dtype()))
        })
    }

    /// The same as a view, if the indices are known and form a grid.
    fn regular(self, axis: usize, index: Expr<'g>) -> Option<Expr<'g>> {
        let Op::Literal(places) = index.op() else { return None };
        let (shape, at) = (self.shape(), index.shape());
        let is_ours = std::ptr::eq(self.graph(), index.graph());
        if !is_ours || self.error().is_some() || axis >= shape.rank() || !self.dtype().is_float() {
            return None;
        }
        let view = Grid::of(places.as_slice::<i32>()?, shape.dims()[axis])?.view(self, axis)?;
        Some(view.reshape([&shape.dims()[..axis], at.dims(), &shape.dims()[axis + 1..]].concat()))
    }

    /// Zeros with `self` added at the places `index` names: the adjoint of [`take`](Expr::take) from an axis 0 of
    /// length `len`. The leading axes of this are those of `index`.
    #[track_caller]
    pub fn scatter_add(self, index: Expr<'g>, len: usize) -> Expr<'g> {
        let (at, op) = (Location::caller(), "scatter_add");
        self.graph().build(op, &[index, self], at, || {
            let (left, right) = (self.shape(), index.shape());
            check_types(op, self, index, at)?;
            let Some(rest) = left.dims().strip_prefix(right.dims()) else {
                let why = "the leading extents must be those of the index";
                return Err(Error::Shapes { op, left, right, why, at });
            };
            Ok((Op::ScatterAdd(0), [&[len], rest].concat().into(), self.dtype()))
        })
    }
}
