//! Linear-Gaussian inverse models by regression: given forward draws, the best r is known in closed form.
//!
//! Given the forward chain, E log r is largest when the mean of r is the regression of its value on its features and
//! its covariance is that of the residuals. A fit starts from this solution and may end with it; in between, r and q
//! are learned together.

use super::Approximation;
use crate::error::Result;
use crate::params::Params;
use crate::scope::{Choices, Observation, write};
use crate::target::rows_at_once;
use mcvi_expr::{Array, Program};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use std::collections::BTreeMap;

/// Data of the regression problem of one inverse model.
#[derive(Default)]
struct Sample {
    /// Names and widths of the blocks of features.
    blocks: Vec<(&'static str, usize)>,
    /// Rows of features.
    x: Vec<Vec<f64>>,
    /// Rows of values.
    y: Vec<Vec<f64>>,
}

/// A compiled forward pass that collects the inputs and values of every inverse model.
pub(crate) struct InverseRegression {
    program: Program,
    seed: u64,
    evaluations: Vec<Evaluation>,
}

/// One evaluation of an inverse model.
struct Evaluation {
    path: String,
    blocks: Vec<(&'static str, usize)>,
    weighted: bool,
}

impl InverseRegression {
    /// Over `most` forward draws, or as many as are computed at once.
    pub fn new(approximation: &Approximation, most: usize, seed: u64) -> Result<Self> {
        let rows = rows_at_once(approximation.target.as_ref(), most);
        let learned = |o: &Observation<'_>, name: &str| {
            approximation.params.get(&format!("{}.{name}", o.path)).is_some_and(|p| p.learned)
        };
        let (program, evaluations) = approximation.program(rows, Choices::Sample, |scope, _, program| {
            let (mut program, mut evaluations) = (program.seed(seed), vec![]);
            for o in scope.observations().iter().filter(|o| learned(o, "bias") && learned(o, "log_sd")) {
                let i = evaluations.len();
                program = program.output(&format!("y{i}"), o.value);
                for (name, x) in &o.features {
                    program = program.output(&format!("{name}{i}"), *x);
                }
                if let Some(weight) = o.weight {
                    program = program.output(&format!("weight{i}"), weight);
                }
                let blocks = o.features.iter().map(|(name, x)| (*name, x.shape().dims()[1])).collect();
                evaluations.push(Evaluation { path: o.path.clone(), blocks, weighted: o.weight.is_some() });
            }
            Ok((program, evaluations))
        })?;
        Ok(InverseRegression { program, seed, evaluations })
    }

