//! One call from a target to a judged posterior, with every choice made and every choice open.
//!
//! Several overdispersed starts are compared by place and bound, so that separate modes are noticed. From the best,
//! chains of rising length are fitted until one is judged good, the ladder ends or the budget is used: a step is added
//! only where one is not enough.
//!
//! Every rung of the ladder is a fit of its own that depends on no other. What [`Checkpoint`] keeps is where each of
//! them stood; [`infer_from`] climbs the ladder again with those, so that it ends where it would have ended had it
//! never been stopped.

mod budget;
mod checkpoint;
mod modes;
mod shape;
mod summary;
mod verdict;

pub use budget::Budget;
pub use checkpoint::Checkpoint;
pub use modes::Mode;
pub use shape::Shape;
pub use summary::{Summary, Weights, summarise};
pub use verdict::{Verdict, VerdictKind};

use crate::approximation::Approximation;
use crate::chain::Chain;
use crate::density::Gaussian;
use crate::diagnostics::mean;
use crate::draws::{Draws, Judgement};
use crate::error::{Error, Result};
use crate::fit::{Allowance, Ending, Fit, FitReport, Look, Settings, State};
use crate::params::Params;
use crate::scope::Choices;
use crate::start::Start;
use crate::target::Target;
use checkpoint::Rung;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Most dimensions for which a full covariance is used unasked.
const FULL: usize = 50;
/// Fewest draws a verdict is based on, so that it does not change with the seed.
const FEWEST: usize = 50_000;

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
    /// How to fit, each chain that is tried.
    pub settings: Settings,
    /// What may be spent on all of them together.
    pub budget: Budget,
}

impl Default for Request {
    fn default() -> Self {
        let settings = Settings { iterations: 40_000, ..Settings::default() };
        Request {
            chain: ChainChoice::Auto,
            full_covariance: None,
            starts: 8,
            draws: FEWEST,
            settings,
            budget: Budget::default(),
        }
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
    /// How it came to an end.
    pub ended: Ended,
    /// Iterations of all fits, also of those that failed. As a [`Budget`] they repeat a fit that ended early exactly.
    pub iterations: usize,
    /// Where every fit stood, to go on from.
    pub checkpoint: Checkpoint,
}

/// How an inference came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing was left to do.
    Finished,
    /// The budget was used, or would not have sufficed for the next chain.
    Budget,
    /// The observer asked for it.
    Interrupted,
}

/// A chain that was tried.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// In words.
    pub name: String,
    /// In numbers.
    pub shape: Shape,
    /// Its bound.
    pub bound: crate::diagnostics::Mean,
    /// How its fit went.
    pub report: FitReport,
}

/// Find modes, fit, draw and judge. The observer sees every look at every fit and may end them.
pub fn infer(
    target: Arc<dyn Target>,
    request: &Request,
    observe: impl FnMut(&str, &Look) -> ControlFlow<()>,
) -> Result<Posterior> {
    infer_from(target, request, &Checkpoint::default(), observe)
}

