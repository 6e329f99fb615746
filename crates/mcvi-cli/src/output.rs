//! What every subcommand of `mcvi paper` takes and leaves: text or JSON, and a folder of figures.

use crate::mistake::mistaken;
use crate::store::folder::Folder;
use anyhow::{Context, Result};
use clap::Args;
use mcvi::{Device, Hardware};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// Options every subcommand takes.
#[derive(Args, Clone)]
pub struct Common {
    /// Folder for figures and results.json; made if it is not there. [default: mcvi-out, with --json none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The seed of all draws: the same seed gives the same results.
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
    /// Threads to use.
    pub fn threads(&self) -> usize {
        threads_or_all(self.threads)
    }

    /// The folder for results, made and found writable before any work is done. None where none is wanted.
    pub fn folder(&self) -> Result<Option<Folder>> {
        let path = match (&self.out, self.json) {
            (Some(path), _) => path.clone(),
            (None, true) => return Ok(None),
            (None, false) => PathBuf::from("mcvi-out"),
        };
        Folder::new(path).map(Some)
    }

    /// Print the result, as JSON or as text, and say what files were written.
    pub fn finish(&self, folder: Option<Folder>, result: &Value, text: &str) -> Result<()> {
        let written = match folder {
            Some(mut folder) => {
                folder.json("results.json", result)?;
                folder.written()
            }
            None => vec![],
        };
        let mut out = std::io::stdout().lock();
        let printed = if self.json {
            writeln!(out, "{result}")
        } else {
            let files: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
            writeln!(out, "{text}\nWritten: {}", files.join(", "))
        };
        match printed.and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot print the result"),
        }
    }
}

/// What to compute with.
#[derive(Args, Clone)]
pub struct HardwareOptions {
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to compute: cpu, cuda, cuda:1 (the second GPU), or auto (a GPU if there is one). Results differ in the last
    /// places between devices.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    /// On a GPU, multiply matrices in full single precision instead of TF32.
    #[arg(long)]
    full_precision: bool,
}

impl HardwareOptions {
    /// What was asked for, if it is there.
    pub fn resolved(&self) -> Result<Hardware> {
        self.device.check().map_err(mcvi::Error::from).map_err(|e| mistaken(e.into()))?;
        let processor = Hardware::with_threads(threads_or_all(self.threads));
        Ok(Hardware { device: self.device, full_precision: self.full_precision, ..processor })
    }
}

/// As many threads as asked for, or as the machine has.
pub fn threads_or_all(threads: Option<u16>) -> usize {
    threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Print what a command has to say.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot print the result"),
    }
}
