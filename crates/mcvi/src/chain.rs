//! A chain: an initial distribution and any number of steps, each a transition with its inverse model.

use crate::density::{Categorical, Density, Gaussian};
use crate::transition::Transition;
use std::sync::Arc;

/// q(z₀|x) and the transitions that follow it.
#[derive(Clone, Debug)]
pub struct Chain {
    pub(crate) initial: Arc<dyn Density>,
    pub(crate) steps: Vec<Step>,
    pub(crate) iterates: Iterates,
    pub(crate) annealing: Annealing,
}

/// A transition and the names under which its parameters, and its inverse model's, are kept.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub transition: Arc<dyn Transition>,
    pub forward: String,
    pub inverse: String,
}

/// Which parameters the steps of one kind share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One set for each step.
    Nothing,
    /// One set for all transitions, an inverse model for each step.
    Transitions,
    /// One set for all steps.
    Everything,
}

/// Which positions of the chain make the approximation: section 4.3.
#[derive(Clone, Debug)]
pub(crate) enum Iterates {
    Last,
    Mixture { last: usize, indicator: Option<Categorical> },
}

/// Which target the steps see: section 4.2.
#[derive(Clone, Debug)]
pub(crate) enum Annealing {
    Off,
    Fixed(Vec<f64>),
    Learned,
}

impl Chain {
    /// A chain without steps: the fixed-form approximation q(z₀|x).
    pub fn new(initial: impl Density + 'static) -> Self {
        Chain { initial: Arc::new(initial), steps: vec![], iterates: Iterates::Last, annealing: Annealing::Off }
    }

    /// Hamiltonian variational inference (Algorithm 3) as in the paper's section 3.1: a diagonal Gaussian, then one
    /// step of so many leapfrogs. With none, the Gaussian alone.
    pub fn hamiltonian(leapfrogs: usize) -> Self {
        let chain = Chain::new(Gaussian::diagonal());
        if leapfrogs == 0 { chain } else { chain.step(crate::transition::Hamiltonian::new(leapfrogs)) }
    }

    /// Add a step with parameters of its own.
    pub fn step(self, transition: impl Transition + 'static) -> Self {
        self.steps(1, Sharing::Nothing, transition)
    }

    /// Add `count` steps of one kind.
    pub fn steps(mut self, count: usize, sharing: Sharing, transition: impl Transition + 'static) -> Self {
        let transition: Arc<dyn Transition> = Arc::new(transition);
        let first = self.steps.len() + 1;
        for t in first..first + count {
            let (forward, inverse) = match sharing {
                Sharing::Nothing => (t, t),
                Sharing::Transitions => (first, t),
                Sharing::Everything => (first, first),
            };
            let (forward, inverse) = (format!("step{forward}"), format!("step{inverse}.r"));
            self.steps.push(Step { transition: transition.clone(), forward, inverse });
        }
        self
    }

    /// Approximate by the last `count` positions instead of the last one: a mixture, with q(w) = r(w) uniform.
    pub fn average_last(self, count: usize) -> Self {
        Chain { iterates: Iterates::Mixture { last: count, indicator: None }, ..self }
    }

    /// The same with a learned model r(w|x, z) of which position a draw came from.
    pub fn average_last_with(self, count: usize, indicator: Categorical) -> Self {
        Chain { iterates: Iterates::Mixture { last: count, indicator: Some(indicator) }, ..self }
    }

    /// Let step t see the bridge (1 − βₜ) log q₀(z) + βₜ log p(x, z), with these βₜ; the last should be 1.
    pub fn annealed(self, temperatures: &[f64]) -> Self {
        Chain { annealing: Annealing::Fixed(temperatures.to_vec()), ..self }
    }

    /// The same with learned 0 < β₁ < … < β_T = 1, equally spaced to begin with.
    pub fn annealed_learned(self) -> Self {
        Chain { annealing: Annealing::Learned, ..self }
    }

    /// The initial distribution alone.
    pub(crate) fn initial_alone(&self) -> Self {
        Chain { initial: self.initial.clone(), steps: vec![], iterates: Iterates::Last, annealing: Annealing::Off }
    }

    /// The number of steps T.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the chain is its initial distribution alone.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
