//! Algorithm 1: the lower bound of a Markov chain. Only this module adds log p(x, z) terms.

use crate::chain::{Annealing, Chain, Iterates};
use crate::density::{Categorical, Density, Given};
use crate::error::{Error, Result};
use crate::params::Group;
use crate::scope::{Choices, Initial, Scope};
use crate::target::{Bridge, Landscape, Point, Target, evaluate};
use crate::transition::{ChainState, Diagnostic, StepScope, Transition};
use crate::whitening::Whitened;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

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

impl<'g> Estimate<'g> {
    /// The values by which draws are compared under an objective.
    pub(crate) fn of(&self, objective: Objective) -> Expr<'g> {
        match (objective, self.steps.last()) {
            (Objective::LastStep, Some(last)) => *last,
            _ => self.bound,
        }
    }
}

/// What is maximised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The whole bound: Algorithm 2.
    Bound,
    /// E log α of the last step, with all others frozen: Algorithm 4.
    LastStep,
    /// The bound with its KL divergence from the prior weighted by [`KL_WEIGHT`](crate::fit::KL_WEIGHT), an input of every
    /// iteration: raised from 0 to 1 (KL warm-up), it keeps latent variables in use until the decoder needs them.
    KlWeighted,
}

/// The chain after a step.
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
    let (z0, log_q0) = chain.initial.draw(&q0, &given)?;
    // Line 2. The log p terms of the αₜ telescope: they are added at the end.
    let mut visits = vec![Visit { state: ChainState::new(z0), log_ratio: -log_q0 }];
    let betas = temperatures(chain, &scope.child("beta").group(Group::Transition))?;
    let time = |t: usize| scope.graph().scalar(scope.dtype(), t as f64 / chain.len() as f64);
    let (mut steps, mut diagnostics) = (vec![], vec![]);
    // Line 3: for t = 1 … T.
    for (t, step) in chain.each_step().enumerate() {
        let before = &visits[t];
        let at = StepScope {
            forward: scope.child(&step.forward).group(Group::Transition),
            inverse: scope.child(&step.inverse).group(Group::Inverse),
            shared: scope.child(&step.shared).group(Group::Transition),
            time: time(t + 1),
            start: time(t),
            data: data.map(|x| tile(x, before.state.paths)),
        };
        let bridge = betas.as_ref().map(|betas| {
            let (q0, given) = (q0.clone(), given.clone());
            let log_q0 = move |z: Expr<'g>| {
                let rows = z.shape().dims()[0];
                let data = given.data.map(|x| tile(x, rows / given.rows));
                chain.initial.log_density(&q0, &Given { rows, data, ..given.clone() }, z)
            };
            Bridge { path: &chain.path, beta: betas[t], log_q0: Box::new(log_q0) }
        });
        let landscape = Landscape { target, scope: target_scope.clone(), bridge };
        // Line 4: the transition zₜ ~ qₜ(zₜ|x, zₜ₋₁), with log rₜ − log qₜ.
        let moved = step.transition.apply(&at, before.state, &landscape).map_err(|e| name_step(e, t + 1))?;
        // Line 5: log αₜ.
        let split = |e: Expr<'g>| tile(e, moved.state.paths / before.state.paths);
        let alpha = log_p(moved.state.z)? - split(log_p(before.state.z)?) + moved.log_ratio;
        steps.push(average(&moved.state, alpha, scope.rows()));
        diagnostics.push(moved.diagnostics);
        // Line 6: L = L + log αₜ.
        let log_ratio = split(before.log_ratio) + moved.log_ratio;
        visits.push(Visit { state: moved.state, log_ratio });
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
    Ok(Estimate { bound, z, log_p, first, steps, diagnostics })
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
fn temperatures<'g>(chain: &Chain, scope: &Scope<'g>) -> Result<Option<Vec<Expr<'g>>>> {
    let n = chain.len();
    match &chain.annealing {
        Annealing::Off => Ok(None),
        Annealing::Fixed(betas) => {
            let rising = betas.windows(2).all(|w| w[0] <= w[1]);
            if betas.len() != n || !rising || betas.iter().any(|b| !(0.0..=1.0).contains(b)) {
                let why = format!("needs one β in [0, 1] for each of {n} steps, rising; got {betas:?}");
                return Err(Error::Setting { what: "temperatures", why });
            }
            Ok(Some(betas.iter().map(|b| scope.graph().scalar(scope.dtype(), *b)).collect()))
        }
        Annealing::Learned if n == 0 => Ok(Some(vec![])),
        Annealing::Learned => {
            // The increments between temperatures are a softmax, so that temperatures rise to one.
            let logits = scope.param("logits", n, || Initial::new(vec![0.0; n]));
            let betas = (logits - logits.logsumexp(&[0])).exp().cumsum(0);
            Ok(Some((0..n).map(|t| betas.at(0, t)).collect()))
        }
    }
}
