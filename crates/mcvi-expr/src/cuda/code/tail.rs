//! Epilogues as CUDA C: what follows a product or a convolution for each of its elements.

use super::*;

/// What follows a product for each of its elements.
pub(in crate::cuda) struct Tail {
    t: &'static str,
    planes: Option<Planes>,
    before: String,
    /// Numbers of an element in maps that take them in another order.
    numbers: String,
    loads: Vec<Read>,
    element: String,
    stores: Vec<(String, String)>,
    /// For each map, the variable that holds its number of an element.
    maps: Vec<String>,
    fours: bool,
    /// The type of the number of an element.
    index: &'static str,
    /// Words of arrays of which each element is read once.
    read: Vec<usize>,
}

impl Tail {
    /// After a product of this many rows (of all items) and columns, which goes to `to`.
    pub fn new(dtype: DType, (rows, columns): (usize, usize), to: Place) -> Self {
        let fours = dtype == DType::F32 && columns.is_multiple_of(4) && to.first.is_multiple_of(4);
        let index = if rows.saturating_mul(columns) > i32::MAX as usize { "i64" } else { "int" };
        Tail { fours, index, ..Self::bare(dtype, None) }
    }

    /// After a convolution, whose elements lie in planes.
    pub fn images(dtype: DType, planes: Planes) -> Self {
        Self::bare(dtype, Some(planes))
    }

    fn bare(dtype: DType, planes: Option<Planes>) -> Self {
        Tail {
            t: type_name(dtype),
            planes,
            before: String::new(),
            numbers: String::new(),
            loads: vec![],
            element: String::new(),
            stores: vec![],
            maps: vec![],
            fours: false,
            index: "int",
            read: vec![],
        }
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
        self.loads.push(Read { name: "old".to_owned(), from: "to[i]".to_owned(), quad: Quad::Vector });
        self.element.push_str("v += old;\n");
    }

    /// Store it.
    pub fn keep(&mut self) {
        self.target();
        self.stores.push(("to".to_owned(), "v".to_owned()));
    }

    /// Go on with a map, whose arguments start at word `first`; returns the places of those.
    pub fn map(&mut self, e: &Epilogue, first: usize) -> Vec<Place> {
        let x = format!("m{}", self.maps.len());
        // What is given, and the variable that holds its number.
        let (value, mut i) = match &e.of {
            None => ("v".to_owned(), "i".to_owned()),
            Some((n, value)) => (value_name(e.map.dtype, &format!("m{n}"), value), self.maps[*n].clone()),
        };
        let given = &e.map.loads[e.load];
        if !given.is_contiguous() {
            let number =
                inverse(given, e.map.total, &i, self.planes).unwrap_or_else(|| unreachable!("joined in some order"));
            i = format!("{x}i");
            let _ = writeln!(self.numbers, "const u32 {i} = {number};");
        }
        let mut p = pieces(&e.map, first, Some((e.load, &value)), &x, (&i, self.planes));
        let others = e.map.loads.iter().enumerate().filter(|l| l.0 != e.load).zip(first..);
        let whole = |l: &Strided| !l.is_splat() && l.strides.iter().all(|s| *s != 0);
        self.read.extend(others.filter(|((_, l), _)| whole(l)).map(|(_, word)| word));
        if i != "i" {
            p.element.extend(p.stores.drain(..).map(|(to, value)| format!("{to}[{i}] = {value};\n")));
        }
        self.maps.push(i);
        self.fours &= in_fours(&e.map);
        self.before.push_str(&p.before);
        self.loads.extend(p.loads);
        self.element.push_str(&p.element);
        self.stores.extend(p.stores);
        p.places
    }

