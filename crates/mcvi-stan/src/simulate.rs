//! Draws from a program's prior, and data given them; and unconstrained numbers of parameters.

use crate::diagnostic::Diagnostic;
use crate::interpret::{Machine, Run, Simulation, Wanted};
use crate::posterior::{Posterior, declarations};
use crate::syntax::ast::Tree;
use crate::trace::Flat;
use crate::value::Value;
use mcvi::derive_seed;
use std::collections::HashSet;

/// Simulations until one meets all constraints.
const ATTEMPTS: u64 = 200;
/// Runs of the model block: each draws at least what depends on what is drawn already.
const RUNS: usize = 1000;
/// What the names of generated quantities that replicate a data item end with.
pub const REPLICATED: [&str; 2] = ["_rep", "_sim"];

/// A draw of the parameters and of data.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    /// In order of declaration.
    pub parameters: Vec<Vec<f64>>,
    /// Data items by name, those that the program can simulate.
    pub data: Vec<(String, Vec<f64>)>,
}

impl Posterior {
    /// A draw from the prior, and of data given it.
    pub fn simulate(&self, seed: u64) -> Run<Simulated> {
        for attempt in 0..ATTEMPTS {
            let seed = derive_seed(seed, &format!("attempt {attempt}"));
            if let Some(simulated) = self.simulate_once(seed)? {
                return Ok(simulated);
            }
        }
        let span = declarations(&self.program().tree.parameters).next().map(|d| d.name.span).unwrap_or_default();
        let message = format!("{ATTEMPTS} draws from the prior did not meet the constraints of the parameters");
        Err(Diagnostic::new(span, message))
    }

    /// None if the draw does not meet the constraints.
    fn simulate_once(&self, seed: u64) -> Run<Option<Simulated>> {
        let tree = &self.program().tree;
        let mut machine = Machine::new(tree, 0).seeded(seed);
        machine.scope = self.known().clone();
        let start = machine.scope.enter();
        for declaration in declarations(&tree.parameters) {
            let sized = machine.sized(&declaration.ty, &declaration.trailing)?;
            machine.scope.declare(declaration.name.text.clone(), crate::interpret::empty(sized.base, sized.shape));
        }
        let count = machine.scope.enter();
        let data = declarations(&tree.data).map(|d| d.name.text.clone()).collect();
        let wanted = wanted(&machine, tree);
        machine.simulation = Some(Simulation { wanted, data, is_dry: true, ..Simulation::default() });
        // With nothing known, all that depends on a parameter is not a number.
        machine.attempt(&tree.transformed_parameters);
        machine.attempt(&tree.model);
        machine.scope.leave(count);
        let factors = std::mem::take(&mut simulation(&mut machine).factors);
        simulation(&mut machine).is_dry = false;
        if let Some(span) = factors.iter().min_by_key(|s| (s.file, s.start)).filter(|_| !self.replicates()) {
            return Err(no_density(*span));
        }
        for _ in 0..RUNS {
            let before = drawn(&machine);
            let mistake = machine.attempt(&tree.transformed_parameters).or(machine.attempt(&tree.model));
            machine.scope.leave(count);
            if simulation(&mut machine).wanted.iter().all(|w| w.drawn.iter().all(Option::is_some)) {
                break;
            }
            if drawn(&machine) == before && !draw_flat(&mut machine)? {
                return Err(mistake.unwrap_or_else(|| missing(&mut machine)));
            }
        }
        if let Some(conflict) = simulation(&mut machine).conflict.take() {
            return Err(conflict);
        }
        // Terms that are not densities of parameters must be of the data: that shows where the data are not known.
        self.audit(&mut machine, factors, count)?;
        for declaration in declarations(&tree.parameters) {
            let sized = machine.sized(&declaration.ty, &declaration.trailing)?;
            let Some(value) = machine.scope.get(&declaration.name.text).cloned() else { continue };
            if machine.check(&declaration.name.text, &sized, &value, declaration.name.span).is_err() {
                return Ok(None);
            }
        }
        let mut out = Simulated::default();
        for slot in &machine.scope.slots()[start..count] {
            out.parameters.push(slot.value.numbers().map(<[f64]>::to_vec).unwrap_or_default());
        }
        out.data = self.simulate_data(&mut machine, count)?;
        Ok(Some(out))
    }

