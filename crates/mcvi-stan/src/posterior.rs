//! A program with its data: parameters, and the log density as a plan of the engine.

use crate::data;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::interpret::{Declared, Machine, Run, Scope};
use crate::program::Program;
use crate::syntax::ast::{Declaration, Statement, StatementKind};
use crate::trace::Flat;
use crate::trace::plan::Plan;
use mcvi_expr::Expr;
use serde_json::Value as Json;

/// The posterior of a program and its data, over unconstrained parameters in Stan's order.
#[derive(Clone, Debug)]
pub struct Posterior {
    program: Program,
    /// Data and transformed data.
    known: Scope,
    parameters: Vec<Declared>,
    transformed: Vec<Declared>,
    dim: usize,
    /// The log density.
    density: Plan,
    /// Constrained and transformed parameters.
    quantities: Plan,
}

/// The declarations of a block.
fn declarations(block: &[Statement]) -> impl Iterator<Item = &Declaration> {
    block.iter().flat_map(|s| match &s.kind {
        StatementKind::Declare(list) => list.as_slice(),
        _ => &[],
    })
}

impl Posterior {
    /// Reads the data, runs transformed data, and lowers the model.
    pub fn new(program: &Program, data: &Json) -> Result<Posterior, Box<Diagnostics>> {
        let report =
            |mistake: Diagnostic| Box::new(Diagnostics { sources: program.sources.clone(), list: vec![mistake] });
        Posterior::lower(program, data).map_err(report)
    }

    fn lower(program: &Program, data: &Json) -> Run<Posterior> {
        let tree = &program.tree;
        let mut machine = Machine::new(tree, 0);
        read_data(&mut machine, program, data)?;
        machine.global(&tree.transformed_data)?;
        let known = machine.scope.clone();
        let mut parameters = vec![];
        for declaration in declarations(&tree.parameters) {
            parameters.push(machine.parameter(declaration)?);
        }
        machine.global(&tree.transformed_parameters)?;
        let mut transformed = vec![];
        for declaration in declarations(&tree.transformed_parameters) {
            if let Some(value) = machine.scope.get(&declaration.name.text) {
                let name = declaration.name.text.clone();
                transformed.push(Declared { name, shape: value.shape.clone(), free: 0 });
            }
        }
        let all = parameters.iter().chain(&transformed);
        let outputs: Vec<Flat> = all.filter_map(|p| Some(machine.scope.get(&p.name)?.flat.clone())).collect();
        machine.block(&tree.model)?;
        let density = Plan::new(&machine.trace, &machine.target, &[]);
        let quantities = Plan::new(&machine.trace, &[], &outputs);
        let dim = machine.free();
        Ok(Posterior { program: program.clone(), known, parameters, transformed, dim, density, quantities })
    }

    /// The number of unconstrained parameters.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The log density of rows of unconstrained parameters, `[rows, dim]`: all constants kept, with the Jacobian of
    /// the constraints.
    pub fn log_density<'g>(&self, z: Expr<'g>) -> Expr<'g> {
        self.density.build(z).sum
    }

    /// Names and sizes of the parameters, and how many unconstrained numbers each has.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &[usize], usize)> {
        self.parameters.iter().map(|p| (&*p.name, p.shape.as_slice(), p.free))
    }

    /// Names and sizes of the transformed parameters.
    pub fn transformed_parameters(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.transformed.iter().map(|p| (&*p.name, p.shape.as_slice()))
    }

    /// The values of parameters and transformed parameters that belong to rows of unconstrained ones: `[rows, n]` each,
    /// matrices row by row; none for those without elements.
    pub fn constrained<'g>(&self, z: Expr<'g>) -> Vec<Option<Expr<'g>>> {
        self.quantities.build(z).outputs
    }

    /// The number of operations that the log density takes, before the engine simplifies them.
    pub fn operations(&self) -> usize {
        self.density.groups.len()
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// How many variables are data or computed from data alone.
    pub fn known(&self) -> usize {
        self.known.slots().len()
    }
}

fn read_data<'p>(machine: &mut Machine<'p>, program: &'p Program, data: &Json) -> Run<()> {
    let empty = serde_json::Map::new();
    let items = data.as_object().unwrap_or(&empty);
    for declaration in declarations(&program.tree.data) {
        let (name, span) = (&declaration.name.text, declaration.name.span);
        let sized = machine.sized(&declaration.ty, &declaration.trailing)?;
        let Some(item) = items.get(&**name) else {
            // What has no elements need not be given.
            if sized.shape.contains(&0) {
                machine.scope.declare(name.clone(), crate::interpret::empty(sized.base, sized.shape));
                continue;
            }
            let error = Diagnostic::new(span, format!("the data item {name} is missing"));
            return Err(error.label("it is declared here"));
        };
        let value = data::read(name, item, &sized, span)?;
        machine.check(name, &sized, &value, span)?;
        machine.scope.declare(name.clone(), value);
    }
    Ok(())
}
