//! Proposals with a density: the position moves by noise, optionally along the gradient first.

use super::{AnyDensity, Density, Given};
use crate::error::{Error, Result};
use crate::scope::{Initial, Scope};
use crate::target::Point;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// φ(z′|z) = N(z, s²): a random walk with learned standard deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RandomWalk;

/// φ(z′|z) = N(z + ½s² ∇log p(x, z), s²): one step of Langevin dynamics with learned standard deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drift;

fn here<'g>(given: &Given<'g>) -> Result<Point<'g>> {
    given.point.ok_or_else(|| Error::Density {
        why: "a proposal moves from a position, and q(z₀|x) has none; start with a Gaussian".to_owned(),
    })
}

/// Log standard deviations, initially `share` of the typical conditional ones.
fn log_sd<'g>(scope: &Scope<'g>, given: &Given<'g>, share: f64) -> Expr<'g> {
    let units = &given.units;
    let start = || units.conditional.iter().map(|s| (share * s).ln()).collect();
    scope.param("log_sd", units.dim(), || Initial::new(start()))
}

fn draw<'g>(scope: &Scope<'g>, mean: Expr<'g>, log_sd: Expr<'g>) -> (Expr<'g>, Expr<'g>) {
    let e = scope.normal(mean.shape());
    (mean + log_sd.exp() * e, super::log_normal(e, log_sd))
}

fn log_density<'g>(value: Expr<'g>, mean: Expr<'g>, log_sd: Expr<'g>) -> Expr<'g> {
    super::log_normal((value - mean) / log_sd.exp(), log_sd)
}

impl Density for RandomWalk {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        Ok(draw(scope, here(given)?.z, log_sd(scope, given, 1.0)))
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, value: Expr<'g>) -> Result<Expr<'g>> {
        Ok(log_density(value, here(given)?.z, log_sd(scope, given, 1.0)))
    }
    fn into_any(self) -> AnyDensity {
        self.into()
    }
}

impl Drift {
    /// The mean and the logarithm of s.
    pub(crate) fn parts<'g>(scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let (at, log_sd) = (here(given)?, log_sd(scope, given, 0.7));
        Ok((at.z + (log_sd * 2.0).exp() * 0.5 * at.gradient, log_sd))
    }
}

impl Density for Drift {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let (mean, log_sd) = Drift::parts(scope, given)?;
        Ok(draw(scope, mean, log_sd))
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, value: Expr<'g>) -> Result<Expr<'g>> {
        let (mean, log_sd) = Drift::parts(scope, given)?;
        Ok(log_density(value, mean, log_sd))
    }
    fn into_any(self) -> AnyDensity {
        self.into()
    }
}
