//! What is planned again for a GPU: elementwise work that follows a product becomes part of it, and levels are counted again.
//!
//! A level costs a GPU a few microseconds however little it does, so the fewer the better. A fused kernel of the plan may
//! hold work that has nothing to do with the rest of it; that is taken apart first, so that each part can join its product.

use super::access::{self, Access, Latest};
use super::{code, unroll};
use crate::plan::{Conv, ConvPart, Kernel, Map, MatMul, Place, Plan, Reduce, Strided, Value};
use crate::shape::DType;
use std::collections::{HashMap, HashSet};

mod gather;
mod split;

use split::{parts, passes, trimmed};

/// A map applied to the elements of a product or convolution where they are computed; its load number `load` is the product,
/// or a value of an earlier epilogue.
#[derive(Clone, Debug)]
pub(super) struct Epilogue {
    pub map: Map,
    pub load: usize,
    pub of: Option<(usize, Value)>,
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
    /// The same for a convolution or the gradient of its images. Gradients of filters have no epilogues: others combine them.
    Conv {
        conv: Conv,
        /// The extents its images have in memory, if they are smaller than those they are convolved with.
        small: Option<[usize; 2]>,
        epilogues: Vec<Epilogue>,
        keep: bool,
        /// Add to what is there: gradients of filters only.
        accumulate: bool,
    },
    Zero {
        dtype: DType,
        to: Place,
        len: usize,
    },
}

impl Work {
    /// Where the elements are that maps may be applied to as they are computed, and how many.
    fn result(&self) -> Option<(Place, usize, DType)> {
        match self {
            Work::Product { product: p, .. } => Some((p.to, p.m * p.n * p.terms.first()?.items.len(), p.dtype)),
            Work::Conv { conv: Conv { part: ConvPart::Weight, .. }, .. } => None,
            Work::Conv { conv: c, small, .. } => {
                let len = small.map_or_else(|| c.result(), |extents| c.with_images(extents).result());
                Some((c.to, len, c.dtype))
            }
            _ => None,
        }
    }

    fn epilogues(&self) -> &[Epilogue] {
        match self {
            Work::Product { epilogues, .. } | Work::Conv { epilogues, .. } => epilogues,
            _ => &[],
        }
    }

    /// What of the work is read where a map reads a strided array: the result itself or a value of an epilogue.
    fn source(&self, from: &Strided, total: usize, dtype: DType) -> Option<Option<(usize, Value)>> {
        let (to, all, of) = self.result()?;
        if all != total || of != dtype || total > i32::MAX as usize {
            return None;
        }
        // Tiles of convolutions are whole images, so that another order costs little.
        let in_order = from.is_contiguous();
        if !in_order && (!matches!(self, Work::Conv { .. }) || code::inverse(from, total, "", None).is_none()) {
            return None;
        }
        if to == from.place {
            return Some(None);
        }
        let stores = self.epilogues().iter().enumerate().flat_map(|(n, e)| e.map.stores.iter().map(move |s| (n, s)));
        stores.into_iter().find(|(_, s)| s.to == from.place).map(|(n, s)| Some((n, s.value)))
    }

    /// Maps applied to those elements, and whether they are needed in memory.
    fn tail(&mut self) -> Option<(&mut Vec<Epilogue>, &mut bool)> {
        match self {
            Work::Product { epilogues, keep, .. } | Work::Conv { epilogues, keep, .. } => Some((epilogues, keep)),
            _ => None,
        }
    }
}

/// Work and the level it runs at.
#[derive(Debug)]
pub(super) struct Step {
    pub work: Work,
    pub level: usize,
    /// The level it has to be complete with, and how many blocks are set aside for it until then; 0 if it is part of one level.
    pub until: usize,
    pub aside: usize,
    /// The pipeline of convolutions it is part of (`pipeline.rs`).
    pub pipeline: Option<usize>,
    /// First and last level it may run in.
    pub during: (usize, usize),
    /// Its place in an order that respects all dependencies.
    time: usize,
    touches: Vec<Access>,
}

