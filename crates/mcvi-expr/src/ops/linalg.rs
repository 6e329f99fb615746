//! Matrix products, Cholesky factors and triangular solves, batched over leading axes.

use super::{Vjp, affine};
use crate::array::Array;
use crate::error::Error;
use crate::graph::{Expr, Op};
use crate::shape::Shape;
use crate::table::Unary;
use std::panic::Location;

/// Leading axes and the two of the matrix.
fn split(shape: &Shape) -> Option<(Shape, usize, usize)> {
    let (lead, &[rows, cols]) = shape.dims().split_last_chunk::<2>()?;
    Some((lead.into(), rows, cols))
}

fn matrix(lead: &Shape, rows: usize, cols: usize) -> Shape {
    lead.dims().iter().copied().chain([rows, cols]).collect::<Vec<_>>().into()
}

pub(super) fn matmul_vjp<'g>(ta: bool, tb: bool, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    let (a, b, ct) = (v.args[0], v.args[1], v.ct);
    // C = op(A) op(B): dA = dC op(B)ᵀ, dB = op(A)ᵀ dC, transposed once more where op transposes.
    let da = || if ta { b.product(ct, tb, true) } else { ct.product(b, false, !tb) };
    let db = || if tb { ct.product(a, true, ta) } else { a.product(ct, !ta, false) };
    vec![v.wanted[0].then(da), v.wanted[1].then(db)]
}

/// Murray (2016): with P = Φ(LᵀL̄), the lower half of LᵀL̄ with its diagonal halved, S = L⁻ᵀ P L⁻¹ and Ā = (S + Sᵀ)/2.
pub(super) fn cholesky_vjp<'g>(v: &Vjp<'_, 'g>) -> Expr<'g> {
    let (l, ct) = (v.out, v.ct);
    let p = l.product(ct, true, false).triangle(false, 0.5);
    let left = l.solve(p, false, true); // L⁻ᵀ P
    let s = l.solve(left.t(), false, true).t(); // (L⁻ᵀ (L⁻ᵀ P)ᵀ)ᵀ = L⁻ᵀ P L⁻¹
    (s + s.t()) * 0.5
}

pub(super) fn solve_vjp<'g>(upper: bool, transpose: bool, v: &Vjp<'_, 'g>) -> Vec<Option<Expr<'g>>> {
    let (a, x) = (v.args[0], v.out);
    let db = a.solve(v.ct, upper, !transpose);
    let da = || {
        let outer = if transpose { x.product(db, false, true) } else { db.product(x, false, true) };
        -outer.triangle(upper, 1.0)
    };
    vec![v.wanted[0].then(da), Some(db)]
}

impl<'g> Expr<'g> {
    /// The matrix product over the last two axes; leading axes broadcast.
    #[track_caller]
    pub fn matmul(self, other: Expr<'g>) -> Expr<'g> {
        // A transposed operand is read in place.
        let strip = |e: Expr<'g>| match e.op() {
            Op::Permute(order)
                if order.len() >= 2 && {
                    let n = order.len();
                    order[..n - 2].iter().copied().eq(0..n - 2) && order[n - 1] == n - 2
                } =>
            {
                (e.args()[0], true)
            }
            _ => (e, false),
        };
        let ((a, ta), (b, tb)) = (strip(self), strip(other));
        a.product(b, ta, tb)
    }

    #[track_caller]
    fn product(self, other: Expr<'g>, ta: bool, tb: bool) -> Expr<'g> {
        let (at, op) = (Location::caller(), "matmul");
        if let Some(bad) = [self, other].into_iter().find(|e| e.error().is_some()) {
            return bad;
        }
        let (left, right) = (self.shape(), other.shape());
        let misfit = |why| self.graph().poison(Error::Shapes { op, left: left.clone(), right: right.clone(), why, at });
        let (Some((lead_a, ra, ca)), Some((lead_b, rb, cb))) = (split(&left), split(&right)) else {
            return misfit("both need at least two axes");
        };
        let (m, ka) = if ta { (ca, ra) } else { (ra, ca) };
        let (kb, n) = if tb { (cb, rb) } else { (rb, cb) };
        if ka != kb {
            return misfit("the inner extents must agree");
        }
        let Some(lead) = lead_a.broadcast(&lead_b) else {
            return misfit("leading extents must agree or be 1");
        };
        let negated = |e: Expr<'g>| (e.op() == Op::Unary(Unary::Neg)).then(|| e.args()[0]);
        if let Some(a) = negated(self) {
            let opposite = matches!(other.op(), Op::Literal(_)).then(|| -other);
            return match opposite.filter(|e| matches!(e.op(), Op::Literal(_))) {
                Some(opposite) => a.product(opposite, ta, tb),
                None => -a.product(other, ta, tb),
            };
        }
        if let Some(simple) = (!ta).then(|| affine::product(self, other, tb)).flatten() {
            return simple;
        }
        // A stack of rows times one matrix is one tall product, and so is its adjoint.
        if !ta && lead_a.rank() > 0 && lead_b.rank() == 0 {
            return self.reshape([lead.size() * m, ka]).product(other, false, tb).reshape(matrix(&lead, m, n));
        }
        let a = self.broadcast_to(matrix(&lead, ra, ca));
        let b = other.broadcast_to(matrix(&lead, rb, cb));
        self.graph().build(op, &[a, b], at, || {
            if a.dtype() != b.dtype() {
                return Err(Error::DTypes { op, left: a.dtype(), right: b.dtype(), at });
            }
            if !a.dtype().is_float() {
                let why = "integers only serve as indices; convert with `cast` to compute".to_owned();
                return Err(Error::Argument { op, shape: left.clone(), why, at });
            }
            Ok((Op::MatMul { ta, tb }, matrix(&lead, m, n), a.dtype()))
        })
    }

    /// One triangle of a matrix, the diagonal scaled, zeros elsewhere.
    fn triangle(self, upper: bool, diagonal: f64) -> Expr<'g> {
        let Some((_, rows, cols)) = split(&self.shape()) else { return self };
        let cell = |i: usize, j: usize| match (i.cmp(&j), upper) {
            (std::cmp::Ordering::Equal, _) => diagonal,
            (std::cmp::Ordering::Greater, false) | (std::cmp::Ordering::Less, true) => 1.0,
            _ => 0.0,
        };
        let mask = (0..rows * cols).map(|k| cell(k / cols, k % cols)).collect();
        let mask = self.graph().literal(Array::from_f64s(self.dtype(), [rows, cols].into(), mask));
        mask.select(self * mask, 0.0)
    }

