//! Models: their log density is the one written by hand, and all that follows from draws of them is right.

use mcvi::density::Gaussian;
use mcvi::diagnostics::mean;
use mcvi::diagnostics::{Weights, summarise};
use mcvi::infer::{ChainChoice, Request, VerdictKind, infer};
use mcvi::model::{
    Builder, Constraint, Model, Quantity, bernoulli_logit, beta, categorical_logit, dirichlet, exponential, flat,
    gamma, half_cauchy, half_normal, lkj_cholesky, multinomial_logit, multivariate_normal_cholesky, normal,
    poisson_log, uniform, weibull,
};
use mcvi::{Approximation, Chain, Choices, Initialisation, Target, log_density};
use mcvi_expr::External;
use std::f64::consts::{PI, TAU};
use std::sync::Arc;

const Y: [f64; 5] = [0.3, -1.2, 2.5, 0.9, 4.0];
const GROUP: [usize; 5] = [0, 3, 1, 1, 2];
const NOISE: f64 = 1.3;

/// A parameter of every constraint, and group effects.
fn everything() -> Model {
    let model = Model::new(|m| {
        let mu = m.real("mu", normal(0.5, 2.0));
        let tau = m.positive("tau", half_cauchy(1.5));
        let rho = m.interval("rho", -1.0, 3.0, uniform(-1.0, 3.0));
        m.parameter("low", Constraint::lower(2.0), 2, normal(4.0, 1.0));
        m.parameter("high", Constraint::upper(-1.0), 1, normal(-2.0, 1.0));
        let cut = m.ordered("cut", 3, normal(0.0, 2.0));
        let share = m.simplex("share", 3, dirichlet(2.0));
        let factor = m.correlation_cholesky("L", 3, lkj_cholesky(2.0));
        let effect = m.reals("effect", 4, normal(mu, tau));
        let group = m.index(&GROUP);
        m.generated("spread", cut.slice(1, 2..3) - cut.slice(1, 0..1));
        m.generated("twice", share * 2.0);
        m.generated("R", factor.matmul(factor.t()));
        m.observe("y", &Y, normal(effect.take(1, group) + rho, NOISE));
    });
    model.expect("a model")
}

/// Free numbers of [`everything`]: mu, tau, rho, two of low, high, three of cut, two of share, three of L, four of
/// effect.
const FREE: usize = 18;

/// Places spread evenly between −2.5 and 2.5.
fn places(count: usize) -> Vec<Vec<f64>> {
    let number = |i: usize| 5.0 * ((i as f64 * 0.754_877_666 + 0.1).fract() - 0.5);
    (0..count).map(|i| (0..FREE).map(|j| number(i * FREE + j)).collect()).collect()
}

fn log_normal_density(x: f64, mean: f64, sd: f64) -> f64 {
    -0.5 * ((x - mean) / sd).powi(2) - sd.ln() - 0.5 * TAU.ln()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The log density of [`everything`] as Stan's manual would have it, and the log likelihood of each observation.
fn by_hand(z: &[f64]) -> (f64, Vec<f64>) {
    let mut log_p = 0.0;
    let mu = z[0];
    log_p += log_normal_density(mu, 0.5, 2.0);
    let tau = z[1].exp();
    log_p += (2.0 / (PI * 1.5 * (1.0 + (tau / 1.5).powi(2)))).ln() + z[1];
    let p = sigmoid(z[2]);
    let rho = -1.0 + 4.0 * p;
    log_p += -4f64.ln() + (4.0 * p * (1.0 - p)).ln();
    for u in &z[3..5] {
        log_p += log_normal_density(2.0 + u.exp(), 4.0, 1.0) + u;
    }
    log_p += log_normal_density(-1.0 - z[5].exp(), -2.0, 1.0) + z[5];
    let cut = [z[6], z[6] + z[7].exp(), z[6] + z[7].exp() + z[8].exp()];
    log_p += cut.iter().map(|c| log_normal_density(*c, 0.0, 2.0)).sum::<f64>() + z[7] + z[8];
    let (first, second) = (sigmoid(z[9] - 2f64.ln()), sigmoid(z[10]));
    let share = [first, (1.0 - first) * second, (1.0 - first) * (1.0 - second)];
    // Γ(6)/Γ(2)³ = 120
    log_p += 120f64.ln() + share.iter().map(|x| x.ln()).sum::<f64>();
    log_p += (first * (1.0 - first)).ln() + (second * (1.0 - second) * (1.0 - first)).ln();
    let t = [z[11].tanh(), z[12].tanh(), z[13].tanh()];
    let rest = t.map(|t| 1.0 - t * t);
    let (l22, l33) = (rest[0].sqrt(), (rest[1] * rest[2]).sqrt());
    // det(LLᵀ)^(η − 1) L₂₂ at η = 2, over 2⁸ B(5/2, 5/2)² · 2³ B(2, 2), with B(5/2, 5/2) = 3π/128 and B(2, 2) = 1/6
    let constant = (2.0f64.powi(8) * (3.0 * PI / 128.0).powi(2) * 8.0 / 6.0).ln();
    log_p += 2.0 * (l22 * l33).ln() + l22.ln() - constant;
    log_p += rest.iter().map(|r| r.ln()).sum::<f64>() + 0.5 * rest[1].ln();
    let effect = &z[14..18];
    log_p += effect.iter().map(|e| log_normal_density(*e, mu, tau)).sum::<f64>();
    let likelihoods: Vec<f64> =
        Y.iter().zip(GROUP).map(|(y, g)| log_normal_density(*y, effect[g] + rho, NOISE)).collect();
    (log_p + likelihoods.iter().sum::<f64>(), likelihoods)
}

fn find<'a>(quantities: &'a [Quantity], name: &str) -> &'a Quantity {
    quantities.iter().find(|q| q.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Sample mean and variance are those given, within five standard errors, which are taken from the sample.
fn assert_moments(what: &str, values: &[f64], expected: f64, variance: f64) {
    let found = mean(values);
    assert!((found.value - expected).abs() < 5.0 * found.se, "{what}: mean {found:?}, not {expected}");
    let squares: Vec<f64> = values.iter().map(|x| (x - expected).powi(2)).collect();
    let spread = mean(&squares);
    assert!((spread.value - variance).abs() < 5.0 * spread.se, "{what}: variance {spread:?}, not {variance}");
}

#[test]
fn the_log_density_with_its_jacobian_is_the_one_written_by_hand() {
    let model = everything();
    assert_eq!(model.dim(), FREE);
    // As many rows as observations or group effects are no special case.
    for rows in [1, 3, 4, 5, 40] {
        let z = places(rows);
        for (z, found) in z.iter().zip(log_density(&model, &z).expect("values")) {
            let expected = by_hand(z).0;
            assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} is not {expected} at {z:?}");
        }
    }
}

