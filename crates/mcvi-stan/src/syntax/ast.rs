//! The syntax tree. Every part knows its place in the text.

use crate::source::Span;
use std::sync::Arc;

/// A name.
#[derive(Clone, Debug)]
pub struct Name {
    pub text: Arc<str>,
    pub span: Span,
}

/// An expression and its place.
#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// How many expressions are nested here, itself included.
    pub depth: usize,
}

impl Expr {
    pub fn new(kind: ExprKind, span: Span) -> Self {
        let depth = 1 + kind.inner().into_iter().map(|e| e.depth).max().unwrap_or(0);
        Expr { kind, span, depth }
    }
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Int(i64),
    Real(f64),
    /// An imaginary number. They are read, and refused when a program is run.
    Imaginary,
    Variable(Name),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Transpose(Box<Expr>),
    Conditional(Box<[Expr; 3]>),
    Call(Call),
    Index(Box<Expr>, Vec<Index>),
    /// `x.2`.
    Project(Box<Expr>, usize),
    /// `{a, b}`.
    Array(Vec<Expr>),
    /// `[a, b]`: a row vector, or a matrix if the elements are row vectors.
    Row(Vec<Expr>),
    Tuple(Vec<Expr>),
    /// `target()`.
    Target,
}

impl ExprKind {
    /// The expressions directly within.
    pub fn inner(&self) -> Vec<&Expr> {
        match self {
            ExprKind::Int(_) | ExprKind::Real(_) | ExprKind::Imaginary => vec![],
            ExprKind::Variable(_) | ExprKind::Target => vec![],
            ExprKind::Unary(_, a) | ExprKind::Transpose(a) | ExprKind::Project(a, _) => vec![a],
            ExprKind::Binary(_, a, b) => vec![a, b],
            ExprKind::Conditional(parts) => parts.iter().collect(),
            ExprKind::Call(call) => call.arguments.iter().collect(),
            ExprKind::Index(a, indices) => {
                let inner = indices.iter().flat_map(Index::inner);
                std::iter::once(&**a).chain(inner).collect()
            }
            ExprKind::Array(list) | ExprKind::Row(list) | ExprKind::Tuple(list) => list.iter().collect(),
        }
    }
}

impl Index {
    /// The expressions directly within.
    pub fn inner(&self) -> Vec<&Expr> {
        match self {
            Index::All => vec![],
            Index::Single(a) | Index::From(a) | Index::UpTo(a) => vec![a],
            Index::Range(a, b) => vec![a, b],
        }
    }
}

/// A call of a function.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: Name,
    pub arguments: Vec<Expr>,
    /// Whether a bar follows the first argument, or may be left out as it is the only one.
    pub conditional: bool,
}

#[derive(Clone, Debug)]
pub enum Index {
    All,
    /// A number, or an array of numbers.
    Single(Expr),
    From(Expr),
    UpTo(Expr),
    Range(Expr, Expr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Plus,
    Minus,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    ElementMultiply,
    ElementDivide,
    IntDivide,
    LeftDivide,
    Power,
    ElementPower,
}

impl BinaryOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Or => "||",
            BinaryOp::And => "&&",
            BinaryOp::Equal => "==",
            BinaryOp::NotEqual => "!=",
            BinaryOp::Less => "<",
            BinaryOp::LessEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterEqual => ">=",
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Modulo => "%",
            BinaryOp::ElementMultiply => ".*",
            BinaryOp::ElementDivide => "./",
            BinaryOp::IntDivide => "%/%",
            BinaryOp::LeftDivide => "\\",
            BinaryOp::Power => "^",
            BinaryOp::ElementPower => ".^",
        }
    }
}

/// The base types, without the array around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    Int,
    Real,
    Complex,
    Vector,
    RowVector,
    Matrix,
    ComplexVector,
    ComplexRowVector,
    ComplexMatrix,
}

