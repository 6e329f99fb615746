//! Loops as a parameter of an operation: one body, and the nodes that stand for what changes from iteration to iteration.

use super::{Expr, Graph, Node, NodeId, Op};
use crate::shape::{DType, Shape};

/// A body applied `length` times. The operands of its node are the first values of the carries, the arrays that `xs`
/// are elements of, and the nodes outside the body that the body uses, in this order.
///
/// A body consists of nodes of the same graph: those that lead from the nodes bound here, and from the operands of the
/// third kind, to what is asked for. What is computed in one loop can therefore be bound in another: a derivative binds
/// the carries of the loop it is of to the values they had.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Scan {
    pub length: usize,
    /// From the last element to the first.
    pub reverse: bool,
    /// Whether a derivative computes the body again from the carries, rather than keep what it needs of all iterations.
    pub recompute: bool,
    /// The node that stands for a carry within the body, and the one that replaces it in the next iteration.
    pub carries: Vec<(NodeId, NodeId)>,
    /// The nodes that stand for an element, along the first axis, of an operand.
    pub xs: Vec<NodeId>,
}

impl Scan {
    /// The nodes bound within the body, in the order of the operands that they are bound to.
    pub fn bound(&self) -> impl Iterator<Item = NodeId> {
        self.carries.iter().map(|c| c.0).chain(self.xs.iter().copied())
    }
}

/// One of the results of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Part {
    /// What the carry with this node is after the last iteration.
    Last(NodeId),
    /// The values of a node of the body in all iterations, along a new first axis.
    Stack(NodeId),
}

/// What two loops have in common if they are the same but for the nodes that stand for something in their bodies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LoopKey {
    /// Length, direction, whether derivatives recompute, number of carries.
    pub form: (usize, bool, bool, usize),
    pub args: Vec<NodeId>,
    /// The nodes of the body, numbered within it.
    pub nodes: Vec<Node>,
    pub roots: Vec<NodeId>,
}

/// A body that is being built.
pub(super) struct Open {
    length: usize,
    /// Stands for the number of the iteration, once something asked for it.
    index: Option<NodeId>,
}

impl Graph {
    /// A node that a loop binds.
    pub(crate) fn placeholder(&self, shape: Shape, dtype: DType) -> Expr<'_> {
        let number = {
            let mut inner = self.inner.borrow_mut();
            inner.placeholders += 1;
            inner.placeholders
        };
        self.intern(Node { op: Op::Placeholder(number), args: vec![], shape, dtype })
    }

    /// The loop of this kind, with what is bound and computed in its body, or else the one given.
    pub(crate) fn known_loop(
        &self,
        key: LoopKey,
        new: impl FnOnce() -> (NodeId, Vec<NodeId>),
    ) -> (NodeId, Vec<NodeId>) {
        if let Some(known) = self.inner.borrow().loops.get(&key) {
            return known.clone();
        }
        let new = new();
        self.inner.borrow_mut().loops.insert(key, new.clone());
        new
    }

    /// Run `body` as that of a loop; returns its result, and the node that stands for the number of the iteration if
    /// there is one.
    pub(crate) fn within<R>(&self, length: usize, body: impl FnOnce() -> R) -> (R, Option<Expr<'_>>) {
        /// Closes the body however `body` ends.
        struct Guard<'a>(&'a Graph, usize);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.inner.borrow_mut().open.truncate(self.1);
            }
        }
        let depth = {
            let mut inner = self.inner.borrow_mut();
            inner.open.push(Open { length, index: None });
            inner.open.len() - 1
        };
        let _guard = Guard(self, depth);
        let result = body();
        let index = self.inner.borrow().open.get(depth).and_then(|o| o.index);
        (result, index.map(|id| self.expr(id)))
    }

    /// The number of the present iteration of all loops whose bodies are being built, counted through as if the inner
    /// ones were part of the outer; none outside.
    pub(crate) fn iteration(&self) -> Option<Expr<'_>> {
        let depth = self.inner.borrow().open.len();
        let mut whole: Option<Expr<'_>> = None;
        for i in 0..depth {
            let known = self.inner.borrow().open[i].index.map(|id| self.expr(id));
            let index = known.unwrap_or_else(|| {
                let index = self.placeholder(Shape::scalar(), DType::F64);
                self.inner.borrow_mut().open[i].index = Some(index.id());
                index
            });
            let length = self.inner.borrow().open[i].length as f64;
            whole = Some(whole.map_or(index, |outer| outer * length + index));
        }
        whole
    }

    /// One of the nodes that stand for something within a loop, if these expressions depend on it outside that loop.
    pub(crate) fn escaped(&self, roots: impl Iterator<Item = NodeId>) -> Option<Expr<'_>> {
        self.below(roots, |node, _| matches!(node.op, Op::Placeholder(_)))
    }

    /// An array some rows of which are not here, if these expressions depend on all of it.
    pub(crate) fn incomplete(&self, roots: impl Iterator<Item = NodeId>) -> Option<Expr<'_>> {
        self.below(roots, |node, all| matches!(node.op, Op::Held(_)) && node.shape != all[node.args[0].index()].shape)
    }

    /// A node of this kind that these expressions depend on.
    fn below(&self, roots: impl Iterator<Item = NodeId>, is: impl Fn(&Node, &[Node]) -> bool) -> Option<Expr<'_>> {
        let inner = self.inner.borrow();
        let (mut seen, mut open) = (vec![false; inner.nodes.len()], roots.collect::<Vec<_>>());
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            if is(&inner.nodes[id.index()], &inner.nodes) {
                return Some(self.expr(id));
            }
            open.extend(&inner.nodes[id.index()].args);
        }
        None
    }
}
