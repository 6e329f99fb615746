//! Fused elementwise kernels: a short program over registers of a few hundred elements, interpreted chunk by chunk,
//! each instruction a vectorised loop. Reductions are taken from the registers at the end of a chunk.

mod write;

use super::arena::Arena;
use super::micro::{Lists, Micro, Term, as_muladd, lists, micro};
use super::reduce::{Columns, Reducers, Rows, Run, fold, reducers};
use super::sources::Float;
use super::strided::{Gather, fill, gatherer};
use super::tape::Draft;
use super::{At, Ctx, Job, Layout};
use crate::graph::Reduction;
use crate::plan::{Map, Over, Strided, Value};
use crate::table::Function;

/// Registers of one kernel should stay in the first-level cache.
const REGISTER_BYTES: usize = 24 * 1024;

type Slot = usize;

struct Load<T> {
    slot: Slot,
    from: At<T>,
    /// Empty for contiguous elements.
    dims: Vec<usize>,
    strides: Vec<isize>,
    /// Copied to a register even where memory could stand in for one.
    copied: bool,
    /// If it is a row, repeated: one long enough for a chunk that begins anywhere in it is made for a tile.
    repeated: Option<Repeated>,
}

/// A row that is repeated.
struct Repeated {
    row: usize,
    /// Where it is made, in elements after the registers.
    at: usize,
}

struct Instruction<T> {
    run: Micro<T>,
    /// The same as a·b + c, if it is.
    muladd: Option<[Term; 3]>,
    to: Slot,
    args: [Slot; 3],
    /// How many of these are operands.
    arity: usize,
    /// Whether the last of them is a second result.
    second: bool,
}

struct Store<T> {
    slot: Slot,
    to: At<T>,
    /// The register *is* the memory written, where a whole number of vectors fits.
    direct: bool,
    /// The buffer is all this kernel's, and has room for a whole vector at its end.
    roomy: bool,
}

struct Reduce<T> {
    slot: Slot,
    how: Reduction,
    over: Over,
    to: At<T>,
    run: Run<T>,
    rows: Rows<T>,
    columns: Columns<T>,
}

/// A fused kernel.
pub(super) struct MapJob<T> {
    total: usize,
    row: usize,
    tile: usize,
    chunk: usize,
    slots: usize,
    /// Elements of repeated rows.
    repeated: usize,
    constants: Vec<(Slot, T)>,
    scalars: Vec<(Slot, At<T>)>,
    loads: Vec<Load<T>>,
    code: Vec<Instruction<T>>,
    stores: Vec<Store<T>>,
    reduces: Vec<Reduce<T>>,
    gather: Gather<T>,
    lists: Lists,
    cost: f64,
}

