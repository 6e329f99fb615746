//! A program with its data: parameters, and the log density as a plan of the engine.

use crate::data;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::interpret::{Declared, Machine, Run, Scope};
use crate::program::Program;
use crate::syntax::ast::{Declaration, PlaceKind, Statement, StatementKind};
use crate::trace::Flat;
use crate::trace::plan::Plan;
use crate::value::Value;
use mcvi_expr::{Array, DType, Expr, Graph, grad};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::sync::Arc;

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
    /// Generated quantities that are functions of the parameters, without draws, and small enough to be summarised.
    functions: Vec<Declared>,
    generated: Plan,
    solver_error: Option<f64>,
    printed: Vec<String>,
    unused: Vec<String>,
}

/// The declarations of a block.
pub(crate) fn declarations(block: &[Statement]) -> impl Iterator<Item = &Declaration> {
    block.iter().flat_map(|s| match &s.kind {
        StatementKind::Declare(list) => list.as_slice(),
        _ => &[],
    })
}

impl Posterior {
    /// Reads the data, runs transformed data, and lowers the model.
    pub fn new(program: &Program, data: &Json) -> Result<Posterior, Box<Diagnostics>> {
        Posterior::lower(program, data).map_err(|mistake| report(program, mistake))
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
                transformed.push(Declared { name, base: value.base, shape: value.shape.clone(), free: 0 });
            }
        }
        let all = parameters.iter().chain(&transformed);
        let outputs: Vec<Flat> = all.filter_map(|p| Some(machine.scope.get(&p.name)?.flat.clone())).collect();
        machine.block(&tree.model)?;
        let density = Plan::new(&machine.trace, &machine.target, &[]);
        let quantities = Plan::new(&machine.trace, &[], &outputs);
        let dim = machine.free();
        let solver_error = (!machine.trace.solvers.is_empty()).then_some(machine.solver_error);
        let printed = std::mem::take(&mut machine.printed);
        let (functions, outputs) = functions(&mut machine, &tree.generated_quantities);
        let generated = Plan::new(&machine.trace, &[], &outputs);
        Ok(Posterior {
            program: program.clone(),
            known,
            parameters,
            transformed,
            dim,
            density,
            quantities,
            functions,
            generated,
            solver_error,
            printed,
            unused: unused(program, data),
        })
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

    /// The log density and its gradient at one point.
    pub fn value_and_gradient(&self, point: &[f64]) -> mcvi_expr::Result<(f64, Vec<f64>)> {
        let graph = Graph::new();
        let z = graph.input("z", DType::F64, [1, self.dim]);
        let value = self.log_density(z);
        let gradient = grad(value.sum_all(), &[z])?[0];
        let program = graph.program().output("value", value).output("gradient", gradient);
        let mut program = program.threads(1).compile()?;
        program.write("z", &Array::new([1, self.dim], point.to_vec())?)?;
        program.run(1)?;
        Ok((program.output("value")?.to_f64()[0], program.output("gradient")?.to_f64()))
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

    /// Generated quantities that are functions of the parameters alone, of at most 200 numbers each: names, sizes and
    /// values, `[rows, n]`.
    pub fn functions<'g>(&self, z: Expr<'g>) -> Vec<(&str, &[usize], Expr<'g>)> {
        let values = self.generated.build(z).outputs;
        let named = self.functions.iter().zip(values);
        named.filter_map(|(f, value)| Some((&*f.name, f.shape.as_slice(), value?))).collect()
    }

    /// The error of solutions of differential equations, estimated where unconstrained parameters are 0, relative to the
    /// largest number; none if there are no such equations.
    pub fn solver_error(&self) -> Option<f64> {
        self.solver_error
    }

    /// What the program printed as it was lowered.
    pub fn printed(&self) -> &[String] {
        &self.printed
    }

    /// Data items that were given but that the program does not declare.
    pub fn unused(&self) -> &[String] {
        &self.unused
    }

    /// The number of operations that the log density takes, before the engine simplifies them.
    pub fn operations(&self) -> usize {
        self.density.operations()
    }

    /// Data and transformed data.
    pub(crate) fn known(&self) -> &Scope {
        &self.known
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Generated quantities of one draw, from the values of parameters and transformed parameters, in order.
    pub fn generated(&self, values: &[&[f64]], seed: u64) -> Result<Vec<Generated>, Box<Diagnostics>> {
        self.generate(values, seed).map_err(|m| report(&self.program, m))
    }

    fn generate(&self, values: &[&[f64]], seed: u64) -> Run<Vec<Generated>> {
        let tree = &self.program.tree;
        let mut machine = Machine::new(tree, 0).seeded(seed);
        machine.scope = self.known.clone();
        for (declared, values) in self.parameters.iter().chain(&self.transformed).zip(values) {
            let flat = Flat::from_numbers(values.to_vec());
            let value = Value { base: declared.base, shape: declared.shape.clone(), flat };
            machine.scope.declare(declared.name.clone(), value);
        }
        machine.statements(&tree.generated_quantities)?;
        let mut out = vec![];
        for declaration in declarations(&tree.generated_quantities) {
            if let Some(value) = machine.scope.get(&declaration.name.text)
                && let Some(numbers) = value.numbers()
            {
                let name = declaration.name.text.to_string();
                out.push(Generated { name, shape: value.shape.clone(), values: numbers.to_vec() });
            }
        }
        Ok(out)
    }

    /// The sizes of a data item, and its values.
    pub fn data(&self, name: &str) -> Option<(&[usize], &[f64])> {
        let declared = declarations(&self.program.tree.data).find(|d| *d.name.text == *name)?;
        let value = self.known.get(&declared.name.text)?;
        Some((&value.shape, value.numbers()?))
    }

    /// The names of all data items.
    pub fn data_names(&self) -> impl Iterator<Item = &str> {
        declarations(&self.program.tree.data).map(|d| &*d.name.text)
    }
}

