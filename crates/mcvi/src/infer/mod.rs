//! One call from a target to a judged posterior, with every choice made and every choice open.
//!
//! Several overdispersed starts are compared by place and Laplace evidence, so that separate modes are noticed. From the
//! best, chains of rising length are fitted until one is judged good or the ladder ends: a step is added only where one
//! is not enough.

mod modes;
mod summary;
mod verdict;

pub use modes::Mode;
pub use summary::{Summary, Weights, summarise};
pub use verdict::{Verdict, VerdictKind};

use crate::approximation::Approximation;
use crate::chain::{Chain, Sharing};
use crate::density::{Covariance, Density, Gaussian, Inputs, Predictor};
use crate::diagnostics::mean;
use crate::draws::{Draws, Judgement};
use crate::error::{Error, Result};
use crate::fit::{Ending, FitReport, Look, Schedule, Settings, fit_observed};
use crate::scope::Choices;
use crate::start::Start;
use crate::target::Target;
use crate::transition::{Hamiltonian, Inverse};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most dimensions for which a full covariance is used unasked.
const FULL: usize = 50;
/// Fewest draws a verdict is based on, so that it does not change with the seed.
const FEWEST: usize = 50_000;

/// Pareto k̂ far enough from where a verdict changes.
const COMFORTABLE: f64 = 0.65;

/// Iterations that a Gaussian alone is given.
const PLAIN: usize = 10_000;

/// What chain to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainChoice {
    /// From the target: longer ones where shorter ones are not good enough.
    Auto,
    /// None: plain variational inference with a Gaussian.
    None,
    /// So many Hamiltonian steps of so many leapfrogs.
    Hamiltonian {
        /// T.
        steps: usize,
        /// k.
        leapfrogs: usize,
    },
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The chain.
    pub chain: ChainChoice,
    /// Whether q(z₀) has a full covariance; by default where there are few dimensions.
    pub full_covariance: Option<bool>,
    /// Starts of the search for modes.
    pub starts: usize,
    /// Draws to judge and to report from, at least 50,000.
    pub draws: usize,
    /// How to fit.
    pub settings: Settings,
}

impl Default for Request {
    fn default() -> Self {
        let settings = Settings { iterations: 40_000, ..Settings::default() };
        Request { chain: ChainChoice::Auto, full_covariance: None, starts: 8, draws: FEWEST, settings }
    }
}

/// A fitted approximation with draws and a verdict.
pub struct Posterior {
    /// What was fitted.
    pub approximation: Approximation,
    /// The shape of its chain.
    pub shape: Shape,
    /// Draws from it.
    pub draws: Draws,
    /// What they say.
    pub judgement: Judgement,
    /// What to make of it.
    pub verdict: Verdict,
    /// The modes that were found, the best first.
    pub modes: Vec<Mode>,
    /// The chains that were tried, in order.
    pub attempts: Vec<Attempt>,
    /// Which of them was kept.
    pub kept: usize,
    /// Whether the observer ended it early.
    pub interrupted: bool,
}

/// A chain that was tried.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// In words.
    pub name: String,
    /// Its bound.
    pub bound: crate::diagnostics::Mean,
    /// How its fit went.
    pub report: FitReport,
}

/// The shape of a chain: a Gaussian, then Hamiltonian steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// T.
    pub steps: usize,
    /// k.
    pub leapfrogs: usize,
    /// Hidden units of the networks that are the momentum distributions; none where these are linear.
    pub hidden: usize,
    /// Whether q(z₀) has a full covariance.
    pub full_covariance: bool,
}

impl Shape {
    /// In words.
    pub fn name(self) -> String {
        match self {
            Shape { steps: 0, .. } => "a Gaussian alone".to_owned(),
            Shape { steps: 1, leapfrogs, hidden: 0, .. } => format!("a Hamiltonian step of {leapfrogs} leapfrogs"),
            Shape { steps, leapfrogs, hidden: 0, .. } => format!("{steps} Hamiltonian steps of {leapfrogs} leapfrogs"),
            Shape { steps, leapfrogs, hidden, .. } => {
                format!("{steps} Hamiltonian steps of {leapfrogs} leapfrogs, momenta by networks of {hidden} units")
            }
        }
    }

    /// The chain, for a target of so many dimensions.
    pub fn chain(self, dim: usize) -> Chain {
        let chain = Chain::new(if self.full_covariance { Gaussian::full() } else { Gaussian::diagonal() });
        let momentum: Arc<dyn Density> = match self.hidden {
            // In many dimensions the matrices of a linear mean are too large to be learned from few draws.
            0 if dim > FULL => Arc::new(Gaussian::diagonal()),
            0 => Arc::new(Gaussian::linear_in_gradient()),
            hidden => Arc::new(Gaussian::new(Predictor::dense(Inputs::GRADIENT, &[hidden]), Covariance::Predicted)),
        };
        let step = Hamiltonian {
            first_step: None,
            leapfrogs: self.leapfrogs,
            mass: crate::transition::Mass::Diagonal,
            momentum: momentum.clone(),
            inverse: Inverse::Learned(momentum),
        };
        chain.steps(self.steps, Sharing::Nothing, step)
    }
}

/// Whether a good approximation is good enough to stop at: a short chain whose verdict is near its edge is not.
fn is_enough(shape: Shape, judgement: &Judgement, attempts: usize) -> bool {
    shape.steps == 0 || judgement.pareto_k <= COMFORTABLE || attempts > 2
}

impl Shape {
    /// A Gaussian alone is learned quickly. Networks have no regression to start from: they are learned with more
    /// draws, slower, and to the end.
    fn settings(self, asked: &Settings) -> Settings {
        if self.steps == 0 {
            return Settings { iterations: asked.iterations.min(PLAIN), ..asked.clone() };
        }
        if self.hidden == 0 || asked.schedule != Schedule::Automatic {
            return asked.clone();
        }
        Settings { draws: 2 * asked.draws, rate: asked.rate / 3.0, schedule: Schedule::Cosine, ..asked.clone() }
    }
}

