//! A user's black-box function inside an expression.

use super::Vjp;
use crate::error::{Error, Result};
use crate::graph::{Blackbox, Expr, External, ExternalPart, Op};
use crate::shape::DType;
use std::panic::Location;
use std::sync::Arc;

pub(super) fn vjp<'g>(part: ExternalPart, function: &Blackbox, v: &Vjp<'_, 'g>) -> Result<Vec<Option<Expr<'g>>>> {
    let (z, ct) = (v.args[0], v.ct);
    let node = |part, args: &[Expr<'g>]| {
        let at = Location::caller();
        z.graph().build("external", args, at, || Ok((Op::External(part, function.clone()), z.shape(), z.dtype())))
    };
    let product = |by: Expr<'g>| {
        if function.0.has_hessian_vector() {
            return Ok(node(ExternalPart::HessianVector, &[z, by]));
        }
        let why = "a second derivative needs its Hessian-vector product, which it does not offer";
        Err(Error::NotDifferentiable { op: "external", why })
    };
    Ok(match part {
        ExternalPart::Value => vec![Some(node(ExternalPart::Gradient, &[z]) * ct.expand(1))],
        ExternalPart::Gradient => vec![Some(product(ct)?)],
        ExternalPart::HessianVector => {
            if v.wanted[0] {
                let why = "third derivatives are beyond its Hessian-vector product";
                return Err(Error::NotDifferentiable { op: "external", why });
            }
            // The Hessian is symmetric, so the adjoint of v ↦ H v is H itself.
            vec![None, Some(product(ct)?)]
        }
    })
}

impl<'g> Expr<'g> {
    /// A black-box function of each row of this `[rows, d]` expression (of type `F64`): the result is `[rows]`.
    #[track_caller]
    pub fn external(self, function: Arc<dyn External>) -> Expr<'g> {
        let (at, op, shape) = (Location::caller(), "external", self.shape());
        self.graph().build(op, &[self], at, || {
            let &[rows, d] = shape.dims() else {
                let why = "needs two axes, rows and arguments".to_owned();
                return Err(Error::Argument { op, shape, why, at });
            };
            if d != function.dimension() {
                let right = [rows, function.dimension()].into();
                let why = "the second extent must be the function's dimension";
                return Err(Error::Shapes { op, left: shape, right, why, at });
            }
            if self.dtype() != DType::F64 {
                return Err(Error::DTypes { op, left: self.dtype(), right: DType::F64, at });
            }
            Ok((Op::External(ExternalPart::Value, Blackbox(function)), rows.into(), DType::F64))
        })
    }
}
