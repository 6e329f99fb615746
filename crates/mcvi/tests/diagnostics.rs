//! The diagnostics against ArviZ and numpy (tests/data/reference.py), and the properties and edges they must keep.

use mcvi::diagnostics::{
    Weights, autocorrelated_ess, effective_sample_size, log_mean_exp, mean, monte_carlo_se, psis, r_squared,
    split_r_hat, summarise, zero_weights,
};
use serde_json::Value;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The cases stored under a name.
fn reference(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("data/psis.json")).unwrap();
    all[name].as_array().unwrap().clone()
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Fail unless two numbers agree to a relative (above one) or absolute tolerance; infinities must be equal.
#[track_caller]
fn assert_near(ours: f64, theirs: f64, tolerance: f64, what: &str) {
    let near = (ours - theirs).abs() <= tolerance * theirs.abs().max(1.0);
    assert!(ours == theirs || near, "{what}: {ours} is not {theirs}");
}

/// Some numbers without structure: a multiplicative sequence, spread over (-1, 1).
fn scattered(n: usize) -> Vec<f64> {
    let fractions = (1..=n).map(|i| (i as f64 * 0.618_033_988_749_894_9).fract());
    fractions.map(|u| 2.0 * (u * 7919.0).fract() - 1.0).collect()
}

/// The first element of a Cholesky factor of correlations is 1 but for rounding, which reweighting must not make anything of.
#[test]
fn a_constant_has_no_spread() {
    let values: Vec<f64> = (0..5000).map(|i| if i % 3 == 0 { 1.0 + f64::EPSILON } else { 1.0 }).collect();
    let log_weights: Vec<f64> = scattered(5000);
    for weights in [Weights::even(5000), Weights::smoothed(&log_weights)] {
        let found = summarise(&values, &weights);
        assert_eq!(found.sd, 0.0);
        assert!((found.mean - 1.0).abs() < 1e-15 && found.has_mean && found.has_sd);
    }
}

#[test]
fn psis_is_arvizs() {
    for case in reference("psis") {
        let name = case["name"].as_str().unwrap();
        let ours = psis(&numbers(&case["log_weights"]));
        assert_near(ours.k, case["k"].as_f64().unwrap_or(INF), 1e-10, name);
        let mut smoothed = ours.log_weights;
        if case["by_rank"].as_bool().unwrap() {
            smoothed.sort_by(f64::total_cmp);
        }
        for (at, theirs) in numbers(&case["at"]).into_iter().zip(numbers(&case["smoothed"])) {
            assert_near(smoothed[at as usize], theirs, 1e-10, name);
        }
    }
}

#[test]
fn split_r_hat_is_numpys() {
    for case in reference("r_hat") {
        let chains: Vec<Vec<f64>> = case["chains"].as_array().unwrap().iter().map(numbers).collect();
        assert_near(split_r_hat(&chains), case["r_hat"].as_f64().unwrap(), 1e-10, case["name"].as_str().unwrap());
    }
}

#[test]
fn autocorrelated_ess_and_monte_carlo_se_are_numpys() {
    for case in reference("ess") {
        let (name, draws) = (case["name"].as_str().unwrap(), numbers(&case["draws"]));
        assert_near(autocorrelated_ess(&draws), case["ess"].as_f64().unwrap(), 1e-9, name);
        assert_near(monte_carlo_se(&draws), case["mcse"].as_f64().unwrap(), 1e-9, name);
    }
}

#[test]
fn mean_by_hand() {
    let m = mean(&[1.0, 2.0, 3.0, 6.0]);
    assert_eq!((m.value, m.n), (3.0, 4));
    assert_near(m.se, (14.0 / 3.0 / 4.0_f64).sqrt(), 1e-15, "se");
    assert_eq!(mean(&[0.1; 7]).value, 0.1);
    assert_eq!(mean(&[0.1; 7]).se, 0.0);
}

#[test]
fn mean_keeps_every_draw() {
    for lost in [NAN, -INF] {
        for draws in [[1.0, lost, 2.0], [lost, 1.0, 2.0]] {
            let m = mean(&draws);
            assert_eq!((m.value, m.n), (-INF, 3));
            assert!(m.se.is_nan());
            assert_eq!(zero_weights(&draws), 1);
        }
    }
    assert_eq!(mean(&[1.0, INF]).value, INF);
    assert!(mean(&[INF, -INF]).value.is_nan());
    assert!(mean(&[3.0]).se.is_nan());
    assert!(mean(&[]).value.is_nan());
}

