//! From a program to an expression. Values that depend on the point have a first axis of rows; literals have not.

use super::{How, Loop, Op, Program, Step};
use mcvi_expr::{Array, DType, Error, Expr, Graph, Result};
use std::collections::HashMap;

/// A value, and whether its first axis is that of rows.
#[derive(Clone, Copy)]
struct Value<'g> {
    expr: Expr<'g>,
    by_row: bool,
}

struct Builder<'p, 'g> {
    program: &'p Program,
    graph: &'g Graph,
    rows: usize,
    values: HashMap<usize, Value<'g>>,
}

pub fn build<'g>(program: &Program, z: Expr<'g>) -> Result<Expr<'g>> {
    let rows = z.shape().dims().first().copied().unwrap_or(1);
    let mut builder = Builder { program, graph: z.graph(), rows, values: HashMap::new() };
    builder.set(program.point, z);
    builder.run(&program.steps)?;
    builder.rows_of(program.result)
}

/// Element by element from the end of an axis to its beginning.
fn flipped(x: Expr<'_>, axis: usize) -> Result<Expr<'_>> {
    let n = x.shape().dims()[axis];
    let backwards: Vec<i32> = (0..n as i32).rev().collect();
    Ok(x.take(axis, x.graph().literal(Array::new([n], backwards)?)))
}

fn combined<'g>(how: How, a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    match how {
        How::Sum => a + b,
        How::Product => a * b,
        How::Max => a.max(b),
        How::Min => a.min(b),
        How::Logsumexp => super::functions::logaddexp(a, b),
    }
}

