//! From the schedule to kernels: buffers for what is stored, loads for what is read, and where states are updated.

use super::buffers::{Draft, Home};
use super::build::{Cluster, Schedule, Work, space};
use super::constants::TURNED;
use super::view::collapsed;
use super::*;
use crate::graph::{Graph, NodeId, Op};
use std::collections::{HashMap, HashSet};

pub(super) struct Emitter {
    pub s: Schedule,
    /// Of the program and of all bodies.
    pub bufs: Vec<Draft>,
    pub of: HashMap<NodeId, BufId>,
    pub literals: Vec<(Place, Array)>,
    pub kernels: Vec<(usize, Kernel)>,
    /// Constants laid out again, as they are or transposed.
    pub expanded: HashMap<(NodeId, bool), BufId>,
    /// Fused nodes that must be stored, since something outside their kernel reads them.
    stored: HashSet<NodeId>,
    /// Carries of loops whose values stand in a row, and the node that stands for all of them.
    pub rows: HashMap<(NodeId, NodeId), NodeId>,
    /// The number of this body (0 for the program), and how many there are.
    pub scope: usize,
    pub scopes: usize,
}

pub(super) fn emit(
    graph: &Graph,
    schedule: Schedule,
    outputs: &[(String, NodeId)],
    updates: &[(NodeId, NodeId)],
) -> Plan {
    let mut e = Emitter::new(schedule, 0);
    e.work(&outputs.iter().map(|o| o.1).collect::<Vec<_>>(), updates);
    let mut slots = vec![];
    for i in 0..e.s.nodes.len() {
        let id = NodeId(i as u32);
        if let Op::Input(slot) | Op::State(slot) = e.s.node(id).op {
            let (name, initial) = graph.slot(slot);
            let place = e.place_of(id, 0);
            let node = e.s.node(id);
            slots.push(Slot { name, shape: node.shape.clone(), dtype: node.dtype, place, initial });
        }
    }
    let outputs = outputs.iter().map(|(name, id)| {
        let place = e.strided(*id, usize::MAX).place;
        let node = e.s.node(*id);
        Slot { name: name.clone(), shape: node.shape.clone(), dtype: node.dtype, place, initial: None }
    });
    let outputs = outputs.collect();
    let arena_bytes = e.place_scope(None);
    let buffers = (0..e.bufs.len()).map(|i| e.buffer(BufId(i as u32))).collect();
    let (kernels, levels) = levels(e.kernels);
    Plan { kernels, levels, buffers, arena_bytes, slots, outputs, literals: e.literals }
}

impl Emitter {
    pub fn new(s: Schedule, scope: usize) -> Self {
        Emitter {
            s,
            bufs: vec![],
            of: HashMap::new(),
            literals: vec![],
            kernels: vec![],
            expanded: HashMap::new(),
            stored: HashSet::new(),
            rows: HashMap::new(),
            scope,
            scopes: scope + 1,
        }
    }

    /// The kernels of all tasks, and those that complete the updates.
    pub fn work(&mut self, outputs: &[NodeId], updates: &[(NodeId, NodeId)]) {
        self.line_up();
        self.find_stored(outputs, updates);
        let commits = self.update_in_place(outputs, updates);
        let tasks = std::mem::take(&mut self.s.tasks);
        for (index, task) in tasks.iter().enumerate() {
            match &task.work {
                Work::Fused(cluster) => self.fused(index, task.level, cluster),
                Work::Single(id) => self.single(*id, task.level),
                Work::Products { out, terms, onto } => self.products(*out, terms, onto.is_some(), task.level),
                Work::Gone => {}
            }
        }
        // After everything, the combination of partial results included.
        let last = self.kernels.iter().map(|k| k.0).max().unwrap_or(0) + 1;
        for (state, value) in commits {
            let (from, to) = (self.strided(value, last), self.strided(state, last));
            let dtype = self.s.node(state).dtype;
            self.kernels.push((last, Kernel::Copy { from_type: dtype, to_type: dtype, from, to, zero_first: None }));
        }
    }

