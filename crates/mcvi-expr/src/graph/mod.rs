//! The graph: immutable nodes, hash-consed as they are built, and the `Expr` handles users hold.

mod external;
mod op;
mod scan;

pub use external::External;
pub(crate) use external::{Blackbox, ExternalPart};
pub(crate) use op::{Draw, Op, Reduction, Span, Window};
pub(crate) use scan::{LoopKey, Part, Scan};

use crate::array::Array;
use crate::error::{At, Error, Result};
use crate::shape::{DType, Shape};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;

/// Index of a node in its graph. Operands always come before the nodes that use them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub u32);

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation applied to earlier nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub op: Op,
    pub args: Vec<NodeId>,
    pub shape: Shape,
    pub dtype: DType,
}

#[derive(Default)]
struct Inner {
    nodes: Vec<Node>,
    index: HashMap<Node, NodeId>,
    /// Names of inputs and states, and the initial values of the latter.
    names: Vec<(String, Option<Array>)>,
    errors: Vec<Error>,
    streams: std::collections::HashSet<u32>,
    /// The next stream to propose.
    next_stream: u32,
    /// Sums over parts that were built.
    sums: u32,
    /// How many nodes stand for something within a loop.
    placeholders: u32,
    /// The bodies of loops that are being built, the innermost last.
    open: Vec<scan::Open>,
    /// The loops there are, each with what is bound and computed in its body.
    loops: HashMap<LoopKey, (NodeId, Vec<NodeId>)>,
}

/// Owns the nodes of expressions; equal subexpressions are stored once.
#[derive(Default)]
pub struct Graph {
    inner: RefCell<Inner>,
}

