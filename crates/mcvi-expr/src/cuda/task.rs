//! From work to tasks: the function that computes each, its arguments, and how it is cut into tiles.

use super::code::{self, SPREAD, THREADS, WARPS, type_name};
use super::conv::{self, Convolution};
use super::fuse::{Epilogue, Step, Work};
use crate::graph::{Draw, Reduction};
use crate::plan::{Kernel, MatMul, Place, Plan, Strided};
use crate::shape::DType;
use std::collections::HashMap;
use std::fmt::Write;

/// A function applied to arguments, tile by tile.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub function: u32,
    pub words: Vec<u64>,
    pub tiles: usize,
    /// Rough nanoseconds a tile takes.
    pub cost: f64,
    /// Bytes of shared memory a tile needs, `REDUCTION` at least.
    pub shared: usize,
    pub level: usize,
    /// The level it has to be complete with, and how many blocks are set aside for it until then; 0 if it is part of one level.
    pub until: usize,
    pub aside: usize,
    /// The first level before which all is complete that its function's preparation reads, if that has one.
    pub ready: Option<usize>,
    /// The pipeline it belongs to: its tiles need the same tiles of the one before it there, and otherwise only what
    /// is complete when the first of the pipeline begins.
    pub pipeline: Option<usize>,
}

impl Task {
    /// A task of some tiles and the nanoseconds each takes, all in one level.
    pub fn new(function: u32, words: Vec<u64>, (tiles, cost): (usize, f64), level: usize) -> Self {
        Task {
            function,
            words,
            tiles,
            cost,
            shared: REDUCTION,
            level,
            until: level,
            aside: 0,
            ready: None,
            pipeline: None,
        }
    }
}

/// How products of floats are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Precision {
    Tf32,
    Full,
}

/// Words a tile of a transfer moves (`MOVED` of kernels.cu).
pub(super) const MOVED: usize = 8192;

/// Bytes of shared memory that reductions within a block use: two numbers, or four floats, for every thread.
pub(super) const REDUCTION: usize = THREADS * 16;

/// A size of tiles of products, and what a tile of it costs: nanoseconds to begin with and for each inner element, as
/// measured on an H200.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    high: usize,
    wide: usize,
    start: f64,
    inner: f64,
}

const fn tile(high: usize, wide: usize, start: f64, inner: f64) -> Tile {
    Tile { high, wide, start, inner }
}
/// Large tiles read less; small ones keep more multiprocessors busy.
const TILES: [Tile; 6] = [
    tile(16, 32, 1300.0, 2.9),
    tile(32, 32, 1300.0, 5.5),
    tile(32, 64, 2000.0, 6.6),
    tile(64, 64, 2000.0, 8.5),
    tile(64, 128, 2500.0, 16.0),
    tile(128, 64, 2500.0, 16.0),
];
/// Plain arithmetic in full precision has one size.
const PLAIN: Tile = tile(32, 32, 1200.0, 40.0);
/// Blocks that tiles are chosen for: a constant, so that results do not depend on how many a GPU has.
pub(super) const BLOCKS: usize = 132;
/// Steps of a large tile under way, if there is room.
const STAGES: usize = 4;

impl Tile {
    /// The sizes for a product that fit in `room` bytes of shared memory.
    pub fn of(m: &MatMul, precision: Precision, room: usize) -> Vec<Tile> {
        let fast = m.dtype == DType::F32 && precision == Precision::Tf32;
        if fast { TILES.into_iter().filter(|t| t.fits(room)).collect() } else { vec![PLAIN] }
    }

    /// Whether operands go through shared memory.
    fn large(self) -> bool {
        self.wide > 32
    }

    /// Partial sums of a tile (`SLICES` and `LARGE_SLICES` of product.cu).
    fn slices(self) -> usize {
        WARPS / (self.high / if self.large() { 32 } else { 16 }) / (self.wide / 32)
    }

    /// Bytes of a step in shared memory.
    fn step(self) -> usize {
        let pitch = |rows: usize| (rows + 23) / 32 * 32 + 8;
        self.slices() * 16 * (pitch(self.high) + pitch(self.wide)) * 4
    }