fn ladder(choice: ChainChoice, full_covariance: bool) -> Vec<Shape> {
    let rung = |steps, leapfrogs, hidden| Shape { steps, leapfrogs, hidden, full_covariance };
    match choice {
        ChainChoice::None => vec![rung(0, 0, 0)],
        ChainChoice::Hamiltonian { steps, leapfrogs } => vec![rung(steps, leapfrogs, 0)],
        ChainChoice::Auto => vec![rung(0, 0, 0), rung(1, 2, 0), rung(2, 3, 0), rung(4, 4, 64)],
    }
}

/// Find modes, fit, draw and judge. The observer sees every look at every fit and may end them.
pub fn infer(
    target: Arc<dyn Target>,
    request: &Request,
    mut observe: impl FnMut(&str, &Look) -> ControlFlow<()>,
) -> Result<Posterior> {
    if request.starts == 0 {
        return Err(Error::Setting { what: "starts", why: "at least one is needed".to_owned() });
    }
    if let ChainChoice::Hamiltonian { steps, leapfrogs } = request.chain
        && (steps == 0 || leapfrogs == 0)
    {
        let why = "needs at least one step and one leapfrog; for none, choose no chain".to_owned();
        return Err(Error::Setting { what: "chain", why });
    }
    let seed = request.settings.seed;
    let modes = modes::find(target.as_ref(), request.starts, seed)?;
    let start = best_start(&target, &modes, seed)?;
    let full = request.full_covariance.unwrap_or(target.dim() <= FULL);
    let mut attempts: Vec<Attempt> = vec![];
    let mut best: Option<Posterior> = None;
    let mut interrupted = false;
    for shape in ladder(request.chain, full) {
        let name = shape.name();
        let chain = shape.chain(target.dim());
        let approximation = Approximation::from(target.clone(), chain, start.clone())?;
        let settings = shape.settings(&request.settings);
        let tried = attempt(approximation, shape, &modes, request.draws, &settings, |look| observe(&name, look));
        // A longer chain that cannot be fitted does not take away what a shorter one has found.
        let mut tried = match (tried, &best) {
            (Err(Error::Fit { .. }), Some(_)) => continue,
            (tried, _) => tried?,
        };
        interrupted = tried.interrupted;
        attempts.append(&mut tried.attempts);
        let good = tried.verdict.kind == VerdictKind::Good && is_enough(shape, &tried.judgement, attempts.len());
        // A longer chain that did not come out better is not taken.
        let rank = |p: &Posterior| (p.verdict.kind as usize, -p.judgement.bound.value);
        if best.as_ref().is_none_or(|best| rank(&tried) < rank(best)) {
            best = Some(Posterior { kept: attempts.len() - 1, ..tried });
        }
        // Other modes are not reached by longer chains.
        if good || interrupted || modes.len() > 1 {
            break;
        }
    }
    let best = best.ok_or_else(|| Error::Fit { why: "nothing was fitted".to_owned() })?;
    Ok(Posterior { attempts, interrupted, ..best })
}

/// Go on with a fit, from the parameters it has, with fresh noise.
pub fn go_on(
    approximation: Approximation,
    shape: Shape,
    request: &Request,
    mut observe: impl FnMut(&str, &Look) -> ControlFlow<()>,
) -> Result<Posterior> {
    let modes = modes::find(approximation.target(), request.starts.max(1), request.settings.seed)?;
    let seed = request.settings.seed.wrapping_add(0x60_0D);
    let settings = Settings { seed, warm_start: false, ..shape.settings(&request.settings) };
    let name = shape.name();
    attempt(approximation, shape, &modes, request.draws, &settings, |look| observe(&name, look))
}

/// Fit, draw and judge.
fn attempt(
    mut approximation: Approximation,
    shape: Shape,
    modes: &[Mode],
    draws: usize,
    settings: &Settings,
    observe: impl FnMut(&Look) -> ControlFlow<()>,
) -> Result<Posterior> {
    let report = fit_observed(&mut approximation, settings, observe)?;
    let interrupted = report.ending == Ending::Interrupted;
    let draws = approximation.draw(draws.max(FEWEST), settings.seed ^ 0xD4A3)?;
    let judgement = draws.judge();
    let verdict = verdict::judge(&draws, &judgement, modes, interrupted);
    let attempts = vec![Attempt { name: shape.name(), bound: judgement.bound, report }];
    let modes = modes.to_vec();
    Ok(Posterior { approximation, shape, draws, judgement, verdict, modes, attempts, kept: 0, interrupted })
}

/// Draws by which starts are compared.
const COMPARED: usize = 2000;

/// The Laplace approximation at the best mode, or the standard normal where that has the higher bound: a mode may lie
/// far from where the mass is, as a funnel's does.
fn best_start(target: &Arc<dyn Target>, modes: &[Mode], seed: u64) -> Result<Start> {
    let bound = |start: &Start| -> Result<f64> {
        let plain = Approximation::from(target.clone(), Chain::new(Gaussian::diagonal()), start.clone())?;
        Ok(mean(&plain.bounds(COMPARED, Choices::Sample, seed)?).value)
    };
    let (laplace, standard) = (modes[0].start.clone(), Start::standard(target.dim()));
    Ok(if bound(&standard)? > bound(&laplace)? { standard } else { laplace })
}

/// The same without an observer.
pub fn infer_quietly(target: impl Target + 'static, request: &Request) -> Result<Posterior> {
    infer(Arc::new(target), request, |_, _| ControlFlow::Continue(()))
}