    /// Whether a parameter is set by regression.
    pub fn covers(&self, name: &str) -> bool {
        self.evaluations.iter().any(|a| name.strip_prefix(&a.path).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Whether there is anything to regress, and no regression is weighted by the branch that a draw took.
    pub fn is_smooth(&self) -> bool {
        !self.evaluations.is_empty() && self.evaluations.iter().all(|a| !a.weighted)
    }

    /// The parameters, with every learned linear-Gaussian inverse model set to its regression.
    pub fn solve(&mut self, params: &Params) -> Result<Params> {
        let mut params = params.clone();
        if self.evaluations.is_empty() {
            return Ok(params);
        }
        let program = &mut self.program;
        write(program, &params)?;
        program.set_seed(self.seed);
        program.set_step(0);
        program.run(1)?;
        let mut read = |name: String| -> Result<Vec<Vec<f64>>> {
            let array = program.output(&name)?;
            let width = array.shape().size() / array.shape().dims()[0];
            Ok(array.to_f64().chunks(width).map(<[f64]>::to_vec).collect())
        };
        let mut samples: BTreeMap<&str, Sample> = BTreeMap::new();
        for (i, evaluation) in self.evaluations.iter().enumerate() {
            let sample = samples.entry(&evaluation.path).or_default();
            sample.blocks.clone_from(&evaluation.blocks);
            let y = read(format!("y{i}"))?;
            let mut x = vec![vec![]; y.len()];
            for (name, _) in &evaluation.blocks {
                x.iter_mut().zip(read(format!("{name}{i}"))?).for_each(|(row, more)| row.extend(more));
            }
            let counts = match evaluation.weighted {
                true => read(format!("weight{i}"))?.into_iter().map(|w| w[0] > 0.0).collect(),
                false => vec![true; y.len()],
            };
            for ((x, y), counts) in x.into_iter().zip(y).zip(counts) {
                // A draw that has diverged carries no information about the others.
                if counts && x.iter().chain(&y).all(|v| v.is_finite()) {
                    sample.x.push(x);
                    sample.y.push(y);
                }
            }
        }
        for (path, sample) in samples {
            sample.solve(path, &mut params)?;
        }
        Ok(params)
    }
}

impl Sample {
    fn solve(&self, path: &str, params: &mut Params) -> Result<()> {
        let (n, k) = (self.y.len(), self.blocks.iter().map(|(_, w)| w).sum::<usize>());
        let d = self.y.first().map_or(0, Vec::len);
        if n < 10 * (k + d + 1) {
            return Ok(());
        }
        let (x_mean, x_sd) = moments(&self.x, k);
        let (y_mean, y_sd) = moments(&self.y, d);
        let x = DMatrix::from_fn(n, k, |i, j| (self.x[i][j] - x_mean[j]) / x_sd[j]);
        let y = DMatrix::from_fn(n, d, |i, j| (self.y[i][j] - y_mean[j]) / y_sd[j]);
        // Features may be collinear, as z and the gradient of a Gaussian are. Directions without variance get no
        // weight.
        let b = pseudo_inverse(x.transpose() * &x / n as f64) * (x.transpose() * &y / n as f64);
        let residuals = y - &x * &b;
        let covariance = residuals.transpose() * &residuals / n as f64;
        // A deterministic relation would make r a point mass; keep a minimal width.
        let floor = 1e-12;
        let sd: Vec<f64> = (0..d).map(|j| covariance[(j, j)].max(floor).sqrt() * y_sd[j]).collect();
        let coefficient = |i: usize, j: usize| b[(i, j)] * y_sd[j] / x_sd[i];

        let bias: Vec<f64> =
            (0..d).map(|j| y_mean[j] - (0..k).map(|i| coefficient(i, j) * x_mean[i]).sum::<f64>()).collect();
        set(params, path, "bias", bias, sd.clone())?;
        let mut first = 0;
        for &(name, width) in &self.blocks {
            let cells = || (first..first + width).flat_map(|i| (0..d).map(move |j| (i, j)));
            let values = cells().map(|(i, j)| coefficient(i, j)).collect();
            set(params, path, name, values, cells().map(|(i, j)| sd[j] / x_sd[i]).collect())?;
            first += width;
        }
        if params.get(&format!("{path}.lower")).is_none() {
            return set(params, path, "log_sd", sd.iter().map(|s| s.ln()).collect(), vec![1.0; d]);
        }
        let scaled = DMatrix::from_fn(d, d, |i, j| {
            let floor = if i == j { floor } else { 0.0 };
            covariance[(i, j)] + floor
        });
        let factor = scaled
            .cholesky()
            .map_or_else(|| DMatrix::from_diagonal(&DVector::from_fn(d, |i, _| sd[i] / y_sd[i])), |c| c.l());
        let lower = |i: usize, j: usize| factor[(i, j)] * y_sd[i];
        set(params, path, "log_sd", (0..d).map(|i| lower(i, i).ln()).collect(), vec![1.0; d])?;
        let values = (0..d * d).map(|c| lower(c / d, c % d)).collect();
        set(params, path, "lower", values, (0..d * d).map(|c| lower(c / d, c / d)).collect())
    }
}

/// The inverse of a symmetric matrix, zero along directions in its (numerical) null space.
fn pseudo_inverse(matrix: DMatrix<f64>) -> DMatrix<f64> {
    if matrix.is_empty() {
        return matrix;
    }
    let eigen = SymmetricEigen::new(matrix);
    let inverse = eigen.eigenvalues.map(|l| if l > 1e-9 { l.recip() } else { 0.0 });
    let v = &eigen.eigenvectors;
    v * DMatrix::from_diagonal(&inverse) * v.transpose()
}

/// Mean and standard deviation of each column. For constants, the rounding error counts as the standard deviation.
fn moments(rows: &[Vec<f64>], width: usize) -> (Vec<f64>, Vec<f64>) {
    let n = rows.len() as f64;
    let mean: Vec<f64> = (0..width).map(|j| rows.iter().map(|r| r[j]).sum::<f64>() / n).collect();
    let sd = (0..width).map(|j| {
        let variance = rows.iter().map(|r| (r[j] - mean[j]).powi(2)).sum::<f64>() / n;
        variance.sqrt().max(1e-14 * mean[j].abs()).max(1e-150)
    });
    let sd = sd.collect();
    (mean, sd)
}

fn set(params: &mut Params, path: &str, name: &str, values: Vec<f64>, scale: Vec<f64>) -> Result<()> {
    let name = format!("{path}.{name}");
    if let Some(old) = params.get(&name).cloned() {
        let value = Array::new(old.value.shape().clone(), values)?.cast(old.value.dtype());
        params.insert(&name, crate::params::Param { value, scale, ..old });
    }
    Ok(())
}
