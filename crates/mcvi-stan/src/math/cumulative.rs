//! Logarithms of distribution functions and their complements.
//!
//! Incomplete gamma and beta functions are in `integral.rs`.

use super::Number;
use super::densities;
use super::functions::{log_diff_exp, log_inv_logit, log_sum_exp, log1m, log1m_exp, logit};
use super::integral::{log_beta_lower, log_gamma_lower, log_gamma_upper, log_skew_normal, log_student_t};
use std::f64::consts::{LN_2, PI, SQRT_2};

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

/// A function of ln y for positive finite y; what it is for others.
fn of_log<N: Number>(y: N, below: f64, at_infinity: f64, f: impl Fn(N) -> N) -> N {
    let (zero, one) = (y.constant(0.0), y.constant(1.0));
    let (is_positive, is_infinite) = (zero.lt(y), y.eq(y.constant(f64::INFINITY)));
    // The function sees only arguments where it is defined.
    let inside = f(is_infinite.select(one, is_positive.select(y, one)).ln());
    is_positive.select(is_infinite.select(y.constant(at_infinity), inside), y.constant(below))
}

pub fn gamma_lcdf<N: Number>(y: N, alpha: N, beta: N) -> N {
    of_log(beta * y, f64::NEG_INFINITY, 0.0, |l| log_gamma_lower(alpha, l))
}

pub fn gamma_lccdf<N: Number>(y: N, alpha: N, beta: N) -> N {
    of_log(beta * y, 0.0, f64::NEG_INFINITY, |l| log_gamma_upper(alpha, l))
}

pub fn inv_gamma_lcdf<N: Number>(y: N, alpha: N, beta: N) -> N {
    of_log(y / beta, f64::NEG_INFINITY, 0.0, |l| log_gamma_upper(alpha, -l))
}

pub fn inv_gamma_lccdf<N: Number>(y: N, alpha: N, beta: N) -> N {
    of_log(y / beta, 0.0, f64::NEG_INFINITY, |l| log_gamma_lower(alpha, -l))
}

pub fn chi_square_lcdf<N: Number>(y: N, nu: N) -> N {
    gamma_lcdf(y, nu * 0.5, nu.constant(0.5))
}

pub fn chi_square_lccdf<N: Number>(y: N, nu: N) -> N {
    gamma_lccdf(y, nu * 0.5, nu.constant(0.5))
}

pub fn inv_chi_square_lcdf<N: Number>(y: N, nu: N) -> N {
    inv_gamma_lcdf(y, nu * 0.5, nu.constant(0.5))
}

pub fn inv_chi_square_lccdf<N: Number>(y: N, nu: N) -> N {
    inv_gamma_lccdf(y, nu * 0.5, nu.constant(0.5))
}

pub fn scaled_inv_chi_square_lcdf<N: Number>(y: N, nu: N, s: N) -> N {
    inv_gamma_lcdf(y, nu * 0.5, nu * 0.5 * s.square())
}

pub fn scaled_inv_chi_square_lccdf<N: Number>(y: N, nu: N, s: N) -> N {
    inv_gamma_lccdf(y, nu * 0.5, nu * 0.5 * s.square())
}

/// P(a, x), the regularised lower incomplete gamma function, and its complement.
pub fn gamma_p<N: Number>(a: N, x: N) -> N {
    of_log(x, f64::NEG_INFINITY, 0.0, |l| log_gamma_lower(a, l)).exp()
}

pub fn gamma_q<N: Number>(a: N, x: N) -> N {
    of_log(x, 0.0, f64::NEG_INFINITY, |l| log_gamma_upper(a, l)).exp()
}

/// A function of the logit of y in (0, 1); what it is for others.
fn of_logit<N: Number>(y: N, below: f64, above: f64, f: impl Fn(N) -> N) -> N {
    let (is_positive, is_less) = (y.constant(0.0).lt(y), y.lt(y.constant(1.0)));
    let inside = f(logit((is_positive * is_less).select(y, y.constant(0.5))));
    is_positive.select(is_less.select(inside, y.constant(above)), y.constant(below))
}

pub fn beta_lcdf<N: Number>(y: N, a: N, b: N) -> N {
    of_logit(y, f64::NEG_INFINITY, 0.0, |l| log_beta_lower(a, b, l))
}

pub fn beta_lccdf<N: Number>(y: N, a: N, b: N) -> N {
    of_logit(y, 0.0, f64::NEG_INFINITY, |l| log_beta_lower(b, a, -l))
}

