//! The response: numbers that its family allows.

use super::column::{Cells, Coded, Column};
use super::family::Family;
use super::formula::{Formula, Node};
use super::frame::{Frame, places};
use super::table::shown;
use super::variable::sorted;
use super::{arithmetic, listed};
use crate::error::Result;

/// The response as its family needs it.
pub(super) struct Response {
    /// Numbers; of categories, which of the levels.
    pub values: Vec<f64>,
    /// The categories.
    pub levels: Vec<String>,
}

/// Maximum number of categories.
const LEVELS: usize = 50;

impl Response {
    pub fn new(
        formula: &Formula,
        node: &Node,
        frame: &Frame,
        (family, order): (Family, &[String]),
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        if let Some(name) = node.name() {
            let column = frame.find(name)?;
            if family.is_categorical() {
                return categories(column, frame, (family, order), notes);
            }
            if family == Family::Bernoulli && matches!(column.cells, Cells::Texts { .. }) {
                return two_levels(column, frame, notes);
            }
        }
        let values = match node.name() {
            Some(name) => frame.find(name)?.numbers(frame)?,
            None if family.is_categorical() => {
                return Err(formula.at(node, format!("a {} response is a column", family.name())));
            }
            None => arithmetic::evaluate(formula, node, frame)?,
        };
        let is_count = |x: f64| x >= 0.0 && x.fract() == 0.0;
        let (allowed, what): (fn(f64) -> bool, _) = match family {
            Family::Bernoulli => (|x| x == 0.0 || x == 1.0, "0 or 1"),
            Family::Binomial | Family::Poisson | Family::Negbinomial | Family::ZeroInflatedPoisson => {
                (is_count, "a count, a whole number of at least 0")
            }
            Family::Gamma => (|x| x > 0.0, "a number above 0"),
            Family::Beta => (|x| x > 0.0 && x < 1.0, "a number between 0 and 1"),
            _ => (|_| true, "a number"),
        };
        let bad: Vec<usize> = (0..values.len()).filter(|row| !allowed(values[*row])).collect();
        if let Some(row) = bad.first() {
            let (cell, there) = (values[*row], places(frame, &bad));
            let what = format!(
                "the response `{node}` is `{cell}` {there}; a {} response is {what}; recode it, or choose another family",
                family.name()
            );
            return Err(frame.mistake(what));
        }
        let is_same = values.iter().all(|x| *x == values[0]);
        if is_same && !values.is_empty() && family != Family::Binomial {
            return Err(same(frame, &node.to_string(), &values[0].to_string()));
        }
        Ok(Response { values, levels: vec![] })
    }
}

fn same(frame: &Frame, name: &str, cell: &str) -> crate::error::Error {
    let what = format!("the response `{name}` is `{}` in every row: there is nothing to explain", shown(cell));
    frame.mistake(what)
}

/// Which of some levels each cell is.
fn places_of(coded: &Coded, levels: &[String]) -> Vec<f64> {
    let place = |label: &String| levels.iter().position(|l| l == label).unwrap_or(0) as f64;
    coded.values(&coded.different.iter().map(place).collect::<Vec<_>>())
}

/// Zero and one from two texts.
fn two_levels(column: &Column, frame: &Frame, notes: &mut Vec<String>) -> Result<Response> {
    let (name, coded) = (&column.name, column.coded());
    let truth = |label: &String| match label.to_lowercase().as_str() {
        "true" | "yes" | "1" => Some(1.0),
        "false" | "no" | "0" => Some(0.0),
        _ => None,
    };
    let words: Option<Vec<f64>> = coded.different.iter().map(truth).collect();
    let levels = sorted(coded.different.clone());
    if let Some(words) = words {
        if words.iter().all(|x| *x == words[0]) {
            return Err(same(frame, name, &coded.different[0]));
        }
        notes.push(format!("`{name}`: yes and true are 1, no and false are 0"));
        return Ok(Response { values: coded.values(&words), levels: vec![] });
    }
    match levels.as_slice() {
        [only] => Err(same(frame, name, only)),
        [zero, one] => {
            notes.push(format!("`{name}`: `{}` is 0, `{}` is 1", shown(zero), shown(one)));
            Ok(Response { values: places_of(&coded, &levels), levels: vec![] })
        }
        _ => {
            // The rarest are most likely mistakes.
            column.is_categorical(frame)?;
            let all = listed(levels.iter().map(|l| format!("`{}`", shown(l))), 10);
            let what = format!(
                "the response `{name}` has {} levels, {all}; a bernoulli response has two: recode it, or choose the \
                 family categorical or cumulative",
                levels.len()
            );
            Err(frame.mistake(what))
        }
    }
}

fn categories(
    column: &Column,
    frame: &Frame,
    (family, order): (Family, &[String]),
    notes: &mut Vec<String>,
) -> Result<Response> {
    let (name, coded) = (&column.name, column.coded());
    let found = sorted(coded.different.clone());
    if let Some(unknown) = found.iter().find(|l| !order.is_empty() && !order.contains(l)) {
        let what = format!("the response `{name}` has the level `{}`, which is not among those given", shown(unknown));
        return Err(frame.mistake(what));
    }
    let levels = if order.is_empty() { found } else { order.to_vec() };
    match levels.len() {
        0 | 1 => return Err(same(frame, name, levels.first().map_or("", |l| l.as_str()))),
        n if n > LEVELS => {
            let what = format!(
                "the response `{name}` has {n} levels, more than {LEVELS}; merge levels, or choose another family"
            );
            return Err(frame.mistake(what));
        }
        _ => {}
    }
    let shown: Vec<String> = levels.iter().map(|l| format!("`{}`", shown(l))).collect();
    notes.push(match family {
        Family::Cumulative => format!("`{name}` in this order: {}", shown.join(" < ")),
        _ => format!("`{name}` compared with {}: {}", shown[0], shown[1..].join(", ")),
    });
    Ok(Response { values: places_of(&coded, &levels), levels })
}
