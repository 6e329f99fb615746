//! Algorithm 1: the lower bound of a Markov chain, and the upper bound by the same chain run backwards. Only this module adds
//! log p(x, z) terms.

mod objective;
mod reverse;
mod steps;

pub use objective::{KL_WEIGHT, Objective};
pub use reverse::upper_bound;

use crate::chain::{Annealing, Chain, Iterates};
use crate::density::{Categorical, Density, Given};
use crate::error::{Error, Result};
use crate::params::Group;
use crate::scope::{Choices, Initial, Scope};
use crate::target::{Point, Target, evaluate};
use crate::transition::{ChainState, Diagnostic};
use crate::whitening::Whitened;
use mcvi_expr::Expr;
use steps::Steps;

/// The bound of every row, with intermediate results.
#[non_exhaustive]
pub struct Estimate<'g> {
    /// The lower bound estimate L of each draw. NaN counts as −∞ wherever it is used.
    pub bound: Expr<'g>,
    /// The draw: z_T, or one of the last positions if the approximation is a mixture of several.
    pub z: Expr<'g>,
    /// log p(x, z) of the draw.
    pub log_p: Expr<'g>,
    /// log p(x, z₀) − log q(z₀|x), the bound before the first step.
    pub first: Expr<'g>,
    /// log αₜ, what each step adds to the bound.
    pub steps: Vec<Expr<'g>>,
    /// Diagnostics of each step, one number per draw. Only if choices are drawn.
    pub diagnostics: Vec<Vec<(Diagnostic, Expr<'g>)>>,
}

/// The chain after a step.
#[derive(Clone, Copy)]
struct Visit<'g> {
    state: ChainState<'g>,
    /// Σ (log r − log q) so far, without log p.
    log_ratio: Expr<'g>,
}

/// Algorithm 1: draw a chain and estimate its bound, row by row.
pub fn lower_bound<'g>(target: &dyn Target, chain: &Chain, scope: &Scope<'g>) -> Result<Estimate<'g>> {
    let target_scope = scope.child("target").group(Group::Target);
    let whitened = chain.whitened.then_some(Whitened(target));
    let (target, scope) = match &whitened {
        Some(whitened) => (whitened as &dyn Target, &scope.whitened()),
        None => (target, scope),
    };
    let q0 = scope.child("q0").group(Group::Initial);
    let data = target.data(&target_scope);
    let log_p = |z: Expr<'g>| evaluate(target, &target_scope, z);

    // Alg. 1, line 1: draw z₀ ~ q(z₀|x).
    let given = Given::nothing(&q0, data);
    let (z0, log_q0) = chain.initial.draw_for_gradient(&q0, &given)?;
    // Line 2. The log p terms of the αₜ telescope: they are added at the end.
    let mut visits = vec![Visit { state: ChainState::new(z0), log_ratio: -log_q0 }];
    let steps = Steps {
        chain,
        target,
        target_scope: &target_scope,
        scope,
        data,
        betas: temperatures(chain, &scope.child("beta").group(Group::Transition))?,
        log_q0: &|z: Expr<'g>| log_initial(chain, &q0, data, z),
    };
    let (mut alphas, mut diagnostics) = (vec![], vec![]);
    // Lines 3 to 6: for t = 1 … T.
    for group in chain.groups() {
        let alone = if steps.loops(group) { 1 } else { group.count() };
        for i in 0..alone {
            let before = visits[visits.len() - 1];
            let taken = steps.take(&group.step(i), alphas.len(), before).map_err(|e| name_step(e, alphas.len() + 1))?;
            alphas.push(average(&taken.visit.state, taken.alpha, scope.rows()));
            diagnostics.push(taken.diagnostics);
            visits.push(taken.visit);
        }
        if alone < group.count() {
            let (visit, many) = steps.repeat(group, alphas.len(), visits[visits.len() - 1])?;
            for (alpha, more) in many {
                alphas.push(alpha);
                diagnostics.push(more);
            }
            visits.push(visit);
        }
    }
    let first = log_p(z0)? - log_q0;
    let (bound, z) = match &chain.iterates {
        Iterates::Last => {
            let last = &visits[visits.len() - 1];
            (average(&last.state, log_p(last.state.z)? + last.log_ratio, scope.rows()), last.state.z)
        }
        Iterates::Mixture { last, indicator } => mixture(&visits, *last, indicator.as_ref(), scope, data, &log_p)?,
    };
    let log_p = log_p(z)?;
    let (z, log_p) = match whitened {
        Some(_) => (Whitened::original(&target_scope, z), log_p - Whitened::log_volume(&target_scope)),
        None => (z, log_p),
    };
    Ok(Estimate { bound, z, log_p, first, steps: alphas, diagnostics })
}

