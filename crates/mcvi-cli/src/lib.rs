//! The command `mcvi`: arguments become settings, settings a library call, results tables, figures and files.

mod number;
mod output;
mod paper;
pub mod plot;
mod progress;
pub mod regression;
pub mod report;
pub mod store;
mod work;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Markov chain variational inference: posterior draws, a lower bound on log p(x), and a verdict on both.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Reproduce the figures and measure the claims of Salimans, Kingma & Welling (2015).
    #[command(subcommand)]
    Paper(paper::Command),
}

/// Do what the command line says.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Paper(command) => paper::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcvi: {error:#}");
            ExitCode::FAILURE
        }
    }
}
