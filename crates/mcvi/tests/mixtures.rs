//! Mixtures and distributions of one's own: densities by hand, pointwise likelihoods, predictions, priors, mistakes.

#[path = "../../mcvi-expr/tests/common/mod.rs"]
mod common;

use common::{array, check_derivatives, value};
use mcvi::diagnostics::mean;
use mcvi::model::*;
use mcvi::{Error, log_density};
use std::f64::consts::TAU;

fn log_normal_density(x: f64, mean: f64, sd: f64) -> f64 {
    -0.5 * ((x - mean) / sd).powi(2) - sd.ln() - 0.5 * TAU.ln()
}

fn log_mix(weights: &[f64], logs: &[f64]) -> f64 {
    weights.iter().zip(logs).map(|(w, l)| w * l.exp()).sum::<f64>().ln()
}

fn near(found: f64, expected: f64) -> bool {
    found == expected || (found - expected).abs() <= 1e-12 * expected.abs().max(1.0)
}

/// Sample mean and variance are those given, within five standard errors, which are taken from the sample.
fn assert_moments(what: &str, values: &[f64], expected: f64, variance: f64) {
    let found = mean(values);
    assert!((found.value - expected).abs() < 5.0 * found.se, "{what}: mean {found:?}, not {expected}");
    let squares: Vec<f64> = values.iter().map(|x| (x - expected).powi(2)).collect();
    let spread = mean(&squares);
    assert!((spread.value - variance).abs() < 5.0 * spread.se, "{what}: variance {spread:?}, not {variance}");
}

const Y: [f64; 3] = [-2.0, 0.5, 3.1];

/// Weights in all the ways they can be written.
const WAYS: [&str; 5] = ["simplex", "pair", "numbers", "each", "data"];

fn two_normals(way: &'static str) -> Model {
    let model = Model::new(move |m| {
        let share = m.simplex("share", 2, dirichlet(1.0));
        let center = m.ordered("center", 2, normal(0.0, 5.0));
        let sd = m.positive("sd", half_normal(2.0));
        let theta = share.slice(1, 0..1);
        let weights: mcvi::model::MixtureWeights<'_> = match way {
            "simplex" => share.into(),
            "pair" => [theta, 1.0 - theta].into(),
            "numbers" => [0.25, 0.75].into(),
            // For each row and observation.
            "each" => (share.expand(1) * m.matrix(2, &[1.0; 6])).into(),
            _ => m.data(&[0.25, 0.75]).into(),
        };
        let components = [normal(center.slice(1, 0..1), sd), normal(center.slice(1, 1..2), sd)];
        m.observe("y", &Y, mixture(weights, components));
    });
    model.expect("a model")
}

#[test]
fn pointwise_likelihoods_and_predictions_are_those_of_the_mixture() {
    // The first weight is a quarter, the centers are −1 and 2.
    let z = vec![(1f64 / 3.0).ln(), -1.0, 3f64.ln(), 0.2];
    let (weights, centers, sd) = ([0.25, 0.75], [-1.0, 2.0], 0.2f64.exp());
    for way in WAYS {
        let model = two_normals(way);
        for rows in [1, 2, 3] {
            let quantities = model.quantities(&vec![z.clone(); rows], 1).expect("quantities");
            for (i, found) in quantities.log_likelihood[0].values.iter().enumerate() {
                let logs = centers.map(|c| log_normal_density(Y[i % 3], c, sd));
                assert!(near(*found, log_mix(&weights, &logs)), "{way}: {found}");
            }
        }
        let quantities = model.quantities(&vec![z.clone(); 20_000], 2).expect("quantities");
        let (center, spread) = (0.75 * 2.0 - 0.25, sd * sd + 0.25 * 0.75 * 9.0);
        for i in 0..3 {
            assert_moments(way, &quantities.predictive[0].column(i), center, spread);
        }
    }
}

