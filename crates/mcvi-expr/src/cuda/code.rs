//! Fused maps as CUDA C.

use super::fuse::Epilogue;
use crate::ops::{Binary, Reduction, Unary};
use crate::plan::{Function, Map, MapOp, Over, Place, Strided, Value};
use crate::shape::DType;
use std::fmt::Write;

/// Threads of a block.
pub(super) const THREADS: usize = 512;
/// Warps of a block.
pub(super) const WARPS: usize = THREADS / 32;
/// Tiles an elementwise kernel is cut into if it is large enough: about as many as a large GPU has multiprocessors. It is a
/// constant, so that results do not depend on the GPU.
pub(super) const SPREAD: usize = 128;

/// A function's text, the places its arguments point to (in this order), and how it is cut.
pub(super) struct Code {
    pub body: String,
    pub places: Vec<Place>,
    pub tiles: usize,
    /// Elements a thread computes one after the other.
    pub turns: usize,
}

/// The name of a type in CUDA C.
pub(super) fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I32 => "int",
    }
}

fn reduction(how: Reduction) -> &'static str {
    match how {
        Reduction::Sum => "Sum",
        Reduction::Max => "Max",
    }
}

fn constant(dtype: DType, x: f64) -> String {
    match dtype {
        DType::F32 => format!("__int_as_float(0x{:08x})", (x as f32).to_bits()),
        _ => format!("__longlong_as_double(0x{:016x}ll)", x.to_bits()),
    }
}

fn call(ops: &[MapOp], op: &MapOp, args: &[String]) -> String {
    let name = match op.function {
        Function::Unary(Unary::Polygamma(n)) => return format!("f_polygamma({n}, {})", args[0]),
        Function::Binary(Binary::PolygammaDiff(k)) => {
            return format!("f_polygamma_diff({k}, {}, {})", args[0], args[1]);
        }
        Function::DiffPair(k) => return format!("f_polygamma_diff({k}, {}, {})", args[0], args[1]),
        // Computed apart from the first: that shares less, but keeps one form.
        Function::Second => {
            let Value::Op(pair) = op.args[0] else { unreachable!("a second result belongs to an operation") };
            let Function::DiffPair(k) = ops[pair].function else { unreachable!("only pairs have a second result") };
            return format!("f_polygamma_diff({}, {}, {})", k + 1, args[0], args[1]);
        }
        Function::Unary(u) => u.name(),
        Function::Binary(b) => b.name(),
        Function::Select => "select",
        Function::MulAdd => "muladd",
    };
    format!("f_{name}({})", args.join(", "))
}

