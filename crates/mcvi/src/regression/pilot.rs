//! Where group effects lie, roughly: pseudo-responses and their weights, by penalised quasi-likelihood, and which standard
//! deviations are small. They decide in which coordinates effects and their standard deviations are looked for, and nothing else.

use super::coefficients::Knowledge;
use super::family::{Auxiliary, Family, Given, Link};
use super::groups::GroupRows;
use super::model::Rows;
use super::turned::Turned;
use crate::error::Result;
use mcvi_expr::{Array, DType, Expr, Graph, Program, grad};
use nalgebra::{DMatrix, DVector};

/// A Gaussian likelihood of the linear predictor without its offset, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Working {
    pub response: Vec<f64>,
    pub weights: Vec<f64>,
    /// The rows of each group term, so weighted and turned.
    pub turned: Vec<Turned>,
    /// Of each group term, roughly the least standard deviation that the data tell from 0.
    pub least: Vec<f64>,
    /// Roughly where the intercept and the coefficients are, and what is known of them.
    pub coefficients: Vec<f64>,
    pub knowledge: Knowledge,
    /// Rough values of the parameters of the family.
    pub auxiliaries: Vec<f64>,
    /// Third derivatives of the log likelihood by the effects of each group: for each term, for each of three effects. Empty where errors are normal.
    pub third: Vec<Vec<Vec<f64>>>,
    /// The same by the linear predictor of each row.
    pub third_of_rows: Vec<f64>,
}

impl Working {
    fn new(rows: &Rows, pseudo: Pseudo, fit: Backfit, auxiliaries: Vec<f64>) -> Self {
        let Pseudo { response, weights, third } = pseudo;
        let cubes = |g: &GroupRows| {
            let (k, groups) = (g.values.len(), g.index.iter().max().map_or(0, |m| m + 1));
            let value = |c: usize, i: usize| g.values[c].as_ref().map_or(1.0, |v| v[i]);
            let of = |n: usize| {
                let mut sums = vec![0.0; groups];
                for (i, (j, third)) in g.index.iter().zip(&third).enumerate() {
                    sums[*j] += third * value(n / k / k, i) * value(n / k % k, i) * value(n % k, i);
                }
                sums
            };
            (0..k.pow(3)).map(of).collect()
        };
        Working {
            third: if third.is_empty() { vec![] } else { rows.groups.iter().map(cubes).collect() },
            third_of_rows: third,
            turned: rows.groups.iter().map(|g| Turned::new(g, &weights)).collect(),
            least: least(rows, &weights),
            coefficients: fit.coefficients.as_slice().to_vec(),
            knowledge: Knowledge::new(rows, &weights),
            auxiliaries,
            response,
            weights,
        }
    }

    /// Of responses with normal errors, or nearly, of these weights.
    pub fn normal(rows: &Rows, response: Vec<f64>, weights: Vec<f64>) -> Self {
        let (mut fit, mut precision) = (Backfit::new(rows), 1.0);
        for _ in 0..NORMAL_ROUNDS {
            let scaled = weights.iter().map(|w| w * precision).collect();
            fit.improve(rows, &Pseudo { response: response.clone(), weights: scaled, third: vec![] });
            let predictor = fit.predictor(rows);
            let left = response.iter().zip(&predictor).zip(&weights).map(|((y, p), w)| w * (y - p).powi(2));
            precision = (weights.iter().sum::<f64>() / left.sum::<f64>()).clamp(1e-6, 1e6);
        }
        Working::new(rows, Pseudo { response, weights, third: vec![] }, fit, vec![])
    }
}

/// By which factor parameters of a family change in a round at most.
const PACE: f64 = 1.4;
/// Rounds where weights do not change.
const NORMAL_ROUNDS: usize = 8;
/// Rounds of weighted least squares.
const ROUNDS: usize = 20;
/// The largest step of a pseudo-response from its linear predictor.
const STEP: f64 = 4.0;
/// Prior precision of coefficients: barely any.
const RIDGE: f64 = 0.01;
/// The least weight.
const LEAST: f64 = 1e-8;

/// Gaussian responses are their own; others are approximated where effects of groups and columns fit best. `location` is
/// that of the linear predictor; none if there are several linear predictors.
pub(super) fn working(
    family: Family,
    link: Link,
    rows: &Rows,
    location: f64,
    thresholds: usize,
) -> Result<Option<Working>> {
    if family == Family::Categorical {
        return Ok(None);
    }
    let offset: Vec<f64> = rows.offset.clone().unwrap_or_else(|| vec![0.0; rows.count]);
    let offset: Vec<f64> = offset.iter().map(|o| o + location).collect();
    let mut curve = Curve::new(family, link, rows, thresholds)?;
    let mut fit = Backfit::new(rows);
    let mut pseudo = curve.at(&fit.predictor(rows), &offset)?;
    for _ in 0..ROUNDS {
        fit.improve(rows, &pseudo);
        curve.improve(&fit.predictor(rows), &offset)?;
        pseudo = curve.at(&fit.predictor(rows), &offset)?;
    }
    let auxiliaries = curve.auxiliaries.iter().map(|(_, value)| *value).collect();
    Ok(Some(Working::new(rows, pseudo, fit, auxiliaries)))
}

