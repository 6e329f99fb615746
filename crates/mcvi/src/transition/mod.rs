//! Transitions: one operator a file, one contract for all.

mod cmcd;
mod gibbs;
mod hamiltonian;
mod langevin;
mod ldvi;
mod mcd;
mod metropolis;
mod over_relaxation;
mod overdamped_cmcd;
mod time_network;
mod uha;
mod underdamped;

pub use cmcd::Cmcd;
pub use gibbs::Gibbs;
pub use hamiltonian::{Dynamics, Hamiltonian, Mass};
pub use langevin::Langevin;
pub use ldvi::Ldvi;
pub use mcd::Mcd;
pub use metropolis::{AcceptInverse, AcceptModel, Around, MetropolisHastings};
pub use over_relaxation::OverRelaxation;
pub use overdamped_cmcd::OverdampedCmcd;
use time_network::Direction;
pub use time_network::TimeNetwork;
pub(crate) use time_network::WAVES;
pub use uha::Uha;
pub use underdamped::Underdamped;
// Proposals for Metropolis–Hastings steps.
pub use crate::density::{Drift, RandomWalk};

use crate::any::{Own, any};
use crate::density::{AnyDensity, Density};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::scope::Scope;
use crate::target::Landscape;
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// A step of a Markov chain, with its inverse model.
///
/// An implementation draws zₜ ~ qₜ(zₜ|x, zₜ₋₁) and returns it with log rₜ(zₜ₋₁|x, zₜ) − log qₜ(zₜ|x, zₜ₋₁), where both
/// may involve further variables of the step, such as a momentum. It writes forward code only, and does not add log
/// p(x, z) terms: the bound does.
pub trait Transition: Debug + Send + Sync {
    /// Take the step from every row of `state`.
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>>;

    /// Take the step back from every row of `state`, where it has ended: its path drawn by the inverse model r, with the same
    /// log rₜ − log qₜ that [`apply`](Self::apply) returns for this path.
    ///
    /// By default an error: this inverse model can be evaluated, but not drawn from.
    fn reverse<'g>(&self, _: &StepScope<'g>, _: ChainState<'g>, _: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        Err(Error::NoWayBack { what: self.name().0 })
    }

    /// The simpler transition that this one is before its network is learned, with parameters of the same names: chains are
    /// trained with that first. What is not said of this one is as for that.
    fn contained(&self) -> Option<AnyTransition> {
        None
    }

    /// Whether it holds what it draws fixed ([`Scope::held`]) and evaluates its densities there, if the scope's estimator of
    /// gradients asks for that.
    fn holds_path(&self) -> bool {
        self.contained().is_some_and(|contained| contained.holds_path())
    }

    /// Whether many steps of it may run as a loop: it makes no discrete choices, and its inverse is not found by regression.
    fn is_loopable(&self) -> bool {
        self.contained().is_some_and(|contained| contained.is_loopable())
    }

    /// The name of a step, without an article ("Hamiltonian step"), and details to follow it ("of 4 leapfrogs").
    fn name(&self) -> (String, String) {
        (format!("step of {}", self.identity()), String::new())
    }

    /// Gradients of the target per step, to estimate its cost.
    fn gradients(&self) -> usize {
        self.contained().map_or(1, |contained| contained.gradients())
    }

    /// Whether it contains a network: networks are trained longer.
    fn has_network(&self) -> bool {
        self.contained().is_some()
    }

    /// The weights between hidden layers of its networks. An error if it is beyond the [`limits`](crate::limits).
    fn size(&self) -> Result<usize> {
        Ok(0)
    }

    /// Its step size, if it has one, from the parameters of the scope called `forward`.
    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        self.contained()?.step_size(params, forward)
    }

    /// The value of the parameter called `name` for a step of half the size; none if steps cannot be halved.
    fn halved(&self, name: &str, value: f64) -> Option<f64> {
        self.contained()?.halved(name, value)
    }

    /// The identity of a custom transition in a saved chain. The default is the name of its type; override this if its
    /// settings matter too.
    fn identity(&self) -> Value {
        std::any::type_name::<Self>().into()
    }

    /// As part of a chain.
    fn into_any(self) -> AnyTransition
    where
        Self: Sized + 'static,
    {
        AnyTransition::Own(Own::new(self.identity(), Arc::new(self)))
    }
}

any! {
    /// Any transition, as data if it is built in.
    AnyTransition is Transition:
        Cmcd, Gibbs, Hamiltonian, Langevin, Ldvi, Mcd, MetropolisHastings, OverRelaxation, OverdampedCmcd, Uha, Underdamped
}

