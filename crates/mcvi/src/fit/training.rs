//! One iteration of Algorithm 2 as a program: noise, bound, gradient, optimiser, average.

use super::optimiser::Rates;
use super::settings::{Objective, Settings};
use crate::approximation::Approximation;
use crate::bound::lower_bound;
use crate::error::{Error, Result};
use crate::params::{Group, Param, Params};
use crate::scope::{Choices, PACKED, Scope, is_packed, one_number, unpack, write};
use mcvi_expr::{Array, DType, Expr, Graph, Program, Run, grad};

const RATE: &str = "fit.rate";
const SECOND: &str = "fit.second";
const DECAY: &str = "fit.decay";
const WEIGHT: &str = "fit.weight";
/// The input that weighs the divergence from the prior in [`Objective::Warmed`].
pub const WARMTH: &str = "fit.warmth";

/// Keeps a quotient finite where the gradient is zero, in either precision.
const TINY: f64 = 1e-30;
/// The counters of a saved state: the program's step, iterations taken, iterations remembered, whether careful.
const COUNTERS: &str = "fit.counters";

/// A compiled iteration, with its optimiser's state and the average of its iterates.
pub struct Training {
    program: Program,
    settings: Settings,
    dtype: DType,
    feeds_second: bool,
    decays: bool,
    /// Iterations taken, and taken since gradients were forgotten.
    t: usize,
    remembered: usize,
    /// Names of the states that hold learned parameters.
    leaves: Vec<String>,
    careful: bool,
}

/// What some iterations came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The bound's estimate of each iteration, over its finite draws.
    pub bounds: Vec<f64>,
    /// Draws whose bound was not finite.
    pub diverged: usize,
    /// Iterations whose gradient was not finite and counted as zero.
    pub skipped: usize,
    /// The first of them, counted from the first iteration of this run.
    pub first_skipped: Option<usize>,
}

/// A state to be learned with its gradient, scale, relative rate, and whether it decays (1) or not (0).
struct Leaf<'g> {
    name: String,
    state: Expr<'g>,
    gradient: Expr<'g>,
    scale: Vec<f64>,
    rate: Vec<f64>,
    decays: Vec<f64>,
}

impl Training {
    /// Compile an iteration. Where the bound of a draw is not finite, the gradient counts as zero.
    pub fn new(approximation: &Approximation, settings: &Settings) -> Result<Self> {
        Training::compile(approximation, settings, false)
    }

    /// The same iteration from the same state, which leaves out draws whose bound is not finite instead of waiting for
    /// better ones. It takes a pass more: no gradient can be begun before all bounds are known.
    pub fn careful(&mut self, approximation: &Approximation) -> Result<Self> {
        let mut careful = Training::compile(approximation, &self.settings, true)?;
        for (name, value) in self.program.states()? {
            careful.program.write(&name, &value)?;
        }
        careful.program.set_step(self.program.step());
        (careful.t, careful.remembered) = (self.t, self.remembered);
        Ok(careful)
    }

    /// Everything the next iteration depends on, by name: parameters, the optimiser's moments, averages, counters.
    pub fn state(&mut self) -> Result<Vec<(String, Array)>> {
        let mut state = self.program.states()?;
        let counters = [self.program.step() as f64, self.t as f64, self.remembered as f64, f64::from(self.careful)];
        state.push((COUNTERS.to_owned(), Array::new(counters.len(), counters.to_vec())?));
        Ok(state)
    }

    /// Go on from a state that [`state`](Self::state) gave, of the same approximation and settings: the next
    /// iteration is, bit for bit, the one that would have followed. Nothing is changed where the state does not fit.
    pub fn restore(&mut self, approximation: &Approximation, state: &[(String, Array)]) -> Result<()> {
        let counters = state.iter().find(|(name, _)| name == COUNTERS).map(|(_, value)| value.to_f64());
        let Some(&[step, t, remembered, careful]) = counters.as_deref() else {
            return Err(Error::Params { why: format!("the state of a fit needs four numbers as `{COUNTERS}`") });
        };
        let mut values = vec![];
        for (name, is) in self.program.states()? {
            let Some((_, value)) = state.iter().find(|(n, _)| *n == name) else {
                return Err(Error::Params { why: format!("the state of a fit lacks `{name}`") });
            };
            if (value.dtype(), value.shape()) != (is.dtype(), is.shape()) {
                let (is, got) = (format!("{} {}", is.dtype(), is.shape()), (value.dtype(), value.shape()));
                let why = format!("`{name}` is {is}, in the state given it is {} {}", got.0, got.1);
                return Err(Error::Params { why });
            }
            values.push((name, value));
        }
        if self.careful != (careful != 0.0) {
            *self = Training::compile(approximation, &self.settings, careful != 0.0)?;
        }
        for (name, value) in values {
            self.program.write(&name, value)?;
        }
        self.program.set_step(step as u64);
        (self.t, self.remembered) = (t as usize, remembered as usize);
        Ok(())
    }

