//! General square matrices: inverses, determinants, exponentials and powers, known or not; decompositions of known ones.

use super::expression::transposed;
use super::linear::{identity, inverse};
use super::{Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::BinaryOp;
use crate::trace::Flat;
use crate::value::Value;

/// Rows up to which a determinant of parameters is expanded.
const EXPANDED: usize = 6;
/// Terms of the series of an exponential, and how often the result is squared.
const TERMS: usize = 12;
const SQUARINGS: i32 = 8;
/// Sweeps after which every symmetric matrix is diagonal to the last digit.
const SWEEPS: usize = 30;

impl Machine<'_> {
    /// Functions of matrices that are in this file; none if the name is of none.
    pub fn matrices(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        let a = &arguments[0];
        let (n, m) = a.extent();
        let is_square = !matches!(name, "qr_Q" | "qr_R" | "qr_thin_Q" | "qr_thin_R" | "trace_dot");
        let mine =
            ["inverse", "determinant", "log_determinant", "matrix_exp", "matrix_power", "symmetrize_from_lower_tri"];
        let known = ["qr_thin_Q", "qr_thin_R", "eigenvalues_sym", "eigenvectors_sym"];
        let quadratic = ["trace_quad_form", "trace_gen_quad_form"];
        if ![&mine[..], &known, &quadratic].concat().contains(&name) {
            return Ok(None);
        }
        if is_square && name != "trace_gen_quad_form" && n != m {
            return fail(span, format!("`{name}` needs a square matrix, not {n} x {m}"));
        }
        Ok(Some(match name {
            "inverse" => self.inverse(a, span)?,
            "determinant" => self.determinant(a, span)?,
            "log_determinant" => self.log_determinant(a, span)?,
            "matrix_exp" => self.exponential(a, span)?,
            "matrix_power" => {
                let Some(power) = arguments[1].number().filter(|p| *p >= 0.0) else {
                    return fail(span, "a matrix can be raised to a whole number from 0 on");
                };
                let mut result = identity(n);
                for _ in 0..power as usize {
                    result = self.product(&result, a, span)?;
                }
                result
            }
            "symmetrize_from_lower_tri" => {
                let place = |k: usize| (k / n).max(k % n) * n + (k / n).min(k % n);
                Value::matrix(n, n, a.flat.gather(&(0..n * n).map(place).collect::<Vec<_>>()))
            }
            // tr B' A B, and tr D B' A B.
            "trace_quad_form" | "trace_gen_quad_form" => {
                let [.., a, b] = arguments else { return Ok(None) };
                let right = self.product(a, b, span)?;
                let right = match name {
                    "trace_gen_quad_form" => self.product(&right, &arguments[0], span)?,
                    _ => right,
                };
                let b = Value { base: right.base, shape: right.shape.clone(), flat: b.flat.clone() };
                let terms = self.binary(BinaryOp::ElementMultiply, &b, &right, span)?;
                self.sum(&terms)
            }
            _ => {
                let Some(x) = a.numbers() else {
                    return fail(span, format!("`{name}` of parameters is not supported"));
                };
                self.decomposed(name, x, n, m, span)?
            }
        }))
    }

    fn decomposed(&mut self, name: &str, x: &[f64], n: usize, m: usize, span: Span) -> Run<Value> {
        if name.starts_with("qr") {
            if n < m {
                return fail(span, format!("`{name}` needs at least as many rows as columns, not {n} x {m}"));
            }
            let (q, r) = thin_qr(x, n, m);
            return Ok(match name {
                "qr_thin_Q" => Value::matrix(n, m, Flat::from_numbers(q)),
                _ => Value::matrix(m, m, Flat::from_numbers(r)),
            });
        }
        let (values, vectors) = symmetric(x, n);
        Ok(match name {
            "eigenvalues_sym" => Value::vector(Flat::from_numbers(values)),
            _ => Value::matrix(n, n, Flat::from_numbers(vectors)),
        })
    }

    /// The inverse of a square matrix. Of parameters it is (A'A)⁻¹A', by Cholesky's factor, and two steps of Newton's
    /// method, which give back the digits that squaring takes.
    pub fn inverse(&mut self, a: &Value, span: Span) -> Run<Value> {
        let n = a.extent().0;
        if let Some(x) = a.numbers() {
            return match inverse(x, n) {
                Some((inverse, _)) => Ok(Value::matrix(n, n, Flat::from_numbers(inverse))),
                None => fail(span, "the matrix has no inverse"),
            };
        }
        let t = transposed(a);
        let square = self.product(&t, a, span)?;
        let mut x = self.divide_spd(&square, &t, span)?;
        for _ in 0..2 {
            let near = self.product(a, &x, span)?;
            let rest = self.binary(BinaryOp::Subtract, &identity(n), &near, span)?;
            let step = self.product(&x, &rest, span)?;
            x = self.binary(BinaryOp::Add, &x, &step, span)?;
        }
        Ok(x)
    }

    fn log_determinant(&mut self, a: &Value, span: Span) -> Run<Value> {
        if let Some(x) = a.numbers() {
            return Ok(Value::real(inverse(x, a.extent().0).map_or(0.0, |(_, d)| d.abs()).ln()));
        }
        let square = self.product(&transposed(a), a, span)?;
        let both = self.log_determinant_spd(&square, span)?;
        self.binary(BinaryOp::Multiply, &both, &Value::real(0.5), span)
    }

    /// The determinant. Of parameters it is expanded along the first row.
    fn determinant(&mut self, a: &Value, span: Span) -> Run<Value> {
        let n = a.extent().0;
        if let Some(x) = a.numbers() {
            return Ok(Value::real(inverse(x, n).map_or(0.0, |(_, d)| d)));
        }
        if n > EXPANDED {
            let why = format!("a determinant of parameters with more than {EXPANDED} rows is not supported");
            return fail(span, why + "; log_determinant is");
        }
        if n == 1 {
            return Ok(Value::scalar(a.flat.clone()));
        }
        let mut total = Value::real(0.0);
        for j in 0..n {
            let rest: Vec<usize> = (n..n * n).filter(|k| k % n != j).collect();
            let minor = self.determinant(&Value::matrix(n - 1, n - 1, a.flat.gather(&rest)), span)?;
            let head = Value::scalar(a.flat.part(j, 1));
            let term = self.binary(BinaryOp::Multiply, &head, &minor, span)?;
            let op = if j % 2 == 0 { BinaryOp::Add } else { BinaryOp::Subtract };
            total = self.binary(op, &total, &term, span)?;
        }
        Ok(total)
    }

    /// exp A, by its series at A/2ᵏ and k squarings.
    fn exponential(&mut self, a: &Value, span: Span) -> Run<Value> {
        let n = a.extent().0;
        let small = self.binary(BinaryOp::Multiply, a, &Value::real(0.5f64.powi(SQUARINGS)), span)?;
        let mut sum = identity(n);
        for k in (1..=TERMS).rev() {
            let part = self.binary(BinaryOp::Multiply, &small, &Value::real(1.0 / k as f64), span)?;
            let product = self.product(&part, &sum, span)?;
            sum = self.binary(BinaryOp::Add, &identity(n), &product, span)?;
        }
        for _ in 0..SQUARINGS {
            sum = self.product(&sum.clone(), &sum, span)?;
        }
        Ok(sum)
    }
}

