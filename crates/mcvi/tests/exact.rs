//! The paper's bivariate Gaussian, where every number is known: the printed table, and chains with the exact inverse.

use mcvi::Approximation;
use mcvi::paper::gaussian::{BivariateGaussian, Sampler, best_alpha, chain, exact_bound};
use mcvi::transition::OverRelaxation;
use mcvi_expr::Array;

/// T, the bound of Gibbs sampling, the bound at the best α, that α.
const TABLE: [(usize, f64, f64, f64); 5] = [
    (1, 0.4058, 0.4072, -0.04),
    (2, 1.0447, 1.3442, -0.49),
    (4, 1.6238, 2.6211, -0.74),
    (8, 2.2371, 3.4225, -0.768),
    (10, 2.4399, 3.4442, -0.74),
];

#[test]
fn the_evidence_is_known() {
    let log_evidence = BivariateGaussian::default().log_evidence();
    assert!((log_evidence - 3.447315).abs() < 1e-6, "{log_evidence}");
}

#[test]
fn exact_bounds_are_those_of_the_table() {
    let target = BivariateGaussian::default();
    for (sweeps, gibbs, best, at) in TABLE {
        let exact = exact_bound(&target, sweeps, 0.0);
        assert!((exact - gibbs).abs() < 6e-5, "Gibbs, T = {sweeps}: {exact} is not {gibbs}");
        let (alpha, bound) = best_alpha(&target, sweeps);
        assert!((bound - best).abs() < 6e-5, "over-relaxation, T = {sweeps}: {bound} is not {best}");
        assert!((alpha - at).abs() < 6e-3, "over-relaxation, T = {sweeps}: α = {alpha} is not {at}");
    }
    assert!((best_alpha(&target, 9).0 + 0.754).abs() < 1e-3);
}

/// Regression leaves r short of the exact inverse by its own error: about a parameter's worth, half a nat over the draws
/// it is from, for each of the 5 parameters and 2 variances of a step.
#[test]
fn chains_with_the_exact_inverse_reach_the_exact_bound() {
    let target = BivariateGaussian::default();
    for (sweeps, alpha) in [(1, 0.0), (2, 0.0), (4, 0.0), (8, 0.0), (1, -0.04), (2, -0.49), (4, 0.5), (8, -0.768)] {
        let sampler = if alpha == 0.0 { Sampler::Gibbs } else { Sampler::OverRelaxation };
        let mut approximation = Approximation::new(target, chain(sampler, sweeps)).unwrap();
        if sampler == Sampler::OverRelaxation {
            let name = format!("step1.{}", OverRelaxation::PARAMETER);
            approximation.params_mut().set(&name, Array::scalar(f64::atanh(alpha))).unwrap();
        }
        let from = 40_000;
        approximation.regress_inverses(from, 1).unwrap();
        let bound = approximation.draw(20_000, 2).unwrap().diagnose().bound;
        let exact = exact_bound(&target, sweeps, alpha);
        let regression = 9.0 * sweeps as f64 / from as f64;
        let off = bound.value - exact;
        assert!(off.abs() <= 4.0 * bound.se + regression, "T = {sweeps}, α = {alpha}: {bound:?} is not {exact}");
    }
}
