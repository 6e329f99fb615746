//! Arithmetic in formulas: `log(x)`, `I(a / b)`.

use super::formula::{Formula, Kind, Node, Operator};
use super::frame::Frame;
use super::names::nearest;
use crate::error::Result;

/// A function of numbers.
type Function = fn(f64) -> f64;

const FUNCTIONS: [(&str, Function); 17] = [
    ("I", |x| x),
    ("log", f64::ln),
    ("log2", f64::log2),
    ("log10", f64::log10),
    ("log1p", f64::ln_1p),
    ("exp", f64::exp),
    ("expm1", f64::exp_m1),
    ("sqrt", f64::sqrt),
    ("abs", f64::abs),
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
    ("floor", f64::floor),
    ("ceiling", f64::ceil),
    ("round", f64::round),
    ("logit", |x| (x / (1.0 - x)).ln()),
];

/// Whether there is a function of this name.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// A number for each row. Where it is not finite, an error says so.
pub(super) fn evaluate(formula: &Formula, node: &Node, frame: &Frame) -> Result<Vec<f64>> {
    let values = of(formula, node, frame)?;
    let bad: Vec<usize> = (0..values.len()).filter(|row| !values[*row].is_finite()).collect();
    match bad.first() {
        None => Ok(values),
        Some(row) => {
            let (value, there) = (values[*row], super::frame::places(frame, &bad));
            Err(formula.at(node, format!("its value is {value} {there}; transform it otherwise, or remove those rows")))
        }
    }
}

fn of(formula: &Formula, node: &Node, frame: &Frame) -> Result<Vec<f64>> {
    match &node.kind {
        Kind::Number(x) => Ok(vec![*x; frame.len()]),
        Kind::Name(name) => frame.find(name)?.numbers(frame),
        Kind::Nested(inner) => of(formula, inner, frame),
        Kind::Negative(inner) => Ok(of(formula, inner, frame)?.into_iter().map(|x| -x).collect()),
        Kind::Call(name, arguments) => {
            let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| known == name) else {
                let near = nearest(name, FUNCTIONS.iter().map(|f| f.0));
                let hint = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                let known = FUNCTIONS.map(|f| f.0).join(", ");
                return Err(formula.at(node, format!("there is no function `{name}`; {hint}there are {known}")));
            };
            match &arguments[..] {
                [only] if only.name.is_none() => {
                    Ok(of(formula, &only.value, frame)?.into_iter().map(function).collect())
                }
                _ => Err(formula.at(node, format!("`{name}` takes one argument"))),
            }
        }
        Kind::Binary(operator, a, b) => {
            let apply: fn(f64, f64) -> f64 = match operator {
                Operator::Add => |a, b| a + b,
                Operator::Subtract => |a, b| a - b,
                Operator::Multiply => |a, b| a * b,
                Operator::Divide => |a, b| a / b,
                Operator::Power => f64::powf,
                Operator::Less => |a, b| f64::from(u8::from(a < b)),
                Operator::LessEqual => |a, b| f64::from(u8::from(a <= b)),
                Operator::Greater => |a, b| f64::from(u8::from(a > b)),
                Operator::GreaterEqual => |a, b| f64::from(u8::from(a >= b)),
                Operator::Unequal | Operator::Equal => {
                    return compare(formula, (a, b), *operator == Operator::Equal, frame);
                }
                _ => return Err(formula.at(node, "this is no arithmetic")),
            };
            let (a, b) = (of(formula, a, frame)?, of(formula, b, frame)?);
            Ok(a.into_iter().zip(b).map(|(a, b)| apply(a, b)).collect())
        }
        Kind::Text(_) | Kind::Dot => Err(formula.at(node, "a number, a column or a function is expected here")),
    }
}

/// 1 where both sides are the same, or where they are not: numbers, or a column and a text.
fn compare(formula: &Formula, (a, b): (&Node, &Node), equal: bool, frame: &Frame) -> Result<Vec<f64>> {
    let hit = |same: bool| f64::from(u8::from(same == equal));
    match (&a.kind, &b.kind) {
        (Kind::Name(name), Kind::Text(text)) | (Kind::Text(text), Kind::Name(name)) => {
            let coded = frame.find(name)?.coded();
            let hits: Vec<f64> = coded.different.iter().map(|label| hit(label == text)).collect();
            Ok(coded.values(&hits))
        }
        _ => {
            let (a, b) = (of(formula, a, frame)?, of(formula, b, frame)?);
            Ok(a.into_iter().zip(b).map(|(a, b)| hit(a == b)).collect())
        }
    }
}
