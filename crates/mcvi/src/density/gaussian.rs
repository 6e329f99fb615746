//! Gaussians: diagonal or full, with constant, linear or network means.

use super::{AnyDensity, Density, Given, Inputs, Predictor};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::scope::{Initial, Scope};
use mcvi_expr::{Array, Expr};
use serde::{Deserialize, Serialize};

/// The covariance of a [`Gaussian`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covariance {
    /// A standard deviation for each coordinate, the same for all rows.
    #[default]
    Diagonal,
    /// A full covariance matrix, the same for all rows.
    Full,
    /// A standard deviation for each coordinate, and this many factors that all depend on, the same for all rows: for
    /// hundreds or thousands of coordinates (Ong, Nott & Smith 2018).
    LowRank(usize),
    /// Standard deviations predicted from the same inputs as the mean.
    Predicted,
}

/// A Gaussian with a mean predicted from the state of the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gaussian {
    /// The predictor of the mean.
    pub mean: Predictor,
    /// Its covariance.
    pub covariance: Covariance,
    /// Which of its parameters are not learned.
    #[serde(skip_serializing_if = "Fixed::is_nothing")]
    fixed: Fixed,
}

/// Which parameters of a Gaussian are not learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fixed {
    #[default]
    Nothing,
    /// These means and standard deviations.
    At { mean: Vec<f64>, sd: Vec<f64> },
    /// The typical centre and spread of its value.
    Typical,
}

impl Fixed {
    fn is_nothing(&self) -> bool {
        *self == Fixed::Nothing
    }
}

impl Gaussian {
    /// Any mean and any covariance.
    pub fn new(mean: Predictor, covariance: Covariance) -> Self {
        Gaussian { mean, covariance, fixed: Fixed::Nothing }
    }

    /// A constant mean and a standard deviation for each coordinate, all learned.
    pub fn diagonal() -> Self {
        Gaussian::new(Predictor::Constant, Covariance::Diagonal)
    }

    /// A constant mean and a full covariance, all learned.
    pub fn full() -> Self {
        Gaussian::new(Predictor::Constant, Covariance::Full)
    }

    /// A constant mean, a standard deviation for each coordinate, and this many factors, all learned.
    pub fn low_rank(factors: usize) -> Self {
        Gaussian::new(Predictor::Constant, Covariance::LowRank(factors))
    }

    /// Mean linear in z, diagonal covariance.
    pub fn linear() -> Self {
        Gaussian::new(Predictor::Linear(Inputs::POSITION), Covariance::Diagonal)
    }

    /// Mean linear in z and ∇log p(x, z), diagonal covariance: the paper's section 3.1.
    pub fn linear_in_gradient() -> Self {
        Gaussian::new(Predictor::Linear(Inputs::GRADIENT), Covariance::Diagonal)
    }

    /// Mean and standard deviations from a network of (x, z).
    pub fn network(inputs: Inputs, hidden: &[usize]) -> Self {
        Gaussian::new(Predictor::dense(inputs, hidden), Covariance::Predicted)
    }

    /// Mean and standard deviations from any network.
    pub fn from_network(inputs: Inputs, network: impl Network + 'static) -> Self {
        Gaussian::new(Predictor::Network { inputs, network: network.into_any() }, Covariance::Predicted)
    }

    /// The same mean with a full covariance.
    pub fn with_full_covariance(self) -> Self {
        Gaussian { covariance: Covariance::Full, ..self }
    }

    /// Independent coordinates with these means and standard deviations, not learned.
    pub fn fixed(mean: &[f64], sd: &[f64]) -> Self {
        Gaussian { fixed: Fixed::At { mean: mean.to_vec(), sd: sd.to_vec() }, ..Gaussian::diagonal() }
    }

    /// The momentum distribution N(0, M) with M from the target's curvature, not learned: standard Hamiltonian Monte
    /// Carlo with accept/reject.
    pub fn momenta_at_rest() -> Self {
        Gaussian { fixed: Fixed::Typical, ..Gaussian::diagonal() }
    }