    /// Steps under way in `room` bytes of shared memory.
    fn stages(self, room: usize) -> usize {
        (room / self.step()).min(STAGES)
    }

    fn shared(self, room: usize) -> usize {
        let steps = if self.large() { self.stages(room) * self.step() } else { 0 };
        steps.max(self.slices() * self.high * (self.wide + 4) * 4)
    }

    fn fits(self, room: usize) -> bool {
        (!self.large() || self.stages(room) >= 2) && self.shared(room) <= room
    }

    pub fn count(self, m: &MatMul) -> usize {
        m.m.div_ceil(self.high) * m.n.div_ceil(self.wide) * m.terms.first().map_or(0, |t| t.items.len())
    }

    pub fn cost(self, m: &MatMul, epilogues: &[Epilogue]) -> f64 {
        let depth: usize = m.terms.iter().map(|t| t.k).sum();
        let after: f64 = epilogues.iter().map(|e| e.map.element_cost()).sum();
        let each = (self.high * self.wide / THREADS) as f64;
        self.start + depth as f64 * self.inner * m.dtype.bytes() as f64 / 4.0 + each * (100.0 + after * 15.0)
    }
}

/// The best sizes for products that run side by side on `blocks` blocks, beside other work: tiles, and the nanoseconds of
/// each.
pub(super) fn tiles(
    products: &[(&MatMul, &[Epilogue])],
    others: &[(usize, f64)],
    blocks: usize,
    precision: Precision,
    room: usize,
) -> Vec<Tile> {
    let end = |chosen: &[Tile]| {
        let work = chosen.iter().zip(products).map(|(t, (m, e))| (t.count(m), t.cost(m, e)));
        super::schedule::makespan(work.chain(others.iter().copied()).collect(), blocks)
    };
    let mut chosen: Vec<Tile> = products.iter().map(|_| PLAIN).collect();
    for (i, (m, e)) in products.iter().enumerate() {
        let alone = |t: &Tile| super::schedule::makespan(vec![(t.count(m), t.cost(m, e))], blocks);
        chosen[i] =
            Tile::of(m, precision, room).into_iter().min_by(|a, b| alone(a).total_cmp(&alone(b))).unwrap_or(PLAIN);
    }
    // Then each in turn, given the others, as long as that helps.
    let mut best = end(&chosen);
    for _ in 0..3 {
        for (i, (m, _)) in products.iter().enumerate() {
            for t in Tile::of(m, precision, room) {
                let before = std::mem::replace(&mut chosen[i], t);
                let now = end(&chosen);
                if now < best {
                    best = now;
                } else {
                    chosen[i] = before;
                }
            }
        }
    }
    chosen
}

/// Where the buffers of a plan lie on the device.
pub(super) struct Layout<'a> {
    pub plan: &'a Plan,
    pub base: u64,
    pub offsets: &'a [usize],
    /// Bytes of shared memory there is for a tile.
    pub shared: usize,
}

impl Layout<'_> {
    pub fn address(&self, place: Place) -> u64 {
        let buffer = &self.plan.buffers[place.buf.0 as usize];
        self.base + (self.offsets[place.buf.0 as usize] + place.first * buffer.dtype.bytes()) as u64
    }
}

/// Collects functions, each text once.
#[derive(Default)]
pub(super) struct Functions {
    known: HashMap<String, u32>,
    /// Structures the functions use.
    structures: String,
    /// Texts of functions, and of what may be done for them before the level they belong to begins.
    texts: Vec<(String, Option<String>)>,
}

impl Functions {
    pub fn get(&mut self, body: String) -> u32 {
        self.prepared(body, None)
    }

    /// A function with its preparation, which is the same for all that have its text.
    pub fn prepared(&mut self, body: String, prepare: Option<String>) -> u32 {
        if let Some(&id) = self.known.get(&body) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.texts.push((body.clone(), prepare));
        self.known.insert(body, id);
        id
    }

    /// Have a structure defined before the functions.
    pub fn structure(&mut self, text: &str) {
        if !self.structures.contains(text) {
            self.structures.push_str(text);
        }
    }

    /// Words per row moved into an input or out of an output, or kept in case a step fails.
    pub fn transfer(&mut self) -> u32 {
        self.get("transfer(a, tile, iteration);\n".to_owned())
    }

