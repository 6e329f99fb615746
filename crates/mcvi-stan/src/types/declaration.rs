//! The types of declarations: sizes, bounds and first values.

use super::check::{Checked, Checker, mismatch};
use super::environment::Block;
use super::{Type, TypeElement};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Base, Constraint, Declaration, Element, Expr, SizedType};

impl Checker {
    pub fn declaration(&mut self, declaration: &Declaration, global: bool) -> Checked<()> {
        let ty = Type::from_sized(&declaration.ty).array(declaration.trailing.len());
        // Parts are checked before the name is known, but the name is known even if they are wrong.
        let sizes = self.sizes(&declaration.ty, &declaration.trailing, global);
        let bounds = self.bounds(&declaration.ty, declaration.trailing.len());
        self.declare(&declaration.name, ty.clone(), false)?;
        sizes?;
        bounds?;
        let parameter = matches!(self.block, Block::Parameters | Block::TransformedParameters);
        if parameter && global && ty.contains_int() {
            let error = Diagnostic::new(declaration.name.span, "parameters cannot be whole numbers");
            return Err(error.help("sum over the values of discrete parameters in the model"));
        }
        if let Some(value) = &declaration.value {
            let found = self.expression(value)?;
            assignable(&ty, &found.ty, value.span)?;
        }
        Ok(())
    }

    fn sizes(&mut self, ty: &SizedType, trailing: &[Expr], global: bool) -> Checked<()> {
        let sizes = match &ty.element {
            Element::Base { sizes, .. } => sizes.as_slice(),
            Element::Tuple(elements) => {
                for element in elements {
                    self.sizes(element, &[], global)?;
                }
                &[]
            }
        };
        for size in trailing.iter().chain(&ty.array).chain(sizes) {
            self.in_sizes = global;
            let found = self.expression(size);
            self.in_sizes = false;
            let found = found?;
            if found.ty != Type::INT {
                return Err(mismatch(size.span, "a size", "int", &found.ty));
            }
        }
        Ok(())
    }

    fn bounds(&mut self, ty: &SizedType, trailing: usize) -> Checked<()> {
        let (base, constraint) = match &ty.element {
            Element::Base { base, constraint, .. } => (*base, constraint),
            Element::Tuple(elements) => {
                return elements.iter().try_for_each(|element| self.bounds(element, 0));
            }
        };
        let parts = match constraint {
            Constraint::Bounds { lower, upper } => [lower, upper],
            Constraint::Affine { offset, multiplier } => [offset, multiplier],
            _ => return Ok(()),
        };
        let complex = [Base::Complex, Base::ComplexVector, Base::ComplexRowVector, Base::ComplexMatrix];
        if complex.contains(&base) {
            return Err(Diagnostic::new(ty.span, "complex numbers have no order: they have no bounds"));
        }
        let whole = Type::of(base).array(ty.array.len() + trailing);
        for bound in parts.into_iter().flatten() {
            let found = self.expression(bound)?;
            let number = found.ty == Type::INT || (found.ty == Type::REAL && base != Base::Int);
            let same = found.ty.promotion(&whole).is_some() || found.ty == Type::of(base);
            if !(number || same) {
                let expected = if base == Base::Int { "int".to_owned() } else { format!("a number or {whole}") };
                return Err(mismatch(bound.span, "a bound", &expected, &found.ty));
            }
        }
        Ok(())
    }
}

/// Whether a value can be given to a variable.
pub fn assignable(to: &Type, from: &Type, span: Span) -> Checked<()> {
    if from.promotion(to).is_some() {
        return Ok(());
    }
    let error = Diagnostic::new(span, format!("a value of type {from} cannot be given to a variable of type {to}"));
    let base = |t: &Type| match &t.element {
        TypeElement::Base(base) => Some(*base),
        TypeElement::Tuple(_) => None,
    };
    Err(match (base(to), base(from)) {
        (Some(Base::Int), Some(Base::Real)) => error.help("a real becomes an int by to_int, if it is data"),
        (Some(Base::Vector), Some(Base::RowVector)) | (Some(Base::RowVector), Some(Base::Vector)) => {
            error.help("transpose it: x'")
        }
        (Some(Base::Vector), Some(Base::Real)) if from.dimensions > 0 => error.help("write to_vector(x)"),
        _ => error,
    })
}
