//! Section 4.1: accept/reject steps, averaged over all their paths or drawn, with either factorisation of the inverse.

use mcvi::density::{Bernoulli, Gaussian, Inputs, Predictor};
use mcvi::diagnostics::mean;
use mcvi::fit::Settings;
use mcvi::transition::{AcceptInverse, AcceptModel, Drift, Hamiltonian, Inverse, MetropolisHastings, RandomWalk};
use mcvi::{Approximation, Chain, Error, FromFn, Initialisation, Sharing, fit, target};
use mcvi_expr::{Array, Expr};
use std::sync::Arc;

/// log √2π.
const LOG_Z: f64 = 0.918_938_533_204_672_8;

type Density = for<'g> fn(&mcvi::Scope<'g>, Expr<'g>) -> Expr<'g>;

/// A standard normal, not normalised.
fn normal(dim: usize) -> FromFn<Density> {
    target(dim, |_, z| z.square().sum(&[1]) * -0.5)
}

fn linear() -> Bernoulli {
    Bernoulli { log_odds: Predictor::Linear(Inputs::POSITION) }
}

/// The inverse models to be tried: the reversed step, both factorisations learned, and a mixed one.
fn inverses() -> Vec<(&'static str, AcceptInverse)> {
    let discarded = || Inverse::learned(Gaussian::linear());
    vec![
        ("reversed", AcceptInverse::reversed()),
        ("accept first", accept_first(Gaussian::linear(), linear())),
        (
            "discarded first",
            AcceptInverse::DiscardedFirst { discarded: discarded(), accept: AcceptModel::Learned(linear()) },
        ),
        ("half reversed", AcceptInverse::DiscardedFirst { discarded: discarded(), accept: AcceptModel::Reversed }),
    ]
}

fn accept_first(discarded: Gaussian, accept: Bernoulli) -> AcceptInverse {
    AcceptInverse::AcceptFirst { accept, accepted: discarded.clone().into(), rejected: discarded.into() }
}

fn steps() -> Vec<(&'static str, MetropolisHastings)> {
    let dynamics = Hamiltonian::new(2).momentum(Gaussian::diagonal());
    vec![
        ("random walk", MetropolisHastings::proposal(RandomWalk)),
        ("Hamiltonian", MetropolisHastings::hamiltonian(dynamics)),
    ]
}

/// Every combination of a proposal, an inverse model and a number of steps, from a start that is off the target.
fn everything() -> Vec<(String, Approximation)> {
    let mut all = vec![];
    for (around, step) in steps() {
        for (inverse, r) in inverses() {
            for t in [1, 2] {
                let chain =
                    Chain::new(Gaussian::diagonal()).steps(t, Sharing::Nothing, step.clone().inverse(r.clone()));
                let start = Initialisation::new(&[0.7, -0.4], &[0.8, 1.5]).unwrap();
                let made = Approximation::from(Arc::new(normal(2)), chain, start).unwrap();
                all.push((format!("{around}, {inverse}, {t} steps"), made));
            }
        }
    }
    all
}

#[test]
fn averaged_and_drawn_accepts_have_the_same_expectation() {
    for (name, approximation) in everything() {
        let n = 20_000;
        let drawn = approximation.draw(n, 1).unwrap().diagnose().bound;
        let (averaged, _) = approximation.gradient(n, 2).unwrap();
        // Averaging over choices cannot raise the variance, so both have at most the standard error of the drawn one.
        let difference = (averaged - drawn.value) / (2f64.sqrt() * drawn.se);
        assert!(difference.abs() < 4.0, "{name}: {averaged} averaged, {} ± {} drawn", drawn.value, drawn.se);
        assert!(drawn.value < 2.0 * LOG_Z + 3.0 * drawn.se, "{name}: {} ± {} is above log Z", drawn.value, drawn.se);
    }
}

#[test]
fn weights_of_drawn_accepts_average_to_the_evidence() {
    for (name, approximation) in everything() {
        let judged = approximation.draw(20_000, 3).unwrap().diagnose();
        let (value, se) = (judged.log_evidence.value, judged.log_evidence.se.max(1e-9));
        let above = (value - 2.0 * LOG_Z) / se;
        assert!(above < 4.0, "{name}: {value} ± {se}");
        // A learned model of the accept also expects rejections where acceptance is certain, which never come: what it
        // gives them is missing from the average. The reversed model has none there.
        if name.contains("reversed") {
            assert!(above > -4.0, "{name}: {value} ± {se}");
        }
    }
}

