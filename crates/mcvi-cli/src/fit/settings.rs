//! The settings file of a run: how it was made, so that it can be drawn from, repeated and resumed.

use super::catalogue;
use crate::mistake::Mistake;
use anyhow::Result;
use mcvi::fit::StopReason;
use mcvi::infer::{Budget, Checkpoint, Request};
use mcvi::{BayesianModel, Chain, Fingerprint, Ranks, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the file.
pub const FILE: &str = "settings.json";

/// Version of the file format. Version 1 (mcvi 0.1) is translated by [`super::version1`].
const FORMAT: u64 = 2;

/// The contents of the file. Fields that a later version adds have defaults.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    /// The version of mcvi that wrote it.
    pub mcvi: String,
    /// The version of the file.
    pub format: u64,
    /// The name of the model.
    pub model: String,
    /// Where the model comes from.
    pub source: Source,
    /// Identifies the model and its data; absent in version 1.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// The chain that was fitted.
    pub chain: Chain,
    /// The seed, which is also in the request.
    pub seed: u64,
    /// The request.
    pub request: Request,
    /// Why the fit stopped.
    pub stop_reason: StopReason,
    /// Iterations over all fits.
    pub iterations: usize,
}

/// The model of a fit and its data: which they are, and where they are found again.
pub struct Identity {
    name: String,
    source: Source,
    fingerprint: Fingerprint,
}

impl Identity {
    /// Of a model; none if it cannot be reopened. All processes that share its data compute it together.
    pub fn of(model: &dyn BayesianModel) -> Result<Option<Self>> {
        let Some(source) = model.source() else { return Ok(None) };
        Ok(Some(Identity { name: model.about().name, source, fingerprint: Fingerprint::of(model)? }))
    }

    /// The settings of a fit that stopped for this reason after this many iterations.
    pub fn settings(
        &self,
        chain: &Chain,
        request: &Request,
        (stop_reason, iterations): (StopReason, usize),
    ) -> Settings {
        Settings {
            mcvi: env!("CARGO_PKG_VERSION").to_owned(),
            format: FORMAT,
            model: self.name.clone(),
            source: self.source.clone(),
            fingerprint: Some(self.fingerprint.clone()),
            chain: chain.clone(),
            seed: request.settings.seed,
            request: request.clone(),
            stop_reason,
            iterations,
        }
    }
}

impl Settings {
    /// The settings of a fit of this model; none if it cannot be reopened.
    pub fn new(
        model: &dyn BayesianModel,
        chain: &Chain,
        request: &Request,
        ending: (StopReason, usize),
    ) -> Result<Option<Self>> {
        Ok(Identity::of(model)?.map(|identity| identity.settings(chain, request, ending)))
    }

    /// The request that repeats this run. If it was stopped early, it is limited to the iterations it had taken.
    pub fn repeated(&self) -> Request {
        let mut request = self.request.clone();
        if !self.stop_reason.is_complete() {
            request.budget = Budget { iterations: Some(self.iterations.max(1)), seconds: None };
        }
        request
    }

    /// The request that resumes this run. The time limit applies anew each time, and a budget that was used up is
    /// dropped.
    pub fn resumed(&self) -> Request {
        let mut request = self.request.clone();
        request.budget.seconds = None;
        request.budget.iterations = request.budget.iterations.filter(|most| *most > self.iterations);
        request
    }
}

/// The setting of a source that names its data.
const DATA: &str = "data";

impl Settings {
    /// Name the data, which stand in `../../data` of the folder of the fit, by their place relative to it: the folders may be
    /// moved together.
    pub fn data_beside(&mut self) {
        let Some(Value::String(data)) = self.source.settings.get_mut(DATA) else { return };
        if let Some(name) = Path::new(data.as_str()).file_name() {
            *data = Path::new("../../data").join(name).display().to_string();
        }
    }

    /// The source of the model of a fit in this folder.
    fn source(&self, folder: &Path) -> Source {
        let mut source = self.source.clone();
        if let Some(Value::String(data)) = source.settings.get_mut(DATA)
            && folder.join(data.as_str()).is_file()
        {
            *data = folder.join(data.as_str()).display().to_string();
        }
        source
    }
}

/// The folder of a saved run.
pub struct Saved {
    folder: PathBuf,
    /// How it was made.
    pub settings: Settings,
}

impl Saved {
    /// Open a folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let bad = |why: String| Mistake(format!("{} is not the folder of a fit: {why}", folder.display()));
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("{}: {e}", path.display())))?;
        Saved::parse(&text, folder)
    }

    /// Read the text of the settings. They must be within the limits, whoever wrote them.
    pub fn parse(text: &str, folder: &Path) -> Result<Self> {
        let bad = |why: String| Mistake(format!("{} is not the folder of a fit: {why}", folder.display()));
        let value: Value = serde_json::from_str(text).map_err(|e| bad(format!("{FILE}: {e}")))?;
        let settings: Settings = match value["format"].as_u64() {
            None => super::version1::settings(&value).map_err(|why| bad(format!("{FILE} {why}")))?,
            Some(found) if found > FORMAT => {
                let path = folder.join(FILE).display().to_string();
                return Err(mcvi::Error::Newer { path, found, known: FORMAT }.into());
            }
            Some(_) => serde_json::from_value(value).map_err(|e| bad(format!("{FILE}: {e}")))?,
        };
        settings.chain.check().and_then(|()| settings.request.check()).map_err(|e| bad(format!("{FILE}: {e}")))?;
        Ok(Saved { folder: folder.to_owned(), settings })
    }

    /// The state of the fit.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        Ok(Checkpoint::load(self.file(super::files::STATE))?)
    }

    /// A file beside the settings.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The model, checked to be the one that was fitted, with the same data.
    pub fn model(&self) -> Result<Arc<dyn BayesianModel>> {
        self.shared_model(None)
    }

    /// The same, where ranks share the data.
    pub fn shared_model(&self, ranks: Option<Ranks>) -> Result<Arc<dyn BayesianModel>> {
        self.checked(catalogue::reopen(&self.settings.source(&self.folder), ranks)?)
    }

    /// A model, if it is the one that was fitted, with the same data.
    pub fn checked(&self, model: Arc<dyn BayesianModel>) -> Result<Arc<dyn BayesianModel>> {
        if let Some(fingerprint) = &self.settings.fingerprint
            && let Some(difference) = fingerprint.difference(model.as_ref())?
        {
            let data = mcvi::regression::data_file(&self.settings.source);
            let why = format!(
                "{} is a fit of another model, or of other data: {difference}; restore {}, or fit again",
                self.folder.display(),
                data.map_or("the model".to_owned(), |file| file.display().to_string())
            );
            return Err(Mistake(why).into());
        }
        Ok(model)
    }
}