/// Q and R of A = QR with a positive diagonal of R, by Gram and Schmidt's method, each column made orthogonal twice.
fn thin_qr(a: &[f64], n: usize, m: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut q, mut r) = (a.to_vec(), vec![0.0; m * m]);
    for j in 0..m {
        for _ in 0..2 {
            for k in 0..j {
                let dot: f64 = (0..n).map(|i| q[i * m + k] * q[i * m + j]).sum();
                r[k * m + j] += dot;
                (0..n).for_each(|i| q[i * m + j] -= dot * q[i * m + k]);
            }
        }
        let norm = (0..n).map(|i| q[i * m + j].powi(2)).sum::<f64>().sqrt();
        r[j * m + j] = norm;
        (0..n).for_each(|i| q[i * m + j] /= norm);
    }
    (q, r)
}

/// Eigenvalues of a symmetric matrix in rising order, and eigenvectors as columns, by Jacobi's rotations.
fn symmetric(a: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut a = a.to_vec();
    let mut v: Vec<f64> = (0..n * n).map(|k| f64::from(u8::from(k % (n + 1) == 0))).collect();
    for _ in 0..SWEEPS {
        for p in 0..n {
            for q in p + 1..n {
                if a[p * n + q] == 0.0 {
                    continue;
                }
                let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                let rotate =
                    |m: &mut [f64], i: usize, j: usize| (m[i], m[j]) = (c * m[i] - s * m[j], s * m[i] + c * m[j]);
                (0..n).for_each(|k| rotate(&mut a, k * n + p, k * n + q));
                (0..n).for_each(|k| rotate(&mut a, p * n + k, q * n + k));
                (0..n).for_each(|k| rotate(&mut v, k * n + p, k * n + q));
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].total_cmp(&a[j * n + j]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    (values, (0..n * n).map(|k| v[k / n * n + order[k % n]]).collect())
}