#[test]
fn log_mean_exp_by_hand() {
    // Weights 1, 3: mean 2, sd sqrt(2), se sqrt(2) / (2 sqrt(2)).
    let l = log_mean_exp(&[0.0, 3.0_f64.ln()]);
    assert_near(l.value, 2.0_f64.ln(), 1e-15, "value");
    assert_near(l.se, 0.5, 1e-15, "se");
    // A lost draw is a weight of zero: it counts.
    for lost in [NAN, -INF] {
        assert_near(log_mean_exp(&[lost, 0.0]).value, 0.5_f64.ln(), 1e-15, "value with a lost draw");
        assert_near(log_mean_exp(&[lost, 0.0]).se, 1.0, 1e-15, "se with a lost draw");
        assert_eq!(log_mean_exp(&[lost; 3]).value, -INF);
    }
    assert_eq!(log_mean_exp(&[INF, 0.0]).value, INF);
    assert!(log_mean_exp(&[INF, 0.0]).se.is_nan());
    assert!(log_mean_exp(&[0.0]).se.is_nan());
    assert!(log_mean_exp(&[]).value.is_nan());
}

#[test]
fn effective_sample_size_by_hand() {
    assert_near(effective_sample_size(&[0.0, 3.0_f64.ln()]), 1.6, 1e-15, "weights 1, 3");
    assert_eq!(effective_sample_size(&[-1234.5; 40]), 40.0);
    assert_eq!(effective_sample_size(&[0.0, NAN, 0.0, -INF]), 2.0);
    assert_eq!(effective_sample_size(&[NAN, -INF]), 0.0);
    assert_eq!(effective_sample_size(&[]), 0.0);
    assert!(effective_sample_size(&[INF, 0.0]).is_nan());
}

#[test]
fn an_offset_of_the_log_weights_moves_log_p_alone() {
    let weights: Vec<f64> = scattered(200).iter().map(|x| 8.0 * x).collect();
    let before = (log_mean_exp(&weights), effective_sample_size(&weights), psis(&weights));
    for offset in [-1e5, -800.0, 3.0, 800.0, 1e5] {
        let moved: Vec<f64> = weights.iter().map(|x| x + offset).collect();
        assert_near(log_mean_exp(&moved).value, before.0.value + offset, 1e-12, "log p");
        assert_near(log_mean_exp(&moved).se, before.0.se, 1e-9, "se");
        assert_near(effective_sample_size(&moved), before.1, 1e-9, "effective sample size");
        assert_near(psis(&moved).k, before.2.k, 1e-8, "k");
        for (after, before) in psis(&moved).log_weights.iter().zip(&before.2.log_weights) {
            assert_near(*after, *before, 1e-8, "smoothed");
        }
    }
}

#[test]
fn smoothing_keeps_order_and_normalises() {
    let weights: Vec<f64> = scattered(500).iter().map(|x| 6.0 * x).collect();
    let smoothed = psis(&weights).log_weights;
    assert_near(smoothed.iter().map(|l| l.exp()).sum(), 1.0, 1e-12, "total");
    let mut order: Vec<usize> = (0..500).collect();
    order.sort_by(|&i, &j| weights[i].total_cmp(&weights[j]));
    assert!(order.windows(2).all(|pair| smoothed[pair[0]] <= smoothed[pair[1]]));
}

#[test]
fn lost_draws_keep_a_weight_of_zero_in_psis() {
    let mut weights = scattered(100);
    weights[..30].fill(-INF);
    let minus_infinity = psis(&weights);
    assert!(minus_infinity.k.is_finite());
    assert!(minus_infinity.log_weights[..30].iter().all(|&l| l == -INF));
    assert!(minus_infinity.log_weights[30..].iter().all(|l| l.is_finite()));
    assert_near(minus_infinity.log_weights.iter().map(|l| l.exp()).sum(), 1.0, 1e-12, "total");
    // They are as weights too small to matter, and as NaN.
    let mut tiny = weights.clone();
    tiny[..30].fill(-1e4);
    assert_eq!(psis(&tiny).k, minus_infinity.k);
    weights[..30].fill(NAN);
    assert_eq!(psis(&weights), minus_infinity);
}