#[test]
fn constrained_draws_satisfy_their_constraints() {
    let z: Vec<Vec<f64>> = places(2300).iter().map(|z| z.iter().map(|u| 3.0 * u).collect()).collect();
    let quantities = everything().quantities(&z, 1).expect("quantities");
    let of = |name| find(&quantities.parameters, name);
    for q in &quantities.parameters {
        assert_eq!(q.values.len(), z.len() * q.size(), "{}", q.name);
        assert!(q.values.iter().all(|x| x.is_finite()), "{}", q.name);
    }
    assert_eq!(of("mu").values, z.iter().map(|z| z[0]).collect::<Vec<_>>(), "draw by draw, over all pieces");
    assert!(of("tau").values.iter().all(|x| *x > 0.0));
    assert!(of("rho").values.iter().all(|x| (-1.0..=3.0).contains(x)));
    assert!(of("low").values.iter().all(|x| *x >= 2.0) && of("high").values.iter().all(|x| *x <= -1.0));
    assert!(of("cut").values.chunks(3).all(|c| c[0] < c[1] && c[1] < c[2]));
    for share in of("share").values.chunks(3) {
        assert!(share.iter().all(|x| *x > 0.0) && (share.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{share:?}");
    }
    for l in of("L").values.chunks(9) {
        assert!(l[1] == 0.0 && l[2] == 0.0 && l[5] == 0.0 && l[0] > 0.0 && l[4] > 0.0 && l[8] > 0.0, "{l:?}");
    }
    for r in find(&quantities.generated, "R").values.chunks(9) {
        assert!([0, 4, 8].iter().all(|i| (r[*i] - 1.0).abs() < 1e-12), "{r:?} is no correlation matrix");
    }
}

#[test]
fn elements_are_named_as_stan_names_them() {
    let model = everything();
    let names = "mu tau rho low[1] low[2] high cut[1] cut[2] cut[3] share[1] share[2] share[3] L[1,1] L[1,2] L[1,3] \
                 L[2,1] L[2,2] L[2,3] L[3,1] L[3,2] L[3,3] effect[1] effect[2] effect[3] effect[4]";
    assert_eq!(model.names(), names.split_whitespace().collect::<Vec<_>>());
    let quantities = model.quantities(&places(2), 1).expect("quantities");
    let names = |list: &[Quantity]| list.iter().flat_map(Quantity::names).collect::<Vec<_>>();
    assert_eq!(names(&quantities.parameters), model.names());
    assert_eq!(names(&quantities.generated)[..4], ["spread", "twice[1]", "twice[2]", "twice[3]"]);
    assert_eq!(names(&quantities.log_likelihood), ["y[1]", "y[2]", "y[3]", "y[4]", "y[5]"]);
    assert_eq!(names(&quantities.predictive), names(&quantities.log_likelihood));
    let cube = Quantity { name: "c".to_owned(), shape: vec![2, 1, 2], values: vec![] };
    assert_eq!(cube.names(), ["c[1,1,1]", "c[1,1,2]", "c[2,1,1]", "c[2,1,2]"]);
    let table = Quantity { name: "t".to_owned(), shape: vec![2], values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    assert_eq!((table.size(), table.column(1)), (2, vec![2.0, 4.0, 6.0]));
}

#[test]
fn pointwise_log_likelihoods_and_generated_quantities_are_those_of_the_draws() {
    // More than one piece of draws, the last not full.
    let z = places(1203);
    let quantities = everything().quantities(&z, 3).expect("quantities");
    let likelihood = find(&quantities.log_likelihood, "y");
    assert_eq!(likelihood.values.len(), z.len() * Y.len());
    for (z, found) in z.iter().zip(likelihood.values.chunks(Y.len())) {
        for (found, expected) in found.iter().zip(by_hand(z).1) {
            assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found} is not {expected}");
        }
    }
    let (cut, spread) = (find(&quantities.parameters, "cut"), find(&quantities.generated, "spread"));
    assert!(cut.values.chunks(3).zip(&spread.values).all(|(c, s)| (c[2] - c[0] - s).abs() < 1e-12));
    let (share, twice) = (find(&quantities.parameters, "share"), find(&quantities.generated, "twice"));
    assert!(share.values.iter().zip(&twice.values).all(|(s, t)| 2.0 * s == *t));
}

#[test]
fn predictive_draws_have_the_moments_of_the_likelihood_and_follow_the_seed() {
    let z = vec![places(1)[0].clone(); 20_000];
    let model = everything();
    let quantities = model.quantities(&z, 5).expect("quantities");
    let (effect, rho) = (&find(&quantities.parameters, "effect").values, find(&quantities.parameters, "rho").values[0]);
    let predictive = find(&quantities.predictive, "y");
    for (i, group) in GROUP.iter().enumerate() {
        assert_moments(&format!("y[{}]", i + 1), &predictive.column(i), effect[*group] + rho, NOISE * NOISE);
    }
    assert_eq!(*predictive, model.quantities(&z, 5).expect("quantities").predictive[0]);
    assert_ne!(*predictive, model.quantities(&z, 6).expect("quantities").predictive[0]);
}

#[test]
fn counts_and_categories_are_predicted_with_their_own_parameters() {
    let model = Model::new(|m| {
        let a = m.reals("a", 3, normal(0.0, 1.0));
        m.observe("n", &[1.0, 0.0, 4.0], poisson_log(a));
        m.observe("b", &[1.0, 0.0], bernoulli_logit(a.slice(1, 0..2)));
        m.observe("c", &[2.0, 0.0, 1.0, 1.0], categorical_logit(a.expand(1)));
    });
    let (model, a) = (model.expect("a model"), [0.4f64, -0.7, 1.1]);
    let quantities = model.quantities(&vec![a.to_vec(); 20_000], 2).expect("quantities");
    let (n, b, c) = (&quantities.predictive[0], &quantities.predictive[1], &quantities.predictive[2]);
    for (i, a) in a.iter().enumerate() {
        assert_moments("poisson", &n.column(i), a.exp(), a.exp());
    }
    for (i, a) in a.iter().take(2).enumerate() {
        let p = sigmoid(*a);
        assert_moments("bernoulli", &b.column(i), p, p * (1.0 - p));
    }
    let total: f64 = a.iter().map(|a| a.exp()).sum();
    for i in 0..4 {
        for (k, a) in a.iter().enumerate() {
            let hits: Vec<f64> = c.column(i).iter().map(|x| f64::from(*x == k as f64)).collect();
            let p = a.exp() / total;
            assert_moments("categorical", &hits, p, p * (1.0 - p));
        }
    }
    let expected = [2, 0, 1, 1].map(|k: usize| a[k] - total.ln());
    let found = &quantities.log_likelihood[2].values[..4];
    assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-12), "{found:?} are not {expected:?}");
}

const COUNTS: [f64; 6] = [3.0, 1.0, 6.0, 0.0, 2.0, 1.0];
const POINTS: [f64; 6] = [1.0, 0.5, -0.3, 2.0, 0.2, 0.1];

