//! The files a fit writes to its folder, and how they are read back.

use super::result::{Outcome, table};
use super::settings::{FILE, Saved, Settings};
use super::{arviz, page};
use crate::report;
use crate::store::folder::Staging;
use crate::store::{arrow, csv, zarr};
use anyhow::{Context, Result};
use mcvi::fit::StopReason;
use mcvi::infer::{Checkpoint, Request};
use mcvi::{BayesianModel, Hardware, Mixture, disk};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// The fitted approximation, for further draws.
const FIT: &str = "fit.safetensors";
/// The state of the fit, for resuming.
pub const STATE: &str = "state.safetensors";

/// Write all files to a folder that exists and is empty.
pub fn write(folder: &Path, outcome: &Outcome, request: &Request, summary: &Value) -> Result<()> {
    let p = &outcome.posterior;
    let json = |name: &str, value: &Value| -> Result<()> {
        disk::write_new(folder.join(name), format!("{value:#}\n").as_bytes())
            .with_context(|| format!("cannot write {name}"))
    };
    json("summary.json", summary)?;
    let chain = p.approximation.chain();
    if let Some(settings) = Settings::new(p.model.as_ref(), chain, request, (p.stop_reason, p.iterations))? {
        json(FILE, &json!(settings))?;
    }
    // Likelihoods and predictions are as many as draws times observations: only a folder has use for them.
    let (z, hardware) = (&outcome.draws.z, p.approximation.hardware());
    let written = p.model.quantities(z, Some(request.settings.seed), hardware)?;
    let columns = table(&written, &outcome.draws, outcome.is_resampled);
    csv::write(&folder.join("draws.csv"), &columns).context("cannot write draws.csv")?;
    arrow::write(&folder.join("draws.arrow"), &columns).context("cannot write draws.arrow")?;
    p.approximation.save(folder.join(FIT))?;
    p.checkpoint.save(folder.join(STATE))?;
    let groups = arviz::groups(outcome, &written, request.settings.seed)?;
    zarr::write(&folder.join("arviz.zarr"), &groups).context("cannot write arviz.zarr")?;
    let page = report::render(&page::page(outcome, &written)?);
    disk::write_new(folder.join("report.html"), page.as_bytes()).context("cannot write report.html")
}

/// Publish the state of a fit that was stopped, so that it can be resumed whatever happens before all files are written.
pub fn publish_state(
    staging: &mut Staging,
    model: &dyn BayesianModel,
    request: &Request,
    (reason, state): (StopReason, &Checkpoint),
) -> Result<()> {
    let Some(chain) = state.chain() else { return Ok(()) };
    let Some(settings) = Settings::new(model, chain, request, (reason, state.iterations()))? else {
        return Ok(());
    };
    staging.publish(|folder| {
        disk::write_new(folder.join(FILE), format!("{:#}\n", json!(settings)).as_bytes())
            .with_context(|| format!("cannot write {FILE}"))?;
        Ok(state.save(folder.join(STATE))?)
    })
}

/// Read the folder of a fit: the model, the fitted approximation and the seed of the fit.
pub fn load(folder: &Path, hardware: Hardware) -> Result<(Arc<dyn BayesianModel>, Mixture, u64)> {
    let saved = Saved::open(folder)?;
    let model = saved.model()?;
    let chain = saved.settings.chain.clone();
    let approximation = Mixture::read(&saved.file(FIT), model.clone(), Some(chain), hardware)?;
    Ok((model, approximation, saved.settings.request.settings.seed))
}
