//! Objectives: their gradients against finite differences, exact values and each other; what is reported; mistakes.

mod common;

use common::{Skewed, Tilted};
use mcvi::density::Gaussian;
use mcvi::diagnostics::mean;
use mcvi::fit::{Objective, Settings, fit};
use mcvi::transition::{AnyTransition, Inverse, Langevin, Uha};
use mcvi::{Approximation, Chain, Choices, Error, Sharing, Target};
use mcvi_expr::Array;

fn chain(steps: usize, transition: impl Into<AnyTransition>) -> Chain {
    Chain::new(Gaussian::diagonal()).steps(steps, Sharing::Nothing, transition.into())
}

fn langevin() -> Langevin {
    Langevin::new(Inverse::Reversed)
}

/// The parameters away from where they start, so that no gradient is zero by chance.
fn moved(target: impl Target + 'static, chain: Chain) -> Approximation {
    let mut moved = Approximation::new(target, chain).unwrap();
    let names: Vec<String> =
        moved.params().iter().filter(|(_, p)| p.learned).map(|(name, _)| name.to_owned()).collect();
    for (i, name) in names.iter().enumerate() {
        shift(&mut moved, name, 0, 0.15 + 0.02 * i as f64);
    }
    moved
}

fn shift(approximation: &mut Approximation, name: &str, element: usize, by: f64) {
    let value = approximation.params().get(name).unwrap().value.clone();
    let mut values = value.to_f64();
    values[element] += by;
    approximation.params_mut().set(name, Array::new(value.shape().clone(), values).unwrap()).unwrap();
}

/// The derivative of a function of the bounds of 1000 draws, in units of the parameter's scale, with the same noise.
fn difference(of: &Approximation, name: &str, element: usize, seed: u64, value: impl Fn(&[f64]) -> f64) -> f64 {
    let scale = of.params().get(name).unwrap().scale[element];
    let at = |by: f64| {
        let mut there = of.clone();
        shift(&mut there, name, element, by * scale);
        value(&there.bounds(1000, Choices::Average, seed).unwrap())
    };
    (at(1e-5) - at(-1e-5)) / 2e-5
}

/// The mean over groups of k draws of the log of the mean of their weights.
fn importance_weighted(bounds: &[f64], k: usize) -> Vec<f64> {
    let value = |group: &[f64]| {
        let top = group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        top + (group.iter().map(|b| (b - top).exp()).sum::<f64>() / k as f64).ln()
    };
    bounds.chunks(k).map(value).collect()
}

/// With the same noise the gradient is the derivative of the value.
#[test]
fn the_importance_weighted_gradient_is_the_derivative_of_its_bound() {
    for kernel in [Uha::new(1).into(), AnyTransition::from(langevin())] {
        let model = moved(Skewed, chain(2, kernel).annealed_learned());
        for s in model.gradient_spread(Objective::ImportanceWeighted(5), 1000, 1, 3).unwrap() {
            for (i, g) in s.mean.iter().enumerate() {
                let value = |bounds: &[f64]| mean(&importance_weighted(bounds, 5)).value;
                let d = difference(&model, &s.name, i, 3, value);
                assert!((d - g).abs() < 1e-6 * (1.0 + d.abs()), "{}[{i}]: {g}, by differences {d}", s.name);
            }
        }
    }
}

/// What a fit reports is the mean over groups, a bound that is tighter than that of single draws.
#[test]
fn the_importance_weighted_bound_is_reported_and_compared() {
    let settings = Settings { iterations: 1500, ..Settings::default() };
    let fitted = |objective| {
        let mut model = Approximation::new(Skewed, chain(1, Uha::new(1)).annealed_learned()).unwrap();
        let report = fit(&mut model, &Settings { objective, ..settings.clone() }).unwrap();
        (report, model.draw(80_000, 9).unwrap().log_weights)
    };
    let (plain, plain_draws) = fitted(Objective::Bound);
    let (one, one_draws) = fitted(Objective::ImportanceWeighted(1));
    assert_eq!((plain.trace.len(), plain_draws), (one.trace.len(), one_draws.clone()));
    let (report, draws) = fitted(Objective::ImportanceWeighted(8));
    let (tight, loose) = (mean(&importance_weighted(&draws, 8)), mean(&draws));
    let last = report.trace.last().unwrap();
    assert!(
        (last.bound - tight.value).abs() < 4.0 * (last.se.powi(2) + tight.se.powi(2)).sqrt() + 5e-3,
        "{last:?} {tight:?}"
    );
    assert!(tight.value > loose.value + 4.0 * loose.se);
    assert!(tight.value < Skewed::log_evidence() + 4.0 * tight.se);
    let of_plain = mean(&importance_weighted(&one_draws, 8));
    assert!(tight.value > of_plain.value - 4.0 * (tight.se + of_plain.se) - 2e-3, "{tight:?} {of_plain:?}");
}

#[test]
fn mistakes_are_named() {
    let fails = |chain: Chain, objective, draws| {
        let mut model = Approximation::new(Tilted, chain).unwrap();
        fit(&mut model, &Settings { objective, draws, iterations: 10, ..Settings::default() }).unwrap_err()
    };
    let gaussian = || Chain::new(Gaussian::diagonal());
    for (k, draws) in [(3, 16), (0, 16), (32, 16)] {
        let error = fails(gaussian(), Objective::ImportanceWeighted(k), draws);
        assert!(matches!(error, Error::Setting { .. }), "{error}");
    }
}
