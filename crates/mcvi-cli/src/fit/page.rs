//! The report of a fit.

use super::result::{Outcome, advice, attempt_text, is_internal};
use crate::number::{counted, fixed, with_error};
use crate::report::{self, Page, ParameterRow, Section, Table};
use anyhow::Result;
use mcvi::diagnostics::RELIABLE_K;
use mcvi::infer::{Mode, PredictiveCheck};
use mcvi::model::{Quantities, Quantity};
use mcvi::{BayesianModel, Hardware};

/// Draws by which conditional effects are shown, and seconds that they may need.
const FEW: usize = 400;
const EFFECTS: f64 = 2.0;

/// Left out of intervals: its scale is another one.
const INTERCEPT: &str = "intercept";

/// A mode in words: its position in the model's own parameters, its bound and its share of the mass.
fn describe(mode: &Mode, model: &dyn BayesianModel) -> Result<String> {
    let center = std::slice::from_ref(&mode.initialisation.center);
    let there = model.quantities(center, None, Hardware::with_threads(1))?;
    let elements = there.parameters.iter().flat_map(|q| q.names().into_iter().zip(q.values.clone()));
    let mut place: Vec<String> = elements.map(|(name, x)| format!("{name} = {}", fixed(x, 2))).collect();
    if place.len() > 4 {
        place.splice(4.., ["…".to_owned()]);
    }
    let bound = mode.diagnostics.as_ref().map_or_else(String::new, |j| format!("; bound {}", with_error(j.bound, 4)));
    let found = match mode.starts {
        0 => "by annealing or along rays".to_owned(),
        n => format!("from {}", counted(n, "starting point")),
    };
    Ok(format!("{}{bound}; {:.1} % of the mass; found {found}", place.join(", "), 100.0 * mode.share))
}

