//! `mcvi benchmark evidence`: bounds on log Z of the literature's targets.

use crate::interrupts::Interrupts;
use crate::mistake::Mistake;
use crate::number::{fixed, json_number, with_error};
use crate::output::{HardwareOptions, print_result, say};
use crate::progress;
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use mcvi::density::{Gaussian, Inputs};
use mcvi::diagnostics::Mean;
use mcvi::evidence::{EvidenceTarget, TARGETS, target};
use mcvi::fit::{Settings, fit_observed};
use mcvi::infer::{Budget, ChainChoice, Request, infer_observed};
use mcvi::model::Model;
use mcvi::transition::{AnyTransition, Cmcd, Ldvi, Mcd, OverdampedCmcd, TimeNetwork, Uha};
use mcvi::{Approximation, Chain, Diagnostics, Hardware, Sharing, Target, derive_seed};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Options of `mcvi benchmark evidence`.
#[derive(Args)]
pub struct Options {
    /// Targets, by name. [default: all whose data are there]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    targets: Vec<String>,
    /// Kernels of the chain after the Gaussian.
    #[arg(long, value_enum, value_name = "KERNELS", value_delimiter = ',', default_value = "riemannian-uha")]
    kernels: Vec<Kernel>,
    /// Numbers of steps.
    #[arg(long, value_name = "T", value_delimiter = ',', default_value = "8", value_parser = clap::value_parser!(u16).range(1..=4096))]
    steps: Vec<u16>,
    /// Folder with the data of those targets that have some.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Maximum number of seconds to train each chain.
    #[arg(long, value_name = "S", default_value_t = 100.0, allow_negative_numbers = true)]
    seconds: f64,
    /// Fresh draws by which each chain is judged.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    draws: u32,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    hardware: HardwareOptions,
    /// Print one JSON object instead of a table.
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
}

