//! Underdamped Langevin dynamics: kicks by the gradient, drifts, and a momentum that is partially refreshed between
//! them.
//!
//! The splitting is BAOAB (Leimkuhler & Matthews 2013, "Rational construction of stochastic numerical methods for molecular
//! sampling"). Without friction it is the leapfrog integrator of Algorithm 3.

use super::{AnyTransition, ChainState, Inverse, Moved, StepScope, Transition, counted};
use crate::density::{AnyDensity, Density, Gaussian, Given};
use crate::error::Result;
use crate::limits::{self, within};
use crate::params::Params;
use crate::scope::{Initial, Scope};
use crate::target::Landscape;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// Kicks with learned step size, diagonal mass and friction, from a random momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Underdamped {
    /// Number of kicks.
    pub kicks: usize,
    /// q(v′|x, z), the distribution of the initial momentum.
    pub momentum: AnyDensity,
    /// r(v|x, z), the inverse model of the final momentum.
    pub inverse: Inverse,
}

impl Underdamped {
    /// The parameter that is the logarithm of the step size.
    const LOG_STEP: &str = "log_step";

    /// Both momentum distributions linear in z and ∇log p(x, z).
    pub fn new(kicks: usize) -> Self {
        let momentum = AnyDensity::from(Gaussian::linear_in_gradient());
        Underdamped { kicks, momentum: momentum.clone(), inverse: Inverse::Learned(momentum) }
    }
}

/// What is learned of a step.
struct Learned<'g> {
    eps: Expr<'g>,
    /// M, a diagonal.
    mass: Expr<'g>,
    /// The share γ of the momentum that a refreshment keeps.
    keep: Expr<'g>,
    /// √((1 − γ²)M).
    noise: Expr<'g>,
}

impl Underdamped {
    fn learned<'g>(&self, scope: &Scope<'g>) -> Learned<'g> {
        let (step, scale) = ((1.5 / self.kicks.max(1) as f64).min(0.5), scope.momenta().scale.clone());
        let eps = scope.param(Self::LOG_STEP, (), || Initial::new(vec![step.ln()])).exp();
        let log_mass = scale.iter().map(|s| 2.0 * s.ln()).collect();
        let mass = scope.param("log_mass", scale.len(), || Initial::new(log_mass)).exp();
        let keep = scope.param("logit_keep", (), || Initial::new(vec![1.0])).sigmoid();
        Learned { eps, mass, keep, noise: ((1.0 - keep.square()) * mass).sqrt() }
    }
}

impl Transition for Underdamped {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let (scope, mut here) = (&at.forward, target.at(state.z)?);
        let Learned { eps, mass, keep, noise } = self.learned(scope);

        let given = Given::momentum(scope, here, at.data);
        let (mut v, log_q) = self.momentum.draw(&scope.child("momentum"), &given)?;
        let mut log_ratio = -log_q;
        for _ in 0..self.kicks {
            // B and A: half a kick, half a drift. They preserve volume.
            v = v + eps * 0.5 * here.gradient;
            let middle = here.z + eps * 0.5 * v / mass;
            // O: the refreshment v″ ~ N(γv, (1 − γ²)M), undone by the same kernel in reverse.
            let e = scope.normal(v.shape());
            let refreshed = keep * v + noise * e;
            let back = (v - keep * refreshed) / noise;
            log_ratio = log_ratio + (e.square() - back.square()).sum(&[1]) * 0.5;
            v = refreshed;
            // A and B.
            here = target.at(middle + eps * 0.5 * v / mass)?;
            v = v + eps * 0.5 * here.gradient;
        }
        let given = Given::momentum(scope, here, at.data);
        let log_r = match &self.inverse {
            // Run backwards, the dynamics starts with −v.
            Inverse::Reversed => self.momentum.log_density(&scope.child("momentum"), &given, -v)?,
            Inverse::Learned(r) => r.log_density(&at.inverse, &given, v)?,
        };
        Ok(Moved::new(state.at(here.z), log_ratio + log_r))
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let (scope, mut here) = (&at.forward, target.at(state.z)?);
        let Learned { eps, mass, keep, noise } = self.learned(scope);
        let q = scope.child("momentum");
        let given = Given::momentum(scope, here, at.data);
        let (mut v, mut log_ratio) = match &self.inverse {
            Inverse::Reversed => self.momentum.draw(&q, &given).map(|(v, log_r)| (-v, log_r))?,
            Inverse::Learned(r) => r.draw(&at.inverse, &given)?,
        };
        for _ in 0..self.kicks {
            v = v - eps * 0.5 * here.gradient;
            let middle = here.z - eps * 0.5 * v / mass;
            let e = scope.normal(v.shape());
            let before = keep * v + noise * e;
            let there = (v - keep * before) / noise;
            log_ratio = log_ratio + (there.square() - e.square()).sum(&[1]) * 0.5;
            v = before;
            here = target.at(middle - eps * 0.5 * v / mass)?;
            v = v - eps * 0.5 * here.gradient;
        }
        let log_q = self.momentum.log_density(&q, &Given::momentum(scope, here, at.data), v)?;
        Ok(Moved::new(state.at(here.z), log_ratio - log_q))
    }

    fn name(&self) -> (String, String) {
        ("underdamped Langevin step".to_owned(), format!("of {}", counted(self.kicks, "kick")))
    }

    fn gradients(&self) -> usize {
        self.kicks + 1
    }

    fn has_network(&self) -> bool {
        self.momentum.has_network() || self.inverse.has_network()
    }

    fn size(&self) -> Result<usize> {
        within("kicks", self.kicks, 0..=limits::LEAPFROGS)?;
        Ok(self.momentum.size()? + self.inverse.size()?)
    }

    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        params.number(&format!("{forward}.{}", Self::LOG_STEP)).ok().map(f64::exp)
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
