//! Markov chain variational inference.

mod annealing;
mod approximation;
mod bound;
mod chain;
pub mod density;
pub mod diagnostics;
mod draws;
mod error;
pub mod fit;
mod gradient;
mod minimise;
pub mod paper;
mod params;
mod regression;
mod save;
mod scope;
mod sequential;
mod start;
mod target;
pub mod transition;

pub use annealing::Annealed;
pub use approximation::Approximation;
pub use bound::{Estimate, lower_bound};
pub use chain::{Chain, Sharing};
pub use draws::{Draws, Judgement};
pub use error::{Error, Result};
pub use fit::{fit, fit_observed};
pub use gradient::{GradientSpread, NamedValues};
pub use params::{Group, Param, Params};
pub use scope::{Choices, Initial, Scope};
pub use sequential::{Stage, grow};
pub use start::{Start, log_density};
pub use target::{Conditional, FromFn, Landscape, Point, Target, target};
