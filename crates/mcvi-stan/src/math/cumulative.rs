//! Logarithms of distribution functions and their complements.
//!
//! Those whose formula the engine has no operation for are the host's only: they apply to data.

use super::Number;
use super::densities;
use super::functions::{log_inv_logit, log1m_exp};
use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::{checked_gamma_lr, checked_gamma_ur};
use std::f64::consts::{LN_2, SQRT_2};

pub fn std_normal_lcdf<N: Number>(y: N) -> N {
    (y / -SQRT_2).log_erfc() - LN_2
}

pub fn std_normal_lccdf<N: Number>(y: N) -> N {
    std_normal_lcdf(-y)
}

pub fn normal_lcdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    std_normal_lcdf((y - mu) / sigma)
}

pub fn normal_lccdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    std_normal_lcdf((mu - y) / sigma)
}

pub fn lognormal_lcdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    normal_lcdf(y.ln(), mu, sigma)
}

pub fn lognormal_lccdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    normal_lccdf(y.ln(), mu, sigma)
}

pub fn exponential_lcdf<N: Number>(y: N, beta: N) -> N {
    log1m_exp(-(beta * y))
}

pub fn exponential_lccdf<N: Number>(y: N, beta: N) -> N {
    -(beta * y)
}

pub fn uniform_lcdf<N: Number>(y: N, low: N, high: N) -> N {
    ((y - low) / (high - low)).min(y.constant(1.0)).max(y.constant(0.0)).ln()
}

pub fn uniform_lccdf<N: Number>(y: N, low: N, high: N) -> N {
    ((high - y) / (high - low)).min(y.constant(1.0)).max(y.constant(0.0)).ln()
}

pub fn logistic_lcdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    log_inv_logit((y - mu) / sigma)
}

pub fn logistic_lccdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    log_inv_logit((mu - y) / sigma)
}

pub fn gumbel_lcdf<N: Number>(y: N, mu: N, beta: N) -> N {
    -((mu - y) / beta).exp()
}

pub fn gumbel_lccdf<N: Number>(y: N, mu: N, beta: N) -> N {
    log1m_exp(gumbel_lcdf(y, mu, beta))
}

pub fn weibull_lcdf<N: Number>(y: N, alpha: N, sigma: N) -> N {
    log1m_exp(weibull_lccdf(y, alpha, sigma))
}

pub fn weibull_lccdf<N: Number>(y: N, alpha: N, sigma: N) -> N {
    -(y / sigma).pow(alpha)
}

pub fn frechet_lcdf<N: Number>(y: N, alpha: N, sigma: N) -> N {
    -(y / sigma).pow(-alpha)
}

pub fn frechet_lccdf<N: Number>(y: N, alpha: N, sigma: N) -> N {
    log1m_exp(frechet_lcdf(y, alpha, sigma))
}

pub fn rayleigh_lccdf<N: Number>(y: N, sigma: N) -> N {
    (y / sigma).square() * -0.5
}

pub fn rayleigh_lcdf<N: Number>(y: N, sigma: N) -> N {
    log1m_exp(rayleigh_lccdf(y, sigma))
}

pub fn pareto_lccdf<N: Number>(y: N, least: N, alpha: N) -> N {
    alpha * (least / y).ln()
}

pub fn pareto_lcdf<N: Number>(y: N, least: N, alpha: N) -> N {
    log1m_exp(pareto_lccdf(y, least, alpha))
}

pub fn double_exponential_lcdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    let z = (y - mu) / sigma;
    let (low, high) = (z.min(z.constant(0.0)), z.max(z.constant(0.0)));
    z.lt(z.constant(0.0)).select(low - LN_2, (-((-high).exp() * 0.5)).log1p())
}

pub fn double_exponential_lccdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    double_exponential_lcdf(mu, y, sigma)
}

/// P(X ≤ n) of a variable that is 0 or 1.
pub fn bernoulli_lcdf<N: Number>(n: N, theta: N) -> N {
    let below = n.lt(n.constant(0.0)).select(n.constant(f64::NEG_INFINITY), super::functions::log1m(theta));
    n.constant(1.0).le(n).select(n.constant(0.0), below)
}

