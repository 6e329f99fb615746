//! Models: named, constrained parameters with priors, observations, and what follows from draws of them.

mod builder;
mod constraint;
mod definition;
mod distribution;
mod observe;
mod predict;
mod quantity;
mod replicate;

pub use builder::Builder;
pub use constraint::Constraint;
pub use definition::Model;
pub use distribution::{
    Distribution, Family, Value, bernoulli_logit, beta, beta_binomial, binomial_logit, categorical_logit, cauchy,
    dirichlet, exponential, gamma, half_cauchy, half_normal, half_student_t, inverse_gamma, laplace, lkj_cholesky,
    log_normal, multinomial_logit, multivariate_normal_cholesky, negative_binomial_log, normal, poisson_log, student_t,
    uniform,
};
pub use observe::Minibatch;
pub use quantity::{Declaration, Quantities, Quantity};