/// Two rows of counts and three of points, all with parameters that are learned.
fn vectors() -> Model {
    let model = Model::new(|m| {
        let logits = m.reals("logits", 3, normal(0.0, 1.0));
        let place = m.reals("place", 2, normal(0.0, 3.0));
        let scale = m.positives("scale", 2, half_normal(2.0));
        let factor = m.correlation_cholesky("L", 2, lkj_cholesky(1.0));
        m.observe_rows("counts", 3, &COUNTS, multinomial_logit(logits.expand(1)));
        let lower = scale.expand(2) * factor;
        m.observe_rows("points", 2, &POINTS, multivariate_normal_cholesky(place.expand(1), lower.expand(1)));
    });
    model.expect("a model")
}

#[test]
fn vectors_are_observed_row_by_row_whatever_the_number_of_draws() {
    let model = vectors();
    let z = [0.3f64, -0.2, 0.5, 0.4, -0.1, 0.2, -0.3, 0.6];
    let (correlation, sd) = (z[7].tanh(), [z[5].exp(), z[6].exp()]);
    let total = z[..3].iter().map(|l| l.exp()).sum::<f64>().ln();
    let log_multinomial =
        |counts: &[f64], ways: f64| counts.iter().zip(&z).map(|(n, l)| n * (l - total)).sum::<f64>() + ways.ln();
    // 10!/(3! 1! 6!) and 3!/(0! 2! 1!)
    let counts = [log_multinomial(&COUNTS[..3], 840.0), log_multinomial(&COUNTS[3..], 3.0)];
    let points: Vec<f64> = POINTS
        .chunks(2)
        .map(|x| {
            let (a, b) = ((x[0] - z[3]) / sd[0], (x[1] - z[4]) / sd[1]);
            let rest = 1.0 - correlation * correlation;
            -0.5 * (a * a + b * b - 2.0 * correlation * a * b) / rest
                - TAU.ln()
                - (sd[0] * sd[1]).ln()
                - 0.5 * rest.ln()
        })
        .collect();
    // Among them as many draws as there are rows of either.
    for draws in [1, 2, 3, 7] {
        let quantities = model.quantities(&vec![z.to_vec(); draws], 1).expect("quantities");
        for (q, expected) in quantities.log_likelihood.iter().zip([&counts[..], &points]) {
            assert_eq!(q.values.len(), draws * expected.len());
            for (found, expected) in q.values.iter().zip(expected.repeat(draws)) {
                assert!((found - expected).abs() < 1e-12, "{draws} draws of {}: {found}, not {expected}", q.name);
            }
        }
        assert_eq!(
            (quantities.predictive[0].shape.clone(), quantities.predictive[1].shape.clone()),
            (vec![2, 3], vec![3, 2])
        );
        for q in &quantities.predictive {
            assert_eq!(q.values.len(), draws * q.size(), "{draws} draws of {}", q.name);
            assert!(q.values.iter().all(|x| x.is_finite()));
        }
        for drawn in quantities.predictive[0].values.chunks(6) {
            assert_eq!((drawn[..3].iter().sum::<f64>(), drawn[3..].iter().sum::<f64>()), (10.0, 3.0), "trials stay");
        }
    }
}

#[test]
fn predicted_vectors_have_the_moments_of_their_families() {
    let z = [0.3f64, -0.2, 0.5, 0.4, -0.1, 0.2, -0.3, 0.6];
    let quantities = vectors().quantities(&vec![z.to_vec(); 20_000], 4).expect("quantities");
    let (counts, points) = (&quantities.predictive[0], &quantities.predictive[1]);
    let total: f64 = z[..3].iter().map(|l| l.exp()).sum();
    for i in 0..6 {
        let (trials, p) = ([10.0, 3.0][i / 3], z[i % 3].exp() / total);
        assert_moments("multinomial", &counts.column(i), trials * p, trials * p * (1.0 - p));
        assert_moments("normal vector", &points.column(i), z[3 + i % 2], (2.0 * z[5 + i % 2]).exp());
    }
    let products: Vec<f64> =
        points.column(2).iter().zip(points.column(3)).map(|(a, b)| (a - z[3]) * (b - z[4])).collect();
    let covariance = mean(&products);
    assert!((covariance.value - z[7].tanh() * (z[5] + z[6]).exp()).abs() < 5.0 * covariance.se, "{covariance:?}");
}

#[test]
fn waiting_times_may_be_weibull() {
    let times = [0.4, 1.3, 2.2];
    let model = Model::new(move |m| {
        let shape = m.positive("shape", weibull(2.0, 1.5));
        let scale = m.positive("scale", weibull(1.0, 3.0));
        m.observe("times", &times, weibull(shape, scale));
    });
    let (model, z) = (model.expect("a model"), [0.3f64, -0.2]);
    let log = |x: f64, k: f64, s: f64| (k / s).ln() + (k - 1.0) * (x / s).ln() - (x / s).powf(k);
    let (k, s) = (z[0].exp(), z[1].exp());
    let data: f64 = times.iter().map(|t| log(*t, k, s)).sum();
    let expected = log(k, 2.0, 1.5) + z[0] + log(s, 1.0, 3.0) + z[1] + data;
    let found = log_density(&model, &[z.to_vec()]).expect("values")[0];
    assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    let drawn = model.prior(20_000, 3).expect("draws");
    // A Rayleigh number and an exponential one.
    assert_moments("shape", &drawn.parameters[0].values, 1.5 * PI.sqrt() / 2.0, 2.25 * (1.0 - PI / 4.0));
    assert_moments("scale", &drawn.parameters[1].values, 3.0, 9.0);
    assert!(drawn.predictive[0].values.iter().all(|t| *t >= 0.0));
}

#[test]
fn hierarchical_priors_are_drawn_from_the_top_down() {
    let model = Model::new(|m| {
        let mu = m.real("mu", normal(1.0, 2.0));
        let tau = m.positive("tau", gamma(3.0, 2.0));
        let theta = m.reals("theta", 2, normal(mu, tau));
        m.observe("y", &[0.0, 0.0, 0.0], normal(theta.slice(1, 0..1), 1.5));
    });
    let drawn = model.expect("a model").prior(20_000, 7).expect("draws");
    let of = |name: &str, i: usize| find(&drawn.parameters, name).column(i);
    assert_moments("mu", &of("mu", 0), 1.0, 4.0);
    assert_moments("tau", &of("tau", 0), 1.5, 0.75);
    // E tau² = 0.75 + 1.5²
    let within = 3.0;
    assert_moments("theta[1]", &of("theta", 0), 1.0, 4.0 + within);
    assert_moments("theta[2]", &of("theta", 1), 1.0, 4.0 + within);
    let difference = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
    assert_moments("theta[1] − theta[2]", &difference(&of("theta", 0), &of("theta", 1)), 0.0, 2.0 * within);
    let y = find(&drawn.predictive, "y");
    assert_eq!(y.shape, [3]);
    assert_moments("y[3]", &y.column(2), 1.0, 4.0 + within + 2.25);
    assert_moments("y[3] − theta[1]", &difference(&y.column(2), &of("theta", 0)), 0.0, 2.25);
}

