//! `mcvi calibrate`: simulation-based calibration of the default fit.
//!
//! Parameters are drawn from the prior and data from the model given the parameters. The model is then fitted to these
//! data as by `mcvi fit`. If the posteriors are right, the share of draws below the true parameter is uniformly
//! distributed (Talts et al. 2018, "Validating Bayesian inference algorithms with simulation-based calibration").
//!
//! The true parameters are also a draw of the posterior, so that the fitted chain run backwards from them gives an upper bound on
//! log p(x) (Grosse et al. 2015, "Sandwiching the marginal likelihood using bidirectional Monte Carlo").

use super::regression::RegressionOptions;
use super::{DRAWS, catalogue};
use crate::bracket::Bracket;
use crate::interrupts::Interrupts;
use crate::many::{self, Item, Kind, Manifest, Queue, SetFolder, Shard};
use crate::mistake::Mistake;
use crate::number::json_number;
use crate::output::{print_result, say};
use crate::progress;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use mcvi::diagnostics::mean;
use mcvi::fit::StopReason;
use mcvi::infer::{Request, VerdictKind, infer_observed};
use mcvi::model::Quantities;
use mcvi::{BayesianModel, Hardware, disk};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of `mcvi calibrate`.
#[derive(Args)]
pub struct Options {
    /// A model with proper priors and observations.
    #[arg(default_value = "eight-schools", value_name = "MODEL")]
    model: String,
    /// For a regression: a table with a header; for a Stan program: its data, JSON or CSV.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    #[command(flatten)]
    regression: RegressionOptions,
    /// Data sets to simulate and fit.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(20..=10_000))]
    simulations: u16,
    /// Folder for the results of all simulations. The same command continues a set that was stopped.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only this shard of the simulations, such as 2/8. Shards are joined by `mcvi merge`.
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,
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

/// What all simulations have in common.
#[derive(Serialize, Deserialize)]
struct About {
    model: String,
    /// The names of the parameters.
    parameters: Vec<String>,
    /// Identifies the data that the model has besides those simulated.
    data: String,
    seed: u64,
    simulations: usize,
    /// Why there are no upper bounds, if there are none.
    no_upper_bound: Option<String>,
}

/// The share of draws below each true parameter in one fit, the verdict on that fit, and the bounds on log p(x) of its data.
#[derive(Serialize, Deserialize)]
struct Simulation {
    shares: Vec<Number>,
    /// None if the data set could not be fitted.
    verdict: Option<VerdictKind>,
    bounds: Option<[Number; 2]>,
}

/// A number that may not be finite, which JSON cannot represent, as text.
#[derive(Clone, Copy)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        if self.0.is_finite() { to.serialize_f64(self.0) } else { to.collect_str(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        number.map(Number).ok_or_else(|| serde::de::Error::custom("not a number"))
    }
}

/// Simulate, fit, compare.
pub fn run(options: &Options) -> Result<()> {
    let model = catalogue::open(&options.model, options.data.as_deref(), &options.regression)?;
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
    let about = About {
        model: name.clone(),
        parameters: model.names(),
        data: model.data_digest()?,
        seed: options.seed,
        simulations: count,
        no_upper_bound: truths.as_ref().err().map(ToString::to_string),
    };
    let names: Vec<String> = (1..=count).map(|i| format!("{i:05}")).collect();
    let manifest = Manifest::new(Kind::Simulations, json!(about), names.clone());
    let create = |out: &PathBuf| SetFolder::create(out, manifest, options.shard);
    let folder = options.out.as_ref().map(create).transpose()?;
    let mine: Vec<usize> = (0..count).filter(|&i| options.shard.is_none_or(|shard| shard.has(i))).collect();
    let items = mine.iter().map(|&i| Item { name: names[i].clone(), after: None }).collect();
    let queue = Queue::new(items).map_err(|name| anyhow!("`{name}` waits for itself"))?;
    let simulator = Simulator { model, prior, truths: truths.ok(), seed: options.seed };
    let (bar, interrupts) = (progress::bar(mine.len(), "Calibrating"), Interrupts::new());
    let work = |k: usize| {
        let i = mine[k];
        let place = folder.as_ref().map(|folder| folder.item(&names[i]));
        let done = place.as_deref().map(read).transpose()?.flatten();
        let result = match done {
            Some(done) => done,
            None => match simulator.one(i, &interrupts)? {
                None => return Ok(json!({ "interrupted": true })),
                Some(simulation) => json!(simulation),
            },
        };
        if let Some(place) = place {
            disk::atomic_write(&place, format!("{result}\n").as_bytes())
                .with_context(|| format!("cannot write {}", place.display()))?;
        }
        bar.inc(1);
        Ok(result)
    };
    let threads = crate::output::threads_or_all(options.threads);
    let outcomes = many::run(queue, threads, &interrupts, work, |name, error| {
        bar.suspend(|| say(&format!("{name}: {error:#}")));
    });
    bar.finish_and_clear();
    let way = (options.shard, options.out.as_deref());
    let results = many::settle(outcomes, &interrupts, way, options.json)?;
    if options.shard.is_some() {
        return Ok(());
    }
    let simulations = results.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    let calibration = Calibration { about, simulations };
    if let Some(folder) = folder {
        calibration.write(folder.path())?;
    }
    calibration.print(options.json)
}

