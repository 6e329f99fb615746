//! Gibbs sampling: every coordinate in turn from its distribution given the others.

use super::{AnyTransition, ChainState, Inverse, Moved, StepScope, Transition};
use crate::density::{Density, Given};
use crate::error::Result;
use crate::target::{Conditional, Landscape};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// One sweep over all coordinates, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Gibbs {
    /// The inverse model r(zₜ₋₁|x, zₜ).
    pub inverse: Inverse,
}

impl Gibbs {
    /// With this inverse model.
    pub fn new(inverse: Inverse) -> Self {
        Gibbs { inverse }
    }

    /// A coordinate from its conditional distribution, with its log density.
    fn update<'g>(
        at: &StepScope<'g>,
        rows: usize,
        conditional: Conditional<'g>,
        draw: Draw<'g>,
    ) -> Result<(Expr<'g>, Expr<'g>)> {
        Ok(match (conditional, draw) {
            (Conditional::Gaussian { mean, sd }, Draw::Fresh) => {
                let e = at.forward.normal(mean.shape());
                (mean + sd * e, log_normal(e, sd))
            }
            (Conditional::Gaussian { mean, sd }, Draw::Known(x)) => (x, log_normal((x - mean) / sd, sd)),
            (Conditional::Quantile { quantile, log_density }, Draw::Fresh) => {
                let x = quantile(at.forward.uniform(rows));
                (x, log_density(x))
            }
            (Conditional::Quantile { log_density, .. }, Draw::Known(x)) => (x, log_density(x)),
        })
    }
}

impl Transition for Gibbs {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let update = |conditional, _, draw| Gibbs::update(at, state.rows(), conditional, draw);
        Sweep { at, target, inverse: &self.inverse, update }.apply(state)
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let update = |conditional, _, draw| Gibbs::update(at, state.rows(), conditional, draw);
        Sweep { at, target, inverse: &self.inverse, update }.reverse(state)
    }

    fn name(&self) -> (String, String) {
        ("Gibbs sweep".to_owned(), String::new())
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

/// Whether to draw a coordinate, or to evaluate its log density.
pub(super) enum Draw<'g> {
    Fresh,
    Known(Expr<'g>),
}

/// A sweep over all coordinates. `update` takes a coordinate's conditional distribution and its old value, and returns its
/// new value with the log density of the change.
pub(super) struct Sweep<'a, 'g, U> {
    pub at: &'a StepScope<'g>,
    pub target: &'a Landscape<'a, 'g>,
    pub inverse: &'a Inverse,
    pub update: U,
}

impl<'g, U> Sweep<'_, 'g, U>
where
    U: Fn(Conditional<'g>, Expr<'g>, Draw<'g>) -> Result<(Expr<'g>, Expr<'g>)>,
{
    /// Take the step.
    pub fn apply(&self, state: ChainState<'g>) -> Result<Moved<'g>> {
        let (z, log_q) = self.pass(state.z, Order::Forward, None)?;
        let log_r = match self.inverse {
            Inverse::Learned(r) => {
                let given = Given::position(&self.at.forward, self.target.at(z)?, self.at.data);
                r.log_density(&self.at.inverse, &given, state.z)?
            }
            // The same updates in the opposite order; the values in between are known from both ends.
            Inverse::Reversed => self.pass(z, Order::Backward, Some(state.z))?.1,
        };
        Ok(Moved::new(state.at(z), log_r - log_q))
    }

    /// Take the step back.
    pub fn reverse(&self, state: ChainState<'g>) -> Result<Moved<'g>> {
        let (z, log_r) = match self.inverse {
            Inverse::Learned(r) => {
                let given = Given::position(&self.at.forward, self.target.at(state.z)?, self.at.data);
                r.draw(&self.at.inverse, &given)?
            }
            Inverse::Reversed => self.pass(state.z, Order::Backward, None)?,
        };
        let (_, log_q) = self.pass(z, Order::Forward, Some(state.z))?;
        Ok(Moved::new(state.at(z), log_r - log_q))
    }

    /// Update every coordinate in turn, to known values or to fresh ones: the new position, and the log density of all changes.
    fn pass(&self, from: Expr<'g>, order: Order, known: Option<Expr<'g>>) -> Result<(Expr<'g>, Expr<'g>)> {
        let graph = self.at.forward.graph();
        let join = |c: &[Expr<'g>]| graph.concat(&c.iter().map(|c| c.expand(1)).collect::<Vec<_>>(), 1);
        let d = from.shape().dims()[1];
        let mut now: Vec<Expr<'g>> = (0..d).map(|i| from.at(1, i)).collect();
        let mut total = graph.scalar(self.at.forward.dtype(), 0.0);
        for k in 0..d {
            let i = if order == Order::Forward { k } else { d - 1 - k };
            let draw = known.map_or(Draw::Fresh, |known| Draw::Known(known.at(1, i)));
            let (x, log_density) = (self.update)(self.target.conditional(join(&now), i)?, now[i], draw)?;
            now[i] = x;
            total = total + log_density;
        }
        Ok((join(&now), total))
    }
}

/// The order of the coordinates in a sweep.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Forward,
    Backward,
}

/// Log density of standardised values `e`, one per row.
pub(super) fn log_normal<'g>(e: Expr<'g>, sd: Expr<'g>) -> Expr<'g> {
    e.square() * -0.5 - sd.ln() - 0.5 * std::f64::consts::TAU.ln()
}