#[test]
fn prior_draws_satisfy_the_constraints() {
    let drawn = everything().prior(4000, 3).expect("draws");
    let of = |name| &find(&drawn.parameters, name).values;
    assert!(of("tau").iter().all(|x| *x > 0.0) && of("rho").iter().all(|x| (-1.0..=3.0).contains(x)));
    assert!(of("low").iter().all(|x| *x > 2.0), "a normal prior is cut off at the bound");
    assert!(of("high").iter().all(|x| *x < -1.0));
    assert!(of("cut").chunks(3).all(|c| c[0] < c[1] && c[1] < c[2]));
    assert!(of("share").chunks(3).all(|s| (s.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    assert!(of("L").chunks(9).all(|l| (l[3] * l[3] + l[4] * l[4] - 1.0).abs() < 1e-12 && l[1] == 0.0));
    assert_eq!(find(&drawn.parameters, "L").values.len(), 4000 * 9);
    // Dirichlet(2, 2, 2)
    assert_moments("share[1]", &find(&drawn.parameters, "share").column(0), 1.0 / 3.0, 8.0 / (36.0 * 7.0));
    // A normal number cut off at 0, as Stan programs have it, is a half-normal one.
    let half = Model::new(|m| {
        m.positive("s", normal(0.0, 1.0));
    });
    let half = half.expect("a model").prior(20_000, 1).expect("draws");
    assert_moments("s", &half.parameters[0].values, (2.0 / PI).sqrt(), 1.0 - 2.0 / PI);
}

#[test]
fn a_prior_is_not_normalised_within_the_bounds_of_its_parameter() {
    let cut = Model::new(|m| {
        m.positive("s", normal(0.0, 1.7));
    });
    let half = Model::new(|m| {
        m.positive("s", half_normal(1.7));
    });
    let (cut, half) = (cut.expect("a model"), half.expect("a model"));
    let step = 1e-2;
    let z: Vec<Vec<f64>> = (-4000..1000).map(|i| vec![f64::from(i) * step]).collect();
    let (cut, half) = (log_density(&cut, &z).expect("values"), log_density(&half, &z).expect("values"));
    assert!(cut.iter().zip(&half).all(|(c, h)| (h - c - 2f64.ln()).abs() <= 1e-12 * c.abs().max(1.0)), "ln 2 at each");
    let evidence = |log: &[f64]| log.iter().map(|l| l.exp()).sum::<f64>() * step;
    assert!((evidence(&cut) - 0.5).abs() < 1e-12 && (evidence(&half) - 1.0).abs() < 1e-12);
}

#[test]
fn priors_of_vectors_are_drawn_whatever_the_number_of_draws() {
    let model = Model::new(|m| {
        let factor = m.correlation_cholesky("L", 2, lkj_cholesky(1.0));
        let center = m.data(&[1.0, -1.0]);
        let slopes = m.parameter("slopes", Constraint::Real, 2, multivariate_normal_cholesky(center, factor));
        m.observe_rows("x", 2, &POINTS, multivariate_normal_cholesky(slopes.expand(1), factor.expand(1)));
    });
    let model = model.expect("a model");
    for draws in [1, 2, 3, 20_000] {
        let drawn = model.prior(draws, 2).expect("draws");
        let (slopes, x) = (find(&drawn.parameters, "slopes"), find(&drawn.predictive, "x"));
        assert_eq!((slopes.values.len(), x.values.len()), (2 * draws, 6 * draws), "{draws} draws");
        assert!(x.values.iter().all(|x| x.is_finite()));
        if draws > 1000 {
            assert_moments("slopes[1]", &slopes.column(0), 1.0, 1.0);
            assert_moments("slopes[2]", &slopes.column(1), -1.0, 1.0);
            assert_moments("x[3,2]", &x.column(5), -1.0, 2.0);
            // Each pair has its own correlation ρ, uniform between −1 and 1: E ρ² = 1/3.
            let correlations = find(&drawn.parameters, "L").column(2);
            let pairs = slopes.values.chunks(2).zip(&correlations);
            let products: Vec<f64> = pairs.map(|(s, rho)| (s[0] - 1.0) * (s[1] + 1.0) * rho).collect();
            let found = mean(&products);
            assert!((found.value - 1.0 / 3.0).abs() < 5.0 * found.se, "{found:?}");
        }
    }
}

#[test]
fn improper_priors_have_no_draws() {
    let flat = Model::new(|m| {
        m.real("a", normal(0.0, 1.0));
        let b = m.flat("b", 2);
        m.observe("y", &[1.0, 2.0], normal(b, 1.0));
    });
    let error = flat.expect("a model").prior(100, 1).expect_err("an improper prior");
    assert!(matches!(&error, mcvi::Error::CannotDraw { name, .. } if name == "b"), "{error}");
    assert!(error.to_string().contains("`b` cannot be drawn: its prior is flat"), "{error}");
    let outside = Model::new(|m| {
        m.parameter("far", Constraint::lower(100.0), 1, normal(0.0, 1.0));
    });
    let error = outside.expect("a model").prior(10, 1).expect_err("no draw lies there").to_string();
    assert!(error.contains("`far` cannot be drawn: next to nothing of its prior, normal(0, 1)"), "{error}");
}

#[test]
fn a_flat_prior_adds_the_jacobian_and_nothing_else() {
    let model = Model::new(|m| {
        m.real("a", flat());
        m.reals("b", 2, flat());
        m.positive("tau", flat());
        m.interval("p", -1.0, 3.0, flat());
        m.ordered("cut", 2, flat());
        m.simplex("share", 2, flat());
        m.correlation_cholesky("L", 2, flat());
        m.flat("c", 1);
    });
    let (model, z) = (model.expect("a model"), [0.3f64, -4.0, 2.0, 0.7, -0.4, 1.2, 0.9, 0.2, -0.6, 5.0]);
    let found = log_density(&model, &[z.to_vec()]).expect("values")[0];
    let (p, q) = (sigmoid(z[4]), sigmoid(z[7]));
    let expected = z[3] + (4.0 * p * (1.0 - p)).ln() + z[6] + (q * (1.0 - q)).ln() + (1.0 - z[8].tanh().powi(2)).ln();
    assert!((found - expected).abs() < 1e-13, "{found}, not {expected}");
}

#[test]
fn a_flat_prior_gives_the_posterior_of_the_likelihood_alone() {
    // y ~ N(0, σ²) with σ flat: σ² given y is inverse gamma, (n − 1)/2 and Σy²/2.
    let y = [1.2, -0.7, 2.1, 0.3, -1.5, 0.9, -0.2, 1.8, -2.4, 0.6, 1.1, -0.8];
    let model = Model::new(move |m| {
        let sigma = m.positive("sigma", flat());
        m.observe("y", &y, normal(0.0, sigma));
    });
    let model = model.expect("a model");
    let squares: f64 = y.iter().map(|y| y * y).sum();
    let (n, step) = (y.len() as f64, 1e-3);
    let grid: Vec<f64> = (-3000..4000).map(|i| f64::from(i) * step).collect();
    let z: Vec<Vec<f64>> = grid.iter().map(|u| vec![*u]).collect();
    let log_evidence = log_density(&model, &z).expect("values").iter().map(|l| l.exp()).sum::<f64>().ln() + step.ln();
    // ∫ (2π)^(−n/2) σ^(−n) exp(−S/2σ²) dσ = (2π)^(−n/2) ½ Γ((n − 1)/2) (S/2)^(−(n − 1)/2), and Γ(11/2) = 945 √π/32
    let half = (n - 1.0) / 2.0;
    let gamma = (945.0 * PI.sqrt() / 32.0f64).ln();
    let expected = -0.5 * n * TAU.ln() + 0.5f64.ln() + gamma - half * (squares / 2.0).ln();
    assert!((log_evidence - expected).abs() < 1e-9, "{log_evidence}, not {expected}");
}

type Declare = Box<dyn for<'g> Fn(&Builder<'g>) -> mcvi_expr::Expr<'g> + Send + Sync>;

#[test]
fn priors_that_cannot_be_used_are_named() {
    let infinite = |m: &Builder<'_>| {
        m.positive("tau", uniform(0.0, f64::INFINITY));
    };
    says("an infinite uniform", infinite, &["the prior of `tau`", "finite bounds", "`flat()`"]);
    for (low, high) in [(1.0, 0.0), (2.0, 2.0), (f64::NAN, 1.0)] {
        let reversed = move |m: &Builder<'_>| {
            m.real("a", uniform(low, high));
        };
        says("bounds the wrong way round", reversed, &["the prior of `a`", "the lower one first"]);
    }
    let negative = |m: &Builder<'_>| {
        m.real("a", normal(0.0, -1.0));
    };
    says("a negative scale", negative, &["the prior of `a`", "normal(0, -1)", "outside their domain"]);
    let cases: Vec<(&str, Declare, &str)> = vec![
        ("a half-normal real", Box::new(|m| m.real("a", half_normal(1.0))), "`m.positive`"),
        ("a gamma that rises", Box::new(|m| m.ordered("a", 3, gamma(1.0, 1.0))), "`m.positive_ordered`"),
        ("a uniform that is cut off", Box::new(|m| m.positive("a", uniform(0.0, 5.0))), "between 0 and 5"),
        ("a beta above one", Box::new(|m| m.interval("a", 0.0, 2.0, beta(1.0, 1.0))), "between 0 and 1"),
        ("a discrete prior", Box::new(|m| m.positive("a", poisson_log(0.0))), "continuous"),
        ("positive probabilities", Box::new(|m| m.positives("a", 3, dirichlet(1.0))), "`m.simplex`"),
        ("a matrix for a vector", Box::new(|m| m.reals("a", 3, lkj_cholesky(1.0))), "`m.correlation_cholesky`"),
    ];
    for (what, define, remedy) in cases {
        let define = move |m: &Builder<'_>| {
            define(m);
        };
        says(what, define, &["the prior of `a`", remedy]);
    }
    let fitting = Model::new(|m| {
        m.interval("a", 0.0, 1.0, gamma(1.0, 1.0));
        m.interval("b", 0.1, 0.9, beta(1.0, 1.0));
        m.parameter("c", Constraint::lower(2.0), 1, half_normal(1.0));
        m.simplex("d", 3, beta(1.0, 1.0));
    });
    assert!(fitting.is_ok(), "a prior may reach further than its parameter");
    let flat_data = |m: &Builder<'_>| {
        m.real("a", normal(0.0, 1.0));
        m.observe("y", &[1.0], flat());
    };
    says("a flat observation", flat_data, &["`y`", "proper"]);
    let negative = |m: &Builder<'_>| {
        m.real("a", normal(0.0, 1.0));
        m.observe("y", &[1.0], normal(0.0, 0.0));
    };
    says("an observation without spread", negative, &["`y`", "outside their domain"]);
}

