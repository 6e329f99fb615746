//! Named columns of numbers or texts, from a file or from a program.

use super::column::{Cells, Column};
use super::lines::Lines;
use super::names::nearest;
use super::table::{Table, shown};
use super::{listed, mistake};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum number of columns listed in a message.
const LISTED: usize = 20;

/// Columns of equal length, each with a name: numbers, or texts. Cells may be missing.
///
/// ```
/// use mcvi::regression::Frame;
///
/// let frame = Frame::new()
///     .numbers("dose", vec![1.0, 2.0, f64::NAN])?
///     .texts("site", [Some("Oslo"), None, Some("Rome")])?;
/// assert_eq!((frame.len(), frame.columns().collect::<Vec<_>>()), (3, vec!["dose", "site"]));
/// # Ok::<(), mcvi::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    columns: Vec<Column>,
    rows: usize,
    /// Of what came from a file, where each row starts.
    lines: Lines,
    origin: Option<Origin>,
}

/// The file of a frame, and what stood there for a missing value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    pub path: PathBuf,
    pub na: Vec<String>,
}

/// How a file is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// What stands for a missing value, besides nothing, `NA` and `NaN`.
    pub na: Vec<String>,
}

impl Frame {
    /// Without columns.
    pub fn new() -> Self {
        Frame::default()
    }

    /// With a column of numbers; NaN is a missing value.
    pub fn numbers(self, name: &str, values: Vec<f64>) -> Result<Self> {
        self.with(name, Cells::Numbers(values))
    }

    /// With a column of texts, or of missing values.
    pub fn texts<T: AsRef<str>>(self, name: &str, values: impl IntoIterator<Item = Option<T>>) -> Result<Self> {
        self.with(name, Cells::texts(values))
    }

    fn with(mut self, name: &str, cells: Cells) -> Result<Self> {
        let rows = cells.len();
        if !self.columns.is_empty() && rows != self.rows {
            let rest = self.rows;
            return Err(mistake(format!("column `{name}` has {rows} rows, the columns before it have {rest}")));
        }
        if self.columns.iter().any(|c| c.name == name) {
            return Err(mistake(format!("two columns are called `{name}`; rename or drop one")));
        }
        self.rows = rows;
        self.columns.push(Column { name: name.to_owned(), cells });
        Ok(self)
    }

    /// Read a text file with a header, gzipped or not: columns separated by commas, semicolons, tabs or bars. Standard input
    /// is `-`.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Self> {
        let mut frame = Frame::of(Table::read(path, &options.na)?);
        if path != Path::new("-") {
            // An absolute path, so that it can be found from anywhere.
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            frame.origin = Some(Origin { path, na: options.na.clone() });
        }
        Ok(frame)
    }

    /// The same from the bytes of a file.
    pub fn parse(bytes: &[u8], options: &ReadOptions) -> Result<Self> {
        Ok(Frame::of(Table::parse(bytes, "bytes", &options.na)?))
    }

    fn of(table: Table) -> Self {
        let columns = table.columns.into_iter().map(|(name, cells)| Column { name, cells }).collect();
        Frame { columns, rows: table.rows, lines: table.lines, origin: None }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The names of the columns.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| c.name.as_str())
    }

    pub(super) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Where the data come from, in words.
    pub(super) fn described(&self) -> String {
        self.origin.as_ref().map_or_else(|| "the data".to_owned(), |o| o.path.display().to_string())
    }

    /// Where a row is, in words.
    pub(super) fn place(&self, row: usize) -> String {
        match self.lines.of(row) {
            Some(line) => format!("line {line}"),
            None => format!("row {}", row + 1),
        }
    }

    /// An error in the data.
    pub(super) fn mistake(&self, what: impl std::fmt::Display) -> Error {
        match &self.origin {
            Some(origin) => mistake(format!("{}: {what}", origin.path.display())),
            None => mistake(what.to_string()),
        }
    }

    /// The column with this name.
    pub(super) fn find(&self, name: &str) -> Result<&Column> {
        if let Some(column) = self.columns.iter().find(|c| c.name == name) {
            return Ok(column);
        }
        if self.columns().all(|c| c.parse::<f64>().is_ok()) {
            let what = format!("there is no column `{name}`: the first line is numbers; add a header of column names");
            return Err(self.mistake(what));
        }
        let hint = match nearest(name, self.columns()) {
            Some(near) => format!("did you mean `{near}`? "),
            None => String::new(),
        };
        let columns = listed(self.columns().map(|c| format!("`{}`", shown(c))), LISTED);
        Err(self.mistake(format!("there is no column `{name}`; {hint}choose one of {columns}")))
    }

    /// Some of the rows.
    pub(super) fn rows(&self, kept: &[usize]) -> Frame {
        let column = |c: &Column| Column { name: c.name.clone(), cells: c.cells.rows(kept) };
        Frame {
            columns: self.columns.iter().map(column).collect(),
            rows: kept.len(),
            lines: self.lines.rows(kept),
            origin: self.origin.clone(),
        }
    }

    /// Rows of some of the columns that follow each other, without their file.
    pub(super) fn slice(&self, names: &[String], rows: Range<usize>) -> Frame {
        let column = |c: &Column| Column { name: c.name.clone(), cells: c.cells.slice(rows.clone()) };
        let columns = self.columns.iter().filter(|c| names.contains(&c.name)).map(column).collect();
        Frame { columns, rows: rows.len(), ..Frame::default() }
    }

    /// Some of the columns, without their file.
    pub(super) fn only(&self, names: &[String]) -> Frame {
        let columns = self.columns.iter().filter(|c| names.contains(&c.name)).cloned().collect();
        Frame { columns, rows: self.rows, ..Frame::default() }
    }

    /// Rows in which one of these columns is missing, by column.
    pub(super) fn missing(&self, names: &[String]) -> Result<BTreeMap<usize, Vec<&str>>> {
        let mut missing: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for name in names {
            let column = self.find(name)?;
            let gaps = (0..self.rows).filter(|row| column.cells.is_missing(*row));
            gaps.for_each(|row| missing.entry(row).or_default().push(&column.name));
        }
        Ok(missing)
    }

    /// As JSON: numbers, texts and nulls by column.
    pub(super) fn json(&self) -> serde_json::Value {
        // In order: `.` and the messages have it.
        serde_json::Value::Array(self.columns.iter().map(|c| serde_json::json!([c.name, c.cells.json()])).collect())
    }

    /// The inverse of [`json`](Self::json).
    pub(super) fn from_json(value: &serde_json::Value) -> Result<Self> {
        let bad = || mistake("the saved regression does not hold its data".to_owned());
        let columns: Vec<(String, Vec<serde_json::Value>)> =
            serde_json::from_value(value.clone()).map_err(|_| bad())?;
        columns.into_iter().try_fold(Frame::new(), |frame, (name, cells)| {
            if cells.iter().any(serde_json::Value::is_string) {
                frame.texts(&name, cells.iter().map(|cell| cell.as_str()))
            } else {
                frame.numbers(&name, cells.iter().map(|cell| cell.as_f64().unwrap_or(f64::NAN)).collect())
            }
        })
    }
}

/// How many rows, and where they are.
pub(super) fn places(frame: &Frame, rows: &[usize]) -> String {
    let times = if rows.len() == 1 { "once".to_owned() } else { format!("{} times", rows.len()) };
    format!("({times}: {})", listed(rows.iter().map(|row| frame.place(*row)), 5))
}