#[test]
fn a_mixture_can_be_a_prior() {
    let model = Model::new(|m| {
        // Spike and slab.
        let b = m.reals("b", 2, mixture([0.8, 0.2], [normal(0.0, 0.1), normal(0.0, 3.0)]));
        let s = m.positive("s", mixture([0.5, 0.5], [gamma(2.0, 1.0), half_normal(1.0)]));
        m.observe("y", &Y, normal(b.slice(1, 0..1), s));
    });
    let model = model.expect("a model");
    let z = [0.3f64, -1.0, 0.4];
    let s = z[2].exp();
    let slab = |x: f64| log_mix(&[0.8, 0.2], &[log_normal_density(x, 0.0, 0.1), log_normal_density(x, 0.0, 3.0)]);
    let scale = log_mix(&[0.5, 0.5], &[s.ln() - s, log_normal_density(s, 0.0, 1.0) + 2f64.ln()]);
    let data: f64 = Y.iter().map(|y| log_normal_density(*y, z[0], s)).sum();
    let expected = slab(z[0]) + slab(z[1]) + scale + z[2] + data;
    let found = log_density(&model, &[z.to_vec()]).expect("values")[0];
    assert!(near(found, expected), "{found}, not {expected}");
    let drawn = model.prior(20_000, 3).expect("draws");
    assert_moments("b[2]", &drawn.parameters[0].column(1), 0.0, 0.8 * 0.01 + 0.2 * 9.0);
    assert!(drawn.parameters[1].values.iter().all(|s| *s > 0.0));
    assert_eq!(drawn.predictive[0].values.len(), 3 * 20_000);
}

#[test]
fn counts_may_have_more_zeros() {
    let model = Model::new(|m| {
        let theta = m.interval("theta", 0.0, 1.0, uniform(0.0, 1.0));
        let log_rate = m.real("log_rate", normal(0.0, 1.0));
        let zeros = poisson_log(f64::NEG_INFINITY);
        m.observe("n", &[0.0, 3.0], mixture([theta, 1.0 - theta], [zeros, poisson_log(log_rate)]));
    });
    let model = model.expect("a model");
    // theta is a half, the rate 2.
    let quantities = model.quantities(&vec![vec![0.0, 2f64.ln()]; 20_000], 1).expect("quantities");
    let (none, three) = ((0.5 + 0.5 * (-2f64).exp()).ln(), (0.5 * (-2f64).exp() * 8.0 / 6.0).ln());
    let found = &quantities.log_likelihood[0].values[..2];
    assert!(near(found[0], none) && near(found[1], three), "{found:?}");
    assert_moments("counts", &quantities.predictive[0].column(1), 1.0, 0.5 * (2.0 + 4.0) - 1.0);
    let slopes = check_derivatives(&[array([1, 1], vec![0.3]), array([1, 1], vec![0.7])], |p| {
        let x = p[0].graph().literal(array([2], vec![0.0, 3.0]));
        mixture([p[0], 1.0 - p[0]], [poisson_log(f64::NEG_INFINITY), poisson_log(p[1])]).log_density(x)
    });
    slopes.expect("finite differences");
}

#[test]
fn vectors_may_be_mixed() {
    let points = [1.0, 0.5, -0.3, 2.0, 0.2, 0.1];
    let model = Model::new(move |m| {
        let share = m.simplex("share", 2, dirichlet(1.0));
        let factor = m.matrix(2, &[1.0, 0.0, 0.0, 1.0]);
        let near = |at: f64| multivariate_normal_cholesky(at, factor);
        let place = m.reals("place", 2, mixture(share, [near(-3.0), near(3.0)]));
        let components = [
            multivariate_normal_cholesky(place.expand(1), factor),
            multivariate_normal_cholesky((-place).expand(1), factor),
        ];
        m.observe_rows("points", 2, &points, mixture(share.expand(1), components));
    });
    let model = model.expect("a model");
    let z = [0.0f64, 0.4, -0.1];
    let both = |x: &[f64], at: &[f64], sign: f64| -> f64 {
        x.iter().zip(at).map(|(x, a)| log_normal_density(*x, sign * a, 1.0)).sum()
    };
    for rows in [1, 2, 3] {
        let quantities = model.quantities(&vec![z.to_vec(); rows], 1).expect("quantities");
        for (i, found) in quantities.log_likelihood[0].values.iter().enumerate() {
            let x = &points[2 * (i % 3)..2 * (i % 3) + 2];
            let expected = log_mix(&[0.5, 0.5], &[both(x, &z[1..], 1.0), both(x, &z[1..], -1.0)]);
            assert!(near(*found, expected), "{rows} rows: {found}, not {expected}");
        }
        assert_eq!(quantities.predictive[0].values.len(), 6 * rows);
    }
    for count in [1, 2, 20_000] {
        let drawn = model.prior(count, 5).expect("draws");
        let place = &drawn.parameters[1];
        assert_eq!(place.values.len(), 2 * count);
        if count > 1000 {
            assert_moments("place[2]", &place.column(1), 0.0, 10.0);
            let products: Vec<f64> = place.values.chunks(2).map(|p| p[0] * p[1]).collect();
            let found = mean(&products);
            assert!((found.value - 9.0).abs() < 5.0 * found.se, "both elements come from one component: {found:?}");
        }
    }
}

