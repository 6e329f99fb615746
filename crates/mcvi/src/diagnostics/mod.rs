//! The quality of an approximation, estimated from its draws: importance sampling diagnostics (Vehtari, Simpson,
//! Gelman, Yao and Gabry 2024, "Pareto smoothed importance sampling") and convergence diagnostics of sequences (Gelman
//! et al. 2013, "Bayesian Data Analysis", 3rd edition, chapter 11).
//!
//! A draw z ~ q has the log weight L = log p(x, z) - log q(z). It may be -inf, where the target has no mass, or NaN,
//! where the computation failed: a NaN counts as -inf. Neither is ever left out of an average, so the mean of log
//! weights with one -inf among them is -inf; [`zero_weights`] counts them, to be reported beside it. A weight of +inf
//! is kept, and makes the results that depend on it infinite or NaN.
//!
//! Nothing here panics: unless noted otherwise, what is undefined for the given data (too few draws, for example) is
//! NaN.

mod chains;
mod importance;
mod loo;
mod moments;
mod psis;
mod summary;

pub use chains::{autocorrelated_ess, monte_carlo_se, split_r_hat};
pub use importance::{LogMean, effective_sample_size, log_mean_exp, r_squared, zero_weights};
pub use loo::Loo;
pub use moments::{Mean, mean};
pub use psis::{Psis, RELIABLE_K, psis};
pub(crate) use summary::Moments;
pub use summary::{Summary, SummaryTable, Weights, summarise};
