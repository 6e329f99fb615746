//! Numbers as people and programs read them.

use mcvi::diagnostics::Mean;
use serde_json::{Value, json};

/// A number in JSON; what is not finite is `null`.
pub fn json_number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { Value::Null }
}

/// A mean with its standard error.
pub fn with_error(mean: Mean, places: usize) -> String {
    if mean.value.is_finite() {
        format!("{} ± {:.places$}", fixed(mean.value, places), mean.se)
    } else {
        format!("{}", mean.value)
    }
}

/// A number with so many places, and a minus sign that looks like one.
pub fn fixed(x: f64, places: usize) -> String {
    format!("{x:.places$}").replace('-', "−")
}
