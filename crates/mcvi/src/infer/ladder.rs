//! The chains to try, from the shortest to the longest, how each begins, and the settings for each.

use super::{ChainChoice, VerdictKind};
use crate::approximation::{Approximation, Diagnostics};
use crate::chain::{Chain, Sharing};
use crate::density::{AnyDensity, Gaussian, Inputs};
use crate::error::Result;
use crate::fit::{Schedule, Settings};
use crate::initialisation::Initialisation;
use crate::seed::derive_seed;
use crate::transition::{Hamiltonian, Inverse, TimeNetwork, Uha};

/// Pareto k̂ at a safe distance from where a verdict changes.
const COMFORTABLE: f64 = 0.65;

/// Iterations for a Gaussian alone if longer chains may follow: four rounds.
const PLAIN: usize = 7_500;
/// Iterations for a chain that keeps its momentum, if longer chains may follow: five rounds.
const ANNEALED: usize = 15_500;
/// Iterations for a chain with networks in time, which begins with the fit of the one before: three rounds.
const NETWORKS: usize = 21_000;

/// Maximum dimension in which a covariance is learned by default. Beyond, it is the curvature's.
const FULL: usize = 100;
/// Maximum dimension in which the matrices of linear momentum means are learned by default.
const LINEAR: usize = 50;

/// Steps of a chain that is tried for its own sake.
const LONG: usize = 8;

/// Draws of the Gaussian whose moments whiten the chains after it.
const MOMENTS: usize = 20_000;
/// Hidden units of the network that gives the spread of momenta. Twice as many take about a third more time to the same bound.
const SPREAD: [usize; 2] = [16, 16];

/// A Gaussian with a full or a diagonal covariance; by default full, learned in few dimensions.
pub(super) fn gaussian(dim: usize, full: Option<bool>) -> Chain {
    match full {
        Some(false) => Chain::new(Gaussian::diagonal()),
        None if dim > FULL => Chain::new(Gaussian::diagonal()).whitened(),
        Some(true) | None => Chain::new(Gaussian::full()),
    }
}

/// A Gaussian, then Hamiltonian steps whose momentum distributions are linear or, with hidden units, networks.
pub fn hamiltonian(dim: usize, full: bool, steps: usize, leapfrogs: usize, hidden: usize) -> Chain {
    after(gaussian(dim, Some(full)), dim, steps, leapfrogs, hidden)
}

fn after(chain: Chain, dim: usize, steps: usize, leapfrogs: usize, hidden: usize) -> Chain {
    if steps == 0 {
        return chain;
    }
    let momentum: AnyDensity = match hidden {
        // In many dimensions the matrices of a linear mean are too large to be learned from few draws.
        0 if dim > LINEAR => Gaussian::diagonal().into(),
        0 => Gaussian::linear_in_gradient().into(),
        hidden => Gaussian::network(Inputs::GRADIENT, &[hidden]).into(),
    };
    let step = Hamiltonian::new(leapfrogs).momentum(momentum.clone()).inverse(Inverse::Learned(momentum));
    chain.steps(steps, Sharing::Nothing, step)
}

/// Annealed steps with a momentum that is kept, in whitened coordinates.
fn annealed(steps: usize, uha: Uha) -> Chain {
    Chain::new(Gaussian::diagonal()).whitened().steps(steps, Sharing::Nothing, uha).annealed_learned()
}

/// The chains to try, in order.
pub(super) fn ladder(choice: &ChainChoice, dim: usize, full: Option<bool>) -> Vec<Chain> {
    let gaussian = || gaussian(dim, full);
    match choice {
        ChainChoice::None => vec![gaussian()],
        ChainChoice::Hamiltonian { steps, leapfrogs } => vec![after(gaussian(), dim, *steps, *leapfrogs, 0)],
        ChainChoice::Auto => {
            let spread = || Uha::new(1).spread(TimeNetwork::new(Inputs::POSITION, &SPREAD));
            let uha = [(4, Uha::new(1)), (8, Uha::new(1)), (8, spread()), (16, spread())];
            std::iter::once(gaussian()).chain(uha.map(|(steps, uha)| annealed(steps, uha))).collect()
        }
        ChainChoice::Given(chain) => {
            let mut stages: Vec<Chain> = std::iter::successors(Some(chain.clone()), Chain::before).collect();
            if chain.is_whitened() && !chain.is_empty() {
                stages.push(gaussian());
            }
            stages.reverse();
            stages
        }
    }
}

/// Whether a chain of the ladder is only a stage of the one asked for.
pub(super) fn is_stage(choice: &ChainChoice, chain: &Chain) -> bool {
    matches!(choice, ChainChoice::Given(whole) if whole != chain)
}

/// How a chain begins. It continues from the fit before it if that was of a chain it contains. Otherwise a chain in whitened
/// coordinates takes them from the moments of that fit, unless those would be too noisy, and others take the initialisation.
pub(super) fn start(
    chain: &Chain,
    initial: &Approximation,
    before: Option<&Approximation>,
    seed: u64,
) -> Result<Approximation> {
    let Some(before) = before.filter(|_| chain.is_whitened()) else { return initial.fresh(chain.clone()) };
    let whitened = before.chain().is_whitened();
    if whitened && (before.chain().is_empty() || chain.before().as_ref() == Some(before.chain())) {
        return before.extended(chain.clone());
    }
    if whitened && before.target().dim() > FULL {
        return before.fresh(chain.clone());
    }
    let draws = before.draw(MOMENTS, derive_seed(seed, "moments"))?;
    before.restarted(chain.clone(), Initialisation::moments(&draws.z))
}

/// Whether a chain is worth trying: the longest takes as long as all others, and is for what cannot be used without it.
pub(super) fn is_worthwhile(choice: &ChainChoice, chain: &Chain, best: Option<VerdictKind>) -> bool {
    *choice != ChainChoice::Auto || chain.len() <= LONG || best.is_none_or(|kind| kind == VerdictKind::DoNotTrust)
}

/// Whether a good approximation is good enough to stop at: a short chain with a borderline verdict is not.
pub(super) fn is_enough(chain: &Chain, diagnostics: &Diagnostics, attempts: usize) -> bool {
    chain.is_empty() || diagnostics.pareto_k <= COMFORTABLE || attempts > 2
}

/// A Gaussian alone is learned quickly, and networks in time begin with what was learned without them.
pub(super) fn settings(chain: &Chain, requested: &Settings, choice: &ChainChoice) -> Settings {
    let most = match choice {
        ChainChoice::Auto if chain.is_empty() => PLAIN,
        ChainChoice::Auto if chain.contained().is_some() => NETWORKS,
        ChainChoice::Auto => ANNEALED,
        _ => requested.iterations,
    };
    let settings = match requested.schedule {
        // In rounds too, so that the fit can end when it is good.
        Schedule::Automatic if chain.has_network() => {
            let Settings { schedule, .. } = *requested;
            Settings { schedule, first_round: 1000, growth: 4, ..requested.for_networks() }
        }
        _ => requested.clone(),
    };
    Settings { iterations: settings.iterations.min(most), ..settings }
}
