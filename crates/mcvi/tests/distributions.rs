//! The distributions against SciPy (tests/data/distributions.py): log densities, their derivatives, and draws.

#[path = "../../mcvi-expr/tests/common/mod.rs"]
mod common;

use common::{array, check_derivatives, value};
use mcvi::model::*;
use mcvi_expr::{Array, DType, Expr, Graph, grad};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::Value as Json;

const INF: f64 = f64::INFINITY;

/// A distribution by its constructor's name.
fn build<'g>(name: &str, p: &[Expr<'g>]) -> Distribution<'g> {
    match name {
        "normal" => normal(p[0], p[1]),
        "student_t" => student_t(p[0], p[1], p[2]),
        "cauchy" => cauchy(p[0], p[1]),
        "half_normal" => half_normal(p[0]),
        "half_cauchy" => half_cauchy(p[0]),
        "half_student_t" => half_student_t(p[0], p[1]),
        "laplace" => laplace(p[0], p[1]),
        "log_normal" => log_normal(p[0], p[1]),
        "exponential" => exponential(p[0]),
        "gamma" => gamma(p[0], p[1]),
        "inverse_gamma" => inverse_gamma(p[0], p[1]),
        "weibull" => weibull(p[0], p[1]),
        "beta" => beta(p[0], p[1]),
        "uniform" => uniform(p[0], p[1]),
        "bernoulli_logit" => bernoulli_logit(p[0]),
        "binomial_logit" => binomial_logit(p[0], p[1]),
        "beta_binomial" => beta_binomial(p[0], p[1], p[2]),
        "poisson_log" => poisson_log(p[0]),
        "negative_binomial_log" => negative_binomial_log(p[0], p[1]),
        "categorical_logit" => categorical_logit(p[0]),
        "multinomial_logit" => multinomial_logit(p[0]),
        "dirichlet" => dirichlet(p[0]),
        "multivariate_normal_cholesky" => multivariate_normal_cholesky(p[0], p[1]),
        "lkj_cholesky" => lkj_cholesky(p[0]),
        _ => panic!("{name} is not known"),
    }
}

/// A draw from the distribution of that name, like a value of that many numbers.
fn draw(name: &str, parameters: &[&[f64]], like: &[f64], rng: &mut SmallRng) -> Option<Vec<f64>> {
    let graph = Graph::new();
    let any = graph.scalar(DType::F64, 1.0);
    build(name, &[any; 3]).sample(&Event::new(parameters, like), rng)
}

/// Parameters that are not continuous numbers to differentiate for.
fn fixed(name: &str) -> usize {
    usize::from(matches!(name, "binomial_logit" | "beta_binomial"))
}

fn is_discrete(name: &str) -> bool {
    name.contains("binomial") || name.contains("poisson") || name.contains("logit")
}

/// The shapes of an event's value and of a parameter's numbers.
fn shape(name: &str, parameter: Option<usize>, n: usize) -> Vec<usize> {
    let k = n.isqrt();
    match (name, parameter) {
        ("lkj_cholesky", None) | ("multivariate_normal_cholesky", Some(1)) => vec![1, k, k],
        ("categorical_logit", None) => vec![1],
        _ => vec![1, n],
    }
}

struct Case {
    name: String,
    parameters: Vec<Vec<f64>>,
    x: Vec<Vec<f64>>,
    y: Vec<f64>,
}

impl Case {
    fn arrays(&self) -> Vec<Array> {
        self.parameters.iter().enumerate().map(|(i, p)| array(shape(&self.name, Some(i), p.len()), p.clone())).collect()
    }

    fn point(&self, i: usize) -> Array {
        array(shape(&self.name, None, self.x[i].len()), self.x[i].clone())
    }
}

fn number(v: &Json) -> f64 {
    v.as_f64().unwrap_or_else(|| v.as_str().unwrap().parse().unwrap())
}

fn numbers(v: &Json) -> Vec<f64> {
    v.as_array().unwrap().iter().map(number).collect()
}

fn rows(v: &Json) -> Vec<Vec<f64>> {
    v.as_array().unwrap().iter().map(numbers).collect()
}

fn reference(what: &str) -> Vec<Json> {
    let all: Json = serde_json::from_str(include_str!("data/distributions.json")).unwrap();
    all[what].as_array().unwrap().clone()
}

