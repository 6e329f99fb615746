//! Arrays on the host: what goes into a program and what comes out.

use crate::error::{Error, Result};
use crate::shape::{DType, Shape};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// A row-major array with its shape. Copies share their elements, and so do some rows of it.
#[derive(Clone, Debug)]
pub struct Array {
    shape: Shape,
    store: Arc<Store>,
    /// Where its elements begin.
    first: usize,
}

/// Elements that arrays share.
#[doc(hidden)]
#[derive(Debug)]
pub enum Store {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
}

/// The elements of an [`Array`].
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 64-bit floats.
    F64(&'a [f64]),
    /// 32-bit integers.
    I32(&'a [i32]),
}

/// A Rust type that can be an array's element: `f32`, `f64` or `i32`.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The corresponding element type.
    const DTYPE: DType;
    /// Wrap elements.
    #[doc(hidden)]
    fn wrap(data: Vec<Self>) -> Store;
    /// The elements, if they are of this type.
    #[doc(hidden)]
    fn slice(data: Data<'_>) -> Option<&[Self]>;
}

mod sealed {
    /// Keeps the set of element types closed: executors have kernels for these.
    pub trait Sealed {}
}

macro_rules! element {
    ($($type:ty, $variant:ident);*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$variant;
            fn wrap(data: Vec<Self>) -> Store {
                Store::$variant(data)
            }
            fn slice(data: Data<'_>) -> Option<&[Self]> {
                match data {
                    Data::$variant(data) => Some(data),
                    _ => None,
                }
            }
        }
    )*};
}
element!(f32, F32; f64, F64; i32, I32);

impl Array {
    /// An array from its shape and its elements in row-major order.
    #[track_caller]
    pub fn new<T: Element>(shape: impl Into<Shape>, data: impl Into<Vec<T>>) -> Result<Self> {
        let (shape, data) = (shape.into(), data.into());
        if let Some(defect) = shape.defect() {
            let (why, at) = (defect.to_owned(), std::panic::Location::caller());
            return Err(Error::Argument { op: "array", shape, why, at });
        }
        if shape.size() != data.len() {
            return Err(Error::Length { shape, len: data.len() });
        }
        Ok(Array::of(shape, T::wrap(data)))
    }

    fn of(shape: Shape, store: Store) -> Self {
        Array { shape, store: Arc::new(store), first: 0 }
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Self {
        Array::of(Shape::scalar(), T::wrap(vec![value]))
    }

    /// An array of zeros.
    #[track_caller]
    pub fn zeros(dtype: DType, shape: impl Into<Shape>) -> Result<Self> {
        Array::filled(dtype, shape, 0.0)
    }

    /// An array of one value.
    #[track_caller]
    pub fn filled(dtype: DType, shape: impl Into<Shape>, value: f64) -> Result<Self> {
        let shape = shape.into();
        if let Some(defect) = shape.defect() {
            let (why, at) = (defect.to_owned(), std::panic::Location::caller());
            return Err(Error::Argument { op: "array", shape, why, at });
        }
        let mut data = vec![];
        if data.try_reserve_exact(shape.size()).is_err() {
            return Err(Error::Memory { bytes: shape.size().saturating_mul(8) });
        }
        data.resize(shape.size(), value);
        Ok(Array::from_f64s(dtype, shape, data))
    }

    /// Convert `data`, already known to fit `shape`, to the element type asked for.
    pub(crate) fn from_f64s(dtype: DType, shape: Shape, data: Vec<f64>) -> Self {
        debug_assert_eq!(shape.size(), data.len());
        let store = match dtype {
            DType::F64 => Store::F64(data),
            DType::F32 => Store::F32(data.into_iter().map(|x| x as f32).collect()),
            DType::I32 => Store::I32(data.into_iter().map(|x| x as i32).collect()),
        };
        Array::of(shape, store)
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match *self.store {
            Store::F32(_) => DType::F32,
            Store::F64(_) => DType::F64,
            Store::I32(_) => DType::I32,
        }
    }

    /// The elements.
    pub fn data(&self) -> Data<'_> {
        let own = self.first..self.first + self.shape.size();
        match &*self.store {
            Store::F32(all) => Data::F32(&all[own]),
            Store::F64(all) => Data::F64(&all[own]),
            Store::I32(all) => Data::I32(&all[own]),
        }
    }

