//! A plan made ready for a GPU, without needing one: tasks, memory and source.

use super::balance;
use super::fuse::{self, Step, Work};
use super::lower::{self, Functions, Layout, Precision, Task, Tile};
use crate::plan::{Kernel, Life, Plan, place};
use std::collections::{BTreeMap, HashMap};

/// Work of a plan in levels, and where its buffers lie.
pub(super) struct Shaped {
    pub steps: Vec<Step>,
    pub offsets: Vec<usize>,
    pub bytes: usize,
    /// First elements of the operands of products with several items, one table after the other.
    pub tables: Vec<u64>,
}

/// Order a plan's work for a GPU and give its buffers memory.
pub(super) fn shape(plan: &Plan) -> Shaped {
    let mut steps = fuse::steps(plan);
    balance::spread(&mut steps);
    let mut lives: Vec<Life> =
        plan.buffers.iter().map(|b| Life { bytes: b.len * b.dtype.bytes(), from: usize::MAX, until: 0 }).collect();
    for step in &steps {
        for touch in step.touches() {
            let life = &mut lives[touch.buf.0 as usize];
            life.from = life.from.min(step.level);
            life.until = life.until.max(step.level);
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
    let tables = steps.iter().flat_map(lower::tables).flatten().collect();
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

/// Functions and arguments, for buffers from `base` on and tables at `tables`, and so many bytes of shared memory.
pub(super) fn lower(
    plan: &Plan,
    shaped: &Shaped,
    base: u64,
    tables: u64,
    shared: usize,
    precision: Precision,
) -> Lowered {
    let layout = Layout { plan, base, offsets: &shaped.offsets, shared };
    let sizes = sizes(&shaped.steps, precision, shared);
    let mut functions = Functions::default();
    let transfer = functions.transfer();
    let (mut tasks, mut externals, mut at) = (vec![], vec![], tables);
    let mut checks = false;
    for (number, step) in shaped.steps.iter().enumerate() {
        if let Work::Plan(kernel @ Kernel::External { .. }) = &step.work {
            externals.push((step.level, kernel.clone()));
        }
        checks |= matches!(step.work, Work::Plan(Kernel::Index { .. }));
        let Some(mut task) = lower::task(step, sizes.get(&number).copied(), &layout, precision, &mut functions) else {
            continue;
        };
        for (term, table) in lower::tables(step).iter().enumerate() {
            task.words[lower::table_word(term)] = at;
            at += 8 * table.len() as u64;
        }
        tasks.push(task);
    }
    Lowered { tasks, externals, functions, transfer, checks }
}

/// The size of the tiles of every product, by the number of its step.
fn sizes(steps: &[Step], precision: Precision, shared: usize) -> HashMap<usize, Tile> {
    let mut levels: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        levels.entry(step.level).or_default().push(number);
    }
    let mut sizes = HashMap::new();
    for level in levels.values() {
        let of = |&n: &usize| match &steps[n].work {
            Work::Product { product, epilogues, .. } => Some((n, (product, epilogues.as_slice()))),
            _ => None,
        };
        let (numbers, products): (Vec<usize>, Vec<_>) = level.iter().filter_map(of).unzip();
        sizes.extend(numbers.into_iter().zip(lower::tiles(&products, precision, shared)));
    }
    sizes
}

/// The source for a plan, for tests and for those who want to read it.
pub(crate) fn source(plan: &Plan, full: bool) -> String {
    let precision = if full { Precision::Full } else { Precision::Tf32 };
    let shaped = shape(plan);
    lower(plan, &shaped, 0, 0, usize::MAX, precision).functions.source()
}

/// What a step does, for profiles.
pub(super) fn describe(work: &Work) -> String {
    match work {
        Work::Plan(kernel) => kernel.to_string(),
        Work::Zero { len, .. } => format!("zero {len}"),
        Work::Product { product, epilogues, keep } => {
            let mut text = Kernel::MatMul(product.clone()).to_string();
            for e in epilogues {
                text += &format!(" + {}", Kernel::Map(e.map.clone()));
            }
            if *keep && !epilogues.is_empty() {
                text += " (kept)";
            }
            text
        }
    }
}
