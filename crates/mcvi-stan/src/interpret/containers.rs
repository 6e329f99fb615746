//! Functions that make containers and take them apart; most only say which number comes where.

use super::expression::joined;
use super::{Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp};
use crate::trace::Flat;
use crate::value::{Selection, Value};

/// Known whole numbers as sizes or places.
fn sizes(arguments: &[Value], span: Span) -> Run<Vec<usize>> {
    let size = |v: &Value| match v.number() {
        Some(x) if x >= 0.0 => Ok(x as usize),
        Some(x) => fail(span, format!("a size cannot be {x}")),
        None => fail(span, "sizes and places cannot depend on parameters"),
    };
    arguments.iter().map(size).collect()
}

/// Consecutive places, within a size.
fn stretch(first: usize, count: usize, size: usize, span: Span) -> Run<Selection> {
    if first + count > size {
        return fail(span, format!("elements {} to {} of {size} do not exist", first + 1, first + count));
    }
    Ok(Selection::Many((first..first + count).collect()))
}

fn row_vector(flat: Flat) -> Value {
    Value { base: Base::RowVector, shape: vec![flat.len()], flat }
}

/// Numbers counted column by column where the value is a matrix.
fn column_major(a: &Value) -> Flat {
    if a.base != Base::Matrix {
        return a.flat.clone();
    }
    let (rows, cols) = a.extent();
    a.flat.gather(&(0..rows * cols).map(|k| (k % rows) * cols + k / rows).collect::<Vec<_>>())
}

/// A value repeated.
fn repeated(value: &Value, count: usize) -> Flat {
    let n = value.len();
    match value.numbers() {
        Some(numbers) => Flat::from_numbers(numbers.repeat(count)),
        None => Flat::from_cells((0..n * count).map(|k| value.flat.cell(k % n)).collect()),
    }
}