/// Numbers up to which a transformed parameter or a generated quantity is summarised.
pub(crate) const SUMMARISED: usize = 200;

/// Generated quantities that follow from the parameters. What draws, or what cannot be lowered, is left to the host.
fn functions<'p>(machine: &mut Machine<'p>, block: &'p [Statement]) -> (Vec<Declared>, Vec<Flat>) {
    machine.may_draw = false;
    for statement in block {
        if machine.statement(statement).is_err() {
            machine.scope.forget(&assigned(statement));
        }
    }
    let (mut list, mut flats) = (vec![], vec![]);
    for declaration in declarations(block) {
        let name = &declaration.name.text;
        if let Some(value) = machine.scope.get(name).filter(|v| (1..=SUMMARISED).contains(&v.len())) {
            list.push(Declared { name: name.clone(), base: value.base, shape: value.shape.clone(), free: 0 });
            flats.push(value.flat.clone());
        }
    }
    (list, flats)
}

/// The variables that a statement declares or assigns to.
fn assigned(statement: &Statement) -> Vec<Arc<str>> {
    match &statement.kind {
        StatementKind::Declare(list) => list.iter().map(|d| d.name.text.clone()).collect(),
        StatementKind::Assign { target, .. } => match &target.kind {
            PlaceKind::Variable { name, .. } => vec![name.text.clone()],
            PlaceKind::Tuple(_) => vec![],
        },
        StatementKind::If { then, otherwise, .. } => {
            assigned(then).into_iter().chain(otherwise.iter().flat_map(|s| assigned(s))).collect()
        }
        StatementKind::While { body, .. } | StatementKind::For { body, .. } | StatementKind::ForEach { body, .. } => {
            assigned(body)
        }
        StatementKind::Block(list) | StatementKind::Profile(list) => list.iter().flat_map(assigned).collect(),
        _ => vec![],
    }
}

/// A generated quantity of one draw.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Its name.
    pub name: String,
    /// Its sizes: empty for a number.
    pub shape: Vec<usize>,
    /// Its numbers; matrices row by row.
    pub values: Vec<f64>,
}

fn report(program: &Program, mistake: Diagnostic) -> Box<Diagnostics> {
    Box::new(Diagnostics { sources: program.sources.clone(), list: vec![mistake] })
}

fn unused(program: &Program, data: &Json) -> Vec<String> {
    let declared: HashSet<&str> = declarations(&program.tree.data).map(|d| &*d.name.text).collect();
    let names = data.as_object().into_iter().flat_map(|items| items.keys());
    names.filter(|name| !declared.contains(name.as_str())).cloned().collect()
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
            let given: Vec<&str> = items.keys().map(String::as_str).collect();
            let help = match given.as_slice() {
                [] => "give the data with --data FILE.json".to_owned(),
                list => format!("the data have {}", list.join(", ")),
            };
            return Err(error.label("it is declared here").help(help));
        };
        let value = data::read(name, item, &sized, span)?;
        machine.check(name, &sized, &value, span)?;
        machine.scope.declare(name.clone(), value);
    }
    Ok(())
}
