//! Annealing from a wide start finds what lies far apart, and its estimates are honest.

use mcvi::diagnostics::log_mean_exp;
use mcvi::{Hardware, Target, WideStart, target};
use std::sync::Arc;

fn check(target: Arc<dyn Target>, log_z: f64) -> Vec<Vec<f64>> {
    let start = WideStart::find(target.as_ref(), 1).unwrap();
    let annealed = start.anneal(target, 300, 4000, 1, Hardware::with_threads(1)).unwrap();
    let estimate = log_mean_exp(&annealed.log_weights);
    assert!((estimate.value - log_z).abs() < 4.0 * estimate.se + 1e-3, "{estimate:?}, exact {log_z}");
    assert!(estimate.se < 0.05, "{estimate:?}");
    let bound = annealed.log_weights.iter().sum::<f64>() / annealed.log_weights.len() as f64;
    assert!(bound < log_z && bound > log_z - 1.0, "{bound}, exact {log_z}");
    assert!(annealed.accept.unwrap().iter().all(|a| *a > 0.3 && *a < 1.0));
    annealed.z
}

#[test]
fn two_modes_forty_standard_deviations_apart_are_both_found() {
    // ¼ N(−20, 1) + ¾ N(20, 1) in each of two coordinates' directions: the second coordinate is N(0, 0.1²).
    let target = target(2, |_, z| {
        let (x, y) = (z.slice(1, 0..1), z.slice(1, 1..2));
        let hump = |at: f64, weight: f64| (x - at).square() * -0.5 + weight.ln();
        let both = hump(-20.0, 0.25);
        let other = hump(20.0, 0.75);
        let larger = both.max(other);
        let mixture = ((both - larger).exp() + (other - larger).exp()).ln() + larger;
        (mixture - (y * 10.0).square() * 0.5).sum(&[1])
    });
    let log_z = std::f64::consts::TAU.ln() + 0.1f64.ln();
    check(Arc::new(target), log_z);
}

#[test]
fn a_start_around_one_mode_is_twice_as_wide_in_variance() {
    let target = target(3, |_, z| ((z - 50.0) * 4.0).square().sum(&[1]) * -0.5);
    let start = WideStart::find(&target, 1).unwrap();
    for i in 0..3 {
        assert!((start.center[i] - 50.0).abs() < 1e-6, "{start:?}");
        assert!((start.wide[i] - 2f64.sqrt() / 4.0).abs() < 1e-6 && (start.narrow[i] - 0.25).abs() < 1e-6, "{start:?}");
    }
    check(Arc::new(target), 3.0 * (0.5 * std::f64::consts::TAU.ln() - 4f64.ln()));
}

#[test]
fn a_target_that_is_nowhere_finite_is_an_error() {
    let nowhere = target(1, |_, z| z.square().sum(&[1]) * 0.0 + f64::NAN);
    assert!(WideStart::find(&nowhere, 1).is_err());
}
