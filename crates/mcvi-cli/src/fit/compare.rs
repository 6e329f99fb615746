//! `mcvi compare`: saved fits of the same data side by side, by cross-validation and by evidence.

use super::{MORE, files};
use crate::mistake::Mistake;
use crate::number::{counted, fixed, json_number};
use crate::output::{HardwareOptions, print_result};
use anyhow::Result;
use clap::Args;
use mcvi::diagnostics::{Loo, RELIABLE_K};
use mcvi::limits;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Options of `mcvi compare`.
#[derive(Args)]
pub struct Options {
    /// The folders of fits of the same data (`mcvi fit … --out RUN`).
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Draws to compare by.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=limits::DRAWS as i64))]
    draws: u32,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A fit, and how well its model predicts.
struct Compared {
    run: String,
    description: String,
    loo: Loo,
    verdict: String,
    evidence: Option<(f64, f64)>,
}

/// Compare.
pub fn run(options: &Options) -> Result<()> {
    let hardware = options.hardware.resolved()?;
    let mut all = vec![];
    let mut observed: Option<(String, Vec<f64>)> = None;
    for run in &options.runs {
        let (model, approximation, seed) = files::load(run, hardware)?;
        let name = run.display().to_string();
        let now: Vec<f64> = model.observations()?.into_iter().flat_map(|o| o.values).collect();
        match &observed {
            Some((first, values)) if *values != now => {
                let (n, m) = (counted(values.len(), "value"), counted(now.len(), "value"));
                let why = format!(
                    "{first} and {name} are fits of other observations ({n} and {m}): only fits of the same can be compared"
                );
                return Err(Mistake(why).into());
            }
            Some(_) => {}
            None => observed = Some((name.clone(), now)),
        }
        let seed = mcvi::derive_seed(seed, MORE);
        let (_, draws, _) = super::draws(model.as_ref(), &approximation, options.draws as usize, false, seed)?;
        let q = model.quantities(&draws.z, Some(seed), hardware)?;
        if q.log_likelihood.is_empty() {
            return Err(Mistake(format!("{name} has no log likelihood for each observation")).into());
        }
        // Observations of several names are observations all the same.
        let n = q.log_likelihood.iter().map(mcvi::model::Quantity::size).sum();
        let row = |i: usize| {
            q.log_likelihood.iter().flat_map(move |l| l.values[i * l.size()..(i + 1) * l.size()].iter().copied())
        };
        let likelihood: Vec<f64> = (0..draws.z.len()).flat_map(row).collect();
        let about = model.about();
        let summary = summary(run);
        let verdict = summary["verdict"].as_str().unwrap_or("unknown").to_owned();
        let number = |key: &str| summary["log_evidence"][key].as_f64();
        let evidence = number("value").zip(number("se"));
        let description =
            if about.description.is_empty() { about.name } else { format!("{}: {}", about.name, about.description) };
        all.push(Compared { run: name, description, loo: Loo::new(&likelihood, n), verdict, evidence });
    }
    all.sort_by(|a, b| b.loo.elpd().value.total_cmp(&a.loo.elpd().value));
    print_result(options.json, &as_json(&all), &text(&all))
}

/// What a fit said of itself.
fn summary(run: &Path) -> Value {
    let text = std::fs::read_to_string(run.join("summary.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

impl Compared {
    /// How many observations cannot be left out reliably.
    fn unreliable(&self) -> usize {
        self.loo.k.iter().filter(|k| **k > RELIABLE_K && k.is_finite()).count()
    }
}

fn text(all: &[Compared]) -> String {
    let wide = all.iter().map(|c| c.run.chars().count()).max().unwrap_or(0).max(4);
    let mut text = format!(
        "{:wide$}  {:>10} {:>7}  {:>10} {:>7}  {:>6}  {:>5}  {:>10} {:>7}\n",
        "fit", "elpd", "se", "difference", "se", "p", "k>0.7", "log p(x)", "se"
    );
    for c in all {
        let (elpd, less) = (c.loo.elpd(), all[0].loo.difference(&c.loo));
        let (value, se) = c.evidence.map_or(("–".to_owned(), "–".to_owned()), |(v, s)| (fixed(v, 2), fixed(s, 2)));
        let _ = writeln!(
            text,
            "{:wide$}  {:>10} {:>7}  {:>10} {:>7}  {:>6}  {:>5}  {value:>10} {se:>7}",
            c.run,
            fixed(elpd.value, 1),
            fixed(elpd.se, 1),
            fixed(less.value, 1),
            fixed(less.se, 1),
            fixed(c.loo.parameters, 1),
            c.unreliable(),
        );
    }
    text += "\nelpd: the expected log density of new observations, by leaving each out (PSIS-LOO); higher is better. log p(x): \
             the evidence, which depends on priors.\n";
    for c in all {
        let _ = writeln!(text, "{} is {}", c.run, c.description);
        if c.verdict != "good" {
            let _ = writeln!(text, "  its verdict is {}", c.verdict);
        }
        if c.unreliable() > 0 {
            let n = counted(c.unreliable(), "observation");
            let _ = writeln!(text, "  {n} with Pareto k̂ above {RELIABLE_K}: elpd is not reliable there");
        }
    }
    text.trim_end().to_owned()
}

fn as_json(all: &[Compared]) -> Value {
    let n = json_number;
    let one = |c: &Compared| {
        let (elpd, less) = (c.loo.elpd(), all[0].loo.difference(&c.loo));
        json!({
            "run": c.run,
            "model": c.description,
            "elpd": { "value": n(elpd.value), "se": n(elpd.se) },
            "difference": { "value": n(less.value), "se": n(less.se) },
            "effective_parameters": n(c.loo.parameters),
            "unreliable": c.unreliable(),
            "log_evidence": c.evidence.map(|(value, se)| json!({ "value": n(value), "se": n(se) })),
            "verdict": c.verdict,
        })
    };
    json!({ "fits": all.iter().map(one).collect::<Vec<_>>() })
}
