//! Array expressions: build them, differentiate them to any order, compile them once, run them many times.
//!
//! This crate knows nothing of statistics. It exists for methods that differentiate *through* gradients, such as
//! Hamiltonian variational inference, where the bound is differentiated through leapfrog steps that contain
//! gradients themselves.
//!
//! # Expressions
//!
//! A [`Graph`] owns the nodes; an [`Expr`] is a copyable handle to one. Operators broadcast as in NumPy. Equal
//! subexpressions are one node.
//!
//! ```
//! use mcvi_expr::{DType, Graph};
//!
//! let g = Graph::new();
//! let x = g.input("x", DType::F64, [3, 1]);
//! let y = g.input("y", DType::F64, [4]);
//! let z = (x * y + 1.0).ln();
//! assert_eq!(z.shape().dims(), [3, 4]);
//! assert!((x * y).is_same(x * y)); // one node
//! ```
//!
//! # A gradient of a gradient, in ten lines
//!
//! [`grad`] returns expressions, to be differentiated again as often as wanted.
//!
//! ```
//! use mcvi_expr::{Array, DType, Graph, grad};
//!
//! let g = Graph::new();
//! let x = g.input("x", DType::F64, ());
//! let y = x.powf(4.0) + x.sin();
//! let dy = grad(y, &[x])?[0]; //  4x³ + cos x
//! let ddy = grad(dy, &[x])?[0]; // 12x² − sin x
//! let mut program = g.program().output("ddy", ddy).compile()?;
//! program.write("x", &Array::scalar(2.0))?;
//! program.run(1)?;
//! assert!((program.output("ddy")?.to_f64()[0] - (48.0 - 2f64.sin())).abs() < 1e-12);
//! # Ok::<(), mcvi_expr::Error>(())
//! ```
//!
//! # Programs with state
//!
//! A [`Program`] computes outputs and new values for its states in each step. A whole training step (noise, loss,
//! gradient, optimiser) is one program, and many steps run in one call.
//!
//! ```
//! use mcvi_expr::{Array, DType, Graph, Run, grad};
//!
//! // Fit the mean of a Gaussian with unit variance to noisy draws around 3, by stochastic gradient descent.
//! let g = Graph::new();
//! let mean = g.state("mean", Array::scalar(0.0));
//! let draws = g.normal(g.fresh_stream(), DType::F64, [64]) + 3.0;
//! let loss = (draws - mean).square().mean_all() * 0.5;
//! let step = grad(loss, &[mean])?[0] * 0.1;
//! let mut program = g.program().output("loss", loss).update(mean, mean - step).seed(7).compile()?;
//! let losses = &program.execute(&Run::steps(500).record("loss"))?[0];
//! assert_eq!(losses.shape().dims(), [500]);
//! assert!((program.read("mean")?.to_f64()[0] - 3.0).abs() < 0.2);
//! # Ok::<(), mcvi_expr::Error>(())
//! ```
//!
//! The same seed gives the same bits on any number of threads. [`Program::states`] and [`Program::step`] are all a
//! checkpoint needs. [`Run::feed`] gives an input a new value in each step, so that a chain of thousands of steps is
//! one step's program run in a loop, not thousands of nodes.
//!
//! # Loops
//!
//! [`Graph::scan`] is a loop within a step: a recursion over hundreds of observations is one body, built, differentiated
//! and compiled once. [`Graph::scan_checkpointed`] trades time for memory in very long ones.
//!
//! # Mistakes
//!
//! Operators cannot return a `Result`. An ill-shaped expression is *poisoned* with its first error and the place
//! where it was built; [`grad`] and [`ProgramBuilder::compile`] return that error.
//!
//! ```
//! use mcvi_expr::{DType, Graph};
//!
//! let g = Graph::new();
//! let (a, b) = (g.input("a", DType::F64, [2, 3]), g.input("b", DType::F64, [2, 3]));
//! let error = g.program().output("c", a.matmul(b).exp()).compile().unwrap_err();
//! assert!(error.to_string().starts_with("matmul: shapes [2, 3] and [2, 3] do not fit"));
//! ```
//!
//! # Black boxes
//!
//! [`Parts`] share a program among processes: [`Expr::sum_over_parts`] is a sum over all of them.
//!
//! [`External`] brings in a function computed elsewhere, with its gradient and Hessian-vector product.

mod array;
mod calculus;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "no_cuda.rs"]
mod cuda;
mod device;
mod error;
mod executor;
mod graph;
mod ops;
mod plan;
mod program;
mod ranks;
mod shape;
mod table;

pub use array::{Array, Data, Element};
pub use calculus::grad;
pub use device::Device;
pub use error::{At, Error, Result};
pub use graph::{Expr, External, Graph};
pub use ops::Operand;
pub use program::{Program, ProgramBuilder, Run};
pub use ranks::{Communicator, Parts, ThreadRank};
pub use shape::{DType, Shape};
