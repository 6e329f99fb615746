//! Items that are run side by side, ordered so that an item starts after the one whose result it starts from.

use anyhow::{Result, anyhow};
use serde_json::Value;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The outcome of an item. One that was interrupted says so.
pub type Outcome = Result<Value>;

/// An item, and the one it starts from, if that is run here too.
pub struct Item {
    pub name: String,
    pub after: Option<usize>,
}

enum State {
    Waiting,
    Running,
    Over(Outcome),
}

/// The items and their states.
pub struct Queue {
    items: Vec<Item>,
    states: Mutex<Vec<State>>,
    changed: Condvar,
}

impl Queue {
    /// Items of which none waits for itself, or the name of one that does.
    pub fn new(items: Vec<Item>) -> Result<Self, String> {
        for item in &items {
            let before = std::iter::successors(item.after, |&i| items[i].after);
            if before.take(items.len() + 1).count() > items.len() {
                return Err(item.name.clone());
            }
        }
        let states = Mutex::new(items.iter().map(|_| State::Waiting).collect());
        Ok(Queue { items, states, changed: Condvar::new() })
    }

    fn states(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item that can start, waiting for others to finish if necessary. None if none is left, or no more may
    /// start.
    pub fn next(&self, stop: impl Fn() -> bool) -> Option<usize> {
        let mut states = self.states();
        while !stop() {
            let ready = |(i, item): &(usize, &Item)| {
                matches!(states[*i], State::Waiting) && item.after.is_none_or(|j| matches!(states[j], State::Over(_)))
            };
            match self.items.iter().enumerate().find(ready) {
                Some((i, _)) => {
                    states[i] = State::Running;
                    return Some(i);
                }
                None if states.iter().any(|state| matches!(state, State::Running)) => {
                    states = self.changed.wait(states).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        None
    }

    /// The name of an item.
    pub fn name(&self, i: usize) -> &str {
        &self.items[i].name
    }

    /// The item it starts from, if that has not finished successfully.
    pub fn lacks(&self, i: usize) -> Option<&str> {
        let before = self.items[i].after?;
        let done = matches!(&self.states()[before], State::Over(Ok(result)) if result["interrupted"] != true);
        (!done).then_some(self.items[before].name.as_str())
    }

    /// Record the outcome of an item.
    pub fn ended(&self, i: usize, outcome: Outcome) {
        self.states()[i] = State::Over(outcome);
        self.changed.notify_all();
    }

    /// The outcomes of all items; none for those that were not started.
    pub fn outcomes(self) -> Vec<(String, Option<Outcome>)> {
        let states = self.states.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcome = |state| match state {
            State::Over(outcome) => Some(outcome),
            State::Running => Some(Err(anyhow!("stopped unexpectedly"))),
            State::Waiting => None,
        };
        self.items.into_iter().zip(states).map(|(item, state)| (item.name, outcome(state))).collect()
    }
}
