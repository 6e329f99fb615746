//! The folder of a set: what the items are, and their results.

use super::Shard;
use crate::mistake::Mistake;
use anyhow::{Context, Result};
use mcvi::disk::{self, Lock, LockError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a set consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Fits of one model to many data sets.
    Fits,
    /// Fits to data simulated from the model.
    Simulations,
    /// Training runs.
    Runs,
}

impl Kind {
    /// The path of an item in the folder.
    fn item(self, name: &str) -> PathBuf {
        match self {
            Kind::Fits => Path::new("fits").join(name),
            Kind::Simulations => Path::new("simulations").join(format!("{name}.json")),
            Kind::Runs => name.into(),
        }
    }

    /// What belongs to an item besides its result, if it is there.
    fn beside(self, name: &str) -> Option<PathBuf> {
        (self == Kind::Fits).then(|| Path::new("data").join(format!("{name}.csv")))
    }
}

/// What a set consists of, and all that the results depend on besides their items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub kind: Kind,
    /// The version of mcvi that began it.
    pub mcvi: String,
    /// The settings of all items.
    pub about: Value,
    /// The names of the items, in order.
    pub items: Vec<String>,
}

/// The name of its file.
pub const FILE: &str = "set.json";

impl Manifest {
    pub fn new(kind: Kind, about: Value, items: Vec<String>) -> Self {
        Manifest { kind, mcvi: env!("CARGO_PKG_VERSION").to_owned(), about, items }
    }

    fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let bad = |e: &dyn std::fmt::Display| Mistake(format!("{}: {e}", path.display()));
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(bad(&error).into()),
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(|e| bad(&e))?)),
        }
    }

    /// What does not let the results of this set stand beside those of another; none if they belong together. The items may
    /// differ: a set may grow.
    pub fn difference(&self, other: &Manifest) -> Option<String> {
        let (mine, theirs) = (json!(self), json!(other));
        let difference = |path: &str| {
            let (mine, theirs) = (mine.pointer(path), theirs.pointer(path));
            (mine != theirs).then(|| first_difference(path, mine, theirs))
        };
        ["/kind", "/mcvi", "/about"].into_iter().find_map(difference)
    }
}

/// The first setting that differs, by name, with both values.
fn first_difference(path: &str, mine: Option<&Value>, theirs: Option<&Value>) -> String {
    if let (Some(Value::Object(mine)), Some(Value::Object(theirs))) = (mine, theirs) {
        for key in mine.keys().chain(theirs.keys()) {
            if mine.get(key) != theirs.get(key) {
                return first_difference(key, mine.get(key), theirs.get(key));
            }
        }
    }
    let shown = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    format!("`{}` was {}, now it is {}", path.trim_start_matches('/'), shown(theirs), shown(mine))
}

/// The folder of a set.
pub struct SetFolder {
    path: PathBuf,
    pub manifest: Manifest,
    /// Held by a process that writes to it.
    _lock: Option<Lock>,
}

impl SetFolder {
    /// The folder for a set, to run its items or one shard of them: new, or with results of the same set.
    pub fn create(path: &Path, manifest: Manifest, shard: Option<Shard>) -> Result<Self> {
        disk::create_dir_all(path)
            .map_err(|e| Mistake(format!("cannot create the folder {}: {e}; choose another --out", path.display())))?;
        // Shards may share a folder: each writes other items.
        let name = shard.map_or(".lock".to_owned(), |s| format!(".lock-{}-{}", s.number, s.of));
        let lock = Lock::acquire(path.join(name)).map_err(|error| {
            let remedy = match error {
                LockError::Held(_) => "wait until it ends, or choose another --out",
                LockError::Failed(_) => "choose another --out",
            };
            Mistake(format!("{}: {error}; {remedy}", path.display()))
        })?;
        let shown = path.display();
        match Manifest::read(path)? {
            Some(known) => {
                if let Some(difference) = manifest.difference(&known) {
                    let why = format!("{shown} holds results of other settings: {difference}; choose another --out");
                    return Err(Mistake(why).into());
                }
            }
            None => {
                let other = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
                let is_used = std::fs::read_dir(path)?.flatten().any(|entry| other(&entry));
                // Runs were there before sets had a file.
                if is_used && manifest.kind != Kind::Runs {
                    let why = format!("{shown} exists and is not empty; choose another --out, or remove it");
                    return Err(Mistake(why).into());
                }
            }
        }
        let text = format!("{:#}\n", json!(manifest));
        disk::atomic_write(path.join(FILE), text.as_bytes()).with_context(|| format!("cannot write to {shown}"))?;
        let folder = SetFolder { path: path.to_owned(), manifest, _lock: Some(lock) };
        if let Some(parent) = folder.item("x").parent() {
            disk::create_dir_all(parent).with_context(|| format!("cannot write to {shown}"))?;
        }
        Ok(folder)
    }

    /// The folder of a set that was begun.
    pub fn open(path: &Path) -> Result<Self> {
        let manifest = Manifest::read(path)?.ok_or_else(|| {
            let shown = path.display();
            Mistake(format!(
                "{shown} has no {FILE}; give folders that `mcvi fit --each`, `mcvi calibrate` or `mcvi vae sweep` wrote with --out"
            ))
        })?;
        Ok(SetFolder { path: path.to_owned(), manifest, _lock: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the result of an item is, or will be.
    pub fn item(&self, name: &str) -> PathBuf {
        self.path.join(self.manifest.kind.item(name))
    }

    /// Where the data of an item are that were taken out of a table.
    pub fn data(&self, name: &str) -> Option<PathBuf> {
        self.manifest.kind.beside(name).map(|path| self.path.join(path))
    }

    /// Whether there is a result of an item.
    pub fn has(&self, name: &str) -> bool {
        self.item(name).exists()
    }

    /// Copy an item to another folder of such a set.
    pub fn copy(&self, name: &str, to: &Path) -> Result<()> {
        let kind = self.manifest.kind;
        for path in std::iter::once(kind.item(name)).chain(kind.beside(name)) {
            let from = self.path.join(&path);
            if from.exists() {
                copy(&from, &to.join(&path)).with_context(|| format!("cannot copy {}", from.display()))?;
            }
        }
        Ok(())
    }
}

/// Copy a file, or a folder with all that is visible in it.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        disk::create_dir_all(parent)?;
    }
    if !from.is_dir() {
        return disk::write_new(to, &std::fs::read(from)?);
    }
    disk::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        if !name.to_string_lossy().starts_with('.') {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}
