//! Selections whose indices form a regular grid, as views: slices, permutations and repetitions cost nothing, and their adjoints are
//! sums and embeddings in place of scattered additions.

use crate::graph::Expr;

/// Axes up to which a selection counts as regular.
const AXES: usize = 4;

/// Indices `start + Σ iₐ strideₐ`, in row-major order of the axes.
#[derive(Debug, PartialEq)]
pub(super) struct Grid {
    start: usize,
    axes: Vec<Axis>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    count: usize,
    stride: usize,
}

impl Grid {
    /// The grid of these indices, if they are one and all are below `len`.
    pub fn of(index: &[i32], len: usize) -> Option<Self> {
        let within = |i: &i32| usize::try_from(*i).ok().filter(|i| *i < len);
        let places: Vec<usize> = index.iter().map(within).collect::<Option<_>>()?;
        let &start = places.first()?;
        let (mut axes, mut block) = (vec![], 1);
        while block < places.len() {
            // As many copies of the first block as follow each other at one distance.
            let stride = places[block].checked_sub(start)?;
            let is_copy = |(k, copy): (usize, &[usize])| copy.iter().zip(&places).all(|(p, q)| *p == q + k * stride);
            let count = places.chunks_exact(block).enumerate().take_while(|copy| is_copy(*copy)).count();
            if count == 1 || !places.len().is_multiple_of(block * count) || axes.len() == AXES {
                return None;
            }
            axes.insert(0, Axis { count, stride });
            block *= count;
        }
        Some(Grid { start, axes })
    }

    /// The same elements of an axis of x, in the same order, as a view. None if that takes more than a slice, a permutation and
    /// repetition.
    pub fn view<'g>(&self, x: Expr<'g>, axis: usize) -> Option<Expr<'g>> {
        let dims = x.shape().dims().to_vec();
        let (before, after) = (&dims[..axis], &dims[axis + 1..]);
        let shape = |middle: &[usize]| [before, middle, after].concat();
        // Axes that move, the outermost in x first: each must lie within one step of the axis before.
        let mut moving: Vec<usize> = (0..self.axes.len()).filter(|&a| self.axes[a].stride > 0).collect();
        moving.sort_by_key(|&a| std::cmp::Reverse(self.axes[a].stride));
        let (count, stride) = (|&a: &usize| self.axes[a].count, |&a: &usize| self.axes[a].stride);
        let fits = |pair: &[usize]| {
            stride(&pair[0]).is_multiple_of(stride(&pair[1])) && stride(&pair[0]) >= count(&pair[1]) * stride(&pair[1])
        };
        if !moving.windows(2).all(fits) {
            return None;
        }
        // As many as fit within one step of the axis before, of which the first are meant.
        let mut widths: Vec<usize> = moving.windows(2).map(|pair| stride(&pair[0]) / stride(&pair[1])).collect();
        widths.splice(0..0, moving.first().map(count));
        let step = moving.last().map_or(1, stride);
        let end = self.start + (widths.iter().product::<usize>() - 1) * step + 1;
        if end > dims[axis] {
            return None;
        }
        let part = x.slice_step(axis, self.start..end, step).reshape(shape(&widths));
        let part = (0..moving.len()).fold(part, |part, i| part.slice(axis + i, 0..count(&moving[i])));
        // From their order in x to that of the grid.
        let mut by_grid: Vec<usize> = (0..moving.len()).collect();
        by_grid.sort_by_key(|&i| moving[i]);
        let rank = before.len() + moving.len() + after.len();
        let mut order: Vec<usize> = (0..rank).collect();
        by_grid.iter().enumerate().for_each(|(to, from)| order[axis + to] = axis + from);
        let moved = part.permute(&order);
        let once: Vec<usize> = self.axes.iter().map(|a| if a.stride > 0 { a.count } else { 1 }).collect();
        let all: Vec<usize> = self.axes.iter().map(|a| a.count).collect();
        let number = all.iter().product();
        Some(moved.reshape(shape(&once)).broadcast_to(shape(&all)).reshape(shape(&[number])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(index: &[i32]) -> Option<(usize, Vec<(usize, usize)>)> {
        Grid::of(index, 10).map(|grid| (grid.start, grid.axes.iter().map(|a| (a.count, a.stride)).collect()))
    }

    #[test]
    fn grids_are_recognised() {
        assert_eq!(axes(&[3]), Some((3, vec![])));
        assert_eq!(axes(&[4, 5, 6]), Some((4, vec![(3, 1)])));
        assert_eq!(axes(&[1, 1, 1]), Some((1, vec![(3, 0)])));
        assert_eq!(axes(&[0, 1, 0, 1, 0, 1]), Some((0, vec![(3, 0), (2, 1)])));
        assert_eq!(axes(&[0, 0, 1, 1]), Some((0, vec![(2, 1), (2, 0)])));
        assert_eq!(axes(&[0, 3, 1, 4, 2, 5]), Some((0, vec![(3, 1), (2, 3)])));
        for irregular in [&[][..], &[0, 1, 3], &[2, 1], &[0, 0, 1], &[0, 1, 2, 3, 4, 8], &[9, 10], &[-1, 0]] {
            assert_eq!(axes(irregular), None, "{irregular:?}");
        }
    }
}
