//! Models: named, constrained parameters with priors, observations, and what follows from draws of them.
//!
//! A [`Model`] is written as a function of a [`Builder`], here called `m`. It declares parameters with their priors,
//! observes data, and may name further quantities to be reported.
//!
//! # Parameters
//!
//! | declared with | values | free numbers behind it |
//! |---|---|---|
//! | [`m.real`](Builder::real), [`m.reals`](Builder::reals) | any | the values |
//! | [`m.positive`](Builder::positive), [`m.positives`](Builder::positives) | above 0 | logarithms |
//! | [`m.lower`](Builder::lower), [`m.upper`](Builder::upper) | above or below a bound | logarithms of the distance |
//! | [`m.interval`](Builder::interval) | between two bounds | log odds of the place between them |
//! | [`m.ordered`](Builder::ordered) | a vector that rises | the first, and logarithms of the steps |
//! | [`m.positive_ordered`](Builder::positive_ordered) | the same above 0 | logarithms of the first and of the steps |
//! | [`m.simplex`](Builder::simplex) | probabilities that sum to 1 | log odds of the breaks of a stick |
//! | [`m.correlation_cholesky`](Builder::correlation_cholesky) | the Cholesky factor of a correlation matrix | atanh of partial correlations |
//! | [`m.parameter`](Builder::parameter) | any [`Constraint`], any size | |
//!
//! Inference works with the free numbers; the transforms and their Jacobians are those of Stan. Bounds are numbers or
//! expressions, of data or of parameters declared before: `m.interval("b", 0.0, a, uniform(0.0, a))`.
//!
//! # Distributions
//!
//! They are parameterised as in Stan, and serve as priors and for observations. Where Stan has another name: `laplace` is
//! its `double_exponential`, `log_normal` its `lognormal`, `inverse_gamma` its `inv_gamma`, `negative_binomial_log` its
//! `neg_binomial_2_log`, `multivariate_normal_cholesky` its `multi_normal_cholesky`, `lkj_cholesky` its `lkj_corr_cholesky`;
//! categories are counted from 0.
//!
//! - of real numbers: [`normal`], [`student_t`], [`cauchy`], [`laplace`], [`uniform`];
//! - of positive numbers: [`half_normal`], [`half_cauchy`], [`half_student_t`], [`log_normal`], [`exponential`], [`gamma`],
//!   [`inverse_gamma`], [`weibull`];
//! - of numbers between 0 and 1: [`beta`];
//! - of counts and categories, for observations: [`bernoulli_logit`], [`binomial_logit`], [`beta_binomial`], [`poisson_log`],
//!   [`negative_binomial_log`], [`categorical_logit`], [`multinomial_logit`];
//! - of vectors and matrices: [`multivariate_normal_cholesky`], [`dirichlet`], [`lkj_cholesky`];
//! - [`mixture()`] of any of these; one of your own, [`Distribution::new`]; and [`flat`], which is no distribution but may
//!   be a prior.
//!
//! # Conventions
//!
//! - **Rows.** Every quantity has a row for each draw: a number is `[rows, 1]`, a vector `[rows, k]`, a matrix `[rows, k, k]`.
//!   Data `[n]` broadcast against them. Parameters of distributions of vectors have an axis for observations:
//!   `multinomial_logit(logits.expand(1))`.
//! - **Normalisation.** Distributions are normalised, constants included, so that log p(x) is the evidence and not only
//!   proportional to it. A prior is not divided by its mass within the parameter's bounds, as in Stan: `positive` with
//!   `normal(0, s)` has the posterior of `half_normal(s)`, and ln 2 less evidence. Where that mass depends on other
//!   parameters the posterior differs too: then use a distribution that ends where the parameter does.
//! - **Flat priors.** [`flat`] is what Stan takes where no prior is written: a density of 1 on the scale of the parameter. It
//!   is improper, so that evidences cannot be compared, and there are no draws from the prior.
//! - **Support.** A prior must have a density wherever the parameter may go: `m.real("s", half_normal(1.0))` is refused, since
//!   a density that drops to zero has no gradient to follow. The reverse, a prior that reaches further than its parameter, is cut
//!   off at the bounds, as above.
//! - **Draws from the prior** ([`Model::prior`]) are cut off at the bounds one parameter after the other, each as if normalised.
//! - **Missing data** are left out; a NaN among observations is refused.
//! - **Mistakes** are found when the model is made, and name the parameter or the observation.

mod builder;
mod constraint;
mod definition;
mod distribution;
mod observe;
mod parts;
mod predict;
mod quantity;
mod replicate;

pub use builder::Builder;
pub use constraint::Constraint;
pub use definition::Model;
pub use distribution::continuous::*;
pub use distribution::discrete::*;
pub use distribution::mixture::{MixtureWeights, mixture};
pub use distribution::multivariate::*;
pub use distribution::{Distribution, Event, Support, Value};
pub use observe::Minibatch;
pub use quantity::{Declaration, Quantities, Quantity};
pub use rand::{Rng, RngExt};
