//! Where models come from: built-in posteriors, regressions over a user's file, and Stan programs. Everything else in the
//! command knows a model only as a [`BayesianModel`].

use super::regression::RegressionOptions;
use crate::mistake::{Mistake, mistaken};
use anyhow::Result;
use mcvi::regression::{self, Family, Formula, nearest};
use mcvi::{BayesianModel, Ranks, Source, posteriors};
use mcvi_stan::StanModel;
use std::path::Path;
use std::sync::Arc;

/// The kind of models that are functions of a Python program.
pub const PYTHON: &str = "python";

/// Open a model by name. Regressions also need a file, Stan programs their data.
pub fn open(name: &str, data: Option<&Path>, options: &RegressionOptions) -> Result<Arc<dyn BayesianModel>> {
    open_shared(name, data, options, None)
}

/// The same, where ranks share the data.
pub fn open_shared(
    name: &str,
    data: Option<&Path>,
    options: &RegressionOptions,
    ranks: Option<Ranks>,
) -> Result<Arc<dyn BayesianModel>> {
    if name.contains('~') {
        return options.open(&Formula::parse(name)?, data, ranks);
    }
    if options.shorthand(name).is_none()
        && let Some(given) = options.given()
    {
        return Err(Mistake(format!("{given} is for regressions, such as mcvi fit 'y ~ x' --data FILE.csv")).into());
    }
    if name.ends_with(".stan") {
        return Ok(Arc::new(StanModel::open(Path::new(name), data).map_err(|e| mistaken(e.into()))?));
    }
    if let Some(built_in) = posteriors::ALL.iter().find(|b| b.name == name) {
        if data.is_some() {
            let why = format!("{name} comes with its own data; --data is for regressions and Stan programs");
            return Err(Mistake(why).into());
        }
        return Ok(Arc::new(built_in.model()?));
    }
    if let Some(opened) = options.shorthand(name) {
        return opened.and_then(|(formula, options)| options.open(&formula, data, ranks));
    }
    let known = posteriors::ALL.iter().map(|b| b.name).chain(regression::SHORTHANDS.map(|s| s.0));
    let hint = nearest(name, known).map_or_else(|| ";".to_owned(), |n| format!("; did you mean {n}?"));
    Err(Mistake(format!("there is no model `{name}`{hint} `mcvi list` lists all models")).into())
}

/// How the names of files end that a model reads its data from.
pub fn extensions(name: &str) -> Result<&'static [&'static str]> {
    if posteriors::ALL.iter().any(|b| b.name == name) {
        return Err(Mistake(format!(
            "{name} comes with its own data; regressions and Stan programs can be fitted to others"
        ))
        .into());
    }
    Ok(if name.ends_with(".stan") { &[".json"] } else { &[".csv", ".tsv", ".csv.gz", ".tsv.gz"] })
}

/// Reopen the model of a saved run, the data of which ranks may share.
pub fn reopen(source: &Source, ranks: Option<Ranks>) -> Result<Arc<dyn BayesianModel>> {
    match source.kind.as_str() {
        posteriors::KIND => Ok(Arc::new(posteriors::reopen(source)?)),
        regression::KIND => Ok(Arc::new(regression::reopen_shared(source, ranks)?)),
        mcvi_stan::KIND => Ok(Arc::new(StanModel::reopen(source).map_err(|e| mistaken(e.into()))?)),
        PYTHON => {
            let why = "it is a fit of a model made in Python, which only Python has; open it there with mcvi.load(FOLDER, model)";
            Err(Mistake(why.to_owned()).into())
        }
        other => Err(Mistake(format!("models of the kind `{other}` cannot be opened by this version of mcvi")).into()),
    }
}

/// The available models, as text.
pub fn list() -> String {
    let mut text = "Built-in posteriors (mcvi fit NAME):\n\n".to_owned();
    for b in &posteriors::ALL {
        text += &format!("  {:<18}{}\n", b.name, b.about);
    }
    text += "\nRegressions (mcvi fit 'y ~ x + (1 | g)' --data FILE.csv --family FAMILY):\n\n";
    for (family, about) in Family::ALL {
        text += &format!("  {:<23}{about}\n", family.name());
    }
    text += "\nA column on all others (mcvi fit NAME --data FILE.csv --target COLUMN):\n\n";
    for (name, family) in regression::SHORTHANDS {
        text += &format!("  {name:<23}COLUMN ~ . of the family {}\n", family.name());
    }
    text += "\nStan programs (mcvi fit FILE.stan --data FILE.json; mcvi stan --help)\n";
    text.trim_end().to_owned()
}
