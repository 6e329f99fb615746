//! The functions block: signatures first, so that functions can call each other, then bodies.

use super::Type;
use super::check::{Checked, Checker, Within, legal_name};
use super::environment::{Block, Signature, Variable};
use super::{higher_order, signatures};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Function, Statement, StatementKind};
use std::sync::Arc;

impl Checker {
    pub fn functions(&mut self, functions: &[Arc<Function>]) {
        for function in functions {
            let result = self.declare_function(function);
            self.note(result);
        }
        let undefined: Vec<Diagnostic> = self
            .names
            .functions
            .iter()
            .filter(|f| !f.defined)
            .map(|f| Diagnostic::new(f.span, format!("`{}` is declared but not defined", f.name)))
            .collect();
        for mistake in undefined {
            self.note::<()>(Err(mistake));
        }
        for function in functions {
            let result = self.function_body(function);
            self.note(result);
        }
    }

    fn declare_function(&mut self, function: &Function) -> Checked<()> {
        let name = &function.name;
        legal_name(name)?;
        let wrong = |message: String| Err(Diagnostic::new(name.span, message));
        if higher_order::kind(&name.text).is_some() {
            return wrong(format!("`{}` is a function of Stan and cannot be defined again", name.text));
        }
        if name.text.ends_with("_lupdf") || name.text.ends_with("_lupmf") {
            return wrong("densities are defined with all constants: _lpdf or _lpmf".to_owned());
        }
        let parameters: Vec<(Type, bool)> =
            function.parameters.iter().map(|p| (Type::from_unsized(&p.ty), p.data_only)).collect();
        let types: Vec<Type> = parameters.iter().map(|(ty, _)| ty.clone()).collect();
        let result = function.result.as_ref().map(Type::from_unsized);
        let defined = function.body.is_some();
        let same = |f: &&mut Signature| *f.name == *name.text && f.parameters.iter().map(|(ty, _)| ty).eq(types.iter());
        if let Some(other) = self.names.functions.iter_mut().find(same) {
            let completes = !other.defined && defined && other.result == result && other.parameters == parameters;
            if !completes {
                let error = Diagnostic::new(name.span, format!("`{}` is defined twice for these types", name.text));
                return Err(error.related(other.span, "it is defined here"));
            }
            other.defined = true;
            return Ok(());
        }
        if signatures::has_exactly(&name.text, &types) {
            return wrong(format!("`{}` is a function of Stan for these types already", name.text));
        }
        self.names.functions.push(Signature { name: name.text.clone(), parameters, result, defined, span: name.span });
        Ok(())
    }

    fn function_body(&mut self, function: &Function) -> Checked<()> {
        let name = &function.name.text;
        let result = function.result.as_ref().map(Type::from_unsized);
        let wrong = |message: String| Err(Diagnostic::new(function.name.span, message));
        let is_density = ["_lpdf", "_lpmf", "_cdf", "_lcdf", "_lccdf"].iter().any(|s| name.ends_with(s));
        if is_density && result != Some(Type::REAL) {
            return wrong(format!("`{name}` is a density by its name: it must return real"));
        }
        let first = function.parameters.first().map(|p| Type::from_unsized(&p.ty));
        if name.ends_with("_lpdf") && first.as_ref().is_none_or(Type::is_discrete) {
            return wrong(format!("the first argument of `{name}` must be real: it is a density"));
        }
        if name.ends_with("_lpmf") && !first.as_ref().is_some_and(Type::is_discrete) {
            return wrong(format!("the first argument of `{name}` must be int: it is a probability"));
        }
        self.block = Block::Functions;
        self.function = Some(Within { name: name.to_string(), result: result.clone() });
        self.names.push();
        for parameter in &function.parameters {
            let ty = Type::from_unsized(&parameter.ty);
            let autodiff = !parameter.data_only && !ty.is_discrete();
            let span = parameter.name.span;
            let variable = Variable { ty: Type::INT, block: Block::Functions, read_only: true, autodiff, span };
            let declared = self.declare_with(&parameter.name, ty, variable);
            self.note(declared);
        }
        if let Some(body) = &function.body {
            self.statement(body);
            if result.is_some() && !returns(body) {
                let error = Diagnostic::new(function.name.span, format!("`{name}` does not always return a value"));
                self.note::<()>(Err(error.help("return a value, or reject, at the end of every branch")));
            }
        }
        self.names.pop();
        self.function = None;
        Ok(())
    }
}

/// Whether a statement never ends without returning.
fn returns(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(_) | StatementKind::Reject(_) | StatementKind::FatalError(_) => true,
        StatementKind::Block(list) | StatementKind::Profile(list) => list.iter().any(returns),
        StatementKind::If { then, otherwise: Some(otherwise), .. } => returns(then) && returns(otherwise),
        // A loop that runs forever, and is not left, returns or never ends.
        StatementKind::While { condition, body } => {
            let forever = matches!(condition.kind, crate::syntax::ast::ExprKind::Int(n) if n != 0);
            forever && returns(body) && !breaks(body)
        }
        _ => false,
    }
}

/// Whether a statement leaves the loop around it.
fn breaks(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Break => true,
        StatementKind::Block(list) | StatementKind::Profile(list) => list.iter().any(breaks),
        StatementKind::If { then, otherwise, .. } => breaks(then) || otherwise.as_deref().is_some_and(breaks),
        _ => false,
    }
}
