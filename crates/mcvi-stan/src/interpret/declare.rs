//! Declarations: sizes, first values, and checks of what is declared.

use super::assign::fits;
use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Base, Constraint, Declaration, Element, Expr, SizedType};
use crate::trace::Flat;
use crate::value::Value;
use std::sync::Arc;

/// Numbers that one variable may hold.
const LARGEST: usize = 1 << 26;

/// A declared type with its sizes known.
pub struct Sized<'p> {
    pub base: Base,
    /// Sizes of the array, then those of the base type.
    pub shape: Vec<usize>,
    pub constraint: &'p Constraint,
}

impl<'p> Machine<'p> {
    /// The sizes of a declaration.
    pub fn sized(&mut self, ty: &'p SizedType, trailing: &'p [Expr]) -> Run<Sized<'p>> {
        let Element::Base { base, sizes, constraint } = &ty.element else {
            return fail(ty.span, "tuples are not supported");
        };
        if !matches!(base, Base::Int | Base::Real | Base::Vector | Base::RowVector | Base::Matrix) {
            return fail(ty.span, "complex numbers are not supported");
        }
        let mut shape = vec![];
        for size in trailing.iter().chain(&ty.array).chain(sizes) {
            let n = self.whole(size)?;
            match usize::try_from(n) {
                Ok(n) => shape.push(n),
                Err(_) => return fail(size.span, format!("a size cannot be {n}")),
            }
        }
        match shape.iter().try_fold(1usize, |all, n| all.checked_mul(*n)) {
            Some(all) if all <= LARGEST => Ok(Sized { base: *base, shape, constraint }),
            _ => fail(ty.span, format!("a variable of sizes {shape:?} is too large")),
        }
    }

    /// Declares a variable and gives it its value, or none yet.
    pub fn declare(&mut self, declaration: &'p Declaration) -> Run<()> {
        let Sized { base, shape, .. } = self.sized(&declaration.ty, &declaration.trailing)?;
        let value = match &declaration.value {
            Some(value) => {
                let span = value.span;
                let value = self.expression(value)?;
                fits(&shape, &value, span)?;
                Value { base, ..value }
            }
            None => empty(base, shape),
        };
        self.scope.declare(declaration.name.text.clone(), value);
        Ok(())
    }

    /// Whether a known value meets the constraint of its declaration.
    pub fn check(&mut self, name: &str, sized: &Sized<'p>, value: &Value, span: Span) -> Run<()> {
        let Some(numbers) = value.numbers() else { return Ok(()) };
        let numbers = numbers.to_vec();
        let refuse = |what: String| -> Run<()> {
            Err(Diagnostic::new(span, format!("`{name}` {what}")).label("it is declared here"))
        };
        match sized.constraint {
            Constraint::Bounds { lower, upper } => {
                for (bound, above) in [(lower, true), (upper, false)] {
                    let Some(bound) = bound else { continue };
                    let bound = self.expression(bound)?;
                    let Some(limits) = bound.numbers() else { continue };
                    let wrong = numbers.iter().enumerate().find(|(i, x)| {
                        let limit = limits[if limits.len() == 1 { 0 } else { i % limits.len() }];
                        !(if above { **x >= limit } else { **x <= limit })
                    });
                    if let Some((i, x)) = wrong {
                        let limit = limits[if limits.len() == 1 { 0 } else { i % limits.len() }];
                        let side = if above { "below its lower bound" } else { "above its upper bound" };
                        let at = if value.is_scalar() { String::new() } else { format!(" at element {}", i + 1) };
                        return refuse(format!("is {x}{at}, {side} {limit}"));
                    }
                }
                Ok(())
            }
            Constraint::None | Constraint::Affine { .. } => Ok(()),
            other => {
                let size: usize = sized.shape[value.dimensions()..].iter().product();
                let (rows, cols) = value.extent();
                let good = |part: &[f64]| meets(other, part, rows, cols);
                if size == 0 || numbers.chunks(size).all(good) {
                    Ok(())
                } else {
                    refuse(format!("is not {}", word(other)))
                }
            }
        }
    }
}

/// A value of a type before anything was assigned.
pub fn empty(base: Base, shape: Vec<usize>) -> Value {
    let count = shape.iter().product();
    let first = if base == Base::Int { f64::from(i32::MIN) } else { f64::NAN };
    let flat = if shape.is_empty() { Flat::Number(first) } else { Flat::Data(Arc::new(vec![first; count])) };
    Value { base, shape, flat }
}

fn word(constraint: &Constraint) -> &'static str {
    match constraint {
        Constraint::Ordered => "in increasing order",
        Constraint::PositiveOrdered => "positive and in increasing order",
        Constraint::Simplex => "a simplex: nonnegative numbers that sum to 1",
        Constraint::UnitVector => "a vector of length 1",
        Constraint::SumToZero => "numbers that sum to 0",
        Constraint::CholeskyFactorCorr => "the Cholesky factor of a correlation matrix",
        Constraint::CholeskyFactorCov => "the Cholesky factor of a covariance matrix",
        Constraint::CorrMatrix => "a correlation matrix",
        Constraint::CovMatrix => "a covariance matrix",
        Constraint::ColumnStochastic => "a matrix of columns that sum to 1",
        Constraint::RowStochastic => "a matrix of rows that sum to 1",
        _ => "as declared",
    }
}

/// How far from 1 or 0 rounding may be.
const TOLERANCE: f64 = 1e-8;

fn meets(constraint: &Constraint, x: &[f64], rows: usize, cols: usize) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE;
    let increasing = || x.windows(2).all(|w| w[0] < w[1]);
    let simplex = |x: &[f64]| x.iter().all(|p| *p >= 0.0) && near(x.iter().sum(), 1.0);
    let at = |i: usize, j: usize| x[i * cols + j];
    let lower = || (0..rows).all(|i| (i + 1..cols).all(|j| at(i, j) == 0.0) && (i >= cols || at(i, i) > 0.0));
    let symmetric = || (0..rows).all(|i| (0..i).all(|j| near(at(i, j), at(j, i))));
    match constraint {
        Constraint::Ordered => increasing(),
        Constraint::PositiveOrdered => increasing() && x.first().is_none_or(|x| *x >= 0.0),
        Constraint::Simplex => simplex(x),
        Constraint::UnitVector => near(x.iter().map(|x| x * x).sum(), 1.0),
        Constraint::SumToZero => near(x.iter().sum(), 0.0),
        Constraint::CholeskyFactorCov => lower(),
        Constraint::CholeskyFactorCorr => {
            lower() && (0..rows).all(|i| near((0..cols).map(|j| at(i, j).powi(2)).sum(), 1.0))
        }
        Constraint::CorrMatrix => {
            symmetric() && (0..rows).all(|i| near(at(i, i), 1.0)) && super::linear::cholesky(x, rows).is_some()
        }
        Constraint::CovMatrix => symmetric() && super::linear::cholesky(x, rows).is_some(),
        Constraint::ColumnStochastic => (0..cols).all(|j| simplex(&(0..rows).map(|i| at(i, j)).collect::<Vec<_>>())),
        Constraint::RowStochastic => (0..rows).all(|i| simplex(&(0..cols).map(|j| at(i, j)).collect::<Vec<_>>())),
        _ => true,
    }
}
