//! Densities of real numbers, with all constants, in Stan's parameterisations.
//!
//! Outside the support the logarithm is −∞.

use super::Number;
use super::functions::{lbeta, lmultiply, log_inv_logit, log1m, multiply_log1m};
use std::f64::consts::{LN_2, PI};

/// ln √(2π).
const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;

/// A density within its support, −∞ outside.
fn within<N: Number>(inside: N, density: N) -> N {
    inside.select(density, density.constant(f64::NEG_INFINITY))
}

fn positive<N: Number>(y: N) -> N {
    y.constant(0.0).lt(y)
}

fn nonnegative<N: Number>(y: N) -> N {
    y.constant(0.0).le(y)
}

/// (y − μ)/σ, by the reciprocal: mostly σ is one number for all y.
fn standardised<N: Number>(y: N, mu: N, sigma: N) -> N {
    (y - mu) * (sigma.constant(1.0) / sigma)
}

pub fn std_normal<N: Number>(y: N) -> N {
    y.square() * -0.5 - HALF_LN_TAU
}

pub fn normal<N: Number>(y: N, mu: N, sigma: N) -> N {
    std_normal(standardised(y, mu, sigma)) - sigma.ln()
}

pub fn lognormal<N: Number>(y: N, mu: N, sigma: N) -> N {
    let log = y.ln();
    within(positive(y), normal(log, mu, sigma) - log)
}

pub fn cauchy<N: Number>(y: N, mu: N, sigma: N) -> N {
    -standardised(y, mu, sigma).square().log1p() - sigma.ln() - PI.ln()
}

pub fn student_t<N: Number>(y: N, nu: N, mu: N, sigma: N) -> N {
    let z = standardised(y, mu, sigma).square();
    let half = nu * 0.5;
    half.lgamma_diff(nu.constant(0.5)) - (nu.ln() + PI.ln()) * 0.5 - sigma.ln() - (half + 0.5) * (z / nu).log1p()
}

pub fn double_exponential<N: Number>(y: N, mu: N, sigma: N) -> N {
    -standardised(y, mu, sigma).abs() - sigma.ln() - LN_2
}

pub fn logistic<N: Number>(y: N, mu: N, sigma: N) -> N {
    let z = standardised(y, mu, sigma);
    log_inv_logit(z) + log_inv_logit(-z) - sigma.ln()
}

pub fn gumbel<N: Number>(y: N, mu: N, beta: N) -> N {
    let z = standardised(y, mu, beta);
    -z - (-z).exp() - beta.ln()
}

pub fn exponential<N: Number>(y: N, beta: N) -> N {
    within(nonnegative(y), beta.ln() - beta * y)
}

pub fn gamma<N: Number>(y: N, alpha: N, beta: N) -> N {
    within(nonnegative(y), lmultiply(alpha - 1.0, y) + alpha * beta.ln() - alpha.lgamma() - beta * y)
}

pub fn inv_gamma<N: Number>(y: N, alpha: N, beta: N) -> N {
    within(positive(y), alpha * beta.ln() - alpha.lgamma() - (alpha + 1.0) * y.ln() - beta / y)
}

pub fn chi_square<N: Number>(y: N, nu: N) -> N {
    gamma(y, nu * 0.5, nu.constant(0.5))
}

pub fn inv_chi_square<N: Number>(y: N, nu: N) -> N {
    inv_gamma(y, nu * 0.5, nu.constant(0.5))
}

pub fn scaled_inv_chi_square<N: Number>(y: N, nu: N, s: N) -> N {
    inv_gamma(y, nu * 0.5, nu * 0.5 * s.square())
}

pub fn weibull<N: Number>(y: N, alpha: N, sigma: N) -> N {
    let z = y / sigma;
    within(nonnegative(y), alpha.ln() + lmultiply(alpha - 1.0, z) - sigma.ln() - z.pow(alpha))
}

pub fn frechet<N: Number>(y: N, alpha: N, sigma: N) -> N {
    let log = (y / sigma).ln();
    within(positive(y), alpha.ln() - (alpha + 1.0) * log - sigma.ln() - (-alpha * log).exp())
}

pub fn rayleigh<N: Number>(y: N, sigma: N) -> N {
    within(nonnegative(y), y.ln() - sigma.ln() * 2.0 - (y / sigma).square() * 0.5)
}

pub fn pareto<N: Number>(y: N, least: N, alpha: N) -> N {
    within(least.le(y), alpha.ln() + alpha * least.ln() - (alpha + 1.0) * y.ln())
}

