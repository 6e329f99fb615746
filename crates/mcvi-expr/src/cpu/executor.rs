//! A compiled program on the CPU: its memory, and the walk of a team of threads through its segments.

use super::arena::Arena;
use super::segment::{Builder, Cost, Segment};
use super::tape::{self, Tape};
use super::team::{Barrier, Team};
use super::{Ctx, Job, Layout, level};
use crate::error::Result;
use crate::plan::{BufId, Kernel, Place, Plan};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Share of a step's work from which other threads are called: they wait in the rest of it.
const LEAST_SHARED: f64 = 0.2;

/// A compiled program with its memory.
pub(crate) struct Executor {
    jobs: Vec<Box<dyn Job>>,
    tapes: Vec<Tape>,
    segments: Vec<Segment>,
    arena: Arena,
    threads: usize,
    cost: Cost,
    /// Byte ranges of states that a step may have overwritten when it fails; they are restored then.
    exposed: Vec<(usize, usize)>,
}

/// What happens around each step of a run, on one thread.
pub(crate) trait Around: Send {
    /// Before step number `i` of this run.
    fn before(&mut self, i: usize, memory: &mut Memory<'_>);
    /// After it.
    fn after(&mut self, i: usize, memory: &mut Memory<'_>);
}

/// Access to the buffers while no kernel runs.
pub(crate) struct Memory<'a> {
    plan: &'a Plan,
    bytes: &'a mut [u8],
}

impl Memory<'_> {
    fn range(&self, place: Place, len: usize) -> std::ops::Range<usize> {
        let buffer = &self.plan.buffers[place.buf.0 as usize];
        let start = buffer.offset + place.first * buffer.dtype.bytes();
        start..start + len * buffer.dtype.bytes()
    }
    /// The bytes of `len` elements.
    pub fn get(&self, place: Place, len: usize) -> &[u8] {
        &self.bytes[self.range(place, len)]
    }
    /// The same, to be written.
    pub fn get_mut(&mut self, place: Place, len: usize) -> &mut [u8] {
        let range = self.range(place, len);
        &mut self.bytes[range]
    }
}

impl Executor {
    pub fn new(plan: &Plan, threads: usize) -> Result<Self> {
        // Before anything that grows with the arrays is made.
        Arena::empty(plan.arena_bytes)?;
        let layout = Layout { plan, level: level()? };
        let mut builder = Builder::new(&layout, plan.arena_bytes);
        let (segments, segment_of) = builder.segments(&plan.kernels, &plan.levels);
        let Builder { jobs, drafts, cost, .. } = builder;
        let (tapes, constants, tape_bytes) = tape::finish(drafts, plan.arena_bytes);
        // A step ends with the segment in which it fails: what is overwritten later needs no copy.
        let fallible = plan.kernels.iter().zip(&segment_of).filter(|(k, _)| k.is_fallible());
        let last_fallible = fallible.map(|(_, segment)| *segment).max();
        let mut arena = Arena::new(plan.arena_bytes + tape_bytes)?;
        arena.bytes()[plan.arena_bytes..plan.arena_bytes + constants.len()].copy_from_slice(&constants);
        let mut executor = Executor { jobs, tapes, segments, arena, threads, cost, exposed: vec![] };
        for (place, array) in &plan.literals {
            array.copy_bytes(0, executor.memory(plan).get_mut(*place, array.shape().size()));
        }
        let memory = executor.memory(plan);
        let early: Vec<BufId> = (plan.kernels.iter().zip(&segment_of))
            .filter(|(_, segment)| last_fallible.is_some_and(|last| **segment <= last))
            .flat_map(|(kernel, _)| kernel.writes())
            .collect();
        let states = plan.slots.iter().filter(|s| s.initial.is_some() && early.contains(&s.place.buf));
        executor.exposed = states.map(|s| memory.range(s.place, s.shape.size())).map(|r| (r.start, r.len())).collect();
        Ok(executor)
    }

    pub fn memory<'a>(&'a mut self, plan: &'a Plan) -> Memory<'a> {
        Memory { plan, bytes: self.arena.bytes() }
    }

