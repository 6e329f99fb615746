//! Probabilities of whole numbers, with all constants, in Stan's parameterisations.

use super::Number;
use super::functions::{lbeta, lchoose, lmultiply, log1m, multiply_log1m};

/// A probability where a number may be, −∞ elsewhere.
fn within<N: Number>(inside: N, density: N) -> N {
    inside.select(density, density.constant(f64::NEG_INFINITY))
}

fn nonnegative<N: Number>(n: N) -> N {
    n.constant(0.0).le(n)
}

pub fn bernoulli_lpmf<N: Number>(n: N, theta: N) -> N {
    // Each logarithm sees only the probability that counts.
    let (yes, no) = (n.select(theta, n.constant(1.0)), n.select(n.constant(0.0), theta));
    n.select(yes.ln(), log1m(no))
}

pub fn bernoulli_logit<N: Number>(n: N, alpha: N) -> N {
    -((-n * 2.0 + 1.0) * alpha).softplus()
}

pub fn binomial<N: Number>(n: N, trials: N, theta: N) -> N {
    let inside = nonnegative(n) * n.le(trials);
    within(inside, lchoose(trials, n) + lmultiply(n, theta) + multiply_log1m(trials - n, theta))
}

pub fn binomial_logit<N: Number>(n: N, trials: N, alpha: N) -> N {
    let inside = nonnegative(n) * n.le(trials);
    within(inside, lchoose(trials, n) - n * (-alpha).softplus() - (trials - n) * alpha.softplus())
}

pub fn poisson<N: Number>(n: N, lambda: N) -> N {
    within(nonnegative(n), lmultiply(n, lambda) - lambda - (n + 1.0).lgamma())
}

pub fn poisson_log<N: Number>(n: N, alpha: N) -> N {
    within(nonnegative(n), n * alpha - alpha.exp() - (n + 1.0).lgamma())
}

pub fn neg_binomial_2<N: Number>(n: N, mu: N, phi: N) -> N {
    let choose = phi.lgamma_diff(n) - (n + 1.0).lgamma();
    within(nonnegative(n), choose + lmultiply(n, mu / (mu + phi)) - phi * (mu / phi).log1p())
}

pub fn neg_binomial_2_log<N: Number>(n: N, eta: N, phi: N) -> N {
    let (log, choose) = (phi.ln(), phi.lgamma_diff(n) - (n + 1.0).lgamma());
    within(nonnegative(n), choose - n * (log - eta).softplus() - phi * (eta - log).softplus())
}

pub fn neg_binomial<N: Number>(n: N, alpha: N, beta: N) -> N {
    let choose = alpha.lgamma_diff(n) - (n + 1.0).lgamma();
    within(nonnegative(n), choose - alpha * (beta.constant(1.0) / beta).log1p() - n * beta.log1p())
}

pub fn beta_binomial<N: Number>(n: N, trials: N, a: N, b: N) -> N {
    let inside = nonnegative(n) * n.le(trials);
    // ln B(a + n, b + trials − n) − ln B(a, b), with differences of lnΓ of the same argument, lest they cancel where it is large.
    let ratio = a.lgamma_diff(n) + b.lgamma_diff(trials - n) - (a + b).lgamma_diff(trials);
    within(inside, lchoose(trials, n) + ratio)
}

pub fn discrete_range<N: Number>(n: N, low: N, high: N) -> N {
    within(low.le(n) * n.le(high), -(high - low + 1.0).ln())
}

pub fn yule_simon<N: Number>(n: N, alpha: N) -> N {
    within(n.constant(1.0).le(n), alpha.ln() + lbeta(n, alpha + 1.0))
}

pub fn hypergeometric<N: Number>(n: N, draws: N, a: N, b: N) -> N {
    lchoose(a, n) + lchoose(b, draws - n) - lchoose(a + b, draws)
}
