//! Stan's functions by name: numbers, sums and statistics. Containers and matrices have files of their own.

use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::math::find;
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp};
use crate::trace::{Flat, Op};
use crate::types::result;
use crate::value::Value;

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// ln Σ eˣ.
fn log_sum_exp(numbers: &[f64]) -> f64 {
    let high = largest(numbers);
    if !high.is_finite() {
        return high;
    }
    high + numbers.iter().map(|x| (x - high).exp()).sum::<f64>().ln()
}

impl Machine<'_> {
    /// A function of Stan.
    pub fn library(&mut self, name: &str, arguments: Vec<Value>, span: Span) -> Run<Value> {
        if let Some(value) = self.written(name, &arguments, span)? {
            return Ok(value);
        }
        let types: Vec<_> = arguments.iter().map(Value::ty).collect();
        let is_density = ["_lpdf", "_lpmf", "_lcdf", "_lccdf", "_cdf"].iter().any(|s| name.ends_with(s));
        if is_density {
            return self.density(name, &arguments, span);
        }
        if let Some(family) = name.strip_suffix("_rng") {
            return self.draw(family, &arguments, span);
        }
        if let Some(number) = constant(name).filter(|_| arguments.is_empty()) {
            return Ok(Value::real(number));
        }
        if arguments.is_empty() {
            return fail(span, format!("`{name}` is not supported"));
        }
        let found = match self.statistics(name, &arguments, span)? {
            Some(value) => Some(value),
            None => match self.containers(name, &arguments, span)? {
                Some(value) => Some(value),
                None => match self.linear(name, &arguments, span)? {
                    Some(value) => Some(value),
                    None => self.elementwise(name, &arguments, span)?,
                },
            },
        };
        let Some(mut value) = found else {
            let error = Diagnostic::new(span, format!("the function `{name}` is not supported"));
            return Err(error.help("what is supported is listed in docs/stan.md"));
        };
        // Whole numbers stay whole where Stan's signatures say so.
        if value.base == Base::Real
            && let Some(ty) = result(name, &types)
            && ty.is_discrete()
        {
            value.base = Base::Int;
        }
        Ok(value)
    }

    /// Functions of the table, element by element.
    fn elementwise(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        let Some(number) = find(name) else { return Ok(None) };
        Ok(Some(self.map(number, arguments, span)?))
    }

    /// Functions that give one number, or use all numbers of a container.
    fn statistics(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        let a = &arguments[0];
        let count = a.len() as f64;
        Ok(Some(match (name, arguments) {
            ("sum", _) => self.sum(a),
            ("prod", _) => self.prod(a, span)?,
            ("max", [a]) => self.reduce(Op::Max, a, largest),
            ("min", [a]) => self.reduce(Op::Min, a, |x| x.iter().copied().fold(f64::INFINITY, f64::min)),
            ("max", _) => self.map_named("fmax", arguments, span)?,
            ("min", _) => self.map_named("fmin", arguments, span)?,
            ("mean", _) => {
                let sum = self.sum(a);
                self.binary(BinaryOp::Divide, &Value { base: Base::Real, ..sum }, &Value::real(count), span)?
            }
            ("variance" | "sd", _) => self.spread(name, a, span)?,
            ("log_sum_exp", [a]) => self.reduce(Op::LogSumExp, a, log_sum_exp),
            ("log_sum_exp", _) => self.map_named("log_sum_exp2", arguments, span)?,
            ("dot_product", [a, b]) => {
                let row = Value { base: Base::RowVector, shape: vec![a.len()], flat: a.flat.clone() };
                self.product(&row, &b.clone().into_vector(), span)?
            }
            ("dot_self" | "squared_distance" | "distance" | "norm2" | "norm1", _) => {
                let difference = match arguments {
                    [a, b] => {
                        self.binary(BinaryOp::Subtract, &a.clone().into_vector(), &b.clone().into_vector(), span)?
                    }
                    _ => a.clone(),
                };
                let each = self.map_named(if name == "norm1" { "abs" } else { "square" }, &[difference], span)?;
                let sum = self.sum(&each);
                let rooted = name == "distance" || name == "norm2";
                if rooted { self.map_named("sqrt", &[sum], span)? } else { sum }
            }
            ("softmax" | "log_softmax", _) => {
                let total = self.reduce(Op::LogSumExp, a, log_sum_exp);
                let logs = self.binary(BinaryOp::Subtract, a, &total, span)?;
                if name == "softmax" { self.map_named("exp", &[logs], span)? } else { logs }
            }
            ("log_mix", [_, _, _]) => self.map_named("log_mix3", arguments, span)?,
            ("log_mix", [weights, densities]) => {
                let logs = self.map_named("log", std::slice::from_ref(weights), span)?.into_vector();
                let parts = self.binary(BinaryOp::Add, &logs, &densities.clone().into_vector(), span)?;
                self.reduce(Op::LogSumExp, &parts, log_sum_exp)
            }
            ("cumulative_sum", _) => self.cumulative(a),
            ("choose", [n, k]) => {
                let log = self.map_named("lchoose", &[n.clone(), k.clone()], span)?;
                let value = self.map_named("exp", &[log], span)?;
                self.map_named("round", &[value], span)?
            }
            ("int_step", _) => {
                let positive = self.map_named("logical_gt", &[a.clone(), Value::real(0.0)], span)?;
                Value { base: Base::Int, ..positive }
            }
            ("is_nan" | "is_inf", _) => match a.number() {
                Some(x) => Value::int(i64::from(if name == "is_nan" { x.is_nan() } else { x.is_infinite() })),
                None => Value::int(0),
            },
            ("to_int", _) => match a.numbers() {
                Some(x) => Value {
                    base: Base::Int,
                    shape: a.shape.clone(),
                    flat: Flat::from_numbers(x.iter().map(|x| x.trunc()).collect()),
                },
                None => return fail(span, "`to_int` of parameters is not supported"),
            },
            ("divide", [a, b]) => self.binary(BinaryOp::Divide, a, b, span)?,
            ("multiply", [a, b]) => self.binary(BinaryOp::Multiply, a, b, span)?,
            ("modulus", [a, b]) => self.binary(BinaryOp::Modulo, a, b, span)?,
            _ => return Ok(None),
        }))
    }

    /// The product of all numbers, by halves.
    fn prod(&mut self, a: &Value, span: Span) -> Run<Value> {
        if let Some(numbers) = a.numbers() {
            return Ok(Value::real(numbers.iter().product()));
        }
        let mut rest = a.clone().into_vector();
        while rest.len() > 1 {
            let half = rest.len() / 2;
            let (x, y) = (Value::vector(rest.flat.part(0, half)), Value::vector(rest.flat.part(half, half)));
            let product = self.binary(BinaryOp::ElementMultiply, &x, &y, span)?;
            let odd = Value::vector(rest.flat.part(2 * half, rest.len() - 2 * half));
            rest = self.join(&[product, odd]);
        }
        Ok(Value::scalar(rest.flat))
    }

    /// The variance or standard deviation of a sample.
    fn spread(&mut self, name: &str, a: &Value, span: Span) -> Run<Value> {
        if a.len() <= 1 {
            return Ok(Value::real(0.0));
        }
        let count = a.len() as f64;
        let a = a.clone().into_vector();
        let sum = self.sum(&a);
        let mean = self.binary(BinaryOp::Divide, &Value { base: Base::Real, ..sum }, &Value::real(count), span)?;
        let differences = self.binary(BinaryOp::Subtract, &a, &mean, span)?;
        let squares = self.map_named("square", &[differences], span)?;
        let total = self.sum(&squares);
        let variance = self.binary(BinaryOp::Divide, &total, &Value::real(count - 1.0), span)?;
        if name == "sd" { self.map_named("sqrt", &[variance], span) } else { Ok(variance) }
    }
}

/// Functions without arguments.
fn constant(name: &str) -> Option<f64> {
    use std::f64::consts;
    Some(match name {
        "pi" => consts::PI,
        "e" => consts::E,
        "sqrt2" => consts::SQRT_2,
        "log2" => consts::LN_2,
        "log10" => consts::LN_10,
        "not_a_number" => f64::NAN,
        "positive_infinity" => f64::INFINITY,
        "negative_infinity" => f64::NEG_INFINITY,
        "machine_precision" => f64::EPSILON,
        _ => return None,
    })
}
