//! `mcvi vae sample` and `mcvi vae reconstruct`: what a model draws, and what it makes of images, as PNG.

use super::evaluate;
use super::folder::RunFolder;
use crate::mistake::Mistake;
use crate::output::{HardwareOptions, print};
use crate::plot::{NOTHING, Tiles};
use anyhow::Result;
use clap::Args;
use mcvi::data::{Images, Split, order};
use mcvi::vae::{Deep, Evaluator};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What is looked at, and how.
#[derive(Args)]
pub struct LookOptions {
    /// The folder of a run (`mcvi vae train … --out RUN`).
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The seed of all draws and of the choice of images.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object instead of a sentence.
    #[arg(long)]
    pub json: bool,
}

/// Which images a model is shown.
#[derive(Args)]
pub struct Shown {
    /// Which images: train, valid or test.
    #[arg(long, value_name = "SPLIT", default_value_t = Split::Test)]
    pub split: Split,
    /// Where the images are. [default: where they were in training]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub hardware: HardwareOptions,
}

/// Options of `mcvi vae sample`.
#[derive(Args)]
pub struct SampleOptions {
    #[command(flatten)]
    look: LookOptions,
    /// How many draws from the prior.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    count: u16,
    /// Draw pixels, black or white, instead of showing their probabilities.
    #[arg(long)]
    binary: bool,
    /// Where the picture goes. [default: RUN/samples.png]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
}

/// Options of `mcvi vae reconstruct`.
#[derive(Args)]
pub struct ReconstructOptions {
    #[command(flatten)]
    look: LookOptions,
    #[command(flatten)]
    shown: Shown,
    /// How many images, drawn by the seed.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=5_000))]
    count: u16,
    /// Where the picture goes. [default: RUN/reconstructions.png]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
}

/// Draw from the prior.
pub fn sample(options: &SampleOptions) -> Result<()> {
    let LookOptions { run, seed, json } = &options.look;
    let model = RunFolder::open(run)?.model()?;
    let (tiles, images) = samples(&model, usize::from(options.count), options.binary, *seed)?;
    let file = options.out.clone().unwrap_or_else(|| run.join("samples.png"));
    write(&file, &tiles.png(&images)?)?;
    let what = if options.binary { "" } else { ", the probability of every pixel" };
    let result =
        json!({"file": file.display().to_string(), "count": images.len(), "binary": options.binary, "seed": seed});
    let text = format!("{}: {} draws from the prior{what}", file.display(), images.len());
    print(&if *json { result.to_string() } else { text })
}

/// Show images beside what the model makes of them.
pub fn reconstruct(options: &ReconstructOptions) -> Result<()> {
    let LookOptions { run, seed, json } = &options.look;
    let Opened { model, images, .. } = Opened::new(run, &options.shown)?;
    let which = some(&images, usize::from(options.count), *seed);
    let mut evaluator = options.shown.evaluator(&model, &images, &which, *seed)?;
    let (tiles, pairs) = reconstructions(&mut evaluator, &model)?;
    let file = options.out.clone().unwrap_or_else(|| run.join("reconstructions.png"));
    write(&file, &tiles.png(&pairs)?)?;
    let split = options.shown.split.to_string();
    let result = json!({"file": file.display().to_string(), "count": which.len(), "split": split, "images": which, "seed": seed});
    let text = format!(
        "{}: {} images of the {split} set, each left as it is and right as the model gives it back",
        file.display(),
        which.len()
    );
    print(&if *json { result.to_string() } else { text })
}

/// A run with its model and the images it is shown.
pub struct Opened {
    pub folder: RunFolder,
    pub model: Deep,
    pub images: Images,
}

impl Opened {
    pub fn new(run: &Path, shown: &Shown) -> Result<Self> {
        let folder = RunFolder::open(run)?;
        let model = folder.model()?;
        let images = evaluate::images(&folder, &model, shown.data.as_deref(), shown.split).map_err(|e| {
            let e = crate::mistake::mistaken(e);
            if shown.data.is_some() {
                e
            } else {
                Mistake(format!("{e}; say with --data where the images are now")).into()
            }
        })?;
        Ok(Opened { folder, model, images })
    }
}

impl Shown {
    /// For the images named, which are numbered anew from 0.
    pub fn evaluator(&self, model: &Deep, images: &Images, which: &[i32], seed: u64) -> Result<Evaluator> {
        Ok(Evaluator::new(model, &images.batch(which)?, !images.is_binary(), seed, self.hardware.resolved()?)?)
    }
}

/// So many images by the seed: files may be sorted by class, so never the first.
pub fn some(images: &Images, count: usize, seed: u64) -> Vec<i32> {
    let mut which = order(seed, 0, images.len());
    which.truncate(count);
    which
}

/// Pictures of draws from the prior, and how they are laid out.
pub fn samples(model: &Deep, count: usize, binary: bool, seed: u64) -> Result<(Tiles, Vec<Vec<f32>>)> {
    let [height, width] = model.architecture.image;
    let images = Evaluator::sample(model, count, binary, seed)?;
    let tiles = Tiles::new(height, width).scale(scale(height)).columns(count.isqrt().max(1));
    Ok((tiles, images.iter().map(|image| single(image)).collect()))
}

/// Pictures of all images of an evaluator, each beside its reconstruction, and how they are laid out.
pub fn reconstructions(evaluator: &mut Evaluator, model: &Deep) -> Result<(Tiles, Vec<Vec<f32>>)> {
    let [height, width] = model.architecture.image;
    let all: Vec<i32> = (0..evaluator.images() as i32).collect();
    let pairs = evaluator.reconstruct(&all)?.into_iter().map(|(image, again)| beside(&image, &again, width)).collect();
    let columns = if all.len() < 8 { all.len() } else { 8 };
    // What belongs together is close together.
    let tiles = Tiles::new(height, 2 * width + 1).gap((width / 5).max(2)).scale(scale(height)).columns(columns);
    Ok((tiles, pairs))
}

/// Two images as one, with a line between them.
fn beside(left: &[f64], right: &[f64], width: usize) -> Vec<f32> {
    let rows = left.chunks(width).zip(right.chunks(width));
    rows.flat_map(|(l, r)| [single(l), vec![NOTHING], single(r)].concat()).collect()
}

fn single(image: &[f64]) -> Vec<f32> {
    image.iter().map(|p| *p as f32).collect()
}

/// How much small images must be enlarged to be seen.
fn scale(height: usize) -> usize {
    (56 / height.max(1)).clamp(1, 8)
}

/// Write a file the user asked for.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = |e: std::io::Error| Mistake(format!("cannot write {}: {e}; choose another --out", file.display()));
    Ok(mcvi::atomic_write(file, bytes).map_err(cannot)?)
}