    fn compile(approximation: &Approximation, settings: &Settings, careful: bool) -> Result<Self> {
        let Approximation { target, chain, start, params } = approximation;
        let (graph, dtype) = (Graph::new(), target.dtype());
        let scope = Scope::new(&graph, settings.draws, dtype, Choices::Average, start, params)?;
        let estimate = lower_bound(target.as_ref(), chain, &scope)?;
        scope.finish()?;
        let rows = match settings.objective {
            Objective::Bound => estimate.bound,
            Objective::LastStep => *estimate.steps.last().ok_or_else(|| Error::Setting {
                what: "objective",
                why: "the chain has no last step to learn alone".to_owned(),
            })?,
            Objective::Warmed => {
                let target_scope = scope.child("target").group(Group::Target);
                let likelihood = target.log_likelihood(&target_scope, estimate.z.opaque());
                let fit = likelihood.ok_or_else(|| Error::Setting {
                    what: "objective",
                    why: "the target does not tell its likelihood from its prior; see `Target::log_likelihood`"
                        .to_owned(),
                })?;
                fit + (estimate.bound - fit) * graph.input(WARMTH, dtype, ())
            }
        };
        // A draw that diverged has no direction to give; it is counted instead.
        let finite = rows.abs().lt(f64::INFINITY);
        let bound = finite.select(rows, 0.0).sum_all() / finite.sum_all().max(1.0);
        let loss = if careful { bound } else { rows.mean_all() } * -1.0;
        // While it is warmed up, what is maximised is no bound; what is shown is.
        let bound = match settings.objective {
            Objective::Warmed => finite.select(estimate.bound, 0.0).sum_all() / finite.sum_all().max(1.0),
            Objective::Bound | Objective::LastStep => bound,
        };
        let leaves = leaves(&graph, &scope, loss, settings)?;
        if leaves.is_empty() {
            return Err(Error::Fit { why: "no parameter of the chain is learned".to_owned() });
        }

        let scaled: Vec<Expr<'_>> = leaves.iter().map(|l| scale(&scope, l.gradient, &l.scale)).collect();
        let square = scaled.iter().map(|g| g.square().sum_all()).reduce(|a, b| a + b).unwrap_or(bound);
        let usable = square.lt(f64::INFINITY);
        // Clip at a multiple of the gradient's own usual size.
        let (usual, norm) = (graph.state("fit.norm", Array::zeros(dtype, ())?), square.sqrt());
        let limit = usual.gt(0.0).select(usual * settings.clip, f64::INFINITY);
        let clipped = norm.min(limit);
        let factor = clipped / norm.max(TINY);
        let next = usual.gt(0.0).select(usual + (clipped - usual) * 0.01, norm);

        let rates = Rates { rate: graph.input(RATE, dtype, ()), second: graph.input(SECOND, dtype, ()) };
        let (weight, decay) = (graph.input(WEIGHT, dtype, ()), graph.input(DECAY, dtype, ()));
        let lost = finite.sum_all() * -1.0 + settings.draws as f64;
        let mut program = graph.program().output("bound", bound).output("diverged", lost).output("usable", usable);
        program = settings.hardware.program(program.update(usual, usable.select(next, usual)).seed(settings.seed));
        for (leaf, gradient) in leaves.iter().zip(scaled) {
            let gradient = usable.select(gradient * factor, 0.0);
            let (step, states) = settings.optimiser.step(&graph, &leaf.name, gradient, rates)?;
            let mut p = leaf.state - scale(&scope, step, &leaf.rate);
            if settings.weight_decay > 0.0 && leaf.decays.iter().any(|d| *d > 0.0) {
                p = p - scale(&scope, leaf.state * usable.select(decay, 0.0), &leaf.decays);
            }
            program = program.update(leaf.state, p);
            if settings.average {
                let mean = graph.state(&format!("fit.average.{}", leaf.name), Array::zeros(dtype, p.shape())?);
                program = program.update(mean, mean + (p - mean) * weight);
            }
            for (state, value) in states {
                program = program.update(state, value);
            }
        }
        let decays = settings.weight_decay > 0.0 && leaves.iter().any(|l| l.decays.iter().any(|d| *d > 0.0));
        let leaves = leaves.into_iter().map(|l| l.name).collect();
        let feeds_second = matches!(settings.optimiser, super::Optimiser::Adam { .. });
        Ok(Training {
            program: program.compile()?,
            settings: settings.clone(),
            dtype,
            feeds_second,
            decays,
            t: 0,
            remembered: 0,
            leaves,
            careful,
        })
    }

