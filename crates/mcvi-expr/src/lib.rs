//! Array expressions.
mod array;
mod calculus;
mod cpu;
mod error;
mod graph;
mod ops;
mod plan;
mod program;
mod shape;
pub use array::{Array, Data, Element};
pub use calculus::grad;
pub use error::{At, Error, Result};
pub use graph::{Expr, Graph};
pub use ops::External;
pub use program::{Program, ProgramBuilder, Run};
pub use shape::{DType, Shape};
