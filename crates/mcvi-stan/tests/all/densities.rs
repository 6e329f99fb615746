//! Densities: those of the table integrate to 1, and those of vectors agree with formulas.

use crate::{assert_near, log_density, posterior};
use serde_json::json;

/// The log density of a statement about x at a point, without a constraint.
fn at(statement: &str, x: f64) -> f64 {
    let p = posterior(&format!("parameters {{ real x; }} model {{ {statement} }}"), json!({}));
    log_density(&p, &[x])
}

/// The integral of a density over unconstrained values of x, declared with a constraint.
fn integral(declaration: &str, statement: &str, range: (f64, f64)) -> f64 {
    let p = posterior(&format!("parameters {{ {declaration} x; }} model {{ {statement} }}"), json!({}));
    let (low, high) = range;
    let n = 4000;
    let h = (high - low) / f64::from(n);
    let points: Vec<Vec<f64>> = (0..=n).map(|i| vec![low + h * f64::from(i)]).collect();
    let (values, _) = crate::evaluate(&p, &points);
    // The trapezoidal rule, which converges fast where the ends are flat.
    values.iter().map(|v| v.exp()).sum::<f64>() * h
}

#[test]
fn densities_integrate_to_one() {
    let real = [
        "x ~ normal(1, 2);",
        "x ~ std_normal();",
        "x ~ student_t(5, 1, 0.5);",
        "x ~ double_exponential(0.5, 1.5);",
        "x ~ logistic(1, 0.7);",
        "x ~ gumbel(1, 0.7);",
        "x ~ skew_normal(0.5, 1, 3);",
        "x ~ exp_mod_normal(0, 1, 1.5);",
        "x ~ skew_double_exponential(0, 1, 0.3);",
        "x ~ normal(1, 2) T[, 3];",
    ];
    for statement in &real[..9] {
        let total = integral("real", statement, (-200.0, 200.0));
        assert!((total - 1.0).abs() < 2e-3, "{statement}: {total}");
    }
    let positive = [
        "x ~ lognormal(0.2, 0.7);",
        "x ~ exponential(2);",
        "x ~ gamma(2.5, 1.5);",
        "x ~ inv_gamma(2.5, 1.5);",
        "x ~ chi_square(3);",
        "x ~ inv_chi_square(3);",
        "x ~ scaled_inv_chi_square(3, 2);",
        "x ~ weibull(1.5, 2);",
        "x ~ frechet(2, 1.5);",
        "x ~ rayleigh(2);",
        "x ~ loglogistic(1.5, 2);",
    ];
    for statement in positive {
        let total = integral("real<lower=0>", statement, (-30.0, 30.0));
        assert!((total - 1.0).abs() < 1e-6, "{statement}: {total}");
    }
    for statement in ["x ~ beta(2, 3.5);", "x ~ uniform(0, 1);", "x ~ beta_proportion(0.3, 4);"] {
        let total = integral("real<lower=0, upper=1>", statement, (-40.0, 40.0));
        assert!((total - 1.0).abs() < 1e-6, "{statement}: {total}");
    }
    let pareto = integral("real<lower=2>", "x ~ pareto(2, 1.5);", (-40.0, 40.0));
    assert!((pareto - 1.0).abs() < 1e-6);
    let truncated = integral("real<lower=-1, upper=2>", "x ~ normal(0.5, 1) T[-1, 2];", (-40.0, 40.0));
    assert!((truncated - 1.0).abs() < 1e-8, "{truncated}");
    let above = integral("real<lower=8>", "x ~ normal(0, 1) T[8, ];", (-40.0, 40.0));
    assert!((above - 1.0).abs() < 1e-8, "{above}");
    // Outside the support.
    for statement in ["x ~ exponential(1);", "x ~ uniform(0, 1);", "x ~ normal(0, 1) T[0, ];"] {
        assert_eq!(at(statement, -0.5), f64::NEG_INFINITY, "{statement}");
    }
}