/// Offset of element `i` of a strided array, as an expression.
fn offset(s: &Strided) -> String {
    if s.is_contiguous() {
        return "i".to_owned();
    }
    let mut inner = 1usize;
    let mut terms = vec![];
    for (axis, (&d, &stride)) in s.dims.iter().zip(&s.strides).enumerate().rev() {
        if stride != 0 {
            let index = if inner == 1 { "i".to_owned() } else { format!("i / {inner}") };
            let index = if axis == 0 { index } else { format!("{index} % {d}") };
            terms.push(if stride == 1 { format!("({index})") } else { format!("({index}) * {stride}ll") });
        }
        inner *= d;
    }
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// The pieces of a map's text. Names start with a prefix, since several maps may follow one product.
struct Pieces {
    /// Before the loop over elements.
    before: String,
    /// Elements read: a name and the expression for element `i`.
    loads: Vec<(String, String)>,
    /// Operations on element `i`, then its stores.
    element: String,
    /// The name of each reduction's operand.
    reduced: Vec<String>,
    places: Vec<Place>,
}

/// The text of a map whose arguments start at word `first`; the load `given`, if any, is the variable `v`.
fn pieces(map: &Map, first: usize, given: Option<usize>, x: &str) -> Pieces {
    let t = type_name(map.dtype);
    let mut p =
        Pieces { before: String::new(), loads: vec![], element: String::new(), reduced: vec![], places: vec![] };
    for (n, load) in map.loads.iter().enumerate() {
        if given == Some(n) {
            let _ = writeln!(p.element, "const {t} {x}l{n} = v;");
            continue;
        }
        let word = first + p.places.len();
        p.places.push(load.place);
        if load.is_splat() && map.total > 1 {
            let _ = writeln!(p.before, "const {t} {x}l{n} = *at<{t}>(a, {word});");
        } else {
            let _ = writeln!(p.before, "{t}* const {x}p{n} = at<{t}>(a, {word});");
            p.loads.push((format!("{x}l{n}"), format!("{x}p{n}[{}]", offset(load))));
        }
    }
    let name = |v: &Value| match v {
        Value::Load(i) => format!("{x}l{i}"),
        Value::Op(i) => format!("{x}o{i}"),
        Value::Const(c) => constant(map.dtype, *c),
    };
    for (n, op) in map.ops.iter().enumerate() {
        let of = match (op.function, op.args.first()) {
            // What a second result is made of is what its pair is made of.
            (Function::Second, Some(Value::Op(pair))) => &map.ops[*pair].args,
            _ => &op.args,
        };
        let args: Vec<String> = of.iter().map(name).collect();
        let _ = writeln!(p.element, "const {t} {x}o{n} = {};", call(&map.ops, op, &args));
    }
    for (n, store) in map.stores.iter().enumerate() {
        let word = first + p.places.len();
        p.places.push(store.to);
        let _ = writeln!(p.before, "{t}* const {x}s{n} = at<{t}>(a, {word});");
        let _ = writeln!(p.element, "{x}s{n}[i] = {};", name(&store.value));
    }
    for (n, r) in map.reduces.iter().enumerate() {
        let word = first + p.places.len();
        p.places.push(r.to);
        let _ = writeln!(p.before, "{t}* const {x}t{n} = at<{t}>(a, {word});");
        p.reduced.push(name(&r.value));
    }
    p
}

/// Registers that elements read ahead may take.
const AHEAD: usize = 24;
/// The same while a product is computed, which needs most registers itself.
const HELD: usize = 16;

/// A loop that reads several elements before it computes with the first: memory answers late, and the compiler must not
/// move a read before a write that might be to the same place. `x` runs from `start` to below `end`; `i` is made from it.
struct Ahead<'a> {
    t: &'a str,
    index: &'a str,
    start: String,
    end: String,
    step: &'a str,
    /// Definition of `i`.
    element: String,
    turns: usize,
}

impl Ahead<'_> {
    fn write(&self, loads: &[(String, String)], body: &str) -> String {
        let Ahead { t, index, start, end, step, element, turns } = self;
        let most = if *t == "double" { AHEAD / 2 } else { AHEAD };
        let count = (most / loads.len().max(1)).clamp(1, 8).min(*turns);
        if count == 1 {
            let reads: String = loads.iter().map(|(name, from)| format!("const {t} {name} = {from};\n")).collect();
            return format!(
                "#pragma unroll 1\nfor ({index} x = {start}; x < {end}; x += {step}) {{\n{element}{reads}{body}}}\n"
            );
        }
        let arrays: String = loads.iter().map(|(name, _)| format!("{t} {name}_[{count}];\n")).collect();
        let reads: String = loads.iter().map(|(name, from)| format!("{name}_[u] = {from};\n")).collect();
        let taken: String = loads.iter().map(|(name, _)| format!("const {t} {name} = {name}_[u];\n")).collect();
        format!(
            "#pragma unroll 1\nfor ({index} y = {start}; y < {end}; y += {count} * {step}) {{\n{arrays}\
             #pragma unroll\nfor (int u = 0; u < {count}; u++) {{\nconst {index} x = y + u * {step};\nif (x < {end}) {{\n{element}{reads}}}\n}}\n\
             #pragma unroll\nfor (int u = 0; u < {count}; u++) {{\nconst {index} x = y + u * {step};\nif (x < {end}) {{\n{element}{taken}{body}}}\n}}\n}}\n"
        )
    }
}

