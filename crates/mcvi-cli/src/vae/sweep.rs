//! `mcvi vae sweep`: many runs side by side, each in its own folder and resumed where it stopped. A failed run does not
//! stop the others.

use super::evaluate::{Evaluate, evaluate};
use super::session::{Event, Session, found};
use super::settings::{Config, parse_toml, read_toml};
use super::train::{bar, refuse_unsaveable, show};
use crate::interrupts::Interrupts;
use crate::many::{self, Item, Kind, Manifest, Outcome, Queue, SetFolder, Shard};
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
use std::path::{Path, PathBuf};

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
    /// Only this shard of the runs, such as 2/8. A run is in the shard of the run that it starts from.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
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
    fn hardware(&self, runs: usize) -> Result<Hardware> {
        let hardware = self.hardware.resolved()?;
        let at_a_time = runs.clamp(1, self.jobs.into());
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
        if let Some(name) = sweep.run.keys().find(|name| !fits(name) || name.starts_with('.') || *name == many::FILE) {
            return Err(format!("`{name}` cannot be the name of a folder; use letters, digits, - and _"));
        }
        if sweep.run.is_empty() {
            return Err("lists no runs; give each a table [run.NAME]".to_owned());
        }
        Ok(sweep)
    }
}

/// The runs with folders in `out`, and the order they wait for. A `from` that names a run of `all` means its folder there. If
/// that is one of these runs too, it runs first.
pub fn plan(runs: Vec<(String, Config)>, all: &[String], out: &Path) -> Result<(Vec<(String, Config)>, Queue), String> {
    let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
    let (mut planned, mut items) = (vec![], vec![]);
    for (name, mut config) in runs {
        let from = config.from.as_ref().and_then(|from| all.iter().find(|name| from == Path::new(name)));
        let after = from.and_then(|from| names.iter().position(|name| name == from));
        if let Some(from) = from {
            config.from = Some(out.join(from));
        }
        items.push(Item { name: name.clone(), after });
        planned.push((name, config));
    }
    let queue =
        Queue::new(items).map_err(|name| format!("`{name}` would start from its own weights, through `from`"))?;
    Ok((planned, queue))
}

/// The runs of a shard: a run is trained where the run is that it starts from.
fn of_shard(runs: &[(String, Config)], shard: Shard) -> Vec<String> {
    let before = |i: &usize| {
        let from = runs[*i].1.from.as_ref()?;
        runs.iter().position(|(name, _)| from == Path::new(name))
    };
    // In a circle, which is refused later, there is no first.
    let first = |i: usize| std::iter::successors(Some(i), before).take(runs.len()).last().unwrap_or(i);
    (0..runs.len()).filter(|&i| shard.has(first(i))).map(|i| runs[i].0.clone()).collect()
}

/// Train all runs.
pub fn run(options: &Options) -> Result<()> {
    let Sweep { all, run: runs } = read_toml(&options.file, Sweep::parse)?;
    let mut runs = runs.into_iter().map(|(name, config)| Ok((name, config.or(&all)?))).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
    if let Some(name) = options.only.iter().find(|name| !names.contains(name)) {
        return Err(Mistake(format!("there is no run `{name}`; there are: {}", names.join(", "))).into());
    }
    if let Some(shard) = options.shard {
        let mine = of_shard(&runs, shard);
        runs.retain(|(name, _)| mine.contains(name));
    }
    if !options.only.is_empty() {
        runs.retain(|(name, _)| options.only.contains(name));
    }
    let (runs, queue) =
        plan(runs, &names, &options.out).map_err(|why| Mistake(format!("{}: {why}", options.file.display())))?;
    // Checked before any folder is created.
    runs.iter().try_for_each(|(_, config)| refuse_unsaveable(config))?;
    let hardware = options.hardware(runs.len())?;
    // Settings belong to each run, which may be continued with others.
    let folder = SetFolder::create(&options.out, Manifest::new(Kind::Runs, json!({}), names), options.shard)?;
    let interrupts = Interrupts::new();
    let bars = MultiProgress::new();
    let work = |i: usize| {
        let (name, config) = &runs[i];
        one(options, (name, config), hardware, &bars, &interrupts)
    };
    let outcomes = many::run(queue, options.jobs.into(), &interrupts, work, |name, error| {
        bars.suspend(|| say(&format!("{name}: {error:#}")));
    });
    let _ = bars.clear();
    drop(folder);
    report(options.json, outcomes)?;
    interrupts.outcome(interrupts.any())
}

/// Report what there is of each run of a set.
pub fn joined(json: bool, folder: &SetFolder) -> Result<()> {
    let outcome = |name: &String| Ok((name.clone(), found(&folder.item(name))?.map(Ok)));
    report(json, folder.manifest.items.iter().map(outcome).collect::<Result<_>>()?)
}

/// Start or resume a run, then evaluate it.
fn one(
    options: &Options,
    (name, config): (&str, &Config),
    hardware: Hardware,
    bars: &MultiProgress,
    interrupts: &Interrupts,
) -> Outcome {
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

fn report(json: bool, endings: Vec<(String, Option<Outcome>)>) -> Result<()> {
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
    print_result(json, &json!({"runs": runs, "failed": failed}), text.trim_end())?;
    if failed > 0 {
        return Err(anyhow!("{failed} of {count} runs failed; the others are not affected"));
    }
    Ok(())
}
