//! Limits hold in every door, and files that were damaged or forged are refused before memory is taken or a wrong number
//! comes out.

use mcvi::infer::{ChainChoice, Checkpoint, Request, infer};
use mcvi::vae::{Architecture, Deep, TrainSettings, Trainer, TrainingCheckpoint};
use mcvi::{Approximation, Array, Chain, Error, Hardware, posteriors, reseal};
use serde_json::{Value, json};
use std::path::Path;

const HUGE: usize = 1_000_000_000;

fn banana() -> mcvi::DescribedModel {
    posteriors::ALL.iter().find(|b| b.name == "banana").unwrap().model().unwrap()
}

#[test]
fn requests_beyond_the_limits_are_refused() {
    let huge = |change: fn(&mut Request)| {
        let mut request = Request::default();
        change(&mut request);
        match infer(banana(), &request) {
            Err(Error::Setting { what, why }) => format!("{what}: {why}"),
            other => panic!("{:?}", other.map(|_| ()).map_err(|e| e.to_string())),
        }
    };
    assert_eq!(huge(|r| r.draws = HUGE), "draws: 1000000000 is not between 1 and 10000000");
    assert!(huge(|r| r.draws = 0).starts_with("draws"));
    assert_eq!(huge(|r| r.starts = HUGE), "starts: 1000000000 is not between 1 and 1000");
    assert_eq!(huge(|r| r.settings.draws = HUGE), "draws per gradient: 1000000000 is not between 1 and 100000");
    assert!(huge(|r| r.settings.rate = f64::NAN).starts_with("learning rate"));
    assert!(huge(|r| r.settings.iterations = 0).starts_with("iterations"));
    let hamiltonian = |steps, leapfrogs| ChainChoice::Hamiltonian { steps, leapfrogs };
    for (chain, what) in [
        (hamiltonian(HUGE, 1), "steps of a chain"),
        (hamiltonian(1, HUGE), "leapfrogs"),
        (hamiltonian(256, 1000), "gradients of a chain"),
        (ChainChoice::Given(Chain::hamiltonian(HUGE)), "leapfrogs"),
    ] {
        let request = Request { chain, ..Request::default() };
        assert!(request.check().unwrap_err().to_string().starts_with(what), "{what}");
    }
}

#[test]
fn chains_beyond_the_limits_are_no_chains() {
    let refused = |steps: Value| {
        serde_json::from_value::<Chain>(json!({ "steps": steps }))
            .map(|chain| chain.to_string())
            .unwrap_err()
            .to_string()
    };
    let step = |count: usize| json!({ "count": count, "transition": { "kind": "hamiltonian", "leapfrogs": 1 } });
    // Together more than can be counted.
    assert!(refused(json!([step(usize::MAX), step(usize::MAX)])).contains("steps of a chain"));
    assert!(refused(json!([{ "transition": { "kind": "hamiltonian", "leapfrogs": HUGE } }])).contains("leapfrogs"));
    let sized = json!([{ "transition": { "kind": "hamiltonian", "leapfrogs": 1, "initial_step_size": -1.0 } }]);
    assert!(refused(sized).contains("step size"));
    let network = |hidden: Value| {
        let mean = json!({ "network": { "inputs": { "position": true, "gradient": false, "data": false },
            "network": { "kind": "dense", "hidden": hidden } } });
        let momentum = json!({ "kind": "gaussian", "mean": mean });
        refused(json!([{ "transition": { "kind": "hamiltonian", "leapfrogs": 1, "momentum": momentum } }]))
    };
    assert!(network(json!([HUGE])).contains("hidden units"));
    assert!(network(json!([90_000, 90_000])).contains("weights"));
    assert!(network(json!(vec![3; 21])).contains("layers"));
    let plain = Approximation::new(banana(), Chain::hamiltonian(1)).unwrap();
    assert!(plain.draw(HUGE, 1).unwrap_err().to_string().starts_with("draws"));
    assert!(Approximation::new(banana(), Chain::hamiltonian(HUGE)).is_err());
}

/// A saved file with another text in its header, or other numbers in an array, and the checksum that belongs to it.
fn forged(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let len = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..len]).unwrap();
    let mut texts: Value = serde_json::from_str(header["__metadata__"]["mcvi"].as_str().unwrap()).unwrap();
    change(&mut texts);
    header["__metadata__"]["mcvi"] = texts.to_string().into();
    let header = header.to_string();
    reseal(&[&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[len..]].concat())
}

fn with_nan(bytes: &[u8], name: &str) -> Vec<u8> {
    let len = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..len]).unwrap();
    let at = len + header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    let mut bytes = bytes.to_vec();
    // NaN in single and in double precision.
    let size = if header[name]["dtype"] == "F32" { 4 } else { 8 };
    bytes[at..at + size].fill(0xff);
    reseal(&bytes)
}

