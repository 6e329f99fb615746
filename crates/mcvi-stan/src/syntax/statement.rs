//! Parsing of statements.

use super::ast::{
    BinaryOp, Call, DistributionStatement, Expr, ExprKind, Place, PlaceKind, Printable, Statement, StatementKind, Step,
};
use super::lexer::Kind;
use super::parser::{Parsed, Parser};
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The operator of an assignment; none for `=`.
fn assignment(symbol: &str) -> Option<Option<BinaryOp>> {
    Some(match symbol {
        "=" => None,
        "+=" => Some(BinaryOp::Add),
        "-=" => Some(BinaryOp::Subtract),
        "*=" => Some(BinaryOp::Multiply),
        "/=" => Some(BinaryOp::Divide),
        ".*=" => Some(BinaryOp::ElementMultiply),
        "./=" => Some(BinaryOp::ElementDivide),
        _ => return None,
    })
}

impl Parser {
    /// A statement or a local declaration.
    pub fn statement(&mut self) -> Parsed<Statement> {
        self.nested(Self::statement_here)
    }

    fn statement_here(&mut self) -> Parsed<Statement> {
        let start = self.span();
        if self.is_declaration() {
            return self.local_declaration();
        }
        let kind = match *self.kind() {
            Kind::Symbol("{") => {
                self.advance();
                StatementKind::Block(self.until_brace(Self::statement)?)
            }
            Kind::Symbol("if") => self.if_statement()?,
            Kind::Symbol("while") => {
                self.advance();
                self.expect("(")?;
                let condition = self.expression()?;
                self.expect(")")?;
                StatementKind::While { condition, body: Box::new(self.statement()?) }
            }
            Kind::Symbol("for") => self.for_statement()?,
            Kind::Symbol("profile") => {
                self.advance();
                self.expect("(")?;
                if !matches!(self.kind(), Kind::Text(_)) {
                    return self.expected("a name in quotes");
                }
                self.advance();
                self.expect(")")?;
                self.expect("{")?;
                StatementKind::Profile(self.until_brace(Self::statement)?)
            }
            Kind::Symbol("target" | "jacobian") if *self.second() == Kind::Symbol("+=") => {
                let target = self.is("target");
                self.advance();
                self.advance();
                let value = self.expression()?;
                self.semicolon()?;
                if target { StatementKind::AddToTarget(value) } else { StatementKind::AddToJacobian(value) }
            }
            Kind::Symbol(word @ ("print" | "reject" | "fatal_error")) => {
                self.advance();
                self.expect("(")?;
                let list = self.list(")", Self::printable)?;
                if list.is_empty() {
                    return Err(Diagnostic::new(self.since(start), format!("`{word}` needs something to say")));
                }
                self.semicolon()?;
                match word {
                    "print" => StatementKind::Print(list),
                    "reject" => StatementKind::Reject(list),
                    _ => StatementKind::FatalError(list),
                }
            }
            Kind::Symbol("return") => {
                self.advance();
                let value = if self.is(";") { None } else { Some(self.expression()?) };
                self.semicolon()?;
                StatementKind::Return(value)
            }
            Kind::Symbol("break") => {
                self.advance();
                self.semicolon()?;
                StatementKind::Break
            }
            Kind::Symbol("continue") => {
                self.advance();
                self.semicolon()?;
                StatementKind::Continue
            }
            Kind::Symbol(";") => {
                self.advance();
                StatementKind::Empty
            }
            _ => self.simple()?,
        };
        Ok(Statement { kind, span: self.since(start) })
    }

    fn semicolon(&mut self) -> Parsed<()> {
        self.expect(";").map(|_| ())
    }

    fn printable(&mut self) -> Parsed<Printable> {
        if let Kind::Text(text) = self.kind().clone() {
            self.advance();
            return Ok(Printable::Text(text.to_string()));
        }
        Ok(Printable::Value(self.expression()?))
    }

