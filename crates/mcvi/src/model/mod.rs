//! Models: named, constrained parameters with priors, observations, and what follows from draws of them.

mod builder;
mod constraint;
mod definition;
mod distribution;
mod observe;
mod predict;
mod quantity;
mod replicate;

pub use builder::Builder;
pub use constraint::Constraint;
pub use definition::Model;
pub use distribution::continuous::*;
pub use distribution::discrete::*;
pub use distribution::mixture::{Weights, mixture};
pub use distribution::multivariate::*;
pub use distribution::{Distribution, Event, Support, Value};
pub use observe::Minibatch;
pub use quantity::{Declaration, Quantities, Quantity};
pub use rand::{Rng, RngExt};
