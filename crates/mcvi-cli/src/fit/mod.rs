//! `mcvi fit`, `mcvi draw` and `mcvi list`: from a model to a posterior with a verdict, and more draws from it later.
//!
//! What is public here is what another door to the same calls needs (the Python package): options as words, the settings they
//! resolve to, the result, and its files.

mod arviz;
pub mod calibrate;
mod catalogue;
pub mod compare;
pub(crate) mod each;
mod files;
mod page;
pub mod predict;
mod regression;
mod result;
pub mod settings;
mod version1;
mod watch;

pub use arviz::groups;
pub use catalogue::{PYTHON, open as open_model};
pub use files::{Results, approximation, write, written};
pub use page::page;
pub use regression::RegressionOptions;
pub use result::{Outcome, table};
pub use watch::Progress;

use crate::many::Shard;
use crate::mistake::{Mistake, mistaken};
use crate::output::{HardwareOptions, parsed, print, print_data, print_result, say};
use crate::ranks;
use crate::store::folder::Staging;
use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use mcvi::diagnostics::RELIABLE_K;
use mcvi::fit::StopReason;
use mcvi::infer::{Budget, ChainChoice, Checkpoint, Event, Request, VerdictKind, infer_from};
use mcvi::model::Quantities;
use mcvi::{BayesianModel, Chain, Device, Draws, Mixture, limits};
use settings::{Identity, Saved};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of `mcvi fit`.
#[derive(Args)]
pub struct Options {
    /// A formula ('y ~ x + (1 | group)'), a built-in posterior (see `mcvi list`), or a Stan program (FILE.stan).
    #[arg(default_value = "stomach-cancer", value_name = "MODEL")]
    model: String,
    /// For a regression: a table with a header (CSV, TSV, also gzipped; - is standard input). For a Stan program: a file of JSON.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    #[command(flatten)]
    regression: regression::RegressionOptions,
    /// Fit many data sets: every file of this folder, or with --data FILE the rows of each level of this column of it.
    #[arg(long, value_name = "FOLDER_OR_COLUMN", requires = "out", conflicts_with_all = ["from", "repeat"])]
    each: Option<String>,
    /// With --each: only this shard of the data sets, such as 2/8. Shards are joined by `mcvi merge`.
    #[arg(long, value_name = "I/N", requires = "each")]
    shard: Option<Shard>,
    /// Resume the fit in this folder. The result is the same as if it had never stopped.
    #[arg(long, value_name = "RUN", conflicts_with_all = SAVED, conflicts_with = "repeat")]
    from: Option<PathBuf>,
    /// Repeat the fit in this folder from the start, with the same settings.
    #[arg(long, value_name = "RUN", conflicts_with_all = SAVED, conflicts_with_all = ["iterations", "seconds"])]
    repeat: Option<PathBuf>,
    /// The chain after the Gaussian: auto (as long as needed), none (plain variational inference), hamiltonian, or a
    /// description of a chain (FILE.toml, FILE.json, or JSON; see the guide).
    #[arg(long, default_value = "auto", value_name = "KIND")]
    chain: ChainOption,
    /// Hamiltonian steps, with --chain hamiltonian. [default: 2]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=limits::STEPS as i64))]
    steps: Option<u16>,
    /// Leapfrogs per step, with --chain hamiltonian. [default: 4]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=limits::LEAPFROGS as i64))]
    leapfrogs: Option<u16>,
    /// Covariance of the Gaussian. [default: full, learned up to 100 dimensions]
    #[arg(long, value_enum, value_name = "KIND")]
    covariance: Option<CovarianceOption>,
    /// Starting points for the search for modes.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=limits::STARTS as i64))]
    starts: u16,
    /// Maximum number of iterations over all fits. [default: until each fit has converged or taken 40,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Maximum number of seconds for everything, drawing and writing included. Results then depend on the machine's
    /// speed.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Initial learning rate.
    #[arg(long, value_name = "RATE", default_value_t = 0.03)]
    rate: f64,
    /// Draws to write. The verdict uses at least 50,000, or 10,000 of nearly equal weight; fewer where the log
    /// density takes long. [default: 4000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=limits::DRAWS as i64))]
    draws: Option<u32>,
    /// Write draws as they are, with their log weights, instead of resampled ones of equal weight.
    #[arg(long)]
    raw: bool,
    /// Draws for which the log likelihood of each observation and replicated data are written: a number or all.
    /// [default: as many as make five million numbers]
    #[arg(long, value_name = "N")]
    pointwise: Option<Pointwise>,
    /// Folder for all output; must not exist yet. Without it nothing is written.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Random seed. The same seed gives the same results.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Fail unless the verdict is good. Everything is printed and written all the same.
    #[arg(long)]
    strict: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Options that a saved fit already determines.
const SAVED: [&str; 17] = [
    "model",
    "data",
    "target",
    "family",
    "link",
    "priors",
    "prior_file",
    "weights",
    "na",
    "missing",
    "chain",
    "steps",
    "leapfrogs",
    "covariance",
    "starts",
    "rate",
    "seed",
];

/// Share of the seconds that searching, fitting and judging may take; the rest is for checking and writing.
const FITTING: f64 = 0.9;

/// How often the state of a fit is saved, lest the process be killed.
const SAVED_EVERY: Duration = Duration::from_secs(30);

/// Draws written by default.
const DRAWS: usize = 4000;

#[derive(Clone)]
enum ChainOption {
    Auto,
    None,
    Hamiltonian,
    File(PathBuf),
    Given(Box<Chain>),
}

impl std::str::FromStr for ChainOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(ChainOption::Auto),
            "none" => Ok(ChainOption::None),
            "hamiltonian" => Ok(ChainOption::Hamiltonian),
            json if json.starts_with('{') => Ok(ChainOption::Given(Box::new(parse_chain(json, true)?))),
            file if file.ends_with(".toml") || file.ends_with(".json") => Ok(ChainOption::File(file.into())),
            _ => Err("possible values: auto, none, hamiltonian, FILE.toml, FILE.json, or a chain as JSON".to_owned()),
        }
    }
}

