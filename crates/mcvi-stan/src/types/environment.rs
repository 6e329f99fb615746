//! Names in scope: variables with their block, and functions of the program.

use super::Type;
use crate::source::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// The blocks of a program, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Block {
    Functions,
    Data,
    TransformedData,
    Parameters,
    TransformedParameters,
    Model,
    GeneratedQuantities,
}

/// A variable in scope.
#[derive(Clone, Debug)]
pub struct Variable {
    pub ty: Type,
    pub block: Block,
    /// Loop variables and parameters of functions cannot be assigned to.
    pub read_only: bool,
    /// Whether it can depend on parameters of the model.
    pub autodiff: bool,
    pub span: Span,
}

/// A function of the program.
#[derive(Clone, Debug)]
pub struct Signature {
    pub name: Arc<str>,
    /// Types of the parameters, and whether they are data only.
    pub parameters: Vec<(Type, bool)>,
    pub result: Option<Type>,
    pub defined: bool,
    pub span: Span,
}

/// All names in scope, innermost scope last.
#[derive(Default)]
pub struct Environment {
    scopes: Vec<HashMap<Arc<str>, Variable>>,
    pub functions: Vec<Signature>,
}

impl Environment {
    pub fn push(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub fn pop(&mut self) {
        self.scopes.pop();
    }

    pub fn find(&self, name: &str) -> Option<&Variable> {
        self.scopes.iter().rev().find_map(|s| s.get(name))
    }

    pub fn declare(&mut self, name: Arc<str>, variable: Variable) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, variable);
        }
    }

    /// The functions of a name; `_lupdf` and `_lupmf` are those of `_lpdf` and `_lpmf`.
    pub fn overloads<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Signature> + 'a {
        let name = normalized(name);
        self.functions.iter().filter(move |f| *f.name == *name)
    }

    pub fn has_function(&self, name: &str) -> bool {
        self.overloads(name).next().is_some()
    }

    /// The name in scope that looks most like an unknown one.
    pub fn nearest(&self, name: &str, others: impl Iterator<Item = &'static str>) -> Option<String> {
        let variables = self.scopes.iter().flat_map(|s| s.keys()).map(|k| &**k);
        let functions = self.functions.iter().map(|f| &*f.name);
        let all = variables.chain(functions).map(str::to_owned).chain(others.map(str::to_owned));
        let near = all.map(|n| (distance(name, &n), n)).filter(|(d, n)| *d * 2 <= n.len());
        near.min().map(|(_, n)| n)
    }
}

/// The name of a density with all its constants.
pub fn normalized(name: &str) -> String {
    match (name.strip_suffix("_lupdf"), name.strip_suffix("_lupmf")) {
        (Some(stem), _) => format!("{stem}_lpdf"),
        (_, Some(stem)) => format!("{stem}_lpmf"),
        _ => name.to_owned(),
    }
}

/// How many letters must be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let here = row[j + 1];
            row[j + 1] = (before + usize::from(x != *y)).min(here + 1).min(row[j] + 1);
            before = here;
        }
    }
    row[b.len()]
}
