//! A plan made ready for a GPU, without needing one: tasks, memory and source.

use super::access::Access;
use super::balance;
use super::conv::Convolution;
use super::fuse::{self, Epilogue, Step, Work};
use super::task::{self, BLOCKS, Functions, Layout, Precision, Task, Tile};
use crate::plan::memory::{Life, place};
use crate::plan::{ConvPart, Kernel, Plan};

/// Work of a plan in levels, and where its buffers lie.
pub(super) struct Shaped {
    pub steps: Vec<Step>,
    pub offsets: Vec<usize>,
    pub bytes: usize,
    /// First elements of the operands of products with several items, one table after the other.
    pub tables: Vec<u64>,
}

/// Order a plan's work for a GPU with `shared` bytes of shared memory, and assign memory to its buffers.
pub(super) fn shape(plan: &Plan, shared: usize) -> Shaped {
    let mut steps = fuse::steps(plan);
    balance::spread(&mut steps, shared);
    let mut lives: Vec<Life> =
        plan.buffers.iter().map(|b| Life { bytes: b.len * b.dtype.bytes(), from: usize::MAX, until: 0 }).collect();
    for step in &steps {
        for touch in step.touches() {
            let life = &mut lives[touch.buf.0 as usize];
            life.from = life.from.min(step.during.0);
            life.until = life.until.max(step.during.1);
        }
    }
    for slot in &plan.slots {
        let life = &mut lives[slot.place.buf.0 as usize];
        (life.from, life.until) = (0, usize::MAX);
    }
    for (place, _) in &plan.literals {
        let life = &mut lives[place.buf.0 as usize];
        (life.from, life.until) = (0, usize::MAX);
    }
    for slot in &plan.outputs {
        lives[slot.place.buf.0 as usize].until = usize::MAX;
    }
    // Buffers that are no longer touched take no room.
    for life in lives.iter_mut().filter(|l| l.from > l.until) {
        *life = Life { bytes: 0, from: 0, until: 0 };
    }
    let (offsets, bytes) = place(&lives);
    // In the order in which products are lowered.
    let mut sorted: Vec<&Step> = steps.iter().collect();
    sorted.sort_by_key(|s| s.level);
    let tables = sorted.into_iter().flat_map(task::tables).flatten().collect();
    Shaped { steps, offsets, bytes, tables }
}

/// Tasks for the device, in any order, and work for the host.
pub(super) struct Lowered {
    pub tasks: Vec<Task>,
    /// External functions with the level they are called at.
    pub externals: Vec<(usize, Kernel)>,
    pub functions: Functions,
    /// The function that moves rows in and out.
    pub transfer: u32,
    /// Whether a step may fail on the device.
    pub checks: bool,
}

/// Functions and arguments, for buffers from `base` on, tables at `tables`, and `shared` bytes of shared memory.
pub(super) fn lower(
    plan: &Plan,
    shaped: &Shaped,
    base: u64,
    tables: u64,
    shared: usize,
    precision: Precision,
) -> Lowered {
    let layout = Layout { plan, base, offsets: &shaped.offsets, shared };
    let mut functions = Functions::default();
    let transfer = functions.transfer();
    let (mut tasks, mut externals, mut at) = (vec![], vec![], tables);
    let mut checks = false;
    // Products come last: their tiles are cut to fit beside the rest of their level.
    let levels = shaped.steps.iter().map(|s| s.level.max(s.until) + 1).max().unwrap_or(0);
    let (mut others, mut aside) = (vec![vec![]; levels], vec![0; levels]);
    let (products, rest): (Vec<&Step>, Vec<&Step>) =
        shaped.steps.iter().partition(|s| matches!(s.work, Work::Product { .. }));
    for step in rest {
        if let Work::Plan(kernel @ Kernel::External { .. }) = &step.work {
            externals.push((step.level, kernel.clone()));
        }
        checks |= matches!(step.work, Work::Plan(Kernel::Index { .. }));
        let Some(mut task) = task::task(step, &layout, precision, &mut functions) else { continue };
        (task.until, task.aside) = (step.until, step.aside);
        task.ready = ready(step, &shaped.steps);
        task.pipeline = step.pipeline.filter(|_| precision == Precision::Tf32);
        if step.aside > 0 {
            aside[step.level..=step.until].iter_mut().for_each(|a| *a += step.aside);
        } else {
            others[step.level].push((task.tiles, task.cost));
        }
        tasks.push(task);
    }
    for (step, tile) in sizes(&products, &others, &aside, precision, shared) {
        let Some(mut task) = task::product(step, tile, &layout, precision, &mut functions) else { continue };
        for (term, table) in task::tables(step).iter().enumerate() {
            task.words[task::table_word(term)] = at;
            at += 8 * table.len() as u64;
        }
        tasks.push(task);
    }
    Lowered { tasks, externals, functions, transfer, checks }
}

