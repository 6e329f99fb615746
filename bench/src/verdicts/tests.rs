//! The exact answers of every family are right, the targets are those they were, and counting follows the rules.

use super::*;
use mcvi::log_density;
use nalgebra::{DMatrix, DVector};

const DRAWS: usize = 100_000;

fn drawn(problem: &Problem, draws: usize) -> Vec<Vec<f64>> {
    let mut random = Random::new("tests", problem.index);
    (0..draws).map(|_| problem.draw(&mut random)).collect()
}

/// Mean and standard error.
fn average(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, (variance / n).sqrt())
}

/// The average of q/p over draws from p, q a Gaussian that covers the draws nearest to the likeliest of a few. It is 1 if
/// p is normalised and the draws are from p.
fn normalised(problem: &Problem, z: &[Vec<f64>]) -> (f64, f64) {
    let (d, (_, sd)) = (problem.dim(), problem.moments());
    let log_p = log_density(&problem.model(), z).expect("values");
    let start = (0..10).max_by(|a, b| log_p[*a].total_cmp(&log_p[*b])).map(|i| &z[i]).expect("draws");
    let away = |x: &[f64]| (0..d).map(|i| ((x[i] - start[i]) / sd[i]).powi(2)).sum::<f64>();
    let mut near: Vec<(f64, &[f64])> = z.iter().map(|x| (away(x), x.as_slice())).collect();
    near.select_nth_unstable_by(z.len() / 40, |a, b| a.0.total_cmp(&b.0));
    let near: Vec<&[f64]> = near[..z.len() / 40].iter().map(|(_, x)| *x).collect();
    let n = near.len() as f64;
    let mean = near.iter().fold(DVector::zeros(d), |sum, x| sum + DVector::from_row_slice(x)) / n;
    let from = |x: &[f64]| DVector::from_row_slice(x) - &mean;
    let covariance = near.iter().fold(DMatrix::zeros(d, d), |sum, x| sum + from(x) * from(x).transpose()) / n;
    let factor = (covariance * 0.6).cholesky().expect("a covariance").l();
    let constant = 0.5 * d as f64 * std::f64::consts::TAU.ln() + factor.diagonal().map(f64::ln).sum();
    let log_q = |x: &[f64]| {
        let whitened = factor.solve_lower_triangular(&from(x)).expect("a factor");
        -0.5 * whitened.norm_squared() - constant
    };
    let ratios: Vec<f64> = z.iter().zip(log_p).map(|(x, p)| (log_q(x) - p + problem.log_z).exp()).collect();
    average(&ratios)
}

#[test]
fn densities_are_normalised() {
    for family in &FAMILIES {
        for d in [1, 2, 3] {
            let Some(problem) = (0..1000).map(|i| family.problem(i)).find(|p| p.dim() == d) else {
                assert!(d == 1, "{} has {d} dimensions", family.name);
                continue;
            };
            let (mean, se) = normalised(&problem, &drawn(&problem, DRAWS));
            assert!((mean - 1.0).abs() < 5.0 * se && se < 0.05, "{} {}: {mean} ± {se}", family.name, problem.index);
        }
    }
}

#[test]
fn ridges_of_both_kinds_are_normalised() {
    let ridges = FAMILIES.iter().find(|f| f.name == "ridge").expect("ridges");
    for kind in ["circle", "parabola"] {
        let of_kind = (0..60).map(|i| ridges.problem(i)).filter(|p| p.parameters.get(kind).is_some() && p.dim() < 4);
        for problem in of_kind.take(3) {
            let (mean, se) = normalised(&problem, &drawn(&problem, DRAWS));
            assert!((mean - 1.0).abs() < 5.0 * se && se < 0.05, "{kind} {}: {mean} ± {se}", problem.index);
        }
    }
}

#[test]
fn means_and_sds_are_those_of_exact_draws() {
    for family in &FAMILIES {
        // Tails so heavy that the sd of draws says little are left out.
        let is_light = |p: &Problem| {
            let number = |name: &str| p.parameters.get(name).and_then(serde_json::Value::as_f64);
            number("nu").is_none_or(|nu| nu >= 10.0)
                && (family.name != "funnel" || number("sd").is_some_and(|s| s < 1.2))
        };
        let light = (0..family.count).map(|i| family.problem(i)).filter(|p| p.dim() <= 20 && is_light(p));
        for problem in light.take(3) {
            let (z, (mean, sd)) = (drawn(&problem, DRAWS), problem.moments());
            for i in 0..problem.dim() {
                let standard: Vec<f64> = z.iter().map(|z| (z[i] - mean[i]) / sd[i]).collect();
                let squares: Vec<f64> = standard.iter().map(|x| x * x).collect();
                let (first, second) = (average(&standard), average(&squares));
                let place = format!("{} {}, coordinate {i}: {first:?}, {second:?}", family.name, problem.index);
                assert!(first.0.abs() < 5.0 * first.1 && (second.0 - 1.0).abs() < 5.0 * second.1, "{place}");
            }
        }
    }
}

