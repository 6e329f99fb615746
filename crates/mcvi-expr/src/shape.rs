//! Shapes and element types, and how shapes broadcast.

use std::fmt;

/// Axes an array can have.
pub(crate) const MAX_RANK: usize = 12;

/// The extents of an array, outermost first. A scalar has none. No extent is zero.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Shape(Box<[usize]>);

impl Shape {
    /// The shape of a scalar.
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements (saturating, should it not fit a `usize`).
    pub fn size(&self) -> usize {
        self.0.iter().fold(1, |n, &d| n.saturating_mul(d))
    }

    /// The extents.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Why no array can have this shape, if none can.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        if self.0.contains(&0) {
            Some("an axis of length 0")
        } else if self.rank() > MAX_RANK {
            Some("more than 12 axes")
        } else if self.size() > isize::MAX as usize / 16 {
            Some("more elements than memory can hold")
        } else {
            None
        }
    }

    /// Strides of the row-major layout.
    pub(crate) fn strides(&self) -> Vec<isize> {
        let mut strides = vec![1; self.rank()];
        for i in (1..self.rank()).rev() {
            strides[i - 1] = strides[i] * self.0[i] as isize;
        }
        strides
    }

    /// NumPy's rule: align at the last axis; extents agree or one of them is 1.
    pub(crate) fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let at = |s: &Shape, i: usize| (i + s.rank()).checked_sub(rank).map_or(1, |i| s.0[i]);
        (0..rank)
            .map(|i| match (at(self, i), at(other, i)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Shape::from)
    }

    /// The shape without the given axes.
    pub(crate) fn without(&self, axes: &[usize]) -> Shape {
        let kept = self.0.iter().enumerate().filter(|(i, _)| !axes.contains(i));
        kept.map(|(_, &d)| d).collect::<Vec<_>>().into()
    }

    /// The shape with one extent replaced.
    pub(crate) fn with(&self, axis: usize, extent: usize) -> Shape {
        let mut dims = self.0.to_vec();
        dims[axis] = extent;
        dims.into()
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Shape(dims.into())
    }
}
impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape(dims.into())
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Shape(dims.into())
    }
}
impl From<usize> for Shape {
    fn from(dim: usize) -> Self {
        Shape([dim].into())
    }
}
impl From<()> for Shape {
    fn from((): ()) -> Self {
        Shape::scalar()
    }
}
impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of an array's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// 32-bit integers, for indices only.
    I32,
}

impl DType {
    /// Bytes an element takes.
    pub fn bytes(self) -> usize {
        match self {
            DType::F64 => 8,
            DType::F32 | DType::I32 => 4,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        self != DType::I32
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I32 => "i32",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let b = |a: &[usize], c: &[usize]| Shape::from(a).broadcast(&Shape::from(c));
        assert_eq!(b(&[3, 1], &[4]), Some([3, 4].into()));
        assert_eq!(b(&[], &[2, 2]), Some([2, 2].into()));
        assert_eq!(b(&[5, 1, 2], &[1, 7, 1]), Some([5, 7, 2].into()));
        assert_eq!(b(&[3], &[4]), None);
    }
}
