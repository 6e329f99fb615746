//! The types of statements.

use super::Type;
use super::check::{Checked, Checker, Typed, mismatch};
use super::declaration::assignable;
use super::environment::{Block, Environment, normalized};
use super::expression::{binary, projected};
use super::signatures;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{
    Base, BinaryOp, DistributionStatement, Expr, Name, Place, PlaceKind, Printable, Statement, StatementKind, Step,
};

impl Checker {
    pub fn global_statement(&mut self, statement: &Statement, global: bool) {
        match &statement.kind {
            StatementKind::Declare(list) => {
                for declaration in list {
                    let result = self.declaration(declaration, global);
                    self.note(result);
                }
            }
            _ => self.statement(statement),
        }
    }

    /// Checks a statement; mistakes are noted, and what follows is checked all the same.
    pub fn statement(&mut self, statement: &Statement) {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Declare(_) => self.global_statement(statement, false),
            StatementKind::Block(list) | StatementKind::Profile(list) => self.scope(list),
            StatementKind::If { condition, then, otherwise } => {
                self.condition(condition);
                self.scope(std::slice::from_ref(then));
                if let Some(otherwise) = otherwise {
                    self.scope(std::slice::from_ref(otherwise));
                }
            }
            StatementKind::While { condition, body } => {
                self.condition(condition);
                self.loops += 1;
                self.scope(std::slice::from_ref(body));
                self.loops -= 1;
            }
            StatementKind::For { variable, from, to, body } => {
                for end in [from, to] {
                    let found = self.expression(end).and_then(|t| match t.ty == Type::INT {
                        true => Ok(()),
                        false => Err(mismatch(end.span, "the range of a loop", "int", &t.ty)),
                    });
                    self.note(found);
                }
                self.loop_body(variable, Typed { ty: Type::INT, autodiff: false }, body);
            }
            StatementKind::ForEach { variable, container, body } => {
                let element =
                    self.expression(container).and_then(|t| Ok(Typed { ty: element(&t.ty, container.span)?, ..t }));
                if let Some(element) = self.note(element) {
                    self.loop_body(variable, element, body);
                }
            }
            _ => {
                let result = self.simple(statement, span);
                self.note(result);
            }
        }
    }

    fn scope(&mut self, list: &[Statement]) {
        self.names.push();
        for statement in list {
            self.statement(statement);
        }
        self.names.pop();
    }

    fn loop_body(&mut self, variable: &Name, element: Typed, body: &Statement) {
        self.names.push();
        let declared = self.declare(variable, element.ty, true);
        self.note(declared);
        self.loops += 1;
        self.scope(std::slice::from_ref(body));
        self.loops -= 1;
        self.names.pop();
    }

    fn condition(&mut self, condition: &Expr) {
        let found = self.expression(condition).and_then(|t| match t.ty.base() {
            Some(Base::Int | Base::Real) => Ok(()),
            _ => Err(mismatch(condition.span, "a condition", "int or real", &t.ty)),
        });
        self.note(found);
    }

    /// Statements without statements in them.
    fn simple(&mut self, statement: &Statement, span: Span) -> Checked<()> {
        let wrong = |message: &str| Err(Diagnostic::new(span, message));
        match &statement.kind {
            StatementKind::Assign { target, op, value } => self.assignment(target, *op, value, span),
            StatementKind::AddToTarget(value) => {
                let found = self.expression(value)?;
                if !self.adds_to_target() {
                    return wrong("the target is added to in the model and in _lp functions only");
                }
                contributes(&found.ty, value.span)
            }
            StatementKind::AddToJacobian(value) => {
                let found = self.expression(value)?;
                let block = self.function.is_none() && self.block == Block::TransformedParameters;
                if !block && !self.in_function("_jacobian") {
                    return wrong("the Jacobian is added to in transformed parameters and in _jacobian functions only");
                }
                contributes(&found.ty, value.span)
            }
            StatementKind::Distribution(d) => self.distribution(d, span),
            StatementKind::Call(call) => self.call_statement(call, span),
            StatementKind::Print(list) | StatementKind::Reject(list) | StatementKind::FatalError(list) => {
                for item in list {
                    if let Printable::Value(value) = item {
                        self.expression(value)?;
                    }
                }
                Ok(())
            }
            StatementKind::Return(value) => self.return_statement(value.as_ref(), span),
            StatementKind::Break if self.loops == 0 => wrong("`break` leaves a loop, and there is none around it"),
            StatementKind::Continue if self.loops == 0 => {
                wrong("`continue` belongs in a loop, and there is none around it")
            }
            _ => Ok(()),
        }
    }

    fn adds_to_target(&self) -> bool {
        (self.function.is_none() && self.block == Block::Model) || self.in_function("_lp")
    }

    fn return_statement(&mut self, value: Option<&Expr>, span: Span) -> Checked<()> {
        let found = value.map(|v| self.expression(v)).transpose()?;
        let wrong = |message: String| Err(Diagnostic::new(span, message));
        let Some(function) = &self.function else {
            return wrong("`return` belongs in a function".to_owned());
        };
        match (&function.result, found) {
            (None, None) => Ok(()),
            (None, Some(_)) => wrong(format!("`{}` returns nothing: it is void", function.name)),
            (Some(ty), None) => wrong(format!("`{}` must return {ty}", function.name)),
            (Some(ty), Some(found)) if found.ty.promotion(ty).is_some() => Ok(()),
            (Some(ty), Some(found)) => wrong(format!("`{}` must return {ty}, not {}", function.name, found.ty)),
        }
    }

    fn assignment(&mut self, target: &Place, op: Option<BinaryOp>, value: &Expr, span: Span) -> Checked<()> {
        let to = self.place(target)?;
        let from = self.expression(value)?;
        let Some(op) = op else { return assignable(&to, &from.ty, value.span) };
        let elementwise = matches!(op, BinaryOp::ElementMultiply | BinaryOp::ElementDivide);
        match binary(op, &to, &from.ty) {
            Some(result) if result == to && !(elementwise && to.is_scalar()) => Ok(()),
            _ => Err(Diagnostic::new(span, format!("`{}=` does not apply to {to} and {}", op.symbol(), from.ty))),
        }
    }

    /// The type of what is assigned to, if it may be.
    fn place(&mut self, place: &Place) -> Checked<Type> {
        let (name, steps) = match &place.kind {
            PlaceKind::Variable { name, steps } => (name, steps),
            PlaceKind::Tuple(list) => {
                let types = list.iter().map(|p| self.place(p)).collect::<Checked<_>>()?;
                return Ok(Type::tuple(types));
            }
        };
        let Some(variable) = self.names.find(&name.text).cloned() else {
            let error = Diagnostic::new(name.span, format!("`{}` is not declared", name.text));
            return Err(match self.names.nearest(&name.text, std::iter::empty()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        };
        let refuse = |why: String| {
            let error = Diagnostic::new(place.span, format!("`{}` cannot be assigned to: {why}", name.text));
            Err(error.related(variable.span, "it is declared here"))
        };
        if variable.read_only {
            return refuse("it is the variable of a loop or the argument of a function".to_owned());
        }
        if variable.block != self.block || matches!(variable.block, Block::Data | Block::Parameters) {
            return refuse("it belongs to another block".to_owned());
        }
        let mut ty = variable.ty;
        for step in steps {
            ty = match step {
                Step::Index(indices) => self.index(&ty, indices, place.span)?,
                Step::Project(slot) => projected(&ty, *slot, place.span)?,
            };
        }
        Ok(ty)
    }

    /// `y ~ name(...)`.
    fn distribution(&mut self, d: &DistributionStatement, span: Span) -> Checked<()> {
        let variate = self.expression(&d.variate)?;
        let mut arguments = vec![variate];
        for argument in &d.arguments {
            arguments.push(self.expression(argument)?);
        }
        if !self.adds_to_target() {
            let error = Diagnostic::new(span, "distribution statements belong in the model and in _lp functions");
            return Err(error);
        }
        let name = &d.name.text;
        let known = |full: &str| self.names.has_function(full) || signatures::exists(&normalized(full));
        let suffixed = |suffix: &str| format!("{name}{suffix}");
        let candidates: Vec<String> = ["_lpdf", "_lpmf"].into_iter().map(suffixed).filter(|f| known(f)).collect();
        if candidates.is_empty() {
            let error = Diagnostic::new(d.name.span, format!("there is no distribution `{name}`"));
            let stem = ["_lpdf", "_lpmf", "_lupdf", "_lupmf"].iter().find_map(|s| name.strip_suffix(s));
            return Err(match stem {
                Some(stem) => error.help(format!("after `~` the name has no ending: write {stem}")),
                None => {
                    let stem = |n: &'static str| n.strip_suffix("_lpdf").or_else(|| n.strip_suffix("_lpmf"));
                    match Environment::default().nearest(name, signatures::names().filter_map(stem)) {
                        Some(near) => error.help(format!("did you mean `{near}`?")),
                        None => error,
                    }
                }
            });
        }
        let mut last = None;
        for candidate in candidates {
            let full = Name { text: candidate.into(), span: d.name.span };
            match self.resolve(&full, &arguments, span) {
                Ok(_) => return self.truncation(d, &arguments),
                Err(mistake) => last = Some(mistake),
            }
        }
        Err(last.unwrap_or_else(|| Diagnostic::new(span, "no such distribution")))
    }

    fn truncation(&mut self, d: &DistributionStatement, arguments: &[Typed]) -> Checked<()> {
        let Some((lower, upper)) = &d.truncation else { return Ok(()) };
        for bound in [lower, upper].into_iter().flatten() {
            let found = self.expression(bound)?;
            if !matches!(found.ty.base(), Some(Base::Int | Base::Real)) {
                return Err(mismatch(bound.span, "the bound of a truncation", "a number", &found.ty));
            }
        }
        let needed: &[&str] = match (lower, upper) {
            (Some(_), Some(_)) => &["_lcdf", "_lccdf"],
            (Some(_), None) => &["_lccdf"],
            (None, Some(_)) => &["_lcdf"],
            (None, None) => &[],
        };
        for suffix in needed {
            let full = Name { text: format!("{}{suffix}", d.name.text).into(), span: d.name.span };
            if let Err(mistake) = self.resolve(&full, arguments, d.name.span) {
                let message = format!("`{}` cannot be truncated: it needs a function `{}`", d.name.text, full.text);
                return Err(Diagnostic { message, ..mistake });
            }
        }
        Ok(())
    }
}

/// The type of what a loop over a container goes through.
fn element(ty: &Type, span: Span) -> Checked<Type> {
    if ty.dimensions > 0 {
        return Ok(Type { dimensions: ty.dimensions - 1, element: ty.element.clone() });
    }
    match ty.base() {
        Some(Base::Vector | Base::RowVector | Base::Matrix) => Ok(Type::REAL),
        Some(Base::ComplexVector | Base::ComplexRowVector | Base::ComplexMatrix) => Ok(Type::of(Base::Complex)),
        _ => Err(mismatch(span, "what a loop goes through", "an array, vector or matrix", ty)),
    }
}

/// What may be added to the target: numbers, and containers of them, which are summed.
fn contributes(ty: &Type, span: Span) -> Checked<()> {
    use super::TypeElement;
    let complex = [Base::Complex, Base::ComplexVector, Base::ComplexRowVector, Base::ComplexMatrix];
    match &ty.element {
        TypeElement::Base(base) if !complex.contains(base) => Ok(()),
        _ => Err(mismatch(span, "what is added to the target", "real, or a container of reals", ty)),
    }
}
