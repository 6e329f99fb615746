//! Small kernels, one after the other, as a flat list of calls and of lists of operations too small for a call.
//!
//! Where arrays hold a few elements, setting up a kernel costs more than running it. Kernels of a segment that runs on
//! one thread and that fit a single register are therefore written out once, when the program is compiled: every
//! operand becomes an offset in the arena, and a step merely makes the calls and walks through the lists.

use super::Ctx;
use super::micro::{Lists, RunList, Short};
use super::sources::Float;
use super::strided::gather;
use std::collections::HashMap;

/// The signature of micro-kernels, with the element type forgotten.
pub(super) type Run = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// Where an operand lies.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Loc {
    /// Bytes into the program's own memory, and bytes further on for each row of a loop.
    Memory(usize, usize),
    /// Bytes into registers, which no kernel leaves anything in for the next.
    Register(usize),
    /// Bytes into constants.
    Constant(usize),
}

impl Loc {
    /// Bytes further on for each row of a loop.
    fn step(self) -> usize {
        if let Loc::Memory(_, step) = self { step } else { 0 }
    }

    /// The address this many bytes further on.
    pub fn after(self, bytes: usize) -> Loc {
        match self {
            Loc::Memory(at, step) => Loc::Memory(at + bytes, step),
            Loc::Register(at) => Loc::Register(at + bytes),
            Loc::Constant(at) => Loc::Constant(at + bytes),
        }
    }
}

struct Call<L> {
    run: Run,
    to: L,
    args: [L; 3],
    n: usize,
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

enum Step<L, S> {
    Call(Call<L>),
    /// Operations of one kind that follow each other.
    List(RunList, Vec<S>),
    Gather(Gather<L>),
    /// A job of the program that is not small.
    Job(usize),
    /// The same with operands whose address moves by this many bytes from row to row of a loop.
    CallAt(Call<L>, [usize; 4]),
    ListAt(RunList, Vec<(S, [u32; 4])>),
    GatherAt(Gather<L>, [usize; 2]),
}

/// A tape in the making.
pub(crate) struct Draft {
    /// Whether places are near enough to each other for lists.
    pub near: bool,
    steps: Vec<Step<Loc, (Loc, [Loc; 3])>>,
    registers: usize,
    constants: Vec<u8>,
    known: HashMap<(Vec<u8>, usize), usize>,
}

impl Draft {
    /// For an arena that holds this many bytes besides what tapes need.
    pub fn new(arena: usize) -> Draft {
        let (steps, constants, known) = (vec![], vec![], HashMap::new());
        Draft { near: arena < u32::MAX as usize / 2, steps, registers: 0, constants, known }
    }

    /// Registers of this many bytes are used.
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

    /// A number, for all of a block.
    pub fn number<T: Float>(&mut self, x: f64) -> Loc {
        self.constant(&T::of(x).bytes(), T::LANES)
    }

    pub fn call(&mut self, run: Run, to: Loc, args: [Loc; 3], n: usize) {
        self.steps.push(Step::Call(Call { run, to, args, n }));
    }

    /// An operation of a list that `run` walks through; only if places are near.
    pub fn short(&mut self, run: RunList, to: Loc, args: [Loc; 3]) {
        match self.steps.last_mut() {
            // Functions of other element types are others; all of a program are of one level.
            Some(Step::List(same, list)) if std::ptr::fn_addr_eq(run, *same) => list.push((to, args)),
            _ => self.steps.push(Step::List(run, vec![(to, args)])),
        }
    }

    /// Copy an element, in the list of other work on elements.
    pub fn copy<T: Float>(&mut self, lists: Lists, to: Loc, from: Loc) {
        let [one, zero] = [1.0, -0.0].map(|x| self.number::<T>(x));
        self.short(lists.elements, to, [from, one, zero]);
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
            Loc::Memory(at, _) => at,
            Loc::Register(at) => registers + at,
            Loc::Constant(at) => own + at,
        };
        let near = |loc| u32::try_from(place(loc)).unwrap_or_else(|_| unreachable!("lists only where places are near"));
        let short = |(to, args): (Loc, [Loc; 3])| Short { to: near(to), args: args.map(near) };
        let mut steps = vec![];
        for step in draft.steps {
            match step {
                Step::Call(Call { run, to, args, n }) => {
                    let (call, [a, b, c]) = (Call { run, to: place(to), args: args.map(place), n }, args);
                    let by = [to, a, b, c].map(Loc::step);
                    steps.push(if by == [0; 4] { Step::Call(call) } else { Step::CallAt(call, by) });
                }
                Step::List(run, list) => {
                    let by = |(to, [a, b, c]): &(Loc, [Loc; 3])| [*to, *a, *b, *c].map(|loc| loc.step() as u32);
                    for part in list.chunk_by(|x, y| (by(x) == [0; 4]) == (by(y) == [0; 4])) {
                        steps.push(if by(&part[0]) == [0; 4] {
                            Step::List(run, part.iter().copied().map(short).collect())
                        } else {
                            Step::ListAt(run, part.iter().map(|s| (short(*s), by(s))).collect())
                        });
                    }
                }
                Step::Gather(Gather { run, to, from, dims, strides, n }) => {
                    let by = [to, from].map(Loc::step);
                    let gather = Gather { run, to: place(to), from: place(from), dims, strides, n };
                    steps.push(if by == [0; 2] { Step::Gather(gather) } else { Step::GatherAt(gather, by) });
                }
                Step::Job(j) => steps.push(Step::Job(j)),
                Step::CallAt(..) | Step::ListAt(..) | Step::GatherAt(..) => unreachable!("drafts have none"),
            }
        }
        tapes.push(Tape(steps));
        constants.extend(draft.constants);
    }
    (tapes, constants, bytes)
}

/// A list of calls with every operand in its place.
pub(super) struct Tape(Vec<Step<usize, Short>>);

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
                Step::List(run, list) => unsafe { run(ctx.base, list) },
                // SAFETY: as above.
                Step::Gather(g) => unsafe { (g.run)(at(g.to), at(g.from), &g.dims, &g.strides, g.n) },
                Step::Job(j) => job(*j),
                Step::CallAt(c, by) => {
                    let [to, x, y, z] = by.map(|step| step.wrapping_mul(ctx.row));
                    let [a, b, d] = c.args.map(at);
                    // SAFETY: as above; rows of the operands that move lie inside the arena too.
                    unsafe {
                        let (a, b, d) = (a.wrapping_add(x), b.wrapping_add(y), d.wrapping_add(z));
                        (c.run)(at(c.to).wrapping_add(to), a, b, d, c.n);
                    }
                }
                Step::ListAt(run, list) => {
                    const AT_ONCE: usize = 8;
                    for part in list.chunks(AT_ONCE) {
                        let mut moved = [Short { to: 0, args: [0; 3] }; AT_ONCE];
                        for (to, (short, by)) in moved.iter_mut().zip(part) {
                            let [first, rest @ ..] = by.map(|step| step.wrapping_mul(ctx.row as u32));
                            to.to = short.to.wrapping_add(first);
                            to.args = std::array::from_fn(|i| short.args[i].wrapping_add(rest[i]));
                        }
                        // SAFETY: as above.
                        unsafe { run(ctx.base, &moved[..part.len()]) };
                    }
                }
                Step::GatherAt(g, by) => {
                    let [to, from] = by.map(|step| step.wrapping_mul(ctx.row));
                    let (to, from) = (at(g.to).wrapping_add(to), at(g.from).wrapping_add(from));
                    // SAFETY: as above.
                    unsafe { (g.run)(to, from, &g.dims, &g.strides, g.n) };
                }
            }
        }
    }
}
