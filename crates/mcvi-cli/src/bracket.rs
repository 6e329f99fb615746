//! Evidence from both sides: averages of a lower and an upper bound over data simulated from the model.

use crate::number::{fixed, json_number, with_error};
use mcvi::diagnostics::{Mean, mean};
use serde_json::{Value, json};

/// Both bounds on log p(x) of each data set.
pub struct Bracket {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl Bracket {
    /// From the lower and the upper bound of each data set.
    pub fn new(bounds: impl Iterator<Item = [f64; 2]>) -> Self {
        let (lower, upper) = bounds.map(|[lower, upper]| (lower, upper)).unzip();
        Bracket { lower, upper }
    }

    fn widths(&self) -> Vec<f64> {
        self.upper.iter().zip(&self.lower).map(|(upper, lower)| upper - lower).collect()
    }

    /// The mean width: the sum of the divergences between q and the posterior with its inverse model, in both directions.
    fn width(&self) -> Mean {
        mean(&self.widths())
    }

    fn median_width(&self) -> f64 {
        let mut widths = self.widths();
        widths.sort_by(f64::total_cmp);
        let n = widths.len();
        if n == 0 { f64::NAN } else { 0.5 * (widths[(n - 1) / 2] + widths[n / 2]) }
    }

    /// For a terminal: lines of what it is, its mean and its standard error.
    pub fn text(&self) -> String {
        format!(
            "  lower bound  {}\n  upper bound  {}\n  width        {}  (median {})",
            with_error(mean(&self.lower), 3),
            with_error(mean(&self.upper), 3),
            with_error(self.width(), 3),
            fixed(self.median_width(), 3),
        )
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let number = |mean: Mean| json!({ "value": json_number(mean.value), "se": json_number(mean.se) });
        json!({
            "simulations": self.lower.len(),
            "lower": number(mean(&self.lower)),
            "upper": number(mean(&self.upper)),
            "width": number(self.width()),
            "median_width": json_number(self.median_width()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_each_data_set() {
        let bracket = Bracket::new([[-3.0, -2.5], [-9.0, -8.9], [-5.0, -4.7]].into_iter());
        let json = bracket.json();
        let near = |value: &Value, x: f64| (value.as_f64().unwrap() - x).abs() < 1e-12;
        assert_eq!(json["simulations"], 3);
        assert!(near(&json["width"]["value"], 0.3) && near(&json["median_width"], 0.3), "{json}");
        // The standard error is that of the differences, not of log p(x), which varies far more.
        assert!(near(&json["width"]["se"], (0.04f64 / 3.0).sqrt()), "{json}");
        assert!(bracket.text().contains("0.300 ± 0.115"), "{}", bracket.text());
        // A lost draw leaves nothing to say about the mean, but about the median.
        let lost = Bracket::new([[-3.0, -2.5], [f64::NEG_INFINITY, -8.9], [-5.0, -4.7]].into_iter()).json();
        assert!(lost["width"]["value"].is_null() && near(&lost["median_width"], 0.5), "{lost}");
    }
}
