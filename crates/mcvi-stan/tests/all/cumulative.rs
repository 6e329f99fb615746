//! Distribution functions of parameters: values against SciPy, first and second derivatives against differences.

use crate::{evaluate, hessian_product, log_density, posterior};
use serde_json::json;

/// Functions of real numbers with their arguments, and the logarithm by SciPy.
#[rustfmt::skip]
const REAL: &[(&str, &[f64], f64)] = &[
    ("gamma_lcdf", &[0.3, 2.5, 1.5], -3.5139732703581585),
    ("gamma_lccdf", &[0.3, 2.5, 1.5], -0.030230740379340825),
    ("inv_gamma_lcdf", &[0.3, 2.5, 1.5], -2.5871354590744855),
    ("inv_gamma_lccdf", &[0.3, 2.5, 1.5], -0.07821589397295896),
    ("gamma_lcdf", &[4.0, 0.4, 0.7], -0.012707249449651185),
    ("gamma_lccdf", &[4.0, 0.4, 0.7], -4.371929522210467),
    ("inv_gamma_lcdf", &[4.0, 0.4, 0.7], -0.7647942503121706),
    ("inv_gamma_lccdf", &[4.0, 0.4, 0.7], -0.6262920008283706),
    ("gamma_lcdf", &[0.0001, 0.05, 2.0], -0.3990161104356399),
    ("gamma_lccdf", &[0.0001, 0.05, 2.0], -1.1116364099872968),
    ("gamma_lcdf", &[30.0, 3.0, 1.0], -4.501016648113427e-11),
    ("gamma_lccdf", &[30.0, 3.0, 1.0], -23.824132729894238),
    ("inv_gamma_lcdf", &[30.0, 3.0, 1.0], -6.020575338636388e-06),
    ("inv_gamma_lccdf", &[30.0, 3.0, 1.0], -12.020330742294282),
    ("gamma_lcdf", &[120.0, 100.0, 1.0], -0.028259299048920373),
    ("gamma_lccdf", &[120.0, 100.0, 1.0], -3.5804290809275314),
    ("chi_square_lcdf", &[1.5, 3.0], -1.1465543531348548),
    ("chi_square_lccdf", &[1.5, 3.0], -0.3823293208838949),
    ("chi_square_lcdf", &[20.0, 2.0], -4.540096037048922e-05),
    ("chi_square_lccdf", &[20.0, 2.0], -10.0),
    ("beta_lcdf", &[0.3, 2.0, 3.5], -0.8874542721519666),
    ("beta_lccdf", &[0.3, 2.0, 3.5], -0.5305225106352465),
    ("beta_lcdf", &[0.9, 0.5, 0.2], -0.7085448258289244),
    ("beta_lccdf", &[0.9, 0.5, 0.2], -0.6779830320143292),
    ("beta_lcdf", &[0.01, 20.0, 3.0], -86.68012470114594),
    ("beta_lcdf", &[0.7, 0.05, 8.0], -6.265400151915158e-07),
    ("beta_lccdf", &[0.7, 0.05, 8.0], -14.283053506751097),
    ("student_t_lcdf", &[0.4, 3.0, 0.1, 1.2], -0.5265563914105833),
    ("student_t_lccdf", &[0.4, 3.0, 0.1, 1.2], -0.8931490501007894),
    ("student_t_lcdf", &[-30.0, 1.5, 0.0, 1.0], -6.077972271392788),
    ("student_t_lccdf", &[-30.0, 1.5, 0.0, 1.0], -0.002295453700659796),
    ("student_t_lcdf", &[12.0, 7.0, 1.0, 0.5], -5.0627016884774974e-08),
    ("student_t_lccdf", &[12.0, 7.0, 1.0, 0.5], -16.798780497927538),
    ("student_t_lcdf", &[0.0, 30.0, 0.0, 1.0], -std::f64::consts::LN_2),
    ("student_t_lccdf", &[0.0, 30.0, 0.0, 1.0], -std::f64::consts::LN_2),
    ("cauchy_lcdf", &[0.4, 0.1, 1.2], -0.5482175175751669),
    ("cauchy_lccdf", &[0.4, 0.1, 1.2], -0.8627005120868749),
    ("cauchy_lcdf", &[-500.0, 0.0, 1.0], -7.359339317602614),
    ("cauchy_lccdf", &[-500.0, 0.0, 1.0], -0.0006368216514149031),
    ("cauchy_lcdf", &[70.0, 1.0, 0.5], -0.0023092171972659745),
    ("cauchy_lccdf", &[70.0, 1.0, 0.5], -6.072001073933973),
    ("exp_mod_normal_lcdf", &[1.3, 0.2, 1.2, 1.5], -0.45038128681623896),
    ("exp_mod_normal_lccdf", &[1.3, 0.2, 1.2, 1.5], -1.0144138308105386),
    ("von_mises_lpdf", &[0.7, 0.2, 3.0], -0.7904370025516478),
    ("von_mises_lpdf", &[0.7, 0.6, 300.0], 0.43378492399615665),
];

