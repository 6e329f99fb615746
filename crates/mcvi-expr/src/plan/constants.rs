//! Constants laid out the way they are read, once, when a program is compiled.

use super::emit::Emitter;
use super::*;
use crate::graph::{NodeId, Op};

/// Elements up to which a constant is worth laying out again, for a fused kernel and for a product.
const EXPANDED: usize = 1 << 14;
pub(super) const TURNED: usize = 1 << 16;

impl Emitter {
    /// How a fused kernel reads a node. Constants that are small are laid out the way they are read.
    pub fn load(&mut self, id: NodeId, level: usize) -> Strided {
        let (view, shape) = (self.s.view(id), &self.s.node(id).shape);
        let total = shape.size();
        let as_is = total > EXPANDED || view.is_contiguous(shape) || view.strides.iter().all(|&s| s == 0);
        match self.literal(id) {
            Some(array) if !as_is => {
                let buf = self.laid_out(id, &array, false);
                Strided { place: Place { buf, first: 0 }, dims: vec![total], strides: vec![1] }
            }
            _ => self.strided(id, level),
        }
    }

    /// The constant that a node is a view of.
    pub fn literal(&self, id: NodeId) -> Option<Array> {
        match &self.s.node(self.s.view(id).base).op {
            Op::Literal(array) => Some(array.clone()),
            _ => None,
        }
    }

    /// A copy of a view of a constant in row-major order, transposed on demand.
    pub fn laid_out(&mut self, id: NodeId, array: &Array, transposed: bool) -> BufId {
        if let Some(&buf) = self.expanded.get(&(id, transposed)) {
            return buf;
        }
        let (view, node) = (self.s.view(id), self.s.node(id));
        let (dtype, total) = (node.dtype, node.shape.size());
        let mut axes: Vec<(usize, isize)> =
            node.shape.dims().iter().copied().zip(view.strides.iter().copied()).collect();
        if transposed {
            axes.reverse();
        }
        let (values, mut places) = (array.to_f64(), vec![view.offset]);
        for (extent, stride) in axes {
            let along = |&at: &usize| (0..extent).map(move |i| at.wrapping_add_signed(i as isize * stride));
            places = places.iter().flat_map(along).collect();
        }
        let values = places.into_iter().map(|at| values[at]).collect();
        let buf = self.lasting(dtype, total);
        self.literals.push((Place { buf, first: 0 }, Array::from_f64s(dtype, Shape::from(total), values)));
        self.expanded.insert((id, transposed), buf);
        buf
    }
}
