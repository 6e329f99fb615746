//! `mcvi vae`: Hamiltonian variational auto-encoders, trained, resumed, evaluated and looked at.

mod curves;
mod evaluate;
mod folder;
mod look;
mod queue;
mod report;
mod results;
mod session;
mod settings;
mod sweep;
mod train;

pub use folder::{RunFolder, read_json};
pub use results::{Estimate, Evaluation, Summary, beyond, duration, learned_momentum};
pub use settings::Config;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Train a decoder, an inference network and a chain together.
    Train(Box<train::Options>),
    /// Train many models at once, from a file that lists them.
    Sweep(sweep::Options),
    /// Draw the bounds of several runs by epoch in one figure.
    Curves(curves::Options),
    /// Estimate the bound and log p(x) of images a model has not seen.
    Evaluate(evaluate::Options),
    /// Draw a picture of images the model makes up.
    Sample(look::SampleOptions),
    /// Draw a picture of images beside what the model makes of them.
    Reconstruct(look::ReconstructOptions),
    /// Put all there is to know about a run on one page.
    Report(report::Options),
}

/// Do what the command line says.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Train(options) => train::run(&options),
        Command::Sweep(options) => sweep::run(&options),
        Command::Curves(options) => curves::run(&options),
        Command::Evaluate(options) => evaluate::run(&options),
        Command::Sample(options) => look::sample(&options),
        Command::Reconstruct(options) => look::reconstruct(&options),
        Command::Report(options) => report::run(&options),
    }
}
