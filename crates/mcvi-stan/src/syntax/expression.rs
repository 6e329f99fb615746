//! Parsing of expressions, by the strength of operators.

use super::ast::{BinaryOp, Call, Expr, ExprKind, Index, UnaryOp};
use super::lexer::Kind;
use super::parser::{Parsed, Parser};
use crate::diagnostic::Diagnostic;

/// Functions whose first argument is followed by a bar.
const CONDITIONAL: &[&str] = &["_lpdf", "_lpmf", "_lupdf", "_lupmf", "_cdf", "_lcdf", "_lccdf"];

/// The strength of the conditional operator, and of signs.
const CONDITION: u8 = 1;
const SIGN: u8 = 9;
const POWER: u8 = 10;

/// A binary operator and its strength.
fn operator(symbol: &str) -> Option<(BinaryOp, u8)> {
    Some(match symbol {
        "||" => (BinaryOp::Or, 2),
        "&&" => (BinaryOp::And, 3),
        "==" => (BinaryOp::Equal, 4),
        "!=" => (BinaryOp::NotEqual, 4),
        "<" => (BinaryOp::Less, 5),
        "<=" => (BinaryOp::LessEqual, 5),
        ">" => (BinaryOp::Greater, 5),
        ">=" => (BinaryOp::GreaterEqual, 5),
        "+" => (BinaryOp::Add, 6),
        "-" => (BinaryOp::Subtract, 6),
        "*" => (BinaryOp::Multiply, 7),
        "/" => (BinaryOp::Divide, 7),
        "%" => (BinaryOp::Modulo, 7),
        ".*" => (BinaryOp::ElementMultiply, 7),
        "./" => (BinaryOp::ElementDivide, 7),
        "%/%" => (BinaryOp::IntDivide, 8),
        "\\" => (BinaryOp::LeftDivide, 8),
        "^" => (BinaryOp::Power, POWER),
        ".^" => (BinaryOp::ElementPower, POWER),
        _ => return None,
    })
}

impl Parser {
    pub fn expression(&mut self) -> Parsed<Expr> {
        self.nested(|p| p.expression_above(CONDITION))
    }

    /// In `<lower=a>` a `>` ends the constraint: only arithmetic is allowed there.
    pub fn bound(&mut self) -> Parsed<Expr> {
        self.nested(|p| p.expression_above(6))
    }

    /// An expression of operators at least as strong as given.
    fn expression_above(&mut self, strength: u8) -> Parsed<Expr> {
        let start = self.span();
        let mut left = self.signed()?;
        loop {
            let Kind::Symbol(symbol) = *self.kind() else { return Ok(left) };
            if symbol == "?" && strength <= CONDITION {
                self.advance();
                let then = self.nested(|p| p.expression_above(CONDITION))?;
                self.expect(":")?;
                let otherwise = self.nested(|p| p.expression_above(CONDITION))?;
                left = self.build(ExprKind::Conditional(Box::new([left, then, otherwise])), start)?;
                continue;
            }
            let Some((op, power)) = operator(symbol).filter(|(_, power)| *power >= strength) else {
                return Ok(left);
            };
            self.advance();
            // Powers group to the right, all others to the left.
            let right = self.nested(|p| p.expression_above(if power == POWER { POWER } else { power + 1 }))?;
            left = self.build(ExprKind::Binary(op, Box::new(left), Box::new(right)), start)?;
        }
    }

    fn signed(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let op = match self.kind() {
            Kind::Symbol("-") => UnaryOp::Minus,
            Kind::Symbol("+") => UnaryOp::Plus,
            Kind::Symbol("!") => UnaryOp::Not,
            _ => return self.postfix(),
        };
        self.advance();
        // -a^b is -(a^b).
        let operand = self.nested(|p| p.expression_above(SIGN))?;
        self.build(ExprKind::Unary(op, Box::new(operand)), start)
    }

