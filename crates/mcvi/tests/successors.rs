//! The kernels after the paper's: each contains a simpler chain, whitened coordinates change nothing but the coordinates, and
//! paths have their limits.

mod common;

use common::{Skewed, Tilted};
use mcvi::density::{Gaussian, Inputs};
use mcvi::diagnostics::mean;
use mcvi::fit::{Settings, fit};
use mcvi::path::Power;
use mcvi::transition::{AnyTransition, Cmcd, Ldvi, Mcd, OverdampedCmcd, TimeNetwork, Uha};
use mcvi::{Approximation, Chain, Initialisation, Sharing};
use std::sync::Arc;

fn network() -> TimeNetwork {
    TimeNetwork::new(Inputs::GRADIENT, &[6])
}

fn kernels() -> Vec<AnyTransition> {
    let (uha, drift) = (Uha::new(1), network());
    vec![
        uha.clone().spread(network()).into(),
        Ldvi { uha: uha.clone(), drift: drift.clone() }.into(),
        Cmcd { uha: uha.clone(), drift: drift.clone() }.into(),
        Cmcd { uha: uha.spread(network()), drift: drift.clone() }.into(),
        Mcd { drift: drift.clone() }.into(),
        OverdampedCmcd { drift }.into(),
    ]
}

fn annealed(kernel: AnyTransition) -> Chain {
    Chain::new(Gaussian::diagonal()).whitened().steps(3, Sharing::Nothing, kernel).annealed_learned()
}

/// A network that is zero to begin with changes nothing: draw by draw the bound is that of the chain contained.
#[test]
fn a_kernel_begins_as_the_one_it_contains() {
    for kernel in kernels() {
        let chain = annealed(kernel);
        let contained = chain.contained().unwrap();
        let with = Approximation::new(Skewed, chain.clone()).unwrap().draw(500, 3).unwrap();
        let without = Approximation::new(Skewed, contained).unwrap().draw(500, 3).unwrap();
        for (a, b) in with.log_weights.iter().zip(&without.log_weights) {
            assert!((a - b).abs() < 1e-9, "{chain}: {a} and {b}");
        }
    }
    assert!(annealed(Uha::new(1).into()).contained().is_none());
}

/// Training goes through the chain contained, and the networks are kept only if they are better.
#[test]
fn training_does_not_end_below_the_chain_contained() {
    let settings = Settings { iterations: 1500, ..Settings::default() };
    for kernel in kernels() {
        let chain = annealed(kernel);
        let bound = |chain: Chain| {
            let mut approximation = Approximation::new(Skewed, chain).unwrap();
            fit(&mut approximation, &settings).unwrap();
            approximation.draw(20_000, 9).unwrap().log_weights
        };
        let (with, contained) = (bound(chain.clone()), chain.contained().unwrap());
        // Down to the innermost, which is trained first.
        let innermost = std::iter::successors(Some(contained), Chain::contained).last().unwrap();
        let differences: Vec<f64> = with.iter().zip(bound(innermost)).map(|(a, b)| a - b).collect();
        let gain = mean(&differences);
        assert!(gain.value > -4.0 * gain.se - 2e-3, "{chain}: {} ± {}", gain.value, gain.se);
    }
}

/// Many steps are trained as fewer larger ones first, which are then halved.
#[test]
fn many_steps_begin_as_fewer() {
    let settings = Settings { iterations: 1000, ..Settings::default() };
    let bound = |steps: usize| {
        let start = Chain::new(Gaussian::diagonal()).whitened();
        let chain = start.steps(steps, Sharing::Nothing, Uha::new(1).spread(network())).annealed_learned();
        let mut approximation = Approximation::new(Skewed, chain.clone()).unwrap();
        fit(&mut approximation, &settings).unwrap();
        assert_eq!(*approximation.chain(), chain);
        let params = approximation.params();
        assert!(params.get(&format!("step{steps}.log_step")).is_some());
        assert!(params.get(&format!("step{}.log_step", steps + 1)).is_none());
        (mean(&approximation.draw(20_000, 9).unwrap().log_weights), params.number("step1.log_step").unwrap())
    };
    let ((few, large), (many, small)) = (bound(8), bound(16));
    assert!(many.value > few.value - 4.0 * many.se.hypot(few.se), "{} and {}", many.value, few.value);
    assert!(small < large);
}

