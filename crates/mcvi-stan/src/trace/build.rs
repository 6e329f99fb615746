//! From a plan to an expression of the engine.

use super::Op;
use super::fetch::{Results, columns};
use super::linear::Linear;
use super::plan::{Group, Operand, Plan, Source};
use super::roll::{Loop, Step};
use super::solve::Solver;
use crate::math::get;
use mcvi_expr::{Array, DType, Expr, Graph};

/// The sum of the terms, `[rows]`, and the outputs, `[rows, n]` each; none for those without elements.
pub struct Built<'g> {
    pub sum: Expr<'g>,
    pub outputs: Vec<Option<Expr<'g>>>,
}

impl Plan {
    /// The numbers of the outputs at one point.
    pub fn outputs_at(&self, point: &[f64]) -> mcvi_expr::Result<Vec<Vec<f64>>> {
        let graph = Graph::new();
        let z = graph.input("z", DType::F64, [1, point.len()]);
        let outputs = self.build(z).outputs;
        let named = outputs.iter().enumerate().filter_map(|(i, o)| Some((i, (*o)?)));
        let program = named.fold(graph.program().threads(1), |p, (i, o)| p.output(&i.to_string(), o));
        let mut program = program.compile()?;
        if program.input_names().contains(&"z") {
            program.write("z", &Array::new([1, point.len()], point.to_vec())?)?;
        }
        program.run(1)?;
        let mut read = |i: usize| match outputs[i] {
            Some(_) => Ok(program.output(&i.to_string())?.to_f64()),
            None => Ok(vec![]),
        };
        (0..outputs.len()).map(&mut read).collect()
    }

    /// The expression for rows of unconstrained parameters, `[rows, dim]`.
    pub fn build<'g>(&self, z: Expr<'g>) -> Built<'g> {
        let rows = z.shape().dims().first().copied().unwrap_or(1);
        let mut results = Results { graph: z.graph(), rows, flat: vec![] };
        for step in &self.steps {
            match step {
                Step::Group(group) if group.op == Op::Input => results.flat.push(z),
                Step::Group(group) => {
                    let value = match group.op {
                        _ if let Some(linear) = &self.products[results.flat.len()] => results.linear(linear),
                        Op::Solve(number) => results.solve(group, &self.solvers[number as usize]),
                        _ => results.compute(group),
                    };
                    results.flat.push(value);
                }
                Step::Loop(found) => {
                    let rows = results.run(found);
                    results.flat.extend(rows);
                }
            }
        }
        let output = |o: &Vec<Source>| (!o.is_empty()).then(|| results.fetch(o).broadcast_to([rows, o.len()]));
        let outputs = self.outputs.iter().map(output).collect();
        Built { sum: results.sum(&self.terms), outputs }
    }
}