impl Transition for AnyTransition {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.get()?.apply(at, state, target)
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.get()?.reverse(at, state, target)
    }

    fn contained(&self) -> Option<AnyTransition> {
        self.get().ok()?.contained()
    }

    fn holds_path(&self) -> bool {
        self.get().is_ok_and(Transition::holds_path)
    }

    fn is_loopable(&self) -> bool {
        self.get().is_ok_and(Transition::is_loopable)
    }

    fn name(&self) -> (String, String) {
        self.get().map_or_else(|_| ("step of your own".to_owned(), String::new()), Transition::name)
    }

    fn gradients(&self) -> usize {
        self.get().map_or(1, Transition::gradients)
    }

    fn has_network(&self) -> bool {
        self.get().is_ok_and(Transition::has_network)
    }

    fn size(&self) -> Result<usize> {
        self.get().map_or(Ok(0), Transition::size)
    }

    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        self.get().ok()?.step_size(params, forward)
    }

    fn halved(&self, name: &str, value: f64) -> Option<f64> {
        self.get().ok()?.halved(name, value)
    }

    fn into_any(self) -> AnyTransition {
        self
    }
}

/// Where a step finds its parameters and the observations.
pub struct StepScope<'g> {
    /// For the transition's own parameters.
    pub forward: Scope<'g>,
    /// For those of its inverse model.
    pub inverse: Scope<'g>,
    /// For those that all steps of its kind share, such as the weights of a network in time.
    pub shared: Scope<'g>,
    /// The time t/T at which step t of T ends.
    pub time: Expr<'g>,
    /// The time at which it starts, where the one before ended.
    pub start: Expr<'g>,
    /// The observations, if the target has them.
    pub data: Option<Expr<'g>>,
}

/// The state of the chain.
#[derive(Clone, Copy, Debug)]
pub struct ChainState<'g> {
    /// The position, [rows, dim]. After accept/reject steps averaged over, the rows are paths × draws.
    pub z: Expr<'g>,
    /// The accept paths each draw has split into.
    pub paths: usize,
    /// The log probability of each row's path; none while there is only one.
    pub log_weight: Option<Expr<'g>>,
    /// A momentum that a step has left for those that keep it.
    pub momentum: Option<Momentum<'g>>,
}

/// A momentum that is kept between steps.
#[derive(Clone, Copy, Debug)]
pub struct Momentum<'g> {
    /// The momentum, [rows, dim].
    pub v: Expr<'g>,
    /// log r(v|x, z) of each row if the chain ended here. The step that left it has added this to its ratio; a step that goes on
    /// with v takes it back. On the way back it is log q(v|x, z) if the chain began here, subtracted and taken back likewise.
    pub log_density: Expr<'g>,
}

impl<'g> ChainState<'g> {
    /// A chain at z.
    pub fn new(z: Expr<'g>) -> Self {
        ChainState { z, paths: 1, log_weight: None, momentum: None }
    }

    /// The same, moved to z.
    pub fn at(self, z: Expr<'g>) -> Self {
        ChainState { z, ..self }
    }

    /// The same, with a momentum for the next step that keeps one.
    pub fn with_momentum(self, momentum: Momentum<'g>) -> Self {
        ChainState { momentum: Some(momentum), ..self }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.z.shape().dims()[0]
    }
}

/// The result of a step.
#[non_exhaustive]
pub struct Moved<'g> {
    /// The new state.
    pub state: ChainState<'g>,
    /// log r − log q of each row.
    pub log_ratio: Expr<'g>,
    /// Diagnostics, one number per row.
    pub diagnostics: Vec<(Diagnostic, Expr<'g>)>,
}

impl<'g> Moved<'g> {
    /// A step without diagnostics.
    pub fn new(state: ChainState<'g>, log_ratio: Expr<'g>) -> Self {
        Moved { state, log_ratio, diagnostics: vec![] }
    }

    /// With one more diagnostic, one number a row.
    pub fn with(mut self, diagnostic: Diagnostic, value: Expr<'g>) -> Self {
        self.diagnostics.push((diagnostic, value));
        self
    }
}

/// A diagnostic of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// The change of the Hamiltonian over a trajectory: large if it diverged.
    EnergyChange,
    /// The acceptance probability.
    Acceptance,
    /// Any other, by name.
    Other(&'static str),
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Diagnostic::EnergyChange => "energy change",
            Diagnostic::Acceptance => "acceptance",
            Diagnostic::Other(name) => name,
        })
    }
}

/// The inverse model of a transition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inverse {
    /// The transition with its arguments reversed: optimal for a chain that has converged.
    Reversed,
    /// A separate density, to be learned.
    Learned(AnyDensity),
}

impl Inverse {
    /// A separate density, to be learned.
    pub fn learned(density: impl Density + 'static) -> Self {
        Inverse::Learned(density.into_any())
    }

    fn has_network(&self) -> bool {
        matches!(self, Inverse::Learned(density) if density.has_network())
    }

    fn size(&self) -> Result<usize> {
        match self {
            Inverse::Learned(density) => density.size(),
            Inverse::Reversed => Ok(0),
        }
    }
}

/// "1 leapfrog", "2 leapfrogs".
fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
