//! Parameters from unconstrained numbers, with the logarithm of the Jacobian added to the target.
//!
//! The transforms and the order of the unconstrained numbers are those of Stan's reference manual.

use super::declare::Sized;
use super::expression::joined;
use super::{Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp, Constraint, Declaration, Expr};
use crate::trace::{Flat, Op};
use crate::value::Value;
use std::f64::consts::LN_2;
use std::sync::Arc;

/// A parameter: its name, its sizes, and how many unconstrained numbers it has.
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: Arc<str>,
    pub base: Base,
    pub shape: Vec<usize>,
    pub free: usize,
}

impl<'p> Machine<'p> {
    /// Declares a parameter.
    pub fn parameter(&mut self, declaration: &'p Declaration) -> Run<Declared> {
        let span = declaration.name.span;
        self.at(span);
        let sized = self.sized(&declaration.ty, &declaration.trailing)?;
        let before = self.free;
        let value = self.constrained(&sized, span)?;
        self.scope.declare(declaration.name.text.clone(), value);
        let free = (self.free - before) as usize;
        Ok(Declared { name: declaration.name.text.clone(), base: sized.base, shape: sized.shape, free })
    }

    /// How many unconstrained numbers have been used.
    pub fn free(&self) -> usize {
        self.free as usize
    }

    /// The next unconstrained numbers.
    fn take(&mut self, count: usize) -> Value {
        let start = self.free;
        self.free += count as u32;
        self.trace.nodes[0].len = self.free;
        if count == 0 {
            return Value::vector(Flat::from_numbers(vec![]));
        }
        Value::vector(Flat::Part { node: 0, start, len: count as u32 })
    }

    fn constrained(&mut self, sized: &Sized<'p>, span: Span) -> Run<Value> {
        let Sized { base, shape, constraint } = sized;
        let (base, shape) = (*base, shape.clone());
        let dimensions = shape.len() - crate::value::rank(base);
        let count: usize = shape.iter().product();
        match constraint {
            Constraint::None | Constraint::Bounds { .. } | Constraint::Affine { .. } => {
                let free = self.take(count);
                // Unconstrained matrices come column by column.
                let flat = if base == Base::Matrix { by_columns(&free.flat, &shape) } else { free.flat };
                let free = Value { base, shape: shape.clone(), flat };
                match constraint {
                    Constraint::Bounds { lower, upper } => self.bounded(free, lower.as_ref(), upper.as_ref(), span),
                    Constraint::Affine { offset, multiplier } => {
                        self.affine(free, offset.as_ref(), multiplier.as_ref(), span)
                    }
                    _ => Ok(free),
                }
            }
            other => {
                let inner = &shape[dimensions..];
                let each: usize = shape[..dimensions].iter().product();
                let parts: Vec<Value> = (0..each).map(|_| self.one(other, inner, span)).collect::<Run<_>>()?;
                let flat = if parts.is_empty() { Flat::from_numbers(vec![]) } else { joined(&parts) };
                Ok(Value { base, shape, flat })
            }
        }
    }

    /// A bound, repeated for the elements of an array where it is given for one.
    fn bound(&mut self, bound: &'p Expr, like: &Value) -> Run<Value> {
        let value = self.expression(bound)?;
        if value.is_scalar() || value.len() == like.len() || value.len() == 0 {
            return Ok(Value { base: if value.is_scalar() { Base::Real } else { like.base }, ..value });
        }
        if !like.len().is_multiple_of(value.len()) {
            return fail(bound.span, "the bound has other sizes than the variable");
        }
        let places: Vec<usize> = (0..like.len()).map(|i| i % value.len()).collect();
        Ok(Value { base: like.base, shape: like.shape.clone(), flat: value.flat.gather(&places) })
    }

