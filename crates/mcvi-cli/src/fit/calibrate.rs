//! `mcvi calibrate`: simulation-based calibration of the default fit.
//!
//! Parameters are drawn from the prior and data from the model given the parameters. The model is then fitted to these
//! data as by `mcvi fit`. If the posteriors are right, the share of draws below the true parameter is uniformly
//! distributed (Talts et al. 2018, "Validating Bayesian inference algorithms with simulation-based calibration").
//!
//! The true parameters are also a draw of the posterior, so that the fitted chain run backwards from them gives an upper bound on
//! log p(x) (Grosse et al. 2015, "Sandwiching the marginal likelihood using bidirectional Monte Carlo").

use super::catalogue;
use crate::bracket::Bracket;
use crate::mistake::Mistake;
use crate::number::json_number;
use crate::output::print_result;
use crate::{progress, work};
use anyhow::Result;
use clap::Args;
use mcvi::diagnostics::mean;
use mcvi::infer::{Request, VerdictKind, infer};
use mcvi::{BayesianModel, Hardware};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Options of `mcvi calibrate`.
#[derive(Args)]
pub struct Options {
    /// A model with proper priors and observations.
    #[arg(default_value = "eight-schools", value_name = "NAME")]
    model: String,
    /// For a regression: a CSV file with a header.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// For a regression: the column to predict.
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// Data sets to simulate and fit.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(20..=10_000))]
    simulations: u16,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Paths run backwards from the true parameters of a data set; their upper bounds are averaged.
const PATHS: usize = 1000;

/// The share of draws below each true parameter in one fit, the verdict on that fit, and the bounds on log p(x) of its data.
struct Simulation {
    shares: Vec<f64>,
    verdict: VerdictKind,
    bounds: Option<[f64; 2]>,
}

/// Simulate, fit, compare.
pub fn run(options: &Options) -> Result<()> {
    let model = catalogue::open(&options.model, options.data.as_deref(), options.target.as_deref())?;
    let name = model.about().name;
    let count = usize::from(options.simulations);
    let cannot = |why: &dyn std::fmt::Display| Mistake(format!("{name} cannot be simulated from: {why}"));
    let prior = match model.prior(count, options.seed) {
        Err(error @ mcvi::Error::CannotDraw { .. }) => return Err(cannot(&error).into()),
        other => other?,
    };
    if prior.predictive.is_empty() {
        return Err(cannot(&"it has no observations").into());
    }
    let truths = model.unconstrained(&prior.parameters);
    let numbers: Vec<usize> = (0..count).collect();
    let bar = progress::bar(count, "Calibrating");
    let threads = crate::output::threads_or_all(options.threads);
    let done = work::all(&numbers, threads, |&i| {
        let data: Vec<(String, Vec<f64>)> = prior
            .predictive
            .iter()
            .map(|q| (q.name.clone(), q.values[i * q.size()..(i + 1) * q.size()].to_vec()))
            .collect();
        let mut request = Request { hardware: Hardware::with_threads(1), ..Request::default() };
        request.settings.seed = options.seed.wrapping_add(i as u64);
        let posterior = match infer(model.observing(&data)?, &request) {
            // A data set that cannot be fitted counts as failed.
            Err(mcvi::Error::Fit { .. } | mcvi::Error::Target { .. }) => {
                bar.inc(1);
                return Ok(None);
            }
            other => other?,
        };
        let weights = posterior.weights();
        let fitted = posterior.model.quantities(&posterior.draws.z, None, request.hardware)?;
        let mut shares = vec![];
        for (q, truth) in fitted.parameters.iter().zip(&prior.parameters) {
            for e in 0..q.size() {
                shares.push(weights.below(&q.column(e), truth.values[i * q.size() + e]));
            }
        }
        let upper = |truth: &Vec<f64>| {
            posterior
                .approximation
                .upper_bounds(&vec![truth.clone(); PATHS], request.settings.seed)
                .map(|u| mean(&u).value)
        };
        let upper = truths.as_ref().ok().map(|truths| upper(&truths[i])).transpose()?;
        let bounds = upper.map(|upper| [posterior.diagnostics.bound.value, upper]);
        bar.inc(1);
        Ok(Some(Simulation { shares, verdict: posterior.verdict.kind, bounds }))
    })?;
    bar.finish_and_clear();
    let failed = done.iter().filter(|s| s.is_none()).count();
    let done: Vec<Simulation> = done.into_iter().flatten().collect();
    let names = model.names();
    let columns: Vec<Vec<f64>> = (0..names.len()).map(|j| done.iter().map(|s| s.shares[j]).collect()).collect();
    let verdicts = [VerdictKind::Good, VerdictKind::Reweight, VerdictKind::DoNotTrust];
    let verdicts = verdicts.map(|v| (v.word(), done.iter().filter(|s| s.verdict == v).count()));
    let verdicts = [verdicts.as_slice(), &[("failed", failed)]].concat();
    let mut text = table(&name, count, &names, &columns, &verdicts);
    let mut json = as_json(&name, &names, &columns, &verdicts);
    if let Err(error) = truths {
        let _ = write!(text, "\n\nNo upper bound on log p(x): {error}");
    } else {
        let bracket = Bracket::new(done.iter().filter_map(|s| s.bounds));
        let what = "log p(x) from both sides, averaged over the data sets that were fitted, nats";
        let _ = write!(text, "\n\n{what}:\n\n{}", bracket.text());
        json["evidence"] = bracket.json();
    }
    print_result(options.json, &json, &text)
}

fn table(name: &str, count: usize, names: &[String], columns: &[Vec<f64>], verdicts: &[(&str, usize)]) -> String {
    let mut text =
        format!("Simulation-based calibration of {name}: {count} data sets drawn from the prior and fitted.\n");
    let counts: Vec<String> = verdicts.iter().map(|(v, n)| format!("{n} {v}")).collect();
    let _ = write!(text, "Verdicts: {}.\n\n", counts.join(", "));
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(4);
    let _ = writeln!(text, "{:<width$}  truth below draws, tenths of the unit interval     KS      p", "");
    for (name, shares) in names.iter().zip(columns) {
        let bins = tenths(shares).map(|n| format!("{n:>4}")).join("");
        let (distance, p) = kolmogorov_smirnov(shares);
        let _ = writeln!(text, "{name:<width$} {bins}    {distance:>8.3}  {p:.3}");
    }
    let smallest = columns.iter().map(|c| kolmogorov_smirnov(c).1).fold(1.0, f64::min);
    let corrected = (smallest * columns.len() as f64).min(1.0);
    let _ = write!(text, "\nSmallest p {smallest:.3}, corrected for {} parameters {corrected:.3}.", columns.len());
    text
}

fn as_json(name: &str, names: &[String], columns: &[Vec<f64>], verdicts: &[(&str, usize)]) -> Value {
    let parameters = names.iter().zip(columns).map(|(name, shares)| {
        let (distance, p) = kolmogorov_smirnov(shares);
        json!({ "name": name, "tenths": tenths(shares), "ks": json_number(distance), "p": json_number(p) })
    });
    let verdicts: serde_json::Map<String, Value> = verdicts.iter().map(|(v, n)| ((*v).to_owned(), json!(n))).collect();
    json!({ "model": name, "verdicts": verdicts, "parameters": parameters.collect::<Vec<_>>() })
}

/// Counts in each tenth of the unit interval.
fn tenths(shares: &[f64]) -> [usize; 10] {
    let mut bins = [0; 10];
    for share in shares {
        bins[((share * 10.0) as usize).min(9)] += 1;
    }
    bins
}

/// The Kolmogorov–Smirnov distance from the uniform distribution, and its p-value (asymptotic, with Stephens'
/// correction for small samples).
fn kolmogorov_smirnov(shares: &[f64]) -> (f64, f64) {
    let mut sorted = shares.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let distance = sorted
        .iter()
        .enumerate()
        .map(|(i, x)| (x - i as f64 / n).abs().max((x - (i + 1) as f64 / n).abs()))
        .fold(0.0, f64::max);
    let t = distance * (n.sqrt() + 0.12 + 0.11 / n.sqrt());
    let p = (1..=100).map(|k| 2.0 * f64::powi(-1.0, k - 1) * (-2.0 * f64::from(k * k) * t * t).exp()).sum::<f64>();
    (distance, p.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_shares_are_likely_and_crowded_ones_are_not() {
        let even: Vec<f64> = (0..100).map(|i| (f64::from(i) + 0.5) / 100.0).collect();
        assert!(kolmogorov_smirnov(&even).1 > 0.99);
        let crowded: Vec<f64> = even.iter().map(|x| 0.25 + 0.5 * x).collect();
        assert!(kolmogorov_smirnov(&crowded).1 < 1e-4);
        assert_eq!(tenths(&even), [10; 10]);
    }

    #[test]
    fn the_distribution_of_distances_is_kolmogorovs() {
        // Known: P(K > 1.358) = 0.05 in the limit.
        let n = 10_000.0f64;
        let d = 1.358 / (n.sqrt() + 0.12 + 0.11 / n.sqrt());
        let shifted: Vec<f64> = (0..10_000).map(|i| ((f64::from(i) + 0.5) / n + d - 0.5 / n).min(1.0)).collect();
        let (distance, p) = kolmogorov_smirnov(&shifted);
        assert!((distance - d).abs() < 2e-4 && (p - 0.05).abs() < 2e-3, "{distance} {p}");
    }
}
