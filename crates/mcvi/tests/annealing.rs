//! Section 4.2: annealed chains, their corrected bound, and why the formula as printed is none.

use mcvi::density::{Gaussian, Inputs};
use mcvi::diagnostics::{log_mean_exp, mean};
use mcvi::fit::Settings;
use mcvi::transition::{Gibbs, Hamiltonian, Inverse, MetropolisHastings, RandomWalk};
use mcvi::{Approximation, Chain, Error, Initialisation, Scope, Sharing, Target, fit, target};
use mcvi_expr::Expr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// log √2π.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

/// A mixture of two normals, at −2 and 2 with standard deviation 1/2, not normalised: log Z = log(2 · ½ · √2π).
const TWO_HUMPS: f64 = HALF_LOG_TAU;

fn two_humps() -> Arc<dyn Target> {
    Arc::new(target(1, |_, z| {
        let hump = |at: f64| ((z - at) * 2.0).square() * -0.5;
        z.graph().concat(&[hump(-2.0), hump(2.0)], 1).logsumexp(&[1])
    }))
}

/// A wide normal about the origin, annealed.
fn wide() -> Approximation {
    let chain = Chain::new(Gaussian::fixed(&[0.0], &[3.0]));
    Approximation::from(two_humps(), chain, Initialisation::new(&[0.0], &[1.0]).unwrap()).unwrap()
}

fn evenly(count: usize) -> Vec<f64> {
    (1..=count).map(|t| t as f64 / count as f64).collect()
}

fn walk() -> MetropolisHastings {
    MetropolisHastings::proposal(RandomWalk)
}

fn hamiltonian(leapfrogs: usize) -> MetropolisHastings {
    MetropolisHastings::hamiltonian(Hamiltonian::new(leapfrogs).momentum(Gaussian::diagonal()))
}

#[test]
fn more_temperatures_bring_the_bound_up_to_the_evidence() {
    let approximation = wide();
    let alone = approximation.draw(4000, 1).unwrap().diagnose().bound;
    let mut before = alone;
    for count in [1, 4, 16, 64, 256] {
        let annealed = approximation.anneal(&walk(), &evenly(count), 4000, 2).unwrap();
        let bound = mean(&annealed.log_weights);
        let error = (bound.se.powi(2) + before.se.powi(2)).sqrt();
        assert!(bound.value > before.value - 3.0 * error, "{count} temperatures: {bound:?} after {before:?}");
        assert!(bound.value < TWO_HUMPS + 3.0 * bound.se, "{count} temperatures: {bound:?} is above {TWO_HUMPS}");
        // E exp(L) = Z, whatever the number of temperatures.
        let evidence = log_mean_exp(&annealed.log_weights);
        assert!((evidence.value - TWO_HUMPS).abs() < 4.0 * evidence.se, "{count} temperatures: {evidence:?}");
        let accept = annealed.accept.unwrap();
        assert_eq!(accept.len(), count);
        assert!(accept.iter().all(|a| *a > 0.0 && *a <= 1.0));
        before = bound;
    }
    // From far below to close by.
    assert!(alone.value < TWO_HUMPS - 0.5, "{alone:?}");
    assert!(before.value > TWO_HUMPS - 0.2, "{before:?}");
}

#[test]
fn one_temperature_is_the_start_alone() {
    let approximation = wide();
    let annealed = approximation.anneal(&walk(), &[1.0], 500, 7).unwrap();
    let alone = approximation.draw(500, 7).unwrap().log_weights;
    let near = annealed.log_weights.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(near, "L = log p(z₀) − log q₀(z₀), although the step has moved on");
    assert!(annealed.z.iter().map(|z| z[0].abs()).sum::<f64>() > 0.0);
}

#[test]
fn a_chain_of_reversed_accepts_on_bridges_is_the_same_bound() {
    for (name, step) in [("random walk", walk()), ("Hamiltonian", hamiltonian(2))] {
        let betas = evenly(8);
        let chain = Chain::new(Gaussian::fixed(&[0.0], &[3.0])).steps(8, Sharing::Everything, step.clone());
        let start = Initialisation::new(&[0.0], &[1.0]).unwrap();
        let unrolled = Approximation::from(two_humps(), chain.annealed(&betas), start).unwrap();
        let draws = unrolled.draw(10_000, 3).unwrap();
        let (unrolled, evidence) = (mean(&draws.log_weights), log_mean_exp(&draws.log_weights));
        let looped = mean(&wide().anneal(&step, &betas, 10_000, 4).unwrap().log_weights);
        let error = (unrolled.se.powi(2) + looped.se.powi(2)).sqrt();
        assert!((unrolled.value - looped.value).abs() < 4.0 * error, "{name}: {unrolled:?}, in a loop {looped:?}");
        assert!((evidence.value - TWO_HUMPS).abs() < 4.0 * evidence.se, "{name}: {evidence:?}");
        // Its choices averaged over, the same again.
        let chain = Chain::new(Gaussian::fixed(&[0.0], &[3.0])).steps(4, Sharing::Everything, step.clone());
        let start = Initialisation::new(&[0.0], &[1.0]).unwrap();
        let four = Approximation::from(two_humps(), chain.annealed(&evenly(4)), start).unwrap();
        let (averaged, drawn) = (four.gradient(4000, 5).unwrap().0, four.draw(10_000, 6).unwrap().diagnose().bound);
        let error = drawn.se * (1.0 + 2.5f64.sqrt());
        assert!((averaged - drawn.value).abs() < 4.0 * error, "{name}: {averaged} averaged, {drawn:?} drawn");
    }
}