pub fn beta_proportion_lcdf<N: Number>(y: N, mu: N, kappa: N) -> N {
    beta_lcdf(y, mu * kappa, (-mu + 1.0) * kappa)
}

pub fn beta_proportion_lccdf<N: Number>(y: N, mu: N, kappa: N) -> N {
    beta_lccdf(y, mu * kappa, (-mu + 1.0) * kappa)
}

pub fn inc_beta<N: Number>(a: N, b: N, x: N) -> N {
    beta_lcdf(x, a, b).exp()
}

pub fn student_t_lcdf<N: Number>(y: N, nu: N, mu: N, sigma: N) -> N {
    log_student_t((y - mu) / sigma, nu)
}

pub fn student_t_lccdf<N: Number>(y: N, nu: N, mu: N, sigma: N) -> N {
    log_student_t((mu - y) / sigma, nu)
}

pub fn cauchy_lcdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    let z = (y - mu) / sigma;
    // Far below, the arc is that of the reciprocal.
    let is_low = z.lt(z.constant(-1.0));
    let far = -(z.constant(1.0) / is_low.select(z, z.constant(-1.0))).atan() / PI;
    is_low.select(far, z.atan() / PI + 0.5).ln()
}

pub fn cauchy_lccdf<N: Number>(y: N, mu: N, sigma: N) -> N {
    cauchy_lcdf(mu, y, sigma)
}

pub fn pareto_type_2_lccdf<N: Number>(y: N, mu: N, lambda: N, alpha: N) -> N {
    -(alpha * ((y - mu) / lambda).log1p())
}

pub fn pareto_type_2_lcdf<N: Number>(y: N, mu: N, lambda: N, alpha: N) -> N {
    log1m_exp(pareto_type_2_lccdf(y, mu, lambda, alpha))
}

pub fn loglogistic_lcdf<N: Number>(y: N, alpha: N, beta: N) -> N {
    of_log(y / alpha, f64::NEG_INFINITY, 0.0, |l| log_inv_logit(l * beta))
}

pub fn exp_mod_normal_lcdf<N: Number>(y: N, mu: N, sigma: N, lambda: N) -> N {
    let z = (y - mu) / sigma;
    let v = lambda * sigma;
    log_diff_exp(std_normal_lcdf(z), v * v * 0.5 - v * z + std_normal_lcdf(z - v))
}

pub fn exp_mod_normal_lccdf<N: Number>(y: N, mu: N, sigma: N, lambda: N) -> N {
    let z = (y - mu) / sigma;
    let v = lambda * sigma;
    log_sum_exp(std_normal_lcdf(-z), v * v * 0.5 - v * z + std_normal_lcdf(z - v))
}

pub fn skew_double_exponential_lcdf<N: Number>(y: N, mu: N, sigma: N, tau: N) -> N {
    let z = (y - mu) / sigma * 2.0;
    let (low, high) = (z.min(z.constant(0.0)), z.max(z.constant(0.0)));
    let below = tau.ln() + (-tau + 1.0) * low;
    z.lt(z.constant(0.0)).select(below, log1m((-tau + 1.0) * (-(tau * high)).exp()))
}

pub fn skew_double_exponential_lccdf<N: Number>(y: N, mu: N, sigma: N, tau: N) -> N {
    skew_double_exponential_lcdf(-y, -mu, sigma, -tau + 1.0)
}

/// P(X ≤ n) of a number from 0 on; the function is asked only from there.
fn from_zero<N: Number>(n: N, below: f64, f: impl Fn(N) -> N) -> N {
    let is_negative = n.lt(n.constant(0.0));
    is_negative.select(n.constant(below), f(n.max(n.constant(0.0))))
}

pub fn poisson_lcdf<N: Number>(n: N, lambda: N) -> N {
    from_zero(n, f64::NEG_INFINITY, |n| gamma_lccdf(lambda, n + 1.0, n.constant(1.0)))
}

pub fn poisson_lccdf<N: Number>(n: N, lambda: N) -> N {
    from_zero(n, 0.0, |n| gamma_lcdf(lambda, n + 1.0, n.constant(1.0)))
}

/// P(X ≤ n) of n up to a number of trials: beta with a = trials − n, b = n + 1 at 1 − θ.
pub fn binomial_lcdf<N: Number>(n: N, trials: N, theta: N) -> N {
    let is_all = trials.le(n);
    from_zero(n, f64::NEG_INFINITY, |n| {
        let rest = is_all.select(n.constant(1.0), trials - n);
        is_all.select(n.constant(0.0), beta_lccdf(theta, n + 1.0, rest))
    })
}

