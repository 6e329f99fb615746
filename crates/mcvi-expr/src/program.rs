//! Programs: expressions compiled once, with their state, to be run many times.

use crate::array::Array;
use crate::device::{Device, GpuOptions};
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::graph::{Expr, Graph, NodeId, Op};
use crate::plan::{Kernel, Plan, Slot, plan};
use crate::shape::{DType, Shape};

/// What a program computes, collected before it is compiled. Made by [`Graph::program`].
#[must_use = "a description of a program; `compile` makes the program"]
pub struct ProgramBuilder<'g> {
    graph: &'g Graph,
    outputs: Vec<(String, Expr<'g>)>,
    updates: Vec<(Expr<'g>, Expr<'g>)>,
    threads: Option<usize>,
    device: Device,
    options: GpuOptions,
    seed: u64,
}

impl Graph {
    /// Start to describe a program over expressions of this graph.
    pub fn program(&self) -> ProgramBuilder<'_> {
        let (device, options) = (Device::Cpu, GpuOptions::default());
        ProgramBuilder { graph: self, outputs: vec![], updates: vec![], threads: None, device, options, seed: 0 }
    }
}

impl<'g> ProgramBuilder<'g> {
    /// Compute `expr` in every step, to be read under `name`.
    pub fn output(mut self, name: &str, expr: Expr<'g>) -> Self {
        self.outputs.push((name.to_owned(), expr));
        self
    }

    /// Replace a state by `value` at the end of every step. All updates see the old states.
    pub fn update(mut self, state: Expr<'g>, value: Expr<'g>) -> Self {
        self.updates.push((state, value));
        self
    }

    /// Use this many threads (by default as many as the machine has). Results do not depend on it.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Run on this device (by default the CPU).
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// On a GPU, compute products of `F32` in full precision. By default they are rounded to TF32 before they are
    /// multiplied (10 bits after the point), which is several times faster; sums are in full precision either way.
    pub fn full_precision(mut self) -> Self {
        self.options.full_precision = true;
        self
    }

    /// On a GPU, use at most this many multiprocessors (by default all), so that several programs can run side by side.
    /// Results do not depend on it.
    pub fn multiprocessors(mut self, count: usize) -> Self {
        self.options.multiprocessors = Some(count);
        self
    }

    /// The seed of all draws (by default 0).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The CUDA source of this program, compiled for a processor such as `sm_90` if NVRTC is found: its size in bytes.
    /// Needs no GPU; for tests.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    pub fn cuda_source(self, processor: &str) -> (String, Option<Result<usize>>) {
        let outputs: Vec<(String, NodeId)> = self.outputs.iter().map(|(n, e)| (n.clone(), e.id())).collect();
        let updates: Vec<(NodeId, NodeId)> = self.updates.iter().map(|(s, v)| (s.id(), v.id())).collect();
        let source = crate::cuda::source(&plan(self.graph, &outputs, &updates), self.options.full_precision);
        let compiled = crate::cuda::compile_source(&source, processor);
        (source, compiled)
    }

    /// Check everything and compile.
    #[track_caller]
    pub fn compile(self) -> Result<Program> {
        let graph = self.graph;
        let at = std::panic::Location::caller();
        let exprs = self.outputs.iter().map(|(_, e)| *e).chain(self.updates.iter().flat_map(|&(s, v)| [s, v]));
        for e in exprs {
            if let Some(error) = e.error() {
                return Err(error);
            }
            if !std::ptr::eq(e.graph(), graph) {
                return Err(Error::ForeignGraph { op: "compile", at });
            }
        }
        for (i, (name, _)) in self.outputs.iter().enumerate() {
            if self.outputs[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::DuplicateName { name: name.clone() });
            }
        }
        for (i, (state, value)) in self.updates.iter().enumerate() {
            let Op::State(slot) = state.op() else {
                let why = format!("only a state can be updated, and {state:?} is not one");
                return Err(Error::Update { why });
            };
            let name = graph.slot(slot).0;
            if self.updates[..i].iter().any(|(earlier, _)| earlier.is_same(*state)) {
                return Err(Error::Update { why: format!("the state `{name}` is updated twice") });
            }
            if state.shape() != value.shape() || state.dtype() != value.dtype() {
                return Err(Error::Value {
                    name,
                    dtype: state.dtype(),
                    shape: state.shape(),
                    got_dtype: value.dtype(),
                    got: value.shape(),
                });
            }
        }
        let roots = self.outputs.iter().map(|o| o.1.id()).chain(self.updates.iter().map(|u| u.1.id()));
        if let Some(inner) = graph.escaped(roots) {
            let why = "what a body is given, and what is built on it, has a value only within that loop".to_owned();
            return Err(Error::Argument { op: "scan", shape: inner.shape(), why, at });
        }
        let roots = self.outputs.iter().map(|o| o.1.id()).chain(self.updates.iter().map(|u| u.1.id()));
        if let Some(data) = graph.incomplete(roots) {
            let why =
                "other ranks hold some of its rows: only sums over rows that are divided among them can be computed";
            return Err(Error::Argument { op: "rows_of", shape: data.shape(), why: why.to_owned(), at });
        }
        let threads = match self.threads {
            None => std::thread::available_parallelism().map_or(1, usize::from),
            Some(n) => checked_threads(n)?,
        };
        let outputs: Vec<(String, NodeId)> = self.outputs.iter().map(|(n, e)| (n.clone(), e.id())).collect();
        let updates: Vec<(NodeId, NodeId)> = self.updates.iter().map(|(s, v)| (s.id(), v.id())).collect();
        let plan = plan(graph, &outputs, &updates);
        if self.device != Device::Cpu && plan.kernels.iter().any(Kernel::sums_parts) {
            let why = "sums over ranks are computed on the CPU only, so far".to_owned();
            return Err(Error::Device { device: self.device.to_string(), why });
        }
        let mut executor = Executor::new(&plan, self.device, threads, self.options)?;
        for slot in &plan.slots {
            if let Some(initial) = &slot.initial {
                executor.write(&plan, slot.place, initial)?;
            }
        }
        let written = plan.slots.iter().map(|s| s.initial.is_some()).collect();
        let unused = graph.named_arrays().into_iter().filter(|(name, ..)| plan.slots.iter().all(|s| s.name != *name));
        let unused = unused.collect();
        Ok(Program { plan, executor, written, unused, seed: self.seed, step: 0, ran: false })
    }
}

