//! The signatures of Stan's functions, read from a compact table.

use super::{Type, TypeElement, promotion};
use crate::syntax::ast::Base;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The table; it explains itself.
const TABLE: &str = include_str!("signatures.txt");
/// Arrays of arrays that functions of any depth accept.
const DEPTH: usize = 8;

/// A type of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pattern {
    /// Whether the common depth of arrays is added.
    nested: bool,
    dimensions: usize,
    /// None for any type.
    base: Option<Base>,
}

/// A signature of the table.
#[derive(Clone, Debug)]
struct Signature {
    /// An array of the result unless all arguments are numbers.
    draws: bool,
    result: Pattern,
    arguments: Vec<Vec<Pattern>>,
}

fn pattern(text: &str) -> Pattern {
    let nested = text.starts_with('$');
    let text = text.trim_start_matches('$');
    let dimensions = text.chars().take_while(|c| *c == '*').count();
    let base = match &text[dimensions..] {
        "i" => Some(Base::Int),
        "r" => Some(Base::Real),
        "z" => Some(Base::Complex),
        "v" => Some(Base::Vector),
        "w" => Some(Base::RowVector),
        "m" => Some(Base::Matrix),
        "V" => Some(Base::ComplexVector),
        "W" => Some(Base::ComplexRowVector),
        "M" => Some(Base::ComplexMatrix),
        _ => None,
    };
    Pattern { nested, dimensions, base }
}

/// The alternatives of an argument.
fn alternatives(text: &str) -> Vec<Pattern> {
    let list = match text {
        "@R" => "r *r v w",
        "@I" => "i *i",
        "@V" => "v *v w *w",
        "@N" => "i *i r *r v w",
        "@A" => "v w *r",
        "@U" => "v w",
        "@E" => "v w m",
        "@L" => "*r v w m",
        text => text.trim_start_matches('{').trim_end_matches('}'),
    };
    list.split_whitespace().map(pattern).collect()
}

fn signature(text: &str) -> Signature {
    let (result, arguments) = text.trim_end_matches(')').split_once('(').unwrap_or((text, ""));
    let draws = result.ends_with('?');
    let arguments = arguments.split(',').filter(|a| !a.is_empty()).map(alternatives).collect();
    Signature { draws, result: pattern(result.trim_end_matches('?')), arguments }
}

/// Signatures are separated by blanks outside parentheses.
fn signatures(text: &str) -> Vec<Signature> {
    text.split_inclusive(')').map(str::trim).filter(|s| !s.is_empty()).map(signature).collect()
}

fn table() -> &'static HashMap<String, Vec<Signature>> {
    static TABLE_READ: OnceLock<HashMap<String, Vec<Signature>>> = OnceLock::new();
    TABLE_READ.get_or_init(|| {
        let text = TABLE.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n");
        let mut table = HashMap::new();
        for row in text.replace("\n  ", " ").lines() {
            let Some((names, list)) = row.split_once(": ") else { continue };
            let list = signatures(list);
            for name in names.split(' ') {
                let mut parts = name.split('|');
                let first = parts.next().unwrap_or(name);
                let stem = first.rsplit_once('_').map_or(first, |(stem, _)| stem);
                table.insert(first.to_owned(), list.clone());
                for suffix in parts {
                    table.insert(format!("{stem}_{suffix}"), list.clone());
                }
            }
        }
        table
    })
}

/// Whether Stan has a function of this name.
pub fn exists(name: &str) -> bool {
    table().contains_key(name)
}

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    table().keys().map(String::as_str)
}

/// The result of a function for arguments of these types, by the signature with the fewest promotions.
pub fn result(name: &str, arguments: &[Type]) -> Option<Type> {
    let found = table().get(name)?.iter().filter_map(|s| matches(s, arguments));
    found.min_by_key(|(cost, _)| *cost).map(|(_, ty)| ty)
}

/// Whether a function takes exactly these types, without promotion.
pub fn has_exactly(name: &str, arguments: &[Type]) -> bool {
    let exact = |s: &Signature| matches(s, arguments).is_some_and(|(cost, _)| cost == 0);
    table().get(name).is_some_and(|list| list.iter().any(exact))
}

