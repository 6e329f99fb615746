//! Uncorrected Hamiltonian annealing: leapfrogs whose momentum is kept and partially refreshed from step to step.
//!
//! Geffner & Domke (2021), "MCMC variational inference via uncorrected Hamiltonian annealing"; Zhang et al. (2021),
//! "Differentiable annealed importance sampling and the perils of gradient noise", whose chain (DAIS) is the same in law.
//! Usually on bridges, see [`Chain::annealed_learned`](crate::Chain::annealed_learned).

use super::{AnyTransition, ChainState, Diagnostic, Mass, Moved, StepScope, Transition, counted};
use crate::error::Result;
use crate::limits::{self, within};
use crate::params::Params;
use crate::scope::{Initial, Scope};
use crate::target::Landscape;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// A partial refreshment v′ ~ N(γv, 1 − γ²), then k leapfrogs; γ, step size and mass are learned.
///
/// The momentum is in units of M^½, so that steps with masses of their own pass it on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uha {
    /// Leapfrogs of a step.
    #[serde(default = "one")]
    pub leapfrogs: usize,
    /// The mass matrix.
    #[serde(default)]
    pub mass: Mass,
}

fn one() -> usize {
    1
}

impl Uha {
    /// The parameter that is the logarithm of the step size.
    const LOG_STEP: &str = "log_step";

    /// With this many leapfrogs a step and a diagonal mass.
    pub fn new(leapfrogs: usize) -> Self {
        Uha { leapfrogs, mass: Mass::Diagonal }
    }

    /// With another mass matrix.
    pub fn mass(self, mass: Mass) -> Self {
        Uha { mass, ..self }
    }
}

impl Transition for Uha {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let scope = &at.forward;
        let eps = scope.param(Self::LOG_STEP, (), || Initial::new(vec![0.5_f64.ln()])).exp();
        // The share γ of the momentum that is kept.
        let keep = scope.param("logit_keep", (), || Initial::new(vec![1.0])).sigmoid();
        let root = Root::new(self.mass, scope);
        let mut here = target.at(state.z)?;

        // The first step draws a momentum of its own; the following ones find theirs.
        let v = state.momentum.unwrap_or_else(|| scope.normal(state.z.shape()));
        let refreshed = keep * v + (1.0 - keep.square()).sqrt() * scope.normal(v.shape());
        let (first, mut v) = (here, refreshed);
        // The leapfrogs preserve volume, and are undone exactly.
        for _ in 0..self.leapfrogs {
            v = v + eps * 0.5 * root.transposed(here.gradient);
            here = target.at(here.z + eps * root.times(v))?;
            v = v + eps * 0.5 * root.transposed(here.gradient);
        }
        // The refreshment is reversible for N(0, 1): log N(v|v′) − log N(v′|v) = log N(v) − log N(v′). Of the log N(v) between
        // steps only the last remains, so that every step ends with its own and the sum may stop after any.
        let log_ratio = log_normal(v) - log_normal(refreshed);
        let energy_change = log_normal(refreshed) + first.log_p - log_normal(v) - here.log_p;
        Ok(Moved::new(state.at(here.z).with_momentum(v), log_ratio).with(Diagnostic::EnergyChange, energy_change))
    }

    fn name(&self) -> (String, String) {
        ("UHA step".to_owned(), format!("of {}", counted(self.leapfrogs, "leapfrog")))
    }

    /// The gradient at the start of a step is that at the end of the one before.
    fn gradients(&self) -> usize {
        self.leapfrogs
    }

    fn size(&self) -> Result<usize> {
        within("leapfrogs", self.leapfrogs, 0..=limits::LEAPFROGS)?;
        Ok(0)
    }

    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        params.number(&format!("{forward}.{}", Self::LOG_STEP)).ok().map(f64::exp)
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}

/// log N(v; 0, 1) of each row, without its constant, which cancels.
fn log_normal(v: Expr<'_>) -> Expr<'_> {
    v.square().sum(&[1]) * -0.5
}

/// M^−½, which maps momenta in units of M^½ to velocities.
enum Root<'g> {
    Diagonal(Expr<'g>),
    /// Lower triangular L with M⁻¹ = LLᵀ.
    Full(Expr<'g>),
}

impl<'g> Root<'g> {
    fn new(mass: Mass, scope: &Scope<'g>) -> Self {
        let positions = scope.positions();
        let d = positions.dim();
        match mass {
            Mass::Diagonal => {
                let start = || Initial::new(positions.conditional.iter().map(|s| s.ln()).collect());
                Root::Diagonal(scope.param("log_scale", d, start).exp())
            }
            Mass::Full => {
                let rates = || positions.scale.iter().flat_map(|s| vec![*s; d]).collect();
                let start = || Initial::scaled(positions.factor().into_owned(), rates());
                Root::Full(scope.param("scale_factor", [d, d], start).tril())
            }
        }
    }

    /// M^−½ v.
    fn times(&self, v: Expr<'g>) -> Expr<'g> {
        match self {
            Root::Diagonal(scale) => *scale * v,
            Root::Full(l) => v.matmul(l.t()),
        }
    }

    /// (M^−½)ᵀ g.
    fn transposed(&self, g: Expr<'g>) -> Expr<'g> {
        match self {
            Root::Diagonal(scale) => *scale * g,
            Root::Full(l) => g.matmul(*l),
        }
    }
}
