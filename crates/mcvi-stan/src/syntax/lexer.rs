//! From text to tokens.

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::sync::Arc;

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Punctuation, an operator or a keyword.
    Symbol(&'static str),
    Name(Arc<str>),
    Int(i64),
    Real(f64),
    /// `.2`: a number, or an element of a tuple.
    Dot(f64, usize),
    Imaginary(f64),
    Text(Arc<str>),
    Include(Arc<str>),
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// The words that cannot be names.
pub const KEYWORDS: &[&str] = &[
    "functions",
    "data",
    "parameters",
    "model",
    "return",
    "if",
    "else",
    "while",
    "profile",
    "for",
    "in",
    "break",
    "continue",
    "void",
    "int",
    "real",
    "complex",
    "vector",
    "row_vector",
    "complex_vector",
    "complex_row_vector",
    "tuple",
    "array",
    "matrix",
    "complex_matrix",
    "ordered",
    "positive_ordered",
    "simplex",
    "unit_vector",
    "sum_to_zero_vector",
    "sum_to_zero_matrix",
    "cholesky_factor_corr",
    "cholesky_factor_cov",
    "corr_matrix",
    "cov_matrix",
    "column_stochastic_matrix",
    "row_stochastic_matrix",
    "lower",
    "upper",
    "offset",
    "multiplier",
    "jacobian",
    "print",
    "reject",
    "fatal_error",
    "target",
];

/// Punctuation and operators, longest first.
const SYMBOLS: &[&str] = &[
    "%/%", ".*=", "./=", ".*", ".^", "./", "||", "&&", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "{", "}", "(",
    ")", "[", "]", "<", ">", ",", ";", "|", "?", ":", "!", "-", "+", "^", "'", "*", "/", "%", "\\", "~", "=",
];

/// Reads the tokens of one file.
pub struct Lexer<'a> {
    text: &'a str,
    file: u32,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str, file: u32) -> Self {
        Lexer { text, file, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    /// How many bytes from here on satisfy a condition.
    fn run(&self, from: usize, keep: impl Fn(u8) -> bool) -> usize {
        self.text.as_bytes()[from..].iter().take_while(|&&b| keep(b)).count()
    }

    fn skip_blanks(&mut self) -> Result<(), Diagnostic> {
        loop {
            self.at += self.run(self.at, |b| b.is_ascii_whitespace() || b == 0x0b);
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += self.run(self.at, |b| b != b'\n');
            } else if let Some(body) = rest.strip_prefix("/*") {
                let start = self.at;
                let Some(length) = body.find("*/") else {
                    self.at += 2;
                    let error = Diagnostic::new(self.span(start), "this comment has no end");
                    return Err(error.help("write */ where it ends"));
                };
                self.at += length + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// The next token.
    pub fn next(&mut self) -> Result<Token, Diagnostic> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token { kind: Kind::End, span: self.span(start) });
        };
        let digit_after_dot = first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        let kind = if first.is_ascii_alphabetic() {
            self.word()
        } else if first.is_ascii_digit() || digit_after_dot {
            self.number()?
        } else if first == '"' {
            self.at += 1;
            let length = self.run(self.at, |b| b != b'"' && b != b'\n' && b != b'\r');
            let text: Arc<str> = self.text[self.at..self.at + length].into();
            self.at += length;
            if !self.rest().starts_with('"') {
                return Err(
                    Diagnostic::new(self.span(start), "this text has no end").help("write \" before the line ends")
                );
            }
            self.at += 1;
            Kind::Text(text)
        } else if rest.starts_with("#include") {
            self.include()
        } else if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            self.at += symbol.len();
            Kind::Symbol(symbol)
        } else {
            self.at += first.len_utf8();
            let error = Diagnostic::new(self.span(start), format!("`{first}` is no part of the language"));
            return Err(if first == '#' { error.help("comments begin with //") } else { error });
        };
        Ok(Token { kind, span: self.span(start) })
    }

    fn include(&mut self) -> Kind {
        self.at += "#include".len();
        self.at += self.run(self.at, |b| b.is_ascii_whitespace());
        let close = match self.rest().chars().next() {
            Some('"') => Some(b'"'),
            Some('<') => Some(b'>'),
            _ => None,
        };
        let start = self.at + usize::from(close.is_some());
        let length = self.run(start, |b| match close {
            Some(c) => b != c && b != b'\n' && b != b'\r',
            None => !b.is_ascii_whitespace(),
        });
        self.at = (start + length + usize::from(close.is_some())).min(self.text.len());
        Kind::Include(self.text[start..start + length].into())
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        self.at += self.run(start, |b| b.is_ascii_alphanumeric() || b == b'_');
        let word = &self.text[start..self.at];
        // Names of blocks are two words.
        let pairs = [
            ("transformed", "data", "transformed data"),
            ("transformed", "parameters", "transformed parameters"),
            ("generated", "quantities", "generated quantities"),
        ];
        for (first, second, symbol) in pairs {
            if word == first {
                let blanks = self.run(self.at, |b| b == b' ' || b == b'\t' || b == b'\n' || b == b'\r');
                let after = &self.text[self.at + blanks..];
                let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                if blanks > 0 && after.strip_prefix(second).is_some_and(ends) {
                    self.at += blanks + second.len();
                    return Kind::Symbol(symbol);
                }
            }
        }
        match KEYWORDS.iter().find(|k| **k == word) {
            Some(keyword) => Kind::Symbol(keyword),
            None => Kind::Name(word.into()),
        }
    }

    /// Digits, with underscores between them.
    fn digits(&mut self) {
        self.at += self.run(self.at, |b| b.is_ascii_digit());
        while self.rest().starts_with('_') && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.at += 1;
            self.at += self.run(self.at, |b| b.is_ascii_digit());
        }
    }

    fn number(&mut self) -> Result<Kind, Diagnostic> {
        let start = self.at;
        let leading_dot = self.rest().starts_with('.');
        self.digits();
        let mut whole = !leading_dot;
        // The dot of `.*`, `./` and `.^` belongs to the operator.
        let next = self.rest().as_bytes().get(1).copied().unwrap_or(b' ');
        if self.rest().starts_with('.') && !matches!(next, b'*' | b'/' | b'^') {
            whole = false;
            self.at += 1;
            self.digits();
        }
        let exponent = self.rest();
        if exponent.starts_with(['e', 'E']) {
            let sign = usize::from(exponent[1..].starts_with(['+', '-']));
            if exponent[1 + sign..].starts_with(|c: char| c.is_ascii_digit()) {
                whole = false;
                self.at += 1 + sign;
                self.digits();
            }
        }
        let plain = leading_dot && !self.text[start..self.at].contains(['e', 'E']);
        let text = self.text[start..self.at].replace('_', "");
        let value = text.parse::<f64>().unwrap_or(f64::NAN);
        if self.rest().starts_with('i') && self.run(self.at, |b| b.is_ascii_alphanumeric() || b == b'_') == 1 {
            self.at += 1;
            return Ok(Kind::Imaginary(value));
        }
        if self.rest().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            self.at += self.run(self.at, |b| b.is_ascii_alphanumeric() || b == b'_');
            let error = Diagnostic::new(self.span(start), "a number cannot be followed by letters");
            return Err(error.help("names begin with a letter; an exponent is written 1e-5"));
        }
        if plain {
            return Ok(Kind::Dot(value, text[1..].parse().unwrap_or(0)));
        }
        if !whole {
            return Ok(Kind::Real(value));
        }
        match text.parse::<i64>() {
            Ok(n) if n <= i64::from(i32::MAX) => Ok(Kind::Int(n)),
            _ => {
                let error = Diagnostic::new(self.span(start), "this whole number is too large");
                Err(error.label("at most 2147483647").help("write it as a real number, with a decimal point"))
            }
        }
    }
}