    /// The whole program.
    pub fn source(&self) -> String {
        let mut out = String::new();
        for part in [
            include_str!("source/prelude.cu"),
            &code::functions(),
            include_str!("source/noise.cu"),
            include_str!("source/gamma.cu"),
            include_str!("source/product.cu"),
            include_str!("source/conv.cu"),
            include_str!("source/kernels.cu"),
        ] {
            out.push_str(part);
            out.push('\n');
        }
        out.push_str(&self.structures);
        for (id, (text, prepare)) in self.texts.iter().enumerate() {
            if let Some(text) = prepare {
                let _ = writeln!(out, "__device__ __noinline__ void p{id}(const u64* a, u32 tile) {{\n{text}}}");
            }
            let _ = writeln!(
                out,
                "__device__ __noinline__ void f{id}(const u64* a, u32 tile, const Launch& run, u32 iteration) {{\n{text}}}"
            );
        }
        out.push_str("__device__ __forceinline__ void prepare(u32 f, const u64* a, u32 tile) {\nswitch (f) {\n");
        for id in (0..self.texts.len()).filter(|&id| self.texts[id].1.is_some()) {
            let _ = writeln!(out, "case {id}: p{id}(a, tile); break;");
        }
        out.push_str(
            "}\n}\n__device__ __forceinline__ void dispatch(u32 f, bool early, const u64* a, u32 tile, const Launch& run, u32 iteration) \
             {\nswitch (f) {\n",
        );
        for (id, (_, prepare)) in self.texts.iter().enumerate() {
            let first = if prepare.is_some() { format!("if (!early) p{id}(a, tile); ") } else { String::new() };
            let _ = writeln!(out, "case {id}: {first}f{id}(a, tile, run, iteration); break;");
        }
        out.push_str("}\n}\n");
        out.push_str(include_str!("source/run.cu"));
        out
    }
}

