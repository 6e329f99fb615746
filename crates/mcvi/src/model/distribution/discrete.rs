//! Distributions of counts and categories, in logits and log rates.

use super::sample::{binomial, categorical, gamma, is_count as is_whole, log_gamma, poisson, softmax};
use super::{Distribution, Support, Value, all, last, within};
use mcvi_expr::Expr;
use rand::{Rng, RngExt};
use rand_distr::{Binomial, Distribution as _};

/// One with this log odds, else zero.
pub fn bernoulli_logit<'g>(logit: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("bernoulli_logit", [logit.into()], |x, [logit]| {
        // −ln(1 + e^∓logit): ln σ(logit) at 1, ln σ(−logit) at 0, each with all its digits.
        let sign = 1.0 - x * 2.0;
        within(x.eq(0.0).select(1.0, x.eq(1.0)), -(sign * logit).softplus())
    })
    .with_support(Support::Discrete)
    .with_sampler(|[logit], rng| binomial(1.0, logit, rng))
}

/// The number of successes in independent trials with this log odds.
pub fn binomial_logit<'g>(trials: impl Into<Value<'g>>, logit: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("binomial_logit", [trials.into(), logit.into()], |x, [trials, logit]| {
        let rest = trials - x;
        let terms = weighted(x, logit.log_sigmoid()) + weighted(rest, (-logit).log_sigmoid());
        within(is_count(x) * rest.ge(0.0), log_choose(trials, x) + terms)
    })
    .with_support(Support::Discrete)
    .with_sampler(|[trials, logit], rng| binomial(trials, logit, rng))
}

/// The number of successes in trials whose common probability is beta distributed.
pub fn beta_binomial<'g>(
    trials: impl Into<Value<'g>>,
    a: impl Into<Value<'g>>,
    b: impl Into<Value<'g>>,
) -> Distribution<'g> {
    Distribution::new("beta_binomial", [trials.into(), a.into(), b.into()], |x, [trials, a, b]| {
        let rest = trials - x;
        // ln B(a + x, b + n − x) − ln B(a, b); differences of lnΓ keep their digits however large a and b are.
        let ratio = a.lgamma_diff(x) + b.lgamma_diff(rest) - (a + b).lgamma_diff(trials);
        within(is_count(x) * rest.ge(0.0), log_choose(trials, x) + ratio)
    })
    .with_support(Support::Discrete)
    .with_sampler(|[trials, a, b], rng| {
        let log_gammas = [log_gamma(a, rng)?, log_gamma(b, rng)?];
        binomial(trials, log_gammas[0] - log_gammas[1], rng)
    })
}

/// The Poisson distribution with mean exp(`log_rate`).
pub fn poisson_log<'g>(log_rate: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("poisson_log", [log_rate.into()], |x, [log_rate]| {
        within(is_count(x), weighted(x, log_rate) - log_rate.exp() - (x + 1.0).lgamma())
    })
    .with_support(Support::Discrete)
    .with_sampler(|[log_rate], rng| poisson(log_rate.exp(), rng))
}

/// Counts with mean μ = exp(`log_mean`) and variance μ + μ²/`dispersion`.
pub fn negative_binomial_log<'g>(log_mean: impl Into<Value<'g>>, dispersion: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("negative_binomial_log", [log_mean.into(), dispersion.into()], |x, [log_mean, dispersion]| {
        // μ/(μ + φ) = σ(log μ − log φ), φ/(μ + φ) = σ(log φ − log μ)
        let odds = log_mean - dispersion.ln();
        let terms = weighted(x, odds.log_sigmoid()) - dispersion * odds.softplus();
        within(is_count(x), dispersion.lgamma_diff(x) - (x + 1.0).lgamma() + terms)
    })
    .with_support(Support::Discrete)
    .with_sampler(|[log_mean, dispersion], rng| poisson(log_mean.exp() * gamma(dispersion, rng)? / dispersion, rng))
}

/// A category, counted from 0: of logits `[.., k]` for values `[..]`.
pub fn categorical_logit<'g>(logits: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("categorical_logit", [logits.into()], |x, [logits]| {
        let Some(&k) = logits.shape().dims().last() else { return logits.sum(&[0]) };
        let categories = x.graph().arange(x.dtype(), k);
        let chosen = x.expand(x.shape().rank()).eq(categories);
        let log_probability = chosen.select(log_softmax(logits), 0.0).sum(&[last(chosen).max(last(logits))]);
        within(is_count(x) * x.lt(k as f64), log_probability)
    })
    .with_support(Support::Discrete)
    .with_event_dims(0, [1])
    .with_event_sampler(|event, rng| Some(vec![categorical(event.parameters.first()?, rng)? as f64]))
}

