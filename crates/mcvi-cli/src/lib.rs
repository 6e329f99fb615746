//! The command `mcvi`: arguments become settings, settings a library call, results tables, figures and files.

mod fit;
#[doc(hidden)]
pub mod fuzz;
mod interrupts;
mod mistake;
mod number;
mod output;
mod paper;
pub mod plot;
mod progress;
pub mod report;
pub mod store;
mod vae;
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
    /// Fit a posterior: independent draws, a bound on log p(x), and a verdict.
    Fit(fit::Options),
    /// Draw more from a saved fit.
    Draw(fit::DrawOptions),
    /// List the available models.
    List,
    /// Train, evaluate and inspect deep generative models of images.
    #[command(subcommand)]
    Vae(vae::Command),
    /// Check by simulation whether the fits of a model are calibrated (takes minutes).
    Calibrate(fit::calibrate::Options),
}

/// Run the command line.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Paper(command) => paper::run(command),
        Command::Fit(options) => fit::run(&options),
        Command::Draw(options) => fit::draw(&options),
        Command::List => fit::list(),
        Command::Vae(command) => vae::run(command),
        Command::Calibrate(options) => fit::calibrate::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcvi: {error:#}");
            ExitCode::from(mistake::exit_code(&error))
        }
    }
}