    fn find_stored(&mut self, outputs: &[NodeId], updates: &[(NodeId, NodeId)]) {
        let mut need = |s: &Schedule, id: NodeId, by: Option<usize>| {
            let base = s.view(id).base;
            if s.group[base.index()].is_some() && s.group[base.index()] != by {
                self.stored.insert(base);
            }
        };
        for (index, task) in self.s.tasks.iter().enumerate() {
            let by = matches!(task.work, Work::Fused(_)).then_some(index);
            task.work.reads(&self.s.nodes).iter().for_each(|&a| need(&self.s, a, by));
        }
        outputs.iter().for_each(|id| need(&self.s, *id, None));
        updates.iter().for_each(|&(_, value)| need(&self.s, value, None));
    }

    /// Let kernels write new states where the old ones stand, if nothing reads the old ones then or later. Returns
    /// the updates that need a copy at the end instead.
    fn update_in_place(&mut self, outputs: &[NodeId], updates: &[(NodeId, NodeId)]) -> Vec<(NodeId, NodeId)> {
        // An output must stay as it is when its state is written between runs.
        let read: HashSet<NodeId> = outputs.iter().map(|id| self.s.view(*id).base).collect();
        let states: HashSet<NodeId> = updates.iter().map(|u| u.0).collect();
        // Level and task of each reader, and whether it reads element by element.
        let mut readers: HashMap<NodeId, Vec<(usize, usize, bool)>> = HashMap::new();
        for (index, task) in self.s.tasks.iter().enumerate() {
            let fused = if let Work::Fused(c) = &task.work { Some(c) } else { None };
            for arg in &task.work.reads(&self.s.nodes) {
                let base = self.s.view(*arg).base;
                if states.contains(&base) {
                    let plain = fused.is_some_and(|c| self.s.is_identity(*arg, &c.space));
                    readers.entry(base).or_default().push((task.level, index, plain));
                }
            }
        }
        let mut commits = vec![];
        for &(state, value) in updates {
            let base = self.s.view(value).base;
            let group = self.s.group[base.index()];
            let shape = &self.s.node(state).shape;
            let fits = base == value || self.s.is_identity(value, &space(&self.s.node(base).shape));
            let in_place = group.is_some_and(|task| {
                let level = self.s.tasks[task].level;
                fits && self.s.node(base).shape.size() == shape.size()
                    && !self.s.alias.contains_key(&base)
                    && !read.contains(&base)
                    && readers
                        .get(&state)
                        .is_none_or(|r| r.iter().all(|&(l, t, plain)| l < level || (t == task && plain)))
            });
            if in_place {
                self.s.alias.insert(base, (state, 0));
            } else {
                commits.push((state, value));
            }
        }
        commits
    }

    /// Where a node with a buffer of its own lies; notes that it is needed at `level`.
    pub fn place_of(&mut self, id: NodeId, level: usize) -> Place {
        let (owner, first) = self.s.home(id);
        if !self.of.contains_key(&owner) {
            let node = self.s.node(owner).clone();
            let (dtype, len) = (node.dtype, node.shape.size());
            let buf = if self.s.is_leaf(owner) {
                self.lasting(dtype, len)
            } else {
                self.new_buffer(dtype, len, (level, level))
            };
            self.of.insert(owner, buf);
            let place = Place { buf, first: 0 };
            match node.op {
                Op::Literal(array) => self.literals.push((place, array)),
                Op::Const(bits) => {
                    let array = Array::from_f64s(node.dtype, Shape::scalar(), vec![f64::from_bits(bits)]);
                    self.literals.push((place, array));
                }
                _ => {}
            }
        }
        let buf = self.of[&owner];
        if let Home::Own { scope, life } = &mut self.bufs[buf.0 as usize].home
            && *scope == self.scope
        {
            life.from = life.from.min(level);
            life.until = life.until.max(level);
        }
        Place { buf, first }
    }

    pub fn strided(&mut self, id: NodeId, level: usize) -> Strided {
        let view = self.s.view(id).clone();
        let (dims, strides) = collapsed(self.s.node(id).shape.dims(), &view.strides);
        let mut place = self.place_of(view.base, level);
        place.first += view.offset;
        Strided { place, dims, strides }
    }

    /// The first element of a node without strides.
    fn plain(&mut self, id: NodeId, level: usize) -> Place {
        self.strided(id, level).place
    }

