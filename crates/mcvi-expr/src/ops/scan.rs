//! Loops: one body, compiled once and run many times. Their derivative is in `calculus`, since it differentiates the body.

use crate::error::{At, Error, Result};
use crate::graph::{Expr, Graph, LoopKey, Node, NodeId, Op, Part, Scan};
use crate::shape::{DType, Shape};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

/// Carries or elements at an iteration, or what a body makes of them.
type Exprs<'g> = Vec<Expr<'g>>;

impl Graph {
    /// A loop: `body` takes the carries and the elements at t of `xs` (along their first axis), and returns the next
    /// carries and results. Returns the last carries, and the results of all iterations along a new first axis.
    ///
    /// The body is built, differentiated and compiled once, however long the loop is. It may use any expression from outside,
    /// contain other loops, draw (each iteration gets draws of its own) and take gradients. What it is given stands for
    /// something only within it.
    ///
    /// ```
    /// use mcvi_expr::{Array, DType, Graph, grad};
    ///
    /// // An autoregression of order 1: the sum of squared residuals, and its derivative in the coefficient.
    /// let g = Graph::new();
    /// let y = g.literal(Array::new([5], vec![0.1, 0.4, 0.3, 0.8, 0.5])?);
    /// let coefficient = g.input("coefficient", DType::F64, ());
    /// let zero = g.scalar(DType::F64, 0.0);
    /// let (last, residuals) = g.scan(5, &[zero, zero], &[y], |carry, x| {
    ///     let residual = x[0] - coefficient * carry[0];
    ///     (vec![x[0], carry[1] + residual.square()], vec![residual])
    /// });
    /// let slope = grad(last[1], &[coefficient])?[0];
    /// let mut program = g.program().output("slope", slope).output("residuals", residuals[0]).compile()?;
    /// program.write("coefficient", &Array::scalar(0.5))?;
    /// program.run(1)?;
    /// assert!((program.output("residuals")?.to_f64()[3] - (0.8 - 0.5 * 0.3)).abs() < 1e-15);
    /// assert!((program.output("slope")?.to_f64()[0] - -0.7).abs() < 1e-12);
    /// # Ok::<(), mcvi_expr::Error>(())
    /// ```
    ///
    /// A derivative is a loop in the other direction over what the body had in each iteration: memory grows with `length`.
    /// [`scan_checkpointed`](Graph::scan_checkpointed) needs less.
    #[track_caller]
    pub fn scan<'g>(
        &'g self,
        length: usize,
        carry: &[Expr<'g>],
        xs: &[Expr<'g>],
        body: impl FnOnce(&[Expr<'g>], &[Expr<'g>]) -> (Exprs<'g>, Exprs<'g>),
    ) -> (Exprs<'g>, Exprs<'g>) {
        let at = Location::caller();
        let fault = self.operands(length, carry, xs, at);
        let stand_in = |e: &Expr<'g>, shape: Shape| fault.unwrap_or_else(|| self.placeholder(shape, e.dtype()));
        let carries: Exprs<'g> = carry.iter().map(|c| stand_in(c, c.shape())).collect();
        let elements: Exprs<'g> = xs.iter().map(|x| stand_in(x, x.shape().without(&[0]))).collect();
        let ((next, ys), index) = self.within(length, || body(&carries, &elements));
        if let Some(bad) = fault.or_else(|| self.results(carry, &next, &ys, at)) {
            return (vec![bad; carry.len()], vec![bad; ys.len()]);
        }
        let carries = carries.into_iter().zip(carry).zip(next);
        let mut bound: Vec<_> = elements.into_iter().zip(xs.iter().copied()).collect();
        bound.extend(index.map(|index| (index, self.arange(DType::F64, length))));
        let whole = Loop {
            length,
            reverse: false,
            recompute: false,
            carries: carries.map(|((stand_in, &first), next)| (stand_in, first, next)).collect(),
            xs: bound,
        };
        whole.close(self, &ys, at)
    }

    /// The same as [`scan`](Graph::scan), for loops so long that memory matters: iterations are taken in about √`length` segments of
    /// as many. A derivative keeps the carries at the beginning of each segment, and what it needs of the iterations of one segment
    /// at a time, which it computes again. So memory for intermediate values grows with √`length`, for one forward pass more.
    /// (`xs`, results and derivatives in `xs` are as long as the loop.)
    #[track_caller]
    pub fn scan_checkpointed<'g>(
        &'g self,
        length: usize,
        carry: &[Expr<'g>],
        xs: &[Expr<'g>],
        body: impl FnOnce(&[Expr<'g>], &[Expr<'g>]) -> (Exprs<'g>, Exprs<'g>),
    ) -> (Exprs<'g>, Exprs<'g>) {
        let at = Location::caller();
        let fault = self.operands(length, carry, xs, at);
        let stand_in = |e: &Expr<'g>, shape: Shape| fault.unwrap_or_else(|| self.placeholder(shape, e.dtype()));
        let short = length.isqrt().max(1);
        let (segments, rest) = (length / short, length % short);
        let element = |x: &Expr<'g>| x.shape().without(&[0]);
        let of = |n: usize, x: &Expr<'g>| Shape::from([&[n], element(x).dims()].concat());
        let starts: Exprs<'g> = carry.iter().map(|c| stand_in(c, c.shape())).collect();
        let parts: Exprs<'g> = xs.iter().map(|x| stand_in(x, of(short, x))).collect();
        let carries: Exprs<'g> = carry.iter().map(|c| stand_in(c, c.shape())).collect();
        let elements: Exprs<'g> = xs.iter().map(|x| stand_in(x, element(x))).collect();
        let (((next, ys), inner), outer) = self.within(segments, || self.within(short, || body(&carries, &elements)));
        if let Some(bad) = fault.or_else(|| self.results(carry, &next, &ys, at)) {
            return (vec![bad; carry.len()], vec![bad; ys.len()]);
        }
        // A run of `length` iterations from the carries `first`, over parts of the operands.
        let run = |length: usize, first: &[Expr<'g>], xs: Exprs<'g>, segment: Option<Expr<'g>>| {
            let carries = carries.iter().zip(first).zip(&next).map(|((c, f), n)| (*c, *f, *n)).collect();
            let mut xs: Vec<_> = elements.iter().copied().zip(xs).collect();
            xs.extend(inner.map(|index| (index, self.arange(DType::F64, length))));
            xs.extend(outer.zip(segment));
            Loop { length, reverse: false, recompute: false, carries, xs }.close(self, &ys, at)
        };
        let (ends, stacks) = run(short, &starts, parts.clone(), None);
        let whole = segments * short;
        let cut = |x: &Expr<'g>| {
            let dims = [&[segments, short], element(x).dims()].concat();
            x.slice(0, 0..whole).reshape(dims)
        };
        let mut bound: Vec<_> = parts.into_iter().zip(xs.iter().map(cut)).collect();
        bound.extend(outer.map(|index| (index, self.arange(DType::F64, segments))));
        let carried = starts.iter().zip(carry).zip(ends).map(|((s, first), end)| (*s, *first, end)).collect();
        let all = Loop { length: segments, reverse: false, recompute: true, carries: carried, xs: bound };
        let (mut last, stacks) = all.close(self, &stacks, at);
        let flat = stacks.iter().zip(&ys).map(|(s, y)| s.reshape([&[whole], y.shape().dims()].concat()));
        let mut results: Exprs<'g> = flat.collect();
        if rest > 0 {
            let tail = xs.iter().map(|x| x.slice(0, whole..length)).collect();
            let segment = self.full(DType::F64, [rest], segments as f64);
            let (end, more) = run(rest, &last, tail, Some(segment));
            (last, results) = (end, results.iter().zip(more).map(|(a, b)| self.concat(&[*a, b], 0)).collect());
        }
        (last, results)
    }

    /// What is wrong with the operands of a loop, as a poisoned expression.
    fn operands<'g>(&'g self, length: usize, carry: &[Expr<'g>], xs: &[Expr<'g>], at: At) -> Option<Expr<'g>> {
        let op = "scan";
        let all = || carry.iter().chain(xs);
        if let Some(bad) = all().find(|e| e.error().is_some()) {
            return Some(*bad);
        }
        if all().any(|e| !std::ptr::eq(e.graph(), self)) {
            return Some(self.poison(Error::ForeignGraph { op, at }));
        }
        if length == 0 {
            let why = "a loop has at least one iteration".to_owned();
            return Some(self.poison(Error::Argument { op, shape: Shape::from(0), why, at }));
        }
        let short = xs.iter().map(|x| x.shape()).find(|shape| shape.dims().first() != Some(&length))?;
        let rest = short.dims().get(1..).unwrap_or_default();
        let right = Shape::from([&[length], rest].concat());
        let why = "what is gone through has one element for each iteration along its first axis";
        Some(self.poison(Error::Shapes { op, left: short, right, why, at }))
    }

    /// What is wrong with the results of a body.
    fn results<'g>(&'g self, carry: &[Expr<'g>], next: &[Expr<'g>], ys: &[Expr<'g>], at: At) -> Option<Expr<'g>> {
        let op = "scan";
        if let Some(bad) = next.iter().chain(ys).find(|e| e.error().is_some()) {
            return Some(*bad);
        }
        let error = if next.iter().chain(ys).any(|e| !std::ptr::eq(e.graph(), self)) {
            Error::ForeignGraph { op, at }
        } else if next.len() != carry.len() {
            let why = format!("the loop has {} carries, its body returned {}", carry.len(), next.len());
            let shape = carry.first().or(next.first()).map_or(Shape::scalar(), |e| e.shape());
            Error::Argument { op, shape, why, at }
        } else if let Some((c, n)) = carry.iter().zip(next).find(|(c, n)| c.shape() != n.shape()) {
            Error::Shapes { op, left: c.shape(), right: n.shape(), why: "a carry keeps its shape", at }
        } else if let Some((c, n)) = carry.iter().zip(next).find(|(c, n)| c.dtype() != n.dtype()) {
            Error::DTypes { op, left: c.dtype(), right: n.dtype(), at }
        } else {
            return None;
        };
        Some(self.poison(error))
    }
}

