//! Controlled Monte Carlo diffusion, overdamped: Langevin dynamics with a learned drift that is used forwards and backwards.
//!
//! Vargas et al. (2024), "Transport meets Variational Inference: Controlled Monte Carlo Diffusions". The way back sees the
//! bridge of its own step, not of the next, so that the last step needs no other rule.

use super::{AnyTransition, ChainState, Direction, Inverse, Langevin, Moved, StepScope, TimeNetwork, Transition};
use crate::error::Result;
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// zₜ ~ N(z + ½s² ∇log p(x, z) + s c(z, t), s²), undone by N(zₜ + ½s² ∇log p(x, zₜ) − s c(zₜ, t), s²) with a learned c; s is
/// learned for each coordinate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverdampedCmcd {
    /// The drift c.
    pub drift: TimeNetwork,
}

impl OverdampedCmcd {
    /// The drift, whose sign is that of the direction.
    fn shift<'g>(&self, at: &StepScope<'g>, direction: Direction, here: Point<'g>) -> Result<Option<Expr<'g>>> {
        let drift = self.drift.evaluate(at, "drift", here, at.time, None)?;
        Ok(Some(if direction == Direction::Forward { drift } else { -drift }))
    }
}

impl Transition for OverdampedCmcd {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        Langevin::shifted(at, state, target, |direction, here| self.shift(at, direction, here))
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        Langevin::shifted_back(at, state, target, |direction, here| self.shift(at, direction, here))
    }

    fn contained(&self) -> Option<AnyTransition> {
        Some(Langevin::new(Inverse::Reversed).into())
    }

    fn name(&self) -> (String, String) {
        ("overdamped CMCD step".to_owned(), String::new())
    }

    fn size(&self) -> Result<usize> {
        self.drift.size()
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
