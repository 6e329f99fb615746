//! Functions of numbers, each written once for the host's numbers and for the engine's expressions.

mod cumulative;
mod densities;
mod discrete;
mod functions;
mod integral;
mod number;
mod table;

pub use number::Number;
pub use table::{find, get};