/// In whitened coordinates a diagonal Gaussian is a correlated one: exact for a Gaussian target, with z in its own units.
#[test]
fn a_whitened_gaussian_is_exact_for_a_gaussian() {
    let whitened = Approximation::new(Tilted, Chain::new(Gaussian::diagonal()).whitened()).unwrap();
    let full = Approximation::new(Tilted, Chain::new(Gaussian::full())).unwrap();
    let (a, b) = (whitened.draw(2000, 5).unwrap(), full.draw(2000, 5).unwrap());
    for i in 0..2000 {
        assert!((a.log_weights[i] - Tilted::log_evidence()).abs() < 1e-6);
        assert!((a.log_p[i] - b.log_p[i]).abs() < 1e-9);
        assert!(a.z[i].iter().zip(&b.z[i]).all(|(x, y)| (x - y).abs() < 1e-9));
    }
    // The coordinates are saved with the parameters.
    let path = std::env::temp_dir().join(format!("mcvi-whitened-{}.safetensors", std::process::id()));
    whitened.save(&path).unwrap();
    let again = Approximation::load(&path, Tilted).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(again.draw(50, 1).unwrap(), whitened.draw(50, 1).unwrap());
    // Annealing by importance sampling is not offered there.
    let error = whitened.anneal(&Uha::new(1), &[0.5, 1.0], 10, 1).unwrap_err().to_string();
    assert!(error.contains("whitened"), "{error}");
}

/// A network in time is stored once, however many steps it serves.
#[test]
fn kernels_with_networks_are_read_back() {
    let path = std::env::temp_dir().join(format!("mcvi-networks-{}.safetensors", std::process::id()));
    let network = || TimeNetwork::new(Inputs::GRADIENT, &[6, 6]);
    let kernels: [AnyTransition; 2] = [Uha::new(1).spread(network()).into(), Mcd { drift: network() }.into()];
    for kernel in kernels {
        let chain = Chain::new(Gaussian::diagonal()).steps(16, Sharing::Nothing, kernel).annealed_learned();
        let approximation = Approximation::new(Tilted, chain).unwrap();
        approximation.save(&path).unwrap();
        let again = Approximation::load(&path, Tilted);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(again.unwrap().draw(10, 1).unwrap(), approximation.draw(10, 1).unwrap());
    }
}

/// Between the mixture (ω = 1) and the geometric path (ω → 0).
#[test]
fn a_power_path_tends_to_the_geometric_one() {
    let start = Initialisation::new(&[0.5, 0.0], &[1.2, 0.9]).unwrap();
    let draws = |chain: Chain| {
        let chain = chain.steps(3, Sharing::Nothing, Uha::new(1)).annealed(&[0.3, 0.7, 1.0]);
        Approximation::from(Arc::new(Tilted), chain, start.clone()).unwrap().draw(300, 2).unwrap().log_weights
    };
    let plain = || Chain::new(Gaussian::diagonal());
    let (geometric, near, far) =
        (draws(plain()), draws(plain().along(Power { exponent: 1e-6 })), draws(plain().along(Power { exponent: 1.0 })));
    assert!(geometric.iter().zip(&near).all(|(a, b)| (a - b).abs() < 1e-4));
    assert!(geometric.iter().zip(&far).any(|(a, b)| (a - b).abs() > 0.1));
    let wrong = plain().steps(1, Sharing::Nothing, Uha::new(1)).annealed(&[1.0]).along(Power { exponent: 0.0 });
    let error = Approximation::new(Tilted, wrong).err().unwrap().to_string();
    assert!(error.contains("exponent of a power path"), "{error}");
}
