//! What is planned anew for a GPU: elementwise work that follows a product becomes part of it, and levels are counted again.
//!
//! A level costs a GPU a few microseconds however little it does, so the fewer the better. A fused kernel of the plan may
//! hold work that has nothing to do with the rest of it; that is taken apart first, so that each part can join its product.

use super::access::{self, Access};
use crate::plan::{Kernel, Map, MatMul, Over, Place, Plan, Store, Value};
use crate::shape::DType;
use std::collections::{HashMap, HashSet};

/// A map applied to the elements of a product where they are computed; its load number `load` is the product.
#[derive(Clone, Debug)]
pub(super) struct Epilogue {
    pub map: Map,
    pub load: usize,
}

/// What one task computes.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Plan(Kernel),
    Product {
        product: MatMul,
        epilogues: Vec<Epilogue>,
        /// Whether the product itself is needed in memory.
        keep: bool,
    },
    Zero {
        dtype: DType,
        to: Place,
        len: usize,
    },
}

/// Work and the level it runs at.
#[derive(Debug)]
pub(super) struct Step {
    pub work: Work,
    pub level: usize,
    /// Its place in an order that respects all dependencies.
    time: usize,
    touches: Vec<Access>,
}

/// All work of a plan, with levels of its own.
pub(super) fn steps(plan: &Plan) -> Vec<Step> {
    let fixed: HashSet<u32> = plan.slots.iter().chain(&plan.outputs).map(|s| s.place.buf.0).collect();
    let mut steps = Steps { steps: vec![], of: HashMap::new(), clock: 0 };
    for kernel in &plan.kernels {
        match kernel {
            Kernel::MatMul(product) => {
                steps.push(Work::Product { product: product.clone(), epilogues: vec![], keep: true });
            }
            Kernel::Map(map) => {
                for part in parts(map) {
                    for pass in passes(part) {
                        steps.map(pass);
                    }
                }
            }
            Kernel::Copy { from_type, to_type, from, to, zero_first } => {
                if let &Some((place, len)) = zero_first {
                    steps.push(Work::Zero { dtype: *to_type, to: place, len });
                }
                let (from, to) = (from.clone(), to.clone());
                let copy = Kernel::Copy { from_type: *from_type, to_type: *to_type, from, to, zero_first: None };
                steps.push(Work::Plan(copy));
            }
            other => steps.push(Work::Plan(other.clone())),
        }
    }
    steps.drop_unread(&fixed);
    steps.steps
}

struct Steps {
    steps: Vec<Step>,
    /// The steps that touch a buffer.
    of: HashMap<u32, Vec<usize>>,
    clock: usize,
}

impl Steps {
    /// The level after all that must come before these accesses, leaving out a step.
    fn level(&self, touches: &[Access], but: Option<usize>) -> usize {
        self.before(touches, but).map(|s| self.steps[s].level + 1).max().unwrap_or(0)
    }

    fn before<'a>(&'a self, touches: &'a [Access], but: Option<usize>) -> impl Iterator<Item = usize> + 'a {
        touches.iter().flat_map(move |t| {
            let earlier = self.of.get(&t.buf.0).into_iter().flatten().copied();
            earlier.filter(move |&s| Some(s) != but && self.steps[s].touches.iter().any(|e| e.conflicts(t)))
        })
    }

    fn push(&mut self, work: Work) {
        let touches = access::of(&work);
        let level = self.level(&touches, None);
        let index = self.steps.len();
        self.note(index, &touches);
        self.clock += 1;
        self.steps.push(Step { work, level, time: self.clock, touches });
    }

    fn note(&mut self, index: usize, touches: &[Access]) {
        for t in touches {
            let list = self.of.entry(t.buf.0).or_default();
            if !list.contains(&index) {
                list.push(index);
            }
        }
    }