fn cases() -> Vec<Case> {
    let case = |c: Json| Case {
        name: c["family"].as_str().unwrap().to_owned(),
        parameters: rows(&c["parameters"]),
        x: rows(&c["x"]),
        y: numbers(&c["y"]),
    };
    reference("densities").into_iter().map(case).collect()
}

#[test]
fn log_densities_are_scipys() {
    for case in cases() {
        for (i, want) in case.y.iter().enumerate() {
            let mut inputs = case.arrays();
            inputs.push(case.point(i));
            let got = value(&inputs, |e| build(&case.name, &e[..e.len() - 1]).log_density(e[e.len() - 1]));
            assert_eq!(got.len(), 1, "{}", case.name);
            let near = got[0] == *want || (got[0] - want).abs() <= 1e-10 * want.abs().max(1.0);
            assert!(near, "{} with {:?} at {:?}: {} not {want}", case.name, case.parameters, case.x[i], got[0]);
        }
    }
}

/// Whether the value lies so far inside the support, and the parameters so far from extremes, that differences work.
fn is_interior(case: &Case, i: usize) -> bool {
    let edge = |x: f64| match case.name.as_str() {
        "beta" | "uniform" | "dirichlet" => x < 0.01 || (x - 0.75).abs() < 0.01 || (x - 1.0).abs() < 0.1,
        _ if !is_discrete(&case.name) && case.parameters.len() < 3 => x.abs() < 0.05,
        _ => false,
    };
    // Extremes are stored one by one.
    let tame = case.x.len() > 1 || case.parameters.iter().any(|p| p.len() > 1) || case.x[i].len() > 1;
    case.y[i].is_finite() && tame && (case.name == "lkj_cholesky" || !case.x[i].iter().any(|x| edge(*x)))
}

#[test]
fn derivatives_are_finite_differences() {
    let mut checked = std::collections::BTreeMap::new();
    for case in cases() {
        let start = fixed(&case.name);
        for i in (0..case.y.len()).filter(|&i| is_interior(&case, i)) {
            let (all, x) = (case.arrays(), case.point(i));
            let mut inputs: Vec<Array> = all[start..].to_vec();
            // On a simplex or among correlation factors only free numbers can be varied.
            let constraint = match case.name.as_str() {
                "dirichlet" => Constraint::Simplex,
                "lkj_cholesky" => Constraint::CorrelationCholesky,
                _ => Constraint::Real,
            };
            let k = if case.name == "lkj_cholesky" { case.x[i].len().isqrt() } else { case.x[i].len() };
            let varies = !is_discrete(&case.name) && constraint.free(k) > 0;
            if varies {
                let u = constraint.unconstrain(&case.x[i]).expect("it is in the support");
                inputs.push(array([1, u.len()], u));
            }
            let result = check_derivatives(&inputs, |e| {
                let graph = e[0].graph();
                let x = if varies { constraint.constrain(e[e.len() - 1], k).0 } else { graph.literal(x.clone()) };
                let mut parameters: Vec<Expr<'_>> = all[..start].iter().map(|a| graph.literal(a.clone())).collect();
                parameters.extend(&e[..all.len() - start]);
                build(&case.name, &parameters).log_density(x)
            });
            result.unwrap_or_else(|e| panic!("{} with {:?} at {:?}: {e}", case.name, case.parameters, case.x[i]));
            *checked.entry(case.name.clone()).or_insert(0) += 1;
        }
    }
    assert_eq!(checked.len(), 24, "of some families no point was fit to check: {checked:?}");
}

#[test]
fn derivatives_outside_the_support_are_finite() {
    let mut checked = 0;
    for case in cases() {
        for i in (0..case.y.len()).filter(|&i| !case.y[i].is_finite() || case.x[i].contains(&0.0)) {
            let graph = Graph::new();
            let mut values = case.arrays();
            values.push(case.point(i));
            let e = common::declare(&graph, &values);
            let y = build(&case.name, &e[..e.len() - 1]).log_density(e[e.len() - 1]).sum_all();
            let first = grad(y, &e).unwrap();
            let total = first.iter().map(|d| d.sum_all()).reduce(|a, b| a + b).unwrap();
            let second = grad(total, &e).unwrap();
            let all = first.iter().chain(&second).enumerate();
            let builder = all.fold(graph.program(), |b, (j, d)| b.output(&format!("d{j}"), *d));
            let mut program = builder.compile().unwrap();
            common::supply(&mut program, &values);
            program.run(1).unwrap();
            for j in 0..2 * e.len() {
                let d = program.output(&format!("d{j}")).unwrap().to_f64();
                let finite = d.iter().all(|d| d.is_finite());
                assert!(finite, "{} with {:?} at {:?}: {j}: {d:?}", case.name, case.parameters, case.x[i]);
            }
            checked += 1;
        }
    }
    assert!(checked > 40);
}

