//! Training: it improves the bound, repeats itself, goes on from a checkpoint, and says what is wrong.

use crate::{SIDE, brief, quarters, small};
use mcvi::vae::{Architecture, Decay, Deep, Inference, Kind, Momentum, TrainSettings, Trainer, TrainingCheckpoint};
use mcvi::{Group, Hardware};
use mcvi_expr::Array;
use std::ops::ControlFlow;
use std::path::Path;

pub fn trainer(architecture: &Architecture, settings: &TrainSettings, threads: usize) -> Trainer {
    let (train, valid) = (quarters(400, 1), quarters(200, 2));
    Trainer::new(architecture, settings, (&train, &valid, "quarters"), Hardware::with_threads(threads)).unwrap()
}

pub fn epochs(trainer: &mut Trainer, count: usize) {
    for _ in 0..count {
        trainer.epoch(|_| ControlFlow::Continue(())).unwrap().unwrap();
    }
}

/// Independent pixels with the frequencies of the training images: what a model without latent variables reaches.
pub fn independent_pixels(train: &Array, valid: &Array) -> f64 {
    let (n, d) = (train.shape().dims()[0], train.shape().dims()[1]);
    let (train, valid) = (train.to_f64(), valid.to_f64());
    let p: Vec<f64> = (0..d).map(|j| (0..n).map(|i| train[i * d + j]).sum::<f64>() / n as f64).collect();
    let log = |x: f64, p: f64| if x > 0.5 { p.ln() } else { (1.0 - p).ln() };
    valid.chunks(d).map(|x| x.iter().zip(&p).map(|(x, p)| log(*x, *p)).sum::<f64>()).sum::<f64>()
        / (valid.len() / d) as f64
}

#[test]
fn training_beats_independent_pixels_by_far() {
    let alone = independent_pixels(&quarters(400, 1), &quarters(200, 2));
    for architecture in [
        small(),
        Architecture { leapfrogs: 0, ..small() },
        Architecture { inference: Inference::None, leapfrogs: 4, inverse: Momentum::Gradient, ..small() },
        Architecture { momentum: Momentum::Gradient, inverse: Momentum::Gradient, steps: 2, ..small() },
    ] {
        let mut trainer = trainer(&architecture, &brief(40), 2);
        epochs(&mut trainer, 40);
        let best = trainer.progress().best().unwrap();
        // Fifteen standard errors of the mean over the validation images.
        assert!(best.valid_bound > alone + 15.0 * best.valid_se, "{architecture:?}: {best:?}, {alone}");
        assert!(best.active > 0 && best.skipped == 0, "{best:?}");
    }
}

#[test]
fn convolutions_train_too() {
    let architecture = Architecture { decoder: Kind::Conv, leapfrogs: 1, ..small() };
    let mut trainer = trainer(&architecture, &TrainSettings { warm_up: 8.0, rate: 3e-3, ..brief(16) }, 2);
    epochs(&mut trainer, 16);
    let alone = independent_pixels(&quarters(400, 1), &quarters(200, 2));
    let best = trainer.progress().best().unwrap();
    assert!(best.valid_bound > alone + 10.0 * best.valid_se, "{best:?}, {alone}");
}

/// All bytes a run leaves.
pub fn bytes(trainer: &mut Trainer) -> Vec<u8> {
    trainer.checkpoint().unwrap().to_bytes().unwrap()
}

#[test]
fn a_run_repeats_itself_on_any_number_of_threads() {
    let run = |threads, seed| {
        let mut trainer = trainer(&small(), &TrainSettings { seed, ..brief(3) }, threads);
        epochs(&mut trainer, 2);
        bytes(&mut trainer)
    };
    let first = run(1, 1);
    assert!(first == run(2, 1) && first == run(3, 1));
    assert!(first != run(1, 2));
}