/// Compare the gradient with central differences over the same noise.
#[track_caller]
fn check_gradient(name: &str, approximation: &Approximation, draws: usize, tolerance: f64) {
    let (value, gradient) = approximation.gradient(draws, 5).unwrap();
    assert!(value.is_finite(), "{name}: {value}");
    assert!(!gradient.is_empty());
    for (param, slopes) in gradient {
        let p = approximation.params().get(&param).unwrap().clone();
        let values = p.value.to_f64();
        for (i, slope) in slopes.into_iter().enumerate() {
            let h = 1e-6 * p.scale[i];
            let at = |change: f64| {
                let mut moved = values.clone();
                moved[i] += change;
                let mut other = approximation.clone();
                other.params_mut().set(&param, Array::new(p.value.shape().clone(), moved).unwrap()).unwrap();
                other.gradient(draws, 5).unwrap().0
            };
            let expected = (at(h) - at(-h)) / (2.0 * h);
            let error = (slope - expected).abs();
            assert!(
                error <= tolerance * (expected.abs() + value.abs().max(1.0) / p.scale[i]),
                "{name}, `{param}` {i}: {slope}, by differences {expected}"
            );
        }
    }
}

#[test]
fn the_averaged_bound_has_the_gradient_that_differences_show() {
    for (name, approximation) in everything() {
        check_gradient(&name, &approximation, 30, 1e-5);
    }
}

/// From z near 100 an independent proposal around 0: with a narrow one every move is accepted for certain, with a wide
/// one some are rejected.
fn from_far(proposal_sd: f64, r: AcceptInverse, steps: usize) -> Approximation {
    let step = MetropolisHastings::proposal(Gaussian::fixed(&[0.0], &[proposal_sd])).inverse(r);
    let chain = Chain::new(Gaussian::diagonal()).steps(steps, Sharing::Nothing, step);
    Approximation::from(Arc::new(normal(1)), chain, Initialisation::new(&[100.0], &[1e-3]).unwrap()).unwrap()
}

#[test]
fn certain_acceptance_leaves_value_and_gradient_finite() {
    for (name, r) in inverses() {
        for (sd, steps) in [(20.0, 1), (50.0, 1), (20.0, 2), (50.0, 2)] {
            let approximation = from_far(sd, r.clone(), steps);
            let accept = approximation.draw(30, 5).unwrap().diagnose().accept[0].unwrap();
            // The premise: all moves are certain, or some are and some are not.
            assert_eq!(accept == 1.0, sd == 20.0, "{accept}");
            check_gradient(&format!("{name}, proposal {sd}, {steps} steps"), &approximation, 30, 1e-5);
        }
    }
}

#[test]
fn a_move_to_where_the_target_is_nothing_leaves_value_and_gradient_finite() {
    // Half the moves from a point near 0 lead to where log p = −∞; then NaN there instead.
    let nothing: [(&str, Density); 2] = [
        ("−∞", |_, z| z.at(1, 0).ge(0.0).select(z.square().sum(&[1]) * -0.5, f64::NEG_INFINITY)),
        ("NaN", |_, z| z.at(1, 0).ge(0.0).select(z.square().sum(&[1]) * -0.5, f64::NAN)),
    ];
    for (what, density) in nothing {
        for (name, r) in inverses() {
            for t in [1, 2] {
                let step = MetropolisHastings::proposal(RandomWalk).inverse(r.clone());
                let chain = Chain::new(Gaussian::diagonal()).steps(t, Sharing::Nothing, step);
                let start = Initialisation::new(&[1.0], &[0.05]).unwrap();
                let mut approximation = Approximation::from(Arc::new(target(1, density)), chain, start).unwrap();
                for i in 1..=t {
                    let wide = Array::new(1, vec![1.0]).unwrap();
                    approximation.params_mut().set(&format!("step{i}.log_sd"), wide).unwrap();
                }
                let name = format!("{what}, {name}, {t} steps");
                check_gradient(&name, &approximation, 30, 1e-5);
                let drawn = approximation.draw(10_000, 8).unwrap().diagnose();
                assert_eq!(drawn.lost, 0, "{name}: such a move is never accepted");
                let averaged = approximation.gradient(10_000, 9).unwrap().0;
                let difference = (averaged - drawn.bound.value) / (2f64.sqrt() * drawn.bound.se.max(1e-9));
                assert!(difference.abs() < 4.0, "{name}: {averaged} averaged, {:?} drawn", drawn.bound);
            }
        }
    }
}

