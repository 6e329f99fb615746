//! Coordinates of group effects in which they are nearly standard normal and independent of all other parameters.
//!
//! Effects b = Ae of a group, with e standard normal and AAᵀ their covariance, have given the other parameters and rows with
//! information H and score s a posterior that is Gaussian where the likelihood is: with GGᵀ = I + AᵀHA, e = G⁻ᵀ(G⁻¹Aᵀs + z) and z
//! standard normal. So z is the coordinate. Without information z is e, the non-centred one; with much it is a centred one,
//! in units of its error: each group has its own place in between. Where the likelihood is not Gaussian, H and s
//! are approximate, and only the coordinates are: the model is the same.

use crate::model::{Builder, normal};
use mcvi_expr::Expr;

/// Most coefficients of a group that are whitened together.
pub(super) const MOST: usize = 4;

/// What the rows of each group say about its coefficients, in the units of these.
pub(super) struct Information<'g> {
    /// H, `[rows, groups]` for each pair of coefficients.
    pub precision: Vec<Vec<Expr<'g>>>,
    /// s, `[rows, groups]` for each.
    pub score: Vec<Expr<'g>>,
}

/// A matrix with an expression for each element, none where it is 0.
type Matrix<'g> = Vec<Vec<Option<Expr<'g>>>>;

/// Declare the coordinates, with the prior that makes e standard normal; returns e.
pub(super) fn declare<'g>(
    m: &Builder<'g>,
    names: &[String],
    groups: usize,
    factor: &Matrix<'g>,
    information: Option<&Information<'g>>,
) -> Vec<Expr<'g>> {
    let Some(information) = information else {
        return names.iter().map(|name| m.reals(name, groups, normal(0.0, 1.0))).collect();
    };
    let k = names.len();
    // AᵀHA and Aᵀs
    let half: Vec<Vec<Option<Expr<'g>>>> = (0..k)
        .map(|i| (0..k).map(|j| sum((0..k).map(|d| times(factor[d][j], Some(information.precision[i][d]))))).collect())
        .collect();
    let inner = |i: usize, j: usize| sum((0..k).map(|c| times(factor[c][i], half[c][j])));
    let score: Vec<Option<Expr<'g>>> =
        (0..k).map(|i| sum((0..k).map(|c| times(factor[c][i], Some(information.score[c]))))).collect();
    let g = cholesky(k, |i, j| {
        let value = inner(i, j);
        if i == j { Some(value.map_or_else(|| m.data(&[1.0]), |v| v + 1.0)) } else { value }
    });
    let shift = solve(&g, &score);
    // z = Gᵀe − G⁻¹Aᵀs has the covariance GᵀG, element by element given those before.
    let spread = cholesky(k, |i, j| sum((0..k).map(|c| times(g[c][i], g[c][j]))));
    let (mut z, mut standard) = (vec![], vec![]);
    for i in 0..k {
        let before = sum((0..i).map(|j| times(spread[i][j], standard[j])));
        let mean = match (before, shift[i]) {
            (Some(before), Some(shift)) => before - shift,
            (Some(before), None) => before,
            (None, Some(shift)) => -shift,
            (None, None) => m.data(&[0.0]),
        };
        let sd = spread[i][i].unwrap_or_else(|| m.data(&[1.0]));
        let value = m.reals(&names[i], groups, normal(mean, sd));
        standard.push(Some((value - mean) / sd));
        z.push(shift[i].map_or(value, |shift| value + shift));
    }
    // Gᵀe = z + G⁻¹Aᵀs
    let mut e: Vec<Option<Expr<'g>>> = vec![None; k];
    for i in (0..k).rev() {
        let rest = sum((i + 1..k).map(|j| times(g[j][i], e[j])));
        let left = rest.map_or(z[i], |rest| z[i] - rest);
        e[i] = Some(g[i][i].map_or(left, |diagonal| left / diagonal));
    }
    e.into_iter().flatten().collect()
}

/// G⁻¹b
fn solve<'g>(g: &Matrix<'g>, b: &[Option<Expr<'g>>]) -> Vec<Option<Expr<'g>>> {
    let mut x: Vec<Option<Expr<'g>>> = vec![];
    for i in 0..b.len() {
        let rest = sum((0..i).map(|j| times(g[i][j], x[j])));
        let left = match (b[i], rest) {
            (Some(b), Some(rest)) => Some(b - rest),
            (Some(b), None) => Some(b),
            (None, Some(rest)) => Some(-rest),
            (None, None) => None,
        };
        x.push(left.zip(g[i][i]).map(|(left, diagonal)| left / diagonal));
    }
    x
}

/// The lower factor of a positive matrix.
fn cholesky<'g>(k: usize, at: impl Fn(usize, usize) -> Option<Expr<'g>>) -> Matrix<'g> {
    let mut g: Matrix<'g> = vec![vec![None; k]; k];
    for j in 0..k {
        for i in j..k {
            let rest = sum((0..j).map(|l| times(g[i][l], g[j][l])));
            let left = match (at(i, j), rest) {
                (Some(a), Some(rest)) => Some(a - rest),
                (Some(a), None) => Some(a),
                (None, Some(rest)) => Some(-rest),
                (None, None) => None,
            };
            g[i][j] = if i == j { left.map(Expr::sqrt) } else { left.zip(g[j][j]).map(|(left, d)| left / d) };
        }
    }
    g
}

fn times<'g>(a: Option<Expr<'g>>, b: Option<Expr<'g>>) -> Option<Expr<'g>> {
    a.zip(b).map(|(a, b)| a * b)
}

fn sum<'g>(terms: impl Iterator<Item = Option<Expr<'g>>>) -> Option<Expr<'g>> {
    terms.flatten().reduce(|a, b| a + b)
}
