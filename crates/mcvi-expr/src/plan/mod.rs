//! From expressions to a plan: which kernels run, over which buffers, in which order. Executors only follow it.
//!
//! A plan is a list of *levels*. Kernels of one level do not depend on each other and may run at the same time; a
//! level starts when the one before it has ended.

mod buffers;
mod build;
mod constants;
mod conv;
mod emit;
mod live;
pub(crate) mod memory;
mod parts;
mod peephole;
mod scan;
mod sink;
mod view;

pub(crate) use build::plan;
pub(crate) use conv::{Conv, ConvPart, IMAGES_PER_TILE};

use crate::array::Array;
use crate::graph::{Blackbox, Draw, ExternalPart, Reduction};
use crate::ranks::Parts;
use crate::shape::{DType, Shape};
use crate::table::Function;
use std::ops::Range;

/// Index of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct BufId(pub u32);

/// A run of elements somewhere in the arena.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub dtype: DType,
    pub len: usize,
    /// Bytes from the start of the arena.
    pub offset: usize,
    /// What it shows, if it has no memory of its own.
    pub window: Option<Window>,
}

/// Elements of another buffer. In the body of a loop they lie `step` elements further on in each iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub of: BufId,
    pub first: usize,
    pub step: isize,
}

/// The place of contiguous elements: a buffer and the first element within it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Place {
    pub buf: BufId,
    pub first: usize,
}

/// Elements read through strides, in the order of the axes given (collapsed as far as possible).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Strided {
    pub place: Place,
    pub dims: Vec<usize>,
    pub strides: Vec<isize>,
}

impl Strided {
    pub fn is_contiguous(&self) -> bool {
        self.dims.is_empty() || (self.dims.len() == 1 && self.strides[0] == 1)
    }
    /// Whether all elements are one and the same.
    pub fn is_splat(&self) -> bool {
        self.dims.is_empty() || self.strides.iter().all(|&s| s == 0)
    }
}

/// A named array of a program.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub name: String,
    pub shape: Shape,
    pub dtype: DType,
    pub place: Place,
    /// States start with a value; inputs have none.
    pub initial: Option<Array>,
}

/// The whole program.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub kernels: Vec<Kernel>,
    /// Ranges of `kernels`.
    pub levels: Vec<Range<usize>>,
    pub buffers: Vec<Buffer>,
    pub arena_bytes: usize,
    pub slots: Vec<Slot>,
    pub outputs: Vec<Slot>,
    pub literals: Vec<(Place, Array)>,
}

impl Plan {
    /// Kernels and levels, those of a body counted once.
    pub fn count(&self) -> (usize, usize) {
        fn count(kernels: &[Kernel], levels: usize) -> (usize, usize) {
            kernels.iter().fold((kernels.len(), levels), |(k, l), kernel| match kernel {
                Kernel::Loop(of) => {
                    let (inner, levels) = count(&of.kernels, of.levels.len());
                    (k + inner, l + levels)
                }
                _ => (k, l),
            })
        }
        count(&self.kernels, self.levels.len())
    }
}

/// One unit of work.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    Map(Map),
    /// Reduce `parts` rows of `len` partial results to one.
    Combine {
        how: Reduction,
        dtype: DType,
        parts: usize,
        len: usize,
        from: Place,
        to: Place,
    },
    MatMul(MatMul),
    /// Rearrange elements, possibly converting them.
    Copy {
        from_type: DType,
        to_type: DType,
        from: Strided,
        to: Strided,
        zero_first: Option<(Place, usize)>,
    },
    CumSum {
        dtype: DType,
        outer: usize,
        len: usize,
        inner: usize,
        reverse: bool,
        from: Place,
        to: Place,
    },
    Cholesky {
        dtype: DType,
        batch: usize,
        n: usize,
        from: Place,
        to: Place,
    },
    TriSolve {
        dtype: DType,
        batch: usize,
        n: usize,
        cols: usize,
        upper: bool,
        transpose: bool,
        a: Place,
        b: Place,
        to: Place,
    },
    Conv(Conv),
    Resize {
        dtype: DType,
        planes: usize,
        small: [usize; 2],
        large: [usize; 2],
        up: bool,
        from: Place,
        to: Place,
    },
    /// Elements of an axis by index, or (unless `take`) values added where indices say.
    Index {
        take: bool,
        dtype: DType,
        outer: usize,
        len: usize,
        picks: usize,
        inner: usize,
        from: Place,
        index: Place,
        to: Place,
    },
    Noise {
        dtype: DType,
        draw: Draw,
        stream: u32,
        /// Where the number of the iteration stands, in a loop.
        iteration: Option<Place>,
        len: usize,
        to: Place,
    },
    External {
        part: ExternalPart,
        function: Blackbox,
        rows: usize,
        d: usize,
        z: Place,
        v: Option<Place>,
        to: Place,
    },
    SumParts {
        dtype: DType,
        parts: Parts,
        tag: u32,
        /// Elements of a part.
        len: usize,
        from: Place,
        to: Place,
    },
    Loop(Box<Loop>),
}

