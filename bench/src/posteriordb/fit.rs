//! A fit with the default settings, and its means and standard deviations beside those of reference draws.

use super::folder::Moments;
use mcvi::Hardware;
use mcvi::infer::{Budget, Request, infer};
use mcvi_stan::StanModel;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// What came of a fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fit {
    /// The verdict's word.
    pub verdict: String,
    /// Its reasons.
    pub reasons: Vec<String>,
    /// The chain that was kept, in words.
    pub chain: String,
    /// The bound; none here and below if it is not finite.
    pub bound: Option<f64>,
    /// The importance-weighted log p(x).
    pub log_evidence: Option<f64>,
    /// Pareto k̂ of the weights.
    pub pareto_k: Option<f64>,
    /// The effective share of the draws.
    pub effective: f64,
    /// Numbers with a reference.
    pub compared: usize,
    /// Numbers with a reference whose mean or standard deviation is not reported.
    pub unreported: usize,
    /// The largest distance of a mean from its reference, in reference standard deviations, and of which number.
    pub mean_error: Option<(f64, String)>,
    /// The standard deviation that is furthest from its reference, as the ratio less 1, and of which number.
    pub sd_error: Option<(f64, String)>,
    /// Whether the limit on time played a part.
    pub is_stopped: bool,
    /// Wall time up to the verdict.
    pub seconds: f64,
}

/// Fit a posterior for at most so many seconds.
pub fn fit(
    model: StanModel,
    moments: &BTreeMap<String, Moments>,
    seconds: f64,
    hardware: Hardware,
) -> Result<Fit, String> {
    let budget = Budget { seconds: Some(seconds), ..Budget::default() };
    let request = Request { budget, hardware, ..Request::default() };
    let start = Instant::now();
    let posterior = infer(model, &request).map_err(|e| e.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let table = posterior.summaries().map_err(|e| e.to_string())?;
    let found: HashMap<&str, _> = table.0.iter().map(|(name, summary)| (name.as_str(), summary)).collect();
    let (mut means, mut sds, mut unreported) = (vec![], vec![], 0);
    for (name, reference) in moments {
        let Some(own) = found.get(name.as_str()) else {
            unreported += 1;
            continue;
        };
        unreported += usize::from(!(own.has_mean && own.has_sd));
        if own.has_mean {
            means.push(((own.mean - reference.mean).abs() / reference.sd, name.clone()));
        }
        if own.has_sd {
            sds.push((own.sd / reference.sd - 1.0, name.clone()));
        }
    }
    let finite = |x: f64| x.is_finite().then_some(x);
    let diagnostics = &posterior.diagnostics;
    Ok(Fit {
        verdict: posterior.verdict.kind.word().to_owned(),
        reasons: posterior.verdict.reasons.clone(),
        chain: posterior.attempts.get(posterior.kept).map_or_else(String::new, |a| a.chain.to_string()),
        bound: finite(diagnostics.bound.value),
        log_evidence: finite(diagnostics.log_evidence.value),
        pareto_k: finite(diagnostics.pareto_k),
        effective: posterior.effective_share(),
        compared: moments.len(),
        unreported,
        mean_error: means.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)),
        sd_error: sds.into_iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())),
        is_stopped: !posterior.stop_reason.is_complete(),
        seconds,
    })
}
