//! Evaluation of expressions.

use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp, Expr, ExprKind, Index, UnaryOp};
use crate::trace::{Cell, Flat};
use crate::value::{Selection, Value};

impl<'p> Machine<'p> {
    pub fn expression(&mut self, expr: &'p Expr) -> Run<Value> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(n) => Ok(Value::int(*n)),
            ExprKind::Real(x) => Ok(Value::real(*x)),
            ExprKind::Imaginary => fail(span, "complex numbers are not supported"),
            ExprKind::Tuple(_) | ExprKind::Project(..) => fail(span, "tuples are not supported"),
            ExprKind::Variable(name) => match self.scope.get(&name.text) {
                Some(value) => Ok(value.clone()),
                None => fail(span, format!("`{}` has no value here", name.text)),
            },
            ExprKind::Unary(op, inner) => {
                let value = self.expression(inner)?;
                self.unary(*op, value, span)
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let left = self.expression(a)?;
                // The right side is not evaluated where the left one decides.
                match (left.number(), op) {
                    (Some(0.0), BinaryOp::And) => Ok(Value::int(0)),
                    (Some(x), BinaryOp::Or) if x != 0.0 => Ok(Value::int(1)),
                    _ => {
                        let right = self.expression(b)?;
                        self.binary(*op, &left, &right, span)
                    }
                }
            }
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.expression(a)?, self.expression(b)?);
                self.binary(*op, &a, &b, span)
            }
            ExprKind::Transpose(inner) => {
                let value = self.expression(inner)?;
                Ok(transposed(&value))
            }
            ExprKind::Conditional(parts) => {
                let condition = self.expression(&parts[0])?;
                match condition.number() {
                    Some(x) => self.expression(&parts[if x != 0.0 { 1 } else { 2 }]),
                    None => {
                        let (a, b) = (self.expression(&parts[1])?, self.expression(&parts[2])?);
                        self.select(&condition, &a, &b, span)
                    }
                }
            }
            ExprKind::Call(call) => self.call(call, span),
            ExprKind::Index(inner, indices) => self.indexed(inner, indices, span),
            ExprKind::Array(list) => {
                let list: Vec<Value> = list.iter().map(|e| self.expression(e)).collect::<Run<_>>()?;
                array(&list, span)
            }
            ExprKind::Row(list) => {
                let list: Vec<Value> = list.iter().map(|e| self.expression(e)).collect::<Run<_>>()?;
                row(&list, span)
            }
            ExprKind::Target => {
                let terms = self.target.clone();
                Ok(self.total(&terms))
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, value: Value, span: Span) -> Run<Value> {
        match op {
            UnaryOp::Plus => Ok(value),
            UnaryOp::Minus => {
                let base = value.base;
                Ok(Value { base, ..self.map_named("minus", &[value], span)? })
            }
            UnaryOp::Not => {
                let value = self.map_named("logical_negation", &[value], span)?;
                Ok(Value { base: Base::Int, ..value })
            }
        }
    }

    fn indexed(&mut self, inner: &'p Expr, indices: &'p [Index], span: Span) -> Run<Value> {
        if let ExprKind::Variable(name) = &inner.kind {
            let shape = match self.scope.get(&name.text) {
                Some(value) => value.shape.clone(),
                None => return fail(span, format!("`{}` has no value here", name.text)),
            };
            let selections = self.selections(&shape, indices, span)?;
            return match self.scope.get(&name.text) {
                Some(value) => Ok(value.at(&selections)),
                None => fail(span, format!("`{}` has no value here", name.text)),
            };
        }
        let value = self.expression(inner)?;
        let selections = self.selections(&value.shape, indices, span)?;
        Ok(value.at(&selections))
    }

    /// Indices as places counted from 0, within the sizes.
    pub fn selections(&mut self, shape: &[usize], indices: &'p [Index], span: Span) -> Run<Vec<Selection>> {
        let mut out = Vec::with_capacity(indices.len());
        for (axis, index) in indices.iter().enumerate() {
            let size = shape.get(axis).copied().unwrap_or(0);
            let place = |i: f64| -> Run<usize> {
                if i >= 1.0 && i <= size as f64 {
                    return Ok(i as usize - 1);
                }
                let error = Diagnostic::new(span, format!("index {i} is outside 1 to {size}"));
                Err(error.label(format!("index {} of this is {i}", axis + 1)))
            };
            out.push(match index {
                Index::All => Selection::All,
                Index::Single(expr) => {
                    let value = self.expression(expr)?;
                    let Some(numbers) = value.numbers() else {
                        return fail(expr.span, "an index cannot depend on parameters");
                    };
                    match value.is_scalar() {
                        true => Selection::One(place(numbers[0])?),
                        false => Selection::Many(numbers.iter().map(|&i| place(i)).collect::<Run<_>>()?),
                    }
                }
                range => {
                    let (low, high) = match range {
                        Index::From(low) => (self.whole(low)?, size as i64),
                        Index::UpTo(high) => (1, self.whole(high)?),
                        Index::Range(low, high) => (self.whole(low)?, self.whole(high)?),
                        _ => (1, size as i64),
                    };
                    Selection::Many((low..=high).map(|i| place(i as f64)).collect::<Run<_>>()?)
                }
            });
        }
        Ok(out)
    }
}

/// Rows and columns exchanged.
pub fn transposed(value: &Value) -> Value {
    match value.base {
        Base::Vector => value.clone().reshaped(Base::RowVector, value.shape.clone()),
        Base::RowVector => value.clone().reshaped(Base::Vector, value.shape.clone()),
        _ => {
            let (rows, cols) = value.extent();
            let places: Vec<usize> = (0..rows * cols).map(|k| (k % rows) * cols + k / rows).collect();
            Value::matrix(cols, rows, value.flat.gather(&places))
        }
    }
}

/// `{a, b}`.
pub fn array(list: &[Value], span: Span) -> Run<Value> {
    let base = if list.iter().any(|v| v.base == Base::Real) { Base::Real } else { list[0].base };
    if list.iter().any(|v| v.shape != list[0].shape) {
        return fail(span, "the elements of an array must have the same sizes");
    }
    let shape = std::iter::once(list.len()).chain(list[0].shape.iter().copied()).collect();
    Ok(Value { base, shape, flat: joined(list) })
}

/// `[a, b]`.
fn row(list: &[Value], span: Span) -> Run<Value> {
    match list.first() {
        Some(first) if first.base == Base::RowVector => {
            if list.iter().any(|v| v.len() != first.len()) {
                return fail(span, "the rows of a matrix must have the same length");
            }
            Ok(Value::matrix(list.len(), first.len(), joined(list)))
        }
        _ => Ok(Value { base: Base::RowVector, shape: vec![list.len()], flat: joined(list) }),
    }
}

/// All numbers of some values, one after the other.
pub fn joined(list: &[Value]) -> Flat {
    let known: Option<Vec<&[f64]>> = list.iter().map(Value::numbers).collect();
    match known {
        Some(known) => Flat::from_numbers(known.concat()),
        None => Flat::from_cells(list.iter().flat_map(|v| v.flat.cells()).collect::<Vec<Cell>>()),
    }
}
