//! The text of a formula as tokens with places.

use super::{Mistake, Operator};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(String),
    Name(String),
    Dot,
    Operator(Operator),
    Open,
    Close,
    Comma,
    /// `=`, before an argument given by name.
    Is,
}

pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, Mistake> {
    let mut tokens = vec![];
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, len) = match symbol(rest) {
            Some((token, len)) => (token, len),
            None => word(rest, c).ok_or_else(|| unknown(rest, c, at))?,
        };
        tokens.push((token, at..at + len));
        at += len;
    }
    Ok(tokens)
}

fn symbol(rest: &str) -> Option<(Token, usize)> {
    use Operator::*;
    const SYMBOLS: [(&str, Operator); 18] = [
        ("%in%", Within),
        ("||", DoubleBar),
        ("<=", LessEqual),
        (">=", GreaterEqual),
        ("==", Equal),
        ("!=", Unequal),
        ("**", Power),
        ("~", Tilde),
        ("|", Bar),
        ("<", Less),
        (">", Greater),
        ("+", Add),
        ("-", Subtract),
        ("−", Subtract),
        ("*", Multiply),
        ("/", Divide),
        (":", Interact),
        ("^", Power),
    ];
    let operator = SYMBOLS.iter().find(|(s, _)| rest.starts_with(s));
    if let Some((s, operator)) = operator {
        return Some((Token::Operator(*operator), s.len()));
    }
    let token = match rest.as_bytes()[0] {
        b'(' => Token::Open,
        b')' => Token::Close,
        b',' => Token::Comma,
        b'=' => Token::Is,
        _ => return None,
    };
    Some((token, 1))
}

/// A number, a name, or something in quotes.
fn word(rest: &str, c: char) -> Option<(Token, usize)> {
    if let '`' | '"' | '\'' = c {
        let (inner, _) = rest[1..].split_once(c)?;
        let token = if c == '`' { Token::Name(inner.to_owned()) } else { Token::Text(inner.to_owned()) };
        return (!inner.is_empty()).then_some((token, inner.len() + 2));
    }
    let in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let second_is_digit = rest[c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
    if c.is_ascii_digit() || (c == '.' && second_is_digit) {
        let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let mut len = digits(rest);
        let exponent = rest[len..].strip_prefix(['e', 'E']).map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
        if let Some(power) = exponent.filter(|e| e.starts_with(|c: char| c.is_ascii_digit())) {
            len = rest.len() - power.len() + digits(power);
        }
        return Some((Token::Number(rest[..len].parse().ok()?), len));
    }
    if !(c.is_alphabetic() || c == '.' || c == '_') {
        return None;
    }
    let len = rest.find(|c: char| !in_name(c)).unwrap_or(rest.len());
    let token = if &rest[..len] == "." { Token::Dot } else { Token::Name(rest[..len].to_owned()) };
    Some((token, len))
}

fn unknown(rest: &str, c: char, at: usize) -> Mistake {
    let what = match c {
        '`' | '"' | '\'' => format!("nothing closes this {c}, or nothing is between two of them"),
        c if c.is_ascii_digit() => {
            let word: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
            format!("`{word}` is not a number")
        }
        c => format!("`{c}` is not part of the notation; quote the name of a column as `a{c}b`, in backticks"),
    };
    Mistake { span: at..at + c.len_utf8(), what }
}
