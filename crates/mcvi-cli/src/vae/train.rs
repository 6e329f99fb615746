//! `mcvi vae train`.

use super::folder::RunFolder;
use super::settings::{Choices, Meant};
use crate::mistake::{Mistake, mistaken};
use crate::output::print;
use crate::watch::Interrupts;
use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mcvi::data::{Dataset, Images, Split};
use mcvi::vae::{Progress, Tick, Trainer};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `mcvi vae train`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    choices: Choices,
    /// A file of options, under their names: `leapfrogs = 4`. What is typed goes before it.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Folder for checkpoints, metrics and the model; must not be there yet, but with --resume.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with the run in --out, exactly as if it had never stopped.
    #[arg(long)]
    resume: bool,
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object at the end instead of a summary.
    #[arg(long)]
    json: bool,
}

/// Train until it is done, or Ctrl-C.
pub fn run(options: &Options) -> Result<()> {
    let threads =
        options.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let typed = match &options.config {
        Some(path) => options.choices.or(&Choices::read(path)?)?,
        None => options.choices.clone(),
    };
    let (folder, mut trainer) =
        if options.resume { resume(options, &typed, threads)? } else { begin(options, &typed, threads)? };
    let mut times = folder.times();
    times.truncate(trainer.progress().epochs.len());
    let interrupts = Interrupts::new(None);
    let bar = bar();
    let mut said: Vec<String> = vec![];
    let mut interrupted = false;
    while !trainer.is_over() {
        let begun = Instant::now();
        let progress = trainer.progress().clone();
        let report = trainer.epoch(|tick| {
            show(&bar, tick, &progress, typed.epochs, &begun, &times);
            if interrupts.any() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let Some(report) = report else {
            interrupted = true;
            break;
        };
        let epoch = report.epoch;
        if trainer.progress().best == Some(epoch) {
            folder.keep_model(&trainer.model())?;
        }
        folder.keep(&trainer.checkpoint()?)?;
        times.push(begun.elapsed().as_secs_f64());
        folder.keep_times(&times)?;
        for warning in trainer.warnings() {
            // Each kind of warning once, not every epoch.
            let kind: String = warning.chars().filter(|c| c.is_alphabetic()).take(30).collect();
            if !said.contains(&kind) {
                bar.suspend(|| eprintln!("mcvi: epoch {epoch}: {warning}"));
                said.push(kind);
            }
        }
    }
    bar.finish_and_clear();
    let result = summary(trainer.progress(), times.iter().sum(), &folder, interrupted);
    folder.save("summary.json", format!("{result:#}\n").as_bytes())?;
    print(&if options.json { result.to_string() } else { text(&result, trainer.progress(), interrupted) })
}

fn begin(options: &Options, typed: &Choices, threads: usize) -> Result<(RunFolder, Trainer)> {
    let (meant, train, valid) = read(typed)?;
    let data = names(&train, &valid);
    let (train, valid) = (train.array()?, valid.array()?);
    // Everything is checked before the folder is made.
    let trainer = Trainer::new(&meant.architecture, &meant.training, (&train, &valid, &data), threads)?;
    Ok((RunFolder::create(&options.out, &meant.choices())?, trainer))
}

fn resume(options: &Options, typed: &Choices, threads: usize) -> Result<(RunFolder, Trainer)> {
    let folder = RunFolder::open(&options.out)?;
    let saved = folder.settings()?;
    // Where the images are, and for how long to go on, may change; nothing else may.
    let free = Choices { data: None, epochs: None, ..typed.clone() };
    let differ = free.against(&saved)?;
    if !differ.is_empty() {
        let why = format!(
            "{} was begun with other values of {}; leave them out to go on, or begin another run",
            options.out.display(),
            differ.join(", ")
        );
        return Err(Mistake(why).into());
    }
    let choices = typed.or(&saved)?;
    let (meant, train, valid) = read(&choices)?;
    let data = names(&train, &valid);
    let (train, valid) = (train.array()?, valid.array()?);
    let images = (&train, &valid, data.as_str());
    let (checkpoint, said) = folder.checkpoint()?;
    if let Some(said) = said {
        eprintln!("mcvi: {said}");
    }
    let trainer = match checkpoint {
        None => Trainer::new(&meant.architecture, &meant.training, images, threads)?,
        Some(mut checkpoint) => {
            if checkpoint.architecture != meant.architecture {
                let why = format!(
                    "the checkpoint in {} is of another architecture, {:?}, than its settings say, {:?}",
                    options.out.display(),
                    checkpoint.architecture,
                    meant.architecture
                );
                return Err(Mistake(why).into());
            }
            checkpoint.settings.epochs = meant.training.epochs;
            checkpoint.progress.stopped &= typed.epochs.is_none();
            Trainer::resume(&checkpoint, images, threads).map_err(|e| mistaken(e.into()))?
        }
    };
    folder.set_settings(&meant.choices())?;
    Ok((folder, trainer))
}

/// What was meant, with the images it is about.
fn read(typed: &Choices) -> Result<(Meant, Images, Images)> {
    let mut meant = typed.meant([1, 1])?;
    let dataset = Dataset::open(&meant.data)?;
    // Saved as it is found from anywhere.
    meant.data = std::fs::canonicalize(&meant.data)?;
    let [train, valid] =
        dataset.read([Split::Train, Split::Valid], meant.binarization.library(), meant.training.seed)?;
    meant.architecture.image = [train.height(), train.width()];
    meant.training.fresh = !train.is_binary();
    Ok((meant, train, valid))
}

/// What tells these images from others.
fn names(train: &Images, valid: &Images) -> String {
    format!("{} {}", train.checksum(), valid.checksum())
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{prefix} {bar:16} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, tick: &Tick, progress: &Progress, epochs: Option<usize>, begun: &Instant, times: &[f64]) {
    let epochs = epochs.unwrap_or_else(|| mcvi::vae::TrainSettings::default().epochs);
    bar.set_length(tick.steps as u64);
    bar.set_position(tick.step as u64);
    bar.set_prefix(format!("epoch {}/{epochs}", tick.epoch));
    let elapsed = begun.elapsed().as_secs_f64();
    let speed = tick.step as f64 / elapsed.max(1e-9);
    let epoch = times.last().copied().unwrap_or(elapsed * tick.steps as f64 / tick.step as f64);
    let left = epoch * (epochs + 1 - tick.epoch.min(epochs)) as f64 - elapsed;
    let valid = progress.epochs.last().map_or(String::new(), |e| format!("valid {:.2}, ", e.valid_bound));
    let left = indicatif::HumanDuration(Duration::from_secs_f64(left.max(0.0)));
    bar.set_message(format!("train {:.2}, {valid}{speed:.0} steps/s, {left:#} left", tick.bound));
}

fn summary(progress: &Progress, seconds: f64, folder: &RunFolder, interrupted: bool) -> Value {
    let best = progress.best();
    let number = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
    json!({
        "epochs": progress.epochs.len(),
        "best_epoch": best.map(|b| b.epoch),
        "train_bound": best.map_or(Value::Null, |b| number(b.train_bound)),
        "valid_bound": best.map_or(Value::Null, |b| number(b.valid_bound)),
        "seconds": seconds,
        "run": folder.path(),
        "interrupted": interrupted,
    })
}

fn text(result: &Value, progress: &Progress, interrupted: bool) -> String {
    let run = result["run"].as_str().unwrap_or("RUN");
    let mut text = match progress.best() {
        None => "No epoch was finished.".to_owned(),
        Some(best) => format!(
            "Bound {:.2} ± {:.2} nats on the validation images after epoch {} of {} (training images {:.2}); {} of the \
             latent variables are in use.",
            best.valid_bound,
            best.valid_se,
            best.epoch,
            progress.epochs.len(),
            best.train_bound,
            best.active
        ),
    };
    if interrupted {
        text += &format!("\nStopped before its end; go on with: mcvi vae train --resume --out {run}");
    } else {
        text += &format!("\nNext: mcvi vae evaluate {run}");
    }
    text
}