#[test]
fn accept_reject_steps_leave_their_target_invariant() {
    let mut all = steps();
    all.push(("drift", MetropolisHastings::proposal(Drift)));
    for (name, step) in all {
        let chain = Chain::new(Gaussian::fixed(&[0.0, 0.0], &[1.0, 1.0])).steps(3, Sharing::Everything, step);
        let mut approximation = Approximation::from(Arc::new(normal(2)), chain, Initialisation::standard(2)).unwrap();
        if approximation.params().get("step1.momentum.bias").is_some() {
            // A momentum that leans to one side: the way back starts with its opposite.
            let leaning = Array::new(2, vec![0.8, -0.5]).unwrap();
            approximation.params_mut().set("step1.momentum.bias", leaning).unwrap();
        }
        let draws = approximation.draw(20_000, 1).unwrap();
        let accept = draws.diagnose().accept[0].unwrap();
        assert!(accept > 0.1 && accept < 0.999, "{name}: {accept}");
        for i in 0..2 {
            let first = mean(&draws.z.iter().map(|z| z[i]).collect::<Vec<_>>());
            let second = mean(&draws.z.iter().map(|z| z[i] * z[i]).collect::<Vec<_>>());
            assert!(first.value.abs() < 4.0 * first.se, "{name}: mean {first:?}");
            assert!((second.value - 1.0).abs() < 4.0 * second.se, "{name}: second moment {second:?}");
        }
    }
}

/// A chain that starts at its target, with one step of this size.
fn converged(r: AcceptInverse, sd: f64) -> Approximation {
    let chain = Chain::new(Gaussian::fixed(&[0.0], &[1.0])).step(MetropolisHastings::proposal(RandomWalk).inverse(r));
    let mut made = Approximation::from(Arc::new(normal(1)), chain, Initialisation::standard(1)).unwrap();
    made.params_mut().set("step1.log_sd", Array::new(1, vec![sd.ln()]).unwrap()).unwrap();
    made.params_mut().set_learned("step1.log_sd", false);
    made
}

#[test]
fn a_converged_chain_loses_nothing_with_the_reversed_step() {
    for sd in [0.5, 1.0, 2.4] {
        let draws = converged(AcceptInverse::reversed(), sd).draw(2000, 1).unwrap();
        let worst = draws.log_weights.iter().map(|l| (l - LOG_Z).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-12, "{worst}");
    }
}

#[test]
fn a_converged_chain_loses_something_when_the_accept_comes_first() {
    let inputs = Inputs::POSITION;
    let hidden = || vec![16];
    let accept = Bernoulli { log_odds: Predictor::dense(inputs, &hidden()) };
    let mut approximation = converged(accept_first(Gaussian::network(inputs, &hidden()), accept), 2.4);
    let settings = Settings { draws: 64, iterations: 4000, ..Settings::default() };
    fit(&mut approximation, &settings).unwrap();
    let bound = approximation.draw(40_000, 1).unwrap().diagnose().bound;
    let loss = LOG_Z - bound.value;
    assert!((0.08..0.2).contains(&loss), "lost {loss} ± {}", bound.se);
}

#[test]
fn too_many_paths_are_an_error_that_says_so() {
    let chain =
        |t| Chain::new(Gaussian::diagonal()).steps(t, Sharing::Everything, MetropolisHastings::proposal(RandomWalk));
    let made = |t| Approximation::from(Arc::new(normal(1)), chain(t), Initialisation::standard(1)).unwrap();
    let error = made(11).gradient(2, 1).unwrap_err();
    assert!(matches!(error, Error::TooManyPaths { accepts: 11, paths: 2048, limit: 1024 }), "{error}");
    assert!(error.to_string().contains("2048 paths"), "{error}");
    assert!(matches!(fit(&mut made(11), &Settings::default()), Err(Error::TooManyPaths { .. })));
    // Draws need no paths.
    assert!(made(11).draw(10, 1).is_ok());
    assert!(made(8).gradient(2, 1).is_ok());
}
