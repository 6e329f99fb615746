//! Reductions over axes, and the cumulative sum.

use super::Vjp;
use crate::error::Error;
use crate::graph::{Expr, Op, Reduction};
use crate::shape::Shape;
use crate::table::{Binary, Unary};
use std::panic::Location;

pub(super) fn vjp<'g>(how: Reduction, axes: &[usize], v: &Vjp<'_, 'g>) -> Expr<'g> {
    let x = v.args[0];
    let spread = |e: Expr<'g>| {
        let mut dims = x.shape().dims().to_vec();
        axes.iter().for_each(|&a| dims[a] = 1);
        e.reshape(dims).broadcast_to(x.shape())
    };
    match how {
        Reduction::Sum => spread(v.ct),
        Reduction::Max => {
            // Ties share the derivative.
            let hit = x.eq(spread(v.out));
            hit.select(spread(v.ct / hit.sum(axes)), 0.0)
        }
    }
}

pub(super) fn cumsum(x: Expr<'_>, axis: usize, reverse: bool) -> Expr<'_> {
    x.graph().build("cumsum", &[x], Location::caller(), || Ok((Op::CumSum { axis, reverse }, x.shape(), x.dtype())))
}

impl<'g> Expr<'g> {
    #[track_caller]
    fn reduce(self, how: Reduction, axes: &[usize]) -> Expr<'g> {
        let (shape, at, op) = (self.shape(), Location::caller(), how.name());
        if self.error().is_some() {
            return self;
        }
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let fault = if sorted.len() != axes.len() || sorted.iter().any(|&a| a >= shape.rank()) {
            Some(format!("{axes:?} are not axes of it"))
        } else if !self.dtype().is_float() {
            Some("integers only serve as indices; convert with `cast` to compute".to_owned())
        } else {
            None
        };
        if let Some(why) = fault {
            return self.graph().poison(Error::Argument { op, shape, why, at });
        }
        let long: Vec<usize> = sorted.iter().copied().filter(|&a| shape.dims()[a] > 1).collect();
        if long.is_empty() {
            return self.reshape(shape.without(&sorted));
        }
        if let Some(c) = self.as_const() {
            let n: usize = long.iter().map(|&a| shape.dims()[a]).product();
            let total = if how == Reduction::Sum { c * n as f64 } else { c };
            return self.graph().full(self.dtype(), shape.without(&sorted), total);
        }
        if how == Reduction::Sum
            && let Some(factored) = self.factored_sum(&sorted)
        {
            return factored;
        }
        // Executors reduce leading or trailing axes (length-1 axes count as either): bring everything else to that.
        let kept: Vec<usize> = (0..shape.rank()).filter(|a| !sorted.contains(a) && shape.dims()[*a] > 1).collect();
        let leading = kept.iter().all(|k| long.iter().all(|a| a < k));
        let trailing = kept.iter().all(|k| long.iter().all(|a| a > k));
        if !leading && !trailing {
            let last_kept = kept.last().copied().unwrap_or(0);
            let tail: Vec<usize> = sorted.iter().copied().filter(|&a| a > last_kept).collect();
            if tail.iter().any(|&a| shape.dims()[a] > 1) {
                let rest: Vec<usize> = sorted.into_iter().filter(|a| *a < last_kept).collect();
                return self.reduce(how, &tail).reduce(how, &rest);
            }
            let kept = (0..shape.rank()).filter(|a| !sorted.contains(a));
            let order: Vec<usize> = sorted.iter().copied().chain(kept).collect();
            return self.permute(&order).reduce(how, &(0..sorted.len()).collect::<Vec<_>>());
        }
        let out = shape.without(&sorted);
        self.graph().build(op, &[self], at, || Ok((Op::Reduce(how, sorted), out, self.dtype())))
    }

    /// The sum over axes with what does not vary along them taken out: Σⱼ cᵢ xᵢⱼ = cᵢ Σⱼ xᵢⱼ. Derivatives of
    /// broadcasts are full of such sums.
    fn factored_sum(self, axes: &[usize]) -> Option<Expr<'g>> {
        let rank = self.shape().rank();
        // The source of a broadcast, without the axes, if it is the same along all of them.
        let constant = |e: Expr<'g>| {
            let source = if e.op() == Op::Broadcast { e.args()[0] } else { return None };
            let lead = rank - source.shape().rank();
            let dims: Vec<usize> =
                (0..rank).map(|i| if i < lead { 1 } else { source.shape().dims()[i - lead] }).collect();
            axes.iter().all(|&a| dims[a] == 1).then(|| source.reshape(Shape::from(dims).without(axes)))
        };
        let args = self.args();
        match self.op() {
            Op::Unary(Unary::Neg) => Some(-args[0].sum(axes)),
            Op::Binary(Binary::Mul) => match (constant(args[0]), constant(args[1])) {
                (Some(c), _) => Some(args[1].sum(axes) * c),
                (None, Some(c)) => Some(args[0].sum(axes) * c),
                _ => None,
            },
            Op::Binary(Binary::Div) => constant(args[1]).map(|c| args[0].sum(axes) / c),
            _ => None,
        }
    }

    /// The sum over axes, which go away.
    #[track_caller]
    pub fn sum(self, axes: &[usize]) -> Expr<'g> {
        self.reduce(Reduction::Sum, axes)
    }

    /// The sum of all elements.
    #[track_caller]
    pub fn sum_all(self) -> Expr<'g> {
        self.sum(&(0..self.shape().rank()).collect::<Vec<_>>())
    }

    /// The mean over axes, which go away.
    #[track_caller]
    pub fn mean(self, axes: &[usize]) -> Expr<'g> {
        let (shape, total) = (self.shape(), self.sum(axes));
        if total.error().is_some() {
            return total;
        }
        let n: usize = axes.iter().map(|&a| shape.dims()[a]).product();
        total * (1.0 / n as f64)
    }

    /// The mean of all elements.
    #[track_caller]
    pub fn mean_all(self) -> Expr<'g> {
        self.mean(&(0..self.shape().rank()).collect::<Vec<_>>())
    }

    /// The largest element over axes, which go away; NaN if one is NaN.
    #[track_caller]
    pub fn max_over(self, axes: &[usize]) -> Expr<'g> {
        self.reduce(Reduction::Max, axes)
    }

    /// `ln Σ exp(self)` over axes, which go away. The result over elements that are all −∞ is −∞.
    #[track_caller]
    pub fn logsumexp(self, axes: &[usize]) -> Expr<'g> {
        let top = self.max_over(axes).stop_gradient();
        if top.error().is_some() {
            return top;
        }
        // A shift of ±∞ would make NaN of ∞ − ∞.
        let shift = top.abs().lt(f64::INFINITY).select(top, 0.0);
        let mut dims = self.shape().dims().to_vec();
        axes.iter().for_each(|&a| dims[a] = 1);
        (self - shift.reshape(dims)).exp().sum(axes).ln() + shift
    }

    /// Running totals along an axis.
    #[track_caller]
    pub fn cumsum(self, axis: usize) -> Expr<'g> {
        let (shape, at) = (self.shape(), Location::caller());
        if self.error().is_none() && (axis >= shape.rank() || !self.dtype().is_float()) {
            let why = format!("needs numbers and an axis {axis}");
            return self.graph().poison(Error::Argument { op: "cumsum", shape, why, at });
        }
        cumsum(self, axis, false)
    }
}
