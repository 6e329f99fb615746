//! Logistic regression of 208 sonar returns, 61 dimensions, as the library `mcvi` builds it: steps of uncorrected Hamiltonian
//! annealing, and the Hamiltonian step they are compared with.

use anyhow::{Result, bail};
use mcvi::density::Gaussian;
use mcvi::diagnostics::{Mean, mean};
use mcvi::fit::{Settings, Training};
use mcvi::transition::{Hamiltonian, Uha};
use mcvi::{Approximation, Chain, Choices, Hardware, Sharing, evidence};
use mcvi_expr::Array;
use std::path::Path;

/// Draws by which bounds are compared.
const DRAWS: usize = 100_000;

/// UHA: a diagonal Gaussian in whitened coordinates, then this many steps of one leapfrog, parameters of their own each, with
/// learned temperatures.
pub fn uha(steps: usize) -> Chain {
    start().steps(steps, Sharing::Nothing, Uha::new(1)).annealed_learned()
}

/// As many leapfrogs in one step, its momenta linear in z and ∇log p.
pub fn hamiltonian(leapfrogs: usize) -> Chain {
    start().step(Hamiltonian::new(leapfrogs))
}

fn start() -> Chain {
    Chain::new(Gaussian::diagonal()).whitened()
}

/// The chain before it is trained. `data` is the folder with `sonar.csv`.
pub fn approximation(chain: Chain, data: Option<&Path>, threads: usize) -> Result<Approximation> {
    let model = evidence::target("sonar")?.model(data)?;
    Ok(Approximation::new(model, chain)?.on(Hardware::with_threads(threads)))
}

/// An iteration of its training.
pub fn training(approximation: &Approximation, draws: usize) -> Result<Training> {
    Ok(Training::new(approximation, &Settings { draws, ..Settings::default() })?)
}

/// Set all that is learned, one parameter after the other.
pub fn set(approximation: &mut Approximation, flat: &[f64]) -> Result<()> {
    let params = approximation.params_mut();
    if flat.len() != params.learned() {
        bail!("{} numbers given, the chain learns {}", flat.len(), params.learned());
    }
    let learned: Vec<(String, Array)> =
        params.iter().filter(|(_, p)| p.learned).map(|(name, p)| (name.to_owned(), p.value.clone())).collect();
    let mut rest = flat;
    for (name, old) in learned {
        let (values, after) = rest.split_at(old.shape().size());
        params.set(&name, Array::new(old.shape().clone(), values.to_vec())?)?;
        rest = after;
    }
    Ok(())
}

/// The bound by fresh draws.
pub fn bound(approximation: &Approximation, seed: u64) -> Result<Mean> {
    Ok(mean(&approximation.bounds(DRAWS, Choices::Average, seed)?))
}