#[test]
fn numbers_broadcast_against_rows_and_data() {
    let graph = Graph::new();
    let data = graph.literal(array([3], vec![0.5, 1.0, 2.0]));
    let scale = graph.input("scale", DType::F64, [2, 1]);
    let dims = |e: Expr<'_>| e.shape().dims().to_vec();
    assert_eq!(dims(normal(0.0, scale).log_density(data)), [2, 3]);
    assert_eq!(dims(uniform(0.0, 3.0).log_density(data)), [3]);
    let same = normal(graph.scalar(DType::F64, 0.0), 1.0).log_density(data);
    assert!(normal(0.0, 1.0).log_density(data).is_same(same));
    // Scalar parameters of families of vectors and matrices keep their axis of length 1.
    let simplex = graph.input("simplex", DType::F64, [2, 4]);
    assert_eq!(dims(dirichlet(scale).log_density(simplex)), [2]);
    assert_eq!(dims(dirichlet(2.0).log_density(simplex)), [2]);
    let factor = graph.input("factor", DType::F64, [2, 4, 4]);
    assert_eq!(dims(lkj_cholesky(scale).log_density(factor)), [2]);
    assert_eq!(dims(lkj_cholesky(2.0).log_density(factor)), [2]);
    let category = graph.input("category", DType::F64, [5]);
    assert_eq!(dims(categorical_logit(simplex.expand(1)).log_density(category)), [2, 5]);
    // Single precision too.
    let x = graph.input("x", DType::F32, [3]);
    assert_eq!(gamma(2.0, 1.0).log_density(x).dtype(), DType::F32);
}

#[test]
fn a_single_concentration_stands_for_equal_ones() {
    let x = array([1, 3], vec![0.2, 0.3, 0.5]);
    let one = value(std::slice::from_ref(&x), |e| dirichlet(1.7).log_density(e[0]));
    let three = value(&[x, array([1, 3], vec![1.7; 3])], |e| dirichlet(e[1]).log_density(e[0]));
    assert!((one[0] - three[0]).abs() < 1e-13);
}

#[test]
fn normal_vectors_share_a_factor_or_have_their_own() {
    let factor = vec![1.5, 0.0, -0.4, 0.7];
    let x: Vec<f64> = (0..12).map(|i| f64::from(i) * 0.3 - 1.0).collect();
    let pair = |i: usize| array([1, 2], x[2 * i..2 * i + 2].to_vec());
    let own = |i: usize, scale: f64| {
        let factor = array([1, 2, 2], factor.iter().map(|f| f * scale).collect::<Vec<f64>>());
        value(&[pair(i), factor], |e| multivariate_normal_cholesky(0.1, e[1]).log_density(e[0]))[0]
    };
    let density =
        |x: Array, factor: Array| value(&[x, factor], |e| multivariate_normal_cholesky(0.1, e[1]).log_density(e[0]));
    let scaled: Vec<f64> = [1.0, 2.0].iter().flat_map(|s| factor.iter().map(move |f| f * s)).collect();
    // Two posterior draws of a factor, three vectors of data.
    let shared = density(array([3, 2], x[..6].to_vec()), array([2, 1, 2, 2], scaled.clone()));
    let want: Vec<f64> = [1.0, 2.0].iter().flat_map(|s| (0..3).map(|i| own(i, *s))).collect();
    common::assert_close(&shared, &want, 1e-13);
    // A factor for each of two vectors; one for all of six.
    let each = density(array([2, 2], x[..4].to_vec()), array([2, 2, 2], scaled));
    common::assert_close(&each, &[own(0, 1.0), own(1, 2.0)], 1e-13);
    let one = density(array([2, 3, 2], x.clone()), array([2, 2], factor.clone()));
    common::assert_close(&one, &(0..6).map(|i| own(i, 1.0)).collect::<Vec<f64>>(), 1e-13);
}

