//! The files a fit writes besides figures and the report: tables for any program, draws for ArviZ.
//!
//! Everything is written into a [`folder::Staging`] folder, which takes its final name once it is complete.

pub mod arrow;
pub mod csv;
mod flat;
pub mod folder;
pub mod zarr;

use std::io::{Error, ErrorKind};

/// A column of a table: its name and its values.
pub type Column = (String, Vec<f64>);

/// The number of rows that all the columns have.
fn rows(columns: &[Column]) -> std::io::Result<usize> {
    let Some((first, values)) = columns.first() else { return Ok(0) };
    match columns.iter().find(|(_, other)| other.len() != values.len()) {
        None => Ok(values.len()),
        Some((name, other)) => Err(invalid(format!(
            "column {name} has {} values, but column {first} has {}: all columns of a table must have the same length",
            other.len(),
            values.len()
        ))),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