/// The first level before which all is complete that the preparation of a convolution reads: filters, if there are any.
fn ready(step: &Step, steps: &[Step]) -> Option<usize> {
    let conv = Convolution::of(&step.work)?.conv;
    if conv.part == ConvPart::Weight {
        return Some(0);
    }
    let (buf, first) = (conv.from[1].buf, conv.from[1].first);
    let filters = Access { buf, range: first..first + conv.operands()[1], write: false };
    let writes = |s: &&Step| s.time() < step.time() && s.touches().iter().any(|t| t.conflicts(&filters));
    Some(steps.iter().filter(writes).map(|s| s.until + 1).max().unwrap_or(0))
}

/// Products with the size of their tiles, beside the other work of each level, on the blocks that are not set aside.
fn sizes<'a>(
    products: &[&'a Step],
    others: &[Vec<(usize, f64)>],
    aside: &[usize],
    precision: Precision,
    shared: usize,
) -> Vec<(&'a Step, Tile)> {
    let mut sorted = products.to_vec();
    sorted.sort_by_key(|s| s.level);
    let mut sizes = vec![];
    for level in sorted.chunk_by(|a, b| a.level == b.level) {
        let of = |s: &&'a Step| match &s.work {
            Work::Product { product, epilogues, .. } => Some((product, epilogues.as_slice())),
            _ => None,
        };
        let side_by_side: Vec<_> = level.iter().filter_map(of).collect();
        let at = level[0].level;
        let blocks = BLOCKS.saturating_sub(aside[at]).max(1);
        let tiles = task::tiles(&side_by_side, &others[at], blocks, precision, shared);
        sizes.extend(level.iter().copied().zip(tiles));
    }
    sizes
}

/// Bytes of shared memory a block is taken to have where there is no GPU to ask: those of an H100.
const SHARED: usize = 223 << 10;

/// The source for a plan, for tests and for those who want to read it.
pub(crate) fn source(plan: &Plan, full: bool) -> String {
    let precision = if full { Precision::Full } else { Precision::Tf32 };
    let shaped = shape(plan, SHARED);
    lower(plan, &shaped, 0, 0, SHARED, precision).functions.source()
}

fn followed(kernel: Kernel, epilogues: &[Epilogue], keep: bool) -> String {
    let mut text = kernel.to_string();
    for e in epilogues {
        text += &format!(" + {}", Kernel::Map(e.map.clone()));
    }
    if keep && !epilogues.is_empty() {
        text += " (kept)";
    }
    text
}

/// What a step does, for profiles.
pub(super) fn describe(work: &Work) -> String {
    match work {
        Work::Plan(kernel) => kernel.to_string(),
        Work::Zero { len, .. } => format!("zero {len}"),
        Work::Product { product, epilogues, keep } => followed(Kernel::MatMul(product.clone()), epilogues, *keep),
        Work::Conv { conv, small, epilogues, keep, accumulate } => {
            let resized = small.map_or(String::new(), |[h, w]| format!("(resized, {h}x{w}) "));
            let onto = if *accumulate { " accumulated" } else { "" };
            resized + &followed(Kernel::Conv(conv.clone()), epilogues, *keep) + onto
        }
    }
}