impl Machine<'_> {
    /// Functions of containers; none if the name is of none.
    pub fn containers(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        if let Some(value) = made(name, arguments, span)? {
            return Ok(Some(value));
        }
        let a = &arguments[0];
        let ints = |list: Vec<usize>| Value {
            base: Base::Int,
            shape: vec![list.len()],
            flat: Flat::Data(std::sync::Arc::new(list.iter().map(|n| *n as f64).collect())),
        };
        let int = |n: usize| Value::int(n as i64);
        Ok(Some(match name {
            "size" => int(match a.dimensions() {
                0 => a.len(),
                _ => a.shape[0],
            }),
            "num_elements" => int(a.len()),
            "rows" => int(a.extent().0),
            "cols" => int(a.extent().1),
            "dims" => ints(a.shape.clone()),
            "to_vector" => Value::vector(column_major(a)),
            "to_row_vector" => row_vector(column_major(a)),
            "to_array_1d" => {
                let flat = column_major(a);
                let base = if a.base == Base::Int { Base::Int } else { Base::Real };
                Value { base, shape: vec![flat.len()], flat }
            }
            "to_array_2d" => Value { base: Base::Real, ..a.clone() },
            "to_matrix" => to_matrix(arguments, span)?,
            "append_row" | "append_col" => append(name, a, &arguments[1], span)?,
            "append_array" => {
                let shape = std::iter::once(a.shape[0] + arguments[1].shape[0]);
                let inner = if a.shape[0] == 0 { &arguments[1].shape } else { &a.shape };
                let shape = shape.chain(inner[1..].iter().copied()).collect();
                Value { base: a.base, shape, flat: joined(arguments) }
            }
            "head" | "tail" | "segment" => {
                let n = sizes(&arguments[1..], span)?;
                let size = a.shape[0];
                let (first, count) = match name {
                    "head" => (0, n[0]),
                    "tail" => (size.saturating_sub(n[0]), n[0]),
                    _ => (n[0].saturating_sub(1), n[1]),
                };
                a.at(&[stretch(first, count, size, span)?])
            }
            "col" | "row" => {
                let n = sizes(&arguments[1..], span)?[0];
                let size = if name == "col" { a.extent().1 } else { a.extent().0 };
                if n < 1 || n > size {
                    return fail(span, format!("index {n} is outside 1 to {size}"));
                }
                match name {
                    "col" => a.at(&[Selection::All, Selection::One(n - 1)]),
                    _ => a.at(&[Selection::One(n - 1)]),
                }
            }
            "sub_col" | "sub_row" | "block" => {
                let n = sizes(&arguments[1..], span)?;
                let (rows, cols) = a.extent();
                let (i, j) = (n[0].saturating_sub(1), n[1].saturating_sub(1));
                match name {
                    "sub_col" => a.at(&[stretch(i, n[2], rows, span)?, Selection::One(j)]),
                    "sub_row" => a.at(&[Selection::One(i), stretch(j, n[2], cols, span)?]),
                    _ => a.at(&[stretch(i, n[2], rows, span)?, stretch(j, n[3], cols, span)?]),
                }
            }
            "reverse" => a.at(&[Selection::Many((0..a.shape[0]).rev().collect())]),
            "sort_asc" | "sort_desc" | "sort_indices_asc" | "sort_indices_desc" => sorted(name, a, span)?,
            "rows_dot_product" | "columns_dot_product" | "rows_dot_self" | "columns_dot_self" => {
                let b = arguments.get(1).unwrap_or(a);
                let products = self.binary(BinaryOp::ElementMultiply, a, b, span)?;
                let (rows, cols) = a.extent();
                let by_row = name.starts_with("rows");
                let (count, other) = if by_row { (rows, cols) } else { (cols, rows) };
                let mut sums = vec![];
                for i in 0..count {
                    let places: Vec<usize> =
                        (0..other).map(|k| if by_row { i * cols + k } else { k * cols + i }).collect();
                    let line = Value::vector(products.flat.gather(&places));
                    sums.push(self.sum(&line));
                }
                let flat = joined(&sums);
                if by_row { Value::vector(flat) } else { row_vector(flat) }
            }
            "gp_exp_quad_cov" | "cov_exp_quad" | "gp_matern32_cov" | "gp_matern52_cov" | "gp_exponential_cov" => {
                self.kernel(name, arguments, span)?
            }
            "csr_matrix_times_vector" => self.sparse_product(arguments, span)?,
            _ => return Ok(None),
        }))
    }

    /// A covariance matrix of points by their distances.
    fn kernel(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Value> {
        let (x, y, alpha, rho) = match arguments {
            [x, alpha, rho] => (x, x, alpha, rho),
            [x, y, alpha, rho] => (x, y, alpha, rho),
            _ => return fail(span, format!("`{name}` takes three or four arguments")),
        };
        let (n, m) = (x.shape[0], y.shape[0]);
        if n * m == 0 {
            return Ok(Value::matrix(n, m, Flat::from_numbers(vec![])));
        }
        let size = x.len() / n;
        let mut squares: Option<Value> = None;
        for d in 0..size {
            let left: Vec<usize> = (0..n * m).map(|k| k / m * size + d).collect();
            let right: Vec<usize> = (0..n * m).map(|k| k % m * size + d).collect();
            let (left, right) = (Value::vector(x.flat.gather(&left)), Value::vector(y.flat.gather(&right)));
            let mut difference = self.binary(BinaryOp::Subtract, &left, &right, span)?;
            if !rho.is_scalar() {
                let scale = Value::scalar(rho.flat.part(d, 1));
                difference = self.binary(BinaryOp::Divide, &difference, &scale, span)?;
            }
            let square = self.map_named("square", &[difference], span)?;
            squares = Some(match squares {
                Some(sum) => self.binary(BinaryOp::Add, &sum, &square, span)?,
                None => square,
            });
        }
        let mut squares = squares.unwrap_or_else(|| Value::vector(Flat::from_numbers(vec![0.0; n * m])));
        if rho.is_scalar() {
            let scale = self.map_named("square", std::slice::from_ref(rho), span)?;
            squares = self.binary(BinaryOp::Divide, &squares, &scale, span)?;
        }
        let factor = match name {
            "gp_exp_quad_cov" | "cov_exp_quad" => {
                let half = self.binary(BinaryOp::Multiply, &squares, &Value::real(-0.5), span)?;
                self.map_named("exp", &[half], span)?
            }
            _ => {
                let nu: f64 = match name {
                    "gp_matern32_cov" => 3.0,
                    "gp_matern52_cov" => 5.0,
                    _ => 1.0,
                };
                let distance = self.map_named("sqrt", std::slice::from_ref(&squares), span)?;
                let scaled = self.binary(BinaryOp::Multiply, &distance, &Value::real(nu.sqrt()), span)?;
                let minus = self.binary(BinaryOp::Multiply, &scaled, &Value::real(-1.0), span)?;
                let decay = self.map_named("exp", &[minus], span)?;
                let mut polynomial = self.binary(BinaryOp::Add, &scaled, &Value::real(1.0), span)?;
                if name == "gp_matern52_cov" {
                    let third = self.binary(BinaryOp::Multiply, &squares, &Value::real(5.0 / 3.0), span)?;
                    polynomial = self.binary(BinaryOp::Add, &polynomial, &third, span)?;
                }
                if name == "gp_exponential_cov" {
                    decay
                } else {
                    self.binary(BinaryOp::ElementMultiply, &polynomial, &decay, span)?
                }
            }
        };
        let variance = self.map_named("square", std::slice::from_ref(alpha), span)?;
        let covariance = self.binary(BinaryOp::Multiply, &factor, &variance, span)?;
        Ok(Value::matrix(n, m, covariance.flat))
    }

    /// A sparse matrix, known by rows, times a vector.
    fn sparse_product(&mut self, arguments: &[Value], span: Span) -> Run<Value> {
        let [m, _, w, v, u, b] = arguments else { return fail(span, "a sparse product takes six arguments") };
        let rows = sizes(std::slice::from_ref(m), span)?[0];
        let (Some(v), Some(u)) = (v.numbers(), u.numbers()) else {
            return fail(span, "the places of a sparse matrix cannot depend on parameters");
        };
        let columns: Vec<usize> = v.iter().map(|c| *c as usize - 1).collect();
        let factors = Value::vector(b.flat.gather(&columns));
        let starts: Vec<usize> = u.iter().map(|s| *s as usize - 1).collect();
        let products = self.binary(BinaryOp::ElementMultiply, w, &factors, span)?;
        let mut sums = vec![];
        for i in 0..rows {
            let line = Value::vector(products.flat.part(starts[i], starts[i + 1] - starts[i]));
            sums.push(if line.len() == 0 { Value::real(0.0) } else { self.sum(&line) });
        }
        Ok(Value::vector(joined(&sums)))
    }
}

