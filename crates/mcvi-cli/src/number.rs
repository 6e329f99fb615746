//! Formatting of numbers.

use mcvi::diagnostics::Mean;
use serde_json::{Value, json};

/// A number in JSON; non-finite numbers are `null`.
pub fn json_number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { Value::Null }
}

/// A mean with its standard error.
pub fn with_error(mean: Mean, places: usize) -> String {
    if mean.value.is_finite() {
        format!("{} ± {}", fixed(mean.value, places), fixed(mean.se, places))
    } else {
        format!("{}", mean.value)
    }
}

/// A number with this many decimals, and a true minus sign.
pub fn fixed(x: f64, places: usize) -> String {
    // A bound that one diverged draw has spoilt would fill the line.
    let text = if x.abs() < 1e6 { format!("{x:.places$}") } else { format!("{x:.0e}") };
    text.replace('-', "−")
}

/// A count with its noun: "1 epoch", "2 epochs".
pub fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
