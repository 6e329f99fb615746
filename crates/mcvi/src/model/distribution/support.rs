//! Where a distribution has a positive density.

use super::Value;

/// The values a distribution gives a positive density or probability to.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Support<'g> {
    /// All real numbers, or vectors of them.
    Real,
    /// Positive numbers; whether 0 belongs to them matters to nobody.
    Positive,
    /// Numbers between two bounds.
    Interval(Value<'g>, Value<'g>),
    /// Counts, categories, zero and one.
    Discrete,
    /// Positive numbers that sum to 1.
    Simplex,
    /// Lower Cholesky factors of correlation matrices.
    CorrelationCholesky,
}
