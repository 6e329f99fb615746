//! Climbing the ladder: fit, draw from and judge one chain after the other.

use super::checkpoint::Rung;
use super::ladder::{self, FULL};
use super::{
    Attempt, Checkpoint, Event, FEWEST, Mode, Posterior, Request, Verdict, VerdictKind, budget, modes, verdict,
};
use crate::approximation::{Approximation, Diagnostics, Draws};
use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::density::Gaussian;
use crate::diagnostics::mean;
use crate::error::{Error, Result};
use crate::fit::{Allowance, Fit, FitReport, FitState, StopReason, TracePoint};
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::Choices;
use crate::seed::derive_seed;
use crate::target::Target;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Resume inference from the state of an earlier call. With the same request, except for a larger budget, the result is
/// the same as if that call had not stopped. Iterations taken before count towards the budget; seconds do not.
pub fn infer_from(
    model: impl BayesianModel + 'static,
    request: &Request,
    saved: &Checkpoint,
    mut observe: impl FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Posterior> {
    request.check()?;
    let model: Arc<dyn BayesianModel> = Arc::new(model);
    let (target, hardware) = (model.clone() as Arc<dyn Target>, request.hardware);
    let mut allowed = Allowance::new(request.budget.iterations, request.budget.seconds);
    let full = request.full_covariance.unwrap_or(target.dim() <= FULL);
    let modes = modes::find(&target, request.starts, full, &request.settings, hardware)?;
    let initialisation = match saved.initialisation(target.as_ref())? {
        Some(initialisation) => initialisation,
        None => best_initialisation(&target, &modes, request)?,
    };
    let mut checkpoint = Checkpoint::new(target.as_ref(), &initialisation)?;
    allowed.spend(saved.iterations());
    let ladder = ladder::ladder(&request.chain, target.dim(), full);
    saved.check(&ladder)?;

    let (mut attempts, mut best) = (vec![], None::<(usize, Judged)>);
    let mut stop_reason = StopReason::Converged;
    for (i, chain) in ladder.into_iter().enumerate() {
        let past = saved.rungs.get(i);
        let settings = ladder::settings(&chain, &request.settings, &request.chain);
        if past.is_none() && !budget::affordable(&allowed, &chain, &settings, &attempts) {
            stop_reason = StopReason::Budget;
            break;
        }
        let (name, before, taken) = (chain.to_string(), allowed.spent(), past.map_or(0, |rung| rung.iterations));
        let mut approximation =
            Approximation::initialised(target.clone(), chain.clone(), initialisation.clone(), hardware)?;
        let fitted = match past {
            // It would fail again.
            Some(Rung { state: None, .. }) => {
                checkpoint.rungs.extend(past.cloned());
                continue;
            }
            Some(Rung { state: Some(state), .. }) => Fit::resume(&approximation, &settings, state),
            None => Fit::new(&approximation, &settings),
        };
        let ran = fitted.and_then(|fit| run(fit, &mut allowed, |point| observe(Event::Trace { chain: &name, point })));
        let (params, report, state) = match ran {
            // If a longer chain cannot be fitted, the result of the shorter one remains.
            Err(Error::Fit { .. }) if best.is_some() => {
                checkpoint.rungs.push(Rung { chain, iterations: taken + allowed.spent() - before, state: None });
                continue;
            }
            ran => ran?,
        };
        checkpoint.rungs.push(Rung { chain: chain.clone(), iterations: report.iterations, state: Some(state) });
        if !report.stop_reason.is_complete() {
            // It has stopped: there is nothing left to break off.
            let _ = observe(Event::Stopped { reason: report.stop_reason, state: &checkpoint });
        }
        approximation.params = params;
        let tried = Judged::new(approximation, &modes, request)?;
        stop_reason = report.stop_reason;
        attempts.push(Attempt { chain: chain.clone(), bound: tried.diagnostics.bound, report });
        let good = tried.verdict.kind == VerdictKind::Good;
        let enough = good && ladder::is_enough(&chain, &tried.diagnostics, attempts.len());
        // A longer chain that is no better is not used.
        if best.as_ref().is_none_or(|(_, best)| tried.rank() < best.rank()) {
            best = Some((attempts.len() - 1, tried));
        }
        // Longer chains do not reach other modes.
        if !stop_reason.is_complete() || enough || modes.len() > 1 {
            break;
        }
    }
    let (kept, best) = best.ok_or_else(|| Error::Fit { why: "nothing was fitted".to_owned() })?;
    let Judged { approximation, draws, diagnostics, mut verdict } = best;
    verdict.note(stop_reason);
    let iterations = allowed.spent();
    Ok(Posterior {
        model,
        approximation,
        draws,
        diagnostics,
        verdict,
        modes,
        attempts,
        kept,
        stop_reason,
        iterations,
        checkpoint,
    })
}

/// Run a fit as far as the budget allows.
fn run(
    mut fit: Fit,
    allowed: &mut Allowance,
    observe: impl FnMut(&TracePoint) -> ControlFlow<()>,
) -> Result<(Params, FitReport, FitState)> {
    let stop_reason = fit.run(allowed, observe)?;
    let state = fit.state()?;
    let (params, report) = fit.finish(stop_reason)?;
    Ok((params, report, state))
}

/// A fit with its draws and diagnostics.
struct Judged {
    approximation: Approximation,
    draws: Draws,
    diagnostics: Diagnostics,
    verdict: Verdict,
}

impl Judged {
    fn new(approximation: Approximation, modes: &[Mode], request: &Request) -> Result<Self> {
        let draws =
            approximation.draw(request.draws.max(FEWEST), derive_seed(request.settings.seed, "posterior draws"))?;
        let diagnostics = draws.diagnose();
        let verdict = verdict::judge(&draws, &diagnostics, modes);
        Ok(Judged { approximation, draws, diagnostics, verdict })
    }

    /// Smaller is better.
    fn rank(&self) -> (usize, f64) {
        (self.verdict.kind as usize, -self.diagnostics.bound.value)
    }
}

/// Draws with which initialisations are compared.
const COMPARED: usize = 2000;

/// The Laplace approximation at the best mode, or the standard normal if that has the higher bound: a mode may lie far
/// from the mass, as a funnel's does.
fn best_initialisation(target: &Arc<dyn Target>, modes: &[Mode], request: &Request) -> Result<Initialisation> {
    let bound = |from: &Initialisation| -> Result<f64> {
        let chain = Chain::new(Gaussian::diagonal());
        let plain = Approximation::initialised(target.clone(), chain, from.clone(), request.hardware)?;
        Ok(mean(&plain.bounds(COMPARED, Choices::Sample, request.settings.seed)?).value)
    };
    let (laplace, standard) = (modes[0].initialisation.clone(), Initialisation::standard(target.dim()));
    let (by_standard, by_laplace) = (bound(&standard)?, bound(&laplace)?);
    // The density may have a peak so narrow that nothing is finite there.
    Ok(if by_standard > by_laplace || by_laplace.is_nan() { standard } else { laplace })
}
