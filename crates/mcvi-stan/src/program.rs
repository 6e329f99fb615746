//! A program: read, checked, and shown.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{Includes, Sources};
use crate::syntax::ast::{StatementKind, Tree};
use crate::syntax::parse;
use crate::types::check;

/// A Stan program whose syntax and types are right.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) sources: Sources,
    pub(crate) tree: Tree,
}

impl Program {
    /// The texts of the program.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The names of its generated quantities, in the order declared.
    pub fn generated_quantities(&self) -> Vec<&str> {
        let declared = self.tree.generated_quantities.iter().filter_map(|s| match &s.kind {
            StatementKind::Declare(list) => Some(list.iter().map(|d| &*d.name.text)),
            _ => None,
        });
        declared.flatten().collect()
    }

    /// Reads a program and checks its types. `includes` finds the text of included files.
    pub fn read(name: &str, text: &str, includes: &Includes<'_>) -> Result<Program, Box<Diagnostics>> {
        let mut sources = Sources::default();
        sources.add(name, text.to_owned());
        let fail = |sources: Sources, list: Vec<Diagnostic>| Err(Box::new(Diagnostics { sources, list }));
        let tree = match parse(&mut sources, includes) {
            Ok(tree) => tree,
            Err(mistake) => return fail(sources, vec![mistake]),
        };
        match check(&tree) {
            mistakes if mistakes.is_empty() => Ok(Program { sources, tree }),
            mistakes => fail(sources, mistakes),
        }
    }
}
