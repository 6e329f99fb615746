//! Transitions: one operator a file, one contract for all.

mod gibbs;
mod hamiltonian;
mod langevin;
mod metropolis;
mod over_relaxation;
mod proposal;

pub use gibbs::Gibbs;
pub use hamiltonian::{Dynamics, Hamiltonian, Mass};
pub use langevin::Langevin;
pub use metropolis::{AcceptInverse, AcceptModel, Around, MetropolisHastings};
pub use over_relaxation::OverRelaxation;
pub use proposal::{Drift, RandomWalk};

use crate::density::Density;
use crate::error::Result;
use crate::scope::Scope;
use crate::target::Landscape;
use mcvi_expr::Expr;
use std::fmt::Debug;
use std::sync::Arc;

/// A step of a Markov chain, with its inverse model.
///
/// An implementation draws zₜ ~ qₜ(zₜ|x, zₜ₋₁) and returns it with log rₜ(zₜ₋₁|x, zₜ) − log qₜ(zₜ|x, zₜ₋₁), where both
/// may speak of further variables of the step, such as a momentum. It writes forward code only, and does not add
/// log p(x, z) terms: the bound does.
pub trait Transition: Debug + Send + Sync {
    /// Take the step from every row of `state`.
    fn apply<'g>(&self, at: &StepScope<'g>, state: State<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>>;
}

/// Where a step finds its parameters, and what it knows besides the state.
pub struct StepScope<'g> {
    /// For the transition's own parameters.
    pub forward: Scope<'g>,
    /// For those of its inverse model.
    pub inverse: Scope<'g>,
    /// The observations, where the target has them.
    pub data: Option<Expr<'g>>,
}

/// Where the chain is.
#[derive(Clone, Copy, Debug)]
pub struct State<'g> {
    /// The position, [rows, dim]. After accept/reject steps averaged over, the rows are paths × draws.
    pub z: Expr<'g>,
    /// A momentum that is kept from step to step, where a transition does so.
    pub momentum: Option<Expr<'g>>,
    /// The accept paths each draw has split into.
    pub paths: usize,
    /// The log probability of each row's path; none while there is only one.
    pub log_weight: Option<Expr<'g>>,
}

impl<'g> State<'g> {
    /// A chain at z.
    pub fn new(z: Expr<'g>) -> Self {
        State { z, momentum: None, paths: 1, log_weight: None }
    }

    /// The same, moved to z.
    pub fn at(self, z: Expr<'g>) -> Self {
        State { z, ..self }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.z.shape().dims()[0]
    }
}

/// What a step did.
pub struct Moved<'g> {
    /// Where the chain is now.
    pub state: State<'g>,
    /// log r − log q of each row.
    pub log_ratio: Expr<'g>,
    /// What else is worth knowing, by name, one number a row: `delta_h`, `accept`.
    pub diagnostics: Vec<(&'static str, Expr<'g>)>,
}

/// Where the inverse model of a transition comes from.
#[derive(Clone, Debug)]
pub enum Inverse {
    /// The transition with its arguments reversed: best for a chain that has converged.
    Reversed,
    /// A density of its own, to be learned.
    Learned(Arc<dyn Density>),
}

impl Inverse {
    /// A density of its own, to be learned.
    pub fn learned(density: impl Density + 'static) -> Self {
        Inverse::Learned(Arc::new(density))
    }
}