/// A category in an order, counted from 0: those below `cutpoints[j]` have log odds `cutpoints[j]` − `predictor`. Cutpoints
/// `[.., k]` rise, and have an axis for observations: `cutpoints.expand(1)`.
pub fn ordered_logistic<'g>(predictor: impl Into<Value<'g>>, cutpoints: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("ordered_logistic", [predictor.into(), cutpoints.into()], |x, [eta, cuts]| {
        let Some(&k) = cuts.shape().dims().last() else { return cuts.sum(&[0]) };
        let (place, j) = (x.expand(x.shape().rank()), x.graph().arange(x.dtype(), k));
        let chosen = |category: Expr<'g>| {
            let cut = place.eq(category).select(cuts, 0.0);
            cut.sum(&[last(cut)])
        };
        // Far enough below and above all.
        let (below, above) = (x.eq(0.0).select(-FAR, 0.0), x.eq(k as f64).select(FAR, 0.0));
        let (low, high) = (chosen(j + 1.0) + below, chosen(j) + above);
        // σ(b) − σ(a) = σ(b) σ(−a) (1 − exp(a − b))
        let log = (high - eta).log_sigmoid() + (eta - low).log_sigmoid() + (-(low - high).expm1()).ln();
        within(is_count(x) * x.le(k as f64), log)
    })
    .with_support(Support::Discrete)
    .with_event_dims(0, [0, 1])
    .with_event_sampler(|event, rng| {
        let (eta, cuts) = (event.parameters.first()?.first()?, event.parameters.get(1)?);
        let u: f64 = rng.random();
        let logit = eta + u.ln() - (-u).ln_1p();
        (logit.is_finite() || u == 0.0).then(|| vec![cuts.iter().filter(|cut| **cut <= logit).count() as f64])
    })
}

/// A number that no predictor reaches.
const FAR: f64 = 1e30;

/// Counts that are zero with probability `zero`, and else of the Poisson distribution with mean exp(`log_rate`).
pub fn zero_inflated_poisson_log<'g>(log_rate: impl Into<Value<'g>>, zero: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("zero_inflated_poisson_log", [log_rate.into(), zero.into()], |x, [log_rate, zero]| {
        let rate = log_rate.exp();
        let log_rest = (-zero).log1p();
        // ln(e^a + e^b), with a the logarithm of the probability of an extra zero
        let (a, b) = (zero.ln(), log_rest - rate);
        let none = a.max(b) + (-(a - b).abs()).softplus();
        let some = log_rest + weighted(x, log_rate) - rate - (x + 1.0).lgamma();
        within(is_count(x), x.eq(0.0).select(none, some))
    })
    .with_support(Support::Discrete)
    .with_sampler(|[log_rate, zero], rng| {
        if !(0.0..=1.0).contains(&zero) {
            return None;
        }
        if rng.random::<f64>() < zero { Some(0.0) } else { poisson(log_rate.exp(), rng) }
    })
}

/// The counts `[.., k]` of k categories among independent draws with logits `[.., k]`.
pub fn multinomial_logit<'g>(logits: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("multinomial_logit", [logits.into()], |x, [logits]| {
        let arrangements = (x.sum(&[last(x)]) + 1.0).lgamma() - (x + 1.0).lgamma().sum(&[last(x)]);
        let terms = weighted(x, log_softmax(logits));
        within(all(is_count(x)), arrangements + terms.sum(&[last(terms)]))
    })
    .with_support(Support::Discrete)
    .with_event_dims(1, [1])
    .with_event_sampler(|event, rng| multinomial(event.parameters.first()?, event.like.iter().sum(), rng))
}

fn log_softmax(logits: Expr<'_>) -> Expr<'_> {
    let axis = last(logits);
    logits - logits.logsumexp(&[axis]).expand(axis)
}

/// 1 where x is a whole number not below 0.
fn is_count(x: Expr<'_>) -> Expr<'_> {
    x.floor().eq(x) * x.ge(0.0)
}

/// `count · log`, and 0 for none of what has probability 0.
fn weighted<'g>(count: Expr<'g>, log: Expr<'g>) -> Expr<'g> {
    count.eq(0.0).select(0.0, count * log)
}

/// The logarithm of the number of ways to choose k of n.
fn log_choose<'g>(n: Expr<'g>, k: Expr<'g>) -> Expr<'g> {
    let rest = n - k;
    let few = k.le(rest).select(k, rest);
    (n - few + 1.0).lgamma_diff(few) - (few + 1.0).lgamma()
}

fn multinomial(logits: &[f64], trials: f64, rng: &mut dyn Rng) -> Option<Vec<f64>> {
    let probabilities = softmax(logits)?;
    if !is_whole(trials) {
        return None;
    }
    let (mut left, mut counts) = (trials as u64, vec![0.0; logits.len()]);
    for i in 0..logits.len() {
        // Of those not yet placed, each falls here with this category's share of what is left.
        let rest: f64 = probabilities[i..].iter().sum();
        let share = if rest > 0.0 { (probabilities[i] / rest).min(1.0) } else { 0.0 };
        let here = Binomial::new(left, share).ok()?.sample(rng);
        (counts[i], left) = (here as f64, left - here);
    }
    Some(counts)
}
