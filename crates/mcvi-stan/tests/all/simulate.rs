//! Draws from the prior of a program, data given them, and unconstrained parameters.

use crate::{constrained, posterior};
use mcvi::BayesianModel;
use mcvi_stan::StanModel;
use serde_json::json;

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
}

#[test]
fn statements_are_drawn_in_the_order_that_they_need() {
    // Statements before what they need, a loop, an index, a bound, a truncation, target +=, nothing said of p.
    let program = "
        data { int N; array[N] real y; vector[2] x; }
        parameters { real mu; real<lower=0> tau; vector[3] theta; real<lower=0, upper=0.5> p; real a; array[4] real w; }
        transformed parameters { real shift = a + 2; }
        model {
            theta ~ normal(mu, tau);
            for (n in 1:N) y[n] ~ normal(shift, 0.1);
            w[1] ~ normal(10, 0.1);
            for (t in 2:4) w[t] ~ normal(w[t - 1], 0.1);
            mu ~ normal(5, 1);
            tau ~ normal(0, 1);
            target += normal_lpdf(a | 1, 0.1) - normal_lccdf(0 | 1, 0.1);
            x ~ multi_normal([0, 0]', [[1, 0.5], [0.5, 1]]);
        }";
    let data = json!({ "N": 2, "y": [0, 0], "x": [0, 0] });
    let model = StanModel::compile(program, &data).unwrap();
    let prior = model.prior(4000, 1).unwrap();
    let q = |name: &str| prior.parameters.iter().chain(&prior.predictive).find(|q| q.name == name).unwrap();
    // Within five standard errors of means and standard deviations.
    let expect = |values: &[f64], mean: f64, sd: f64| {
        let (m, s) = mean_and_sd(values);
        let se = sd / (values.len() as f64).sqrt();
        assert!((m - mean).abs() < 5.0 * se && (s - sd).abs() < 5.0 * se, "{m} {s}, expected {mean} {sd}");
    };
    expect(&q("mu").values, 5.0, 1.0);
    // Half a normal distribution.
    expect(&q("tau").values, (2.0 / std::f64::consts::PI).sqrt(), (1.0 - 2.0 / std::f64::consts::PI).sqrt());
    expect(&q("p").values, 0.25, 0.5 / 12f64.sqrt());
    expect(&q("w").column(3), 10.0, 0.2);
    expect(&q("theta").column(1), 5.0, 2f64.sqrt());
    expect(&q("y").column(1), 3.0, 0.02f64.sqrt());
    let product: Vec<f64> = q("x").values.chunks(2).map(|x| x[0] * x[1]).collect();
    let (mean, _) = mean_and_sd(&product);
    assert!((mean - 0.5).abs() < 5.0 * 1.25f64.sqrt() / 4000f64.sqrt(), "{mean}");
    // The same seed gives the same draws, and draws can be observed.
    assert_eq!(model.prior(3, 1).unwrap().parameters[0].values, q("mu").values[..3]);
    let observed: Vec<(String, Vec<f64>)> = vec![("y".to_owned(), vec![1.5, 2.5])];
    let other = model.observing(&observed).unwrap();
    let same = StanModel::compile(program, &json!({ "N": 2, "y": [1.5, 2.5], "x": [0, 0] })).unwrap();
    let z = vec![vec![0.1; model.posterior().dim()]];
    assert_eq!(mcvi::log_density(other.as_ref(), &z).unwrap(), mcvi::log_density(&same, &z).unwrap());
}

#[test]
fn generated_quantities_replicate_data() {
    let program = "
        data { int N; array[N] int y; }
        parameters { real<lower=0> rate; simplex[2] share; }
        model {
            rate ~ gamma(2, 0.1);
            share ~ dirichlet([2, 2]');
            for (n in 1:N) target += log_mix(share[1], poisson_lpmf(y[n] | rate), poisson_lpmf(y[n] | 2 * rate));
        }
        generated quantities { array[N] int y_rep; for (n in 1:N) y_rep[n] = poisson_rng(1000 * rate); }";
    let model = StanModel::compile(program, &json!({ "N": 3, "y": [1, 2, 3] })).unwrap();
    let prior = model.prior(500, 2).unwrap();
    let (rate, y) = (&prior.parameters[0].values, &prior.predictive[0]);
    assert_eq!((y.name.as_str(), y.shape.as_slice()), ("y", &[3][..]));
    for (rate, y) in rate.iter().zip(y.values.chunks(3)) {
        assert!(y.iter().all(|y| (y - 1000.0 * rate).abs() < 6.0 * (1000.0 * rate).sqrt()));
    }
}

#[test]
fn what_has_no_prior_says_so() {
    let why = |program: &str| StanModel::compile(program, &json!({})).unwrap().prior(1, 1).unwrap_err().to_string();
    let flat = why("parameters { real a; real b; } model { a ~ normal(0, 1); }");
    assert!(flat.contains("no prior for `b`"), "{flat}");
    let factor = why("parameters { real<lower=0> s; } model { s ~ gamma(2, 1); target += -log(s); }");
    assert!(factor.contains("cannot be drawn from"), "{factor}");
    let twice = why("parameters { real a; } model { a ~ normal(0, 1); a ~ normal(1, 1); }");
    assert!(twice.contains("two distributions"), "{twice}");
    let impossible = why("parameters { real<lower=50> a; } model { a ~ normal(0, 1); }");
    assert!(impossible.contains("next to nothing"), "{impossible}");
}

#[test]
fn unconstrained_numbers_are_the_inverse_of_constraints() {
    let program = "
        parameters {
            real a; real<lower=1> b; vector<upper=2>[2] c; matrix<lower=-1, upper=b>[2, 3] d;
            real<offset=3, multiplier=2> e; ordered[3] f; positive_ordered[3] g; simplex[4] h;
            sum_to_zero_vector[4] j; sum_to_zero_matrix[3, 4] q; cholesky_factor_corr[4] k; cholesky_factor_cov[3, 2] l; corr_matrix[4] m;
            cov_matrix[3] n; array[2] simplex[3] o; array[2] matrix[2, 2] p;
        }
        model { }";
    let p = posterior(program, json!({}));
    let point: Vec<f64> = (0..p.dim()).map(|i| 0.3 * ((i * 37 % 11) as f64 - 5.0) / 5.0).collect();
    let values = constrained(&p, &point);
    let list: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
    let back = p.unconstrained(&list).unwrap();
    assert_eq!(back.len(), point.len());
    for (i, (x, y)) in point.iter().zip(&back).enumerate() {
        assert!((x - y).abs() < 1e-9, "coordinate {i}: {x} became {y}");
    }
}

#[test]
fn matrices_are_drawn_as_they_are_distributed() {
    let program = "
        parameters { cholesky_factor_corr[3] L; corr_matrix[3] R; cov_matrix[2] W; cov_matrix[2] V; }
        model {
            L ~ lkj_corr_cholesky(2);
            R ~ lkj_corr(1.5);
            W ~ wishart(5, [[1, 0.5], [0.5, 2]]);
            V ~ inv_wishart(7, [[1, 0.5], [0.5, 2]]);
        }";
    let prior = StanModel::compile(program, &json!({})).unwrap().prior(4000, 3).unwrap();
    let column = |k: usize, e: usize| prior.parameters[k].column(e);
    // A correlation of an LKJ matrix of size 3 has the variance 1 / (2 eta + 2).
    let (mean, sd) = mean_and_sd(&column(0, 3));
    assert!(mean.abs() < 0.04 && (sd - (1.0f64 / 6.0).sqrt()).abs() < 0.02, "{mean} {sd}");
    let (mean, sd) = mean_and_sd(&column(1, 5));
    assert!(mean.abs() < 0.04 && (sd - (1.0f64 / 5.0).sqrt()).abs() < 0.02, "{mean} {sd}");
    // Means: nu S, and S / (nu - d - 1).
    let (mean, sd) = mean_and_sd(&column(2, 1));
    assert!((mean - 2.5).abs() < 5.0 * sd / 4000f64.sqrt(), "{mean}");
    let (mean, sd) = mean_and_sd(&column(3, 3));
    assert!((mean - 0.5).abs() < 5.0 * sd / 4000f64.sqrt(), "{mean}");
}
