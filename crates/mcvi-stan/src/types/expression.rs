//! The types of expressions.

use super::check::{Checked, Checker, Typed, indexed, legal_name, mismatch};
use super::environment::Block;
use super::signatures;
use super::{Type, TypeElement};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp, Expr, ExprKind, Index, Name, UnaryOp};

/// The functions whose signatures an operator has; those of the first that fits.
pub fn operator_functions(op: BinaryOp) -> &'static [&'static str] {
    match op {
        BinaryOp::Or => &["logical_or"],
        BinaryOp::And => &["logical_and"],
        BinaryOp::Equal => &["logical_eq"],
        BinaryOp::NotEqual => &["logical_neq"],
        BinaryOp::Less => &["logical_lt"],
        BinaryOp::LessEqual => &["logical_lte"],
        BinaryOp::Greater => &["logical_gt"],
        BinaryOp::GreaterEqual => &["logical_gte"],
        BinaryOp::Add => &["add"],
        BinaryOp::Subtract => &["subtract"],
        BinaryOp::Multiply => &["multiply"],
        BinaryOp::Divide => &["mdivide_right", "divide"],
        BinaryOp::Modulo | BinaryOp::IntDivide => &["modulus"],
        BinaryOp::ElementMultiply => &["elt_multiply"],
        BinaryOp::ElementDivide => &["elt_divide"],
        BinaryOp::LeftDivide => &["mdivide_left"],
        BinaryOp::Power | BinaryOp::ElementPower => &["pow"],
    }
}

/// The type of a binary operation, if there is one.
pub fn binary(op: BinaryOp, a: &Type, b: &Type) -> Option<Type> {
    let arguments = [a.clone(), b.clone()];
    operator_functions(op).iter().find_map(|f| signatures::result(f, &arguments))
}

