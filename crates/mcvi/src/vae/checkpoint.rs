//! Deep models and the state of their training, to and from bytes: safetensors with their description in the header.

use super::architecture::Architecture;
use super::model::Observed;
use super::settings::TrainSettings;
use super::train::Progress;
use crate::approximation::Approximation;
use crate::error::Result;
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::record::{Format, Record, bad, damaged, enough, finite};
use mcvi_expr::Array;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

const MODEL: Format = Format { name: "mcvi deep model", version: 1, what: "an mcvi deep model" };
const CHECKPOINT: Format = Format { name: "mcvi checkpoint", version: 1, what: "an mcvi checkpoint" };

/// A decoder and a chain with their weights.
#[derive(Clone, Debug)]
pub struct Deep {
    /// Its architecture.
    pub architecture: Architecture,
    /// Its weights.
    pub params: Params,
}

impl Deep {
    /// A model before any training.
    pub fn new(architecture: Architecture, seed: u64) -> Result<Self> {
        let params =
            architecture.approximation(Params::default(), Observed::nothing(), seed, Hardware::default())?.params;
        Ok(Deep { architecture, params })
    }

    /// Copy every weight that another model has under the same name, and return how many there were. All others stay as
    /// they are, such as those of a chain that the other model lacks. A weight of another shape is an error.
    pub fn take_over(&mut self, other: &Deep) -> Result<usize> {
        let mut params = self.params.clone();
        let shared = other.params.iter().filter(|(name, _)| params.get(name).is_some()).collect::<Vec<_>>();
        for (name, param) in &shared {
            params.set(name, param.value.clone())?;
        }
        self.params = params;
        Ok(shared.len())
    }

    /// As the bytes of a file that any reader of safetensors opens.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let arrays = self.params.iter().map(|(name, p)| (name.to_owned(), p.value.clone())).collect();
        encode(MODEL, arrays, &[("architecture", json(&self.architecture))])
    }

    /// Read what [`to_bytes`](Self::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let (meta, arrays) = decode(MODEL, bytes, path)?;
        let architecture: Architecture = part(&meta, "architecture", path)?;
        fits(&architecture, &arrays).map_err(|why| damaged(path, why))?;
        let mut deep = Deep::new(architecture, 0)?;
        let names: Vec<String> = deep.params.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let Some((_, value)) = arrays.iter().find(|(n, _)| *n == name) else {
                return Err(bad(path, format!("lacks `{name}`")));
            };
            deep.params.set(&name, value.clone()).map_err(|e| bad(path, e))?;
        }
        Ok(deep)
    }
}

impl Architecture {
    /// The chain for some images, with these parameters; missing ones are initialised from a seed.
    pub(super) fn approximation(
        &self,
        params: Params,
        observed: Observed,
        seed: u64,
        hardware: Hardware,
    ) -> Result<Approximation> {
        self.check()?;
        let mut initialisation = Initialisation::standard(self.latent);
        initialisation.seed = seed;
        let target = Arc::new(self.model(observed));
        Approximation { target, chain: self.chain(), initialisation, params, hardware }.with_chain(self.chain())
    }
}

/// Everything needed to resume training.
#[derive(Clone, Debug)]
pub struct TrainingCheckpoint {
    /// The architecture that is trained.
    pub architecture: Architecture,
    /// The settings.
    pub settings: TrainSettings,
    /// Checksums of the training and validation images.
    pub data: String,
    /// The kind of device that made it, if known; see [`Hardware::kind`](crate::Hardware::kind). Training can be
    /// resumed on another kind, but not bit for bit.
    pub device: Option<String>,
    /// The progress of training.
    pub progress: Progress,
    /// The state of the optimiser, including weights and averages.
    pub state: Vec<(String, Array)>,
}

impl TrainingCheckpoint {
    /// As bytes of a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut meta = vec![
            ("architecture", json(&self.architecture)),
            ("settings", json(&self.settings)),
            ("data", self.data.clone()),
            ("progress", json(&self.progress)),
        ];
        meta.extend(self.device.clone().map(|device| ("device", device)));
        encode(CHECKPOINT, self.state.clone(), &meta)
    }

    /// Read what [`to_bytes`](Self::to_bytes) wrote; a single flipped bit is detected.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let (meta, state) = decode(CHECKPOINT, bytes, path)?;
        let made = TrainingCheckpoint {
            architecture: part(&meta, "architecture", path)?,
            settings: part(&meta, "settings", path)?,
            data: meta.get("data").cloned().unwrap_or_default(),
            device: meta.get("device").cloned(),
            progress: part(&meta, "progress", path)?,
            state,
        };
        let checked = fits(&made.architecture, &made.state).and_then(|()| made.progress.check());
        checked.map_err(|why| damaged(path, why))?;
        made.settings.check(usize::MAX).map_err(|e| bad(path, e))?;
        Ok(made)
    }
}

/// Whether arrays of a file can be the weights of a model, or what is wrong with them. Names of the optimiser's own
/// arrays start with `fit.`; those need not be finite.
fn fits(architecture: &Architecture, arrays: &[(String, Array)]) -> Result<(), String> {
    architecture.check().map_err(|e| format!("is damaged: {e}"))?;
    enough(arrays, architecture.weights())?;
    arrays.iter().filter(|(name, _)| !name.starts_with("fit.")).try_for_each(|(name, array)| finite(name, array))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn part<T: DeserializeOwned>(meta: &HashMap<String, String>, name: &str, path: &Path) -> Result<T> {
    let text = meta.get(name).ok_or_else(|| bad(path, format!("lacks its {name}")))?;
    serde_json::from_str(text).map_err(|e| bad(path, format!("its {name} cannot be read: {e}")))
}

fn encode(format: Format, arrays: Vec<(String, Array)>, meta: &[(&str, String)]) -> Result<Vec<u8>> {
    let texts = meta.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    Record { version: 0, arrays, texts }.to_bytes(format)
}

type Decoded = (HashMap<String, String>, Vec<(String, Array)>);

fn decode(format: Format, bytes: &[u8], path: &Path) -> Result<Decoded> {
    let Record { arrays, texts, .. } = Record::from_bytes(bytes, path, format)?;
    Ok((texts.into_iter().collect(), arrays))
}
