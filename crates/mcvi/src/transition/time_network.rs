//! A network in time: one set of weights for all steps of a kind, told apart by the time. Learned drifts and spreads are such
//! networks.

use super::StepScope;
use crate::density::{Given, Inputs, standardised};
use crate::error::Result;
use crate::network::{AnyNetwork, Dense, Network};
use crate::target::Point;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// A network of the position, the time and whatever else it is told to see, with one output for each coordinate. It is zero to
/// begin with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeNetwork {
    /// What it sees of the state of the chain.
    pub inputs: Inputs,
    /// The network.
    pub network: AnyNetwork,
}

/// One hidden layer, which sees positions and gradients.
impl Default for TimeNetwork {
    fn default() -> Self {
        TimeNetwork::new(Inputs::GRADIENT, &[64])
    }
}

/// Cosines of the time that a network sees.
pub(crate) const WAVES: usize = 4;

/// Which way a step goes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl TimeNetwork {
    /// Layers of softplus units of these widths; with none, it is linear.
    pub fn new(inputs: Inputs, hidden: &[usize]) -> Self {
        TimeNetwork { inputs, network: Dense { hidden: hidden.to_vec() }.into_any() }
    }

    /// Its value at a point and a time, and for a momentum if there is one: [rows, dim].
    pub(super) fn evaluate<'g>(
        &self,
        at: &StepScope<'g>,
        name: &str,
        here: Point<'g>,
        time: Expr<'g>,
        v: Option<Expr<'g>>,
    ) -> Result<Expr<'g>> {
        let scope = at.shared.child(name).for_network();
        let mut inputs = standardised(&scope, &Given::position(&scope, here, at.data), self.inputs)?;
        inputs.extend(v.map(|v| ("v", v)));
        let waves: Vec<Expr<'g>> = (1..=WAVES).map(|k| (time * (PI * k as f64)).cos().reshape([1, 1])).collect();
        inputs.push(("time", scope.graph().concat(&waves, 1)));
        Ok(self.network.apply(&scope, &inputs, here.z.shape().dims()[1], 0.0))
    }

    /// The weights between hidden layers.
    pub(super) fn size(&self) -> Result<usize> {
        self.network.size()
    }
}