    /// Rough nanoseconds of a step on one thread.
    pub fn cost(&self) -> f64 {
        self.cost.total
    }

    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// Run `steps` steps, the first with number `first_step`. If one fails, states are as they were before it, and
    /// the number of steps completed is returned with the error.
    pub fn run(
        &mut self,
        plan: &Plan,
        seed: u64,
        first_step: u64,
        steps: usize,
        around: &mut dyn Around,
    ) -> (usize, Result<()>) {
        let threads = if self.cost.shared >= LEAST_SHARED * self.cost.total { self.threads } else { 1 };
        let (failure, failed, bytes) = (Mutex::new(None), AtomicBool::new(false), self.arena.bytes());
        let walk = Walk {
            len: bytes.len(),
            ctx: Ctx {
                base: bytes.as_mut_ptr(),
                seed,
                step: first_step,
                row: 0,
                alone: false,
                failure: &failure,
                failed: &failed,
            },
            executor: Parts { jobs: &self.jobs, tapes: &self.tapes, segments: &self.segments, exposed: &self.exposed },
            plan,
            steps,
            backup: Mutex::new(vec![0; self.exposed.iter().map(|s| s.1).sum()]),
            around: Mutex::new(around),
            done: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            scratch: self.jobs.iter().map(|j| j.scratch()).max().unwrap_or(0),
        };
        Team::of(threads).run(&|thread, scratch, barrier| walk.go(thread, scratch, barrier));
        let done = walk.done.into_inner();
        (done, failure.into_inner().unwrap_or(None).map_or(Ok(()), Err))
    }
}

impl Executor {
    /// Nanoseconds each kernel takes on one thread: the median of `steps` steps, which leave no trace in the states.
    pub fn profile(&mut self, plan: &Plan, seed: u64, step: u64, steps: usize) -> Result<Vec<f64>> {
        let before = self.arena.clone();
        let (failure, failed) = (Mutex::new(None), AtomicBool::new(false));
        let base = self.arena.bytes().as_mut_ptr();
        let ctx = Ctx { base, seed, step, row: 0, alone: true, failure: &failure, failed: &failed };
        let mut scratch = Arena::default();
        scratch.reserve(self.jobs.iter().map(|j| j.scratch()).max().unwrap_or(0));
        let mut times = vec![vec![]; plan.kernels.len()];
        for _ in 0..steps {
            let mut next = 0;
            for (kernel, time) in plan.kernels.iter().zip(&mut times) {
                let start = std::time::Instant::now();
                // SAFETY: kernels stand in the order of their levels, and this is the only thread.
                next = unsafe { self.one(kernel, next, &ctx, &mut scratch) };
                time.push(start.elapsed().as_nanos() as f64);
            }
        }
        self.arena = before;
        let median = |mut t: Vec<f64>| {
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        };
        let times = times.into_iter().map(median).collect();
        failure.into_inner().unwrap_or(None).map_or(Ok(times), Err)
    }
}

impl Executor {
    /// Run a kernel, the jobs of which begin with number `first`; returns the number of the first job after them.
    ///
    /// # Safety
    /// As for `Job::run`, on the only thread.
    unsafe fn one(&self, kernel: &Kernel, first: usize, ctx: &Ctx<'_>, scratch: &mut Arena) -> usize {
        let Kernel::Loop(l) = kernel else {
            // SAFETY: promised by the caller.
            (0..self.jobs[first].tiles()).for_each(|tile| unsafe { self.jobs[first].run(ctx, tile, scratch) });
            return first + 1;
        };
        // SAFETY: promised by the caller; kernels of a body stand in the order of their levels.
        let mut all = |kernels: &[Kernel], first, ctx: &Ctx<'_>| unsafe {
            kernels.iter().fold(first, |next, kernel| self.one(kernel, next, ctx, scratch))
        };
        let body = all(&l.before, first, ctx);
        l.rows().fold(body, |_, row| all(&l.kernels, body, &Ctx { row, ..*ctx }))
    }
}

/// What all threads see of the executor while they run it.
#[derive(Clone, Copy)]
struct Parts<'a> {
    jobs: &'a [Box<dyn Job>],
    tapes: &'a [Tape],
    segments: &'a [Segment],
    exposed: &'a [(usize, usize)],
}

/// One run, shared by the threads of a team.
struct Walk<'a> {
    executor: Parts<'a>,
    plan: &'a Plan,
    ctx: Ctx<'a>,
    /// Bytes of the arena.
    len: usize,
    steps: usize,
    /// States before the present step that it may have overwritten when it fails.
    backup: Mutex<Vec<u8>>,
    around: Mutex<&'a mut dyn Around>,
    done: AtomicUsize,
    failed: AtomicBool,
    /// The present step has failed: changes only while all threads wait, so that they agree.
    stop: AtomicBool,
    scratch: usize,
}

