//! The command `mcvi`: arguments become settings, settings a library call, results tables, figures and files.

mod benchmark;
mod bracket;
pub mod fit;
#[doc(hidden)]
pub mod fuzz;
mod interrupts;
mod many;
mod merge;
mod mistake;
mod number;
mod output;
mod paper;
pub mod plot;
mod progress;
pub mod ranks;
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
    /// Predict responses for new data from a saved regression.
    Predict(fit::predict::Options),
    /// Compare saved fits of the same data: leave-one-out cross-validation and evidence.
    Compare(fit::compare::Options),
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
    /// Join the shards of many fits, a calibration or a sweep.
    Merge(merge::Options),
    /// Check and inspect Stan programs.
    #[command(subcommand)]
    Stan(stan::Command),
}

pub use mistake::{Mistake, exit_code, mistaken};
pub use vae::{model as vae_model, train as vae_train};

/// Run the command line of this process.
pub fn main() -> ExitCode {
    let session = match ranks::Session::start() {
        Ok(session) => session,
        Err(error) => {
            output::say(&format!("{error:#}"));
            return ExitCode::FAILURE;
        }
    };
    let code = run(std::env::args_os().collect());
    session.end(code);
    ExitCode::from(code)
}

/// Run a command line, the first word of which is the name of the command: the exit code.
pub fn run(words: Vec<OsString>) -> u8 {
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return wrong_arguments(&error, &words),
    };
    match cli.command.run() {
        Ok(()) => 0,
        Err(error) => match error.downcast_ref::<interrupts::Stopped>() {
            Some(stopped) => stopped.exit_code(),
            None => {
                output::say_error(&format!("{error:#}"));
                exit_code(&error)
            }
        },
    }
}

/// What a command line prints, the first word of which is the name of the command.
pub fn printed(words: &[OsString]) -> anyhow::Result<String> {
    let cli = Cli::try_parse_from(words).map_err(|error| mistake::Mistake(output::in_words(&error)))?;
    output::captured(|| cli.command.run())
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        if !matches!(self, Command::Fit(_) | Command::Vae(vae::Command::Train(_) | vae::Command::Evaluate(_))) {
            ranks::alone()?;
        }
        match self {
            Command::Paper(command) => paper::run(command),
            Command::Fit(options) => fit::run(&options),
            Command::Draw(options) => fit::draw(&options),
            Command::Predict(options) => fit::predict::run(&options),
            Command::Compare(options) => fit::compare::run(&options),
            Command::List => fit::list(),
            Command::Vae(command) => vae::run(command),
            Command::Benchmark(command) => benchmark::run(command),
            Command::Calibrate(options) => fit::calibrate::run(&options),
            Command::Merge(options) => merge::run(&options),
            Command::Stan(command) => stan::run(&command),
        }
    }
}

/// Say what is wrong with the arguments, or give the help that they ask for: the exit code.
fn wrong_arguments(error: &clap::Error, words: &[OsString]) -> u8 {
    // A name that the shell has put in place of a `*` is shown as it is, in plain text.
    let escapes = |word: &OsString| word.to_string_lossy() != terminal::escaped(&word.to_string_lossy());
    if error.use_stderr() && words.iter().any(escapes) {
        output::say(&output::in_words(error));
    } else {
        // Nobody may be listening.
        let _ = error.print();
    }
    error.exit_code() as u8
}