#[test]
fn a_component_outside_its_support_counts_as_none() {
    let x = array([3], vec![-1.0, 0.5, 2.0]);
    let found =
        value(std::slice::from_ref(&x), |e| mixture([0.3, 0.7], [half_normal(1.0), beta(2.0, 2.0)]).log_density(e[0]));
    let half = |x: f64| log_normal_density(x, 0.0, 1.0) + 2f64.ln();
    let expected = [f64::NEG_INFINITY, log_mix(&[0.3, 0.7], &[half(0.5), 1.5f64.ln()]), 0.3f64.ln() + half(2.0)];
    assert!(found.iter().zip(expected).all(|(f, e)| near(*f, e)), "{found:?}, not {expected:?}");
    let slopes = check_derivatives(&[x, array([1], vec![0.6])], |e| {
        mixture([e[1], 1.0 - e[1]], [half_normal(e[1]), normal(0.3, 2.0)]).log_density(e[0])
    });
    slopes.expect("finite differences");
}

/// A triangular distribution between 0 and `top`.
fn triangular<'g>(top: impl Into<Value<'g>>) -> Distribution<'g> {
    let top = top.into();
    Distribution::new("triangular", [top], |x, [top]| {
        let inside = x.ge(0.0) * x.le(top);
        inside.select((x * 2.0 / top.square()).ln(), f64::NEG_INFINITY)
    })
    .with_support(Support::Interval(0.0.into(), top))
}

/// The same with draws.
fn drawn_triangular<'g>(top: impl Into<Value<'g>>) -> Distribution<'g> {
    triangular(top).with_sampler(|[top], rng| (top > 0.0).then(|| top * rng.random::<f64>().sqrt()))
}

#[test]
fn a_distribution_of_ones_own_is_like_any_other() {
    let model = Model::new(|m| {
        let top = m.lower("top", 4.0, normal(5.0, 1.0));
        let part = m.interval("part", 0.0, top, drawn_triangular(top));
        m.observe("x", &[1.0, 3.5], drawn_triangular(top));
        m.observe("both", &[1.0], mixture([0.5, 0.5], [drawn_triangular(part + 4.0), normal(0.0, 1.0)]));
    });
    let model = model.expect("a model");
    let z = [1.1f64, 0.3];
    let top = 4.0 + z[0].exp();
    let q = 1.0 / (1.0 + (-z[1]).exp());
    let part = top * q;
    let log = |x: f64, top: f64| (2.0 * x / (top * top)).ln();
    let both = log_mix(&[0.5, 0.5], &[log(1.0, part + 4.0), log_normal_density(1.0, 0.0, 1.0)]);
    let prior = log_normal_density(top, 5.0, 1.0) + z[0] + log(part, top) + (top * q * (1.0 - q)).ln();
    let expected = prior + log(1.0, top) + log(3.5, top) + both;
    let found = log_density(&model, &[z.to_vec()]).expect("values")[0];
    assert!(near(found, expected), "{found}, not {expected}");
    let quantities = model.quantities(&vec![z.to_vec(); 20_000], 1).expect("quantities");
    assert!(near(quantities.log_likelihood[0].values[1], log(3.5, top)));
    assert_moments("x", &quantities.predictive[0].column(1), top * 2.0 / 3.0, top * top / 18.0);
    let drawn = model.prior(5000, 2).expect("draws");
    assert!(drawn.parameters[1].values.iter().zip(&drawn.parameters[0].values).all(|(part, top)| part <= top));
}

