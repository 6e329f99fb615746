//! `mcvi vae sample` and `mcvi vae reconstruct`: draws from a model, and reconstructions of images, as PNG.

use super::evaluate;
use super::folder::RunFolder;
use crate::mistake::Mistake;
use crate::output::{HardwareOptions, print_result};
use crate::plot::{NOTHING, Tiles};
use anyhow::Result;
use clap::Args;
use mcvi::data::{Images, Split, order};
use mcvi::vae::{Deep, Evaluator};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Options of every command that inspects a run.
#[derive(Args)]
pub struct RunOptions {
    /// The folder of a run (`mcvi vae train … --out RUN`).
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Random seed of the draws and of the choice of images.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object instead of a sentence.
    #[arg(long)]
    pub json: bool,
}

/// Which images to use.
#[derive(Args)]
pub struct ImageOptions {
    /// Which images: train, valid or test.
    #[arg(long, value_name = "SPLIT", default_value_t = Split::Test)]
    pub split: Split,
    /// Folder of the images. [default: as in training]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub hardware: HardwareOptions,
}

/// Options of `mcvi vae sample`.
#[derive(Args)]
pub struct SampleOptions {
    #[command(flatten)]
    run: RunOptions,
    /// Number of draws from the prior.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    count: u16,
    /// Draw pixels, black or white, instead of showing their probabilities.
    #[arg(long)]
    binary: bool,
    /// Output file. [default: RUN/samples.png]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
}

/// Options of `mcvi vae reconstruct`.
#[derive(Args)]
pub struct ReconstructOptions {
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    shown: ImageOptions,
    /// Number of images, chosen at random by the seed.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=5_000))]
    count: u16,
    /// Output file. [default: RUN/reconstructions.png]
    #[arg(long, value_name = "FILE.png")]
    out: Option<PathBuf>,
}

/// Draw from the prior.
pub fn sample(options: &SampleOptions) -> Result<()> {
    let RunOptions { run, seed, json } = &options.run;
    let model = RunFolder::open(run)?.model()?;
    let (tiles, images) = samples(&model, usize::from(options.count), options.binary, *seed)?;
    let file = options.out.clone().unwrap_or_else(|| run.join("samples.png"));
    write(&file, &tiles.png(&images)?)?;
    let what = if options.binary { "" } else { ", the probability of every pixel" };
    let result =
        json!({"file": file.display().to_string(), "count": images.len(), "binary": options.binary, "seed": seed});
    let text = format!("{}: {} draws from the prior{what}", file.display(), images.len());
    print_result(*json, &result, &text)
}

/// Show images beside their reconstructions.
pub fn reconstruct(options: &ReconstructOptions) -> Result<()> {
    let RunOptions { run, seed, json } = &options.run;
    let LoadedRun { model, images, .. } = LoadedRun::new(run, &options.shown)?;
    let which = some(&images, usize::from(options.count), *seed);
    let mut evaluator = options.shown.evaluator(&model, &images, &which, *seed)?;
    let (tiles, pairs) = reconstructions(&mut evaluator, &model)?;
    let file = options.out.clone().unwrap_or_else(|| run.join("reconstructions.png"));
    write(&file, &tiles.png(&pairs)?)?;
    let split = options.shown.split.to_string();
    let result = json!({"file": file.display().to_string(), "count": which.len(), "split": split, "images": which, "seed": seed});
    let text = format!(
        "{}: {} images of the {split} set, each on the left of its reconstruction",
        file.display(),
        which.len()
    );
    print_result(*json, &result, &text)
}

/// A run with its model and the images to use.
pub struct LoadedRun {
    pub folder: RunFolder,
    pub model: Deep,
    pub images: Images,
}

impl LoadedRun {
    pub fn new(run: &Path, shown: &ImageOptions) -> Result<Self> {
        let folder = RunFolder::open(run)?;
        let model = folder.model()?;
        let images = evaluate::images(&folder, &model, shown.data.as_deref(), shown.split).map_err(|e| {
            let e = crate::mistake::mistaken(e);
            if shown.data.is_some() { e } else { Mistake(format!("{e}; give their folder with --data")).into() }
        })?;
        Ok(LoadedRun { folder, model, images })
    }
}

impl ImageOptions {
    /// An evaluator of the images `which`, renumbered from 0.
    pub fn evaluator(&self, model: &Deep, images: &Images, which: &[i32], seed: u64) -> Result<Evaluator> {
        Ok(Evaluator::new(model, &images.batch(which)?, !images.is_binary(), seed, self.hardware.resolved()?)?)
    }
}

/// A random choice of images by the seed: files may be sorted by class.
pub fn some(images: &Images, count: usize, seed: u64) -> Vec<i32> {
    let mut which = order(seed, 0, images.len());
    which.truncate(count);
    which
}

/// Draws from the prior, and their layout.
pub fn samples(model: &Deep, count: usize, binary: bool, seed: u64) -> Result<(Tiles, Vec<Vec<f32>>)> {
    let [height, width] = model.architecture.image;
    let images = Evaluator::sample(model, count, binary, seed)?;
    let tiles = Tiles::new(height, width).scale(scale(height)).columns(count.isqrt().max(1));
    Ok((tiles, images.iter().map(|image| single(image)).collect()))
}

/// All images of an evaluator, each beside its reconstruction, and their layout.
pub fn reconstructions(evaluator: &mut Evaluator, model: &Deep) -> Result<(Tiles, Vec<Vec<f32>>)> {
    let [height, width] = model.architecture.image;
    let all: Vec<i32> = (0..evaluator.images() as i32).collect();
    let pairs = evaluator.reconstruct(&all)?.into_iter().map(|(image, again)| beside(&image, &again, width)).collect();
    let columns = if all.len() < 8 { all.len() } else { 8 };
    // The two images of a pair are close together.
    let tiles = Tiles::new(height, 2 * width + 1).gap((width / 5).max(2)).scale(scale(height)).columns(columns);
    Ok((tiles, pairs))
}

/// Two images side by side as one, with a line between them.
fn beside(left: &[f64], right: &[f64], width: usize) -> Vec<f32> {
    let rows = left.chunks(width).zip(right.chunks(width));
    rows.flat_map(|(l, r)| [single(l), vec![NOTHING], single(r)].concat()).collect()
}

fn single(image: &[f64]) -> Vec<f32> {
    image.iter().map(|p| *p as f32).collect()
}

/// Enlargement at which small images can be seen.
fn scale(height: usize) -> usize {
    (56 / height.max(1)).clamp(1, 8)
}

/// Write an output file.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = |e: std::io::Error| Mistake(format!("cannot write {}: {e}; choose another --out", file.display()));
    Ok(mcvi::disk::atomic_write(file, bytes).map_err(cannot)?)
}
