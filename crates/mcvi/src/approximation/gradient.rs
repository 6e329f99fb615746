//! The gradient of the bound on its own: its value and its variance.

use super::Approximation;
use crate::bound::{Objective, lower_bound};
use crate::error::{Error, Result};
use crate::params::Param;
use crate::scope::{Choices, Scope};
use mcvi_expr::{Expr, Parts, Program, ProgramBuilder, Run, grad};

/// What is followed and what is reported of some draws.
#[derive(Clone, Copy)]
pub(crate) struct Followed<'g> {
    pub values: Expr<'g>,
    pub reported: Expr<'g>,
}

/// Values by name.
pub type NamedValues = Vec<(String, Vec<f64>)>;

/// The variability of the stochastic gradient of one parameter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GradientSpread {
    /// The parameter.
    pub name: String,
    /// The mean of each element's gradient, in units of the parameter's scale.
    pub mean: Vec<f64>,
    /// Its variance between iterations.
    pub variance: Vec<f64>,
}

impl Approximation {
    /// A program around Algorithm 1 as an objective wants it, over draws in parts. `build` is given, for each part held here, the values
    /// whose mean has the gradient that is followed, and those that are reported for them.
    pub(crate) fn gradient_of<T>(
        &self,
        objective: Objective,
        draws: usize,
        parts: &Parts,
        build: impl for<'g> FnOnce(&Scope<'g>, &[Followed<'g>], ProgramBuilder<'g>) -> Result<(ProgramBuilder<'g>, T)>,
    ) -> Result<(Program, T)> {
        let target = self.target.as_ref();
        objective.check(target, &self.chain, draws)?;
        self.compile(draws / parts.total(), Choices::Average).program(|scope, program| {
            let scope = scope.estimating(objective.estimator());
            let one = |part| {
                let scope = scope.of_part(part, parts.total());
                let estimate = lower_bound(target, &self.chain, &scope)?;
                let values = estimate.followed(objective, target, &scope)?;
                Ok(Followed { values, reported: estimate.of(objective) })
            };
            let each = parts.mine().map(one).collect::<Result<Vec<_>>>()?;
            build(&scope, &each, program)
        })
    }

    /// The bound over `draws` draws and its gradient with respect to everything learned, by name, averaged over
    /// choices.
    pub fn gradient(&self, draws: usize, seed: u64) -> Result<(f64, NamedValues)> {
        let (mut program, learned) = self.gradient_program(Objective::Bound, draws, seed)?;
        program.run(1)?;
        let value = program.output("bound")?.to_f64()[0];
        let gradients = learned.into_iter().map(|(name, _)| {
            let gradient = program.output(&name)?.to_f64();
            Ok((name, gradient))
        });
        Ok((value, gradients.collect::<Result<_>>()?))
    }

    /// The variability of the gradient over `draws` draws by which an objective is maximised, estimated from `samples` samples.
    pub fn gradient_spread(
        &self,
        objective: Objective,
        draws: usize,
        samples: usize,
        seed: u64,
    ) -> Result<Vec<GradientSpread>> {
        let (mut program, learned) = self.gradient_program(objective, draws, seed)?;
        let run = learned.iter().fold(Run::steps(samples), |run, (name, _)| run.record(name));
        let recorded = program.execute(&run)?;
        let n = samples as f64;
        let spread = learned.iter().zip(recorded).map(|((name, param), samples)| {
            let (samples, width) = (samples.to_f64(), param.scale.len());
            let column = |j: usize| samples[j..].iter().step_by(width).map(move |g| g * param.scale[j]);
            let mean: Vec<f64> = (0..width).map(|j| column(j).sum::<f64>() / n).collect();
            let variance = |j: usize| column(j).map(|g| (g - mean[j]).powi(2)).sum::<f64>() / (n - 1.0);
            let variance = (0..width).map(variance).collect();
            GradientSpread { name: name.clone(), mean, variance }
        });
        Ok(spread.collect())
    }

    /// The bound, and the gradient of each learned parameter under its name.
    fn gradient_program(
        &self,
        objective: Objective,
        draws: usize,
        seed: u64,
    ) -> Result<(Program, Vec<(String, Param)>)> {
        if draws == 0 {
            return Err(Error::Setting { what: "draws", why: "at least one is needed".to_owned() });
        }
        self.gradient_of(objective, draws, &Parts::alone(1), |scope, each, program| {
            let bound = each[0].reported.mean_all();
            let learned = scope.learned();
            let gradients = grad(each[0].values.mean_all(), &learned.iter().map(|l| l.2).collect::<Vec<_>>())?;
            let program = program.seed(seed).output("bound", bound);
            let program = learned.iter().zip(&gradients).fold(program, |p, ((name, ..), g)| p.output(name, *g));
            Ok((program, learned.into_iter().map(|(name, param, _)| (name, param)).collect()))
        })
    }
}
