//! A column of numbers or texts: eight bytes a number, and for texts each of them once, with a code for each cell.

use super::frame::{Frame, places};
use super::listed;
use super::table::shown;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// The code of a missing text.
const MISSING: u32 = u32::MAX;

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

/// Different texts, and which of them each cell of a column is.
pub(super) struct Coded {
    pub different: Vec<String>,
    pub codes: Vec<u32>,
}

impl Coded {
    /// Of each cell what its text stands for.
    pub fn values(&self, of_texts: &[f64]) -> Vec<f64> {
        self.codes.iter().map(|code| of_texts[*code as usize]).collect()
    }

    /// Each cell with that of another column in the same row.
    pub fn crossed(&self, other: &Coded) -> Coded {
        let (mut both, mut known) = (Interned::default(), HashMap::new());
        for pair in self.codes.iter().zip(&other.codes) {
            let text = || [&*self.different[*pair.0 as usize], &other.different[*pair.1 as usize]].join(":");
            let code = *known.entry(pair).or_insert_with(|| both.code(&text()));
            both.codes.push(code);
        }
        Coded { different: both.different, codes: both.codes }
    }
}

impl Cells {
    /// From texts; none where one is missing.
    pub fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> Self {
        let mut texts = Interned::default();
        values.into_iter().for_each(|v| texts.push(v.as_ref().map(AsRef::as_ref)));
        texts.cells()
    }

