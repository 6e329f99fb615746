//! Transforms between free numbers, in which inference works, and constrained values, in which models are written.
//!
//! The transforms are those of Stan's reference manual, computed from logarithms: they keep their digits where the
//! free numbers are large.

use super::Value;
use mcvi_expr::{DType, Expr};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2};

/// What is large for a standard deviation of effects on a standardised scale.
const LARGE: f64 = 5.0;

/// 1/√(2π)
const NORMAL: f64 = 0.398_942_280_401_432_7;

/// How far from 1 a sum may be by rounding alone.
const TOLERANCE: f64 = 1e-8;

/// What values a parameter may take. Bounds are numbers or expressions, of data or of parameters declared before.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constraint<'g> {
    /// Any numbers.
    Real,
    /// Numbers above 0.
    Positive,
    /// Numbers above 0 that may come close to it, such as the standard deviations of group effects: the free number is linear
    /// in them from `knee` to `unit` and logarithmic beyond, and where the density does not vanish at 0 its density falls off like a normal
    /// one and not like an exponential, as that of the logarithm does.
    NearZero {
        /// Below it, the free number is negative.
        knee: f64,
        /// A typical value.
        unit: f64,
    },
    /// Any numbers, in other units: the free number is by how many `multiplier`s one is above `offset`, as in Stan. They may
    /// be numbers or expressions, and the multiplier is positive.
    Affine {
        /// Where the free number is 0.
        offset: Value<'g>,
        /// The unit.
        multiplier: Value<'g>,
    },
    /// Any numbers, which are skewed where the free ones are symmetric: sinh(arsinh u + arsinh s), a number or an expression s.
    Skewed(Value<'g>),
    /// Numbers above a bound; see [`Constraint::lower`].
    Lower(Value<'g>),
    /// Numbers below a bound; see [`Constraint::upper`].
    Upper(Value<'g>),
    /// Numbers between two bounds; see [`Constraint::interval`].
    Interval(Value<'g>, Value<'g>),
    /// Numbers in increasing order.
    Ordered,
    /// Positive numbers in increasing order.
    PositiveOrdered,
    /// Positive numbers that sum to 1.
    Simplex,
    /// The lower Cholesky factor of a correlation matrix.
    CorrelationCholesky,
}

impl<'g> Constraint<'g> {
    /// Numbers above a bound: one for all elements, `[rows, 1]`, or one for each, `[k]` or `[rows, k]`.
    pub fn lower(bound: impl Into<Value<'g>>) -> Self {
        Constraint::Lower(bound.into())
    }

    /// Numbers below a bound, of a shape as for [`Constraint::lower`].
    pub fn upper(bound: impl Into<Value<'g>>) -> Self {
        Constraint::Upper(bound.into())
    }

    /// Numbers between two bounds, of a shape as for [`Constraint::lower`].
    ///
    /// Numbers the wrong way round are refused when a model is made. Where expressions are, the
    /// log Jacobian is NaN or −∞ and the draw counts as impossible.
    pub fn interval(low: impl Into<Value<'g>>, high: impl Into<Value<'g>>) -> Self {
        Constraint::Interval(low.into(), high.into())
    }

    /// The number of free numbers behind a value of k elements, or of k × k for [`Constraint::CorrelationCholesky`].
    pub fn free(self, k: usize) -> usize {
        match self {
            Constraint::Simplex => k.saturating_sub(1),
            Constraint::CorrelationCholesky => k * k.saturating_sub(1) / 2,
            _ => k,
        }
    }

    /// The value, `[rows, k]` or `[rows, k, k]`, that belongs to free numbers `[rows, free(k)]`, and the logarithm of
    /// the absolute Jacobian determinant of the transform, `[rows]`.
    ///
    /// Where there are no free numbers, only the rows of `u` count. The Jacobian of a correlation factor is that of
    /// its elements below the diagonal, which is what [`lkj_cholesky`](super::lkj_cholesky) is a density of.
    #[track_caller]
    pub fn constrain(self, u: Expr<'g>, k: usize) -> (Expr<'g>, Expr<'g>) {
        let rows = u.shape().dims().first().copied().unwrap_or(1);
        if self.free(k) == 0 && k > 0 && u.error().is_none() {
            let ones = u.graph().full(u.dtype(), self.shape(rows, k), 1.0);
            return (ones, u.graph().full(u.dtype(), [rows], 0.0));
        }
        // Nothing may broadcast: another number of free numbers is a mistake.
        let u = u.reshape([rows, self.free(k)]);
        if u.error().is_some() {
            return (u, u);
        }
        match self.bounded() {
            Constraint::Real => (u, u.graph().full(u.dtype(), [rows], 0.0)),
            // A single number has no order to keep.
            Constraint::Ordered if k == 1 => Constraint::Real.constrain(u, k),
            Constraint::Positive => (u.exp(), u.sum(&[1])),
            Constraint::NearZero { knee, unit } => near_zero(u, knee, unit),
            Constraint::Skewed(by) => {
                let by = of_shape(u, by.expr(u));
                let (value, slope) = (skewed(u, by), (by.square() + 1.0).sqrt() + by * u / (u.square() + 1.0).sqrt());
                (value, slope.ln().sum(&[1]))
            }
            Constraint::Affine { offset, multiplier } => {
                let unit = of_shape(u, multiplier.expr(u));
                (of_shape(u, unit * u + offset.expr(u)), unit.ln().sum(&[1]))
            }
            Constraint::Lower(low) => (of_shape(u, u.exp() + low.expr(u)), u.sum(&[1])),
            Constraint::Upper(high) => (of_shape(u, high.expr(u) - u.exp()), u.sum(&[1])),
            Constraint::Interval(Value::Number(low), Value::Number(high)) => {
                let width = high - low;
                // The sum may round to more than the bound.
                ((u.sigmoid() * width + low).min(high), (u.log_sigmoid() + (-u).log_sigmoid() + width.ln()).sum(&[1]))
            }
            Constraint::Interval(low, high) => {
                let (low, high) = (low.expr(u), high.expr(u));
                let width = high - low;
                let value = of_shape(u, (u.sigmoid() * width + low).min(high));
                (value, of_shape(u, u.log_sigmoid() + (-u).log_sigmoid() + width.ln()).sum(&[1]))
            }
            Constraint::Ordered => ordered(u, k),
            // The logarithms of the first number and of the steps to the others are free.
            Constraint::PositiveOrdered => (u.exp().cumsum(1), u.sum(&[1])),
            Constraint::Simplex => simplex(u, k),
            Constraint::CorrelationCholesky => correlation_cholesky(u, k),
        }
    }

    /// The free numbers behind one value, or nothing if it does not meet the constraint. Matrices come row by row.
    /// Nothing, too, where a bound is an expression: its value is not known here.
    pub fn unconstrain(self, value: &[f64]) -> Option<Vec<f64>> {
        // Each number on its own; the logarithm of what is not above 0 is not finite.
        let each = |f: &dyn Fn(f64) -> f64| value.iter().map(|&x| f(x)).collect::<Vec<f64>>();
        let free = match self.bounded() {
            Constraint::Real => value.to_vec(),
            Constraint::Positive => each(&|x| x.ln()),
            Constraint::NearZero { knee, unit } => each(&|x| free_near_zero(x, knee, unit)),
            Constraint::Affine { offset, multiplier } => {
                let (offset, multiplier) = (offset.number()?, multiplier.number()?);
                each(&|x| (x - offset) / multiplier)
            }
            Constraint::Skewed(by) => {
                let by = by.number()?;
                each(&|x| (x.asinh() - by.asinh()).sinh())
            }
            Constraint::Lower(low) => {
                let low = low.number()?;
                each(&|x| (x - low).ln())
            }
            Constraint::Upper(high) => {
                let high = high.number()?;
                each(&|x| (high - x).ln())
            }
            Constraint::Interval(low, high) => {
                let (low, high) = (low.number()?, high.number()?);
                each(&|x| (x - low).ln() - (high - x).ln())
            }
            Constraint::Ordered => {
                let steps = value.windows(2).map(|pair| (pair[1] - pair[0]).ln());
                value.first().copied().into_iter().chain(steps).collect()
            }
            Constraint::PositiveOrdered => {
                let before = std::iter::once(0.0).chain(value.iter().copied());
                value.iter().zip(before).map(|(x, before)| (x - before).ln()).collect()
            }
            Constraint::Simplex => free_simplex(value)?,
            Constraint::CorrelationCholesky => free_correlation_cholesky(value)?,
        };
        free.iter().all(|u| u.is_finite()).then_some(free)
    }

    /// The constraint without bounds at infinity.
    fn bounded(self) -> Self {
        const NO_LOWER: Value<'_> = Value::Number(f64::NEG_INFINITY);
        const NO_UPPER: Value<'_> = Value::Number(f64::INFINITY);
        match self {
            Constraint::Lower(low) if low == NO_LOWER => Constraint::Real,
            Constraint::Upper(high) if high == NO_UPPER => Constraint::Real,
            Constraint::Interval(low, high) if low == NO_LOWER => Constraint::Upper(high).bounded(),
            Constraint::Interval(low, high) if high == NO_UPPER => Constraint::Lower(low),
            other => other,
        }
    }

    /// The free numbers of a value that depend on expressions, such as other parameters; none if they do not.
    #[track_caller]
    pub(super) fn free_expr(self, value: Expr<'g>) -> Option<Expr<'g>> {
        match self {
            Constraint::Affine { offset, multiplier } if offset.number().is_none() || multiplier.number().is_none() => {
                Some((value - offset.expr(value)) / multiplier.expr(value))
            }
            Constraint::Skewed(by @ Value::Expr(_)) => Some(skewed(value, -by.expr(value))),
            _ => None,
        }
    }

    /// The least and the largest number it allows, where they are known.
    pub(super) fn range(self) -> (Option<f64>, Option<f64>) {
        const NO: (Option<f64>, Option<f64>) = (Some(f64::NEG_INFINITY), Some(f64::INFINITY));
        match self {
            Constraint::Real | Constraint::Affine { .. } | Constraint::Skewed(_) | Constraint::Ordered => NO,
            Constraint::Positive | Constraint::NearZero { .. } | Constraint::PositiveOrdered => (Some(0.0), NO.1),
            Constraint::Lower(low) => (low.number(), NO.1),
            Constraint::Upper(high) => (NO.0, high.number()),
            Constraint::Interval(low, high) => (low.number(), high.number()),
            Constraint::Simplex => (Some(0.0), Some(1.0)),
            Constraint::CorrelationCholesky => (Some(-1.0), Some(1.0)),
        }
    }

    /// What is wrong with bounds that are numbers.
    pub(super) fn mistake(self) -> Option<String> {
        let (low, high) = self.range();
        let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
        // Asked this way round, NaN is refused.
        let nothing = low.partial_cmp(&high) != Some(std::cmp::Ordering::Less);
        nothing.then(|| format!("nothing lies between {low} and {high}"))
    }

    /// The shape of a value in that many rows.
    pub(super) fn shape(self, rows: usize, k: usize) -> Vec<usize> {
        if self == Constraint::CorrelationCholesky { vec![rows, k, k] } else { vec![rows, k] }
    }
}

/// A value as wide as its free numbers: a bound that is wider is a mistake.
#[track_caller]
fn of_shape<'g>(u: Expr<'g>, value: Expr<'g>) -> Expr<'g> {
    if value.shape() == u.shape() { value } else { value.broadcast_to(u.shape()) }
}

/// sinh(arsinh u + arsinh s)
#[track_caller]
fn skewed<'g>(u: Expr<'g>, by: Expr<'g>) -> Expr<'g> {
    u * (by.square() + 1.0).sqrt() + by * (u.square() + 1.0).sqrt()
}

/// unit·sinh(h + h³/H²) with h = knee/unit·g(u) and g(u) = uΦ(u) + φ(u), whose derivative is Φ; H is h of [`LARGE`], beyond which
/// a tail that falls off as a power is lighter than a normal one.
#[track_caller]
fn near_zero(u: Expr<'_>, knee: f64, unit: f64) -> (Expr<'_>, Expr<'_>) {
    let below = (u * -FRAC_1_SQRT_2).log_erfc() - LN_2;
    let h = (u * below.exp() + (u.square() * -0.5).exp() * NORMAL) * (knee / unit);
    let bend = (LARGE / unit).asinh().powi(-2);
    let bent = h + h * h.square() * bend;
    let value = bent.exp() * (bent * -2.0).expm1() * (-0.5 * unit);
    // ln cosh
    let log_cosh = bent - (bent * 2.0).log_sigmoid() - LN_2;
    (value, (log_cosh + (h.square() * (3.0 * bend)).log1p() + below + knee.ln()).sum(&[1]))
}

/// The first number is free, the logarithms of the steps to the others are.
#[track_caller]
fn ordered(u: Expr<'_>, k: usize) -> (Expr<'_>, Expr<'_>) {
    let (first, steps) = (u.slice(1, 0..1), u.slice(1, 1..k));
    (u.graph().concat(&[first, steps.exp()], 1).cumsum(1), steps.sum(&[1]))
}

/// Stick breaking: xⱼ is the share σ(yⱼ) of what is left, y = u − ln(K − j), so that u = 0 gives equal parts.
#[track_caller]
fn simplex(u: Expr<'_>, k: usize) -> (Expr<'_>, Expr<'_>) {
    let later = (k - 1) as f64 - u.graph().arange(u.dtype(), k - 1);
    let y = u - later.ln();
    let taken = y.log_sigmoid();
    // ln of what is left after each break
    let left = (-y).log_sigmoid().cumsum(1);
    ((taken.pad(1, 0, 1) + left.pad(1, 1, 0)).exp(), (taken + left).sum(&[1]))
}

/// L_ij = z_ij Π_{l<j} √(1 − z_il²) with z = tanh u below the diagonal and 1 on it.
#[track_caller]
fn correlation_cholesky(u: Expr<'_>, k: usize) -> (Expr<'_>, Expr<'_>) {
    let column = u.graph().arange(u.dtype(), k);
    let row = column.expand(1);
    let below = row.gt(column);
    // u row by row into the places below the diagonal
    let place = below.select(row * (row - 1.0) * 0.5 + column, 0.0);
    let u = u.take(1, place.cast(DType::I32));
    // ln(1 − tanh² u) = ln 4σ(2u)σ(−2u)
    let twice = u * 2.0;
    let log_rest = below.select(twice.log_sigmoid() + (-twice).log_sigmoid() + 2.0 * LN_2, 0.0);
    let log_left = (log_rest.slice(2, 0..k - 1) * 0.5).cumsum(2).pad(2, 1, 0);
    let value = below.select(u.tanh(), row.eq(column)) * log_left.exp();
    (value, below.select(log_left + log_rest, 0.0).sum(&[1, 2]))
}

fn free_near_zero(value: f64, knee: f64, unit: f64) -> f64 {
    let (goal, bend) = ((value / unit).asinh(), (LARGE / unit).asinh().powi(-2));
    if !(goal > 0.0 && goal.is_finite()) {
        return f64::NAN;
    }
    let bent = |u: f64| {
        let g = 0.5 * u * libm::erfc(-u * FRAC_1_SQRT_2) + (-0.5 * u * u).exp() * NORMAL;
        let h = g * knee / unit;
        h + h.powi(3) * bend
    };
    // g is u at least.
    rising(bent, goal, (-38.0, goal * unit / knee))
}

/// Where a rising function has a value.
fn rising(f: impl Fn(f64) -> f64, value: f64, (mut low, mut high): (f64, f64)) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if f(middle) < value { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

fn free_simplex(value: &[f64]) -> Option<Vec<f64>> {
    if value.is_empty() || (value.iter().sum::<f64>() - 1.0).abs() > TOLERANCE {
        return None;
    }
    // What is left after an element is summed from the end: one minus the start of the sum loses digits.
    let (mut left, mut free) = (value[value.len() - 1], vec![]);
    for (later, x) in value.iter().rev().skip(1).enumerate() {
        free.push(x.ln() - left.ln() + ((later + 1) as f64).ln());
        left += x;
    }
    free.reverse();
    // A last element below 0 is in no logarithm of its own once others were added to it.
    value.iter().all(|x| *x > 0.0).then_some(free)
}

fn free_correlation_cholesky(value: &[f64]) -> Option<Vec<f64>> {
    let k = value.len().isqrt();
    if k == 0 || value.len() != k * k {
        return None;
    }
    let mut free = vec![];
    for (i, row) in value.chunks_exact(k).enumerate() {
        let norm: f64 = row.iter().map(|x| x * x).sum();
        let above = row[i + 1..].iter().any(|x| *x != 0.0);
        // Asked this way round, NaN is outside.
        let inside = (norm - 1.0).abs() <= TOLERANCE && row[i] > 0.0;
        if above || !inside {
            return None;
        }
        // tanh u = L_ij / √(L_ij² + …) is sinh u = L_ij / √…, where … is the squared length of the row after L_ij.
        let (mut left, start) = (row[i], free.len());
        for x in row[..i].iter().rev() {
            free.push((x / left).asinh());
            left = left.hypot(*x);
        }
        free[start..].reverse();
    }
    Some(free)
}
