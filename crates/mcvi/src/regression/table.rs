//! A file of text with a header, read as a whole: every row as long as the header, every row with its line number.

use super::mistake;
use crate::error::Error;
use crate::limits;
use csv::{ReaderBuilder, StringRecord, Trim};
use flate2::bufread::MultiGzDecoder;
use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// What is wrong with `a, "b"`.
const SPACES: &str = "quotes (\") must follow the comma at once; remove the spaces before them";

/// Text cells in named columns.
pub(super) struct Table {
    pub columns: Vec<String>,
    /// All cells, row by row, one after the other, and where each ends: rows of their own would take many times the
    /// memory of the file.
    text: String,
    ends: Vec<usize>,
    /// The line where each row starts, counted from 1.
    pub lines: Vec<usize>,
    /// Whether cells are separated by semicolons, as where a comma is the decimal mark.
    pub semicolons: bool,
}

impl Table {
    /// Read a file, or standard input if it is called `-`; it must have a header and at least two rows.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            let mut bytes = vec![];
            let read = std::io::stdin().take(limits::UNPACKED as u64).read_to_end(&mut bytes);
            read.map_err(|e| mistake(format!("standard input: cannot be read ({e})")))?;
            return Table::parse(&bytes, "standard input".to_owned());
        }
        let file = path.display().to_string();
        let bad = |what: String| Err(mistake(format!("{file}{what}")));
        if path.is_dir() {
            return bad(": is a folder; give a CSV file".to_owned());
        }
        let bytes = match read(path) {
            Ok(bytes) if bytes.len() > limits::UNPACKED && !path.is_file() => {
                return bad(": does not end; give a CSV file".to_owned());
            }
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return bad(": there is no such file; check the path".to_owned());
            }
            Err(e) => return bad(format!(": cannot be read ({e}); check the path and its permissions")),
        };
        Table::parse(&bytes, file)
    }

    /// Read the bytes of a file.
    pub fn parse(bytes: &[u8], file: String) -> Result<Self, Error> {
        let bad = |what: String| Err(mistake(format!("{file}{what}")));
        let unpacked = match unpacked(bytes) {
            Ok(unpacked) => unpacked,
            Err(why) => return bad(format!(": {why}; get the file again")),
        };
        let bytes = unpacked.as_deref().unwrap_or(bytes);
        let text = match std::str::from_utf8(bytes) {
            // Spreadsheets start UTF-8 with a byte order mark.
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(e) => {
                let line = 1 + breaks(&bytes[..e.valid_up_to()]);
                return bad(format!(", line {line}: is not UTF-8; save it as CSV with the encoding UTF-8"));
            }
        };
        let separator = separator(text);
        let mut reader = ReaderBuilder::new();
        let reader = reader.has_headers(false).flexible(true).trim(Trim::All).delimiter(separator);
        let mut reader = reader.from_reader(text.as_bytes());
        let mut table =
            Table { columns: vec![], text: String::new(), ends: vec![], lines: vec![], semicolons: separator == b';' };
        let (mut at, mut line, mut record) = (0, 1, StringRecord::new());
        let unreadable = |e| mistake(format!("{file}: cannot be read ({e}); is it a CSV file?"));
        while reader.read_record(&mut record).map_err(unreadable)? {
            // The reader counts lines where the previous row ended, including blank lines.
            let mut begin = record.position().map_or(at, |p| p.byte() as usize).clamp(at, text.len());
            begin += text.as_bytes()[begin..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            line += breaks(&text.as_bytes()[at..begin]);
            at = begin;
            if table.columns.is_empty() {
                table.columns = header(&file, line, &record)?;
            } else if record.len() == table.columns.len() {
                table.lines.push(line);
                for cell in &record {
                    table.text += cell;
                    table.ends.push(table.text.len());
                }
            } else if record.iter().any(|cell| !cell.is_empty()) || record.len() > 1 {
                return bad(ragged(line, &record, table.columns.len()));
            }
        }
        match (table.columns.len(), table.len()) {
            (0, _) => bad(": is empty; give a CSV file with a header and rows of data".to_owned()),
            (_, 0) => bad(": has a header and no rows; add rows of data below it".to_owned()),
            _ => Ok(table),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// The cell with this number, counted row by row.
    fn cell(&self, number: usize) -> &str {
        let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[from..self.ends[number]]
    }

    /// The cells of a column.
    pub fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..self.len()).map(move |row| self.cell(row * self.columns.len() + column))
    }
}

/// What a gzipped file holds; none if it is not gzipped.
fn unpacked(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(None);
    }
    let mut unpacked = vec![];
    let most = limits::UNPACKED as u64;
    let read = MultiGzDecoder::new(bytes).take(most + 1).read_to_end(&mut unpacked);
    read.map_err(|e| format!("gzipped data with damage ({e})"))?;
    if unpacked.len() as u64 > most {
        return Err(format!("unpacks to more than {most} bytes"));
    }
    Ok(Some(unpacked))
}

/// What separates the columns: that which the header has most of, outside quotes.
fn separator(text: &str) -> u8 {
    let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for byte in header.bytes() {
        quoted ^= byte == b'"';
        counts.iter_mut().filter(|c| !quoted && c.0 == byte).for_each(|c| c.1 += 1);
    }
    // The first of several that are equally frequent.
    counts.iter().rev().max_by_key(|c| c.1).map_or(b',', |c| c.0)
}

/// The bytes of a file. Memory grows with its size; a device, which has none, is read up to a limit.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let (most, mut bytes) = (file.metadata()?.len().max(limits::UNPACKED as u64 + 1), vec![]);
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The names of columns, if they are distinct.
fn header(file: &str, line: usize, record: &StringRecord) -> Result<Vec<String>, Error> {
    let bad = |what: String| Err(mistake(format!("{file}, line {line}: {what}")));
    let mut seen = HashMap::new();
    for (i, name) in record.iter().enumerate() {
        // R and pandas leave the header of row names empty: no formula can ask for them.
        if name.is_empty() {
            continue;
        }
        if name.starts_with('"') {
            return bad(format!("column {}: {SPACES}", i + 1));
        }
        if let Some(before) = seen.insert(name, i + 1) {
            let name = shown(name);
            return bad(format!("columns {before} and {} are both called `{name}`; rename or drop one", i + 1));
        }
    }
    Ok(record.iter().map(str::to_owned).collect())
}

fn ragged(line: usize, record: &StringRecord, expected: usize) -> String {
    let found = match record.len() {
        1 => "1 field".to_owned(),
        n => format!("{n} fields"),
    };
    let remedy = if record.iter().any(|cell| cell.contains(['\n', '\r'])) {
        "is a quote (\") not closed?"
    } else if record.iter().any(|cell| cell.starts_with('"')) {
        SPACES
    } else {
        "add or remove fields, and quote texts with commas in them"
    };
    format!(", line {line}: {found} where the header has {expected}; {remedy}")
}

/// Number of line ends, in the style of any system.
fn breaks(bytes: &[u8]) -> usize {
    let lone =
        bytes.windows(2).filter(|w| w[0] == b'\r' && w[1] != b'\n').count() + usize::from(bytes.ends_with(b"\r"));
    bytes.iter().filter(|b| **b == b'\n').count() + lone
}

/// A cell, or as much of it as fits into a message.
pub(super) fn shown(cell: &str) -> String {
    let mut shown: String = cell.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cell.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}
