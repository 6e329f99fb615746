//! `mcvi predict`: responses for new data from a saved regression.

use super::{MORE, files};
use crate::mistake::{Mistake, mistaken};
use crate::number::json_number;
use crate::output::{HardwareOptions, print_data, print_result};
use anyhow::{Context, Result};
use clap::Args;
use mcvi::limits;
use mcvi::model::Quantity;
use mcvi::regression::{Frame, KIND, Missing, NewGroups, Prediction, PredictionOptions, ReadOptions, reopen};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::Write as _;
use std::path::PathBuf;

/// Options of `mcvi predict`.
#[derive(Args)]
pub struct Options {
    /// The folder of a regression (`mcvi fit 'y ~ x' --data FILE --out RUN`).
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The rows to predict: a table with the columns of the formula, but for the response. - is standard input.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Draws to predict from.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=limits::DRAWS as i64))]
    draws: u32,
    /// Groups that were not fitted: draw their effects from the distribution of all, or refuse them.
    #[arg(long, value_name = "WHAT", default_value = "draw", value_parser = ["draw", "refuse"])]
    new_groups: String,
    /// What stands for a missing value, besides nothing, NA and NaN.
    #[arg(long, value_name = "TEXT")]
    na: Vec<String>,
    /// Rows with missing values: refuse, drop.
    #[arg(long, value_name = "WHAT", default_value = "refuse", value_parser = ["refuse", "drop"])]
    missing: String,
    /// The share of draws between the bounds of the intervals.
    #[arg(long, value_name = "P", default_value_t = 0.9)]
    interval: f64,
    /// Random seed. [default: derived from the fit's seed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Draws of new responses instead of a summary: a column for each row of the data.
    #[arg(long)]
    raw: bool,
    /// CSV file to write. [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Print one JSON object instead of CSV.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// Predict.
pub fn run(options: &Options) -> Result<()> {
    if !(options.interval > 0.0 && options.interval < 1.0) {
        return Err(Mistake(format!("--interval is a share between 0 and 1, not {}", options.interval)).into());
    }
    let hardware = options.hardware.resolved()?;
    let saved = super::settings::Saved::open(&options.run)?;
    let source = &saved.settings.source;
    if source.kind != KIND {
        let why = format!("{} is no regression: new data are for formulas", options.run.display());
        return Err(Mistake(why).into());
    }
    let (model, approximation, fitted) = files::load(&options.run, hardware)?;
    let regression = reopen(source)?;
    let seed = options.seed.unwrap_or_else(|| mcvi::derive_seed(fitted, "predictions"));
    let drawn = mcvi::derive_seed(seed, MORE);
    let (_, draws, _) = super::draws(model.as_ref(), &approximation, options.draws as usize, false, drawn)?;
    let frame = Frame::read(&options.data, &ReadOptions { na: options.na.clone() })?;
    let groups = if options.new_groups == "draw" { NewGroups::Draw } else { NewGroups::Refuse };
    let missing = if options.missing == "drop" { Missing::Drop } else { Missing::Refuse };
    let p = regression.predict(&frame, &draws.z, &PredictionOptions { groups, missing, seed }, hardware)?;
    for new in &p.new_groups {
        crate::output::say(&format!(
            "the group {new} was not fitted: its effects are drawn from the distribution of all"
        ));
    }
    if options.json {
        return print_result(true, &as_json(&p, options), "");
    }
    let text = if options.raw { raw(&p) } else { table(&p, options.interval) };
    match &options.out {
        Some(path) => mcvi::disk::atomic_write_with(path, |out| out.write_all(text.as_bytes()))
            .map_err(|e| mistaken(anyhow::Error::new(e)))
            .with_context(|| format!("cannot write {}", path.display())),
        None => print_data(text.trim_end()),
    }
}

/// Mean, standard deviation and two quantiles.
struct Interval {
    mean: f64,
    sd: f64,
    low: f64,
    high: f64,
}

impl Interval {
    fn of(mut values: Vec<f64>, share: f64) -> Self {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
        let at = |p: f64| values[((p * (n - 1.0)).round() as usize).min(values.len() - 1)];
        Interval { mean, sd, low: at(0.5 - share / 2.0), high: at(0.5 + share / 2.0) }
    }
}

/// The numbers of a row: of categories, the probability of each.
fn rows<'a>(p: &'a Prediction, share: f64) -> impl Iterator<Item = (usize, Vec<Interval>, Interval)> + 'a {
    let width = p.levels.len().max(1);
    let column = |q: &Quantity, i: usize| q.column(i);
    p.rows.iter().enumerate().map(move |(i, row)| {
        let means = (0..width).map(|c| Interval::of(column(&p.mean, i * width + c), share)).collect();
        (*row, means, Interval::of(column(&p.drawn, i), share))
    })
}

fn table(p: &Prediction, share: f64) -> String {
    let mut text = if p.levels.is_empty() {
        "row,mean,sd,mean_low,mean_high,new_low,new_high\n".to_owned()
    } else {
        let columns = |l: String| ["P", "sd", "low", "high"].map(|what| format!(",\"{what}({l})\"")).concat();
        let names = p.levels.iter().map(|l| columns(l.replace('"', "\"\"")));
        format!("row{}\n", names.collect::<String>())
    };
    for (row, means, new) in rows(p, share) {
        let _ = write!(text, "{}", row + 1);
        for m in means {
            let _ = write!(text, ",{},{},{},{}", m.mean, m.sd, m.low, m.high);
        }
        let ends = if p.levels.is_empty() { format!(",{},{}", new.low, new.high) } else { String::new() };
        let _ = writeln!(text, "{ends}");
    }
    text
}

/// New responses: a line for each draw, a column for each row.
fn raw(p: &Prediction) -> String {
    let names: Vec<String> = p.rows.iter().map(|row| (row + 1).to_string()).collect();
    let mut text = names.join(",") + "\n";
    for draw in p.drawn.values.chunks(p.rows.len()) {
        let cell = |x: &f64| {
            p.levels.get(*x as usize).map_or_else(|| x.to_string(), |l| format!("\"{}\"", l.replace('"', "\"\"")))
        };
        text += &(draw.iter().map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

fn as_json(p: &Prediction, options: &Options) -> Value {
    let n = json_number;
    let interval = |i: &Interval| json!({ "mean": n(i.mean), "sd": n(i.sd), "low": n(i.low), "high": n(i.high) });
    let row = |(row, means, new): (usize, Vec<Interval>, Interval)| {
        let mut entry = json!({ "row": row + 1 });
        if p.levels.is_empty() {
            entry["mean"] = interval(&means[0]);
            entry["new"] = interval(&new);
        } else {
            entry["probabilities"] = p.levels.iter().cloned().zip(means.iter().map(interval)).collect();
        }
        entry
    };
    let mut all = json!({
        "interval": options.interval,
        "rows": rows(p, options.interval).map(row).collect::<Vec<_>>(),
        "new_groups": p.new_groups,
    });
    if options.raw {
        all["draws"] = json!(p.drawn.values.chunks(p.rows.len()).collect::<Vec<_>>());
    }
    all
}
