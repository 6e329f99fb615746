//! Which elements a kernel reads and writes: what order, levels and memory follow from.

use super::fuse::{Epilogue, Work};
use crate::graph::ExternalPart;
use crate::plan::{BufId, Kernel, Map, Over, Place, Strided};
use std::collections::HashMap;
use std::ops::Range;

/// A run of elements of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Access {
    pub buf: BufId,
    pub range: Range<usize>,
    pub write: bool,
}

impl Access {
    pub fn overlaps(&self, other: &Access) -> bool {
        self.buf == other.buf && self.range.start < other.range.end && other.range.start < self.range.end
    }

    /// Whether the order of the two matters.
    pub fn conflicts(&self, other: &Access) -> bool {
        (self.write || other.write) && self.overlaps(other)
    }
}

/// The steps that others, later on, have to wait for, by the buffers they touch. Whoever waits for one that writes over what
/// earlier ones touched waits for those as well, so they are forgotten: iterations of a loop use the same buffers again and again.
#[derive(Default)]
pub(super) struct Latest(HashMap<u32, Touches>);

/// Steps that wrote to a buffer and that read it, with the elements they did so.
#[derive(Default)]
struct Touches {
    writes: Vec<(usize, Access)>,
    reads: Vec<(usize, Access)>,
}

impl Latest {
    /// A step comes after all those before.
    pub fn note(&mut self, step: usize, touches: &[Access]) {
        for t in touches {
            let Touches { writes, reads } = self.0.entry(t.buf.0).or_default();
            if !t.write {
                reads.push((step, t.clone()));
                continue;
            }
            let stays = |(other, earlier): &(usize, Access)| {
                *other == step || earlier.range.start < t.range.start || earlier.range.end > t.range.end
            };
            writes.retain(stays);
            reads.retain(stays);
            writes.push((step, t.clone()));
        }
    }

    /// Steps that must come before these accesses.
    pub fn before<'a>(&'a self, touches: &'a [Access]) -> impl Iterator<Item = usize> + 'a {
        touches.iter().flat_map(move |t| {
            let of = self.0.get(&t.buf.0);
            let reads = of.filter(|_| t.write).map_or(&[][..], |of| &of.reads);
            let all = of.map_or(&[][..], |of| &of.writes).iter().chain(reads);
            all.filter(|(_, earlier)| earlier.conflicts(t)).map(|(step, _)| *step)
        })
    }
}

pub(super) fn run(place: Place, len: usize, write: bool) -> Access {
    Access { buf: place.buf, range: place.first..place.first + len, write }
}

/// The smallest run that holds all elements of a strided array.
pub(super) fn strided(s: &Strided, write: bool) -> Access {
    spread(s.place, &s.dims, &s.strides, write)
}

fn spread(place: Place, dims: &[usize], strides: &[isize], write: bool) -> Access {
    let (mut low, mut high) = (0isize, 0isize);
    for (&d, &s) in dims.iter().zip(strides) {
        let reach = (d as isize - 1) * s;
        low += reach.min(0);
        high += reach.max(0);
    }
    let first = place.first.wrapping_add_signed(low);
    Access { buf: place.buf, range: first..first + (high - low) as usize + 1, write }
}

fn map(m: &Map, all: &mut Vec<Access>) {
    all.extend(m.loads.iter().map(|l| strided(l, false)));
    all.extend(m.stores.iter().map(|s| run(s.to, m.total, true)));
    for r in &m.reduces {
        let len = match r.over {
            Over::Rows => m.total / m.row,
            Over::Columns => m.tiles() * m.row,
            Over::All => m.tiles(),
        };
        all.push(run(r.to, len, true));
    }
}