    /// An expression with indices, projections and transpositions after it.
    pub fn postfix(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let mut expr = self.primary()?;
        loop {
            expr = match self.kind() {
                Kind::Symbol("[") => {
                    self.advance();
                    let indices = self.list("]", Self::index)?;
                    let indices = if indices.is_empty() { vec![Index::All] } else { indices };
                    self.build(ExprKind::Index(Box::new(expr), indices), start)?
                }
                Kind::Symbol("'") => {
                    self.advance();
                    self.build(ExprKind::Transpose(Box::new(expr)), start)?
                }
                Kind::Dot(_, slot) => {
                    let slot = *slot;
                    self.advance();
                    self.build(ExprKind::Project(Box::new(expr), slot), start)?
                }
                _ => return Ok(expr),
            }
        }
    }

    /// One index: a number, a range, all, or nothing, which is all.
    pub fn index(&mut self) -> Parsed<Index> {
        if self.is(",") || self.is("]") {
            return Ok(Index::All);
        }
        if self.eat(":") {
            return Ok(if self.is(",") || self.is("]") { Index::All } else { Index::UpTo(self.expression()?) });
        }
        let first = self.expression()?;
        if !self.eat(":") {
            return Ok(Index::Single(first));
        }
        Ok(if self.is(",") || self.is("]") { Index::From(first) } else { Index::Range(first, self.expression()?) })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let kind = match self.kind().clone() {
            Kind::Int(n) => {
                self.advance();
                ExprKind::Int(n)
            }
            Kind::Real(x) | Kind::Dot(x, _) => {
                self.advance();
                ExprKind::Real(x)
            }
            Kind::Imaginary(_) => {
                self.advance();
                ExprKind::Imaginary
            }
            Kind::Symbol("{") => {
                self.advance();
                let list = self.list("}", Self::expression)?;
                if list.is_empty() {
                    return Err(Diagnostic::new(self.since(start), "an array needs at least one element"));
                }
                ExprKind::Array(list)
            }
            Kind::Symbol("[") => {
                self.advance();
                ExprKind::Row(self.list("]", Self::expression)?)
            }
            Kind::Symbol("(") => return self.parenthesis(),
            Kind::Symbol("target") => {
                self.advance();
                self.expect("(")?;
                self.expect(")")?;
                ExprKind::Target
            }
            Kind::Name(_) => {
                let name = self.name("a name")?;
                if !self.is("(") {
                    return self.build(ExprKind::Variable(name), start);
                }
                self.advance();
                let (arguments, bar) = self.arguments()?;
                let may_lack_bar = arguments.len() == 1 && CONDITIONAL.iter().any(|s| name.text.ends_with(s));
                ExprKind::Call(Call { name, arguments, conditional: bar || may_lack_bar })
            }
            _ => return self.expected("an expression"),
        };
        self.build(kind, start)
    }

    /// `(a)`, or a tuple `(a, b)`.
    fn parenthesis(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let first = self.expression()?;
        if self.eat(")") {
            return Ok(Expr { span: self.since(start), ..first });
        }
        if !self.eat(",") {
            return self.expected("`)`");
        }
        let mut list = vec![first];
        list.extend(self.list(")", Self::expression)?);
        self.build(ExprKind::Tuple(list), start)
    }

    /// Arguments of a call after its parenthesis, and whether a bar follows the first.
    fn arguments(&mut self) -> Parsed<(Vec<Expr>, bool)> {
        if self.eat(")") {
            return Ok((vec![], false));
        }
        let first = self.expression()?;
        let bar = self.eat("|");
        if !bar && !self.is(",") && !self.is(")") {
            return self.expected("`,`, `|` or `)`");
        }
        let rest = if bar || self.eat(",") {
            if !bar && self.is(")") {
                return self.expected("an expression");
            }
            self.list(")", Self::expression)?
        } else {
            self.expect(")")?;
            vec![]
        };
        Ok((std::iter::once(first).chain(rest).collect(), bar))
    }

    /// Arguments of a call after its parenthesis, without a bar.
    pub fn plain_arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.list(")", Self::expression)
    }
}
