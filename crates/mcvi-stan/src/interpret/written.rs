//! Functions of Stan that are written in Stan, in `functions.stan`.

use super::user::fitting;
use super::{Machine, Run, fail};
use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};
use crate::syntax::ast::{BinaryOp, Function, Tree};
use crate::syntax::parse;
use crate::value::{Value, rank};
use std::collections::HashMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("functions.stan");

/// Them by name, each with its versions.
fn written() -> &'static HashMap<&'static str, Vec<&'static Function>> {
    static TREE: OnceLock<Tree> = OnceLock::new();
    static FUNCTIONS: OnceLock<HashMap<&'static str, Vec<&'static Function>>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let tree = TREE.get_or_init(|| {
            let mut sources = Sources::default();
            sources.add("functions.stan", TEXT.to_owned());
            parse(&mut sources, &|_| None).unwrap_or_default()
        });
        let mut functions: HashMap<&'static str, Vec<&'static Function>> = HashMap::new();
        for function in &tree.functions {
            functions.entry(&function.name.text).or_default().push(function);
        }
        functions
    })
}

impl Machine<'_> {
    /// Applies a function that is written in Stan; none if there is none of this name.
    pub fn written(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        let Some(versions) = written().get(name) else { return Ok(None) };
        // What goes wrong within is shown at the call.
        let here = |mistake: Diagnostic| Diagnostic { span, ..mistake };
        if let Some(function) = fitting(versions, arguments) {
            return self.run(function, arguments.to_vec(), span).map_err(here);
        }
        let is_density = ["_lpdf", "_lpmf", "_lcdf", "_lccdf"].iter().any(|suffix| name.ends_with(suffix));
        if !is_density {
            let types: Vec<String> = arguments.iter().map(|a| a.ty().to_string()).collect();
            return fail(span, format!("`{name}` of ({}) is not supported", types.join(", ")));
        }
        let mut total = Value::real(0.0);
        for element in elements(arguments, span)? {
            let Some(function) = fitting(versions, &element) else {
                return fail(span, format!("`{name}` of these arguments is not supported"));
            };
            if let Some(term) = self.run(function, element, span).map_err(here)? {
                total = self.binary(BinaryOp::Add, &total, &term, span)?;
            }
        }
        Ok(Some(total))
    }
}

/// Lists of arguments of which all are numbers: one for each element of those that are not, all of one length.
pub fn elements(arguments: &[Value], span: Span) -> Run<Vec<Vec<Value>>> {
    let mut lengths = arguments.iter().filter(|a| !a.is_scalar()).map(Value::len);
    let count = lengths.next().unwrap_or(1);
    if lengths.any(|n| n != count) {
        return fail(span, "the arguments have different sizes");
    }
    let number = |a: &Value, i: usize| match a.is_scalar() {
        true => a.clone(),
        // The elements of vectors are real, those of arrays what the arrays are of.
        false if rank(a.base) == 0 => Value { base: a.base, shape: vec![], flat: a.flat.part(i, 1) },
        false => Value::scalar(a.flat.part(i, 1)),
    };
    Ok((0..count).map(|i| arguments.iter().map(|a| number(a, i)).collect()).collect())
}