#[test]
fn a_run_that_was_stopped_goes_on_bit_for_bit() {
    for decay in [Decay::Cosine, Decay::Plateau] {
        let settings = TrainSettings { decay, patience: 1, ..brief(5) };
        let mut whole = trainer(&small(), &settings, 2);
        epochs(&mut whole, 5);

        let mut first = trainer(&small(), &settings, 2);
        epochs(&mut first, 2);
        let saved = bytes(&mut first);
        // What is done after the checkpoint is lost.
        assert!(first.epoch(|_| ControlFlow::Break(())).unwrap().is_none());
        let checkpoint = TrainingCheckpoint::from_bytes(&saved, Path::new("checkpoint")).unwrap();
        let (train, valid) = (quarters(400, 1), quarters(200, 2));
        let mut second = Trainer::resume(&checkpoint, (&train, &valid, "quarters"), Hardware::with_threads(1)).unwrap();
        assert!(bytes(&mut second) == saved);
        epochs(&mut second, 3);
        assert!(bytes(&mut second) == bytes(&mut whole), "{decay:?}");
        assert_eq!(second.model().to_bytes().unwrap(), whole.model().to_bytes().unwrap());
        assert!(second.is_over() && whole.is_over());
    }
}

#[test]
fn grey_images_are_drawn_anew() {
    let grey = Array::new([40, 36], vec![0.5f32; 40 * 36]).unwrap();
    let settings = TrainSettings { fresh: true, ..brief(1) };
    let mut trainer = Trainer::new(&small(), &settings, (&grey, &grey, "grey"), Hardware::with_threads(1)).unwrap();
    let report = trainer.epoch(|_| ControlFlow::Continue(())).unwrap().unwrap().clone();
    // No model of fair coins does better than −36 log 2, whereas grey values taken as they are would let it.
    assert!(report.valid_bound < -36.0 * 2f64.ln() + 4.0 * report.valid_se, "{report:?}");
}

#[test]
fn training_ends_where_the_validation_bound_no_longer_improves() {
    // A rate of next to nothing: the bound stays where it is.
    let settings = TrainSettings { rate: 1e-12, warm_up: 0.0, stop: 3, ..brief(50) };
    let mut trainer = trainer(&small(), &settings, 1);
    while !trainer.is_over() {
        epochs(&mut trainer, 1);
    }
    assert_eq!(trainer.progress().epochs.len(), 4);
}

#[test]
fn joined_validation_images_are_learned_from_and_decide_nothing() {
    let settings = TrainSettings { join: true, stop: 1, rate: 0.05, ..brief(6) };
    let mut joined = trainer(&small(), &settings, 2);
    assert_eq!(joined.steps(), 60);
    while !joined.is_over() {
        epochs(&mut joined, 1);
    }
    let progress = joined.progress();
    assert_eq!((progress.epochs.len(), progress.best), (6, Some(6)));
}

#[test]
fn weights_that_decay_stay_smaller_and_biases_do_not_decay() {
    // Without images that differ nothing is learned but the biases of pixels.
    let images = Array::new([100, SIDE * SIDE], vec![1.0f32; 100 * SIDE * SIDE]).unwrap();
    let size = |hidden, weight_decay, name: &str| {
        let architecture = Architecture { hidden, leapfrogs: 0, ..small() };
        let settings = TrainSettings { weight_decay, decay: Decay::None, ..brief(4) };
        let data = (&images, &images, "ones");
        let mut trainer = Trainer::new(&architecture, &settings, data, Hardware::with_threads(2)).unwrap();
        epochs(&mut trainer, 4);
        trainer.training().params(&Deep::new(architecture, 1).unwrap().params).unwrap().values(name).unwrap()
    };
    // In arrays of a few elements and of many; 40 steps at a rate of 0.01 take away a factor of 0.99 each.
    for hidden in [16, 70] {
        let square = |values: Vec<f64>| values.iter().map(|w| w * w).sum::<f64>();
        let weights = "q0.layer2.hidden";
        let (free, decayed) = (square(size(hidden, 0.0, weights)), square(size(hidden, 1.0, weights)));
        assert!(decayed < 0.6 * free && decayed > 0.3 * free, "{hidden}: {free} {decayed}");
        let bias = |weight_decay| square(size(hidden, weight_decay, "target.output.bias"));
        let (free, decayed) = (bias(0.0), bias(1.0));
        assert!(decayed > 0.9 * free && free > 0.0, "{hidden}: {free} {decayed}");
    }
}

