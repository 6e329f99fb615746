//! How a density's parameters follow from where the chain is: a constant, a linear function, a network.

use super::Given;
use crate::error::{Error, Result};
use crate::scope::{Initial, Scope};
use mcvi_expr::Expr;

/// What a linear function or a network sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// z and x, as in the paper's section 3.2.
    pub const DATA: Inputs = Inputs { position: true, gradient: false, data: true };
}

/// A function from where the chain is to a row of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// The same for all rows.
    Constant,
    /// Linear with an intercept.
    Linear(Inputs),
    /// Layers of softplus units.
    Network {
        /// What the first layer sees.
        inputs: Inputs,
        /// Width of each hidden layer.
        hidden: Vec<usize>,
    },
}

/// Features of a row, centred, each with its typical scale.
struct Feature<'g> {
    name: &'static str,
    value: Expr<'g>,
    scale: Vec<f64>,
}

impl Predictor {
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
            Predictor::Network { inputs, hidden } => {
                let mut layer: Vec<(&str, Expr<'g>)> = vec![];
                for f in features(scope, given, *inputs)? {
                    layer.push((f.name, f.value / scope.vector(&f.scale)));
                }
                for (i, &width) in hidden.iter().enumerate() {
                    let at = scope.child(&format!("layer{}", i + 1));
                    layer = vec![("hidden", dense(&at, &layer, width, 1.0).softplus())];
                }
                // A small output layer: the density starts near its constant.
                let out = dense(&scope.child("output"), &layer, outputs, 0.1);
                Ok(out * scope.vector(scale) + scope.vector(center))
            }
        }
    }

    /// The centred features a linear predictor uses, for regression.
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

fn features<'g>(scope: &Scope<'g>, given: &Given<'g>, inputs: Inputs) -> Result<Vec<Feature<'g>>> {
    let mut found = vec![];
    let (positions, momenta) = (scope.positions(), scope.momenta());
    let nowhere = || Error::Setting {
        what: "density",
        why: "q(z₀|x) cannot depend on a position, there is none yet; use a constant or the observations".to_owned(),
    };
    if inputs.position {
        let at = given.point.ok_or_else(nowhere)?;
        found.push(Feature {
            name: "z",
            value: at.z - scope.vector(&positions.center),
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
            let why = "a density asks for the observations, and `Target::data` gives none".to_owned();
            return Err(Error::Setting { what: "density", why });
        };
        found.push(Feature { name: "x", value: x, scale: vec![1.0; x.shape().dims()[1]] });
    }
    if let Some(more) = given.more {
        found.push(Feature { name: "more", value: more, scale: vec![1.0; more.shape().dims()[1]] });
    }
    Ok(found)
}

/// A linear layer over several blocks of inputs, drawn so that its outputs have about unit variance.
fn dense<'g>(scope: &Scope<'g>, inputs: &[(&str, Expr<'g>)], width: usize, gain: f64) -> Expr<'g> {
    let total: usize = inputs.iter().map(|(_, x)| x.shape().dims()[1]).sum();
    let spread = gain / (total as f64).sqrt();
    let mut sum = scope.param("bias", width, || Initial::new(vec![0.0; width]));
    for (name, x) in inputs {
        let n = x.shape().dims()[1];
        let weights = scope.param(name, [n, width], || {
            let values = spread_numbers(n * width, total as u64 + width as u64).map(|u| u * spread).collect();
            Initial::scaled(values, vec![1.0; n * width])
        });
        sum = x.matmul(weights) + sum;
    }
    sum
}

/// Numbers of unit variance, the same on every machine: a network needs units that differ, not randomness.
fn spread_numbers(n: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n).map(move |_| {
        // SplitMix64, and a uniform of variance one.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^= x >> 31;
        ((x >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * 12f64.sqrt()
    })
}
