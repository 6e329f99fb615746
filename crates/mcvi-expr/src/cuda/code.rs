//! Fused maps as CUDA C.

use super::fuse::Epilogue;
use crate::graph::Reduction;
use crate::plan::{Map, Over, Place, Strided, Value};
use crate::shape::DType;
use crate::table::Function;
use std::fmt::Write;

mod functions;
mod tail;

pub(super) use functions::functions;
pub(super) use tail::Tail;

use functions::call;

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
    /// How often it waits for memory or for the others meanwhile.
    pub waits: usize,
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

/// Where an element of images lies: in planes of `plane` elements, in images of `image` elements. Its place is known as `image`,
/// `o` and `p`.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    pub plane: usize,
    pub image: usize,
}

/// The digit `i / unit % base` of an element's number, as an expression.
fn digit(i: &str, unit: usize, base: usize, planes: Option<Planes>) -> String {
    let (of, unit, whole) = match planes.filter(|_| i == "i") {
        Some(Planes { plane, .. }) if plane.is_multiple_of(unit * base) => ("p", unit, unit * base == plane),
        Some(Planes { plane, image }) if unit.is_multiple_of(plane) && image.is_multiple_of(unit * base) => {
            ("o", unit / plane, unit * base == image)
        }
        Some(Planes { image, .. }) if unit == image => ("image", 1, false),
        _ => (i, unit, false),
    };
    let quotient = if unit == 1 { of.to_owned() } else { format!("{of} / {unit}") };
    if whole { quotient } else { format!("{quotient} % {base}") }
}

/// Offset of the element of a strided array whose number is the variable `i`, as an expression.
fn offset(s: &Strided, i: &str, planes: Option<Planes>) -> String {
    if s.is_contiguous() {
        return i.to_owned();
    }
    let mut inner = 1usize;
    let mut terms = vec![];
    for (axis, (&d, &stride)) in s.dims.iter().zip(&s.strides).enumerate().rev() {
        if stride != 0 {
            let index = match axis {
                0 if inner == 1 => i.to_owned(),
                0 if i == "i" && planes.is_some_and(|p| p.image == inner) => "image".to_owned(),
                0 => format!("{i} / {inner}"),
                _ => digit(i, inner, d, planes),
            };
            terms.push(if stride == 1 { format!("({index})") } else { format!("({index}) * {stride}ll") });
        }
        inner *= d;
    }
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// How the four elements from element `i` on, a multiple of four, of an array of floats are read: by one access, as one and
/// the same, or not at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quad {
    Vector,
    Same,
    No,
}

fn quad(s: &Strided) -> Quad {
    let aligned = s.place.first.is_multiple_of(4);
    if s.is_splat() {
        return Quad::Same;
    }
    if s.is_contiguous() {
        return if aligned { Quad::Vector } else { Quad::No };
    }
    let last = s.dims.len() - 1;
    match s.strides[last] {
        _ if !s.dims[last].is_multiple_of(4) => Quad::No,
        0 => Quad::Same,
        1 if aligned && s.strides[..last].iter().all(|s| s % 4 == 0) => Quad::Vector,
        _ => Quad::No,
    }
}

/// Whether a map can be computed four elements at a time.
fn in_fours(map: &Map) -> bool {
    map.dtype == DType::F32
        && map.total.is_multiple_of(4)
        && map.loads.iter().all(|l| quad(l) != Quad::No)
        && map.stores.iter().all(|s| s.to.first.is_multiple_of(4))
}

/// Something read: its name, the expression for element `i`, and how four of them are read.
struct Read {
    name: String,
    from: String,
    quad: Quad,
}

/// The pieces of a map's text. Names start with a prefix, since several maps may follow one product.
struct Pieces {
    /// Before the loop over elements.
    before: String,
    loads: Vec<Read>,
    /// Operations on an element.
    element: String,
    /// What is stored of it: the array and the value.
    stores: Vec<(String, String)>,
    /// The name of each reduction's operand.
    reduced: Vec<String>,
    places: Vec<Place>,
}

/// The name of a value of a map whose names start with `x`.
fn value_name(dtype: DType, x: &str, v: &Value) -> String {
    match v {
        Value::Load(i) => format!("{x}l{i}"),
        Value::Op(i) => format!("{x}o{i}"),
        Value::Const(c) => constant(dtype, *c),
    }
}

