//! `mcvi-bench verdicts`: inference on random targets with exact answers, several at once, and a table of how often its
//! verdicts are right.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use mcvi_bench::verdicts::{FAMILIES, Family, Outcome, markdown, run};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Parser)]
pub struct Options {
    /// Only these families, separated by commas. [default: all]
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// The first target of each family.
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// How many targets of each family. [default: all from the first]
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
    let mut outcomes = if options.read.is_empty() { run_all(options)? } else { read(&options.read)? };
    let place = |o: &Outcome| (FAMILIES.iter().position(|f| f.name == o.family), o.index);
    outcomes.sort_by_key(place);
    outcomes.dedup_by_key(|o| place(o));
    if let Some(path) = &options.json {
        let lines = outcomes.iter().map(line).collect::<Result<Vec<_>>>()?;
        std::fs::write(path, lines.concat()).with_context(|| format!("writing {}", path.display()))?;
    }
    let text = markdown(&outcomes);
    if let Some(path) = &options.markdown {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn line(outcome: &Outcome) -> Result<String> {
    Ok(serde_json::to_string(outcome)? + "\n")
}

fn read(paths: &[PathBuf]) -> Result<Vec<Outcome>> {
    let mut outcomes = vec![];
    for path in paths {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        for (i, line) in text.lines().enumerate() {
            let at = || format!("line {} of {}", i + 1, path.display());
            outcomes.push(serde_json::from_str(line).with_context(at)?);
        }
    }
    Ok(outcomes)
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
    let last = options.count.map_or(usize::MAX, |count| options.first.saturating_add(count));
    let indices = |family: &'static Family| (options.first..last.min(family.count)).map(move |i| (i, family));
    // All families side by side, so that the slow ones do not all come last.
    let mut targets: Vec<(usize, &Family)> = chosen(&options.families)?.into_iter().flat_map(indices).collect();
    targets.sort_by_key(|(i, _)| *i);
    let jobs = options.jobs.unwrap_or(std::thread::available_parallelism()?.get()).max(1);
    let file = options.json.as_deref().map(create).transpose()?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new((vec![], file)));
    let work = || -> Result<()> {
        while let Some((index, family)) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run(&family.problem(*index), options.seconds_each);
            let Ok(mut done) = done.lock() else { bail!("another thread panicked") };
            if let Some(file) = &mut done.1 {
                file.write_all(line(&outcome)?.as_bytes())?;
            }
            done.0.push(outcome);
            report(&done.0, targets.len());
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a thread of the campaign panicked"),
            }
        }
        Ok(())
    })?;
    match done.into_inner() {
        Ok((outcomes, _)) => Ok(outcomes),
        Err(_) => bail!("a thread of the campaign panicked"),
    }
}

fn create(path: &Path) -> Result<std::fs::File> {
    std::fs::File::create(path).with_context(|| format!("creating {}", path.display()))
}

/// A line about the last of the outcomes.
fn report(outcomes: &[Outcome], of: usize) {
    if let Some(o) = outcomes.last() {
        let (n, family, index) = (outcomes.len(), &o.family, o.index);
        eprintln!("{n} of {of}: {family} {index}, {} dimensions: {}, {:.1} s", o.dim, o.verdict, o.seconds);
    }
}