/// Hands out register slots and takes them back.
#[derive(Default)]
struct Registers {
    free: Vec<Slot>,
    count: usize,
}
impl Registers {
    fn take(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

impl<T: Float> MapJob<T> {
    pub fn new(map: &Map, layout: &Layout<'_>) -> Self {
        let mut registers = Registers::default();
        let (mut constants, mut scalars, mut loads): (Vec<(Slot, T)>, Vec<_>, Vec<_>) = (vec![], vec![], vec![]);
        let load_slots: Vec<Slot> = map.loads.iter().map(|_| registers.take()).collect();
        for (index, (load, &slot)) in map.loads.iter().zip(&load_slots).enumerate() {
            let from = layout.at(load.place);
            if load.is_splat() && map.total > 1 {
                scalars.push((slot, from));
            } else if load.is_contiguous() {
                // Stores come before reductions and in some order: what they read must not be what they overwrite.
                let read = Value::Load(index);
                let late = map.stores.iter().map(|s| s.value).chain(map.reduces.iter().map(|r| r.value));
                let copied =
                    late.into_iter().any(|v| v == read) && map.stores.iter().any(|s| s.to.buf == load.place.buf);
                loads.push(Load { slot, from, dims: vec![], strides: vec![], copied, repeated: None });
            } else {
                let Strided { dims, strides, .. } = load.clone();
                loads.push(Load { slot, from, dims, strides, copied: true, repeated: None });
            }
        }
        // Ops whose value is stored, and where: such a value is computed in place if the memory is not read here.
        let mut keep = vec![false; map.ops.len()];
        let outs = map.stores.iter().map(|s| s.value).chain(map.reduces.iter().map(|r| r.value));
        outs.for_each(|v| {
            if let Value::Op(i) = v {
                keep[i] = true;
            }
        });
        let mut last_use: Vec<usize> = vec![0; map.ops.len()];
        for (at, op) in map.ops.iter().enumerate() {
            op.args.iter().for_each(|v| {
                if let Value::Op(i) = v {
                    last_use[*i] = at;
                }
            });
        }
        let mut op_slots: Vec<Slot> = vec![];
        let mut code = vec![];
        let mut constant = |value: f64, registers: &mut Registers| {
            let value = T::of(value);
            match constants.iter().find(|(_, c)| c.same(value)) {
                Some((slot, _)) => *slot,
                None => {
                    // A slot that no instruction has written: it keeps its value from chunk to chunk.
                    registers.count += 1;
                    constants.push((registers.count - 1, value));
                    registers.count - 1
                }
            }
        };
        for (at, op) in map.ops.iter().enumerate() {
            let mut args = [0; 3];
            for (slot, value) in args.iter_mut().zip(&op.args) {
                *slot = match *value {
                    Value::Load(i) => load_slots[i],
                    Value::Op(i) => op_slots[i],
                    Value::Const(c) => constant(c, &mut registers),
                };
            }
            let mut freed: Vec<usize> =
                op.args.iter().filter_map(|v| if let Value::Op(i) = v { Some(*i) } else { None }).collect();
            freed.sort_unstable();
            freed.dedup();
            for i in freed {
                if last_use[i] == at && !keep[i] {
                    registers.free.push(op_slots[i]);
                }
            }
            // Kept values get a slot that nothing else writes, since it may stand for memory.
            let to = if keep[at] {
                registers.count += 1;
                registers.count - 1
            } else {
                registers.take()
            };
            op_slots.push(to);
            match op.function {
                // The instruction before writes it, as its third operand.
                Function::Second => {
                    let pair: &mut Instruction<T> =
                        code.last_mut().unwrap_or_else(|| unreachable!("a pair comes first"));
                    pair.args[2] = to;
                    pair.second = true;
                }
                function => {
                    let (arity, muladd) = (op.args.len(), as_muladd(function));
                    let run = micro(layout.level, function);
                    code.push(Instruction { run, muladd, to, args, arity, second: false });
                }
            }
        }
        let mut slot_of = |value: Value| match value {
            Value::Load(i) => load_slots[i],
            Value::Op(i) => op_slots[i],
            Value::Const(c) => constant(c, &mut registers),
        };
        let mut stores: Vec<Store<T>> = vec![];
        for store in &map.stores {
            let slot = slot_of(store.value);
            let direct = match store.value {
                // Computing in place must not change what a later instruction reads.
                Value::Op(at) => map.loads.iter().enumerate().all(|(i, load)| {
                    let last = map.ops.iter().rposition(|op| op.args.contains(&Value::Load(i)));
                    let same = load.place == store.to && load.is_contiguous();
                    load.place.buf != store.to.buf || (same && last.is_none_or(|last| last <= at))
                }),
                _ => false,
            };
            let direct = direct && stores.iter().all(|s| s.slot != slot);
            let roomy = store.to.first == 0 && layout.is_roomy(store.to.buf, map.total);
            stores.push(Store { slot, to: layout.at(store.to), direct, roomy });
        }
        let reduces = map.reduces.iter().map(|r| {
            let Reducers { run, rows, columns } = reducers(layout.level, r.how);
            Reduce { slot: slot_of(r.value), how: r.how, over: r.over, to: layout.at(r.to), run, rows, columns }
        });
        let reduces = reduces.collect();
        let slots = registers.count;
        // Where memory stands in for a register, none is used.
        let stand_ins = loads.iter().filter(|l| !l.copied).count() + stores.iter().filter(|s| s.direct).count();
        let lanes = T::LANES * 2;
        let chunk = REGISTER_BYTES / ((slots - stand_ins).max(1) * size_of::<T>()) / lanes * lanes;
        let chunk = chunk.clamp(2 * lanes, 32 * T::LANES).min(map.tile.next_multiple_of(T::LANES));
        let mut repeated = 0;
        for load in &mut loads {
            if let (&[_, row], &[0, 1]) = (&load.dims[..], &load.strides[..])
                && chunk + row <= map.tile
            {
                load.repeated = Some(Repeated { row, at: repeated });
                repeated += (chunk + row).next_multiple_of(T::LANES);
            }
        }
        MapJob {
            total: map.total,
            row: map.row,
            tile: map.tile,
            chunk,
            slots,
            repeated,
            constants,
            scalars,
            loads,
            code,
            stores,
            reduces,
            gather: gatherer(layout.level),
            lists: lists::<T>(layout.level),
            cost: 50.0 + map.total as f64 * map.element_cost() * size_of::<T>() as f64 / 8.0,
        }
    }

    /// Take a chunk's registers into the reductions.
    ///
    /// # Safety
    /// As for `Job::run`; `slots` are the registers of elements `first..first + n`.
    unsafe fn reduce(&self, ctx: &Ctx<'_>, tile: usize, first: usize, n: usize, slots: &[*mut T]) {
        for r in &self.reduces {
            let values = slots[r.slot].cast_const();
            match r.over {
                Over::All => {
                    let to = ctx.ptr(r.to).wrapping_add(tile);
                    // SAFETY: the tile owns this element of the result, and `values` holds n elements.
                    unsafe { *to = fold(r.how, *to, (r.run)(values, n)) };
                }
                Over::Rows => segments(first, n, self.row, |row, column, offset, len| {
                    let (to, values) = (ctx.ptr(r.to).wrapping_add(row), values.wrapping_add(offset));
                    // SAFETY: tiles are whole rows, so this one owns the rows' results.
                    unsafe {
                        if column == 0 && len >= self.row {
                            (r.rows)(to, values, len / self.row, self.row);
                        } else {
                            let part = (r.run)(values, len);
                            *to = if column == 0 { part } else { fold(r.how, *to, part) };
                        }
                    }
                }),
                Over::Columns => {
                    let to = ctx.ptr(r.to).wrapping_add(tile * self.row);
                    // SAFETY: the tile owns a row of partial results, and `values` holds n elements.
                    unsafe { (r.columns)(to, values, n, first % self.row, self.row) };
                }
            }
        }
    }
}

impl<T: Float> Job for MapJob<T> {
    fn write_out(&self, draft: &mut Draft) -> bool {
        self.write(draft)
    }

    fn tiles(&self) -> usize {
        self.total.div_ceil(self.tile)
    }

    fn cost(&self) -> f64 {
        self.cost
    }

    fn scratch(&self) -> usize {
        (self.slots * self.chunk + self.repeated) * size_of::<T>() + self.slots * size_of::<usize>() + 64
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, scratch: &mut Arena) {
        let (start, end) = (tile * self.tile, ((tile + 1) * self.tile).min(self.total));
        let memory = scratch.bytes().as_mut_ptr();
        let registers: *mut T = memory.cast();
        let rows = registers.wrapping_add(self.slots * self.chunk);
        let table = rows.wrapping_add(self.repeated).cast::<*mut T>();
        // SAFETY: `scratch()` asked for this much: the registers, repeated rows, then a table of pointers, all of them aligned,
        // since they are whole vectors.
        let slots = unsafe {
            for i in 0..self.slots {
                table.add(i).write(registers.add(i * self.chunk));
            }
            std::slice::from_raw_parts_mut(table, self.slots)
        };
        let padded = (end - start).min(self.chunk).next_multiple_of(T::LANES);
        for &(slot, value) in &self.constants {
            // SAFETY: a register holds `chunk` elements, at least `padded`.
            unsafe { fill(slots[slot], value, padded) };
        }
        for &(slot, from) in &self.scalars {
            // SAFETY: as above; the scalar's buffer is complete.
            unsafe { fill(slots[slot], *ctx.ptr(from), padded) };
        }
        for load in &self.loads {
            if let Some(r) = &load.repeated {
                // SAFETY: there is room for this much, and a tile has at least as many elements.
                unsafe {
                    (self.gather)(rows.add(r.at), ctx.ptr(load.from), &load.dims, &load.strides, 0, self.chunk + r.row);
                }
            }
        }
        for r in &self.reduces {
            let identity = if r.how == Reduction::Sum { T::of(0.0) } else { T::of(f64::NEG_INFINITY) };
            // SAFETY: the tile owns its partial results.
            unsafe {
                match r.over {
                    Over::All => *ctx.ptr(r.to).wrapping_add(tile) = identity,
                    Over::Columns => fill(ctx.ptr(r.to).wrapping_add(tile * self.row), identity, self.row),
                    Over::Rows => {}
                }
            }
        }
        let mut first = start;
        while first < end {
            let n = self.chunk.min(end - first);
            let padded = n.next_multiple_of(T::LANES);
            let whole = n == padded;
            for load in &self.loads {
                let register = registers.wrapping_add(load.slot * self.chunk);
                let from = ctx.ptr(load.from);
                // SAFETY: registers hold `chunk` elements; the load covers `total` elements of a complete buffer.
                unsafe {
                    if let Some(r) = &load.repeated {
                        slots[load.slot] = rows.add(r.at + first % r.row);
                    } else if !load.dims.is_empty() {
                        (self.gather)(register, from, &load.dims, &load.strides, first, n);
                    } else if !load.copied && (whole || ctx.alone) {
                        // Reading up to a vector too far stays within the arena, and nothing writes there now.
                        slots[load.slot] = from.add(first);
                    } else {
                        slots[load.slot] = register;
                        std::ptr::copy_nonoverlapping(from.add(first), register, n);
                    }
                }
            }
            let at_end = first + n == self.total;
            let in_memory = |s: &Store<T>| s.direct && (whole || (at_end && s.roomy));
            for store in self.stores.iter().filter(|s| s.direct) {
                let memory = ctx.ptr(store.to).wrapping_add(first);
                let register = registers.wrapping_add(store.slot * self.chunk);
                slots[store.slot] = if in_memory(store) { memory } else { register };
            }
            for i in &self.code {
                let [a, b, c] = i.args.map(|slot| slots[slot].cast_const());
                // SAFETY: every slot is valid for `padded` elements: registers are, and memory stands in for one only
                // where n is a whole number of vectors or nothing else uses what follows. Operands equal the target
                // or are disjoint.
                unsafe { (i.run)(slots[i.to], a, b, c, padded) };
            }
            for store in self.stores.iter().filter(|s| !in_memory(s)) {
                // SAFETY: the tile owns these n elements of the buffer stored to.
                unsafe { std::ptr::copy(slots[store.slot], ctx.ptr(store.to).add(first), n) };
            }
            // SAFETY: as for this function.
            unsafe { self.reduce(ctx, tile, first, n, slots) };
            first += n;
        }
    }
}

/// Parts of the elements `first..first + n` that are whole rows or lie in one: first row, first column, offset from `first`,
/// length.
fn segments(first: usize, n: usize, row: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
    let (mut r, mut column, mut offset) = (first / row, first % row, 0);
    while offset < n {
        let left = n - offset;
        let len = if column == 0 && left >= row { left - left % row } else { (row - column).min(left) };
        f(r, column, offset, len);
        offset += len;
        r += len.div_ceil(row);
        column = 0;
    }
}