#[test]
fn without_a_sampler_likelihoods_are_kept_and_draws_named() {
    let model = Model::new(|m| {
        let top = m.lower("top", 4.0, normal(5.0, 1.0));
        m.observe("y", &Y, normal(top, 1.0));
        m.observe("x", &[1.0, 3.5], triangular(top));
        m.observe("z", &[1.0], mixture([0.5, 0.5], [triangular(top), normal(0.0, 1.0)]));
    });
    let model = model.expect("a model");
    let quantities = model.quantities(&[vec![0.0]], 1).expect("quantities");
    let names = |list: &[Quantity]| list.iter().map(|q| q.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&quantities.log_likelihood), ["y", "x", "z"]);
    assert_eq!(names(&quantities.predictive), ["y"]);
    let error = model.prior(5, 1).expect_err("x cannot be drawn");
    assert!(matches!(&error, Error::CannotDraw { name, .. } if name == "x"), "{error}");
    assert!(error.to_string().contains("triangular, has no sampler"), "{error}");
}

#[test]
fn a_sampler_of_another_size_is_named() {
    let pairs = || {
        Model::new(|m| {
            let a = m.reals("a", 2, normal(0.0, 1.0));
            let pair = Distribution::new("pair", [a.expand(1).into()], |x, [a]| {
                let rank = (x - a).shape().rank();
                (x - a).square().sum(&[rank.saturating_sub(1)]) * -0.5 - TAU.ln()
            });
            let short = pair.with_event_dims(1, [1]).with_event_sampler(|event, _| Some(vec![event.like[0]]));
            m.observe_rows("y", 2, &[1.0, 2.0, 3.0, 4.0], short);
        })
    };
    let model = pairs().expect("a model");
    let z = [0.5, -1.0];
    let expected = [[1.0, 2.0], [3.0, 4.0]]
        .map(|y: [f64; 2]| log_normal_density(y[0], z[0], 1.0) + log_normal_density(y[1], z[1], 1.0));
    let total = expected.iter().sum::<f64>() + z.iter().map(|z| log_normal_density(*z, 0.0, 1.0)).sum::<f64>();
    assert!(near(log_density(&model, &[z.to_vec()]).expect("values")[0], total));
    let error = model.quantities(&[z.to_vec()], 1).expect_err("one number of two");
    assert!(matches!(&error, Error::CannotDraw { name, .. } if name == "y"), "{error}");
    assert!(error.to_string().contains("drew 1 numbers, not 2"), "{error}");
}

fn says(
    what: &str,
    distribution: impl for<'g> Fn(&Builder<'g>) -> Distribution<'g> + Send + Sync + 'static,
    says: &[&str],
) {
    let error = Model::new(move |m| {
        m.real("a", normal(0.0, 1.0));
        m.observe("y", &Y, distribution(m));
    });
    let error = error.map(|m| m.names()).expect_err(what).to_string();
    assert!(error.contains("`y`") && says.iter().all(|s| error.contains(s)), "{what} said: {error}");
}

fn pair<'g>() -> [Distribution<'g>; 2] {
    [normal(0.0, 1.0), normal(1.0, 1.0)]
}

#[test]
fn mistakes_in_mixtures_and_own_distributions_are_named() {
    says("no components", |_| mixture(Vec::<f64>::new(), []), &["at least one component"]);
    says("too many weights", |_| mixture([0.2, 0.3, 0.5], pair()), &["2 components", "3 weights"]);
    says("too few weights", |m| mixture(m.data(&[1.0]), pair()), &["2 components", "1 weights"]);
    for weights in [[0.5, 0.6], [-0.5, 1.5], [f64::NAN, 1.0]] {
        says("no probabilities", move |_| mixture(weights, pair()), &["probabilities that sum to 1"]);
    }
    says("a flat component", |_| mixture([0.5, 0.5], [normal(0.0, 1.0), flat()]), &["component 2", "`flat()`"]);
    says("a bad component", |_| mixture([0.5, 0.5], [normal(0.0, 1.0), uniform(1.0, 0.0)]), &["component 2", "lower"]);
    says(
        "a count and a number",
        |_| mixture([0.5, 0.5], [normal(0.0, 1.0), poisson_log(0.0)]),
        &["component 2", "same kind"],
    );
    says(
        "components that do not fit",
        |m| mixture([0.5, 0.5], [normal(m.data(&[0.0; 3]), 1.0), normal(m.data(&[1.0, 2.0]), 1.0)]),
        &["[3]", "[2]"],
    );
    says(
        "a sampler of other parameters",
        |_| triangular(1.0).with_sampler(|[_a, _b], _| None),
        &["sampler of triangular is for 2 parameters, it has 1"],
    );
    says(
        "axes of other parameters",
        |_| triangular(1.0).with_event_dims(1, [1, 2, 0]),
        &["triangular is for 3 parameters, it has 1"],
    );
}
