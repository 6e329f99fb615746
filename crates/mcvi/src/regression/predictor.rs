//! A linear predictor before its group effects, and what rows say about these.

use super::conditional::{Matrix, Seen};
use super::groups::GroupRows;
use super::model::{Effects, Rows};
use super::pilot::Working;
use super::turned::{Turned, triangle};
use crate::model::Builder;
use mcvi_expr::Expr;
use nalgebra::DMatrix;

/// What is known of a linear predictor before its group effects.
pub(super) struct Predicted<'g> {
    pub intercept: Option<Expr<'g>>,
    pub coefficients: Option<Expr<'g>>,
    /// The standard deviation of pseudo-responses of weight 1; none where it is 1.
    pub error: Option<Expr<'g>>,
}

impl<'g> Predicted<'g> {
    /// The linear predictor with the effects of each term, which may have none.
    pub fn with(&self, m: &Builder<'g>, rows: &Rows, effects: &[&[Expr<'g>]]) -> Expr<'g> {
        let x = self.coefficients.zip(rows.x.constant(m)).map(|(b, x)| b.matmul(x.t()));
        let zero = || m.data(&vec![0.0; rows.count]);
        let fixed = match (self.intercept, x) {
            (Some(a), Some(x)) => a + x,
            (Some(a), None) => a + zero(),
            (None, Some(x)) => x,
            (None, None) => zero(),
        };
        let of_terms = effects.iter().zip(&rows.groups).filter(|(effects, _)| !effects.is_empty());
        of_terms.fold(fixed, |eta, (effects, rows)| eta + gathered(m, rows, effects))
    }

    /// What pseudo-responses say about the effects of term `t`, given those of some terms, and not knowing those of the others.
    pub fn seen(
        &self,
        m: &Builder<'g>,
        rows: &Rows,
        working: &Working,
        effects: &[Effects<'g>],
        (t, given): (usize, &[usize]),
    ) -> Seen<'g> {
        let unknown: Vec<usize> = (0..effects.len()).filter(|u| *u != t && !given.contains(u)).collect();
        if !unknown.is_empty() && rows.groups[t].values.len() == 1 {
            return self.seen_by_row(m, (rows, working), effects, (t, given, &unknown));
        }
        let turned = &working.turned[t];
        let factor: Matrix<'g> =
            turned.factor.iter().map(|row| row.iter().map(|r| (!r.is_empty()).then(|| m.data(r))).collect()).collect();
        let mut seen: Vec<Expr<'g>> = turned.of(|i| working.response[i]).iter().map(|c| m.data(c)).collect();
        if let Some(a) = self.intercept {
            seen.iter_mut().zip(turned.of(|_| 1.0)).for_each(|(seen, one)| *seen = *seen - a * m.data(&one));
        }
        if let Some(b) = self.coefficients {
            let p = rows.x.len() / rows.count;
            let columns: Vec<Vec<Vec<f64>>> = (0..p).map(|l| turned.of(|i| rows.x[i * p + l])).collect();
            for (c, seen) in seen.iter_mut().enumerate() {
                let of: Vec<f64> = columns.iter().flat_map(|x| x[c].iter().copied()).collect();
                *seen = *seen - b.matmul(m.matrix(turned.groups(), &of));
            }
        }
        for u in given {
            let known = gathered(m, &rows.groups[*u], &effects[*u].each);
            let known = self.projected(m, (rows, t, turned), known);
            seen.iter_mut().zip(known).for_each(|(seen, known)| *seen = *seen - known);
        }
        let own = self.error.unwrap_or_else(|| m.data(&[1.0]));
        let error = unknown.iter().fold(None, |sum: Option<Expr<'g>>, u| {
            let spread = variance(&working.weights, (&rows.groups[t], turned.groups()), &rows.groups[*u]);
            let of = spread.iter().enumerate().map(|(c, v)| effects[*u].sds.slice(1, c..c + 1).square() * m.data(v));
            Some(of.fold(sum.unwrap_or_else(|| own.square()), |a, b| a + b))
        });
        let third = working.third.get(t).into_iter().flatten().map(|v| m.data(v)).collect();
        Seen { factor, response: seen, error: error.map_or(own, Expr::sqrt), third }
    }

    /// The same of a term of one coefficient, each row with the variance that it has where other effects are not known.
    fn seen_by_row(
        &self,
        m: &Builder<'g>,
        (rows, working): (&Rows, &Working),
        effects: &[Effects<'g>],
        (t, given, unknown): (usize, &[usize], &[usize]),
    ) -> Seen<'g> {
        let own = &rows.groups[t];
        let value = |i: usize| own.values[0].as_ref().map_or(1.0, |v| v[i]);
        let inverse: Vec<f64> = working.weights.iter().map(|w| 1.0 / w.max(f64::MIN_POSITIVE)).collect();
        let alone = self.error.map_or_else(|| m.data(&inverse), |e| e.square() * m.data(&inverse));
        let variance = unknown.iter().fold(alone, |sum, u| {
            let of = spread(&rows.groups[*u]);
            of.iter().enumerate().fold(sum, |sum, (c, v)| sum + effects[*u].sds.slice(1, c..c + 1).square() * m.data(v))
        });
        let each: Vec<&[Expr<'g>]> =
            (0..effects.len()).map(|u| if given.contains(&u) { effects[u].each.as_slice() } else { &[] }).collect();
        let left = m.data(&working.response) - self.with(m, rows, &each);
        let (index, groups) = (m.index(&own.index), working.turned[t].groups());
        let summed = |e: Expr<'g>, power: i32| {
            let values: Vec<f64> = (0..rows.count).map(|i| value(i).powi(power)).collect();
            (e * m.data(&values)).broadcast_to([m.rows(), rows.count]).t().scatter_add(index, groups).t()
        };
        let weight = variance.recip();
        let precision = (summed(weight, 2) + f64::MIN_POSITIVE).sqrt();
        let third =
            working.third.get(t).map(|_| summed((alone * weight).powf(3.0) * m.data(&working.third_of_rows), 3));
        Seen {
            factor: vec![vec![Some(precision)]],
            response: vec![summed(weight * left, 1) / precision],
            error: m.data(&[1.0]),
            third: third.into_iter().collect(),
        }
    }

    /// QᵀW^½v of each group of a term, `[rows, groups]` for each coefficient, for v of all rows.
    fn projected(&self, m: &Builder<'g>, (rows, t, turned): (&Rows, usize, &Turned), v: Expr<'g>) -> Vec<Expr<'g>> {
        let index = m.index(&rows.groups[t].index);
        // What is known beforehand has no rows of its own.
        let v = v.broadcast_to([m.rows(), rows.count]);
        turned.rows().map(|q| (v * m.data(&q)).t().scatter_add(index, turned.groups()).t()).collect()
    }

    /// The triangle that sees what all rows see of an intercept, coefficients and responses, but for the columns of a term.
    pub fn triangle(&self, rows: &Rows, turned: Option<&Turned>, y: &[f64]) -> DMatrix<f64> {
        let p = rows.x.len() / rows.count;
        let value = |i: usize, j: usize| match j {
            0 => f64::from(self.intercept.is_some()),
            j if j <= p => rows.x[i * p + j - 1],
            _ => y[i],
        };
        match turned {
            Some(turned) => {
                let projections: Vec<Vec<Vec<f64>>> = (0..p + 2).map(|j| turned.of(|i| value(i, j))).collect();
                triangle(rows.count, p + 2, |i, j| turned.rest(i, value(i, j), &projections[j]))
            }
            None => {
                let root: Option<Vec<f64>> = rows.weights.as_ref().map(|w| w.iter().map(|w| w.sqrt()).collect());
                triangle(rows.count, p + 2, |i, j| root.as_ref().map_or(1.0, |root| root[i]) * value(i, j))
            }
        }
    }

    /// The sum of squares of what is left of responses, `[rows]`, by their triangle.
    pub fn squares(&self, m: &Builder<'g>, triangle: &DMatrix<f64>) -> Expr<'g> {
        let dtype = self.intercept.or(self.coefficients).or(self.error).map_or(mcvi_expr::DType::F64, |e| e.dtype());
        let number = |x: f64| m.graph().full(dtype, [m.rows(), 1], x);
        let intercept = self.intercept.unwrap_or_else(|| number(0.0));
        let parts: Vec<Expr<'g>> =
            [Some(-intercept), self.coefficients.map(|b| -b), Some(number(1.0))].into_iter().flatten().collect();
        // Its columns one after the other are the rows of Rᵀ.
        let transposed = m.matrix(triangle.nrows(), triangle.as_slice());
        m.graph().concat(&parts, 1).matmul(transposed).square().sum(&[1])
    }

    /// The same of what is left of each row, without its projection on the columns of a term.
    pub fn squares_by_row(
        &self,
        m: &Builder<'g>,
        rows: &Rows,
        own: Option<(usize, &Turned)>,
        left: Expr<'g>,
    ) -> Expr<'g> {
        let root = rows.weights.as_ref().map(|w| m.data(&w.iter().map(|w| w.sqrt()).collect::<Vec<_>>()));
        let weighted = root.map_or(left, |root| left * root);
        let rest = own.map_or(weighted, |(t, turned)| {
            let index = m.index(&rows.groups[t].index);
            let fitted = self.projected(m, (rows, t, turned), left).into_iter().zip(turned.q());
            fitted.fold(weighted, |rest, (c, q)| rest - c.take(1, index) * m.data(q))
        });
        rest.square().sum(&[1])
    }
}

