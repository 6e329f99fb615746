//! `mcvi vae`: Hamiltonian variational auto-encoders, trained, resumed, evaluated and inspected.

mod curves;
mod evaluate;
mod folder;
mod pictures;
mod provenance;
mod report;
mod results;
mod session;
mod settings;
mod sweep;
mod train;

pub use folder::{RunFolder, parse_epochs, read_json};
pub use report::epoch_figure;
pub use results::{Estimate, Evaluation, Summary, beyond, duration, learned_momentum};
pub use settings::{Config, parse_toml};
pub use sweep::{Sweep, joined as joined_runs, plan};
pub use train::train;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Train a decoder, an inference network and a chain together.
    Train(Box<train::Options>),
    /// Train many models at once, from a file that lists them.
    Sweep(sweep::Options),
    /// Plot the bounds of several runs by epoch in one figure.
    Curves(curves::Options),
    /// Estimate the bound and log p(x) of held-out images.
    Evaluate(evaluate::Options),
    /// Draw images from the model, as one picture.
    Sample(pictures::SampleOptions),
    /// Show images beside their reconstructions, as one picture.
    Reconstruct(pictures::ReconstructOptions),
    /// Write an HTML report on a run.
    Report(report::Options),
}

/// The model of a run.
pub fn model(run: &std::path::Path) -> Result<mcvi::vae::Deep> {
    RunFolder::open(run)?.model()
}

/// Run the subcommand.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Train(options) => train::run(&options),
        Command::Sweep(options) => sweep::run(&options),
        Command::Curves(options) => curves::run(&options),
        Command::Evaluate(options) => evaluate::run(&options),
        Command::Sample(options) => pictures::sample(&options),
        Command::Reconstruct(options) => pictures::reconstruct(&options),
        Command::Report(options) => report::run(&options),
    }
}
