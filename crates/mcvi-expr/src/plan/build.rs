//! Scheduling: which nodes are fused into one kernel, and the level each kernel runs at.

use super::live::{Live, LiveLoop, live};
use super::parts::{common, parts};
use super::view::View;
use super::{MAX_TERMS, Plan, REDUCE_TILE, emit, sink};
use crate::graph::{Graph, Node, NodeId, Op};
use crate::shape::{DType, Shape};
use crate::table::Binary;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A fused kernel with more operations than this gains nothing and fills the cache.
pub(super) const MAX_FUSED: usize = 160;

/// Elementwise nodes over one index space, and reductions of it, that become one kernel.
#[derive(Debug)]
pub(super) struct Cluster {
    pub dtype: DType,
    pub space: Vec<usize>,
    /// The part of a sum over parts.
    pub part: u32,
    /// Row length, once a reduction over rows or columns has fixed it.
    pub row: Option<usize>,
    pub nodes: Vec<NodeId>,
}

#[derive(Debug)]
pub(super) enum Work {
    Fused(Cluster),
    /// A node with a kernel of its own.
    Single(NodeId),
    /// A sum of matrix products, added in place to an earlier value if there is one.
    Products {
        out: NodeId,
        terms: Vec<NodeId>,
        onto: Option<NodeId>,
    },
    /// What has become part of another task.
    Gone,
}

impl Work {
    /// The nodes read, other than those this work computes itself.
    pub fn reads(&self, nodes: &[Node]) -> Vec<NodeId> {
        let args = |ids: &[NodeId]| ids.iter().flat_map(|n| nodes[n.index()].args.iter().copied()).collect();
        match self {
            Work::Fused(c) => args(&c.nodes),
            Work::Single(id) => args(&[*id]),
            Work::Products { terms, onto, .. } => {
                let mut all: Vec<NodeId> = args(terms);
                all.extend(onto);
                all
            }
            Work::Gone => vec![],
        }
    }
}

#[derive(Debug)]
pub(super) struct Task {
    pub level: usize,
    pub work: Work,
}

/// Everything known about the nodes while the schedule grows.
pub(super) struct Schedule {
    /// The graph's nodes, which the bodies of loops consist of.
    pub graph: Rc<[Node]>,
    /// Those that are needed here, numbered anew.
    pub nodes: Vec<Node>,
    pub loops: HashMap<NodeId, LiveLoop>,
    /// Leaves that lie elsewhere in each iteration of the loop whose body this is.
    pub moving: HashSet<NodeId>,
    /// Direct uses of each node, by nodes, outputs and updates.
    uses: Vec<usize>,
    users: Vec<Option<NodeId>>,
    pub views: Vec<Option<View>>,
    /// The part of a sum over parts that each node of the graph belongs to, and each of those numbered anew.
    pub graph_parts: Rc<[u32]>,
    pub part: Vec<u32>,
    /// The level at which a node's own buffer is complete.
    pub level: Vec<usize>,
    /// The task that computes a node's elements one by one, in which they can be used without being stored.
    pub group: Vec<Option<usize>>,
    pub tasks: Vec<Task>,
    open: HashMap<(usize, DType, u32, Vec<usize>), Vec<usize>>,
    /// Nodes that live inside another's buffer, from this element on.
    pub alias: HashMap<NodeId, (NodeId, usize)>,
    /// The tasks of products, by what they compute.
    products: HashMap<NodeId, usize>,
}

/// The extents that matter for iterating: those above 1.
pub(super) fn space(shape: &Shape) -> Vec<usize> {
    shape.dims().iter().copied().filter(|&d| d > 1).collect()
}

/// What stands for something else within the body of a loop.
#[derive(Debug)]
pub(super) struct Leaf {
    pub strides: Vec<isize>,
    pub moving: bool,
    /// A constant, in the order of its elements.
    pub literal: bool,
}

