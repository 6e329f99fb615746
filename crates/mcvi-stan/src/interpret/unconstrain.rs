//! The inverse of `constrain.rs`: the unconstrained numbers of known parameters.

use super::constrain::{by_columns, zero_sum_basis, zero_sum_side};
use super::declare::Sized;
use super::linear::cholesky;
use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Base, Constraint, Declaration, Expr};
use crate::trace::Flat;
use crate::value::{Value, rank};

impl<'p> Machine<'p> {
    /// Declares a parameter with its value; gives its unconstrained numbers. Parameters its bounds need must be there.
    pub fn unconstrained(&mut self, declaration: &'p Declaration, numbers: &[f64]) -> Run<Vec<f64>> {
        let (name, span) = (declaration.name.text.clone(), declaration.name.span);
        let sized = self.sized(&declaration.ty, &declaration.trailing)?;
        let count: usize = sized.shape.iter().product();
        if numbers.len() != count {
            return fail(span, format!("`{name}` has {count} numbers, not {}", numbers.len()));
        }
        let flat = if sized.shape.is_empty() { Flat::Number(numbers[0]) } else { Flat::from_numbers(numbers.to_vec()) };
        let value = Value { base: sized.base, shape: sized.shape.clone(), flat };
        self.scope.declare(name.clone(), value);
        let free = self.free_numbers(&sized, numbers)?;
        match free.iter().all(|x| x.is_finite()) {
            true => Ok(free),
            false => Err(Diagnostic::new(span, format!("a value of `{name}` does not meet its constraint"))),
        }
    }

    fn free_numbers(&mut self, sized: &Sized<'p>, x: &[f64]) -> Run<Vec<f64>> {
        let Sized { base, shape, constraint } = sized;
        let inner = &shape[shape.len() - rank(*base)..];
        let size = inner.iter().product::<usize>().max(1);
        let free: Vec<f64> = match constraint {
            Constraint::None => x.to_vec(),
            Constraint::Bounds { lower, upper } => {
                let (low, high) = (self.limits(lower.as_ref(), x.len())?, self.limits(upper.as_ref(), x.len())?);
                let free = |i: usize| match (low[i], high[i]) {
                    (Some(a), Some(b)) => (x[i] - a).ln() - (b - x[i]).ln(),
                    (Some(a), None) => (x[i] - a).ln(),
                    (None, Some(b)) => (b - x[i]).ln(),
                    (None, None) => x[i],
                };
                (0..x.len()).map(free).collect()
            }
            Constraint::Affine { offset, multiplier } => {
                let (offset, scale) =
                    (self.limits(offset.as_ref(), x.len())?, self.limits(multiplier.as_ref(), x.len())?);
                (0..x.len()).map(|i| (x[i] - offset[i].unwrap_or(0.0)) / scale[i].unwrap_or(1.0)).collect()
            }
            other => x.chunks(size).flat_map(|part| one(other, part, inner)).collect(),
        };
        let is_elementwise =
            matches!(constraint, Constraint::None | Constraint::Bounds { .. } | Constraint::Affine { .. });
        // Unconstrained matrices come column by column: rows and columns change places.
        if let (true, Base::Matrix, [.., rows, cols]) = (is_elementwise, base, shape.as_slice()) {
            let turned = [&shape[..shape.len() - 2], &[*cols, *rows]].concat();
            let flat = by_columns(&Flat::from_numbers(free), &turned);
            return Ok(flat.numbers().map(<[f64]>::to_vec).unwrap_or_default());
        }
        Ok(free)
    }

    /// A bound for each element; none where there is none or it is infinite.
    fn limits(&mut self, bound: Option<&'p Expr>, count: usize) -> Run<Vec<Option<f64>>> {
        let Some(bound) = bound else { return Ok(vec![None; count]) };
        let value = self.expression(bound)?;
        let numbers = value.numbers().unwrap_or(&[f64::NAN]);
        let finite = |x: f64| (!x.is_infinite()).then_some(x);
        Ok((0..count).map(|i| finite(numbers[i % numbers.len().max(1)])).collect())
    }
}

