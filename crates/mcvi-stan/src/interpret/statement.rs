//! Execution of statements.

use super::{Flow, Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::{Expr, Name, Printable, Statement, StatementKind};
use crate::trace::{Cell, Flat};
use crate::value::{Selection, Value};

impl<'p> Machine<'p> {
    pub fn statements(&mut self, list: &'p [Statement]) -> Run<Flow> {
        for (i, statement) in list.iter().enumerate() {
            let depth = self.after.len();
            let is_loop = matches!(
                statement.kind,
                StatementKind::While { .. } | StatementKind::For { .. } | StatementKind::ForEach { .. }
            );
            self.after.push((!is_loop).then_some(&list[i + 1..]));
            let flow = self.statement(statement);
            self.after.truncate(depth);
            match flow? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// Statements with variables of their own.
    pub fn block(&mut self, list: &'p [Statement]) -> Run<Flow> {
        let mark = self.scope.enter();
        let flow = self.statements(list);
        self.scope.leave(mark);
        flow
    }

    pub fn statement(&mut self, statement: &'p Statement) -> Run<Flow> {
        let span = statement.span;
        self.step(span)?;
        self.at(span);
        match &statement.kind {
            StatementKind::Declare(list) => {
                for declaration in list {
                    self.declare(declaration)?;
                }
            }
            StatementKind::Assign { target, op, value } => {
                let value = self.expression(value)?;
                self.assign(target, *op, value, span)?;
            }
            StatementKind::AddToTarget(value) if self.simulation.is_some() => self.simulate_term(value, span)?,
            StatementKind::Distribution(d) if self.simulation.is_some() => self.simulate_statement(d, span)?,
            StatementKind::AddToTarget(value) | StatementKind::AddToJacobian(value) => {
                let value = self.expression(value)?;
                self.add_to_target(&value);
            }
            StatementKind::Distribution(d) => self.distribution(d, span)?,
            StatementKind::Call(call) => {
                self.call_user(call, span)?;
            }
            StatementKind::Print(list) => {
                let text = self.text(list)?;
                self.printed.push(text);
            }
            StatementKind::Reject(list) => {
                let text = self.text(list)?;
                return fail(span, format!("the program rejects: {text}"));
            }
            StatementKind::FatalError(list) => {
                let text = self.text(list)?;
                return fail(span, format!("the program stops: {text}"));
            }
            StatementKind::Return(value) => {
                let value = value.as_ref().map(|v| self.expression(v)).transpose()?;
                return Ok(Flow::Return(value));
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::Empty => {}
            StatementKind::If { condition, then, otherwise } => {
                let value = self.expression(condition)?;
                return match value.number() {
                    Some(x) if x != 0.0 => self.block(std::slice::from_ref(then)),
                    Some(_) => otherwise.as_deref().map_or(Ok(Flow::Next), |o| self.block(std::slice::from_ref(o))),
                    None => self.branch(&value, then, otherwise.as_deref(), span),
                };
            }
            StatementKind::While { condition, body } => return self.while_loop(condition, body, span),
            StatementKind::For { variable, from, to, body } => {
                let (from, to) = (self.whole(from)?, self.whole(to)?);
                return self.for_loop(variable, (from..=to).map(Value::int), body, span);
            }
            StatementKind::ForEach { variable, container, body } => {
                let container = self.expression(container)?;
                // A matrix is gone through column by column.
                let elements: Vec<Value> = match container.shape.as_slice() {
                    [rows, cols] if container.dimensions() == 0 => (0..rows * cols)
                        .map(|k| container.at(&[Selection::One(k % rows), Selection::One(k / rows)]))
                        .collect(),
                    [n, ..] => (0..*n).map(|i| container.element(i)).collect(),
                    [] => vec![],
                };
                return self.for_loop(variable, elements.into_iter(), body, span);
            }
            StatementKind::Block(list) | StatementKind::Profile(list) => return self.block(list),
        }
        Ok(Flow::Next)
    }

    fn while_loop(&mut self, condition: &'p Expr, body: &'p Statement, span: Span) -> Run<Flow> {
        loop {
            self.step(span)?;
            let value = self.expression(condition)?;
            let Some(x) = value.number() else {
                return fail(condition.span, "how often a loop runs cannot depend on parameters");
            };
            if x == 0.0 {
                return Ok(Flow::Next);
            }
            match self.block(std::slice::from_ref(body))? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                other => return Ok(other),
            }
        }
    }

    fn for_loop(
        &mut self,
        variable: &Name,
        values: impl Iterator<Item = Value>,
        body: &'p Statement,
        span: Span,
    ) -> Run<Flow> {
        let mark = self.scope.enter();
        for value in values {
            self.step(span)?;
            self.scope.declare(variable.text.clone(), value);
            let flow = self.block(std::slice::from_ref(body))?;
            self.scope.leave(mark);
            match flow {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// A whole number.
    pub fn whole(&mut self, expr: &'p Expr) -> Run<i64> {
        let value = self.expression(expr)?;
        match value.number() {
            Some(x) => Ok(x as i64),
            None => fail(expr.span, "this must be known: it cannot depend on parameters"),
        }
    }

    /// Adds all numbers of a value to the target.
    pub fn add_to_target(&mut self, value: &Value) {
        match &value.flat {
            Flat::Part { len, .. } if *len > 8 => {
                let sum = self.sum(value);
                self.target.push(sum.flat.cell(0));
            }
            flat => self.target.extend(flat.cells()),
        }
    }

    fn text(&mut self, list: &'p [Printable]) -> Run<String> {
        let mut out = String::new();
        for item in list {
            match item {
                Printable::Text(text) => out.push_str(text),
                Printable::Value(value) => {
                    let value = self.expression(value)?;
                    let show = |c: Cell| match c {
                        Cell::Number(x) => x.to_string(),
                        Cell::Element(..) => "(depends on parameters)".to_owned(),
                    };
                    let list: Vec<String> = value.flat.cells().map(show).collect();
                    out.push_str(&if value.is_scalar() { list.concat() } else { format!("[{}]", list.join(",")) });
                }
            }
        }
        Ok(out)
    }
}
