//! A user's black-box function, as a parameter of an operation.

use crate::error::{Error, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A function ℝᵈ → ℝ with derivatives, computed outside the engine: for instance a log density of BridgeStan.
///
/// Executors call the plural methods for many points, from several threads. By default these go through the points one by
/// one; a function that computes many at once, such as one compiled by JAX, overrides them and says that it is
/// [batched](External::is_batched). A message returned as an error ends the run with it; to mark a point as impossible write
/// −∞ or NaN instead.
pub trait External: Send + Sync {
    /// For error messages.
    fn name(&self) -> &str;
    /// The number of arguments d.
    fn dimension(&self) -> usize;
    /// The value at `z`.
    fn value(&self, z: &[f64]) -> Result<f64, String>;
    /// Write the gradient at `z`, return the value.
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String>;
    /// Write the product of the Hessian at `z` with `v`. Not offered by default.
    fn hessian_vector(&self, z: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        let _ = (z, v, product);
        Err("it offers no Hessian-vector product".to_owned())
    }
    /// Whether [`hessian_vector`](External::hessian_vector) is offered; asked when a second derivative is built.
    fn has_hessian_vector(&self) -> bool {
        false
    }
    /// Whether all rows of a program are to be computed by one call. Otherwise rows are shared among threads.
    fn is_batched(&self) -> bool {
        false
    }
    /// Write the value at each row of `z`.
    fn values(&self, z: &[f64], values: &mut [f64]) -> Result<(), String> {
        let mut rows = z.chunks(self.dimension()).zip(values);
        rows.try_for_each(|(z, to)| self.value(z).map(|value| *to = value))
    }
    /// Write the gradient at each row of `z`.
    fn gradients(&self, z: &[f64], gradients: &mut [f64]) -> Result<(), String> {
        let d = self.dimension();
        let mut rows = z.chunks(d).zip(gradients.chunks_mut(d));
        rows.try_for_each(|(z, to)| self.gradient(z, to).map(|_| ()))
    }
    /// Write the product of the Hessian at each row of `z` with the same row of `v`.
    fn hessian_vectors(&self, z: &[f64], v: &[f64], products: &mut [f64]) -> Result<(), String> {
        let d = self.dimension();
        let mut rows = z.chunks(d).zip(v.chunks(d)).zip(products.chunks_mut(d));
        rows.try_for_each(|((z, v), to)| self.hessian_vector(z, v, to))
    }
}

/// A shared `External`, compared by identity.
#[derive(Clone)]
pub(crate) struct Blackbox(pub Arc<dyn External>);

impl Blackbox {
    /// Rows that one call computes, of this many in all.
    pub fn rows_at_once(&self, rows: usize) -> usize {
        if self.0.is_batched() { rows.max(1) } else { 1 }
    }

    /// Some rows of a result, with errors as ours: a panic in the user's code becomes one like any other.
    pub fn call(&self, part: ExternalPart, z: &[f64], v: &[f64], to: &mut [f64]) -> Result<()> {
        let f = &self.0;
        let result = catch_unwind(AssertUnwindSafe(|| match part {
            ExternalPart::Value => f.values(z, to),
            ExternalPart::Gradient => f.gradients(z, to),
            ExternalPart::HessianVector => f.hessian_vectors(z, v, to),
        }));
        result.unwrap_or_else(|_| Err("it panicked".to_owned())).map_err(|message| {
            let name = catch_unwind(AssertUnwindSafe(|| f.name().to_owned())).unwrap_or_default();
            Error::External { name, message }
        })
    }
}

impl PartialEq for Blackbox {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Blackbox {}
impl Hash for Blackbox {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}
impl fmt::Debug for Blackbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// Which of its results a node is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ExternalPart {
    /// `[rows]` from z `[rows, d]`.
    Value,
    /// `[rows, d]` from z.
    Gradient,
    /// `[rows, d]` from z and v, both `[rows, d]`.
    HessianVector,
}
