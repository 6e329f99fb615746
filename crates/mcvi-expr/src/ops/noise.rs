//! Counter-based random draws. A draw is a function of (seed, step, iteration, stream, element), so no optimisation can change it.

use crate::error::Error;
use crate::graph::{Draw, Expr, Graph, Op};
use crate::shape::{DType, Shape};
use std::panic::Location;

impl Graph {
    /// Standard normal draws, fresh in each step. The stream must not be used by another draw of this graph. In the body of
    /// a [`scan`](Graph::scan) they are fresh in each iteration too.
    #[track_caller]
    pub fn normal(&self, stream: u32, dtype: DType, shape: impl Into<Shape>) -> Expr<'_> {
        self.draw(Draw::Normal, stream, dtype, shape.into())
    }

    /// Uniform draws strictly between 0 and 1, fresh in each step and iteration as [`normal`](Graph::normal) draws are. The
    /// stream must not be used by another draw.
    #[track_caller]
    pub fn uniform(&self, stream: u32, dtype: DType, shape: impl Into<Shape>) -> Expr<'_> {
        self.draw(Draw::Uniform, stream, dtype, shape.into())
    }

    #[track_caller]
    fn draw(&self, draw: Draw, stream: u32, dtype: DType, shape: Shape) -> Expr<'_> {
        let at = Location::caller();
        let iteration: Vec<Expr<'_>> = self.iteration().into_iter().collect();
        self.build("noise", &iteration, at, || {
            if !dtype.is_float() {
                let why = "draws are floats".to_owned();
                return Err(Error::Argument { op: "noise", shape, why, at });
            }
            if let Some(defect) = shape.defect() {
                return Err(Error::Argument { op: "noise", shape, why: defect.to_owned(), at });
            }
            if !self.claim_stream(stream) {
                return Err(Error::StreamInUse { stream, at });
            }
            Ok((Op::Noise(draw, stream), shape, dtype))
        })
    }
}
