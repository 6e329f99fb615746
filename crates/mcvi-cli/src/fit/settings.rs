//! What a run's folder says about how it was made, so that it can be drawn from, repeated and resumed.

use super::catalogue;
use crate::mistake::Mistake;
use anyhow::Result;
use mcvi::fit::StopReason;
use mcvi::infer::{Budget, Posterior, Request};
use mcvi::{BayesianModel, Chain, Fingerprint, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file beside the results.
pub const FILE: &str = "settings.json";

/// The version of the file. Version 1 (mcvi 0.1) is translated by [`super::version1`].
const FORMAT: u64 = 2;

/// Everything the file says. Fields that a later version adds have defaults.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    /// The version of mcvi that wrote it.
    pub mcvi: String,
    /// The version of the file.
    pub format: u64,
    /// What the model is called.
    pub model: String,
    /// Where it comes from.
    pub source: Source,
    /// What tells the model and its data from others; none in version 1.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// The chain that was fitted.
    pub chain: Chain,
    /// The seed of all draws, once more.
    pub seed: u64,
    /// What was asked for.
    pub request: Request,
    /// Why the fit stopped.
    pub stop_reason: StopReason,
    /// Iterations of all fits.
    pub iterations: usize,
}

impl Settings {
    /// How a posterior was made. None where its model cannot be found again.
    pub fn new(posterior: &Posterior, request: &Request) -> Result<Option<Self>> {
        let Some(source) = posterior.model.source() else { return Ok(None) };
        Ok(Some(Settings {
            mcvi: env!("CARGO_PKG_VERSION").to_owned(),
            format: FORMAT,
            model: posterior.model.about().name,
            source,
            fingerprint: Some(Fingerprint::of(posterior.model.as_ref())?),
            chain: posterior.approximation.chain().clone(),
            seed: request.settings.seed,
            request: request.clone(),
            stop_reason: posterior.stop_reason,
            iterations: posterior.iterations,
        }))
    }
}

/// A folder written before.
pub struct Saved {
    folder: PathBuf,
    pub settings: Settings,
}

impl Saved {
    pub fn open(folder: &Path) -> Result<Self> {
        let bad = |why: String| Mistake(format!("{} is not the folder of a fit: {why}", folder.display()));
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("{}: {e}", path.display())))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| bad(format!("{FILE}: {e}")))?;
        let settings = match value["format"].as_u64() {
            None => super::version1::settings(&value).map_err(|why| bad(format!("{FILE} {why}")))?,
            Some(found) if found > FORMAT => {
                let path = path.display().to_string();
                return Err(mcvi::Error::Newer { path, found, known: FORMAT }.into());
            }
            Some(_) => serde_json::from_value(value).map_err(|e| bad(format!("{FILE}: {e}")))?,
        };
        Ok(Saved { folder: folder.to_owned(), settings })
    }

    /// A file beside the settings.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The model, if it and its data are still what was fitted.
    pub fn model(&self) -> Result<Arc<dyn BayesianModel>> {
        let model = catalogue::reopen(&self.settings.source)?;
        if let Some(fingerprint) = &self.settings.fingerprint
            && let Some(difference) = fingerprint.difference(model.as_ref())?
        {
            let data = self.settings.source.settings.get("data").and_then(Value::as_str);
            let why = format!(
                "{} is a fit of another model, or of other data: {difference}; restore {}, or fit again",
                self.folder.display(),
                data.unwrap_or("the model")
            );
            return Err(Mistake(why).into());
        }
        Ok(model)
    }

    /// What to ask for to get the same again: where it was stopped early, as many iterations as it had taken.
    pub fn repeated(&self) -> Request {
        let mut request = self.settings.request.clone();
        if !self.settings.stop_reason.is_complete() {
            request.budget = Budget { iterations: Some(self.settings.iterations), seconds: None };
        }
        request
    }

    /// What to ask for to go on: time is given anew each time, and a budget that was used is no longer one.
    pub fn continued(&self) -> Request {
        let mut request = self.settings.request.clone();
        request.budget.seconds = None;
        request.budget.iterations = request.budget.iterations.filter(|most| *most > self.settings.iterations);
        request
    }
}
