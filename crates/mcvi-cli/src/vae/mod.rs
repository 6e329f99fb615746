//! `mcvi vae`: Hamiltonian variational auto-encoders, trained, resumed, evaluated and looked at.

mod evaluate;
mod folder;
mod session;
mod settings;
mod sweep;
mod train;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Train a decoder, an inference network and a chain together.
    Train(Box<train::Options>),
    /// Train many models at once, from a file that lists them.
    Sweep(sweep::Options),
    /// Estimate the bound and log p(x) of images a model has not seen.
    Evaluate(evaluate::Options),
}

/// Do what the command line says.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Train(options) => train::run(&options),
        Command::Sweep(options) => sweep::run(&options),
        Command::Evaluate(options) => evaluate::run(&options),
    }
}