pub fn binomial_lccdf<N: Number>(n: N, trials: N, theta: N) -> N {
    let is_all = trials.le(n);
    from_zero(n, 0.0, |n| {
        let rest = is_all.select(n.constant(1.0), trials - n);
        is_all.select(n.constant(f64::NEG_INFINITY), beta_lcdf(theta, n + 1.0, rest))
    })
}

pub fn neg_binomial_2_lcdf<N: Number>(n: N, mu: N, phi: N) -> N {
    from_zero(n, f64::NEG_INFINITY, |n| log_beta_lower(phi, n + 1.0, phi.ln() - mu.ln()))
}

pub fn neg_binomial_2_lccdf<N: Number>(n: N, mu: N, phi: N) -> N {
    from_zero(n, 0.0, |n| log_beta_lower(n + 1.0, phi, mu.ln() - phi.ln()))
}

pub fn neg_binomial_lcdf<N: Number>(n: N, alpha: N, beta: N) -> N {
    from_zero(n, f64::NEG_INFINITY, |n| log_beta_lower(alpha, n + 1.0, beta.ln()))
}

pub fn neg_binomial_lccdf<N: Number>(n: N, alpha: N, beta: N) -> N {
    from_zero(n, 0.0, |n| log_beta_lower(n + 1.0, alpha, -beta.ln()))
}

pub fn discrete_range_lcdf<N: Number>(n: N, low: N, high: N) -> N {
    ((n - low + 1.0) / (high - low + 1.0)).min(n.constant(1.0)).max(n.constant(0.0)).ln()
}

pub fn discrete_range_lccdf<N: Number>(n: N, low: N, high: N) -> N {
    ((high - n) / (high - low + 1.0)).min(n.constant(1.0)).max(n.constant(0.0)).ln()
}

/// P(X > n) of a variable that is 0 or 1.
pub fn bernoulli_lccdf<N: Number>(n: N, theta: N) -> N {
    let below = n.lt(n.constant(0.0)).select(n.constant(0.0), theta.ln());
    n.constant(1.0).le(n).select(n.constant(f64::NEG_INFINITY), below)
}

/// Where the normal distribution function is p.
pub fn inv_phi<N: Number>(p: N) -> N {
    let is_high = p.constant(0.5).lt(p);
    let y = inv_log_phi(is_high.select(-p + 1.0, p).ln());
    is_high.select(-y, y)
}

/// Where the normal distribution function has this logarithm, for at most one half by Acklam's rational functions.
pub fn inv_log_phi<N: Number>(log: N) -> N {
    let polynomial = |x: N, list: &[f64]| list.iter().skip(1).fold(x.constant(list[0]), |sum, c| sum * x + *c);
    let log_half = log.constant(-LN_2);
    let (is_high, is_end) = (log_half.lt(log), log.eq(log.constant(f64::NEG_INFINITY)));
    // Above one half, by the complement.
    let low = is_high.select(log1m_exp(is_high.select(log, log_half)), is_end.select(log_half, log));
    let is_tail = low.lt(low.constant(0.02425f64.ln()));
    let q = (low.min(log_half) * -2.0).sqrt();
    let tail = polynomial(q, &TAIL) / polynomial(q, &TAIL_BELOW);
    let d = low.exp() - 0.5;
    let r = d.square();
    let start = is_tail.select(tail, d * polynomial(r, &MIDDLE) / polynomial(r, &MIDDLE_BELOW));
    // Two steps of Newton's method on the logarithm; what is left of the error, and of all its derivatives, is its square.
    let step = |y: N| {
        let (at, density) = (std_normal_lcdf(y), densities::std_normal(y));
        y - (at - low) * (at - density).exp()
    };
    let y = step(step(start));
    is_high.select(-y, is_end.select(y.constant(f64::NEG_INFINITY), y))
}

const TAIL: [f64; 6] = [
    -7.784894002430293e-3,
    -3.223964580411365e-1,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
];
const TAIL_BELOW: [f64; 5] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
const MIDDLE: [f64; 6] = [
    -3.969683028665376e1,
    2.209460984245205e2,
    -2.759285104469687e2,
    1.38357751867269e2,
    -3.066479806614716e1,
    2.506628277459239,
];
const MIDDLE_BELOW: [f64; 6] =
    [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1, 1.0];

pub fn skew_normal_lcdf<N: Number>(y: N, xi: N, omega: N, alpha: N) -> N {
    log_skew_normal((y - xi) / omega, alpha)
}

pub fn skew_normal_lccdf<N: Number>(y: N, xi: N, omega: N, alpha: N) -> N {
    log_skew_normal((xi - y) / omega, -alpha)
}