    fn fused(&mut self, task: usize, level: usize, c: &Cluster) {
        let total: usize = c.space.iter().product();
        let mut map = Map {
            dtype: c.dtype,
            total,
            row: c.row.unwrap_or(1),
            tile: 0,
            loads: vec![],
            ops: vec![],
            stores: vec![],
            reduces: vec![],
        };
        let mut values: HashMap<NodeId, Value> = HashMap::new();
        let mut combines = vec![];
        let mut reductions = vec![];
        for &id in &c.nodes {
            let node = self.s.node(id).clone();
            let mut args = vec![];
            for &arg in &node.args {
                let base = self.s.view(arg).base;
                let value = if let Some(c) = self.s.constant(arg) {
                    Value::Const(c)
                } else if self.s.group[base.index()] == Some(task) {
                    values[&base]
                } else {
                    let load = self.load(arg, level);
                    let known = map.loads.iter().position(|l| *l == load);
                    Value::Load(known.unwrap_or_else(|| {
                        map.loads.push(load);
                        map.loads.len() - 1
                    }))
                };
                args.push(value);
            }
            let function = match node.op {
                Op::Unary(u) => Function::Unary(u),
                Op::Binary(b) => Function::Binary(b),
                Op::Select => Function::SELECT,
                Op::Reduce(how, _) => {
                    reductions.push((id, how, args[0]));
                    continue;
                }
                // A view that has to become an array of its own.
                _ => {
                    values.insert(id, args[0]);
                    continue;
                }
            };
            map.ops.push(MapOp { function, args });
            values.insert(id, Value::Op(map.ops.len() - 1));
        }
        for &id in &c.nodes {
            if !self.stored.contains(&id) {
                continue;
            }
            let to = self.place_of(id, level);
            map.stores.push(Store { value: values[&id], to });
        }
        map.tile = tile(&map, reductions.iter().any(|(id, ..)| self.over(*id) != Over::Rows));
        for (id, how, value) in reductions {
            let (over, len) = (self.over(id), self.s.node(id).shape.size());
            let to = if over != Over::Rows && total > REDUCE_TILE {
                let parts = map.tiles();
                let partial = Place { buf: self.new_buffer(c.dtype, parts * len, (level, level + 1)), first: 0 };
                let to = self.place_of(id, level + 1);
                combines.push(Kernel::Combine { how, dtype: c.dtype, parts, len, from: partial, to });
                partial
            } else {
                self.place_of(id, level)
            };
            map.reduces.push(Reduce { how, over, value, to });
        }
        super::peephole::multiply_add(&mut map);
        super::peephole::pairs(&mut map);
        self.kernels.push((level, Kernel::Map(map)));
        self.kernels.extend(combines.into_iter().map(|k| (level + 1, k)));
    }

    fn over(&self, id: NodeId) -> Over {
        match (self.s.node(id).shape.size(), self.s.reduces_rows(id)) {
            (1, _) => Over::All,
            (_, true) => Over::Rows,
            (_, false) => Over::Columns,
        }
    }

    fn products(&mut self, out: NodeId, terms: &[NodeId], accumulate: bool, level: usize) {
        let terms: Vec<Term> = terms.iter().map(|&t| self.term(t, level)).collect();
        let shape = self.s.node(out).shape.clone();
        let [.., m, n] = *shape.dims() else { unreachable!("checked when built") };
        let (dtype, to) = (self.s.node(out).dtype, self.place_of(out, level));
        self.kernels.push((level, Kernel::MatMul(MatMul { dtype, m, n, terms, to, accumulate })));
    }

    fn term(&mut self, product: NodeId, level: usize) -> Term {
        let node = self.s.node(product).clone();
        let Op::MatMul { ta, tb } = node.op else { unreachable!("only products are summed") };
        let mut operand = |id: NodeId, transposed: bool| {
            let buf = self.place_of(self.s.view(id).base, level);
            let (view, shape) = (self.s.view(id), &self.s.node(id).shape);
            let r = shape.rank();
            let (mut rs, mut cs) = (view.strides[r - 2], view.strides[r - 1]);
            let columns = shape.dims()[if transposed { r - 2 } else { r - 1 }];
            if transposed {
                std::mem::swap(&mut rs, &mut cs);
            }
            // The first element of each item of the batch, in row-major order of the leading axes.
            let mut firsts = vec![buf.first + view.offset];
            for (&extent, &stride) in shape.dims()[..r - 2].iter().zip(&view.strides) {
                firsts = firsts
                    .iter()
                    .flat_map(|&f| (0..extent).map(move |i| f.wrapping_add_signed(i as isize * stride)))
                    .collect();
            }
            (buf.buf, firsts, (rs, cs), columns)
        };
        let (a, a_firsts, a_strides, k) = operand(node.args[0], ta);
        let (mut b, mut b_firsts, mut b_strides, n) = operand(node.args[1], tb);
        // Products read rows of b, and would transpose a constant whose columns are apart in every step.
        let small = k * n <= TURNED && self.s.node(node.args[1]).shape.rank() == 2;
        if let Some(array) = self.literal(node.args[1]).filter(|_| small && b_strides.1 != 1) {
            (b, b_firsts, b_strides) = (self.laid_out(node.args[1], &array, tb), vec![0], (n as isize, 1));
        }
        Term { k, items: a_firsts.into_iter().zip(b_firsts).collect(), a, a_strides, b, b_strides }
    }