/// A map as a function of its own. It has reductions of one kind at most.
pub(super) fn map(map: &Map) -> Code {
    let Pieces { before, loads, element, reduced, places } = pieces(map, 0, None, "");
    let t = type_name(map.dtype);
    let index = if map.total > i32::MAX as usize / 2 { "i64" } else { "int" };
    let (total, row) = (map.total, map.row.max(1));
    let rows = total / row;
    let each = |f: &dyn Fn(usize, &str) -> String| -> String {
        map.reduces.iter().enumerate().map(|(n, r)| f(n, reduction(r.how))).collect()
    };
    let starts = each(&|n, how| format!("{t} r{n} = {how}::start<{t}>();\n"));
    let joins = each(&|n, how| format!("r{n} = {how}::join(r{n}, {});\n", reduced[n]));
    let body = format!("{element}{joins}");
    let block_ends =
        each(&|n, how| format!("r{n} = reduce_block<{how}>(r{n});\nif (threadIdx.x == 0) t{n}[tile] = r{n};\n"));
    let ahead = |start: String, end: String, step, element: String, turns| {
        Ahead { t, index, start, end, step, element, turns }.write(&loads, &body)
    };
    let over = map.reduces.first().map(|r| r.over);
    let (loops, tiles, turns) = match over {
        None | Some(Over::All) => {
            // Without a reduction the cut is free; with one, each tile leaves a partial result in its place.
            let per = if over.is_none() { total.div_ceil(SPREAD).next_multiple_of(32).max(64) } else { map.tile };
            let turns = per.div_ceil(THREADS);
            let from = format!("({index})tile * {per} + threadIdx.x");
            let walk = ahead(from, "end".to_owned(), "THREADS", format!("const {index} i = x;\n"), turns);
            let ends = if over.is_none() { "" } else { &block_ends };
            let text = format!(
                "const {index} end = min(({index}){total}, ({index})(tile + 1) * {per});\n{starts}{walk}{ends}"
            );
            (text, total.div_ceil(per), turns)
        }
        Some(Over::Rows) if row <= 4 => {
            let ends = each(&|n, _| format!("t{n}[r] = r{n};\n"));
            let walk = ahead("0".to_owned(), row.to_string(), "1", format!("const {index} i = r * {row} + x;\n"), row);
            let text = format!(
                "const {index} r = ({index})tile * THREADS + threadIdx.x;\nif (r < {rows}) {{\n{starts}{walk}{ends}}}\n"
            );
            (text, rows.div_ceil(THREADS), row)
        }
        Some(Over::Rows) if row >= 256 && rows <= SPREAD => {
            let turns = row.div_ceil(THREADS);
            let of = format!("const {index} i = ({index})tile * {row} + x;\n");
            let walk = ahead("threadIdx.x".to_owned(), row.to_string(), "THREADS", of, turns);
            (format!("{starts}{walk}{block_ends}"), rows, turns)
        }
        Some(Over::Rows) => {
            let turns = row.div_ceil(32);
            let per = rows.div_ceil(SPREAD).clamp(4, WARPS);
            let ends = each(&|n, how| {
                format!("r{n} = reduce_warp<{how}>(r{n});\nif (threadIdx.x % 32 == 0) t{n}[r] = r{n};\n")
            });
            let of = format!("const {index} i = r * {row} + x;\n");
            let walk = ahead("threadIdx.x % 32".to_owned(), row.to_string(), "32", of, turns);
            let text = format!(
                "const {index} r = ({index})tile * {per} + threadIdx.x / 32;\n\
                 if (threadIdx.x < 32 * {per} && r < {rows}) {{\n{starts}{walk}{ends}}}\n"
            );
            (text, rows.div_ceil(per), turns)
        }
        Some(Over::Columns) => {
            // Parts are those of the plan; columns are shared out so that there are not too many tiles.
            let (parts, per) = (map.tiles(), map.tile / row);
            let wide = (parts * row.div_ceil(32)).div_ceil(2 * SPREAD);
            let chunks = row.div_ceil(32 * wide);
            let turns = per.div_ceil(WARPS) * wide;
            let ends = each(&|n, how| {
                format!(
                    "r{n} = reduce_columns<{how}>(r{n});\n\
                     if (threadIdx.x < 32 && c < {row}) t{n}[({index})part * {row} + c] = r{n};\n"
                )
            });
            let of = format!("const {index} i = x * {row} + c;\n");
            let walk = ahead(format!("part * {per} + threadIdx.x / 32"), "last".to_owned(), "WARPS", of, turns);
            let text = format!(
                "const int part = tile / {chunks}, last = min({rows}, (part + 1) * {per});\n#pragma unroll 1\n\
                 for (int w = 0; w < {wide}; w++) {{\nconst int c = (tile % {chunks} * {wide} + w) * 32 + threadIdx.x % 32;\n\
                 {starts}if (c < {row}) {{\n{walk}}}\n{ends}}}\n"
            );
            (text, parts * chunks, turns)
        }
    };
    Code { body: format!("{before}{loops}"), places, tiles, turns }
}

