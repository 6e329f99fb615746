//! The operation set: what a node computes, and the parameters an operation has beside its operands.

use super::{Blackbox, ExternalPart, Part, Scan};
use crate::array::Array;
use crate::ranks::Parts;
use crate::table::{Binary, Unary};
use std::sync::Arc;

/// What a node computes from its operands. Output shape and element type stand in the node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Op {
    /// Slot of a named input.
    Input(u32),
    /// Slot of a named state.
    State(u32),
    /// The bits of an `f64`; exactly representable in the node's type.
    Const(u64),
    Literal(Array),
    /// An array of which its operand, a literal, has the rows from this one on; the others are not here.
    Held(usize),
    Unary(Unary),
    Binary(Binary),
    /// `select(condition, then, otherwise)`
    Select,
    Cast,
    StopGradient,
    Opaque,
    Broadcast,
    Reshape,
    Permute(Vec<usize>),
    /// A strided part of each axis.
    Slice(Vec<Span>),
    /// Adjoint of `Slice`: zeros but for the part given.
    Embed(Vec<Span>),
    Concat(usize),
    /// Over leading or trailing axes only (axes of length 1 aside); the constructor sees to it.
    Reduce(Reduction, Vec<usize>),
    CumSum {
        axis: usize,
        reverse: bool,
    },
    MatMul {
        ta: bool,
        tb: bool,
    },
    Cholesky,
    /// Solve `op(A) X = B` with triangular `A`; only that triangle is read.
    TriSolve {
        upper: bool,
        transpose: bool,
    },
    /// `y = conv(x, w)`
    Conv(Window),
    /// Adjoint of `Conv` in x: arguments `(y, w)`.
    ConvInput(Window),
    /// Adjoint of `Conv` in w: arguments `(x, y)`.
    ConvWeight(Window),
    /// Nearest-neighbour resize of the last two axes to the node's shape.
    Upsample,
    /// Adjoint of `Upsample`.
    Downsample,
    /// `take(x, index)` along an axis.
    Take(usize),
    /// Adjoint of `Take`: arguments `(index, values)`.
    ScatterAdd(usize),
    /// From this stream; in a loop, the operand is the number of the iteration.
    Noise(Draw, u32),
    External(ExternalPart, Blackbox),
    /// The sum over the parts of all ranks: `[held, …]` to `[…]`. The number tells sums apart.
    SumParts(Parts, u32),
    /// A value for every part held here: `[…]` to `[held, …]`.
    ToParts(Parts),
    /// A loop. The node has no value of its own, only its parts have.
    Scan(Arc<Scan>),
    Part(Part),
    /// What stands for something within a loop; the number tells it from others.
    Placeholder(u32),
    Poison(u32),
}

impl Op {
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input(_) => "input",
            Op::State(_) => "state",
            Op::Const(_) => "constant",
            Op::Literal(_) => "literal",
            Op::Held(_) => "held_rows",
            Op::Unary(u) => u.name(),
            Op::Binary(b) => b.name(),
            Op::Select => "select",
            Op::Cast => "cast",
            Op::StopGradient => "stop_gradient",
            Op::Opaque => "opaque",
            Op::Broadcast => "broadcast",
            Op::Reshape => "reshape",
            Op::Permute(_) => "permute",
            Op::Slice(_) => "slice",
            Op::Embed(_) => "embed",
            Op::Concat(_) => "concat",
            Op::Reduce(r, _) => r.name(),
            Op::CumSum { .. } => "cumsum",
            Op::MatMul { .. } => "matmul",
            Op::Cholesky => "cholesky",
            Op::TriSolve { .. } => "solve_triangular",
            Op::Conv(_) => "conv2d",
            Op::ConvInput(_) => "conv2d_input",
            Op::ConvWeight(_) => "conv2d_weight",
            Op::Upsample => "upsample",
            Op::Downsample => "downsample",
            Op::Take(_) => "take",
            Op::ScatterAdd(_) => "scatter_add",
            Op::Noise(..) => "noise",
            Op::External(..) => "external",
            Op::SumParts(..) => "sum_over_parts",
            Op::ToParts(_) => "to_parts",
            Op::Scan(_) | Op::Part(_) | Op::Placeholder(_) => "scan",
            Op::Poison(_) => "poison",
        }
    }

    /// Whether a change of the operands changes the value smoothly, so that a derivative is worth asking for.
    pub fn carries_gradient(&self) -> bool {
        match self {
            Op::StopGradient | Op::Noise(..) => false,
            Op::Unary(u) => u.is_smooth(),
            Op::Binary(b) => b.is_smooth(),
            _ => true,
        }
    }
}

/// How a filter moves over an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Window {
    pub stride: usize,
    /// Zeros assumed before and after, for rows and columns alike.
    pub before: usize,
    pub after: usize,
}

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the CPU needs some of these only"))]
impl Window {
    /// Extent of the result of a filter moved over an axis; `None` where the filter is larger than the padded axis.
    pub fn output(self, extent: usize, filter: usize) -> Option<usize> {
        let room = (extent + self.before + self.after).checked_sub(filter)?;
        Some(room / self.stride + 1)
    }

    /// Extent of the padded axis that a filter reads to give this many outputs; the inverse of `output`.
    pub fn reach(self, outputs: usize, filter: usize) -> usize {
        (outputs - 1) * self.stride + filter
    }

    /// The window of the adjoint over an axis whose elements are spread `stride` apart: it moves by one.
    pub fn adjoint(self, filter: usize) -> Window {
        Window { stride: 1, before: filter - 1 - self.before, after: filter - 1 - self.after }
    }
}

/// `len` elements of an axis, from `start` in steps of `step`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Span {
    pub start: usize,
    pub len: usize,
    pub step: usize,
}

impl Span {
    /// All of an axis.
    pub fn whole(len: usize) -> Self {
        Span { start: 0, len, step: 1 }
    }
    /// One past the last element.
    pub fn end(self) -> usize {
        self.start + (self.len - 1) * self.step + 1
    }
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Draw {
    Normal,
    Uniform,
}

/// How the elements of an axis become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reduction {
    Sum,
    Max,
}

impl Reduction {
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max_over",
        }
    }
}