    /// The text around the `call` that computes a tile. What else is read does not depend on the product, so it is
    /// asked for before, unless it is too much to hold.
    pub fn write(&self, body: &mut String, call: &str, (high, wide): (usize, usize), slices: usize) {
        let (t, index) = (self.t, self.index);
        let fours = self.fours && high * wide >= 4 * THREADS;
        let each = if fours { 4 } else { 1 };
        let all = high * wide / THREADS / each;
        let part = Body { t, fours, loads: &self.loads, element: &self.element, stores: &self.stores };
        let room = |most: usize| most / part.registers();
        // All of them before the product, or after it as many as there is room for then.
        let before = room(HELD) >= all;
        let held = if before {
            all
        } else {
            (1..=all).rev().find(|n| all.is_multiple_of(*n) && *n <= room(AHEAD)).unwrap_or(1)
        };
        let round = |first: &str, inner: &str| {
            format!(
                "#pragma unroll\nfor (int u = 0; u < {held}; u++) {{\n\
                 const int e = (threadIdx.x + ({first} + u) * THREADS) * {each}, r = m0 + e / {wide}, c = n0 + e % {wide};\n\
                 if (r < rows && c < columns) {{\nconst {index} i = (({index})item * rows + r) * columns + c;\n{inner}}}\n}}\n"
            )
        };
        let result = format!("result<{t}, {high}, {wide}, {slices}>");
        let compute = match fours {
            true => format!("{t} v_[4];\n{result}(e, v_);\n{}", part.compute(&format!("{t} v = v_[q];\n"))),
            false => part.compute(&format!("{t} v = {result}(e);\n")),
        };
        let reading = |first: &str| if self.loads.is_empty() { String::new() } else { round(first, &part.reads()) };
        let arrays = part.arrays(held);
        body.push_str(&self.before);
        // What is read later may be far away: it comes nearer while the product is computed.
        let lines: String = self
            .loads
            .iter()
            .filter(|r| r.from.ends_with("[i]"))
            .map(|r| format!("prefetch(&{});\n", r.from))
            .collect();
        let prefetch = if before || lines.is_empty() {
            String::new()
        } else {
            let line = 32 / each;
            format!(
                "#pragma unroll 1\nfor (int u = 0; u < {all}; u++) {{\n\
                 const int e = (threadIdx.x + u * THREADS) * {each}, r = m0 + e / {wide}, c = n0 + e % {wide};\n\
                 if (threadIdx.x % {line} == 0 && r < rows && c < columns) {{\n\
                 const {index} i = (({index})item * rows + r) * columns + c;\n{lines}}}\n}}\n"
            )
        };
        if before {
            let _ = write!(body, "{arrays}{}{call}{}", reading("0"), round("0", &compute));
        } else {
            let _ = write!(
                body,
                "{prefetch}{call}#pragma unroll 1\nfor (int w = 0; w < {all}; w += {held}) {{\n{arrays}{}{}}}\n",
                reading("w"),
                round("w", &compute)
            );
        }
    }

    /// The text that brings nearer what a tile of `images` of `total` images reads, as far as it lies like its elements.
    pub fn near(&self, images: usize, total: usize) -> String {
        let image = self.planes.map_or(0, |p| p.image);
        let (count, all, t) = (images * image, total * image, self.t);
        let line = |word: &usize| {
            format!("prefetch(at<{t}>(a, {word}) + tile * {count}, min({count}, {all} - (int)tile * {count}));\n")
        };
        self.read.iter().map(line).collect()
    }

    /// The text for a tile of `images` of `total` images, after the `call` that computes it: `value` is the element.
    pub fn run(&self, body: &mut String, call: &str, images: usize, total: usize, value: &str) {
        let (t, Some(Planes { plane, image })) = (self.t, self.planes) else {
            unreachable!("convolutions have planes")
        };
        let (channels, rows) = (image / plane, images * image / plane);
        // A thread keeps its pixel and goes from plane to plane, if all pixels have a thread.
        let side = THREADS / plane;
        let (turns, pixel) = if side > 0 {
            let own = format!("p = threadIdx.x % {plane}, row = threadIdx.x / {plane} + turn * {side}");
            (rows.div_ceil(side), own)
        } else {
            let any = format!("e = threadIdx.x + turn * THREADS, p = e % {plane}, row = e / {plane}");
            ((rows * plane).div_ceil(THREADS), any)
        };
        let within = if side > 0 { format!("threadIdx.x < {} && ", side * plane) } else { String::new() };
        let place = if images == 1 {
            "image = tile, o = row".to_owned()
        } else {
            format!("image = tile * {images} + row / {channels}, o = row % {channels}")
        };
        let part = Body { t, fours: false, loads: &self.loads, element: &self.element, stores: &self.stores };
        // Without a call each element is a long computation itself.
        let held = if call.is_empty() { 1 } else { turns.min(part.at_once()) };
        let round = |inner: String| {
            format!(
                "#pragma unroll\nfor (u32 u = 0; u < {held}; u++) {{\nconst u32 turn = first + u, {pixel}, {place};\n\
                 if ({within}row < {rows} && image < {total}) {{\nconst u32 i = image * {image} + o * {plane} + p;\n{}{inner}}}\n}}\n",
                self.numbers
            )
        };
        let reading = if self.loads.is_empty() { String::new() } else { round(part.reads()) };
        // The tile is complete behind a barrier; what else is read is asked for before.
        let barrier = if call.is_empty() { "" } else { "if (first == 0) __syncthreads();\n" };
        let _ = write!(
            body,
            "{}{call}#pragma unroll 1\nfor (u32 first = 0; first < {turns}; first += {held}) {{\n{}{reading}{barrier}{}}}\n",
            self.before,
            part.arrays(held),
            round(part.compute(&format!("{t} v = {value};\n")))
        );
    }
}
