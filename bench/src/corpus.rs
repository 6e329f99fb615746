//! `mcvi-bench posteriordb`: every posterior of a posteriordb folder, several at once, and a table of what came of it.

use crate::jobs;
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use mcvi::Hardware;
use mcvi_bench::posteriordb::{Outcome, Plan, Reference, entries, markdown, run};
use mcvi_expr::Device;
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

#[derive(Parser)]
pub struct Options {
    /// The folder, as published or with `models` and `data` at the top.
    #[arg(required_unless_present = "read")]
    folder: Option<PathBuf>,
    /// Log densities and gradients of Stan, a file that `bench/posteriordb/references` wrote.
    #[arg(long)]
    references: Option<PathBuf>,
    /// Only these posteriors, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only posteriors with reference draws.
    #[arg(long)]
    with_draws: bool,
    /// Compare and time log densities, but fit nothing.
    #[arg(long, conflicts_with = "no_densities")]
    no_fits: bool,
    /// Fit, but compare and time no log densities.
    #[arg(long)]
    no_densities: bool,
    /// Posteriors at a time. [default: one for each processor]
    #[arg(long)]
    jobs: Option<usize>,
    /// Threads of each fit.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Where to run: cpu, cuda, cuda:NUMBER or auto.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Seconds for each fit.
    #[arg(long, default_value_t = 60.0)]
    seconds_each: f64,
    /// File for the outcomes, one JSON object a line, each written as soon as it is there.
    #[arg(long)]
    json: Option<PathBuf>,
    /// File for the table.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Run nothing: print the table of outcomes that earlier runs left in these files.
    #[arg(long, num_args = 1.., conflicts_with_all = ["folder", "jobs", "json"])]
    read: Vec<PathBuf>,
}

/// Run them all, or read their outcomes, and print the table.
pub fn corpus(options: &Options) -> Result<()> {
    let mut outcomes = match &options.folder {
        Some(folder) => run_all(folder, options)?,
        None => jobs::read(&options.read)?,
    };
    outcomes.sort_by(|a: &Outcome, b| a.name.cmp(&b.name));
    let text = markdown(&outcomes);
    if let Some(path) = &options.markdown {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn run_all(folder: &std::path::Path, options: &Options) -> Result<Vec<Outcome>> {
    ensure!(options.seconds_each > 0.0, "--seconds-each must be positive");
    let mut list = entries(folder)?;
    if let Some(name) = options.only.iter().find(|name| list.iter().all(|e| e.name != **name)) {
        bail!("{} has no posterior {name}", folder.display());
    }
    list.retain(|e| options.only.is_empty() || options.only.contains(&e.name));
    list.retain(|e| !options.with_draws || !e.moments.is_empty());
    let references: HashMap<String, Reference> = match &options.references {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?
        }
        None => HashMap::new(),
    };
    let plan = Plan {
        seconds: (!options.no_fits).then_some(options.seconds_each),
        hardware: Hardware { device: options.device, ..Hardware::with_threads(options.threads) },
        densities: !options.no_densities,
    };
    let jobs = options.jobs.unwrap_or(std::thread::available_parallelism()?.get());
    let count = list.len();
    let report = |n: usize, o: &Outcome| {
        let fit = o.fit.as_ref().map(|f| format!("{}, {:.1} s", f.verdict, f.seconds));
        let what = o.error.clone().or(fit).unwrap_or_else(|| "done".to_owned());
        eprintln!("{n} of {count}: {}: {what}", o.name);
    };
    jobs::all(&list, jobs, options.json.as_deref(), |entry| run(entry, references.get(&entry.name), plan), report)
}
