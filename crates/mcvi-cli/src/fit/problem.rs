//! What is to be fitted: a posterior that comes with mcvi, or a regression over a user's file.

use crate::mistake::Mistake;
use crate::regression::{self, nearest};
use anyhow::Result;
use mcvi::model::Model;
use mcvi::posteriors;
use std::path::{Path, PathBuf};

/// Regressions, and what they are for.
pub const REGRESSIONS: [(&str, &str); 3] =
    [("logistic", "a column of 0 and 1"), ("linear", "a column of numbers"), ("poisson", "a column of counts")];

/// A model with its name and what is known of it.
pub struct Problem {
    pub name: String,
    pub about: String,
    pub model: Model,
    /// Remarks on the data.
    pub notes: Vec<String>,
    /// log p(x), where it is known.
    pub log_evidence: Option<f64>,
    /// For a regression: the file, in full, and the column.
    pub source: Option<(PathBuf, String)>,
}

impl Problem {
    pub fn new(name: &str, data: Option<&Path>, target: Option<&str>) -> Result<Self> {
        if let Some(built_in) = posteriors::ALL.iter().find(|b| b.name == name) {
            if data.is_some() || target.is_some() {
                let why = format!("{name} comes with its own data; --data and --target are for regressions");
                return Err(Mistake(why).into());
            }
            return Ok(Problem {
                name: name.to_owned(),
                about: built_in.about.to_owned(),
                model: built_in.model()?,
                notes: vec![],
                log_evidence: built_in.log_evidence,
                source: None,
            });
        }
        let family = match name {
            "logistic" => regression::Family::Logistic,
            "linear" => regression::Family::Linear,
            "poisson" => regression::Family::Poisson,
            _ => {
                let known = posteriors::ALL.iter().map(|b| b.name).chain(REGRESSIONS.map(|r| r.0));
                let hint = nearest(name, known).map_or_else(|| ";".to_owned(), |n| format!("; did you mean {n}?"));
                return Err(Mistake(format!("there is no model `{name}`{hint} `mcvi list` shows what there is")).into());
            }
        };
        let (Some(data), Some(target)) = (data, target) else {
            let why = format!("{name} needs data: mcvi fit {name} --data FILE.csv --target COLUMN");
            return Err(Mistake(why).into());
        };
        let made = regression::load(family, data, target)?;
        let whole = std::fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
        Ok(Problem {
            name: name.to_owned(),
            about: made.about,
            model: made.model,
            notes: made.notes,
            log_evidence: None,
            source: Some((whole, target.to_owned())),
        })
    }
}
