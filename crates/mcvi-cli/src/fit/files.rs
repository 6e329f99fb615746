//! What a fit leaves in its folder, and reading it back.

use super::problem::Problem;
use super::result::{Outcome, table};
use super::settings::{self, Saved};
use crate::number::{fixed, with_error};
use crate::report::{self, Page, ParameterRow, Section};
use crate::store::zarr::{Group, Values, Variable};
use crate::store::{arrow, csv, zarr};
use anyhow::{Context, Result};
use mcvi::Approximation;
use mcvi::infer::{Mode, Request};
use mcvi::model::Quantity;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The fit, to be drawn from.
const FIT: &str = "fit.safetensors";
/// Where the fit stood, to be gone on from.
pub const STATE: &str = "state.safetensors";
/// Prior draws kept beside the posterior's.
const PRIOR: usize = 1000;

/// Write everything into a folder that exists and is empty.
pub fn write(folder: &Path, outcome: &Outcome, problem: &Problem, request: &Request, summary: &Value) -> Result<()> {
    let p = &outcome.posterior;
    let json = |name: &str, value: &Value| -> Result<()> {
        std::fs::write(folder.join(name), format!("{value:#}\n")).with_context(|| format!("cannot write {name}"))
    };
    json("summary.json", summary)?;
    json("settings.json", &settings::write(outcome, problem, request))?;
    let columns = table(&outcome.written, &p.draws, outcome.count);
    csv::write(&folder.join("draws.csv"), &columns).context("cannot write draws.csv")?;
    arrow::write(&folder.join("draws.arrow"), &columns).context("cannot write draws.arrow")?;
    p.approximation.save(folder.join(FIT))?;
    p.checkpoint.save(folder.join(STATE))?;
    zarr::write(&folder.join("arviz.zarr"), &groups(outcome, problem, request)?).context("cannot write arviz.zarr")?;
    let page = report::render(&page(outcome, problem)?);
    std::fs::write(folder.join("report.html"), page).context("cannot write report.html")
}

/// The model and the fit of a folder written before.
pub fn load(folder: &Path) -> Result<(Problem, Approximation)> {
    let saved = Saved::open(folder)?;
    let (problem, shape) = (saved.problem()?, saved.shape()?);
    let chain = shape.chain(mcvi::Target::dim(&problem.model));
    let approximation = Approximation::load(saved.file(FIT), problem.model.clone(), chain)?;
    Ok((problem, approximation))
}

/// A variable with a chain, its draws and its own dimensions.
fn variable(q: &Quantity, name: &str, picked: Option<&[usize]>) -> Variable {
    let size = q.size().max(1);
    let count = picked.map_or(q.values.len() / size, <[usize]>::len);
    let values = match picked {
        None => q.values.clone(),
        Some(picked) => picked.iter().flat_map(|&i| q.values[i * size..(i + 1) * size].iter().copied()).collect(),
    };
    let mut dims = vec![("chain".to_owned(), 1), ("draw".to_owned(), count)];
    dims.extend(q.shape.iter().enumerate().map(|(i, n)| (format!("{}_dim_{i}", q.name), *n)));
    Variable { name: name.to_owned(), dims, values: Values::F64(values) }
}

