//! How a density's parameters depend on the state of the chain: constant, linear, or by a network.

use super::Given;
use crate::error::{Error, Result};
use crate::network::{AnyNetwork, Dense, Network};
use crate::scope::{Initial, Scope};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// The inputs of a linear function or a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Inputs {
    /// The position z.
    pub position: bool,
    /// The gradient ∇log p(x, z).
    pub gradient: bool,
    /// The observation x.
    pub data: bool,
}

impl Inputs {
    /// z alone.
    pub const POSITION: Inputs = Inputs { position: true, gradient: false, data: false };
    /// z and ∇log p(x, z), as in the paper's section 3.1.
    pub const GRADIENT: Inputs = Inputs { position: true, gradient: true, data: false };
    /// x alone: an inference network.
    pub const OBSERVED: Inputs = Inputs { position: false, gradient: false, data: true };
    /// z and x, as in the paper's section 3.2.
    pub const DATA: Inputs = Inputs { position: true, gradient: false, data: true };
}

/// A function from the state of the chain to a row of numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Predictor {
    /// The same for all rows.
    #[default]
    Constant,
    /// Linear with an intercept.
    Linear(Inputs),
    /// A network.
    Network {
        /// Its inputs.
        inputs: Inputs,
        /// The network.
        network: AnyNetwork,
    },
}

/// Features of a row, centred, each with its typical scale.
struct Feature<'g> {
    name: &'static str,
    value: Expr<'g>,
    scale: Vec<f64>,
}

impl Predictor {
    /// Layers of softplus units of these widths.
    pub fn dense(inputs: Inputs, hidden: &[usize]) -> Self {
        Predictor::Network { inputs, network: Dense { hidden: hidden.to_vec() }.into_any() }
    }

    /// One row of outputs for each row, or one for all of them; `units` are the typical centre and scale of each.
    pub(crate) fn predict<'g>(
        &self,
        scope: &Scope<'g>,
        given: &Given<'g>,
        center: &[f64],
        scale: &[f64],
    ) -> Result<Expr<'g>> {
        let outputs = center.len();
        let bias = || scope.param("bias", outputs, || Initial::scaled(center.to_vec(), scale.to_vec()));
        match self {
            Predictor::Constant => Ok(bias()),
            Predictor::Linear(inputs) => {
                let mut sum = bias();
                for f in features(scope, given, *inputs)? {
                    let rate = f.scale.iter().flat_map(|i| scale.iter().map(move |o| o / i)).collect();
                    let zeros = vec![0.0; f.scale.len() * outputs];
                    let coefficients = scope.param(f.name, [f.scale.len(), outputs], || Initial::scaled(zeros, rate));
                    sum = f.value.matmul(coefficients) + sum;
                }
                Ok(sum)
            }
            Predictor::Network { inputs, network } => {
                let inputs = standardised(scope, given, *inputs)?;
                // A small output layer: the density is initially near its constant.
                let out = network.apply(&scope.for_network(), &inputs, outputs, 0.1);
                Ok(scope.shifted(scope.multiplied(out, scale), center))
            }
        }
    }

    /// The weights between hidden layers of its network. An error if it is beyond the limits.
    pub(crate) fn size(&self) -> Result<usize> {
        match self {
            Predictor::Network { network, .. } => network.size(),
            Predictor::Constant | Predictor::Linear(_) => Ok(0),
        }
    }

    /// The centred features of a linear predictor, for regression.
    pub(crate) fn regressors<'g>(
        &self,
        scope: &Scope<'g>,
        given: &Given<'g>,
    ) -> Result<Option<Vec<(&'static str, Expr<'g>)>>> {
        match self {
            Predictor::Constant => Ok(Some(vec![])),
            Predictor::Linear(inputs) => {
                Ok(Some(features(scope, given, *inputs)?.into_iter().map(|f| (f.name, f.value)).collect()))
            }
            Predictor::Network { .. } => Ok(None),
        }
    }
}

/// What a network sees: centred features in their typical units, by name.
pub(crate) fn standardised<'g>(
    scope: &Scope<'g>,
    given: &Given<'g>,
    inputs: Inputs,
) -> Result<Vec<(&'static str, Expr<'g>)>> {
    let found = features(scope, given, inputs)?;
    Ok(found.into_iter().map(|f| (f.name, scope.divided(f.value, &f.scale))).collect())
}

fn features<'g>(scope: &Scope<'g>, given: &Given<'g>, inputs: Inputs) -> Result<Vec<Feature<'g>>> {
    let mut found = vec![];
    let (positions, momenta) = (scope.positions(), scope.momenta());
    let nowhere = || Error::Density {
        why: "q(z₀|x) cannot depend on a position, because there is none yet; use a constant or the observations"
            .to_owned(),
    };
    if inputs.position {
        let at = given.point.ok_or_else(nowhere)?;
        found.push(Feature {
            name: "z",
            value: scope.shifted(at.z, &positions.center.iter().map(|c| -c).collect::<Vec<_>>()),
            scale: positions.scale.clone(),
        });
    }
    if inputs.gradient {
        // A gradient has the units of a momentum.
        let at = given.point.ok_or_else(nowhere)?;
        found.push(Feature { name: "gradient", value: at.gradient, scale: momenta.scale.clone() });
    }
    if inputs.data {
        let Some(x) = given.data else {
            let why = "a density needs the observations, but `Target::data` returns none".to_owned();
            return Err(Error::Density { why });
        };
        found.push(Feature { name: "x", value: x, scale: vec![1.0; x.shape().dims()[1]] });
    }
    if let Some(more) = given.more {
        found.push(Feature { name: "more", value: more, scale: vec![1.0; more.shape().dims()[1]] });
    }
    Ok(found)
}
