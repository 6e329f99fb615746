//! Branches on parameters: both sides are run, and what differs is selected.

use super::scope::Scope;
use super::{Flow, Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Statement, StatementKind};
use crate::trace::Cell;
use crate::value::Value;

/// What a side of a branch left.
struct Side {
    scope: Scope,
    target: Vec<Cell>,
    flow: Flow,
    /// It rejects: its density is 0.
    rejects: bool,
}

impl<'p> Machine<'p> {
    /// `if (condition) then else otherwise`, and what follows in the block, where the condition depends on parameters.
    /// If one side returns, what follows belongs to the other.
    pub fn branch_then(
        &mut self,
        condition: &Value,
        then: &'p Statement,
        otherwise: Option<&'p Statement>,
        rest: &'p [Statement],
        span: Span,
    ) -> Run<Flow> {
        let floor = self.scope.enter();
        let yes = self.side(Some(then), &[])?;
        let no = self.side(otherwise, &[])?;
        match (&yes.flow, &no.flow) {
            (Flow::Next, Flow::Next) => {
                self.merge(condition, yes, no, floor, span)?;
                self.statements(rest)
            }
            (Flow::Return(Some(_)), Flow::Return(Some(_))) => self.merge(condition, yes, no, floor, span),
            (Flow::Return(_), Flow::Next) => {
                let no = self.side(otherwise, rest)?;
                self.join_returns(condition, yes, no, floor, span)
            }
            (Flow::Next, Flow::Return(_)) => {
                let yes = self.side(Some(then), rest)?;
                self.join_returns(condition, yes, no, floor, span)
            }
            _ => fail(span, "a branch on parameters cannot leave a loop").map_err(help),
        }
    }

    fn join_returns(&mut self, condition: &Value, yes: Side, no: Side, floor: usize, span: Span) -> Run<Flow> {
        match (&yes.flow, &no.flow) {
            (Flow::Return(Some(_)), Flow::Return(Some(_))) => self.merge(condition, yes, no, floor, span),
            _ => fail(span, "a branch on parameters must return on both sides, or on none").map_err(help),
        }
    }

    /// Runs one side from the state before, which is restored.
    fn side(&mut self, statement: Option<&'p Statement>, rest: &'p [Statement]) -> Run<Side> {
        let before = (self.scope.clone(), self.target.len());
        let mut flow = Flow::Next;
        let mut rejects = false;
        if let Some(statement) = statement {
            let body = match &statement.kind {
                StatementKind::Block(list) => list.as_slice(),
                _ => std::slice::from_ref(statement),
            };
            if body.iter().any(|s| matches!(s.kind, StatementKind::Reject(_))) {
                rejects = true;
            } else {
                flow = self.block(body)?;
            }
        }
        if matches!(flow, Flow::Next) && !rest.is_empty() && !rejects {
            flow = self.block(rest)?;
        }
        let target = self.target.split_off(before.1);
        let scope = std::mem::replace(&mut self.scope, before.0);
        Ok(Side { scope, target, flow, rejects })
    }

    /// Selects what both sides left.
    fn merge(&mut self, condition: &Value, yes: Side, no: Side, floor: usize, span: Span) -> Run<Flow> {
        let pairs: Vec<(usize, Value, Value)> = yes
            .scope
            .slots()
            .iter()
            .zip(no.scope.slots())
            .take(floor)
            .enumerate()
            .filter(|(_, (a, b))| !a.value.flat.is_same(&b.value.flat))
            .map(|(i, (a, b))| (i, a.value.clone(), b.value.clone()))
            .collect();
        let both: Vec<(usize, Value)> =
            yes.scope.slots().iter().take(floor).map(|s| s.value.clone()).enumerate().collect();
        for (i, value) in both {
            self.scope.slots_mut()[i].value = value;
        }
        for (i, a, b) in pairs {
            let value = self.select(condition, &a, &b, span)?;
            self.scope.slots_mut()[i].value = value;
        }
        let add = |machine: &mut Self, side: &Side| {
            if side.rejects {
                return Value::real(f64::NEG_INFINITY);
            }
            machine.total(&side.target)
        };
        if !yes.target.is_empty() || !no.target.is_empty() || yes.rejects || no.rejects {
            let (a, b) = (add(self, &yes), add(self, &no));
            let chosen = self.select(condition, &a, &b, span)?;
            self.add_to_target(&chosen);
        }
        match (yes.flow, no.flow) {
            (Flow::Return(Some(a)), Flow::Return(Some(b))) => {
                Ok(Flow::Return(Some(self.select(condition, &a, &b, span)?)))
            }
            _ => Ok(Flow::Next),
        }
    }

    /// One value or the other, by a condition on parameters.
    pub fn select(&mut self, condition: &Value, a: &Value, b: &Value, span: Span) -> Run<Value> {
        if a.shape != b.shape {
            return fail(span, "both sides of a branch on parameters must have the same sizes");
        }
        let value = self.map_named("select", &[condition.clone(), a.clone(), b.clone()], span)?;
        Ok(value.reshaped(a.base, a.shape.clone()))
    }
}

fn help(error: Diagnostic) -> Diagnostic {
    error.help("both sides are computed, and one is selected")
}
