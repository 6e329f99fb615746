//! log p(x) by annealed importance sampling with accept/reject HMC: section 4.2 as a check on importance sampling.

use super::checkpoint::Deep;
use super::model::Observed;
use crate::approximation::Approximation;
use crate::density::Gaussian;
use crate::diagnostics::log_mean_exp;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::seed::derive_seed;
use crate::transition::{Hamiltonian, MetropolisHastings};
use mcvi_expr::{Array, Data};
use std::sync::Arc;

/// Settings for annealing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnnealSettings {
    /// Temperatures between q(z₀|x) and the posterior.
    pub temperatures: usize,
    /// Chains for each image.
    pub chains: usize,
    /// Leapfrogs at each temperature.
    pub leapfrogs: usize,
    /// The seed of all draws.
    pub seed: u64,
    /// The hardware.
    pub hardware: Hardware,
}

impl Default for AnnealSettings {
    fn default() -> Self {
        AnnealSettings { temperatures: 1000, chains: 16, leapfrogs: 5, seed: 1, hardware: Hardware::default() }
    }
}

/// The result of annealing some images.
#[derive(Clone, Debug)]
pub struct AnnealedEvidence {
    /// log p(x) of each image.
    pub log_p: Vec<f64>,
    /// The standard error of each, over its chains.
    pub se: Vec<f64>,
    /// The step size used, chosen by a pilot run.
    pub step: f64,
    /// The mean acceptance probability.
    pub accept: f64,
}

/// Chains annealed together.
const AT_ONCE: usize = 512;
/// The target acceptance probability: Beskos et al. (2013) for Hamiltonian dynamics.
const ACCEPT: f64 = 0.65;

/// Anneal from q(z₀|x) to the posterior of each row of `images`. The observer gets the number of images done.
pub fn annealed_evidence(
    deep: &Deep,
    images: &Array,
    settings: AnnealSettings,
    mut observe: impl FnMut(usize),
) -> Result<AnnealedEvidence> {
    let AnnealSettings { temperatures, chains, leapfrogs, seed, hardware } = settings;
    for (what, n) in [("temperatures", temperatures), ("chains", chains), ("leapfrogs", leapfrogs)] {
        if n == 0 {
            return Err(Error::Setting { what, why: "at least one is needed".to_owned() });
        }
    }
    let pixels = deep.architecture.pixels();
    let Data::F32(values) = images.data() else {
        return Err(Error::Setting { what: "images", why: "must be single precision".to_owned() });
    };
    let betas = |n: usize| (1..=n).map(|t| t as f64 / n as f64).collect::<Vec<_>>();
    let anneal = |rows: &[f32], step: f64, betas: &[f64], seed: u64| {
        let repeated: Vec<f32> =
            rows.chunks(pixels).flat_map(|x| std::iter::repeat_n(x, chains)).flatten().copied().collect();
        let count = repeated.len() / pixels;
        let model = deep.architecture.model(Observed::Given(Array::new([count, pixels], repeated)?));
        let approximation = Approximation {
            target: Arc::new(model),
            chain: deep.architecture.chain(),
            initialisation: Initialisation::standard(deep.architecture.latent),
            params: deep.params.clone(),
            hardware,
        };
        let dynamics = Hamiltonian::new(leapfrogs).initial_step_size(step).momentum(Gaussian::momenta_at_rest());
        approximation.anneal(&MetropolisHastings::hamiltonian(dynamics), betas, count, seed)
    };
    let block = (AT_ONCE / chains).max(1) * pixels;

    // A pilot run: the step size at which a short annealing of the first images has the target acceptance probability.
    let pilot = &values[..block.min(values.len())];
    let (mut low, mut high) = (1e-3f64.ln(), 2f64.ln());
    for _ in 0..8 {
        let middle = 0.5 * (low + high);
        let accept =
            anneal(pilot, middle.exp(), &betas(20), derive_seed(seed, "step size"))?.accept.unwrap_or_default();
        let mean = accept.iter().sum::<f64>() / accept.len().max(1) as f64;
        if mean > ACCEPT { low = middle } else { high = middle }
    }
    let step = low.exp();

    let mut evidence = AnnealedEvidence { log_p: vec![], se: vec![], step, accept: 0.0 };
    let (mut accepted, mut counted) = (0.0, 0);
    for (i, rows) in values.chunks(block).enumerate() {
        let annealed = anneal(rows, step, &betas(temperatures), seed.wrapping_add(i as u64))?;
        for weights in annealed.log_weights.chunks(chains) {
            let estimate = log_mean_exp(weights);
            evidence.log_p.push(estimate.value);
            evidence.se.push(estimate.se);
        }
        for accept in annealed.accept.into_iter().flatten() {
            accepted += accept;
            counted += 1;
        }
        observe(evidence.log_p.len());
    }
    evidence.accept = accepted / f64::from(counted.max(1));
    Ok(evidence)
}
