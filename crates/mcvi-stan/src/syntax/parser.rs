//! The parser: recursive descent over the tokens. Here are blocks and functions, and what all parts share.

use super::ast::{Expr, ExprKind, Function, Name, Parameter, Statement, StatementKind, Tree};
use super::include::tokens;
use super::lexer::{Kind, Token};
use crate::diagnostic::Diagnostic;
use crate::source::{Includes, Sources, Span};
use std::sync::Arc;

/// Expressions and statements may be nested this deep.
pub const DEPTH: usize = 300;

pub type Parsed<T> = Result<T, Diagnostic>;

/// Where the parser is, and how deeply nested.
pub struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// The tree of a program: the first file of the sources, with what it includes.
pub fn parse(sources: &mut Sources, includes: &Includes<'_>) -> Parsed<Tree> {
    let tokens = tokens(sources, includes)?;
    Parser { tokens, at: 0, depth: 0 }.program()
}

/// The name of a token for messages.
fn show(kind: &Kind) -> String {
    match kind {
        Kind::Symbol(s) => format!("`{s}`"),
        Kind::Name(n) => format!("`{n}`"),
        Kind::Int(n) => format!("`{n}`"),
        Kind::Real(x) | Kind::Dot(x, _) => format!("`{x}`"),
        Kind::Imaginary(x) => format!("`{x}i`"),
        Kind::Text(_) => "a text".to_owned(),
        Kind::Include(_) => "an #include".to_owned(),
        Kind::End => "the end of the program".to_owned(),
    }
}

impl Parser {
    pub fn kind(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    /// The token after the next.
    pub fn second(&self) -> &Kind {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    pub fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// From a place to the end of what was read last.
    pub fn since(&self, start: Span) -> Span {
        if self.at == 0 { start } else { start.to(self.tokens[self.at - 1].span) }
    }

    pub fn advance(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub fn is(&self, symbol: &str) -> bool {
        matches!(self.kind(), Kind::Symbol(s) if *s == symbol)
    }

    /// Reads a symbol if it is next.
    pub fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    pub fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = show(self.kind());
        Err(Diagnostic::new(self.span(), format!("expected {what}, found {found}")).label(format!("expected {what}")))
    }

    pub fn expect(&mut self, symbol: &'static str) -> Parsed<Span> {
        if self.is(symbol) {
            return Ok(self.advance().span);
        }
        if symbol == ";" { self.missing_end() } else { self.expected(&format!("`{symbol}`")) }
    }

    /// What ends a statement is missing where that ends, mostly on the line before what was found.
    pub fn missing_end<T>(&self) -> Parsed<T> {
        let Some(last) = self.at.checked_sub(1).map(|i| &self.tokens[i]) else { return self.expected("`;`") };
        let message = format!("expected `;` after {}, found {}", show(&last.kind), show(self.kind()));
        Err(Diagnostic::new(last.span, message).label("a statement ends with `;`"))
    }

    /// A name that is used, or declared if it is not a word of the language.
    pub fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.kind().clone() {
            Kind::Name(text) => Ok(Name { text, span: self.advance().span }),
            Kind::Symbol(word) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let error = Diagnostic::new(self.span(), format!("`{word}` is a word of the language, not a name"));
                Err(error.label(format!("expected {what}")).help("choose another name"))
            }
            _ => self.expected(what),
        }
    }

    /// What is separated by commas, up to a closing symbol.
    pub fn list<T>(&mut self, close: &'static str, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut out = vec![];
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.eat(close) {
                return Ok(out);
            }
            if !self.eat(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    /// Runs a parser one level deeper.
    pub fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(too_deep(self.span()));
        }
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// An expression from its start to what was read last.
    pub fn build(&self, kind: ExprKind, start: Span) -> Parsed<Expr> {
        let expr = Expr::new(kind, self.since(start));
        if expr.depth > DEPTH { Err(too_deep(expr.span)) } else { Ok(expr) }
    }

    fn program(mut self) -> Parsed<Tree> {
        let mut tree = Tree::default();
        // Blocks come in this order, each at most once.
        let order = [
            "functions",
            "data",
            "transformed data",
            "parameters",
            "transformed parameters",
            "model",
            "generated quantities",
        ];
        let mut next = 0;
        while *self.kind() != Kind::End {
            let Some(i) = order.iter().position(|b| self.is(b)) else {
                return self.expected("a block, such as `model {`");
            };
            if i < next {
                let error = Diagnostic::new(self.span(), format!("the block `{}` comes too late", order[i]));
                return Err(error.help(format!("blocks come in this order, each once: {}", order.join(", "))));
            }
            next = i + 1;
            self.advance();
            self.expect("{")?;
            match i {
                0 => tree.functions = self.until_brace(Self::function)?,
                1 => tree.data = self.until_brace(|p| p.global_declaration(false))?,
                2 => tree.transformed_data = self.until_brace(Self::global_statement)?,
                3 => tree.parameters = self.until_brace(|p| p.global_declaration(false))?,
                4 => tree.transformed_parameters = self.until_brace(Self::global_statement)?,
                5 => tree.model = self.until_brace(Self::statement)?,
                _ => tree.generated_quantities = self.until_brace(Self::global_statement)?,
            }
        }
        Ok(tree)
    }

    /// Items up to a closing brace.
    pub fn until_brace<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut out = vec![];
        while !self.eat("}") {
            if *self.kind() == Kind::End {
                return self.expected("`}`");
            }
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// A declaration with constraints, or a statement.
    fn global_statement(&mut self) -> Parsed<Statement> {
        if self.is_declaration() { self.global_declaration(true) } else { self.statement() }
    }

    fn function(&mut self) -> Parsed<Arc<Function>> {
        let result = if self.eat("void") { None } else { Some(self.unsized_type()?) };
        let name = self.name("the name of a function")?;
        self.expect("(")?;
        let parameters = self.list(")", |p| {
            let data_only = p.eat("data");
            let ty = p.unsized_type()?;
            Ok(Parameter { data_only, ty, name: p.name("the name of a parameter")? })
        })?;
        let body = if self.eat(";") {
            None
        } else if self.is("{") {
            Some(self.statement()?)
        } else {
            return self.expected("`{` or `;`");
        };
        let body = body.filter(|b| !matches!(b.kind, StatementKind::Empty));
        Ok(Arc::new(Function { result, name, parameters, body }))
    }
}

fn too_deep(span: Span) -> Diagnostic {
    Diagnostic::new(span, format!("more than {DEPTH} expressions or statements within each other"))
        .help("compute parts of it in variables of their own")
}
