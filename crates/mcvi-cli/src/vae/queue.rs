//! The runs of a sweep, ordered so that a run starts after the run whose weights it starts from.

use super::settings::Config;
use anyhow::{Result, anyhow};
use serde_json::Value;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The outcome of a run.
pub type RunResult = Result<Value>;

/// One run of a sweep.
pub struct Run {
    pub name: String,
    pub config: Config,
    /// The run of this sweep whose weights it starts from.
    after: Option<usize>,
}

enum State {
    Waiting,
    Running,
    Over(RunResult),
}

/// The runs and their states.
pub struct Queue {
    runs: Vec<Run>,
    states: Mutex<Vec<State>>,
    changed: Condvar,
}

impl Queue {
    /// Runs with folders in `out`. A `from` that names a run of `all` means its folder there. If that is one of these
    /// runs too, it runs first.
    pub fn new(runs: Vec<(String, Config)>, all: &[String], out: &Path) -> Result<Self, String> {
        let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
        let plan = |(name, mut config): (String, Config)| {
            let from = config.from.as_ref().and_then(|from| all.iter().find(|name| from == Path::new(name)));
            let after = from.and_then(|from| names.iter().position(|name| name == from));
            if let Some(from) = from {
                config.from = Some(out.join(from));
            }
            Run { name, config, after }
        };
        let runs: Vec<Run> = runs.into_iter().map(plan).collect();
        for run in &runs {
            let before = std::iter::successors(run.after, |&i| runs[i].after);
            if before.take(runs.len() + 1).count() > runs.len() {
                return Err(format!("`{}` would start from its own weights, through `from`", run.name));
            }
        }
        let states = Mutex::new(runs.iter().map(|_| State::Waiting).collect());
        Ok(Queue { runs, states, changed: Condvar::new() })
    }

    /// All runs.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next run that can start, waiting for others to finish if necessary. None if none is left, or no more may
    /// start.
    pub fn next(&self, stop: impl Fn() -> bool) -> Option<(usize, &Run)> {
        let mut states = self.states();
        while !stop() {
            let ready = |(i, run): &(usize, &Run)| {
                matches!(states[*i], State::Waiting) && run.after.is_none_or(|j| matches!(states[j], State::Over(_)))
            };
            match self.runs.iter().enumerate().find(ready) {
                Some((i, run)) => {
                    states[i] = State::Running;
                    return Some((i, run));
                }
                None if states.iter().any(|state| matches!(state, State::Running)) => {
                    states = self.changed.wait(states).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        None
    }

    /// The run it starts from, if that has not finished successfully.
    pub fn lacks(&self, i: usize) -> Option<&str> {
        let before = self.runs[i].after?;
        let done = matches!(&self.states()[before], State::Over(Ok(result)) if result["interrupted"] == false);
        (!done).then_some(self.runs[before].name.as_str())
    }

    /// Record the outcome of a run.
    pub fn ended(&self, i: usize, ending: RunResult) {
        self.states()[i] = State::Over(ending);
        self.changed.notify_all();
    }

    /// The outcomes of all runs; none for those that were not started.
    pub fn endings(self) -> Vec<(String, Option<RunResult>)> {
        let states = self.states.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ending = |state| match state {
            State::Over(ending) => Some(ending),
            State::Running => Some(Err(anyhow!("stopped unexpectedly"))),
            State::Waiting => None,
        };
        self.runs.into_iter().zip(states).map(|(run, state)| (run.name, ending(state))).collect()
    }
}
