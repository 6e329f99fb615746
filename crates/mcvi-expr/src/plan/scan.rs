//! Loops: the body is planned like a program of its own, with the carries as its states. Its buffers share a piece of
//! memory; what it reads and writes outside is seen through windows that move along with the iterations.

use super::build::{Leaf, Schedule, levels, space};
use super::emit::{Emitter, Home};
use super::live::LiveLoop;
use super::memory::{Life, place};
use super::view::collapsed;
use super::{BufId, Buffer, Kernel, Loop, Place, Strided, Window, sink};
use crate::graph::{Node, NodeId, Op, Part};
use crate::shape::DType;
use std::collections::{HashMap, HashSet};

impl Emitter {
    pub(super) fn scan(&mut self, id: NodeId, level: usize) {
        let Some(LiveLoop { scan, operands, parts, mut body }) = self.s.loops.remove(&id) else {
            unreachable!("the schedule knows all its loops")
        };
        let args = self.s.node(id).args.clone();
        let graph = self.s.graph.clone();
        let (mut before, mut leaves, mut windows) = (vec![], HashMap::new(), vec![]);
        for (&(i, within), &arg) in operands.iter().zip(&args) {
            let node = &graph[within.index()];
            let (dtype, size) = (node.dtype, node.shape.size());
            let mut leaf = Leaf { strides: node.shape.strides(), moving: false, literal: false };
            let window = if i < scan.carries.len() {
                // A carry stands where its last value is wanted.
                let last = parts.iter().find(|p| p.0 == Part::Last(within)).map(|p| p.1);
                let carry = match last {
                    Some(last) => self.place_of(last, level),
                    None => Place { buf: self.new_buffer(dtype, size, (level, level)), first: 0 },
                };
                let (dims, strides) = collapsed(node.shape.dims(), &leaf.strides);
                let (from, to) = (self.strided(arg, level), Strided { place: carry, dims, strides });
                before.push(Kernel::Copy { from_type: dtype, to_type: dtype, from, to, zero_first: None });
                body.nodes.insert(within);
                Window { of: carry.buf, first: carry.first, step: 0 }
            } else {
                let view = self.s.view(arg).clone();
                let base = self.place_of(view.base, level);
                leaf.moving = i < scan.carries.len() + scan.xs.len();
                let step = if leaf.moving { view.strides[0] } else { 0 };
                leaf.strides = view.strides[usize::from(leaf.moving)..].to_vec();
                leaf.literal = !leaf.moving && view.base == arg && matches!(node.op, Op::Literal(_));
                Window { of: base.buf, first: base.first + view.offset, step }
            };
            windows.push((within, self.window(dtype, size, window)));
            leaves.insert(within, leaf);
        }
        let carries: HashMap<NodeId, NodeId> = scan.carries.iter().copied().collect();
        let needed = operands.iter().filter(|o| o.0 < scan.carries.len()).map(|o| (o.1, carries[&o.1]));
        let stacks: Vec<(NodeId, NodeId)> = parts
            .iter()
            .filter_map(|&(part, to)| if let Part::Stack(id) = part { Some((id, to)) } else { None })
            .collect();
        let roots: Vec<NodeId> = needed.clone().map(|n| n.1).chain(stacks.iter().map(|s| s.0)).collect();
        let (mut s, local) = Schedule::new(graph, body, &roots, &leaves);
        let held: HashSet<NodeId> = needed.clone().map(|n| local[&n.0]).collect();
        let updates: Vec<(NodeId, NodeId)> = needed
            .map(|(carry, next)| {
                let next = local[&next];
                // What replaces a carry must not be read from another one.
                let from_carry = held.contains(&s.view(next).base);
                (local[&carry], if from_carry { s.materialise(next) } else { next })
            })
            .collect();
        let mut of: HashMap<NodeId, BufId> = windows.into_iter().map(|(id, buf)| (local[&id], buf)).collect();
        let mut outputs = vec![];
        for (from, to) in stacks {
            let (row, value) = row_of(&mut s, local[&from]);
            let place = self.place_of(to, level);
            let Node { shape, dtype, .. } = s.node(value).clone();
            let window = Window { of: place.buf, first: place.first, step: shape.size() as isize };
            of.insert(row, self.window(dtype, shape.size(), window));
            outputs.push(value);
        }
        let roots: Vec<NodeId> = outputs.iter().copied().chain(updates.iter().map(|u| u.1)).collect();
        sink::sink(&mut s, &roots);

        let mut inner = Emitter::new(s, self.scopes);
        inner.of = of;
        (inner.bufs, inner.literals) = (std::mem::take(&mut self.bufs), std::mem::take(&mut self.literals));
        inner.work(&outputs, &updates);
        (self.bufs, self.literals, self.scopes) = (inner.bufs, inner.literals, inner.scopes);
        let (kernels, levels) = levels(inner.kernels);
        self.workspace(inner.scope, level);
        let (length, reverse) = (scan.length, scan.reverse);
        self.kernels.push((level, Kernel::Loop(Box::new(Loop { length, reverse, before, kernels, levels }))));
    }

