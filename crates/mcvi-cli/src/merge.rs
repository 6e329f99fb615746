//! `mcvi merge`: join the shards of a set, whether they wrote to one folder or to several.

use crate::fit::{calibrate, each};
use crate::many::{FILE, Kind, SetFolder};
use crate::mistake::Mistake;
use crate::store::folder::Staging;
use crate::vae;
use anyhow::{Context, Result};
use clap::Args;
use mcvi::disk;
use std::path::PathBuf;

/// Options of `mcvi merge`.
#[derive(Args)]
pub struct Options {
    /// The folder that all shards wrote to, or one folder for each.
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// Folder for the joined results; must not exist yet. [default: the folder, if there is one]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Items that are listed if they are missing.
const LISTED: usize = 5;

/// Join shards.
pub fn run(options: &Options) -> Result<()> {
    let sets = options.folders.iter().map(|folder| SetFolder::open(folder)).collect::<Result<Vec<_>>>()?;
    let first = &sets[0];
    for other in &sets[1..] {
        let (one, two) = (first.path().display(), other.path().display());
        if let Some(difference) = other.manifest.difference(&first.manifest) {
            return Err(Mistake(format!("{one} and {two} are not of one set: {difference}")).into());
        }
        if other.manifest.items != first.manifest.items {
            return Err(Mistake(format!("{one} and {two} are not of one set: their {FILE} list other items")).into());
        }
    }
    let items = &first.manifest.items;
    let place = |name: &String| sets.iter().find(|set| set.has(name));
    let missing: Vec<&String> = items.iter().filter(|name| place(name).is_none()).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().take(LISTED).map(|name| name.as_str()).collect();
        let more = if missing.len() > LISTED { ", …" } else { "" };
        let why = format!(
            "{} of {} results are missing ({}{more}); run the shards that lack them again, which do only that",
            missing.len(),
            items.len(),
            names.join(", ")
        );
        return Err(Mistake(why).into());
    }
    let Some(out) = &options.out else {
        if sets.len() > 1 {
            return Err(Mistake("several folders are joined in another one: --out DIR".to_owned()).into());
        }
        write(first)?;
        return print(first, options.json);
    };
    let staging = Staging::new(out)?;
    let manifest = std::fs::read(first.path().join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    disk::write_new(staging.path().join(FILE), &manifest).with_context(|| format!("cannot write {FILE}"))?;
    for (name, set) in items.iter().filter_map(|name| Some((name, place(name)?))) {
        set.copy(name, staging.path())?;
    }
    write(&SetFolder::open(staging.path())?)?;
    staging.commit()?;
    print(&SetFolder::open(out)?, options.json)
}

/// Write what all items say together.
fn write(folder: &SetFolder) -> Result<()> {
    match folder.manifest.kind {
        Kind::Fits => each::joined(folder)?.write(folder.path()),
        Kind::Simulations => calibrate::joined(folder)?.write(folder.path()),
        // Each run has its own results.
        Kind::Runs => Ok(()),
    }
}

fn print(folder: &SetFolder, json: bool) -> Result<()> {
    match folder.manifest.kind {
        Kind::Fits => each::joined(folder)?.print(json, folder.path()),
        Kind::Simulations => calibrate::joined(folder)?.print(json),
        Kind::Runs => vae::joined_runs(json, folder),
    }
}
