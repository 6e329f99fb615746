//! Variables by name, innermost last.

use crate::value::Value;
use std::sync::Arc;

/// A variable.
#[derive(Clone, Debug)]
pub struct Slot {
    pub name: Arc<str>,
    pub value: Value,
}

/// The variables in scope. Names of the same text are the same pointer.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    slots: Vec<Slot>,
    /// Variables before this are not seen: those of the caller of a function.
    floor: usize,
}

impl Scope {
    fn position(&self, name: &Arc<str>) -> Option<usize> {
        let seen = &self.slots[self.floor..];
        let same = |s: &Slot| Arc::ptr_eq(&s.name, name);
        seen.iter().rposition(same).map(|i| i + self.floor)
    }

    pub fn get(&self, name: &Arc<str>) -> Option<&Value> {
        self.position(name).map(|i| &self.slots[i].value)
    }

    pub fn get_mut(&mut self, name: &Arc<str>) -> Option<&mut Value> {
        self.position(name).map(|i| &mut self.slots[i].value)
    }

    pub fn declare(&mut self, name: Arc<str>, value: Value) {
        self.slots.push(Slot { name, value });
    }

    /// How many variables there are; [`Scope::leave`] forgets those declared since.
    pub fn enter(&self) -> usize {
        self.slots.len()
    }

    pub fn leave(&mut self, count: usize) {
        self.slots.truncate(count);
    }

    /// Hides all variables; gives back what [`Scope::reveal`] takes.
    pub fn hide(&mut self) -> usize {
        std::mem::replace(&mut self.floor, self.slots.len())
    }

    pub fn reveal(&mut self, floor: usize) {
        self.slots.truncate(self.floor);
        self.floor = floor;
    }

    /// Makes variables unknown: whoever reads one is told that it has no value.
    pub fn forget(&mut self, names: &[Arc<str>]) {
        self.slots.retain(|slot| !names.iter().any(|n| Arc::ptr_eq(n, &slot.name)));
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn slots_mut(&mut self) -> &mut [Slot] {
        &mut self.slots
    }
}
