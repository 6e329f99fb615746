//! What the samplers of several distributions are made of.
//!
//! Draws are made on the host, one at a time, so that predictions need no expressions. Parameters outside their
//! domain give none.

use rand::{Rng, RngExt};
use rand_distr::{Binomial, Distribution as _, Exp1, Gamma, Poisson};

pub fn positive(x: f64) -> Option<f64> {
    (x > 0.0).then_some(x)
}

pub fn gamma(shape: f64, rng: &mut dyn Rng) -> Option<f64> {
    Some(Gamma::new(shape, 1.0).ok()?.sample(rng))
}

/// The logarithm of a gamma number, which is finite also where a small shape makes the number itself underflow.
pub fn log_gamma(shape: f64, rng: &mut dyn Rng) -> Option<f64> {
    if shape >= 1.0 {
        return Some(gamma(shape, rng)?.ln());
    }
    // Gamma(a) is Gamma(a + 1) · U^(1/a), and −ln U is exponential.
    let exponential: f64 = Exp1.sample(rng);
    Some(gamma(positive(shape)? + 1.0, rng)?.ln() - exponential / shape)
}

pub fn dirichlet(concentration: &[f64], rng: &mut dyn Rng) -> Option<Vec<f64>> {
    let logs: Option<Vec<f64>> = concentration.iter().map(|&a| log_gamma(a, rng)).collect();
    softmax(&logs?)
}

pub fn poisson(rate: f64, rng: &mut dyn Rng) -> Option<f64> {
    // A rate that underflowed is no mistake.
    if rate == 0.0 { Some(0.0) } else { Some(Poisson::new(rate).ok()?.sample(rng)) }
}

pub fn is_count(n: f64) -> bool {
    n.fract() == 0.0 && (0.0..=(1u64 << 53) as f64).contains(&n)
}

pub fn binomial(trials: f64, logit: f64, rng: &mut dyn Rng) -> Option<f64> {
    if !is_count(trials) {
        return None;
    }
    // The rarer outcome is drawn: the probability of the other has lost digits.
    let rare = Binomial::new(trials as u64, 1.0 / (1.0 + logit.abs().exp())).ok()?.sample(rng) as f64;
    Some(if logit < 0.0 { rare } else { trials - rare })
}

/// Probabilities from logits, unless those have NaN or ∞ among them, or no finite one.
pub fn softmax(logits: &[f64]) -> Option<Vec<f64>> {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() || logits.iter().any(|l| l.is_nan()) {
        return None;
    }
    let weights: Vec<f64> = logits.iter().map(|l| (l - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    Some(weights.into_iter().map(|w| w / total).collect())
}

pub fn categorical(logits: &[f64], rng: &mut dyn Rng) -> Option<usize> {
    let probabilities = softmax(logits)?;
    let mut left = rng.random::<f64>();
    let hit = probabilities.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    // Rounding may leave a little over: that belongs to the last category that can occur.
    hit.or_else(|| probabilities.iter().rposition(|&p| p > 0.0))
}
