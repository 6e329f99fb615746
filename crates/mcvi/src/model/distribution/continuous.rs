//! Distributions of single real numbers.

use super::sample::{dirichlet, gamma as draw_gamma, positive};
use super::{Distribution, Support, Value, within};
use mcvi_expr::Expr;
use rand::{Rng, RngExt};
use rand_distr::{Cauchy, Distribution as _, Exp1, LogNormal, Normal, StudentT};
use std::f64::consts::{LN_2, PI, TAU};

/// The flat prior, Stan's default: a density of 1 at every value the parameter may take.
///
/// It is improper: it has no draws, the evidence p(x) is defined only up to a constant, and the posterior is proper only
/// if the observations make it so. It may be the prior of any parameter, on the scale of the parameter: `m.positive("tau",
/// flat())` is uniform in tau, not in its logarithm.
pub fn flat<'g>() -> Distribution<'g> {
    let flat = Distribution::new("flat", [], |x, []| x.graph().full(x.dtype(), x.shape(), 0.0));
    Distribution { is_flat: true, ..flat }
}

/// The normal distribution with this mean and standard deviation.
pub fn normal<'g>(mean: impl Into<Value<'g>>, sd: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("normal", [mean.into(), sd.into()], |x, [mean, sd]| log_normal_density(x, mean, sd))
        .with_sampler(|[mean, sd], rng| draw_normal(mean, sd, rng))
}

/// Student's t distribution with `df` degrees of freedom, shifted and scaled.
pub fn student_t<'g>(
    df: impl Into<Value<'g>>,
    location: impl Into<Value<'g>>,
    scale: impl Into<Value<'g>>,
) -> Distribution<'g> {
    Distribution::new("student_t", [df.into(), location.into(), scale.into()], |x, [df, location, scale]| {
        log_student_t_density(x, df, location, scale)
    })
    .with_sampler(|[df, location, scale], rng| Some(location + positive(scale)? * draw_student_t(df, rng)?))
}

/// The Cauchy distribution.
pub fn cauchy<'g>(location: impl Into<Value<'g>>, scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("cauchy", [location.into(), scale.into()], |x, [location, scale]| {
        log_cauchy_density(x, location, scale)
    })
    .with_sampler(|[location, scale], rng| draw_cauchy(location, scale, rng))
}

/// The absolute value of a normal number with mean 0 and standard deviation `scale`.
pub fn half_normal<'g>(scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("half_normal", [scale.into()], |x, [scale]| half(x, log_normal_density(x, zero(x), scale)))
        .with_support(Support::Positive)
        .with_sampler(|[scale], rng| Some(draw_normal(0.0, scale, rng)?.abs()))
}

/// The absolute value of a Cauchy number about 0.
pub fn half_cauchy<'g>(scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("half_cauchy", [scale.into()], |x, [scale]| half(x, log_cauchy_density(x, zero(x), scale)))
        .with_support(Support::Positive)
        .with_sampler(|[scale], rng| Some(draw_cauchy(0.0, scale, rng)?.abs()))
}

/// The absolute value of a Student's t number about 0.
pub fn half_student_t<'g>(df: impl Into<Value<'g>>, scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("half_student_t", [df.into(), scale.into()], |x, [df, scale]| {
        half(x, log_student_t_density(x, df, zero(x), scale))
    })
    .with_support(Support::Positive)
    .with_sampler(|[df, scale], rng| Some(positive(scale)? * draw_student_t(df, rng)?.abs()))
}

/// The Laplace (double exponential) distribution.
pub fn laplace<'g>(location: impl Into<Value<'g>>, scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("laplace", [location.into(), scale.into()], |x, [location, scale]| {
        -((x - location) / scale).abs() - scale.ln() - LN_2
    })
    .with_sampler(|[location, scale], rng| {
        let (up, down): (f64, f64) = (Exp1.sample(rng), Exp1.sample(rng));
        Some(location + positive(scale)? * (up - down))
    })
}

/// The distribution of a number whose logarithm is normal with this mean and standard deviation.
pub fn log_normal<'g>(mean: impl Into<Value<'g>>, sd: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("log_normal", [mean.into(), sd.into()], |x, [mean, sd]| {
        let log = x.ln();
        within(x.gt(0.0), log_normal_density(log, mean, sd) - log)
    })
    .with_support(Support::Positive)
    .with_sampler(|[mean, sd], rng| Some(LogNormal::new(mean, positive(sd)?).ok()?.sample(rng)))
}

/// The exponential distribution with mean 1/`rate`.
pub fn exponential<'g>(rate: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("exponential", [rate.into()], |x, [rate]| within(x.ge(0.0), rate.ln() - rate * x))
        .with_support(Support::Positive)
        .with_sampler(|[rate], rng| {
            let unit: f64 = Exp1.sample(rng);
            Some(unit / positive(rate)?)
        })
}

/// The gamma distribution with mean `shape`/`rate`.
pub fn gamma<'g>(shape: impl Into<Value<'g>>, rate: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("gamma", [shape.into(), rate.into()], |x, [shape, rate]| {
        let density = shape * rate.ln() - shape.lgamma() + log_power(x, x.ln(), shape - 1.0) - rate * x;
        within(x.ge(0.0), density)
    })
    .with_support(Support::Positive)
    .with_sampler(|[shape, rate], rng| Some(draw_gamma(shape, rng)? / positive(rate)?))
}

/// The distribution of the reciprocal of a gamma number with this shape and `scale` for its rate.
pub fn inverse_gamma<'g>(shape: impl Into<Value<'g>>, scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("inverse_gamma", [shape.into(), scale.into()], |x, [shape, scale]| {
        within(x.gt(0.0), shape * scale.ln() - shape.lgamma() - (shape + 1.0) * x.ln() - scale / x)
    })
    .with_support(Support::Positive)
    .with_sampler(|[shape, scale], rng| Some(positive(scale)? / draw_gamma(shape, rng)?))
}