    fn bounded(&mut self, free: Value, lower: Option<&'p Expr>, upper: Option<&'p Expr>, span: Span) -> Run<Value> {
        let lower = lower.map(|e| self.bound(e, &free)).transpose()?;
        let upper = upper.map(|e| self.bound(e, &free)).transpose()?;
        // Infinite bounds are none.
        let bounds = |v: &Value| v.numbers().is_none_or(|n| n.iter().any(|x| x.is_finite()));
        match (lower.filter(bounds), upper.filter(bounds)) {
            (None, None) => Ok(free),
            (Some(low), None) => {
                self.add_to_target(&free);
                let e = self.map_named("exp", &[free], span)?;
                self.binary(BinaryOp::Add, &e, &low, span)
            }
            (None, Some(high)) => {
                self.add_to_target(&free);
                let e = self.map_named("exp", &[free], span)?;
                self.binary(BinaryOp::Subtract, &high, &e, span)
            }
            (Some(low), Some(high)) => {
                let width = self.binary(BinaryOp::Subtract, &high, &low, span)?;
                let log = self.map_named("log", std::slice::from_ref(&width), span)?;
                let l = self.map_named("log_inv_logit", std::slice::from_ref(&free), span)?;
                let m = self.map_named("log1m_inv_logit", std::slice::from_ref(&free), span)?;
                let both = self.binary(BinaryOp::Add, &l, &m, span)?;
                let jacobian = self.binary(BinaryOp::Add, &both, &log, span)?;
                self.add_to_target(&jacobian);
                let share = self.map_named("inv_logit", &[free], span)?;
                let scaled = self.binary(BinaryOp::ElementMultiply, &share, &width, span)?;
                self.binary(BinaryOp::Add, &scaled, &low, span)
            }
        }
    }

    fn affine(
        &mut self,
        free: Value,
        offset: Option<&'p Expr>,
        multiplier: Option<&'p Expr>,
        span: Span,
    ) -> Run<Value> {
        let mut value = free.clone();
        if let Some(multiplier) = multiplier {
            let multiplier = self.bound(multiplier, &free)?;
            value = self.binary(BinaryOp::ElementMultiply, &value, &multiplier, span)?;
            let log = self.map_named("log", std::slice::from_ref(&multiplier), span)?;
            let times = if multiplier.is_scalar() { free.len() as f64 } else { 1.0 };
            let jacobian = self.binary(BinaryOp::ElementMultiply, &log, &Value::real(times), span)?;
            self.add_to_target(&jacobian);
        }
        match offset {
            Some(offset) => {
                let offset = self.bound(offset, &free)?;
                self.binary(BinaryOp::Add, &value, &offset, span)
            }
            None => Ok(value),
        }
    }