/// Functions that make a container from sizes.
fn made(name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
    let a = &arguments[0];
    let filled = |x: f64| -> Run<Flat> { Ok(Flat::Data(std::sync::Arc::new(vec![x; sizes(arguments, span)?[0]]))) };
    let array = |base: Base, flat: Flat| Value { base, shape: vec![flat.len()], flat };
    let fill = if name.starts_with("ones_") { 1.0 } else { 0.0 };
    Ok(Some(match name {
        "rep_vector" => Value::vector(repeated(a, sizes(&arguments[1..], span)?[0])),
        "rep_row_vector" => row_vector(repeated(a, sizes(&arguments[1..], span)?[0])),
        "rep_matrix" => {
            let n = sizes(&arguments[1..], span)?;
            match (a.base, n.as_slice()) {
                (Base::Vector, [cols]) => {
                    let places: Vec<usize> = (0..a.len() * cols).map(|k| k / cols).collect();
                    Value::matrix(a.len(), *cols, a.flat.gather(&places))
                }
                (Base::RowVector, [rows]) => Value::matrix(*rows, a.len(), repeated(a, *rows)),
                (_, [rows, cols]) => Value::matrix(*rows, *cols, repeated(a, rows * cols)),
                _ => return fail(span, "`rep_matrix` takes two or three arguments"),
            }
        }
        "rep_array" => {
            let n = sizes(&arguments[1..], span)?;
            let flat = repeated(a, n.iter().product());
            Value { base: a.base, shape: [n, a.shape.clone()].concat(), flat }
        }
        "zeros_vector" | "ones_vector" => Value::vector(filled(fill)?),
        "zeros_row_vector" | "ones_row_vector" => row_vector(filled(fill)?),
        "zeros_array" | "ones_array" => array(Base::Real, filled(fill)?),
        "zeros_int_array" | "ones_int_array" => array(Base::Int, filled(fill)?),
        "linspaced_vector" | "linspaced_row_vector" | "linspaced_array" | "linspaced_int_array" => {
            let n = sizes(&arguments[..1], span)?[0];
            let (Some(low), Some(high)) = (arguments[1].number(), arguments[2].number()) else {
                return fail(span, "the ends cannot depend on parameters");
            };
            let step = (high - low) / (n.max(2) - 1) as f64;
            let numbers = (0..n).map(|i| if n == 1 || i == n - 1 { high } else { low + step * i as f64 }).collect();
            let flat = Flat::Data(std::sync::Arc::new(numbers));
            match name {
                "linspaced_vector" => Value::vector(flat),
                "linspaced_row_vector" => row_vector(flat),
                "linspaced_array" => array(Base::Real, flat),
                _ => array(Base::Int, flat),
            }
        }
        "one_hot_vector" | "one_hot_row_vector" | "one_hot_array" | "one_hot_int_array" => {
            let n = sizes(arguments, span)?;
            let flat = Flat::Data(std::sync::Arc::new((1..=n[0]).map(|i| f64::from(u8::from(i == n[1]))).collect()));
            match name {
                "one_hot_vector" => Value::vector(flat),
                "one_hot_row_vector" => row_vector(flat),
                "one_hot_array" => array(Base::Real, flat),
                _ => array(Base::Int, flat),
            }
        }
        _ => return Ok(None),
    }))
}

