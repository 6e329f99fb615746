//! `mcvi fit --each`: one model fitted to many data sets, each as it would be alone with its seed.

mod data_sets;
mod tables;

pub use tables::joined;

use super::settings::Settings;
use super::{Options, catalogue, files, result};
use crate::interrupts::Interrupts;
use crate::many::{self, Item, Kind, Manifest, Queue, SetFolder};
use crate::mistake::Mistake;
use crate::output::say;
use crate::progress;
use crate::store::arrow;
use crate::store::folder::Staging;
use anyhow::{Context, Result, anyhow};
use data_sets::DataSet;
use mcvi::fit::StopReason;
use mcvi::infer::{Checkpoint, Event, Request, VerdictKind, infer_from};
use mcvi::{Hardware, derive_seed, disk};
use result::Outcome;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;

/// The result of a fit, in its folder.
const SUMMARY: &str = "summary.json";

/// Fit every data set, or one shard of them.
pub fn run(options: &Options, each: &str) -> Result<()> {
    let Some(out) = &options.out else {
        return Err(Mistake("--each needs a folder for the results: --out DIR".to_owned()).into());
    };
    let sets = match &options.data {
        Some(table) => data_sets::levels(table, each)?,
        None => data_sets::files(Path::new(each), catalogue::extensions(&options.model)?)?,
    };
    let request = options.complete(options.request()?, &Checkpoint::default())?;
    request.check()?;
    let names: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
    let about =
        json!({ "model": options.model, "regression": options.regression, "raw": options.raw, "request": request });
    let folder = SetFolder::create(out, Manifest::new(Kind::Fits, about, names), options.shard)?;
    let mine: Vec<&DataSet> =
        sets.iter().enumerate().filter(|(i, _)| options.shard.is_none_or(|s| s.has(*i))).map(|(_, set)| set).collect();
    let items = mine.iter().map(|set| Item { name: set.name.clone(), after: None }).collect();
    let queue = Queue::new(items).map_err(|name| anyhow!("`{name}` waits for itself"))?;

    let interrupts = Interrupts::new();
    let bar = progress::bar(mine.len(), "Fitting");
    let at_a_time = request.hardware.threads.min(mine.len());
    let fits = Fits { options, request, folder: &folder, interrupts: &interrupts };
    let work = |i: usize| {
        let outcome = fits.one(mine[i]);
        bar.inc(1);
        outcome
    };
    let outcomes = many::run(queue, at_a_time, &interrupts, work, |name, error| {
        bar.suspend(|| say(&format!("{name}: {error:#}")));
    });
    bar.finish_and_clear();
    let way = (options.shard, Some(out.as_path()));
    let fitted = many::settle(outcomes, &interrupts, way, options.json)?;
    if options.shard.is_none() {
        let joined = joined(&folder)?;
        joined.write(out)?;
        joined.print(options.json, out)?;
    }
    let unfit = fitted.iter().filter(|fit| !fit["error"].is_null()).count();
    if unfit > 0 {
        return Err(anyhow!("{unfit} of {} data sets could not be fitted; the others are not affected", fitted.len()));
    }
    let bad = fitted.iter().filter(|fit| fit["verdict"] != VerdictKind::Good.word()).count();
    if options.strict && bad > 0 {
        return Err(anyhow!("{bad} of {} fits are not good, and --strict asks for good ones", fitted.len()));
    }
    Ok(())
}

/// What all fits share.
struct Fits<'a> {
    options: &'a Options,
    request: Request,
    folder: &'a SetFolder,
    interrupts: &'a Interrupts,
}

impl Fits<'_> {
    /// Fit one data set, unless that has been done. The result is a failure that would occur again, or a fit.
    fn one(&self, set: &DataSet) -> many::Outcome {
        let target = self.folder.item(&set.name);
        let checksum = set.checksum()?;
        if let Some(done) = read(&target)? {
            if done["error"].is_null() && done["data"] != checksum.as_str() {
                let why = format!("its data have changed; remove {} to fit it again", target.display());
                return Err(Mistake(why).into());
            }
            if done["error"].is_null() {
                return Ok(done);
            }
            disk::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))?;
        }
        let staging = Staging::new(&target)?;
        let mut request = self.request.clone();
        request.settings.seed = derive_seed(request.settings.seed, &set.name);
        // The fits are what runs side by side.
        request.hardware = Hardware { threads: 1, ..request.hardware };
        let about = json!({ "name": set.name, "seed": request.settings.seed, "data": checksum });
        let apart = self.folder.data(&set.name).unwrap_or_default();
        let file = set.file(&apart)?;
        let result = match self.fit(&file, &request) {
            Ok(outcome) if outcome.posterior.stop_reason == StopReason::Interrupted => {
                return Ok(json!({ "interrupted": true }));
            }
            Ok(outcome) => {
                write(staging.path(), &outcome, &request, set.is_apart())?;
                outcome.json()
            }
            Err(error) => json!({ "error": named(&format!("{error:#}"), &file, &set.name) }),
        };
        let mut summary = about;
        if let (Some(summary), Value::Object(result)) = (summary.as_object_mut(), result) {
            // The same fit takes another time each time.
            summary.extend(result.into_iter().filter(|(key, _)| key != "seconds"));
        }
        let text = format!("{summary:#}\n");
        disk::write_new(staging.path().join(SUMMARY), text.as_bytes()).context("cannot write the summary")?;
        staging.commit()?;
        Ok(summary)
    }

    fn fit(&self, data: &Path, request: &Request) -> Result<Outcome> {
        let model = catalogue::open(&self.options.model, Some(data), &self.options.regression)?;
        let posterior = infer_from(model, request, &Checkpoint::default(), |event| match event {
            Event::Trace { .. } => self.interrupts.flow(),
            _ => ControlFlow::Continue(()),
        })?;
        Outcome::new(posterior, (request.draws, self.options.raw), 0.0)
    }
}

/// Write what further draws and a repetition need, and the draws.
fn write(folder: &Path, outcome: &Outcome, request: &Request, is_apart: bool) -> Result<()> {
    let p = &outcome.posterior;
    let ending = (p.stop_reason, p.iterations);
    if let Some(mut settings) = Settings::new(p.model.as_ref(), p.approximation.chain(), request, ending)? {
        if is_apart {
            settings.data_beside();
        }
        let text = format!("{:#}\n", json!(settings));
        disk::write_new(folder.join(super::settings::FILE), text.as_bytes()).context("cannot write the settings")?;
    }
    p.approximation.save(folder.join(files::FIT))?;
    let written = p.model.quantities(&outcome.draws.z, None, p.approximation.hardware())?;
    let columns = result::table(&written, &outcome.draws, outcome.is_resampled);
    arrow::write(&folder.join("draws.arrow"), &columns).context("cannot write draws.arrow")
}

/// An error of a fit, in which the file has the name of the data set: its place differs between machines.
fn named(error: &str, file: &Path, name: &str) -> String {
    let whole = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    error.replace(&*whole.to_string_lossy(), name).replace(&*file.to_string_lossy(), name)
}

/// The result of a fit; none if there is none.
fn read(item: &Path) -> Result<Option<Value>> {
    let path = item.join(SUMMARY);
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Mistake(format!("{}: {error}", path.display())).into()),
        Ok(bytes) => {
            let bad =
                |e: serde_json::Error| Mistake(format!("{}: {e}; remove its folder to fit it again", path.display()));
            Ok(Some(serde_json::from_slice(&bytes).map_err(bad)?))
        }
    }
}
