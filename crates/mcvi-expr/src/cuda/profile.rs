//! Where the time of a step goes, level by level.

use super::driver::Launch;
use super::executor::Executor;
use super::walk::Walk;
use super::{fuse, lower};
use crate::error::Result;
use crate::plan::{Kernel, Plan};

impl Executor {
    /// Nanoseconds from the start of each level to the start of the next, with what it computes: the median of some
    /// steps, which leave no trace in the states. A level of a pipeline of convolutions begins when its fastest block does.
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
            let of: Vec<String> = self.shaped.steps.iter().filter(here).map(|s| lower::describe(&s.work)).collect();
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