pub fn gamma_lcdf(y: f64, alpha: f64, beta: f64) -> f64 {
    checked_gamma_lr(alpha, beta * y).map_or(f64::NAN, f64::ln)
}

pub fn gamma_lccdf(y: f64, alpha: f64, beta: f64) -> f64 {
    checked_gamma_ur(alpha, beta * y).map_or(f64::NAN, f64::ln)
}

pub fn inv_gamma_lcdf(y: f64, alpha: f64, beta: f64) -> f64 {
    gamma_lccdf(1.0 / y, alpha, beta)
}

pub fn inv_gamma_lccdf(y: f64, alpha: f64, beta: f64) -> f64 {
    gamma_lcdf(1.0 / y, alpha, beta)
}

pub fn chi_square_lcdf(y: f64, nu: f64) -> f64 {
    gamma_lcdf(y, 0.5 * nu, 0.5)
}

pub fn chi_square_lccdf(y: f64, nu: f64) -> f64 {
    gamma_lccdf(y, 0.5 * nu, 0.5)
}

fn beta_reg(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 { 1.0 } else { checked_beta_reg(a, b, x).unwrap_or(f64::NAN) }
}

pub fn beta_lcdf(y: f64, a: f64, b: f64) -> f64 {
    beta_reg(a, b, y).ln()
}

pub fn beta_lccdf(y: f64, a: f64, b: f64) -> f64 {
    beta_reg(b, a, 1.0 - y).ln()
}

/// P(T > t), by the incomplete beta function of what lies beyond.
fn student_t_tail(t: f64, nu: f64) -> f64 {
    let tail = 0.5 * beta_reg(0.5 * nu, 0.5, nu / (nu + t * t));
    if t > 0.0 { tail } else { 1.0 - tail }
}

pub fn student_t_lccdf(y: f64, nu: f64, mu: f64, sigma: f64) -> f64 {
    student_t_tail((y - mu) / sigma, nu).ln()
}

pub fn student_t_lcdf(y: f64, nu: f64, mu: f64, sigma: f64) -> f64 {
    student_t_tail((mu - y) / sigma, nu).ln()
}

pub fn cauchy_lcdf(y: f64, mu: f64, sigma: f64) -> f64 {
    (((y - mu) / sigma).atan() / std::f64::consts::PI + 0.5).ln()
}

pub fn cauchy_lccdf(y: f64, mu: f64, sigma: f64) -> f64 {
    cauchy_lcdf(mu, y, sigma)
}

pub fn poisson_lcdf(n: f64, lambda: f64) -> f64 {
    if n < 0.0 { f64::NEG_INFINITY } else { gamma_lccdf(lambda, n + 1.0, 1.0) }
}

pub fn poisson_lccdf(n: f64, lambda: f64) -> f64 {
    if n < 0.0 { 0.0 } else { gamma_lcdf(lambda, n + 1.0, 1.0) }
}

pub fn binomial_lcdf(n: f64, trials: f64, theta: f64) -> f64 {
    if n >= trials { 0.0 } else { beta_reg(trials - n, n + 1.0, 1.0 - theta).ln() }
}

pub fn binomial_lccdf(n: f64, trials: f64, theta: f64) -> f64 {
    if n >= trials { f64::NEG_INFINITY } else { beta_reg(n + 1.0, trials - n, theta).ln() }
}

pub fn neg_binomial_2_lcdf(n: f64, mu: f64, phi: f64) -> f64 {
    beta_reg(phi, n + 1.0, phi / (mu + phi)).ln()
}

pub fn neg_binomial_2_lccdf(n: f64, mu: f64, phi: f64) -> f64 {
    beta_reg(n + 1.0, phi, mu / (mu + phi)).ln()
}

/// Where the normal distribution function is p.
pub fn inv_phi(p: f64) -> f64 {
    let start = SQRT_2 * statrs::function::erf::erf_inv(2.0 * p - 1.0);
    if !start.is_finite() {
        return start;
    }
    // One step of Newton's method on the logarithm.
    let (log, density) = (std_normal_lcdf(start), densities::std_normal(start));
    start - (log - p.ln()) * (log - density).exp()
}
