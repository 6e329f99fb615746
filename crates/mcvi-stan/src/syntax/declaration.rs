//! Parsing of types and declarations.

use super::ast::{Base, Constraint, Declaration, Element, Expr, SizedType, Statement, StatementKind, UnsizedType};
use super::lexer::Kind;
use super::parser::{Parsed, Parser};
use crate::diagnostic::Diagnostic;
use std::sync::Arc;

/// The words that begin a type.
const TYPES: &[&str] = &[
    "array",
    "tuple",
    "int",
    "real",
    "complex",
    "vector",
    "row_vector",
    "matrix",
    "complex_vector",
    "complex_row_vector",
    "complex_matrix",
    "ordered",
    "positive_ordered",
    "simplex",
    "unit_vector",
    "sum_to_zero_vector",
    "sum_to_zero_matrix",
    "cholesky_factor_corr",
    "cholesky_factor_cov",
    "corr_matrix",
    "cov_matrix",
    "column_stochastic_matrix",
    "row_stochastic_matrix",
];

fn base(word: &str) -> Option<Base> {
    Some(match word {
        "int" => Base::Int,
        "real" => Base::Real,
        "complex" => Base::Complex,
        "vector" => Base::Vector,
        "row_vector" => Base::RowVector,
        "matrix" => Base::Matrix,
        "complex_vector" => Base::ComplexVector,
        "complex_row_vector" => Base::ComplexRowVector,
        "complex_matrix" => Base::ComplexMatrix,
        _ => return None,
    })
}

/// Types whose name says what values they have, and the least and largest number of sizes they are given.
fn constrained(word: &str) -> Option<(Base, Constraint, usize, usize)> {
    Some(match word {
        "ordered" => (Base::Vector, Constraint::Ordered, 1, 1),
        "positive_ordered" => (Base::Vector, Constraint::PositiveOrdered, 1, 1),
        "simplex" => (Base::Vector, Constraint::Simplex, 1, 1),
        "unit_vector" => (Base::Vector, Constraint::UnitVector, 1, 1),
        "sum_to_zero_vector" => (Base::Vector, Constraint::SumToZero, 1, 1),
        "sum_to_zero_matrix" => (Base::Matrix, Constraint::SumToZero, 2, 2),
        "cholesky_factor_corr" => (Base::Matrix, Constraint::CholeskyFactorCorr, 1, 1),
        "cholesky_factor_cov" => (Base::Matrix, Constraint::CholeskyFactorCov, 1, 2),
        "corr_matrix" => (Base::Matrix, Constraint::CorrMatrix, 1, 1),
        "cov_matrix" => (Base::Matrix, Constraint::CovMatrix, 1, 1),
        "column_stochastic_matrix" => (Base::Matrix, Constraint::ColumnStochastic, 2, 2),
        "row_stochastic_matrix" => (Base::Matrix, Constraint::RowStochastic, 2, 2),
        _ => return None,
    })
}

/// Whether a type may have constraints, and its variables values.
#[derive(Clone, Copy, PartialEq)]
struct Where {
    constraints: bool,
    values: bool,
}

impl Parser {
    pub fn is_declaration(&self) -> bool {
        matches!(self.kind(), Kind::Symbol(s) if TYPES.contains(s))
    }

    /// A declaration at the top of a block.
    pub fn global_declaration(&mut self, values: bool) -> Parsed<Statement> {
        if self.is(";") {
            let span = self.advance().span;
            return Ok(Statement { kind: StatementKind::Empty, span });
        }
        if !self.is_declaration() {
            return self.expected("the declaration of a variable, such as `real x;`");
        }
        self.declaration(Where { constraints: true, values })
    }

    /// A declaration within a block: types have no constraints there.
    pub fn local_declaration(&mut self) -> Parsed<Statement> {
        self.declaration(Where { constraints: false, values: true })
    }

    fn declaration(&mut self, place: Where) -> Parsed<Statement> {
        let start = self.span();
        let ty = Arc::new(self.nested(|p| p.sized_type(place))?);
        let mut list = vec![];
        loop {
            let name = self.name("the name of a variable")?;
            let mut trailing = vec![];
            if self.eat("[") {
                trailing = self.list("]", Self::expression)?;
            }
            let value = match self.kind() {
                Kind::Symbol("=") if place.values => {
                    self.advance();
                    Some(self.expression()?)
                }
                Kind::Symbol("=") => {
                    let error =
                        Diagnostic::new(self.span(), "variables of this block are given their values from outside");
                    return Err(error.help("assign in `transformed data` or `transformed parameters`"));
                }
                _ => None,
            };
            list.push(Declaration { ty: ty.clone(), name, trailing, value });
            if !self.eat(",") {
                break;
            }
        }
        if !self.is(";") {
            return self.missing_end();
        }
        self.advance();
        Ok(Statement { kind: StatementKind::Declare(list), span: self.since(start) })
    }

    fn sized_type(&mut self, place: Where) -> Parsed<SizedType> {
        let start = self.span();
        let mut array = vec![];
        if self.eat("array") {
            self.expect("[")?;
            array = self.list("]", Self::expression)?;
            if array.is_empty() {
                return Err(Diagnostic::new(self.since(start), "an array needs sizes").help("write array[N]"));
            }
        }
        let element = self.element(place)?;
        Ok(SizedType { array, element, span: self.since(start) })
    }

