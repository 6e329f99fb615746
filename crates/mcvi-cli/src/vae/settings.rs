//! Options from a file and from the command line, resolved into settings.

use crate::mistake::Mistake;
use anyhow::{Context, Result};
use clap::Args;
use mcvi::data::Binarization;
use mcvi::vae::{Architecture, Decay, Inference, Kernel, Kind, Momentum, TrainSettings};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options that may also be in a file, `--config FILE.toml`, under the same names. The command line takes precedence.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Folder of images: binarized MNIST as .bits or .amat, MNIST as IDX, .npy arrays, or pictures.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Binarize grey images once (fixed), or afresh every time they are used (fresh). [default: fresh]
    #[arg(long, value_name = "KIND", value_parser = named::<Binary>)]
    pub binarization: Option<Binary>,
    /// Kind of networks: dense or conv. [default: dense]
    #[arg(long, value_name = "KIND", value_parser = named::<Kind>)]
    pub decoder: Option<Kind>,
    /// Hidden layers of a dense decoder. [default: 2]
    #[arg(long, value_name = "N")]
    pub layers: Option<usize>,
    /// Units of each hidden layer. [default: 300]
    #[arg(long, value_name = "N")]
    pub hidden: Option<usize>,
    /// Latent variables. [default: 32]
    #[arg(long, value_name = "D")]
    pub latent: Option<usize>,
    /// Initial distribution of the chain: network (of the image), or none (one Gaussian for all images). [default:
    /// network]
    #[arg(long, value_name = "KIND", value_parser = named::<Inference>)]
    pub inference: Option<Inference>,
    /// Kernel of the chain: hamiltonian (the paper's), or steps of one leapfrog on bridges that keep their momentum: uha,
    /// riemannian-uha (momenta spread by a network), ldvi (a learned drift in the inverse), cmcd (one in both directions).
    /// Start the last three from a uha run, with --from. [default: hamiltonian]
    #[arg(long, value_name = "KIND", value_parser = named::<Kernel>)]
    pub kernel: Option<Kernel>,
    /// Leapfrogs: of each Hamiltonian step, or in all with other kernels; 0 is an ordinary variational auto-encoder.
    /// [default: 4]
    #[arg(long, value_name = "K")]
    pub leapfrogs: Option<usize>,
    /// Hamiltonian steps. [default: 1]
    #[arg(long, value_name = "T")]
    pub steps: Option<usize>,
    /// What the distribution of a Hamiltonian step's initial momentum depends on: constant, network (image and position), or gradient
    /// (these and ∇log p). [default: constant]
    #[arg(long, value_name = "KIND", value_parser = named::<Momentum>)]
    pub momentum: Option<Momentum>,
    /// The same for the inverse model of the final momentum. [default: network, as in the paper]
    #[arg(long, value_name = "KIND", value_parser = named::<Momentum>)]
    pub inverse: Option<Momentum>,
    /// Initial step size. With --from, an existing chain keeps its own. [default: 0.1]
    #[arg(long, alias = "first-step", value_name = "EPS", value_parser = finite, allow_negative_numbers = true)]
    #[serde(alias = "first-step")]
    pub initial_step_size: Option<f64>,
    /// Maximum number of epochs. [default: 100]
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,
    /// Images per minibatch. [default: 100]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Initial learning rate. [default: 0.001]
    #[arg(long, value_name = "RATE", value_parser = finite, allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Learning rate of step sizes, masses and constant momenta, relative to the others. [default: 5]
    #[arg(long, value_name = "FACTOR", value_parser = finite, allow_negative_numbers = true)]
    pub chain_rate: Option<f64>,
    /// Learning rate schedule: cosine (to zero over all epochs), plateau (lowered when the validation bound stops
    /// improving), or none. [default: cosine]
    #[arg(long, value_name = "KIND", value_parser = named::<Decay>)]
    pub decay: Option<Decay>,
    /// Epochs without a better validation bound before the learning rate is lowered, with --decay plateau. [default:
    /// 10]
    #[arg(long, value_name = "N")]
    pub patience: Option<usize>,
    /// Factor by which the learning rate is lowered: on a plateau, and when an epoch has to be repeated. [default: 0.5]
    #[arg(long, value_name = "FACTOR", value_parser = finite, allow_negative_numbers = true)]
    pub factor: Option<f64>,
    /// Early stopping: epochs without a better validation bound before training ends. [default: 50]
    #[arg(long, value_name = "N")]
    pub stop: Option<usize>,
    /// KL warm-up: epochs over which the KL weight rises from 0 to 1. [default: 10]
    #[arg(long, value_name = "EPOCHS", value_parser = finite, allow_negative_numbers = true)]
    pub warm_up: Option<f64>,
    /// Epochs over which weights are averaged. [default: 2]
    #[arg(long, value_name = "EPOCHS", value_parser = finite, allow_negative_numbers = true)]
    pub average: Option<f64>,
    /// Clip gradients at this multiple of their usual size. [default: 10]
    #[arg(long, value_name = "FACTOR", value_parser = finite, allow_negative_numbers = true)]
    pub clip: Option<f64>,
    /// Weight decay: shrink the weights of networks by this times the learning rate in every step. [default: 0]
    #[arg(long, value_name = "FACTOR", value_parser = finite, allow_negative_numbers = true)]
    pub weight_decay: Option<f64>,
    /// Train on the validation images too, once all settings are chosen. All epochs are run, and the last one is kept.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub join: Option<bool>,
    /// Start from the weights of the model in this run's folder, as far as it has them.
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// Parts that each minibatch is divided into, for as many MPI ranks at most. Results depend on it, not on the number of
    /// ranks. [default: 1]
    #[arg(long, value_name = "N")]
    pub parts: Option<usize>,
    /// Random seed of weights, noise and the order of images. [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// How grey images are binarized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binary {
    Fixed,
    Fresh,
}

