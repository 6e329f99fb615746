//! Responses for new data.

use super::family::Family;
use super::frame::Frame;
use super::model::Rows;
use super::rows::{Left, Matrix};
use super::{Missing, Regression, arithmetic, listed};
use crate::error::Result;
use crate::hardware::Hardware;
use crate::model::{Model, Quantity};
use crate::seed::derive_seed;

/// What to do with groups that were not fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewGroups {
    /// Draw their effects from the distribution of all groups.
    #[default]
    Draw,
    /// Refuse them.
    Refuse,
}

/// How to predict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictionOptions {
    /// Groups that were not fitted.
    pub groups: NewGroups,
    /// Rows with missing values.
    pub missing: Missing,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// Predictions for rows of data, draw by draw.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prediction {
    /// The rows that are predicted.
    pub rows: Vec<usize>,
    /// The expected response of each row, `[rows]`; of categories the probability of each, `[rows, levels]`.
    pub mean: Quantity,
    /// New responses; of categories which of the levels.
    pub drawn: Quantity,
    /// The categories of the response.
    pub levels: Vec<String>,
    /// The groups that were not fitted.
    pub new_groups: Vec<String>,
}

/// Groups listed in a message.
const LISTED: usize = 10;

impl Regression {
    /// Predict the responses of new rows from draws of the free coordinates.
    pub fn predict(
        &self,
        frame: &Frame,
        draws: &[Vec<f64>],
        options: &PredictionOptions,
        hardware: Hardware,
    ) -> Result<Prediction> {
        let fit = &*self.fit;
        let (formula, specification) = (&fit.formula, fit.specification.clone());
        let left = Left::of(formula, &fit.options)?;
        let mut needed = fit.terms.columns();
        // Without a column of trials a trial is meant.
        let trials = left.trials.as_ref().filter(|node| {
            let mut columns = vec![];
            node.columns(&mut columns);
            columns.iter().all(|c| frame.columns().any(|known| known == c))
        });
        if let Some(node) = trials {
            node.columns(&mut needed);
        }
        let gaps = frame.missing(&needed)?;
        if let (Some(row), Missing::Refuse) = (gaps.keys().next(), options.missing) {
            let columns = listed(gaps[row].iter().map(|c| format!("`{c}`")), LISTED);
            let what = format!(
                "values are missing in {} of {} rows, first in {}: {columns}; fill them in, or leave those rows out with \
                 --missing drop",
                gaps.len(),
                frame.len(),
                frame.place(*row)
            );
            return Err(frame.mistake(what));
        }
        let rows: Vec<usize> = (0..frame.len()).filter(|row| !gaps.contains_key(row)).collect();
        if rows.is_empty() {
            return Err(frame.mistake("has no rows to predict"));
        }
        let kept = frame.rows(&rows);
        let frame = if gaps.is_empty() { frame } else { &kept };
        // Any response that is allowed: it plays no part.
        let response = match specification.family {
            Family::Gamma => 1.0,
            Family::Beta => 0.5,
            _ => 0.0,
        };
        let trials = match trials {
            Some(node) => Some(arithmetic::evaluate(formula, node, frame)?),
            None => left.trials.as_ref().map(|_| vec![1.0; frame.len()]),
        };
        let without = Left { trials: None, weights: None, ..left };
        let y = vec![response; frame.len()];
        let mut new = without.rows(formula, (frame, &fit.terms.offsets), y)?;
        new.x = Matrix::new(fit.design.columns.len(), fit.design.standardised(frame)?);
        new.trials = trials;
        let groups = specification.predictors[0].groups.iter().map(|g| g.groups.rows(frame));
        new.groups = groups.collect::<Result<_>>()?;
        let new_groups = self.new_groups(&new);
        if let (Some(first), NewGroups::Refuse) = (new_groups.first(), options.groups) {
            let (n, first) = (new_groups.len(), first.split_once(' ').map_or((first.as_str(), ""), |(by, g)| (g, by)));
            let more = if n > 1 { format!(" (and {} more groups)", n - 1) } else { String::new() };
            let what = format!(
                "the group {} of `{}` was not fitted{more}; leave such rows out, or allow new groups",
                first.0, first.1
            );
            return Err(frame.mistake(what));
        }
        let written = specification.clone();
        let model = Model::new(move |m| written.predict(m, &new)).map_err(|error| frame.mistake(error))?;
        let mut q = model.follow(draws, Some(derive_seed(options.seed, "responses")), hardware)?;
        let at = |list: &[Quantity], name: &str| list.iter().position(|q| q.name == name);
        let missing = || frame.mistake("cannot be predicted");
        let mean = q.generated.swap_remove(at(&q.generated, "mean").ok_or_else(missing)?);
        let drawn = q.predictive.swap_remove(at(&q.predictive, &specification.observed).ok_or_else(missing)?);
        Ok(Prediction { rows, mean, drawn, levels: fit.levels.clone(), new_groups })
    }

    /// The groups of some rows that were not fitted, once each.
    fn new_groups(&self, rows: &Rows) -> Vec<String> {
        let groups = self.fit.specification.predictors[0].groups.iter().zip(&rows.groups);
        let mut new: Vec<String> =
            groups.flat_map(|(g, rows)| rows.new.iter().map(|level| format!("{} `{level}`", g.groups.label))).collect();
        new.dedup();
        new
    }
}