/// Of each group term, where the information that its groups have on a variance of 0 tells a standard deviation from it; averaged
/// over coefficients. `weights` are the precisions of rows.
fn least(rows: &Rows, weights: &[f64]) -> Vec<f64> {
    let of_term = |g: &GroupRows| {
        let groups = g.index.iter().max().map_or(0, |m| m + 1);
        let each = g.values.iter().map(|v| {
            let mut information = vec![0.0; groups];
            for (i, j) in g.index.iter().enumerate() {
                information[*j] += weights[i] * v.as_ref().map_or(1.0, |v| v[i] * v[i]);
            }
            let total = 0.5 * information.iter().map(|h| h * h).sum::<f64>();
            -0.25 * total.max(LEAST).ln()
        });
        (each.sum::<f64>() / g.values.len() as f64).exp()
    };
    rows.groups.iter().map(of_term).collect()
}

/// Log likelihoods as functions of the linear predictors, with their first two derivatives.
struct Curve {
    program: Program,
    /// The parameters of the family, with a value each.
    auxiliaries: Vec<(Auxiliary, f64)>,
}

impl Curve {
    fn new(family: Family, link: Link, rows: &Rows, thresholds: usize) -> Result<Self> {
        let graph = Graph::new();
        let eta = graph.input("eta", DType::F64, [1, rows.count]);
        let vector = |x: &[f64]| -> Result<Expr<'_>> { Ok(graph.literal(Array::new(x.len(), x.to_vec())?)) };
        let usual = |a: Auxiliary| {
            let value = a.usual();
            (a, value)
        };
        let auxiliaries: Vec<(Auxiliary, f64)> = family.auxiliaries().into_iter().map(usual).collect();
        // Thresholds are those of the shares of each category.
        let cuts: Vec<f64> = (1..=thresholds)
            .map(|c| {
                let below = rows.y.iter().filter(|y| **y < c as f64).count() as f64 + 0.5;
                (below / (rows.count as f64 + 1.0 - below)).ln()
            })
            .collect();
        let given = Given {
            predictors: vec![eta],
            auxiliaries: auxiliaries.iter().map(|(a, _)| graph.input(a.name, DType::F64, [1, 1])).collect(),
            thresholds: (thresholds > 0)
                .then(|| Array::new([1, thresholds], cuts).map(|cuts| graph.literal(cuts)))
                .transpose()?,
            trials: rows.trials.as_deref().map(vector).transpose()?,
        };
        let log = family.distribution(link, &given).log_density(vector(&rows.y)?);
        let log = match &rows.weights {
            Some(weights) => log * vector(weights)?,
            None => log,
        };
        let total = log.sum_all();
        let slope = grad(total, &[eta])?[0];
        let curvature = grad(slope.sum_all(), &[eta])?[0];
        let third = grad(curvature.sum_all(), &[eta])?[0];
        let outputs = graph.program().output("total", total).output("slope", slope);
        let outputs = outputs.output("curvature", curvature).output("third", third);
        Ok(Curve { program: outputs.threads(1).compile()?, auxiliaries })
    }

    fn run(&mut self, predictor: &[f64], offset: &[f64]) -> Result<()> {
        let eta: Vec<f64> = predictor.iter().zip(offset).map(|(p, o)| p + o).collect();
        self.program.write("eta", &Array::new([1, eta.len()], eta)?)?;
        for (a, value) in &self.auxiliaries {
            self.program.write(a.name, &Array::new([1, 1], vec![*value])?)?;
        }
        Ok(self.program.run(1)?)
    }

    /// Move the parameters of the family uphill.
    fn improve(&mut self, predictor: &[f64], offset: &[f64]) -> Result<()> {
        for i in 0..self.auxiliaries.len() {
            let (range, here) = (self.auxiliaries[i].0.range, self.auxiliaries[i].1);
            let mut best = (f64::NEG_INFINITY, here);
            for factor in [1.0, 1.0 / PACE, PACE] {
                let value = range.scaled(here, factor);
                self.auxiliaries[i].1 = value;
                self.run(predictor, offset)?;
                let total = self.program.output("total")?.to_f64()[0];
                if total > best.0 {
                    best = (total, value);
                }
            }
            self.auxiliaries[i].1 = best.1;
        }
        Ok(())
    }

    fn at(&mut self, predictor: &[f64], offset: &[f64]) -> Result<Pseudo> {
        self.run(predictor, offset)?;
        let (slope, curvature) = (self.program.output("slope")?.to_f64(), self.program.output("curvature")?.to_f64());
        let weight = |c: &f64| if c.is_finite() { (-c).max(LEAST) } else { LEAST };
        let weights: Vec<f64> = curvature.iter().map(weight).collect();
        let step = |(s, w): (&f64, &f64)| if s.is_finite() { (s / w).clamp(-STEP, STEP) } else { 0.0 };
        let response = predictor.iter().zip(slope.iter().zip(&weights)).map(|(p, sw)| p + step(sw)).collect();
        let third = self.program.output("third")?.to_f64();
        let third = third.into_iter().map(|t| if t.is_finite() { t } else { 0.0 }).collect();
        Ok(Pseudo { response, weights, third })
    }
}

