//! Columns combined with one number each; often all are equal.

use super::Scope;
use mcvi_expr::Expr;

impl<'g> Scope<'g> {
    /// Columns multiplied by one number each.
    pub(crate) fn multiplied(&self, e: Expr<'g>, by: &[f64]) -> Expr<'g> {
        match one_number(by) {
            Some(1.0) => e,
            Some(x) => e * x,
            None => e * self.vector(by),
        }
    }

    /// Columns divided by one number each.
    pub(crate) fn divided(&self, e: Expr<'g>, by: &[f64]) -> Expr<'g> {
        match one_number(by) {
            Some(1.0) => e,
            Some(x) => e / x,
            None => e / self.vector(by),
        }
    }

    /// Columns with one number added to each.
    pub(crate) fn shifted(&self, e: Expr<'g>, by: &[f64]) -> Expr<'g> {
        match one_number(by) {
            Some(0.0) => e,
            Some(x) => e + x,
            None => e + self.vector(by),
        }
    }
}

/// The common value, if all are equal.
pub(crate) fn one_number(numbers: &[f64]) -> Option<f64> {
    numbers.first().copied().filter(|first| numbers.iter().all(|x| x == first))
}