/// All work of a plan, with levels of its own.
pub(super) fn steps(plan: &Plan) -> Vec<Step> {
    let kernels = unroll::kernels(plan);
    let fixed: HashSet<u32> = plan.slots.iter().chain(&plan.outputs).map(|s| s.place.buf.0).collect();
    let mut steps = Steps { steps: vec![], of: HashMap::new(), latest: Latest::default(), clock: 0 };
    // How often a buffer is read. A map may become several steps, each of which reads it.
    let mut read: HashMap<u32, usize> = HashMap::new();
    let reads = kernels.iter().flat_map(|kernel| match kernel {
        Kernel::Map(map) => {
            parts(map).into_iter().flat_map(passes).flat_map(|m| access::of_kernel(&Kernel::Map(m))).collect()
        }
        other => access::of_kernel(other),
    });
    for touch in reads.filter(|t| !t.write) {
        *read.entry(touch.buf.0).or_default() += 1;
    }
    for kernel in &kernels {
        match kernel {
            Kernel::MatMul(product) => {
                steps.push(Work::Product { product: product.clone(), epilogues: vec![], keep: true });
            }
            Kernel::Conv(conv) => steps.conv(conv.clone()),
            Kernel::Resize { up: false, from, .. } if read[&from.buf.0] == 1 && !fixed.contains(&from.buf.0) => {
                steps.shrink(kernel);
            }
            Kernel::Map(map) => {
                for part in parts(map) {
                    for pass in passes(part) {
                        if !steps.gather(&pass, |p| read[&p.buf.0] == 1 && !fixed.contains(&p.buf.0)) {
                            steps.map(pass);
                        }
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
    steps.close_gaps();
    steps.steps
}

struct Steps {
    steps: Vec<Step>,
    /// The steps that touch a buffer.
    of: HashMap<u32, Vec<usize>>,
    latest: Latest,
    clock: usize,
}

impl Steps {
    /// The level after some steps.
    fn after(&self, steps: impl Iterator<Item = usize>) -> usize {
        steps.map(|s| self.steps[s].level + 1).max().unwrap_or(0)
    }

    fn before<'a>(&'a self, touches: &'a [Access], but: Option<usize>) -> impl Iterator<Item = usize> + 'a {
        touches.iter().flat_map(move |t| {
            let earlier = self.of.get(&t.buf.0).into_iter().flatten().copied();
            earlier.filter(move |&s| Some(s) != but && self.steps[s].touches.iter().any(|e| e.conflicts(t)))
        })
    }

    fn push(&mut self, work: Work) {
        let touches = access::of(&work);
        let level = self.after(self.latest.before(&touches));
        let index = self.steps.len();
        self.note(index, &touches);
        self.clock += 1;
        self.steps.push(Step::new(work, level, self.clock, touches));
    }

    fn note(&mut self, index: usize, touches: &[Access]) {
        self.latest.note(index, touches);
        for t in touches {
            let list = self.of.entry(t.buf.0).or_default();
            if !list.contains(&index) {
                list.push(index);
            }
        }
    }

    /// A convolution; if its images were resized for it, it resizes them itself.
    fn conv(&mut self, mut conv: Conv) {
        let mut small = None;
        if conv.part != ConvPart::Input {
            let x = conv.from[0];
            let whole = Access { buf: x.buf, range: x.first..x.first + conv.operands()[0], write: false };
            if let [s] = self.before(&[whole], None).collect::<Vec<_>>()[..]
                && let Work::Plan(Kernel::Resize { up: true, from, to, small: extents, large, .. }) = &self.steps[s].work
                // A view of it in other extents begins at the same place.
                && (*to == x && conv.x[2..] == large[..])
                && self.unchanged(s)
            {
                (conv.from[0], small) = (*from, Some(*extents));
            }
        }
        self.push(Work::Conv { conv, small, epilogues: vec![], keep: true, accumulate: false });
    }

    /// Whether what a step read is still there.
    fn unchanged(&self, step: usize) -> bool {
        let Step { touches, time, .. } = &self.steps[step];
        let after = |t: &Access| {
            self.of[&t.buf.0]
                .iter()
                .any(|&s| self.steps[s].time > *time && self.steps[s].touches.iter().any(|o| o.write && o.overlaps(t)))
        };
        !touches.iter().filter(|t| !t.write).any(after)
    }

    /// The adjoint of resizing. If it is of a gradient of images that nothing else reads, that step computes it.
    fn shrink(&mut self, kernel: &Kernel) {
        let Kernel::Resize { planes, from, to: target, small: extents, large, .. } = kernel else {
            unreachable!("called for those")
        };
        let writers = self.of.get(&from.buf.0).into_iter().flatten().copied();
        let index = writers.max_by_key(|&s| self.steps[s].time);
        let found = index.and_then(|index| {
            let mut work = self.steps[index].work.clone();
            let Work::Conv { conv, small, epilogues, .. } = &mut work else { return None };
            let [n, c, h, w] = conv.x;
            let same = conv.part == ConvPart::Input && conv.to == *from && (n * c, [h, w]) == (*planes, *large);
            if !same || small.is_some() || !epilogues.is_empty() || self.depended_on(index) {
                return None;
            }
            (conv.to, *small) = (*target, Some(*extents));
            Some((index, work))
        });
        match found {
            Some((index, work)) => self.replace(index, work),
            None => self.push(Work::Plan(kernel.clone())),
        }
    }

    /// Put work in the place of a step that it includes.
    fn replace(&mut self, index: usize, work: Work) {
        let touches = access::of(&work);
        // (It still comes after what it made others forget.)
        let level = self.after(self.before(&touches, Some(index))).max(self.steps[index].level);
        self.note(index, &touches);
        self.clock += 1;
        self.steps[index] = Step::new(work, level, self.clock, touches);
    }

    /// Whether later steps depend on this one being done.
    fn depended_on(&self, index: usize) -> bool {
        self.depended_on_by_others(index, None)
    }

    fn depended_on_by_others(&self, index: usize, but: Option<usize>) -> bool {
        let Step { time, touches, .. } = &self.steps[index];
        let moved = |s: &Step| s.time > *time && touches.iter().any(|t| s.touches.iter().any(|o| o.conflicts(t)));
        let between = touches.iter().flat_map(|t| self.of.get(&t.buf.0).into_iter().flatten());
        between.copied().any(|s| s != index && Some(s) != but && moved(&self.steps[s]))
    }

    /// Join a map to the product it reads, or add it as separate work. If it has reductions, those follow by themselves.
    fn map(&mut self, map: Map) {
        if map.reduces.is_empty() {
            if !self.join(&map) {
                self.push(Work::Plan(Kernel::Map(map)));
            }
            return;
        }
        let stored = |r: &Reduce| map.stores.iter().find(|s| s.value == r.value);
        let read: HashSet<u32> = map.loads.iter().map(|l| l.place.buf.0).collect();
        let apart =
            map.reduces.iter().all(|r| stored(r).is_some()) && !map.stores.iter().any(|s| read.contains(&s.to.buf.0));
        if apart && self.join(&trimmed(Map { reduces: vec![], ..map.clone() })) {
            let whole = |to: Place| Strided { place: to, dims: vec![map.total], strides: vec![1] };
            let loads = map.reduces.iter().filter_map(stored).map(|s| whole(s.to)).collect();
            let again = |(n, r): (usize, &Reduce)| Reduce { value: Value::Load(n), ..r.clone() };
            let reduces = map.reduces.iter().enumerate().map(again).collect();
            self.push(Work::Plan(Kernel::Map(Map { loads, reduces, ops: vec![], stores: vec![], ..map })));
        } else {
            self.push(Work::Plan(Kernel::Map(map)));
        }
    }

    /// Join a map to the product it reads, if there is one.
    fn join(&mut self, map: &Map) -> bool {
        let found = (0..map.loads.len()).find_map(|load| Some((self.product_for(map, load)?, load)));
        let Some(((index, of), load)) = found else { return false };
        let mut work = self.steps[index].work.clone();
        if let Some((epilogues, _)) = work.tail() {
            epilogues.push(Epilogue { map: map.clone(), load, of });
        }
        self.replace(index, work);
        true
    }

    /// The product whose elements, one by one, are the map's load, if the map may be computed along with it.
    fn product_for(&self, map: &Map, load: usize) -> Option<(usize, Option<(usize, Value)>)> {
        let from = &map.loads[load];
        let wanted =
            Access { buf: from.place.buf, range: from.place.first..from.place.first + map.total, write: false };
        let writers = self.of.get(&wanted.buf.0)?.iter().copied();
        let writes = |s: usize| self.steps[s].touches.iter().any(|t| t.write && t.overlaps(&wanted));
        let index = writers.filter(|&s| writes(s)).max_by_key(|&s| self.steps[s].time)?;
        let Step { work, level, touches, .. } = &self.steps[index];
        let of = work.source(from, map.total, map.dtype)?;
        // The map must read the product in this way only, and what else it reads must be there before the product is.
        let mut rest = vec![];
        for (i, other) in map.loads.iter().enumerate() {
            if i != load {
                let single = Map { loads: vec![other.clone()], ops: vec![], stores: vec![], reduces: vec![], ..*map };
                rest.extend(access::of(&Work::Plan(Kernel::Map(single))));
            }
        }
        if rest.iter().any(|r| r.overlaps(&wanted)) || self.latest.before(&rest).any(|s| self.steps[s].level >= *level)
        {
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
        if self.depended_on(index) {
            return None;
        }
        Some((index, of))
    }

    /// Do not store what nothing reads.
    fn drop_unread(&mut self, fixed: &HashSet<u32>) {
        for i in 0..self.steps.len() {
            let unread = |place: Place, len: usize| {
                let range = place.first..place.first + len;
                let wanted = Access { buf: place.buf, range, write: true };
                let readers = self.of.get(&place.buf.0).into_iter().flatten().copied();
                let mut others = readers.filter(|&s| s != i);
                let reads = |s: usize| self.steps[s].touches.iter().any(|t| !t.write && t.overlaps(&wanted));
                !fixed.contains(&place.buf.0) && !others.any(reads)
            };
            if let Work::Plan(Kernel::Resize { planes, small, large, up, to, .. }) = &self.steps[i].work {
                let each = if *up { large } else { small };
                if unread(*to, planes * each[0] * each[1]) {
                    self.steps[i].touches.clear();
                }
                continue;
            }
            let Some((to, len, _)) = self.steps[i].work.result() else { continue };
            if self.steps[i].work.epilogues().is_empty() {
                continue;
            }
            let mut work = self.steps[i].work.clone();
            if let Some((epilogues, keep)) = work.tail() {
                *keep = !unread(to, len);
                epilogues.iter_mut().for_each(|e| e.map.stores.retain(|s| !unread(s.to, len)));
            }
            self.steps[i].touches = access::of(&work);
            self.steps[i].work = work;
        }
        // Only what others do themselves touches nothing.
        self.steps.retain(|s| !s.touches.is_empty());
    }

    /// Number the levels again, without the empty ones.
    fn close_gaps(&mut self) {
        let mut levels: Vec<usize> = self.steps.iter().map(|s| s.level).collect();
        levels.sort_unstable();
        levels.dedup();
        for step in &mut self.steps {
            step.level = levels.partition_point(|l| *l < step.level);
        }
    }
}

impl Step {
    fn new(work: Work, level: usize, time: usize, touches: Vec<Access>) -> Self {
        Step { work, level, until: level, aside: 0, pipeline: None, during: (level, level), time, touches }
    }

    pub fn time(&self) -> usize {
        self.time
    }

    pub fn touches(&self) -> &[Access] {
        &self.touches
    }
}
