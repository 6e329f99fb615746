//! The shapes of chains that are tried, from the shortest to the longest.

use super::{ChainChoice, FULL};
use crate::chain::{Chain, Sharing};
use crate::density::{Covariance, Density, Gaussian, Inputs, Predictor};
use crate::draws::Judgement;
use crate::fit::{Schedule, Settings};
use crate::transition::{Hamiltonian, Inverse, Mass};
use std::sync::Arc;

/// Pareto k̂ far enough from where a verdict changes.
const COMFORTABLE: f64 = 0.65;

/// Iterations that a Gaussian alone is given where longer chains may follow.
const PLAIN: usize = 10_000;

/// The shape of a chain: a Gaussian, then Hamiltonian steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// T.
    pub steps: usize,
    /// k.
    pub leapfrogs: usize,
    /// Hidden units of the networks that are the momentum distributions; none where these are linear.
    pub hidden: usize,
    /// Whether q(z₀) has a full covariance.
    pub full_covariance: bool,
}

impl Shape {
    /// In words.
    pub fn name(self) -> String {
        match self {
            Shape { steps: 0, .. } => "a Gaussian alone".to_owned(),
            Shape { steps: 1, leapfrogs, hidden: 0, .. } => format!("a Hamiltonian step of {leapfrogs} leapfrogs"),
            Shape { steps, leapfrogs, hidden: 0, .. } => format!("{steps} Hamiltonian steps of {leapfrogs} leapfrogs"),
            Shape { steps, leapfrogs, hidden, .. } => {
                format!("{steps} Hamiltonian steps of {leapfrogs} leapfrogs, momenta by networks of {hidden} units")
            }
        }
    }

    /// The chain, for a target of so many dimensions.
    pub fn chain(self, dim: usize) -> Chain {
        let chain = Chain::new(if self.full_covariance { Gaussian::full() } else { Gaussian::diagonal() });
        let momentum: Arc<dyn Density> = match self.hidden {
            // In many dimensions the matrices of a linear mean are too large to be learned from few draws.
            0 if dim > FULL => Arc::new(Gaussian::diagonal()),
            0 => Arc::new(Gaussian::linear_in_gradient()),
            hidden => Arc::new(Gaussian::new(Predictor::dense(Inputs::GRADIENT, &[hidden]), Covariance::Predicted)),
        };
        let step = Hamiltonian {
            first_step: None,
            leapfrogs: self.leapfrogs,
            mass: Mass::Diagonal,
            momentum: momentum.clone(),
            inverse: Inverse::Learned(momentum),
        };
        chain.steps(self.steps, Sharing::Nothing, step)
    }

    /// Whether a good approximation is good enough to stop at: a short chain whose verdict is near its edge is not.
    pub(super) fn is_enough(self, judgement: &Judgement, attempts: usize) -> bool {
        self.steps == 0 || judgement.pareto_k <= COMFORTABLE || attempts > 2
    }

    /// A Gaussian alone is learned quickly. Networks have no regression to start from: they are learned with more
    /// draws, slower, and to the end.
    pub(super) fn settings(self, asked: &Settings, choice: ChainChoice) -> Settings {
        if self.steps == 0 && choice == ChainChoice::Auto {
            return Settings { iterations: asked.iterations.min(PLAIN), ..asked.clone() };
        }
        if self.hidden == 0 || asked.schedule != Schedule::Automatic {
            return asked.clone();
        }
        Settings { draws: 2 * asked.draws, rate: asked.rate / 3.0, schedule: Schedule::Cosine, ..asked.clone() }
    }
}

/// What is tried, in order.
pub(super) fn ladder(choice: ChainChoice, full_covariance: bool) -> Vec<Shape> {
    let rung = |steps, leapfrogs, hidden| Shape { steps, leapfrogs, hidden, full_covariance };
    match choice {
        ChainChoice::None => vec![rung(0, 0, 0)],
        ChainChoice::Hamiltonian { steps, leapfrogs } => vec![rung(steps, leapfrogs, 0)],
        ChainChoice::Auto => vec![rung(0, 0, 0), rung(1, 2, 0), rung(2, 3, 0), rung(4, 4, 64)],
    }
}
