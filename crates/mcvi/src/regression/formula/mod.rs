//! Formulas in the notation of R, lme4 and brms: text becomes a tree with places in the text, the tree a list of terms.

mod lexer;
mod parser;
mod terms;

pub(super) use terms::{GroupTerm, Term, Terms, parts};

use crate::error::{Error, Result};
use std::fmt;
use std::ops::Range;

/// A formula as it was written, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    tree: Node,
}

/// A part of a formula, and where it stands: a range of bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub kind: Kind,
    pub span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number(f64),
    Text(String),
    Name(String),
    /// All other columns.
    Dot,
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Call(String, Vec<Argument>),
    /// Something in parentheses.
    Nested(Box<Node>),
}

/// An argument of a function, perhaps by name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    pub name: Option<String>,
    pub value: Node,
}

/// Operators, those that bind least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Tilde,
    Bar,
    DoubleBar,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    Unequal,
    Add,
    Subtract,
    Multiply,
    Divide,
    Within,
    Interact,
    Power,
}

impl Operator {
    /// How it is written.
    fn symbol(self) -> &'static str {
        use Operator::*;
        match self {
            Tilde => "~",
            Bar => "|",
            DoubleBar => "||",
            Less => "<",
            LessEqual => "<=",
            Greater => ">",
            GreaterEqual => ">=",
            Equal => "==",
            Unequal => "!=",
            Add => "+",
            Subtract => "-",
            Multiply => "*",
            Divide => "/",
            Within => "%in%",
            Interact => ":",
            Power => "^",
        }
    }
}

impl Formula {
    /// Parse a formula, such as `y ~ x1 * x2 + (1 + x1 | county)`.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim().to_owned();
        let tree = lexer::tokens(&text).and_then(|tokens| parser::parse(&tokens, text.len()));
        match tree {
            Ok(tree) => Ok(Formula { text, tree }),
            Err(mistake) => Err(mistake.within(&text)),
        }
    }

    /// A column, given all others: `y ~ .`.
    pub(super) fn all(response: &str) -> Self {
        let node = |kind| Node { kind, span: 0..0 };
        let (left, right) = (node(Kind::Name(response.to_owned())), node(Kind::Dot));
        let tree = node(Kind::Binary(Operator::Tilde, Box::new(left), Box::new(right)));
        let is_word = response.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
            && !response.starts_with(|c: char| c.is_ascii_digit());
        let text = if is_word { format!("{response} ~ .") } else { format!("`{response}` ~ .") };
        Formula { text, tree }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The two sides of `~`.
    pub(super) fn sides(&self) -> (&Node, &Node) {
        match &self.tree.kind {
            Kind::Binary(Operator::Tilde, left, right) => (left, right),
            // The parser gives nothing else.
            _ => (&self.tree, &self.tree),
        }
    }

    /// An error in a part of it.
    pub(super) fn at(&self, node: &Node, what: impl Into<String>) -> Error {
        Mistake { span: node.span.clone(), what: what.into() }.within(&self.text)
    }
}

/// What is wrong, and where.
#[derive(Debug, PartialEq)]
pub(super) struct Mistake {
    pub span: Range<usize>,
    pub what: String,
}

impl Mistake {
    /// The message with the formula, and a caret below the place.
    fn within(&self, text: &str) -> Error {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let count = |range: &str| range.chars().count();
        let before = count(&text[..self.span.start]);
        let wide = count(&text[self.span.start..self.span.end.max(self.span.start)]).max(1);
        let caret = " ".repeat(before) + &"^".repeat(wide);
        super::mistake(format!("in the formula: {}\n  {line}\n  {caret}", self.what))
    }
}

impl Node {
    /// A name of a column.
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Name(name) => Some(name),
            Kind::Nested(inner) => inner.name(),
            _ => None,
        }
    }

    /// The first `.` in it.
    pub fn dot(&self) -> Option<&Node> {
        match &self.kind {
            Kind::Dot => Some(self),
            Kind::Negative(inner) | Kind::Nested(inner) => inner.dot(),
            Kind::Binary(_, left, right) => left.dot().or_else(|| right.dot()),
            _ => None,
        }
    }

    /// The names of all columns in it.
    pub fn columns(&self, into: &mut Vec<String>) {
        match &self.kind {
            Kind::Name(name) if !into.contains(name) => into.push(name.clone()),
            Kind::Negative(inner) | Kind::Nested(inner) => inner.columns(into),
            Kind::Binary(_, left, right) => {
                left.columns(into);
                right.columns(into);
            }
            Kind::Call(_, arguments) => arguments.iter().for_each(|a| a.value.columns(into)),
            _ => {}
        }
    }
}

/// In a uniform style, as R's labels are.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Number(x) => write!(f, "{x}"),
            Kind::Text(text) => write!(f, "\"{text}\""),
            Kind::Name(name) => f.write_str(name),
            Kind::Dot => f.write_str("."),
            Kind::Negative(inner) => write!(f, "-{inner}"),
            Kind::Nested(inner) => write!(f, "({inner})"),
            Kind::Binary(op @ (Operator::Power | Operator::Interact), a, b) => write!(f, "{a}{}{b}", op.symbol()),
            Kind::Binary(op, a, b) => write!(f, "{a} {} {b}", op.symbol()),
            Kind::Call(name, arguments) => {
                write!(f, "{name}(")?;
                for (i, a) in arguments.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    match &a.name {
                        Some(name) => write!(f, "{comma}{name} = {}", a.value)?,
                        None => write!(f, "{comma}{}", a.value)?,
                    }
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> String {
        Formula::parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn mistakes_are_shown_in_their_place() {
        let after = "in the formula: a term is expected here, found the end\n  y ~ x +\n         ^";
        assert_eq!(says("y ~ x +"), after);
        let character = "in the formula: `@` is not part of the notation; quote the name of a column as `a@b`, in \
                         backticks\n  y ~ x @ z\n        ^";
        assert_eq!(says("y ~ x @ z"), character);
        assert!(says("y ~ (1 | g").contains("expected `)`"), "{}", says("y ~ (1 | g"));
        assert!(says("y + x").contains("expected `~`"), "{}", says("y + x"));
        assert!(says("y ~ größe ~ x").ends_with("^"));
        let caret = says("größe ~ x @");
        let column = |line: &str, c: char| line.chars().position(|x| x == c);
        let lines: Vec<&str> = caret.lines().collect();
        assert_eq!(column(lines[1], '@'), column(lines[2], '^'));
    }

    #[test]
    fn labels_are_uniform() {
        let f = Formula::parse("log( y ) ~ poly(x,2)+I(  a^2 )").expect("a formula");
        assert_eq!(f.sides().0.to_string(), "log(y)");
        assert_eq!(f.sides().1.to_string(), "poly(x, 2) + I(a^2)");
    }

    #[test]
    fn depth_is_limited() {
        assert!(says(&format!("y ~ {}x", "(".repeat(5000))).contains("nested"));
        assert!(says(&format!("y ~ {}x", "-".repeat(5000))).contains("nested"));
    }
}
