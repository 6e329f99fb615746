//! Data from JSON, as CmdStan reads it.

use crate::diagnostic::Diagnostic;
use crate::interpret::Run;
use crate::interpret::Sized;
use crate::source::Span;
use crate::syntax::ast::Base;
use crate::trace::Flat;
use crate::value::Value;
use serde_json::Value as Json;
use std::sync::Arc;

/// The items of a file. CmdStan also reads NaN, Inf and Infinity, which Python writes although JSON has none of them.
pub fn parse(text: &str) -> Result<Json, String> {
    let items: Json = match serde_json::from_str(text) {
        Ok(items) => items,
        Err(error) => serde_json::from_str(&quoted(text)).map_err(|_| format!("is not JSON: {error}"))?,
    };
    match items {
        Json::Object(_) => Ok(items),
        _ => Err("must be an object of JSON, with an item for each name, such as {\"N\": 3}".to_owned()),
    }
}

/// The text with numbers that are not finite, outside of strings, between quotation marks.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, piece) in text.split('"').enumerate() {
        if i > 0 {
            out.push('"');
        }
        if i % 2 == 1 {
            out.push_str(piece);
            continue;
        }
        let mut word = String::new();
        for c in piece.chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || "+-.".contains(c) {
                word.push(c);
                continue;
            }
            let is_odd = word.ends_with("NaN") || word.ends_with("Inf") || word.ends_with("Infinity");
            out.push_str(&if is_odd { format!("\"{word}\"") } else { std::mem::take(&mut word) });
            word.clear();
            out.push(c);
        }
        out.pop();
    }
    out
}

/// The value of a data item of a declared type.
pub fn read(name: &str, item: &Json, sized: &Sized<'_>, span: Span) -> Run<Value> {
    let mut numbers = vec![];
    let mut place = vec![];
    let context = Context { name, base: sized.base, shape: &sized.shape, span };
    // A list of nothing may be written [] whatever its sizes, if they are 0 somewhere.
    let empty = sized.shape.contains(&0) && matches!(item, Json::Array(list) if list.is_empty());
    if !empty {
        context.flatten(item, 0, &mut place, &mut numbers)?;
    }
    let flat = if sized.shape.is_empty() { Flat::Number(numbers[0]) } else { Flat::Data(Arc::new(numbers)) };
    Ok(Value { base: sized.base, shape: sized.shape.clone(), flat })
}

/// Numbers as an item of data: lists in lists, as the sizes say.
pub fn write(values: &[f64], shape: &[usize]) -> Json {
    let number = |x: f64| match x {
        x if x.fract() == 0.0 && x.abs() < 1e15 => Json::from(x as i64),
        x if x.is_finite() => Json::from(x),
        x => Json::from(x.to_string()),
    };
    match shape {
        [] => number(values.first().copied().unwrap_or(f64::NAN)),
        [_] => values.iter().map(|x| number(*x)).collect(),
        [n, rest @ ..] => {
            (0..*n).map(|i| write(&values[i * values.len() / n..(i + 1) * values.len() / n], rest)).collect()
        }
    }
}

struct Context<'a> {
    name: &'a str,
    base: Base,
    shape: &'a [usize],
    span: Span,
}

impl Context<'_> {
    fn wrong<T>(&self, place: &[usize], what: String) -> Run<T> {
        let at: Vec<String> = place.iter().map(|i| (i + 1).to_string()).collect();
        let at = if at.is_empty() { String::new() } else { format!("[{}]", at.join(",")) };
        let error = Diagnostic::new(self.span, format!("the data item {}{at} {what}", self.name));
        Err(error.label("it is declared here"))
    }

    fn flatten(&self, item: &Json, axis: usize, place: &mut Vec<usize>, out: &mut Vec<f64>) -> Run<()> {
        if axis == self.shape.len() {
            out.push(self.number(item, place)?);
            return Ok(());
        }
        let Json::Array(list) = item else {
            return self.wrong(place, format!("must be a list of {}", self.shape[axis]));
        };
        if list.len() != self.shape[axis] {
            return self.wrong(place, format!("has {} elements where {} are declared", list.len(), self.shape[axis]));
        }
        for (i, inner) in list.iter().enumerate() {
            place.push(i);
            self.flatten(inner, axis + 1, place, out)?;
            place.pop();
        }
        Ok(())
    }

    fn number(&self, item: &Json, place: &[usize]) -> Run<f64> {
        let number = match item {
            Json::Number(n) => n.as_f64(),
            Json::Bool(b) => Some(f64::from(u8::from(*b))),
            Json::String(text) => match text.as_str() {
                "NaN" | "nan" => Some(f64::NAN),
                "Inf" | "+Inf" | "Infinity" | "+Infinity" | "inf" => Some(f64::INFINITY),
                "-Inf" | "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
                _ => None,
            },
            _ => None,
        };
        let Some(x) = number else {
            return self.wrong(place, format!("must be a number, not {item}"));
        };
        if self.base == Base::Int && (x.fract() != 0.0 || x.abs() > f64::from(i32::MAX)) {
            return self.wrong(place, format!("must be a whole number, not {item}"));
        }
        Ok(x)
    }
}