    /// The lower triangle with the diagonal, zeros above.
    #[track_caller]
    pub fn tril(self) -> Expr<'g> {
        self.square_matrix("tril").unwrap_or_else(|| self.triangle(false, 1.0))
    }

    /// A poisoned expression unless the last two axes form a square matrix of floats.
    #[track_caller]
    fn square_matrix(self, op: &'static str) -> Option<Expr<'g>> {
        if self.error().is_some() {
            return Some(self);
        }
        match split(&self.shape()) {
            Some((_, rows, cols)) if rows == cols && self.dtype().is_float() => None,
            _ => {
                let (shape, at) = (self.shape(), Location::caller());
                let why = "needs square matrices of floats in the last two axes".to_owned();
                Some(self.graph().poison(Error::Argument { op, shape, why, at }))
            }
        }
    }

    /// The diagonals of square matrices.
    #[track_caller]
    pub fn diagonal(self) -> Expr<'g> {
        if let Some(bad) = self.square_matrix("diagonal") {
            return bad;
        }
        let shape = self.shape();
        let (lead, &[n, _]) = shape.dims().split_last_chunk::<2>().unwrap_or((&[], &[1, 1]));
        let lead = lead.to_vec();
        let flat = self.reshape([lead.as_slice(), &[n * n]].concat());
        flat.slice_step(lead.len(), 0..n * n, n + 1)
    }

    /// The lower Cholesky factor of the symmetric part. Where that is not positive definite, the factor is NaN.
    #[track_caller]
    pub fn cholesky(self) -> Expr<'g> {
        self.square_matrix("cholesky").unwrap_or_else(|| {
            self.graph()
                .build("cholesky", &[self], Location::caller(), || Ok((Op::Cholesky, self.shape(), self.dtype())))
        })
    }

    /// `X` with `L X = B`, where `L` is the lower triangle of this; leading axes broadcast.
    #[track_caller]
    pub fn solve_lower(self, b: Expr<'g>) -> Expr<'g> {
        self.solve(b, false, false)
    }

    /// `X` with `Lᵀ X = B`, where `L` is the lower triangle of this.
    #[track_caller]
    pub fn solve_lower_t(self, b: Expr<'g>) -> Expr<'g> {
        self.solve(b, false, true)
    }

    /// `X` with `U X = B`, where `U` is the upper triangle of this.
    #[track_caller]
    pub fn solve_upper(self, b: Expr<'g>) -> Expr<'g> {
        self.solve(b, true, false)
    }

    #[track_caller]
    fn solve(self, b: Expr<'g>, upper: bool, transpose: bool) -> Expr<'g> {
        let (at, op) = (Location::caller(), "solve_triangular");
        if let Some(bad) = self.square_matrix(op) {
            return bad;
        }
        if b.error().is_some() {
            return b;
        }
        let (left, right) = (self.shape(), b.shape());
        let fit = split(&left).zip(split(&right)).filter(|((_, n, _), (_, rows, _))| n == rows);
        let fit = fit.and_then(|((la, n, _), (lb, _, cols))| Some((la.broadcast(&lb)?, n, cols)));
        let Some((lead, n, cols)) = fit else {
            let why = "the right side needs the same number of rows, and leading extents that agree or are 1";
            return self.graph().poison(Error::Shapes { op, left, right, why, at });
        };
        let (a, b) = (self.broadcast_to(matrix(&lead, n, n)), b.broadcast_to(matrix(&lead, n, cols)));
        self.graph().build(op, &[a, b], at, || {
            if a.dtype() != b.dtype() {
                return Err(Error::DTypes { op, left: a.dtype(), right: b.dtype(), at });
            }
            Ok((Op::TriSolve { upper, transpose }, matrix(&lead, n, cols), a.dtype()))
        })
    }
}
