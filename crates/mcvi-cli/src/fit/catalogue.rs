//! Where models come from: built-in posteriors, regressions over a user's file, and Stan programs. Everything else in the
//! command knows a model only as a [`BayesianModel`].

use crate::mistake::{Mistake, mistaken};
use anyhow::Result;
use mcvi::regression::{self, Family, nearest};
use mcvi::{BayesianModel, Source, posteriors};
use mcvi_stan::StanModel;
use std::path::Path;
use std::sync::Arc;

/// Open a model by name. Regressions also need a file and a column, Stan programs their data.
pub fn open(name: &str, data: Option<&Path>, target: Option<&str>) -> Result<Arc<dyn BayesianModel>> {
    if name.ends_with(".stan") {
        if target.is_some() {
            return Err(Mistake("--target is for regressions; a Stan program names its data itself".to_owned()).into());
        }
        return Ok(Arc::new(StanModel::open(Path::new(name), data).map_err(|e| mistaken(e.into()))?));
    }
    if let Some(built_in) = posteriors::ALL.iter().find(|b| b.name == name) {
        if data.is_some() || target.is_some() {
            let why = format!("{name} comes with its own data; --data and --target are for regressions");
            return Err(Mistake(why).into());
        }
        return Ok(Arc::new(built_in.model()?));
    }
    let families = || Family::ALL.iter().map(|(family, _)| *family);
    let Some(family) = families().find(|family| family.name() == name) else {
        let known = posteriors::ALL.iter().map(|b| b.name).chain(families().map(Family::name));
        let hint = nearest(name, known).map_or_else(|| ";".to_owned(), |n| format!("; did you mean {n}?"));
        return Err(Mistake(format!("there is no model `{name}`{hint} `mcvi list` lists all models")).into());
    };
    let (Some(data), Some(target)) = (data, target) else {
        let why = format!("{name} needs data: mcvi fit {name} --data FILE.csv --target COLUMN");
        return Err(Mistake(why).into());
    };
    Ok(Arc::new(regression::load(family, data, target)?))
}

/// Reopen the model of a saved run.
pub fn reopen(source: &Source) -> Result<Arc<dyn BayesianModel>> {
    match source.kind.as_str() {
        posteriors::KIND => Ok(Arc::new(posteriors::reopen(source)?)),
        regression::KIND => Ok(Arc::new(regression::reopen(source)?)),
        mcvi_stan::KIND => Ok(Arc::new(StanModel::reopen(source).map_err(|e| mistaken(e.into()))?)),
        other => Err(Mistake(format!("models of the kind `{other}` cannot be opened by this version of mcvi")).into()),
    }
}

/// The available models, as text.
pub fn list() -> String {
    let mut text = "Built-in posteriors (mcvi fit NAME):\n\n".to_owned();
    for b in &posteriors::ALL {
        text += &format!("  {:<18}{}\n", b.name, b.about);
    }
    text += "\nRegressions over a CSV file (mcvi fit NAME --data FILE.csv --target COLUMN):\n\n";
    for (family, about) in Family::ALL {
        text += &format!("  {:<18}{about}\n", family.name());
    }
    text += "\nStan programs (mcvi fit FILE.stan --data FILE.json; mcvi stan --help)\n";
    text.trim_end().to_owned()
}
