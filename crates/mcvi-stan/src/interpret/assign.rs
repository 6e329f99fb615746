//! Assignments to variables and their parts.

use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{BinaryOp, Place, PlaceKind, Step};
use crate::value::{Places, Selected, Selection, Value};

impl<'p> Machine<'p> {
    pub fn assign(&mut self, target: &'p Place, op: Option<BinaryOp>, value: Value, span: Span) -> Run<()> {
        let PlaceKind::Variable { name, steps } = &target.kind else {
            return fail(span, "tuples are not supported");
        };
        let Some(variable) = self.scope.get(&name.text) else {
            return fail(span, format!("`{}` has no value here", name.text));
        };
        let mut shape = variable.shape.clone();
        // x[i][j] is x[i, j], where only single places come first.
        let mut selections: Vec<Selection> = vec![];
        for step in steps {
            let Step::Index(indices) = step else { return fail(span, "tuples are not supported") };
            let ones = selections.iter().filter(|s| matches!(s, Selection::One(_))).count();
            if ones != selections.len() {
                return fail(target.span, "indices after a range are not supported on the left");
            }
            let more = self.selections(&shape, indices, target.span)?;
            let used = more.len();
            selections.extend(more);
            shape.drain(..used.min(shape.len()));
        }
        let new = match op {
            None => value,
            Some(op) => {
                let old = match self.scope.get(&name.text) {
                    Some(variable) if selections.is_empty() => variable.clone(),
                    Some(variable) => variable.at(&selections),
                    None => return Ok(()),
                };
                self.binary(op, &old, &value, span)?
            }
        };
        let Some(variable) = self.scope.get_mut(&name.text) else { return Ok(()) };
        if selections.is_empty() {
            fits(&variable.shape, &new, span)?;
            variable.flat = new.flat;
            return Ok(());
        }
        let Selected { shape, places, .. } = variable.select(&selections);
        fits(&shape, &new, span)?;
        match places {
            Places::Range(first, count) => (0..count).for_each(|i| variable.flat.set(first + i, new.flat.cell(i))),
            Places::List(list) => list.iter().enumerate().for_each(|(i, &p)| variable.flat.set(p, new.flat.cell(i))),
        }
        Ok(())
    }
}

/// Whether a value has the sizes of what it is assigned to.
pub fn fits(shape: &[usize], value: &Value, span: Span) -> Run<()> {
    if shape == value.shape {
        return Ok(());
    }
    let message = format!("a value of sizes {:?} cannot be given to one of sizes {shape:?}", value.shape);
    Err(Diagnostic::new(span, message))
}
