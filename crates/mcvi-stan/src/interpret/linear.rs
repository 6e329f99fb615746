//! Linear algebra on values, known or not.

use super::expression::{joined, transposed};
use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp};
use crate::trace::{Cell, Flat, Op};
use crate::value::Value;

impl Machine<'_> {
    /// The product of matrices and vectors.
    pub fn product(&mut self, a: &Value, b: &Value, span: Span) -> Run<Value> {
        let ((rows, inner), (other, cols)) = (a.extent(), b.extent());
        if inner != other {
            let message = format!("{rows} x {inner} times {other} x {cols}: the inner sizes do not fit");
            return Err(Diagnostic::new(span, message));
        }
        let flat = match (a.numbers(), b.numbers()) {
            (Some(x), Some(y)) => Flat::from_numbers(product(x, y, rows, inner, cols)),
            _ if inner == 0 => Flat::from_numbers(vec![0.0; rows * cols]),
            _ if rows * cols == 0 => Flat::from_numbers(vec![]),
            _ if inner == 1 => {
                // An outer product is elementwise.
                let left: Vec<usize> = (0..rows * cols).map(|k| k / cols).collect();
                let right: Vec<usize> = (0..rows * cols).map(|k| k % cols).collect();
                let left = Value::vector(a.flat.gather(&left));
                let right = Value::vector(b.flat.gather(&right));
                self.binary(BinaryOp::ElementMultiply, &left, &right, span)?.flat
            }
            _ => {
                let op = Op::Product { rows: rows as u32, inner: inner as u32, cols: cols as u32 };
                self.trace.push(op, &[a.flat.clone(), b.flat.clone()], rows * cols)
            }
        };
        Ok(match (a.base, b.base) {
            (Base::RowVector, Base::Vector) => Value::scalar(flat),
            (Base::Matrix, Base::Vector) => Value::vector(flat),
            (Base::RowVector, Base::Matrix) => Value { base: Base::RowVector, shape: vec![cols], flat },
            _ => Value::matrix(rows, cols, flat),
        })
    }

    /// The Cholesky factor of a symmetric matrix.
    pub fn cholesky(&mut self, a: &Value, span: Span) -> Run<Value> {
        let (n, m) = a.extent();
        if n != m {
            return fail(span, format!("a {n} x {m} matrix has no Cholesky factor"));
        }
        let flat = match a.numbers() {
            Some(x) => match cholesky(x, n) {
                Some(l) => Flat::from_numbers(l),
                None => return fail(span, "the matrix is not positive definite"),
            },
            None => self.trace.push(Op::Cholesky(n as u32), std::slice::from_ref(&a.flat), n * n),
        };
        Ok(Value::matrix(n, n, flat))
    }

    /// X with L X = B, or with the transpose of L.
    pub fn solve_lower(&mut self, l: &Value, b: &Value, transposed: bool, span: Span) -> Run<Value> {
        let ((n, m), (rows, cols)) = (l.extent(), b.extent());
        if n != m || n != rows {
            return fail(span, format!("{n} x {m} and {rows} x {cols}: the sizes do not fit"));
        }
        let flat = match (l.numbers(), b.numbers()) {
            (Some(l), Some(b)) => Flat::from_numbers(solve_lower(l, b, n, cols, transposed)),
            _ if n * cols == 0 => Flat::from_numbers(vec![]),
            _ => {
                let op = Op::SolveLower { size: n as u32, cols: cols as u32, transposed };
                self.trace.push(op, &[l.flat.clone(), b.flat.clone()], n * cols)
            }
        };
        Ok(Value { base: b.base, shape: b.shape.clone(), flat })
    }

    /// A \ B for a symmetric positive definite A.
    pub fn divide_spd(&mut self, a: &Value, b: &Value, span: Span) -> Run<Value> {
        let l = self.cholesky(a, span)?;
        let half = self.solve_lower(&l, b, false, span)?;
        self.solve_lower(&l, &half, true, span)
    }

    /// A \ B.
    pub fn left_divide(&mut self, a: &Value, b: &Value, span: Span) -> Run<Value> {
        let ((n, m), (rows, cols)) = (a.extent(), b.extent());
        if n != m || n != rows {
            return fail(span, format!("{n} x {m} \\ {rows} x {cols}: the sizes do not fit"));
        }
        let inverse = self.inverse(a, span)?;
        self.product(&inverse, b, span)
    }

    /// Functions of matrices; none if the name is of none.
    pub fn linear(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        let a = &arguments[0];
        let diagonal = |v: &Value| {
            let (r, c) = v.extent();
            Value::vector(v.flat.gather(&(0..r.min(c)).map(|i| i * (c + 1)).collect::<Vec<_>>()))
        };
        let known = |v: &Value| -> Run<Vec<f64>> {
            match v.numbers() {
                Some(numbers) => Ok(numbers.to_vec()),
                None => fail(span, format!("`{name}` of parameters is not supported")),
            }
        };
        Ok(Some(match name {
            "cholesky_decompose" => self.cholesky(a, span)?,
            "multiply_lower_tri_self_transpose" => {
                let l = lower(a);
                self.product(&l, &transposed(&l), span)?
            }
            "tcrossprod" => self.product(a, &transposed(a), span)?,
            "crossprod" => self.product(&transposed(a), a, span)?,
            "mdivide_left_tri_low" => self.solve_lower(a, &arguments[1], false, span)?,
            "mdivide_right_tri_low" => {
                let x = self.solve_lower(&arguments[1], &transposed(a), true, span)?;
                transposed(&x)
            }
            "mdivide_left_spd" => self.divide_spd(a, &arguments[1], span)?,
            "mdivide_right_spd" => {
                let x = self.divide_spd(&arguments[1], &transposed(a), span)?;
                transposed(&x)
            }
            "mdivide_left" => self.left_divide(a, &arguments[1], span)?,
            "mdivide_right" => self.binary(BinaryOp::Divide, a, &arguments[1], span)?,
            "inverse_spd" => self.divide_spd(a, &identity(a.extent().0), span)?,
            "chol2inv" => {
                let half = self.solve_lower(a, &identity(a.extent().0), false, span)?;
                self.solve_lower(a, &half, true, span)?
            }
            "log_determinant_spd" => self.log_determinant_spd(a, span)?,
            "quad_form" | "quad_form_sym" => {
                let right = self.product(a, &arguments[1], span)?;
                self.product(&transposed(&arguments[1]), &right, span)?
            }
            "trace" => {
                let d = diagonal(a);
                self.sum(&d)
            }
            "diagonal" => diagonal(a),
            "diag_matrix" => {
                let n = a.len();
                let cell = |k: usize| {
                    if k.is_multiple_of(n + 1) { a.flat.cell(k / (n + 1)) } else { Cell::Number(0.0) }
                };
                Value::matrix(n, n, Flat::from_cells((0..n * n).map(cell).collect()))
            }
            "diag_pre_multiply" => self.scaled(&arguments[1], Some(a), None, span)?,
            "diag_post_multiply" => self.scaled(a, None, Some(&arguments[1]), span)?,
            "quad_form_diag" => self.scaled(a, Some(&arguments[1]), Some(&arguments[1]), span)?,
            "add_diag" => {
                let (r, c) = a.extent();
                let d = diagonal(a);
                let d = self.binary(BinaryOp::Add, &d, &arguments[1].clone().into_vector(), span)?;
                let cell = |k: usize| if k / c == k % c { d.flat.cell(k / c) } else { a.flat.cell(k) };
                Value::matrix(r, c, Flat::from_cells((0..r * c).map(cell).collect()))
            }
            "identity_matrix" => identity(known(a)?[0] as usize),
            "transpose" => transposed(a),
            _ => return self.matrices(name, arguments, span),
        }))
    }

    pub fn log_determinant_spd(&mut self, a: &Value, span: Span) -> Run<Value> {
        let l = self.cholesky(a, span)?;
        let n = a.extent().0;
        let diagonal = Value::vector(l.flat.gather(&(0..n).map(|i| i * (n + 1)).collect::<Vec<_>>()));
        let log = self.map_named("log", &[diagonal], span)?;
        let sum = self.sum(&log);
        self.binary(BinaryOp::Multiply, &sum, &Value::real(2.0), span)
    }

    /// A matrix with its rows and columns scaled.
    fn scaled(&mut self, m: &Value, left: Option<&Value>, right: Option<&Value>, span: Span) -> Run<Value> {
        let (rows, cols) = m.extent();
        let mut out = m.clone();
        for (scale, by_row) in [(left, true), (right, false)] {
            let Some(scale) = scale else { continue };
            let places: Vec<usize> = (0..rows * cols).map(|k| if by_row { k / cols } else { k % cols }).collect();
            if scale.len() != if by_row { rows } else { cols } {
                return fail(span, "the diagonal and the matrix have different sizes");
            }
            let spread = Value::matrix(rows, cols, scale.flat.gather(&places));
            out = self.binary(BinaryOp::ElementMultiply, &out, &spread, span)?;
        }
        Ok(out)
    }

    /// Numbers side by side as one vector.
    pub fn join(&self, list: &[Value]) -> Value {
        Value::vector(joined(list))
    }
}