/// A loop whose body is there: what stands for something in it, with what it stands for.
pub(crate) struct Loop<'g> {
    pub length: usize,
    pub reverse: bool,
    pub recompute: bool,
    /// What stands for a carry, its first value, and its next.
    pub carries: Vec<(Expr<'g>, Expr<'g>, Expr<'g>)>,
    /// What stands for an element, and the array it is an element of.
    pub xs: Vec<(Expr<'g>, Expr<'g>)>,
}

impl<'g> Loop<'g> {
    /// The last carries, and nodes of the body in all iterations.
    pub fn close(self, graph: &'g Graph, ys: &[Expr<'g>], at: At) -> (Exprs<'g>, Exprs<'g>) {
        let bound: HashSet<NodeId> =
            self.carries.iter().map(|c| c.0.id()).chain(self.xs.iter().map(|x| x.0.id())).collect();
        let roots: Vec<NodeId> = self.carries.iter().map(|c| c.2.id()).chain(ys.iter().map(|y| y.id())).collect();
        let body = Body::of(graph, &bound, &roots);
        let xs: Vec<_> = self.xs.iter().filter(|x| body.used.contains(&x.0.id())).collect();
        let scan = Scan {
            length: self.length,
            reverse: self.reverse,
            recompute: self.recompute,
            carries: self.carries.iter().map(|c| (c.0.id(), c.2.id())).collect(),
            xs: xs.iter().map(|x| x.0.id()).collect(),
        };
        let first = self.carries.iter().map(|c| c.1.id());
        let args: Vec<NodeId> = first.chain(xs.iter().map(|x| x.1.id())).chain(body.outside.iter().copied()).collect();
        let own: Vec<NodeId> = scan.bound().chain(body.nodes.iter().copied()).collect();
        let key = body.key(graph, &scan, &args, &roots);
        let op = Op::Scan(Arc::new(scan));
        let new = || graph.intern(Node { op, args, shape: Shape::scalar(), dtype: DType::F64 }).id();
        // An equal loop that is there already has other nodes for what is within.
        let (node, known) = match key {
            Some(key) => graph.known_loop(key, || (new(), own.clone())),
            None => (new(), own.clone()),
        };
        let renamed: HashMap<NodeId, NodeId> = own.into_iter().zip(known).collect();
        let name = |e: Expr<'g>| renamed.get(&e.id()).copied().unwrap_or(e.id());
        let node = graph.expr(node);
        let last = self.carries.iter().map(|c| part(node, Part::Last(name(c.0)), at));
        let stacks = ys.iter().map(|y| part(node, Part::Stack(name(*y)), at));
        (last.collect(), stacks.collect())
    }
}

