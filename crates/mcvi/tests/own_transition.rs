//! What users write for themselves is a full member: the example's transition and inverse model are trained.

#[path = "../examples/own_transition.rs"]
mod example;

use mcvi::Chain;
use mcvi::density::Gaussian;

#[test]
fn a_transition_of_ones_own_improves_the_bound() {
    let plain = example::bound(Chain::new(Gaussian::diagonal())).unwrap();
    let bent = example::bound(Chain::new(Gaussian::diagonal()).step(example::Bend)).unwrap();
    let log_z = std::f64::consts::PI.ln();
    assert!(bent.value <= log_z + 3.0 * bent.se, "{bent:?} is above {log_z}");
    assert!(bent.value > log_z - 0.1, "{bent:?} is far from {log_z}");
    assert!(bent.value > plain.value + 0.3, "{bent:?} is no better than {plain:?}");
}

#[test]
fn the_example_runs() {
    example::main().unwrap();
}
