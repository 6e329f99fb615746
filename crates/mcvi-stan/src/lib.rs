//! The Stan language: a program and its data become a model.
//!
//! [`Program::read`] parses a program and checks its types. Every mistake is a [`Diagnostic`] with the place in the
//! text, rendered by [`Diagnostics`] as compilers do.

mod diagnostic;
mod program;
mod source;
#[allow(dead_code)] // What runs programs reads the rest of the tree.
mod syntax;
mod types;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use program::Program;
pub use source::{Includes, Sources, Span};