    fn element(&mut self, place: Where) -> Parsed<Element> {
        let start = self.span();
        let Kind::Symbol(word) = *self.kind() else { return self.expected("a type") };
        if word == "tuple" {
            self.advance();
            self.expect("(")?;
            let list = self.list(")", |p| p.nested(|p| p.sized_type(place)))?;
            return Ok(Element::Tuple(list));
        }
        if let Some((base, constraint, least, most)) = constrained(word) {
            self.advance();
            if !place.constraints {
                let error =
                    Diagnostic::new(start, format!("`{word}` is a constraint, which local variables cannot have"));
                return Err(error.help("declare a vector or a matrix"));
            }
            let mut sizes = self.sizes(least, most)?;
            if base == Base::Matrix && sizes.len() == 1 {
                sizes.push(sizes[0].clone());
            }
            return Ok(Element::Base { base, sizes, constraint });
        }
        let Some(base) = base(word) else { return self.expected("a type") };
        self.advance();
        let constraint = if self.is("<") { self.constraint(base, place)? } else { Constraint::None };
        let count = match base {
            Base::Int | Base::Real | Base::Complex => 0,
            Base::Matrix | Base::ComplexMatrix => 2,
            _ => 1,
        };
        let sizes = if count == 0 { vec![] } else { self.sizes(count, count)? };
        Ok(Element::Base { base, sizes, constraint })
    }

    fn sizes(&mut self, least: usize, most: usize) -> Parsed<Vec<Expr>> {
        let start = self.expect("[")?;
        let sizes = self.list("]", Self::expression)?;
        if (least..=most).contains(&sizes.len()) {
            return Ok(sizes);
        }
        let error = Diagnostic::new(self.since(start), format!("{} sizes where {most} belong", sizes.len()));
        Err(error.help("arrays are declared as array[N] vector[K] x"))
    }

    /// `<lower=a, upper=b>` or `<offset=a, multiplier=b>`.
    fn constraint(&mut self, base: Base, place: Where) -> Parsed<Constraint> {
        let start = self.advance().span;
        let mut found: Vec<(&'static str, Expr)> = vec![];
        loop {
            let span = self.span();
            let word = match *self.kind() {
                Kind::Symbol(word @ ("lower" | "upper" | "offset" | "multiplier")) => word,
                _ => return self.expected("`lower`, `upper`, `offset` or `multiplier`"),
            };
            self.advance();
            self.expect("=")?;
            let value = self.bound()?;
            if found.iter().any(|(w, _)| *w == word) {
                return Err(Diagnostic::new(span, format!("`{word}` is given twice")));
            }
            found.push((word, value));
            if self.eat(">") {
                break;
            }
            if !self.eat(",") {
                return self.expected("`,` or `>`");
            }
        }
        if !place.constraints {
            let error = Diagnostic::new(self.since(start), "local variables have no constraints");
            return Err(error.help("leave it out; values can be checked with `if` and `reject`"));
        }
        let mut take = |word: &str| {
            let i = found.iter().position(|(w, _)| *w == word)?;
            Some(found.swap_remove(i).1)
        };
        let (lower, upper) = (take("lower"), take("upper"));
        let (offset, multiplier) = (take("offset"), take("multiplier"));
        let bounds = lower.is_some() || upper.is_some();
        let affine = offset.is_some() || multiplier.is_some();
        if bounds && affine {
            return Err(Diagnostic::new(self.since(start), "bounds cannot be combined with offset and multiplier"));
        }
        if affine && base == Base::Int {
            return Err(Diagnostic::new(self.since(start), "whole numbers have no offset or multiplier"));
        }
        Ok(if bounds { Constraint::Bounds { lower, upper } } else { Constraint::Affine { offset, multiplier } })
    }

    /// A type in the signature of a function, such as `array[,] real`.
    pub fn unsized_type(&mut self) -> Parsed<UnsizedType> {
        let mut dimensions = 0;
        if self.eat("array") {
            dimensions = self.empty_brackets()?;
        }
        if self.eat("tuple") {
            self.expect("(")?;
            let elements = self.list(")", |p| p.nested(Self::unsized_type))?;
            return Ok(UnsizedType::Tuple { elements, dimensions });
        }
        let Kind::Symbol(word) = *self.kind() else { return self.expected("a type") };
        let Some(base) = base(word) else {
            if constrained(word).is_some() {
                let error =
                    Diagnostic::new(self.span(), format!("`{word}` is a constraint: functions take plain types"));
                return Err(error.help("write vector or matrix"));
            }
            return self.expected("a type");
        };
        self.advance();
        // Older programs have the brackets after the type.
        if dimensions == 0 && self.is("[") {
            dimensions = self.empty_brackets()?;
        }
        Ok(UnsizedType::Base { base, dimensions })
    }

    /// `[,,]`: how many dimensions.
    fn empty_brackets(&mut self) -> Parsed<usize> {
        self.expect("[")?;
        let mut count = 1;
        while self.eat(",") {
            count += 1;
        }
        self.expect("]")?;
        Ok(count)
    }
}