/// Functions of a whole number and real ones.
#[rustfmt::skip]
const WHOLE: &[(&str, i32, &[f64], f64)] = &[
    ("poisson_lcdf", 3, &[2.5], -0.27763124086275504),
    ("poisson_lccdf", 3, &[2.5], -1.417067568961742),
    ("poisson_lcdf", 0, &[0.3], -0.2999999999999998),
    ("poisson_lccdf", 0, &[0.3], -1.3502256128148469),
    ("poisson_lcdf", 40, &[10.0], -1.7774670624250336e-13),
    ("poisson_lccdf", 40, &[10.0], -29.3584873600923),
    ("binomial_lcdf", 3, &[7.0, 0.4], -0.34219739410403865),
    ("binomial_lccdf", 3, &[7.0, 0.4], -1.2385918547215835),
    ("binomial_lcdf", 0, &[5.0, 0.9], -11.51292546497023),
    ("binomial_lccdf", 0, &[5.0, 0.9], -1.0000050000287824e-05),
    ("binomial_lcdf", 6, &[7.0, 0.2], -1.2800081920734063e-05),
    ("binomial_lccdf", 6, &[7.0, 0.2], -11.266065387038703),
    ("neg_binomial_2_lcdf", 3, &[2.5, 1.5], -0.306850251022504),
    ("neg_binomial_2_lccdf", 3, &[2.5, 1.5], -1.3309004197981267),
    ("neg_binomial_2_lcdf", 20, &[4.0, 0.3], -0.04339247752386777),
    ("neg_binomial_2_lccdf", 20, &[4.0, 0.3], -3.159086967372296),
    ("neg_binomial_lcdf", 3, &[2.5, 1.5], -0.13923105759358573),
    ("neg_binomial_lccdf", 3, &[2.5, 1.5], -2.040428380002596),
];

/// A function of all parameters has the value, and its derivatives are those of differences.
fn check(name: &str, program: &str, at: &[f64], expected: f64) {
    let p = posterior(program, json!({}));
    let at = at.to_vec();
    let found = log_density(&p, &at);
    assert!((found - expected).abs() < 2e-11 * expected.abs().max(1.0), "{name} {at:?}: {found}, expected {expected}");
    let moved = |i: usize, by: f64| at.iter().enumerate().map(|(j, x)| if i == j { x + by } else { *x }).collect();
    let gradient = evaluate(&p, std::slice::from_ref(&at)).1;
    for i in 0..at.len() {
        let h = 1e-5 * at[i].abs().clamp(1e-3, 1.0);
        let (values, gradients) = evaluate(&p, &[moved(i, h), moved(i, -h)]);
        let slope = (values[0] - values[1]) / (2.0 * h);
        let scale = slope.abs().max(1.0) + found.abs() * 1e-5 / h;
        assert!((gradient[i] - slope).abs() < 1e-6 * scale, "{name} {at:?}, argument {i}: {}, {slope}", gradient[i]);
        let unit: Vec<f64> = (0..at.len()).map(|j| f64::from(u8::from(i == j))).collect();
        let product = hessian_product(&p, &at, &unit);
        for j in 0..at.len() {
            let bend = (gradients[j] - gradients[at.len() + j]) / (2.0 * h);
            let scale = bend.abs().max(1.0) + gradient[j].abs() * 1e-5 / h;
            assert!((product[j] - bend).abs() < 1e-6 * scale, "{name} {at:?}, {i} and {j}: {}, {bend}", product[j]);
        }
    }
}

#[test]
fn of_real_numbers() {
    for (name, at, expected) in REAL {
        let rest: Vec<String> = (2..=at.len()).map(|i| format!("x[{i}]")).collect();
        let call = format!("{name}(x[1] | {})", rest.join(", "));
        let text = format!("parameters {{ vector[{}] x; }} model {{ target += {call}; }}", at.len());
        check(name, &text, at, *expected);
    }
}