fn to_matrix(arguments: &[Value], span: Span) -> Run<Value> {
    let a = &arguments[0];
    let (rows, cols, by_columns) = match arguments {
        [a] => match (a.base, a.dimensions()) {
            (Base::Vector, 0) => return Ok(Value::matrix(a.len(), 1, a.flat.clone())),
            (Base::RowVector, 0) => return Ok(Value::matrix(1, a.len(), a.flat.clone())),
            (Base::Matrix, 0) => return Ok(a.clone()),
            _ => return Ok(Value::matrix(a.shape[0], a.shape.get(1).copied().unwrap_or(0), a.flat.clone())),
        },
        [_, m, n] => {
            let n = sizes(&[m.clone(), n.clone()], span)?;
            (n[0], n[1], true)
        }
        [_, m, n, c] => {
            let s = sizes(&[m.clone(), n.clone(), c.clone()], span)?;
            (s[0], s[1], s[2] != 0)
        }
        _ => return fail(span, "`to_matrix` takes one to four arguments"),
    };
    if rows * cols != a.len() {
        return fail(span, format!("{} numbers do not fill a {rows} x {cols} matrix", a.len()));
    }
    let flat = column_major(a);
    if !by_columns {
        return Ok(Value::matrix(rows, cols, flat));
    }
    let places: Vec<usize> = (0..rows * cols).map(|k| (k % cols) * rows + k / cols).collect();
    Ok(Value::matrix(rows, cols, flat.gather(&places)))
}

fn append(name: &str, a: &Value, b: &Value, span: Span) -> Run<Value> {
    let vector = |v: &Value| matches!(v.base, Base::Int | Base::Real | Base::Vector);
    let row = |v: &Value| matches!(v.base, Base::Int | Base::Real | Base::RowVector);
    let both = [a.clone(), b.clone()];
    if name == "append_row" && vector(a) && vector(b) {
        return Ok(Value::vector(joined(&both)));
    }
    if name == "append_col" && row(a) && row(b) {
        return Ok(row_vector(joined(&both)));
    }
    let ((ra, ca), (rb, cb)) = (a.extent(), b.extent());
    if name == "append_row" {
        if ca != cb {
            return fail(span, format!("{ca} and {cb} columns cannot be put below each other"));
        }
        return Ok(Value::matrix(ra + rb, ca, joined(&both)));
    }
    if ra != rb {
        return fail(span, format!("{ra} and {rb} rows cannot be put side by side"));
    }
    let all = joined(&both);
    let places: Vec<usize> = (0..ra)
        .flat_map(|i| (0..ca).map(move |j| i * ca + j).chain((0..cb).map(move |j| ra * ca + i * cb + j)))
        .collect();
    Ok(Value::matrix(ra, ca + cb, all.gather(&places)))
}

fn sorted(name: &str, a: &Value, span: Span) -> Run<Value> {
    let Some(numbers) = a.numbers() else { return fail(span, format!("`{name}` of parameters is not supported")) };
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&i, &j| numbers[i].total_cmp(&numbers[j]));
    if name.ends_with("_desc") {
        order.sort_by(|&i, &j| numbers[j].total_cmp(&numbers[i]));
    }
    if name.starts_with("sort_indices") {
        let flat = Flat::Data(std::sync::Arc::new(order.iter().map(|i| (i + 1) as f64).collect()));
        return Ok(Value { base: Base::Int, shape: vec![order.len()], flat });
    }
    Ok(Value { flat: a.flat.gather(&order), ..a.clone() })
}