impl Checker {
    pub fn expression(&mut self, expr: &Expr) -> Checked<Typed> {
        let data = |ty: Type| Ok(Typed { ty, autodiff: false });
        match &expr.kind {
            ExprKind::Int(_) => data(Type::INT),
            ExprKind::Real(_) => data(Type::REAL),
            ExprKind::Imaginary => data(Type::of(Base::Complex)),
            ExprKind::Variable(name) => self.variable(name),
            ExprKind::Unary(op, inner) => self.unary(*op, inner, expr.span),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.expression(a)?, self.expression(b)?);
                let Some(ty) = binary(*op, &a.ty, &b.ty) else {
                    let message = format!("`{}` does not apply to {} and {}", op.symbol(), a.ty, b.ty);
                    let error = Diagnostic::new(expr.span, message);
                    let product = "`.*` multiplies element by element, x' * y is the inner product";
                    return Err(match (op, &a.ty.element, &b.ty.element) {
                        (BinaryOp::Multiply, TypeElement::Base(x), TypeElement::Base(y))
                            if x == y && matches!(x, Base::Vector | Base::RowVector) && a.ty.dimensions == 0 =>
                        {
                            error.help(product)
                        }
                        _ if a.ty.dimensions + b.ty.dimensions > 0 => {
                            error.help("arrays have no arithmetic: declare a vector, or write to_vector(...)")
                        }
                        _ => error,
                    });
                };
                let autodiff = (a.autodiff || b.autodiff) && !ty.is_discrete();
                Ok(Typed { ty, autodiff })
            }
            ExprKind::Transpose(inner) => {
                let inner = self.expression(inner)?;
                match signatures::result("transpose", std::slice::from_ref(&inner.ty)) {
                    Some(ty) => Ok(Typed { ty, ..inner }),
                    None => Err(mismatch(expr.span, "what is transposed", "a vector, row_vector or matrix", &inner.ty)),
                }
            }
            ExprKind::Conditional(parts) => self.conditional(parts, expr.span),
            ExprKind::Call(call) => self.call(call, expr.span),
            ExprKind::Index(inner, indices) => {
                let inner = self.expression(inner)?;
                let ty = self.index(&inner.ty, indices, expr.span)?;
                Ok(Typed { ty, autodiff: inner.autodiff })
            }
            ExprKind::Project(inner, slot) => {
                let inner = self.expression(inner)?;
                Ok(Typed { ty: projected(&inner.ty, *slot, expr.span)?, autodiff: inner.autodiff })
            }
            ExprKind::Array(list) => {
                let (ty, autodiff) = self.common(list, "the elements of an array")?;
                Ok(Typed { ty: ty.array(1), autodiff })
            }
            ExprKind::Row(list) => self.row(list, expr.span),
            ExprKind::Tuple(list) => {
                let list: Vec<Typed> = list.iter().map(|e| self.expression(e)).collect::<Checked<_>>()?;
                let autodiff = list.iter().any(|t| t.autodiff);
                Ok(Typed { ty: Type::tuple(list.into_iter().map(|t| t.ty).collect()), autodiff })
            }
            ExprKind::Target => {
                let block =
                    matches!(self.block, Block::Model | Block::TransformedParameters) && self.function.is_none();
                if !block && !self.in_function("_lp") {
                    let error =
                        Diagnostic::new(expr.span, "`target()` is only known in the model and in _lp functions");
                    return Err(error);
                }
                Ok(Typed { ty: Type::REAL, autodiff: true })
            }
        }
    }

    fn variable(&mut self, name: &Name) -> Checked<Typed> {
        legal_name(name)?;
        let Some(variable) = self.names.find(&name.text) else {
            let is_function = self.names.has_function(&name.text) || signatures::exists(&name.text);
            if is_function {
                let error = Diagnostic::new(name.span, format!("`{}` is a function, not a value", name.text));
                return Err(error.help(format!("call it: {}(...)", name.text)));
            }
            let error = Diagnostic::new(name.span, format!("`{}` is not declared", name.text)).label("not known here");
            return Err(match self.names.nearest(&name.text, std::iter::empty()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("declare it in data, parameters or another block before"),
            });
        };
        if self.in_sizes && !matches!(variable.block, Block::Data | Block::TransformedData | Block::Functions) {
            let error = Diagnostic::new(name.span, "sizes must be known from the data");
            return Err(error.related(variable.span, "this is not data"));
        }
        let autodiff = variable.autodiff && self.block != Block::GeneratedQuantities;
        Ok(Typed { ty: variable.ty.clone(), autodiff })
    }

    fn unary(&mut self, op: UnaryOp, inner: &Expr, span: Span) -> Checked<Typed> {
        let inner = self.expression(inner)?;
        let (symbol, function) = match op {
            UnaryOp::Plus => ("+", "plus"),
            UnaryOp::Minus => ("-", "minus"),
            UnaryOp::Not => ("!", "logical_negation"),
        };
        match signatures::result(function, std::slice::from_ref(&inner.ty)) {
            Some(ty) => Ok(Typed { ty, ..inner }),
            None => Err(Diagnostic::new(span, format!("`{symbol}` does not apply to {}", inner.ty))),
        }
    }

    fn conditional(&mut self, parts: &[Expr; 3], span: Span) -> Checked<Typed> {
        let condition = self.expression(&parts[0])?;
        if condition.ty != Type::INT {
            return Err(mismatch(parts[0].span, "the condition of `? :`", "int", &condition.ty));
        }
        let (a, b) = (self.expression(&parts[1])?, self.expression(&parts[2])?);
        match a.ty.common(&b.ty) {
            Some(ty) => Ok(Typed { ty, autodiff: a.autodiff || b.autodiff }),
            None => Err(Diagnostic::new(span, format!("both sides of `? :` must agree: {} and {}", a.ty, b.ty))),
        }
    }

    /// The common type of a list.
    fn common(&mut self, list: &[Expr], what: &str) -> Checked<(Type, bool)> {
        let first = self.expression(&list[0])?;
        let (mut ty, mut autodiff) = (first.ty, first.autodiff);
        for expr in &list[1..] {
            let next = self.expression(expr)?;
            autodiff |= next.autodiff;
            let Some(common) = ty.common(&next.ty) else {
                return Err(Diagnostic::new(expr.span, format!("{what} must agree: {ty} and {}", next.ty)));
            };
            ty = common;
        }
        Ok((ty, autodiff))
    }

    /// `[a, b]`: a row vector of numbers, or a matrix of row vectors.
    fn row(&mut self, list: &[Expr], span: Span) -> Checked<Typed> {
        if list.is_empty() {
            return Ok(Typed { ty: Type::of(Base::RowVector), autodiff: false });
        }
        let (ty, autodiff) = self.common(list, "the elements of a row vector or matrix")?;
        let base = match ty.base() {
            Some(Base::Int | Base::Real) => Base::RowVector,
            Some(Base::Complex) => Base::ComplexRowVector,
            Some(Base::RowVector) => Base::Matrix,
            Some(Base::ComplexRowVector) => Base::ComplexMatrix,
            _ => return Err(mismatch(span, "each element of `[ ]`", "a number or a row_vector", &ty)),
        };
        Ok(Typed { ty: Type::of(base), autodiff })
    }

    /// The type of a part.
    pub fn index(&mut self, ty: &Type, indices: &[Index], span: Span) -> Checked<Type> {
        let mut singles = vec![];
        for index in indices {
            match index {
                Index::Single(expr) => {
                    let found = self.expression(expr)?.ty;
                    if found != Type::INT && found != Type::INT.array(1) {
                        return Err(mismatch(expr.span, "an index", "int, an array of int, or a range", &found));
                    }
                    singles.push(found == Type::INT);
                }
                other => {
                    for expr in other.inner() {
                        let found = self.expression(expr)?.ty;
                        if found != Type::INT {
                            return Err(mismatch(expr.span, "the end of a range", "int", &found));
                        }
                    }
                    singles.push(false);
                }
            }
        }
        indexed(ty, &singles)
            .ok_or_else(|| Diagnostic::new(span, format!("{} indices are too many for {ty}", singles.len())))
    }
}

/// The type of an element of a tuple.
pub fn projected(ty: &Type, slot: usize, span: Span) -> Checked<Type> {
    match &ty.element {
        TypeElement::Tuple(elements) if ty.dimensions == 0 => match elements.get(slot.wrapping_sub(1)) {
            Some(element) => Ok(element.clone()),
            None => Err(Diagnostic::new(span, format!("a tuple of {} has no element {slot}", elements.len()))),
        },
        _ => Err(mismatch(span, "what has numbered elements", "a tuple", ty)),
    }
}