/// Everything a piece of work touches.
pub(super) fn of(work: &Work) -> Vec<Access> {
    let mut all = vec![];
    match work {
        Work::Zero { to, len, .. } => all.push(run(*to, *len, true)),
        Work::Product { product, epilogues, keep } => {
            let items = product.terms.first().map_or(0, |t| t.items.len());
            for t in &product.terms {
                for &(a, b) in &t.items {
                    let (ar, ac) = t.a_strides;
                    let (br, bc) = t.b_strides;
                    all.push(spread(Place { buf: t.a, first: a }, &[product.m, t.k], &[ar, ac], false));
                    all.push(spread(Place { buf: t.b, first: b }, &[t.k, product.n], &[br, bc], false));
                }
            }
            let len = product.m * product.n * items;
            if product.accumulate {
                all.push(run(product.to, len, false));
            }
            if *keep {
                all.push(run(product.to, len, true));
            }
            tail(epilogues, &mut all);
        }
        Work::Conv { conv, small, epilogues, keep, accumulate } => {
            // Resized images are those of a convolution of the small extents, as far as memory goes.
            let in_memory = small.map_or_else(|| conv.clone(), |extents| conv.with_images(extents));
            plan(&Kernel::Conv(in_memory), &mut all);
            if *accumulate {
                all.extend(all.last().map(|to| Access { write: false, ..to.clone() }));
            }
            if !*keep {
                all.retain(|a| !a.write);
            }
            tail(epilogues, &mut all);
        }
        Work::Plan(kernel) => plan(kernel, &mut all),
    }
    all
}

fn tail(epilogues: &[Epilogue], all: &mut Vec<Access>) {
    for e in epilogues {
        let mut touched = vec![];
        map(&e.map, &mut touched);
        // The product itself comes from the tile, not from memory.
        touched.remove(e.load);
        all.extend(touched);
    }
}

/// Everything a kernel of the plan touches.
pub(super) fn of_kernel(kernel: &Kernel) -> Vec<Access> {
    match kernel {
        Kernel::MatMul(m) => of(&Work::Product { product: m.clone(), epilogues: vec![], keep: true }),
        _ => of(&Work::Plan(kernel.clone())),
    }
}

fn plan(kernel: &Kernel, all: &mut Vec<Access>) {
    match kernel {
        Kernel::Map(m) => map(m, all),
        Kernel::MatMul(_) => unreachable!("products have a form of their own"),
        Kernel::Combine { parts, len, from, to, .. } => {
            all.extend([run(*from, parts * len, false), run(*to, *len, true)]);
        }
        Kernel::Copy { from, to, .. } => all.extend([strided(from, false), strided(to, true)]),
        Kernel::CumSum { outer, len, inner, from, to, .. } => {
            let n = outer * len * inner;
            all.extend([run(*from, n, false), run(*to, n, true)]);
        }
        Kernel::Cholesky { batch, n, from, to, .. } => {
            all.extend([run(*from, batch * n * n, false), run(*to, batch * n * n, true)]);
        }
        Kernel::TriSolve { batch, n, cols, a, b, to, .. } => {
            let columns = batch * n * cols;
            all.extend([run(*a, batch * n * n, false), run(*b, columns, false), run(*to, columns, true)]);
        }
        Kernel::Conv(c) => {
            let [first, second] = c.operands();
            all.extend([run(c.from[0], first, false), run(c.from[1], second, false), run(c.to, c.result(), true)]);
        }
        Kernel::Resize { planes, small, large, up, from, to, .. } => {
            let (s, l) = (planes * small[0] * small[1], planes * large[0] * large[1]);
            let (read, written) = if *up { (s, l) } else { (l, s) };
            all.extend([run(*from, read, false), run(*to, written, true)]);
        }
        Kernel::Index { take, outer, len, picks, inner, from, index, to, .. } => {
            let (full, picked) = (outer * len * inner, outer * picks * inner);
            let (read, written) = if *take { (full, picked) } else { (picked, full) };
            all.extend([run(*from, read, false), run(*index, *picks, false), run(*to, written, true)]);
        }
        Kernel::Noise { iteration, len, to, .. } => {
            all.push(run(*to, *len, true));
            all.extend(iteration.map(|iteration| run(iteration, 1, false)));
        }
        Kernel::External { part, rows, d, z, v, to, .. } => {
            let width = if *part == ExternalPart::Value { 1 } else { *d };
            all.extend([run(*z, rows * d, false), run(*to, rows * width, true)]);
            all.extend(v.map(|v| run(v, rows * d, false)));
        }
        Kernel::SumParts { parts, len, from, to, .. } => {
            all.extend([run(*from, parts.mine().len() * len, false), run(*to, *len, true)]);
        }
        Kernel::Loop(_) => unreachable!("loops are unrolled"),
    }
}
