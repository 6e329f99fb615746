//! Regressions over frames of Python, which come as columns of numbers and of texts.

use crate::arrays;
use crate::errors::exception;
use crate::model::Model;
use anyhow::Result;
use mcvi::Hardware;
use mcvi::regression::{
    Family, Formula, Frame, Link, Missing, NewGroups, Options, PredictionOptions, Regression, shorthand,
};
use mcvi_cli::Mistake;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A column: numbers, of which those that are missing are NaN, or texts.
#[derive(FromPyObject)]
pub enum Column {
    Texts(Vec<Option<String>>),
    Numbers(Vec<f64>),
}

fn frame(columns: Vec<(String, Column)>) -> mcvi::Result<Frame> {
    columns.into_iter().try_fold(Frame::new(), |frame, (name, column)| match column {
        Column::Numbers(values) => frame.numbers(&name, values),
        Column::Texts(values) => frame.texts(&name, values),
    })
}

fn missing(word: &str) -> Result<Missing> {
    match word {
        "refuse" => Ok(Missing::Refuse),
        "drop" => Ok(Missing::Drop),
        _ => Err(Mistake(format!("missing: refuse or drop, not {word}")).into()),
    }
}

/// A regression by its formula, or, as `logistic`, `linear` and `poisson`, of a column on all others.
#[pyfunction]
#[pyo3(signature = (formula, columns, *, target=None, family=None, link=None, priors=vec![], weights=None, levels=vec![], missing="refuse"))]
#[allow(clippy::too_many_arguments)] // they are keywords
pub fn regression(
    py: Python<'_>,
    formula: &str,
    columns: Vec<(String, Column)>,
    target: Option<&str>,
    family: Option<&str>,
    link: Option<&str>,
    priors: Vec<String>,
    weights: Option<String>,
    levels: Vec<String>,
    missing: &str,
) -> PyResult<Model> {
    let made = py.detach(|| -> Result<Regression> {
        let short = target.and_then(|target| shorthand(formula, target));
        let (formula, usual) = match short {
            Some((formula, family)) => (formula, family),
            None => (Formula::parse(formula)?, Family::default()),
        };
        let family = family.map(Family::named).transpose()?.unwrap_or(usual);
        let link = link.map(|link| Link::named(link, family)).transpose()?;
        let options =
            Options { family, link, priors, weights, missing: self::missing(missing)?, levels, ..Options::default() };
        Ok(Regression::fitting(&formula, &frame(columns)?, &options)?)
    });
    let regression = made.map_err(|e| exception(py, &e))?;
    Ok(Model { regression: Some(regression.clone()), ..Model::native(Arc::new(regression)) })
}

/// What a regression predicts for new rows, from draws of its free coordinates.
pub fn predict<'py>(
    py: Python<'py>,
    regression: &Regression,
    columns: Vec<(String, Column)>,
    draws: &[Vec<f64>],
    (missing, seed): (&str, u64),
) -> PyResult<Bound<'py, PyDict>> {
    let made = py.detach(|| -> Result<_> {
        let options = PredictionOptions { groups: NewGroups::Draw, missing: self::missing(missing)?, seed };
        Ok(regression.predict(&frame(columns)?, draws, &options, Hardware::default())?)
    });
    let found = made.map_err(|e| exception(py, &e))?;
    let out = PyDict::new(py);
    out.set_item("mean", arrays::quantity(py, &found.mean)?)?;
    out.set_item("drawn", arrays::quantity(py, &found.drawn)?)?;
    out.set_item("rows", found.rows)?;
    out.set_item("levels", found.levels)?;
    out.set_item("new_groups", found.new_groups)?;
    Ok(out)
}
