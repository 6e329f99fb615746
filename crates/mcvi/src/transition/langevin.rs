//! Langevin dynamics without accept/reject: a step along the gradient with noise, inverted by a learned density.

use super::{AnyTransition, ChainState, Inverse, Moved, StepScope, Transition};
use crate::density::{Density, Drift, Given};
use crate::error::Result;
use crate::target::Landscape;
use serde::{Deserialize, Serialize};

/// zₜ ~ N(zₜ₋₁ + ½s² ∇log p(x, zₜ₋₁), s²), s learned for each coordinate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Langevin {
    /// The inverse model r(zₜ₋₁|x, zₜ).
    pub inverse: Inverse,
}

impl Langevin {
    /// With this inverse model.
    pub fn new(inverse: Inverse) -> Self {
        Langevin { inverse }
    }
}

impl Transition for Langevin {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let from = target.at(state.z)?;
        let (z, log_q) = Drift.draw(&at.forward, &Given::position(&at.forward, from, at.data))?;
        let back = Given::position(&at.forward, target.at(z)?, at.data);
        let log_r = match &self.inverse {
            Inverse::Reversed => Drift.log_density(&at.forward, &back, state.z)?,
            Inverse::Learned(r) => r.log_density(&at.inverse, &back, state.z)?,
        };
        Ok(Moved::new(state.at(z), log_r - log_q))
    }

    fn name(&self) -> (String, String) {
        ("Langevin step".to_owned(), String::new())
    }

    fn gradients(&self) -> usize {
        2
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