/// A result of a loop.
pub(crate) fn part<'g>(scan: Expr<'g>, which: Part, at: At) -> Expr<'g> {
    let graph = scan.graph();
    graph.build("scan", &[scan], at, || -> Result<_> {
        let Op::Scan(of) = scan.op() else { unreachable!("called for loops") };
        let (Part::Last(id) | Part::Stack(id)) = which;
        let (shape, dtype) = (graph.expr(id).shape(), graph.expr(id).dtype());
        let shape = match which {
            Part::Last(_) => shape,
            Part::Stack(_) => Shape::from([&[of.length], shape.dims()].concat()),
        };
        Ok((Op::Part(which), shape, dtype))
    })
}

/// The nodes that a body consists of.
struct Body {
    /// Those of the nodes bound that it uses.
    used: HashSet<NodeId>,
    /// What it computes. Numbers, and broadcasts of what is outside, are part of it: there they cost nothing, and
    /// derivatives are summed before they leave it.
    nodes: Vec<NodeId>,
    /// What it uses from outside.
    outside: BTreeSet<NodeId>,
}

impl Body {
    fn of(graph: &Graph, bound: &HashSet<NodeId>, roots: &[NodeId]) -> Body {
        // What is reached and came after the first node that is bound, operands first: only that can depend on one.
        let earliest = bound.iter().min();
        let (mut reached, mut open) = (BTreeSet::new(), roots.to_vec());
        while let Some(id) = open.pop() {
            if earliest.is_some_and(|e| id >= *e) && reached.insert(id) && !bound.contains(&id) {
                graph.expr(id).with_node(|n| open.extend(&n.args));
            }
        }
        let mut inside = bound.clone();
        for id in reached {
            if graph.expr(id).with_node(|n| n.args.iter().any(|a| inside.contains(a))) {
                inside.insert(id);
            }
        }
        let mut body = Body { used: HashSet::new(), nodes: vec![], outside: BTreeSet::new() };
        // In an order that depends on nothing but how the nodes use each other.
        let (mut seen, mut open) = (HashSet::new(), roots.to_vec());
        while let Some(id) = open.pop() {
            let stays = |n: &Node| matches!(n.op, Op::Const(_) | Op::Broadcast);
            if bound.contains(&id) {
                body.used.insert(id);
            } else if !inside.contains(&id) && !graph.expr(id).with_node(stays) {
                body.outside.insert(id);
            } else if seen.insert(id) {
                body.nodes.push(id);
                graph.expr(id).with_node(|n| open.extend(&n.args));
            }
        }
        body
    }

