//! A log-Gaussian Cox process: pine saplings counted on a grid.

use crate::dense::Factor;
use crate::error::{Error, Result};
use crate::model::Model;
use nalgebra::DMatrix;

/// Cells along each side.
const SIDE: usize = 40;
/// Variance of the log intensity.
const VARIANCE: f64 = 1.91;
/// Distance, in cells, over which its correlation falls by the factor e.
const RANGE: f64 = SIDE as f64 / 33.0;
/// The expected number of trees, which is the number observed.
const TREES: f64 = 126.0;

/// Log intensities z ~ N(log 126 − 1.91 / 2, K) in the 1600 cells of the unit square, and counts from Poisson(exp(z) / 1600),
/// without the factorials (Møller et al. 1998; Heng et al. 2020). Coordinates are the log intensities themselves.
pub(super) fn cox_process(text: &str) -> Result<Model> {
    let counts = counts(text)?;
    let cells = SIDE * SIDE;
    let covariance = DMatrix::from_fn(cells, cells, |i, j| {
        let apart = |a: usize, b: usize| a.abs_diff(b) as f64;
        VARIANCE * (-apart(i / SIDE, j / SIDE).hypot(apart(i % SIDE, j % SIDE)) / RANGE).exp()
    });
    let singular = || Error::Target { why: "the covariance of the log intensities is singular".to_owned() };
    let factor = Factor::new(&covariance).ok_or_else(singular)?;
    let precision = factor.matrix_inverse().as_slice().to_vec();
    let constant: Vec<f64> =
        factor.lower.diagonal().iter().map(|s| s.ln() + 0.5 * std::f64::consts::TAU.ln()).collect();
    Model::new(move |m| {
        let z = m.flat("log_intensity", cells);
        let e = z - (TREES.ln() - 0.5 * VARIANCE);
        m.add(e * e.matmul(m.matrix(cells, &precision)) * -0.5 - m.data(&constant));
        m.add(m.data(&counts) * z - z.exp() / cells as f64);
    })
}

/// Trees in each cell, from a table whose second and third columns are their places in the unit square.
fn counts(text: &str) -> Result<Vec<f64>> {
    let mut counts = vec![0.0; SIDE * SIDE];
    for (i, record) in csv::Reader::from_reader(text.as_bytes()).records().enumerate() {
        let bad = || Error::Table { why: format!("line {}: not a tree in the unit square", i + 2) };
        let record = record.map_err(|_| bad())?;
        let cell = |column: usize| -> Result<usize> {
            let x: f64 = record.get(column).and_then(|field| field.trim().parse().ok()).ok_or_else(bad)?;
            // The last cell has its far side too.
            if (0.0..=1.0).contains(&x) { Ok(((x * SIDE as f64) as usize).min(SIDE - 1)) } else { Err(bad()) }
        };
        counts[cell(1)? * SIDE + cell(2)?] += 1.0;
    }
    if counts.iter().sum::<f64>() > 0.0 { Ok(counts) } else { Err(Error::Table { why: "it has no trees".to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laplace::log_density;

    #[test]
    fn the_density_is_that_of_the_definition() {
        let table = "n,x,y\n1,0.3006125,0.89297642\n2,0.3980099,0.84120694\n3,1,0\n4,0.301,0.893\n";
        let model = cox_process(table).unwrap();
        let z: Vec<f64> = (0..1600).map(|i| (0.37 * i as f64).sin()).collect();
        // By numpy, from the inverse and the log determinant of the whole covariance.
        let exact: f64 = -2792.901263283527;
        let computed = log_density(&model, &[z]).unwrap()[0];
        assert!((computed - exact).abs() < 1e-9 * exact.abs(), "{computed} for {exact}");
    }
}
