//! Constructors of all operations (with shape checks and simplifications) and their derivative rules, written in
//! expressions, one file per family. The operation set is closed under differentiation.

mod affine;
mod conv;
mod elementwise;
mod external;
mod grid;
mod index;
mod layout;
mod linalg;
mod noise;
mod ranks;
mod reduce;
mod rows;
mod scan;
mod simplify;

pub use elementwise::Operand;
pub(crate) use scan::{Loop, part};

use crate::error::Result;
use crate::graph::{Expr, ExternalPart, Op, Reduction};

/// Everything a derivative rule may look at.
pub(crate) struct Vjp<'a, 'g> {
    pub args: &'a [Expr<'g>],
    /// The node itself, so that rules can reuse its value.
    pub out: Expr<'g>,
    /// Derivative of the final scalar with respect to `out`.
    pub ct: Expr<'g>,
    /// Which operands lead to something differentiated for.
    pub wanted: &'a [bool],
}

impl<'g> Vjp<'_, 'g> {
    /// Contributions to each operand; `None` where no derivative flows.
    ///
    /// Behind a `select`, the derivative is zero on the side not taken. A rule would multiply that zero by a factor
    /// that may be NaN or infinite there, so it is applied to what was selected from, and its result selected again.
    pub fn apply(&self) -> Result<Vec<Option<Expr<'g>>>> {
        let op = self.out.op();
        let elementwise = matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast);
        let moves = matches!(op, Op::Reshape | Op::Permute(_) | Op::Reduce(Reduction::Sum, _));
        let rowwise = matches!(op, Op::External(ExternalPart::Value, _));
        let Some(part) = Masked::of(self.ct).filter(|_| elementwise || moves || rowwise) else {
            return self.rule(&op);
        };
        let under = |ct| Vjp { ct, ..*self };
        let conditions = match (moves, rowwise) {
            (true, _) => under(part.condition).rule(&op)?,
            (_, true) => vec![Some(part.condition.expand(1))],
            _ => vec![None; self.args.len()],
        };
        let inner = under(part.value).apply()?;
        let masked = inner.into_iter().zip(conditions).map(|(value, moved)| {
            let condition = moved.unwrap_or(part.condition);
            value.map(|value| {
                let condition = condition.cast(value.dtype());
                Masked { condition, value, when: part.when }.expr()
            })
        });
        Ok(masked.collect())
    }

    fn rule(&self, op: &Op) -> Result<Vec<Option<Expr<'g>>>> {
        let all = match op {
            Op::Unary(u) => vec![elementwise::unary_vjp(*u, self)],
            Op::Binary(b) => elementwise::binary_vjp(*b, self),
            Op::Select => elementwise::select_vjp(self),
            Op::Cast => vec![Some(self.ct.cast(self.args[0].dtype()))],
            Op::Broadcast | Op::Reshape | Op::Permute(_) | Op::Slice(_) | Op::Embed(_) | Op::Concat(_) => {
                layout::vjp(op, self)
            }
            Op::Reduce(r, axes) => vec![Some(reduce::vjp(*r, axes, self))],
            Op::CumSum { axis, reverse } => vec![Some(reduce::cumsum(self.ct, *axis, !reverse))],
            Op::MatMul { ta, tb } => linalg::matmul_vjp(*ta, *tb, self),
            Op::Cholesky => vec![Some(linalg::cholesky_vjp(self))],
            Op::TriSolve { upper, transpose } => linalg::solve_vjp(*upper, *transpose, self),
            Op::Conv(_) | Op::ConvInput(_) | Op::ConvWeight(_) | Op::Upsample | Op::Downsample => conv::vjp(op, self),
            Op::Take(_) | Op::ScatterAdd(_) => index::vjp(op, self),
            Op::SumParts(..) | Op::ToParts(_) => ranks::vjp(op, self),
            Op::External(part, function) => external::vjp(*part, function, self)?,
            Op::Input(_) | Op::State(_) | Op::Const(_) | Op::Literal(_) | Op::Placeholder(_) => vec![],
            Op::Opaque => vec![Some(self.ct)],
            Op::StopGradient | Op::Held(_) | Op::Noise(..) | Op::Poison(_) => vec![None; self.args.len()],
            Op::Scan(_) | Op::Part(_) => unreachable!("`calculus` collects what reaches the parts of a loop"),
        };
        Ok(all)
    }
}

/// A derivative that is zero by selection: `value` where `condition` is not zero (or where it is, unless `when`).
#[derive(Clone, Copy)]
struct Masked<'g> {
    condition: Expr<'g>,
    value: Expr<'g>,
    when: bool,
}

impl<'g> Masked<'g> {
    fn of(e: Expr<'g>) -> Option<Self> {
        let Op::Select = e.op() else { return None };
        let &[condition, then, otherwise] = e.args().as_slice() else { return None };
        match (then.as_const() == Some(0.0), otherwise.as_const() == Some(0.0)) {
            (_, true) => Some(Masked { condition, value: then, when: true }),
            (true, _) => Some(Masked { condition, value: otherwise, when: false }),
            _ => None,
        }
    }

    /// Not zero where the value passes this selection and those within it.
    fn live(self) -> Expr<'g> {
        let here = if self.when { self.condition } else { self.condition.eq(0.0) };
        Masked::of(self.value).map_or(here, |inner| here.select(inner.live(), 0.0))
    }

    fn expr(self) -> Expr<'g> {
        if self.when { self.condition.select(self.value, 0.0) } else { self.condition.select(0.0, self.value) }
    }
}

/// The sum of two contributions. Where selection makes both zero, it makes their sum zero.
pub(crate) fn accumulate<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let (Some(left), Some(right)) = (Masked::of(a), Masked::of(b)) else { return a + b };
    match (left.condition.is_same(right.condition), left.when, right.when) {
        (true, true, false) => left.condition.select(left.value, right.value),
        (true, false, true) => left.condition.select(right.value, left.value),
        (true, ..) => Masked { value: accumulate(left.value, right.value), ..left }.expr(),
        _ => left.live().select(1.0, right.live()).select(a + b, 0.0),
    }
}