/// An array-valued expression: a light, copyable handle to a node of a [`Graph`].
///
/// Operators and methods build larger expressions. They cannot fail: an ill-shaped expression is *poisoned* with
/// its first error, which [`grad`](crate::grad) and [`ProgramBuilder::compile`](crate::ProgramBuilder::compile) return.
#[derive(Clone, Copy)]
pub struct Expr<'g> {
    graph: &'g Graph,
    id: NodeId,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Graph::default()
    }

    /// The number of distinct nodes built so far.
    pub fn len(&self) -> usize {
        self.inner.borrow().nodes.len()
    }

    /// Whether nothing has been built yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A named array given to the program before it runs.
    #[track_caller]
    pub fn input(&self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Expr<'_> {
        let shape = shape.into();
        self.named(name, None, dtype, shape, Location::caller())
    }

    /// A named array that lives in the program and may be updated by every step; starts as `initial`.
    #[track_caller]
    pub fn state(&self, name: &str, initial: Array) -> Expr<'_> {
        let (dtype, shape) = (initial.dtype(), initial.shape().clone());
        self.named(name, Some(initial), dtype, shape, Location::caller())
    }

    fn named(&self, name: &str, initial: Option<Array>, dtype: DType, shape: Shape, at: At) -> Expr<'_> {
        if let Some(defect) = shape.defect() {
            let (op, why) = ("input", defect.to_owned());
            return self.poison(Error::Argument { op, shape, why, at });
        }
        let is_state = initial.is_some();
        let slot = {
            let mut inner = self.inner.borrow_mut();
            if inner.names.iter().any(|(n, _)| n == name) {
                let name = name.to_owned();
                drop(inner);
                return self.poison(Error::DuplicateName { name });
            }
            inner.names.push((name.to_owned(), initial));
            inner.names.len() as u32 - 1
        };
        let op = if is_state { Op::State(slot) } else { Op::Input(slot) };
        self.intern(Node { op, args: vec![], shape, dtype })
    }

    /// A constant array.
    pub fn literal(&self, array: Array) -> Expr<'_> {
        if array.shape().rank() == 0 && array.dtype().is_float() {
            return self.scalar(array.dtype(), array.to_f64()[0]);
        }
        let (shape, dtype) = (array.shape().clone(), array.dtype());
        self.intern(Node { op: Op::Literal(array), args: vec![], shape, dtype })
    }

    /// Rows of a constant array of `total` rows, from number `first` on, in place of the array: other ranks hold the others. Where some
    /// are not here, sums over rows can be computed by parts ([`Expr::sums_by_parts`]), and nothing else.
    #[track_caller]
    pub fn rows_of(&self, array: Array, first: usize, total: usize) -> Expr<'_> {
        let at = Location::caller();
        let held = self.literal(array);
        self.build("rows_of", &[held], at, || {
            let shape = held.shape();
            if shape.rank() == 0 || first + shape.dims()[0] > total {
                let why = format!("these are no rows, from number {first} on, of an array of {total}");
                return Err(Error::Argument { op: "rows_of", shape, why, at });
            }
            Ok((Op::Held(first), shape.with(0, total), held.dtype()))
        })
    }

    /// A constant scalar.
    pub fn scalar(&self, dtype: DType, value: f64) -> Expr<'_> {
        let value = match dtype {
            DType::F32 => f64::from(value as f32),
            _ => value,
        };
        let op = Op::Const(value.to_bits());
        self.intern(Node { op, args: vec![], shape: Shape::scalar(), dtype })
    }

    /// An array of one constant value.
    #[track_caller]
    pub fn full(&self, dtype: DType, shape: impl Into<Shape>, value: f64) -> Expr<'_> {
        self.scalar(dtype, value).broadcast_to(shape)
    }

    /// The numbers 0, 1, …, n−1 as a constant.
    #[track_caller]
    pub fn arange(&self, dtype: DType, n: usize) -> Expr<'_> {
        let shape = Shape::from(n);
        if let Some(defect) = shape.defect() {
            let (op, why, at) = ("arange", defect.to_owned(), Location::caller());
            return self.poison(Error::Argument { op, shape, why, at });
        }
        self.literal(Array::from_f64s(dtype, shape, (0..n).map(|i| i as f64).collect()))
    }

    /// A noise stream that is not in use and was not handed out before.
    pub fn fresh_stream(&self) -> u32 {
        let mut inner = self.inner.borrow_mut();
        while inner.streams.contains(&inner.next_stream) {
            inner.next_stream = inner.next_stream.wrapping_add(1);
        }
        inner.next_stream = inner.next_stream.wrapping_add(1);
        inner.next_stream.wrapping_sub(1)
    }

    /// Propose noise streams from this one on: so that what one part draws does not depend on which others are built here.
    pub fn streams_from(&self, first: u32) {
        self.inner.borrow_mut().next_stream = first;
    }

    /// A number for a sum over parts, the same on every rank.
    pub(crate) fn next_tag(&self) -> u32 {
        let mut inner = self.inner.borrow_mut();
        inner.sums += 1;
        inner.sums
    }

    /// Claim a noise stream; `false` if it is taken.
    pub(crate) fn claim_stream(&self, stream: u32) -> bool {
        self.inner.borrow_mut().streams.insert(stream)
    }

    pub(crate) fn intern(&self, node: Node) -> Expr<'_> {
        let mut inner = self.inner.borrow_mut();
        let id = match inner.index.get(&node) {
            Some(&id) => id,
            None => {
                let id = NodeId(inner.nodes.len() as u32);
                inner.nodes.push(node.clone());
                inner.index.insert(node, id);
                id
            }
        };
        Expr { graph: self, id }
    }

    /// A literal that is what an operation on others gives, computed the first time it is asked for.
    pub(crate) fn known<'g>(&'g self, op: Op, args: &[Expr<'g>], value: impl FnOnce() -> Array) -> Expr<'g> {
        let (shape, dtype) = (Shape::scalar(), args[0].dtype());
        // No node of this operation has the shape of a scalar.
        let key = Node { op, args: args.iter().map(|a| a.id).collect(), shape, dtype };
        let found = self.inner.borrow().index.get(&key).copied();
        found.map_or_else(
            || {
                let literal = self.literal(value());
                self.inner.borrow_mut().index.insert(key, literal.id);
                literal
            },
            |id| self.expr(id),
        )
    }

    /// An expression that carries an error instead of a value.
    pub(crate) fn poison(&self, error: Error) -> Expr<'_> {
        let index = {
            let mut inner = self.inner.borrow_mut();
            inner.errors.push(error);
            inner.errors.len() as u32 - 1
        };
        let op = Op::Poison(index);
        self.intern(Node { op, args: vec![], shape: Shape::scalar(), dtype: DType::F64 })
    }

    /// Build a node, unless an operand is poisoned, belongs elsewhere, or `infer` finds fault with the operands.
    pub(crate) fn build<'g>(
        &'g self,
        name: &'static str,
        args: &[Expr<'g>],
        at: At,
        infer: impl FnOnce() -> Result<(Op, Shape, DType)>,
    ) -> Expr<'g> {
        if let Some(bad) = args.iter().find(|a| a.error().is_some()) {
            return *bad;
        }
        if args.iter().any(|a| !std::ptr::eq(a.graph, self)) {
            return self.poison(Error::ForeignGraph { op: name, at });
        }
        let made = infer().and_then(|(op, shape, dtype)| match shape.defect() {
            None => Ok((op, shape, dtype)),
            Some(why) => Err(Error::Argument { op: name, shape, why: why.to_owned(), at }),
        });
        match made {
            Ok((op, shape, dtype)) => self.intern(Node { op, args: args.iter().map(|a| a.id).collect(), shape, dtype }),
            Err(error) => self.poison(error),
        }
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.inner.borrow().nodes.clone()
    }

    /// Name of an input or state, with the initial value of a state.
    pub(crate) fn slot(&self, slot: u32) -> (String, Option<Array>) {
        self.inner.borrow().names[slot as usize].clone()
    }

    /// All inputs and states.
    pub(crate) fn named_arrays(&self) -> Vec<(String, Shape, DType)> {
        let inner = self.inner.borrow();
        let slots = inner.nodes.iter().filter_map(|n| match n.op {
            Op::Input(slot) | Op::State(slot) => Some((inner.names[slot as usize].0.clone(), n.shape.clone(), n.dtype)),
            _ => None,
        });
        slots.collect()
    }

    pub(crate) fn expr(&self, id: NodeId) -> Expr<'_> {
        Expr { graph: self, id }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}

