//! `mcvi vae evaluate`: the bound and log p(x) of a split, by importance sampling and, as a check, by annealing.

use super::folder::RunFolder;
use super::provenance::Provenance;
use super::results::Evaluation;
use crate::bracket::Bracket;
use crate::interrupts::Interrupts;
use crate::number::fixed;
use crate::output::{HardwareOptions, print_result};
use crate::ranks;
use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mcvi::Hardware;
use mcvi::data::{Dataset, Images, Split, order};
use mcvi::diagnostics::mean;
use mcvi::vae::{AnnealSettings, Deep, Evaluator, annealed_evidence, two_sided};
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
    /// Importance samples per image.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    samples: u32,
    /// Evaluate only this many images, chosen at random by the seed. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    images: Option<u32>,
    /// Also estimate log p(x) of this many images by annealed importance sampling with accept/reject HMC, as a check.
    #[arg(long, value_name = "N", default_value_t = 0)]
    annealed: u32,
    /// Also bound log p(x) from both sides, on as many images simulated from the model.
    #[arg(long)]
    two_sided: bool,
    /// Number of temperatures for annealing.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    temperatures: u32,
    /// Annealing chains per image.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=512))]
    chains: u32,
    /// Folder of the images. Results for other images than the run's own are printed, but not saved. [default: as in
    /// training]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// The images of a split as the run uses them: of the size its model was made for, grey ones binarized as in training.
pub fn images(folder: &RunFolder, model: &Deep, data: Option<&Path>, split: Split) -> Result<Images> {
    let mut settings = folder.settings()?;
    settings.data = data.map(Path::to_owned).or(settings.data);
    let resolved = settings.resolve(model.architecture.image)?;
    let [images] =
        Dataset::open(&resolved.data)?.read([split], resolved.binarization.library(), resolved.training.seed)?;
    if [images.height(), images.width()] != model.architecture.image {
        let [h, w] = model.architecture.image;
        let why = format!(
            "{} has images of {} by {}, the model is for {h} by {w}",
            resolved.data.display(),
            images.height(),
            images.width()
        );
        return Err(crate::mistake::Mistake(why).into());
    }
    Ok(images)
}

/// What to evaluate, and how.
pub struct Evaluate {
    /// The folder of the run.
    pub run: PathBuf,
    pub split: Split,
    pub samples: usize,
    /// Number of images; none for all.
    pub images: Option<usize>,
    /// How many of them to check by annealing, and with how many temperatures and chains.
    pub annealed: usize,
    pub temperatures: usize,
    pub chains: usize,
    /// Whether to bound log p(x) of simulated images from both sides.
    pub two_sided: bool,
    /// The folder of the images, if it has changed, or of other images.
    pub data: Option<PathBuf>,
    pub seed: u64,
    pub hardware: Hardware,
}

impl Evaluate {
    /// A thousand samples for every image of a split.
    pub fn of(run: &Path, split: Split) -> Self {
        let run = run.to_owned();
        Evaluate {
            run,
            split,
            samples: 1000,
            images: None,
            annealed: 0,
            temperatures: 1000,
            chains: 16,
            two_sided: false,
            data: None,
            seed: 1,
            hardware: Hardware::default(),
        }
    }
}