fn checked_threads(threads: usize) -> Result<usize> {
    if (1..=1024).contains(&threads) {
        return Ok(threads);
    }
    Err(Error::Setting { what: "threads", why: format!("{threads} is not between 1 and 1024") })
}

/// A compiled program with its inputs, states and outputs. See the [crate documentation](crate) for its use.
pub struct Program {
    plan: Plan,
    executor: Executor,
    /// Which slots have a value.
    written: Vec<bool>,
    /// Inputs and states of the graph that nothing in the program depends on.
    unused: Vec<(String, Shape, DType)>,
    seed: u64,
    step: u64,
    ran: bool,
}

/// How often to run a program, with what inputs, and what to keep from each step.
#[must_use = "a description of a run; `Program::execute` runs it"]
pub struct Run<'a> {
    steps: usize,
    feeds: Vec<(&'a str, &'a Array)>,
    records: Vec<&'a str>,
}

impl<'a> Run<'a> {
    /// A run of this many steps.
    pub fn steps(steps: usize) -> Self {
        Run { steps, feeds: vec![], records: vec![] }
    }

    /// Before step i, write element i of `rows` (along its first axis, which has one element a step) to an input or
    /// a state.
    pub fn feed(mut self, input: &'a str, rows: &'a Array) -> Self {
        self.feeds.push((input, rows));
        self
    }

    /// Keep an output of every step.
    pub fn record(mut self, output: &'a str) -> Self {
        self.records.push(output);
        self
    }
}

impl Program {
    /// Write an input or a state. One that the graph has, but nothing in this program depends on, is checked and
    /// then left alone.
    pub fn write(&mut self, name: &str, value: &Array) -> Result<()> {
        let fits = |shape: &Shape, dtype: DType| {
            if dtype == value.dtype() && shape == value.shape() {
                return Ok(());
            }
            Err(Error::Value {
                name: name.to_owned(),
                dtype,
                shape: shape.clone(),
                got_dtype: value.dtype(),
                got: value.shape().clone(),
            })
        };
        if let Some((_, shape, dtype)) = self.unused.iter().find(|u| u.0 == name) {
            return fits(shape, *dtype);
        }
        let i = find(&self.plan.slots, "input or state", name)?;
        let slot = &self.plan.slots[i];
        fits(&slot.shape, slot.dtype)?;
        self.executor.write(&self.plan, slot.place, value)?;
        self.written[i] = true;
        Ok(())
    }

    /// Read an input or a state.
    pub fn read(&mut self, name: &str) -> Result<Array> {
        let i = find(&self.plan.slots, "input or state", name)?;
        if !self.written[i] {
            let slot = &self.plan.slots[i];
            return Err(Error::MissingInput { name: name.to_owned(), shape: slot.shape.clone() });
        }
        take(&mut self.executor, &self.plan, &self.plan.slots[i])
    }

    /// An output of the last step.
    pub fn output(&mut self, name: &str) -> Result<Array> {
        let i = find(&self.plan.outputs, "output", name)?;
        if !self.ran {
            return Err(Error::Setting {
                what: "output",
                why: format!("`{name}` has a value only after a run that succeeded"),
            });
        }
        take(&mut self.executor, &self.plan, &self.plan.outputs[i])
    }

    /// Every input must have a value, or get one for each step.
    fn check_inputs(&self, feeds: &[(usize, &Array)]) -> Result<()> {
        let slots = self.plan.slots.iter().enumerate();
        let mut missing = slots.filter(|(i, _)| !self.written[*i] && feeds.iter().all(|f| f.0 != *i));
        missing
            .next()
            .map_or(Ok(()), |(_, slot)| Err(Error::MissingInput { name: slot.name.clone(), shape: slot.shape.clone() }))
    }

