//! Runs a plan on an NVIDIA GPU.
//!
//! A whole run is one kernel: every multiprocessor walks through a list of tiles, fixed beforehand, and waits between levels
//! for those that others must complete first (`source/run.cu`). So a level costs one exchange through the cache instead of a
//! launch, and kernels of one level run side by side. What a tile computes is fixed by the plan alone: results depend
//! neither on the number of multiprocessors used nor on who computes what.

mod access;
mod balance;
mod chain;
mod code;
mod conv;
mod driver;
mod fuse;
mod lower;
mod lowered;
mod nvrtc;
mod schedule;

pub(crate) use driver::{check, multiprocessors};
pub(crate) use lowered::source;

use crate::array::{Array, Data};
use crate::error::{Error, Result};
use crate::graph::ExternalPart;
use crate::plan::{Kernel, Place, Plan};
use driver::{Gpu, Launch, Memory};
use lower::{MOVED, Precision, Task};
use lowered::{Lowered, Shaped};
use rayon::prelude::*;

/// Bytes of inputs and outputs held on the device for the steps of one upload.
const TRANSFER: usize = 512 << 20;
/// Steps of one launch: enough to hide its cost, few enough to let other programs in.
const STEPS: usize = 64;

/// How a program is compiled for a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Products of floats in full precision.
    pub full: bool,
    /// Multiprocessors to use at most.
    pub multiprocessors: Option<usize>,
}

/// Compile the source of a plan for a processor, without a GPU; `None` if there is no compiler here.
pub(crate) fn compile_source(source: &str, processor: &str) -> Option<Result<usize>> {
    nvrtc::available().ok()?;
    let code = nvrtc::compile(source, processor);
    Some(code.map(|c| c.len()).map_err(|why| Error::Device { device: processor.to_owned(), why }))
}

/// A compiled program with its memory on a GPU.
pub(crate) struct Executor {
    gpu: Gpu,
    shaped: Shaped,
    lowered: Lowered,
    blocks: usize,
    arena: Memory,
    _tables: Memory,
    /// States before the present step, if steps can fail.
    backup: Option<Memory>,
    failure: Memory,
    walk: Option<Walk>,
}

/// Lists of tiles for a set of inputs fed and outputs recorded.
struct Walk {
    feeds: Vec<(usize, Memory)>,
    records: Vec<(usize, Memory)>,
    /// Steps there is room for.
    room: usize,
    segments: Vec<Segment>,
    done: Memory,
}

/// Levels that run without the host, and what the host does after them.
struct Segment {
    items: Memory,
    first: Memory,
    args: Memory,
    levels: usize,
    after: Vec<Kernel>,
}

impl Executor {
    pub fn new(plan: &Plan, index: usize, options: Options) -> Result<Self> {
        let gpu = Gpu::open(index)?;
        gpu.refuse(plan)?;
        let shaped = lowered::shape(plan, gpu.most_shared());
        let arena = gpu.memory(shaped.bytes.max(64))?;
        let tables = gpu.upload(&shaped.tables)?;
        let precision = if options.full { Precision::Full } else { Precision::Tf32 };
        let lowered = lowered::lower(plan, &shaped, arena.address(), tables.address(), gpu.most_shared(), precision);
        let mut gpu = gpu;
        let shared = lowered.tasks.iter().map(|t| t.shared).max().unwrap_or(0);
        gpu.load(&lowered.functions, shared)?;
        let blocks = options.multiprocessors.unwrap_or(usize::MAX).clamp(1, gpu.multiprocessors());
        let fallible = lowered.checks || !lowered.externals.is_empty();
        let state_bytes: usize =
            plan.slots.iter().filter(|s| s.initial.is_some()).map(|s| s.shape.size() * s.dtype.bytes()).sum();
        let backup = if fallible && state_bytes > 0 { Some(gpu.memory(state_bytes)?) } else { None };
        let failure = gpu.memory(64)?;
        let mut executor =
            Executor { gpu, shaped, lowered, blocks, arena, _tables: tables, backup, failure, walk: None };
        for (place, array) in &plan.literals {
            executor.write(plan, *place, array)?;
        }
        Ok(executor)
    }