/// The Weibull distribution with this shape and scale: its hazard goes with the power `shape` − 1 of time.
pub fn weibull<'g>(shape: impl Into<Value<'g>>, scale: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("weibull", [shape.into(), scale.into()], |x, [shape, scale]| {
        let (log, log_scale) = (x.ln(), scale.ln());
        let power = x.eq(0.0).select(0.0, (shape * (log - log_scale)).exp());
        let density = shape.ln() - shape * log_scale + log_power(x, log, shape - 1.0) - power;
        within(x.ge(0.0), density)
    })
    .with_support(Support::Positive)
    .with_sampler(|[shape, scale], rng| {
        let unit: f64 = Exp1.sample(rng);
        Some(positive(scale)? * unit.powf(1.0 / positive(shape)?))
    })
}

/// The beta distribution with mean `a`/(`a` + `b`).
pub fn beta<'g>(a: impl Into<Value<'g>>, b: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("beta", [a.into(), b.into()], |x, [a, b]| {
        let rest = 1.0 - x;
        let powers = log_power(x, x.ln(), a - 1.0) + log_power(rest, (-x).log1p(), b - 1.0);
        within(x.ge(0.0) * rest.ge(0.0), powers - log_beta(a, b))
    })
    .with_support(Support::Interval(Value::Number(0.0), Value::Number(1.0)))
    .with_sampler(|[a, b], rng| dirichlet(&[a, b], rng).map(|p| p[0]))
}

/// The uniform distribution between two bounds.
pub fn uniform<'g>(low: impl Into<Value<'g>>, high: impl Into<Value<'g>>) -> Distribution<'g> {
    let (low, high) = (low.into(), high.into());
    Distribution::new("uniform", [low, high], |x, [low, high]| within(x.ge(low) * x.le(high), -(high - low).ln()))
        .with_mistake(uniform_mistake(low, high))
        .with_support(Support::Interval(low, high))
        .with_sampler(|[low, high], rng| (low <= high).then(|| low + (high - low) * rng.random::<f64>()))
}

fn uniform_mistake(low: Value<'_>, high: Value<'_>) -> Option<String> {
    if [low, high].iter().any(|bound| bound.number().is_some_and(f64::is_infinite)) {
        return Some(
            "a uniform distribution needs finite bounds; write `flat()` for a flat, improper prior".to_owned(),
        );
    }
    let (low, high) = (low.number()?, high.number()?);
    // Asked this way round, NaN is refused.
    let nothing = low.partial_cmp(&high) != Some(std::cmp::Ordering::Less);
    nothing.then(|| format!("nothing lies between the bounds of uniform({low}, {high}); give the lower one first"))
}

fn log_normal_density<'g>(x: Expr<'g>, mean: Expr<'g>, sd: Expr<'g>) -> Expr<'g> {
    // A reciprocal of fewer elements than x has, or of a literal, costs less than a quotient.
    ((x - mean) * sd.recip()).square() * -0.5 - sd.ln() - 0.5 * TAU.ln()
}

fn log_student_t_density<'g>(x: Expr<'g>, df: Expr<'g>, location: Expr<'g>, scale: Expr<'g>) -> Expr<'g> {
    let z = (x - location) / scale;
    // lnΓ(df/2 + ½) − lnΓ(df/2) by its own function: for large df a plain difference has no digits left.
    let constant = (df * 0.5).lgamma_diff(0.5) - (df * PI).ln() * 0.5 - scale.ln();
    constant - (df + 1.0) * 0.5 * (z.square() / df).log1p()
}

fn log_cauchy_density<'g>(x: Expr<'g>, location: Expr<'g>, scale: Expr<'g>) -> Expr<'g> {
    -((x - location) / scale).square().log1p() - scale.ln() - PI.ln()
}

/// The density of |x| from that of x, which is symmetric about 0.
fn half<'g>(x: Expr<'g>, density: Expr<'g>) -> Expr<'g> {
    within(x.ge(0.0), density + LN_2)
}

fn zero(x: Expr<'_>) -> Expr<'_> {
    x.graph().scalar(x.dtype(), 0.0)
}

/// `exponent · ln base`, given the logarithm; at base 0 the limit, as a constant: derivatives there are not finite.
pub(super) fn log_power<'g>(base: Expr<'g>, log: Expr<'g>, exponent: Expr<'g>) -> Expr<'g> {
    // ∞, 0 or −∞: 0 · ln 0 would be NaN.
    let limit = exponent.eq(0.0).select(0.0, exponent.gt(0.0).select(f64::NEG_INFINITY, f64::INFINITY));
    base.eq(0.0).select(limit, exponent * log)
}

/// ln B(a, b), without cancellation when one of them is large.
fn log_beta<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    // One choice for both, not min and max, which at a = b would both send their derivative to a.
    let first = a.le(b);
    let (small, large) = (first.select(a, b), first.select(b, a));
    small.lgamma() - large.lgamma_diff(small)
}

fn draw_normal(mean: f64, sd: f64, rng: &mut dyn Rng) -> Option<f64> {
    Some(Normal::new(mean, positive(sd)?).ok()?.sample(rng))
}

fn draw_cauchy(location: f64, scale: f64, rng: &mut dyn Rng) -> Option<f64> {
    Some(Cauchy::new(location, scale).ok()?.sample(rng))
}

fn draw_student_t(df: f64, rng: &mut dyn Rng) -> Option<f64> {
    Some(StudentT::new(df).ok()?.sample(rng))
}
