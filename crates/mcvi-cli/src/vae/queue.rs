//! The runs of a sweep in an order that lets each begin when the one it begins with is over.

use super::settings::Config;
use anyhow::{Result, anyhow};
use serde_json::Value;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What became of a run.
pub type RunResult = Result<Value>;

/// One run of a sweep.
pub struct Run {
    pub name: String,
    pub config: Config,
    /// The run of this sweep whose weights it begins with.
    after: Option<usize>,
}

enum State {
    Waiting,
    Running,
    Over(RunResult),
}

/// Runs, and how far each is.
pub struct Queue {
    runs: Vec<Run>,
    states: Mutex<Vec<State>>,
    changed: Condvar,
}

impl Queue {
    /// Runs that will have their folders in `out`. A `from` that names a run of `all` means its folder there; if that is one of
    /// these runs too, it comes before.
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
                return Err(format!("`{}` would begin with itself, by way of `from`", run.name));
            }
        }
        let states = Mutex::new(runs.iter().map(|_| State::Waiting).collect());
        Ok(Queue { runs, states, changed: Condvar::new() })
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next run that can begin, waiting for one if others must end first. None where there is none left, or no more
    /// are to begin.
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

    /// The run it begins with, if that did not come to its end.
    pub fn lacks(&self, i: usize) -> Option<&str> {
        let before = self.runs[i].after?;
        let done = matches!(&self.states()[before], State::Over(Ok(result)) if result["interrupted"] == false);
        (!done).then_some(self.runs[before].name.as_str())
    }

    /// A run is over.
    pub fn ended(&self, i: usize, ending: RunResult) {
        self.states()[i] = State::Over(ending);
        self.changed.notify_all();
    }

    /// What became of all of them; nothing of those that were not begun.
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