#[test]
fn certain_events_have_probability_one() {
    let x = array([2], vec![0.0, 1.0]);
    let rare = value(std::slice::from_ref(&x), |e| poisson_log(f64::NEG_INFINITY).log_density(e[0]));
    common::assert_close(&rare, &[0.0, -INF], 1e-14);
    let sure = value(std::slice::from_ref(&x), |e| bernoulli_logit(INF).log_density(e[0]));
    common::assert_close(&sure, &[-INF, 0.0], 1e-14);
    let all = value(&[x], |e| binomial_logit(1.0, INF).log_density(e[0]));
    common::assert_close(&all, &[-INF, 0.0], 1e-14);
}

#[test]
fn mistakes_are_errors_of_the_expression() {
    let graph = Graph::new();
    let (x, y) = (graph.input("x", DType::F64, [3]), graph.input("y", DType::F64, [2]));
    let scalar = graph.input("scalar", DType::F64, ());
    for name in ["normal", "gamma", "beta_binomial", "dirichlet", "multinomial_logit"] {
        assert!(build(name, &[y; 3]).log_density(x).error().is_some(), "{name}");
    }
    for name in ["dirichlet", "multinomial_logit", "categorical_logit", "multivariate_normal_cholesky", "lkj_cholesky"]
    {
        assert!(build(name, &[scalar; 3]).log_density(scalar).error().is_some(), "{name}");
    }
    // The place named is the user's.
    let error = normal(y, 1.0).log_density(x).error().unwrap();
    assert!(error.to_string().contains(file!()), "{error}");
}

/// What is compared of a draw: its numbers, of a correlation factor the correlations.
fn statistics(name: &str, draw: Vec<f64>) -> Vec<f64> {
    if name != "lkj_cholesky" {
        return draw;
    }
    let k = draw.len().isqrt();
    let dot = |i: usize, j: usize| (0..k).map(|l| draw[i * k + l] * draw[j * k + l]).sum::<f64>();
    (0..k).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| dot(i, j)).collect()
}

/// Fails unless mean and variance of the draws are within five standard errors of those given.
fn assert_moments(what: &str, draws: &[f64], mean: f64, variance: f64) {
    let n = draws.len() as f64;
    let average = |f: &dyn Fn(f64) -> f64| draws.iter().map(|&x| f(x)).sum::<f64>() / n;
    let (m, v) = (average(&|x| x), average(&|x| (x - mean).powi(2)));
    let fourth = average(&|x| (x - mean).powi(4));
    let errors = [(variance / n).sqrt(), ((fourth - v * v).max(0.0) / n).sqrt()];
    assert!((m - mean).abs() <= 5.0 * errors[0], "{what}: mean {m} not {mean}, standard error {}", errors[0]);
    assert!((v - variance).abs() <= 5.0 * errors[1] + 1e-12, "{what}: variance {v} not {variance}");
}

#[test]
fn draws_have_scipys_moments_and_positive_density() {
    let mut rng = SmallRng::seed_from_u64(20150706);
    for case in reference("draws") {
        let name = case["family"].as_str().unwrap();
        let parameters = rows(&case["parameters"]);
        let slices: Vec<&[f64]> = parameters.iter().map(Vec::as_slice).collect();
        // The number of trials and the size of a correlation factor are read off the value.
        let (used, like) = match name {
            "multinomial_logit" => (1, vec![parameters[1][0], 0.0, 0.0]),
            "lkj_cholesky" => (1, vec![0.0; (parameters[1][0] * parameters[1][0]) as usize]),
            _ => (parameters.len(), vec![]),
        };
        let graph = Graph::new();
        let distribution = build(name, &[graph.scalar(DType::F64, 1.0); 3]);
        let event = Event::new(&slices[..used], &like);
        let draws: Vec<Vec<f64>> = (0..20_000).map(|_| distribution.sample(&event, &mut rng).expect(name)).collect();

        // All lie in the support of the density.
        let mut dims = shape(name, None, draws[0].len());
        dims[0] = draws.len();
        let mut inputs = vec![array(dims, draws.concat())];
        inputs.extend(
            parameters[..used].iter().enumerate().map(|(i, p)| array(shape(name, Some(i), p.len()), p.clone())),
        );
        let density = value(&inputs, |e| build(name, &e[1..]).log_density(e[0]));
        assert_eq!(density.len(), draws.len(), "{name}");
        assert!(density.iter().all(|d| *d > -INF), "{name}: a draw is outside");

        let statistics: Vec<Vec<f64>> = draws.into_iter().map(|d| statistics(name, d)).collect();
        let moments = numbers(&case["mean"]).into_iter().zip(numbers(&case["variance"]));
        for (i, (mean, variance)) in moments.enumerate() {
            let coordinate: Vec<f64> = statistics.iter().map(|s| s[i]).collect();
            assert_moments(&format!("{name} {parameters:?} [{i}]"), &coordinate, mean, variance);
        }
    }
}