/// How much the variance of a row grows with each variance of the effects of a term that are not known: as if each row of a group
/// had its own, for means of the group to have the right one.
fn spread(term: &GroupRows) -> Vec<Vec<f64>> {
    let mut sizes = vec![0.0; term.index.iter().max().map_or(0, |i| i + 1)];
    term.index.iter().for_each(|j| sizes[*j] += 1.0);
    let of = |v: &Option<Vec<f64>>| {
        let square = |i: usize| v.as_ref().map_or(1.0, |v| v[i] * v[i]);
        term.index.iter().enumerate().map(|(i, j)| sizes[*j] * square(i)).collect()
    };
    term.values.iter().map(of).collect()
}

/// The same on average over the rows of each group of another term, with their weights.
fn variance(weights: &[f64], (own, groups): (&GroupRows, usize), unknown: &GroupRows) -> Vec<Vec<f64>> {
    let mut count = vec![0.0; groups];
    own.index.iter().for_each(|g| count[*g] += 1.0);
    let averaged = |spread: Vec<f64>| {
        let mut sums = vec![0.0; groups];
        own.index.iter().enumerate().for_each(|(i, g)| sums[*g] += weights[i] * spread[i] / count[*g]);
        sums
    };
    spread(unknown).into_iter().map(averaged).collect()
}

/// The sum of the effects of a term in each row.
fn gathered<'g>(m: &Builder<'g>, rows: &GroupRows, effects: &[Expr<'g>]) -> Expr<'g> {
    let index = m.index(&rows.index);
    let each = effects.iter().zip(&rows.values).map(|(effect, values)| {
        let each = effect.take(1, index);
        values.as_ref().map_or(each, |v| each * m.data(v))
    });
    each.reduce(|a, b| a + b).unwrap_or_else(|| m.data(&[0.0]))
}