#[test]
fn the_rate_falls_where_the_validation_bound_stays() {
    let settings = TrainSettings { rate: 1e-12, warm_up: 0.0, decay: Decay::Plateau, patience: 2, ..brief(50) };
    let mut trainer = trainer(&small(), &settings, 1);
    epochs(&mut trainer, 6);
    let rates: Vec<f64> = trainer.progress().epochs.iter().map(|e| e.rate / 1e-12).collect();
    assert_eq!(rates, [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]);
}

#[test]
fn the_prior_is_given_its_weight_by_and_by() {
    let mut trainer = trainer(&small(), &brief(4), 1);
    epochs(&mut trainer, 3);
    let kl_weight: Vec<f64> = trainer.progress().epochs.iter().map(|e| e.kl_weight).collect();
    assert_eq!(kl_weight, [0.5, 1.0, 1.0]);
}

#[test]
fn collapsed_latents_and_vanished_steps_are_told() {
    let settings = TrainSettings { rate: 1e-12, warm_up: 0.0, ..brief(1) };
    let warnings = |architecture: &Architecture| {
        let mut trainer = trainer(architecture, &settings, 1);
        epochs(&mut trainer, 1);
        trainer.warnings().join("\n")
    };
    // One Gaussian for all images says nothing about any of them.
    let blind = warnings(&Architecture { inference: Inference::None, leapfrogs: 0, ..small() });
    assert!(blind.contains("only 0 of 4 latent variables are in use"), "{blind}");
    let still = warnings(&Architecture { initial_step_size: 1e-4, ..small() });
    assert!(still.contains("step 1 has shrunk"), "{still}");
}

