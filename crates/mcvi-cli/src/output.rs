//! Options that subcommands share, and everything that is printed: text, JSON or data, and what goes wrong.

use crate::mistake::{Mistake, mistaken};
use crate::ranks;
use crate::store::folder::Folder;
use crate::terminal::Destination;
use anyhow::{Context, Result};
use clap::Args;
use mcvi::{Device, Hardware};
use serde_json::Value;
use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;

/// Options of every subcommand.
#[derive(Args, Clone)]
pub struct Common {
    /// Folder for figures and results.json; created if missing. [default: mcvi-out, or none with --json]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Random seed. The same seed gives the same results.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// The number of threads to use.
    pub fn threads(&self) -> usize {
        threads_or_all(self.threads)
    }

    /// The folder for results, created and checked to be writable before any work is done. None if none is wanted.
    pub fn folder(&self) -> Result<Option<Folder>> {
        let path = match (&self.out, self.json) {
            (Some(path), _) => path.clone(),
            (None, true) => return Ok(None),
            (None, false) => PathBuf::from("mcvi-out"),
        };
        Folder::new(path).map(Some)
    }

    /// Print the result as JSON or as text, and list the files that were written.
    pub fn finish(&self, folder: Option<Folder>, result: &Value, text: &str) -> Result<()> {
        let written = match folder {
            Some(mut folder) => {
                folder.json("results.json", result)?;
                folder.written()
            }
            None => vec![],
        };
        let files: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
        print_result(self.json, result, &format!("{text}\nWritten: {}", files.join(", ")))
    }
}

/// Options from words as on the command line of a subcommand: `--seed`, `7`.
pub fn parsed<T: Args>(command: &'static str, words: &[String]) -> Result<T> {
    let command = T::augment_args(clap::Command::new(command).no_binary_name(true));
    let options = command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches));
    options.map_err(|error| Mistake(in_words(&error)).into())
}

/// What is wrong with options.
pub fn in_words(error: &clap::Error) -> String {
    error.render().to_string().trim_start_matches("error: ").trim_end().to_owned()
}

/// Hardware options.
#[derive(Args, Clone)]
pub struct HardwareOptions {
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Device: cpu, cuda, cuda:1 (the second GPU), or auto (a GPU if there is one). Results differ in the last digits
    /// between devices.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    /// On a GPU, multiply matrices in full single precision instead of TF32.
    #[arg(long)]
    full_precision: bool,
}

impl HardwareOptions {
    /// The requested hardware, if it is available.
    pub fn resolved(&self) -> Result<Hardware> {
        self.device.check().map_err(mcvi::Error::from).map_err(|e| mistaken(e.into()))?;
        let processor = Hardware::with_threads(threads_or_all(self.threads));
        Ok(Hardware { device: self.device, full_precision: self.full_precision, ..processor })
    }
}

/// The requested number of threads, or as many as the machine has.
pub fn threads_or_all(threads: Option<u16>) -> usize {
    threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Print text for people.
pub fn print(text: &str) -> Result<()> {
    put(&Destination::of(&std::io::stdout()).text(text))
}

/// Print a result, as JSON or as text.
pub fn print_result(json: bool, result: &Value, text: &str) -> Result<()> {
    if json { put(&Destination::of(&std::io::stdout()).json(&result.to_string())) } else { print(text) }
}

/// Print data for programs.
pub fn print_data(data: &str) -> Result<()> {
    put(&Destination::of(&std::io::stdout()).data(data))
}

/// Say something on standard error: mistakes, warnings, notices. Nobody may be listening. Of several ranks the first speaks for
/// all.
pub fn say(text: &str) {
    if ranks::silent().is_none() {
        say_error(text);
    }
}

/// Say what has ended this process, whichever rank it is.
pub fn say_error(text: &str) {
    let text = &ranks::silent().map_or(text.to_owned(), |rank| format!("rank {rank}: {text}"));
    let mut to = std::io::stderr().lock();
    let _ = writeln!(to, "{}", Destination::of(&to).text(&format!("mcvi: {text}")));
}

thread_local! {
    /// Where this thread's output goes instead of standard output, if anywhere.
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What a command prints, for a caller that is not a terminal.
pub fn captured(command: impl FnOnce() -> Result<()>) -> Result<String> {
    CAPTURED.set(Some(String::new()));
    let result = command();
    let printed = CAPTURED.take().unwrap_or_default();
    result.map(|()| printed)
}

fn put(text: &str) -> Result<()> {
    if ranks::silent().is_some() {
        return Ok(());
    }
    let kept = CAPTURED.with_borrow_mut(|captured| captured.as_mut().map(|all| *all += text).is_some());
    if kept {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot print the result"),
    }
}