impl Kernel {
    fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// The chain after a Gaussian. None where the Gaussian is all.
    fn chain(self, dim: usize, full: bool, steps: usize) -> Option<Chain> {
        let start = || Chain::new(Gaussian::diagonal()).whitened();
        let annealed = |step: AnyTransition| Some(start().steps(steps, Sharing::Nothing, step).annealed_learned());
        let (uha, drift) = (Uha::new(1), TimeNetwork::default());
        match self {
            Kernel::Gaussian => None,
            Kernel::Hamiltonian => Some(mcvi::infer::hamiltonian_chain(dim, full, steps, 1, 0)),
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

/// Draws whose moments a chain starts from.
const START: usize = 20_000;

/// Dimensions up to which the Gaussian has a full covariance.
const FULL: usize = 100;

/// A line of the table.
struct Row {
    target: &'static EvidenceTarget,
    kernel: Kernel,
    steps: usize,
    seed: u64,
    diagnostics: Diagnostics,
    seconds: f64,
    gradients: usize,
}

impl Row {
    fn json(&self) -> Value {
        let (d, n) = (&self.diagnostics, json_number);
        json!({
            "target": self.target.name,
            "kernel": self.kernel.name(),
            "steps": self.steps,
            "seed": self.seed,
            "bound": { "value": n(d.bound.value), "se": n(d.bound.se) },
            "log_evidence": { "value": n(d.log_evidence.value), "se": n(d.log_evidence.se) },
            "pareto_k": n(d.pareto_k),
            "seconds": n(self.seconds),
            "gradients_per_draw": self.gradients,
            "exact": self.target.log_evidence,
        })
    }

    fn markdown(&self) -> String {
        let d = &self.diagnostics;
        let evidence = Mean { value: d.log_evidence.value, se: d.log_evidence.se, n: 0 };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.0} |\n",
            self.target.name,
            self.kernel.name(),
            self.steps,
            self.gradients,
            with_error(d.bound, 3),
            with_error(evidence, 3),
            self.target.log_evidence.map_or(String::new(), |z| fixed(z, 3)),
            fixed(d.pareto_k, 2),
            self.seconds,
        )
    }
}

/// Fit every chain and print the table.
pub fn run(options: &Options) -> Result<()> {
    if !(options.seconds > 0.0 && options.seconds.is_finite()) {
        return Err(Mistake(format!("--seconds {} is not a positive number", options.seconds)).into());
    }
    let hardware = options.hardware.resolved()?;
    let names = options.targets.iter().map(|name| target(name)).collect::<mcvi::Result<Vec<_>>>()?;
    let has_data = |t: &&EvidenceTarget| t.file.is_none() || options.data.is_some();
    let targets: Vec<&'static EvidenceTarget> =
        if names.is_empty() { TARGETS.iter().filter(has_data).collect() } else { names };
    // Files are read before any work is done.
    let models = targets.iter().map(|t| Ok((*t, t.model(options.data.as_deref())?))).collect::<Result<Vec<_>>>()?;
    let interrupts = Interrupts::new();
    let chains: Vec<(Kernel, usize)> = options
        .kernels
        .iter()
        .flat_map(|kernel| match kernel {
            Kernel::Gaussian => vec![(*kernel, 0)],
            _ => options.steps.iter().map(|steps| (*kernel, usize::from(*steps))).collect(),
        })
        .collect();
    let bar = progress::bar(models.len(), "targets");
    let (mut rows, mut failed) = (vec![], vec![]);
    for (target, model) in models {
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
    let json = json!({ "rows": rows.iter().map(Row::json).collect::<Vec<_>>(), "failed": failed });
    print_result(options.json, &json, &table(&rows))?;
    interrupts.outcome(interrupts.any())?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("{} of the targets failed; the others are not affected", failed.len()))
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
    let (start, seconds) = gaussian(model, options, hardware, interrupts)?;
    for chosen in chains {
        if !interrupts.any() {
            rows.extend(chain(target, &start, *chosen, seconds, options, interrupts)?);
        }
    }
    Ok(())
}

/// The Gaussian that every chain of a target starts from, and the seconds it took.
fn gaussian(
    model: Model,
    options: &Options,
    hardware: Hardware,
    interrupts: &Interrupts,
) -> Result<(Approximation, f64)> {
    let started = Instant::now();
    let full = model.dim() <= FULL;
    let mut request = Request {
        chain: ChainChoice::None,
        full_covariance: Some(full),
        budget: Budget { iterations: None, seconds: Some(options.seconds) },
        hardware,
        ..Request::default()
    };
    request.settings.seed = options.seed;
    let posterior = infer_observed(model, &request, |_, _| interrupts.flow())?;
    Ok((posterior.approximation, started.elapsed().as_secs_f64()))
}

/// Train a chain and judge it. None if it was interrupted before it was trained.
fn chain(
    target: &'static EvidenceTarget,
    start: &Approximation,
    (kernel, steps): (Kernel, usize),
    before: f64,
    options: &Options,
    interrupts: &Interrupts,
) -> Result<Option<Row>> {
    let started = Instant::now();
    let dim = start.target().dim();
    let mut approximation = match kernel.chain(dim, dim <= FULL, steps) {
        None => start.clone(),
        Some(chain) => start.restarted(chain, START, options.seed)?,
    };
    if !approximation.chain().is_empty() {
        let left = (options.seconds - before).max(1.0);
        let settings = Settings { seconds: Some(left), seed: options.seed, ..Settings::default() };
        fit_observed(&mut approximation, &settings, |_| interrupts.flow())?;
        if interrupts.any() {
            return Ok(None);
        }
    }
    let seconds = before + started.elapsed().as_secs_f64();
    let draws = approximation.draw(options.draws as usize, derive_seed(options.seed, "benchmark"))?;
    let (diagnostics, gradients) = (draws.diagnose(), approximation.chain().gradients());
    Ok(Some(Row { target, kernel, steps, seed: options.seed, diagnostics, seconds, gradients }))
}

fn table(rows: &[Row]) -> String {
    let mut text = "| target | kernel | steps | gradients | bound | log Z by weights | exact | k̂ | seconds |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        text += &row.markdown();
    }
    let mut seen: Vec<&str> = vec![];
    for row in rows {
        if seen.contains(&row.target.name) {
            continue;
        }
        seen.push(row.target.name);
        for p in row.target.published {
            text += &format!("\n{}: {} has {} with {} steps.", row.target.name, p.method, fixed(p.bound, 2), p.steps);
        }
    }
    text.trim_end().to_owned()
}
