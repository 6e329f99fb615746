//! `mcvi vae train`.

use super::session::{Event, Session};
use super::settings::Config;
use crate::interrupts::Interrupts;
use crate::mistake::Mistake;
use crate::output::{HardwareOptions, parsed, print_result, say};
use crate::ranks;
use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mcvi::Hardware;
use mcvi::vae::{Progress, Tick};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `mcvi vae train`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    settings: Config,
    /// A file of options, under their names: `leapfrogs = 4`. The command line takes precedence.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Folder for checkpoints, metrics and the model; must not exist yet, except with --resume.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Resume the run in --out, exactly as if it had never stopped.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Print one JSON object at the end instead of a summary.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// The run that is asked for, new or resumed, with a notice about how it is resumed.
    fn session(&self) -> Result<(Session, Option<String>)> {
        let hardware = Hardware { ranks: ranks::shared()?, ..self.hardware.resolved()? };
        refuse_unsaveable(&self.settings)?;
        let typed = match &self.config {
            Some(path) => self.settings.or(&Config::read(path)?)?,
            None => self.settings.clone(),
        };
        refuse_unsaveable(&typed)?;
        if self.resume {
            return Session::resume(&typed, &self.out, hardware);
        }
        Ok((Session::start(&typed, &self.out, hardware)?, None))
    }
}

/// Trains with options as on the command line of `mcvi vae train`; the summary of the run. The observer gets the share that is
/// done, and how it goes, in words.
pub fn train(words: &[String], mut observe: impl FnMut(f64, &str) -> ControlFlow<()>) -> Result<Value> {
    let (mut session, _) = parsed::<Options>("mcvi vae train", words)?.session()?;
    session.train(|event| match event {
        Event::Steps { tick, progress, epochs, .. } => {
            let done = (tick.epoch as f64 - 1.0 + tick.step as f64 / tick.steps as f64) / epochs as f64;
            observe(done, &format!("epoch {}/{epochs}, {}", tick.epoch, bounds(tick, progress)))
        }
        Event::Warning(_) => ControlFlow::Continue(()),
    })
}

/// Train to the end, or until a signal.
pub fn run(options: &Options) -> Result<()> {
    let (mut session, notice) = options.session()?;
    if let Some(notice) = notice {
        say(&notice);
    }
    let interrupts = Interrupts::new();
    let bar = bar();
    let result = session.train(|event| {
        match event {
            Event::Steps { tick, progress, epochs, seconds, times } => {
                show(&bar, tick, progress, epochs, seconds, times);
            }
            Event::Warning(warning) => bar.suspend(|| say(&warning)),
        }
        interrupts.flow()
    })?;
    bar.finish_and_clear();
    print_result(options.json, &result, &text(&result, session.progress()))?;
    interrupts.outcome(result["interrupted"] == true)
}

/// Refuse folders that settings.toml, which is text, cannot name.
pub fn refuse_unsaveable(config: &Config) -> Result<()> {
    for (option, given) in [("--data", &config.data), ("--from", &config.from)] {
        let Some(path) = given else { continue };
        let whole = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.clone());
        if whole.to_str().is_none() {
            let why = format!(
                "{option} {}: its name is not UTF-8, so that settings.toml cannot hold it; rename the folder or move it",
                whole.display()
            );
            return Err(Mistake(why).into());
        }
    }
    Ok(())
}

/// A bar for the steps of an epoch.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{prefix} {bar:16} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Epoch, bounds, speed and time left.
pub fn show(bar: &ProgressBar, tick: &Tick, progress: &Progress, epochs: usize, seconds: f64, times: &[f64]) {
    bar.set_length(tick.steps as u64);
    bar.set_position(tick.step as u64);
    bar.set_prefix(format!("epoch {}/{epochs}", tick.epoch));
    let speed = tick.step as f64 / seconds.max(1e-9);
    let epoch = times.last().copied().unwrap_or(seconds * tick.steps as f64 / tick.step as f64);
    let left = epoch * (epochs + 1 - tick.epoch.min(epochs)) as f64 - seconds;
    let left = indicatif::HumanDuration(Duration::from_secs_f64(left.max(0.0)));
    bar.set_message(format!("{}, {speed:.0} steps/s, {left:#} left", bounds(tick, progress)));
}

/// The bounds so far, in words.
fn bounds(tick: &Tick, progress: &Progress) -> String {
    let valid = progress.epochs.last().map_or(String::new(), |e| format!(", valid {:.2}", e.valid_bound));
    format!("train {:.2}{valid}", tick.bound)
}

fn text(result: &Value, progress: &Progress) -> String {
    let run = result["run"].as_str().unwrap_or("RUN");
    let mut text = match progress.best() {
        None => "No epoch has finished.".to_owned(),
        Some(best) => format!(
            "Bound {:.2} ± {:.2} nats on the validation images{} after epoch {} of {} (training images {:.2}); \
             {} of the latent variables are in use.",
            best.valid_bound,
            best.valid_se,
            if result["joined"] == true { ", which were also trained on," } else { "" },
            best.epoch,
            progress.epochs.len(),
            best.train_bound,
            best.active
        ),
    };
    if result["interrupted"] == true {
        text += &format!("\nStopped early; to resume: mcvi vae train --resume --out {run}");
    } else {
        text += &format!("\nNext: mcvi vae evaluate {run}");
    }
    text
}