/// Plan the computation of `outputs` and of new values for states.
pub(crate) fn plan(graph: &Graph, outputs: &[(String, NodeId)], updates: &[(NodeId, NodeId)]) -> Plan {
    let nodes: Rc<[Node]> = graph.nodes().into();
    let roots: Vec<NodeId> =
        outputs.iter().map(|(_, id)| *id).chain(updates.iter().flat_map(|&(state, value)| [state, value])).collect();
    let needed = live(&nodes, roots.iter().copied(), &HashSet::new());
    let parts: Rc<[u32]> = parts(&nodes).into();
    let (mut schedule, local) = Schedule::new((nodes, parts), needed, &roots, &HashMap::new());
    let outputs: Vec<(String, NodeId)> = outputs.iter().map(|(name, id)| (name.clone(), local[id])).collect();
    let updates: Vec<(NodeId, NodeId)> = updates.iter().map(|(state, value)| (local[state], local[value])).collect();
    // What users read must stand in a buffer of its own; what replaces a state must not be read from another state.
    let outputs: Vec<(String, NodeId)> =
        outputs.iter().map(|(name, id)| (name.clone(), schedule.readable(*id))).collect();
    let updates: Vec<(NodeId, NodeId)> = updates
        .iter()
        .map(|&(state, value)| {
            let base = schedule.view(value).base;
            let from_state = matches!(schedule.node(base).op, Op::State(_));
            (state, if from_state { schedule.materialise(value) } else { value })
        })
        .collect();
    let roots: Vec<NodeId> = outputs.iter().map(|o| o.1).chain(updates.iter().map(|u| u.1)).collect();
    sink::sink(&mut schedule, &roots);
    emit::emit(graph, schedule, &outputs, &updates)
}