/// Kernels that run many times. In iteration t, windows show the row t of what they are windows of.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub length: usize,
    /// From the last row to the first.
    pub reverse: bool,
    /// What runs once, before the first iteration: copies that do not depend on each other.
    pub before: Vec<Kernel>,
    pub kernels: Vec<Kernel>,
    /// Ranges of `kernels`.
    pub levels: Vec<Range<usize>>,
}

impl Loop {
    /// The rows, in the order of the iterations.
    pub fn rows(&self) -> impl Iterator<Item = usize> + use<> {
        let (length, reverse) = (self.length, self.reverse);
        (0..length).map(move |i| if reverse { length - 1 - i } else { i })
    }
}

/// A fused run of elementwise operations over one index space, with the reductions that follow it.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub dtype: DType,
    /// Number of elements of the index space.
    pub total: usize,
    /// Length of a row, for row and column reductions; `total` is a multiple of it.
    pub row: usize,
    /// Elements a tile covers (a multiple of `row`): the unit of parallel work, fixed by the plan alone.
    pub tile: usize,
    pub loads: Vec<Strided>,
    pub ops: Vec<MapOp>,
    pub stores: Vec<Store>,
    pub reduces: Vec<Reduce>,
}

impl Map {
    pub fn tiles(&self) -> usize {
        self.total.div_ceil(self.tile)
    }