    /// The mean, and the factor that noise is multiplied by.
    fn parts<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Factor<'g>)> {
        let (center, scale) = (&given.units.center, &given.units.scale);
        let d = center.len();
        let fixed = match &self.fixed {
            Fixed::Nothing => None,
            Fixed::At { mean, sd } => Some((mean, sd)),
            Fixed::Typical => Some((center, &given.units.scale)),
        };
        if let Some((mean, sd)) = fixed {
            let fits = mean.len() == d && sd.len() == d && mean.iter().all(|m| m.is_finite());
            if !fits || !sd.iter().all(|s| *s > 0.0 && s.is_finite()) {
                let why = format!("a fixed Gaussian needs {d} finite means and {d} positive standard deviations");
                return Err(Error::Density { why });
            }
            let log_sd = scope.fixed("log_sd", d, || sd.iter().map(|s| s.ln()).collect());
            return Ok((scope.fixed("bias", d, || mean.clone()), Factor::Diagonal(log_sd)));
        }
        let start = &given.units;
        let log_sd = |log: &dyn Fn() -> Vec<f64>| scope.param("log_sd", d, || Initial::new(log()));
        match self.covariance {
            Covariance::Diagonal => {
                let mean = self.mean.predict(scope, given, center, scale)?;
                Ok((mean, Factor::Diagonal(log_sd(&|| start.conditional.iter().map(|s| s.ln()).collect()))))
            }
            Covariance::Full => {
                let mean = self.mean.predict(scope, given, center, scale)?;
                let diagonal = || -> Vec<f64> { start.factor().iter().step_by(d + 1).copied().collect() };
                let log_sd = log_sd(&|| diagonal().iter().map(|s| s.ln()).collect());
                let lower = scope.param("lower", [d, d], || {
                    let rates = diagonal().iter().flat_map(|s| vec![*s; d]).collect();
                    Initial::scaled(start.factor().into_owned(), rates)
                });
                // The strict lower triangle is learned directly, the diagonal by its logarithm.
                let mask = |keep: fn(usize, usize) -> bool| {
                    let ones = (0..d * d).map(|i| f64::from(keep(i / d, i % d))).collect::<Vec<_>>();
                    Array::new([d, d], ones).map(|a| scope.graph().literal(a.cast(scope.dtype())))
                };
                let (strict, unit) = (mask(|i, j| i > j)?, mask(|i, j| i == j)?);
                Ok((mean, Factor::Full { lower: lower * strict + unit * log_sd.exp(), log_sd }))
            }
            Covariance::LowRank(k) => {
                if k == 0 || k > d {
                    let why =
                        format!("a Gaussian of low rank in {d} dimensions needs between 1 and {d} factors, not {k}");
                    return Err(Error::Density { why });
                }
                let mean = self.mean.predict(scope, given, center, scale)?;
                let log_sd = log_sd(&|| start.conditional.iter().map(|s| s.ln()).collect());
                // At zero the bound is flat in them.
                let loadings = scope.param("loadings", [k, d], || scope.weights("loadings", k * d, d, LOADING));
                Ok((mean, Factor::LowRank { loadings, log_sd }))
            }
            Covariance::Predicted => {
                let log: Vec<f64> = start.conditional.iter().map(|s| s.ln()).collect();
                let both = self.mean.predict(
                    scope,
                    given,
                    &[center.as_slice(), &log].concat(),
                    &[scale.as_slice(), &vec![1.0; d]].concat(),
                )?;
                let axis = both.shape().rank() - 1;
                Ok((both.slice(axis, 0..d), Factor::Diagonal(both.slice(axis, d..2 * d))))
            }
        }
    }
}

/// Turns standard noise into deviations from the mean.
enum Factor<'g> {
    Diagonal(Expr<'g>),
    Full {
        lower: Expr<'g>,
        log_sd: Expr<'g>,
    },
    /// A row for each factor, in units of the standard deviations.
    LowRank {
        loadings: Expr<'g>,
        log_sd: Expr<'g>,
    },
}

