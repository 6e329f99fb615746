//! Metropolis–Hastings around a proposal or around Hamiltonian dynamics, with the accept variable: section 4.1.
//!
//! A step from z proposes z′ by an auxiliary draw u (z′ itself, or a momentum v′) and accepts with probability ρ. The
//! auxiliary variable that would propose the reverse move is called the *discarded* variable d: zₜ₋₁, or the negative
//! of the final momentum, if the step was accepted; u if it was rejected. (z, u, a) → (zₜ, d, a) preserves volume, so
//! the inverse model is a joint r(a, d|zₜ), in either factorisation.

use super::{AnyTransition, ChainState, Diagnostic, Hamiltonian, Inverse, Moved, StepScope, Transition, counted};
use crate::density::{AnyDensity, Bernoulli, Density, Given};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::scope::Choices;
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// Maximum number of paths per draw.
const MOST_PATHS: usize = 1024;

/// Acceptance closer to certain than this counts as certain.
const CERTAIN: f64 = 1e-100;

/// An accept/reject step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetropolisHastings {
    /// The proposal.
    pub around: Around,
    /// The joint inverse model of the accept variable and the discarded variable.
    #[serde(default = "AcceptInverse::reversed")]
    pub inverse: AcceptInverse,
}

/// What an accept/reject step is built around.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Around {
    /// A proposal φ(z′|z) with a density.
    Proposal(AnyDensity),
    /// Hamiltonian dynamics; its own inverse model is not used.
    Hamiltonian(Hamiltonian),
}

/// r(a, d|zₜ).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptInverse {
    /// r(a|zₜ) r(d|a, zₜ), as in the paper. It gives probability to impossible rejections, so that importance-weighted
    /// evidence is somewhat too low; the bound remains a bound.
    AcceptFirst {
        /// r(a|zₜ).
        accept: Bernoulli,
        /// r(d|a = 1, zₜ).
        accepted: AnyDensity,
        /// r(d|a = 0, zₜ).
        rejected: AnyDensity,
    },
    /// r(d|zₜ) r(a|d, zₜ): only this factorisation contains the reversed transition.
    DiscardedFirst {
        /// r(d|zₜ).
        discarded: Inverse,
        /// r(a|d, zₜ).
        accept: AcceptModel,
    },
}

/// r(a|d, zₜ).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptModel {
    /// The probability of accepting the reverse move.
    Reversed,
    /// A separate model, given zₜ and d.
    Learned(Bernoulli),
}

impl AcceptInverse {
    /// The reversed transition: for any chain, log α = 0.
    pub fn reversed() -> Self {
        AcceptInverse::DiscardedFirst { discarded: Inverse::Reversed, accept: AcceptModel::Reversed }
    }
}

impl MetropolisHastings {
    /// Around a proposal with a density, inverted by its reverse.
    pub fn proposal(proposal: impl Density + 'static) -> Self {
        MetropolisHastings { around: Around::Proposal(proposal.into_any()), inverse: AcceptInverse::reversed() }
    }

    /// Around Hamiltonian dynamics, inverted by its reverse.
    pub fn hamiltonian(dynamics: Hamiltonian) -> Self {
        MetropolisHastings { around: Around::Hamiltonian(dynamics), inverse: AcceptInverse::reversed() }
    }

    /// With another inverse model.
    pub fn inverse(self, inverse: AcceptInverse) -> Self {
        MetropolisHastings { inverse, ..self }
    }

    fn propose<'g>(&self, at: &StepScope<'g>, z: Expr<'g>, target: &Landscape<'_, 'g>) -> Result<Proposed<'g>> {
        let from = target.at(z)?;
        let scope = &at.forward;
        match &self.around {
            Around::Proposal(phi) => {
                let (drawn, log_forward) = phi.draw(scope, &Given::position(scope, from, at.data))?;
                let to = target.at(drawn)?;
                let log_backward = phi.log_density(scope, &Given::position(scope, to, at.data), z)?;
                Ok(Proposed { from, to, drawn, back: z, log_forward, log_backward, delta_h: None })
            }
            Around::Hamiltonian(hmc) => {
                let (dynamics, momentum) = (hmc.dynamics(scope)?, scope.child("momentum"));
                let (drawn, log_forward) = hmc.momentum.draw(&momentum, &Given::momentum(scope, from, at.data))?;
                let (to, v) = dynamics.run(target, from, drawn)?;
                let given = Given::momentum(scope, to, at.data);
                let log_backward = hmc.momentum.log_density(&momentum, &given, -v)?;
                let delta_h = Some(dynamics.energy(to, v) - dynamics.energy(from, drawn));
                Ok(Proposed { from, to, drawn, back: -v, log_forward, log_backward, delta_h })
            }
        }
    }

