//! Paths of bridge densities from q₀(z|x) to p(x, z), for chains that are annealed (section 4.2).

use super::Point;
use crate::any::{Own, any};
use crate::error::Result;
use crate::limits::positive;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// A path of unnormalised densities π_β with π₀ = q₀ and π₁ = p.
///
/// It is given q₀ and p at a point, with their gradients taken apart, so that all steps that meet there share them whatever
/// their β.
pub trait Path: Debug + Send + Sync {
    /// log π_β and its gradient, from those of q₀ and p at the same point.
    fn between<'g>(&self, beta: Expr<'g>, q0: Point<'g>, p: Point<'g>) -> Point<'g>;

    /// The identity of a custom path in a saved chain. The default is the name of its type; override this if its settings
    /// matter too.
    fn identity(&self) -> Value {
        std::any::type_name::<Self>().into()
    }

    /// As part of a chain.
    fn into_any(self) -> AnyPath
    where
        Self: Sized + 'static,
    {
        AnyPath::Own(Own::new(self.identity(), Arc::new(self)))
    }
}

any! {
    /// Any path, as data if it is built in.
    AnyPath is Path: Geometric, Power
}

impl Default for AnyPath {
    fn default() -> Self {
        Geometric.into()
    }
}

impl AnyPath {
    /// log π_β and its gradient.
    pub(crate) fn between<'g>(&self, beta: Expr<'g>, q0: Point<'g>, p: Point<'g>) -> Result<Point<'g>> {
        if let AnyPath::Power(Power { exponent }) = self {
            positive("exponent of a power path", *exponent)?;
        }
        Ok(self.get()?.between(beta, q0, p))
    }
}

/// The geometric path: log π_β = (1 − β) log q₀ + β log p.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Geometric;

impl Path for Geometric {
    fn between<'g>(&self, beta: Expr<'g>, q0: Point<'g>, p: Point<'g>) -> Point<'g> {
        let between = |a: Expr<'g>, b: Expr<'g>| a + beta * (b - a);
        Point { z: p.z, log_p: between(q0.log_p, p.log_p), gradient: between(q0.gradient, p.gradient) }
    }

    fn into_any(self) -> AnyPath {
        self.into()
    }
}

/// The power path: π_β = [(1 − β) q₀^ω + β p^ω]^(1/ω), the mixture at ω = 1 and the geometric path in the limit ω → 0.
///
/// Masrani et al. (2021), "q-Paths: Generalizing the Geometric Annealing Path using Power Means", with ω = 1 − q. It
/// depends on the constant of an unnormalised p, so that both should have about the same mass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// The exponent ω, positive.
    pub exponent: f64,
}

impl Path for Power {
    fn between<'g>(&self, beta: Expr<'g>, q0: Point<'g>, p: Point<'g>) -> Point<'g> {
        let w = self.exponent;
        // With δ = ω (log p − log q₀), π_β = q₀ [(1 − β) + β e^δ]^(1/ω), and the share of p in the sum decides the gradient. The
        // larger of 1 and e^δ is taken out.
        let delta = (p.log_p - q0.log_p) * w;
        let top = delta.max(0.0);
        let (of_q0, of_p) = ((1.0 - beta) * (-top).exp(), beta * (delta - top).exp());
        let share = (of_p / (of_q0 + of_p)).expand(1);
        Point {
            z: p.z,
            log_p: q0.log_p + (top + (of_q0 + of_p).ln()) / w,
            gradient: q0.gradient + share * (p.gradient - q0.gradient),
        }
    }

    fn into_any(self) -> AnyPath {
        self.into()
    }
}
