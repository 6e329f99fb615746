//! The command `mcvi`: arguments become settings, settings a library call, results tables, figures and files.

mod benchmark;
mod bracket;
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
mod stan;
pub mod store;
mod terminal;
mod vae;
mod work;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
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
    /// Comparisons that the literature makes: bounds on log Z of its targets (takes minutes).
    #[command(subcommand)]
    Benchmark(benchmark::Command),
    /// Check by simulation whether the fits of a model are calibrated, and bound log p(x) from both sides (takes minutes).
    Calibrate(fit::calibrate::Options),
    /// Check and inspect Stan programs.
    #[command(subcommand)]
    Stan(stan::Command),
}

/// Run the command line.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| wrong_arguments(&error));
    let result = match cli.command {
        Command::Paper(command) => paper::run(command),
        Command::Fit(options) => fit::run(&options),
        Command::Draw(options) => fit::draw(&options),
        Command::List => fit::list(),
        Command::Vae(command) => vae::run(command),
        Command::Benchmark(command) => benchmark::run(command),
        Command::Calibrate(options) => fit::calibrate::run(&options),
        Command::Stan(command) => stan::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<interrupts::Stopped>() {
            Some(stopped) => ExitCode::from(stopped.exit_code()),
            None => {
                output::say(&format!("{error:#}"));
                ExitCode::from(mistake::exit_code(&error))
            }
        },
    }
}

/// Say what is wrong with the arguments, or give the help that they ask for.
fn wrong_arguments(error: &clap::Error) -> ! {
    // A name that the shell has put in place of a `*` is shown as it is, in plain text.
    let escapes = |argument: OsString| argument.to_string_lossy() != terminal::escaped(&argument.to_string_lossy());
    if error.use_stderr() && std::env::args_os().any(escapes) {
        output::say(error.render().to_string().trim_start_matches("error: ").trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}