    fn single(&mut self, id: NodeId, level: usize) {
        let node = self.s.node(id).clone();
        let (dtype, args, shape) = (node.dtype, &node.args, &node.shape);
        let kernel = match node.op {
            Op::Concat(axis) => return self.concat(id, axis, level),
            Op::Cast => {
                let from_type = self.s.node(args[0]).dtype;
                let (from, to) = (self.strided(args[0], level), self.strided(id, level));
                Kernel::Copy { from_type, to_type: dtype, from, to, zero_first: None }
            }
            Op::Embed(spans) => {
                let from = self.strided(args[0], level);
                let place = self.place_of(id, level);
                let mut to = Strided { place, dims: vec![], strides: vec![] };
                let mut strides = shape.strides();
                for (stride, span) in strides.iter_mut().zip(&spans) {
                    to.place.first += span.start * *stride as usize;
                    *stride *= span.step as isize;
                }
                let lens: Vec<usize> = spans.iter().map(|s| s.len).collect();
                (to.dims, to.strides) = collapsed(&lens, &strides);
                let zero_first = Some((place, shape.size()));
                Kernel::Copy { from_type: dtype, to_type: dtype, from, to, zero_first }
            }
            Op::CumSum { axis, reverse } => {
                let dims = shape.dims();
                let (outer, inner) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
                let (from, to) = (self.plain(args[0], level), self.place_of(id, level));
                Kernel::CumSum { dtype, outer, len: dims[axis], inner, reverse, from, to }
            }
            Op::Cholesky => {
                let n = shape.dims()[shape.rank() - 1];
                let (from, to) = (self.plain(args[0], level), self.place_of(id, level));
                Kernel::Cholesky { dtype, batch: shape.size() / (n * n), n, from, to }
            }
            Op::TriSolve { upper, transpose } => {
                let [.., n, cols] = *shape.dims() else { unreachable!("checked when built") };
                let (a, b, to) = (self.plain(args[0], level), self.plain(args[1], level), self.place_of(id, level));
                Kernel::TriSolve { dtype, batch: shape.size() / (n * cols), n, cols, upper, transpose, a, b, to }
            }
            Op::Conv(_) | Op::ConvInput(_) | Op::ConvWeight(_) => return self.conv(id, level),
            Op::Upsample | Op::Downsample => {
                let up = node.op == Op::Upsample;
                let from_shape = self.s.node(args[0]).shape.clone();
                let last = |s: &Shape| [s.dims()[s.rank() - 2], s.dims()[s.rank() - 1]];
                let (small, large) =
                    if up { (last(&from_shape), last(shape)) } else { (last(shape), last(&from_shape)) };
                let planes = shape.size() / last(shape).iter().product::<usize>();
                let (from, to) = (self.plain(args[0], level), self.place_of(id, level));
                Kernel::Resize { dtype, planes, small, large, up, from, to }
            }
            Op::Take(axis) | Op::ScatterAdd(axis) => {
                let take = matches!(node.op, Op::Take(_));
                let (values, index) = if take { (args[0], args[1]) } else { (args[1], args[0]) };
                let full = if take { self.s.node(values).shape.clone() } else { shape.clone() };
                let dims = full.dims();
                let (outer, inner) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
                let (len, picks) = (dims[axis], self.s.node(index).shape.size());
                let from = self.plain(values, level);
                let (index, to) = (self.plain(index, level), self.place_of(id, level));
                Kernel::Index { take, dtype, outer, len, picks, inner, from, index, to }
            }
            Op::Noise(draw, stream) => {
                let iteration = args.first().map(|&i| self.plain(i, level));
                Kernel::Noise { dtype, draw, stream, iteration, len: shape.size(), to: self.place_of(id, level) }
            }
            Op::Scan(_) => return self.scan(id, level),
            Op::SumParts(parts, tag) => {
                let (from, to) = (self.plain(args[0], level), self.place_of(id, level));
                Kernel::SumParts { dtype, parts, tag, len: shape.size(), from, to }
            }
            Op::External(part, function) => {
                let [rows, d] = *self.s.node(args[0]).shape.dims() else { unreachable!("checked when built") };
                let z = self.plain(args[0], level);
                let v = args.get(1).map(|&v| self.plain(v, level));
                Kernel::External { part, function, rows, d, z, v, to: self.place_of(id, level) }
            }
            op => unreachable!("{} has no kernel of its own", op.name()),
        };
        self.kernels.push((level, kernel));
    }