#[test]
fn cauchy_draws_have_its_quartiles() {
    let mut rng = SmallRng::seed_from_u64(3);
    let below = |name: &str, parameters: &[&[f64]], bound: f64, rng: &mut SmallRng| {
        (0..20_000).map(|_| f64::from(draw(name, parameters, &[], rng).unwrap()[0] < bound)).collect::<Vec<f64>>()
    };
    let upper = below("cauchy", &[&[1.2], &[0.4]], 1.6, &mut rng);
    assert_moments("cauchy", &upper, 0.75, 0.1875);
    let median = below("half_cauchy", &[&[2.5]], 2.5, &mut rng);
    assert_moments("half_cauchy", &median, 0.5, 0.25);
    assert!(below("half_cauchy", &[&[2.5]], 0.0, &mut rng).iter().all(|b| *b == 0.0));
}

#[test]
fn draws_at_extremes_are_numbers_and_of_bad_parameters_none() {
    let mut rng = SmallRng::seed_from_u64(4);
    for _ in 0..1000 {
        let mut draw = |name: &str, parameters: &[&[f64]]| draw(name, parameters, &[7.0, 0.0, 0.0], &mut rng).unwrap();
        let tiny = draw("dirichlet", &[&[1e-4, 2e-4, 1e-4]]);
        assert!((tiny.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((0.0..=1.0).contains(&draw("beta", &[&[1e-5], &[1e-5]])[0]));
        assert_eq!(draw("poisson_log", &[&[-1000.0]]), [0.0]);
        assert_eq!(draw("bernoulli_logit", &[&[800.0]]), [1.0]);
        assert_eq!(draw("binomial_logit", &[&[9.0], &[-800.0]]), [0.0]);
        assert_eq!(draw("categorical_logit", &[&[-INF, 0.0, -INF]]), [1.0]);
        assert_eq!(draw("multinomial_logit", &[&[-INF, 0.0, -INF]]), [0.0, 7.0, 0.0]);
        assert!(draw("negative_binomial_log", &[&[3.0], &[1e-8]])[0] >= 0.0);
    }
    let bad: &[(&str, &[&[f64]])] = &[
        ("normal", &[&[0.0], &[-1.0]]),
        ("normal", &[&[0.0]]),
        ("normal", &[&[0.0], &[1.0], &[2.0]]),
        ("normal", &[]),
        ("normal", &[&[], &[]]),
        ("student_t", &[&[-3.0], &[0.0], &[1.0]]),
        ("gamma", &[&[0.0], &[1.0]]),
        ("weibull", &[&[0.0], &[1.0]]),
        ("weibull", &[&[1.0], &[-1.0]]),
        ("uniform", &[&[1.0], &[0.0]]),
        ("binomial_logit", &[&[2.5], &[0.0]]),
        ("binomial_logit", &[&[-1.0], &[0.0]]),
        ("poisson_log", &[&[f64::NAN]]),
        ("bernoulli_logit", &[&[f64::NAN]]),
        ("categorical_logit", &[&[f64::NAN, 0.0]]),
        ("categorical_logit", &[&[]]),
        ("categorical_logit", &[]),
        ("multinomial_logit", &[]),
        ("dirichlet", &[&[1.0, -1.0, 2.0]]),
        ("multivariate_normal_cholesky", &[&[0.0, 0.0], &[1.0]]),
        ("lkj_cholesky", &[&[-1.0]]),
        ("lkj_cholesky", &[]),
    ];
    for (name, parameters) in bad {
        assert_eq!(draw(name, parameters, &[0.5; 4], &mut rng), None, "{name} with {parameters:?}");
    }
}
