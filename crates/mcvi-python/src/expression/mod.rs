//! Log densities that were traced in Python, as expressions: a program of array operations on one point becomes an expression of
//! rows of points. The engine differentiates and runs it, and Python is not called again.

mod build;
mod functions;

pub use functions::names;

use functions::Function;
use mcvi_expr::{Array, Expr};
use serde::Deserialize;

/// A function of a point, `[dim]` to a number, in the order of its computation.
pub struct Program {
    /// What the point is called.
    point: usize,
    steps: Vec<Step>,
    result: usize,
    /// Numbers and, for indices, whole numbers.
    arrays: Vec<Array>,
}

/// One operation, and what its value is called.
#[derive(Deserialize)]
struct Step {
    #[serde(default)]
    to: usize,
    #[serde(flatten)]
    op: Op,
}

/// The operations. Shapes and axes are those of one point.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Literal {
        array: usize,
    },
    Map {
        function: Function,
        of: Vec<usize>,
        shape: Vec<usize>,
    },
    Polygamma {
        of: usize,
        order: u32,
    },
    Reshape {
        of: usize,
        shape: Vec<usize>,
    },
    /// Axis i of the operand becomes axis `axes[i]`.
    Broadcast {
        of: usize,
        shape: Vec<usize>,
        axes: Vec<usize>,
    },
    Permute {
        of: usize,
        order: Vec<usize>,
    },
    Slice {
        of: usize,
        start: Vec<usize>,
        limit: Vec<usize>,
        step: Vec<usize>,
    },
    Concat {
        of: Vec<usize>,
        axis: usize,
    },
    /// Elements of the flat operand.
    Take {
        of: usize,
        index: usize,
        shape: Vec<usize>,
    },
    /// Zeros, with the elements of the operand added at places of the flat result.
    Scatter {
        of: usize,
        index: usize,
        shape: Vec<usize>,
    },
    Reduce {
        of: usize,
        how: How,
        axes: Vec<usize>,
    },
    Cumulate {
        of: usize,
        how: How,
        axis: usize,
        reverse: bool,
    },
    Dot {
        of: [usize; 2],
        contract: [Vec<usize>; 2],
        batch: [Vec<usize>; 2],
    },
    Cholesky {
        of: usize,
    },
    /// X with A X = B, or with AᵀX = B.
    Solve {
        of: [usize; 2],
        lower: bool,
        transpose: bool,
    },
    Scan(Loop),
}

/// How elements become one.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    Sum,
    Product,
    Max,
    Min,
    Logsumexp,
}

/// A loop: the last carries, and what is kept of each iteration along a first axis.
#[derive(Deserialize)]
struct Loop {
    length: usize,
    reverse: bool,
    carries: Vec<Carry>,
    elements: Vec<Element>,
    body: Vec<Step>,
    kept: Vec<Kept>,
}

#[derive(Deserialize)]
struct Carry {
    first: usize,
    /// What it is called in the body.
    inner: usize,
    next: usize,
    /// What its last value is called.
    last: usize,
}

/// An array of which an iteration sees one element along the first axis.
#[derive(Deserialize)]
struct Element {
    of: usize,
    inner: usize,
}

#[derive(Deserialize)]
struct Kept {
    inner: usize,
    to: usize,
}

#[derive(Deserialize)]
struct Text {
    point: usize,
    steps: Vec<Step>,
    result: usize,
}

impl<'de> Deserialize<'de> for Function {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        functions::get(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no function {name}")))
    }
}

impl Program {
    /// From the text of its operations and the arrays they refer to.
    pub fn read(text: &str, arrays: Vec<Array>) -> Result<Self, serde_json::Error> {
        let Text { point, steps, result } = serde_json::from_str(text)?;
        Ok(Program { point, steps, result, arrays })
    }

    /// The value at each row of z, `[rows, dim]` to `[rows]`.
    pub fn build<'g>(&self, z: Expr<'g>) -> mcvi_expr::Result<Expr<'g>> {
        build::build(self, z)
    }
}
