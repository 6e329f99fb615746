//! The check of a whole program, block by block.

use super::environment::{Block, Environment, Variable};
use super::{Type, TypeElement};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{Name, Statement, Tree};

/// A mistake, or what was found.
pub type Checked<T> = Result<T, Diagnostic>;

/// The type of an expression, and whether it can depend on parameters of the model.
#[derive(Clone, Debug)]
pub struct Typed {
    pub ty: Type,
    pub autodiff: bool,
}

/// The function whose body is checked.
#[derive(Clone, Debug)]
pub struct Within {
    pub name: String,
    pub result: Option<Type>,
}

impl Within {
    pub fn is(&self, suffix: &str) -> bool {
        self.name.ends_with(suffix)
    }
}

/// What the check knows at one place of a program.
pub struct Checker {
    pub names: Environment,
    pub block: Block,
    pub function: Option<Within>,
    /// How many loops are around.
    pub loops: usize,
    /// Whether the sizes of a global variable are checked.
    pub in_sizes: bool,
    mistakes: Vec<Diagnostic>,
}

/// All mistakes of a program in names and types.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut checker = Checker {
        names: Environment::default(),
        block: Block::Functions,
        function: None,
        loops: 0,
        in_sizes: false,
        mistakes: vec![],
    };
    checker.names.push();
    checker.functions(&tree.functions);
    let blocks = [
        (Block::Data, &tree.data),
        (Block::TransformedData, &tree.transformed_data),
        (Block::Parameters, &tree.parameters),
        (Block::TransformedParameters, &tree.transformed_parameters),
    ];
    for (block, statements) in blocks {
        checker.block(block, statements);
    }
    for (block, statements) in [(Block::Model, &tree.model), (Block::GeneratedQuantities, &tree.generated_quantities)] {
        checker.names.push();
        checker.block(block, statements);
        checker.names.pop();
    }
    checker.mistakes
}

impl Checker {
    fn block(&mut self, block: Block, statements: &[Statement]) {
        self.block = block;
        for statement in statements {
            let global = block != Block::Model;
            self.global_statement(statement, global);
        }
    }

    /// Notes a mistake and goes on.
    pub fn note<T>(&mut self, result: Checked<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(mistake) => {
                self.mistakes.push(mistake);
                None
            }
        }
    }

    pub fn in_function(&self, suffix: &str) -> bool {
        self.function.as_ref().is_some_and(|f| f.is(suffix))
    }

    /// Whether a variable declared here can depend on parameters.
    pub fn autodiff_here(&self, ty: &Type) -> bool {
        let blocks = [Block::Functions, Block::Parameters, Block::TransformedParameters, Block::Model];
        blocks.contains(&self.block) && !ty.is_discrete()
    }

    /// A variable is declared: its name must be new.
    pub fn declare(&mut self, name: &Name, ty: Type, read_only: bool) -> Checked<()> {
        let autodiff = self.autodiff_here(&ty);
        self.declare_with(name, ty, Variable { ty: Type::INT, block: self.block, read_only, autodiff, span: name.span })
    }

    pub fn declare_with(&mut self, name: &Name, ty: Type, variable: Variable) -> Checked<()> {
        let result = self.name_is_free(name);
        self.names.declare(name.text.clone(), Variable { ty, ..variable });
        result
    }

    fn name_is_free(&self, name: &Name) -> Checked<()> {
        legal_name(name)?;
        if name.text.ends_with("_lupdf") || name.text.ends_with("_lupmf") {
            return Err(Diagnostic::new(name.span, format!("`{}`: this ending is kept for densities", name.text)));
        }
        match self.names.find(&name.text) {
            None => Ok(()),
            Some(other) => {
                let error = Diagnostic::new(name.span, format!("`{}` is declared twice", name.text));
                Err(error.related(other.span, "it is declared here").help("choose another name"))
            }
        }
    }
}

/// Words kept for the language, beyond those it uses.
const RESERVED: &[&str] = &[
    "generated",
    "quantities",
    "transformed",
    "repeat",
    "until",
    "then",
    "true",
    "false",
    "typedef",
    "struct",
    "var",
    "export",
    "extern",
    "static",
    "auto",
];

/// Whether a name may be used at all.
pub fn legal_name(name: &Name) -> Checked<()> {
    if name.text.ends_with("__") || RESERVED.contains(&&*name.text) {
        let error = Diagnostic::new(name.span, format!("`{}` cannot be a name", name.text));
        return Err(error.help("some words, and all that end in two underscores, are kept for the language"));
    }
    Ok(())
}

/// A type was found where another belongs.
pub fn mismatch(span: Span, what: &str, expected: &str, found: &Type) -> Diagnostic {
    Diagnostic::new(span, format!("{what} must be {expected}, not {found}")).label(format!("this is {found}"))
}

/// The type that indexing gives, where each index is a single number or not; none if there are too many indices.
pub fn indexed(ty: &Type, singles: &[bool]) -> Option<Type> {
    use crate::syntax::ast::Base::*;
    let mut kept = 0;
    let mut rest = singles;
    for _ in 0..ty.dimensions {
        let Some((single, tail)) = rest.split_first() else { break };
        kept += usize::from(!*single);
        rest = tail;
    }
    let used = singles.len() - rest.len();
    let inner = Type { dimensions: ty.dimensions - used, element: ty.element.clone() };
    if rest.is_empty() {
        return Some(inner.array(kept));
    }
    let TypeElement::Base(base) = ty.element else { return None };
    let (scalar, row, column) = match base {
        ComplexVector | ComplexRowVector | ComplexMatrix => (Complex, ComplexRowVector, ComplexVector),
        _ => (Real, RowVector, Vector),
    };
    let element = match (base, rest) {
        (Vector | RowVector | ComplexVector | ComplexRowVector, [single]) => {
            if *single {
                scalar
            } else {
                base
            }
        }
        (Matrix | ComplexMatrix, [true] | [true, false]) => row,
        (Matrix | ComplexMatrix, [false] | [false, false]) => base,
        (Matrix | ComplexMatrix, [false, true]) => column,
        (Matrix | ComplexMatrix, [true, true]) => scalar,
        _ => return None,
    };
    Some(Type::of(element).array(kept))
}
