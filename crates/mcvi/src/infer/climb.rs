//! Climbing the ladder: fit, draw from and judge one chain after the other.

use super::budget::{Deadline, Judging};
use super::checkpoint::Rung;
use super::judge::{Judge, Judged, Tried};
use super::verdict::Evidence;
use super::{Attempt, Checkpoint, Event, Posterior, Request, budget, ladder, modes, outside};
use crate::approximation::Approximation;
use crate::bayesian_model::BayesianModel;
use crate::error::{Error, Result};
use crate::fit::{Allowance, Fit, FitReport, FitState, Settings, StopReason, TracePoint};
use crate::hardware::Hardware;
use crate::in_parts::InParts;
use crate::initialisation::Initialisation;
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
    let target: Arc<dyn Target> = Arc::new(InParts::new(model.clone(), request.hardware));
    let cost = budget::evaluation(model.clone(), request.hardware)?;
    // Ranks share the rows of the data, and all else each does itself.
    let ranks = request.hardware.ranks;
    let hardware = Hardware { ranks: None, ..request.hardware };
    let request = &Request { hardware, ..request.clone() };
    let mut allowed = Allowance::new(request.budget.iterations, request.budget.seconds).shared_by(ranks);
    let initialisations = saved.initialisations(target.as_ref())?;
    let gaussian = ladder::gaussian(target.dim(), request.full_covariance);
    let deadline = Deadline::of_search(&allowed, ranks);
    let (modes, outside) = outside::search((&model, &target), &gaussian, request, cost, deadline)?;
    let initialisations = if initialisations.is_empty() {
        let fitted = modes.iter().take(modes::MOST);
        fitted.map(|mode| mode.best_initialisation(&target, modes.len() == 1, request)).collect::<Result<_>>()?
    } else {
        initialisations
    };
    let mut checkpoint = Checkpoint::new(target.as_ref(), &initialisations)?;
    allowed.spend(saved.iterations());
    let mut ladder = ladder::ladder(&request.chain, target.dim(), request.full_covariance);
    saved.agree(&request.chain, &mut ladder)?;
    let initial = |from: Initialisation| Approximation::initialised(target.clone(), gaussian.clone(), from, hardware);
    let initial: Vec<Approximation> = initialisations.into_iter().map(initial).collect::<Result<_>>()?;
    let evidence = Evidence { model: model.as_ref(), modes: &modes, outside: outside.as_ref(), starts: request.starts };
    let judge = Judge { evidence, request };

    let (mut attempts, mut tried, mut judging) = (vec![], Tried::default(), Judging::default());
    let mut stop_reason = StopReason::Converged;
    // The last ones that were fitted.
    let mut before = None::<Vec<Approximation>>;
    for (i, chain) in ladder.into_iter().enumerate() {
        let past = saved.rungs.get(i);
        let settings = ladder::settings(&chain, &request.settings, &request.chain);
        if past.is_none() && !ladder::is_worthwhile(&request.chain, &chain, tried.best_kind()) {
            break;
        }
        if past.is_none() && !budget::affordable(&allowed, &chain, &settings, &attempts) {
            stop_reason = StopReason::Budget;
            break;
        }
        // It would fail again.
        if let Some(rung @ Rung { states: Err(why), .. }) = past {
            checkpoint.rungs.push(rung.clone());
            attempts.push(Attempt { chain, outcome: Err(why.clone()) });
            continue;
        }
        let (name, taken) = (chain.to_string(), (allowed.spent(), past.map_or(0, |rung| rung.iterations)));
        let start = |(m, initial): (usize, &Approximation)| {
            ladder::start(&chain, initial, before.as_ref().map(|before| &before[m]), request.settings.seed)
        };
        let starts: Vec<Approximation> = initial.iter().enumerate().map(start).collect::<Result<_>>()?;
        let is_stage = ladder::is_stage(&request.chain, &chain);
        let draws = budget::draws(cost, &chain);
        let states = past.and_then(|rung| rung.states.as_deref().ok()).unwrap_or_default();
        // A Gaussian that is good from the beginning needs no fit.
        let untouched = chain.is_empty() && !is_stage && states.iter().all(|state| state.iterations() == 0);
        let as_is = if untouched {
            let judged = judge.judge(starts.clone(), is_stage, draws, allowed.seconds_left())?;
            judging.took(&chain, judged.seconds());
            Some(judged)
        } else {
            None
        };
        // What is fitted has to be drawn from and judged.
        let mut for_fit = allowed.without(judging.expected(&chain));
        let late = for_fit.seconds_left().is_some_and(|left| left <= 0.0);
        let mut judged = as_is.filter(|judged| judged.is_good() || late);
        let ran = match &judged {
            Some(judged) => {
                let reason = if judged.is_good() { StopReason::Sufficient } else { StopReason::Budget };
                Ok((starts, FitReport::untouched(reason), vec![]))
            }
            None => {
                let so_far = &checkpoint;
                let observe = |fit: During<'_>| match fit {
                    During::Trace(point) => observe(Event::Trace { chain: &name, point }),
                    During::Round(states) => {
                        let iterations = states.iter().map(FitState::iterations).sum();
                        let mut state = so_far.clone();
                        state.rungs.push(Rung { chain: chain.clone(), iterations, states: Ok(states) });
                        observe(Event::Round { state: &state })
                    }
                };
                let is_enough = |part: Approximation| -> Result<bool> {
                    // Heavy tails of the weights may become lighter.
                    let is_enough = |judged: &Judged| {
                        judged.is_enough(&chain, attempts.len()) && judged.verdict.unreported.is_empty()
                    };
                    if is_stage {
                        return Ok(false);
                    }
                    judged = Some(judge.judge(vec![part], is_stage, draws, None)?).filter(is_enough);
                    Ok(judged.is_some())
                };
                fit_parts(starts, &settings, states, &mut for_fit, observe, is_enough)
            }
        };
        allowed.spend(for_fit.spent() - allowed.spent());
        let (parts, report, states) = match ran {
            // If a longer chain cannot be fitted, the result of the shorter one remains.
            Err(Error::Fit { why }) if !tried.is_empty() || is_stage => {
                let iterations = taken.1 + allowed.spent() - taken.0;
                checkpoint.rungs.push(Rung { chain: chain.clone(), iterations, states: Err(why.clone()) });
                attempts.push(Attempt { chain, outcome: Err(why) });
                continue;
            }
            ran => ran?,
        };
        checkpoint.rungs.push(Rung { chain: chain.clone(), iterations: report.iterations, states: Ok(states) });
        if !report.stop_reason.is_complete() {
            // It has stopped: there is nothing left to break off.
            let _ = observe(Event::Stopped { reason: report.stop_reason, state: &checkpoint });
        }
        before = Some(parts.clone());
        let judged = match judged {
            Some(judged) => judged,
            None => {
                let judged = judge.judge(parts, is_stage, draws, allowed.seconds_left())?;
                judging.took(&chain, judged.seconds());
                judged
            }
        };
        stop_reason = report.stop_reason;
        let enough = judged.is_enough(&chain, attempts.len());
        let hopeless = !is_stage && judged.verdict.is_hopeless();
        attempts.push(Attempt { chain, outcome: Ok(judged.fitted(report)) });
        tried.add(attempts.len() - 1, judged);
        if !stop_reason.is_complete() || enough || hopeless {
            break;
        }
    }
    let (kept, best) = tried.into_best(&judge, || allowed.seconds_left(), &mut attempts)?;
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
        outside: outside.map(|outside| outside.log_evidence),
        attempts,
        kept,
        stop_reason,
        iterations,
        checkpoint,
    })
}