fn approximation(model: Model, center: f64, sd: f64) -> Approximation {
    let start = Initialisation::new(&[center], &[sd]).expect("a start");
    Approximation::from(Arc::new(model), Chain::new(Gaussian::diagonal()), start).expect("an approximation")
}

/// A mean of twelve numbers, three of them for each gradient, or all.
fn subsampled(size: usize) -> Model {
    let y: Vec<f64> = (0..12).map(|i| f64::from(i * i) / 20.0 - 1.0).collect();
    let model = Model::new(move |m| {
        let theta = m.real("theta", normal(0.0, 2.0));
        let batch = m.minibatch(12, size);
        let x = m.data(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]);
        m.observe_some("y", &batch, &y, normal(theta * batch.of(x), 1.0));
    });
    model.expect("a model")
}

#[test]
fn a_minibatch_has_the_expected_log_density_of_all_observations() {
    let (some, all) = (approximation(subsampled(3), 0.8, 0.3), approximation(subsampled(12), 0.8, 0.3));
    assert!(subsampled(3).is_subsampled() && !subsampled(12).is_subsampled());
    // The bound is a quadratic's expectation: from all observations the average of many draws is nearly exact.
    let expected = mean(&all.bounds(400_000, Choices::Average, 1).expect("bounds"));
    // Draws of one evaluation share a minibatch, so that evaluations are what is independent.
    let bounds = some.bounds(1_000_000, Choices::Average, 2).expect("bounds");
    let evaluations: Vec<f64> = bounds.chunks(1000).map(|b| mean(b).value).collect();
    let found = mean(&evaluations);
    assert!((found.value - expected.value).abs() < 4.0 * found.se.hypot(expected.se), "{found:?}, not {expected:?}");
    assert!(found.se > 10.0 * mean(&bounds).se, "other observations each time");
    let (seeds, gradient) = (1500, |a: &Approximation, seed| a.gradient(64, seed).expect("a gradient"));
    let (_, names) = gradient(&some, 0);
    for (i, (name, width)) in names.iter().map(|(name, g)| (name, g.len())).enumerate() {
        assert_eq!(width, 1);
        let [some, all] = [&some, &all].map(|a| {
            let values: Vec<f64> = (0..seeds).map(|seed| gradient(a, seed).1[i].1[0]).collect();
            mean(&values)
        });
        let off = (some.value - all.value).abs();
        assert!(off < 4.0 * some.se.hypot(all.se), "the gradient in {name}: {some:?}, not {all:?}");
        assert!(some.value.abs() > 5.0 * some.se || name.contains("scale"), "something to be compared: {some:?}");
    }
}

