//! `mcvi vae sweep`: many runs side by side, each in its own folder and resumed where it stopped. A failed run does not
//! stop the others.

use super::evaluate::{Evaluate, evaluate};
use super::folder::lock;
use super::queue::{Queue, RunResult};
use super::session::{Event, Session};
use super::settings::{Config, parse_toml, read_toml};
use super::train::{bar, refuse_unsaveable, show};
use crate::interrupts::Interrupts;
use crate::mistake::Mistake;
use crate::output::{HardwareOptions, print_result, say};
use anyhow::{Result, anyhow};
use clap::Args;
use indicatif::MultiProgress;
use mcvi::Hardware;
use mcvi::data::Split;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of `mcvi vae sweep`.
#[derive(Args)]
pub struct Options {
    /// A file with options for all runs under [all] and a table [run.NAME] for each run. A run with another's name as
    /// `from` waits for it and starts from its weights.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Folder for the runs, each under its name. Existing runs are resumed; finished ones stay as they are.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only these runs. [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of runs at a time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Evaluate each trained model on the test images with this many importance samples; 0 for no evaluation.
    #[arg(long, value_name = "SAMPLES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=mcvi::limits::DRAWS as i64))]
    evaluate: u32,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// The hardware for each run: runs side by side on one GPU share it.
    fn hardware(&self) -> Result<Hardware> {
        let hardware = self.hardware.resolved()?;
        let at_a_time = match self.only.len() {
            0 => usize::from(self.jobs),
            n => n.min(self.jobs.into()),
        };
        let all = hardware.device.multiprocessors().map_err(mcvi::Error::from)?;
        Ok(Hardware { multiprocessors: all.map(|n| (n / at_a_time).max(1)), ..hardware })
    }
}

/// The contents of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    #[serde(default)]
    pub all: Config,
    pub run: BTreeMap<String, Config>,
}

impl Sweep {
    /// Read the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let sweep: Sweep = parse_toml(text)?;
        let fits =
            |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if let Some(name) = sweep.run.keys().find(|name| !fits(name) || name.starts_with('.')) {
            return Err(format!("`{name}` cannot be the name of a folder; use letters, digits, - and _"));
        }
        if sweep.run.is_empty() {
            return Err("lists no runs; give each a table [run.NAME]".to_owned());
        }
        Ok(sweep)
    }
}

/// Train all runs.
pub fn run(options: &Options) -> Result<()> {
    let Sweep { all, run: mut runs } = read_toml(&options.file, Sweep::parse)?;
    let names: Vec<String> = runs.keys().cloned().collect();
    if let Some(name) = options.only.iter().find(|name| !names.contains(name)) {
        return Err(Mistake(format!("there is no run `{name}`; there are: {}", names.join(", "))).into());
    }
    if !options.only.is_empty() {
        runs.retain(|name, _| options.only.contains(name));
    }
    let runs = runs.into_iter().map(|(name, config)| Ok((name, config.or(&all)?))).collect::<Result<Vec<_>>>()?;
    let queue =
        Queue::new(runs, &names, &options.out).map_err(|why| Mistake(format!("{}: {why}", options.file.display())))?;
    // Checked before any folder is created.
    queue.runs().iter().try_for_each(|run| refuse_unsaveable(&run.config))?;
    let hardware = options.hardware()?;
    mcvi::disk::create_dir_all(&options.out)
        .map_err(|e| Mistake(format!("cannot create the folder {}: {e}", options.out.display())))?;
    let _lock = lock(&options.out)?;
    let interrupts = Interrupts::new();
    let bars = MultiProgress::new();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some((i, run)) = queue.next(|| interrupts.any()) {
                    let work = || match queue.lacks(i) {
                        Some(before) => Err(anyhow!("`{before}`, which it starts from, did not finish")),
                        None => one(options, (&run.name, &run.config), hardware, &bars, &interrupts),
                    };
                    // A run that fails, even by a panic, does not affect the others.
                    let ending = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                        .unwrap_or_else(|_| Err(anyhow!("stopped by an error of the program")));
                    if let Err(error) = &ending {
                        bars.suspend(|| say(&format!("{}: {error:#}", run.name)));
                    }
                    queue.ended(i, ending);
                }
            });
        }
    });
    let _ = bars.clear();
    report(options, queue.endings())?;
    interrupts.outcome(interrupts.any())
}

/// Start or resume a run, then evaluate it.
fn one(
    options: &Options,
    (name, config): (&str, &Config),
    hardware: Hardware,
    bars: &MultiProgress,
    interrupts: &Interrupts,
) -> RunResult {
    let out = options.out.join(name);
    let mut session = if out.join("settings.toml").is_file() {
        let (session, notice) = Session::resume(config, &out, hardware)?;
        if let Some(notice) = notice {
            bars.suspend(|| say(&format!("{name}: {notice}")));
        }
        session
    } else {
        Session::start(config, &out, hardware)?
    };
    let bar = bars.add(bar());
    let stop = || interrupts.flow();
    let result = session.train(|event| {
        match event {
            Event::Steps { tick, progress, epochs, seconds, times } => {
                show(&bar, tick, progress, epochs, seconds, times);
                bar.set_prefix(format!("{name} {}/{epochs}", tick.epoch));
            }
            Event::Warning(warning) => bars.suspend(|| say(&format!("{name}: {warning}"))),
        }
        stop()
    });
    bars.remove(&bar);
    let mut result = result?;
    drop(session);
    if options.evaluate > 0 && result["interrupted"] == false {
        let evaluation = Evaluate { samples: options.evaluate as usize, hardware, ..Evaluate::of(&out, Split::Test) };
        result["test"] = evaluate(&evaluation, |_, _, _| stop())?;
    }
    Ok(result)
}

fn report(options: &Options, endings: Vec<(String, Option<RunResult>)>) -> Result<()> {
    let failed = endings.iter().filter(|(_, e)| matches!(e, Some(Err(_)))).count();
    let mut text = format!("{:<24}{:>8}{:>8}{:>12}{:>12}\n", "run", "epochs", "best", "valid", "seconds");
    let mut runs = serde_json::Map::new();
    for (name, ending) in endings {
        let value = match ending {
            None => json!({"error": null, "begun": false}),
            Some(Err(error)) => json!({"error": format!("{error:#}")}),
            Some(Ok(value)) => value,
        };
        let number =
            |name: &str, digits: usize| value[name].as_f64().map_or("".to_owned(), |x| format!("{x:.digits$}"));
        text += &match (&value["error"], value["begun"] == false) {
            (_, true) => format!("{name:<24}not started\n"),
            (Value::String(_), _) => format!("{name:<24}failed, see above\n"),
            _ => format!(
                "{name:<24}{:>8}{:>8}{:>12}{:>12}\n",
                number("epochs", 0),
                number("best_epoch", 0),
                number("valid_bound", 2),
                number("seconds", 0)
            ),
        };
        runs.insert(name, value);
    }
    let count = runs.len();
    print_result(options.json, &json!({"runs": runs, "failed": failed}), text.trim_end())?;
    if failed > 0 {
        return Err(anyhow!("{failed} of {count} runs failed; the others are not affected"));
    }
    Ok(())
}