    /// Join a map to the product it reads, or add it as work of its own.
    fn map(&mut self, map: Map) {
        let found = (0..map.loads.len()).find_map(|load| Some((self.product_for(&map, load)?, load)));
        let Some((index, load)) = found else { return self.push(Work::Plan(Kernel::Map(map))) };
        let mut work = self.steps[index].work.clone();
        if let Work::Product { epilogues, .. } = &mut work {
            epilogues.push(Epilogue { map, load });
        }
        let touches = access::of(&work);
        let level = self.level(&touches, Some(index));
        self.note(index, &touches);
        self.clock += 1;
        self.steps[index] = Step { work, level, time: self.clock, touches };
    }

    /// The product whose elements, one by one, are the map's load, if the map may be computed along with it.
    fn product_for(&self, map: &Map, load: usize) -> Option<usize> {
        let from = &map.loads[load];
        if !map.reduces.is_empty() || !from.is_contiguous() {
            return None;
        }
        let wanted =
            Access { buf: from.place.buf, range: from.place.first..from.place.first + map.total, write: false };
        let writers = self.of.get(&wanted.buf.0)?.iter().copied();
        let writes = |s: usize| self.steps[s].touches.iter().any(|t| t.write && t.overlaps(&wanted));
        let index = writers.filter(|&s| writes(s)).max_by_key(|&s| self.steps[s].time)?;
        let Step { work: Work::Product { product, .. }, time, level, touches } = &self.steps[index] else {
            return None;
        };
        let items = product.terms.first()?.items.len();
        let whole = product.to == from.place && product.m * product.n * items == map.total;
        if !whole || product.dtype != map.dtype || map.total > i32::MAX as usize {
            return None;
        }
        // The map must read the product in this way only, and what else it reads must be there before the product is.
        let mut rest = vec![];
        for (i, other) in map.loads.iter().enumerate() {
            if i != load {
                let single = Map { loads: vec![other.clone()], ops: vec![], stores: vec![], reduces: vec![], ..*map };
                rest.extend(access::of(&Work::Plan(Kernel::Map(single))));
            }
        }
        if rest.iter().any(|r| r.overlaps(&wanted)) || self.before(&rest, None).any(|s| self.steps[s].level >= *level) {
            return None;
        }
        // It must not write what the product's tiles still read.
        let writes =
            map.stores.iter().map(|s| Access { buf: s.to.buf, range: s.to.first..s.to.first + map.total, write: true });
        let mut written = writes.clone();
        if written.any(|w| touches.iter().any(|t| t.conflicts(&w))) {
            return None;
        }
        // Nothing between the two may depend on the product being done.
        let moved = |s: &Step| s.time > *time && touches.iter().any(|t| s.touches.iter().any(|o| o.conflicts(t)));
        let between = touches.iter().flat_map(|t| self.of.get(&t.buf.0).into_iter().flatten());
        if between.copied().any(|s| s != index && moved(&self.steps[s])) {
            return None;
        }
        Some(index)
    }

    /// Do not store products that nobody reads.
    fn drop_unread(&mut self, fixed: &HashSet<u32>) {
        for i in 0..self.steps.len() {
            let Work::Product { product, epilogues, .. } = &self.steps[i].work else { continue };
            if epilogues.is_empty() || fixed.contains(&product.to.buf.0) {
                continue;
            }
            let buf = product.to.buf;
            let readers = self.of.get(&buf.0).into_iter().flatten().copied();
            let read = |s: usize| self.steps[s].touches.iter().any(|t| t.buf == buf && !t.write);
            if readers.into_iter().any(|s| s != i && read(s)) {
                continue;
            }
            if let Work::Product { keep, .. } = &mut self.steps[i].work {
                *keep = false;
            }
            self.steps[i].touches = access::of(&self.steps[i].work);
        }
    }
}

impl Step {
    pub fn time(&self) -> usize {
        self.time
    }

    pub fn touches(&self) -> &[Access] {
        &self.touches
    }
}

