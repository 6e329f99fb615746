//! Sums over the parts that ranks hold. A value is *replicated* (the same on every rank, counted once) or *local* (a row for each part
//! held here).

use super::Vjp;
use crate::error::Error;
use crate::graph::{Expr, Op};
use crate::ranks::Parts;
use crate::shape::Shape;
use std::panic::Location;

/// The transpose of a sum is the use of its adjoint in every part, without communication; that of the use of a replicated value in
/// every part is a sum.
pub(super) fn vjp<'g>(op: &Op, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    match op {
        Op::SumParts(parts, _) => vec![Some(v.ct.to_parts(parts))],
        Op::ToParts(parts) => vec![Some(v.ct.sum_over_parts(parts))],
        _ => unreachable!("called for sums over parts"),
    }
}

impl<'g> Expr<'g> {
    /// The sum over all parts, in their order, on every rank: from local `[parts held here, …]` to replicated `[…]`.
    #[track_caller]
    pub fn sum_over_parts(self, parts: &Parts) -> Expr<'g> {
        let (at, op, shape) = (Location::caller(), "sum_over_parts", self.shape());
        let held = parts.mine().len();
        let rest: Shape = shape.dims().get(1..).unwrap_or_default().to_vec().into();
        if parts.total() == 1 && shape.dims().first() == Some(&1) {
            return self.reshape(rest);
        }
        let tag = self.graph().next_tag();
        self.graph().build(op, &[self], at, || {
            if shape.dims().first() != Some(&held) || !self.dtype().is_float() {
                let why = format!("needs floats with a first axis of {held}, the parts that this rank holds");
                return Err(Error::Argument { op, shape, why, at });
            }
            Ok((Op::SumParts(parts.clone(), tag), rest, self.dtype()))
        })
    }

    /// A replicated value for every part held here: from `[…]` to local `[parts held here, …]`. Derivatives through it are summed over
    /// all parts of all ranks.
    #[track_caller]
    pub fn to_parts(self, parts: &Parts) -> Expr<'g> {
        let at = Location::caller();
        let local: Shape = [&[parts.mine().len()], self.shape().dims()].concat().into();
        if parts.total() == 1 {
            return self.reshape(local);
        }
        self.graph().build("to_parts", &[self], at, || Ok((Op::ToParts(parts.clone()), local, self.dtype())))
    }
}
