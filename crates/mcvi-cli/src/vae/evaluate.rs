//! `mcvi vae evaluate`: the bound and log p(x) of a split, by importance sampling and, as a check, by annealing.

use super::folder::RunFolder;
use crate::output::print;
use crate::watch::Interrupts;
use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mcvi::data::{Dataset, Images, Split, order};
use mcvi::diagnostics::mean;
use mcvi::vae::{AnnealSettings, Deep, Evaluator, annealed_evidence};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `mcvi vae evaluate`.
#[derive(Args)]
pub struct Options {
    /// The folder of a run (`mcvi vae train … --out RUN`).
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Which images: train, valid or test.
    #[arg(long, value_name = "SPLIT", default_value_t = Split::Test)]
    split: Split,
    /// Importance samples of each image.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    samples: u32,
    /// Use only so many images, drawn by the seed. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    images: Option<u32>,
    /// Check log p(x) of so many images by annealed importance sampling with accept/reject HMC.
    #[arg(long, value_name = "N", default_value_t = 0)]
    annealed: u32,
    /// Temperatures of the annealing.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    temperatures: u32,
    /// Chains of the annealing for each image.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=512))]
    chains: u32,
    /// Where the images are. [default: where they were in training]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The seed of all draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// The images of a split as a run sees them: of the size its model was made for, grey ones binarized as in training.
pub fn images(folder: &RunFolder, model: &Deep, data: Option<&Path>, split: Split) -> Result<Images> {
    let mut settings = folder.settings()?;
    settings.data = data.map(Path::to_owned).or(settings.data);
    let meant = settings.meant(model.architecture.image)?;
    let [images] = Dataset::open(&meant.data)?.read([split], meant.binarization.library(), meant.training.seed)?;
    if [images.height(), images.width()] != model.architecture.image {
        let [h, w] = model.architecture.image;
        let why = format!(
            "{} has images of {} by {}, the model is for {h} by {w}",
            meant.data.display(),
            images.height(),
            images.width()
        );
        return Err(crate::mistake::Mistake(why).into());
    }
    Ok(images)
}

/// Evaluate, print and keep the result in the run's folder.
pub fn run(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let threads =
        options.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let folder = RunFolder::open(&options.run)?;
    let model = folder.model()?;
    let images = images(&folder, &model, options.data.as_deref(), options.split)?;
    // Files may be sorted by class: some images are a sample of all, never the first.
    let mut which = order(options.seed, 0, images.len());
    which.truncate(options.images.map_or(images.len(), |n| n as usize));
    let pixels = images.array()?;

    let interrupts = Interrupts::new(None);
    let mut evaluator = Evaluator::new(&model, &pixels, !images.is_binary(), options.seed, threads)?;
    let bar = bar(which.len(), "importance sampling");
    let evidence = evaluator.evidence(&which, options.samples as usize, |done| {
        bar.set_position(done as u64);
        if interrupts.any() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    bar.finish_and_clear();
    let (bound, log_p) = (evidence.bound(), evidence.log_p());
    let interrupted = evidence.log_p.len() < which.len();

    let annealed = if options.annealed > 0 && !interrupted {
        let some: Vec<i32> = which.iter().copied().take(options.annealed as usize).collect();
        let settings = AnnealSettings {
            temperatures: options.temperatures as usize,
            chains: options.chains as usize,
            seed: options.seed,
            ..AnnealSettings::default()
        };
        let bar = self::bar(some.len(), "annealing");
        let by = annealed_evidence(&model, &images.batch(&some)?, settings, |done| bar.set_position(done as u64))?;
        bar.finish_and_clear();
        let differences: Vec<f64> = by.log_p.iter().zip(&evidence.log_p).map(|(a, b)| a - b).collect();
        let (log_p, difference) = (mean(&by.log_p), mean(&differences));
        Some(json!({
            "images": some.len(),
            "chains": options.chains,
            "temperatures": options.temperatures,
            "log_p": {"value": number(log_p.value), "se": number(log_p.se)},
            "minus_importance_sampling": {"value": number(difference.value), "se": number(difference.se)},
            "accept": number(by.accept),
            "step": by.step,
        }))
    } else {
        None
    };

    let mut result = json!({
        "split": options.split.to_string(),
        "images": evidence.log_p.len(),
        "samples": options.samples,
        "bound": {"value": number(bound.value), "se": number(bound.se)},
        "log_p": {"value": number(log_p.value), "se": number(log_p.se)},
        "gap": number(log_p.value - bound.value),
        "seconds": begun.elapsed().as_secs_f64(),
        "seed": options.seed,
        "interrupted": interrupted,
    });
    if let Some(annealed) = annealed {
        result["annealed"] = annealed;
    }
    if !interrupted {
        folder.save(&format!("evaluation-{}.json", options.split), format!("{result:#}\n").as_bytes())?;
    }
    print(&if options.json { result.to_string() } else { text(&result) })
}

fn number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { Value::Null }
}

fn bar(length: usize, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    let style = ProgressStyle::with_template("{prefix} {bar:20} {pos}/{len} images, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn text(result: &Value) -> String {
    let shown = |value: &Value| {
        let part = |name: &str| value[name].as_f64().map_or("−∞".to_owned(), |x| format!("{x:.3}"));
        format!("{} ± {}", part("value"), part("se"))
    };
    let mut text = format!(
        "{} images of the {} set, {} importance samples each, nats an image:\n\n  bound     {}\n  log p(x)  {}\n  gap       {:.3}",
        result["images"],
        result["split"].as_str().unwrap_or(""),
        result["samples"],
        shown(&result["bound"]),
        shown(&result["log_p"]),
        result["gap"].as_f64().unwrap_or(f64::NAN),
    );
    if let Some(annealed) = result.get("annealed") {
        text += &format!(
            "\n\nAnnealed importance sampling over {} of them ({} chains, {} temperatures, {:.0} % accepted):\n\n  \
             log p(x)  {}\n  minus importance sampling on the same images  {}",
            annealed["images"],
            annealed["chains"],
            annealed["temperatures"],
            100.0 * annealed["accept"].as_f64().unwrap_or(f64::NAN),
            shown(&annealed["log_p"]),
            shown(&annealed["minus_importance_sampling"]),
        );
    }
    if result["interrupted"] == true {
        text += "\n\nStopped early: only the images done so far count, and nothing was kept.";
    }
    text
}
