//! Small maps, written out as calls and lists of operations.

use super::{Float, Instruction, MapJob, Micro, Over, Reduce, Reduction, Term};
use crate::cpu::At;
use crate::cpu::reduce::{columns, rows};
use crate::cpu::strided::{fill, offset};
use crate::cpu::tape::{Draft, Loc, Run};

/// Elements up to which an operation for each is cheaper than one on a block.
const FEW: usize = 2;

/// Blocks up to which a scalar is written to each by an operation of a list.
const BLOCKS: usize = 4;

/// Where each element lies.
type Places = [Loc; FEW];

impl<T: Float> MapJob<T> {
    /// Write the whole work out, if it is small; says whether it did.
    pub(super) fn write(&self, draft: &mut Draft) -> bool {
        self.elements(draft) || self.calls(draft)
    }

    /// As calls on blocks and operations of lists, if the elements fit a register.
    fn calls(&self, draft: &mut Draft) -> bool {
        let (n, padded) = (self.total, self.total.next_multiple_of(T::LANES));
        if padded > self.chunk || n > self.tile {
            return false;
        }
        let size = padded * size_of::<T>();
        draft.registers(self.slots * size);
        let mut slots: Vec<Loc> = (0..self.slots).map(|i| Loc::Register(i * size)).collect();
        let lists = draft.near && padded == T::LANES;
        for &(slot, value) in &self.constants {
            slots[slot] = draft.constant(&value.bytes(), padded);
        }
        for &(slot, from) in &self.scalars {
            let from = [from.loc(0); 3];
            if draft.near && padded <= BLOCKS * T::LANES {
                let blocks = (0..padded).step_by(T::LANES).map(|i| slots[slot].after(i * size_of::<T>()));
                blocks.for_each(|to| draft.short(self.lists.splats, to, from));
            } else {
                draft.call(erase(splat::<T>), slots[slot], from, padded);
            }
        }
        for load in &self.loads {
            let from = load.from.loc(0);
            if !load.dims.is_empty() {
                draft.gather::<T>(slots[load.slot], from, &load.dims, &load.strides, n);
            } else if load.copied {
                draft.call(erase(copy::<T>), slots[load.slot], [from; 3], n);
            } else {
                slots[load.slot] = from;
            }
        }
        for store in self.stores.iter().filter(|s| s.direct && (s.roomy || n == padded)) {
            slots[store.slot] = store.to.loc(0);
        }
        for i in &self.code {
            let args = i.args.map(|slot| slots[slot]);
            match i.muladd {
                Some(terms) if lists => {
                    let args = terms.map(|t| t.place::<T>(draft, |k| args[k]));
                    draft.short(self.lists.blocks, slots[i.to], args);
                }
                _ => draft.call(erase(i.run), slots[i.to], args, padded),
            }
        }
        for store in self.stores.iter().filter(|s| !(s.direct && (s.roomy || n == padded))) {
            draft.call(erase(copy::<T>), store.to.loc(0), [slots[store.slot]; 3], n);
        }
        for r in &self.reduces {
            self.reduce_call(r, draft, slots[r.slot]);
        }
        true
    }

    /// Write out a reduction of the elements from `from` on.
    fn reduce_call(&self, r: &Reduce<T>, draft: &mut Draft, from: Loc) {
        let run = match (r.over, r.how) {
            (Over::Columns, Reduction::Sum) => columns::<T, false>,
            (Over::Columns, Reduction::Max) => columns::<T, true>,
            (_, Reduction::Sum) => rows::<T, false>,
            (_, Reduction::Max) => rows::<T, true>,
        };
        // One number carries both lengths.
        let row = if r.over == Over::All { self.total } else { self.row };
        draft.call(erase(run), r.to.loc(0), [from; 3], self.total << 32 | row);
    }