/// The number of the element of a strided array that lies at offset `i`, as an expression, if it has every offset once.
pub(super) fn inverse(s: &Strided, total: usize, i: &str, planes: Option<Planes>) -> Option<String> {
    let mut axes: Vec<(usize, usize, usize)> = vec![];
    let mut inner = 1usize;
    for (&d, &stride) in s.dims.iter().zip(&s.strides).rev() {
        axes.push((usize::try_from(stride).ok()?, d, inner));
        inner *= d;
    }
    axes.sort_unstable();
    let mut next = 1;
    for &(stride, d, _) in &axes {
        if stride != next {
            return None;
        }
        next *= d;
    }
    let part = |&(stride, d, inner): &(usize, usize, usize)| format!("{} * {inner}", digit(i, stride, d, planes));
    (next == total && inner == total).then(|| axes.iter().map(part).collect::<Vec<_>>().join(" + "))
}

/// The text of a map whose arguments start at word `first`; the load `given`, if any, is the variable named there; `i` is the
/// name of the variable with the element's number.
fn pieces(
    map: &Map,
    first: usize,
    given: Option<(usize, &str)>,
    x: &str,
    (i, planes): (&str, Option<Planes>),
) -> Pieces {
    let t = type_name(map.dtype);
    let mut p = Pieces {
        before: String::new(),
        loads: vec![],
        element: String::new(),
        stores: vec![],
        reduced: vec![],
        places: vec![],
    };
    for (n, load) in map.loads.iter().enumerate() {
        if let Some((_, value)) = given.filter(|g| g.0 == n) {
            let _ = writeln!(p.element, "const {t} {x}l{n} = {value};");
            continue;
        }
        let word = first + p.places.len();
        p.places.push(load.place);
        if load.is_splat() && map.total > 1 {
            let _ = writeln!(p.before, "const {t} {x}l{n} = *at<{t}>(a, {word});");
        } else {
            let _ = writeln!(p.before, "{t}* const {x}p{n} = at<{t}>(a, {word});");
            let from = format!("{x}p{n}[{}]", offset(load, i, planes));
            p.loads.push(Read { name: format!("{x}l{n}"), from, quad: quad(load) });
        }
    }
    let name = |v: &Value| value_name(map.dtype, x, v);
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
        p.stores.push((format!("{x}s{n}"), name(&store.value)));
    }
    for (n, r) in map.reduces.iter().enumerate() {
        let word = first + p.places.len();
        p.places.push(r.to);
        let _ = writeln!(p.before, "{t}* const {x}t{n} = at<{t}>(a, {word});");
        p.reduced.push(name(&r.value));
    }
    p
}

/// The text that reads, computes and stores one element `i`, or the four from it on; several such are under way, `u` is the
/// number of each.
struct Body<'a> {
    t: &'a str,
    fours: bool,
    loads: &'a [Read],
    /// Operations on an element, and what becomes of it beside the stores; `q` is its number of the four.
    element: &'a str,
    stores: &'a [(String, String)],
}

impl Body<'_> {
    /// Registers of what is read.
    fn registers(&self) -> usize {
        let each = |r: &Read| if self.fours && r.quad == Quad::Vector { 4 } else { 1 };
        self.loads.iter().map(each).sum::<usize>().max(1) * if self.t == "double" { 2 } else { 1 }
    }

    /// How many are read before the first is computed with.
    fn at_once(&self) -> usize {
        (AHEAD / self.registers()).clamp(1, 8)
    }

    fn arrays(&self, count: usize) -> String {
        let of = |r: &Read| {
            let four = if self.fours && r.quad == Quad::Vector { "[4]" } else { "" };
            format!("{} {}_[{count}]{four} = {{}};\n", self.t, r.name)
        };
        self.loads.iter().map(of).collect()
    }

    fn reads(&self) -> String {
        let of = |r: &Read| match self.fours && r.quad == Quad::Vector {
            true => format!("load4({}_[u], &{});\n", r.name, r.from),
            false => format!("{}_[u] = {};\n", r.name, r.from),
        };
        self.loads.iter().map(of).collect()
    }

    /// Once everything is read; `start` defines what else an element is made of.
    fn compute(&self, start: &str) -> String {
        let t = self.t;
        let taken = |r: &Read| {
            let four = if self.fours && r.quad == Quad::Vector { "[q]" } else { "" };
            format!("const {t} {} = {}_[u]{four};\n", r.name, r.name)
        };
        let taken: String = self.loads.iter().map(taken).collect();
        if !self.fours {
            let stores: String = self.stores.iter().map(|(to, value)| format!("{to}[i] = {value};\n")).collect();
            return format!("{start}{taken}{}{stores}", self.element);
        }
        let arrays: String = self.stores.iter().map(|(to, _)| format!("{t} {to}_[4];\n")).collect();
        let stores: String = self.stores.iter().map(|(to, value)| format!("{to}_[q] = {value};\n")).collect();
        let ends: String = self.stores.iter().map(|(to, _)| format!("store4({to} + i, {to}_);\n")).collect();
        format!(
            "{arrays}#pragma unroll\nfor (int q = 0; q < 4; q++) {{\n{start}{taken}{}{stores}}}\n{ends}",
            self.element
        )
    }
}

