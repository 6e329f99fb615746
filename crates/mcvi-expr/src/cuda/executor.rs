//! A compiled program on a GPU: its memory, and runs of as many steps as there is room for.

use super::driver::{Gpu, Memory};
use super::lower::{self, Lowered, Shaped};
use super::task::Precision;
use super::walk::{Failure, Walk};
use crate::array::{Array, Data};
use crate::device::GpuOptions;
use crate::error::Result;
use crate::plan::{Place, Plan, Slot};

/// Bytes of inputs and outputs held on the device for the steps of one upload.
const TRANSFER: usize = 512 << 20;
/// A compiled program with its memory on a GPU.
pub(crate) struct Executor {
    pub(super) gpu: Gpu,
    pub(super) shaped: Shaped,
    pub(super) lowered: Lowered,
    pub(super) blocks: usize,
    pub(super) arena: Memory,
    pub(super) _tables: Memory,
    /// States before the present step, if steps can fail.
    pub(super) backup: Option<Memory>,
    pub(super) failure: Memory,
    pub(super) walk: Option<Walk>,
}

impl Executor {
    pub fn new(plan: &Plan, index: usize, options: GpuOptions) -> Result<Self> {
        let gpu = Gpu::open(index)?;
        gpu.refuse(plan)?;
        let shaped = lower::shape(plan, gpu.most_shared());
        let arena = gpu.memory(shaped.bytes.max(64))?;
        let tables = gpu.upload(&shaped.tables)?;
        let precision = if options.full_precision { Precision::Full } else { Precision::Tf32 };
        let lowered = lower::lower(plan, &shaped, arena.address(), tables.address(), gpu.most_shared(), precision);
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

    pub(super) fn offset(&self, plan: &Plan, place: Place) -> usize {
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
        let row = |s: &Slot| s.shape.size() * s.dtype.bytes();
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

    pub(super) fn states(plan: &Plan) -> impl Iterator<Item = &Slot> {
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
