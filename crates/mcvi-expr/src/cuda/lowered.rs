//! A plan made ready for a GPU, without needing one: tasks, memory and source.

use super::fuse::{self, Epilogue, Step, Work};
use super::lower::{self, Functions, Layout, Precision, Task};
use crate::plan::{Kernel, Life, Plan, place};

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
    let steps = fuse::steps(plan);
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

/// Functions and arguments, for buffers from `base` on, tables at `tables` and blocks with so much shared memory.
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
    for step in &shaped.steps {
        if let Work::Plan(kernel @ Kernel::External { .. }) = &step.work {
            externals.push((step.level, kernel.clone()));
        }
        checks |= matches!(step.work, Work::Plan(Kernel::Index { .. }));
        let Some(mut task) = lower::task(step, &layout, precision, &mut functions) else { continue };
        for (term, table) in lower::tables(step).iter().enumerate() {
            task.words[lower::table_word(term)] = at;
            at += 8 * table.len() as u64;
        }
        tasks.push(task);
    }
    Lowered { tasks, externals, functions, transfer, checks }
}

/// Bytes of shared memory a block has where nobody says: those of an H100.
const SHARED: usize = 223 << 10;

/// The source for a plan, for tests and for those who want to read it.
pub(crate) fn source(plan: &Plan, full: bool) -> String {
    let precision = if full { Precision::Full } else { Precision::Tf32 };
    let shaped = shape(plan);
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
        Work::Conv { conv, small, epilogues, keep } => {
            let resized = small.map_or(String::new(), |[h, w]| format!("(resized, {h}x{w}) "));
            resized + &followed(Kernel::Conv(conv.clone()), epilogues, *keep)
        }
    }
}