/// The initial length of a row of loadings.
const LOADING: f64 = 0.1;

impl<'g> Factor<'g> {
    fn log_sd(&self) -> Expr<'g> {
        match *self {
            Factor::Diagonal(log_sd) | Factor::Full { log_sd, .. } | Factor::LowRank { log_sd, .. } => log_sd,
        }
    }
}

/// Log density of standardised values `e` under standard deviations exp(log_sd), row by row.
pub(crate) fn log_normal<'g>(e: Expr<'g>, log_sd: Expr<'g>) -> Expr<'g> {
    normalised(e.square() * -0.5, log_sd)
}

/// Log density of deviations e under N(0, S(I + BᵀB)S), in units of the diagonal S: by the identities of Woodbury and Sylvester,
/// with a matrix of as many rows as there are factors.
fn log_low_rank<'g>(e: Expr<'g>, loadings: Expr<'g>, log_sd: Expr<'g>) -> Expr<'g> {
    let k = loadings.shape().dims().first().map_or(1, |k| *k);
    let identity = (0..k * k).map(|i| f64::from(i / k == i % k)).collect::<Vec<_>>();
    let identity = Array::new([k, k], identity).map(|a| e.graph().literal(a.cast(e.dtype())));
    let Ok(identity) = identity else { return log_normal(e, log_sd) };
    let factor = (identity + loadings.matmul(loadings.t())).cholesky();
    let shared = factor.solve_lower(loadings.matmul(e.t()));
    let log_det = factor.reshape([k * k]).slice_step(0, 0..k * k, k + 1).ln().sum(&[0]);
    log_normal(e, log_sd) + shared.square().sum(&[0]) * 0.5 - log_det
}

/// The sum of exponents with the normalising constant of standard deviations exp(log_sd).
fn normalised<'g>(exponent: Expr<'g>, log_sd: Expr<'g>) -> Expr<'g> {
    // An earlier error leaves no shape; it is reported when the graph is compiled.
    let d = exponent.shape().dims().get(1).map_or(0.0, |d| *d as f64);
    (exponent - log_sd).sum(&[1]) - 0.5 * d * std::f64::consts::TAU.ln()
}

impl Density for Gaussian {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let (mean, factor) = self.parts(scope, given)?;
        let e = scope.normal([given.rows, given.units.dim()]);
        Ok(match factor {
            Factor::Diagonal(log_sd) => (mean + log_sd.exp() * e, log_normal(e, log_sd)),
            Factor::Full { lower, log_sd } => (mean + e.matmul(lower.t()), log_normal(e, log_sd)),
            Factor::LowRank { loadings, log_sd } => {
                let factors = scope.normal([given.rows, loadings.shape().dims()[0]]);
                let e = e + factors.matmul(loadings);
                (mean + log_sd.exp() * e, log_low_rank(e, loadings, log_sd))
            }
        })
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, value: Expr<'g>) -> Result<Expr<'g>> {
        let (mean, factor) = self.parts(scope, given)?;
        if self.fixed == Fixed::Nothing
            && matches!(self.covariance, Covariance::Diagonal | Covariance::Full)
            && let Some(features) = self.mean.regressors(scope, given)?
        {
            scope.observe(features, value, given.weight);
        }
        let deviation = value - mean;
        let exponent = match factor {
            // By the precision: its gradient is one product, and divides by nothing.
            Factor::Diagonal(log_sd) => deviation.square() * ((log_sd * -2.0).exp() * -0.5),
            Factor::Full { lower, .. } => lower.solve_lower(deviation.t()).t().square() * -0.5,
            Factor::LowRank { loadings, log_sd } => {
                return Ok(log_low_rank(deviation * (-log_sd).exp(), loadings, log_sd));
            }
        };
        Ok(normalised(exponent, factor.log_sd()))
    }

    fn has_network(&self) -> bool {
        matches!(self.mean, Predictor::Network { .. })
    }

    fn size(&self) -> Result<usize> {
        self.mean.size()
    }

    fn into_any(self) -> AnyDensity {
        self.into()
    }
}