#[test]
fn the_formula_as_printed_exceeds_the_evidence() {
    // p = exp(−z²/2), q₀ = N(1, 2²), T = 1 and exact draws z₁ of p: what is printed is log p(z₁) − log q₀(z₁).
    let normal: Arc<dyn Target> = Arc::new(target(1, |_, z| z.square().sum(&[1]) * -0.5));
    let exact = Chain::new(Gaussian::fixed(&[0.0], &[1.0]));
    let exact =
        Approximation::from(normal.clone(), exact, Initialisation::standard(1)).unwrap().draw(20_000, 1).unwrap();
    let weight = |z: f64| -0.5 * z * z + 0.5 * ((z - 1.0) / 2.0).powi(2) + 2f64.ln() + HALF_LOG_TAU;
    let printed = mean(&exact.z.iter().map(|z| weight(z[0])).collect::<Vec<_>>());
    // KL(N(0, 1) ‖ N(1, 2²)).
    let divergence = 2f64.ln() + (1.0 + 1.0) / 8.0 - 0.5;
    assert!((printed.value - HALF_LOG_TAU - divergence).abs() < 4.0 * printed.se, "{printed:?}");
    assert!(printed.value > HALF_LOG_TAU + 10.0 * printed.se, "{printed:?}");

    // The corrected one, here and in the library, takes z₀: a lower bound.
    let q0 = Chain::new(Gaussian::fixed(&[1.0], &[2.0]));
    let q0 = Approximation::from(normal, q0, Initialisation::standard(1)).unwrap();
    let annealed = q0.anneal(&walk(), &[1.0], 20_000, 2).unwrap();
    let corrected = mean(&annealed.log_weights);
    // KL(N(1, 2²) ‖ N(0, 1)).
    let divergence = (4.0 + 1.0) / 2.0 - 0.5 - 2f64.ln();
    assert!((corrected.value - HALF_LOG_TAU + divergence).abs() < 4.0 * corrected.se, "{corrected:?}");
}

#[test]
fn a_thousand_temperatures_run_in_no_time() {
    let begun = Instant::now();
    let annealed = wide().anneal(&hamiltonian(3), &evenly(2000), 100, 1).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let bound = mean(&annealed.log_weights);
    assert!((bound.value - TWO_HUMPS).abs() < 0.05, "{bound:?}");
    // The draws have gone to both humps.
    let right = annealed.z.iter().filter(|z| z[0] > 0.0).count();
    assert!((25..=75).contains(&right), "{right} of 100 on the right");
}

#[test]
fn a_target_that_is_nothing_in_places_is_annealed_all_the_same() {
    // z > 0 only: half of q₀'s draws have no weight, and the bound says so; the evidence is still found.
    let half: Arc<dyn Target> =
        Arc::new(target(1, |_, z| z.at(1, 0).gt(0.0).select(z.square().sum(&[1]) * -0.5, f64::NEG_INFINITY)));
    let chain = Chain::new(Gaussian::fixed(&[0.5], &[1.0]));
    let approximation = Approximation::from(half, chain, Initialisation::standard(1)).unwrap();
    let betas: Vec<f64> = (0..=20).map(|t| f64::from(t) / 20.0).collect();
    let annealed = approximation.anneal(&walk(), &betas, 10_000, 1).unwrap();
    assert!(!annealed.log_weights.iter().any(|l| l.is_nan()));
    assert_eq!(mean(&annealed.log_weights).value, f64::NEG_INFINITY);
    let evidence = log_mean_exp(&annealed.log_weights);
    assert!((evidence.value - HALF_LOG_TAU + 2f64.ln()).abs() < 4.0 * evidence.se, "{evidence:?}");
}

#[test]
fn temperatures_out_of_order_are_errors() {
    let approximation = wide();
    let nan = f64::NAN;
    for betas in [vec![], vec![0.5], vec![0.6, 0.5, 1.0], vec![-0.1, 1.0], vec![0.5, 1.5], vec![nan], vec![nan, 1.0]] {
        let error = approximation.anneal(&walk(), &betas, 10, 1).err().unwrap();
        assert!(matches!(error, Error::Setting { what: "temperatures", .. }), "{betas:?}: {error}");
    }
    let error = approximation.anneal(&walk(), &[1.0], 0, 1).err().unwrap();
    assert!(matches!(error, Error::Setting { what: "chains", .. }), "{error}");
    for betas in [vec![], vec![1.0], vec![0.6, 0.5], vec![-0.1, 1.0], vec![0.5, 1.5], vec![nan, 1.0]] {
        let chain = Chain::new(Gaussian::diagonal()).steps(2, Sharing::Everything, walk()).annealed(&betas);
        let error = Approximation::from(two_humps(), chain, Initialisation::standard(1)).err().unwrap();
        assert!(matches!(error, Error::Setting { what: "temperatures", .. }), "{betas:?}: {error}");
    }
    // A bridge has no conditionals to sample from.
    let error = approximation.anneal(&Gibbs::new(Inverse::Reversed), &[1.0], 10, 1).err().unwrap();
    assert!(error.to_string().contains("Gibbs"), "{error}");
}

