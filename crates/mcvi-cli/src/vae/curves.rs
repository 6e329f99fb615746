//! `mcvi vae curves`: the bounds of several runs by epoch, in one figure.

use super::folder::RunFolder;
use crate::mistake::Mistake;
use crate::output::print;
use crate::plot::{Figure, Panel};
use anyhow::{Context, Result};
use clap::Args;
use mcvi::vae::EpochReport;
use std::path::PathBuf;

/// Options of `mcvi vae curves`.
#[derive(Args)]
pub struct Options {
    /// Folders of runs; each line is named after its folder.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The figure's file name without its extension: written as .svg and .png.
    #[arg(long, value_name = "FILE", default_value = "curves")]
    out: PathBuf,
}

/// Share of the worst epochs left out.
const LEFT_OUT: f64 = 0.15;

/// Draw the figure and write it.
pub fn run(options: &Options) -> Result<()> {
    let mut runs = vec![];
    for path in &options.runs {
        let folder = RunFolder::open(path)?;
        let (epochs, joined) = (folder.epochs()?, folder.settings()?.join == Some(true));
        let name = path.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
        let name = name.unwrap_or_else(|| path.display().to_string());
        // Validation images that were trained on validate nothing, so the label says so.
        runs.push((if joined { format!("{name}, joined") } else { name }, epochs));
    }
    let valid = panel("Validation images, averaged weights", &runs, |e| e.valid_bound)?;
    let train = panel("Training images, weights of each step", &runs, |e| e.train_bound)?;
    let figure = Figure::new("Bound by epoch").columns(2).panel_size(420.0, 320.0).panel(valid).panel(train);
    figure.save(&options.out).with_context(|| format!("cannot write {}", options.out.display()))?;
    print(&format!("Written: {0}.svg, {0}.png", options.out.display()))
}

/// The range of bounds to show, without a share of the worst: the first epochs, and epochs spoilt by a single draw,
/// would hide all others.
pub fn range(bounds: impl Iterator<Item = f64>, left_out: f64) -> Option<(f64, f64)> {
    let mut shown: Vec<f64> = bounds.filter(|b| b.is_finite()).collect();
    shown.sort_by(f64::total_cmp);
    let (best, worst) = (shown.last().copied()?, shown[(shown.len() as f64 * left_out) as usize]);
    let margin = 0.05 * (best - worst).max(1.0);
    Some((worst - margin, best + margin))
}

/// A line for each run.
fn panel(title: &str, runs: &[(String, Vec<EpochReport>)], bound: fn(&EpochReport) -> f64) -> Result<Panel> {
    let Some((low, high)) = range(runs.iter().flat_map(|r| r.1.iter().map(bound)), LEFT_OUT) else {
        return Err(Mistake("no run has finished an epoch yet".to_owned()).into());
    };
    let mut panel = Panel::new(title).x_label("epoch").y_label("nats per image").y_range(low, high);
    for (name, epochs) in runs {
        let points = epochs.iter().map(|e| (e.epoch as f64, bound(e)));
        let points: Vec<(f64, f64)> = points.filter(|p| p.1.is_finite() && p.1 >= low).collect();
        panel = panel.line(name.as_str(), &points);
    }
    Ok(panel)
}