/// A map as parts that share no operation.
fn parts(map: &Map) -> Vec<Map> {
    let read: HashSet<u32> = map.loads.iter().map(|l| l.place.buf.0).collect();
    // What overwrites something the map reads must stay with whoever reads it.
    if map.stores.iter().any(|s| read.contains(&s.to.buf.0)) {
        return vec![map.clone()];
    }
    let mut group: Vec<usize> = (0..map.ops.len()).collect();
    fn root(group: &mut [usize], mut i: usize) -> usize {
        while group[i] != i {
            group[i] = group[group[i]];
            i = group[i];
        }
        i
    }
    for (i, op) in map.ops.iter().enumerate() {
        for value in &op.args {
            if let Value::Op(j) = value {
                let (a, b) = (root(&mut group, i), root(&mut group, *j));
                group[a] = b;
            }
        }
    }
    // Results by the group they belong to; what is stored as it was read forms a group of its own.
    let mut key = |v: Value| if let Value::Op(i) = v { root(&mut group, i) } else { usize::MAX };
    let keys: Vec<usize> =
        map.stores.iter().map(|s| s.value).chain(map.reduces.iter().map(|r| r.value)).map(&mut key).collect();
    let mut found: Vec<usize> = vec![];
    for &k in &keys {
        if !found.contains(&k) {
            found.push(k);
        }
    }
    if found.len() < 2 {
        return vec![map.clone()];
    }
    let part = |k: usize| {
        let stores = map.stores.iter().zip(&keys).filter(|(_, g)| **g == k).map(|(s, _)| s.clone()).collect();
        let rest = &keys[map.stores.len()..];
        let reduces = map.reduces.iter().zip(rest).filter(|(_, g)| **g == k).map(|(r, _)| r.clone()).collect();
        trimmed(Map { stores, reduces, ..map.clone() })
    };
    found.into_iter().map(part).collect()
}

/// A map without what its results do not need.
fn trimmed(map: Map) -> Map {
    let mut op_used = vec![false; map.ops.len()];
    let mut load_used = vec![false; map.loads.len()];
    let mut mark = |v: &Value, ops: &mut [bool]| match v {
        Value::Op(i) => ops[*i] = true,
        Value::Load(i) => load_used[*i] = true,
        Value::Const(_) => {}
    };
    map.stores.iter().for_each(|s| mark(&s.value, &mut op_used));
    map.reduces.iter().for_each(|r| mark(&r.value, &mut op_used));
    for i in (0..map.ops.len()).rev() {
        // The second result of a pair is computed by the operation before it.
        if op_used[i] {
            map.ops[i].args.iter().for_each(|v| mark(v, &mut op_used));
        }
    }
    let number = |used: &[bool]| -> Vec<usize> {
        used.iter()
            .scan(0, |n, u| {
                *n += usize::from(*u);
                Some(n.saturating_sub(1))
            })
            .collect()
    };
    let (op_number, load_number) = (number(&op_used), number(&load_used));
    let renamed = |v: Value| match v {
        Value::Op(i) => Value::Op(op_number[i]),
        Value::Load(i) => Value::Load(load_number[i]),
        c => c,
    };
    let mut out = map;
    let mut kept = op_used.iter();
    out.ops.retain(|_| *kept.next().unwrap_or(&true));
    let mut kept = load_used.iter();
    out.loads.retain(|_| *kept.next().unwrap_or(&true));
    out.ops.iter_mut().flat_map(|o| &mut o.args).for_each(|v| *v = renamed(*v));
    out.stores.iter_mut().for_each(|s| s.value = renamed(s.value));
    out.reduces.iter_mut().for_each(|r| r.value = renamed(r.value));
    out
}

/// One kind of reduction at a time: each kind has its own way over the elements.
fn passes(map: Map) -> Vec<Map> {
    let kinds = [Over::Rows, Over::Columns, Over::All];
    let kinds: Vec<Over> = kinds.into_iter().filter(|k| map.reduces.iter().any(|r| r.over == *k)).collect();
    if kinds.len() < 2 {
        return vec![map];
    }
    let last = kinds.len() - 1;
    let pass = |(i, kind): (usize, &Over)| {
        let reduces = map.reduces.iter().filter(|r| r.over == *kind).cloned().collect();
        // Stores come last: they may overwrite what the map reads.
        let stores: Vec<Store> = if i == last { map.stores.clone() } else { vec![] };
        trimmed(Map { reduces, stores, ..map.clone() })
    };
    kinds.iter().enumerate().map(pass).collect()
}
