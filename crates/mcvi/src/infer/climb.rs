//! Climbing the ladder: fit, draw from and judge one chain after the other.

use super::checkpoint::Rung;
use super::{
    Attempt, Checkpoint, Event, FEWEST, Fitted, Mode, Posterior, Request, Verdict, VerdictKind, budget, ladder, modes,
    verdict,
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
    let gaussian = ladder::gaussian(target.dim(), request.full_covariance);
    let modes = modes::find(&target, request.starts, &gaussian, &request.settings, hardware)?;
    let initialisation = match saved.initialisation(target.as_ref())? {
        Some(initialisation) => initialisation,
        None => best_initialisation(&target, &modes, request)?,
    };
    let mut checkpoint = Checkpoint::new(target.as_ref(), &initialisation)?;
    allowed.spend(saved.iterations());
    let mut ladder = ladder::ladder(&request.chain, target.dim(), request.full_covariance);
    saved.agree(&request.chain, &mut ladder)?;
    let initial = Approximation::initialised(target, gaussian, initialisation, hardware)?;

    let (mut attempts, mut best) = (vec![], None::<(usize, Judged)>);
    let mut stop_reason = StopReason::Converged;
    // The last one that was fitted.
    let mut before = None::<Approximation>;
    for (i, chain) in ladder.into_iter().enumerate() {
        let past = saved.rungs.get(i);
        let settings = ladder::settings(&chain, &request.settings, &request.chain);
        if past.is_none() && !budget::affordable(&allowed, &chain, &settings, &attempts) {
            stop_reason = StopReason::Budget;
            break;
        }
        // It would fail again.
        if let Some(rung @ Rung { state: Err(why), .. }) = past {
            checkpoint.rungs.push(rung.clone());
            attempts.push(Attempt { chain, outcome: Err(why.clone()) });
            continue;
        }
        let (name, taken) = (chain.to_string(), (allowed.spent(), past.map_or(0, |rung| rung.iterations)));
        let mut approximation = ladder::start(&chain, &initial, before.as_ref(), request.settings.seed)?;
        let fitted = match past.and_then(|rung| rung.state.as_ref().ok()) {
            Some(state) => Fit::resume(&approximation, &settings, state),
            None => Fit::new(&approximation, &settings),
        };
        let is_stage = ladder::is_stage(&request.chain, &chain);
        let ran = fitted.and_then(|mut fit| {
            // A Gaussian that is good from the beginning needs no fit.
            let untouched = chain.is_empty() && !is_stage && fit.iterations() == 0;
            if untouched && Judged::new(approximation.clone(), is_stage, &modes, request)?.is_good() {
                fit.conclude();
            }
            run(fit, &mut allowed, |point| observe(Event::Trace { chain: &name, point }))
        });
        let (params, report, state) = match ran {
            // If a longer chain cannot be fitted, the result of the shorter one remains.
            Err(Error::Fit { why }) if best.is_some() || is_stage => {
                let iterations = taken.1 + allowed.spent() - taken.0;
                checkpoint.rungs.push(Rung { chain: chain.clone(), iterations, state: Err(why.clone()) });
                attempts.push(Attempt { chain, outcome: Err(why) });
                continue;
            }
            ran => ran?,
        };
        checkpoint.rungs.push(Rung { chain: chain.clone(), iterations: report.iterations, state: Ok(state) });
        if !report.stop_reason.is_complete() {
            // It has stopped: there is nothing left to break off.
            let _ = observe(Event::Stopped { reason: report.stop_reason, state: &checkpoint });
        }
        approximation.params = params;
        before = Some(approximation.clone());
        let tried = Judged::new(approximation, is_stage, &modes, request)?;
        stop_reason = report.stop_reason;
        let (diagnostics, verdict) = (tried.diagnostics.clone(), tried.verdict.clone());
        attempts.push(Attempt { chain: chain.clone(), outcome: Ok(Fitted { report, diagnostics, verdict }) });
        let enough = !is_stage && tried.is_good() && ladder::is_enough(&chain, &tried.diagnostics, attempts.len());
        // A longer chain that is no better is not used.
        if best.as_ref().is_none_or(|(_, best)| tried.rank() < best.rank()) {
            best = Some((attempts.len() - 1, tried));
        }
        // Longer chains do not reach other modes.
        if !stop_reason.is_complete() || enough || (modes.len() > 1 && !is_stage) {
            break;
        }
    }
    let (kept, best) = best.ok_or_else(|| Error::Fit { why: "nothing was fitted".to_owned() })?;
    let Judged { approximation, draws, diagnostics, mut verdict, .. } = best;
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
    /// Whether it is only a stage of the chain asked for.
    is_stage: bool,
    approximation: Approximation,
    draws: Draws,
    diagnostics: Diagnostics,
    verdict: Verdict,
}

impl Judged {
    fn new(approximation: Approximation, is_stage: bool, modes: &[Mode], request: &Request) -> Result<Self> {
        let draws =
            approximation.draw(request.draws.max(FEWEST), derive_seed(request.settings.seed, "posterior draws"))?;
        let diagnostics = draws.diagnose();
        let verdict = verdict::judge(&draws, &diagnostics, modes);
        Ok(Judged { is_stage, approximation, draws, diagnostics, verdict })
    }

    fn is_good(&self) -> bool {
        self.verdict.kind == VerdictKind::Good
    }

    /// Smaller is better.
    fn rank(&self) -> (bool, usize, f64) {
        (self.is_stage, self.verdict.kind as usize, -self.diagnostics.bound.value)
    }
}

/// Draws with which initialisations are compared.
const COMPARED: usize = 2000;

/// Antithetic pairs of draws over which the curvature at the mode is refined.
const PAIRS: usize = 32;

/// The best of the Laplace approximation at the best mode, the same refined, and the standard normal: a mode may lie far
/// from the mass, as a funnel's does.
fn best_initialisation(target: &Arc<dyn Target>, modes: &[Mode], request: &Request) -> Result<Initialisation> {
    let (laplace, seed) = (&modes[0].initialisation, request.settings.seed);
    let refined = laplace.refined(target.as_ref(), &Params::default(), PAIRS, seed)?;
    let mut best = (f64::NEG_INFINITY, laplace.clone());
    for candidate in [laplace.clone(), refined, Initialisation::standard(target.dim())] {
        let chain = Chain::new(Gaussian::diagonal()).whitened();
        let plain = Approximation::initialised(target.clone(), chain, candidate.clone(), request.hardware)?;
        let bound = mean(&plain.bounds(COMPARED, Choices::Sample, seed)?).value;
        // NaN where the density has a peak so narrow that nothing is finite there.
        if bound > best.0 {
            best = (bound, candidate);
        }
    }
    Ok(best.1)
}
