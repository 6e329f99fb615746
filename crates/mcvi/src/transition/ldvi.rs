//! Langevin diffusion variational inference: UHA whose inverse model has a learned drift.
//!
//! Geffner & Domke (2023), "Langevin Diffusion Variational Inference".

use super::{AnyTransition, ChainState, Direction, Moved, StepScope, TimeNetwork, Transition, Uha};
use crate::error::Result;
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// A [`Uha`] step, undone by refreshments v ~ N(γv′ + s c(z, v′, t), s²) with a learned c.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ldvi {
    /// The step without its learned drift.
    #[serde(default)]
    pub uha: Uha,
    /// The drift c of the inverse model.
    #[serde(default)]
    pub drift: TimeNetwork,
}

impl Ldvi {
    /// The drift, which is on the way back only.
    fn shift<'g>(
        &self,
        at: &StepScope<'g>,
        direction: Direction,
        here: Point<'g>,
        v: Expr<'g>,
    ) -> Result<Option<Expr<'g>>> {
        match direction {
            Direction::Forward => Ok(None),
            Direction::Backward => self.drift.evaluate(at, "drift", here, at.time, Some(v)).map(Some),
        }
    }
}

impl Transition for Ldvi {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.uha.shifted(at, state, target, |direction, here, v| self.shift(at, direction, here, v))
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.uha.shifted_back(at, state, target, |direction, here, v| self.shift(at, direction, here, v))
    }

    fn contained(&self) -> Option<AnyTransition> {
        Some(self.uha.clone().into())
    }

    fn name(&self) -> (String, String) {
        ("LDVI step".to_owned(), self.uha.name().1)
    }

    fn size(&self) -> Result<usize> {
        Ok(self.uha.size()? + self.drift.size()?)
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
