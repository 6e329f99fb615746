//! Matrix products: blocks of the result for the threads to share, plain loops for tiny ones.

use super::arena::Arena;
use super::micro::{Level, Lists, lists};
use super::product::{self, Block, multiply};
use super::sources::Float;
use super::tape::Draft;
use super::{At, Ctx, Job, Layout};
use crate::plan::{MAX_TERMS, MatMul, Place};

/// Up to this many multiplications blocks cost more than they gain; our own kernel needs less to begin with than a library.
fn tiny(level: Level) -> usize {
    if level == Level::Avx512 { 256 } else { 2048 }
}

/// Up to this many each is an operation of a list.
const FEW: usize = 16;

pub(super) fn job<T: Float>(m: &MatMul, layout: &Layout<'_>) -> Box<dyn Job> {
    let terms = m.terms.iter().map(|t| Factors {
        k: t.k,
        items: t.items.clone(),
        a: layout.at::<T>(Place { buf: t.a, first: 0 }),
        a_strides: t.a_strides,
        b: layout.at(Place { buf: t.b, first: 0 }),
        b_strides: t.b_strides,
    });
    let terms: Vec<Factors<T>> = terms.collect();
    let items = terms.first().map_or(0, |t| t.items.len());
    let depth = terms.iter().map(|t| t.k).sum();
    let product = Product { m: m.m, n: m.n, items, depth, terms, to: layout.at(m.to), accumulate: m.accumulate };
    let work = m.m * m.n * depth;
    if work * items <= tiny(layout.level) {
        return Box::new(Tiny(product, lists::<T>(layout.level)));
    }
    let transposed = product.terms.iter().any(|t| t.b_strides.1 != 1);
    let (rows, columns) = if work < 100_000 { (m.m, m.n) } else { blocks::<T>(m.m, m.n, depth, transposed) };
    Box::new(Blocked { product, rows, columns, level: layout.level })
}

/// The operands of one product.
struct Factors<T> {
    k: usize,
    items: Vec<(usize, usize)>,
    a: At<T>,
    a_strides: (isize, isize),
    b: At<T>,
    b_strides: (isize, isize),
}

/// A sum of products.
struct Product<T> {
    m: usize,
    n: usize,
    items: usize,
    /// The inner extents of all terms together.
    depth: usize,
    terms: Vec<Factors<T>>,
    to: At<T>,
    accumulate: bool,
}

impl<T> Product<T> {
    fn nanoseconds(&self) -> f64 {
        (self.m * self.n * self.depth * self.items) as f64 * 2.0 * size_of::<T>() as f64 / 4.0 / 100.0
    }
}

/// Block sizes that fill the kernel's registers and share well among 2, 4 or 8 threads. They depend on the shape alone.
fn blocks<T: Float>(m: usize, n: usize, k: usize, transposed: bool) -> (usize, usize) {
    let vector = T::LANES;
    let flop_ns = 2.0 * size_of::<T>() as f64 / 4.0 / 112.0;
    // Nanoseconds to fetch an element of b, or to transpose it.
    let fetch_ns = if transposed { 0.12 } else { 0.03 };
    let mut best = (f64::INFINITY, (m, n));
    for row_parts in 1..=m.div_ceil(24).min(16) {
        let rows = m.div_ceil(row_parts).next_multiple_of(8).min(m);
        for strips in 1..=n.div_ceil(3 * vector).min(16) {
            let columns = (strips * 3 * vector).min(n);
            let time = |r: usize, c: usize| {
                let padded = c.next_multiple_of(vector);
                (r * padded * k) as f64 * flop_ns + (padded * k) as f64 * fetch_ns + 150.0
            };
            let mut tiles = vec![];
            for r in (0..m).step_by(rows) {
                tiles.extend((0..n).step_by(columns).map(|c| time(rows.min(m - r), columns.min(n - c))));
            }
            let mut score = 0.0;
            for (threads, weight) in [(2usize, 0.7), (4, 0.2), (8, 0.1)] {
                // Whoever is free takes the next tile.
                let mut loads = [0.0f64; 8];
                for &t in &tiles {
                    let free = (0..threads).min_by(|&a, &b| loads[a].total_cmp(&loads[b])).unwrap_or(0);
                    loads[free] += t;
                }
                score += weight * threads as f64 * loads[..threads].iter().fold(0.0, |a: f64, &b| a.max(b));
            }
            if score < best.0 {
                best = (score, (rows, columns));
            }
        }
    }
    best.1
}

