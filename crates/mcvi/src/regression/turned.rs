//! Rows turned by an orthogonal matrix: sums of squares over many rows become those of a few numbers, and stay sums of squares.

use super::groups::GroupRows;
use nalgebra::DMatrix;

/// Rows that are turned at a time.
const BLOCK: usize = 1024;

/// The rows of each group, turned so that its columns Z become a triangle: QᵀW^½Z = R.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turned {
    /// R by row and column, `[groups]` each; empty below the diagonal.
    pub factor: Vec<Vec<Vec<f64>>>,
    /// Q, a vector of all rows for each of its columns.
    q: Vec<Vec<f64>>,
    /// W^½
    root: Vec<f64>,
    index: Vec<usize>,
    groups: usize,
}

impl Turned {
    pub fn new(rows: &GroupRows, weights: &[f64]) -> Self {
        let (n, k) = (rows.index.len(), rows.values.len());
        let groups = rows.index.iter().max().map_or(0, |m| m + 1);
        let root: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
        let mut members = vec![vec![]; groups];
        rows.index.iter().enumerate().for_each(|(i, g)| members[*g].push(i));
        let (mut q, mut factor) = (vec![vec![0.0; n]; k], vec![vec![vec![]; k]; k]);
        (0..k).for_each(|c| (c..k).for_each(|d| factor[c][d] = vec![0.0; groups]));
        for (g, members) in members.iter().enumerate().filter(|(_, members)| !members.is_empty()) {
            let value = |i: usize, c: usize| root[i] * rows.values[c].as_ref().map_or(1.0, |v| v[i]);
            let qr = DMatrix::from_fn(members.len(), k, |i, c| value(members[i], c)).qr();
            let (own, r) = (qr.q(), qr.r());
            for c in 0..own.ncols() {
                members.iter().enumerate().for_each(|(i, row)| q[c][*row] = own[(i, c)]);
                (c..k).for_each(|d| factor[c][d][g] = r[(c, d)]);
            }
        }
        Turned { factor, q, root, index: rows.index.clone(), groups }
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// QᵀW^½v: `[groups]` for each coefficient.
    pub fn of(&self, v: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
        let turned = |q: &Vec<f64>| {
            let mut sums = vec![0.0; self.groups];
            self.index.iter().enumerate().for_each(|(i, g)| sums[*g] += q[i] * self.root[i] * v(i));
            sums
        };
        self.q.iter().map(turned).collect()
    }

    /// W^½Q, a vector of all rows for each coefficient: what [`Turned::of`] multiplies rows by.
    pub fn rows(&self) -> impl Iterator<Item = Vec<f64>> {
        self.q.iter().map(|q| q.iter().zip(&self.root).map(|(q, root)| q * root).collect())
    }

    /// Q, likewise.
    pub fn q(&self) -> &[Vec<f64>] {
        &self.q
    }

    /// What is left of W^½v in a row without its projection on the columns, which is QᵀW^½v.
    pub fn rest(&self, i: usize, v: f64, projection: &[Vec<f64>]) -> f64 {
        let fitted = self.q.iter().zip(projection).map(|(q, c)| q[i] * c[self.index[i]]);
        self.root[i] * v - fitted.sum::<f64>()
    }
}

/// The triangle R with |Xb|² = |Rb|² for every b, of a matrix X of so many rows; `element` has those of a row.
pub(super) fn triangle(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f64) -> DMatrix<f64> {
    let mut r = DMatrix::zeros(columns, columns);
    for first in (0..rows).step_by(BLOCK) {
        let count = BLOCK.min(rows - first);
        let mut both = DMatrix::zeros(columns + count, columns);
        both.rows_mut(0, columns).copy_from(&r);
        both.rows_mut(columns, count).copy_from(&DMatrix::from_fn(count, columns, |i, j| element(first + i, j)));
        r = both.qr().r();
    }
    r
}