#[test]
fn fits_with_weights_that_are_not_finite_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fit.safetensors");
    let fit = Approximation::new(banana(), Chain::hamiltonian(1)).unwrap();
    fit.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(reseal(&bytes).len(), bytes.len());
    for name in ["q0.bias", "step1.log_step", "start.center"] {
        std::fs::write(&path, with_nan(&bytes, name)).unwrap();
        let error = Approximation::load(&path, banana()).err().unwrap();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert!(
            error.to_string().ends_with(&format!("is damaged: `{name}` has numbers that are not finite")),
            "{error}"
        );
    }
    // A chain that needs more numbers than the file holds.
    let momentum = r#"{"kind":"gaussian","mean":{"network":{"inputs":{"position":true,"gradient":false,"data":false},"network":{"kind":"dense","hidden":[9000,9000]}}}}"#;
    let chain =
        format!(r#"{{"steps":[{{"transition":{{"kind":"hamiltonian","leapfrogs":1,"momentum":{momentum}}}}}]}}"#);
    std::fs::write(&path, forged(&bytes, |texts| texts["chain"] = chain.into())).unwrap();
    let error = Approximation::load(&path, banana()).err().unwrap().to_string();
    assert!(error.contains("81000000 are needed"), "{error}");
}

#[test]
fn states_that_claim_more_than_they_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let mut request = Request { chain: ChainChoice::None, starts: 1, ..Request::default() };
    request.settings.iterations = 120;
    infer(banana(), &request).unwrap().checkpoint.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let said = |bytes: &[u8]| Checkpoint::from_bytes(bytes, &path).unwrap_err().to_string();
    assert!(Checkpoint::from_bytes(&forged(&bytes, |_| ()), &path).is_ok());
    for (name, value) in [
        ("0/round.start", "1000000000000000000"),
        ("0/round.start", "150"),
        ("0/round.length", "70000000000000001"),
        ("0/round.length", "7"),
        ("0/iterations", "18446744073709551615"),
        ("0/seconds", "inf"),
        ("rungs", "1000000000"),
    ] {
        let said = said(&forged(&bytes, |texts| texts[name] = value.into()));
        assert!(said.contains("damaged"), "{name}: {said}");
    }
    assert!(said(&with_nan(&bytes, "0/best/q0.bias")).contains("`q0.bias` has numbers that are not finite"));
    let steps = r#"{"steps":[{"count":1000000000,"transition":{"kind":"hamiltonian","leapfrogs":1}}]}"#;
    assert!(said(&forged(&bytes, |texts| texts["0/chain"] = steps.into())).contains("steps of a chain"));
}

#[test]
fn deep_models_that_claim_more_than_they_hold_are_refused() {
    let path = Path::new("model.safetensors");
    let small = Architecture { image: [4, 4], hidden: 6, latent: 2, leapfrogs: 1, ..Architecture::default() };
    let deep = Deep::new(small.clone(), 1).unwrap();
    let bytes = deep.to_bytes().unwrap();
    let said = |bytes: &[u8]| Deep::from_bytes(bytes, path).unwrap_err().to_string();
    for (change, says) in [
        (Architecture { hidden: 10_000, ..small.clone() }, "are needed"),
        (Architecture { latent: HUGE, ..small.clone() }, "latent variables"),
        (Architecture { steps: HUGE, ..small.clone() }, "steps"),
        (Architecture { image: [usize::MAX, 3], ..small.clone() }, "image"),
    ] {
        let said = said(&forged(&bytes, |texts| texts["architecture"] = json!(change).to_string().into()));
        assert!(said.contains(says) && said.contains("damaged"), "{said}");
    }
    let weight = deep.params.iter().next().unwrap().0;
    assert!(said(&with_nan(&bytes, weight)).contains("not finite"));

    let pixels = Array::new([20, 16], (0..320).map(|i| f32::from(i % 3 == 0)).collect::<Vec<f32>>()).unwrap();
    let settings = TrainSettings { batch: 10, epochs: 2, ..TrainSettings::default() };
    let mut trainer = Trainer::new(&small, &settings, (&pixels, &pixels, "same"), Hardware::with_threads(1)).unwrap();
    trainer.epoch(|_| std::ops::ControlFlow::Continue(())).unwrap();
    let bytes = trainer.checkpoint().unwrap().to_bytes().unwrap();
    let read = |bytes: &[u8]| TrainingCheckpoint::from_bytes(bytes, path);
    assert!(read(&bytes).is_ok());
    let progress = |change: fn(&mut Value)| {
        forged(&bytes, |texts| {
            let mut progress: Value = serde_json::from_str(texts["progress"].as_str().unwrap()).unwrap();
            change(&mut progress);
            texts["progress"] = progress.to_string().into();
        })
    };
    for wrong in [
        progress(|p| p["best"] = json!(0)),
        progress(|p| p["best"] = json!(7)),
        progress(|p| p["waiting_since"] = json!(9)),
        progress(|p| p["lowered"] = json!(u32::MAX)),
        progress(|p| p["epochs"][0]["epoch"] = json!(5)),
        progress(|p| p["epochs"][0]["skipped"] = json!(u64::MAX)),
        with_nan(&bytes, &format!("average.{weight}")),
    ] {
        let error = read(&wrong).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    let huge = forged(&bytes, |texts| {
        let settings = TrainSettings { epochs: HUGE, ..settings.clone() };
        texts["settings"] = json!(settings).to_string().into();
    });
    assert!(read(&huge).unwrap_err().to_string().contains("epochs"));
}