    /// Give an input of the target's its value, for all iterations to come.
    pub fn write(&mut self, input: &str, value: &Array) -> Result<()> {
        Ok(self.program.write(input, value)?)
    }

    /// Take so many iterations at a learning rate. Iterates enter their average, if there is one, with these weights.
    pub fn run(&mut self, iterations: usize, rate: impl Fn(usize) -> f64, weights: &[f64]) -> Result<Progress> {
        self.run_with(iterations, rate, weights, &[])
    }

    /// The same, with further inputs that change from one iteration to the next: arrays with one row for each.
    pub fn run_with(
        &mut self,
        iterations: usize,
        rate: impl Fn(usize) -> f64,
        weights: &[f64],
        inputs: &[(&str, &Array)],
    ) -> Result<Progress> {
        let decays = (0..iterations).map(|i| rate(self.t + i) * self.settings.weight_decay).collect();
        let rates = (0..iterations).map(|i| self.settings.optimiser.rates(rate(self.t + i), self.remembered + i + 1));
        let (rates, seconds): (Vec<f64>, Vec<f64>) = rates.unzip();
        let column = |values: Vec<f64>| -> Result<Array> { Ok(Array::new(iterations, values)?.cast(self.dtype)) };
        let (rates, seconds, decays) = (column(rates)?, column(seconds)?, column(decays)?);
        let weights = if self.settings.average { Some(column(weights.to_vec())?) } else { None };
        let mut run = Run::steps(iterations).feed(RATE, &rates);
        if let Some(weights) = &weights {
            run = run.feed(WEIGHT, weights);
        }
        if self.feeds_second {
            run = run.feed(SECOND, &seconds);
        }
        if self.decays {
            run = run.feed(DECAY, &decays);
        }
        for (input, rows) in inputs {
            run = run.feed(input, rows);
        }
        let run = run.record("bound").record("diverged").record("usable");
        let recorded = self.program.execute(&run)?;
        self.t += iterations;
        self.remembered += iterations;
        Ok(Progress {
            bounds: recorded[0].to_f64(),
            diverged: recorded[1].to_f64().iter().sum::<f64>() as usize,
            skipped: recorded[2].to_f64().iter().filter(|u| **u == 0.0).count(),
            first_skipped: recorded[2].to_f64().iter().position(|u| *u == 0.0),
        })
    }

