//! Loops: the body is planned like a program of its own, with the carries as its states. Its buffers share a piece of
//! memory; what it reads and writes outside is seen through windows that move along with the iterations.

use super::build::{Leaf, Schedule, space};
use super::emit::{Emitter, levels};
use super::live::LiveLoop;
use super::view::collapsed;
use super::{BufId, Kernel, Loop, Place, Strided, Window, sink};
use crate::graph::{Node, NodeId, Op, Part, Scan};
use crate::shape::Shape;
use std::collections::{HashMap, HashSet};

/// Where, in the row of all values of a carry, those are that iterations begin and end with, and the last one.
fn ends(scan: &Scan, size: usize) -> [usize; 3] {
    if scan.reverse { [size, 0, 0] } else { [0, size, scan.length * size] }
}

impl Emitter {
    /// Have all values of a carry stand in a row, each where the next iteration reads it, if they are asked for.
    pub(super) fn line_up(&mut self) {
        let mut loops: Vec<NodeId> = self.s.loops.keys().copied().collect();
        loops.sort_unstable();
        for id in loops {
            let LiveLoop { scan, operands, parts, .. } = &self.s.loops[&id];
            let (scan, mut parts) = (scan.clone(), parts.clone());
            let needed: HashSet<NodeId> = operands.iter().map(|o| o.1).collect();
            let bound: HashSet<NodeId> = scan.bound().collect();
            for &(carry, new) in scan.carries.iter().filter(|c| needed.contains(&c.0)) {
                let Node { shape, dtype, .. } = self.s.graph[carry.index()].clone();
                let [first, second, end] = ends(&scan, shape.size());
                let followers = if bound.contains(&new) { None } else { Some((Part::Stack(new), second)) };
                let wanted = [Some((Part::Stack(carry), first)), followers];
                if !wanted.iter().flatten().any(|(part, _)| parts.iter().any(|p| p.0 == *part)) {
                    continue;
                }
                let shape = Shape::from([&[scan.length + 1], shape.dims()].concat());
                let all = self.s.push(Node { op: Op::Part(Part::Stack(carry)), args: vec![], shape, dtype });
                for (part, at) in wanted.into_iter().flatten().chain([(Part::Last(carry), end)]) {
                    // Another carry with the same values has its own.
                    if let Some(found) = parts.iter().position(|p| p.0 == part) {
                        self.s.alias.insert(parts.swap_remove(found).1, (all, at));
                    }
                }
                self.rows.insert((id, carry), all);
            }
        }
    }

    pub(super) fn scan(&mut self, id: NodeId, level: usize) {
        let Some(LiveLoop { scan, operands, parts, mut body }) = self.s.loops.remove(&id) else {
            unreachable!("the schedule knows all its loops")
        };
        let args = self.s.node(id).args.clone();
        let graph = self.s.graph.clone();
        let next: HashMap<NodeId, NodeId> = scan.carries.iter().copied().collect();
        let mut stacks: HashMap<NodeId, NodeId> = HashMap::new();
        let mut last: HashMap<NodeId, NodeId> = HashMap::new();
        // (Those that are part of a row are written as that is.)
        for (part, to) in parts.into_iter().filter(|p| !self.s.alias.contains_key(&p.1)) {
            match part {
                Part::Stack(of) => stacks.insert(of, to),
                Part::Last(of) => last.insert(of, to),
            };
        }
        // Nodes bound outside the body, those that replace a carry in its place, and those that have a row of their own.
        let (mut windows, mut held, mut rows) = (vec![], vec![], vec![]);
        let (mut before, mut leaves) = (vec![], HashMap::new());
        for (&(i, within), &arg) in operands.iter().zip(&args) {
            let node = &graph[within.index()];
            let (dtype, size) = (node.dtype, node.shape.size());
            let mut leaf = Leaf { strides: node.shape.strides(), moving: false, literal: false };
            let window = if i < scan.carries.len() {
                let new = next[&within];
                let (mut place, mut window) = (None, None);
                if let Some(&all) = self.rows.get(&(id, within)) {
                    let [first, second, end] = ends(&scan, size);
                    let Place { buf, .. } = self.place_of(all, level);
                    let step = size as isize;
                    rows.push((new, Window { of: buf, first: second, step }));
                    leaf.moving = true;
                    place = Some(Place { buf, first: scan.length * size - end });
                    window = Some(Window { of: buf, first, step });
                } else {
                    held.push((within, new));
                    body.nodes.insert(within);
                }
                let place = place.unwrap_or_else(|| match last.remove(&within) {
                    Some(last) => self.place_of(last, level),
                    None => Place { buf: self.new_buffer(dtype, size, (level, level)), first: 0 },
                });
                let (dims, strides) = collapsed(node.shape.dims(), &leaf.strides);
                let (from, to) = (self.strided(arg, level), Strided { place, dims, strides });
                before.push(Kernel::Copy { from_type: dtype, to_type: dtype, from, to, zero_first: None });
                window.unwrap_or(Window { of: place.buf, first: place.first, step: 0 })
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
        let mut sorted: Vec<(NodeId, NodeId)> = stacks.into_iter().collect();
        sorted.sort_unstable();
        for (from, to) in sorted {
            let Place { buf, first } = self.place_of(to, level);
            let step = graph[from.index()].shape.size() as isize;
            rows.push((from, Window { of: buf, first, step }));
        }
        let roots: Vec<NodeId> = held.iter().map(|h| h.1).chain(rows.iter().map(|r| r.0)).collect();
        let (mut s, local) = Schedule::new((graph, self.s.graph_parts.clone()), body, &roots, &leaves);
        let in_place: HashSet<NodeId> = held.iter().map(|h| local[&h.0]).collect();
        let replace = |(carry, new): (NodeId, NodeId)| {
            let new = local[&new];
            // What replaces a carry must not be read from another one.
            let from_carry = in_place.contains(&s.view(new).base);
            (local[&carry], if from_carry { s.materialise(new) } else { new })
        };
        let updates: Vec<(NodeId, NodeId)> = held.into_iter().map(replace).collect();
        let mut of: HashMap<NodeId, BufId> =
            windows.into_iter().filter_map(|(id, buf)| Some((*local.get(&id)?, buf))).collect();
        let mut outputs = vec![];
        for (from, window) in rows {
            let (row, value) = row_of(&mut s, local[&from]);
            let Node { shape, dtype, .. } = s.node(value).clone();
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
