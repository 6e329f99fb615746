//! `mcvi benchmark evidence`: bounds on log Z of the literature's targets.

use super::annealing::{TEMPERATURES, anneal};
use super::figure::figure;
use super::row::{self, Row};
use crate::interrupts::Interrupts;
use crate::mistake::Mistake;
use crate::output::{HardwareOptions, print_result, say};
use crate::plot::Figure;
use crate::progress;
use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use mcvi::density::{Gaussian, Inputs};
use mcvi::disk::atomic_write;
use mcvi::evidence::{EvidenceTarget, TARGETS, target};
use mcvi::fit::{Settings, fit_observed};
use mcvi::infer::{Budget, ChainChoice, Request, infer_observed};
use mcvi::model::Model;
use mcvi::transition::{AnyTransition, Cmcd, Ldvi, Mcd, OverdampedCmcd, TimeNetwork, Uha};
use mcvi::{Approximation, Chain, Hardware, Initialisation, Params, Sharing, derive_seed};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Options of `mcvi benchmark evidence`.
#[derive(Args)]
pub struct Options {
    /// Targets, by name. [default: all whose data are there]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    targets: Vec<String>,
    /// Kernels of the chain after the Gaussian. [default: riemannian-uha; annealing where modes are far apart]
    #[arg(long, value_enum, value_name = "KERNELS", value_delimiter = ',')]
    kernels: Vec<Kernel>,
    /// Numbers of steps, up to 4096; for annealing, of temperatures. [default: 8; 4000 for annealing]
    #[arg(long, value_name = "T", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    steps: Vec<u16>,
    /// Folder with the data of those targets that have some.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Maximum number of seconds to train each chain.
    #[arg(long, value_name = "S", default_value_t = 100.0, allow_negative_numbers = true)]
    seconds: f64,
    /// Fresh draws by which each chain is judged; at most 25,000 for annealing.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    draws: u32,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Write a figure of bounds against gradients per draw: FILE.svg or FILE.png.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Write the tables to a file, too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON object instead of tables (which are Markdown).
    #[arg(long)]
    json: bool,
}

/// The kernel of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kernel {
    /// None: the Gaussian alone.
    Gaussian,
    /// Hamiltonian steps of one leapfrog, momenta linear in z and ∇log p (the paper's).
    Hamiltonian,
    /// Differentiable annealed importance sampling.
    Dais,
    /// Uncorrected Hamiltonian annealing.
    Uha,
    /// UHA with momenta whose spread is a network of the position and the time.
    RiemannianUha,
    /// Langevin diffusion variational inference: UHA with a learned drift in its inverse.
    Ldvi,
    /// Controlled Monte Carlo diffusion, underdamped: UHA with a learned drift forwards and backwards.
    Cmcd,
    /// Monte Carlo diffusion: Langevin steps with a learned drift in their inverse.
    Mcd,
    /// Controlled Monte Carlo diffusion, overdamped.
    OverdampedCmcd,
    /// Annealed importance sampling from a wide start, nothing learned, with Metropolis' accepts.
    Annealing,
}

impl Kernel {
    fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// The chain after a Gaussian. None where the Gaussian is all.
    fn chain(self, dim: usize, steps: usize) -> Option<Chain> {
        let start = || Chain::new(Gaussian::diagonal()).whitened();
        let annealed = |step: AnyTransition| Some(start().steps(steps, Sharing::Nothing, step).annealed_learned());
        let (uha, drift) = (Uha::new(1), TimeNetwork::default());
        match self {
            Kernel::Gaussian | Kernel::Annealing => None,
            Kernel::Hamiltonian => Some(mcvi::infer::hamiltonian_chain(dim, dim <= FULL, steps, 1, 0)),
            Kernel::Dais => Some(start().dais(steps)),
            Kernel::Uha => annealed(uha.into()),
            Kernel::RiemannianUha => annealed(uha.spread(TimeNetwork::new(Inputs::POSITION, &SPREAD)).into()),
            Kernel::Ldvi => annealed(Ldvi { uha, drift }.into()),
            Kernel::Cmcd => annealed(Cmcd { uha, drift }.into()),
            Kernel::Mcd => annealed(Mcd { drift }.into()),
            Kernel::OverdampedCmcd => annealed(OverdampedCmcd { drift }.into()),
        }
    }
}

