//! What is maximised, by which estimate of its gradient, and by which values parameters are compared.

use super::Estimate;
use crate::chain::{Chain, Iterates};
use crate::error::{Error, Result};
use crate::limits::{self, within};
use crate::params::Group;
use crate::scope::{Estimator, Scope};
use crate::target::Target;
use crate::transition::Transition;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// The input that holds the KL weight of [`Objective::KlWeighted`].
pub const KL_WEIGHT: &str = "fit.kl_weight";

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
    /// The importance-weighted bound of this many draws, which divides the draws per gradient: E log of the mean of their weights
    /// exp(L) (Burda, Grosse & Salakhutdinov 2016, "Importance weighted autoencoders").
    ImportanceWeighted(usize),
    /// The bound, its gradient without the scores of the densities that z₀ and momenta are drawn from: their expectations are
    /// zero, and so is all the gradient's variance where q is exact (Roeder, Wu & Duvenaud 2017, "Sticking the landing").
    StickingTheLanding,
    /// −½ Var L over the draws, their paths held fixed: the log-variance divergence (Richter et al. 2020, "VarGrad"). For
    /// parameters of q alone its gradient is, in expectation, that of the bound; for those of r it is not, and what L does not
    /// depend on with the path fixed, such as the share of its momentum that [`Uha`](crate::transition::Uha) keeps, is not learned.
    LogVariance,
}

impl Objective {
    /// How its gradient is estimated.
    pub(crate) fn estimator(self) -> Estimator {
        match self {
            Objective::StickingTheLanding => Estimator::StickingTheLanding,
            Objective::LogVariance => Estimator::FixedPath,
            _ => Estimator::Pathwise,
        }
    }

    /// Draws that one value is made of.
    pub(crate) fn draws_per_value(self) -> usize {
        match self {
            Objective::ImportanceWeighted(k) => k,
            _ => 1,
        }
    }

    /// Whether it can be estimated with this many draws of this chain.
    pub(crate) fn check(self, target: &dyn Target, chain: &Chain, draws: usize) -> Result<()> {
        match self {
            Objective::ImportanceWeighted(k) => {
                within("draws of an importance-weighted bound", k, 1..=draws)?;
                if !draws.is_multiple_of(k) {
                    return Err(cannot(format!(
                        "{draws} draws per gradient are no multiple of {k}, the draws of a bound"
                    )));
                }
            }
            Objective::LogVariance => {
                within("draws per gradient for a variance", draws, 2..=limits::GRADIENT_DRAWS)?;
                if !matches!(chain.iterates, Iterates::Last) {
                    return Err(cannot(
                        "a mixture of iterates has no log-variance; use the last one, or `bound`".to_owned(),
                    ));
                }
                let steps = chain.groups().flat_map(|group| (0..group.count()).map(move |i| group.step(i).transition));
                if let Some((t, step)) = steps.enumerate().find(|(_, step)| !step.holds_path()) {
                    let why = format!(
                        "the {} cannot hold its path fixed, as the log-variance needs; use Langevin, Hamiltonian or UHA \
                         steps or those made of them, or the objective `bound`",
                        step.name().0
                    );
                    return Err(Error::Step { step: t + 1, why });
                }
            }
            _ => return Ok(()),
        }
        if target.is_subsampled() { Err(several_posteriors()) } else { Ok(()) }
    }
}

fn cannot(why: String) -> Error {
    Error::Setting { what: "objective", why }
}

fn several_posteriors() -> Error {
    cannot("draws are compared, which must be of one posterior, with all of its data; use `bound`".to_owned())
}

impl<'g> Estimate<'g> {
    /// What is maximised, of each draw.
    pub(crate) fn of_draws(&self, objective: Objective) -> Expr<'g> {
        match (objective, self.steps.last()) {
            (Objective::LastStep, Some(last)) => *last,
            _ => self.bound,
        }
    }

    /// The values by which parameters are compared and which are reported: estimates of a bound, each of one or several draws.
    pub(crate) fn of(&self, objective: Objective) -> Expr<'g> {
        let (bound, k) = (self.of_draws(objective), objective.draws_per_value());
        if k == 1 {
            return bound;
        }
        // A draw without weight leaves the others theirs.
        let weighs = bound.abs().lt(f64::INFINITY).select(bound, f64::NEG_INFINITY);
        let values = weighs.shape().dims().first().map_or(0, |rows| rows / k);
        weighs.reshape([values, k]).logsumexp(&[1]) - (k as f64).ln()
    }

    /// Values whose mean has the gradient that is followed, each for one of those that are reported.
    pub(crate) fn followed(&self, objective: Objective, target: &dyn Target, scope: &Scope<'g>) -> Result<Expr<'g>> {
        let target_scope = scope.child("target").group(Group::Target);
        let values = self.of(objective);
        match objective {
            Objective::Bound | Objective::StickingTheLanding => Ok(values),
            Objective::LastStep if self.steps.is_empty() => {
                Err(cannot("the chain has no last step to learn alone".to_owned()))
            }
            Objective::LastStep => Ok(values),
            Objective::ImportanceWeighted(_) | Objective::LogVariance if target.data(&target_scope).is_some() => {
                Err(several_posteriors())
            }
            Objective::ImportanceWeighted(_) => Ok(values),
            Objective::KlWeighted => {
                let likelihood = target.log_likelihood(&target_scope, self.z.opaque());
                let fit = likelihood.ok_or_else(|| {
                    let why =
                        "the target does not separate its likelihood from its prior; see `Target::log_likelihood`";
                    cannot(why.to_owned())
                })?;
                let input = || scope.graph().input(KL_WEIGHT, scope.dtype(), ());
                Ok(fit + (values - fit) * scope.root().of_all_parts().shared(KL_WEIGHT, input))
            }
            Objective::LogVariance => {
                // −½ ∂Var L = −Cov(L, ∂L), unbiased.
                let finite = values.abs().lt(f64::INFINITY);
                let n = finite.sum_all();
                let mean = finite.select(values, 0.0).sum_all() / n.max(1.0);
                Ok((mean - values).stop_gradient() * values * (n / (n - 1.0).max(1.0)))
            }
        }
    }
}
