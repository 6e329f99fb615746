//! Adler's over-relaxation: Gibbs sampling that overshoots the conditional mean by a learned amount.

use super::gibbs::{Draw, Sweep, log_normal};
use super::{AnyTransition, ChainState, Inverse, Moved, StepScope, Transition};
use crate::error::{Error, Result};
use crate::scope::Initial;
use crate::target::{Conditional, Landscape};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// One sweep of zⁱ ~ N(μᵢ + α(zⁱ − μᵢ), σᵢ²(1 − α²)), |α| < 1 learned. At α = 0 it is Gibbs sampling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OverRelaxation {
    /// The inverse model r(zₜ₋₁|x, zₜ).
    pub inverse: Inverse,
}

impl OverRelaxation {
    /// With this inverse model.
    pub fn new(inverse: Inverse) -> Self {
        OverRelaxation { inverse }
    }

    /// The name of the parameter whose hyperbolic tangent is α.
    pub const PARAMETER: &'static str = "atanh_alpha";

    /// A coordinate moved beyond its conditional mean, with the log density of the move.
    fn update<'g>(at: &StepScope<'g>) -> impl Fn(Conditional<'g>, Expr<'g>, Draw<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let alpha = at.forward.param(Self::PARAMETER, (), || Initial::new(vec![0.0])).tanh();
        let keep = (1.0 - alpha.square()).sqrt();
        move |conditional, old, draw| {
            let Conditional::Gaussian { mean, sd } = conditional else {
                let why = "over-relaxation needs Gaussian conditional distributions; use Gibbs".to_owned();
                return Err(Error::Target { why });
            };
            let (mean, sd) = (mean + alpha * (old - mean), sd * keep);
            Ok(match draw {
                Draw::Fresh => {
                    let e = at.forward.normal(mean.shape());
                    (mean + sd * e, log_normal(e, sd))
                }
                Draw::Known(x) => (x, log_normal((x - mean) / sd, sd)),
            })
        }
    }
}

impl Transition for OverRelaxation {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let update = OverRelaxation::update(at);
        Sweep { at, target, inverse: &self.inverse, update }.apply(state)
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let update = OverRelaxation::update(at);
        Sweep { at, target, inverse: &self.inverse, update }.reverse(state)
    }

    fn name(&self) -> (String, String) {
        ("sweep of over-relaxation".to_owned(), String::new())
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