/// Registers that elements read ahead may take.
const AHEAD: usize = 24;
/// The same while a product is computed, which needs most registers itself.
const HELD: usize = 16;

/// A loop that reads several elements (or fours) before it computes with the first: memory answers late, and the compiler must
/// not move a read before a write that might be to the same place. `x` runs from `start` to below `end`; `i` is made from it.
struct Ahead<'a> {
    index: &'a str,
    start: String,
    end: String,
    step: &'a str,
    /// Definition of `i`.
    element: String,
    turns: usize,
}

impl Ahead<'_> {
    fn write(&self, body: &Body<'_>) -> String {
        let Ahead { index, start, end, step, element, turns } = self;
        let count = body.at_once().min(*turns);
        let each = |inner: &str| {
            format!(
                "#pragma unroll\nfor (int u = 0; u < {count}; u++) {{\nconst {index} x = y + u * {step};\n\
                 if (x < {end}) {{\n{element}{inner}}}\n}}\n"
            )
        };
        format!(
            "#pragma unroll 1\nfor ({index} y = {start}; y < {end}; y += {count} * {step}) {{\n{}{}{}}}\n",
            body.arrays(count),
            if body.loads.is_empty() { String::new() } else { each(&body.reads()) },
            each(&body.compute(""))
        )
    }
}