/// A declared type with its sizes.
#[derive(Clone, Debug)]
pub struct SizedType {
    /// Sizes of the array; empty if it is none.
    pub array: Vec<Expr>,
    pub element: Element,
    pub span: Span,
}

/// What an array is made of.
#[derive(Clone, Debug)]
pub enum Element {
    Base { base: Base, sizes: Vec<Expr>, constraint: Constraint },
    Tuple(Vec<SizedType>),
}

/// What values are allowed.
#[derive(Clone, Debug)]
pub enum Constraint {
    None,
    Bounds { lower: Option<Expr>, upper: Option<Expr> },
    Affine { offset: Option<Expr>, multiplier: Option<Expr> },
    Ordered,
    PositiveOrdered,
    Simplex,
    UnitVector,
    SumToZero,
    CholeskyFactorCorr,
    CholeskyFactorCov,
    CorrMatrix,
    CovMatrix,
    ColumnStochastic,
    RowStochastic,
}

/// A declaration of one variable.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub ty: Arc<SizedType>,
    pub name: Name,
    /// Sizes after the name, as older programs have them; they come before those of the type.
    pub trailing: Vec<Expr>,
    pub value: Option<Expr>,
}

/// A type without sizes, in the signature of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum UnsizedType {
    Base { base: Base, dimensions: usize },
    Tuple { elements: Vec<UnsizedType>, dimensions: usize },
}

/// A parameter of a function.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Whether the argument must not depend on parameters of the model.
    pub data_only: bool,
    pub ty: UnsizedType,
    pub name: Name,
}

/// A function of the program.
#[derive(Clone, Debug)]
pub struct Function {
    /// None if it returns nothing.
    pub result: Option<UnsizedType>,
    pub name: Name,
    pub parameters: Vec<Parameter>,
    /// None for a declaration without definition.
    pub body: Option<Statement>,
}

/// A statement and its place.
#[derive(Clone, Debug)]
pub struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StatementKind {
    Declare(Vec<Declaration>),
    Assign { target: Place, op: Option<BinaryOp>, value: Expr },
    AddToTarget(Expr),
    AddToJacobian(Expr),
    Distribution(Box<DistributionStatement>),
    Call(Call),
    Print(Vec<Printable>),
    Reject(Vec<Printable>),
    FatalError(Vec<Printable>),
    Return(Option<Expr>),
    Break,
    Continue,
    Empty,
    If { condition: Expr, then: Box<Statement>, otherwise: Option<Box<Statement>> },
    While { condition: Expr, body: Box<Statement> },
    For { variable: Name, from: Expr, to: Expr, body: Box<Statement> },
    ForEach { variable: Name, container: Expr, body: Box<Statement> },
    Block(Vec<Statement>),
    Profile(Vec<Statement>),
}

/// `y ~ normal(0, 1) T[a, b]`.
#[derive(Clone, Debug)]
pub struct DistributionStatement {
    pub variate: Expr,
    pub name: Name,
    pub arguments: Vec<Expr>,
    /// The bounds, if there is a truncation.
    pub truncation: Option<(Option<Expr>, Option<Expr>)>,
}

#[derive(Clone, Debug)]
pub enum Printable {
    Text(String),
    Value(Expr),
}

/// What can be assigned to.
#[derive(Clone, Debug)]
pub struct Place {
    pub kind: PlaceKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum PlaceKind {
    Variable { name: Name, steps: Vec<Step> },
    Tuple(Vec<Place>),
}

/// A step from a variable to a part of it.
#[derive(Clone, Debug)]
pub enum Step {
    Index(Vec<Index>),
    Project(usize),
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub functions: Vec<Arc<Function>>,
    pub data: Vec<Statement>,
    pub transformed_data: Vec<Statement>,
    pub parameters: Vec<Statement>,
    pub transformed_parameters: Vec<Statement>,
    pub model: Vec<Statement>,
    pub generated_quantities: Vec<Statement>,
}
