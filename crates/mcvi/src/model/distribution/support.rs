//! Where a distribution has a positive density.

use super::Value;
use crate::model::Constraint;

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

impl Support<'_> {
    /// The bounds of single numbers, where they are known.
    pub(super) fn range(self) -> Option<(f64, f64)> {
        match self {
            Support::Positive => Some((0.0, f64::INFINITY)),
            Support::Interval(low, high) => Some((low.number()?, high.number()?)),
            _ => None,
        }
    }

    /// What to do where a parameter of this constraint could leave the support, where the log density would be −∞.
    pub(in crate::model) fn conflict(self, constraint: Constraint<'_>) -> Option<String> {
        let (low, high) = constraint.range();
        match self {
            Support::Real => None,
            Support::Positive if low.is_none_or(|low| low >= 0.0) => None,
            Support::Positive if constraint == Constraint::Ordered => {
                Some("declare it with `m.positive_ordered`".to_owned())
            }
            Support::Positive => Some("declare it with `m.positive`".to_owned()),
            Support::Interval(Value::Number(from), Value::Number(to)) => {
                let inside = low.is_none_or(|low| from <= low) && high.is_none_or(|high| high <= to);
                (!inside).then(|| format!("declare it with `m.interval`, between {from} and {to}"))
            }
            // Of expressions nothing is known yet.
            Support::Interval(..) => None,
            Support::Discrete => Some("parameters are continuous: sum over the values of a discrete one".to_owned()),
            Support::Simplex => (constraint != Constraint::Simplex).then(|| "declare it with `m.simplex`".to_owned()),
            Support::CorrelationCholesky => (constraint != Constraint::CorrelationCholesky)
                .then(|| "declare it with `m.correlation_cholesky`".to_owned()),
        }
    }
}
