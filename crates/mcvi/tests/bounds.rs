//! A bound is a bound: for every transition and density, below the evidence, unbiased as a weight, better when trained.

mod common;

use common::{Case, Starts, Weights};
use mcvi::fit::{Schedule, Settings};
use mcvi::paper::gaussian::{BivariateGaussian, Sampler, chain};
use mcvi::{Approximation, Diagnostics, fit};

const DRAWS: usize = 20_000;

/// The mean of L is at most the log evidence; the mean of exp(L) is the evidence, or below it.
#[track_caller]
fn check(name: &str, weights: Weights, log_evidence: f64, diagnostics: &Diagnostics) {
    let Diagnostics { bound, log_evidence: weighted, pareto_k, lost, .. } = diagnostics;
    assert_eq!(*lost, 0, "{name}: draws without weight");
    assert!(bound.value <= log_evidence + 3.0 * bound.se, "{name}: {bound:?} is above {log_evidence}");
    let off = (weighted.value - log_evidence) / weighted.se;
    assert!(off <= 4.0, "{name}: {weighted:?} is above {log_evidence}");
    if weights == Weights::Tame && *pareto_k < 0.7 {
        assert!(off >= -4.0, "{name}: {weighted:?} is below {log_evidence}");
    }
}

fn check_untrained_and_trained(cases: Vec<Case>) {
    let settings = Settings { iterations: 300, schedule: Schedule::Cosine, ..Settings::default() };
    for case in cases {
        let Case { name, weights, log_evidence, .. } = case;
        let mut approximation = case.approximation().on(mcvi::Hardware::with_threads(1));
        let before = approximation.draw(DRAWS, 11).unwrap().diagnose();
        check(name, weights, log_evidence, &before);
        // Training may narrow q until weights are heavy; untrained ones that are would leave the test without power.
        assert!(weights != Weights::Tame || before.pareto_k < 0.7, "{name}: Pareto k̂ {}", before.pareto_k);
        let report = fit(&mut approximation, &settings).unwrap();
        assert_eq!(report.skipped, 0, "{name}: gradients that are not finite");
        let after = approximation.draw(DRAWS, 12).unwrap().diagnose();
        check(name, weights, log_evidence, &after);
        let (gain, se) = (after.bound.value - before.bound.value, after.bound.se.hypot(before.bound.se));
        assert!(gain >= -3.0 * se, "{name}: from {:?} down to {:?}", before.bound, after.bound);
    }
}

#[test]
fn sweeps_are_below_the_evidence() {
    check_untrained_and_trained(common::sweeps(&Starts::default()));
}

#[test]
fn dynamics_is_below_the_evidence() {
    check_untrained_and_trained(common::dynamics(&Starts::default()));
}

#[test]
fn accept_reject_steps_are_below_the_evidence() {
    check_untrained_and_trained(common::accepts(&Starts::default()));
}

#[test]
fn mixed_chains_are_below_the_evidence() {
    check_untrained_and_trained(common::mixed(&Starts::default()));
}

#[test]
fn the_papers_chains_are_below_the_evidence() {
    let target = BivariateGaussian::default();
    for sampler in [Sampler::Gibbs, Sampler::OverRelaxation] {
        let chain = chain(sampler, 3);
        let case = Case {
            name: "the paper's Gaussian",
            target: std::sync::Arc::new(target),
            log_evidence: target.log_evidence(),
            chain,
            weights: Weights::Heavy,
        };
        check_untrained_and_trained(vec![case]);
    }
}

/// Training averages over accept paths, evaluation draws them: both estimate the same bound.
#[test]
fn averaged_and_drawn_choices_have_the_same_mean() {
    for case in common::accepts(&Starts::default()).into_iter().chain(common::mixed(&Starts::default())) {
        let approximation: Approximation = case.approximation();
        let drawn = approximation.draw(DRAWS, 21).unwrap().diagnose().bound;
        let (averaged, _) = approximation.gradient(DRAWS, 22).unwrap();
        // Averaging does not add to the variance.
        let se = drawn.se * 2f64.sqrt();
        assert!((averaged - drawn.value).abs() <= 4.0 * se, "{}: {averaged}, {drawn:?}", case.name);
    }
}
