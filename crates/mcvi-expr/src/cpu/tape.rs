//! Small kernels, one after the other, as a flat list of calls.
//!
//! Where arrays hold a few elements, setting up a kernel costs more than running it. Kernels of a segment that runs on
//! one thread and that fit a single register are therefore written out once, when the program is compiled: every
//! operand becomes an offset in the arena, and a step merely makes the calls.

use super::Ctx;
use super::micro::{Blocks, Cheap, OneBlock};
use super::strided::gather;
use std::collections::HashMap;

/// The signature of micro-kernels, with the element type forgotten.
pub(super) type Run = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// Where an operand lies.
#[derive(Clone, Copy)]
pub(super) enum Loc {
    /// Bytes into the program's own memory.
    Memory(usize),
    /// Bytes into registers, which no kernel leaves anything in for the next.
    Register(usize),
    /// Bytes into constants.
    Constant(usize),
}

struct Call<L> {
    run: Run,
    to: L,
    args: [L; 3],
    n: usize,
    /// What does the same, if it is a cheap operation on one block.
    short: Option<(Blocks, Cheap)>,
}

impl Call<usize> {
    fn block(&self, op: Cheap) -> Option<OneBlock> {
        let at = |bytes: usize| u32::try_from(bytes).ok();
        let [a, b, c] = self.args.map(at);
        Some(OneBlock { op, to: at(self.to)?, args: [a?, b?, c?] })
    }
}

type GatherRun = unsafe fn(*mut u8, *const u8, &[usize], &[isize], usize);

/// Elements read through strides.
struct Gather<L> {
    run: GatherRun,
    to: L,
    from: L,
    dims: Vec<usize>,
    strides: Vec<isize>,
    n: usize,
}

enum Step<L> {
    Call(Call<L>),
    /// Calls on one block each, made without calling.
    Blocks(Blocks, Vec<OneBlock>),
    Gather(Gather<L>),
    /// A job of the program that is not small.
    Job(usize),
}

/// A tape in the making.
#[derive(Default)]
pub(crate) struct Draft {
    steps: Vec<Step<Loc>>,
    registers: usize,
    constants: Vec<u8>,
    known: HashMap<(Vec<u8>, usize), usize>,
}

impl Draft {
    /// Registers of so many bytes are used.
    pub fn registers(&mut self, bytes: usize) {
        self.registers = self.registers.max(bytes);
    }

    /// A constant, repeated n times; n elements are whole vectors.
    pub fn constant(&mut self, element: &[u8], n: usize) -> Loc {
        let constants = &mut self.constants;
        let at = *self.known.entry((element.to_vec(), n)).or_insert_with(|| {
            constants.extend(element.repeat(n));
            constants.len() - n * element.len()
        });
        Loc::Constant(at)
    }

    pub fn call(&mut self, run: Run, to: Loc, args: [Loc; 3], n: usize) {
        self.steps.push(Step::Call(Call { run, to, args, n, short: None }));
    }

    /// A call that is a cheap operation on one block.
    pub fn short(&mut self, (run, short): (Run, (Blocks, Cheap)), to: Loc, args: [Loc; 3], n: usize) {
        self.steps.push(Step::Call(Call { run, to, args, n, short: Some(short) }));
    }

    pub fn gather<T: Copy>(&mut self, to: Loc, from: Loc, dims: &[usize], strides: &[isize], n: usize) {
        unsafe fn run<T: Copy>(to: *mut u8, from: *const u8, dims: &[usize], strides: &[isize], n: usize) {
            // SAFETY: promised by the caller, who knows the type.
            unsafe { gather::<T>(to.cast(), from.cast(), dims, strides, 0, n) }
        }
        let (dims, strides) = (dims.to_vec(), strides.to_vec());
        self.steps.push(Step::Gather(Gather { run: run::<T>, to, from, dims, strides, n }));
    }

    pub fn job(&mut self, index: usize) {
        self.steps.push(Step::Job(index));
    }
}

/// Lay out several tapes from the byte `start` of the arena on. They never run at the same time, so they share their
/// registers. Returns the tapes, the constants (which belong at `start`) and the bytes used in all.
pub(super) fn finish(drafts: Vec<Draft>, start: usize) -> (Vec<Tape>, Vec<u8>, usize) {
    let (mut tapes, mut constants) = (vec![], vec![]);
    let registers = start + drafts.iter().map(|d| d.constants.len()).sum::<usize>();
    let bytes = registers - start + drafts.iter().map(|d| d.registers).max().unwrap_or(0);
    for draft in drafts {
        let own = start + constants.len();
        let place = |loc: Loc| match loc {
            Loc::Memory(at) => at,
            Loc::Register(at) => registers + at,
            Loc::Constant(at) => own + at,
        };
        let steps = draft.steps.into_iter().map(|step| match step {
            Step::Call(Call { run, to, args, n, short }) => {
                Step::Call(Call { run, to: place(to), args: args.map(place), n, short })
            }
            Step::Blocks(run, blocks) => Step::Blocks(run, blocks),
            Step::Gather(g) => Step::Gather(Gather {
                run: g.run,
                to: place(g.to),
                from: place(g.from),
                dims: g.dims,
                strides: g.strides,
                n: g.n,
            }),
            Step::Job(j) => Step::Job(j),
        });
        tapes.push(Tape(joined(steps)));
        constants.extend(draft.constants);
    }
    (tapes, constants, bytes)
}

/// Cheap operations that follow each other become one step.
fn joined(steps: impl Iterator<Item = Step<usize>>) -> Vec<Step<usize>> {
    let mut all: Vec<Step<usize>> = vec![];
    for step in steps {
        let block = match &step {
            Step::Call(call) => call.short.and_then(|(run, op)| Some((run, call.block(op)?))),
            _ => None,
        };
        match (block, all.last_mut()) {
            // All kernels of a program are of one level; those of another element type have another function.
            (Some((run, block)), Some(Step::Blocks(same, blocks))) if std::ptr::fn_addr_eq(run, *same) => {
                blocks.push(block);
            }
            (Some((run, block)), _) => all.push(Step::Blocks(run, vec![block])),
            (None, _) => all.push(step),
        }
    }
    all
}

/// A list of calls with every operand in its place.
pub(super) struct Tape(Vec<Step<usize>>);

impl Tape {
    /// Make the calls; `job` runs those that are not written out.
    ///
    /// # Safety
    /// As for `Job::run` of every job on the tape, on one thread while no other uses the arena.
    pub unsafe fn run(&self, ctx: &Ctx<'_>, mut job: impl FnMut(usize)) {
        let at = |bytes: usize| ctx.base.wrapping_add(bytes);
        for step in &self.0 {
            match step {
                // SAFETY: `finish` placed every operand inside the arena; the kernel that wrote the call vouches for
                // types and lengths.
                Step::Call(c) => unsafe { (c.run)(at(c.to), at(c.args[0]), at(c.args[1]), at(c.args[2]), c.n) },
                // SAFETY: as above.
                Step::Blocks(run, blocks) => unsafe { run(ctx.base, blocks) },
                // SAFETY: as above.
                Step::Gather(g) => unsafe { (g.run)(at(g.to), at(g.from), &g.dims, &g.strides, g.n) },
                Step::Job(j) => job(*j),
            }
        }
    }
}
