//! The interpreter: runs a program on data, and writes down what it computes from parameters.
//!
//! A value is known, or an element of an operation of the trace. What is known is computed at once. So transformed data
//! and generated quantities are run as they are, and of the model only what depends on parameters is left.

mod arithmetic;
mod assign;
mod branch;
mod constrain;
mod containers;
mod declare;
mod density;
mod expression;
mod library;
mod linear;
mod matrices;
mod multivariate;
mod ode;
mod random;
mod scope;
mod simulate;
mod statement;
mod unconstrain;
mod user;
mod written;

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Function, Statement, StatementKind, Tree};
use crate::trace::{Cell, Trace};
use crate::value::Value;
pub use constrain::Declared;
pub use declare::{Sized, empty};
use rand::SeedableRng;
use rand::rngs::StdRng;
pub use scope::Scope;
pub use simulate::{Simulation, Wanted};
use std::collections::HashMap;
use std::sync::Arc;

/// A mistake or a limit that stops a run, or a value.
pub type Run<T> = Result<T, Diagnostic>;

/// Statements that a run may execute.
const STEPS: u64 = 100_000_000;
/// Calls of functions within each other.
const CALLS: usize = 200;

/// A run of a program.
pub struct Machine<'p> {
    functions: HashMap<Arc<str>, Vec<&'p Function>>,
    pub scope: Scope,
    pub trace: Trace,
    /// What has been added to the target.
    pub target: Vec<Cell>,
    /// What `print` says.
    pub printed: Vec<String>,
    /// The largest estimated error of a solution of differential equations, relative to its largest number.
    pub solver_error: f64,
    /// If the model is simulated from: what is drawn.
    pub simulation: Option<Simulation<'p>>,
    /// Whether `_rng` functions may be called.
    pub may_draw: bool,
    /// Where they draw from.
    rng: StdRng,
    steps: u64,
    calls: usize,
    /// What follows the statement that is run, in the blocks around it, the innermost last; none around a loop's body.
    after: Vec<Option<&'p [Statement]>>,
    /// How many parameters have been read.
    free: u32,
}

/// How a statement ends.
pub enum Flow {
    Next,
    Break,
    Continue,
    Return(Option<Value>),
}

/// Stops a run at a place.
pub fn fail<T>(span: Span, message: impl Into<String>) -> Run<T> {
    Err(Diagnostic::new(span, message))
}

impl<'p> Machine<'p> {
    /// A run with this number of unconstrained parameters.
    pub fn new(tree: &'p Tree, parameters: usize) -> Self {
        let mut functions: HashMap<Arc<str>, Vec<&'p Function>> = HashMap::new();
        for function in &tree.functions {
            if function.body.is_some() {
                functions.entry(function.name.text.clone()).or_default().push(function);
            }
        }
        Machine {
            functions,
            scope: Scope::default(),
            trace: Trace::new(parameters),
            target: vec![],
            printed: vec![],
            solver_error: 0.0,
            simulation: None,
            may_draw: true,
            rng: StdRng::seed_from_u64(0),
            steps: 0,
            calls: 0,
            after: vec![],
            free: 0,
        }
    }

    /// The same run, drawing from a seed.
    pub fn seeded(self, seed: u64) -> Self {
        Machine { rng: StdRng::seed_from_u64(seed), ..self }
    }

    /// Runs a block whose variables stay, and checks known values against their declarations at its end.
    pub fn global(&mut self, block: &'p [Statement]) -> Run<()> {
        self.statements(block)?;
        for statement in block {
            let StatementKind::Declare(list) = &statement.kind else { continue };
            for declaration in list {
                let sized = self.sized(&declaration.ty, &declaration.trailing)?;
                if let Some(value) = self.scope.get(&declaration.name.text).cloned() {
                    self.check(&declaration.name.text, &sized, &value, declaration.name.span)?;
                }
            }
        }
        Ok(())
    }

    /// Notes which statement the operations to come belong to.
    fn at(&mut self, span: Span) {
        self.trace.site = span.start ^ span.file.rotate_left(24);
    }

    /// Counts a step, so that no program runs forever.
    fn step(&mut self, span: Span) -> Run<()> {
        self.steps += 1;
        if self.steps > STEPS {
            return fail(span, format!("the program ran for more than {STEPS} statements"));
        }
        if self.trace.is_full() {
            let error = Diagnostic::new(span, "the model computes more than can be written down");
            return Err(error.help("loops over data that are this long can be written with vectors"));
        }
        Ok(())
    }
}
