//! Operators and elementwise functions on values, known or not.

use super::expression::transposed;
use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::math::{find, get};
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp};
use crate::trace::{Cell, Flat, Op};
use crate::value::Value;

impl Machine<'_> {
    /// A function of the table on values: single numbers serve all elements of the others.
    pub fn map(&mut self, number: u16, arguments: &[Value], span: Span) -> Run<Value> {
        let function = get(number);
        let shaped = arguments.iter().find(|a| !a.is_scalar());
        let len = shaped.map_or(1, Value::len);
        if let Some(other) = arguments.iter().find(|a| !a.is_scalar() && a.len() != len) {
            let message = format!("sizes do not fit: {} and {}", len, other.len());
            return fail(span, message);
        }
        let (base, shape) = match shaped {
            Some(value) => (value.base, value.shape.clone()),
            None => (Base::Real, vec![]),
        };
        let base = if base == Base::Int { Base::Real } else { base };
        let known: Option<Vec<&[f64]>> = arguments.iter().map(Value::numbers).collect();
        let flat = match known {
            Some(known) => {
                let mut x = [0.0; 4];
                let mut at = |i: usize| {
                    for (slot, (list, a)) in x.iter_mut().zip(known.iter().zip(arguments)) {
                        *slot = if a.is_scalar() { list[0] } else { list[i] };
                    }
                    (function.host)(&x[..arguments.len()])
                };
                if shape.is_empty() { Flat::Number(at(0)) } else { Flat::from_numbers((0..len).map(at).collect()) }
            }
            None if len == 0 => Flat::from_numbers(vec![]),
            None => {
                let operands: Vec<Flat> = arguments.iter().map(|a| a.flat.clone()).collect();
                self.trace.push(Op::Map(number), &operands, len)
            }
        };
        Ok(Value { base, shape, flat })
    }

    /// A function of the table by its name.
    pub fn map_named(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Value> {
        match find(name) {
            Some(number) => self.map(number, arguments, span),
            None => fail(span, format!("`{name}` is not supported")),
        }
    }

    /// The sum of all numbers.
    pub fn sum(&mut self, value: &Value) -> Value {
        let result = match &value.flat {
            Flat::Number(x) if value.len() == 1 => Flat::Number(*x),
            flat => match flat.numbers() {
                Some(numbers) => Flat::Number(numbers.iter().sum()),
                None if flat.len() == 1 => flat.clone(),
                None => self.trace.push(Op::Sum, std::slice::from_ref(flat), 1),
            },
        };
        let base = if value.base == Base::Int { Base::Int } else { Base::Real };
        Value { base, shape: vec![], flat: result }
    }

    /// The sum of cells.
    pub fn total(&mut self, cells: &[Cell]) -> Value {
        let flat = if cells.is_empty() { Flat::Number(0.0) } else { Flat::from_cells(cells.to_vec()) };
        self.sum(&Value::scalar(flat))
    }

    /// An operation that gives one number from many.
    pub fn reduce(&mut self, op: Op, value: &Value, host: impl Fn(&[f64]) -> f64) -> Value {
        let flat = match value.numbers() {
            Some(numbers) => Flat::Number(host(numbers)),
            None if value.len() == 1 => value.flat.clone(),
            None => self.trace.push(op, std::slice::from_ref(&value.flat), 1),
        };
        Value::scalar(flat)
    }

    pub fn binary(&mut self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Run<Value> {
        use BinaryOp::*;
        if a.base == Base::Int
            && b.base == Base::Int
            && let (Some(x), Some(y)) = (a.number(), b.number())
        {
            return integers(op, x as i64, y as i64, span);
        }
        match op {
            Multiply if !a.is_scalar() && !b.is_scalar() => self.product(a, b, span),
            Divide if b.base == Base::Matrix => {
                // B / A is (A' \ B')'.
                let left = self.left_divide(&transposed(b), &transposed(a), span)?;
                Ok(transposed(&left))
            }
            LeftDivide => self.left_divide(a, b, span),
            Modulo | IntDivide => fail(span, "whole numbers that depend on parameters are not supported"),
            Power | ElementPower if simple_power(b).is_some() && a.numbers().is_none() => match simple_power(b) {
                Some(name) if !name.is_empty() => self.map_named(name, std::slice::from_ref(a), span),
                _ => Ok(a.clone()),
            },
            _ => {
                if !a.is_scalar() && !b.is_scalar() && a.shape != b.shape {
                    let message = format!("sizes {:?} and {:?} do not fit", a.shape, b.shape);
                    return Err(Diagnostic::new(span, message).label(format!("`{}` needs equal sizes", op.symbol())));
                }
                let value = self.map_named(elementwise(op), &[a.clone(), b.clone()], span)?;
                Ok(if is_comparison(op) { Value { base: Base::Int, ..value } } else { value })
            }
        }
    }
}

/// The function that a power with a known exponent is, where all its derivatives are defined; empty for the first power.
fn simple_power(exponent: &Value) -> Option<&'static str> {
    Some(match exponent.number()? {
        1.0 => "",
        2.0 => "square",
        0.5 => "sqrt",
        -1.0 => "inv",
        -2.0 => "inv_square",
        _ => return None,
    })
}

/// The function of the table that an operator is.
fn elementwise(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Or => "logical_or",
        BinaryOp::And => "logical_and",
        BinaryOp::Equal => "logical_eq",
        BinaryOp::NotEqual => "logical_neq",
        BinaryOp::Less => "logical_lt",
        BinaryOp::LessEqual => "logical_lte",
        BinaryOp::Greater => "logical_gt",
        BinaryOp::GreaterEqual => "logical_gte",
        BinaryOp::Add => "add",
        BinaryOp::Subtract => "subtract",
        BinaryOp::Multiply | BinaryOp::ElementMultiply => "elt_multiply",
        BinaryOp::Power | BinaryOp::ElementPower => "pow",
        _ => "elt_divide",
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Or | And | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
}

/// Arithmetic of whole numbers: division cuts off what is left.
fn integers(op: BinaryOp, a: i64, b: i64, span: Span) -> Run<Value> {
    use BinaryOp::*;
    let flag = |c: bool| Ok(Value::int(i64::from(c)));
    let whole = |n: Option<i64>| match n {
        Some(n) if i32::try_from(n).is_ok() => Ok(Value::int(n)),
        _ => fail(span, format!("{a} {} {b} is not a whole number that Stan can hold", op.symbol())),
    };
    match op {
        Or => flag(a != 0 || b != 0),
        And => flag(a != 0 && b != 0),
        Equal => flag(a == b),
        NotEqual => flag(a != b),
        Less => flag(a < b),
        LessEqual => flag(a <= b),
        Greater => flag(a > b),
        GreaterEqual => flag(a >= b),
        Add => whole(a.checked_add(b)),
        Subtract => whole(a.checked_sub(b)),
        Multiply | ElementMultiply => whole(a.checked_mul(b)),
        Divide | IntDivide | ElementDivide => whole(a.checked_div(b)),
        Modulo => whole(a.checked_rem(b)),
        Power | ElementPower => Ok(Value::real((a as f64).powf(b as f64))),
        LeftDivide => fail(span, "`\\` divides matrices"),
    }
}
