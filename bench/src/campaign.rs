//! `mcvi-bench verdicts`: inference on random targets with exact answers, several at once, and a table of how often its
//! verdicts are right.

use crate::jobs;
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use mcvi_bench::verdicts::{FAMILIES, Family, Outcome, markdown, run};
use std::io::Write;
use std::path::PathBuf;

#[derive(Parser)]
pub struct Options {
    /// Only these families, separated by commas. [default: all]
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// The first target of each family. Those beyond the campaign's own are for development: search and verdict are not to be
    /// tuned on what they are judged by.
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// How many targets of each family. [default: all of the campaign from the first]
    #[arg(long)]
    count: Option<usize>,
    /// Targets at a time, each on one thread. [default: one for each processor]
    #[arg(long)]
    jobs: Option<usize>,
    /// Seconds that inference may take for a target. Outcomes depend on the machine where it plays a part.
    #[arg(long, default_value_t = 60.0)]
    seconds_each: f64,
    /// File for the outcomes, one JSON object a line, each written as soon as it is there.
    #[arg(long)]
    json: Option<PathBuf>,
    /// File for the table.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Run nothing: print the table of outcomes that earlier runs left in these files.
    #[arg(long, num_args = 1.., conflicts_with_all = ["families", "first", "count", "jobs", "json"])]
    read: Vec<PathBuf>,
}

/// Run the campaign, or read its outcomes, and print the table.
pub fn campaign(options: &Options) -> Result<()> {
    let mut outcomes = if options.read.is_empty() { run_all(options)? } else { jobs::read(&options.read)? };
    let place = |o: &Outcome| (FAMILIES.iter().position(|f| f.name == o.family), o.index);
    outcomes.sort_by_key(place);
    outcomes.dedup_by_key(|o| place(o));
    if let Some(path) = &options.json {
        let lines = outcomes.iter().map(jobs::line).collect::<Result<Vec<_>>>()?;
        std::fs::write(path, lines.concat()).with_context(|| format!("writing {}", path.display()))?;
    }
    let text = markdown(&outcomes);
    if let Some(path) = &options.markdown {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Family>> {
    let known: Vec<&str> = FAMILIES.iter().map(|f| f.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no family {name}; there are: {}", known.join(", "));
    }
    Ok(FAMILIES.iter().filter(|f| names.is_empty() || names.iter().any(|name| name == f.name)).collect())
}

fn run_all(options: &Options) -> Result<Vec<Outcome>> {
    ensure!(options.seconds_each > 0.0, "--seconds-each must be positive");
    let last = options.count.map(|count| options.first.saturating_add(count));
    let last = |family: &Family| match last {
        Some(last) if options.first >= family.count => last,
        Some(last) => last.min(family.count),
        None => family.count,
    };
    let indices = |family: &'static Family| (options.first..last(family)).map(move |i| (i, family));
    // All families side by side, so that the slow ones do not all come last.
    let mut targets: Vec<(usize, &Family)> = chosen(&options.families)?.into_iter().flat_map(indices).collect();
    targets.sort_by_key(|(i, _)| *i);
    let jobs = options.jobs.unwrap_or(std::thread::available_parallelism()?.get());
    let count = targets.len();
    let work = |(index, family): &(usize, &Family)| run(&family.problem(*index), options.seconds_each);
    jobs::all(&targets, jobs, options.json.as_deref(), work, |n, outcome| report(n, count, outcome))
}

/// A line about an outcome.
fn report(n: usize, of: usize, o: &Outcome) {
    eprintln!("{n} of {of}: {} {}, {} dimensions: {}, {:.1} s", o.family, o.index, o.dim, o.verdict, o.seconds);
}