/// The task of a step that is no product; functions it needs are added to `functions`. External functions have none.
pub(super) fn task(step: &Step, layout: &Layout<'_>, precision: Precision, functions: &mut Functions) -> Option<Task> {
    let at = |p: Place| layout.address(p);
    let mut lower = |body: String, words: Vec<u64>, tiles: usize, cost: f64| {
        Some(Task::new(functions.get(body), words, (tiles, cost), step.level))
    };
    let n = |x: usize| x as u64;
    let kernel = match &step.work {
        Work::Plan(kernel) => kernel,
        Work::Zero { dtype, to, len } => {
            let bytes = len * dtype.bytes();
            return lower("zero(a, tile);\n".to_owned(), vec![at(*to), n(bytes)], bytes.div_ceil(4096), 300.0);
        }
        Work::Product { .. } => return None,
        Work::Conv { .. } => {
            let of = Convolution::of(&step.work)?;
            return Some(conv::task(&of, step.level, layout, precision, functions));
        }
    };
    match kernel {
        Kernel::Map(m) => {
            let code = code::map(m);
            let words = code.places.iter().map(|p| at(*p)).collect();
            let each = 10.0 + 3.0 * m.element_cost() * m.dtype.bytes() as f64;
            let cost = 400.0 + code.waits as f64 * 900.0 + code.turns as f64 * each;
            lower(code.body, words, code.tiles, cost)
        }
        Kernel::Combine { how, dtype, parts, len, from, to } => {
            let how = if *how == Reduction::Sum { "Sum" } else { "Max" };
            let wide = len.div_ceil(SPREAD).next_power_of_two().clamp(32, THREADS);
            let body = format!("combine<{how}, {}, {wide}>(a, tile);\n", type_name(*dtype));
            let cost = 400.0 + 50.0 * parts.div_ceil(THREADS / wide) as f64;
            lower(body, vec![at(*to), at(*from), n(*parts), n(*len)], len.div_ceil(wide), cost)
        }
        Kernel::Copy { from_type, to_type, from, to, .. } => {
            let body = format!("copy<{}, {}>(a, tile);\n", type_name(*from_type), type_name(*to_type));
            let total: usize = from.dims.iter().product();
            let mut words = vec![at(to.place), at(from.place), n(total)];
            for s in [from, to] {
                axes(s, &mut words);
            }
            lower(body, words, total.div_ceil(1024), 600.0)
        }
        Kernel::CumSum { dtype, outer, len, inner, reverse, from, to } => {
            let body = format!("cumsum<{}>(a, tile);\n", type_name(*dtype));
            let words = vec![at(*to), at(*from), n(*outer), n(*len), n(*inner), u64::from(*reverse)];
            lower(body, words, (outer * inner).div_ceil(THREADS), 300.0 + *len as f64 * 300.0)
        }
        Kernel::Cholesky { dtype, batch, n: size, from, to } => {
            let body = format!("cholesky<{}>(a, tile);\n", type_name(*dtype));
            lower(body, vec![at(*to), at(*from), n(*size)], *batch, 300.0 + (size * size) as f64 * 100.0)
        }
        Kernel::TriSolve { dtype, batch, n: size, cols, upper, transpose, a, b, to } => {
            let body = format!("trisolve<{}>(a, tile);\n", type_name(*dtype));
            let groups = cols.div_ceil(WARPS);
            // A transposed lower triangle is an upper one.
            let (transposed, backwards) = (u64::from(*transpose), u64::from(upper != transpose));
            let words = vec![at(*to), at(*a), at(*b), n(*size), n(*cols), transposed, backwards, n(groups)];
            lower(body, words, batch * groups, 300.0 + *size as f64 * 800.0)
        }
        Kernel::Resize { dtype, planes, small, large, up, from, to } => {
            let body = format!("resize<{}, {up}>(a, tile);\n", type_name(*dtype));
            let mut words = vec![at(*to), at(*from), n(*planes)];
            words.extend(small.iter().chain(large).map(|&d| n(d)));
            let written = planes * if *up { large[0] * large[1] } else { small[0] * small[1] };
            lower(body, words, written.div_ceil(THREADS), 500.0)
        }
        Kernel::Index { take, dtype, outer, len, picks, inner, from, index, to } => {
            let body = format!("indexing<{}, {take}>(a, tile, run, iteration);\n", type_name(*dtype));
            let words = vec![at(*to), at(*from), at(*index), n(*outer), n(*len), n(*picks), n(*inner)];
            let written = outer * inner * if *take { *picks } else { *len };
            lower(body, words, written.div_ceil(THREADS), 500.0 + if *take { 0.0 } else { *picks as f64 * 20.0 })
        }
        Kernel::Noise { dtype, draw, stream, iteration, len, to } => {
            let (t, normal) = (type_name(*dtype), *draw == Draw::Normal);
            let body = format!("noise<{t}, {normal}>(a, tile, run.seed, run.first_step + iteration);\n");
            let per = 16 / dtype.bytes();
            let words = vec![at(*to), n(*len), u64::from(*stream), iteration.map_or(0, at)];
            lower(body, words, len.div_ceil(per).div_ceil(THREADS), 700.0)
        }
        Kernel::External { .. } | Kernel::SumParts { .. } => None,
        Kernel::Loop(_) => unreachable!("loops are unrolled"),
        Kernel::MatMul(_) | Kernel::Conv(_) => unreachable!("products have a form of their own"),
    }
}

fn axes(s: &Strided, words: &mut Vec<u64>) {
    words.push(s.dims.len() as u64);
    words.extend(s.dims.iter().map(|&d| d as u64));
    words.extend(s.strides.iter().map(|&d| d as u64));
}

/// How an operand may be fetched: `ALONG`, `ACROSS` or `ANY` of product.cu. `rows` and `depth` are its extents, the strides
/// those of the two.
fn fetch_mode(starts: &[usize], rows: usize, depth: usize, across: isize, along: isize) -> &'static str {
    // The arithmetic there is of 32 bits.
    let whole = |x: isize| x % 4 == 0 && x.unsigned_abs() < 1 << 22;
    let span = rows.saturating_mul(across.unsigned_abs()).saturating_add(depth.saturating_mul(along.unsigned_abs()));
    let aligned = starts.iter().all(|s| s.is_multiple_of(4)) && span < 1 << 31;
    if aligned && along == 1 && depth.is_multiple_of(4) && whole(across) {
        "ALONG"
    } else if aligned && across == 1 && rows.is_multiple_of(4) && whole(along) {
        "ACROSS"
    } else {
        "ANY"
    }
}

