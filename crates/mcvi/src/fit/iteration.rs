//! One iteration of Algorithm 2 as a program: noise, bound, gradient, clipping, optimiser, average.

use super::optimiser::{Optimiser, Rates};
use super::settings::Settings;
use crate::approximation::{Approximation, Followed};
use crate::error::{Error, Result};
use crate::params::{Group, Param};
use crate::scope::{PACKED, Scope, is_packed, one_number};
use mcvi_expr::{Array, Expr, Parts, Program, ProgramBuilder, grad};

/// Inputs of every iteration.
pub(super) const RATE: &str = "fit.rate";
pub(super) const SECOND: &str = "fit.second";
pub(super) const DECAY: &str = "fit.decay";
pub(super) const WEIGHT: &str = "fit.weight";

/// Keeps a quotient finite if the gradient is zero, in either precision.
const TINY: f64 = 1e-30;

/// A compiled iteration, and what is needed to run it.
pub(super) struct Iteration {
    pub program: Program,
    /// Names of the states that hold learned parameters.
    pub leaves: Vec<String>,
    /// Whether the optimiser's second factor is an input.
    pub feeds_second: bool,
    /// Whether there is weight decay.
    pub decays: bool,
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

impl Iteration {
    /// With `skip_non_finite`, draws whose bound is not finite are left out of the gradient. Otherwise a single one of
    /// them sets the gradient to zero.
    pub fn compile(approximation: &Approximation, settings: &Settings, skip_non_finite: bool) -> Result<Self> {
        let decays = |leaves: &[Leaf<'_>]| {
            settings.weight_decay > 0.0 && leaves.iter().any(|l| l.decays.iter().any(|d| *d > 0.0))
        };
        let per_value = settings.objective.draws_per_value();
        let parts = approximation.hardware.parts(settings.parts)?;
        if !settings.draws.is_multiple_of(parts.total()) {
            let why = format!("{} draws cannot be divided into {} equal parts", settings.draws, parts.total());
            return Err(Error::Setting { what: "parts", why });
        }
        let (program, (leaves, decays)) =
            approximation.gradient_of(settings.objective, settings.draws, &parts, |scope, each, program| {
                let draws = settings.draws as f64 / parts.total() as f64;
                let one = |part| {
                    let Estimated { loss, bound, finite } = estimated(part, skip_non_finite);
                    let lost = finite * -(per_value as f64) + draws;
                    Ok::<_, Error>(Mine { leaves: leaves(scope, loss, settings)?, bound, lost })
                };
                let mine = each.iter().map(one).collect::<Result<_>>()?;
                let Mine { leaves, bound, lost } = total(mine, &parts);
                if leaves.is_empty() {
                    return Err(Error::Fit { why: "no parameter of the chain is learned".to_owned() });
                }
                let program = program.seed(settings.seed).output("bound", bound).output("diverged", lost);
                let program = update(scope, program, &leaves, bound, settings)?;
                let decays = decays(&leaves);
                Ok((program, (leaves.into_iter().map(|l| l.name).collect(), decays)))
            })?;
        let feeds_second = matches!(settings.optimiser, Optimiser::Adam { .. });
        Ok(Iteration { program, leaves, feeds_second, decays })
    }
}

/// What the draws of a part say: its loss, its bound, and how many of its values are finite.
struct Estimated<'g> {
    loss: Expr<'g>,
    bound: Expr<'g>,
    finite: Expr<'g>,
}

fn estimated<'g>(part: &Followed<'g>, skip_non_finite: bool) -> Estimated<'g> {
    let Followed { values, reported } = *part;
    // A draw that diverged has no gradient to contribute; it is counted instead.
    let finite = values.abs().lt(f64::INFINITY);
    let mean = |e| finite.select(e, 0.0).sum_all() / finite.sum_all().max(1.0);
    let loss = if skip_non_finite { mean(values) } else { values.mean_all() } * -1.0;
    Estimated { loss, bound: mean(reported), finite: finite.sum_all() }
}

/// What a part contributes: gradients, the bound, and the number of draws lost.
struct Mine<'g> {
    leaves: Vec<Leaf<'g>>,
    bound: Expr<'g>,
    lost: Expr<'g>,
}

