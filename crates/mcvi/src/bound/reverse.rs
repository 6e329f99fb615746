//! Algorithm 1 from its end: an upper bound by the path that the inverse model draws backwards (Grosse, Ghahramani & Adams 2015,
//! "Sandwiching the marginal likelihood using bidirectional Monte Carlo").
//!
//! If z_T is a draw from the posterior, E U = log p(x) + KL(p·r ‖ q) ≥ log p(x), and E exp(−U) = 1/p(x).

use super::steps::Steps;
use super::{Visit, log_initial, name_step, temperatures};
use crate::chain::{Chain, Iterates};
use crate::error::{Error, Result};
use crate::params::Group;
use crate::scope::Scope;
use crate::target::{Target, evaluate};
use crate::transition::ChainState;
use crate::whitening::Whitened;
use mcvi_expr::Expr;

/// The most steps of a chain that is run backwards: they are written out, not run as a loop.
const STEPS: usize = 256;

/// The upper bound estimate U = log p(x, z_T) + Σ (log rₜ − log qₜ) − log q(z₀|x) of each row of z_T, with its path drawn
/// backwards.
pub fn upper_bound<'g>(target: &dyn Target, chain: &Chain, scope: &Scope<'g>, z: Expr<'g>) -> Result<Expr<'g>> {
    if !matches!(chain.iterates, Iterates::Last) {
        return Err(Error::NoWayBack { what: "a mixture of iterates".to_owned() });
    }
    if chain.len() > STEPS {
        let why = format!("it has {} steps; at most {STEPS} can be run backwards", chain.len());
        return Err(Error::Setting { what: "chain", why });
    }
    let target_scope = scope.child("target").group(Group::Target);
    let whitened = chain.whitened.then_some(Whitened(target));
    let (target, scope, z) = match &whitened {
        Some(whitened) => (whitened as &dyn Target, &scope.whitened(), Whitened::white(&target_scope, z)),
        None => (target, scope, z),
    };
    let q0 = scope.child("q0").group(Group::Initial);
    let data = target.data(&target_scope);
    let steps = Steps {
        chain,
        target,
        target_scope: &target_scope,
        scope,
        data,
        betas: temperatures(chain, &scope.child("beta").group(Group::Transition))?,
        log_q0: &|z: Expr<'g>| log_initial(chain, &q0, data, z),
    };
    // Start where the chain ends, with log p(x, z_T).
    let mut visit = Visit { state: ChainState::new(z), log_ratio: evaluate(target, &target_scope, z)? };
    // For t = T … 1: draw zₜ₋₁ ~ rₜ(zₜ₋₁|x, zₜ), and add log rₜ − log qₜ.
    for (t, step) in chain.each_step().enumerate().collect::<Vec<_>>().into_iter().rev() {
        visit = steps.take_back(&step, t, visit).map_err(|e| name_step(e, t + 1))?;
    }
    // The chain began with z₀ ~ q(z₀|x).
    Ok(visit.log_ratio - log_initial(chain, &q0, data, visit.state.z)?)
}