/// What is seen of a fit.
enum During<'a> {
    Trace(&'a TracePoint),
    /// The states after a round.
    Round(Vec<FitState>),
}

/// Fit a chain to each mode, as far as the budget allows: the fits, a report on all of them, and their states. The fit of
/// a single mode ends between two rounds if it is good enough.
fn fit_parts(
    mut parts: Vec<Approximation>,
    settings: &Settings,
    states: &[FitState],
    allowed: &mut Allowance,
    mut observe: impl FnMut(During<'_>) -> ControlFlow<()>,
    mut is_enough: impl FnMut(Approximation) -> Result<bool>,
) -> Result<(Vec<Approximation>, FitReport, Vec<FitState>)> {
    let (mut total, mut reached, single) = (None::<FitReport>, vec![], parts.len() == 1);
    for (m, part) in parts.iter_mut().enumerate() {
        let mut fit = match states.get(m) {
            Some(state) => Fit::resume(part, settings, state)?,
            None => Fit::new(part, settings)?,
        };
        let stop_reason = loop {
            if single && fit.is_between_rounds() && is_enough(fit.best())? {
                break StopReason::Sufficient;
            }
            if let Some(reason) = fit.run_round(allowed, |point| observe(During::Trace(point)))? {
                break reason;
            }
            if observe(During::Round([&reached[..], &[fit.state()?]].concat())).is_break() {
                break StopReason::Interrupted;
            }
        };
        reached.push(fit.state()?);
        let (params, report) = fit.finish(stop_reason)?;
        part.params = params;
        total = Some(total.map_or(report.clone(), |total| total.and(report)));
        // The others stay as they begin.
        if !stop_reason.is_complete() {
            break;
        }
    }
    let report = total.ok_or_else(|| Error::Fit { why: "there is nothing to fit".to_owned() })?;
    Ok((parts, report, reached))
}