/// A map as a function of its own. It has reductions of one kind at most.
pub(super) fn map(map: &Map) -> Code {
    let Pieces { before, loads, element, stores, reduced, places } = pieces(map, 0, None, "", ("i", None));
    let t = type_name(map.dtype);
    let index = if map.total > i32::MAX as usize / 2 { "i64" } else { "int" };
    let (total, row) = (map.total, map.row.max(1));
    let rows = total / row;
    let each = |f: &dyn Fn(usize, &str) -> String| -> String {
        map.reduces.iter().enumerate().map(|(n, r)| f(n, reduction(r.how))).collect()
    };
    let over = map.reduces.first().map(|r| r.over);
    // Fours take fewer instructions, but leave threads idle where there is little to do.
    let whole = match over {
        None => true,
        Some(Over::All) => map.tile.is_multiple_of(4),
        Some(_) => row.is_multiple_of(4) && row >= 128,
    };
    let fours = in_fours(map) && whole && total >= 4 * THREADS * SPREAD;
    let wide = if fours { 4 } else { 1 };
    let columns = over == Some(Over::Columns);
    // A thread has one result of a reduction, or one for each of four columns.
    let of = if columns && fours { "[q]" } else { "" };
    let declare = if columns && fours { "[4]" } else { "" };
    let starts = each(&|n, how| match columns && fours {
        true => {
            format!("{t} r{n}{declare};\n#pragma unroll\nfor (int q = 0; q < 4; q++) r{n}[q] = {how}::start<{t}>();\n")
        }
        false => format!("{t} r{n} = {how}::start<{t}>();\n"),
    });
    let joins = each(&|n, how| format!("r{n}{of} = {how}::join(r{n}{of}, {});\n", reduced[n]));
    let element = format!("{element}{joins}");
    let body = Body { t, fours, loads: &loads, element: &element, stores: &stores };
    let block_ends =
        each(&|n, how| format!("r{n} = reduce_block<{how}>(r{n});\nif (threadIdx.x == 0) t{n}[tile] = r{n};\n"));
    let ahead = |start: String, end: String, step: &str, element: String, turns| {
        Ahead { index, start, end, step, element, turns }.write(&body)
    };
    // Groups of columns a tile goes through.
    let many = (map.tiles() * row.div_ceil(32 * wide)).div_ceil(2 * SPREAD);
    let (loops, tiles, turns) = match over {
        None | Some(Over::All) => {
            // Without a reduction the cut is free; with one, each tile leaves a partial result in its place.
            let per = if over.is_none() { total.div_ceil(SPREAD).next_multiple_of(32).max(64) } else { map.tile };
            let turns = per.div_ceil(THREADS * wide);
            let from = format!("({index})tile * {per} + {wide} * threadIdx.x");
            let step = if fours { "4 * THREADS" } else { "THREADS" };
            let walk = ahead(from, "end".to_owned(), step, format!("const {index} i = x;\n"), turns);
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
        Some(Over::Rows) if row >= 256 * wide && rows <= SPREAD => {
            let turns = row.div_ceil(THREADS * wide);
            let of = format!("const {index} i = ({index})tile * {row} + {wide} * x;\n");
            let walk = ahead("threadIdx.x".to_owned(), (row / wide).to_string(), "THREADS", of, turns);
            (format!("{starts}{walk}{block_ends}"), rows, turns)
        }
        Some(Over::Rows) => {
            let per = rows.div_ceil(SPREAD).clamp(4, WARPS);
            // Warps that share a row, where there are enough elements in it.
            let share = if fours { WARPS / per.next_power_of_two() } else { 1 };
            let turns = row.div_ceil(32 * wide * share);
            let ends = each(&|n, how| {
                let joined = if share > 1 { format!("join_warps<{how}, {share}>(r{n})") } else { format!("r{n}") };
                format!(
                    "r{n} = reduce_warp<{how}>(r{n});\nr{n} = {joined};\n\
                     if (in && threadIdx.x % {} == 0) t{n}[r] = r{n};\n",
                    32 * share
                )
            });
            let of = format!("const {index} i = r * {row} + {wide} * x;\n");
            let (start, step) = (format!("threadIdx.x % {}", 32 * share), format!("{}", 32 * share));
            let walk = ahead(start, (row / wide).to_string(), &step, of, turns);
            let text = format!(
                "const {index} r = ({index})tile * {per} + threadIdx.x / {};\n\
                 const bool in = threadIdx.x < {} && r < {rows};\n{starts}if (in) {{\n{walk}}}\n{ends}",
                32 * share,
                32 * share * per
            );
            (text, rows.div_ceil(per), turns)
        }
        Some(Over::Columns) => {
            // Parts are those of the plan; columns are shared out so that there are not too many tiles.
            let (parts, per) = (map.tiles(), map.tile / row);
            let chunks = row.div_ceil(32 * wide * many);
            let turns = per.div_ceil(WARPS) * many;
            // The first threads have one column each.
            let ends = each(&|n, how| {
                format!(
                    "{{\nconst {t} all = reduce_columns<{how}>(r{n});\nconst int first = c - {wide} * (threadIdx.x % 32), d = first + threadIdx.x;\n\
                     if (threadIdx.x < 32 * {wide} && d < {row}) t{n}[({index})part * {row} + d] = all;\n}}\n"
                )
            });
            let element = format!("const {index} i = x * {row} + c;\n");
            let walk = ahead(
                format!("part * {per} + threadIdx.x / 32"),
                "last".to_owned(),
                "WARPS",
                element,
                per.div_ceil(WARPS),
            );
            let text = format!(
                "const int part = tile / {chunks}, last = min({rows}, (part + 1) * {per});\n#pragma unroll 1\n\
                 for (int w = 0; w < {many}; w++) {{\n\
                 const int c = ((tile % {chunks} * {many} + w) * 32 + threadIdx.x % 32) * {wide};\n\
                 {starts}if (c < {row}) {{\n{walk}}}\n{ends}}}\n"
            );
            (text, parts * chunks, turns)
        }
    };
    let waits = match over {
        Some(Over::Columns) => 2 * many,
        _ => turns.div_ceil(body.at_once()) + usize::from(over.is_some()),
    };
    Code { body: format!("{before}{loops}"), places, tiles, turns: turns * wide, waits }
}