    fn offset(&self, plan: &Plan, place: Place) -> usize {
        let buffer = &plan.buffers[place.buf.0 as usize];
        self.shaped.offsets[place.buf.0 as usize] + place.first * buffer.dtype.bytes()
    }

    /// Write an array to its place.
    pub fn write(&mut self, plan: &Plan, place: Place, array: &Array) -> Result<()> {
        let at = self.offset(plan, place);
        self.gpu.write(&mut self.arena, at, bytes(array, 0, array.shape().size()))
    }

    /// The bytes of `len` elements.
    pub fn read(&self, plan: &Plan, place: Place, len: usize) -> Result<Vec<u8>> {
        let size = plan.buffers[place.buf.0 as usize].dtype.bytes();
        self.gpu.read(&self.arena, self.offset(plan, place), len * size)
    }

    /// Bytes of device memory for the program's arrays.
    pub fn memory_bytes(&self) -> usize {
        self.shaped.bytes
    }

    /// Tasks of a step and the levels they are ordered in.
    pub fn kernels(&self) -> (usize, usize) {
        let levels = self.shaped.steps.iter().map(|s| s.level + 1).max().unwrap_or(0);
        (self.shaped.steps.len(), levels)
    }

    /// Run steps; returns how many were completed, and what was recorded. If one fails, states are as before it.
    pub fn run(
        &mut self,
        plan: &Plan,
        seed: u64,
        first_step: u64,
        steps: usize,
        feeds: &[(usize, &Array)],
        records: &[usize],
    ) -> (usize, Result<Vec<Vec<u8>>>) {
        let mut recorded = vec![vec![]; records.len()];
        let mut done = 0;
        while done < steps {
            let result = self.part(plan, seed, first_step.wrapping_add(done as u64), (done, steps), feeds, records);
            let (completed, result) = match result {
                Ok((completed, result)) => (completed, result),
                Err(error) => (0, Err(error)),
            };
            done += completed;
            match result {
                Ok(parts) => recorded.iter_mut().zip(parts).for_each(|(r, p)| r.extend(p)),
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(recorded))
    }

    /// As many steps of a run as there is room for, from number `done` on.
    fn part(
        &mut self,
        plan: &Plan,
        seed: u64,
        first_step: u64,
        (done, all): (usize, usize),
        feeds: &[(usize, &Array)],
        records: &[usize],
    ) -> Result<(usize, Result<Vec<Vec<u8>>>)> {
        let row = |s: &crate::plan::Slot| s.shape.size() * s.dtype.bytes();
        let fed: Vec<usize> = feeds.iter().map(|f| f.0).collect();
        let per: usize = fed.iter().map(|&i| row(&plan.slots[i])).sum::<usize>()
            + records.iter().map(|&i| row(&plan.outputs[i])).sum::<usize>();
        let steps = (all - done).min((TRANSFER / per.max(1)).max(1));
        self.prepare(plan, &fed, records, steps)?;
        let Some(mut walk) = self.walk.take() else { unreachable!("just prepared") };
        let result = self.walk(plan, &mut walk, seed, first_step, steps, |gpu, walk| {
            for ((_, array), (slot, memory)) in feeds.iter().zip(&mut walk.feeds) {
                let n = plan.slots[*slot].shape.size();
                gpu.write(memory, 0, bytes(array, done * n, steps * n))?;
            }
            Ok(())
        });
        let result = match result {
            Ok(Failure::None) => self.collect(plan, &walk, steps).map(|parts| (steps, Ok(parts))),
            Ok(Failure::At(step, error)) => self.restore(plan).map(|()| (step, Err(error))),
            Err(error) => Err(error),
        };
        self.walk = Some(walk);
        result
    }

    fn collect(&self, plan: &Plan, walk: &Walk, steps: usize) -> Result<Vec<Vec<u8>>> {
        let take = |(output, memory): &(usize, Memory)| {
            let slot = &plan.outputs[*output];
            let row = slot.shape.size() * slot.dtype.bytes();
            let mut rows = self.gpu.read(memory, 0, row * (steps - 1))?;
            rows.extend(self.read(plan, slot.place, slot.shape.size())?);
            Ok(rows)
        };
        walk.records.iter().map(take).collect()
    }

    fn states(plan: &Plan) -> impl Iterator<Item = &crate::plan::Slot> {
        plan.slots.iter().filter(|s| s.initial.is_some())
    }

    /// Put the states back that were kept before the step that failed.
    fn restore(&mut self, plan: &Plan) -> Result<()> {
        let Some(backup) = &self.backup else { return Ok(()) };
        let mut at = 0;
        for slot in Self::states(plan) {
            let (n, to) = (slot.shape.size() * slot.dtype.bytes(), self.offset(plan, slot.place));
            self.gpu.copy(backup, at, &mut self.arena, to, n)?;
            at += n;
        }
        Ok(())
    }

    /// Lists for these inputs and outputs, unless those at hand serve.
    fn prepare(&mut self, plan: &Plan, feeds: &[usize], records: &[usize], steps: usize) -> Result<()> {
        if let Some(w) = &self.walk {
            let same = |a: &[(usize, Memory)], b: &[usize]| a.iter().map(|x| x.0).eq(b.iter().copied());
            if same(&w.feeds, feeds) && same(&w.records, records) && w.room >= steps {
                return Ok(());
            }
        }
        self.walk = None;
        let row = |s: &crate::plan::Slot| s.shape.size() * s.dtype.bytes();
        let room = |s: &crate::plan::Slot| self.gpu.memory((row(s) * steps).max(4));
        let feeds: Vec<(usize, Memory)> =
            feeds.iter().map(|&i| Ok((i, room(&plan.slots[i])?))).collect::<Result<_>>()?;
        let records: Vec<(usize, Memory)> =
            records.iter().map(|&i| Ok((i, room(&plan.outputs[i])?))).collect::<Result<_>>()?;
        // What happens before the plan's own levels: states are kept and outputs recorded, then inputs are fed.
        let mut tasks: Vec<Task> = vec![];
        let base = self.arena.address();
        let mut transfer = |to: u64, from: u64, bytes: usize, kind: u64, level: usize| {
            let words = vec![to, from, (bytes / 4) as u64, kind];
            let tiles = (bytes / 4).div_ceil(MOVED);
            tasks.push(Task::new(self.lowered.transfer, words, (tiles, 2000.0), level));
        };
        if let Some(backup) = &self.backup {
            let mut at = backup.address();
            for slot in Self::states(plan) {
                transfer(at, base + self.offset(plan, slot.place) as u64, row(slot), 2, 0);
                at += row(slot) as u64;
            }
        }
        for (output, memory) in &records {
            let slot = &plan.outputs[*output];
            transfer(memory.address(), base + self.offset(plan, slot.place) as u64, row(slot), 1, 0);
        }
        for (input, memory) in &feeds {
            let slot = &plan.slots[*input];
            transfer(base + self.offset(plan, slot.place) as u64, memory.address(), row(slot), 0, 1);
        }
        let later = |t: &Task| {
            let (level, until, ready) = (t.level + 2, t.until + 2, t.ready.map(|r| r + 2));
            Task { level, until, ready, ..t.clone() }
        };
        tasks.extend(self.lowered.tasks.iter().map(later));
        let mut ends: Vec<usize> = self.lowered.externals.iter().map(|e| e.0 + 2).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.push(usize::MAX);
        let (mut segments, mut from) = (vec![], 0);
        for end in ends {
            let part: Vec<Task> = tasks.iter().filter(|t| (from..=end).contains(&t.level)).cloned().collect();
            let lists = schedule::lists(&part, self.blocks);
            let after = self.lowered.externals.iter().filter(|e| e.0.saturating_add(2) == end).map(|e| e.1.clone());
            segments.push(Segment {
                items: self.gpu.upload(lists.items.as_flattened())?,
                first: self.gpu.upload(&lists.first)?,
                args: self.gpu.upload(&lists.args)?,
                levels: lists.levels,
                after: after.collect(),
            });
            from = end.saturating_add(1);
        }
        let levels = segments.iter().map(|s| s.levels).max().unwrap_or(0);
        let done = self.gpu.memory(4 * levels.max(1))?;
        self.walk = Some(Walk { feeds, records, room: steps, segments, done });
        Ok(())
    }

    /// Launch what a run consists of.
    fn walk(
        &mut self,
        plan: &Plan,
        walk: &mut Walk,
        seed: u64,
        first_step: u64,
        steps: usize,
        feed: impl FnOnce(&Gpu, &mut Walk) -> Result<()>,
    ) -> Result<Failure> {
        feed(&self.gpu, walk)?;
        self.gpu.clear(&mut self.failure)?;
        let launch = |begin: usize, end: usize, walk: &Walk, failure: &Memory| Launch {
            seed,
            first_step,
            begin: begin as u32,
            end: end as u32,
            failure: failure.address(),
            done: walk.done.address(),
            times: 0,
        };
        let external = walk.segments.len() > 1;
        let mut begin = 0;
        while begin < steps {
            let end = if external { begin + 1 } else { (begin + STEPS).min(steps) };
            for number in 0..walk.segments.len() {
                if walk.segments[number].levels > 0 {
                    self.gpu.clear(&mut walk.done)?;
                    let arguments = launch(begin, end, walk, &self.failure);
                    self.launch(&walk.segments[number], arguments)?;
                }
                if walk.segments[number].after.is_empty() {
                    continue;
                }
                let failed = self.failed()?;
                if !matches!(failed, Failure::None) {
                    return Ok(failed);
                }
                for kernel in &walk.segments[number].after {
                    match self.external(plan, kernel) {
                        Ok(()) => {}
                        Err(error @ Error::External { .. }) => return Ok(Failure::At(begin, error)),
                        Err(error) => return Err(error),
                    }
                }
            }
            begin = end;
        }
        self.gpu.finish()?;
        if self.lowered.checks { self.failed() } else { Ok(Failure::None) }
    }

    fn launch(&self, segment: &Segment, launch: Launch) -> Result<()> {
        let pointers = [segment.items.address(), segment.first.address(), segment.args.address()];
        let last = segment.levels as u32 - 1;
        self.gpu.launch(self.blocks, launch, pointers, [last, u32::from(self.lowered.checks)])
    }

    /// The failure noted on the device, if any.
    fn failed(&self) -> Result<Failure> {
        if !self.lowered.checks {
            return Ok(Failure::None);
        }
        let bytes = self.gpu.read(&self.failure, 0, 16)?;
        let word = |i: usize| u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);
        let Some(step) = word(0).checked_sub(1) else { return Ok(Failure::None) };
        let op = if word(1) == 0 { "take" } else { "scatter_add" };
        let error = Error::Index { op, index: i64::from(word(2) as i32), len: word(3) as usize };
        Ok(Failure::At(step as usize, error))
    }

