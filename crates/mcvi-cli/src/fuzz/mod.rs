//! Readers of files as functions of bytes, for campaigns of mutated inputs: `cargo test --test fuzz`, `mcvi-bench fuzz` and
//! the cargo-fuzz targets in `fuzz/`. Each goes as far as the command does before it computes anything.

mod mutate;

pub use mutate::{Rng, mutated};

use crate::fit::{parse_chain, settings::Saved};
use crate::paper::Results;
use crate::vae::{Config, Evaluation, Summary, Sweep, duration, epoch_figure, parse_epochs, parse_toml, plan};
use mcvi::data::{Format, Split};
use mcvi::infer::{ChainChoice, Checkpoint, Request, infer_from};
use mcvi::regression::{self, Family, Frame, ReadOptions, Regression};
use mcvi::vae::{Deep, Evaluator, Trainer, TrainingCheckpoint};
use mcvi::{
    Approximation, Array, BayesianModel, DescribedModel, Fingerprint, Hardware, Initialisation, Target as Density,
    posteriors, reseal,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// A reader.
pub struct Target {
    /// Its name, and that of the folder of its seeds.
    pub name: &'static str,
    /// Read an input; whether it was accepted.
    pub run: fn(&[u8]) -> bool,
}

/// All readers.
pub const TARGETS: [Target; 17] = [
    Target { name: "csv", run: csv },
    Target { name: "bits", run: |bytes| images(Format::Bits, bytes) },
    Target { name: "amat", run: |bytes| images(Format::Amat, bytes) },
    Target { name: "idx", run: |bytes| images(Format::Idx, bytes) },
    Target { name: "npy", run: |bytes| images(Format::Npy, bytes) },
    Target {
        name: "png",
        run: |bytes| images(Format::Pictures, bytes) | images(Format::Pictures, &resealed_png(bytes)),
    },
    Target { name: "pgm", run: |bytes| images(Format::Pictures, bytes) },
    Target { name: "fit", run: fit },
    Target { name: "fit-state", run: fit_state },
    Target { name: "fit-settings", run: fit_settings },
    Target { name: "chain", run: chain },
    Target { name: "vae-model", run: vae_model },
    Target { name: "vae-checkpoint", run: vae_checkpoint },
    Target { name: "vae-settings", run: vae_settings },
    Target { name: "sweep", run: sweep },
    Target { name: "results", run: results },
    Target { name: "stan", run: stan },
];

/// The seeds of a target: the files of its folder in a corpus, in the order of their names.
pub fn seeds(corpus: &Path, target: &Target) -> std::io::Result<Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(corpus.join(target.name))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    paths.iter().map(std::fs::read).collect()
}

/// Whether an input gets the more expensive treatment: one in `n`, by its bytes.
fn one_of(bytes: &[u8], n: usize) -> bool {
    let sum = bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    sum.is_multiple_of(n)
}

/// Read a record as it is, and with the checksum that belongs to its contents.
fn sealed(bytes: &[u8], read: fn(&[u8]) -> bool) -> bool {
    read(bytes) | read(&reseal(bytes))
}

/// The text of a file, if it can be one.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn csv(bytes: &[u8]) -> bool {
    let Ok(frame) = Frame::parse(bytes, &ReadOptions::default()) else { return false };
    // What suits one family is a mistake for another.
    let family = Family::ALL[bytes.len() % Family::ALL.len()].0;
    let options = regression::Options { family, ..Default::default() };
    let _ = Regression::with("y ~ . + (1 | g)", &frame, &options);
    let Ok(model) = Regression::new("y ~ .", &frame) else { return false };
    if model.dim() <= 20 && one_of(bytes, 4) {
        let _ = Fingerprint::of(&model);
    }
    !model.names().is_empty()
}

fn images(format: Format, bytes: &[u8]) -> bool {
    let Ok(images) = format.parse(bytes.to_vec(), Split::Train) else { return false };
    let binary = images.binarized(1, Split::Train);
    let _ = (binary.checksum(), images.known(), images.take(0..1).map(|one| one.array()));
    true
}

/// A PNG with the checksums that belong to its chunks.
fn resealed_png(bytes: &[u8]) -> Vec<u8> {
    let mut png = bytes.to_vec();
    let mut at = 8;
    while let Some(&[a, b, c, d]) = png.get(at..at + 4) {
        let end = at.saturating_add(8).saturating_add(u32::from_be_bytes([a, b, c, d]) as usize);
        let Some(chunk) = png.get(at + 4..end) else { break };
        let crc = chunk.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
        });
        let Some(place) = png.get_mut(end..end + 4) else { break };
        place.copy_from_slice(&(!crc).to_be_bytes());
        at = end + 4;
    }
    png
}

/// A built-in posterior of two dimensions.
fn banana() -> Option<DescribedModel> {
    posteriors::ALL.iter().find(|b| b.name == "banana")?.model().ok()
}

fn fit(bytes: &[u8]) -> bool {
    static TARGET: LazyLock<Option<Arc<dyn Density>>> = LazyLock::new(|| Some(Arc::new(banana()?) as Arc<dyn Density>));
    let read = |bytes: &[u8]| {
        let Some(target) = TARGET.clone() else { return false };
        let Ok(fit) = Approximation::from_bytes(bytes, Path::new("file"), target, None) else { return false };
        if fit.chain().gradients() <= 16 && one_of(bytes, 8) {
            let _ = fit.draw(10, 1);
        }
        true
    };
    read(bytes) | read(&reseal(bytes))
}