    /// The inputs of a density of the discarded variable.
    fn given<'g>(&self, at: &StepScope<'g>, point: Point<'g>) -> Given<'g> {
        match self.around {
            Around::Proposal(_) => Given::position(&at.forward, point, at.data),
            Around::Hamiltonian(_) => Given::momentum(&at.forward, point, at.data),
        }
    }

    /// log r(a, d|zₜ) for a step that was accepted, and for one that was rejected.
    fn log_inverse<'g>(
        &self,
        at: &StepScope<'g>,
        step: &Proposed<'g>,
        odds: &Odds<'g>,
        taken: Option<Expr<'g>>,
    ) -> Result<(Expr<'g>, Expr<'g>)> {
        let (yes, no) = (self.given(at, step.to), self.given(at, step.from));
        // If accepts are drawn, each branch sees only the rows that took it.
        let (yes, no) = match taken {
            Some(a) => (yes.only(a), no.only(1.0 - a)),
            None => (yes, no),
        };
        let scope = &at.inverse;
        match &self.inverse {
            AcceptInverse::AcceptFirst { accept, accepted, rejected } => {
                let a = scope.child("accept");
                let log_yes = accept.log_probabilities(&a, &yes)?.0;
                let log_no = accept.log_probabilities(&a, &no)?.1;
                Ok((
                    log_yes + accepted.log_density(&scope.child("accepted"), &yes, step.back)?,
                    log_no + rejected.log_density(&scope.child("rejected"), &no, step.drawn)?,
                ))
            }
            AcceptInverse::DiscardedFirst { discarded, accept } => {
                let (d_yes, d_no) = match discarded {
                    Inverse::Reversed => (step.log_backward, step.log_forward),
                    Inverse::Learned(r) => {
                        let scope = scope.child("discarded");
                        (r.log_density(&scope, &yes, step.back)?, r.log_density(&scope, &no, step.drawn)?)
                    }
                };
                let (a_yes, a_no) = match accept {
                    // Backwards the odds are inverted; a rejected step looks the same in both directions.
                    AcceptModel::Reversed => ((-odds.log_odds).min(0.0), odds.log_reject),
                    AcceptModel::Learned(model) => {
                        let units = yes.units.clone();
                        let more = |d: Expr<'g>| {
                            Some((d - at.forward.vector(&units.center)) / at.forward.vector(&units.scale))
                        };
                        let a = scope.child("accept");
                        let yes = Given { more: more(step.back), ..yes };
                        let no = Given { more: more(step.drawn), ..no };
                        let (yes, no) = (model.log_probabilities(&a, &yes)?.0, model.log_probabilities(&a, &no)?.1);
                        // If the reverse move is certain to be accepted, so is this one.
                        (odds.log_odds.le(0.0).select(0.0, yes), no)
                    }
                };
                Ok((d_yes + a_yes, d_no + a_no))
            }
        }
    }
}

/// A proposed move, before it is accepted or rejected.
struct Proposed<'g> {
    from: Point<'g>,
    to: Point<'g>,
    /// The auxiliary draw that proposed it.
    drawn: Expr<'g>,
    /// The auxiliary draw that would propose the reverse move.
    back: Expr<'g>,
    log_forward: Expr<'g>,
    log_backward: Expr<'g>,
    delta_h: Option<Expr<'g>>,
}

/// The acceptance probability.
struct Odds<'g> {
    /// log of p(z′) φ(back) / (p(z) φ(drawn)); NaN counts as −∞.
    log_odds: Expr<'g>,
    log_accept: Expr<'g>,
    /// log(1 − ρ), −∞ where acceptance is certain, and constant there: its slope would be infinite.
    log_reject: Expr<'g>,
}