pub fn pareto_type_2<N: Number>(y: N, mu: N, lambda: N, alpha: N) -> N {
    within(mu.le(y), alpha.ln() - lambda.ln() - (alpha + 1.0) * ((y - mu) / lambda).log1p())
}

pub fn beta<N: Number>(y: N, a: N, b: N) -> N {
    let inside = nonnegative(y) * y.le(y.constant(1.0));
    within(inside, lmultiply(a - 1.0, y) + multiply_log1m(b - 1.0, y) - lbeta(a, b))
}

pub fn beta_proportion<N: Number>(y: N, mu: N, kappa: N) -> N {
    beta(y, mu * kappa, (-mu + 1.0) * kappa)
}

pub fn uniform<N: Number>(y: N, low: N, high: N) -> N {
    within(low.le(y) * y.le(high), -(high - low).ln())
}

pub fn loglogistic<N: Number>(y: N, alpha: N, beta: N) -> N {
    let log = (y / alpha).ln() * beta;
    within(positive(y), beta.ln() - y.ln() + log_inv_logit(log) + log_inv_logit(-log))
}

/// From where a few terms of the series of erfc are exact.
const FAR: f64 = 1e3;

pub fn exp_mod_normal<N: Number>(y: N, mu: N, sigma: N, lambda: N) -> N {
    let shift = lambda * sigma.square();
    let x = (mu + shift - y) / (sigma * std::f64::consts::SQRT_2);
    // Far out x² cancels against what the tail is multiplied by: erfc x = exp(−x²) / (x √π) (1 − 1/(2x²) + 3/(4x⁴) − …).
    let is_far = x.constant(FAR).lt(x);
    let near = lambda * (mu - y + shift * 0.5) + is_far.select(x.constant(0.0), x).log_erfc();
    let x = is_far.select(x, x.constant(FAR));
    let r = x.constant(1.0) / x.square();
    let far = std_normal((y - mu) / sigma) - x.ln() + LN_2 * 0.5 + (r * (r * 0.75 - 0.5)).log1p();
    lambda.ln() - LN_2 + is_far.select(far, near)
}

pub fn skew_normal<N: Number>(y: N, xi: N, omega: N, alpha: N) -> N {
    let z = (y - xi) / omega;
    std_normal(z) - omega.ln() + (alpha * z / -std::f64::consts::SQRT_2).log_erfc()
}

pub fn skew_double_exponential<N: Number>(y: N, mu: N, sigma: N, tau: N) -> N {
    let below = y.lt(mu);
    let weight = below.select(-tau + 1.0, tau);
    tau.ln() + log1m(tau) - sigma.ln() + LN_2 - weight * ((y - mu) / sigma).abs() * 2.0
}

pub fn von_mises<N: Number>(y: N, mu: N, kappa: N) -> N {
    kappa * (y - mu).cos() - PI.ln() - LN_2 - super::integral::log_bessel_i0(kappa)
}

/// The time at which a Wiener process with drift δ, started at a share β of the way to a boundary at α and delayed by τ, gets there
/// before it gets to 0 (Navarro & Fuss 2009).
pub fn wiener<N: Number>(y: N, alpha: N, tau: N, beta: N, delta: N) -> N {
    let after = positive(y - tau);
    let time = after.select(y - tau, y.constant(1.0));
    let (t, w, v) = (time / alpha.square(), -beta + 1.0, -delta);
    // One series for short times, one for long ones; both are good to the last digit where they meet.
    let is_short = t.lt(t.constant(0.3));
    let (short, long) = (is_short.select(t, t.constant(0.3)), is_short.select(t.constant(0.3), t));
    let mirrored = |k: f64| (w + 2.0 * k) / w * ((w * k + k * k) * -2.0 / short).exp();
    let shorts = (1..=4).fold(w.constant(1.0), |sum, k| sum + mirrored(f64::from(k)) + mirrored(-f64::from(k)));
    let log_short = shorts.ln() + w.ln() - w.square() / short * 0.5 - (short.ln() * 3.0 + (2.0 * PI).ln()) * 0.5;
    let wave = |k: f64| (w * (k * PI)).sin() * (long * (-0.5 * (k * k - 1.0) * PI * PI)).exp() * k;
    let longs = (2..=6).fold(wave(1.0), |sum, k| sum + wave(f64::from(k)));
    let log_long = longs.ln() + PI.ln() - long * (0.5 * PI * PI);
    let drift = -(v * alpha * w) - v.square() * time * 0.5;
    within(after, is_short.select(log_short, log_long) + drift - alpha.ln() * 2.0)
}