impl Binary {
    pub fn library(self) -> Binarization {
        match self {
            Binary::Fixed => Binarization::Fixed,
            Binary::Fresh => Binarization::Fresh,
        }
    }
}

/// A finite number.
fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(x),
        _ => Err("is not a finite number".to_owned()),
    }
}

/// A value by its name in files.
fn named<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|e| e.to_string())
}

/// The resolved settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedConfig {
    pub data: PathBuf,
    pub binarization: Binary,
    pub architecture: Architecture,
    pub training: TrainSettings,
    /// The run whose weights to start from.
    pub from: Option<PathBuf>,
}

impl Config {
    /// Read a file of options.
    pub fn read(path: &Path) -> Result<Self> {
        read_toml(path, parse_toml)
    }

    /// As a file that [`read`](Self::read) reads.
    pub fn write(&self) -> Result<String> {
        toml::to_string(self).context("settings cannot be written as TOML")
    }

    /// These options, completed by the others where not given.
    pub fn or(&self, other: &Config) -> Result<Config> {
        let (mut all, mine) = (fields(other)?, fields(self)?);
        all.extend(mine.into_iter().filter(|(_, value)| !value.is_null()));
        Ok(serde_json::from_value(Value::Object(all))?)
    }

    /// Names of the options that are given here and differ from the others.
    pub fn against(&self, other: &Config) -> Result<Vec<String>> {
        // Options that did not exist when a run started had their defaults.
        let (mine, theirs) = (fields(self)?, fields(&other.resolve([1, 1])?.config())?);
        let differs = mine.into_iter().filter(|(name, value)| !value.is_null() && theirs.get(name) != Some(value));
        Ok(differs.map(|(name, _)| format!("--{name}")).collect())
    }

    /// Resolve these options for images of a size. Everything not given has its default.
    pub fn resolve(&self, image: [usize; 2]) -> Result<ResolvedConfig> {
        let (a, t) = (Architecture::default(), TrainSettings::default());
        let binarization = self.binarization.unwrap_or(Binary::Fresh);
        let Some(data) = self.data.clone() else {
            let why = "--data DIR is needed: a folder of images (see `mcvi vae train --help`)";
            return Err(Mistake(why.to_owned()).into());
        };
        Ok(ResolvedConfig {
            data,
            binarization,
            architecture: Architecture {
                image,
                decoder: self.decoder.unwrap_or(a.decoder),
                layers: self.layers.unwrap_or(a.layers),
                hidden: self.hidden.unwrap_or(a.hidden),
                latent: self.latent.unwrap_or(a.latent),
                inference: self.inference.unwrap_or(a.inference),
                kernel: self.kernel.unwrap_or(a.kernel),
                steps: self.steps.unwrap_or(a.steps),
                leapfrogs: self.leapfrogs.unwrap_or(a.leapfrogs),
                momentum: self.momentum.unwrap_or(a.momentum),
                inverse: self.inverse.unwrap_or(a.inverse),
                initial_step_size: self.initial_step_size.unwrap_or(a.initial_step_size),
            },
            training: TrainSettings {
                epochs: self.epochs.unwrap_or(t.epochs),
                batch: self.batch.unwrap_or(t.batch),
                rate: self.rate.unwrap_or(t.rate),
                chain_rate: self.chain_rate.unwrap_or(t.chain_rate),
                decay: self.decay.unwrap_or(t.decay),
                patience: self.patience.unwrap_or(t.patience),
                factor: self.factor.unwrap_or(t.factor),
                stop: self.stop.unwrap_or(t.stop),
                warm_up: self.warm_up.unwrap_or(t.warm_up),
                average: self.average.unwrap_or(t.average),
                clip: self.clip.unwrap_or(t.clip),
                weight_decay: self.weight_decay.unwrap_or(t.weight_decay),
                parts: self.parts.unwrap_or(t.parts),
                join: self.join.unwrap_or(t.join),
                fresh: t.fresh,
                seed: self.seed.unwrap_or(t.seed),
            },
            from: self.from.clone(),
        })
    }
}

