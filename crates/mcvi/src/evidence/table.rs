//! Tables of numbers without names.

use crate::error::{Error, Result};

/// Rows of numbers, separated by commas or spaces; all of one length.
pub(super) fn table(text: &str) -> Result<Vec<Vec<f64>>> {
    let mut rows: Vec<Vec<f64>> = vec![];
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields = line.split([',', ' ', '\t']).map(str::trim).filter(|field| !field.is_empty());
        let row: std::result::Result<Vec<f64>, _> = fields.map(str::parse).collect();
        let fits = |row: &Vec<f64>| {
            row.len() >= 2
                && rows.first().is_none_or(|first| first.len() == row.len())
                && row.iter().all(|x| x.is_finite())
        };
        match row {
            Ok(row) if fits(&row) => rows.push(row),
            _ => return Err(Error::Table { why: format!("line {}: not as many numbers as in the first line", i + 1) }),
        }
    }
    if rows.is_empty() { Err(Error::Table { why: "it is empty".to_owned() }) } else { Ok(rows) }
}
