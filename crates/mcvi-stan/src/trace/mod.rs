//! What a program computes from its parameters, written down operation by operation as it is interpreted.
//!
//! Loops are unrolled and branches on data taken, so that a trace is a plain list of operations on numbers and arrays of
//! numbers. [`plan`](plan::Plan) then finds operations that are alike and independent, such as those of the iterations of
//! a loop, and makes each set of them one operation of the engine.

mod build;
mod fetch;
mod linear;
pub mod plan;
mod roll;
pub mod solve;

use crate::math::find;
use solve::Solver;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// An operation of a trace, by its number.
pub type NodeId = u32;

/// Most operations that a trace may have.
pub const LIMIT: usize = 20_000_000;

/// A number: known, or an element of what an operation gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    Number(f64),
    Element(NodeId, u32),
}

/// Numbers in a row, by where they come from.
#[derive(Clone, Debug)]
pub enum Flat {
    Number(f64),
    Data(Arc<Vec<f64>>),
    /// Elements of what one operation gives, without gaps.
    Part {
        node: NodeId,
        start: u32,
        len: u32,
    },
    Cells(Arc<Vec<Cell>>),
}

impl Flat {
    pub fn len(&self) -> usize {
        match self {
            Flat::Number(_) => 1,
            Flat::Data(list) => list.len(),
            Flat::Part { len, .. } => *len as usize,
            Flat::Cells(list) => list.len(),
        }
    }

    pub fn cell(&self, i: usize) -> Cell {
        match self {
            Flat::Number(x) => Cell::Number(*x),
            Flat::Data(list) => Cell::Number(list[i]),
            Flat::Part { node, start, .. } => Cell::Element(*node, start + i as u32),
            Flat::Cells(list) => list[i],
        }
    }

    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        (0..self.len()).map(|i| self.cell(i))
    }

    /// The numbers, if all are known.
    pub fn numbers(&self) -> Option<&[f64]> {
        match self {
            Flat::Number(x) => Some(std::slice::from_ref(x)),
            Flat::Data(list) => Some(list),
            _ => None,
        }
    }

    /// A stretch of this.
    pub fn part(&self, first: usize, count: usize) -> Flat {
        match self {
            _ if count == 0 => Flat::from_numbers(vec![]),
            Flat::Number(x) => Flat::Number(*x),
            Flat::Data(list) => Flat::from_numbers(list[first..first + count].to_vec()),
            Flat::Part { node, start, .. } => {
                Flat::Part { node: *node, start: start + first as u32, len: count as u32 }
            }
            Flat::Cells(list) => Flat::from_cells(list[first..first + count].to_vec()),
        }
    }

    /// The numbers at some places.
    pub fn gather(&self, places: &[usize]) -> Flat {
        match self.numbers() {
            Some(numbers) => Flat::from_numbers(places.iter().map(|&i| numbers[i]).collect()),
            None => Flat::from_cells(places.iter().map(|&i| self.cell(i)).collect()),
        }
    }

    pub fn from_numbers(numbers: Vec<f64>) -> Flat {
        match numbers.as_slice() {
            [x] => Flat::Number(*x),
            _ => Flat::Data(Arc::new(numbers)),
        }
    }

    /// In the simplest form there is for these.
    pub fn from_cells(cells: Vec<Cell>) -> Flat {
        let Some(Cell::Element(node, start)) = cells.first().copied() else {
            let known: Option<Vec<f64>> = cells
                .iter()
                .map(|c| match c {
                    Cell::Number(x) => Some(*x),
                    Cell::Element(..) => None,
                })
                .collect();
            return known.map_or_else(|| Flat::Cells(Arc::new(cells)), Flat::from_numbers);
        };
        let in_a_row = (start..).zip(&cells).all(|(i, c)| *c == Cell::Element(node, i));
        if in_a_row { Flat::Part { node, start, len: cells.len() as u32 } } else { Flat::Cells(Arc::new(cells)) }
    }

    /// Replaces one number.
    pub fn set(&mut self, i: usize, cell: Cell) {
        if let (Flat::Data(list), Cell::Number(x)) = (&mut *self, cell) {
            Arc::make_mut(list)[i] = x;
            return;
        }
        if self.len() == 1 {
            *self = Flat::from_cells(vec![cell]);
            return;
        }
        if !matches!(self, Flat::Cells(_)) {
            *self = Flat::Cells(Arc::new(self.cells().collect()));
        }
        if let Flat::Cells(list) = self {
            Arc::make_mut(list)[i] = cell;
        }
    }

    /// Whether both are the same numbers from the same place.
    pub fn is_same(&self, other: &Flat) -> bool {
        let bits = |c: Cell| match c {
            Cell::Number(x) => (u32::MAX, 0, x.to_bits()),
            Cell::Element(node, i) => (node, i, 0),
        };
        self.len() == other.len() && self.cells().zip(other.cells()).all(|(a, b)| bits(a) == bits(b))
    }
}

