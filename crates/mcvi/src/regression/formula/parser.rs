//! Tokens as a tree, by precedence climbing with R's precedences.

use super::lexer::Token;
use super::{Argument, Kind, Mistake, Node, Operator};
use std::ops::Range;

/// Maximum depth of parentheses and signs.
const DEPTH: usize = 100;

pub(super) fn parse(tokens: &[(Token, Range<usize>)], end: usize) -> Result<Node, Mistake> {
    let mut parser = Parser { tokens, at: 0, end, depth: 0 };
    let response = parser.binary(precedence(Operator::Tilde) + 1)?;
    parser.expect(&Token::Operator(Operator::Tilde), "`~`, as in y ~ x")?;
    let terms = parser.binary(precedence(Operator::Tilde) + 1)?;
    if parser.peek().is_some() {
        return Err(parser.unexpected("an operator such as `+`"));
    }
    Ok(binary(Operator::Tilde, response, terms))
}

fn binary(operator: Operator, left: Node, right: Node) -> Node {
    let span = left.span.start..right.span.end;
    Node { kind: Kind::Binary(operator, Box::new(left), Box::new(right)), span }
}

fn precedence(operator: Operator) -> u8 {
    use Operator::*;
    match operator {
        Tilde => 0,
        Bar | DoubleBar => 1,
        Less | LessEqual | Greater | GreaterEqual | Equal | Unequal => 2,
        Add | Subtract => 3,
        Multiply | Divide => 4,
        Within => 5,
        Interact => 6,
        Power => 8,
    }
}

/// A sign binds more than `:` and less than `^`.
const SIGN: u8 = 7;

struct Parser<'a> {
    tokens: &'a [(Token, Range<usize>)],
    at: usize,
    end: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.0)
    }

    fn span(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.end..self.end, |t| t.1.clone())
    }

    fn unexpected(&self, expected: &str) -> Mistake {
        let found = if self.peek().is_some() { "this" } else { "the end" };
        Mistake { span: self.span(), what: format!("{expected} is expected here, found {found}") }
    }

    fn expect(&mut self, token: &Token, what: &str) -> Result<(), Mistake> {
        if self.peek() != Some(token) {
            let found = if self.peek().is_some() { "this" } else { "the end" };
            return Err(Mistake { span: self.span(), what: format!("expected {what}, found {found}") });
        }
        self.at += 1;
        Ok(())
    }

    /// Operators that bind at least as much as `least`.
    fn binary(&mut self, least: u8) -> Result<Node, Mistake> {
        let mut left = self.unary()?;
        while let Some(Token::Operator(operator)) = self.peek() {
            let (operator, binds) = (*operator, precedence(*operator));
            if binds < least {
                break;
            }
            self.at += 1;
            // Powers associate to the right.
            let right = self.binary(if operator == Operator::Power { binds } else { binds + 1 })?;
            left = binary(operator, left, right);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, Mistake> {
        let start = self.span();
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Mistake { span: start, what: format!("more than {DEPTH} parts are nested here") });
        }
        let node = match self.peek() {
            Some(Token::Operator(Operator::Subtract)) => {
                self.at += 1;
                let inner = self.binary(SIGN)?;
                let span = start.start..inner.span.end;
                Node { kind: Kind::Negative(Box::new(inner)), span }
            }
            Some(Token::Operator(Operator::Add)) => {
                self.at += 1;
                self.binary(SIGN)?
            }
            _ => self.primary()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, Mistake> {
        let start = self.span();
        let kind = match self.peek() {
            Some(Token::Number(x)) => Kind::Number(*x),
            Some(Token::Text(text)) => Kind::Text(text.clone()),
            Some(Token::Dot) => Kind::Dot,
            Some(Token::Name(name)) => Kind::Name(name.clone()),
            Some(Token::Open) => {
                self.at += 1;
                let inner = self.binary(precedence(Operator::Bar))?;
                let end = self.span().end;
                self.expect(&Token::Close, "`)`")?;
                return Ok(Node { kind: Kind::Nested(Box::new(inner)), span: start.start..end });
            }
            _ => return Err(self.unexpected("a term")),
        };
        self.at += 1;
        match kind {
            Kind::Name(name) if self.peek() == Some(&Token::Open) => {
                self.at += 1;
                let arguments = self.arguments()?;
                let end = self.span().end;
                self.expect(&Token::Close, "`)`")?;
                Ok(Node { kind: Kind::Call(name, arguments), span: start.start..end })
            }
            kind => Ok(Node { kind, span: start }),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, Mistake> {
        let mut arguments = vec![];
        while self.peek() != Some(&Token::Close) {
            if !arguments.is_empty() {
                self.expect(&Token::Comma, "`,` or `)`")?;
            }
            let name = match (self.peek(), self.tokens.get(self.at + 1).map(|t| &t.0)) {
                (Some(Token::Name(name)), Some(Token::Is)) => Some(name.clone()),
                _ => None,
            };
            self.at += if name.is_some() { 2 } else { 0 };
            arguments.push(Argument { name, value: self.binary(precedence(Operator::Bar))? });
        }
        Ok(arguments)
    }
}
