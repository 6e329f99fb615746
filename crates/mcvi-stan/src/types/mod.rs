//! Types, and the check of a program's types before anything runs.

mod call;
mod check;
mod declaration;
mod environment;
mod expression;
mod function;
mod higher_order;
mod signatures;
mod statement;

pub use check::check;
pub use signatures::{examples, exists, names, result};

use crate::syntax::ast::{Base, Element, SizedType, UnsizedType};
use std::fmt;

/// A type without sizes: an element, within as many arrays as there are dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub dimensions: usize,
    pub element: TypeElement,
}

/// What an array is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeElement {
    Base(Base),
    Tuple(Vec<Type>),
}

impl Type {
    pub const INT: Type = Type::of(Base::Int);
    pub const REAL: Type = Type::of(Base::Real);
    pub const VECTOR: Type = Type::of(Base::Vector);
    pub const MATRIX: Type = Type::of(Base::Matrix);

    pub const fn of(base: Base) -> Type {
        Type { dimensions: 0, element: TypeElement::Base(base) }
    }

    pub fn tuple(elements: Vec<Type>) -> Type {
        Type { dimensions: 0, element: TypeElement::Tuple(elements) }
    }

    /// An array of these, of some dimensions more.
    pub fn array(self, dimensions: usize) -> Type {
        Type { dimensions: self.dimensions + dimensions, ..self }
    }

    /// The base type, if it is neither array nor tuple.
    pub fn base(&self) -> Option<Base> {
        match (&self.element, self.dimensions) {
            (TypeElement::Base(base), 0) => Some(*base),
            _ => None,
        }
    }

    pub fn is_scalar(&self) -> bool {
        matches!(self.base(), Some(Base::Int | Base::Real | Base::Complex))
    }

    /// Whether it consists of whole numbers.
    pub fn is_discrete(&self) -> bool {
        match &self.element {
            TypeElement::Base(base) => *base == Base::Int,
            TypeElement::Tuple(elements) => elements.iter().all(Type::is_discrete),
        }
    }

    pub fn contains_int(&self) -> bool {
        match &self.element {
            TypeElement::Base(base) => *base == Base::Int,
            TypeElement::Tuple(elements) => elements.iter().any(Type::contains_int),
        }
    }

    /// How many promotions make this type that one; none if they cannot.
    pub fn promotion(&self, to: &Type) -> Option<usize> {
        if self.dimensions != to.dimensions {
            return None;
        }
        match (&self.element, &to.element) {
            (TypeElement::Base(a), TypeElement::Base(b)) => promotion(*a, *b),
            (TypeElement::Tuple(a), TypeElement::Tuple(b)) if a.len() == b.len() => {
                a.iter().zip(b).map(|(a, b)| a.promotion(b)).sum()
            }
            _ => None,
        }
    }

    /// The type that both can be made.
    pub fn common(&self, other: &Type) -> Option<Type> {
        if self.promotion(other).is_some() {
            return Some(other.clone());
        }
        if other.promotion(self).is_some() {
            return Some(self.clone());
        }
        match (&self.element, &other.element) {
            (TypeElement::Tuple(a), TypeElement::Tuple(b))
                if self.dimensions == other.dimensions && a.len() == b.len() =>
            {
                let elements = a.iter().zip(b).map(|(a, b)| a.common(b)).collect::<Option<_>>()?;
                Some(Type { dimensions: self.dimensions, element: TypeElement::Tuple(elements) })
            }
            _ => None,
        }
    }

    pub fn from_unsized(ty: &UnsizedType) -> Type {
        match ty {
            UnsizedType::Base { base, dimensions } => Type::of(*base).array(*dimensions),
            UnsizedType::Tuple { elements, dimensions } => {
                Type::tuple(elements.iter().map(Type::from_unsized).collect()).array(*dimensions)
            }
        }
    }

    pub fn from_sized(ty: &SizedType) -> Type {
        let element = match &ty.element {
            Element::Base { base, .. } => Type::of(*base),
            Element::Tuple(elements) => Type::tuple(elements.iter().map(Type::from_sized).collect()),
        };
        element.array(ty.array.len())
    }
}

/// How many promotions make one base type another; none if they cannot.
pub fn promotion(from: Base, to: Base) -> Option<usize> {
    match (from, to) {
        _ if from == to => Some(0),
        (Base::Int, Base::Real) | (Base::Real, Base::Complex) => Some(1),
        (Base::Int, Base::Complex) => Some(2),
        (Base::Vector, Base::ComplexVector)
        | (Base::RowVector, Base::ComplexRowVector)
        | (Base::Matrix, Base::ComplexMatrix) => Some(1),
        _ => None,
    }
}

/// The word for a base type.
pub fn word(base: Base) -> &'static str {
    match base {
        Base::Int => "int",
        Base::Real => "real",
        Base::Complex => "complex",
        Base::Vector => "vector",
        Base::RowVector => "row_vector",
        Base::Matrix => "matrix",
        Base::ComplexVector => "complex_vector",
        Base::ComplexRowVector => "complex_row_vector",
        Base::ComplexMatrix => "complex_matrix",
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dimensions > 0 {
            write!(f, "array[{}] ", ",".repeat(self.dimensions - 1))?;
        }
        match &self.element {
            TypeElement::Base(base) => f.write_str(word(*base)),
            TypeElement::Tuple(elements) => {
                let elements: Vec<_> = elements.iter().map(Type::to_string).collect();
                write!(f, "tuple({})", elements.join(", "))
            }
        }
    }
}
