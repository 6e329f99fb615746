//! Coordinates of coefficients beside group effects: how uncertain a coefficient is depends on how much the effects vary, and its
//! free coordinate is in units of that, as for effects themselves.

use super::model::{Effects, Rows};
use crate::model::Builder;
use mcvi_expr::Expr;

/// The least that is known of a coefficient: rows with weights of 0 may say nothing.
const LEAST: f64 = 1e-8;

/// What rows know of each coefficient, the intercept's first, if it were the only one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Knowledge {
    total: Vec<f64>,
    /// For each effect of each term.
    effects: Vec<Vec<Divided>>,
}

/// Divided by where an effect differs from group to group.
#[derive(Clone, Debug, PartialEq)]
struct Divided {
    /// By differences within groups, which the effect does not touch.
    within: Vec<f64>,
    /// By differences between groups, and how much the variance of the effect adds to theirs, for an error of 1.
    between: Vec<f64>,
    added: Vec<f64>,
}

impl Knowledge {
    pub fn new(rows: &Rows, weights: &[f64]) -> Self {
        let p = rows.x.len() / rows.count.max(1);
        let x = |i: usize, j: usize| if j == 0 { 1.0 } else { rows.x[i * p + j - 1] };
        let sum = |j: usize| (0..rows.count).map(|i| weights[i] * x(i, j) * x(i, j)).sum::<f64>().max(LEAST);
        let total: Vec<f64> = (0..=p).map(sum).collect();
        let divided = |index: &[usize], values: &Option<Vec<f64>>| {
            let groups = index.iter().max().map_or(0, |g| g + 1);
            let value = |i: usize| values.as_ref().map_or(1.0, |v| v[i]);
            let mut sizes = vec![0.0; groups];
            index.iter().enumerate().for_each(|(i, g)| sizes[*g] += weights[i] * value(i) * value(i));
            let mut divided = Divided { within: vec![], between: vec![], added: vec![] };
            for (j, total) in total.iter().enumerate() {
                let mut products = vec![0.0; groups];
                index.iter().enumerate().for_each(|(i, g)| products[*g] += weights[i] * value(i) * x(i, j));
                let squares = products.iter().zip(&sizes).filter(|(_, size)| **size > 0.0);
                let (between, added) = squares.fold((0.0, 0.0), |(b, a), (z, size)| (b + z * z / size, a + z * z));
                divided.between.push(between.min(*total));
                divided.within.push((total - between).max(0.0));
                divided.added.push(if between > 0.0 { added / between } else { 0.0 });
            }
            divided
        };
        let effects = rows.groups.iter().map(|g| g.values.iter().map(|v| divided(&g.index, v)).collect()).collect();
        Knowledge { total, effects }
    }

    /// Roughly the standard deviation of each coefficient given how effects vary, `[rows, coefficients]`.
    pub fn uncertainty<'g>(&self, m: &Builder<'g>, error: Option<Expr<'g>>, effects: &[Effects<'g>]) -> Expr<'g> {
        let error = error.map_or_else(|| m.data(&[1.0]), Expr::square);
        let alone = error * m.data(&self.total.iter().map(|t| 1.0 / t).collect::<Vec<_>>());
        let each = self.effects.iter().zip(effects).flat_map(|(of, effects)| {
            of.iter().enumerate().map(|(c, divided)| (divided, effects.sds.slice(1, c..c + 1).square()))
        });
        let variance = each.fold(alone, |sum, (divided, variance)| {
            let between = error + variance * m.data(&divided.added);
            let known = between * m.data(&divided.within) + error * m.data(&divided.between);
            sum + (error * between / known - alone)
        });
        variance.sqrt()
    }
}
