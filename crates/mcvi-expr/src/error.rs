//! Everything that can go wrong, as one typed error that names the operation and both sides.

use crate::shape::{DType, Shape};
use std::panic::Location;

/// Where in the caller's source an ill-formed expression was built.
pub type At = &'static Location<'static>;

/// A mistake in building, differentiating, compiling or running expressions.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two operands whose shapes do not fit together.
    #[error("{op}: shapes {left} and {right} do not fit, {why} ({at})")]
    Shapes {
        /// The operation asked for.
        op: &'static str,
        /// Shape of the first operand.
        left: Shape,
        /// Shape of the second operand, or the shape asked for.
        right: Shape,
        /// What the operation requires.
        why: &'static str,
        /// Where the expression was built.
        at: At,
    },
    /// Two operands of different element types.
    #[error("{op}: element types {left} and {right} differ, convert one with `cast` ({at})")]
    DTypes {
        /// The operation asked for.
        op: &'static str,
        /// Element type of the first operand.
        left: DType,
        /// Element type of the second operand.
        right: DType,
        /// Where the expression was built.
        at: At,
    },
    /// An argument the operation cannot take, such as an axis that does not exist.
    #[error("{op} of shape {shape}: {why} ({at})")]
    Argument {
        /// The operation asked for.
        op: &'static str,
        /// Shape of the operand.
        shape: Shape,
        /// What is wrong and what would be right.
        why: String,
        /// Where the expression was built.
        at: At,
    },
    /// Operands that belong to two graphs.
    #[error("{op}: the operands belong to two different graphs ({at})")]
    ForeignGraph {
        /// The operation asked for.
        op: &'static str,
        /// Where the expression was built.
        at: At,
    },
    /// A noise stream that already feeds another draw.
    #[error("noise stream {stream} is already in use; streams are never shared, take `Graph::fresh_stream` ({at})")]
    StreamInUse {
        /// The number of the stream.
        stream: u32,
        /// Where the second draw was built.
        at: At,
    },
    /// A gradient was asked of something that is not a scalar.
    #[error("grad needs a scalar, this expression has shape {shape}; sum it first")]
    NotScalar {
        /// Shape of the expression.
        shape: Shape,
    },
    /// A derivative that the operation does not offer.
    #[error("{op} has no derivative here: {why}")]
    NotDifferentiable {
        /// The operation.
        op: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A name used for two inputs, states or outputs.
    #[error("the name `{name}` is used twice; inputs and states share one set of names, outputs another")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A name the program does not know.
    #[error("there is no {kind} `{name}`; there are: {}", known.join(", "))]
    UnknownName {
        /// What was looked for: an output, an input, a state.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A value that does not fit the input or state it was written to.
    #[error("`{name}` is {dtype} {shape}, the value given is {got_dtype} {got}")]
    Value {
        /// The input or state.
        name: String,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// Element type of the value given.
        got_dtype: DType,
        /// Shape of the value given.
        got: Shape,
    },
    /// A run with an input that was never written.
    #[error("the input `{name}` (shape {shape}) has no value yet; write it before running")]
    MissingInput {
        /// The input.
        name: String,
        /// Its shape.
        shape: Shape,
    },
    /// Data whose length does not match its shape.
    #[error("an array of shape {shape} needs {} elements, {len} were given", shape.size())]
    Length {
        /// The shape asked for.
        shape: Shape,
        /// The number of elements given.
        len: usize,
    },
    /// An update given for something that is not a state, or two for the same one.
    #[error("update: {why}")]
    Update {
        /// What is wrong.
        why: String,
    },
    /// An index outside the axis it selects from, found while running.
    #[error("{op}: index {index} is outside an axis of length {len}")]
    Index {
        /// The operation.
        op: &'static str,
        /// The index.
        index: i64,
        /// Length of the axis.
        len: usize,
    },
    /// A message from a user's black-box function.
    #[error("external function `{name}`: {message}")]
    External {
        /// Name of the function.
        name: String,
        /// Its message.
        message: String,
    },
    /// Ranks cannot be summed over.
    #[error("the sum over ranks failed: {message}")]
    Ranks {
        /// Why.
        message: String,
    },
    /// More memory than the system grants.
    #[error("{bytes} bytes of memory are needed and were not granted; use smaller arrays or batches")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A device that cannot be used, or was lost.
    #[error("{device}: {why}")]
    Device {
        /// The device asked for.
        device: String,
        /// What is missing or went wrong, and what to do.
        why: String,
    },
    /// More memory than a device has free.
    #[error(
        "{device}: {bytes} bytes of its memory are needed, {free} are free; use smaller arrays or batches, or stop what else \
         runs there"
    )]
    DeviceMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        bytes: usize,
        /// Bytes free at that moment.
        free: usize,
    },
    /// A setting outside its range.
    #[error("{what}: {why}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;
