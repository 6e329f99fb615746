//! One walk through the levels of a program: the lists of tiles it follows, its launches, and how it ended.

use super::driver::{Gpu, Launch, Memory};
use super::executor::Executor;
use super::schedule;
use super::task::{MOVED, Task};
use crate::error::{Error, Result};
use crate::graph::ExternalPart;
use crate::plan::{Kernel, Place, Plan, Slot};
use rayon::prelude::*;

/// Steps of one launch: enough to hide its cost, few enough to let other programs in.
const STEPS: usize = 64;

/// Lists of tiles for a set of inputs fed and outputs recorded.
pub(super) struct Walk {
    pub feeds: Vec<(usize, Memory)>,
    pub records: Vec<(usize, Memory)>,
    /// Steps there is room for.
    pub room: usize,
    pub segments: Vec<Segment>,
    pub done: Memory,
}

/// Levels that run without the host, and what the host does after them.
pub(super) struct Segment {
    pub items: Memory,
    pub first: Memory,
    pub args: Memory,
    pub levels: usize,
    pub after: Vec<Kernel>,
}

/// How a run ended.
pub(super) enum Failure {
    None,
    At(usize, Error),
}

impl Executor {
    /// Lists for these inputs and outputs, unless the present ones serve.
    pub(super) fn prepare(&mut self, plan: &Plan, feeds: &[usize], records: &[usize], steps: usize) -> Result<()> {
        if let Some(w) = &self.walk {
            let same = |a: &[(usize, Memory)], b: &[usize]| a.iter().map(|x| x.0).eq(b.iter().copied());
            if same(&w.feeds, feeds) && same(&w.records, records) && w.room >= steps {
                return Ok(());
            }
        }
        self.walk = None;
        let row = |s: &Slot| s.shape.size() * s.dtype.bytes();
        let room = |s: &Slot| self.gpu.memory((row(s) * steps).max(4));
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
    pub(super) fn walk(
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

    pub(super) fn launch(&self, segment: &Segment, launch: Launch) -> Result<()> {
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
    pub(super) fn external(&mut self, plan: &Plan, kernel: &Kernel) -> Result<()> {
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
        let at_once = function.rows_at_once(*rows);
        let rows = out.par_chunks_mut(at_once * width).zip(z.par_chunks(at_once * d)).zip(v.par_chunks(at_once * d));
        rows.try_for_each(|((to, z), v)| function.call(*part, z, v, to))?;
        let at = self.offset(plan, *to);
        let bytes: Vec<u8> = out.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.gpu.write(&mut self.arena, at, &bytes)
    }
}
