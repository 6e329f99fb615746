//! The two executors behind one interface.

use crate::array::Array;
use crate::cpu::{Around, Memory};
use crate::device::{Device, GpuOptions};
use crate::error::Result;
use crate::plan::{Place, Plan};
use crate::{cpu, cuda};

/// A plan made ready for a device, with its memory.
pub(crate) enum Executor {
    Cpu(cpu::Executor),
    Cuda(Box<cuda::Executor>),
}

impl Executor {
    pub fn new(plan: &Plan, device: Device, threads: usize, options: GpuOptions) -> Result<Self> {
        Ok(match device {
            Device::Cpu => Executor::Cpu(cpu::Executor::new(plan, threads)?),
            Device::Cuda(index) => Executor::Cuda(Box::new(cuda::Executor::new(plan, index, options)?)),
        })
    }

    pub fn write(&mut self, plan: &Plan, place: Place, array: &Array) -> Result<()> {
        match self {
            Executor::Cpu(e) => array.copy_bytes(0, e.memory(plan).get_mut(place, array.shape().size())),
            Executor::Cuda(e) => return e.write(plan, place, array),
        }
        Ok(())
    }

    /// The bytes of `len` elements.
    pub fn read(&mut self, plan: &Plan, place: Place, len: usize) -> Result<Vec<u8>> {
        match self {
            Executor::Cpu(e) => Ok(e.memory(plan).get(place, len).to_vec()),
            Executor::Cuda(e) => e.read(plan, place, len),
        }
    }

    /// Run steps, with rows for some slots and rows kept of some outputs; returns how many were completed, and those rows.
    pub fn run(
        &mut self,
        plan: &Plan,
        (seed, first_step): (u64, u64),
        steps: usize,
        feeds: &[(usize, &Array)],
        records: &[usize],
    ) -> (usize, Result<Vec<Vec<u8>>>) {
        match self {
            Executor::Cpu(e) => {
                let records = records.iter().map(|&i| (i, vec![])).collect();
                let mut around = Transfers { plan, feeds, records };
                let (done, result) = e.run(plan, seed, first_step, steps, &mut around);
                (done, result.map(|()| around.records.into_iter().map(|r| r.1).collect()))
            }
            Executor::Cuda(e) => e.run(plan, seed, first_step, steps, feeds, records),
        }
    }

    /// Where the time of a step goes.
    pub fn profile(&mut self, plan: &Plan, seed: u64, step: u64, steps: usize) -> Result<Vec<(String, f64)>> {
        match self {
            Executor::Cpu(e) => {
                let times = e.profile(plan, seed, step, steps)?;
                Ok(plan.kernels.iter().map(ToString::to_string).zip(times).collect())
            }
            Executor::Cuda(e) => e.profile(plan, seed, step, steps),
        }
    }

    /// Only the CPU has threads to set.
    pub fn set_threads(&mut self, threads: usize) {
        if let Executor::Cpu(e) = self {
            e.set_threads(threads);
        }
    }

    /// Rough nanoseconds of a step on one thread of a CPU; none elsewhere.
    pub fn cost(&self) -> Option<f64> {
        match self {
            Executor::Cpu(e) => Some(e.cost()),
            Executor::Cuda(_) => None,
        }
    }

    pub fn memory_bytes(&self, plan: &Plan) -> usize {
        match self {
            Executor::Cpu(_) => plan.arena_bytes,
            Executor::Cuda(e) => e.memory_bytes(),
        }
    }

    pub fn kernels(&self, plan: &Plan) -> (usize, usize) {
        match self {
            Executor::Cpu(_) => plan.count(),
            Executor::Cuda(e) => e.kernels(),
        }
    }
}

impl Device {
    /// The first GPU if it can be used, else the CPU.
    pub fn auto() -> Device {
        if Device::Cuda(0).check().is_ok() { Device::Cuda(0) } else { Device::Cpu }
    }

    /// How many programs of one multiprocessor each can run there side by side; none for the CPU, where threads are shared.
    pub fn multiprocessors(self) -> Result<Option<usize>> {
        match self {
            Device::Cpu => Ok(None),
            Device::Cuda(index) => cuda::multiprocessors(index).map(Some),
        }
    }

    /// Whether programs can run there; the error says what is missing.
    pub fn check(self) -> Result<()> {
        match self {
            Device::Cpu => Ok(()),
            Device::Cuda(index) => cuda::check(index),
        }
    }
}

/// Copies rows in and results out around each step.
struct Transfers<'a> {
    plan: &'a Plan,
    feeds: &'a [(usize, &'a Array)],
    records: Vec<(usize, Vec<u8>)>,
}

impl Around for Transfers<'_> {
    fn before(&mut self, i: usize, memory: &mut Memory<'_>) {
        for (slot, rows) in self.feeds {
            let slot = &self.plan.slots[*slot];
            let n = slot.shape.size();
            rows.copy_bytes(i * n, memory.get_mut(slot.place, n));
        }
    }
    fn after(&mut self, _: usize, memory: &mut Memory<'_>) {
        for (output, bytes) in &mut self.records {
            let slot = &self.plan.outputs[*output];
            bytes.extend_from_slice(memory.get(slot.place, slot.shape.size()));
        }
    }
}