impl Schedule {
    /// A schedule of some nodes of a graph, with the numbers they have in it.
    pub fn new(
        (graph, graph_parts): (Rc<[Node]>, Rc<[u32]>),
        needed: Live,
        roots: &[NodeId],
        leaves: &HashMap<NodeId, Leaf>,
    ) -> (Schedule, HashMap<NodeId, NodeId>) {
        let local: HashMap<NodeId, NodeId> =
            needed.nodes.iter().enumerate().map(|(i, &id)| (id, NodeId(i as u32))).collect();
        let n = local.len();
        let mut s = Schedule {
            graph: graph.clone(),
            nodes: Vec::with_capacity(n),
            loops: HashMap::new(),
            moving: HashSet::new(),
            uses: vec![0; n],
            users: vec![None; n],
            views: vec![None; n],
            graph_parts: graph_parts.clone(),
            part: needed.nodes.iter().map(|id| graph_parts[id.index()]).collect(),
            level: vec![0; n],
            group: vec![None; n],
            tasks: vec![],
            open: HashMap::new(),
            alias: HashMap::new(),
            products: HashMap::new(),
        };
        for (id, mut of) in needed.loops {
            of.parts.iter_mut().for_each(|(_, part)| *part = local[part]);
            s.loops.insert(local[&id], of);
        }
        for &id in &needed.nodes {
            let (mut node, here) = (graph[id.index()].clone(), local[&id]);
            if let Some(leaf) = leaves.get(&id) {
                node.args.clear();
                if !leaf.literal {
                    node.op = Op::Placeholder(0);
                }
                if leaf.moving {
                    s.moving.insert(here);
                }
                s.views[here.index()] = Some(View { base: here, offset: 0, strides: leaf.strides.clone() });
            } else if let Some(of) = s.loops.get(&here) {
                node.args = of.operands.iter().map(|&(i, _)| node.args[i]).collect();
            }
            for arg in &mut node.args {
                *arg = local[arg];
                s.uses[arg.index()] += 1;
                s.users[arg.index()] = Some(here);
            }
            s.nodes.push(node);
        }
        roots.iter().for_each(|id| s.uses[local[id].index()] += 1);
        (0..n).for_each(|i| s.visit(NodeId(i as u32)));
        (s, local)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn view(&self, id: NodeId) -> &View {
        self.views[id.index()].as_ref().unwrap_or_else(|| unreachable!("node {} is not scheduled yet", id.0))
    }

    pub fn constant(&self, id: NodeId) -> Option<f64> {
        match self.node(self.view(id).base).op {
            Op::Const(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    pub fn is_leaf(&self, id: NodeId) -> bool {
        use Op::{Const, Input, Literal, Placeholder, State};
        matches!(self.node(id).op, Input(_) | State(_) | Const(_) | Literal(_) | Placeholder(_))
    }

    /// Whether a node's elements are those of its base, one by one, over the index space `space`.
    pub fn is_identity(&self, id: NodeId, over: &[usize]) -> bool {
        let (view, shape) = (self.view(id), &self.node(id).shape);
        view.offset == 0
            && view.is_contiguous(shape)
            && self.node(view.base).shape.size() == shape.size()
            && space(shape) == over
    }

    fn visit(&mut self, id: NodeId) {
        if self.views[id.index()].is_some() {
            return; // a leaf
        }
        let node = self.node(id).clone();
        self.views[id.index()] = Some(View::own(id, &node.shape));
        match &node.op {
            Op::Input(_) | Op::State(_) | Op::Const(_) | Op::Literal(_) => {}
            Op::StopGradient
            | Op::Opaque
            | Op::Held(_)
            | Op::Broadcast
            | Op::ToParts(_)
            | Op::Permute(_)
            | Op::Slice(_)
            | Op::Reshape => {
                match View::through(&node, self.node(node.args[0]), self.view(node.args[0])) {
                    Some(view) => self.views[id.index()] = Some(view),
                    // Kernels compute with floats; integers are copied.
                    None if !node.dtype.is_float() => {
                        self.nodes[id.index()].op = Op::Cast;
                        self.single(id);
                    }
                    None => self.fuse(id, space(&self.node(node.args[0]).shape.clone()), None),
                }
            }
            Op::MatMul { .. } if self.sum_to_accumulate(id).is_some() => {} // waits for the sum
            Op::Binary(Binary::Add) if self.accumulate(id, &node) => {}
            Op::Unary(_) | Op::Binary(_) | Op::Select => self.fuse(id, space(&node.shape), None),
            Op::Reduce(_, axes) => {
                let from = self.node(node.args[0]).shape.clone();
                let reduced: usize = axes.iter().map(|&a| from.dims()[a]).product();
                let kept = from.size() / reduced;
                let row = match (kept, self.reduces_rows(id)) {
                    (1, _) => None,
                    (_, true) => Some(reduced),
                    (_, false) => Some(kept),
                };
                self.fuse(id, space(&from), row);
                // Partial results of several tiles are combined one level later.
                let split = from.size() > REDUCE_TILE && (kept == 1 || !self.reduces_rows(id));
                self.level[id.index()] += usize::from(split);
                self.group[id.index()] = None;
            }
            Op::Concat(axis) => self.concat(id, &node, *axis),
            Op::MatMul { .. } | Op::Cast | Op::Embed(_) => {
                self.single(id);
            }
            Op::Scan(_) => {
                self.hold_still(id);
                self.single(id);
            }
            Op::Part(_) => self.level[id.index()] = self.level[node.args[0].index()],
            _ => {
                self.make_contiguous(id);
                let level = self.single(id);
                // Partial sums over images are combined one level later.
                let images = |s: &Self| s.node(node.args[0]).shape.dims()[0];
                let split = matches!(node.op, Op::ConvWeight(_)) && images(self) > super::IMAGES_PER_TILE;
                self.level[id.index()] = level + usize::from(split);
            }
        }
    }

    /// Whether a reduction is over trailing axes (as opposed to leading ones).
    pub fn reduces_rows(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let Op::Reduce(_, axes) = &node.op else { return false };
        let dims = self.node(node.args[0]).shape.dims();
        let last_long = (0..dims.len()).rev().find(|&a| dims[a] > 1);
        last_long.is_some_and(|a| axes.contains(&a))
    }

    fn arg_level(&self, arg: NodeId) -> usize {
        self.level[self.view(arg).base.index()]
    }

    /// Give a node a kernel of its own, at the first level where its operands are complete.
    fn single(&mut self, id: NodeId) -> usize {
        let args = self.node(id).args.clone();
        let level = 1 + args.iter().map(|&a| self.arg_level(a)).max().unwrap_or(0);
        self.level[id.index()] = level;
        let work = match self.node(id).op {
            Op::MatMul { .. } => {
                self.products.insert(id, self.tasks.len());
                Work::Products { out: id, terms: vec![id], onto: None }
            }
            _ => Work::Single(id),
        };
        self.tasks.push(Task { level, work });
        level
    }

    /// Kernels that index plainly get operands without strides.
    fn make_contiguous(&mut self, id: NodeId) {
        for i in 0..self.node(id).args.len() {
            let arg = self.node(id).args[i];
            if !self.view(arg).is_contiguous(&self.node(arg).shape.clone()) || self.constant(arg).is_some() {
                let copy = self.materialise(arg);
                self.nodes[id.index()].args[i] = copy;
            }
        }
    }

    /// What a loop within this one uses is the same, in the same place, for all its iterations.
    fn hold_still(&mut self, id: NodeId) {
        for i in 0..self.node(id).args.len() {
            let arg = self.node(id).args[i];
            if self.moving.contains(&self.view(arg).base) {
                let copy = self.materialise(arg);
                self.nodes[id.index()].args[i] = copy;
            }
        }
    }

    /// Whether a loop within this one uses what stands in the buffer of a node.
    pub fn in_loops(&self, base: NodeId) -> bool {
        let mut used = self.loops.keys().flat_map(|id| &self.node(*id).args);
        used.any(|arg| self.home(self.view(*arg).base).0 == self.home(base).0)
    }

    /// A copy of a node in a buffer of its own.
    pub fn materialise(&mut self, id: NodeId) -> NodeId {
        let Node { shape, dtype, .. } = self.node(id).clone();
        let over = space(&shape);
        let copy = self.push(Node { op: Op::Reshape, args: vec![id], shape, dtype });
        if dtype.is_float() {
            self.fuse(copy, over, None);
        } else {
            self.nodes[copy.index()].op = Op::Cast;
            self.single(copy);
        }
        copy
    }

    /// Add a node that the graph does not have.
    pub fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.views.push(Some(View::own(id, &node.shape)));
        self.part.push(common(&self.part, &node.args));
        self.nodes.push(node);
        self.level.push(0);
        self.group.push(None);
        self.uses.push(1);
        self.users.push(None);
        id
    }

    /// The node itself if it has a complete buffer that nothing else changes, or a copy that has.
    fn readable(&mut self, id: NodeId) -> NodeId {
        let view = self.view(id);
        if !self.is_leaf(view.base) && view.is_contiguous(&self.node(id).shape) { id } else { self.materialise(id) }
    }

    /// Add a node to a kernel over `over`, the earliest that can take it.
    fn fuse(&mut self, id: NodeId, over: Vec<usize>, row: Option<usize>) {
        let node = self.node(id);
        let (dtype, part) = (node.dtype, self.part[id.index()]);
        let args: Vec<NodeId> = node.args.iter().copied().filter(|&a| self.constant(a).is_none()).collect();
        let latest = args.iter().map(|&a| self.arg_level(a)).max().unwrap_or(0);
        let fits = |schedule: &Schedule, task: usize, over: &[usize]| match &schedule.tasks[task].work {
            Work::Fused(c) => {
                c.space == over
                    && c.dtype == dtype
                    && c.part == part
                    && c.nodes.len() < MAX_FUSED
                    && (row.is_none() || c.row.is_none() || c.row == row)
            }
            _ => false,
        };
        // The kernel that computes the latest operands, if all of them are its elements.
        let mut late = args.iter().filter(|&&a| latest > 0 && self.arg_level(a) == latest).map(|&a| {
            let group = self.group[self.view(a).base.index()];
            group.filter(|_| self.is_identity(a, &over))
        });
        let home = late.next().flatten().filter(|&task| late.all(|g| g == Some(task)) && fits(self, task, &over));
        let level = if home.is_some() { latest } else { latest + 1 };
        let key = (level, dtype, part, over);
        let task = home.or_else(|| self.open.get(&key)?.iter().copied().find(|&t| fits(self, t, &key.3)));
        let task = task.unwrap_or_else(|| {
            let cluster = Cluster { dtype, space: key.3.clone(), part, row: None, nodes: vec![] };
            self.tasks.push(Task { level, work: Work::Fused(cluster) });
            self.open.entry(key).or_default().push(self.tasks.len() - 1);
            self.tasks.len() - 1
        });
        if let Work::Fused(cluster) = &mut self.tasks[task].work {
            cluster.nodes.push(id);
            cluster.row = cluster.row.or(row);
        }
        self.level[id.index()] = level;
        self.group[id.index()] = Some(task);
    }

    /// The sum that a product can be added in place to, if it is the product's only use.
    fn sum_to_accumulate(&self, product: NodeId) -> Option<NodeId> {
        let user = self.users[product.index()].filter(|_| self.uses[product.index()] == 1)?;
        let (sum, node) = (self.node(user), self.node(product));
        (sum.op == Op::Binary(Binary::Add) && sum.args[0] != sum.args[1] && sum.shape == node.shape).then_some(user)
    }

    /// Turn `sum = other + product` into a product that accumulates in the buffer of `other`, if that may change.
    fn accumulate(&mut self, sum: NodeId, node: &Node) -> bool {
        let waiting =
            |s: &Schedule, a: NodeId| matches!(s.node(a).op, Op::MatMul { .. }) && s.sum_to_accumulate(a) == Some(sum);
        let (mut other, mut product) = (node.args[0], node.args[1]);
        if !waiting(self, product) {
            std::mem::swap(&mut other, &mut product);
        }
        if !waiting(self, product) {
            return false;
        }
        if waiting(self, other) {
            self.single(other);
        }
        let free = self.view(other).base == other
            && !self.is_leaf(other)
            && self.uses[other.index()] == 1
            && !matches!(self.node(other).op, Op::Concat(_) | Op::Part(_))
            && !self.alias.contains_key(&other);
        if !free {
            self.single(product);
            return false;
        }
        self.alias.insert(other, (sum, 0));
        let args = self.node(product).args.clone();
        let level = 1 + args.iter().chain([&other]).map(|&a| self.arg_level(a)).max().unwrap_or(0);
        self.level[sum.index()] = level;
        let (mut terms, mut onto) = (vec![], Some(other));
        if let Some(&before) = self.products.get(&other)
            && self.joins(&self.tasks[before].work)
            && let Work::Products { terms: t, onto: o, .. } =
                std::mem::replace(&mut self.tasks[before].work, Work::Gone)
        {
            (terms, onto) = (t, o);
        }
        terms.push(product);
        self.products.insert(sum, self.tasks.len());
        self.tasks.push(Task { level, work: Work::Products { out: sum, terms, onto } });
        true
    }

    /// Whether products should wait for a further term, to be summed without a detour through memory: if their
    /// operands, which are kept meanwhile, are smaller than the result.
    fn joins(&self, work: &Work) -> bool {
        let Work::Products { out, terms, .. } = work else { return false };
        let operands = |t: &NodeId| self.node(*t).args.iter().map(|a| self.node(*a).shape.size()).sum::<usize>();
        terms.len() < MAX_TERMS && terms.iter().all(|t| operands(t) <= self.node(*out).shape.size())
    }

    /// Pieces that end up contiguous are computed in place; the others are copied.
    fn concat(&mut self, id: NodeId, node: &Node, axis: usize) {
        let contiguous = node.shape.dims()[..axis].iter().all(|&d| d == 1);
        let (mut first, mut level, mut copies) = (0, 0, 0);
        for &part in &node.args {
            let shape = self.node(part).shape.clone();
            let base = self.view(part).base;
            let whole = self.is_identity(part, &space(&shape));
            let fixed = self.is_leaf(base) || matches!(self.node(base).op, Op::Concat(_) | Op::Part(_));
            if contiguous && whole && !fixed && !self.alias.contains_key(&base) {
                self.alias.insert(base, (id, first));
            } else {
                copies += 1;
            }
            level = level.max(self.arg_level(part));
            first += shape.size();
        }
        self.level[id.index()] = level + usize::from(copies > 0);
        self.tasks.push(Task { level: level + 1, work: Work::Single(id) });
    }

    /// The buffer a node lives in, named by the node that owns it, and the first element there.
    pub fn home(&self, id: NodeId) -> (NodeId, usize) {
        let (mut node, mut first) = (id, 0);
        while let Some(&(owner, offset)) = self.alias.get(&node) {
            node = owner;
            first += offset;
        }
        (node, first)
    }
}
