//! Matrix products: blocks of the result for the threads to share, plain loops for tiny ones.

use super::arena::Arena;
use super::micro::Level;
use super::product::{Block, multiply};
use super::sources::Float;
use super::{At, Ctx, Job, Layout};
use crate::plan::{MatMul, Place};

/// Below this many multiplications blocks cost more than they gain.
const TINY: usize = 2048;

pub(super) fn job<T: Float>(m: &MatMul, layout: &Layout<'_>) -> Box<dyn Job> {
    let product = Product {
        m: m.m,
        n: m.n,
        k: m.k,
        a: layout.at::<T>(Place { buf: m.a, first: 0 }),
        a_strides: m.a_strides,
        b: layout.at(Place { buf: m.b, first: 0 }),
        b_strides: m.b_strides,
        to: layout.at(m.to),
        accumulate: m.accumulate,
    };
    let work = m.m * m.n * m.k;
    if work * m.items.len() <= TINY {
        return Box::new(Tiny { product, items: m.items.clone() });
    }
    let (rows, columns) = if work < 100_000 { (m.m, m.n) } else { blocks::<T>(m.m, m.n, m.k, m.b_strides.1 != 1) };
    Box::new(Blocked { product, items: m.items.clone(), rows, columns, level: layout.level })
}

struct Product<T> {
    m: usize,
    n: usize,
    k: usize,
    a: At<T>,
    a_strides: (isize, isize),
    b: At<T>,
    b_strides: (isize, isize),
    to: At<T>,
    accumulate: bool,
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
    items: Vec<(usize, usize)>,
    rows: usize,
    columns: usize,
}

impl<T: Float> Job for Blocked<T> {
    fn tiles(&self) -> usize {
        self.items.len() * self.product.m.div_ceil(self.rows) * self.product.n.div_ceil(self.columns)
    }

    fn cost(&self) -> f64 {
        let p = &self.product;
        (p.m * p.n * p.k * self.items.len()) as f64 * 2.0 * size_of::<T>() as f64 / 4.0 / 100.0
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
        let (a_first, b_first) = self.items[item];
        // SAFETY: the strides describe matrices inside complete buffers, and the tile owns its block of the result.
        unsafe {
            let block = Block {
                m: self.rows.min(p.m - row),
                n: self.columns.min(p.n - column),
                k: p.k,
                a: ctx.ptr(p.a).add(a_first).offset(row as isize * p.a_strides.0),
                a_strides: p.a_strides,
                b: ctx.ptr(p.b).add(b_first).offset(column as isize * p.b_strides.1),
                b_strides: p.b_strides,
                to: ctx.ptr(p.to).add((item * p.m + row) * p.n + column),
                to_row: p.n as isize,
                accumulate: p.accumulate,
            };
            multiply(self.level, &block, scratch.bytes().as_mut_ptr().cast());
        }
    }
}

/// A product of a few elements.
struct Tiny<T> {
    product: Product<T>,
    items: Vec<(usize, usize)>,
}

impl<T: Float> Job for Tiny<T> {
    fn cost(&self) -> f64 {
        let p = &self.product;
        20.0 + (p.m * p.n * p.k * self.items.len()) as f64
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, _: usize, _: &mut Arena) {
        let p = &self.product;
        for (item, &(a_first, b_first)) in self.items.iter().enumerate() {
            for i in 0..p.m {
                for j in 0..p.n {
                    // SAFETY: the strides describe matrices inside complete buffers; nobody else writes the result.
                    unsafe {
                        let a = ctx.ptr(p.a).add(a_first).offset(i as isize * p.a_strides.0);
                        let b = ctx.ptr(p.b).add(b_first).offset(j as isize * p.b_strides.1);
                        let to = ctx.ptr(p.to).add((item * p.m + i) * p.n + j);
                        let mut sum = if p.accumulate { *to } else { T::of(0.0) };
                        for l in 0..p.k as isize {
                            sum = sum.plus((*a.offset(l * p.a_strides.1)).times(*b.offset(l * p.b_strides.0)));
                        }
                        *to = sum;
                    }
                }
            }
        }
    }
}