/// What an operation does with its operands. A matrix is written row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The parameters, unconstrained.
    Input,
    /// A function of the table, element by element; operands of one element serve all.
    Map(u16),
    Sum,
    Max,
    Min,
    LogSumExp,
    CumulativeSum,
    /// The product of two matrices.
    Product {
        rows: u32,
        inner: u32,
        cols: u32,
    },
    /// The Cholesky factor of a square matrix.
    Cholesky(u32),
    /// X with L X = B for a lower triangle L, or with its transpose.
    SolveLower {
        size: u32,
        cols: u32,
        transposed: bool,
    },
    /// The solution of a system of differential equations, by its number: from its start, and what else it depends on.
    Solve(u32),
}

/// An operation with its operands.
#[derive(Clone, Debug)]
pub struct Node {
    pub op: Op,
    /// Numbers that it gives.
    pub len: u32,
    /// The statement it comes from.
    pub site: u32,
    first: u32,
    count: u32,
}

/// All operations, in the order interpreted.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub nodes: Vec<Node>,
    operands: Vec<Flat>,
    known: HashMap<u64, NodeId>,
    pub solvers: Vec<Arc<Solver>>,
    /// The statement that is being interpreted, as a number: operations of different statements are kept apart.
    pub site: u32,
}

impl Trace {
    /// A trace whose input is this number of unconstrained parameters.
    pub fn new(parameters: usize) -> Self {
        let mut trace = Trace::default();
        trace.push(Op::Input, &[], parameters);
        trace
    }

    pub fn operands(&self, node: NodeId) -> &[Flat] {
        let node = &self.nodes[node as usize];
        &self.operands[node.first as usize..(node.first + node.count) as usize]
    }

    /// Adds a system of differential equations.
    pub fn add_solver(&mut self, solver: Arc<Solver>) -> u32 {
        self.solvers.push(solver);
        self.solvers.len() as u32 - 1
    }

    pub fn is_full(&self) -> bool {
        self.nodes.len() > LIMIT
    }

    /// Notes an operation that gives `len` numbers. The same one twice is one.
    pub fn push(&mut self, op: Op, operands: &[Flat], len: usize) -> Flat {
        let key = digest(op, operands);
        if let Some(key) = key
            && let Some(&node) = self.known.get(&key)
            && self.is_same(node, op, operands)
        {
            return Flat::Part { node, start: 0, len: len as u32 };
        }
        let node = self.nodes.len() as NodeId;
        let first = self.operands.len() as u32;
        self.operands.extend_from_slice(operands);
        self.nodes.push(Node { op, len: len as u32, site: self.site, first, count: operands.len() as u32 });
        if let Some(key) = key {
            self.known.insert(key, node);
        }
        Flat::Part { node, start: 0, len: len as u32 }
    }

    fn is_same(&self, node: NodeId, op: Op, operands: &[Flat]) -> bool {
        let others = self.operands(node);
        self.nodes[node as usize].op == op
            && others.len() == operands.len()
            && others.iter().zip(operands).all(|(a, b)| match (a, b) {
                (Flat::Data(a), Flat::Data(b)) => Arc::ptr_eq(a, b),
                (Flat::Number(a), Flat::Number(b)) => a.to_bits() == b.to_bits(),
                (Flat::Part { .. }, Flat::Part { .. }) => a.is_same(b),
                _ => false,
            })
    }
}

/// A digest of an operation, unless comparing its operands would take long.
fn digest(op: Op, operands: &[Flat]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    op.hash(&mut hasher);
    for operand in operands {
        match operand {
            Flat::Number(x) => (0, x.to_bits()).hash(&mut hasher),
            Flat::Data(list) => (1, Arc::as_ptr(list) as usize).hash(&mut hasher),
            Flat::Part { node, start, len } => (2, node, start, len).hash(&mut hasher),
            Flat::Cells(_) => return None,
        }
    }
    Some(hasher.finish())
}