/// Draws for which pointwise results are written.
#[derive(Clone, Copy)]
struct Pointwise(usize);

impl std::str::FromStr for Pointwise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Pointwise(usize::MAX)),
            number => number.parse().map(Pointwise).map_err(|_| "needs a number of draws, or all".to_owned()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CovarianceOption {
    Diagonal,
    Full,
}

/// The resolved options: what to fit, how, and from which state.
struct Resolved {
    model: Arc<dyn BayesianModel>,
    request: Request,
    checkpoint: Checkpoint,
}

impl Options {
    /// From words as on the command line: `--seed`, `7`.
    pub fn parse(words: &[String]) -> Result<Self> {
        parsed("mcvi fit", words)
    }

    /// Whether draws are wanted as they are.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Resolve the options.
    fn resolve(&self) -> Result<Resolved> {
        let saved = self.from.as_deref().or(self.repeat.as_deref()).map(Saved::open).transpose()?;
        // On a GPU every rank computes the whole.
        let ranks = if self.hardware.resolved()?.device == Device::Cpu { ranks::joined() } else { None };
        let (model, request, checkpoint) = match &saved {
            None => {
                let model = catalogue::open_shared(&self.model, self.data.as_deref(), &self.regression, ranks)?;
                (model, self.request()?, Checkpoint::default())
            }
            Some(run) if self.from.is_some() => (run.shared_model(ranks)?, run.settings.resumed(), run.checkpoint()?),
            Some(run) => (run.shared_model(ranks)?, run.settings.repeated(), Checkpoint::default()),
        };
        let request = self.complete(request, &checkpoint)?;
        Ok(Resolved { model, request, checkpoint })
    }

    /// A request with what may be chosen anew whenever a fit goes on: budget, draws to write, hardware.
    pub fn complete(&self, mut request: Request, checkpoint: &Checkpoint) -> Result<Request> {
        let given = self.iterations.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        if let Some(most) = given {
            // A single fit may use all of them. With several fits, each keeps its own limit.
            if request.chain != ChainChoice::Auto {
                request.settings.iterations = request.settings.iterations.max(most);
            }
            let taken = checkpoint.iterations();
            if most < taken {
                let why = format!(
                    "the fit has already taken {taken} iterations; to resume it, give no smaller number than that with --iterations"
                );
                return Err(Mistake(why).into());
            }
        }
        request.budget = Budget {
            iterations: given.or(request.budget.iterations),
            seconds: self.seconds.or(request.budget.seconds),
        };
        if let Some(draws) = self.draws {
            request.draws = draws as usize;
        }
        request.hardware = self.hardware.resolved()?;
        Ok(request)
    }

    /// The request for a new fit.
    pub fn request(&self) -> Result<Request> {
        let sized = self.steps.is_some() || self.leapfrogs.is_some();
        let chain = match &self.chain {
            ChainOption::None if sized => {
                let why = "--steps and --leapfrogs set the length of a chain, but --chain none asks for none";
                return Err(Mistake(why.to_owned()).into());
            }
            ChainOption::File(_) | ChainOption::Given(_) if sized || self.covariance.is_some() => {
                let why =
                    "what is given to --chain describes the whole chain; omit --steps, --leapfrogs and --covariance";
                return Err(Mistake(why.to_owned()).into());
            }
            ChainOption::File(path) => ChainChoice::Given(read_chain(path)?),
            ChainOption::Given(chain) => ChainChoice::Given((**chain).clone()),
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
            draws: DRAWS,
            ..Request::default()
        };
        request.settings.rate = self.rate;
        request.settings.seed = self.seed;
        Ok(request)
    }
}

/// Fit, then print and write the results.
pub fn run(options: &Options) -> Result<()> {
    if let Some(text) = options.regression.shown(&options.model, options.data.as_deref())? {
        return print_data(text.trim_end());
    }
    if let Some(each) = &options.each {
        ranks::alone()?;
        return each::run(options, each);
    }
    let started = Instant::now();
    let shared = ranks::shared()?;
    let Resolved { model, mut request, checkpoint } = options.resolve()?;
    request.hardware.ranks = shared;
    request.check()?;
    let watch = watch::Watch::new(request.budget);
    // Checked before any work is done.
    let out = options.out.as_deref().filter(|_| request.hardware.is_first());
    let mut staging = out.map(Staging::new).transpose().map_err(mistaken)?;
    let identity = options.out.as_ref().map(|_| Identity::of(model.as_ref())).transpose()?.flatten();
    // What follows the fit needs time too.
    let left = |of: f64| request.budget.seconds.map(|s| ranks::agreed(of * s - started.elapsed().as_secs_f64()));
    let mut timed = request.clone();
    timed.budget.seconds = left(FITTING).map(|s| s.max(f64::MIN_POSITIVE));
    let save = |staging: &mut Staging, state: (StopReason, &Checkpoint)| {
        if let Some(Err(error)) = identity.as_ref().map(|i| files::publish_state(staging, i, &request, state)) {
            say(&format!("the state of the fit could not be saved before the results: {error:#}"));
        }
    };
    let mut saved = Instant::now();
    let posterior = infer_from(model.clone(), &timed, &checkpoint, |event| match (event, &mut staging) {
        (Event::Trace { chain, point }, _) => ranks::together(watch.show(chain, point)),
        (Event::Round { state }, Some(staging)) if saved.elapsed() >= SAVED_EVERY => {
            saved = Instant::now();
            save(staging, (StopReason::Interrupted, state));
            ControlFlow::Continue(())
        }
        (Event::Stopped { reason, state }, Some(staging)) => {
            save(staging, (reason, state));
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    watch.finish();
    let stop_reason = posterior.stop_reason;
    let (complete, progressed) = (posterior.stop_reason.is_complete(), posterior.iterations > checkpoint.iterations());
    let seconds = started.elapsed().as_secs_f64();
    let verdict = posterior.verdict.kind;
    let mut outcome = Outcome::within(posterior, (request.draws, options.raw), seconds, left(1.0))?;
    outcome.pointwise = options.pointwise.map(|Pointwise(draws)| draws);
    let allowed = request.budget.seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    outcome.deadline = allowed.and_then(|allowed| started.checked_add(allowed));
    let json = outcome.json();
    let mut text = outcome.text();
    if options.from.is_some() && !progressed {
        text += "\n\nThe fit was complete; there was nothing left to do.";
    }
    let results = options.out.as_ref().map(|_| files::Results::new(&outcome, identity, request.settings.seed));
    if let (Some(staging), Some(results)) = (staging, results.transpose()?) {
        let saved = staging.is_published().then(|| staging.target().display().to_string());
        let written = files::write(staging.path(), &outcome, results, &request, &json).and_then(|note| {
            let folder = staging.commit()?;
            Ok((folder, note))
        });
        let (folder, note) = match saved {
            Some(saved) => written.with_context(|| {
                format!("the state of the fit is saved, but not all results; to resume it: mcvi fit --from {saved} --out DIR")
            }),
            None => written,
        }?;
        let folder = folder.display();
        text += &format!("\n\nWritten to {folder}: report.html and more.{note}");
        if !complete {
            text += &format!("\nTo resume it: mcvi fit --from {folder} --out DIR");
        }
    }
    print_result(options.json, &json, &text)?;
    watch.outcome(stop_reason)?;
    if options.strict && verdict != VerdictKind::Good {
        return Err(anyhow!("the verdict is {}, and --strict asks for good", verdict.word()));
    }
    Ok(())
}

/// Options of `mcvi draw`.
#[derive(Args)]
pub struct DrawOptions {
    /// The folder of a fit (`mcvi fit … --out RUN`).
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Number of draws.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=limits::DRAWS as i64))]
    draws: u32,
    /// Draws as they are, with their log weights, instead of resampled ones of equal weight.
    #[arg(long)]
    raw: bool,
    /// Random seed of the draws. [default: derived from the fit's seed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// CSV file to write. [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    hardware: HardwareOptions,
}

/// How many draws to resample from: this multiple of the number asked for, and at least enough to judge the weights.
const RESAMPLED: usize = 4;
const FEWEST: usize = 10_000;

/// What seeds of draws made later are derived from.
pub const MORE: &str = "more draws";

/// `count` draws from a fit, with what follows from them: of equal weight if they can be reweighted, unless raw ones are
/// asked for; and whether they are.
pub fn draws(
    model: &dyn BayesianModel,
    approximation: &Mixture,
    count: usize,
    raw: bool,
    seed: u64,
) -> Result<(Quantities, Draws, bool)> {
    // Several times as many, so that resampled ones are different draws.
    let drawn = if raw { count } else { (RESAMPLED * count).clamp(FEWEST, limits::DRAWS).max(count) };
    let draws = approximation.draw(drawn, seed)?;
    result::check_finite(&draws)?;
    let judged = draws.diagnose();
    let is_resampled = !raw && judged.pareto_k <= RELIABLE_K && judged.lost == 0;
    let draws = if is_resampled { draws.resampled(count, seed) } else { draws.pick(&(0..count).collect::<Vec<_>>()) };
    Ok((model.quantities(&draws.z, None, approximation.hardware())?, draws, is_resampled))
}

/// Draw more from a saved fit.
pub fn draw(options: &DrawOptions) -> Result<()> {
    let (model, approximation, fitted) = files::load(&options.run, options.hardware.resolved()?)?;
    let seed = options.seed.unwrap_or_else(|| mcvi::derive_seed(fitted, MORE));
    let (quantities, drawn, is_resampled) =
        draws(model.as_ref(), &approximation, options.draws as usize, options.raw, seed)?;
    let columns = table(&quantities, &drawn, is_resampled);
    match &options.out {
        Some(path) => crate::store::csv::write(path, &columns)
            .map_err(|e| mistaken(anyhow::Error::new(e).context(format!("cannot write {}", path.display())))),
        None => {
            let mut text = vec![];
            crate::store::csv::write_to(&mut text, &columns)?;
            print_data(String::from_utf8_lossy(&text).trim_end())
        }
    }
}

/// List the available models.
pub fn list() -> Result<()> {
    print(&catalogue::list())
}

/// Read a chain from a file.
fn read_chain(path: &Path) -> Result<Chain> {
    let bad = |e: &dyn std::fmt::Display| Mistake(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| bad(&e))?;
    Ok(parse_chain(&text, path.extension().is_some_and(|e| e == "json")).map_err(|e| bad(&e))?)
}

/// A chain as JSON or TOML.
pub fn parse_chain(text: &str, json: bool) -> Result<Chain, String> {
    if json {
        return serde_json::from_str(text).map_err(|e| e.to_string());
    }
    toml::from_str(text).map_err(|e| e.to_string())
}