    /// The elements, if they are of type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        T::slice(self.data())
    }

    /// The elements converted to `f64`.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.data() {
            Data::F32(d) => d.iter().map(|&x| f64::from(x)).collect(),
            Data::F64(d) => d.to_vec(),
            Data::I32(d) => d.iter().map(|&x| f64::from(x)).collect(),
        }
    }

    /// The elements of a range of an axis: shared, if it is the first of more than one element.
    pub(crate) fn part(&self, axis: usize, range: Range<usize>) -> Self {
        let dims = self.shape.dims();
        let inner: usize = dims[axis + 1..].iter().product();
        let (row, shape) = (dims[axis] * inner, self.shape.with(axis, range.len()));
        let part = range.start * inner..range.end * inner;
        if self.shape.size() == row {
            return Array { shape, store: self.store.clone(), first: self.first + part.start };
        }
        fn pick<T: Copy>(all: &[T], row: usize, part: Range<usize>) -> Vec<T> {
            all.chunks(row).flat_map(|of| &of[part.clone()]).copied().collect()
        }
        let store = match self.data() {
            Data::F32(d) => Store::F32(pick(d, row, part)),
            Data::F64(d) => Store::F64(pick(d, row, part)),
            Data::I32(d) => Store::I32(pick(d, row, part)),
        };
        Array::of(shape, store)
    }

    /// The same elements in another type.
    pub fn cast(&self, dtype: DType) -> Self {
        if dtype == self.dtype() {
            return self.clone();
        }
        Array::from_f64s(dtype, self.shape.clone(), self.to_f64())
    }

    /// The array whose elements have these bytes, as many as the shape needs.
    pub(crate) fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Self {
        debug_assert_eq!(shape.size() * dtype.bytes(), bytes.len());
        let store = match dtype {
            DType::F32 => Store::F32(bytes.as_chunks().0.iter().map(|b| f32::from_ne_bytes(*b)).collect()),
            DType::F64 => Store::F64(bytes.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b)).collect()),
            DType::I32 => Store::I32(bytes.as_chunks().0.iter().map(|b| i32::from_ne_bytes(*b)).collect()),
        };
        Array::of(shape, store)
    }

    /// Write as many elements as `to` has room for, as bytes, from element `first` on.
    pub(crate) fn copy_bytes(&self, first: usize, to: &mut [u8]) {
        match self.data() {
            Data::F32(d) => to.as_chunks_mut().0.iter_mut().zip(&d[first..]).for_each(|(t, x)| *t = x.to_ne_bytes()),
            Data::F64(d) => to.as_chunks_mut().0.iter_mut().zip(&d[first..]).for_each(|(t, x)| *t = x.to_ne_bytes()),
            Data::I32(d) => to.as_chunks_mut().0.iter_mut().zip(&d[first..]).for_each(|(t, x)| *t = x.to_ne_bytes()),
        }
    }

    /// The bits of an element, widened.
    fn bits(&self, at: usize) -> u64 {
        match self.data() {
            Data::F32(d) => u64::from(d[at].to_bits()),
            Data::F64(d) => d[at].to_bits(),
            Data::I32(d) => d[at] as u64,
        }
    }
}

impl From<f64> for Array {
    fn from(value: f64) -> Self {
        Array::scalar(value)
    }
}
impl From<f32> for Array {
    fn from(value: f32) -> Self {
        Array::scalar(value)
    }
}

/// Elements that are hashed: large arrays are compared as a whole only if these agree.
const HASHED: usize = 64;

/// Equal means equal bits: a NaN equals itself, and 0 differs from −0.
impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        let same = || match (self.data(), other.data()) {
            (Data::F32(a), Data::F32(b)) => a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits())),
            (Data::F64(a), Data::F64(b)) => a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits())),
            (Data::I32(a), Data::I32(b)) => a == b,
            _ => false,
        };
        let is_shared = || Arc::ptr_eq(&self.store, &other.store) && self.first == other.first;
        self.shape == other.shape && (is_shared() || same())
    }
}
impl Eq for Array {}
impl Hash for Array {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shape.hash(state);
        self.dtype().hash(state);
        let size = self.shape.size();
        (0..size).step_by(size.div_ceil(HASHED).max(1)).for_each(|at| self.bits(at).hash(state));
    }
}