/// Data sets drawn from the model, and the parameters they were drawn with.
struct Simulator {
    model: Arc<dyn BayesianModel>,
    prior: Quantities,
    truths: Option<Vec<Vec<f64>>>,
    seed: u64,
}

impl Simulator {
    /// Fit the i-th data set. None if a signal stopped it.
    fn one(&self, i: usize, interrupts: &Interrupts) -> Result<Option<Simulation>> {
        let data: Vec<(String, Vec<f64>)> = self
            .prior
            .predictive
            .iter()
            .map(|q| (q.name.clone(), q.values[i * q.size()..(i + 1) * q.size()].to_vec()))
            .collect();
        let mut request = Request { hardware: Hardware::with_threads(1), draws: DRAWS, ..Request::default() };
        request.settings.seed = self.seed.wrapping_add(i as u64);
        let posterior = match infer_observed(self.model.observing(&data)?, &request, |_, _| interrupts.flow()) {
            // A data set that cannot be fitted counts as failed.
            Err(mcvi::Error::Fit { .. } | mcvi::Error::Target { .. }) => {
                return Ok(Some(Simulation { shares: vec![], verdict: None, bounds: None }));
            }
            other => other?,
        };
        if posterior.stop_reason == StopReason::Interrupted {
            return Ok(None);
        }
        let weights = posterior.weights();
        let fitted = posterior.model.quantities(&posterior.draws.z, None, request.hardware)?;
        let mut shares = vec![];
        for (q, truth) in fitted.parameters.iter().zip(&self.prior.parameters) {
            for e in 0..q.size() {
                shares.push(Number(weights.below(&q.column(e), truth.values[i * q.size() + e])));
            }
        }
        let upper = |truth: &Vec<f64>| {
            posterior
                .approximation
                .upper_bounds(&vec![truth.clone(); PATHS], request.settings.seed)
                .map(|u| mean(&u).value)
        };
        let upper = self.truths.as_ref().map(|truths| upper(&truths[i])).transpose()?;
        let bounds = upper.map(|upper| [posterior.diagnostics.bound.value, upper].map(Number));
        Ok(Some(Simulation { shares, verdict: Some(posterior.verdict.kind), bounds }))
    }
}

/// The simulations of a set.
pub struct Calibration {
    about: About,
    simulations: Vec<Simulation>,
}

/// The name of the file with the result.
const RESULT: &str = "calibration.json";

/// Read all simulations of a set.
pub fn joined(folder: &SetFolder) -> Result<Calibration> {
    let bad = |path: &Path, e: serde_json::Error| Mistake(format!("{}: {e}", path.display()));
    let about = serde_json::from_value(folder.manifest.about.clone()).map_err(|e| bad(folder.path(), e))?;
    let one = |name: &String| -> Result<Simulation> {
        let path = folder.item(name);
        let value = read(&path)?.ok_or_else(|| anyhow!("there is no {}", path.display()))?;
        Ok(serde_json::from_value(value).map_err(|e| bad(&path, e))?)
    };
    Ok(Calibration { about, simulations: folder.manifest.items.iter().map(one).collect::<Result<_>>()? })
}

/// The result of a simulation; none if there is none.
fn read(path: &Path) -> Result<Option<Value>> {
    if path.exists() { crate::vae::read_json(path).map(Some) } else { Ok(None) }
}

impl Calibration {
    /// Write the result.
    pub fn write(&self, folder: &Path) -> Result<()> {
        disk::atomic_write(folder.join(RESULT), format!("{:#}\n", self.result().0).as_bytes())
            .with_context(|| format!("cannot write {RESULT}"))
    }

    /// Print it, as JSON or as text.
    pub fn print(&self, json: bool) -> Result<()> {
        let (result, text) = self.result();
        print_result(json, &result, &text)
    }

    /// As JSON and as text.
    fn result(&self) -> (Value, String) {
        let About { model, parameters, simulations: count, no_upper_bound, .. } = &self.about;
        let fitted = || self.simulations.iter().filter(|s| s.verdict.is_some());
        let column = |j: usize| fitted().map(|s| s.shares[j].0).collect();
        let columns: Vec<Vec<f64>> = (0..parameters.len()).map(column).collect();
        let verdicts = [VerdictKind::Good, VerdictKind::Reweight, VerdictKind::DoNotTrust];
        let verdicts = verdicts.map(|v| (v.word(), fitted().filter(|s| s.verdict == Some(v)).count()));
        let verdicts = [verdicts.as_slice(), &[("failed", self.simulations.len() - fitted().count())]].concat();
        let mut text = table(model, *count, parameters, &columns, &verdicts);
        let mut json = as_json(model, parameters, &columns, &verdicts);
        if let Some(error) = no_upper_bound {
            let _ = write!(text, "\n\nNo upper bound on log p(x): {error}");
        } else {
            let bracket = Bracket::new(fitted().filter_map(|s| Some(s.bounds?.map(|b| b.0))));
            let what = "log p(x) from both sides, averaged over the data sets that were fitted, nats";
            let _ = write!(text, "\n\n{what}:\n\n{}", bracket.text());
            json["evidence"] = bracket.json();
        }
        (json, text)
    }
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