    /// What is not finite in iteration `step` with the present parameters, first in the order of computation: the bound
    /// before the first step of the chain, what a step adds, log p(x, z), or the gradient of a parameter.
    pub fn first_not_finite(
        &mut self,
        approximation: &Approximation,
        step: u64,
        inputs: &[(&str, &Array)],
    ) -> Result<Option<String>> {
        let Approximation { target, chain, start, params } = approximation;
        let graph = Graph::new();
        let scope = Scope::new(&graph, self.settings.draws, self.dtype, Choices::Average, start, params)?;
        let estimate = lower_bound(target.as_ref(), chain, &scope)?;
        let learned = scope.learned();
        let exprs: Vec<Expr<'_>> = learned.iter().map(|l| l.2).collect();
        let mut parts = vec![("log p(x, z₀) − log q(z₀|x)".to_owned(), estimate.first)];
        parts.extend(
            estimate.steps.iter().enumerate().map(|(t, e)| (format!("what step {} adds to the bound", t + 1), *e)),
        );
        parts.push(("log p(x, z) at the end of the chain".to_owned(), estimate.log_p));
        let gradients = grad(estimate.bound.mean_all(), &exprs)?;
        parts.extend(learned.iter().zip(gradients).map(|((name, ..), g)| (format!("the gradient of `{name}`"), g)));
        scope.finish()?;
        let mut program = self.settings.hardware.program(graph.program().seed(self.settings.seed));
        for (name, part) in &parts {
            program = program.output(name, (part.abs().lt(f64::INFINITY) * -1.0 + 1.0).sum_all());
        }
        let mut program = program.compile()?;
        let wanted: Vec<String> = program.input_names().into_iter().map(str::to_owned).collect();
        for name in wanted {
            if inputs.iter().all(|(n, _)| *n != name) {
                program.write(&name, &self.program.read(&name)?)?;
            }
        }
        for (name, value) in self.program.states()?.iter().filter(|(name, _)| !name.starts_with("fit.")) {
            program.write(name, value)?;
        }
        for (name, value) in inputs.iter().filter(|(name, _)| *name != WARMTH) {
            program.write(name, value)?;
        }
        program.set_step(step);
        program.run(1)?;
        for (name, _) in parts {
            if program.output(&name)?.to_f64()[0] > 0.0 {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Where the time of an iteration goes: each kernel with its median nanoseconds on one thread.
    pub fn profile(&mut self, iterations: usize) -> Result<Vec<(String, f64)>> {
        Ok(self.program.profile(iterations)?)
    }

    /// Whether draws whose bound is not finite are left out.
    pub fn is_careful(&self) -> bool {
        self.careful
    }

    /// Iterations taken so far.
    pub fn iterations(&self) -> usize {
        self.t
    }

    /// The packed parameters as they are.
    pub(super) fn packed(&mut self) -> Result<Vec<f64>> {
        if self.leaves.iter().any(|l| l == PACKED) { Ok(self.program.read(PACKED)?.to_f64()) } else { Ok(vec![]) }
    }

    /// The average of the iterates, as parameters.
    pub fn average(&mut self, like: &Params) -> Result<Params> {
        self.collect(like, |name| format!("fit.average.{name}"))
    }

    /// The parameters as they are.
    pub fn params(&mut self, like: &Params) -> Result<Params> {
        self.collect(like, str::to_owned)
    }

    fn collect(&mut self, like: &Params, state: impl Fn(&str) -> String) -> Result<Params> {
        let mut params = like.clone();
        for name in self.leaves.clone() {
            let value = self.program.read(&state(&name))?;
            match name.as_str() {
                PACKED => unpack(&mut params, &value.to_f64())?,
                name => params.set(name, value)?,
            }
        }
        Ok(params)
    }

    /// Go on from other parameters.
    pub fn set(&mut self, params: &Params) -> Result<()> {
        write(&mut self.program, params)
    }

    /// Forget all gradients met so far.
    pub fn forget(&mut self) -> Result<()> {
        for (name, value) in self.program.states()? {
            if name.starts_with("fit.") {
                self.program.write(&name, &Array::zeros(value.dtype(), value.shape().clone())?)?;
            }
        }
        self.remembered = 0;
        Ok(())
    }
}

/// Multiply by one number for each element, which are often all the same.
fn scale<'g>(scope: &Scope<'g>, e: Expr<'g>, by: &[f64]) -> Expr<'g> {
    match one_number(by) {
        Some(x) => e * x,
        None => e * scope.vector(by).reshape(e.shape()),
    }
}

/// The states to be learned: one for all small parameters, one for each large one.
fn leaves<'g>(graph: &'g Graph, scope: &Scope<'g>, loss: Expr<'g>, settings: &Settings) -> Result<Vec<Leaf<'g>>> {
    let learned = scope.learned();
    let exprs: Vec<Expr<'g>> = learned.iter().map(|l| l.2).collect();
    let gradients = grad(loss, &exprs)?;
    let relative = |p: &Param| match p.group {
        Group::Transition => settings.transition_rate,
        _ => 1.0,
    };
    let rate = |p: &Param| p.scale.iter().map(|s| s * relative(p)).collect::<Vec<_>>();
    // Weights have an axis for inputs and one for outputs; biases, means and scales have not.
    let decays = |p: &Param| vec![f64::from(u8::from(p.value.shape().dims().len() > 1)); p.scale.len()];
    let mut leaves = vec![];
    let mut small: Vec<(Expr<'g>, &Param)> = vec![];
    for ((name, param, state), gradient) in learned.iter().zip(gradients) {
        if is_packed(param) {
            small.push((gradient.flatten(), param));
        } else {
            let (name, scale, rate, decays) = (name.clone(), param.scale.clone(), rate(param), decays(param));
            leaves.push(Leaf { name, state: *state, gradient, scale, rate, decays });
        }
    }
    if !small.is_empty() {
        let gradient = graph.concat(&small.iter().map(|s| s.0).collect::<Vec<_>>(), 0);
        let scale = small.iter().flat_map(|s| s.1.scale.clone()).collect();
        let rate = small.iter().flat_map(|s| rate(s.1)).collect();
        let decays = small.iter().flat_map(|s| decays(s.1)).collect();
        leaves.push(Leaf { name: PACKED.to_owned(), state: scope.packed_state()?, gradient, scale, rate, decays });
    }
    Ok(leaves)
}