    /// Call a user's function with rows from the device, and put its results there.
    fn external(&mut self, plan: &Plan, kernel: &Kernel) -> Result<()> {
        let Kernel::External { part, function, rows, d, z, v, to } = kernel else {
            unreachable!("called for external functions");
        };
        let floats = |place: Place| -> Result<Vec<f64>> {
            let bytes = self.read(plan, place, rows * d)?;
            Ok(bytes.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b)).collect())
        };
        let z = floats(*z)?;
        let v = v.map(floats).transpose()?;
        let v = v.as_ref().unwrap_or(&z);
        let width = if *part == ExternalPart::Value { 1 } else { *d };
        let mut out = vec![0.0; rows * width];
        let rows = out.par_chunks_mut(width).zip(z.par_chunks(*d)).zip(v.par_chunks(*d));
        rows.try_for_each(|((to, z), v)| function.call(*part, z, v, to))?;
        let at = self.offset(plan, *to);
        let bytes: Vec<u8> = out.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.gpu.write(&mut self.arena, at, &bytes)
    }

    /// Nanoseconds from the start of each level to the start of the next, with what it computes: the median of some
    /// steps, which leave no trace in the states. A level of a chain of convolutions begins when its fastest block does.
    pub fn profile(&mut self, plan: &Plan, seed: u64, step: u64, steps: usize) -> Result<Vec<(String, f64)>> {
        self.walk = None;
        self.prepare(plan, &[], &[], 1)?;
        let Some(mut walk) = self.walk.take() else { unreachable!("just prepared") };
        let before = self.gpu.read(&self.arena, 0, self.shaped.bytes)?;
        let timed = self.timed(plan, &mut walk, seed, step, steps);
        self.gpu.write(&mut self.arena, 0, &before)?;
        let rows = timed?;
        let mut names = vec![];
        let levels = self.shaped.steps.iter().map(|s| s.level + 1).max().unwrap_or(0);
        for level in 0..levels {
            // A level that has nothing for the device is not timed.
            let here =
                |s: &&fuse::Step| s.level == level && !matches!(s.work, fuse::Work::Plan(Kernel::External { .. }));
            let of: Vec<String> = self.shaped.steps.iter().filter(here).map(|s| lowered::describe(&s.work)).collect();
            if !of.is_empty() {
                names.push(of.join(" | "));
            }
        }
        // Levels that only keep states come first and have no name.
        let unnamed = rows.len().saturating_sub(names.len());
        let names = std::iter::repeat_n("keep states".to_owned(), unnamed).chain(names);
        let median = |mut t: Vec<f64>| {
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        };
        Ok(names.zip(rows.into_iter().map(median)).collect())
    }

    /// The times of each level in some steps.
    fn timed(&mut self, plan: &Plan, walk: &mut Walk, seed: u64, step: u64, steps: usize) -> Result<Vec<Vec<f64>>> {
        let total = walk.segments.iter().map(|s| s.levels).sum::<usize>();
        let mut rows: Vec<Vec<f64>> = vec![vec![]; total];
        let mut times = self.gpu.memory(16 * total.max(1))?;
        for _ in 0..steps {
            let mut at = 0;
            for number in 0..walk.segments.len() {
                let levels = walk.segments[number].levels;
                let start: Vec<u8> =
                    (0..levels).flat_map(|_| [u64::MAX.to_ne_bytes(), 0u64.to_ne_bytes()]).flatten().collect();
                self.gpu.write(&mut times, 0, &start)?;
                self.gpu.clear(&mut walk.done)?;
                let launch = Launch {
                    seed,
                    first_step: step,
                    begin: 0,
                    end: 1,
                    failure: self.failure.address(),
                    done: walk.done.address(),
                    times: times.address(),
                };
                if levels > 0 {
                    self.launch(&walk.segments[number], launch)?;
                }
                let bytes = self.gpu.read(&times, 0, 16 * levels)?;
                let ticks: Vec<u64> = bytes.as_chunks().0.iter().map(|b| u64::from_ne_bytes(*b)).collect();
                for l in 0..levels {
                    let next = if l + 1 < levels { ticks[2 * l + 2] } else { ticks[2 * l + 1] };
                    rows[at + l].push(next.saturating_sub(ticks[2 * l]) as f64);
                }
                at += levels;
                for kernel in &walk.segments[number].after.clone() {
                    self.external(plan, kernel)?;
                }
            }
        }
        Ok(rows)
    }
}

/// How a run ended.
enum Failure {
    None,
    At(usize, Error),
}

/// The bytes of some elements of an array.
fn bytes(array: &Array, first: usize, len: usize) -> &[u8] {
    fn raw<T: Copy>(data: &[T]) -> &[u8] {
        // SAFETY: numbers without padding may be read as bytes, and the slice keeps its length in bytes.
        unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
    }
    match array.data() {
        Data::F32(d) => raw(&d[first..first + len]),
        Data::F64(d) => raw(&d[first..first + len]),
        Data::I32(d) => raw(&d[first..first + len]),
    }
}
