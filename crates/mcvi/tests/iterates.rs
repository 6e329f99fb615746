//! Section 4.3: the last few positions of a chain as one approximation, with a uniform or a learned indicator.

use mcvi::density::{Categorical, Gaussian, Inputs, Predictor};
use mcvi::fit::Settings;
use mcvi::transition::{Hamiltonian, Inverse, Langevin, MetropolisHastings, RandomWalk};
use mcvi::{Approximation, Chain, Error, Initialisation, Sharing, Target, fit, target};
use std::sync::Arc;

/// log 2π: that of a standard normal in two dimensions, not normalised.
const LOG_Z: f64 = 1.837_877_066_409_345_3;

fn normal() -> Arc<dyn Target> {
    Arc::new(target(2, |_, z| z.square().sum(&[1]) * -0.5))
}

/// A chain of Metropolis–Hastings steps that starts near its target.
fn metropolis(steps: usize) -> Chain {
    let step = MetropolisHastings::proposal(RandomWalk);
    Chain::new(Gaussian::fixed(&[0.3, 0.3], &[0.9, 0.9])).steps(steps, Sharing::Everything, step)
}

/// A chain of Langevin steps with an inverse model each, from a start that is much narrower than the target.
fn langevin(steps: usize) -> Chain {
    let step = Langevin::new(Inverse::learned(Gaussian::linear()));
    Chain::new(Gaussian::fixed(&[1.0, 1.0], &[0.3, 0.3])).steps(steps, Sharing::Nothing, step)
}

fn learned() -> Categorical {
    Categorical { log_odds: Predictor::Linear(Inputs::POSITION) }
}

fn made(chain: Chain) -> Approximation {
    Approximation::from(normal(), chain, Initialisation::standard(2)).unwrap()
}

#[test]
fn averaging_iterates_lowers_the_variance_of_the_estimate() {
    // Steps that leave the target nearly invariant: each adds noise to the estimate, and the mean over all positions
    // has less of it than the last one.
    let chain = || {
        let step = Langevin::new(Inverse::Reversed);
        Chain::new(Gaussian::fixed(&[0.0, 0.0], &[1.0, 1.0])).steps(4, Sharing::Everything, step)
    };
    // The bound with choices averaged over, one draw at a time: its spread over seeds.
    let variance = |chain: Chain| {
        let approximation = made(chain);
        let values: Vec<f64> = (0..150).map(|seed| approximation.gradient(1, seed).unwrap().0).collect();
        let mean = values.iter().sum::<f64>() / 150.0;
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 149.0
    };
    let (last, mixed) = (variance(chain()), variance(chain().average_last(5)));
    // With independent steps the ratio is 0.3; a variance over 150 draws has a relative error of 0.12 or somewhat more.
    assert!(mixed < 0.6 * last, "{mixed} over five positions, {last} with the last one");
}

#[test]
fn a_uniform_indicator_averages_the_bounds_of_the_positions() {
    // With the same noise, L over the last two is the mean of what the chain comes to after each.
    let approximation = made(langevin(2).average_last(2));
    let draws = made(langevin(2)).draw(1000, 4).unwrap();
    let average = |f: &dyn Fn(usize) -> f64| (0..1000).map(f).sum::<f64>() / 1000.0;
    let after_one = average(&|i| draws.first[i] + draws.steps[0][i]);
    let after_two = average(&|i| draws.log_weights[i]);
    let (value, _) = approximation.gradient(1000, 4).unwrap();
    assert!((value - 0.5 * (after_one + after_two)).abs() < 1e-9, "{value}: {after_one}, {after_two}");
}

#[test]
fn sampled_positions_have_weights_that_average_to_the_evidence() {
    for chain in [
        metropolis(3).average_last(2),
        metropolis(3).average_last(4),
        metropolis(3).average_last_with(4, learned()),
        langevin(2).average_last_with(2, learned()),
    ] {
        let mut approximation = made(chain);
        // An indicator that is far from uniform.
        if let Ok(bias) = approximation.params().values("iterate.bias") {
            let tilted = (0..bias.len()).map(|i| i as f64).collect::<Vec<_>>();
            let tilted = mcvi_expr::Array::new(bias.len(), tilted).unwrap();
            approximation.params_mut().set("iterate.bias", tilted).unwrap();
        }
        let judged = approximation.draw(40_000, 2).unwrap().diagnose();
        let (value, se) = (judged.log_evidence.value, judged.log_evidence.se);
        assert!((value - LOG_Z).abs() < 4.0 * se, "{:?}: {value} ± {se}", approximation.chain());
        assert!(judged.bound.value < LOG_Z + 3.0 * judged.bound.se);
        // Drawn and averaged positions give the same bound.
        let averaged = approximation.gradient(5000, 3).unwrap().0;
        let error = judged.bound.se * (1.0 + 8f64.sqrt());
        assert!((averaged - judged.bound.value).abs() < 4.0 * error, "{averaged}, {:?}", judged.bound);
    }
}

#[test]
fn draws_come_from_all_positions_averaged_over() {
    // z₀ is nearly a point and the step leaves it: half the draws must be z₀.
    let step = MetropolisHastings::hamiltonian(Hamiltonian::new(1).momentum(Gaussian::diagonal()));
    let chain = Chain::new(Gaussian::fixed(&[0.0, 0.0], &[1e-6, 1e-6])).step(step).average_last(2);
    let draws = made(chain).draw(4000, 1).unwrap();
    let still = draws.z.iter().filter(|z| z.iter().all(|x| x.abs() < 1e-5)).count();
    assert!((still as f64 - 2000.0).abs() < 4.0 * 1000f64.sqrt(), "{still} of 4000");
}

#[test]
fn a_learned_indicator_is_at_least_as_good_as_a_uniform_one() {
    let settings = Settings { iterations: 1500, ..Settings::default() };
    let bound = |chain: Chain| {
        let mut approximation = made(chain);
        fit(&mut approximation, &settings).unwrap();
        approximation.draw(40_000, 9).unwrap().diagnose().bound
    };
    // Positions before and after a step differ, so that z says which it is.
    let uniform = bound(langevin(1).average_last(2));
    let learned = bound(langevin(1).average_last_with(2, learned()));
    let error = (uniform.se.powi(2) + learned.se.powi(2)).sqrt();
    assert!(learned.value > uniform.value - 2.0 * error, "{learned:?} learned, {uniform:?} uniform");
    assert!(learned.value > uniform.value + 0.05, "{learned:?} learned, {uniform:?} uniform");
    assert!(learned.value < LOG_Z + 3.0 * learned.se);
}

#[test]
fn counts_out_of_range_are_errors() {
    for count in [0, 4, 100] {
        let error = Approximation::from(normal(), metropolis(2).average_last(count), Initialisation::standard(2))
            .err()
            .unwrap();
        assert!(matches!(error, Error::Setting { what: "iterates", .. }), "{error}");
        assert!(error.to_string().contains(&format!("last {count} of 3")), "{error}");
    }
    assert!(Approximation::from(normal(), metropolis(2).average_last(3), Initialisation::standard(2)).is_ok());
}
