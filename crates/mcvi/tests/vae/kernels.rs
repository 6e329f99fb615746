//! Every kernel is trained, saved and resumed as Hamiltonian steps are, and a simpler one is where others start.

use crate::training::{bytes, epochs, independent_pixels, trainer};
use crate::{brief, quarters, small};
use mcvi::Hardware;
use mcvi::vae::{Architecture, Deep, Inference, Kernel, Kind, Momentum, TrainSettings, Trainer, TrainingCheckpoint};
use std::path::Path;

const ANNEALED: [Kernel; 4] = [Kernel::Uha, Kernel::RiemannianUha, Kernel::Ldvi, Kernel::Cmcd];

fn with(kernel: Kernel) -> Architecture {
    Architecture { kernel, leapfrogs: 3, ..small() }
}

#[test]
fn every_kernel_beats_independent_pixels_by_far() {
    let alone = independent_pixels(&quarters(400, 1), &quarters(200, 2));
    let without_network = Architecture { inference: Inference::None, leapfrogs: 4, ..with(Kernel::Uha) };
    for architecture in ANNEALED.map(with).into_iter().chain([without_network]) {
        let mut trainer = trainer(&architecture, &brief(40), 2);
        epochs(&mut trainer, 40);
        let best = trainer.progress().best().unwrap();
        // Fifteen standard errors of the mean over the validation images.
        assert!(best.valid_bound > alone + 15.0 * best.valid_se, "{architecture:?}: {best:?}, {alone}");
        assert!(best.active > 0 && best.skipped == 0, "{best:?}");
        assert_eq!(best.step_sizes.len(), architecture.leapfrogs);
    }
}

#[test]
fn convolutions_see_the_time_too() {
    let architecture = Architecture { decoder: Kind::Conv, leapfrogs: 1, ..with(Kernel::Cmcd) };
    let mut trainer = trainer(&architecture, &TrainSettings { warm_up: 8.0, rate: 3e-3, ..brief(16) }, 2);
    epochs(&mut trainer, 16);
    let alone = independent_pixels(&quarters(400, 1), &quarters(200, 2));
    let best = trainer.progress().best().unwrap();
    assert!(best.valid_bound > alone + 10.0 * best.valid_se, "{best:?}, {alone}");
}

#[test]
fn a_run_of_any_kernel_goes_on_bit_for_bit() {
    let (train, valid) = (quarters(400, 1), quarters(200, 2));
    for kernel in ANNEALED {
        let mut whole = trainer(&with(kernel), &brief(3), 2);
        epochs(&mut whole, 3);
        let mut first = trainer(&with(kernel), &brief(3), 2);
        epochs(&mut first, 1);
        let checkpoint = TrainingCheckpoint::from_bytes(&bytes(&mut first), Path::new("checkpoint")).unwrap();
        let mut second = Trainer::resume(&checkpoint, (&train, &valid, "quarters"), Hardware::with_threads(1)).unwrap();
        epochs(&mut second, 2);
        assert!(bytes(&mut second) == bytes(&mut whole), "{kernel:?}");
        let saved = whole.model().to_bytes().unwrap();
        assert_eq!(Deep::from_bytes(&saved, Path::new("model")).unwrap().architecture, with(kernel));
    }
}

#[test]
fn a_learned_drift_starts_as_the_uha_chain_it_was_added_to() {
    let mut uha = trainer(&with(Kernel::Uha), &brief(2), 1);
    epochs(&mut uha, 2);
    let uha = uha.model();
    let images = quarters(50, 3);
    let bounds = |deep: &Deep| {
        let which: Vec<i32> = (0..50).collect();
        let mut evaluator = mcvi::vae::Evaluator::new(deep, &images, false, 7, Hardware::with_threads(1)).unwrap();
        evaluator.bounds(&which).unwrap()
    };
    let before = bounds(&uha);
    for kernel in [Kernel::RiemannianUha, Kernel::Ldvi, Kernel::Cmcd] {
        let mut more = Deep::new(with(kernel), 1).unwrap();
        assert_eq!(more.take_over(&uha).unwrap(), uha.params.iter().count());
        let after = bounds(&more);
        assert!(before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-3), "{kernel:?}: {before:?} {after:?}");
    }
}

#[test]
fn a_model_without_a_kernel_in_its_file_has_hamiltonian_steps() {
    let text = serde_json::to_string(&small()).unwrap();
    assert!(!text.contains("kernel"), "{text}");
    assert_eq!(serde_json::from_str::<Architecture>(&text).unwrap(), small());
    let named: Kernel = serde_json::from_str("\"hmc\"").unwrap();
    assert_eq!(named, Kernel::Hamiltonian);
}

#[test]
fn settings_of_hamiltonian_steps_are_refused_elsewhere() {
    for kernel in ANNEALED {
        let says = |architecture: Architecture| architecture.check().unwrap_err().to_string();
        let steps = says(Architecture { steps: 2, ..with(kernel) });
        assert!(steps.contains("every leapfrog is a step") && steps.contains("as leapfrogs"), "{steps}");
        for momenta in [
            Architecture { momentum: Momentum::Network, ..with(kernel) },
            Architecture { inverse: Momentum::Gradient, ..with(kernel) },
        ] {
            let momenta = says(momenta);
            assert!(momenta.contains("kernel: momentum and inverse") && momenta.contains("`hamiltonian`"), "{momenta}");
        }
        let long = says(Architecture { leapfrogs: 5000, ..with(kernel) });
        assert!(long.contains("leapfrogs: 5000"), "{long}");
    }
}