/// What follows a product for each of its elements.
pub(super) struct Tail {
    t: &'static str,
    before: String,
    loads: Vec<(String, String)>,
    element: String,
    maps: usize,
}

impl Tail {
    pub fn new(t: &'static str) -> Self {
        Tail { t, before: String::new(), loads: vec![], element: String::new(), maps: 0 }
    }

    fn target(&mut self) {
        if self.before.is_empty() {
            let t = self.t;
            self.before = format!("{t}* const to = at<{t}>(a, 0);\n");
        }
    }

    /// Add the product to what is there.
    pub fn accumulate(&mut self) {
        self.target();
        self.loads.push(("old".to_owned(), "to[i]".to_owned()));
        self.element.push_str("v += old;\n");
    }

    /// Store it.
    pub fn keep(&mut self) {
        self.target();
        self.element.push_str("to[i] = v;\n");
    }

    /// Go on with a map, whose arguments start at word `first`; returns the places of those.
    pub fn map(&mut self, e: &Epilogue, first: usize) -> Vec<Place> {
        let p = pieces(&e.map, first, Some(e.load), &format!("m{}", self.maps));
        self.maps += 1;
        self.before.push_str(&p.before);
        self.loads.extend(p.loads);
        self.element.push_str(&p.element);
        p.places
    }

    /// The text around the `call` that computes a tile. What else is read does not depend on the product, so it is
    /// asked for before, unless it is too much to hold.
    pub fn write(&self, body: &mut String, call: &str, (high, wide): (usize, usize), slices: usize) {
        let t = self.t;
        let all = high * wide / THREADS;
        let room = |most: usize| most / if t == "double" { 2 } else { 1 } / self.loads.len().max(1);
        // All of them before the product, or after it as many as there is room for then.
        let held = if room(HELD) >= all {
            all
        } else {
            (1..=all).rev().find(|n| all.is_multiple_of(*n) && *n <= room(AHEAD)).unwrap_or(1)
        };
        let before = held == all && room(HELD) >= all;
        let arrays: String = self.loads.iter().map(|(name, _)| format!("{t} {name}_[{held}];\n")).collect();
        let reads: String = self.loads.iter().map(|(name, from)| format!("{name}_[u] = {from};\n")).collect();
        let taken: String = self.loads.iter().map(|(name, _)| format!("const {t} {name} = {name}_[u];\n")).collect();
        let round = |first: &str, inner: &str| {
            format!(
                "#pragma unroll\nfor (int u = 0; u < {held}; u++) {{\nconst int e = threadIdx.x + ({first} + u) * THREADS, \
                 r = m0 + e / {wide}, c = n0 + e % {wide};\nif (r < rows && c < columns) {{\n\
                 const int i = (item * rows + r) * columns + c;\n{inner}}}\n}}\n"
            )
        };
        let compute = format!("{t} v = result<{t}, {high}, {wide}, {slices}>(e);\n{taken}{}", self.element);
        body.push_str(&self.before);
        if before {
            let reading = if self.loads.is_empty() { String::new() } else { round("0", &reads) };
            let _ = write!(body, "{arrays}{reading}{call}{}", round("0", &compute));
        } else {
            let _ = write!(
                body,
                "{call}#pragma unroll 1\nfor (int w = 0; w < {all}; w += {held}) {{\n{arrays}{}{}}}\n",
                round("w", &reads),
                round("w", &compute)
            );
        }
    }
}