    /// Run some steps. Outputs are then those of the last one.
    pub fn run(&mut self, steps: usize) -> Result<()> {
        self.execute(&Run::steps(steps)).map(|_| ())
    }

    /// Run as described; returns what was recorded, each with a first axis of one element a step.
    ///
    /// If a step fails (an index out of range, an external function's error), states and the step counter are as
    /// they were before that step.
    pub fn execute(&mut self, run: &Run<'_>) -> Result<Vec<Array>> {
        if run.steps == 0 {
            return Err(Error::Setting { what: "steps", why: "a run has at least one".to_owned() });
        }
        let mut feeds = vec![];
        for &(name, rows) in &run.feeds {
            let i = find(&self.plan.slots, "input or state", name)?;
            if feeds.iter().any(|(earlier, _)| *earlier == i) {
                return Err(Error::DuplicateName { name: name.to_owned() });
            }
            let slot = &self.plan.slots[i];
            let expected: Vec<usize> = [&[run.steps], slot.shape.dims()].concat();
            if rows.shape().dims() != expected || rows.dtype() != slot.dtype {
                return Err(Error::Value {
                    name: format!("{name}, once for each of {} steps", run.steps),
                    dtype: slot.dtype,
                    shape: expected.into(),
                    got_dtype: rows.dtype(),
                    got: rows.shape().clone(),
                });
            }
            feeds.push((i, rows));
        }
        self.check_inputs(&feeds)?;
        let records = run.records.iter().map(|name| find(&self.plan.outputs, "output", name));
        let records: Vec<usize> = records.collect::<Result<_>>()?;
        let (done, result) = self.executor.run(&self.plan, (self.seed, self.step), run.steps, &feeds, &records);
        self.step = self.step.wrapping_add(done as u64);
        // After a failure the outputs are those of no step.
        self.ran = result.is_ok();
        // Where not even the first step was begun, nothing may have been fed.
        if self.ran || done > 0 {
            feeds.iter().for_each(|(i, _)| self.written[*i] = true);
        }
        let arrays = records.into_iter().zip(result?).map(|(i, bytes)| {
            let slot = &self.plan.outputs[i];
            let dims: Vec<usize> = [&[run.steps], slot.shape.dims()].concat();
            Array::from_bytes(slot.dtype, dims.into(), &bytes)
        });
        Ok(arrays.collect())
    }

    /// Where the time of a step goes: on the CPU each kernel with its median nanoseconds on one thread, in the order they run; on
    /// a GPU each level. States are left as they are.
    pub fn profile(&mut self, steps: usize) -> Result<Vec<(String, f64)>> {
        self.check_inputs(&[])?;
        self.executor.profile(&self.plan, self.seed, self.step, steps.max(1))
    }

    /// Every state with its value, for checkpoints. An error if the device that holds them was lost.
    pub fn states(&mut self) -> Result<Vec<(String, Array)>> {
        let states = self.plan.slots.iter().filter(|s| s.initial.is_some());
        states.map(|s| Ok((s.name.clone(), take(&mut self.executor, &self.plan, s)?))).collect()
    }

    /// Names of the inputs.
    pub fn input_names(&self) -> Vec<&str> {
        self.plan.slots.iter().filter(|s| s.initial.is_none()).map(|s| s.name.as_str()).collect()
    }

    /// Names of the outputs.
    pub fn output_names(&self) -> Vec<&str> {
        self.plan.outputs.iter().map(|s| s.name.as_str()).collect()
    }

    /// The number of the next step, which its draws depend on.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Continue at another step, for instance that of a checkpoint.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// The seed of all draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Draw with another seed from now on.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Use another number of threads from now on. Results do not depend on it.
    pub fn set_threads(&mut self, threads: usize) -> Result<()> {
        self.executor.set_threads(checked_threads(threads)?);
        Ok(())
    }

    /// Bytes held for inputs, states, constants and intermediate values.
    pub fn memory_bytes(&self) -> usize {
        self.executor.memory_bytes(&self.plan)
    }

    /// Rough nanoseconds of a step on one thread of a CPU, estimated from the operations and not measured; none elsewhere.
    pub fn cost(&self) -> Option<f64> {
        self.executor.cost()
    }

    /// The number of kernels a step runs, and the number of levels they are ordered in.
    pub fn kernels(&self) -> (usize, usize) {
        self.executor.kernels(&self.plan)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kernels, levels) = self.kernels();
        write!(f, "Program({kernels} kernels in {levels} levels, {} bytes)", self.memory_bytes())
    }
}

fn find(slots: &[Slot], kind: &'static str, name: &str) -> Result<usize> {
    slots.iter().position(|s| s.name == name).ok_or_else(|| Error::UnknownName {
        kind,
        name: name.to_owned(),
        known: slots.iter().map(|s| format!("`{}`", s.name)).collect(),
    })
}

fn take(executor: &mut Executor, plan: &Plan, slot: &Slot) -> Result<Array> {
    let bytes = executor.read(plan, slot.place, slot.shape.size())?;
    Ok(Array::from_bytes(slot.dtype, slot.shape.clone(), &bytes))
}
