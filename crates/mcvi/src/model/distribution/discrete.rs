//! Log probabilities of counts and categories, in logits and log rates.

use super::{all, last, within};
use mcvi_expr::Expr;

#[track_caller]
pub(super) fn bernoulli_logit<'g>(x: Expr<'g>, logit: Expr<'g>) -> Expr<'g> {
    // ln σ(logit) at 1, ln σ(−logit) at 0, in one function of ±logit.
    let sign = x * 2.0 - 1.0;
    within(x.eq(0.0).select(1.0, x.eq(1.0)), (sign * logit).log_sigmoid())
}

#[track_caller]
pub(super) fn binomial_logit<'g>(x: Expr<'g>, trials: Expr<'g>, logit: Expr<'g>) -> Expr<'g> {
    let rest = trials - x;
    let terms = weighted(x, logit.log_sigmoid()) + weighted(rest, (-logit).log_sigmoid());
    within(is_count(x) * rest.ge(0.0), log_choose(trials, x) + terms)
}

#[track_caller]
pub(super) fn beta_binomial<'g>(x: Expr<'g>, trials: Expr<'g>, a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let rest = trials - x;
    // ln B(a + x, b + n − x) − ln B(a, b); differences of lnΓ keep their digits however large a and b are.
    let ratio = a.lgamma_diff(x) + b.lgamma_diff(rest) - (a + b).lgamma_diff(trials);
    within(is_count(x) * rest.ge(0.0), log_choose(trials, x) + ratio)
}

#[track_caller]
pub(super) fn poisson_log<'g>(x: Expr<'g>, log_rate: Expr<'g>) -> Expr<'g> {
    within(is_count(x), weighted(x, log_rate) - log_rate.exp() - (x + 1.0).lgamma())
}

#[track_caller]
pub(super) fn negative_binomial_log<'g>(x: Expr<'g>, log_mean: Expr<'g>, dispersion: Expr<'g>) -> Expr<'g> {
    // μ/(μ + φ) = σ(log μ − log φ), φ/(μ + φ) = σ(log φ − log μ)
    let odds = log_mean - dispersion.ln();
    let terms = weighted(x, odds.log_sigmoid()) - dispersion * odds.softplus();
    within(is_count(x), dispersion.lgamma_diff(x) - (x + 1.0).lgamma() + terms)
}

#[track_caller]
pub(super) fn categorical_logit<'g>(x: Expr<'g>, logits: Expr<'g>) -> Expr<'g> {
    let Some(&k) = logits.shape().dims().last() else { return logits.sum(&[0]) };
    let categories = x.graph().arange(x.dtype(), k);
    let chosen = x.expand(x.shape().rank()).eq(categories);
    let log_probability = chosen.select(log_softmax(logits), 0.0).sum(&[last(chosen).max(last(logits))]);
    within(is_count(x) * x.lt(k as f64), log_probability)
}

#[track_caller]
pub(super) fn multinomial_logit<'g>(x: Expr<'g>, logits: Expr<'g>) -> Expr<'g> {
    let arrangements = (x.sum(&[last(x)]) + 1.0).lgamma() - (x + 1.0).lgamma().sum(&[last(x)]);
    let terms = weighted(x, log_softmax(logits));
    within(all(is_count(x)), arrangements + terms.sum(&[last(terms)]))
}

#[track_caller]
fn log_softmax(logits: Expr<'_>) -> Expr<'_> {
    let axis = last(logits);
    logits - logits.logsumexp(&[axis]).expand(axis)
}

/// 1 where x is a whole number not below 0.
#[track_caller]
fn is_count(x: Expr<'_>) -> Expr<'_> {
    x.floor().eq(x) * x.ge(0.0)
}

/// `count · log`, and 0 for none of what has probability 0.
#[track_caller]
fn weighted<'g>(count: Expr<'g>, log: Expr<'g>) -> Expr<'g> {
    count.eq(0.0).select(0.0, count * log)
}

/// The logarithm of the number of ways to choose k of n.
#[track_caller]
fn log_choose<'g>(n: Expr<'g>, k: Expr<'g>) -> Expr<'g> {
    let rest = n - k;
    let few = k.le(rest).select(k, rest);
    (n - few + 1.0).lgamma_diff(few) - (few + 1.0).lgamma()
}