#[test]
fn of_whole_numbers() {
    for (name, n, at, expected) in WHOLE {
        // Trials are known.
        let known = usize::from(name.starts_with("binomial"));
        let argument = |i: usize| if i < known { format!("{}", at[i]) } else { format!("x[{}]", i + 1 - known) };
        let list: Vec<String> = (0..at.len()).map(argument).collect();
        let text = format!(
            "parameters {{ vector[{}] x; }} model {{ target += {name}({n} | {}); }}",
            at.len() - known,
            list.join(", ")
        );
        check(name, &text, &at[known..], *expected);
    }
}

#[test]
fn inverses_and_angles() {
    // By SciPy.
    let quantiles = [
        (1e-300, -37.0470962993612),
        (1e-12, -7.034483825301131),
        (0.01, -2.3263478740408408),
        (0.3, -0.5244005127080409),
        (0.9, 1.2815515655446004),
    ];
    for (p, expected) in quantiles {
        let program = "parameters { vector[1] x; } model { target += inv_Phi(x[1]); }";
        let found = log_density(&posterior(program, json!({})), &[p]);
        assert!((found - expected).abs() < 1e-13 * f64::abs(expected), "{p}: {found}, expected {expected}");
        if p > 0.1 {
            check("inv_Phi", program, &[p], expected);
        }
    }
    let log = "parameters { vector[1] x; } model { target += std_normal_log_qf(x[1]); }";
    check("std_normal_log_qf", log, &[-35.01343715991456], -8.0);
    for (call, at, expected) in [
        ("asin(x[1])", [0.7, 0.0], 0.7f64.asin()),
        ("acos(x[1])", [-0.99, 0.0], f64::acos(-0.99)),
        ("atan(x[1])", [-7.0, 0.0], f64::atan(-7.0)),
        ("atan2(x[1], x[2])", [0.3, -2.0], f64::atan2(0.3, -2.0)),
        ("atan2(x[1], x[2])", [-3.0, -2.0], f64::atan2(-3.0, -2.0)),
        ("atan2(x[1], x[2])", [3.0, 0.5], f64::atan2(3.0, 0.5)),
        ("gamma_p(x[1], x[2])", [1.0, 2.0], 1.0 - f64::exp(-2.0)),
        ("gamma_q(x[1], x[2])", [1.0, 2.0], f64::exp(-2.0)),
        ("inc_beta(x[1], x[2], 0.25)", [1.0, 2.0], 0.4375),
    ] {
        check(call, &format!("parameters {{ vector[2] x; }} model {{ target += {call}; }}"), &at, expected);
    }
}

#[test]
fn ends_of_the_support() {
    let at = |call: &str| {
        let text = format!("parameters {{ vector[2] x; }} model {{ target += {call}; }}");
        log_density(&posterior(&text, json!({})), &[1.5, 2.5])
    };
    assert_eq!(at("gamma_lcdf(0 | x[1], x[2])"), f64::NEG_INFINITY);
    assert_eq!(at("gamma_lccdf(0 | x[1], x[2])"), 0.0);
    assert_eq!(at("gamma_lcdf(positive_infinity() | x[1], x[2])"), 0.0);
    assert_eq!(at("beta_lcdf(-1 | x[1], x[2])"), f64::NEG_INFINITY);
    assert_eq!(at("beta_lcdf(1 | x[1], x[2])"), 0.0);
    assert_eq!(at("poisson_lcdf(-1 | x[1])"), f64::NEG_INFINITY);
    assert_eq!(at("binomial_lcdf(3 | 3, inv_logit(x[1]))"), 0.0);
    assert_eq!(at("binomial_lccdf(3 | 3, inv_logit(x[1]))"), f64::NEG_INFINITY);
    // What is cut off is known: P(1 < X < 3) of gamma(2, 1) is 2/e − 4/e³.
    let text = "parameters { vector[2] x; } model { 2.0 ~ gamma(x[1], x[2]) T[1, 3]; }";
    let found = log_density(&posterior(text, json!({})), &[2.0, 1.0]);
    let expected = 2f64.ln() - 2.0 - (2.0 * f64::exp(-1.0) - 4.0 * f64::exp(-3.0)).ln();
    assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
}
