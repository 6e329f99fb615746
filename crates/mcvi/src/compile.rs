//! The one way from expressions to a program: graph, scope, expressions, error check, compiler.

use crate::error::Result;
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::{Choices, Scope};
use mcvi_expr::{DType, Graph, Program, ProgramBuilder};

/// What expressions are built from, and where they will run.
pub(crate) struct Compile<'a> {
    /// The element type.
    pub dtype: DType,
    /// Number of rows: independent chains, or datapoints.
    pub rows: usize,
    /// How discrete choices are treated.
    pub choices: Choices,
    /// The typical scale of everything that is learned.
    pub initialisation: &'a Initialisation,
    /// The parameters known so far.
    pub params: &'a Params,
    /// Where to run.
    pub hardware: Hardware,
}

impl Compile<'_> {
    /// The program that `build` makes in a new scope, with its other results.
    pub fn program<T>(
        &self,
        build: impl for<'g> FnOnce(&Scope<'g>, ProgramBuilder<'g>) -> Result<(ProgramBuilder<'g>, T)>,
    ) -> Result<(Program, T)> {
        let graph = Graph::new();
        let scope = self.scope(&graph)?;
        let built = build(&scope, self.hardware.program(graph.program()));
        // The first error explains those that follow from it.
        scope.finish()?;
        let (program, more) = built?;
        Ok((program.compile()?, more))
    }

    /// The parameters that `build` asks for; new ones have their initial values.
    pub fn params(&self, build: impl for<'g> FnOnce(&Scope<'g>) -> Result<()>) -> Result<Params> {
        let graph = Graph::new();
        let scope = self.scope(&graph)?;
        let built = build(&scope);
        let params = scope.finish()?;
        built.map(|()| params)
    }

    fn scope<'g>(&self, graph: &'g Graph) -> Result<Scope<'g>> {
        Scope::new(graph, self.rows, self.dtype, self.choices, self.initialisation, self.params)
    }
}