/// A product cut into blocks.
struct Blocked<T> {
    level: Level,
    product: Product<T>,
    rows: usize,
    columns: usize,
}

impl<T: Float> Job for Blocked<T> {
    fn tiles(&self) -> usize {
        self.product.items * self.product.m.div_ceil(self.rows) * self.product.n.div_ceil(self.columns)
    }

    fn cost(&self) -> f64 {
        self.product.nanoseconds()
    }

    fn scratch(&self) -> usize {
        T::SCRATCH * size_of::<T>()
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, scratch: &mut Arena) {
        let p = &self.product;
        let across = p.n.div_ceil(self.columns);
        let down = p.m.div_ceil(self.rows);
        let (item, row, column) = (tile / (across * down), tile / across % down, tile % across);
        let (row, column) = (row * self.rows, column * self.columns);
        // SAFETY: the strides describe matrices inside complete buffers, and the tile owns its block of the result.
        unsafe {
            let block = Block {
                m: self.rows.min(p.m - row),
                n: self.columns.min(p.n - column),
                to: ctx.ptr(p.to).add((item * p.m + row) * p.n + column),
                to_row: p.n as isize,
                accumulate: p.accumulate,
            };
            let factors = |t: &Factors<T>| product::Factors {
                k: t.k,
                a: ctx.ptr(t.a).add(t.items[item].0).offset(row as isize * t.a_strides.0).cast_const(),
                a_strides: t.a_strides,
                b: ctx.ptr(t.b).add(t.items[item].1).offset(column as isize * t.b_strides.1).cast_const(),
                b_strides: t.b_strides,
            };
            let mut all = [factors(&p.terms[0]); MAX_TERMS];
            for (f, term) in all.iter_mut().zip(&p.terms) {
                *f = factors(term);
            }
            multiply(self.level, &block, &all[..p.terms.len()], scratch.bytes().as_mut_ptr().cast());
        }
    }
}

/// A product of a few elements.
struct Tiny<T>(Product<T>, Lists);

impl<T: Float> Job for Tiny<T> {
    fn write_out(&self, draft: &mut Draft) -> bool {
        let Tiny(p, lists) = self;
        if !draft.near || p.m * p.n * p.depth * p.items > FEW {
            return false;
        }
        let place = |first: At<T>, element: isize| first.loc(element * size_of::<T>() as isize);
        for result in 0..p.items * p.m * p.n {
            let (item, i, j) = (result / (p.m * p.n), (result / p.n % p.m) as isize, (result % p.n) as isize);
            let to = place(p.to, result as isize);
            let mut sum = if p.accumulate { to } else { draft.number::<T>(0.0) };
            for t in &p.terms {
                let (a, b) = (t.items[item].0 as isize, t.items[item].1 as isize);
                for l in 0..t.k as isize {
                    let a = place(t.a, a + i * t.a_strides.0 + l * t.a_strides.1);
                    let b = place(t.b, b + l * t.b_strides.0 + j * t.b_strides.1);
                    draft.short(lists.elements, to, [a, b, sum]);
                    sum = to;
                }
            }
        }
        true
    }

    fn cost(&self) -> f64 {
        20.0 + 50.0 * self.0.nanoseconds()
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, _: usize, _: &mut Arena) {
        let p = &self.0;
        for item in 0..p.items {
            for (number, t) in p.terms.iter().enumerate() {
                let (k, accumulate) = (t.k as isize, p.accumulate || number > 0);
                let ((ars, acs), (brs, bcs)) = (t.a_strides, t.b_strides);
                // SAFETY: the strides describe matrices inside complete buffers; nobody else writes the result.
                unsafe {
                    let a = ctx.ptr(t.a).add(t.items[item].0).cast_const();
                    let b = ctx.ptr(t.b).add(t.items[item].1).cast_const();
                    let mut to = ctx.ptr(p.to).add(item * p.m * p.n);
                    for i in 0..p.m as isize {
                        for j in 0..p.n as isize {
                            let mut sum = if accumulate { *to } else { T::of(0.0) };
                            for l in 0..k {
                                sum = sum.plus((*a.offset(i * ars + l * acs)).times(*b.offset(l * brs + j * bcs)));
                            }
                            *to = sum;
                            to = to.add(1);
                        }
                    }
                }
            }
        }
    }
}
