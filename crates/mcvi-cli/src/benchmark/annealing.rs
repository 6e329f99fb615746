//! Annealed importance sampling from a wide start: for targets whose modes no chain from one Gaussian reaches.

use super::row::Row;
use anyhow::Result;
use mcvi::diagnostics::{log_mean_exp, mean, psis};
use mcvi::evidence::EvidenceTarget;
use mcvi::model::Model;
use mcvi::{Hardware, WideStart};
use std::sync::Arc;
use std::time::Instant;

/// Temperatures unless set.
pub const TEMPERATURES: usize = 4000;

/// At most this many draws: each takes thousands of gradients.
const DRAWS: usize = 25_000;

/// Anneal, and judge the weights. Nothing is trained, so the draws by which it is judged are those it takes.
pub fn anneal(
    target: &'static EvidenceTarget,
    model: Model,
    temperatures: usize,
    draws: usize,
    seed: u64,
    hardware: Hardware,
) -> Result<Row> {
    let started = Instant::now();
    let start = WideStart::find(&model, seed)?;
    let weights = start.anneal(Arc::new(model), temperatures, draws.min(DRAWS), seed, hardware)?.log_weights;
    Ok(Row {
        target,
        kernel: "annealing".to_owned(),
        steps: temperatures,
        seed,
        bound: mean(&weights),
        log_evidence: log_mean_exp(&weights),
        pareto_k: psis(&weights).k,
        seconds: started.elapsed().as_secs_f64(),
        gradients: WideStart::gradients(temperatures),
    })
}