    /// One value of a type whose name says what values it has.
    fn one(&mut self, constraint: &Constraint, sizes: &[usize], span: Span) -> Run<Value> {
        let n = sizes[0];
        match constraint {
            Constraint::Ordered | Constraint::PositiveOrdered => {
                let free = self.take(n);
                if n == 0 {
                    return Ok(free);
                }
                let first = if matches!(constraint, Constraint::Ordered) { 1 } else { 0 };
                let steps = Value::vector(free.flat.part(first, n - first));
                self.add_to_target(&steps);
                let steps = self.map_named("exp", &[steps], span)?;
                let start = Value::vector(free.flat.part(0, first));
                let all = if first == 0 { steps } else { Value::vector(joined(&[start, steps])) };
                Ok(self.cumulative(&all))
            }
            Constraint::Simplex => self.simplex(n, span),
            Constraint::UnitVector => {
                let free = self.take(n);
                let square = self.map_named("square", std::slice::from_ref(&free), span)?;
                let length2 = self.sum(&square);
                let jacobian = self.binary(BinaryOp::Multiply, &length2, &Value::real(-0.5), span)?;
                self.add_to_target(&jacobian);
                let length = self.map_named("sqrt", &[length2], span)?;
                self.binary(BinaryOp::Divide, &free, &length, span)
            }
            Constraint::SumToZero if sizes.len() == 1 => {
                let free = self.take(n.saturating_sub(1));
                let basis = Value::matrix(n, n.saturating_sub(1), Flat::from_numbers(zero_sum_basis(n)));
                if n <= 1 {
                    return Ok(Value::vector(Flat::from_numbers(vec![0.0; n])));
                }
                self.product(&basis, &free, span)
            }
            Constraint::SumToZero => {
                let m = sizes[1];
                let (rows, cols) = (n.saturating_sub(1), m.saturating_sub(1));
                if rows * cols == 0 {
                    return Ok(Value::matrix(n, m, Flat::from_numbers(vec![0.0; n * m])));
                }
                let free = Value::matrix(cols, rows, self.take(rows * cols).flat);
                let left = Value::matrix(n, rows, Flat::from_numbers(zero_sum_side(n)));
                let right = Value::matrix(m, cols, Flat::from_numbers(zero_sum_side(m)));
                let by_rows = self.product(&left, &super::expression::transposed(&free), span)?;
                self.product(&by_rows, &super::expression::transposed(&right), span)
            }
            Constraint::CholeskyFactorCorr => self.cholesky_factor_corr(n, span),
            Constraint::CholeskyFactorCov => self.cholesky_factor_cov(n, sizes[1], span),
            Constraint::CorrMatrix => self.corr_matrix(n, span),
            Constraint::CovMatrix => {
                let l = self.cholesky_factor_cov(n, n, span)?;
                // The factor's own Jacobian holds each log diagonal once; that of L L' has n − k + 1 of them.
                let diagonal: Vec<usize> = (0..n).map(|k| k * (n + 1)).collect();
                let log = self.map_named("log", &[Value::vector(l.flat.gather(&diagonal))], span)?;
                let weights = (0..n).map(|k| (n - k) as f64).collect();
                let weighted =
                    self.binary(BinaryOp::ElementMultiply, &log, &Value::vector(Flat::from_numbers(weights)), span)?;
                self.add_to_target(&weighted);
                self.add_to_target(&Value::real(n as f64 * LN_2));
                self.product(&l, &super::expression::transposed(&l), span)
            }
            Constraint::RowStochastic | Constraint::ColumnStochastic => {
                let (rows, cols) = (sizes[0], sizes[1]);
                let by_row = matches!(constraint, Constraint::RowStochastic);
                let (count, size) = if by_row { (rows, cols) } else { (cols, rows) };
                let parts: Vec<Value> = (0..count).map(|_| self.simplex(size, span)).collect::<Run<_>>()?;
                let all = Value::matrix(count, size, joined(&parts));
                Ok(if by_row { all } else { super::expression::transposed(&all) })
            }
            _ => fail(span, "parameters of this type are not supported"),
        }
    }

    /// Stick breaking, from logarithms: each number is a share of what the ones before left.
    fn simplex(&mut self, n: usize, span: Span) -> Run<Value> {
        if n <= 1 {
            return Ok(Value::vector(Flat::from_numbers(vec![1.0; n])));
        }
        let free = self.take(n - 1);
        let shift = (1..n).map(|k| ((n - k) as f64).ln()).collect();
        let shifted = self.binary(BinaryOp::Subtract, &free, &Value::vector(Flat::from_numbers(shift)), span)?;
        let share = self.map_named("log_inv_logit", std::slice::from_ref(&shifted), span)?;
        let rest = self.map_named("log1m_inv_logit", &[shifted], span)?;
        let left = self.cumulative(&rest);
        let start = Value::vector(Flat::Number(0.0));
        let before =
            if n == 2 { start } else { Value::vector(joined(&[start, Value::vector(left.flat.part(0, n - 2))])) };
        for part in [&share, &rest, &before] {
            self.add_to_target(part);
        }
        let logs = self.binary(BinaryOp::Add, &share, &before, span)?;
        let last = Value::vector(left.flat.part(n - 2, 1));
        self.map_named("exp", &[Value::vector(joined(&[logs, last]))], span)
    }

