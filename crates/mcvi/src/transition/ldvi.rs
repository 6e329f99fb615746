//! Langevin diffusion variational inference: UHA whose inverse model has a learned drift.
//!
//! Geffner & Domke (2023), "Langevin Diffusion Variational Inference".

use super::{AnyTransition, ChainState, Direction, Moved, StepScope, TimeNetwork, Transition, Uha};
use crate::error::Result;
use crate::target::Landscape;
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

impl Transition for Ldvi {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.uha.shifted(at, state, target, |direction, here, v| match direction {
            Direction::Forward => Ok(None),
            Direction::Backward => self.drift.evaluate(at, "drift", here, at.time, Some(v)).map(Some),
        })
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