    /// The data that generated quantities replicate, or that the model draws.
    fn simulate_data<'p>(&'p self, machine: &mut Machine<'p>, count: usize) -> Run<Vec<(String, Vec<f64>)>> {
        let tree = &self.program().tree;
        machine.simulation = None;
        machine.statements(&tree.transformed_parameters)?;
        let mut out: Vec<(String, Vec<f64>)> = vec![];
        if self.replicates() {
            machine.statements(&tree.generated_quantities)?;
            for declaration in declarations(&tree.generated_quantities) {
                let name = &declaration.name.text;
                if let (Some(item), Some(value)) = (self.replicated(name), machine.scope.get(name))
                    && let Some(numbers) = value.numbers()
                    && out.iter().all(|(known, _)| known != item)
                {
                    out.push((item.to_owned(), numbers.to_vec()));
                }
            }
            machine.scope.leave(count);
            return Ok(out);
        }
        let wanted = declarations(&tree.data).filter_map(|declaration| {
            let value = machine.scope.get(&declaration.name.text)?;
            let drawn = vec![None; value.len()];
            Some(Wanted { declaration, drawn, is_mentioned: false, is_bounded: false })
        });
        let wanted = wanted.collect();
        machine.simulation = Some(Simulation { wanted, ..Simulation::default() });
        machine.statements(&tree.model)?;
        machine.scope.leave(count);
        let Simulation { wanted, .. } = machine.simulation.take().unwrap_or_default();
        for item in wanted {
            if item.drawn.iter().any(Option::is_some)
                && let Some(numbers) = machine.scope.get(item.name()).and_then(Value::numbers)
            {
                out.push((item.name().to_string(), numbers.to_vec()));
            }
        }
        Ok(out)
    }

    /// Whether a generated quantity replicates a data item.
    fn replicates(&self) -> bool {
        declarations(&self.program().tree.generated_quantities).any(|d| self.replicated(&d.name.text).is_some())
    }

    /// Refuses a program that says something of its parameters that cannot be drawn from.
    fn audit<'p>(&'p self, machine: &mut Machine<'p>, factors: HashSet<crate::source::Span>, count: usize) -> Run<()> {
        if factors.is_empty() {
            return Ok(());
        }
        let tree = &self.program().tree;
        let known: Vec<(usize, Value)> =
            machine.scope.slots().iter().enumerate().map(|(i, s)| (i, s.value.clone())).collect();
        for declaration in declarations(&tree.data) {
            let is_replicated = declarations(&tree.generated_quantities)
                .any(|d| self.replicated(&d.name.text) == Some(&*declaration.name.text));
            if let (true, Some(value)) = (is_replicated, machine.scope.get_mut(&declaration.name.text)) {
                value.flat = Flat::from_numbers(vec![f64::NAN; value.len()]);
            }
        }
        if let Some(simulation) = &mut machine.simulation {
            simulation.factors.clear();
        }
        let stopped = machine.attempt(&tree.transformed_parameters).or(machine.attempt(&tree.model));
        machine.scope.leave(count);
        for (i, value) in known.into_iter().take(count) {
            machine.scope.slots_mut()[i].value = value;
        }
        let of_data = std::mem::take(&mut simulation(machine).factors);
        match factors.difference(&of_data).min_by_key(|s| (s.file, s.start)) {
            Some(span) if stopped.is_none() => Err(no_density(*span)),
            _ => Ok(()),
        }
    }

    /// The unconstrained numbers of parameters, in order of declaration.
    pub fn unconstrained(&self, parameters: &[&[f64]]) -> Run<Vec<f64>> {
        let tree = &self.program().tree;
        let mut machine = Machine::new(tree, 0);
        machine.scope = self.known().clone();
        let mut out = vec![];
        for (declaration, numbers) in declarations(&tree.parameters).zip(parameters) {
            out.extend(machine.unconstrained(declaration, numbers)?);
        }
        Ok(out)
    }

    /// The data item that a generated quantity replicates: `y` for `y_rep`.
    pub fn replicated<'a>(&self, name: &'a str) -> Option<&'a str> {
        let stem = REPLICATED.iter().find_map(|s| name.strip_suffix(s))?;
        self.data(stem).map(|_| stem)
    }
}

fn wanted<'p>(machine: &Machine<'p>, tree: &'p Tree) -> Vec<Wanted<'p>> {
    let wanted = |declaration| {
        let machine: &Machine<'p> = machine;
        let declaration: &'p crate::syntax::ast::Declaration = declaration;
        let count = machine.scope.get(&declaration.name.text).map_or(0, Value::len);
        Wanted { declaration, drawn: vec![None; count], is_mentioned: false, is_bounded: true }
    };
    declarations(&tree.parameters).map(wanted).collect()
}

fn simulation<'m, 'p>(machine: &'m mut Machine<'p>) -> &'m mut Simulation<'p> {
    machine.simulation.get_or_insert_default()
}

fn drawn(machine: &Machine<'_>) -> usize {
    machine.simulation.as_ref().map_or(0, |s| s.count)
}

/// Draws the parameters that no statement mentions; false if there are none.
fn draw_flat(machine: &mut Machine<'_>) -> Run<bool> {
    let list: Vec<usize> = {
        let simulation = simulation(machine);
        let open = |w: &Wanted<'_>| !w.is_mentioned && w.drawn.iter().any(Option::is_none);
        (0..simulation.wanted.len()).filter(|&i| open(&simulation.wanted[i])).collect()
    };
    let mut any = false;
    for index in list {
        let declaration = simulation(machine).wanted[index].declaration;
        let Some(numbers) = machine.draw_flat(declaration)? else { continue };
        if let Some(value) = machine.scope.get_mut(&declaration.name.text) {
            value.flat = if value.is_scalar() { Flat::Number(numbers[0]) } else { Flat::from_numbers(numbers) };
        }
        let simulation = simulation(machine);
        simulation.wanted[index].drawn.fill(Some(declaration.name.span));
        simulation.count += 1;
        any = true;
    }
    Ok(any)
}

fn no_density(span: crate::source::Span) -> Diagnostic {
    let message = "this says something of the parameters that cannot be drawn from";
    let help = "a prior can be drawn from where each parameter has one statement, `x ~ f(...)`";
    Diagnostic::new(span, message).help(help)
}

/// What to say of a parameter that cannot be drawn.
fn missing(machine: &mut Machine<'_>) -> Diagnostic {
    let open = simulation(machine).wanted.iter().find(|w| w.drawn.iter().any(Option::is_none));
    match open.map(|w| w.declaration) {
        Some(declaration) => {
            let name = &declaration.name.text;
            let message = format!("the program has no prior for `{name}` that can be drawn from");
            Diagnostic::new(declaration.name.span, message).help(format!("write one, such as {name} ~ normal(0, 1);"))
        }
        None => Diagnostic::new(Default::default(), "the program has no parameters"),
    }
}