    /// tanh of free numbers, and the logarithm of 1 − tanh².
    fn partial_correlations(&mut self, count: usize, span: Span) -> Run<(Value, Value)> {
        let free = self.take(count);
        let z = self.map_named("tanh", std::slice::from_ref(&free), span)?;
        // ln(1 − tanh²u) = 2 (ln 2 − u − ln(1 + e^{−2u})).
        let twice = self.binary(BinaryOp::Multiply, &free, &Value::real(-2.0), span)?;
        let soft = self.map_named("log1p_exp", &[twice], span)?;
        let sum = self.binary(BinaryOp::Add, &free, &soft, span)?;
        let minus = self.binary(BinaryOp::Subtract, &Value::real(LN_2), &sum, span)?;
        let log = self.binary(BinaryOp::Multiply, &minus, &Value::real(2.0), span)?;
        self.add_to_target(&log);
        Ok((z, log))
    }

    fn cholesky_factor_corr(&mut self, n: usize, span: Span) -> Run<Value> {
        let (z, log) = self.partial_correlations(n * n.saturating_sub(1) / 2, span)?;
        let mut rows: Vec<Value> = vec![];
        for i in 0..n {
            let first = i * i.saturating_sub(1) / 2;
            if i == 0 {
                rows.push(Value::vector(Flat::from_numbers((0..n).map(|j| f64::from(u8::from(j == 0))).collect())));
                continue;
            }
            // Half the logarithm of what the numbers before leave of the row's length, 1.
            let logs = Value::vector(log.flat.part(first, i));
            let left = self.cumulative(&logs);
            let half = self.binary(BinaryOp::Multiply, &left, &Value::real(0.5), span)?;
            let inner = Value::vector(half.flat.part(0, i - 1));
            if i > 1 {
                self.add_to_target(&inner);
            }
            let length = self.map_named("exp", &[half], span)?;
            let one = Value::vector(Flat::Number(1.0));
            let before = Value::vector(joined(&[one, Value::vector(length.flat.part(0, i - 1))]));
            let entries =
                self.binary(BinaryOp::ElementMultiply, &Value::vector(z.flat.part(first, i)), &before, span)?;
            let last = Value::vector(length.flat.part(i - 1, 1));
            let zeros = Value::vector(Flat::from_numbers(vec![0.0; n - i - 1]));
            rows.push(Value::vector(joined(&[entries, last, zeros])));
        }
        Ok(Value::matrix(n, n, if n == 0 { Flat::from_numbers(vec![]) } else { joined(&rows) }))
    }

    /// Row by row: free numbers below the diagonal, exponentials on it.
    fn cholesky_factor_cov(&mut self, rows: usize, cols: usize, span: Span) -> Run<Value> {
        if rows < cols {
            return fail(span, "the factor of a covariance matrix has at least as many rows as columns");
        }
        let free = self.take(cols * (cols + 1) / 2 + (rows - cols) * cols);
        let diagonal: Vec<usize> = (0..cols).map(|i| i * (i + 3) / 2).collect();
        let logs = Value::vector(free.flat.gather(&diagonal));
        self.add_to_target(&logs);
        let exponentials = self.map_named("exp", &[logs], span)?;
        let mut cells = Vec::with_capacity(rows * cols);
        let mut next = 0;
        for i in 0..rows {
            for j in 0..cols {
                cells.push(match i.cmp(&j) {
                    std::cmp::Ordering::Less => crate::trace::Cell::Number(0.0),
                    std::cmp::Ordering::Equal => {
                        next += 1;
                        exponentials.flat.cell(i)
                    }
                    std::cmp::Ordering::Greater => {
                        next += 1;
                        free.flat.cell(next - 1)
                    }
                });
            }
        }
        Ok(Value::matrix(rows, cols, Flat::from_cells(cells)))
    }

