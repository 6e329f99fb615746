//! The files a fit writes to its folder, and how they are read back.

use super::result::{Outcome, table};
use super::settings::{FILE, Identity, Saved};
use super::{arviz, page};
use crate::report;
use crate::store::folder::Staging;
use crate::store::{arrow, csv, zarr};
use anyhow::{Context, Result};
use mcvi::fit::StopReason;
use mcvi::infer::{Checkpoint, Request};
use mcvi::model::{Quantities, Quantity};
use mcvi::{BayesianModel, Hardware, InParts, Mixture, disk};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The fitted approximation, for further draws.
pub const FIT: &str = "fit.safetensors";
/// The state of the fit, for resuming.
pub const STATE: &str = "state.safetensors";

/// Pointwise log likelihoods, and numbers in replicated data, that are written unless more are asked for.
const POINTWISE: usize = 5_000_000;

/// So many of them are written in no time; of more, as many as this share of the time left allows to be computed, if that is
/// limited. Compressing and writing them takes the rest. The pace is that of a few draws.
const QUICK: usize = 500_000;
const COMPUTING: f64 = 0.3;
const PILOT: usize = 10;

/// What is written of a fit, as far as all processes that share its data compute it together.
pub struct Results {
    identity: Option<Identity>,
    written: Quantities,
    /// What was left out.
    note: String,
}

impl Results {
    /// Of a fit of the model that this identifies.
    pub fn new(outcome: &Outcome, identity: Option<Identity>, seed: u64) -> Result<Self> {
        let (written, note) = written(outcome, seed)?;
        Ok(Results { identity, written, note })
    }
}

/// Write all files to a folder that exists and is empty. Returns a note on what was left out.
pub fn write(folder: &Path, outcome: &Outcome, results: Results, request: &Request, summary: &Value) -> Result<String> {
    let p = &outcome.posterior;
    let Results { identity, written, note } = results;
    let json = |name: &str, value: &Value| -> Result<()> {
        disk::write_new(folder.join(name), format!("{value:#}\n").as_bytes())
            .with_context(|| format!("cannot write {name}"))
    };
    json("summary.json", summary)?;
    let chain = p.approximation.chain();
    if let Some(identity) = identity {
        json(FILE, &json!(identity.settings(chain, request, (p.stop_reason, p.iterations))))?;
    }
    let columns = table(&written, &outcome.draws, outcome.is_resampled);
    csv::write(&folder.join("draws.csv"), &columns).context("cannot write draws.csv")?;
    arrow::write(&folder.join("draws.arrow"), &columns).context("cannot write draws.arrow")?;
    p.approximation.save(folder.join(FIT))?;
    p.checkpoint.save(folder.join(STATE))?;
    let groups = arviz::groups(outcome, &written, request.settings.seed)?;
    zarr::write(&folder.join("arviz.zarr"), &groups).context("cannot write arviz.zarr")?;
    let page = report::render(&page::page(outcome, &written)?);
    disk::write_new(folder.join("report.html"), page.as_bytes()).context("cannot write report.html")?;
    Ok(note)
}

/// What follows from the draws that are written. Likelihoods and predictions are as many as draws times observations: only a folder
/// has use for them, and for large data only for some of the draws, evenly spaced, as a note says.
pub fn written(outcome: &Outcome, seed: u64) -> Result<(Quantities, String)> {
    let (p, z) = (&outcome.posterior, &outcome.draws.z);
    let (model, hardware) = (&p.model, p.approximation.hardware());
    let observations: usize = model.observations()?.iter().map(Quantity::size).sum();
    let planned = outcome.pointwise.unwrap_or(POINTWISE / observations.max(1)).clamp(1, z.len());
    let timely = match outcome.seconds_left() {
        Some(left) if outcome.pointwise.is_none() && planned * observations > QUICK => {
            let (since, pilot) = (Instant::now(), PILOT.min(planned));
            model.quantities(&z[..pilot], Some(seed), hardware)?;
            let count = COMPUTING * left / since.elapsed().as_secs_f64() * pilot as f64;
            // Ranks write as many.
            model.ranks().map_or(Ok(count), |ranks| ranks.agree(count))? as usize
        }
        _ => planned,
    };
    let count = planned.min(timely.max(QUICK / observations.max(1)).max(1));
    let missing = |q: &Quantities| q.note.as_ref().map_or_else(String::new, |note| format!("\n{note}"));
    if count == z.len() {
        let all = model.quantities(z, Some(seed), hardware)?;
        let note = missing(&all);
        return Ok((all, note));
    }
    let some: Vec<Vec<f64>> = arviz::thinned(z.len(), count).into_iter().map(|i| z[i].clone()).collect();
    let count = some.len();
    let some = model.quantities(&some, Some(seed), hardware)?;
    let note = format!(
        "\nLog likelihoods of observations and replicated data are those of {count} of the {} draws; for all: --pointwise all",
        z.len()
    );
    let note = if some.log_likelihood.is_empty() { missing(&some) } else { note + &missing(&some) };
    let all = model.quantities(z, None, hardware)?;
    Ok((Quantities { parameters: all.parameters, generated: all.generated, ..some }, note))
}

/// Publish the state of a fit that was stopped, so that it can be resumed whatever happens before all files are written.
pub fn publish_state(
    staging: &mut Staging,
    identity: &Identity,
    request: &Request,
    (reason, state): (StopReason, &Checkpoint),
) -> Result<()> {
    let Some(chain) = state.chain() else { return Ok(()) };
    let settings = identity.settings(chain, request, (reason, state.iterations()));
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
    let approximation = approximation(&saved, model.clone(), hardware)?;
    Ok((model, approximation, saved.settings.request.settings.seed))
}

/// The fitted approximation of a saved run.
pub fn approximation(saved: &Saved, model: Arc<dyn BayesianModel>, hardware: Hardware) -> Result<Mixture> {
    // As it was fitted.
    let target = Arc::new(InParts::new(model, hardware));
    Ok(Mixture::read(&saved.file(FIT), target, Some(saved.settings.chain.clone()), hardware)?)
}