#[test]
fn draws_and_all_that_follows_from_them_use_all_observations() {
    let (model, all) = (subsampled(3), subsampled(12));
    let draws = approximation(model.clone(), 0.8, 0.3).draw(500, 3).expect("draws");
    assert_eq!(draws, approximation(all.clone(), 0.8, 0.3).draw(500, 3).expect("draws"));
    for (found, expected) in draws.log_p.iter().zip(log_density(&all, &draws.z).expect("values")) {
        assert!((found - expected).abs() < 1e-12 * expected.abs(), "{found} is not {expected}");
    }
    assert_eq!(model.quantities(&draws.z, 1).expect("quantities"), all.quantities(&draws.z, 1).expect("quantities"));
    assert_eq!(model.observations().expect("observations")[0].shape, [12]);
}

#[test]
fn constants_may_be_added_whatever_the_number_of_rows() {
    let model = Model::new(|m| {
        let z = m.flat("z", 2);
        let constants = m.data(&[1.0, 2.0, 4.0]);
        m.add(constants);
        m.add(z.square() * -0.5);
        m.add(m.graph().scalar(z.dtype(), 8.0));
        m.add(z.sum(&[1]));
    });
    let model = model.expect("a model");
    for rows in 1..6 {
        let z: Vec<Vec<f64>> = (0..rows).map(|i| vec![0.5 * i as f64, -1.0]).collect();
        for (z, found) in z.iter().zip(log_density(&model, &z).expect("values")) {
            let expected = 15.0 - 0.5 * (z[0] * z[0] + z[1] * z[1]) + z[0] + z[1];
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected} in {rows} rows");
        }
    }
}

#[test]
fn one_call_may_stand_inside_another() {
    let y = [0.5, -1.0, 2.0];
    let model = Model::new(move |m| {
        let b = m.reals("b", 2, normal(0.0, 1.0));
        let s = m.positive("s", half_normal(1.0));
        m.observe("y", &y, normal(b.matmul(m.matrix(3, &[1.0, 2.0, 3.0, -1.0, 0.0, 1.0])), s));
        m.observe("z", &y, normal(m.generated("shifted", b.slice(1, 0..1) + 1.0) * m.data(&y), 1.0));
        m.generated("first", m.real("c", normal(0.0, 1.0)) + b.take(1, m.index(&[0])));
    });
    let (b, s) = ([0.3, -0.2], 0.4f64.exp());
    let quantities = model.expect("a model").quantities(&[vec![b[0], b[1], 0.4, 1.0]], 1).expect("quantities");
    let expected = (0..3).map(|i| {
        let mean = b[0] * (i + 1) as f64 + b[1] * (i as f64 - 1.0);
        log_normal_density(y[i], mean, s)
    });
    let found = &quantities.log_likelihood[0].values;
    assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-12), "{found:?}");
    assert_eq!(find(&quantities.generated, "first").values, [1.3]);
}

#[test]
fn positive_numbers_in_order_are_order_statistics() {
    let model = Model::new(|m| {
        m.positive_ordered("wait", 3, exponential(2.0));
        m.positive_ordered("one", 1, exponential(1.0));
    });
    let model = model.expect("a model");
    assert_eq!(model.names(), ["wait[1]", "wait[2]", "wait[3]", "one[1]"]);
    let z = [0.3f64, -0.4, 0.9, -1.0];
    let wait = [z[0].exp(), z[0].exp() + z[1].exp(), z[0].exp() + z[1].exp() + z[2].exp()];
    let expected = 3.0 * 2f64.ln() - 2.0 * wait.iter().sum::<f64>() - z[3].exp() + z.iter().sum::<f64>();
    let found = log_density(&model, &[z.to_vec()]).expect("values")[0];
    assert!((found - expected).abs() < 1e-13, "{found}, not {expected}");
    // The least of three has mean 1/6, the steps to the others 1/4 and 1/2.
    let drawn = model.prior(20_000, 3).expect("draws");
    let wait = find(&drawn.parameters, "wait");
    assert!(wait.values.chunks(3).all(|w| 0.0 < w[0] && w[0] < w[1] && w[1] < w[2]));
    assert_moments("wait[1]", &wait.column(0), 1.0 / 6.0, 1.0 / 36.0);
    assert_moments("wait[3]", &wait.column(2), 11.0 / 12.0, 1.0 / 36.0 + 1.0 / 16.0 + 0.25);
}

#[test]
fn bounds_may_be_parameters_and_data() {
    let model = Model::new(|m| {
        let x = m.interval("x", 0.0, 1.0, uniform(0.0, 1.0));
        let y = m.interval("y", 0.0, x, uniform(0.0, x));
        m.upper("z", y, normal(y, 1.0));
        let seen = m.data(&[1.0, 2.5]);
        m.parameter("t", Constraint::lower(seen), 2, normal(2.0, x + 1.0));
        m.generated("gap", x - y);
    });
    let model = model.expect("a model");
    for u in [[0.3, -0.8, 0.2, 1.1, -0.4], [-2.0, 3.0, -1.0, 0.0, 2.0]] {
        let (p, q) = (sigmoid(u[0]), sigmoid(u[1]));
        let (x, y) = (p, p * q);
        let z = y - f64::exp(u[2]);
        let t = [1.0 + f64::exp(u[3]), 2.5 + f64::exp(u[4])];
        let expected = (p * (1.0 - p)).ln() - x.ln()
            + (x * q * (1.0 - q)).ln()
            + log_normal_density(z, y, 1.0)
            + u[2]
            + log_normal_density(t[0], 2.0, x + 1.0)
            + log_normal_density(t[1], 2.0, x + 1.0)
            + u[3]
            + u[4];
        let quantities = model.quantities(&vec![u.to_vec(); 2], 1).expect("quantities");
        for rows in 1..4 {
            let found = log_density(&model, &vec![u.to_vec(); rows]).expect("values");
            assert!((found[0] - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found:?}, not {expected}");
        }
        let found: Vec<f64> = quantities.parameters.iter().flat_map(|q| q.values[..q.size()].to_vec()).collect();
        assert!(found.iter().zip([x, y, z, t[0], t[1]]).all(|(f, e)| (f - e).abs() < 1e-14), "{found:?}");
    }
    // Prior draws stay within bounds that differ from draw to draw.
    let drawn = model.prior(20_000, 3).expect("draws");
    let of = |name: &str| &find(&drawn.parameters, name).values;
    assert!(of("y").iter().zip(of("x")).all(|(y, x)| (0.0..=*x).contains(y)));
    assert!(of("z").iter().zip(of("y")).all(|(z, y)| z < y));
    assert!(of("t").chunks(2).all(|t| t[0] > 1.0 && t[1] > 2.5));
    // E y = E x/2, E y² = E x²/3
    assert_moments("y", of("y"), 0.25, 1.0 / 9.0 - 1.0 / 16.0);
}

#[test]
fn a_density_on_bounds_that_are_parameters_integrates_to_one() {
    let model = Model::new(|m| {
        let x = m.interval("x", 0.0, 1.0, uniform(0.0, 1.0));
        m.interval("y", x * 0.5, x + 1.0, uniform(x * 0.5, x + 1.0));
    });
    let model = model.expect("a model");
    let step = 0.1;
    let grid: Vec<f64> = (-400..=400).map(|i| f64::from(i) * step).collect();
    let z: Vec<Vec<f64>> = grid.iter().flat_map(|a| grid.iter().map(|b| vec![*a, *b])).collect();
    let total: f64 = log_density(&model, &z).expect("values").iter().map(|l| l.exp()).sum::<f64>() * step * step;
    assert!((total - 1.0).abs() < 1e-10, "{total}");
}

#[test]
fn bounds_that_do_not_fit_are_named() {
    let wide = |m: &Builder<'_>| {
        let seen = m.data(&[1.0, 2.5]);
        m.lower("t", seen, flat());
    };
    says("two bounds for one number", wide, &["`t`: its bounds do not fit", "[2, 2]"]);
    let nan = |m: &Builder<'_>| {
        m.upper("t", f64::NAN, flat());
    };
    says("a bound that is no number", nan, &["`t` can have no value", "NaN"]);
}

