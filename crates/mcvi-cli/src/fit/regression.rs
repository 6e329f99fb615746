//! Options of regressions: what stands beside a formula.

use crate::mistake::{Mistake, mistaken};
use anyhow::Result;
use clap::Args;
use mcvi::regression::{self, Family, Formula, Frame, Link, Missing, ReadOptions, Regression};
use mcvi::{BayesianModel, Ranks};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of `mcvi fit` for regressions.
#[derive(Args, Clone, Default, Serialize)]
#[command(next_help_heading = "Regressions")]
pub struct RegressionOptions {
    /// The column to predict from all others, with logistic, linear or poisson in place of a formula.
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// The distribution of the response (see `mcvi list`). [default: gaussian]
    #[arg(long, value_name = "FAMILY")]
    family: Option<String>,
    /// What the linear predictor is a function of: logit, probit, cloglog. [default: the usual one]
    #[arg(long, value_name = "LINK")]
    link: Option<String>,
    /// A prior in place of a default, on the scale of the data: 'x ~ normal(0, 1)', 'sd ~ exponential(1)'. May be given
    /// several times.
    #[arg(long = "prior", value_name = "PRIOR")]
    priors: Vec<String>,
    /// A TOML file of priors: x = "normal(0, 1)".
    #[arg(long, value_name = "FILE")]
    prior_file: Option<PathBuf>,
    /// A column of weights: each log likelihood is multiplied by its own.
    #[arg(long, value_name = "COLUMN")]
    weights: Option<String>,
    /// The categories of the response, in order: low,medium,high.
    #[arg(long, value_name = "LEVELS", value_delimiter = ',')]
    levels: Vec<String>,
    /// What stands for a missing value, besides nothing, NA and NaN. May be given several times.
    #[arg(long, value_name = "TEXT")]
    na: Vec<String>,
    /// Rows with missing values: refuse, drop. [default: refuse]
    #[arg(long, value_name = "WHAT", value_parser = ["refuse", "drop"])]
    missing: Option<String>,
    /// Print the same model as a Stan program, or the data for it, in place of a fit: stan, stan-data.
    #[arg(long, value_name = "WHAT", value_parser = ["stan", "stan-data"])]
    show: Option<String>,
}

impl RegressionOptions {
    /// A column to predict from all others, and no other options.
    pub fn of_target(target: Option<&str>) -> Self {
        RegressionOptions { target: target.map(str::to_owned), ..Self::default() }
    }

    /// One of these options, if any was given.
    pub fn given(&self) -> Option<&'static str> {
        [
            (self.target.is_some(), "--target"),
            (self.family.is_some(), "--family"),
            (self.link.is_some(), "--link"),
            (!self.priors.is_empty(), "--prior"),
            (self.prior_file.is_some(), "--prior-file"),
            (self.weights.is_some(), "--weights"),
            (!self.levels.is_empty(), "--levels"),
            (!self.na.is_empty(), "--na"),
            (self.missing.is_some(), "--missing"),
            (self.show.is_some(), "--show"),
        ]
        .into_iter()
        .find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// The formula that a short name stands for, with the options of its family; none if it is no short name.
    pub fn shorthand(&self, name: &str) -> Option<Result<(Formula, Self)>> {
        let target = self.target.as_deref();
        let (formula, family) = regression::shorthand(name, target.unwrap_or("y"))?;
        if target.is_none() {
            let why = format!("{name} needs data: mcvi fit {name} --data FILE.csv --target COLUMN");
            return Some(Err(Mistake(why).into()));
        }
        if self.family.is_some() {
            let why = format!("{name} is the family {}; for another one write a formula", family.name());
            return Some(Err(Mistake(why).into()));
        }
        let family = Some(family.name().to_owned());
        Some(Ok((formula, RegressionOptions { target: None, family, ..self.clone() })))
    }

    /// Open a regression, the rows of which ranks may share.
    pub fn open(&self, formula: &Formula, data: Option<&Path>, ranks: Option<Ranks>) -> Result<Arc<dyn BayesianModel>> {
        Ok(Arc::new(self.regression(formula, data, ranks)?))
    }

    /// What is to be shown of a model in place of a fit, if anything is.
    pub fn shown(&self, name: &str, data: Option<&Path>) -> Result<Option<String>> {
        let Some(what) = &self.show else { return Ok(None) };
        let regression = if name.contains('~') {
            self.regression(&Formula::parse(name)?, data, None)?
        } else {
            let Some(opened) = self.shorthand(name) else {
                return Err(
                    Mistake("--show is for regressions, such as mcvi fit 'y ~ x' --data FILE.csv".to_owned()).into()
                );
            };
            let (formula, options) = opened?;
            options.regression(&formula, data, None)?
        };
        let program = regression.stan();
        Ok(Some(if what == "stan" { program.code } else { program.data.to_string() }))
    }

    fn regression(&self, formula: &Formula, data: Option<&Path>, ranks: Option<Ranks>) -> Result<Regression> {
        if self.target.is_some() {
            let why = "a formula names its response: omit --target";
            return Err(Mistake(why.to_owned()).into());
        }
        let Some(data) = data else {
            let why = format!("`{}` needs data: --data FILE.csv", formula.text());
            return Err(Mistake(why).into());
        };
        let frame = Frame::read(data, &ReadOptions { na: self.na.clone() })?;
        Ok(Regression::shared(formula, &frame, &self.resolved()?, ranks)?)
    }

    fn resolved(&self) -> Result<regression::Options> {
        let family = self.family.as_deref().map(Family::named).transpose()?.unwrap_or_default();
        let link = self.link.as_deref().map(|link| Link::named(link, family)).transpose()?;
        let mut priors = self.prior_file.as_deref().map(priors).transpose()?.unwrap_or_default();
        priors.extend(self.priors.iter().cloned());
        let missing = if self.missing.as_deref() == Some("drop") { Missing::Drop } else { Missing::Refuse };
        let (weights, levels) = (self.weights.clone(), self.levels.clone());
        Ok(regression::Options { family, link, priors, weights, missing, levels, ..Default::default() })
    }
}

/// The priors of a file.
fn priors(path: &Path) -> Result<Vec<String>> {
    let bad = |e: &dyn std::fmt::Display| mistaken(anyhow::anyhow!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| bad(&e))?;
    let table: toml::Table = text.parse().map_err(|e| bad(&e))?;
    let prior = |(name, value): (&String, &toml::Value)| match value.as_str() {
        Some(prior) => Ok(format!("{name} ~ {prior}")),
        None => Err(bad(&format!("`{name}` is no text; write {name} = \"normal(0, 1)\""))),
    };
    table.iter().map(prior).collect()
}
