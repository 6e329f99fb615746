//! Views: nodes that only look at another node's elements, described by an offset and strides.

use crate::graph::{Node, NodeId, Op};
use crate::shape::Shape;

/// Where a node's elements lie within the buffer of `base`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub base: NodeId,
    pub offset: usize,
    /// One per axis of the node, in elements.
    pub strides: Vec<isize>,
}

impl View {
    /// A node that has a buffer of its own.
    pub fn own(id: NodeId, shape: &Shape) -> Self {
        View { base: id, offset: 0, strides: shape.strides() }
    }

    /// How `node` sees its operand's elements, if it merely rearranges them.
    pub fn through(node: &Node, arg: &Node, view: &View) -> Option<View> {
        let mut out = view.clone();
        match &node.op {
            // (Of rows that are all here.)
            Op::StopGradient | Op::Opaque | Op::Held(_) => {}
            Op::Broadcast | Op::ToParts(_) => {
                let lead = node.shape.rank() - arg.shape.rank();
                let stride = |i: usize| {
                    let repeated = i < lead || arg.shape.dims()[i - lead] != node.shape.dims()[i];
                    if repeated { 0 } else { view.strides[i - lead] }
                };
                out.strides = (0..node.shape.rank()).map(stride).collect();
            }
            Op::Permute(order) => out.strides = order.iter().map(|&i| view.strides[i]).collect(),
            Op::Slice(spans) => {
                for (i, span) in spans.iter().enumerate() {
                    out.offset = out.offset.wrapping_add_signed(span.start as isize * view.strides[i]);
                    out.strides[i] = view.strides[i] * span.step as isize;
                }
            }
            Op::Reshape => out.strides = reshaped(arg.shape.dims(), &view.strides, node.shape.dims())?,
            _ => return None,
        }
        Some(out)
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self, shape: &Shape) -> bool {
        let (dims, strides) = collapsed(shape.dims(), &self.strides);
        dims.is_empty() || (dims.len() == 1 && strides[0] == 1)
    }
}

/// The same layout with as few axes as possible: no axis of length 1, none that continues the one before it.
pub(super) fn collapsed(dims: &[usize], strides: &[isize]) -> (Vec<usize>, Vec<isize>) {
    let (mut d, mut s): (Vec<usize>, Vec<isize>) = (vec![], vec![]);
    for (&extent, &stride) in dims.iter().zip(strides).filter(|(d, _)| **d != 1) {
        match (d.last_mut(), s.last_mut()) {
            (Some(outer), Some(last)) if *last == stride * extent as isize => {
                *outer *= extent;
                *last = stride;
            }
            _ => {
                d.push(extent);
                s.push(stride);
            }
        }
    }
    (d, s)
}

/// Strides under which the same elements read as the shape `to`, if there are any.
fn reshaped(from: &[usize], strides: &[isize], to: &[usize]) -> Option<Vec<isize>> {
    let (dims, strides) = collapsed(from, strides);
    let mut out = vec![0; to.len()];
    let mut next = to.len();
    // Each collapsed axis, from the last, must split evenly into axes of the new shape.
    for (&extent, &stride) in dims.iter().zip(&strides).rev() {
        let mut covered = 1;
        while covered < extent {
            next = next.checked_sub(1)?;
            out[next] = stride * covered as isize;
            covered *= to[next];
        }
        if covered != extent {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collapsing_and_reshaping_keep_the_elements() {
        assert_eq!(collapsed(&[2, 1, 3], &[3, 99, 1]), (vec![6], vec![1]));
        assert_eq!(collapsed(&[2, 3], &[1, 2]), (vec![2, 3], vec![1, 2]));
        assert_eq!(collapsed(&[4, 3], &[0, 0]), (vec![12], vec![0]));
        assert_eq!(reshaped(&[2, 3], &[3, 1], &[3, 2]), Some(vec![2, 1]));
        assert_eq!(reshaped(&[2, 3], &[1, 2], &[6]), None);
        assert_eq!(reshaped(&[4, 3], &[10, 1], &[2, 2, 3, 1]), Some(vec![20, 10, 1, 1]));
        assert_eq!(reshaped(&[1], &[1], &[]), Some(vec![]));
    }
}
