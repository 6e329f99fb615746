//! The chains to try, from the shortest to the longest, and the settings for each.

use super::ChainChoice;
use crate::approximation::Diagnostics;
use crate::chain::{Chain, Sharing};
use crate::density::{AnyDensity, Gaussian, Inputs};
use crate::fit::Settings;
use crate::transition::{Hamiltonian, Inverse};

/// Pareto k̂ at a safe distance from where a verdict changes.
const COMFORTABLE: f64 = 0.65;

/// Iterations for a Gaussian alone if longer chains may follow.
const PLAIN: usize = 10_000;

/// Maximum dimension in which matrices are learned by default: covariances, and those of linear momentum means.
pub(super) const FULL: usize = 50;

/// A Gaussian, then Hamiltonian steps whose momentum distributions are linear or, with hidden units, networks.
pub fn hamiltonian(dim: usize, full: bool, steps: usize, leapfrogs: usize, hidden: usize) -> Chain {
    let chain = Chain::new(if full { Gaussian::full() } else { Gaussian::diagonal() });
    if steps == 0 {
        return chain;
    }
    let momentum: AnyDensity = match hidden {
        // In many dimensions the matrices of a linear mean are too large to be learned from few draws.
        0 if dim > FULL => Gaussian::diagonal().into(),
        0 => Gaussian::linear_in_gradient().into(),
        hidden => Gaussian::network(Inputs::GRADIENT, &[hidden]).into(),
    };
    let step = Hamiltonian::new(leapfrogs).momentum(momentum.clone()).inverse(Inverse::Learned(momentum));
    chain.steps(steps, Sharing::Nothing, step)
}

/// The chains to try, in order.
pub(super) fn ladder(choice: &ChainChoice, dim: usize, full: bool) -> Vec<Chain> {
    let rung = |steps, leapfrogs, hidden| hamiltonian(dim, full, steps, leapfrogs, hidden);
    match choice {
        ChainChoice::None => vec![rung(0, 0, 0)],
        ChainChoice::Hamiltonian { steps, leapfrogs } => vec![rung(*steps, *leapfrogs, 0)],
        ChainChoice::Auto => vec![rung(0, 0, 0), rung(1, 2, 0), rung(2, 3, 0), rung(4, 4, 64)],
        ChainChoice::Given(chain) => vec![chain.clone()],
    }
}

/// Whether a good approximation is good enough to stop at: a short chain with a borderline verdict is not.
pub(super) fn is_enough(chain: &Chain, diagnostics: &Diagnostics, attempts: usize) -> bool {
    chain.is_empty() || diagnostics.pareto_k <= COMFORTABLE || attempts > 2
}

/// A Gaussian alone is learned quickly.
pub(super) fn settings(chain: &Chain, requested: &Settings, choice: &ChainChoice) -> Settings {
    if chain.is_empty() && *choice == ChainChoice::Auto {
        return Settings { iterations: requested.iterations.min(PLAIN), ..requested.clone() };
    }
    if chain.has_network() { requested.for_networks() } else { requested.clone() }
}