    /// Element by element, if there are that few.
    ///
    /// What reads more than the last store there wrote waits until that has left the pipeline, longer than several
    /// operations take. A few elements are mostly written one by one (sums, parts of a vector), so they are read one by
    /// one as well, each where it lies.
    fn elements(&self, draft: &mut Draft) -> bool {
        let n = self.total;
        let plain = |i: &Instruction<T>| i.muladd.is_some() || (n == 1 && !i.second);
        // (What has one element is not reduced.)
        let whole = |r: &Reduce<T>| n == FEW && (r.over == Over::All || (r.over == Over::Rows) == (self.row == n));
        if n > FEW.min(self.tile) || !draft.near || !self.code.iter().all(plain) || !self.reduces.iter().all(whole) {
            return false;
        }
        let size = size_of::<T>();
        let memory = |at: At<T>| -> Places { [at.loc(0), at.loc(size as isize)] };
        let copy = |draft: &mut Draft, to: Places, from: Places| {
            (0..n).for_each(|e| draft.copy::<T>(self.lists, to[e], from[e]));
        };
        // Registers, and operands and result of a function on a block.
        let block = T::LANES * size;
        draft.registers((self.slots + 4) * block);
        let register = |slot: usize| -> Places { [slot * block, slot * block + size].map(Loc::Register) };
        let mut slots: Vec<Places> = (0..self.slots).map(register).collect();
        for &(slot, value) in &self.constants {
            slots[slot] = [draft.constant(&value.bytes(), T::LANES); FEW];
        }
        // What is stored or reduced as it was loaded is copied, since another store may come before. (Nothing else is
        // overwritten early: a store is direct only if all loads from there read the same elements in the same order.)
        let late = |slot| self.stores.iter().any(|s| s.slot == slot) || self.reduces.iter().any(|r| r.slot == slot);
        let scalars = self.scalars.iter().map(|&(slot, from)| (slot, [from.loc(0); FEW]));
        let loads = self.loads.iter().map(|load| {
            let place = |e| load.from.loc(offset::<T>(&load.dims, &load.strides, e));
            (load.slot, [place(0), place(n - 1)])
        });
        for (slot, from) in scalars.chain(loads) {
            if late(slot) {
                copy(draft, slots[slot], from);
            } else {
                slots[slot] = from;
            }
        }
        for store in self.stores.iter().filter(|s| s.direct) {
            slots[store.slot] = memory(store.to);
        }
        for i in &self.code {
            let (to, args) = (slots[i.to], i.args.map(|slot| slots[slot]));
            if let Some(terms) = i.muladd {
                for e in 0..n {
                    let args = terms.map(|t| t.place::<T>(draft, |k| args[k][e]));
                    draft.short(self.lists.elements, to[e], args);
                }
                continue;
            }
            // A function of one element, on a block of it.
            let [blocks @ .., result] = [0, 1, 2, 3].map(|k| register(self.slots + k)[0]);
            for (block, arg) in blocks.into_iter().zip(args).take(i.arity) {
                draft.short(self.lists.splats, block, [arg[0]; 3]);
            }
            let result = if matches!(to[0], Loc::Register(_)) { to[0] } else { result };
            draft.call(erase(i.run), result, blocks, T::LANES);
            if result != to[0] {
                draft.copy::<T>(self.lists, to[0], result);
            }
        }
        for store in self.stores.iter().filter(|s| !s.direct) {
            copy(draft, memory(store.to), slots[store.slot]);
        }
        for r in &self.reduces {
            self.reduction(r, draft, slots[r.slot]);
        }
        true
    }

    /// Write out a reduction of two elements.
    fn reduction(&self, r: &Reduce<T>, draft: &mut Draft, from: Places) {
        if r.how == Reduction::Sum {
            let one = draft.number::<T>(1.0);
            draft.short(self.lists.elements, r.to.loc(0), [from[0], one, from[1]]);
        } else {
            self.reduce_call(r, draft, from[0]);
        }
    }
}

impl Term {
    /// Where it lies, given where the operands do.
    fn place<T: Float>(self, draft: &mut Draft, operand: impl Fn(usize) -> Loc) -> Loc {
        match self {
            Term::Arg(k) => operand(k),
            Term::Number(x) => draft.number::<T>(x),
        }
    }
}

/// Forget the element type of a kernel.
fn erase<T>(run: Micro<T>) -> Run {
    // SAFETY: pointers to different types are passed alike; the caller passes pointers to T.
    unsafe { std::mem::transmute::<Micro<T>, Run>(run) }
}

/// # Safety
/// `to` must be valid for n elements and `from` for one.
unsafe fn splat<T: Copy>(to: *mut T, from: *const T, _: *const T, _: *const T, n: usize) {
    // SAFETY: promised by the caller.
    unsafe { fill(to, *from, n) }
}

/// # Safety
/// Both must be valid for n elements.
unsafe fn copy<T: Copy>(to: *mut T, from: *const T, _: *const T, _: *const T, n: usize) {
    // SAFETY: promised by the caller.
    unsafe { (0..n).for_each(|i| *to.add(i) = *from.add(i)) }
}
