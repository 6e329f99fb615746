//! Monte Carlo diffusion: Langevin dynamics whose inverse model has a learned score.
//!
//! Doucet, Grathwohl, Matthews & Strathmann (2022), "Score-Based Diffusion Meets Annealed Importance Sampling".

use super::{AnyTransition, ChainState, Direction, Inverse, Langevin, Moved, StepScope, TimeNetwork, Transition};
use crate::error::Result;
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// zₜ ~ N(z + ½s² ∇log p(x, z), s²), undone by N(zₜ + ½s² ∇log p(x, zₜ) + s c(zₜ, t), s²) with a learned c; s is learned for
/// each coordinate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcd {
    /// The drift c of the inverse model.
    pub drift: TimeNetwork,
}

impl Mcd {
    /// The drift, which is on the way back only.
    fn shift<'g>(&self, at: &StepScope<'g>, direction: Direction, here: Point<'g>) -> Result<Option<Expr<'g>>> {
        match direction {
            Direction::Forward => Ok(None),
            Direction::Backward => self.drift.evaluate(at, "drift", here, at.time, None).map(Some),
        }
    }
}

impl Transition for Mcd {
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
        ("MCD step".to_owned(), String::new())
    }

    fn size(&self) -> Result<usize> {
        self.drift.size()
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