/// Arguments that a function takes, one list for each of its signatures: real ones, which may be given for complex ones.
pub fn examples(name: &str) -> Vec<Vec<Type>> {
    let real = |base: Base| match base {
        Base::Complex => Base::Real,
        Base::ComplexVector => Base::Vector,
        Base::ComplexRowVector => Base::RowVector,
        Base::ComplexMatrix => Base::Matrix,
        other => other,
    };
    let ty = |p: &Pattern| Type::of(p.base.map_or(Base::Real, real)).array(p.dimensions);
    let list = |s: &Signature| s.arguments.iter().filter_map(|a| a.first().map(ty)).collect();
    table().get(name).into_iter().flatten().map(list).collect()
}

/// The cost of a match, and the type of the result.
fn matches(signature: &Signature, arguments: &[Type]) -> Option<(usize, Type)> {
    if signature.arguments.len() != arguments.len() {
        return None;
    }
    let nested = signature.result.nested || signature.arguments.iter().flatten().any(|p| p.nested);
    let depths = if nested { 0..=DEPTH } else { 0..=0 };
    let results = depths.filter_map(|depth| {
        let mut any: Option<Type> = None;
        let mut cost = 0;
        for (patterns, ty) in signature.arguments.iter().zip(arguments) {
            cost += patterns.iter().filter_map(|p| fits(*p, ty, depth, &mut any)).min()?;
        }
        Some((cost, given(signature, arguments, depth, any)?))
    });
    results.min_by_key(|(cost, _)| *cost)
}

/// The cost of giving a type where a pattern stands; `any` is what the type variable stands for so far.
fn fits(pattern: Pattern, ty: &Type, depth: usize, any: &mut Option<Type>) -> Option<usize> {
    let dimensions = pattern.dimensions + if pattern.nested { depth } else { 0 };
    let Some(base) = pattern.base else {
        let inner = Type { dimensions: ty.dimensions.checked_sub(dimensions)?, element: ty.element.clone() };
        let common = any.as_ref().map_or(Some(inner.clone()), |other| other.common(&inner))?;
        let cost = usize::from(common != inner);
        *any = Some(common);
        return Some(cost);
    };
    match &ty.element {
        TypeElement::Base(from) if ty.dimensions == dimensions => promotion(*from, base),
        _ => None,
    }
}

fn given(signature: &Signature, arguments: &[Type], depth: usize, any: Option<Type>) -> Option<Type> {
    let result = signature.result;
    let dimensions = result.dimensions + if result.nested { depth } else { 0 };
    let element = match result.base {
        Some(base) => Type::of(base),
        None => any?,
    };
    let more = usize::from(signature.draws && !arguments.iter().all(Type::is_scalar));
    Some(element.array(dimensions + more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotes_ints_and_keeps_shapes() {
        let ints = Type::INT.array(2);
        assert_eq!(result("exp", std::slice::from_ref(&ints)), Some(Type::REAL.array(2)));
        assert_eq!(result("abs", &[Type::INT]), Some(Type::INT));
        assert_eq!(result("append_row", &[Type::VECTOR, Type::INT]), Some(Type::VECTOR));
        assert_eq!(result("rep_array", &[Type::VECTOR, Type::INT, Type::INT]), Some(Type::VECTOR.array(2)));
        assert_eq!(result("normal_lpdf", &[Type::VECTOR, Type::INT, Type::REAL]), Some(Type::REAL));
        assert_eq!(result("normal_rng", &[Type::VECTOR, Type::REAL]), Some(Type::REAL.array(1)));
        assert_eq!(result("normal_lpdf", &[Type::MATRIX, Type::INT, Type::REAL]), None);
        assert_eq!(result("bernoulli_lpmf", &[Type::REAL, Type::REAL]), None);
    }

    #[test]
    fn every_row_is_read() {
        assert!(names().count() > 500);
        for list in table().values() {
            for s in list {
                let any = |p: &Pattern| p.base.is_none();
                let bound = s.arguments.iter().flatten().any(any);
                assert!(!any(&s.result) || bound, "a result of any type needs an argument of any type");
            }
        }
    }
}