/// Evaluate, and save the result in the run's folder unless the observer stops early or the images are not the run's
/// own. The observer gets the name of the stage, the number of images done, and their total number.
pub fn evaluate(request: &Evaluate, observe: impl Fn(&str, usize, usize) -> ControlFlow<()>) -> Result<Value> {
    let started = Instant::now();
    let folder = RunFolder::open(&request.run)?;
    let model = folder.model()?;
    let images = images(&folder, &model, request.data.as_deref(), request.split)?;
    // Files may be sorted by class, so a subset is drawn at random.
    let mut which = order(request.seed, 0, images.len());
    which.truncate(request.images.unwrap_or(images.len()));
    let provenance = Provenance::of(&folder, request.data.as_deref(), request.split, &which)?;
    // log p(x) refers to one x: grey images are binarized once, identically for both estimates.
    let images = if images.is_binary() { images } else { images.binarized(request.seed, request.split) };
    let mut evaluator = Evaluator::new(&model, &images.array()?, false, request.seed, request.hardware)?;
    let evidence =
        evaluator.evidence(&which, request.samples, |done| observe("importance sampling", done, which.len()))?;
    let (bound, log_p) = (evidence.bound(), evidence.log_p());
    let mut interrupted = evidence.log_p.len() < which.len();
    let learned = provenance.learned(evidence.log_p.len());
    let mut result = json!({
        "split": request.split.to_string(),
        "images": evidence.log_p.len(),
        "samples": request.samples,
        "bound": {"value": number(bound.value), "se": number(bound.se)},
        "log_p": {"value": number(log_p.value), "se": number(log_p.se)},
        "gap": number(log_p.value - bound.value),
        "seed": request.seed,
        "data": {
            "folder": provenance.folder.display().to_string(),
            "checksum": provenance.checksum,
            "own": provenance.own,
        },
        "learned_from": learned.map(|learned| learned == evidence.log_p.len()),
        "learned_images": learned,
        "interrupted": interrupted,
    });
    if request.annealed > 0 && !interrupted {
        let some: Vec<i32> = which.iter().copied().take(request.annealed).collect();
        let (temperatures, chains, seed) = (request.temperatures, request.chains, request.seed);
        let settings =
            AnnealSettings { temperatures, chains, seed, hardware: request.hardware, ..AnnealSettings::default() };
        let by = annealed_evidence(&model, &images.batch(&some)?, settings, |done| {
            // Annealing cannot be stopped early: a second Ctrl-C ends the process.
            let _ = observe("annealing", done, some.len());
        })?;
        let differences: Vec<f64> = by.log_p.iter().zip(&evidence.log_p).map(|(a, b)| a - b).collect();
        let (log_p, difference) = (mean(&by.log_p), mean(&differences));
        result["annealed"] = json!({
            "images": some.len(),
            "chains": chains,
            "temperatures": temperatures,
            "log_p": {"value": number(log_p.value), "se": number(log_p.se)},
            "minus_importance_sampling": {"value": number(difference.value), "se": number(difference.se)},
            "accept": number(by.accept),
            "step": by.step,
        });
    }
    if request.two_sided && !interrupted {
        let count = which.len();
        let both =
            two_sided(&model, count, request.seed, request.hardware, |done| observe("simulated images", done, count))?;
        interrupted = both.upper.len() < count;
        let bounds = both.lower.into_iter().zip(both.upper).map(|(lower, upper)| [lower, upper]);
        result["two_sided"] = Bracket::new(bounds).json();
        result["interrupted"] = json!(interrupted);
    }
    result["seconds"] = json!(started.elapsed().as_secs_f64());
    // A run in training may have a better model by now. The result belongs to the model that was evaluated.
    let stale = folder.model()?.to_bytes()? != model.to_bytes()?;
    result["stale"] = json!(stale);
    if !interrupted && !stale && provenance.own && request.hardware.is_first() {
        folder.save(&Evaluation::file(request.split), format!("{result:#}\n").as_bytes())?;
    }
    Ok(result)
}

/// Evaluate and print the result.
pub fn run(options: &Options) -> Result<()> {
    let request = Evaluate {
        samples: options.samples as usize,
        images: options.images.map(|n| n as usize),
        annealed: options.annealed as usize,
        temperatures: options.temperatures as usize,
        chains: options.chains as usize,
        two_sided: options.two_sided,
        data: options.data.clone(),
        seed: options.seed,
        hardware: Hardware { ranks: ranks::shared()?, ..options.hardware.resolved()? },
        ..Evaluate::of(&options.run, options.split)
    };
    let (interrupts, bar) = (Interrupts::new(), bar());
    let result = evaluate(&request, |what, done, of| {
        bar.set_prefix(what.to_owned());
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        ranks::together(interrupts.flow())
    })?;
    bar.finish_and_clear();
    print_result(options.json, &result, &text(&result))?;
    interrupts.outcome(result["interrupted"] == true)
}

fn number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { Value::Null }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{prefix} {bar:20} {pos}/{len} images, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn text(result: &Value) -> String {
    let shown = |value: &Value| match (value["value"].as_f64(), value["se"].as_f64()) {
        (None, _) => "−∞".to_owned(),
        (Some(x), None) => fixed(x, 3),
        (Some(x), Some(se)) => format!("{} ± {}", fixed(x, 3), fixed(se, 3)),
    };
    let mut text = format!(
        "{} images of the {} set{}, {} importance samples each, nats per image:\n\n  bound     {}\n  log p(x)  {}\n  gap       {}",
        result["images"],
        result["split"].as_str().unwrap_or(""),
        if result["learned_from"] == true { " (which the model was trained on)" } else { "" },
        result["samples"],
        shown(&result["bound"]),
        shown(&result["log_p"]),
        result["gap"].as_f64().map_or("∞".to_owned(), |gap| fixed(gap, 3)),
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
    if let Some(both) = result.get("two_sided") {
        text += &format!(
            "\n\nlog p(x) from both sides, averaged over {} images simulated from the model:\n\n  \
             lower bound  {}\n  upper bound  {}\n  width        {}",
            both["simulations"],
            shown(&both["lower"]),
            shown(&both["upper"]),
            shown(&both["width"]),
        );
    }
    match result["learned_images"].as_u64() {
        Some(learned) if learned > 0 && result["learned_from"] == false => {
            text += &format!("\n\nThe model was trained on {learned} of these images.");
        }
        None => text += "\n\nWhether the model was trained on these images is not known: its own cannot be read.",
        _ => {}
    }
    if result["data"]["own"] == false {
        text += &format!(
            "\n\nImages: {}\nThese are not the run's own images, so these results were not saved.\n\
             --json prints all of them.",
            result["data"]["folder"].as_str().unwrap_or("")
        );
    }
    if result["interrupted"] == true {
        text += "\n\nStopped early: these results cover only the images done so far, and were not saved.";
    }
    if result["stale"] == true {
        text += "\n\nThe run has a better model by now: these results were not saved.";
    }
    text
}
