//! `mcvi vae report`: everything about a run on one HTML page.

mod figures;
mod latent;
mod words;

pub use figures::curves as epoch_figure;

use super::pictures::{ImageOptions, LoadedRun, RunOptions, reconstructions, samples, some, write};
use super::results::Evaluation;
use crate::mistake::Mistake;
use crate::number::json_number;
use crate::output::print_result;
use crate::progress;
use crate::report::{Page, Section, render};
use anyhow::Result;
use clap::Args;
use mcvi::data::Split;
use mcvi::diagnostics::Mean;
use mcvi::vae::{Kind, LeapfrogCurve, leapfrog_curve};
use serde_json::{Value, json};
use std::path::PathBuf;
use words::thousands;

/// Draws from the prior, and images beside their reconstructions.
const SAMPLES: usize = 100;
const PAIRS: usize = 40;

/// Options of `mcvi vae report`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    shown: ImageOptions,
    /// Number of images, chosen at random by the seed, for the latent space and the leapfrogs. [default: 2000, or 500
    /// for convolutional models, which are slow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    images: Option<u32>,
    /// Output file. [default: RUN/report.html]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

/// Compute everything and write the page.
pub fn run(options: &Options) -> Result<()> {
    let (RunOptions { run, seed, json }, shown) = (&options.run, &options.shown);
    let LoadedRun { folder, model, images } = LoadedRun::new(run, shown)?;
    let architecture = &model.architecture;
    let bar = progress::bar(4 + architecture.leapfrogs, "report");
    let resolved = folder.settings()?.resolve(architecture.image)?;
    let epochs = folder.epochs()?;
    if epochs.is_empty() {
        let why = format!("{}: no epoch has finished; train with `mcvi vae train --resume`", run.display());
        return Err(Mistake(why).into());
    }
    let mut evaluations = vec![];
    for split in Split::ALL {
        evaluations.extend(folder.results::<Evaluation>(&Evaluation::file(split))?.map(|e| (split, e)));
    }
    let best = words::best(&epochs, resolved.training.join);
    let (evaluated, evaluation_table) = words::evaluations(&evaluations, &run.display().to_string());

    let (tiles, drawn) = samples(&model, SAMPLES, false, *seed)?;
    let sampled = tiles.to_svg(&drawn)?;
    bar.inc(1);
    let most = match architecture.decoder {
        Kind::Dense => 2000,
        Kind::Conv => 500,
    };
    let which = some(&images, options.images.map_or(most, |n| n as usize), *seed);
    let pairs = &which[..which.len().min(PAIRS)];
    let (tiles, paired) = reconstructions(&mut shown.evaluator(&model, &images, pairs, *seed)?, &model)?;
    let reconstructed = tiles.to_svg(&paired)?;
    bar.inc(1);
    let pixels: Vec<Vec<f32>> = which.iter().map(|i| images.row(*i as usize)).collect();
    let mut evaluator = shown.evaluator(&model, &images, &which, *seed)?;
    let plane = latent::plane(&mut evaluator, &pixels, architecture.image)?;
    bar.inc(1);
    let fresh = !images.is_binary();
    let looked = (*seed, shown.hardware.resolved()?);
    let profile = leapfrog_curve(&model, &images.batch(&which)?, (fresh, 1), looked, |_| bar.inc(1))?;
    bar.finish_and_clear();

    let section = |title: &str, text: String, figure: Option<String>| Section {
        title: title.to_owned(),
        text,
        figure,
        table: None,
    };
    let training = if resolved.training.join { format!("{TRAINING}\n\n{JOINED}") } else { TRAINING.to_owned() };
    let split = shown.split;
    let sections = vec![
        section("Training", training, Some(figures::curves(&epochs, best, architecture.latent).to_svg())),
        Section { table: evaluation_table, ..section("Evaluation", evaluated, None) },
        leapfrogs(&profile, which.len(), split),
        section("Samples", SAMPLED.to_owned(), Some(sampled)),
        section("Reconstructions", format!("{} {RECONSTRUCTED}", of(pairs.len(), split)), Some(reconstructed)),
        section("The latent space", latent_text(&plane, split), Some(plane.svg.clone())),
    ];
    let page = Page {
        title: words::title(architecture),
        verdict: None,
        facts: words::facts(&resolved, &model, &epochs, &folder.times()),
        parameters: vec![],
        sections,
        footer: format!(
            "Made by mcvi {}: mcvi vae report {} --split {split} --images {} --seed {seed}",
            env!("CARGO_PKG_VERSION"),
            run.display(),
            which.len()
        ),
    };
    let file = options.out.clone().unwrap_or_else(|| run.join("report.html"));
    write(&file, render(&page).as_bytes())?;
    let missing = if evaluations.is_empty() {
        format!("\nNot evaluated yet: mcvi vae evaluate {}", run.display())
    } else {
        String::new()
    };
    let text = format!("{}: training, samples, reconstructions, latent space and leapfrogs{missing}", file.display());
    let result = json!({"file": file.display().to_string(), "images": which.len(), "split": split.to_string(), "leapfrogs": as_json(&profile)});
    print_result(*json, &result, &text)
}

