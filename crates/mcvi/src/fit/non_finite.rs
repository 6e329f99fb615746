//! Where an iteration fails: the first part of its computation that is not finite.

use super::training::Training;
use crate::approximation::Approximation;
use crate::bound::KL_WEIGHT;
use crate::error::Result;
use crate::scope::Choices;
use mcvi_expr::{Array, Expr, grad};

impl Training {
    /// The first non-finite part of iteration `step` with the current parameters, in the order of computation: the
    /// bound before the first step of the chain, a step's contribution, log p(x, z), or the gradient of a parameter.
    pub fn first_not_finite(
        &mut self,
        approximation: &Approximation,
        step: u64,
        inputs: &[(&str, &Array)],
    ) -> Result<Option<String>> {
        let settings = &self.settings;
        let (mut program, names) =
            approximation.program(settings.draws, Choices::Average, |scope, estimate, program| {
                let learned = scope.learned();
                let exprs: Vec<Expr<'_>> = learned.iter().map(|l| l.2).collect();
                let mut parts = vec![("log p(x, z₀) − log q(z₀|x)".to_owned(), estimate.first)];
                let steps = estimate.steps.iter().enumerate();
                parts.extend(steps.map(|(t, e)| (format!("what step {} adds to the bound", t + 1), *e)));
                parts.push(("log p(x, z) at the end of the chain".to_owned(), estimate.log_p));
                let gradients = grad(estimate.bound.mean_all(), &exprs)?;
                parts.extend(
                    learned.iter().zip(gradients).map(|((name, ..), g)| (format!("the gradient of `{name}`"), g)),
                );
                let program = parts.iter().fold(program.seed(settings.seed), |program, (name, part)| {
                    program.output(name, (part.abs().lt(f64::INFINITY) * -1.0 + 1.0).sum_all())
                });
                Ok((program, parts.into_iter().map(|(name, _)| name).collect::<Vec<_>>()))
            })?;
        let wanted: Vec<String> = program.input_names().into_iter().map(str::to_owned).collect();
        for name in wanted {
            if inputs.iter().all(|(n, _)| *n != name) {
                program.write(&name, &self.program.read(&name)?)?;
            }
        }
        for (name, value) in self.program.states()?.iter().filter(|(name, _)| !name.starts_with("fit.")) {
            program.write(name, value)?;
        }
        for (name, value) in inputs.iter().filter(|(name, _)| *name != KL_WEIGHT) {
            program.write(name, value)?;
        }
        program.set_step(step);
        program.run(1)?;
        for name in names {
            if program.output(&name)?.to_f64()[0] > 0.0 {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}