#[test]
fn probabilities_sum_to_one() {
    let cases = [
        ("bernoulli(inv_logit(x))", 0, 1),
        ("bernoulli_logit(x)", 0, 1),
        ("binomial(7, inv_logit(x))", 0, 7),
        ("binomial_logit(7, x)", 0, 7),
        ("poisson(exp(x))", 0, 60),
        ("poisson_log(x)", 0, 60),
        ("neg_binomial_2(exp(x), 2.5)", 0, 200),
        ("neg_binomial_2_log(x, 2.5)", 0, 200),
        ("neg_binomial(2.5, exp(x))", 0, 200),
        ("beta_binomial(7, exp(x), 1.5)", 0, 7),
        ("categorical(softmax([x, 0.2, -1]'))", 1, 3),
        ("categorical_logit([x, 0.2, -1]')", 1, 3),
        ("ordered_logistic(x, [-1, 0.2, 2]')", 1, 4),
        ("ordered_probit(x, [-1, 0.2, 2]')", 1, 4),
        ("discrete_range(2, 6)", 0, 9),
    ];
    for (distribution, low, high) in cases {
        let text = format!("data {{ int n; }} parameters {{ real x; }} model {{ n ~ {distribution}; }}");
        let total: f64 = (low..=high).map(|n| log_density(&posterior(&text, json!({ "n": n })), &[0.4]).exp()).sum();
        assert!((total - 1.0).abs() < 1e-9, "{distribution}: {total}");
    }
}

#[test]
fn probabilities_of_zero_and_one() {
    let text = "data { int n; } parameters { real x; } model { n ~ bernoulli(0 * x); 0 ~ binomial(3, 0 * x); }";
    assert_near(log_density(&posterior(text, json!({ "n": 0 })), &[0.4]), 0.0);
    assert_eq!(log_density(&posterior(text, json!({ "n": 1 })), &[0.4]), f64::NEG_INFINITY);
}

#[test]
fn vectors_and_matrices() {
    let model = |body: &str| {
        let text = format!(
            "transformed data {{ matrix[2, 2] S = [[2, 0.5], [0.5, 1]]; vector[2] m = [1, -1]'; }}
             parameters {{ vector[2] x; }} model {{ target += {body}; }}"
        );
        log_density(&posterior(&text, json!({})), &[0.3, 0.8])
    };
    // S⁻¹ = [[1, −½], [−½, 2]] / 1.75, |S| = 1.75.
    let (a, b) = (0.3 - 1.0, 0.8 + 1.0);
    let quadratic = (a * a - a * b + 2.0 * b * b) / 1.75;
    let expected = -0.5 * quadratic - 0.5 * 1.75f64.ln() - std::f64::consts::TAU.ln();
    assert_near(model("multi_normal_lpdf(x | m, S)"), expected);
    assert_near(model("multi_normal_cholesky_lpdf(x | m, cholesky_decompose(S))"), expected);
    assert_near(model("multi_normal_prec_lpdf(x | m, inverse(S))"), expected);
    assert_near(model("multi_normal_lpdf({x, x} | m, S + 0 * x[1])"), 2.0 * expected);
    // Wide enough, t is normal.
    assert!((model("multi_student_t_lpdf(x | 1e9, m, S)") - expected).abs() < 1e-6);
    // Dirichlet(2, 3) is beta(2, 3) of the first share.
    let dirichlet = model("dirichlet_lpdf([inv_logit(x[1]), 1 - inv_logit(x[1])]' | [2, 3]')");
    assert_near(dirichlet, model("beta_lpdf(inv_logit(x[1]) | 2, 3)"));
    // A Wishart matrix of one number is gamma distributed.
    let wishart = model("wishart_lpdf([[exp(x[1])]] | 3, [[2]])");
    assert_near(wishart, model("gamma_lpdf(exp(x[1]) | 1.5, 0.25)"));
    let inverse = model("inv_wishart_lpdf([[exp(x[1])]] | 3, [[2]])");
    assert_near(inverse, model("inv_gamma_lpdf(exp(x[1]) | 1.5, 1)"));
    // Regressions are their linear predictor.
    let x = "[[1, 2], [3, 4], [0.5, -1]]";
    let cases = [
        ("bernoulli_logit", "{1, 0, 1}", ""),
        ("poisson_log", "{1, 0, 4}", ""),
        ("neg_binomial_2_log", "{1, 0, 4}", ", 2"),
    ];
    for (name, y, scale) in cases {
        let glm = model(&format!("{name}_glm_lpmf({y} | {x}, 0.5, x{scale})"));
        assert_near(glm, model(&format!("{name}_lpmf({y} | 0.5 + {x} * x{scale})")));
    }
    let glm = model(&format!("normal_id_glm_lpdf([1, 2, 3]' | {x}, 0.5, x, 2)"));
    assert_near(glm, model(&format!("normal_lpdf([1, 2, 3]' | 0.5 + {x} * x, 2)")));
}