fn says(what: &str, define: impl for<'g> Fn(&Builder<'g>) + Send + Sync + 'static, says: &[&str]) {
    let error = Model::new(define).map(|m| m.names()).expect_err(what).to_string();
    assert!(says.iter().all(|s| error.contains(s)), "{what} said: {error}");
}

#[test]
fn mistakes_in_names_and_sizes_are_named() {
    let twice = |m: &Builder<'_>| {
        m.real("a", normal(0.0, 1.0));
        m.positive("a", exponential(1.0));
    };
    says("a name used twice", twice, &["`a` is used twice"]);
    let also_observed = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        m.observe("a", &[1.0], normal(a, 1.0));
    };
    says("a parameter's name for data", also_observed, &["`a` is used twice"]);
    let also_generated = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        m.generated("a", a * 2.0);
    };
    says("a parameter's name for a generated quantity", also_generated, &["`a` is used twice"]);
    for name in ["", "a[1]", "a,b", "a/b", "../a"] {
        let bad = move |m: &Builder<'_>| {
            m.real(name, normal(0.0, 1.0));
        };
        says("a bad name", bad, &[&format!("`{name}` is no name"), "letters"]);
    }
    let none = |m: &Builder<'_>| {
        m.reals("a", 0, normal(0.0, 1.0));
    };
    says("no elements", none, &["`a` has no elements"]);
    says("no parameters", |_: &Builder<'_>| {}, &["no parameter"]);
    let fixed = |m: &Builder<'_>| {
        m.simplex("p", 1, dirichlet(1.0));
    };
    says("nothing that varies", fixed, &["no parameter that can vary"]);
    for (low, high) in [(1.0, 0.0), (2.0, 2.0), (f64::NAN, 1.0)] {
        let empty = move |m: &Builder<'_>| {
            m.interval("p", low, high, uniform(0.0, 1.0));
        };
        says("an interval without numbers", empty, &["`p`", "between"]);
    }
}

#[test]
fn mistakes_in_data_are_named() {
    let nan = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        m.observe("y", &[1.0, f64::NAN, 2.0], normal(a, 1.0));
    };
    says("missing data", nan, &["`y` is not a number at position 2", "leave missing observations out"]);
    let lengths = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        let x = m.data(&[1.0, 2.0, 3.0]);
        m.observe("y", &[1.0, 2.0], normal(a * x, 1.0));
    };
    says("data of another length than what predicts them", lengths, &["[2]", "3]"]);
    let ragged = |m: &Builder<'_>| {
        let a = m.reals("a", 3, normal(0.0, 1.0));
        m.observe_rows("y", 3, &[1.0; 7], multinomial_logit(a.expand(1)));
    };
    says("rows that do not come out even", ragged, &["`y`, in rows of 3"]);
    let matrix = |m: &Builder<'_>| {
        m.real("a", normal(0.0, 1.0));
        m.matrix(2, &[1.0, 2.0, 3.0]);
    };
    says("a ragged matrix", matrix, &["a matrix of 2 columns"]);
    for columns in [0, 4] {
        let matrix = move |m: &Builder<'_>| {
            m.real("a", normal(0.0, 1.0));
            m.matrix(columns, &[1.0, 2.0, 3.0]);
        };
        says("a matrix of no rows or columns", matrix, &[&format!("a matrix of {columns} columns")]);
    }
    let shapes = |m: &Builder<'_>| {
        let (a, b) = (m.reals("a", 3, normal(0.0, 1.0)), m.reals("b", 4, normal(0.0, 1.0)));
        m.generated("c", a + b);
    };
    says("vectors of different lengths", shapes, &["`c`", "3]", "4]"]);
    // With two rows, in which a model is checked, neither would stand out.
    let rowless = |m: &Builder<'_>| {
        let a = m.reals("a", 2, normal(0.0, 1.0));
        m.observe("y", &[1.0, 2.0], normal(a.at(1, 0), 1.0));
    };
    says("one number a row for each observation", rowless, &["[2]"]);
    let constant = |m: &Builder<'_>| {
        m.real("a", normal(0.0, 1.0));
        let c = m.data(&[1.0, 2.0]);
        m.generated("c", c);
    };
    says("a constant as a generated quantity", constant, &["`c`", "draw"]);
    let empty = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        m.observe("y", &[], normal(a, 1.0));
    };
    says("no data", empty, &["`y`"]);
}

