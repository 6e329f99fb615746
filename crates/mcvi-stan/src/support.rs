//! Which of Stan's functions are supported, found by calling each.

use crate::diagnostic::Diagnostic;
use crate::interpret::Machine;
use crate::source::Span;
use crate::syntax::ast::{Base, Tree};
use crate::trace::Flat;
use crate::types::{Type, TypeElement, examples, names};
use crate::value::Value;

/// Elements along each axis of the arguments that are tried.
const SIZE: usize = 2;

/// A value of a type, known or of parameters.
fn value(ty: &Type, of_parameters: bool) -> Option<Value> {
    let TypeElement::Base(base) = ty.element else { return None };
    if !matches!(base, Base::Int | Base::Real | Base::Vector | Base::RowVector | Base::Matrix) {
        return None;
    }
    let shape = vec![SIZE; ty.dimensions + crate::value::rank(base)];
    let count: usize = shape.iter().product();
    let flat = match (base, of_parameters) {
        (Base::Int, _) => Flat::from_numbers(vec![1.0; count]),
        (_, true) => Flat::Part { node: 0, start: 0, len: count as u32 },
        // The identity, so that a matrix may be what it must.
        (_, false) => Flat::from_numbers((0..count).map(|k| if k % 3 == 0 { 1.0 } else { 0.0 }).collect()),
    };
    Some(Value { base, shape, flat })
}

/// Whether a function can be called: some signature leads to no complaint about support.
fn works(name: &str, of_parameters: bool) -> bool {
    let tree = Tree::default();
    examples(name).iter().any(|types| {
        let Some(arguments) = types.iter().map(|ty| value(ty, of_parameters)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let mut machine = Machine::new(&tree, 64);
        let refused = |m: &Diagnostic| m.is_unsupported() || m.message.contains("cannot depend on");
        match machine.library(name, arguments, Span::default()) {
            Ok(_) => true,
            Err(mistake) => !refused(&mistake),
        }
    })
}

/// The functions that can be called with parameters, and those that can be called with data alone, in order.
pub fn supported() -> (Vec<&'static str>, Vec<&'static str>) {
    let mut all: Vec<&'static str> = names().collect();
    all.sort_unstable();
    let (everywhere, rest): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|name| !name.ends_with("_rng") && works(name, true));
    (everywhere, rest.into_iter().filter(|name| works(name, false)).collect())
}