/// Pseudo-responses and their weights.
struct Pseudo {
    response: Vec<f64>,
    weights: Vec<f64>,
    /// Third derivatives of log likelihoods by the linear predictor; none where errors are normal.
    third: Vec<f64>,
}

/// Coefficients and group effects, improved one after the other.
struct Backfit {
    /// Columns with a leading 1.
    design: DMatrix<f64>,
    coefficients: DVector<f64>,
    /// For each group term its effects, group by group, and their variances.
    effects: Vec<Vec<DVector<f64>>>,
    variances: Vec<Vec<f64>>,
}

impl Backfit {
    fn new(rows: &Rows) -> Self {
        let k = rows.x.len() / rows.count.max(1);
        let design = DMatrix::from_fn(rows.count, k + 1, |i, j| if j == 0 { 1.0 } else { rows.x[i * k + j - 1] });
        let groups = |g: &GroupRows| g.index.iter().max().map_or(0, |m| m + 1);
        let effects = rows.groups.iter().map(|g| vec![DVector::zeros(g.values.len()); groups(g)]).collect();
        let variances = rows.groups.iter().map(|g| vec![1.0; g.values.len()]).collect();
        Backfit { design, coefficients: DVector::zeros(k + 1), effects, variances }
    }

    fn effect(&self, rows: &Rows, term: usize, i: usize) -> f64 {
        let g = &rows.groups[term];
        let effects = &self.effects[term][g.index[i]];
        g.values.iter().enumerate().map(|(c, v)| effects[c] * v.as_ref().map_or(1.0, |v| v[i])).sum()
    }

    fn predictor(&self, rows: &Rows) -> Vec<f64> {
        let fixed = &self.design * &self.coefficients;
        let all = |i: usize| fixed[i] + (0..rows.groups.len()).map(|t| self.effect(rows, t, i)).sum::<f64>();
        (0..rows.count).map(all).collect()
    }

    fn improve(&mut self, rows: &Rows, pseudo: &Pseudo) {
        let predictor = self.predictor(rows);
        let mut left: Vec<f64> = pseudo.response.iter().zip(&predictor).map(|(y, p)| y - p).collect();
        // Coefficients, given effects.
        let weighted =
            DMatrix::from_fn(rows.count, self.design.ncols(), |i, j| pseudo.weights[i] * self.design[(i, j)]);
        let mut precision = weighted.tr_mul(&self.design);
        for j in 0..precision.ncols() {
            precision[(j, j)] += RIDGE;
        }
        let score = weighted.tr_mul(&DVector::from_column_slice(&left)) - &self.coefficients * RIDGE;
        if let Some(factor) = precision.cholesky() {
            let step = factor.solve(&score);
            let change = &self.design * &step;
            left.iter_mut().zip(change.iter()).for_each(|(l, c)| *l -= c);
            self.coefficients += step;
        }
        for t in 0..rows.groups.len() {
            self.improve_groups(rows, pseudo, t, &mut left);
        }
    }

    /// Effects of a term, given all others; then their variances.
    fn improve_groups(&mut self, rows: &Rows, pseudo: &Pseudo, t: usize, left: &mut [f64]) {
        let g = &rows.groups[t];
        let k = g.values.len();
        let value = |c: usize, i: usize| g.values[c].as_ref().map_or(1.0, |v| v[i]);
        let mut precision = vec![DMatrix::<f64>::zeros(k, k); self.effects[t].len()];
        let mut score = vec![DVector::<f64>::zeros(k); self.effects[t].len()];
        for (i, left) in left.iter().enumerate() {
            let (w, j) = (pseudo.weights[i], g.index[i]);
            for c in 0..k {
                score[j][c] += w * value(c, i) * left;
                (0..k).for_each(|d| precision[j][(c, d)] += w * value(c, i) * value(d, i));
            }
        }
        let before: Vec<f64> = (0..rows.count).map(|i| self.effect(rows, t, i)).collect();
        let mut squares = vec![0.0; k];
        for (j, effects) in self.effects[t].iter_mut().enumerate() {
            let own = &precision[j] * &*effects;
            (0..k).for_each(|c| precision[j][(c, c)] += 1.0 / self.variances[t][c]);
            let Some(factor) = precision[j].clone().cholesky() else { continue };
            *effects = factor.solve(&(&score[j] + own));
            let spread = factor.inverse();
            (0..k).for_each(|c| squares[c] += effects[c].powi(2) + spread[(c, c)]);
        }
        let count = self.effects[t].len() as f64;
        squares.iter().enumerate().for_each(|(c, s)| self.variances[t][c] = (s / count).clamp(1e-4, 100.0));
        for (i, (left, before)) in left.iter_mut().zip(before).enumerate() {
            *left += before - self.effect(rows, t, i);
        }
    }
}