impl<'g> Expr<'g> {
    /// The graph this expression belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    pub(crate) fn id(self) -> NodeId {
        self.id
    }

    pub(crate) fn with_node<R>(self, f: impl FnOnce(&Node) -> R) -> R {
        f(&self.graph.inner.borrow().nodes[self.id.index()])
    }

    pub(crate) fn op(self) -> Op {
        self.with_node(|n| n.op.clone())
    }

    pub(crate) fn args(self) -> Vec<Expr<'g>> {
        self.with_node(|n| n.args.clone()).into_iter().map(|id| self.graph.expr(id)).collect()
    }

    /// Whether both are the same node, as equal expressions built in one graph are. What they compute is compared by
    /// [`eq`](Expr::eq), element by element.
    pub fn is_same(self, other: Expr<'_>) -> bool {
        std::ptr::eq(self.graph, other.graph) && self.id == other.id
    }

    /// The shape. A poisoned expression counts as a scalar.
    pub fn shape(self) -> Shape {
        self.with_node(|n| n.shape.clone())
    }

    /// The element type.
    pub fn dtype(self) -> DType {
        self.with_node(|n| n.dtype)
    }

    /// The first mistake made in building this expression, if there was one.
    pub fn error(self) -> Option<Error> {
        let inner = self.graph.inner.borrow();
        match inner.nodes[self.id.index()].op {
            Op::Poison(index) => Some(inner.errors[index as usize].clone()),
            _ => None,
        }
    }

    /// The value, if this is one number known now, also when broadcast to a shape.
    pub(crate) fn as_const(self) -> Option<f64> {
        let inner = self.graph.inner.borrow();
        let mut node = &inner.nodes[self.id.index()];
        while let Op::Broadcast = node.op {
            node = &inner.nodes[node.args[0].index()];
        }
        match node.op {
            Op::Const(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// A constant of this expression's element type.
    pub(crate) fn same_type(self, value: f64) -> Expr<'g> {
        self.graph.scalar(self.dtype(), value)
    }
}

impl fmt::Debug for Expr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error() {
            Some(error) => write!(f, "poisoned: {error}"),
            None => self.with_node(|n| {
                write!(
                    f,
                    "%{} = {}{:?} : {} {}",
                    self.id.0,
                    n.op.name(),
                    n.args.iter().map(|a| a.0).collect::<Vec<_>>(),
                    n.dtype,
                    n.shape
                )
            }),
        }
    }
}