/// The task of a product in tiles of a size.
pub(super) fn product(
    step: &Step,
    tile: Tile,
    layout: &Layout<'_>,
    precision: Precision,
    functions: &mut Functions,
) -> Option<Task> {
    let Work::Product { product: m, epilogues, keep } = &step.work else { return None };
    let t = type_name(m.dtype);
    let fast = m.dtype == DType::F32 && precision == Precision::Tf32;
    let items = m.terms.first().map_or(0, |t| t.items.len());
    let common = |modes: Vec<&'static str>| match modes.split_first() {
        Some((first, rest)) if rest.iter().all(|m| m == first) => *first,
        _ => "ANY",
    };
    let starts = |left: bool, t: &crate::plan::Term| -> Vec<usize> {
        t.items.iter().map(|i| if left { i.0 } else { i.1 }).collect()
    };
    let left =
        common(m.terms.iter().map(|t| fetch_mode(&starts(true, t), m.m, t.k, t.a_strides.0, t.a_strides.1)).collect());
    let right =
        common(m.terms.iter().map(|t| fetch_mode(&starts(false, t), m.n, t.k, t.b_strides.1, t.b_strides.0)).collect());
    let Tile { high, wide, .. } = tile;
    let cost = tile.cost(m, epilogues);
    let (down, across) = (m.m.div_ceil(high), m.n.div_ceil(wide));
    let mut words = vec![layout.address(m.to)];
    words.extend([m.m, m.n, m.terms.len(), items, across, down].map(|x| x as u64));
    for t in &m.terms {
        let (a, b) = if items == 1 { t.items[0] } else { (0, 0) };
        words.push(layout.address(Place { buf: t.a, first: a }));
        words.push(layout.address(Place { buf: t.b, first: b }));
        words.push(t.k as u64);
        words.extend([t.a_strides.0, t.a_strides.1, t.b_strides.0, t.b_strides.1].map(|s| s as u64));
        words.push(0);
    }
    let mut body = format!(
        "const int across = num(a, 5), down = num(a, 6), item = tile / (across * down), rows = num(a, 1), columns = num(a, 2);\n\
         const int m0 = tile / across % down * {high}, n0 = tile % across * {wide};\n"
    );
    let (call, slices) = if fast {
        let which = match tile.large() {
            true => format!("product_large<{high}, {wide}, {}>", tile.stages(layout.shared)),
            false => format!("product_tf32<{high}, {wide}>"),
        };
        (format!("{which}(Terms<{t}, {left}, {right}>{{a, item}}, m0, n0);\n"), tile.slices())
    } else {
        (format!("product_plain<{t}>(Terms<{t}, ANY, ANY>{{a, item}}, m0, n0);\n"), 1)
    };
    let mut tail = code::Tail::new(m.dtype, (m.m * items, m.n), m.to);
    if m.accumulate {
        tail.accumulate();
    }
    if *keep {
        tail.keep();
    }
    for e in epilogues {
        let places = tail.map(e, words.len());
        words.extend(places.iter().map(|p| layout.address(*p)));
    }
    tail.write(&mut body, &call, (high, wide), slices);
    let shared = if fast { tile.shared(layout.shared) } else { 2 * 32 * 33 * m.dtype.bytes() };
    let shared = shared.max(REDUCTION);
    let (function, tiles) = (functions.get(body), down * across * items);
    Some(Task { shared, ..Task::new(function, words, (tiles, cost), step.level) })
}

/// First elements of every item's operands, for products with several items: one table for each term.
pub(super) fn tables(step: &Step) -> Vec<Vec<u64>> {
    match &step.work {
        Work::Product { product, .. } if product.terms.first().is_some_and(|t| t.items.len() > 1) => {
            let table = |t: &crate::plan::Term| t.items.iter().flat_map(|&(a, b)| [a as u64, b as u64]).collect();
            product.terms.iter().map(table).collect()
        }
        _ => vec![],
    }
}

/// The word that holds the address of the table of a term.
pub(super) fn table_word(term: usize) -> usize {
    7 + 8 * term + 7
}
