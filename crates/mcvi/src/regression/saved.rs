//! Regressions of saved runs: what of them is written to settings, and how they are opened again.

use super::formula::Formula;
use super::frame::{Frame, ReadOptions};
use super::model::{Rows, Specification};
use super::{Family, Options, Regression, mistake};
use crate::bayesian_model::{DataDigest, Source};
use crate::error::Result;
use crate::hardware::Ranks;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The kind of regressions in a [`Source`].
pub const KIND: &str = "regression";

/// What a run needs to find its regression again: data that are in no file are kept as they are.
pub(super) fn source(formula: &Formula, options: &Options, frame: &Frame, columns: &[String]) -> Source {
    let mut settings = json!({ "formula": formula.text(), "options": options });
    match frame.origin() {
        Some(origin) => {
            settings["data"] = saved(&origin.path);
            settings["na"] = json!(origin.na);
        }
        None => settings["columns"] = frame.only(columns).json(),
    }
    Source::new(KIND, settings)
}

/// Reopen the regression of a saved run from its [`Source`].
pub fn reopen(source: &Source) -> Result<Regression> {
    reopen_shared(source, None)
}

/// The same, where ranks share the rows.
pub fn reopen_shared(source: &Source, ranks: Option<Ranks>) -> Result<Regression> {
    let bad = |what: &str| mistake(format!("the saved regression does not say {what}"));
    let settings = &source.settings;
    let frame = match settings.get("columns") {
        Some(columns) => Frame::from_json(columns)?,
        None => {
            let na = settings.get("na").cloned().unwrap_or_else(|| json!([]));
            let na = serde_json::from_value(na).map_err(|_| bad("what stands for missing values"))?;
            Frame::read(&data_file(source).ok_or_else(|| bad("its data"))?, &ReadOptions { na })?
        }
    };
    let text = |key: &str| settings.get(key).and_then(Value::as_str).ok_or_else(|| bad(&format!("its {key}")));
    // Until 0.2 a family and a target were all there was.
    if settings.contains_key("target") {
        let (formula, family) = shorthand(text("family")?, text("target")?).ok_or_else(|| bad("a known family"))?;
        return Regression::of(&formula, &frame, &Options { family, ..Options::default() }, (false, ranks));
    }
    let options = settings.get("options").cloned().unwrap_or_default();
    let options: Options = serde_json::from_value(options).map_err(|_| bad("options that are known here"))?;
    Regression::of(&Formula::parse(text("formula")?)?, &frame, &options, (true, ranks))
}

/// Short names for the regression of a column on all others, each with its family.
pub const SHORTHANDS: [(&str, Family); 3] =
    [("logistic", Family::Bernoulli), ("linear", Family::Gaussian), ("poisson", Family::Poisson)];

/// The formula and the family that such a name stands for.
pub fn shorthand(name: &str, target: &str) -> Option<(Formula, Family)> {
    let (_, family) = SHORTHANDS.iter().find(|(known, _)| *known == name)?;
    Some((Formula::all(target.trim()), *family))
}

/// The data file of a saved regression.
pub fn data_file(source: &Source) -> Option<PathBuf> {
    match source.settings.get("data")? {
        Value::String(text) => Some(text.into()),
        other => serde_json::from_value::<OsString>(other.clone()).ok().map(PathBuf::from),
    }
}

/// A path as text, or, if it is not UTF-8, as the numbers it consists of.
fn saved(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str()), |text| json!(text))
}

/// A digest of all data, begun with the response and the columns.
pub(super) fn digest(mut digest: DataDigest, specification: &Specification, rows: &Rows) -> String {
    let more = [("trials", &rows.trials), ("weights", &rows.weights), ("offset", &rows.offset)];
    more.iter().for_each(|(name, values)| {
        if let Some(values) = values {
            digest.add(name, values);
        }
    });
    for (g, rows) in specification.predictors[0].groups.iter().zip(&rows.groups) {
        digest.add(&g.groups.label, &rows.index.iter().map(|i| *i as f64).collect::<Vec<_>>());
        rows.values.iter().flatten().for_each(|values| digest.add("values", values));
    }
    digest.finish()
}
