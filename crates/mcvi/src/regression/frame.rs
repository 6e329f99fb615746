//! Named columns of numbers or texts, from a file or from a program.

use super::names::nearest;
use super::table::{Table, shown};
use super::{listed, mistake};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Maximum number of columns listed in a message.
const LISTED: usize = 20;
/// The code of a missing text.
const MISSING: u32 = u32::MAX;

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
    lines: Vec<usize>,
    origin: Option<Origin>,
}

/// The file of a frame, and what stood there for a missing value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    pub path: PathBuf,
    pub na: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub name: String,
    pub cells: Cells,
}

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cells {
    /// NaN where missing.
    Numbers(Vec<f64>),
    /// Different texts in the order they come, and which of them each cell is.
    Texts { different: Vec<String>, codes: Vec<u32> },
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
        let mut texts = Interned::default();
        values.into_iter().for_each(|v| texts.push(v.as_ref().map(AsRef::as_ref)));
        self.with(name, texts.cells())
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
        let mut frame = Frame::of(&Table::read(path)?, &options.na);
        if path != Path::new("-") {
            // An absolute path, so that it can be found from anywhere.
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            frame.origin = Some(Origin { path, na: options.na.clone() });
        }
        Ok(frame)
    }

    /// The same from the bytes of a file.
    pub fn parse(bytes: &[u8], options: &ReadOptions) -> Result<Self> {
        Ok(Frame::of(&Table::parse(bytes, "bytes".to_owned())?, &options.na))
    }

    fn of(table: &Table, na: &[String]) -> Self {
        let column = |(c, name): (usize, &String)| {
            let present = || table.cells(c).map(|cell| (!is_missing(cell, na)).then_some(cell));
            let number = |cell: &str| cell.parse().ok().or_else(|| decimal_comma(cell).filter(|_| table.semicolons));
            let numbers: Option<Vec<f64>> = present().map(|cell| cell.map_or(Some(f64::NAN), number)).collect();
            let cells = numbers.map_or_else(
                || {
                    let mut texts = Interned::default();
                    present().for_each(|cell| texts.push(cell));
                    texts.cells()
                },
                Cells::Numbers,
            );
            Column { name: name.clone(), cells }
        };
        let columns = table.columns.iter().enumerate().filter(|(_, name)| !name.is_empty()).map(column).collect();
        Frame { columns, rows: table.len(), lines: table.lines.clone(), origin: None }
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
        match self.lines.get(row) {
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
            lines: kept.iter().filter_map(|row| self.lines.get(*row).copied()).collect(),
            origin: self.origin.clone(),
        }
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
        let cells = |c: &Column| match &c.cells {
            Cells::Numbers(values) => {
                let number = |x: &f64| if x.is_finite() { serde_json::json!(x) } else { serde_json::Value::Null };
                serde_json::Value::Array(values.iter().map(number).collect())
            }
            Cells::Texts { different, codes } => {
                serde_json::json!(codes.iter().map(|code| different.get(*code as usize)).collect::<Vec<_>>())
            }
        };
        // In order: `.` and the messages have it.
        serde_json::Value::Array(self.columns.iter().map(|c| serde_json::json!([c.name, cells(c)])).collect())
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

impl Cells {
    fn len(&self) -> usize {
        match self {
            Cells::Numbers(values) => values.len(),
            Cells::Texts { codes, .. } => codes.len(),
        }
    }

    fn is_missing(&self, row: usize) -> bool {
        match self {
            Cells::Numbers(values) => values[row].is_nan(),
            Cells::Texts { codes, .. } => codes[row] == MISSING,
        }
    }

    fn rows(&self, kept: &[usize]) -> Cells {
        match self {
            Cells::Numbers(values) => Cells::Numbers(kept.iter().map(|row| values[*row]).collect()),
            Cells::Texts { different, codes } => {
                Cells::Texts { different: different.clone(), codes: kept.iter().map(|row| codes[*row]).collect() }
            }
        }
    }
}

impl Column {
    /// Its numbers; an error that lists the cells that are none.
    pub fn numbers(&self, frame: &Frame) -> Result<Vec<f64>> {
        match &self.cells {
            Cells::Numbers(values) => {
                let bad = |row: &usize| values[*row].is_infinite();
                self.refuse(frame, bad, "is not a finite number", "correct it, or remove the row")?;
                Ok(values.clone())
            }
            Cells::Texts { .. } => Err(self.strays(frame).unwrap_or_else(|| {
                let what = "holds texts where numbers are needed; use it as it is, as categories";
                frame.mistake(format!("column `{}` {what}", self.name))
            })),
        }
    }

    /// The texts of its cells: numbers as they are written shortest.
    pub fn labels(&self) -> Vec<String> {
        match &self.cells {
            Cells::Numbers(values) => values.iter().map(f64::to_string).collect(),
            Cells::Texts { different, codes } => {
                codes.iter().map(|code| different.get(*code as usize).cloned().unwrap_or_default()).collect()
            }
        }
    }

    /// Whether it holds texts. An error if nearly all of them are numbers: then the others are mistakes, or stand for
    /// missing values.
    pub fn is_categorical(&self, frame: &Frame) -> Result<bool> {
        match (&self.cells, self.strays(frame)) {
            (Cells::Numbers(_), _) => Ok(false),
            (_, Some(strays)) => Err(strays),
            _ => Ok(true),
        }
    }

    /// The texts among what are mostly numbers.
    fn strays(&self, frame: &Frame) -> Option<Error> {
        let Cells::Texts { different, codes } = &self.cells else { return None };
        let is_number: Vec<bool> = different.iter().map(|text| text.parse::<f64>().is_ok()).collect();
        let present = codes.iter().filter(|code| **code != MISSING);
        let numbers = present.clone().filter(|code| is_number[**code as usize]).count();
        if 2 * numbers <= present.count() {
            return None;
        }
        let mut cells: Vec<(&str, Vec<usize>)> = vec![];
        let mut index: HashMap<u32, usize> = HashMap::new();
        for (row, code) in codes.iter().enumerate().filter(|(_, c)| **c != MISSING && !is_number[**c as usize]) {
            let i = *index.entry(*code).or_insert_with(|| {
                cells.push((&different[*code as usize], vec![]));
                cells.len() - 1
            });
            cells[i].1.push(row);
        }
        let kinds = cells.iter().map(|(text, rows)| format!("`{}` {}", shown(text), places(frame, rows)));
        let (all, bad, name) = (codes.len(), cells.iter().map(|c| c.1.len()).sum::<usize>(), &self.name);
        let na = shown(cells.first()?.0);
        let what = format!(
            "column `{name}` is numeric but for {bad} of {all} cells: {}; correct them, say that they are missing with \
             --na '{na}', or write factor({name}) for categories",
            listed(kinds, 5)
        );
        Some(frame.mistake(what))
    }

    /// An error that lists the cells for which `bad` holds.
    pub fn refuse(&self, frame: &Frame, bad: impl Fn(&usize) -> bool, what: &str, remedy: &str) -> Result<()> {
        let rows: Vec<usize> = (0..frame.len()).filter(bad).collect();
        let labels = self.labels();
        match rows.as_slice() {
            [] => Ok(()),
            [row] => {
                let (place, cell) = (frame.place(*row), shown(&labels[*row]));
                Err(frame.mistake(format!("{place}, column `{}`: `{cell}` {what}; {remedy}", self.name)))
            }
            rows => {
                let cell = shown(&labels[rows[0]]);
                let (n, all) = (rows.len(), frame.len());
                let there = places(frame, rows);
                let name = &self.name;
                Err(frame.mistake(format!(
                    "column `{name}`: {n} of {all} cells are not as needed: `{cell}` {what} {there}; {remedy}"
                )))
            }
        }
    }
}

/// How many rows, and where they are.
pub(super) fn places(frame: &Frame, rows: &[usize]) -> String {
    let times = if rows.len() == 1 { "once".to_owned() } else { format!("{} times", rows.len()) };
    format!("({times}: {})", listed(rows.iter().map(|row| frame.place(*row)), 5))
}

/// Texts, each kept once.
#[derive(Default)]
struct Interned {
    different: Vec<String>,
    index: HashMap<String, u32>,
    codes: Vec<u32>,
}

impl Interned {
    fn push(&mut self, text: Option<&str>) {
        let code = match text {
            None => MISSING,
            Some(text) => match self.index.get(text) {
                Some(code) => *code,
                None => {
                    let code = self.different.len() as u32;
                    self.index.insert(text.to_owned(), code);
                    self.different.push(text.to_owned());
                    code
                }
            },
        };
        self.codes.push(code);
    }

    fn cells(self) -> Cells {
        Cells::Texts { different: self.different, codes: self.codes }
    }
}

fn is_missing(cell: &str, na: &[String]) -> bool {
    let nan = || cell.parse().is_ok_and(f64::is_nan);
    cell.is_empty() || cell.eq_ignore_ascii_case("na") || na.iter().any(|n| n == cell) || nan()
}

/// A number with a comma for its decimal mark.
fn decimal_comma(cell: &str) -> Option<f64> {
    let (whole, fraction) = cell.split_once(',')?;
    fraction.starts_with(|c: char| c.is_ascii_digit()).then(|| format!("{whole}.{fraction}").parse().ok())?
}
