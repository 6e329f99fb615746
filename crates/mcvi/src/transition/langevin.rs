//! Langevin dynamics without accept/reject: a step along the gradient with noise, inverted by a learned density.

use super::{AnyTransition, ChainState, Direction, Inverse, Moved, StepScope, Transition};
use crate::density::{Density, Drift, Given};
use crate::error::Result;
use crate::scope::Estimator;
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
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

    /// The step, inverted by itself, with means shifted in units of s: by f(zₜ₋₁) on the way there, by b(zₜ) on the way back.
    pub(super) fn shifted<'g>(
        at: &StepScope<'g>,
        state: ChainState<'g>,
        target: &Landscape<'_, 'g>,
        shift: impl Fn(Direction, Point<'g>) -> Result<Option<Expr<'g>>>,
    ) -> Result<Moved<'g>> {
        let drift = |here| Drift::parts(&at.forward, &Given::position(&at.forward, here, at.data));
        let from = target.at(state.z)?;
        let (mean, log_sd) = drift(from)?;
        let (sd, mut xi) = (log_sd.exp(), at.forward.normal(state.z.shape()));
        let f = shift(Direction::Forward, from)?;
        let mut z = mean + sd * f.map_or(xi, |f| xi + f);
        if at.forward.estimator() == Estimator::FixedPath {
            // The noise is what leads to this z.
            z = at.forward.held(z);
            let pushed = (z - mean) / sd;
            xi = f.map_or(pushed, |f| pushed - f);
        }
        let to = target.at(z)?;
        // The noise with which the way back would have drawn zₜ₋₁.
        let back = (state.z - drift(to)?.0) / sd;
        let back = shift(Direction::Backward, to)?.map_or(back, |b| back - b);
        Ok(Moved::new(state.at(z), (xi.square() - back.square()).sum(&[1]) * 0.5))
    }

    /// The same from its end: zₜ₋₁ drawn by the way back.
    pub(super) fn shifted_back<'g>(
        at: &StepScope<'g>,
        state: ChainState<'g>,
        target: &Landscape<'_, 'g>,
        shift: impl Fn(Direction, Point<'g>) -> Result<Option<Expr<'g>>>,
    ) -> Result<Moved<'g>> {
        let drift = |here| Drift::parts(&at.forward, &Given::position(&at.forward, here, at.data));
        let to = target.at(state.z)?;
        let (mean, log_sd) = drift(to)?;
        let (sd, back) = (log_sd.exp(), at.forward.normal(state.z.shape()));
        let z = mean + sd * shift(Direction::Backward, to)?.map_or(back, |b| back + b);
        let from = target.at(z)?;
        // The noise with which the way there would have drawn zₜ.
        let xi = (state.z - drift(from)?.0) / sd;
        let xi = shift(Direction::Forward, from)?.map_or(xi, |f| xi - f);
        Ok(Moved::new(state.at(z), (xi.square() - back.square()).sum(&[1]) * 0.5))
    }
}

impl Transition for Langevin {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let Inverse::Learned(r) = &self.inverse else { return Langevin::shifted(at, state, target, |_, _| Ok(None)) };
        let from = target.at(state.z)?;
        let (z, log_q) = Drift.draw_for_gradient(&at.forward, &Given::position(&at.forward, from, at.data))?;
        let back = Given::position(&at.forward, target.at(z)?, at.data);
        Ok(Moved::new(state.at(z), r.log_density(&at.inverse, &back, state.z)? - log_q))
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let Inverse::Learned(r) = &self.inverse else {
            return Langevin::shifted_back(at, state, target, |_, _| Ok(None));
        };
        let back = Given::position(&at.forward, target.at(state.z)?, at.data);
        let (z, log_r) = r.draw(&at.inverse, &back)?;
        let from = Given::position(&at.forward, target.at(z)?, at.data);
        Ok(Moved::new(state.at(z), log_r - Drift.log_density(&at.forward, &from, state.z)?))
    }

    fn holds_path(&self) -> bool {
        true
    }

    fn is_loopable(&self) -> bool {
        matches!(self.inverse, Inverse::Reversed)
    }

    fn name(&self) -> (String, String) {
        ("Langevin step".to_owned(), String::new())
    }

    /// The gradient at the start of a step is that at the end of the one before.
    fn gradients(&self) -> usize {
        1
    }

    fn has_network(&self) -> bool {
        self.inverse.has_network()
    }

    fn size(&self) -> Result<usize> {
        self.inverse.size()
    }

    /// Two steps of half the variance.
    fn halved(&self, name: &str, value: f64) -> Option<f64> {
        Some(if name == "log_sd" { value - 0.5 * std::f64::consts::LN_2 } else { value })
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}
