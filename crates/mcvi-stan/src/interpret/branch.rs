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
    /// `if (condition) then else otherwise` where the condition depends on parameters. If one side returns, or goes on with the
    /// next iteration, what follows belongs to the other.
    pub fn branch(
        &mut self,
        condition: &Value,
        then: &'p Statement,
        otherwise: Option<&'p Statement>,
        span: Span,
    ) -> Run<Flow> {
        let floor = self.scope.enter();
        let mut yes = self.side(Some(then))?;
        let mut no = self.side(otherwise)?;
        if !matches!((&yes.flow, &no.flow), (Flow::Next, Flow::Next)) {
            let in_loop = matches!((&yes.flow, &no.flow), (Flow::Continue, _) | (_, Flow::Continue));
            yes = self.carried_on(yes, in_loop, span)?;
            no = self.carried_on(no, in_loop, span)?;
        }
        self.merge(condition, yes, no, floor, span)
    }

    /// Runs one side from the state before, which is restored.
    fn side(&mut self, statement: Option<&'p Statement>) -> Run<Side> {
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
        let target = self.target.split_off(before.1);
        let scope = std::mem::replace(&mut self.scope, before.0);
        Ok(Side { scope, target, flow, rejects })
    }

    /// Goes on from the end of a side with what follows the branch: in the loop's body, or in the function.
    fn carried_on(&mut self, side: Side, in_loop: bool, span: Span) -> Run<Side> {
        if !matches!(side.flow, Flow::Next) || side.rejects {
            return Ok(side);
        }
        let before = (std::mem::replace(&mut self.scope, side.scope), self.target.len());
        self.target.extend(side.target);
        let after = std::mem::take(&mut self.after);
        let mut flow = Ok(Flow::Next);
        for (i, rest) in after.iter().enumerate().rev() {
            flow = match rest {
                Some(rest) => {
                    self.after = after[..i].to_vec();
                    self.block(rest)
                }
                None if in_loop => break,
                None => fail(span, "a branch on parameters cannot leave a loop").map_err(help),
            };
            if !matches!(flow, Ok(Flow::Next)) {
                break;
            }
        }
        self.after = after;
        let target = self.target.split_off(before.1);
        let scope = std::mem::replace(&mut self.scope, before.0);
        Ok(Side { scope, target, flow: flow?, rejects: false })
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
            (Flow::Next, Flow::Next) => Ok(Flow::Next),
            (Flow::Return(Some(a)), Flow::Return(Some(b))) => {
                Ok(Flow::Return(Some(self.select(condition, &a, &b, span)?)))
            }
            // The value of a side that rejects does not matter.
            (Flow::Return(a), Flow::Next) if no.rejects => Ok(Flow::Return(a)),
            (Flow::Next, Flow::Return(b)) if yes.rejects => Ok(Flow::Return(b)),
            (Flow::Return(None), Flow::Return(None) | Flow::Next) | (Flow::Next, Flow::Return(None)) => {
                Ok(Flow::Return(None))
            }
            (Flow::Continue, Flow::Continue | Flow::Next) | (Flow::Next, Flow::Continue) => Ok(Flow::Continue),
            (Flow::Return(_), Flow::Next) | (Flow::Next, Flow::Return(_)) => {
                fail(span, "a branch on parameters must return on both sides, or on none").map_err(help)
            }
            _ => fail(span, "a branch on parameters cannot leave a loop").map_err(help),
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