/// The groups ArviZ expects. Where reweighting is sound, posterior draws are resampled by their smoothed weights, so
/// that whatever is computed from the store is about the posterior.
fn groups(outcome: &Outcome, problem: &Problem, request: &Request) -> Result<Vec<Group>> {
    let (draws, q) = (&outcome.posterior.draws, &outcome.written);
    let picked = outcome.reweighted.then(|| resample(&draws.log_weights[..outcome.count], request.settings.seed));
    let picked = picked.as_deref();
    let attributes: Map<String, Value> = [
        ("inference_library", json!("mcvi")),
        ("inference_library_version", json!(env!("CARGO_PKG_VERSION"))),
        ("draws", json!(if outcome.reweighted { "resampled by smoothed importance weights" } else { "raw" })),
        ("verdict", json!(outcome.posterior.verdict.kind.word())),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect();
    let group = |name: &str, variables: Vec<Variable>| Group {
        name: name.to_owned(),
        attributes: attributes.clone(),
        variables,
    };
    let all = |list: &[Quantity], picked: Option<&[usize]>| -> Vec<Variable> {
        list.iter().map(|q| variable(q, &q.name, picked)).collect()
    };
    let posterior = [all(&q.parameters, picked), all(&q.generated, picked)].concat();
    let stat = |name: &str, values: &[f64]| {
        let q = Quantity { name: name.to_owned(), shape: vec![], values: values[..outcome.count].to_vec() };
        variable(&q, name, picked)
    };
    let log_q: Vec<f64> = draws.log_p.iter().zip(&draws.log_weights).map(|(p, w)| p - w).collect();
    let stats = vec![stat("lp", &draws.log_p), stat("log_q", &log_q), stat("log_weight", &draws.log_weights)];
    let mut groups = vec![group("posterior", posterior), group("sample_stats", stats)];
    if !q.log_likelihood.is_empty() {
        groups.push(group("log_likelihood", all(&q.log_likelihood, picked)));
        groups.push(group("posterior_predictive", all(&q.predictive, picked)));
        let observed = problem.model.observations()?.into_iter().map(|o| Variable {
            name: o.name.clone(),
            dims: o.shape.iter().enumerate().map(|(i, n)| (format!("{}_dim_{i}", o.name), *n)).collect(),
            values: Values::F64(o.values),
        });
        groups.push(group("observed_data", observed.collect()));
    }
    match problem.model.prior(PRIOR, request.settings.seed) {
        Ok(prior) => groups.push(group("prior", all(&prior.parameters, None))),
        // A flat prior has no draws.
        Err(mcvi::Error::CannotDraw { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(groups)
}

/// Systematic resampling by smoothed weights.
fn resample(log_weights: &[f64], seed: u64) -> Vec<usize> {
    let weights: Vec<f64> = mcvi::diagnostics::psis(log_weights).log_weights.iter().map(|l| l.exp()).collect();
    let (n, total) = (weights.len(), weights.iter().sum::<f64>());
    let offset = (seed as f64 * 0.618_033_988_749_895).fract();
    let (mut picked, mut reached, mut i) = (Vec::with_capacity(n), weights[0], 0);
    for k in 0..n {
        let at = (k as f64 + offset) / n as f64 * total;
        while reached < at && i + 1 < n {
            i += 1;
            reached += weights[i];
        }
        picked.push(i);
    }
    picked
}

/// A mode in words: where it is in the model's own parameters, its bound, its share.
fn describe(mode: &Mode, problem: &Problem) -> Result<String> {
    let there = problem.model.constrained(std::slice::from_ref(&mode.start.center))?;
    let elements = there.parameters.iter().flat_map(|q| q.names().into_iter().zip(q.values.clone()));
    let mut place: Vec<String> = elements.map(|(name, x)| format!("{name} = {}", fixed(x, 2))).collect();
    if place.len() > 4 {
        place.splice(4.., ["…".to_owned()]);
    }
    let bound = mode.judgement.as_ref().map_or_else(String::new, |j| format!("; bound {}", with_error(j.bound, 4)));
    Ok(format!("{}{bound}; {:.1} % of the mass; met from {} starts", place.join(", "), 100.0 * mode.share, mode.starts))
}

/// The page of the report.
fn page(outcome: &Outcome, problem: &Problem) -> Result<Page> {
    let (p, j) = (&outcome.posterior, &outcome.posterior.judgement);
    let mut facts = vec![
        ("Lower bound on log p(x)".to_owned(), with_error(j.bound, 4)),
        ("log p(x) by importance weights".to_owned(), outcome.evidence()),
        ("Pareto k̂".to_owned(), format!("{:.2}", j.pareto_k)),
        ("Effective share of draws".to_owned(), format!("{:.1} %", 100.0 * outcome.share())),
        ("R² of paths".to_owned(), format!("{:.3}", j.r2_path)),
        ("Divergent trajectories".to_owned(), format!("{} of {}", j.diverged, p.draws.z.len())),
        ("Chain".to_owned(), p.shape.name()),
        ("Iterations, seconds".to_owned(), format!("{}, {:.1}", p.iterations, outcome.seconds)),
        ("Summaries".to_owned(), if outcome.reweighted { "reweighted (Pareto-smoothed)" } else { "raw" }.to_owned()),
    ];
    if p.modes.len() > 1 {
        for (i, mode) in p.modes.iter().enumerate() {
            facts.push((format!("Mode {} of {}", i + 1, p.modes.len()), describe(mode, problem)?));
        }
    }
    facts.extend(outcome.notes.iter().map(|n| ("Note".to_owned(), n.clone())));
    let parameters = outcome
        .summaries
        .iter()
        .map(|(name, s)| ParameterRow {
            name: name.clone(),
            mean: s.mean,
            sd: s.sd,
            q05: s.q05,
            q50: s.q50,
            q95: s.q95,
        })
        .collect();
    let columns: Vec<(String, Vec<f64>)> = outcome
        .written
        .parameters
        .iter()
        .flat_map(|q| q.names().into_iter().enumerate().map(|(i, n)| (n, q.column(i))).collect::<Vec<_>>())
        .collect();
    let section = |title: &str, text: &str, figure: crate::plot::Figure| Section {
        title: title.to_owned(),
        text: text.to_owned(),
        figure: Some(figure.to_svg()),
        table: None,
    };
    let trace: Vec<(f64, f64, f64)> = p
        .attempts
        .get(p.kept)
        .map_or(vec![], |a| a.report.trace.iter().map(|l| (l.iteration as f64, l.bound, l.se)).collect());
    let pair = |m: &mcvi::diagnostics::Mean| (m.value, m.se);
    let steps: Vec<(f64, f64)> = j.steps.iter().map(pair).collect();
    let mut sections = vec![
        section(
            "The bound while it was learned",
            "Each point is the mean of 50 iterations; it should have levelled out.",
            report::figures::bound_trace(&trace),
        ),
        section(
            "Marginals",
            "Draws of the first parameters, as they are, before any reweighting.",
            report::figures::marginals(&columns),
        ),
    ];
    if columns.len() > 1 {
        sections.push(section("Pairs", "Draws of pairs of parameters.", report::figures::pairs(&columns)));
    }
    if let Some(q) = outcome.written.predictive.first() {
        let observed = problem.model.observations()?.into_iter().find(|o| o.name == q.name);
        if let Some(observed) = observed {
            let replicates: Vec<Vec<f64>> = q.values.chunks(q.size()).take(50).map(<[f64]>::to_vec).collect();
            sections.push(section(
                "Predictive check",
                "Observations beside new ones drawn from the fitted model: they should look alike.",
                report::figures::predictive_check(&observed.values, &replicates),
            ));
        }
    }
    sections.push(section(
        "What each step adds",
        "The bound before the first step, and E log α of each step on top of it.",
        report::figures::contributions(pair(&mcvi::diagnostics::mean(&p.draws.first)), &steps),
    ));
    sections.push(section(
        "Weights",
        "Log weights of the draws. A heavy upper tail (k̂ above 0.7) means that some regions are missed.",
        report::figures::weights(&p.draws.log_weights[..outcome.count], j.pareto_k),
    ));
    Ok(Page {
        title: format!("{}: {}", outcome.name, outcome.about),
        verdict: Some(report::Verdict {
            kind: p.verdict.kind,
            headline: outcome.headline().to_owned(),
            reasons: p.verdict.reasons.clone(),
            next: p.verdict.next.clone(),
        }),
        facts,
        parameters,
        sections,
        footer: format!("mcvi {}", env!("CARGO_PKG_VERSION")),
    })
}
