//! Stochastic optimisers, each an update of a parameter from its scaled gradient.

use crate::error::Result;
use mcvi_expr::{Array, DType, Expr, Graph};
use serde::{Deserialize, Serialize};

/// How a gradient becomes a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimiser {
    /// Kingma & Ba (2015).
    Adam {
        /// Decay of the mean of the gradients.
        beta1: f64,
        /// Decay of the mean of their squares.
        beta2: f64,
    },
    /// Steps along the gradient, with momentum.
    Sgd {
        /// The share of the previous step that is kept.
        momentum: f64,
    },
    /// Tieleman & Hinton (2012).
    RmsProp {
        /// Decay of the mean of squares.
        decay: f64,
    },
    /// Duchi, Hazan & Singer (2011).
    AdaGrad,
}

impl Default for Optimiser {
    fn default() -> Self {
        Optimiser::Adam { beta1: 0.9, beta2: 0.999 }
    }
}

/// Keeps a root of squares away from zero.
const EPS: f64 = 1e-8;

/// Numbers that change from step to step and are inputs of the program.
#[derive(Clone, Copy)]
pub(super) struct Rates<'g> {
    /// The learning rate, with the first bias correction.
    pub rate: Expr<'g>,
    /// The second bias correction.
    pub second: Expr<'g>,
}

impl Optimiser {
    /// The learning rate and the second factor of iteration t = 1, 2, …
    pub(super) fn rates(self, rate: f64, t: usize) -> (f64, f64) {
        match self {
            Optimiser::Adam { beta1, beta2 } => {
                let t = t.min(i32::MAX as usize) as i32;
                (rate / (1.0 - beta1.powi(t)), (1.0 - beta2.powi(t)).sqrt().recip())
            }
            _ => (rate, 1.0),
        }
    }

    /// The descent direction in units of the parameter's scale, times the learning rate, and the states behind it with
    /// their new values. `name` distinguishes the states of different parameters.
    pub(super) fn step<'g>(
        self,
        graph: &'g Graph,
        name: &str,
        gradient: Expr<'g>,
        rates: Rates<'g>,
    ) -> Result<(Expr<'g>, Vec<(Expr<'g>, Expr<'g>)>)> {
        let dtype: DType = gradient.dtype();
        let state = |what: &str| -> Result<Expr<'g>> {
            Ok(graph.state(&format!("fit.{what}.{name}"), Array::zeros(dtype, gradient.shape())?))
        };
        Ok(match self {
            Optimiser::Adam { beta1, beta2 } => {
                let (m, v) = (state("mean")?, state("square")?);
                let m1 = m * beta1 + gradient * (1.0 - beta1);
                let v1 = v * beta2 + gradient.square() * (1.0 - beta2);
                (m1 * rates.rate / (v1.sqrt() * rates.second + EPS), vec![(m, m1), (v, v1)])
            }
            Optimiser::Sgd { momentum } => {
                let m = state("mean")?;
                let m1 = m * momentum + gradient;
                (m1 * rates.rate, vec![(m, m1)])
            }
            Optimiser::RmsProp { decay } => {
                let v = state("square")?;
                let v1 = v * decay + gradient.square() * (1.0 - decay);
                (gradient * rates.rate / (v1.sqrt() + EPS), vec![(v, v1)])
            }
            Optimiser::AdaGrad => {
                let v = state("square")?;
                let v1 = v + gradient.square();
                (gradient * rates.rate / (v1.sqrt() + EPS), vec![(v, v1)])
            }
        })
    }
}