#[test]
fn probabilities_of_components_average_to_their_masses() {
    for family in FAMILIES.iter().filter(|f| !f.problem(0).components().is_empty()) {
        let problem = family.problem(0);
        let z = drawn(&problem, 20_000);
        for (k, component) in problem.components().iter().enumerate() {
            let given: Vec<f64> = z.iter().map(|z| problem.responsibilities(z)[k]).collect();
            let (mean, se) = average(&given);
            assert!((mean - component.mass).abs() < 5.0 * se + 1e-9, "{} {k}: {mean} ± {se}", family.name);
        }
    }
}

/// If this fails, do not record new numbers: make the targets what they were.
#[test]
fn targets_are_those_they_were() {
    let known = [
        ("gaussian", 100, -66.917_726_33),
        ("student", 60, -148.314_914_38),
        ("banana", 60, -82.575_449_35),
        ("funnel", 60, 164.885_898_66),
        ("mixture", 200, -82.806_008_43),
        ("wide-ratio", 60, 45.105_052_42),
        ("two-mode", 100, 100.350_079_35),
        ("many-mode", 60, 70.065_412_35),
        ("spike", 40, 50.887_150_32),
        ("ridge", 60, 79.711_423_70),
        ("bounded", 60, -83.421_511_53),
        ("skewed", 60, 37.920_866_45),
    ];
    let digest = |problem: Problem| {
        let (mean, sd) = problem.moments();
        let sums = mean.iter().sum::<f64>() + sd.iter().map(|s| s.ln()).sum::<f64>();
        problem.log_z + sums / problem.dim() as f64
    };
    let found: Vec<(&str, usize, f64)> =
        FAMILIES.iter().map(|f| (f.name, f.count, (0..f.count).map(|i| digest(f.problem(i))).sum::<f64>())).collect();
    let is_same = |a: &(&str, usize, f64), b: &(&str, usize, f64)| a.0 == b.0 && a.1 == b.1 && (a.2 - b.2).abs() < 1e-6;
    assert!(known.len() == found.len() && known.iter().zip(&found).all(|(a, b)| is_same(a, b)), "{found:#?}");
}

fn outcome(log_evidence: f64, se: f64, mean_error: f64) -> Outcome {
    let mode = |mass, drawn, listed_at| ModeOutcome { mass, drawn_mass: Some(drawn), apart: 10.0, listed_at };
    Outcome {
        family: "mixture".to_owned(),
        index: 0,
        dim: 2,
        parameters: serde_json::Value::Null,
        truth: Truth { log_z: 1.0, mean: vec![0.0; 2], sd: vec![1.0; 2], width_ratio: Some(2.0) },
        verdict: "good".to_owned(),
        reasons: vec![],
        bound: Some(log_evidence),
        bound_se: Some(se),
        log_evidence: Some(log_evidence),
        log_evidence_se: Some(se),
        pareto_k: Some(0.1),
        ess: Some(1e4),
        draws: 50_000,
        mean_error: Some(mean_error),
        sd_ratio: Some(1.0),
        modes: vec![mode(0.6, 0.61, None), mode(0.4, 0.39, Some(0.1))],
        is_stopped: false,
        seconds: 1.0,
    }
}

#[test]
fn wrong_is_off_by_both_a_tenth_of_a_nat_and_five_standard_errors_or_in_a_mean() {
    assert!(!is_wrong(&outcome(1.05, 0.001, 0.05)) && !is_wrong(&outcome(0.8, 0.05, 0.05)));
    assert!(is_wrong(&outcome(0.8, 0.03, 0.05)) && is_wrong(&outcome(1.2, 0.03, 0.05)));
    assert!(is_wrong(&outcome(1.0, 0.01, 0.11)));
    assert!(is_wrong(&Outcome { log_evidence: None, ..outcome(1.0, 0.01, 0.0) }));
    assert!(is_wrong(&Outcome { mean_error: None, ..outcome(1.0, 0.01, 0.0) }));
}

#[test]
fn modes_are_found_by_draws_or_in_the_list() {
    let change = |change: &dyn Fn(&mut Outcome)| {
        let mut outcome = outcome(1.0, 0.01, 0.0);
        change(&mut outcome);
        (finds_modes(&outcome), reaches_two_modes(&outcome))
    };
    assert_eq!(change(&|_| ()), (Some(true), true));
    assert_eq!(change(&|o| o.modes[1].drawn_mass = Some(0.0)), (Some(true), false));
    assert_eq!(change(&|o| o.modes[0].drawn_mass = Some(0.29)), (Some(false), false));
    assert_eq!(change(&|o| o.modes[0].drawn_mass = Some(0.31)), (Some(true), false));
    assert_eq!(change(&|o| (o.modes[0].drawn_mass, o.modes[0].mass) = (Some(0.0), 0.04)).0, Some(true));
    assert_eq!(change(&|o| o.modes.iter_mut().for_each(|m| m.apart = 21.0)).0, None);
    assert_eq!(change(&|o| o.truth.width_ratio = Some(5.1)).0, None);
    assert!(!change(&|o| o.verdict = "reweight".to_owned()).1);
}

#[test]
fn the_table_counts() {
    let text = markdown(&[outcome(1.0, 0.01, 0.0), outcome(3.0, 0.01, 0.0)]);
    assert!(text.contains("| mixture | 2 | 2 | 0 | 0 | 0 | 1 | 50.0 % | – | – | 1.0 | 1.0 | 2 of 2 | – |"), "{text}");
    assert!(text.contains("log p(x) off by 2.000"), "{text}");
}