const TRAINING: &str = "The bound by epoch. The training bound is the mean over the steps of an epoch, each with its \
    current weights. The validation bound uses averaged weights and decides which epoch is kept. If the training bound \
    keeps rising and the validation bound does not, the model overfits. During KL warm-up both bounds are low, because \
    they are not yet what is maximised.\n\nA latent variable is in use if its mean differs between images (Burda et al. \
    2016: variance above 0.01); the dotted line is their total number. A step size that shrinks to zero means that the \
    chain is not used.";
const JOINED: &str = "The model was also trained on the validation images: their bound says nothing about unseen images, \
    and the last epoch is kept.";
const SAMPLED: &str = "Draws from the prior, through the decoder: the probability of every pixel.";
const RECONSTRUCTED: &str = "beside their reconstructions: on the left the image, on the right the probability of every \
    pixel given a draw from the approximate posterior. They were chosen at random by the seed.";

fn of(count: usize, split: Split) -> String {
    format!("{} images of the {split} set", thousands(count))
}

fn latent_text(plane: &latent::Plane, split: Split) -> String {
    let [first, second] = plane.shares.map(|share| 100.0 * share);
    format!(
        "{} at their posterior means: E[z|x] along its first two principal components, which have {first:.0} % and \
         {second:.0} % of its variance, to {} standard deviations either way. Each cell shows the image nearest to its \
         centre, {} in all; grey cells have none.",
        of(plane.images, split),
        latent::REACH,
        thousands(plane.shown)
    )
}

fn leapfrogs(profile: &LeapfrogCurve, images: usize, split: Split) -> Section {
    let title = "What each leapfrog does".to_owned();
    if profile.after.is_empty() {
        let text = format!(
            "This model has none: its bound is that of q(z₀|x) alone, {} on {}. Train one with --leapfrogs 4 to compare.",
            crate::number::with_error(profile.start, 2),
            of(images, split)
        );
        return Section { title, text, ..Section::default() };
    }
    let text = format!(
        "The trained chain, stopped after fewer leapfrogs than it was trained with, over {}; differences are taken image \
         by image. log p(x, z) shows how far the dynamics carries z towards the posterior.\n\nThe bound is a bound for any \
         number, but the chain has learned to end after all leapfrogs: after fewer it is low also because r does not know \
         those momenta, or because annealed steps have not come as far as the posterior, and may fall below that of \
         q(z₀|x) alone. Also, q(z₀|x) was \
         trained as the start of a chain, not as an approximation by itself: a model trained without leapfrogs has a \
         better one. To see what leapfrogs are worth, train with and without them.",
        of(images, split)
    );
    Section { title, text, figure: Some(figures::leapfrogs(profile).to_svg()), table: Some(words::leapfrogs(profile)) }
}

fn as_json(profile: &LeapfrogCurve) -> Value {
    let mean = |m: Mean| json!({"value": json_number(m.value), "se": json_number(m.se)});
    let rows = profile.after.iter().map(|s| {
        json!({
            "leapfrogs": s.leapfrogs,
            "bound": mean(s.bound),
            "above_start": mean(s.gain),
            "log_joint": mean(s.log_joint),
            "above_start_log_joint": mean(s.climb),
        })
    });
    json!({"start": mean(profile.start), "after": rows.collect::<Vec<_>>()})
}
