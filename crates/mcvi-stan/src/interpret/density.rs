//! Densities, probabilities and distribution functions, and the statements that add them to the target.

use super::written::elements;
use super::{Machine, Run};
use crate::diagnostic::Diagnostic;
use crate::math::find;
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp, DistributionStatement};
use crate::value::Value;

impl<'p> Machine<'p> {
    /// A density or distribution function of Stan, summed over its arguments' elements.
    pub fn density(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Value> {
        if let Some(value) = self.multivariate(name, arguments, span)? {
            return Ok(value);
        }
        if let Some(value) = self.written(name, arguments, span)? {
            return Ok(value);
        }
        if let Some(number) = find(name) {
            if arguments.iter().any(|a| a.len() == 0) {
                return Ok(Value::real(0.0));
            }
            let arguments: Vec<Value> = arguments.iter().map(|a| a.clone().into_vector()).collect();
            let each = self.map(number, &arguments, span)?;
            return Ok(self.sum(&each));
        }
        if let Some(stem) = name.strip_suffix("_cdf") {
            let log = self.density(&format!("{stem}_lcdf"), arguments, span)?;
            return self.map_named("exp", &[log], span);
        }
        let error = Diagnostic::new(span, format!("`{name}` is not supported"));
        Err(error.help("what is supported is listed in docs/stan.md"))
    }

    /// `y ~ name(...)`, with all constants.
    pub fn distribution(&mut self, d: &'p DistributionStatement, span: Span) -> Run<()> {
        let variate = self.expression(&d.variate)?;
        let mut arguments = vec![variate.clone()];
        for argument in &d.arguments {
            arguments.push(self.expression(argument)?);
        }
        let name = &d.name.text;
        let (density, mass) = (format!("{name}_lpdf"), format!("{name}_lpmf"));
        let is_user = |f: &String| self.find_user(f, &arguments).is_some();
        let full = match (is_user(&density), is_user(&mass)) {
            (true, _) => density,
            (_, true) => mass,
            _ if crate::types::exists(&density) => density,
            _ => mass,
        };
        let value = self.apply(&full, arguments.clone(), span)?;
        self.add_to_target(&value);
        if let Some((lower, upper)) = &d.truncation {
            let lower = lower.as_ref().map(|e| self.expression(e)).transpose()?;
            let upper = upper.as_ref().map(|e| self.expression(e)).transpose()?;
            self.truncate(name, &arguments, lower, upper, span)?;
        }
        Ok(())
    }

    /// What truncation takes from the target: the logarithm of the probability within the bounds.
    fn truncate(
        &mut self,
        name: &str,
        arguments: &[Value],
        lower: Option<Value>,
        upper: Option<Value>,
        span: Span,
    ) -> Run<()> {
        let variate = &arguments[0];
        // A whole number at the lower bound is within.
        let below = match &lower {
            Some(low) if variate.base == Base::Int => {
                Some(self.binary(BinaryOp::Subtract, low, &Value::int(1), span)?)
            }
            other => other.clone(),
        };
        // Of several distributions each takes its own; of one, as often as it has variates.
        let of_each = elements(&arguments[1..], span)?;
        let of_one = arguments[1..].iter().all(Value::is_scalar);
        let times = Value::real(if of_one { -(variate.len() as f64) } else { -1.0 });
        for parameters in of_each {
            let of = |machine: &mut Self, suffix: &str, bound: &Value| {
                let list = [std::slice::from_ref(bound), &parameters].concat();
                machine.apply(&format!("{name}{suffix}"), list, span)
            };
            let inside = match (&below, &upper) {
                (Some(low), Some(high)) => {
                    let (high, low) = (of(self, "_lcdf", high)?, of(self, "_lcdf", low)?);
                    self.map_named("log_diff_exp", &[high, low], span)?
                }
                (Some(low), None) => of(self, "_lccdf", low)?,
                (None, Some(high)) => of(self, "_lcdf", high)?,
                (None, None) => return Ok(()),
            };
            let taken = self.binary(BinaryOp::Multiply, &inside, &times, span)?;
            self.add_to_target(&taken);
        }
        for (bound, name) in [(lower, "logical_lt"), (upper, "logical_gt")] {
            let Some(bound) = bound else { continue };
            let outside = self.map_named(name, &[variate.clone().into_vector(), bound], span)?;
            let impossible = Value::real(f64::NEG_INFINITY);
            if let Some(flags) = outside.numbers() {
                if flags.iter().any(|f| *f != 0.0) {
                    self.add_to_target(&impossible);
                }
            } else {
                let term = self.map_named("select", &[outside, impossible, Value::real(0.0)], span)?;
                self.add_to_target(&term);
            }
        }
        Ok(())
    }
}