    /// Partial correlations column by column, then the matrix from its factor.
    fn corr_matrix(&mut self, n: usize, span: Span) -> Run<Value> {
        let (z, log) = self.partial_correlations(n * n.saturating_sub(1) / 2, span)?;
        let place = |i: usize, j: usize| j * n - j * (j + 1) / 2 + i - j - 1;
        let mut rows: Vec<Value> = vec![];
        for i in 0..n {
            let places: Vec<usize> = (0..i).map(|j| place(i, j)).collect();
            let one = Value::vector(Flat::Number(1.0));
            let zeros = Value::vector(Flat::from_numbers(vec![0.0; n - i - 1]));
            if i == 0 {
                rows.push(Value::vector(joined(&[one, zeros])));
                continue;
            }
            let logs = Value::vector(log.flat.gather(&places));
            let left = self.cumulative(&logs);
            let half = self.binary(BinaryOp::Multiply, &left, &Value::real(0.5), span)?;
            let length = self.map_named("exp", &[half], span)?;
            let before = Value::vector(joined(&[one, Value::vector(length.flat.part(0, i - 1))]));
            let entries =
                self.binary(BinaryOp::ElementMultiply, &Value::vector(z.flat.gather(&places)), &before, span)?;
            rows.push(Value::vector(joined(&[entries, Value::vector(length.flat.part(i - 1, 1)), zeros])));
        }
        // The density of the matrix itself: column k of the partial correlations counts n − k − 2 halves more.
        let weights: Vec<f64> =
            (0..n).flat_map(|k| std::iter::repeat_n(0.5 * (n as f64 - k as f64 - 2.0), n - k - 1)).collect();
        let weighted =
            self.binary(BinaryOp::ElementMultiply, &log, &Value::vector(Flat::from_numbers(weights)), span)?;
        self.add_to_target(&weighted);
        let l = Value::matrix(n, n, joined(&rows));
        self.product(&l, &super::expression::transposed(&l), span)
    }

    /// Sums of the first 1, 2, … numbers.
    pub fn cumulative(&mut self, value: &Value) -> Value {
        let flat = match value.numbers() {
            Some(numbers) => {
                let mut sum = 0.0;
                let sums = numbers.iter().map(|x| {
                    sum += x;
                    sum
                });
                Flat::from_numbers(sums.collect())
            }
            None if value.len() <= 1 => value.flat.clone(),
            None => self.trace.push(Op::CumulativeSum, std::slice::from_ref(&value.flat), value.len()),
        };
        Value { flat, ..value.clone() }
    }
}

/// Matrices written column by column, as written row by row.
pub fn by_columns(flat: &Flat, shape: &[usize]) -> Flat {
    let [.., rows, cols] = *shape else { return flat.clone() };
    let size = rows * cols;
    if size == 0 {
        return flat.clone();
    }
    let place = |k: usize| (k / size) * size + (k % size % cols) * rows + k % size / cols;
    flat.gather(&(0..flat.len()).map(place).collect::<Vec<_>>())
}

/// An orthonormal basis of the vectors that sum to 0, row by row.
pub fn zero_sum_basis(n: usize) -> Vec<f64> {
    let mut basis = vec![0.0; n * n.saturating_sub(1)];
    for k in 1..n {
        let w = 1.0 / ((k * (k + 1)) as f64).sqrt();
        for i in 0..k {
            basis[i * (n - 1) + k - 1] = w;
        }
        basis[k * (n - 1) + k - 1] = -w * k as f64;
    }
    basis
}

/// The same for one side of a matrix, where Stan has the last number first. The other sign of both sides cancels.
pub fn zero_sum_side(n: usize) -> Vec<f64> {
    let mut basis = zero_sum_basis(n);
    basis.rotate_left(n.saturating_sub(1));
    basis
}
