//! Calls of functions of the program.

use super::{CALLS, Flow, Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::{Base, Call, ExprKind, Function};
use crate::types::Type;
use crate::value::Value;

/// The function of a list that takes these values with the fewest promotions.
pub fn fitting<'p>(list: &[&'p Function], arguments: &[Value]) -> Option<&'p Function> {
    let cost = |f: &'p Function| -> Option<usize> {
        if f.parameters.len() != arguments.len() {
            return None;
        }
        let each = f.parameters.iter().zip(arguments).map(|(p, a)| a.ty().promotion(&Type::from_unsized(&p.ty)));
        each.sum()
    };
    list.iter().filter_map(|f| Some((cost(f)?, *f))).min_by_key(|(cost, _)| *cost).map(|(_, f)| f)
}

impl<'p> Machine<'p> {
    /// A call, of a function of the program or of Stan.
    pub fn call(&mut self, call: &'p Call, span: Span) -> Run<Value> {
        if self.takes_function(&call.name.text) {
            return self.higher_order(call, span);
        }
        let arguments: Vec<Value> = call.arguments.iter().map(|a| self.expression(a)).collect::<Run<_>>()?;
        self.apply(&call.name.text, arguments, span)
    }

    /// A call as a statement.
    pub fn call_user(&mut self, call: &'p Call, span: Span) -> Run<()> {
        let arguments: Vec<Value> = call.arguments.iter().map(|a| self.expression(a)).collect::<Run<_>>()?;
        match self.find_user(&call.name.text, &arguments) {
            Some(function) => self.run(function, arguments, span).map(|_| ()),
            None => fail(span, format!("`{}` is not supported", call.name.text)),
        }
    }

    /// Applies a function by name to values.
    pub fn apply(&mut self, name: &str, arguments: Vec<Value>, span: Span) -> Run<Value> {
        let name = match (name.strip_suffix("_lupdf"), name.strip_suffix("_lupmf")) {
            (Some(stem), _) => &format!("{stem}_lpdf"),
            (_, Some(stem)) => &format!("{stem}_lpmf"),
            _ => name,
        };
        match self.find_user(name, &arguments) {
            Some(function) => match self.run(function, arguments, span)? {
                Some(value) => Ok(value),
                None => fail(span, format!("`{name}` returned nothing")),
            },
            None => self.library(name, arguments, span),
        }
    }

    /// The function of the program that takes these values with the fewest promotions.
    pub fn find_user(&self, name: &str, arguments: &[Value]) -> Option<&'p Function> {
        let list = self.functions.get(name)?;
        if let [one] = list.as_slice() {
            return (one.parameters.len() == arguments.len()).then_some(*one);
        }
        fitting(list, arguments)
    }

    pub fn run(&mut self, function: &'p Function, arguments: Vec<Value>, span: Span) -> Run<Option<Value>> {
        self.step(span)?;
        let Some(body) = &function.body else { return fail(span, "the function has no definition") };
        if self.calls >= CALLS {
            return fail(span, format!("functions call each other more than {CALLS} deep"));
        }
        self.calls += 1;
        let floor = self.scope.hide();
        for (parameter, value) in function.parameters.iter().zip(arguments) {
            let value = match Type::from_unsized(&parameter.ty).element {
                crate::types::TypeElement::Base(base) => value.promoted(base),
                crate::types::TypeElement::Tuple(_) => return fail(span, "tuples are not supported"),
            };
            self.scope.declare(parameter.name.text.clone(), value);
        }
        let after = std::mem::take(&mut self.after);
        let flow = self.block(std::slice::from_ref(body));
        self.after = after;
        self.scope.reveal(floor);
        self.calls -= 1;
        match flow? {
            Flow::Return(Some(value)) => match function.result.as_ref().map(Type::from_unsized) {
                Some(ty) if ty.element == crate::types::TypeElement::Base(Base::Real) => {
                    Ok(Some(value.promoted(Base::Real)))
                }
                _ => Ok(Some(value)),
            },
            Flow::Return(None) => Ok(None),
            _ if function.result.is_some() => fail(span, format!("`{}` returned no value", function.name.text)),
            _ => Ok(None),
        }
    }

    fn takes_function(&self, name: &str) -> bool {
        matches!(name, "reduce_sum" | "reduce_sum_static")
            || ["integrate_", "ode_", "algebra_solver", "solve_", "dae", "map_rect", "laplace_"]
                .iter()
                .any(|p| name.starts_with(p))
    }

    /// Calls that take a function of the program.
    fn higher_order(&mut self, call: &'p Call, span: Span) -> Run<Value> {
        let Some(ExprKind::Variable(name)) = call.arguments.first().map(|a| &a.kind) else {
            return fail(span, format!("`{}` is not supported", call.name.text));
        };
        let mut arguments: Vec<Value> = call.arguments[1..].iter().map(|a| self.expression(a)).collect::<Run<_>>()?;
        match &*call.name.text {
            "reduce_sum" | "reduce_sum_static" => {
                // One piece: the whole array.
                let n = arguments[0].shape[0] as i64;
                arguments.remove(1);
                arguments.insert(1, Value::int(1));
                arguments.insert(2, Value::int(n));
                if n == 0 { Ok(Value::real(0.0)) } else { self.apply(&name.text, arguments, span) }
            }
            "map_rect" => self.map_rect(&name.text, &arguments, span),
            "ode_rk45"
            | "ode_bdf"
            | "ode_adams"
            | "ode_ckrk"
            | "ode_rk45_tol"
            | "ode_bdf_tol"
            | "ode_adams_tol"
            | "ode_ckrk_tol"
            | "integrate_ode"
            | "integrate_ode_rk45"
            | "integrate_ode_bdf"
            | "integrate_ode_adams" => self.ode(&call.name.text, &name.text, &arguments, span),
            other => fail(span, format!("`{other}` is not supported")),
        }
    }

    fn map_rect(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Value> {
        let [shared, each, reals, ints] = arguments else { return fail(span, "`map_rect` takes five arguments") };
        let mut parts = vec![];
        for i in 0..each.shape[0] {
            parts.push(self.apply(
                name,
                vec![shared.clone(), each.element(i), reals.element(i), ints.element(i)],
                span,
            )?);
        }
        let all = parts.iter().map(Value::len).sum();
        if parts.is_empty() {
            return Ok(Value::vector(crate::trace::Flat::from_numbers(vec![])));
        }
        Ok(Value { base: Base::Vector, shape: vec![all], flat: super::expression::joined(&parts) })
    }
}