#[test]
fn psis_of_nothing_to_smooth() {
    assert!(psis(&[]).log_weights.is_empty());
    assert_eq!(psis(&[]).k, INF);
    assert_eq!(psis(&[5.0]).log_weights, [0.0]);
    assert_eq!(psis(&[5.0]).k, INF);
    assert_eq!(psis(&[-INF, NAN]).log_weights, [-INF; 2]);
    assert_eq!(psis(&[-INF; 50]).k, INF);
    let infinite = psis(&[0.0, INF, -INF]);
    assert!(infinite.log_weights.iter().all(|l| l.is_nan()));
    assert_eq!(infinite.k, INF);
}

#[test]
fn psis_of_weights_that_defy_the_fit() {
    // Equal but for rounding: distinct as logs, not as weights.
    let rounding: Vec<f64> = (0..100).map(|i| i as f64 * 1e-19).collect();
    // One excess only: with a tail of this length one candidate for b is exactly zero.
    let two_values: Vec<f64> = (0..1300).map(|i| if i < 102 { 1.0 } else { 0.0 }).collect();
    for weights in [rounding, two_values] {
        let raw = psis(&weights);
        assert_eq!(raw.k, INF);
        let total = weights.iter().map(|l| l.exp()).sum::<f64>().ln();
        for (ours, raw) in raw.log_weights.iter().zip(&weights) {
            assert_near(*ours, raw - total, 1e-12, "unsmoothed");
        }
    }
}

#[test]
fn split_r_hat_at_the_edges() {
    assert_eq!(split_r_hat(&[vec![0.1; 10]]), 1.0);
    assert_eq!(split_r_hat(&[vec![0.1; 10], vec![0.1; 7]]), 1.0);
    assert_eq!(split_r_hat(&[vec![0.1; 10], vec![0.3; 10]]), INF);
    assert!(split_r_hat(&[]).is_nan());
    assert!(split_r_hat(&[vec![]]).is_nan());
    assert!(split_r_hat(&[vec![1.0, 2.0, 3.0]]).is_nan());
    for bad in [NAN, INF, -INF] {
        assert!(split_r_hat(&[vec![1.0, 2.0, bad, 3.0, 4.0]]).is_nan());
    }
    // A longer sequence is cut at the length of the shortest.
    let (long, short) = (scattered(50), scattered(30)[10..].to_vec());
    assert_eq!(split_r_hat(&[long.clone(), short.clone()]), split_r_hat(&[long[..20].to_vec(), short]));
}

#[test]
fn autocorrelated_ess_at_the_edges() {
    assert_eq!(autocorrelated_ess(&[0.1; 25]), 25.0);
    assert_eq!(monte_carlo_se(&[0.1; 25]), 0.0);
    for draws in [&[][..], &[1.0, 2.0, 3.0], &[1.0, NAN, 2.0, 3.0, 4.0], &[1.0, -INF, 2.0, 3.0, 4.0]] {
        assert!(autocorrelated_ess(draws).is_nan());
        assert!(monte_carlo_se(draws).is_nan());
    }
    let draws = scattered(100);
    for scale in [1e-200, 1e200] {
        let scaled: Vec<f64> = draws.iter().map(|x| x * scale).collect();
        assert_near(autocorrelated_ess(&scaled), autocorrelated_ess(&draws), 1e-9, "scale");
    }
}

#[test]
fn r_squared_by_hand() {
    let log_p = scattered(50);
    let same: Vec<f64> = log_p.iter().map(|p| p + 2.5).collect();
    assert_near(r_squared(&log_p, &same), 1.0, 1e-12, "q is the posterior");
    assert_eq!(r_squared(&log_p, &[1.0; 50]), 0.0);
    // log p - log q = 0, 1, 0 has a variance of 1/3; log p has one of 1.
    assert_near(r_squared(&[0.0, 1.0, 2.0], &[0.0, 0.0, 2.0]), 2.0 / 3.0, 1e-15, "by hand");
    assert!(r_squared(&[], &[]).is_nan());
    assert!(r_squared(&[1.0], &[1.0]).is_nan());
    assert!(r_squared(&[1.0, 2.0], &[1.0]).is_nan());
    assert!(r_squared(&[1.0, -INF, 2.0], &[1.0, 1.0, 1.0]).is_nan());
    assert!(r_squared(&[1.0, 2.0, 3.0], &[1.0, NAN, 1.0]).is_nan());
}