impl<'g> Builder<'_, 'g> {
    fn set(&mut self, name: usize, expr: Expr<'g>) {
        self.values.insert(name, Value { expr, by_row: true });
    }

    fn get(&self, name: usize) -> Result<Value<'g>> {
        let unknown = || Error::Setting { what: "program", why: format!("nothing is called {name}") };
        self.values.get(&name).copied().ok_or_else(unknown)
    }

    /// A shape with the axis of rows before it.
    fn rowed(&self, shape: &[usize]) -> Vec<usize> {
        [&[self.rows], shape].concat()
    }

    /// A value with an axis of rows.
    fn rows_of(&self, name: usize) -> Result<Expr<'g>> {
        let Value { expr, by_row } = self.get(name)?;
        Ok(if by_row { expr } else { expr.broadcast_to(self.rowed(expr.shape().dims())) })
    }

    /// The shape of a value at one point.
    fn shape(&self, name: usize) -> Result<Vec<usize>> {
        let Value { expr, by_row } = self.get(name)?;
        Ok(expr.shape().dims().get(usize::from(by_row)..).unwrap_or_default().to_vec())
    }

    fn run(&mut self, steps: &[Step]) -> Result<()> {
        for Step { to, op } in steps {
            match op {
                Op::Literal { array } => {
                    let value = Value { expr: self.literal(*array)?, by_row: false };
                    self.values.insert(*to, value);
                }
                Op::Scan(scan) => self.scan(scan)?,
                op => {
                    let value = self.compute(op)?;
                    value.error().map_or(Ok(()), Err)?;
                    self.set(*to, value);
                }
            }
        }
        Ok(())
    }

    fn literal(&self, number: usize) -> Result<Expr<'g>> {
        let unknown = || Error::Setting { what: "program", why: format!("there is no array {number}") };
        let array = self.program.arrays.get(number).ok_or_else(unknown)?;
        Ok(match array.as_slice::<f64>() {
            Some([x, rest @ ..]) if rest.iter().all(|y| y.to_bits() == x.to_bits()) => {
                self.graph.full(DType::F64, array.shape(), *x)
            }
            _ => self.graph.literal(array.clone()),
        })
    }

    fn compute(&mut self, op: &Op) -> Result<Expr<'g>> {
        Ok(match op {
            Op::Literal { .. } | Op::Scan(_) => unreachable!("`run` takes these"),
            Op::Map { function, of, shape } if function.operands == of.len() => {
                let operands = of.iter().map(|&x| self.aligned(x, shape.len())).collect::<Result<Vec<_>>>()?;
                // Simplifications may have left a number.
                (function.apply)(&operands).broadcast_to(self.rowed(shape))
            }
            Op::Map { function, of, .. } => {
                let why = format!("{} has {} operands, not {}", function.name, function.operands, of.len());
                return Err(Error::Setting { what: "program", why });
            }
            Op::Polygamma { of, order } => self.rows_of(*of)?.polygamma(*order),
            Op::Reshape { of, shape } => self.rows_of(*of)?.reshape(self.rowed(shape)),
            Op::Broadcast { of, shape, axes } => {
                let own = self.shape(*of)?;
                let mut dims = vec![1; shape.len()];
                axes.iter().zip(&own).for_each(|(&axis, &n)| dims[axis] = n);
                self.rows_of(*of)?.reshape(self.rowed(&dims)).broadcast_to(self.rowed(shape))
            }
            Op::Permute { of, order } => {
                let order: Vec<usize> = std::iter::once(0).chain(order.iter().map(|axis| axis + 1)).collect();
                self.rows_of(*of)?.permute(&order)
            }
            Op::Slice { of, start, limit, step } => {
                let mut x = self.rows_of(*of)?;
                for (axis, ((&start, &limit), &step)) in start.iter().zip(limit).zip(step).enumerate() {
                    x = x.slice_step(axis + 1, start..limit, step);
                }
                x
            }
            Op::Concat { of, axis } => {
                let parts = of.iter().map(|&x| self.rows_of(x)).collect::<Result<Vec<_>>>()?;
                self.graph.concat(&parts, axis + 1)
            }
            Op::Take { of, index, shape } => {
                let x = self.rows_of(*of)?;
                let flat = x.reshape([self.rows, x.shape().size() / self.rows]);
                flat.take(1, self.get(*index)?.expr).reshape(self.rowed(shape))
            }
            Op::Scatter { of, index, shape } => {
                let x = self.rows_of(*of)?;
                let flat = x.reshape([self.rows, x.shape().size() / self.rows]).t();
                flat.scatter_add(self.get(*index)?.expr, shape.iter().product()).t().reshape(self.rowed(shape))
            }
            Op::Reduce { of, how, axes } => {
                let axes: Vec<usize> = axes.iter().map(|axis| axis + 1).collect();
                self.reduce(self.rows_of(*of)?, *how, axes)
            }
            Op::Cumulate { of, how, axis, reverse } => {
                let (x, axis) = (self.rows_of(*of)?, axis + 1);
                let x = if *reverse { flipped(x, axis)? } else { x };
                let sums = if *how == How::Sum { x.cumsum(axis) } else { self.cumulated(x, *how, axis) };
                if *reverse { flipped(sums, axis)? } else { sums }
            }
            Op::Dot { of, contract, batch } => self.dot(*of, contract, batch)?,
            Op::Cholesky { of } => self.rows_of(*of)?.cholesky(),
            Op::Solve { of, lower, transpose } => {
                let (a, b) = (self.matrix(of[0])?, self.rows_of(of[1])?);
                match (lower, transpose) {
                    (true, false) => a.solve_lower(b),
                    (true, true) => a.solve_lower_t(b),
                    (false, false) => a.solve_upper(b),
                    (false, true) => a.t().solve_lower(b),
                }
            }
        })
    }

    /// A value beside others that have so many axes: numbers have fewer.
    fn aligned(&self, name: usize, rank: usize) -> Result<Expr<'g>> {
        let Value { expr, by_row } = self.get(name)?;
        let mut dims = expr.shape().dims().to_vec();
        if !by_row || dims.len() > rank {
            return Ok(expr);
        }
        dims.splice(1..1, std::iter::repeat_n(1, rank + 1 - dims.len()));
        Ok(expr.reshape(dims))
    }

    /// A matrix that is not repeated for rows if it is the same for all.
    fn matrix(&self, name: usize) -> Result<Expr<'g>> {
        let Value { expr, by_row } = self.get(name)?;
        Ok(if by_row { expr } else { expr.expand(0) })
    }

    fn reduce(&self, x: Expr<'g>, how: How, mut axes: Vec<usize>) -> Expr<'g> {
        match how {
            How::Sum => x.sum(&axes),
            How::Max => x.max_over(&axes),
            How::Min => -(-x).max_over(&axes),
            How::Logsumexp => x.logsumexp(&axes),
            How::Product => {
                axes.sort_unstable();
                axes.iter().rev().fold(x, |x, &axis| self.product(x, axis))
            }
        }
    }

    /// The product along an axis, by halves: without quotients, so that zeros do no harm.
    fn product(&self, mut x: Expr<'g>, axis: usize) -> Expr<'g> {
        loop {
            let n = x.shape().dims()[axis];
            if n == 1 || x.error().is_some() {
                return x.at(axis, 0);
            }
            let half = n / 2;
            let pairs = x.slice(axis, 0..half) * x.slice(axis, half..2 * half);
            x = if n.is_multiple_of(2) { pairs } else { self.graph.concat(&[pairs, x.slice(axis, n - 1..n)], axis) };
        }
    }

    /// Running totals along an axis: what lies one, two, four, … places before is added.
    fn cumulated(&self, mut x: Expr<'g>, how: How, axis: usize) -> Expr<'g> {
        let n = x.shape().dims()[axis];
        let mut distance = 1;
        while distance < n {
            let later = combined(how, x.slice(axis, distance..n), x.slice(axis, 0..n - distance));
            x = self.graph.concat(&[x.slice(axis, 0..distance), later], axis);
            distance *= 2;
        }
        x
    }

    /// Products of all elements along free axes, summed over the axes that are contracted, for each element along batch axes.
    fn dot(&self, of: [usize; 2], contract: &[Vec<usize>; 2], batch: &[Vec<usize>; 2]) -> Result<Expr<'g>> {
        let shapes = [self.shape(of[0])?, self.shape(of[1])?];
        let free = |side: usize| -> Vec<usize> {
            let taken = |axis: &usize| contract[side].contains(axis) || batch[side].contains(axis);
            (0..shapes[side].len()).filter(|axis| !taken(axis)).collect()
        };
        let extent = |side: usize, axes: &[usize]| -> Vec<usize> { axes.iter().map(|&a| shapes[side][a]).collect() };
        let size = |side: usize, axes: &[usize]| -> usize { extent(side, axes).iter().product() };
        let (left, right) = (free(0), free(1));
        let (m, n, k) = (size(0, &left), size(1, &right), size(0, &contract[0]));
        let lead = extent(0, &batch[0]);
        let out = self.rowed(&[lead.clone(), extent(0, &left), extent(1, &right)].concat());
        // Every operand as matrices: batch axes, then those named, the last ones flat.
        let matrices = |side: usize, first: &[usize], second: &[usize]| -> Result<Expr<'g>> {
            let Value { expr, by_row } = self.get(of[side])?;
            let shift = usize::from(by_row);
            let own = batch[side].iter().chain(first).chain(second).map(|axis| axis + shift);
            let order: Vec<usize> = (0..shift).chain(own).collect();
            let rows = if by_row { vec![self.rows] } else { vec![] };
            Ok(expr.permute(&order).reshape([&rows[..], &lead, &[size(side, first), size(side, second)]].concat()))
        };
        let by_row = [self.get(of[0])?.by_row, self.get(of[1])?.by_row];
        if k == 1 || (m == 1 && n == 1) {
            // Products of elements, or their sum.
            let a = matrices(0, &left, &contract[0])?;
            let b = matrices(1, &right, &contract[1])?;
            let products = if m == 1 && n == 1 { a * b } else { a * b.t() };
            let axis = products.shape().rank() - 1;
            let sum = if m == 1 && n == 1 { products.sum(&[axis]) } else { products };
            return Ok(sum.reshape(out));
        }
        Ok(match by_row {
            // What is the same for all rows stands on the right, so that all are one tall product.
            [false, true] => {
                let a = matrices(0, &contract[0], &left)?;
                let b = matrices(1, &right, &contract[1])?;
                b.matmul(a).t().reshape(out)
            }
            _ => {
                let a = matrices(0, &left, &contract[0])?;
                let b = matrices(1, &contract[1], &right)?;
                a.matmul(b).reshape(out)
            }
        })
    }

    fn scan(&mut self, scan: &Loop) -> Result<()> {
        let backwards = |x: Expr<'g>| if scan.reverse { flipped(x, 0) } else { Ok(x) };
        let first = scan.carries.iter().map(|c| self.rows_of(c.first)).collect::<Result<Vec<_>>>()?;
        let mut by_row = vec![];
        let mut elements = vec![];
        for element in &scan.elements {
            let value = self.get(element.of)?;
            by_row.push(value.by_row);
            // The axis of iterations before that of rows.
            let mut order: Vec<usize> = (0..value.expr.shape().rank()).collect();
            if value.by_row && order.len() > 1 {
                order.swap(0, 1);
            }
            elements.push(backwards(value.expr.permute(&order))?);
        }
        let outside = self.values.clone();
        let mut failed = None;
        let (last, kept) = self.graph.scan(scan.length, &first, &elements, |carries, elements| {
            for (carry, &expr) in scan.carries.iter().zip(carries) {
                self.set(carry.inner, expr);
            }
            for ((element, &expr), &by_row) in scan.elements.iter().zip(elements).zip(&by_row) {
                self.values.insert(element.inner, Value { expr, by_row });
            }
            let built = self.run(&scan.body).and_then(|()| {
                let next = scan.carries.iter().map(|c| self.rows_of(c.next)).collect::<Result<Vec<_>>>()?;
                let kept = scan.kept.iter().map(|k| self.rows_of(k.inner)).collect::<Result<Vec<_>>>()?;
                Ok((next, kept))
            });
            built.unwrap_or_else(|error| {
                failed = Some(error);
                (carries.to_vec(), vec![])
            })
        });
        if let Some(error) = failed.or_else(|| last.iter().chain(&kept).find_map(|e| e.error())) {
            return Err(error);
        }
        self.values = outside;
        for (carry, expr) in scan.carries.iter().zip(last) {
            self.set(carry.last, expr);
        }
        for (kept, expr) in scan.kept.iter().zip(kept) {
            let mut order: Vec<usize> = (0..expr.shape().rank()).collect();
            order.swap(0, 1);
            self.set(kept.to, backwards(expr)?.permute(&order));
        }
        Ok(())
    }
}