    pub fn len(&self) -> usize {
        match self {
            Cells::Numbers(values) => values.len(),
            Cells::Texts { codes, .. } => codes.len(),
        }
    }

    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Cells::Numbers(values) => values[row].is_nan(),
            Cells::Texts { codes, .. } => codes[row] == MISSING,
        }
    }

    /// Some of the rows.
    pub fn rows(&self, kept: &[usize]) -> Cells {
        match self {
            Cells::Numbers(values) => Cells::Numbers(kept.iter().map(|row| values[*row]).collect()),
            Cells::Texts { different, codes } => {
                Cells::Texts { different: different.clone(), codes: kept.iter().map(|row| codes[*row]).collect() }
            }
        }
    }

    /// Rows that follow each other.
    pub fn slice(&self, rows: Range<usize>) -> Cells {
        match self {
            Cells::Numbers(values) => Cells::Numbers(values[rows].to_vec()),
            Cells::Texts { different, codes } => {
                Cells::Texts { different: different.clone(), codes: codes[rows].to_vec() }
            }
        }
    }

    /// As JSON: numbers, texts and nulls.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Cells::Numbers(values) => {
                let number = |x: &f64| if x.is_finite() { serde_json::json!(x) } else { serde_json::Value::Null };
                serde_json::Value::Array(values.iter().map(number).collect())
            }
            Cells::Texts { different, codes } => {
                serde_json::json!(codes.iter().map(|code| different.get(*code as usize)).collect::<Vec<_>>())
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

    /// The text of a cell: of a number as it is written shortest, of a missing one nothing.
    fn text(&self, row: usize) -> String {
        match &self.cells {
            Cells::Numbers(values) => values[row].to_string(),
            Cells::Texts { different, codes } => different.get(codes[row] as usize).cloned().unwrap_or_default(),
        }
    }

    /// The different texts of its cells, and which of them each is.
    pub fn coded(&self) -> Coded {
        let mut interned = Interned::default();
        match &self.cells {
            Cells::Numbers(values) => {
                let mut known: HashMap<u64, u32> = HashMap::new();
                for x in values {
                    let code = *known.entry(x.to_bits()).or_insert_with(|| interned.code(&x.to_string()));
                    interned.codes.push(code);
                }
            }
            Cells::Texts { different, codes } => {
                // Some of the rows need not have all texts.
                let mut known: HashMap<u32, u32> = HashMap::new();
                for code in codes {
                    let text = || different.get(*code as usize).map_or("", String::as_str);
                    let code = *known.entry(*code).or_insert_with(|| interned.code(text()));
                    interned.codes.push(code);
                }
            }
        }
        Coded { different: interned.different, codes: interned.codes }
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
        match rows.as_slice() {
            [] => Ok(()),
            [row] => {
                let (place, cell) = (frame.place(*row), shown(&self.text(*row)));
                Err(frame.mistake(format!("{place}, column `{}`: `{cell}` {what}; {remedy}", self.name)))
            }
            rows => {
                let cell = shown(&self.text(rows[0]));
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

/// Texts, each kept once.
#[derive(Default)]
pub(super) struct Interned {
    different: Vec<String>,
    index: HashMap<String, u32>,
    codes: Vec<u32>,
}

impl Interned {
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.index.get(text) {
            return *code;
        }
        let code = self.different.len() as u32;
        self.index.insert(text.to_owned(), code);
        self.different.push(text.to_owned());
        code
    }

    fn push(&mut self, text: Option<&str>) {
        let code = text.map_or(MISSING, |text| self.code(text));
        self.codes.push(code);
    }

    fn cells(self) -> Cells {
        Cells::Texts { different: self.different, codes: self.codes }
    }
}

/// A column as it is read.
pub(super) enum Growing {
    /// It is not wanted.
    Skipped,
    Numbers(Vec<f64>),
    Texts(Interned),
    /// Numbers, then a text: what the numbers were written like has to be read again.
    Mixed,
}

impl Default for Growing {
    fn default() -> Self {
        Growing::Numbers(vec![])
    }
}

impl Growing {
    /// For texts.
    pub fn texts() -> Self {
        Growing::Texts(Interned::default())
    }

    /// Make room for so many cells in all, and a few more.
    pub fn reserve(&mut self, cells: usize) {
        let more = |len: usize| (cells + cells / 64).saturating_sub(len);
        match self {
            Growing::Numbers(values) => drop(values.try_reserve_exact(more(values.len()))),
            Growing::Texts(texts) => drop(texts.codes.try_reserve_exact(more(texts.codes.len()))),
            Growing::Skipped | Growing::Mixed => {}
        }
    }

    /// Add a cell.
    pub fn push(&mut self, cell: &str, reader: &Reader<'_>) {
        match self {
            Growing::Skipped | Growing::Mixed => {}
            Growing::Texts(texts) => texts.push(Some(cell).filter(|cell| !reader.is_missing(cell))),
            Growing::Numbers(values) => match reader.number(cell) {
                Some(number) => values.push(number),
                None if values.iter().all(|x| x.is_nan()) => {
                    let mut texts = Interned::default();
                    texts.codes.resize(values.len(), MISSING);
                    texts.push(Some(cell));
                    *self = Growing::Texts(texts);
                }
                None => *self = Growing::Mixed,
            },
        }
    }

    pub fn cells(self) -> Cells {
        match self {
            Growing::Numbers(mut values) => {
                values.shrink_to_fit();
                Cells::Numbers(values)
            }
            Growing::Texts(texts) => texts.cells(),
            Growing::Skipped | Growing::Mixed => Cells::Numbers(vec![]),
        }
    }
}

/// How cells are read.
pub(super) struct Reader<'a> {
    /// What stands for a missing value, besides nothing, `NA` and `NaN`.
    pub na: &'a [String],
    pub decimal_commas: bool,
}

impl Reader<'_> {
    /// A number, NaN where it is missing; none for a text.
    fn number(&self, cell: &str) -> Option<f64> {
        if self.is_named_missing(cell) {
            return Some(f64::NAN);
        }
        cell.parse().ok().or_else(|| decimal_comma(cell).filter(|_| self.decimal_commas))
    }

    fn is_missing(&self, cell: &str) -> bool {
        self.is_named_missing(cell) || cell.parse().is_ok_and(f64::is_nan)
    }

    fn is_named_missing(&self, cell: &str) -> bool {
        cell.is_empty() || cell.eq_ignore_ascii_case("na") || self.na.iter().any(|n| n == cell)
    }
}

/// A number with a comma for its decimal mark.
fn decimal_comma(cell: &str) -> Option<f64> {
    let (whole, fraction) = cell.split_once(',')?;
    fraction.starts_with(|c: char| c.is_ascii_digit()).then(|| format!("{whole}.{fraction}").parse().ok())?
}