#[test]
fn a_run_that_is_lost_says_where() {
    let settings = TrainSettings { rate: 1e18, ..brief(3) };
    let mut trainer = trainer(&small(), &settings, 1);
    let error = (0..3).find_map(|_| trainer.epoch(|_| ControlFlow::Continue(())).err()).unwrap().to_string();
    assert!(error.contains("in epoch 1, from step") && error.contains("is not finite"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_noticed() {
    let mut trainer = trainer(&small(), &brief(2), 1);
    epochs(&mut trainer, 1);
    let whole = bytes(&mut trainer);
    let read = |bytes: &[u8]| TrainingCheckpoint::from_bytes(bytes, Path::new("run/checkpoint"));
    for cut in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        let error = read(&whole[..cut]).unwrap_err().to_string();
        assert!(error.contains("run/checkpoint") && error.contains("damaged"), "{error}");
    }
    for i in (0..40).map(|i| 8 + i * (whole.len() - 9) / 40) {
        let mut flipped = whole.clone();
        flipped[i] ^= 4;
        assert!(read(&flipped).is_err(), "byte {i}");
    }
    let model = trainer.model().to_bytes().unwrap();
    assert!(read(&model).unwrap_err().to_string().contains("is not an mcvi checkpoint"));
    assert!(Deep::from_bytes(&whole, Path::new("x")).unwrap_err().to_string().contains("is not an mcvi deep model"));
}

#[test]
fn a_checkpoint_belongs_to_its_images_and_its_architecture() {
    let mut trainer = trainer(&small(), &brief(2), 1);
    epochs(&mut trainer, 1);
    let checkpoint = trainer.checkpoint().unwrap();
    let (train, valid) = (quarters(400, 1), quarters(200, 2));
    let other =
        Trainer::resume(&checkpoint, (&train, &valid, "others"), Hardware::with_threads(1)).err().unwrap().to_string();
    assert!(other.contains("images are not those"), "{other}");
    let architecture = Architecture { hidden: 17, ..small() };
    let wrong = TrainingCheckpoint { architecture, ..checkpoint };
    let other =
        Trainer::resume(&wrong, (&train, &valid, "quarters"), Hardware::with_threads(1)).err().unwrap().to_string();
    assert!(other.contains("in the state given"), "{other}");
}

#[test]
fn impossible_settings_are_refused() {
    let (train, valid) = (quarters(40, 1), quarters(20, 2));
    let refused = |architecture: &Architecture, settings: &TrainSettings| {
        Trainer::new(architecture, settings, (&train, &valid, ""), Hardware::with_threads(1)).err().unwrap().to_string()
    };
    let says = |message: String, what: &str| assert!(message.contains(what), "{message}");
    says(refused(&small(), &TrainSettings { batch: 41, ..brief(1) }), "batch: 41");
    says(refused(&small(), &TrainSettings { rate: f64::NAN, ..brief(1) }), "rate");
    says(refused(&small(), &TrainSettings { epochs: 0, ..brief(1) }), "epochs");
    says(refused(&small(), &TrainSettings { factor: 1.0, ..brief(1) }), "decay");
    says(refused(&small(), &TrainSettings { weight_decay: -1.0, ..brief(1) }), "weight decay: -1");
    says(refused(&small(), &TrainSettings { join: true, decay: Decay::Plateau, ..brief(1) }), "decay");
    says(refused(&Architecture { latent: 0, ..small() }, &brief(1)), "latent");
    says(refused(&Architecture { image: [7, 7], ..small() }, &brief(1)), "[images, 49]");
    says(refused(&Architecture { initial_step_size: 0.0, ..small() }, &brief(1)), "step size");
    says(refused(&Architecture { leapfrogs: 5000, ..small() }, &brief(1)), "leapfrogs");
}

#[test]
fn weights_are_taken_over_where_another_model_has_them() {
    let plain = Deep::new(Architecture { leapfrogs: 0, ..small() }, 1).unwrap();
    let mut chain = Deep::new(small(), 2).unwrap();
    let before = chain.clone();
    assert_eq!(chain.take_over(&plain).unwrap(), plain.params.iter().count());
    for (name, param) in chain.params.iter() {
        let from = if plain.params.get(name).is_some() { &plain } else { &before };
        assert_eq!(param.value, from.params.get(name).unwrap().value, "{name}");
    }
    assert!(chain.params.get("step1.log_step").is_some() && plain.params.get("step1.log_step").is_none());
    // Of another shape nothing is taken.
    let wide = Deep::new(Architecture { hidden: small().hidden + 1, ..small() }, 1).unwrap();
    let (kept, error) = (chain.params.clone(), chain.take_over(&wide).unwrap_err().to_string());
    assert!(error.contains("the value given is") && chain.params == kept, "{error}");
}

#[test]
fn weights_start_from_the_seed_and_differ_between_layers() {
    let one = Deep::new(small(), 1).unwrap().params;
    let two = Deep::new(small(), 2).unwrap().params;
    let (a, b) = ("target.layer1.z", "step1.r.layer1.z");
    assert_ne!(one.values(a).unwrap(), two.values(a).unwrap());
    assert_eq!(one.values(a).unwrap(), Deep::new(small(), 1).unwrap().params.values(a).unwrap());
    let differs = one.values(a).unwrap().iter().zip(one.values(b).unwrap()).filter(|(a, b)| *a != b).count();
    assert!(differs > 50, "{differs}");
}

#[test]
fn the_rate_of_the_chain_is_for_its_numbers_not_for_its_networks() {
    let architecture = Architecture { momentum: Momentum::Network, inverse: Momentum::Gradient, ..small() };
    let params = Deep::new(architecture, 1).unwrap().params;
    let group = |name: &str| params.get(name).unwrap().group;
    assert_eq!(group("step1.log_step"), Group::Transition);
    assert_eq!(group("step1.momentum.layer1.x"), Group::Network);
    assert_eq!(group("step1.r.layer1.x"), Group::Inverse);
    assert_eq!(group("q0.layer1.x"), Group::Initial);
}
