//! Controlled Monte Carlo diffusion, underdamped: UHA with a learned drift that is used forwards and backwards.
//!
//! Vargas et al. (2024), "Transport meets Variational Inference: Controlled Monte Carlo Diffusions".

use super::{AnyTransition, ChainState, Direction, Moved, StepScope, TimeNetwork, Transition, Uha};
use crate::error::Result;
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// A [`Uha`] step with refreshments v′ ~ N(γv + s c(z, v, t), s²), undone by v ~ N(γv′ − s c(z, v′, t), s²), with a learned c.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cmcd {
    /// The step without its learned drift.
    #[serde(default)]
    pub uha: Uha,
    /// The drift c.
    #[serde(default)]
    pub drift: TimeNetwork,
}

impl Cmcd {
    /// The drift, whose sign is that of the direction.
    fn shift<'g>(
        &self,
        at: &StepScope<'g>,
        direction: Direction,
        here: Point<'g>,
        v: Expr<'g>,
    ) -> Result<Option<Expr<'g>>> {
        let drift = self.drift.evaluate(at, "drift", here, at.time, Some(v))?;
        Ok(Some(if direction == Direction::Forward { drift } else { -drift }))
    }
}

impl Transition for Cmcd {
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
        ("CMCD step".to_owned(), self.uha.name().1)
    }

    fn size(&self) -> Result<usize> {
        Ok(self.uha.size()? + self.drift.size()?)
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