/// The identity matrix.
pub fn identity(n: usize) -> Value {
    Value::matrix(n, n, Flat::from_numbers((0..n * n).map(|k| f64::from(u8::from(k % (n + 1) == 0))).collect()))
}

/// The lower triangle, zeros above.
pub fn lower(a: &Value) -> Value {
    let (r, c) = a.extent();
    let cell = |k: usize| if k % c <= k / c { a.flat.cell(k) } else { Cell::Number(0.0) };
    Value::matrix(r, c, Flat::from_cells((0..r * c).map(cell).collect()))
}

impl Value {
    /// The same numbers as a vector, if it is a row vector or an array.
    pub fn into_vector(self) -> Value {
        if self.is_scalar() { self } else { Value::vector(self.flat) }
    }
}

pub fn product(a: &[f64], b: &[f64], rows: usize, inner: usize, cols: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * cols];
    for i in 0..rows {
        for k in 0..inner {
            let x = a[i * inner + k];
            for j in 0..cols {
                out[i * cols + j] += x * b[k * cols + j];
            }
        }
    }
    out
}

/// The Cholesky factor of a symmetric matrix, unless it is not positive definite.
pub fn cholesky(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let rest = a[i * n + j] - (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum::<f64>();
            l[i * n + j] = match i == j {
                true if rest > 0.0 => rest.sqrt(),
                true => return None,
                false => rest / l[j * n + j],
            };
        }
    }
    Some(l)
}