/// Of one value of a type whose name says what values it has.
fn one(constraint: &Constraint, x: &[f64], sizes: &[usize]) -> Vec<f64> {
    let n = sizes[0];
    match constraint {
        Constraint::Ordered | Constraint::PositiveOrdered => {
            let first = |x: f64| if matches!(constraint, Constraint::Ordered) { x } else { x.ln() };
            (0..n).map(|i| if i == 0 { first(x[0]) } else { (x[i] - x[i - 1]).ln() }).collect()
        }
        Constraint::Simplex => simplex(x),
        Constraint::UnitVector => x.to_vec(),
        Constraint::SumToZero if sizes.len() == 2 => {
            let (rows, cols) = (n.saturating_sub(1), sizes[1].saturating_sub(1));
            let (left, right) = (zero_sum_side(n), zero_sum_side(sizes[1]));
            let column = |j: usize, k: usize| (0..n).map(|i| left[i * rows + k] * x[i * sizes[1] + j]).sum::<f64>();
            let free = |k: usize, l: usize| (0..sizes[1]).map(|j| right[j * cols + l] * column(j, k)).sum();
            (0..cols).flat_map(|l| (0..rows).map(move |k| (k, l))).map(|(k, l)| free(k, l)).collect()
        }
        Constraint::SumToZero => {
            let (basis, m) = (zero_sum_basis(n), n.saturating_sub(1));
            (0..m).map(|k| (0..n).map(|i| basis[i * m + k] * x[i]).sum()).collect()
        }
        Constraint::CholeskyFactorCorr => partial_correlations(x, n).into_iter().map(|(_, _, z)| z.atanh()).collect(),
        Constraint::CorrMatrix => {
            let mut all = partial_correlations(&cholesky(x, n).unwrap_or_else(|| vec![f64::NAN; n * n]), n);
            all.sort_by_key(|(i, j, _)| (*j, *i));
            all.into_iter().map(|(_, _, z)| z.atanh()).collect()
        }
        Constraint::CholeskyFactorCov => factor(x, n, sizes[1]),
        Constraint::CovMatrix => factor(&cholesky(x, n).unwrap_or_else(|| vec![f64::NAN; n * n]), n, n),
        Constraint::RowStochastic => x.chunks(sizes[1]).flat_map(simplex).collect(),
        Constraint::ColumnStochastic => {
            let column = |j: usize| (0..n).map(|i| x[i * sizes[1] + j]).collect::<Vec<_>>();
            (0..sizes[1]).flat_map(|j| simplex(&column(j))).collect()
        }
        _ => x.to_vec(),
    }
}

/// Logits of the shares of what is left, shifted so that even shares are 0.
fn simplex(x: &[f64]) -> Vec<f64> {
    let n = x.len();
    // What is left, summed from the end, so that small shares keep their digits.
    let mut left = vec![0.0; n + 1];
    (0..n).rev().for_each(|i| left[i] = left[i + 1] + x[i]);
    (0..n.saturating_sub(1)).map(|k| x[k].ln() - left[k + 1].ln() + ((n - k - 1) as f64).ln()).collect()
}

/// Rows, columns and partial correlations below the diagonal of the factor of a correlation matrix, row by row.
fn partial_correlations(l: &[f64], n: usize) -> Vec<(usize, usize, f64)> {
    let mut out = vec![];
    for i in 0..n {
        let mut left = 1.0;
        for j in 0..i {
            let x: f64 = l[i * n + j];
            out.push((i, j, x / f64::sqrt(left)));
            left -= x * x;
        }
    }
    out
}

/// The lower triangle row by row, with logarithms on the diagonal.
fn factor(l: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    let entry = |i: usize, j: usize| if i == j { l[i * cols + j].ln() } else { l[i * cols + j] };
    (0..rows).flat_map(|i| (0..cols.min(i + 1)).map(move |j| entry(i, j))).collect()
}