/// The mean of all parts' gradients and bounds, and the number of draws that any has lost, by one sum over all parts.
fn total<'g>(mut mine: Vec<Mine<'g>>, parts: &Parts) -> Mine<'g> {
    if parts.total() == 1 {
        return mine.swap_remove(0);
    }
    let graph = mine[0].bound.graph();
    let row = |part: &Mine<'g>| {
        let gradients = part.leaves.iter().map(|leaf| leaf.gradient.flatten());
        let all: Vec<Expr<'g>> = gradients.chain([part.bound.expand(0), part.lost.expand(0)]).collect();
        graph.concat(&all, 0).expand(0)
    };
    let rows: Vec<Expr<'g>> = mine.iter().map(row).collect();
    let sum = graph.concat(&rows, 0).sum_over_parts(parts);
    let (mut leaves, share) = (mine.swap_remove(0).leaves, 1.0 / parts.total() as f64);
    let mut first = 0;
    for leaf in &mut leaves {
        let (shape, size) = (leaf.gradient.shape(), leaf.gradient.shape().size());
        leaf.gradient = sum.slice(0, first..first + size).reshape(shape) * share;
        first += size;
    }
    let number = |i: usize| sum.slice(0, i..i + 1).reshape(());
    Mine { leaves, bound: number(first) * share, lost: number(first + 1) }
}

/// Clip the gradient, take a step, and update the average.
fn update<'g>(
    scope: &Scope<'g>,
    mut program: ProgramBuilder<'g>,
    leaves: &[Leaf<'g>],
    bound: Expr<'g>,
    settings: &Settings,
) -> Result<ProgramBuilder<'g>> {
    let (graph, dtype) = (scope.graph(), scope.dtype());
    let scaled: Vec<Expr<'_>> = leaves.iter().map(|l| scale(scope, l.gradient, &l.scale)).collect();
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
    program = program.output("usable", usable).update(usual, usable.select(next, usual));
    for (leaf, gradient) in leaves.iter().zip(scaled) {
        let gradient = usable.select(gradient * factor, 0.0);
        let (step, states) = settings.optimiser.step(graph, &leaf.name, gradient, rates)?;
        let mut p = leaf.state - scale(scope, step, &leaf.rate);
        if settings.weight_decay > 0.0 && leaf.decays.iter().any(|d| *d > 0.0) {
            p = p - scale(scope, leaf.state * usable.select(decay, 0.0), &leaf.decays);
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
    Ok(program)
}

/// Multiply by one number for each element; often all are equal.
fn scale<'g>(scope: &Scope<'g>, e: Expr<'g>, by: &[f64]) -> Expr<'g> {
    match one_number(by) {
        Some(x) => e * x,
        None => e * scope.vector(by).reshape(e.shape()),
    }
}

/// The states to be learned: one for all small parameters, one for each large one.
fn leaves<'g>(scope: &Scope<'g>, loss: Expr<'g>, settings: &Settings) -> Result<Vec<Leaf<'g>>> {
    let learned = scope.learned();
    let exprs: Vec<Expr<'g>> = learned.iter().map(|l| l.2).collect();
    let gradients = grad(loss, &exprs)?;
    let relative = |p: &Param| match p.group {
        Group::Transition => settings.transition_rate,
        _ => 1.0,
    };
    let rate = |p: &Param| p.scale.iter().map(|s| s * relative(p)).collect::<Vec<_>>();
    // Weights have an axis for inputs and one for outputs; biases, means and scales do not.
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
        let gradient = scope.graph().concat(&small.iter().map(|s| s.0).collect::<Vec<_>>(), 0);
        let scale = small.iter().flat_map(|s| s.1.scale.clone()).collect();
        let rate = small.iter().flat_map(|s| rate(s.1)).collect();
        let decays = small.iter().flat_map(|s| decays(s.1)).collect();
        leaves.push(Leaf { name: PACKED.to_owned(), state: scope.packed_state()?, gradient, scale, rate, decays });
    }
    Ok(leaves)
}