/// log q(z|x) of each row of z, for the initial distribution.
fn log_initial<'g>(chain: &Chain, q0: &Scope<'g>, data: Option<Expr<'g>>, z: Expr<'g>) -> Result<Expr<'g>> {
    let rows = z.shape().dims()[0];
    let data = data.map(|x| tile(x, rows / q0.rows()));
    chain.initial.log_density(q0, &Given { rows, ..Given::nothing(q0, data) }, z)
}

fn name_step(error: Error, step: usize) -> Error {
    match error {
        Error::Target { why } | Error::Density { why } => Error::Step { step, why },
        other => other,
    }
}

/// Repeat rows for every path.
fn tile(e: Expr<'_>, times: usize) -> Expr<'_> {
    if times == 1 { e } else { e.graph().concat(&vec![e; times], 0) }
}

/// The expectation over a draw's accept paths. A path of probability zero does not count, whatever its value.
fn average<'g>(state: &ChainState<'g>, value: Expr<'g>, draws: usize) -> Expr<'g> {
    let Some(log_weight) = state.log_weight else { return value };
    let possible = log_weight.gt(f64::NEG_INFINITY);
    let terms = possible.select(log_weight.exp() * value, 0.0);
    terms.reshape([state.paths, draws]).sum(&[0])
}

/// Section 4.3: L = log p(x, z_w) + Σ (log r − log q) + log r(w|x, z_w) + log K, averaged over w or for a drawn w.
fn mixture<'g>(
    visits: &[Visit<'g>],
    last: usize,
    indicator: Option<&Categorical>,
    scope: &Scope<'g>,
    data: Option<Expr<'g>>,
    log_p: &dyn Fn(Expr<'g>) -> Result<Expr<'g>>,
) -> Result<(Expr<'g>, Expr<'g>)> {
    if last == 0 || last > visits.len() {
        let why = format!("the last {last} of {} positions cannot be averaged; z₀ is one of them", visits.len());
        return Err(Error::Setting { what: "iterates", why });
    }
    let used = &visits[visits.len() - last..];
    let bounds = used.iter().enumerate().map(|(w, visit)| {
        let mut bound = log_p(visit.state.z)? + visit.log_ratio;
        if let Some(r) = indicator {
            let (z, scope) = (visit.state.z, scope.child("iterate").group(Group::Inverse));
            let gradient = mcvi_expr::grad(log_p(z)?.sum_all(), &[z])?[0];
            let point = Point { z, log_p: log_p(z)?, gradient };
            let given = Given::position(&scope, point, data.map(|x| tile(x, visit.state.paths)));
            bound = bound + r.log_probabilities(&scope, &given, last)?.at(1, w) + (last as f64).ln();
        }
        Ok(average(&visit.state, bound, scope.rows()))
    });
    let bounds: Vec<Expr<'g>> = bounds.collect::<Result<_>>()?;
    let newest = used[last - 1].state.z;
    match scope.choices() {
        Choices::Average => {
            let total = bounds.iter().copied().reduce(|a, b| a + b).unwrap_or(bounds[0]);
            Ok((total / last as f64, newest))
        }
        Choices::Sample => {
            let w = (scope.uniform(scope.rows()) * last as f64).floor();
            let pick = |i: usize| w.eq(i as f64);
            let (mut bound, mut z) = (bounds[last - 1], newest);
            for i in 0..last - 1 {
                bound = pick(i).select(bounds[i], bound);
                z = pick(i).expand(1).select(used[i].state.z, z);
            }
            Ok((bound, z))
        }
    }
}

/// β₁ … β_T, if the chain is annealed.
fn temperatures<'g>(chain: &Chain, scope: &Scope<'g>) -> Result<Option<Expr<'g>>> {
    let n = chain.len();
    match &chain.annealing {
        Annealing::Off => Ok(None),
        Annealing::Fixed(betas) => {
            let rising = betas.windows(2).all(|w| w[0] <= w[1]);
            if betas.len() != n || !rising || betas.iter().any(|b| !(0.0..=1.0).contains(b)) {
                let why = format!("needs one β in [0, 1] for each of {n} steps, rising; got {betas:?}");
                return Err(Error::Setting { what: "temperatures", why });
            }
            Ok((n > 0).then(|| scope.vector(betas)))
        }
        Annealing::Learned if n == 0 => Ok(None),
        Annealing::Learned => {
            // The increments between temperatures are a softmax, so that temperatures rise to one.
            let logits = scope.param("logits", n, || Initial::new(vec![0.0; n]));
            Ok(Some((logits - logits.logsumexp(&[0])).exp().cumsum(0)))
        }
    }
}