/// Hidden units of the network that gives the spread of momenta.
const SPREAD: [usize; 2] = [32, 32];

/// Steps of a chain unless set, and the most of them.
const STEPS: usize = 8;
const MOST_STEPS: usize = 4096;

/// Dimensions up to which a Gaussian with a full covariance is fitted. Beyond, a chain starts from the curvature at the mode, refined.
const FULL: usize = 100;
/// Draws of the Gaussian whose moments a chain starts from.
const MOMENTS: usize = 20_000;
/// Antithetic pairs by which the curvature is refined.
const PAIRS: usize = 8;

/// Fit every chain and print the table.
pub fn run(options: &Options) -> Result<()> {
    if !(options.seconds > 0.0 && options.seconds.is_finite()) {
        return Err(Mistake(format!("--seconds {} is not a positive number", options.seconds)).into());
    }
    let format = options.figure.as_deref().map(Format::of).transpose()?;
    let hardware = options.hardware.resolved()?;
    let names = options.targets.iter().map(|name| target(name)).collect::<mcvi::Result<Vec<_>>>()?;
    let has_data = |t: &&EvidenceTarget| t.file.is_none() || options.data.is_some();
    let targets: Vec<&'static EvidenceTarget> =
        if names.is_empty() { TARGETS.iter().filter(has_data).collect() } else { names };
    // Files are read before any work is done.
    let prepared = |t: &&'static EvidenceTarget| Ok((*t, t.model(options.data.as_deref())?, chains(t, options)?));
    let work = targets.iter().map(prepared).collect::<Result<Vec<_>>>()?;
    let interrupts = Interrupts::new();
    let bar = progress::bar(work.len(), "targets");
    let (mut rows, mut failed) = (vec![], vec![]);
    for (target, model, chains) in work {
        if interrupts.any() {
            break;
        }
        bar.set_message(target.name);
        // A target on which a chain cannot be fitted is no reason to lose the others.
        match compare(target, model, &chains, options, hardware, &interrupts, &mut rows) {
            Err(error) if error.is::<mcvi::Error>() => {
                bar.suspend(|| say(&format!("{}: {error:#}", target.name)));
                failed.push(json!({ "target": target.name, "error": format!("{error:#}") }));
            }
            compared => compared?,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let (Some(path), Some(format)) = (&options.figure, format) {
        atomic_write(path, &format.bytes(&figure(&rows))?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let table = row::markdown(&rows);
    if let Some(path) = &options.markdown {
        atomic_write(path, format!("{table}\n").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    print_result(options.json, &row::json(&rows, &failed), &table)?;
    interrupts.outcome(interrupts.any())?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("{} of the targets failed; the others are not affected", failed.len()))
    }
}

/// The kernels and numbers of steps that are compared on a target.
fn chains(target: &EvidenceTarget, options: &Options) -> Result<Vec<(Kernel, usize)>> {
    let default = [if target.multimodal { Kernel::Annealing } else { Kernel::RiemannianUha }];
    let kernels = if options.kernels.is_empty() { &default[..] } else { &options.kernels };
    let mut chains = vec![];
    for kernel in kernels {
        let steps: Vec<usize> = options.steps.iter().map(|steps| usize::from(*steps)).collect();
        let steps = match kernel {
            Kernel::Gaussian => vec![0],
            Kernel::Annealing if steps.is_empty() => vec![TEMPERATURES],
            _ if steps.is_empty() => vec![STEPS],
            _ => steps,
        };
        if let Some(many) = steps.iter().find(|steps| **steps > MOST_STEPS && *kernel != Kernel::Annealing) {
            let why = format!("--steps {many} is too many for {}: at most {MOST_STEPS}", kernel.name());
            return Err(Mistake(why).into());
        }
        chains.extend(steps.into_iter().map(|steps| (*kernel, steps)));
    }
    Ok(chains)
}

/// The format of the figure, by the end of its name.
#[derive(Clone, Copy)]
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            _ => Err(Mistake(format!("--figure {}: its name must end in .svg or .png", path.display())).into()),
        }
    }

    fn bytes(self, figure: &Figure) -> Result<Vec<u8>> {
        match self {
            Format::Svg => Ok(figure.to_svg().into_bytes()),
            Format::Png => Ok(figure.to_png()?),
        }
    }
}

/// Fit every chain to a target.
fn compare(
    target: &'static EvidenceTarget,
    model: Model,
    chains: &[(Kernel, usize)],
    options: &Options,
    hardware: Hardware,
    interrupts: &Interrupts,
    rows: &mut Vec<Row>,
) -> Result<()> {
    for (_, temperatures) in chains.iter().filter(|(kernel, _)| *kernel == Kernel::Annealing) {
        if !interrupts.any() {
            let draws = options.draws as usize;
            rows.push(anneal(target, model.clone(), *temperatures, draws, options.seed, hardware)?);
        }
    }
    let chains: Vec<_> = chains.iter().filter(|(kernel, _)| *kernel != Kernel::Annealing).collect();
    if chains.is_empty() {
        return Ok(());
    }
    let start = Start::new(model, options, hardware, interrupts)?;
    for chosen in chains {
        if !interrupts.any() {
            rows.extend(chain(target, &start, *chosen, options, interrupts)?);
        }
    }
    Ok(())
}

/// Where every chain of a target starts.
struct Start {
    /// The Gaussian alone. In many dimensions it is yet to be fitted.
    gaussian: Approximation,
    /// Its mean and covariance: the whitened coordinates of chains.
    initialisation: Initialisation,
    seconds: f64,
}

impl Start {
    fn new(model: Model, options: &Options, hardware: Hardware, interrupts: &Interrupts) -> Result<Self> {
        let started = Instant::now();
        let (gaussian, initialisation) = if mcvi::Target::dim(&model) <= FULL {
            let mut request = Request {
                chain: ChainChoice::None,
                full_covariance: Some(true),
                budget: Budget { iterations: None, seconds: Some(options.seconds) },
                hardware,
                ..Request::default()
            };
            request.settings.seed = options.seed;
            let fitted = infer_observed(model, &request, |_, _| interrupts.flow())?.approximation;
            let largest = fitted.parts().max_by(|a, b| a.1.total_cmp(&b.1));
            let (gaussian, _) = largest.ok_or_else(|| anyhow!("nothing was fitted"))?;
            let gaussian = gaussian.clone();
            let seed = derive_seed(options.seed, "moments");
            let moments = Initialisation::moments(&gaussian.draw(MOMENTS, seed)?.z);
            (gaussian, moments)
        } else {
            let none = Params::default();
            let laplace = Initialisation::laplace(&model, &none, None)?;
            let refined = laplace.refined(&model, &none, PAIRS, options.seed)?;
            let chain = Chain::new(Gaussian::diagonal()).whitened();
            (Approximation::initialised(Arc::new(model), chain, refined.clone(), hardware)?, refined)
        };
        Ok(Start { gaussian, initialisation, seconds: started.elapsed().as_secs_f64() })
    }
}

/// Train a chain and judge it. None if it was interrupted before it was trained.
fn chain(
    target: &'static EvidenceTarget,
    start: &Start,
    (kernel, steps): (Kernel, usize),
    options: &Options,
    interrupts: &Interrupts,
) -> Result<Option<Row>> {
    let (started, before) = (Instant::now(), start.seconds);
    let dim = start.gaussian.target().dim();
    let mut approximation = match kernel.chain(dim, steps) {
        None => start.gaussian.clone(),
        Some(chain) => start.gaussian.restarted(chain, start.initialisation.clone())?,
    };
    if !approximation.chain().is_empty() || dim > FULL {
        let left = (options.seconds - before).max(1.0);
        let settings = Settings { seconds: Some(left), seed: options.seed, ..Settings::default() };
        fit_observed(&mut approximation, &settings, |_| interrupts.flow())?;
        if interrupts.any() {
            return Ok(None);
        }
    }
    let seconds = before + started.elapsed().as_secs_f64();
    let draws = approximation.draw(options.draws as usize, derive_seed(options.seed, "benchmark"))?;
    let judged = draws.diagnose();
    Ok(Some(Row {
        target,
        kernel: kernel.name(),
        steps,
        seed: options.seed,
        bound: judged.bound,
        log_evidence: judged.log_evidence,
        pareto_k: judged.pareto_k,
        seconds,
        gradients: approximation.chain().gradients(),
    }))
}
