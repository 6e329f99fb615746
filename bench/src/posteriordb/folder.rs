//! What a posteriordb folder holds. Both the published layout and one without the inner folders `models/stan`, `data/data`
//! are read.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A posterior: a program and its data, with moments of reference draws.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The file of the program.
    pub program_file: PathBuf,
    data_file: PathBuf,
    /// By the name of the element; empty if there are no reference draws.
    pub moments: BTreeMap<String, Moments>,
}

/// Mean and standard deviation of reference draws.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Moments {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
}

#[derive(Deserialize)]
struct About {
    name: String,
    model_name: String,
    data_name: String,
    reference_posterior_name: Option<String>,
}

impl Entry {
    /// The name of its program.
    pub fn program(&self) -> String {
        self.program_file.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
    }

    /// Its data.
    pub fn data(&self) -> Result<Value> {
        ensure!(self.data_file.exists(), "its data are not in the folder");
        zipped(&self.data_file)
    }
}

/// The posteriors of a folder, by name.
pub fn entries(folder: &Path) -> Result<Vec<Entry>> {
    let inner = folder.join("posterior_database");
    let folder = if inner.is_dir() { inner.as_path() } else { folder };
    let list = folder.join("posteriors");
    let files = std::fs::read_dir(&list).with_context(|| format!("reading {}", list.display()))?;
    let mut paths: Vec<PathBuf> = files.map(|f| Ok(f?.path())).collect::<Result<_>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
    let mut summaries = summaries(folder)?;
    let entry = |path: &PathBuf| -> Result<Entry> {
        let about: About =
            serde_json::from_value(json(path)?).with_context(|| format!("reading {}", path.display()))?;
        let Reference { draws, name } = Reference::new(folder, about.reference_posterior_name, &about.name);
        let moments = match (summaries.remove(&name), draws.exists()) {
            (Some(moments), _) => moments,
            (None, true) => of_draws(&draws)?,
            (None, false) => BTreeMap::new(),
        };
        let program_file = either(folder, "models/stan", "models", &format!("{}.stan", about.model_name));
        let data_file = either(folder, "data/data", "data", &format!("{}.json.zip", about.data_name));
        Ok(Entry { name: about.name, program_file, data_file, moments })
    };
    paths.iter().map(entry).collect()
}

/// Where reference draws would be.
struct Reference {
    name: String,
    draws: PathBuf,
}

impl Reference {
    fn new(folder: &Path, name: Option<String>, posterior: &str) -> Reference {
        let name = name.unwrap_or_else(|| posterior.to_owned());
        let draws = folder.join("reference_posteriors/draws/draws").join(format!("{name}.json.zip"));
        Reference { name, draws }
    }
}

fn either(folder: &Path, first: &str, second: &str, name: &str) -> PathBuf {
    let path = folder.join(first).join(name);
    if path.exists() { path } else { folder.join(second).join(name) }
}

/// `reference_summaries.json`, if there is one.
fn summaries(folder: &Path) -> Result<BTreeMap<String, BTreeMap<String, Moments>>> {
    let path = folder.join("reference_summaries.json");
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_value(json(&path)?).with_context(|| format!("reading {}", path.display()))
}

/// Moments of draws: a list of chains, each with the draws of every element.
fn of_draws(path: &Path) -> Result<BTreeMap<String, Moments>> {
    let chains: Vec<BTreeMap<String, Vec<f64>>> =
        serde_json::from_value(zipped(path)?).with_context(|| format!("reading {}", path.display()))?;
    let mut draws: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, values) in chains.into_iter().flatten() {
        draws.entry(name).or_default().extend(values);
    }
    let moments = |values: Vec<f64>| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        Moments { mean, sd }
    };
    Ok(draws.into_iter().map(|(name, values)| (name, moments(values))).collect())
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

/// The JSON of the first file in an archive.
fn zipped(path: &Path) -> Result<Value> {
    let read = || -> Result<Value> {
        let mut archive = zip::ZipArchive::new(std::fs::File::open(path)?)?;
        Ok(serde_json::from_reader(std::io::BufReader::new(archive.by_index(0)?))?)
    };
    read().with_context(|| format!("reading {}", path.display()))
}