impl<'g> Results<'g> {
    /// What a group gives, `[rows, members · len]`.
    fn compute(&self, group: &Group) -> Expr<'g> {
        let (rows, members, len) = (self.rows, group.members, group.len);
        let value = match group.op {
            Op::Input | Op::Solve(_) => self.graph.full(DType::F64, [rows, members, len], f64::NAN),
            Op::Map(number) => {
                let operands: Vec<Expr<'g>> = group.operands.iter().map(|o| self.operand(o, members)).collect();
                (get(number).expr)(&operands)
            }
            Op::Sum | Op::Max | Op::Min | Op::LogSumExp => self.reduce(group),
            Op::CumulativeSum => self.operand(&group.operands[0], members).cumsum(2),
            Op::Product { rows, inner, cols } => self.product(group, rows as usize, inner as usize, cols as usize),
            Op::Cholesky(n) => self.matrix(&group.operands[0], members, n as usize, n as usize).cholesky(),
            Op::SolveLower { size, cols, transposed } => {
                let l = self.matrix(&group.operands[0], members, size as usize, size as usize);
                let b = self.matrix(&group.operands[1], members, size as usize, cols as usize);
                if transposed { l.solve_lower_t(b) } else { l.solve_lower(b) }
            }
        };
        let value = match value.shape().dims() {
            [.., _] if value.shape().size() == rows * members * len => value,
            _ => {
                let shape = value.shape();
                let own = shape.dims().get(2..).unwrap_or(&[]).to_vec();
                let own = if own.is_empty() { vec![len] } else { own };
                value.broadcast_to([&[rows, members][..], &own].concat())
            }
        };
        value.reshape([rows, members * len])
    }

    /// An operand as `[rows or 1, members or 1, length]`.
    fn operand(&self, operand: &Operand, members: usize) -> Expr<'g> {
        match operand {
            Operand::Shared(sources) => {
                if let Some([x]) = Self::numbers(sources).as_deref() {
                    return self.graph.scalar(DType::F64, *x);
                }
                let value = self.fetch(sources);
                let rows = value.shape().dims().first().copied().unwrap_or(1);
                value.reshape([rows, 1, sources.len()])
            }
            Operand::Each(sources) => {
                let value = self.fetch(sources);
                let rows = value.shape().dims().first().copied().unwrap_or(1);
                value.reshape([rows, members, sources.len() / members])
            }
        }
    }

    /// A product of what a linear predictor is made of with its matrix.
    fn linear(&self, linear: &Linear) -> Expr<'g> {
        let (bases, n) = (self.fetch(&linear.bases), linear.constant.len());
        let sum = bases.matmul(self.literal(&[linear.bases.len(), n], linear.matrix.clone()));
        match linear.constant.iter().all(|c| *c == 0.0) {
            true => sum,
            false => sum + self.literal(&[1, n], linear.constant.clone()),
        }
    }

    /// An operand as matrices, `[rows or 1, members or 1, rows, cols]`.
    fn matrix(&self, operand: &Operand, members: usize, rows: usize, cols: usize) -> Expr<'g> {
        let (sources, each) = match operand {
            Operand::Shared(sources) => (sources, 1),
            Operand::Each(sources) => (sources, members),
        };
        let value = self.fetch(sources);
        let batch = value.shape().dims().first().copied().unwrap_or(1);
        value.reshape([batch, each, rows, cols])
    }

    /// A recurrence: the values of the groups that are kept, `[rows, length · size]` each.
    fn run(&self, found: &Loop) -> Vec<Expr<'g>> {
        let (graph, rows, length) = (self.graph, self.rows, found.length);
        let row = |sources: &[Source]| self.fetch(sources).broadcast_to([rows, sources.len()]);
        // Rows of a body that has no use for them.
        let unused = graph.full(DType::F64, [rows, 1], f64::NAN);
        let shared = if found.shared.is_empty() { unused } else { row(&found.shared) };
        let first: Vec<Expr<'g>> = found.carries.iter().map(|(_, first)| row(first)).collect();
        let given = found.each.len() / length;
        let each = (given > 0).then(|| {
            let all = self.fetch(&found.each);
            let batch = all.shape().dims().first().copied().unwrap_or(1);
            all.reshape([batch, length, given]).permute(&[1, 0, 2])
        });
        let (_, kept) = graph.scan(length, &first, each.as_slice(), |carries, x| {
            let own = x.first().map_or(unused, |x| x.broadcast_to([rows, given]));
            let mut inner = Results { graph, rows, flat: vec![own, shared] };
            inner.flat.extend(carries);
            let start = inner.flat.len();
            for group in &found.body {
                let value = inner.compute(group);
                inner.flat.push(value);
            }
            let next = found.carries.iter().map(|(j, _)| inner.flat[start + j]).collect();
            (next, found.kept.iter().map(|j| inner.flat[start + j]).collect())
        });
        let flat = |(all, &j): (Expr<'g>, &usize)| {
            let size = found.body[j].members * found.body[j].len;
            all.permute(&[1, 0, 2]).reshape([rows, length * size])
        };
        kept.into_iter().zip(&found.kept).map(flat).collect()
    }

    /// Solutions of differential equations: members are rows of their own.
    fn solve(&self, group: &Group, solver: &Solver) -> Expr<'g> {
        let members = group.members;
        let rows = |operand: &Operand| {
            let value = self.operand(operand, members);
            let (Operand::Shared(sources) | Operand::Each(sources)) = operand;
            let size = if matches!(operand, Operand::Each(_)) { sources.len() / members } else { sources.len() };
            value.broadcast_to([self.rows, members, size]).reshape([self.rows * members, size])
        };
        let rest = match &group.operands[1] {
            Operand::Shared(sources) if sources.is_empty() => None,
            rest => Some(rows(rest)),
        };
        solver.solve(rows(&group.operands[0]), rest).reshape([self.rows, members * group.len])
    }

    fn reduce(&self, group: &Group) -> Expr<'g> {
        let operand = &group.operands[0];
        if let (Op::Sum, Operand::Shared(sources) | Operand::Each(sources), 1) = (group.op, operand, group.members) {
            return self.sum(sources).reshape([self.rows, 1, 1]);
        }
        let (Operand::Shared(sources) | Operand::Each(sources)) = operand;
        let members = if matches!(operand, Operand::Each(_)) { group.members } else { 1 };
        if let (Op::Sum, Some(terms)) = (group.op, columns(sources, members)) {
            let terms: Vec<Expr<'g>> = terms.iter().map(|term| self.fetch(term)).collect();
            let sum = terms.into_iter().reduce(|a, b| a + b);
            return sum.map_or(self.graph.scalar(DType::F64, 0.0), |sum| sum.expand(2));
        }
        let value = self.fetch(sources);
        let rows = value.shape().dims().first().copied().unwrap_or(1);
        let value = value.reshape([rows, members, sources.len() / members]);
        let value = match group.op {
            Op::Max => value.max_over(&[2]),
            Op::Min => -(-value).max_over(&[2]),
            Op::LogSumExp => value.logsumexp(&[2]),
            _ => value.sum(&[2]),
        };
        value.reshape([rows, members, 1])
    }

    /// Products of matrices. Where the left one is known and the right one shared, all are one tall product.
    fn product(&self, group: &Group, rows: usize, inner: usize, cols: usize) -> Expr<'g> {
        let (left, right) = (&group.operands[0], &group.operands[1]);
        let (Operand::Shared(sources) | Operand::Each(sources)) = left;
        if let (Some(numbers), Operand::Shared(shared), 1) = (Self::numbers(sources), right, cols) {
            let stacked = self.literal(&[numbers.len() / inner, inner], numbers);
            let right = self.fetch(shared);
            let members = if matches!(left, Operand::Each(_)) { group.members } else { 1 };
            return right.matmul(stacked.t()).reshape([self.rows, members, rows]);
        }
        let left_known = Self::numbers(sources);
        if let (Some(numbers), Operand::Shared(_)) = (left_known, left) {
            let matrix = self.literal(&[rows, inner], numbers);
            let right = self.matrix(right, group.members, inner, cols);
            if cols == 1 {
                let dims = right.shape();
                let at = |axis: usize| dims.dims().get(axis).copied().unwrap_or(1);
                let (batch, each) = (at(0), at(1));
                return right.reshape([batch, each, inner]).matmul(matrix.t()).reshape([batch, each, rows, 1]);
            }
            return matrix.matmul(right);
        }
        let left = self.matrix(left, group.members, rows, inner);
        let (Operand::Shared(known) | Operand::Each(known)) = right;
        if let (Some(numbers), Operand::Shared(_)) = (Self::numbers(known), right) {
            return left.matmul(self.literal(&[inner, cols], numbers));
        }
        left.matmul(self.matrix(right, group.members, inner, cols))
    }
}