    fn if_statement(&mut self) -> Parsed<StatementKind> {
        self.advance();
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.eat("else") { Some(Box::new(self.statement()?)) } else { None };
        Ok(StatementKind::If { condition, then, otherwise })
    }

    fn for_statement(&mut self) -> Parsed<StatementKind> {
        self.advance();
        self.expect("(")?;
        let variable = self.name("the name of the loop's variable")?;
        self.expect("in")?;
        let from = self.expression()?;
        if self.eat(":") {
            let to = self.expression()?;
            self.expect(")")?;
            return Ok(StatementKind::For { variable, from, to, body: Box::new(self.statement()?) });
        }
        if !self.is(")") {
            return self.expected("`:` or `)`");
        }
        self.advance();
        Ok(StatementKind::ForEach { variable, container: from, body: Box::new(self.statement()?) })
    }

    /// An assignment, a distribution statement, or a call.
    fn simple(&mut self) -> Parsed<StatementKind> {
        let start = self.span();
        let left = self.expression()?;
        let Kind::Symbol(symbol) = *self.kind() else { return self.expected("`=`, `~` or `;`") };
        if symbol == "~" {
            self.advance();
            return self.distribution(left);
        }
        if let Some(op) = assignment(symbol) {
            let target = place(left)?;
            self.advance();
            let value = self.expression()?;
            if !self.is(";") {
                return self.missing_end();
            }
            self.advance();
            return Ok(StatementKind::Assign { target, op, value });
        }
        if symbol != ";" {
            return self.expected("`=`, `~` or `;`");
        }
        self.advance();
        match left.kind {
            ExprKind::Call(Call { conditional: false, .. }) => {
                let ExprKind::Call(call) = left.kind else { unreachable!("it was matched") };
                Ok(StatementKind::Call(call))
            }
            _ => {
                let error = Diagnostic::new(start.to(left.span), "this value is not used");
                let old = matches!(left.kind, ExprKind::Binary(BinaryOp::Less, ..));
                Err(if old { error.help("`<-` no longer assigns: write `=`") } else { error })
            }
        }
    }

    fn distribution(&mut self, variate: Expr) -> Parsed<StatementKind> {
        let name = self.name("the name of a distribution")?;
        self.expect("(")?;
        let arguments = self.plain_arguments()?;
        let mut truncation = None;
        if matches!(self.kind(), Kind::Name(n) if **n == *"T") && *self.second() == Kind::Symbol("[") {
            self.advance();
            self.advance();
            let lower = if self.is(",") { None } else { Some(self.expression()?) };
            self.expect(",")?;
            let upper = if self.is("]") { None } else { Some(self.expression()?) };
            self.expect("]")?;
            truncation = Some((lower, upper));
        }
        self.semicolon()?;
        Ok(StatementKind::Distribution(Box::new(DistributionStatement { variate, name, arguments, truncation })))
    }
}

/// What can be assigned to, from an expression.
fn place(expr: Expr) -> Parsed<Place> {
    let span = expr.span;
    let refuse = |span: Span| {
        Diagnostic::new(span, "nothing can be assigned to this").help("assign to a variable or its elements")
    };
    let kind = match expr.kind {
        ExprKind::Variable(name) => PlaceKind::Variable { name, steps: vec![] },
        ExprKind::Tuple(list) => PlaceKind::Tuple(list.into_iter().map(place).collect::<Parsed<_>>()?),
        ExprKind::Index(inner, indices) => extend(place(*inner)?, Step::Index(indices)).ok_or_else(|| refuse(span))?,
        ExprKind::Project(inner, slot) => extend(place(*inner)?, Step::Project(slot)).ok_or_else(|| refuse(span))?,
        _ => return Err(refuse(span)),
    };
    Ok(Place { kind, span })
}

fn extend(place: Place, step: Step) -> Option<PlaceKind> {
    match place.kind {
        PlaceKind::Variable { name, mut steps } => {
            steps.push(step);
            Some(PlaceKind::Variable { name, steps })
        }
        PlaceKind::Tuple(_) => None,
    }
}
