//! Markov chain variational inference, after Salimans, Kingma & Welling (2015), "Markov Chain Monte Carlo and
//! Variational Inference: Bridging the Gap".
//!
//! A few steps of MCMC run *inside* the variational approximation, and everything about them is learned by maximising one
//! explicit bound. The results are independent posterior draws, a lower bound on log p(x), and a verdict on both.
//!
//! # In a dozen lines
//!
//! ```
//! use mcvi::{Approximation, Chain, fit, target};
//! use mcvi::fit::Settings;
//!
//! // An unnormalised posterior: rows of z in, one log density a row out. A banana with log Z = log 2π.
//! let banana = target(2, |_, z| {
//!     let (a, b) = (z.at(1, 0), z.at(1, 1));
//!     (a.square() + (b - a.square() * 0.5).square()) * -0.5
//! });
//!
//! // Hamiltonian variational inference: a diagonal Gaussian, then one HMC step of four leapfrogs.
//! let mut approximation = Approximation::new(banana, Chain::hamiltonian(4))?;
//! fit(&mut approximation, &Settings { iterations: 4000, ..Settings::default() })?;
//!
//! let draws = approximation.draw(10_000, 7)?; // independent draws and their weights
//! let diagnostics = draws.diagnose();
//! let log_z = std::f64::consts::TAU.ln();
//! assert!(diagnostics.bound.value < log_z && diagnostics.bound.value > log_z - 0.1);
//! assert!(diagnostics.pareto_k < 0.7); // the weights are reliable
//! # Ok::<(), mcvi::Error>(())
//! ```
//!
//! # What is where
//!
//! | in the paper | here |
//! |---|---|
//! | log p(x, z) | [`Target`], or [`target`] from a function |
//! | q(z₀\|x), q(v\|z), r | [`density`]: diagonal and full Gaussians with constant, linear or network means; accept variables; mixture indicators |
//! | qₜ(zₜ\|zₜ₋₁) with rₜ(zₜ₋₁\|zₜ) | [`transition`]: Gibbs, over-relaxation, Hamiltonian (Algorithm 3), Langevin, underdamped Langevin, Metropolis–Hastings |
//! | the Markov chain | [`Chain`]: any transitions in any order, parameters shared or not |
//! | Algorithm 1 | [`lower_bound`]; run backwards for an upper bound, [`upper_bound`] |
//! | Algorithm 2 | [`fit()`](fit()), [`fit::Settings`] |
//! | §4.1 accept/reject | [`transition::MetropolisHastings`], [`Choices`] |
//! | §4.2 annealing | [`Chain::annealed`], [`Chain::annealed_learned`], [`Approximation::anneal`] |
//! | §4.3 several iterates | [`Chain::average_last`], [`Chain::average_last_with`] |
//! | Algorithm 4 | [`grow`] |
//! | the two worked examples | [`paper`] |
//! | §3.2, the images | [`data`] |
//!
//! # Notation
//!
//! Code inside functions uses the paper's symbols; the interface uses words.
//!
//! | symbol | meaning |
//! |---|---|
//! | z, zₜ | position: parameters or latent variables, after step t |
//! | v′, v | momentum at the beginning and at the end of a Hamiltonian step |
//! | `eps`, `mass` | step size ε and mass matrix M of the leapfrog integrator |
//! | log αₜ | what step t adds to the bound: log p(x, zₜ) − log p(x, zₜ₋₁) + log rₜ − log qₜ |
//! | L | the bound's estimate for one draw; E exp(L) = p(x), so it is also the draw's log weight |
//! | ρ, a | acceptance probability and accept variable |
//! | βₜ | temperature: step t sees (1 − βₜ) log q₀ + βₜ log p |
//! | w | which iterate a draw was taken from |
//!
//! # Honesty
//!
//! Diverged draws are kept and NaN counts as −∞; neither is dropped from an average. A bound of −∞ is reported as such,
//! with the number of draws behind it ([`Diagnostics::lost`]). Bounds come with standard errors, from fresh draws. The
//! same seed gives the same results, bit for bit, on any number of threads.

mod any;
mod approximation;
mod bayesian_model;
mod bound;
mod chain;
mod compile;
mod conditional_effect;
pub mod data;
mod dense;
pub mod density;
pub mod diagnostics;
pub mod disk;
mod error;
pub mod evidence;
mod expected;
pub mod fit;
mod hardware;
mod in_parts;
pub mod infer;
mod initialisation;
mod laplace;
pub mod limits;
mod low_rank;
mod minimise;
pub mod model;
pub mod network;
pub mod paper;
mod params;
pub mod posteriors;
mod record;
pub mod regression;
mod scope;
mod seed;
mod sequential;
mod target;
pub mod transition;
mod units;
pub mod vae;
mod whitening;
mod wide;

pub use any::Own;
pub use approximation::{Annealed, Approximation, Diagnostics, Draws, GradientSpread, Mixture, NamedValues};
pub use bayesian_model::{About, Axes, BayesianModel, DataDigest, DescribedModel, Fingerprint, Parameter, Source};
pub use bound::{Estimate, lower_bound, upper_bound};
pub use chain::{Chain, Sharing};
pub use conditional_effect::{ConditionalEffect, Curve, Places};
pub use error::{Error, Result};
pub use fit::{fit, fit_observed};
pub use hardware::{Hardware, Ranks};
pub use in_parts::InParts;
pub use initialisation::Initialisation;
pub use laplace::log_density;
pub use mcvi_expr::{Array, Communicator, DType, Device, Expr, External, grad};
pub use params::{Group, Param, Params};
#[doc(hidden)]
pub use record::reseal;
pub use scope::{Choices, Estimator, Initial, Scope};
pub use seed::derive_seed;
pub use sequential::{Stage, grow};
pub use target::path;
pub use target::{Conditional, FromFn, Landscape, Point, Target, target};
pub use units::Units;
pub use wide::WideStart;

/// The snippets of the README and of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/guide.md")]
struct Pages;