impl Walk<'_> {
    fn go(&self, thread: usize, scratch: &mut Arena, barrier: &Barrier) {
        scratch.reserve(self.scratch);
        for i in 0..self.steps {
            if thread == 0 {
                self.before(i);
            }
            let ctx = Ctx { step: self.ctx.step.wrapping_add(i as u64), ..self.ctx };
            self.segments(self.executor.segments, ctx, thread, scratch, barrier);
            if thread == 0 {
                self.after(i);
            }
            barrier.wait(|| {});
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
        }
    }

    /// Walk through segments; says whether the step has not failed.
    fn segments(&self, all: &[Segment], ctx: Ctx<'_>, thread: usize, scratch: &mut Arena, barrier: &Barrier) -> bool {
        let Parts { jobs, tapes, .. } = self.executor;
        let (alone, ctx) = (Ctx { alone: true, ..ctx }, Ctx { alone: barrier.is_for_one(), ..ctx });
        for segment in all {
            match segment {
                Segment::Alone(_) if thread > 0 || self.has_failed() => {}
                // SAFETY: levels run in order on one thread while the others wait.
                Segment::Alone(tape) => unsafe {
                    tapes[*tape].run(&alone, |j| {
                        (0..jobs[j].tiles()).for_each(|tile| jobs[j].run(&alone, tile, scratch));
                    });
                },
                Segment::Shared(tiles, next) => {
                    barrier.wait(|| self.stop.store(self.has_failed(), Ordering::Relaxed));
                    if self.stop.load(Ordering::Relaxed) {
                        return false;
                    }
                    while let Some(&(j, tile)) = tiles.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // SAFETY: jobs of one level are independent, and each tile is handed out once.
                        unsafe { jobs[j as usize].run(&ctx, tile as usize, scratch) };
                    }
                    barrier.wait(|| next.store(0, Ordering::Relaxed));
                }
                Segment::Loop { length, reverse, body } => {
                    for i in 0..*length {
                        let row = if *reverse { length - 1 - i } else { i };
                        if !self.segments(body, Ctx { row, ..ctx }, thread, scratch, barrier) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Whether the present step has failed so far.
    fn has_failed(&self) -> bool {
        self.ctx.failed.load(Ordering::Relaxed)
    }

    /// The whole arena.
    ///
    /// # Safety
    /// Only between steps, on the first thread, while the others wait.
    #[expect(clippy::mut_from_ref, reason = "the arena is shared by raw pointer; the caller promises to be alone")]
    unsafe fn bytes(&self) -> &mut [u8] {
        // SAFETY: the pointer and length are those of the executor's arena, which outlives the run.
        unsafe { std::slice::from_raw_parts_mut(self.ctx.base, self.len) }
    }

    fn before(&self, i: usize) {
        // SAFETY: the others wait at the first barrier of the step.
        let bytes = unsafe { self.bytes() };
        let mut backup = self.backup.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = backup.as_mut_slice();
        for &(start, n) in self.executor.exposed {
            let Some((part, tail)) = rest.split_at_mut_checked(n) else { break };
            part.copy_from_slice(&bytes[start..start + n]);
            rest = tail;
        }
        let mut around = self.around.lock().unwrap_or_else(PoisonError::into_inner);
        around.before(i, &mut Memory { plan: self.plan, bytes });
    }

    fn after(&self, i: usize) {
        // SAFETY: a shared segment ends with a barrier, so the others have nothing left to do in this step.
        let bytes = unsafe { self.bytes() };
        if self.ctx.failure.lock().is_ok_and(|f| f.is_none()) {
            let mut around = self.around.lock().unwrap_or_else(PoisonError::into_inner);
            around.after(i, &mut Memory { plan: self.plan, bytes });
            self.done.store(i + 1, Ordering::Relaxed);
            return;
        }
        let backup = self.backup.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = backup.as_slice();
        for &(start, n) in self.executor.exposed {
            let Some((part, tail)) = rest.split_at_checked(n) else { break };
            bytes[start..start + n].copy_from_slice(part);
            rest = tail;
        }
        self.failed.store(true, Ordering::Relaxed);
    }
}
