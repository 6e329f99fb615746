//! `mcvi fit`, `mcvi draw` and `mcvi list`: from a model to a judged posterior, and more draws of it later.

pub mod calibrate;
mod files;
mod problem;
mod result;
mod watch;

use crate::mistake::{Mistake, mistaken};
use crate::output::print;
use crate::store::folder::Staging;
use anyhow::Result;
use clap::{Args, ValueEnum};
use mcvi::infer::{ChainChoice, Request, go_on, infer};
use mcvi::posteriors;
use problem::Problem;
use result::Outcome;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Options of `mcvi fit`.
#[derive(Args)]
pub struct Options {
    /// A posterior that comes with mcvi (see `mcvi list`), or a regression: logistic, linear, poisson.
    #[arg(default_value = "stomach-cancer", value_name = "NAME")]
    model: String,
    /// For a regression: a CSV file with a header.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// For a regression: the column to predict.
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// Go on with the fit of this folder, with the same model and chain, for as many iterations again.
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["model", "data", "target", "chain", "steps", "leapfrogs", "covariance"]
    )]
    from: Option<PathBuf>,
    /// The chain after the Gaussian: chosen by need, none (plain variational inference), or Hamiltonian.
    #[arg(long, value_enum, default_value = "auto", value_name = "KIND")]
    chain: ChainOption,
    /// Hamiltonian steps, with --chain hamiltonian. [default: 2]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=256))]
    steps: Option<u16>,
    /// Leapfrogs in each step, with --chain hamiltonian. [default: 4]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=256))]
    leapfrogs: Option<u16>,
    /// Covariance of the Gaussian. [default: full up to 50 dimensions]
    #[arg(long, value_enum, value_name = "KIND")]
    covariance: Option<CovarianceOption>,
    /// Starts of the search for modes.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    starts: u16,
    /// Most iterations of each fit.
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// The learning rate to begin with.
    #[arg(long, value_name = "RATE", default_value_t = 0.03)]
    rate: f64,
    /// Draws to write; the verdict is always from at least 50,000.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    draws: u32,
    /// Folder for everything the fit leaves; must not be there yet. Without it nothing is written.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The seed of all draws: the same seed gives the same results.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads to use. Results do not depend on it. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChainOption {
    Auto,
    None,
    Hamiltonian,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CovarianceOption {
    Diagonal,
    Full,
}

impl Options {
    /// What was typed becomes what was meant.
    fn request(&self) -> Result<Request> {
        let sized = self.steps.is_some() || self.leapfrogs.is_some();
        let chain = match self.chain {
            ChainOption::None if sized => {
                let why = "--steps and --leapfrogs say how long a chain is, and --chain none asks for none";
                return Err(Mistake(why.to_owned()).into());
            }
            ChainOption::None => ChainChoice::None,
            ChainOption::Auto if !sized => ChainChoice::Auto,
            _ => ChainChoice::Hamiltonian {
                steps: self.steps.unwrap_or(2).into(),
                leapfrogs: self.leapfrogs.unwrap_or(4).into(),
            },
        };
        let mut request = Request {
            chain,
            full_covariance: self.covariance.map(|c| c == CovarianceOption::Full),
            starts: self.starts.into(),
            draws: self.draws as usize,
            ..Request::default()
        };
        request.settings.iterations = usize::try_from(self.iterations).unwrap_or(usize::MAX);
        request.settings.rate = self.rate;
        request.settings.seed = self.seed;
        if let Some(threads) = self.threads {
            request.settings.threads = threads.into();
        }
        Ok(request)
    }
}

/// Fit, judge, print and write.
pub fn run(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let request = options.request()?;
    let (problem, saved) = match &options.from {
        Some(run) => files::load(run).map(|(problem, approximation, shape)| (problem, Some((approximation, shape))))?,
        None => (Problem::new(&options.model, options.data.as_deref(), options.target.as_deref())?, None),
    };
    // Before any work is done.
    let staging = options.out.as_deref().map(Staging::new).transpose().map_err(mistaken)?;
    let unfinished = staging.as_ref().map(|s| s.path().to_owned());
    let watch = watch::Watch::new(request.settings.iterations, unfinished);
    let look = |name: &str, look: &mcvi::fit::Look| watch.look(name, look);
    let posterior = match saved {
        Some((approximation, shape)) => go_on(approximation, shape, &request, look)?,
        None => infer(Arc::new(problem.model.clone()), &request, look)?,
    };
    watch.finish();
    let seconds = begun.elapsed().as_secs_f64();
    let outcome = Outcome::new(&problem, posterior, options.seed, options.draws as usize, seconds)?;
    let json = outcome.json();
    let mut text = outcome.text();
    if let Some(staging) = staging {
        files::write(staging.path(), &outcome, &problem, &request, &json)?;
        let folder = staging.commit()?;
        text += &format!("\n\nWritten to {}: report.html and more.", folder.display());
    }
    print(&if options.json { json.to_string() } else { text })
}

/// Options of `mcvi draw`.
#[derive(Args)]
pub struct DrawOptions {
    /// The folder of a fit (`mcvi fit … --out RUN`).
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// How many draws.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    draws: u32,
    /// The seed of the draws. [default: another than the fit's]
    #[arg(long, value_name = "N", default_value_t = 0x5EED)]
    seed: u64,
    /// A CSV file to write instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Draw more from a fit that was saved.
pub fn draw(options: &DrawOptions) -> Result<()> {
    let (problem, approximation, _) = files::load(&options.run)?;
    let draws = approximation.draw(options.draws as usize, options.seed)?;
    let columns = result::columns(&problem, &draws)?;
    match &options.out {
        Some(path) => crate::store::csv::write(path, &columns)
            .map_err(|e| mistaken(anyhow::Error::new(e).context(format!("cannot write {}", path.display())))),
        None => {
            let mut text = vec![];
            crate::store::csv::write_to(&mut text, &columns)?;
            print(String::from_utf8_lossy(&text).trim_end())
        }
    }
}

/// Say what there is to fit.
pub fn list() -> Result<()> {
    let mut text = "Posteriors that come with mcvi (mcvi fit NAME):\n\n".to_owned();
    for b in &posteriors::ALL {
        text += &format!("  {:<18}{}\n", b.name, b.about);
    }
    text += "\nRegressions over a CSV file (mcvi fit NAME --data FILE.csv --target COLUMN):\n\n";
    for (name, about) in problem::REGRESSIONS {
        text += &format!("  {name:<18}{about}\n");
    }
    print(text.trim_end())
}
