//! Whitened coordinates: the target as a function of y, where z = c + Ly and LLᵀ is a covariance that is known beforehand.
//!
//! A chain in these coordinates needs no matrices of its own: its Gaussian and its masses are diagonal, and what is learned
//! has one scale.

use crate::scope::Scope;
use crate::target::Target;
use mcvi_expr::{DType, Expr};

/// A target in whitened coordinates. c and L are those of the initialisation, saved with the parameters.
pub(crate) struct Whitened<'a>(pub &'a dyn Target);

impl Whitened<'_> {
    /// z of each row of y.
    pub fn original<'g>(scope: &Scope<'g>, y: Expr<'g>) -> Expr<'g> {
        let (center, factor) = Whitened::parts(scope);
        y.matmul(factor.t()) + center
    }

    /// y of each row of z.
    pub fn white<'g>(scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let (center, factor) = Whitened::parts(scope);
        factor.solve_lower((z - center).t()).t()
    }

    /// log |det L|.
    pub fn log_volume<'g>(scope: &Scope<'g>) -> Expr<'g> {
        let (_, factor) = Whitened::parts(scope);
        let d = factor.shape().dims()[0];
        // The diagonal is every (d + 1)th element.
        factor.reshape([d * d]).slice_step(0, 0..d * d, d + 1).ln().sum(&[0])
    }

    fn parts<'g>(scope: &Scope<'g>) -> (Expr<'g>, Expr<'g>) {
        let (scope, units) = (scope.root().child("whitening"), scope.positions());
        let d = units.dim();
        (
            scope.fixed("center", d, || units.center.clone()),
            scope.fixed("factor", [d, d], || units.factor().into_owned()),
        )
    }
}

impl Target for Whitened<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, y: Expr<'g>) -> Expr<'g> {
        self.0.log_density(scope, Whitened::original(scope, y)) + Whitened::log_volume(scope)
    }

    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        self.0.data(scope)
    }

    fn is_subsampled(&self) -> bool {
        self.0.is_subsampled()
    }

    fn dtype(&self) -> DType {
        self.0.dtype()
    }
}
