//! Values of a program: whole and real numbers, vectors, matrices, and arrays of them.

use crate::syntax::ast::Base;
use crate::trace::Flat;
use crate::types::Type;

/// A value. Whole numbers are held as real ones, which hold them exactly. Matrices are written row by row.
#[derive(Clone, Debug)]
pub struct Value {
    pub base: Base,
    /// Sizes of the array, then those of the base type.
    pub shape: Vec<usize>,
    pub flat: Flat,
}

/// How many sizes a base type has.
pub fn rank(base: Base) -> usize {
    match base {
        Base::Int | Base::Real | Base::Complex => 0,
        Base::Matrix | Base::ComplexMatrix => 2,
        _ => 1,
    }
}

/// One index, its places counted from 0.
#[derive(Clone, Debug)]
pub enum Selection {
    All,
    One(usize),
    Many(Vec<usize>),
}

/// What an index selects: the value's kind, and its places.
pub struct Selected {
    pub base: Base,
    pub shape: Vec<usize>,
    pub places: Places,
}

/// Places of a flat list.
pub enum Places {
    Range(usize, usize),
    List(Vec<usize>),
}

impl Value {
    pub fn int(n: i64) -> Value {
        Value { base: Base::Int, shape: vec![], flat: Flat::Number(n as f64) }
    }

    pub fn real(x: f64) -> Value {
        Value { base: Base::Real, shape: vec![], flat: Flat::Number(x) }
    }

    pub fn scalar(flat: Flat) -> Value {
        Value { base: Base::Real, shape: vec![], flat }
    }

    pub fn vector(flat: Flat) -> Value {
        Value { base: Base::Vector, shape: vec![flat.len()], flat }
    }

    pub fn matrix(rows: usize, cols: usize, flat: Flat) -> Value {
        Value { base: Base::Matrix, shape: vec![rows, cols], flat }
    }

    /// Dimensions of the array around.
    pub fn dimensions(&self) -> usize {
        self.shape.len() - rank(self.base)
    }

    pub fn ty(&self) -> Type {
        Type::of(self.base).array(self.dimensions())
    }

    pub fn len(&self) -> usize {
        self.flat.len()
    }

    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }

    /// The numbers, if all are known.
    pub fn numbers(&self) -> Option<&[f64]> {
        self.flat.numbers()
    }

    /// The number, if it is one and known.
    pub fn number(&self) -> Option<f64> {
        match self.flat {
            Flat::Number(x) if self.shape.is_empty() => Some(x),
            _ => None,
        }
    }

    /// The same numbers as another kind of value.
    pub fn reshaped(self, base: Base, shape: Vec<usize>) -> Value {
        Value { base, shape, flat: self.flat }
    }

    /// Promoted to a type it can become.
    pub fn promoted(mut self, base: Base) -> Value {
        if self.base == Base::Int && base == Base::Real {
            self.base = Base::Real;
        }
        self
    }

    /// Rows and columns, where a vector is a column.
    pub fn extent(&self) -> (usize, usize) {
        match (self.base, self.shape.as_slice()) {
            (Base::Vector, [.., n]) => (*n, 1),
            (Base::RowVector, [.., n]) => (1, *n),
            (Base::Matrix, [.., r, c]) => (*r, *c),
            _ => (1, self.len()),
        }
    }

    /// What some indices select. The sizes have been checked.
    pub fn select(&self, selections: &[Selection]) -> Selected {
        let arrays = self.dimensions();
        let base = selected_base(self.base, selections.get(arrays..).unwrap_or(&[]));
        let mut shape = vec![];
        let mut places = Places::Range(0, self.len());
        let mut list: Option<Vec<usize>> = None;
        let (mut first, mut count) = (0, self.len());
        for (i, &size) in self.shape.iter().enumerate() {
            let stride = self.shape[i + 1..].iter().product::<usize>();
            let selection = selections.get(i).unwrap_or(&Selection::All);
            match (selection, &mut list) {
                (Selection::One(k), None) if shape.is_empty() => {
                    first += k * stride;
                    count = stride;
                }
                (Selection::All, None) if shape.len() + first_singles(selections) == i => shape.push(size),
                _ => {
                    // From here on places are listed, as starts of blocks of this stride.
                    let starts = list.take().unwrap_or_else(|| {
                        let inner: usize = self.shape[i..].iter().product::<usize>().max(1);
                        (0..count / inner).map(|b| first + b * inner).collect()
                    });
                    let picked: Vec<usize> = match selection {
                        Selection::All => (0..size).collect(),
                        Selection::One(k) => vec![*k],
                        Selection::Many(list) => list.clone(),
                    };
                    if !matches!(selection, Selection::One(_)) {
                        shape.push(picked.len());
                    }
                    list = Some(starts.iter().flat_map(|s| picked.iter().map(move |k| s + k * stride)).collect());
                }
            }
        }
        if let Some(list) = list {
            places = Places::List(list);
        } else if let Places::Range(start, len) = &mut places {
            (*start, *len) = (first, count);
        }
        Selected { base, shape, places }
    }

    /// The part that some indices select.
    pub fn at(&self, selections: &[Selection]) -> Value {
        let Selected { base, shape, places } = self.select(selections);
        let flat = match places {
            Places::Range(first, count) => self.flat.part(first, count),
            Places::List(list) => self.flat.gather(&list),
        };
        Value { base, shape, flat }
    }

    /// One element of the outermost axis.
    pub fn element(&self, i: usize) -> Value {
        self.at(&[Selection::One(i)])
    }
}

fn first_singles(selections: &[Selection]) -> usize {
    selections.iter().take_while(|s| matches!(s, Selection::One(_))).count()
}

/// The base type of a part of a base type.
fn selected_base(base: Base, selections: &[Selection]) -> Base {
    let single = |i: usize| matches!(selections.get(i), Some(Selection::One(_)));
    match base {
        Base::Vector | Base::RowVector if single(0) => Base::Real,
        Base::Matrix => match (single(0), single(1)) {
            (true, true) => Base::Real,
            (true, false) => Base::RowVector,
            (false, true) => Base::Vector,
            (false, false) => Base::Matrix,
        },
        other => other,
    }
}