#[test]
fn correlations_integrate_to_one() {
    // Over 2 x 2 correlation matrices with their Jacobian.
    for (ty, name) in [("cholesky_factor_corr", "lkj_corr_cholesky"), ("corr_matrix", "lkj_corr")] {
        for eta in ["1", "2.5"] {
            let total = integral(&format!("{ty}[2]"), &format!("x ~ {name}({eta});"), (-14.0, 14.0));
            assert!((total - 1.0).abs() < 1e-8, "{name}({eta}): {total}");
        }
    }
}

#[test]
fn tails_keep_their_digits() {
    // ln Φ(−40), from its asymptotic series.
    let x = 40.0f64;
    let series = 1.0 - 1.0 / (x * x) + 3.0 / x.powi(4) - 15.0 / x.powi(6);
    let expected = -0.5 * x * x - (x * std::f64::consts::TAU.sqrt()).ln() + series.ln();
    assert!((at("target += normal_lcdf(-40 * x | 0, 1);", 1.0) - expected).abs() < 1e-9 * expected.abs());
    // Of data, on the host.
    assert!((at("target += normal_lcdf(-40 | 0, 1) * x;", 1.0) - expected).abs() < 1e-9 * expected.abs());
    // One degree of freedom is Cauchy: a quarter lies above 1.
    assert!((at("target += student_t_lccdf(1 | 1, 0, 1) * x;", 1.0) - 0.25f64.ln()).abs() < 1e-12);
}

#[test]
fn parameters_far_out_do_not_cancel() {
    // By mpmath, with sixty digits. x is 1.
    let far = [
        ("beta_binomial_lpmf(3 | 10, exp(40 * x), exp(-40 * x))", -308.633_257_045_207_87),
        ("beta_binomial_lpmf(3 | 10, exp(20 * x), exp(20 * x))", -2.143_980_059_725_677),
        ("exp_mod_normal_lpdf(2 | 0, 1, exp(20 * x))", -2.918_938_529_082_365_3),
        ("exp_mod_normal_lpdf(15 * x | 0, 1, exp(25))", -113.418_938_532_996_35),
        ("exp_mod_normal_lpdf(-3 | x, 2, 350 * x)", -3.614_940_811_941_038_8),
        ("exp_mod_normal_lpdf(-3 | x, 2, 7500 * x)", -3.612_219_042_653_112),
    ];
    for (density, expected) in far {
        let found = at(&format!("target += {density};"), 1.0);
        assert!((found - expected).abs() < 1e-9 * f64::abs(expected), "{density}: {found}, not {expected}");
    }
}

#[test]
fn mixtures_and_log_sums() {
    assert_near(at("target += log_sum_exp(x, x);", 0.4), 0.4 + 2f64.ln());
    assert_near(at("target += log_sum_exp(x, negative_infinity());", 0.4), 0.4);
    assert_near(at("target += log_mix(0.25, x, x);", 0.4), 0.4);
    assert_near(at("target += log_mix([0.25, 0.75]', [x, x]);", 0.4), 0.4);
    // One far below the other is nothing beside it, on either side.
    for (far, near) in [("-1e30", "x"), ("x", "-1e30")] {
        assert_eq!(at(&format!("target += log_sum_exp({far}, {near});"), -1312.7), -1312.7);
    }
    let p = posterior("parameters { real x; } model { target += log_sum_exp(x, x) + log_mix(0.25, x, x); }", json!({}));
    assert_near(crate::evaluate(&p, &[vec![0.4]]).1[0], 2.0);
}
