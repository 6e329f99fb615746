//! Convolutions and the sizes of what they read and write, for all executors.

use super::Place;
use crate::graph::Window;
use crate::shape::DType;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConvPart {
    Output,
    Input,
    /// Each tile's partial sum over its images follows the one before.
    Weight,
}

/// A convolution or one of its adjoints: x `[n, c, h, w]`, f `[o, c, fh, fw]`, y `[n, o, oh, ow]`.
#[derive(Clone, Debug)]
pub(crate) struct Conv {
    pub dtype: DType,
    pub part: ConvPart,
    pub window: Window,
    pub x: [usize; 4],
    pub f: [usize; 4],
    pub y: [usize; 4],
    /// The two operands in the order of the operation, then the result.
    pub from: [Place; 2],
    pub to: Place,
}

/// Images handled by one tile of a convolution on the CPU, and summed by one of the gradient of filters everywhere.
pub(crate) const IMAGES_PER_TILE: usize = 4;

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the CPU needs some of these only"))]
impl Conv {
    /// The same with images that have other extents in memory.
    pub fn with_images(&self, [h, w]: [usize; 2]) -> Conv {
        let [n, c, ..] = self.x;
        Conv { x: [n, c, h, w], ..self.clone() }
    }

    /// Elements of the two operands, in the order of the operation.
    pub fn operands(&self) -> [usize; 2] {
        let [x, f, y] = self.sizes();
        match self.part {
            ConvPart::Output => [x, f],
            ConvPart::Input => [y, f],
            ConvPart::Weight => [x, y],
        }
    }

    /// Elements of the result; of a gradient of filters, those of all partial sums.
    pub fn result(&self) -> usize {
        let [x, f, y] = self.sizes();
        match self.part {
            ConvPart::Output => y,
            ConvPart::Input => x,
            ConvPart::Weight => self.parts() * f,
        }
    }

    /// Partial sums of a gradient of filters.
    pub fn parts(&self) -> usize {
        self.x[0].div_ceil(IMAGES_PER_TILE)
    }

    /// Elements of images, filters and outputs.
    pub fn sizes(&self) -> [usize; 3] {
        [self.x, self.f, self.y].map(|dims| dims.iter().product())
    }
}