fn fit_state(bytes: &[u8]) -> bool {
    sealed(bytes, |bytes| {
        let Ok(state) = Checkpoint::from_bytes(bytes, Path::new("file")) else { return false };
        if one_of(bytes, 128)
            && let Some(model) = banana()
        {
            let chain = ChainChoice::Hamiltonian { steps: 1, leapfrogs: 1 };
            let mut request = Request { chain, starts: 1, hardware: Hardware::with_threads(1), ..Request::default() };
            request.budget.iterations = Some(state.iterations() + 60);
            let _ = infer_from(model, &request, &state, |_| ControlFlow::Break(()));
        }
        true
    })
}

fn fit_settings(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let Ok(saved) = Saved::parse(text, Path::new("folder")) else { return false };
    let settings = &saved.settings;
    let _ = (settings.repeated().check(), settings.resumed().check(), settings.chain.to_string());
    if one_of(bytes, 4) {
        let _ = saved.model();
    }
    true
}

fn chain(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let Ok(chain) = parse_chain(text, text.trim_start().starts_with('{')) else { return false };
    let shown = chain.to_string();
    let request = Request { chain: ChainChoice::Given(chain.clone()), ..Request::default() };
    if chain.gradients() <= 16
        && one_of(bytes, 4)
        && let Some(model) = banana()
    {
        let _ = Approximation::from(Arc::new(model), chain, Initialisation::standard(2));
    }
    !shown.is_empty() && request.check().is_ok()
}

fn vae_model(bytes: &[u8]) -> bool {
    sealed(bytes, |bytes| {
        let Ok(deep) = Deep::from_bytes(bytes, Path::new("file")) else { return false };
        if deep.architecture.pixels() <= 100 && one_of(bytes, 8) {
            let _ = Evaluator::sample(&deep, 2, true, 1);
        }
        true
    })
}

fn vae_checkpoint(bytes: &[u8]) -> bool {
    sealed(bytes, |bytes| {
        let Ok(checkpoint) = TrainingCheckpoint::from_bytes(bytes, Path::new("file")) else { return false };
        let _ = checkpoint.progress.best();
        if checkpoint.architecture.chain().gradients() <= 16
            && one_of(bytes, 16)
            && let Ok(images) = Array::new([20, 16], (0..320).map(|i| f32::from(i % 3 == 0)).collect::<Vec<f32>>())
        {
            let data = (&images, &images, checkpoint.data.as_str());
            if let Ok(mut trainer) = Trainer::resume(&checkpoint, data, Hardware::with_threads(1)) {
                let _ = (trainer.epoch(|_| ControlFlow::Continue(())).is_ok(), trainer.warnings());
            }
        }
        true
    })
}

fn vae_settings(bytes: &[u8]) -> bool {
    let Some(Ok(config)) = text(bytes).map(parse_toml::<Config>) else { return false };
    usable(&config)
}

/// Whether training could start with these options.
fn usable(config: &Config) -> bool {
    let Ok(resolved) = config.resolve([28, 28]) else { return false };
    if let Ok(text) = resolved.config().write() {
        let again = parse_toml::<Config>(&text);
        assert!(again.is_ok_and(|again| again == resolved.config()), "options are read as they were written");
    }
    resolved.architecture.check().is_ok() && resolved.training.check(50_000).is_ok()
}

fn sweep(bytes: &[u8]) -> bool {
    let Some(Ok(Sweep { all, run })) = text(bytes).map(Sweep::parse) else { return false };
    let names: Vec<String> = run.keys().cloned().collect();
    let Ok(runs) =
        run.into_iter().map(|(name, config)| Ok((name, config.or(&all)?))).collect::<anyhow::Result<Vec<_>>>()
    else {
        return false;
    };
    let usable = runs.iter().all(|(_, config)| usable(config));
    plan(runs, &names, Path::new("out")).is_ok() && usable
}

/// A Stan program, and what it becomes with data that many programs take.
fn stan(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    match mcvi_stan::Program::read("model.stan", text, &|_| None) {
        Err(mistakes) => mistakes.to_string().is_empty(),
        Ok(program) => {
            let data = serde_json::json!({ "N": 3, "K": 2, "y": [1, 2, 3], "x": [[1, 2], [3, 4], [5, 6]] });
            let lowered = mcvi_stan::Posterior::new(&program, &data);
            lowered.is_ok_and(|p| p.dim() <= 64 && p.value_and_gradient(&vec![0.1; p.dim()]).is_ok())
        }
    }
}

/// Summaries, evaluations and tables of epochs.
fn results(bytes: &[u8]) -> bool {
    let summary = serde_json::from_slice::<Summary>(bytes).map(|summary| duration(summary.seconds));
    let evaluation = serde_json::from_slice::<Evaluation>(bytes).map(|e| e.bound.text(2) + &e.log_p.text(2));
    let result = serde_json::from_slice::<Results>(bytes).map(|results| usable(&results.settings));
    let epochs = parse_epochs(bytes).map(|epochs| {
        if one_of(bytes, 2) {
            let _ = epoch_figure(&epochs, epochs.first(), 32).to_svg();
        }
    });
    summary.is_ok() | evaluation.is_ok() | result.is_ok() | epochs.is_ok()
}
