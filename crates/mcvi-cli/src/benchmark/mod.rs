//! `mcvi benchmark`: comparisons that the literature makes.

mod annealing;
mod evidence;
mod figure;
mod row;

use anyhow::Result;
use clap::Subcommand;

/// Which comparison.
#[derive(Subcommand)]
pub enum Command {
    /// Bounds on log Z of the literature's targets, by kernel and number of steps, beside published ones.
    Evidence(evidence::Options),
}

/// Run it.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Evidence(options) => evidence::run(&options),
    }
}