#[test]
fn what_does_not_fit_its_distribution_is_named() {
    type Observe = Box<dyn for<'g> Fn(&Builder<'g>) -> mcvi_expr::Expr<'g> + Send + Sync>;
    let cases: Vec<(&str, Observe, &str)> = vec![
        (
            "logits of another length",
            Box::new(|m| {
                let a = m.reals("a", 2, normal(0.0, 1.0));
                m.observe_rows("y", 3, &[1.0; 6], multinomial_logit(a.expand(1)))
            }),
            "multinomial_logit([2, 1, 2])",
        ),
        (
            "a mean of another length",
            Box::new(|m| {
                let factor = m.correlation_cholesky("L", 3, lkj_cholesky(1.0));
                m.observe_rows("y", 2, &[1.0; 6], multivariate_normal_cholesky(m.data(&[0.0; 3]), factor.expand(1)))
            }),
            "multivariate_normal_cholesky([3], [2, 1, 3, 3])",
        ),
        (
            "a factor of another size",
            Box::new(|m| {
                let factor = m.correlation_cholesky("L", 3, lkj_cholesky(1.0));
                m.observe_rows("y", 2, &[1.0; 6], multivariate_normal_cholesky(0.0, factor.expand(1)))
            }),
            "multivariate_normal_cholesky(0, [2, 1, 3, 3])",
        ),
        (
            "concentrations without an axis for observations",
            Box::new(|m| {
                let a = m.positives("a", 3, half_normal(1.0));
                m.observe_rows("y", 3, &[0.2, 0.3, 0.5, 0.1, 0.8, 0.1, 0.3, 0.3, 0.4, 0.2, 0.2, 0.6], dirichlet(a))
            }),
            "dirichlet([2, 3])",
        ),
        (
            "a category for each row only",
            Box::new(|m| {
                let a = m.reals("a", 3, normal(0.0, 1.0));
                m.observe("y", &[0.0, 2.0, 1.0, 1.0], categorical_logit(a))
            }),
            "categorical_logit([2, 3])",
        ),
        (
            "a prediction that went wrong before",
            Box::new(|m| {
                let a = m.reals("a", 3, normal(0.0, 1.0));
                m.observe("y", &[0.0, 2.0], normal(a.matmul(m.matrix(2, &[1.0; 4])), 1.0))
            }),
            "matmul",
        ),
    ];
    for (what, observe, distribution) in cases {
        let define = move |m: &Builder<'_>| {
            observe(m);
        };
        says(what, define, &["`y`", "does not fit its distribution", distribution]);
    }
    let vectors = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        m.observe_rows("y", 2, &[0.2, 0.3, 0.5, 0.1], normal(a, 1.0));
    };
    says("vectors for a distribution of numbers", vectors, &["`y`, [2, 2]", "single numbers", "`m.observe`"]);
    let numbers = |m: &Builder<'_>| {
        let a = m.reals("a", 2, normal(0.0, 1.0));
        m.observe("y", &[2.0, 3.0], multinomial_logit(a));
    };
    says("numbers for a distribution of vectors", numbers, &["`y`, [2]", "vectors", "`m.observe_rows`"]);
    let prior = |m: &Builder<'_>| {
        let factor = m.correlation_cholesky("L", 3, lkj_cholesky(1.0));
        m.reals("a", 2, multivariate_normal_cholesky(0.0, factor));
    };
    says("a prior of another size", prior, &["`a`, [2, 2], does not fit its prior", "[2, 3, 3]"]);
}

#[test]
fn mistakes_in_minibatches_are_named() {
    for size in [0, 6] {
        let batch = move |m: &Builder<'_>| {
            let a = m.real("a", normal(0.0, 1.0));
            let batch = m.minibatch(5, size);
            m.observe_some("y", &batch, &[0.0; 5], normal(a, 1.0));
        };
        says("an impossible minibatch", batch, &[&format!("a minibatch of {size} out of 5")]);
    }
    let other = |m: &Builder<'_>| {
        let a = m.real("a", normal(0.0, 1.0));
        let batch = m.minibatch(5, 2);
        m.observe_some("y", &batch, &[0.0; 4], normal(a, 1.0));
    };
    says("another number of observations than was said", other, &["`y`", "4", "5"]);
}

#[test]
fn draws_of_another_length_are_refused() {
    let model = everything();
    for z in [vec![], vec![vec![0.0; FREE - 1]], vec![vec![0.0; FREE], vec![]]] {
        let error = model.quantities(&z, 1).expect_err("not draws of this model").to_string();
        assert!(error.contains("of 18 numbers each"), "{error}");
    }
    assert!(model.prior(0, 1).is_err(), "no draws are a mistake, not a panic");
}

/// −½ zᵀPz + 3 with what is known of it and nothing else.
struct BlackBox;

const PRECISION: [[f64; 2]; 2] = [[2.0, 0.8], [0.8, 1.5]];

impl External for BlackBox {
    fn name(&self) -> &str {
        "box"
    }
    fn dimension(&self) -> usize {
        2
    }
    fn value(&self, z: &[f64]) -> mcvi_expr::Result<f64, String> {
        Ok(3.0 - 0.5 * (times(z)[0] * z[0] + times(z)[1] * z[1]))
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> mcvi_expr::Result<f64, String> {
        gradient.copy_from_slice(&times(z).map(|g| -g));
        self.value(z)
    }
    fn hessian_vector(&self, _: &[f64], v: &[f64], product: &mut [f64]) -> mcvi_expr::Result<(), String> {
        product.copy_from_slice(&times(v).map(|g| -g));
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        true
    }
}

fn times(v: &[f64]) -> [f64; 2] {
    PRECISION.map(|row| row[0] * v[0] + row[1] * v[1])
}

/// Draws from the prior have free coordinates, from which they follow again.
#[test]
fn free_coordinates_lead_back_to_the_parameters() {
    let model = everything();
    let drawn = model.prior(50, 4).expect("draws");
    let z = model.unconstrained(&drawn.parameters).expect("free coordinates");
    assert!(z.len() == 50 && z.iter().all(|z| z.len() == model.dim()));
    for (q, was) in model.constrained(&z).expect("parameters").parameters.iter().zip(&drawn.parameters) {
        assert_eq!((&q.name, &q.shape), (&was.name, &was.shape));
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 * b.abs().max(1.0);
        assert!(q.values.iter().zip(&was.values).all(near), "{}", q.name);
    }
    let refused = |parameters: &[Quantity]| model.unconstrained(parameters).expect_err("a mistake").to_string();
    assert!(refused(&drawn.parameters[1..]).contains("`tau` is not `mu`"));
    let mut outside = drawn.parameters;
    outside[1].values[7] = -1.0;
    assert!(refused(&outside).contains("`tau` = [-1.0] has no free coordinates as Positive"), "{}", refused(&outside));
}

#[test]
fn black_boxes_and_plain_log_densities_are_fitted_like_any_model() {
    let external = Model::new(|m| {
        let z = m.flat("z", 2);
        m.add(z.external(Arc::new(BlackBox)));
    });
    let plain = Model::new(|m| {
        let z = m.flat("z", 2);
        let precision = m.matrix(2, &PRECISION.concat());
        m.add(z.matmul(precision) * z * -0.5);
        m.add(m.graph().scalar(z.dtype(), 3.0));
    });
    let determinant = PRECISION[0][0] * PRECISION[1][1] - PRECISION[0][1] * PRECISION[1][0];
    let log_evidence = 3.0 + TAU.ln() - 0.5 * determinant.ln();
    let mut request = Request { chain: ChainChoice::Hamiltonian { steps: 1, leapfrogs: 1 }, ..Request::default() };
    request.settings.iterations = 2000;
    for model in [external, plain] {
        let posterior = infer(model.expect("a model"), &request).expect("a posterior");
        assert_eq!(posterior.verdict.kind, VerdictKind::Good, "{:?}", posterior.verdict);
        let diagnostics = &posterior.diagnostics;
        assert!((diagnostics.log_evidence.value - log_evidence).abs() < 0.01, "{diagnostics:?}");
        assert!(diagnostics.bound.value < log_evidence + 1e-3 && diagnostics.bound.value > log_evidence - 0.02);
        let weights = Weights::smoothed(&posterior.draws.log_weights);
        for i in 0..2 {
            let column: Vec<f64> = posterior.draws.z.iter().map(|z| z[i]).collect();
            let (found, sd) = (summarise(&column, &weights), (PRECISION[1 - i][1 - i] / determinant).sqrt());
            assert!(found.mean.abs() < 0.1 * sd && (found.sd / sd - 1.0).abs() < 0.1, "{found:?}");
        }
    }
}