    /// Roughly the nanoseconds an element takes on one core, if it is an f64.
    pub fn element_cost(&self) -> f64 {
        0.2 + self.ops.iter().map(|op| op.function.cost()).sum::<f64>()
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Load(usize),
    Const(f64),
    Op(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct MapOp {
    pub function: Function,
    /// As many as the function takes.
    pub args: Vec<Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub value: Value,
    pub to: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// Each row becomes one element.
    Rows,
    /// Each column becomes one element.
    Columns,
    All,
}

#[derive(Clone, Debug)]
pub(crate) struct Reduce {
    pub how: Reduction,
    pub over: Over,
    pub value: Value,
    /// Where results go; for columns and all, each tile's partial result follows the one before.
    pub to: Place,
}

/// A sum of products of matrices, for each item of a batch; the result is row-major.
#[derive(Clone, Debug)]
pub(crate) struct MatMul {
    pub dtype: DType,
    pub m: usize,
    pub n: usize,
    pub terms: Vec<Term>,
    pub to: Place,
    /// Add to what is in `to` already.
    pub accumulate: bool,
}

/// One product of a sum.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub k: usize,
    /// First elements of a and b for each item of the batch.
    pub items: Vec<(usize, usize)>,
    pub a: BufId,
    /// Row and column strides.
    pub a_strides: (isize, isize),
    pub b: BufId,
    pub b_strides: (isize, isize),
}

/// Products summed at a time.
pub(crate) const MAX_TERMS: usize = 4;

/// Elements above which column and full reductions are split over tiles and combined afterwards.
pub(crate) const REDUCE_TILE: usize = 4096;

impl Kernel {
    /// The buffers it writes to.
    pub fn writes(&self) -> Vec<BufId> {
        match self {
            Kernel::Map(m) => m.stores.iter().map(|s| s.to.buf).chain(m.reduces.iter().map(|r| r.to.buf)).collect(),
            Kernel::MatMul(m) => vec![m.to.buf],
            Kernel::Conv(c) => vec![c.to.buf],
            Kernel::Copy { to, zero_first, .. } => {
                std::iter::once(to.place.buf).chain(zero_first.map(|z| z.0.buf)).collect()
            }
            Kernel::Combine { to, .. }
            | Kernel::CumSum { to, .. }
            | Kernel::Cholesky { to, .. }
            | Kernel::TriSolve { to, .. }
            | Kernel::Resize { to, .. }
            | Kernel::Index { to, .. }
            | Kernel::Noise { to, .. }
            | Kernel::SumParts { to, .. }
            | Kernel::External { to, .. } => vec![to.buf],
            Kernel::Loop(l) => l.before.iter().chain(&l.kernels).flat_map(Kernel::writes).collect(),
        }
    }

    /// Whether it adds up what several ranks have.
    pub fn sums_parts(&self) -> bool {
        match self {
            Kernel::SumParts { .. } => true,
            Kernel::Loop(l) => l.kernels.iter().any(Kernel::sums_parts),
            _ => false,
        }
    }

    /// Whether it can fail as it runs.
    pub fn is_fallible(&self) -> bool {
        match self {
            Kernel::Index { .. } | Kernel::External { .. } | Kernel::SumParts { .. } => true,
            Kernel::Loop(l) => l.kernels.iter().any(Kernel::is_fallible),
            _ => false,
        }
    }
}

impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kernel::Map(m) => {
                let names: Vec<&str> = m.ops.iter().map(|op| op.function.name()).collect();
                write!(f, "map {} of {}", m.dtype, m.total)?;
                if m.row > 1 {
                    write!(f, " in rows of {}", m.row)?;
                }
                write!(f, ", {} loads, {} stores, {} reductions:", m.loads.len(), m.stores.len(), m.reduces.len())?;
                write!(f, " {}", names.join(" "))
            }
            Kernel::Combine { parts, len, .. } => write!(f, "combine {parts} of {len}"),
            Kernel::MatMul(m) => {
                let plus = if m.accumulate { " accumulated" } else { "" };
                let k: Vec<String> = m.terms.iter().map(|t| t.k.to_string()).collect();
                let batch = m.terms.first().map_or(0, |t| t.items.len());
                write!(f, "matmul {} {}x{}x{} of {batch}{plus}", m.dtype, m.m, k.join("+"), m.n)
            }
            Kernel::Copy { from, .. } => write!(f, "copy {}", from.dims.iter().product::<usize>()),
            Kernel::CumSum { len, .. } => write!(f, "cumsum of {len}"),
            Kernel::Cholesky { batch, n, .. } => write!(f, "cholesky {n}x{n} of {batch}"),
            Kernel::TriSolve { batch, n, cols, .. } => write!(f, "triangular solve {n}x{n}x{cols} of {batch}"),
            Kernel::Conv(c) => write!(f, "convolution {:?} {:?} * {:?}", c.part, c.x, c.f),
            Kernel::Resize { planes, small, large, up, .. } => {
                write!(f, "{} {small:?} {large:?} of {planes}", if *up { "upsample" } else { "downsample" })
            }
            Kernel::Index { take, picks, inner, .. } => {
                write!(f, "{} {picks} of {inner}", if *take { "take" } else { "scatter-add" })
            }
            Kernel::Noise { draw, len, .. } => write!(f, "{draw:?} noise {len}"),
            Kernel::External { part, function, rows, .. } => write!(f, "external {function:?} {part:?} of {rows}"),
            Kernel::SumParts { parts, len, .. } => write!(f, "sum over {parts:?} of {len}"),
            Kernel::Loop(l) => {
                let kernels: Vec<String> = l.kernels.iter().map(ToString::to_string).collect();
                write!(f, "loop of {}: {}", l.length, kernels.join("; "))
            }
        }
    }
}