    fn concat(&mut self, id: NodeId, axis: usize, level: usize) {
        let node = self.s.node(id).clone();
        let (strides, dtype) = (node.shape.strides(), node.dtype);
        let mut start = 0;
        for &part in &node.args {
            let shape = self.s.node(part).shape.clone();
            let mut place = self.place_of(id, level);
            place.first += start * strides[axis] as usize;
            let (dims, strides) = collapsed(shape.dims(), &strides);
            let to = Strided { place, dims, strides };
            let from = self.strided(part, level);
            if from != to {
                let copy = Kernel::Copy { from_type: dtype, to_type: dtype, from, to, zero_first: None };
                self.kernels.push((level, copy));
            }
            start += shape.dims()[axis];
        }
    }

    fn conv(&mut self, id: NodeId, level: usize) {
        let node = self.s.node(id).clone();
        let (first, second, out) = (node.args[0], node.args[1], id);
        let (part, window, x, f, y) = match node.op {
            Op::Conv(w) => (ConvPart::Output, w, first, second, out),
            Op::ConvInput(w) => (ConvPart::Input, w, out, second, first),
            Op::ConvWeight(w) => (ConvPart::Weight, w, first, out, second),
            _ => unreachable!("called for convolutions"),
        };
        let dims = |id: NodeId| -> [usize; 4] {
            self.s.node(id).shape.dims().try_into().unwrap_or_else(|_| unreachable!("checked when built"))
        };
        let (x, f, y) = (dims(x), dims(f), dims(y));
        let from = [self.plain(first, level), self.plain(second, level)];
        let len = node.shape.size();
        let to = self.place_of(id, level);
        let mut conv = Conv { dtype: node.dtype, part, window, x, f, y, from, to };
        let parts = conv.parts();
        if part == ConvPart::Weight && parts > 1 {
            let partial = Place { buf: self.new_buffer(node.dtype, parts * len, (level, level + 1)), first: 0 };
            let to_sum = self.place_of(id, level + 1);
            let how = Reduction::Sum;
            self.kernels
                .push((level + 1, Kernel::Combine { how, dtype: node.dtype, parts, len, from: partial, to: to_sum }));
            conv.to = partial;
        }
        self.kernels.push((level, Kernel::Conv(conv)));
    }
}

/// Sort kernels into levels, without empty ones.
pub(super) fn levels(mut emitted: Vec<(usize, Kernel)>) -> (Vec<Kernel>, Vec<std::ops::Range<usize>>) {
    emitted.sort_by_key(|(level, _)| *level);
    let mut levels = vec![];
    let mut start = 0;
    for chunk in emitted.chunk_by(|a, b| a.0 == b.0) {
        levels.push(start..start + chunk.len());
        start += chunk.len();
    }
    (emitted.into_iter().map(|(_, k)| k).collect(), levels)
}

/// Elements a tile of a fused kernel covers: about as many as take three microseconds, whole rows of them.
fn tile(map: &Map, split_reduction: bool) -> usize {
    let (target, fewest) = if split_reduction {
        // Every tile leaves a partial result, so there must not be too many.
        (REDUCE_TILE, (map.total / map.row).div_ceil(64))
    } else {
        let nanoseconds = map.element_cost() * map.dtype.bytes() as f64 / 8.0;
        (((3000.0 / nanoseconds) as usize).clamp(64, 16384).next_multiple_of(64), 1)
    };
    // Tiles that end with a vector need no special care there.
    let even = 16 / (1 << map.row.trailing_zeros().min(4));
    let rows = (target / map.row).max(fewest).next_multiple_of(even);
    (rows * map.row).min(map.total)
}
