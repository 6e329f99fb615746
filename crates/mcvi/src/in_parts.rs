//! A target whose sums over many observations are divided into parts: several processes may share them, and the result is the same.

use crate::hardware::{Hardware, Ranks};
use crate::scope::Scope;
use crate::target::{Conditional, Target};
use mcvi_expr::{DType, Expr, Parts};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A target with its sums over many observations divided into parts, which depend on the number of observations alone.
pub struct InParts<T> {
    target: T,
    hardware: Hardware,
    /// Whether it is one part alone.
    one: bool,
    /// How many parts there are at most.
    parts: AtomicUsize,
}

impl<T: Target> InParts<T> {
    /// Parts are shared out among the ranks of this hardware.
    pub fn new(target: T, hardware: Hardware) -> Self {
        InParts { target, hardware, one: false, parts: AtomicUsize::new(1) }
    }

    /// With the first part that is held here alone, to see what it costs.
    pub(crate) fn one(target: T, hardware: Hardware) -> Self {
        InParts { one: true, ..InParts::new(target, hardware) }
    }

    /// How many parts sums were divided into at most.
    pub(crate) fn parts(&self) -> usize {
        self.parts.load(Ordering::Relaxed)
    }

    fn divide(&self, rows: usize) -> Option<Parts> {
        let parts = self.hardware.divide(rows)?;
        self.parts.fetch_max(parts.total(), Ordering::Relaxed);
        Some(if self.one { parts.one() } else { parts })
    }
}

impl<T: Target> Target for InParts<T> {
    fn dim(&self) -> usize {
        self.target.dim()
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        // What a part computes begins here.
        let z = z.opaque();
        self.target.log_density(scope, z).sums_by_parts(z, &|rows| self.divide(rows))
    }
    fn log_likelihood<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Option<Expr<'g>> {
        self.target.log_likelihood(scope, z)
    }
    fn conditional<'g>(&self, scope: &Scope<'g>, z: Expr<'g>, coordinate: usize) -> Option<Conditional<'g>> {
        self.target.conditional(scope, z, coordinate)
    }
    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        self.target.data(scope)
    }
    fn is_subsampled(&self) -> bool {
        self.target.is_subsampled()
    }
    fn ranks(&self) -> Option<Ranks> {
        self.hardware.ranks
    }
    fn dtype(&self) -> DType {
        self.target.dtype()
    }
}
