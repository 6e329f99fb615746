//! Every example runs as it stands, and what it promises is true.

#[path = "../examples/autoencoder.rs"]
mod autoencoder;
#[path = "../examples/external_density.rs"]
mod external_density;
#[path = "../examples/hierarchical.rs"]
mod hierarchical;
#[path = "../examples/own_density.rs"]
mod own_density;
#[path = "../examples/own_model.rs"]
mod own_model;
#[path = "../examples/own_posterior.rs"]
mod own_posterior;
#[path = "../examples/own_transition.rs"]
mod own_transition;
#[path = "../examples/resuming.rs"]
mod resuming;

/// All examples are here.
#[test]
fn none_is_left_out() {
    let tested = include_str!("examples.rs");
    for entry in std::fs::read_dir("examples").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(tested.contains(&format!("../examples/{name}")), "{name}");
    }
}

macro_rules! runs {
    ($($example:ident)+) => {
        $(#[test]
        fn $example() {
            $example::main().unwrap();
        })+
    };
}

mod run {
    use super::*;
    runs! { autoencoder external_density hierarchical own_density own_model own_posterior own_transition resuming }
}

/// What users write for themselves is a full member: the example's transition and inverse model are trained.
#[test]
fn a_transition_of_ones_own_improves_the_bound() {
    use mcvi::{Chain, density::Gaussian};
    let plain = own_transition::bound(Chain::new(Gaussian::diagonal())).unwrap();
    let bent = own_transition::bound(Chain::new(Gaussian::diagonal()).step(own_transition::Bend)).unwrap();
    let log_z = std::f64::consts::PI.ln();
    assert!(bent.value <= log_z + 3.0 * bent.se, "{bent:?} is above {log_z}");
    assert!(bent.value > log_z - 0.1, "{bent:?} is far from {log_z}");
    assert!(bent.value > plain.value + 0.3, "{bent:?} is no better than {plain:?}");
}