impl<'g> Odds<'g> {
    fn new(step: &Proposed<'g>) -> Self {
        let raw = step.to.log_p - step.from.log_p + step.log_backward - step.log_forward;
        let log_odds = raw.eq(raw).select(raw, f64::NEG_INFINITY);
        let open = log_odds.lt(-CERTAIN);
        let log_reject = open.select((-open.select(log_odds, -1.0).expm1()).ln(), f64::NEG_INFINITY);
        Odds { log_odds, log_accept: log_odds.min(0.0), log_reject }
    }
}

impl Transition for MetropolisHastings {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let step = self.propose(at, state.z, target)?;
        let odds = Odds::new(&step);
        let graph = at.forward.graph();
        let mut diagnostics = vec![(Diagnostic::Acceptance, odds.log_accept.exp())];
        diagnostics.extend(step.delta_h.map(|h| (Diagnostic::EnergyChange, h)));
        match at.forward.choices() {
            Choices::Sample => {
                let a = at.forward.uniform(state.rows()).lt(odds.log_accept.exp());
                let (log_yes, log_no) = self.log_inverse(at, &step, &odds, Some(a))?;
                let z = a.expand(1).select(step.to.z, step.from.z);
                let log_r = a.select(log_yes, log_no);
                let log_a = a.select(odds.log_accept, odds.log_reject);
                Ok(Moved { state: state.at(z), log_ratio: log_r - step.log_forward - log_a, diagnostics })
            }
            // Both branches continue as rows of their own, each with the log probability of its path.
            Choices::Average => {
                let paths = state.paths * 2;
                if paths > MOST_PATHS {
                    let accepts = paths.ilog2() as usize;
                    return Err(Error::TooManyPaths { accepts, paths, limit: MOST_PATHS });
                }
                let (log_yes, log_no) = self.log_inverse(at, &step, &odds, None)?;
                let both = |yes: Expr<'g>, no: Expr<'g>| graph.concat(&[yes, no], 0);
                let before = |log: Expr<'g>| state.log_weight.map_or(log, |w| w + log);
                let log_weight = Some(both(before(odds.log_accept), before(odds.log_reject)));
                let log_ratio =
                    both(log_yes - step.log_forward - odds.log_accept, log_no - step.log_forward - odds.log_reject);
                let z = both(step.to.z, step.from.z);
                let state = ChainState { paths, log_weight, ..ChainState::new(z) };
                let diagnostics = diagnostics.into_iter().map(|(name, x)| (name, both(x, x))).collect();
                Ok(Moved { state, log_ratio, diagnostics })
            }
        }
    }

    fn name(&self) -> (String, String) {
        let around = match &self.around {
            Around::Proposal(_) => String::new(),
            Around::Hamiltonian(hmc) => format!("around {}", counted(hmc.leapfrogs, "leapfrog")),
        };
        ("Metropolis–Hastings step".to_owned(), around)
    }

    fn gradients(&self) -> usize {
        match &self.around {
            Around::Proposal(_) => 2,
            Around::Hamiltonian(hmc) => hmc.gradients(),
        }
    }

    fn has_network(&self) -> bool {
        match &self.around {
            Around::Proposal(proposal) => proposal.has_network(),
            Around::Hamiltonian(hmc) => hmc.has_network(),
        }
    }

    fn size(&self) -> Result<usize> {
        let around = match &self.around {
            Around::Proposal(proposal) => proposal.size()?,
            Around::Hamiltonian(hmc) => hmc.size()?,
        };
        let inverse = match &self.inverse {
            AcceptInverse::AcceptFirst { accept, accepted, rejected } => {
                accept.log_odds.size()? + accepted.size()? + rejected.size()?
            }
            AcceptInverse::DiscardedFirst { discarded, accept: AcceptModel::Learned(accept) } => {
                discarded.size()? + accept.log_odds.size()?
            }
            AcceptInverse::DiscardedFirst { discarded, accept: AcceptModel::Reversed } => discarded.size()?,
        };
        Ok(around + inverse)
    }

    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        match &self.around {
            Around::Proposal(_) => None,
            Around::Hamiltonian(hmc) => hmc.step_size(params, forward),
        }
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