/// The same from where an earlier call stood. With the same request, except for a larger budget, it ends as if that
/// call had not ended; iterations taken before count towards the budget, seconds do not.
pub fn infer_from(
    target: Arc<dyn Target>,
    request: &Request,
    saved: &Checkpoint,
    mut observe: impl FnMut(&str, &Look) -> ControlFlow<()>,
) -> Result<Posterior> {
    request.check()?;
    let mut allowed = Allowance::new(request.budget.iterations, request.budget.seconds);
    let seed = request.settings.seed;
    let full = request.full_covariance.unwrap_or(target.dim() <= FULL);
    let modes = modes::find(&target, request.starts, full, &request.settings)?;
    let start = match saved.start(target.as_ref())? {
        Some(start) => start,
        None => best_start(&target, &modes, seed)?,
    };
    let mut checkpoint = Checkpoint::new(target.as_ref(), &start)?;
    allowed.spend(saved.iterations());
    let ladder = shape::ladder(request.chain, full);
    saved.check(&ladder)?;

    let (mut attempts, mut best, mut ended) = (vec![], None::<(usize, Judged)>, Ended::Finished);
    for (i, shape) in ladder.into_iter().enumerate() {
        let past = saved.rungs.get(i);
        let settings = shape.settings(&request.settings, request.chain);
        if past.is_none() && !budget::affordable(&allowed, shape, &settings, &attempts) {
            ended = Ended::Budget;
            break;
        }
        let (name, before, taken) = (shape.name(), allowed.spent(), past.map_or(0, |rung| rung.iterations));
        let mut approximation = Approximation::from(target.clone(), shape.chain(target.dim()), start.clone())?;
        let fitted = match past {
            // It would fail again.
            Some(Rung { state: None, .. }) => {
                checkpoint.rungs.extend(past.cloned());
                continue;
            }
            Some(Rung { state: Some(state), .. }) => Fit::resume(&approximation, &settings, state),
            None => Fit::new(&approximation, &settings),
        };
        let ran = fitted.and_then(|fit| run(fit, &mut allowed, |look| observe(&name, look)));
        let Ran { params, report, state, stopped } = match ran {
            // A longer chain that cannot be fitted does not take away what a shorter one has found.
            Err(Error::Fit { .. }) if best.is_some() => {
                checkpoint.rungs.push(Rung { shape, iterations: taken + allowed.spent() - before, state: None });
                continue;
            }
            ran => ran?,
        };
        checkpoint.rungs.push(Rung { shape, iterations: report.iterations, state: Some(state) });
        approximation.params = params;
        let tried = Judged::new(approximation, shape, &modes, request.draws, &settings)?;
        attempts.push(Attempt { name, shape, bound: tried.judgement.bound, report });
        let good = tried.verdict.kind == VerdictKind::Good && shape.is_enough(&tried.judgement, attempts.len());
        // A longer chain that did not come out better is not taken.
        if best.as_ref().is_none_or(|(_, best)| tried.rank() < best.rank()) {
            best = Some((attempts.len() - 1, tried));
        }
        if let Some(why) = stopped {
            ended = why;
            break;
        }
        // Other modes are not reached by longer chains.
        if good || modes.len() > 1 {
            break;
        }
    }
    let (kept, best) = best.ok_or_else(|| Error::Fit { why: "nothing was fitted".to_owned() })?;
    let Judged { approximation, shape, draws, judgement, mut verdict } = best;
    verdict.note(ended);
    let iterations = allowed.spent();
    Ok(Posterior {
        approximation,
        shape,
        draws,
        judgement,
        verdict,
        modes,
        attempts,
        kept,
        ended,
        iterations,
        checkpoint,
    })
}

impl Request {
    fn check(&self) -> Result<()> {
        let no = |what: &'static str, why: &str| Err(Error::Setting { what, why: why.to_owned() });
        if self.starts == 0 {
            return no("starts", "at least one is needed");
        }
        if let ChainChoice::Hamiltonian { steps, leapfrogs } = self.chain
            && (steps == 0 || leapfrogs == 0)
        {
            return no("chain", "needs at least one step and one leapfrog; for none, choose no chain");
        }
        self.budget.check()
    }
}

/// A fit as far as it was allowed to go.
struct Ran {
    params: Params,
    report: FitReport,
    state: State,
    /// Why it was stopped, if it did not end by itself.
    stopped: Option<Ended>,
}

fn run(mut fit: Fit, allowed: &mut Allowance, observe: impl FnMut(&Look) -> ControlFlow<()>) -> Result<Ran> {
    let ending = fit.run(allowed, observe)?;
    let stopped = match (fit.ended(), ending) {
        (Some(_), _) => None,
        (None, Ending::Interrupted) => Some(Ended::Interrupted),
        (None, _) => Some(Ended::Budget),
    };
    let state = fit.state()?;
    let (params, report) = fit.finish(ending)?;
    Ok(Ran { params, report, state, stopped })
}

/// A fit with what its draws say.
struct Judged {
    approximation: Approximation,
    shape: Shape,
    draws: Draws,
    judgement: Judgement,
    verdict: Verdict,
}

impl Judged {
    fn new(
        approximation: Approximation,
        shape: Shape,
        modes: &[Mode],
        draws: usize,
        settings: &Settings,
    ) -> Result<Self> {
        let draws = approximation.draw(draws.max(FEWEST), settings.seed ^ 0xD4A3)?;
        let judgement = draws.judge();
        let verdict = verdict::judge(&draws, &judgement, modes);
        Ok(Judged { approximation, shape, draws, judgement, verdict })
    }

    /// Smaller is better.
    fn rank(&self) -> (usize, f64) {
        (self.verdict.kind as usize, -self.judgement.bound.value)
    }
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