    /// What tells a loop from others, whatever stands for carries and elements in it. None if there are loops within it.
    fn key(&self, graph: &Graph, scan: &Scan, args: &[NodeId], roots: &[NodeId]) -> Option<LoopKey> {
        /// Marks numbers of nodes within the body.
        const WITHIN: u32 = 1 << 31;
        let own = scan.bound().chain(self.nodes.iter().copied());
        let number: HashMap<NodeId, NodeId> = own.zip((WITHIN..).map(NodeId)).collect();
        let named = |ids: &[NodeId]| ids.iter().map(|id| number.get(id).copied().unwrap_or(*id)).collect();
        let bound = scan.bound().map(|id| {
            let stand_in = |n: &Node| Node { op: Op::Placeholder(0), args: vec![], ..n.clone() };
            Some(graph.expr(id).with_node(stand_in))
        });
        let nodes = self.nodes.iter().map(|&id| {
            let node = graph.expr(id).with_node(Node::clone);
            let plain = !matches!(node.op, Op::Scan(_) | Op::Part(_));
            plain.then(|| Node { args: named(&node.args), ..node })
        });
        Some(LoopKey {
            form: (scan.length, scan.reverse, scan.recompute, scan.carries.len()),
            args: args.to_vec(),
            nodes: bound.chain(nodes).collect::<Option<_>>()?,
            roots: named(roots),
        })
    }
}