/// The temperatures a chain has learned.
fn learned(approximation: &Approximation) -> Vec<f64> {
    let weights: Vec<f64> = approximation.params().values("beta.logits").unwrap().iter().map(|l| l.exp()).collect();
    let total: f64 = weights.iter().sum();
    weights
        .iter()
        .scan(0.0, |sum, w| {
            *sum += w / total;
            Some(*sum)
        })
        .collect()
}

#[test]
fn temperatures_are_learned_with_their_chain() {
    // As DAIS and UHA: uncorrected Hamiltonian steps on bridges, an inverse model of the momentum for each.
    let step = Hamiltonian::new(1).momentum(Gaussian::diagonal()).inverse(Inverse::learned(Gaussian::linear()));
    let chain = Chain::new(Gaussian::fixed(&[0.0], &[3.0])).steps(4, Sharing::Nothing, step).annealed_learned();
    let start = Initialisation::new(&[0.0], &[1.0]).unwrap();
    let mut approximation = Approximation::from(two_humps(), chain, start).unwrap();
    let even = learned(&approximation);
    assert!(even.iter().zip(evenly(4)).all(|(a, b)| (a - b).abs() < 1e-12), "{even:?}");
    let before = approximation.draw(10_000, 1).unwrap().diagnose().bound;
    fit(&mut approximation, &Settings { iterations: 1000, ..Settings::default() }).unwrap();
    let after = approximation.draw(10_000, 1).unwrap().diagnose();
    let betas = learned(&approximation);
    assert!(betas[0] > 0.0 && betas.windows(2).all(|w| w[0] < w[1]), "{betas:?}");
    assert!((betas[3] - 1.0).abs() < 1e-12 && betas != even, "{betas:?}");
    assert!(after.bound.value > before.value + 3.0 * before.se, "{:?} after {before:?}", after.bound);
    assert!(after.bound.value < TWO_HUMPS + 3.0 * after.bound.se, "{:?}", after.bound);
    let evidence = after.log_evidence;
    assert!((evidence.value - TWO_HUMPS).abs() < 4.0 * evidence.se + 0.02, "{evidence:?}");
}

#[test]
fn building_an_annealed_or_reversed_chain_leaves_what_makes_it_as_it_was_started() {
    // Densities that are also told backwards are no inverse models: regression must leave them alone.
    let start = || Initialisation::new(&[0.5], &[2.0]).unwrap();
    let step = Hamiltonian::new(2).momentum(Gaussian::linear()).inverse(Inverse::Reversed);
    let chain = Chain::new(Gaussian::diagonal()).steps(2, Sharing::Nothing, step).annealed(&[0.5, 1.0]);
    let made = Approximation::from(two_humps(), chain, start()).unwrap();
    assert_eq!(made.params().values("q0.bias").unwrap(), [0.5]);
    assert!((made.params().number("q0.log_sd").unwrap() - 2f64.ln()).abs() < 1e-12);
    assert_eq!(made.params().values("step1.momentum.bias").unwrap(), [0.0]);
    assert_eq!(made.params().values("step2.momentum.z").unwrap(), [0.0]);
    assert!((made.params().number("step1.momentum.log_sd").unwrap() + 2f64.ln()).abs() < 1e-12);
}

/// A standard normal with an observation for each row.
struct Observed;

impl Target for Observed {
    fn dim(&self) -> usize {
        1
    }
    fn log_density<'g>(&self, _: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        z.square().sum(&[1]) * -0.5
    }
    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        Some(scope.graph().full(scope.dtype(), [scope.rows(), 1], 0.5))
    }
}

#[test]
fn a_bridge_from_a_start_that_sees_the_data_splits_into_paths() {
    let q0 = Gaussian::network(Inputs { position: false, gradient: false, data: true }, &[4]);
    let chain = Chain::new(q0).steps(2, Sharing::Everything, walk()).annealed(&[0.5, 1.0]);
    let approximation = Approximation::from(Arc::new(Observed), chain, Initialisation::standard(1)).unwrap();
    let drawn = approximation.draw(10_000, 1).unwrap().diagnose().bound;
    let (averaged, _) = approximation.gradient(10_000, 2).unwrap();
    assert!((averaged - drawn.value).abs() < 6.0 * drawn.se, "{averaged} averaged, {drawn:?} drawn");
}