/// The page of the report.
pub fn page(outcome: &Outcome, written: &Quantities) -> Result<Page> {
    let (p, j) = (&outcome.posterior, &outcome.posterior.diagnostics);
    let about = p.model.about();
    let mut facts = vec![
        ("Lower bound on log p(x)".to_owned(), with_error(j.bound, 4)),
        ("log p(x) by importance weights".to_owned(), outcome.evidence()),
        ("Pareto k̂".to_owned(), format!("{:.2}", j.pareto_k)),
        ("Effective share of draws".to_owned(), format!("{:.1} %", 100.0 * p.effective_share())),
        ("R² of paths".to_owned(), format!("{:.3}", j.r2_path)),
        ("Divergent trajectories".to_owned(), format!("{} of {}", j.diverged, p.draws.z.len())),
        ("Chain".to_owned(), p.approximation.chain().to_string()),
        ("Iterations, seconds".to_owned(), format!("{}, {:.1}", p.iterations, outcome.seconds)),
        ("Summaries".to_owned(), if p.is_reweightable() { "reweighted (Pareto-smoothed)" } else { "raw" }.to_owned()),
    ];
    if p.modes.len() > 1 {
        for (i, mode) in p.modes.iter().enumerate() {
            facts.push((format!("Mode {} of {}", i + 1, p.modes.len()), describe(mode, p.model.as_ref())?));
        }
    }
    for (i, attempt) in p.attempts.iter().enumerate().filter(|_| p.attempts.len() > 1) {
        let kept = if i == p.kept { ", kept" } else { "" };
        facts.push((format!("Attempt {}{kept}", i + 1), format!("{}: {}", attempt.chain, attempt_text(attempt))));
    }
    facts.extend(outcome.missed().into_iter().map(|missed| ("The model misses".to_owned(), missed)));
    facts.extend(about.notes.iter().map(|n| ("Note".to_owned(), n.clone())));
    let internal = p.model.internal();
    let parameters = outcome
        .summaries
        .0
        .iter()
        .map(|(name, s)| ParameterRow {
            name: name.clone(),
            is_internal: is_internal(&internal, name),
            // What the tails do not allow to be estimated is not there.
            mean: if s.has_mean { s.mean } else { f64::NAN },
            sd: if s.has_sd { s.sd } else { f64::NAN },
            q05: s.q05,
            q50: s.q50,
            q95: s.q95,
        })
        .collect();
    let parameters: Vec<ParameterRow> = parameters;
    let own: Vec<ParameterRow> = parameters
        .iter()
        .filter(|row| !row.is_internal && row.name != INTERCEPT)
        .take(report::figures::INTERVALS)
        .cloned()
        .collect();
    // Where parameters are for the computation only, quantities that follow from them are shown.
    let generated = written.generated.iter().filter(|_| !internal.is_empty());
    let shown = generated.chain(&written.parameters).filter(|q| !internal.contains(&q.name));
    let columns: Vec<(String, Vec<f64>)> = shown.flat_map(Quantity::columns).collect();
    let section = |title: &str, text: &str, figure: crate::plot::Figure| Section {
        title: title.to_owned(),
        text: text.to_owned(),
        figure: Some(figure.to_svg()),
        table: None,
    };
    let kept = p.attempts.get(p.kept).and_then(|a| a.outcome.as_ref().ok());
    let trace: Vec<(f64, f64, f64)> =
        kept.map_or(vec![], |f| f.report.trace.iter().map(|l| (l.iteration as f64, l.bound, l.se)).collect());
    let pair = |m: &mcvi::diagnostics::Mean| (m.value, m.se);
    let steps: Vec<(f64, f64)> = j.steps.iter().map(pair).collect();
    let mut sections = vec![];
    // A Gaussian that was good from the beginning has none.
    if !trace.is_empty() {
        sections.push(section(
            "The bound during the fit",
            "Each point is the mean of 50 iterations; the curve should have levelled off.",
            report::figures::bound_trace(&trace),
        ));
    }
    let intervals: Vec<(String, f64, f64, f64)> =
        own.iter().map(|row: &ParameterRow| (row.name.clone(), row.q05, row.q50, row.q95)).collect();
    if intervals.len() > 1 && intervals.iter().all(|(_, low, _, high)| low.is_finite() && high.is_finite()) {
        let text = "Medians and central 90 % intervals, without the intercept.";
        sections.push(section("Intervals", text, report::figures::forest(&intervals)));
    }
    sections.push(section(
        "Marginals",
        if outcome.is_resampled {
            "Draws of the first parameters."
        } else {
            "Raw draws of the first parameters, before any reweighting."
        },
        report::figures::marginals(&columns),
    ));
    if columns.len() > 1 {
        sections.push(section("Pairs", "Draws of pairs of parameters.", report::figures::pairs(&columns)));
    }
    let effects = match outcome.seconds_left() {
        Some(left) if left < EFFECTS => vec![],
        _ => p
            .model
            .conditional_effects(&outcome.draws.z[..outcome.draws.z.len().min(FEW)], Hardware::with_threads(1))?,
    };
    if !effects.is_empty() {
        let response = written.predictive.first().map_or("expected response", |q| q.name.as_str());
        let text = "The expected response by one column at a time, all others at their median or most frequent category, \
                    and of a new group where there are groups: median and central 90 %.";
        sections.push(section("Conditional effects", text, report::figures::effects(&effects, response)));
    }
    if let Some(q) = written.predictive.first() {
        let observed = p.model.observations()?.into_iter().find(|o| o.name == q.name);
        if let Some(observed) = observed {
            let replicates: Vec<Vec<f64>> = q.values.chunks(q.size()).take(50).map(<[f64]>::to_vec).collect();
            sections.push(section(
                "Predictive check",
                "Observations beside replicated data from the fitted model: they should look alike.",
                report::figures::predictive_check(&observed.values, &replicates),
            ));
            if let Some(section) = sections.last_mut() {
                section.table = Some(checks(&outcome.checks));
            }
        }
    }
    if !steps.is_empty() {
        sections.push(section(
            "What each step adds",
            "The bound before the first step, and E log α of each step on top of it.",
            report::figures::contributions(pair(&mcvi::diagnostics::mean(&p.draws.first)), &steps),
        ));
    }
    sections.push(section(
        "Weights",
        &format!(
            "Log weights of the draws. A heavy upper tail (k̂ above {RELIABLE_K}) means that some regions are missed."
        ),
        report::figures::weights(&p.draws.log_weights[..outcome.count], j.pareto_k),
    ));
    Ok(Page {
        title: format!("{}: {}", about.name, about.description),
        verdict: Some(report::Verdict {
            kind: p.verdict.kind,
            headline: outcome.headline().to_owned(),
            reasons: p.verdict.reasons.clone(),
            next: p.verdict.advice.iter().copied().map(advice).collect(),
        }),
        facts,
        parameters,
        sections,
        footer: format!("mcvi {}", env!("CARGO_PKG_VERSION")),
    })
}

/// Predictive checks as a table.
fn checks(checks: &[PredictiveCheck]) -> Table {
    let row = |c: &PredictiveCheck| {
        let name = format!("{} of {}", c.statistic.words(), c.name);
        vec![name, fixed(c.observed, 3), fixed(c.predicted, 3), fixed(c.p_value, 3)]
    };
    let header = ["", "observed", "predicted", "p"].map(str::to_owned).to_vec();
    Table { columns: header, rows: checks.iter().map(row).collect() }
}
