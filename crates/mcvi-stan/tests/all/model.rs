//! Programs as models: parameters, quantities, draws.

use mcvi::{BayesianModel, Hardware, Target};
use mcvi_stan::StanModel;
use serde_json::json;

const PROGRAM: &str = "data { int N; vector[N] y; }
    transformed data { real m = mean(y); }
    parameters { real mu; real<lower=0> sigma; array[2] simplex[3] p; vector[0] none; }
    transformed parameters { vector[2] both = [mu + m, sigma]'; vector[300] long = rep_vector(mu, 300); }
    model { y ~ normal(mu, sigma); }
    generated quantities {
      vector[N] log_lik;
      array[N] real y_rep = normal_rng(rep_vector(mu, N), sigma);
      matrix[2, 2] square = both * both';
      int<lower=0> k = poisson_rng(sigma);
      for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, sigma);
    }";

fn model() -> StanModel {
    StanModel::compile(PROGRAM, &json!({ "N": 3, "y": [1.0, 2.0, 6.0] })).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn parameters_have_stans_names() {
    let model = model();
    assert_eq!(model.dim(), 6);
    let names = model.names();
    assert_eq!(&names[..5], ["mu", "sigma", "p[1,1]", "p[1,2]", "p[1,3]"]);
    assert_eq!(model.parameters()[2].free, 4);
}

#[test]
fn quantities_follow_from_draws() {
    let model = model();
    let z: Vec<Vec<f64>> = (0..700).map(|i| vec![f64::from(i) * 0.01, 0.5, 0.1, -0.2, 0.3, 0.0]).collect();
    let hardware = Hardware::with_threads(1);
    let q = model.quantities(&z, Some(7), hardware).unwrap();
    let find = |list: &[mcvi::model::Quantity], name: &str| {
        list.iter().find(|q| q.name == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let (mu, sigma) = (5.0, 0.5f64.exp());
    assert!((find(&q.parameters, "sigma").values[500] - sigma).abs() < 1e-14);
    let square = find(&q.generated, "square");
    assert_eq!(square.shape, [2, 2]);
    assert!((square.values[4 * 500 + 1] - (mu + 3.0) * sigma).abs() < 1e-12);
    let log_lik = find(&q.log_likelihood, "log_lik").values[3 * 500 + 2];
    let expected = -0.5 * (1.0 / sigma).powi(2) - sigma.ln() - 0.5 * std::f64::consts::TAU.ln();
    assert!((log_lik - expected).abs() < 1e-12);
    // Replicated data are about their mean, and belong to the observations of that name.
    let rep = find(&q.predictive, "y");
    let means: Vec<f64> = rep.values.iter().enumerate().map(|(i, y)| y - (i / 3) as f64 * 0.01).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    assert!(mean.abs() < 5.0 * sigma / (means.len() as f64).sqrt(), "{mean}");
    assert_eq!(model.observations().unwrap()[0].values, [1.0, 2.0, 6.0]);
    // The same seed gives the same draws; without one there are no generated quantities, and no long lists.
    assert_eq!(model.quantities(&z, Some(7), hardware).unwrap(), q);
    assert_ne!(model.quantities(&z, Some(8), hardware).unwrap().predictive, q.predictive);
    let few = model.quantities(&z, None, hardware).unwrap();
    assert_eq!(few.generated.iter().map(|q| q.name.as_str()).collect::<Vec<_>>(), ["both", "square"]);
}

#[test]
fn draws_have_the_moments_of_their_families() {
    // A function, its mean and its variance.
    let cases = [
        ("normal_rng(1, 2)", 1.0, 4.0),
        ("uniform_rng(1, 3)", 2.0, 1.0 / 3.0),
        ("exponential_rng(2)", 0.5, 0.25),
        ("gamma_rng(3, 2)", 1.5, 0.75),
        ("inv_gamma_rng(12, 11)", 1.0, 0.1),
        ("beta_rng(2, 3)", 0.4, 0.04),
        ("lognormal_rng(0, 0.5)", 0.125f64.exp(), (0.25f64.exp() - 1.0) * 0.25f64.exp()),
        ("student_t_rng(9, 1, 2)", 1.0, 36.0 / 7.0),
        ("double_exponential_rng(1, 2)", 1.0, 8.0),
        ("logistic_rng(1, 0.5)", 1.0, 0.25 * std::f64::consts::PI.powi(2) / 3.0),
        ("gumbel_rng(0, 1)", 0.577_215_664_901_532_9, std::f64::consts::PI.powi(2) / 6.0),
        ("weibull_rng(1, 2)", 2.0, 4.0),
        ("poisson_rng(2.5)", 2.5, 2.5),
        ("binomial_rng(10, 0.3)", 3.0, 2.1),
        ("bernoulli_logit_rng(0)", 0.5, 0.25),
        ("neg_binomial_2_rng(3, 2)", 3.0, 7.5),
        ("neg_binomial_rng(4, 2)", 2.0, 3.0),
        ("categorical_rng([0.25, 0.75]')", 1.75, 0.1875),
        ("categorical_logit_rng([0, log(3)]')", 1.75, 0.1875),
        ("multi_normal_rng([1, 2]', [[4, 1], [1, 2]])[2]", 2.0, 2.0),
        ("dirichlet_rng([2, 3]')[1]", 0.4, 0.04),
        ("skew_normal_rng(0, 1, 0)", 0.0, 1.0),
    ];
    for (call, mean, variance) in cases {
        let text = format!(
            "parameters {{ real x; }} model {{ }} generated quantities {{ array[20000] real d; for (i in 1:20000) d[i] = {call}; }}"
        );
        let model = StanModel::compile(&text, &json!({})).unwrap_or_else(|e| panic!("{e}"));
        let q = model.quantities(&[vec![0.0]], Some(3), Hardware::with_threads(1)).unwrap();
        let draws = &q.generated[0].values;
        let n = draws.len() as f64;
        let m = draws.iter().sum::<f64>() / n;
        let v = draws.iter().map(|d| (d - m).powi(2)).sum::<f64>() / n;
        assert!((m - mean).abs() < 5.0 * (variance / n).sqrt(), "{call}: mean {m}, expected {mean}");
        assert!((v / variance - 1.0).abs() < 0.2, "{call}: variance {v}, expected {variance}");
    }
}

#[test]
fn mistakes_in_generated_quantities_are_noted() {
    let text = "parameters { real x; } model { } generated quantities { vector[2] v; real y = v[3]; }";
    let model = StanModel::compile(text, &json!({})).unwrap_or_else(|e| panic!("{e}"));
    let note = model.quantities(&[vec![0.0]], Some(1), Hardware::with_threads(1)).unwrap().note.unwrap();
    assert!(note.contains("index 3 is outside 1 to 2"), "{note}");
}

#[test]
fn generated_quantities_without_draws_are_functions_of_the_parameters() {
    let text = "
        parameters { real x; }
        model { x ~ normal(0, 1); }
        generated quantities {
            real double_x = 2 * x;
            real noise = normal_rng(0, 1);
            vector[3] mixed;
            real after = noise + x;
            vector[2] pair;
            for (i in 1:3) mixed[i] = i < 3 ? i * x : normal_rng(x, 1);
            for (i in 1:2) pair[i] = i * double_x;
        }";
    let model = StanModel::compile(text, &json!({})).unwrap();
    let found = model.quantities(&[vec![1.5], vec![-1.0]], None, Hardware::with_threads(1)).unwrap();
    let names: Vec<&str> = found.generated.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["double_x", "pair"]);
    assert_eq!(found.generated[0].values, [3.0, -2.0]);
    assert_eq!(found.generated[1].values, [3.0, 6.0, -2.0, -4.0]);
}

#[test]
fn draws_that_generated_quantities_reject_are_missing() {
    let program = |statement: &str| {
        let generated = format!("generated quantities {{ real y = normal_rng(x, 1); {statement} real z = 2 * y; }}");
        format!("parameters {{ real x; }} model {{ x ~ std_normal(); }} {generated}")
    };
    let quantities = |statement: &str| {
        let model = StanModel::compile(&program(statement), &json!({})).unwrap_or_else(|e| panic!("{e}"));
        model.quantities(&vec![vec![0.0]; 400], Some(3), Hardware::with_threads(1)).unwrap()
    };
    let some = quantities("if (y < 0) reject(\"y is \", y);");
    let (y, z) = (&some.generated[0].values, &some.generated[1].values);
    assert_eq!((y.len(), z.len()), (400, 400));
    assert!(y.iter().zip(z).all(|(y, z)| (*y >= 0.0 && *z == 2.0 * y) || (y.is_nan() && z.is_nan())));
    let missing = y.iter().filter(|y| y.is_nan()).count();
    assert!((100..300).contains(&missing));
    let note = some.note.unwrap();
    assert!(
        note.starts_with(&format!("Generated quantities of {missing} of 400 draws are missing; line 1: ")),
        "{note}"
    );
    assert!(quantities("reject(\"never\");").note.unwrap().contains("400 of 400"));
    assert_eq!(quantities("").note, None);
}

#[test]
fn what_generated_quantities_cannot_do_is_known_before_a_fit() {
    let program = "parameters { real x; } model { x ~ std_normal(); }
        generated quantities { vector[2] s = singular_values([[1, 2], [3, 4]]); }";
    let parts = mcvi_stan::StanModel::from_parts(
        mcvi_stan::ProgramText::Text(program.to_owned()),
        mcvi_stan::ProgramData::Values(json!({})),
    );
    assert!(parts.unwrap_err().to_string().contains("`singular_values` is not supported"));
}