fn solve_lower(l: &[f64], b: &[f64], n: usize, cols: usize, transposed: bool) -> Vec<f64> {
    let mut x = b.to_vec();
    for step in 0..n {
        let i = if transposed { n - 1 - step } else { step };
        for j in 0..cols {
            let done = if transposed { i + 1..n } else { 0..i };
            let at = |k: usize| if transposed { l[k * n + i] } else { l[i * n + k] };
            let sum: f64 = done.map(|k| at(k) * x[k * cols + j]).sum();
            x[i * cols + j] = (x[i * cols + j] - sum) / l[i * n + i];
        }
    }
    x
}

/// The inverse and the determinant, by elimination with the largest pivot.
pub fn inverse(a: &[f64], n: usize) -> Option<(Vec<f64>, f64)> {
    let mut a = a.to_vec();
    let mut inverse: Vec<f64> = (0..n * n).map(|k| f64::from(u8::from(k % (n + 1) == 0))).collect();
    let mut determinant = 1.0;
    for c in 0..n {
        let pivot = (c..n).max_by(|&i, &j| a[i * n + c].abs().total_cmp(&a[j * n + c].abs()))?;
        if a[pivot * n + c] == 0.0 {
            return None;
        }
        if pivot != c {
            determinant = -determinant;
            for k in 0..n {
                a.swap(c * n + k, pivot * n + k);
                inverse.swap(c * n + k, pivot * n + k);
            }
        }
        let p = a[c * n + c];
        determinant *= p;
        for k in 0..n {
            a[c * n + k] /= p;
            inverse[c * n + k] /= p;
        }
        for i in (0..n).filter(|&i| i != c) {
            let f = a[i * n + c];
            for k in 0..n {
                a[i * n + k] -= f * a[c * n + k];
                inverse[i * n + k] -= f * inverse[c * n + k];
            }
        }
    }
    Some((inverse, determinant))
}
