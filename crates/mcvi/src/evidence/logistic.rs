//! Logistic regressions: sonar returns, radar returns, credits.

use super::table::table;
use crate::error::Result;
use crate::model::{Model, bernoulli_logit, flat, normal};

/// How the columns of a logistic regression are prepared.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Design {
    /// Centred, and divided by their population standard deviations; weights N(0, 1).
    Standardised,
    /// Divided by their population standard deviations, not centred.
    Scaled { prior: bool },
}

/// Logistic regression with a column of ones in front. The label is the last column, its smaller value (where they are 0 and
/// 1) a failure; where they are 1 and 2, 1 is the success.
pub(super) fn logistic(text: &str, design: Design) -> Result<Model> {
    let rows = table(text)?;
    let (n, columns) = (rows.len() as f64, rows[0].len() - 1);
    let mut x: Vec<f64> = vec![1.0; rows.len() * (columns + 1)];
    for j in 0..columns {
        let mean = rows.iter().map(|row| row[j]).sum::<f64>() / n;
        let sd = (rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / n).sqrt();
        let sd = if sd > 0.0 { sd } else { 1.0 };
        let center = if design == Design::Standardised { mean } else { 0.0 };
        rows.iter().enumerate().for_each(|(i, row)| x[i * (columns + 1) + j + 1] = (row[j] - center) / sd);
    }
    let y: Vec<f64> = rows.iter().map(|row| if row[columns] == 1.0 { 1.0 } else { 0.0 }).collect();
    let prior = design != Design::Scaled { prior: false };
    Model::new(move |m| {
        let w = m.reals("w", columns + 1, if prior { normal(0.0, 1.0) } else { flat() });
        m.observe("y", &y, bernoulli_logit(w.matmul(m.matrix(columns + 1, &x).t())));
    })
}
