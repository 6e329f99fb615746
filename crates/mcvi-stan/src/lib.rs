//! The Stan language: a program and its data become a model.
//!
//! [`Program::read`] parses a program and checks its types. Every mistake is a [`Diagnostic`] with the place in the
//! text, rendered by [`Diagnostics`] as compilers do.

mod columns;
mod data;
mod diagnostic;
mod interpret;
mod math;
mod model;
mod posterior;
mod program;
mod simulate;
mod source;
mod support;
mod syntax;
mod trace;
mod types;
mod value;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use model::{KIND, OpenError, ProgramData, ProgramText, StanModel, read_program};
pub use posterior::{Generated, Posterior};
pub use program::Program;
pub use simulate::Simulated;
pub use source::{Includes, Sources, Span};
pub use support::supported;