    fn window(&mut self, dtype: DType, len: usize, window: Window) -> BufId {
        let whole = window.first == 0 && window.step == 0 && self.bufs[window.of.0 as usize].len == len;
        if whole { window.of } else { self.draft(dtype, len, Home::Window(window)) }
    }

    /// Give the buffers of a body a piece of memory at this level.
    fn workspace(&mut self, scope: usize, level: usize) {
        let of = self.new_buffer(DType::F64, 0, (level, level));
        let outer = std::mem::replace(&mut self.scope, scope);
        let bytes = self.place_scope(Some(of));
        self.scope = outer;
        let len = bytes.div_ceil(DType::F64.bytes());
        self.bufs[of.0 as usize].len = len;
        if let Home::Own { life, .. } = &mut self.bufs[of.0 as usize].home {
            life.bytes = len.saturating_mul(DType::F64.bytes());
        }
    }

    /// Place the buffers of this scope in the arena, or in a buffer of another one; returns the bytes that takes.
    pub(super) fn place_scope(&mut self, within: Option<BufId>) -> usize {
        let mut own: Vec<(usize, Life)> = vec![];
        for (i, buf) in self.bufs.iter().enumerate() {
            if let Home::Own { scope, life } = buf.home
                && scope == self.scope
            {
                own.push((i, life));
            }
        }
        let lives: Vec<Life> = own.iter().map(|o| o.1).collect();
        let (offsets, bytes) = place(&lives);
        for ((i, _), offset) in own.into_iter().zip(offsets) {
            self.bufs[i].home = Home::Inside(within, offset);
        }
        bytes
    }

    /// A buffer whose place is known.
    pub(super) fn buffer(&self, id: BufId) -> Buffer {
        let draft = &self.bufs[id.0 as usize];
        let (offset, window) = match draft.home {
            Home::Inside(within, bytes) => (within.map_or(0, |of| self.buffer(of).offset) + bytes, None),
            Home::Window(w) => (self.buffer(w.of).offset + w.first * draft.dtype.bytes(), Some(w)),
            Home::Own { .. } => unreachable!("all scopes are placed"),
        };
        Buffer { dtype: draft.dtype, len: draft.len, offset, window }
    }
}

/// Have a node computed in a row of the stack of its values, as which a new leaf stands; or else a copy of it.
fn row_of(s: &mut Schedule, id: NodeId) -> (NodeId, NodeId) {
    let shape = s.node(id).shape.clone();
    let base = s.view(id).base;
    // A loop within this one reads from, and writes to, the same places in all its iterations.
    let in_loop = matches!(s.node(base).op, Op::Part(_)) || s.in_loops(base);
    let fixed = s.is_leaf(base) || s.alias.contains_key(&base) || in_loop;
    let value = if !fixed && s.is_identity(id, &space(&shape)) { id } else { s.materialise(id) };
    let row = s.push(Node { op: Op::Placeholder(0), args: vec![], ..s.node(value).clone() });
    s.alias.insert(s.view(value).base, (row, 0));
    s.moving.insert(row);
    (row, value)
}
