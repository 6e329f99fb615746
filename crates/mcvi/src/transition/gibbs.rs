//! Gibbs sampling: every coordinate in turn from its distribution given the others.

use super::{AnyTransition, ChainState, Inverse, Moved, StepScope, Transition};
use crate::density::{Density, Given};
use crate::error::Result;
use crate::target::{Conditional, Landscape};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// One sweep over all coordinates, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Gibbs {
    /// The inverse model r(zₜ₋₁|x, zₜ).
    pub inverse: Inverse,
}

impl Gibbs {
    /// With this inverse model.
    pub fn new(inverse: Inverse) -> Self {
        Gibbs { inverse }
    }
}

impl Transition for Gibbs {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        sweep(at, state, target, &self.inverse, |conditional, _, draw| match (conditional, draw) {
            (Conditional::Gaussian { mean, sd }, Draw::Fresh) => {
                let e = at.forward.normal(mean.shape());
                Ok((mean + sd * e, log_normal(e, sd)))
            }
            (Conditional::Gaussian { mean, sd }, Draw::Known(x)) => Ok((x, log_normal((x - mean) / sd, sd))),
            (Conditional::Quantile { quantile, log_density }, Draw::Fresh) => {
                let x = quantile(at.forward.uniform(state.rows()));
                Ok((x, log_density(x)))
            }
            (Conditional::Quantile { log_density, .. }, Draw::Known(x)) => Ok((x, log_density(x))),
        })
    }

    fn name(&self) -> (String, String) {
        ("Gibbs sweep".to_owned(), String::new())
    }

    fn has_network(&self) -> bool {
        self.inverse.has_network()
    }

    fn size(&self) -> Result<usize> {
        self.inverse.size()
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}

/// Whether to draw a coordinate, or to evaluate its log density.
pub(super) enum Draw<'g> {
    Fresh,
    Known(Expr<'g>),
}

/// Update every coordinate in turn. `update` takes a coordinate's conditional distribution and its old value, and
/// returns its new value with the log density of the change.
pub(super) fn sweep<'g>(
    at: &StepScope<'g>,
    state: ChainState<'g>,
    target: &Landscape<'_, 'g>,
    inverse: &Inverse,
    update: impl Fn(Conditional<'g>, Expr<'g>, Draw<'g>) -> Result<(Expr<'g>, Expr<'g>)>,
) -> Result<Moved<'g>> {
    let columns = |z: Expr<'g>| (0..z.shape().dims()[1]).map(|i| z.at(1, i)).collect::<Vec<_>>();
    let join = |c: &[Expr<'g>]| at.forward.graph().concat(&c.iter().map(|c| c.expand(1)).collect::<Vec<_>>(), 1);
    let old = columns(state.z);
    let mut now = old.clone();
    let mut log_q = at.forward.graph().scalar(at.forward.dtype(), 0.0);
    for i in 0..now.len() {
        let (x, log_density) = update(target.conditional(join(&now), i)?, now[i], Draw::Fresh)?;
        now[i] = x;
        log_q = log_q + log_density;
    }
    let z = join(&now);
    let log_r = match inverse {
        Inverse::Learned(r) => {
            let given = Given::position(&at.forward, target.at(z)?, at.data);
            r.log_density(&at.inverse, &given, state.z)?
        }
        // The same updates in the opposite order; the values in between are known from both ends.
        Inverse::Reversed => {
            let mut log_r = at.forward.graph().scalar(at.forward.dtype(), 0.0);
            for i in (0..now.len()).rev() {
                let (x, log_density) = update(target.conditional(join(&now), i)?, now[i], Draw::Known(old[i]))?;
                now[i] = x;
                log_r = log_r + log_density;
            }
            log_r
        }
    };
    Ok(Moved::new(state.at(z), log_r - log_q))
}

/// Log density of standardised values `e`, one per row.
pub(super) fn log_normal<'g>(e: Expr<'g>, sd: Expr<'g>) -> Expr<'g> {
    e.square() * -0.5 - sd.ln() - 0.5 * std::f64::consts::TAU.ln()
}