impl ResolvedConfig {
    /// Every option with its value, to be saved beside the results.
    pub fn config(&self) -> Config {
        let (a, t) = (&self.architecture, &self.training);
        Config {
            data: Some(self.data.clone()),
            binarization: Some(self.binarization),
            decoder: Some(a.decoder),
            layers: Some(a.layers),
            hidden: Some(a.hidden),
            latent: Some(a.latent),
            inference: Some(a.inference),
            kernel: Some(a.kernel),
            leapfrogs: Some(a.leapfrogs),
            steps: Some(a.steps),
            momentum: Some(a.momentum),
            inverse: Some(a.inverse),
            initial_step_size: Some(a.initial_step_size),
            epochs: Some(t.epochs),
            batch: Some(t.batch),
            rate: Some(t.rate),
            chain_rate: Some(t.chain_rate),
            decay: Some(t.decay),
            patience: Some(t.patience),
            factor: Some(t.factor),
            stop: Some(t.stop),
            warm_up: Some(t.warm_up),
            average: Some(t.average),
            clip: Some(t.clip),
            weight_decay: Some(t.weight_decay),
            parts: (t.parts > 1).then_some(t.parts),
            join: Some(t.join),
            from: self.from.clone(),
            seed: Some(t.seed),
        }
    }
}

/// Read a TOML file by a parser of its text; the error names the file.
pub fn read_toml<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<T> {
    let cannot = |why: String| Mistake(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| cannot(e.to_string()))?;
    Ok(parse(&text).map_err(cannot)?)
}

/// Options as TOML. Numbers that are not finite are refused wherever they stand: options are merged as JSON, which has
/// no such numbers.
pub fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let parsed = toml::from_str(text).map_err(|e| e.to_string())?;
    match not_finite("", &toml::from_str(text).map_err(|e| e.to_string())?) {
        Some(what) => Err(format!("{what} is not a finite number")),
        None => Ok(parsed),
    }
}

/// Anything, as far as numbers are concerned. (`toml::Value` has no room for seeds of 2⁶³ and more.)
#[derive(Deserialize)]
#[serde(untagged)]
enum Anything {
    Number(f64),
    List(Vec<Anything>),
    Table(BTreeMap<String, Anything>),
    Other(#[allow(dead_code)] IgnoredAny),
}

/// The first number that is not finite, with its name: `run.a.rate = nan`.
fn not_finite(name: &str, value: &Anything) -> Option<String> {
    match value {
        Anything::Number(x) => (!x.is_finite()).then(|| format!("{name} = {x}").to_lowercase()),
        Anything::List(list) => list.iter().find_map(|value| not_finite(name, value)),
        Anything::Table(table) => table.iter().find_map(|(key, value)| {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            not_finite(&name, value)
        }),
        Anything::Other(_) => None,
    }
}

fn fields(config: &Config) -> Result<serde_json::Map<String, Value>> {
    match serde_json::to_value(config)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(serde_json::Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose settings cannot be read again cannot be resumed.
    #[test]
    fn the_largest_seed_is_read_as_it_was_written() {
        let config = Config { data: Some("images".into()), seed: Some(u64::MAX), ..Config::default() };
        let text = config.write().unwrap();
        assert_eq!(parse_toml::<Config>(&text), Ok(config));
    }
}
