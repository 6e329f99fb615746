//! A CSV file with a header, read as a whole: every row as long as the header, every cell with its line number.

use super::{mistake, nearest};
use crate::error::Error;
use crate::limits;
use csv::{ReaderBuilder, StringRecord, Trim};
use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Maximum number of items listed in a message.
const LISTED: usize = 20;
/// Maximum number of missing cells listed.
const MISSING: usize = 5;
/// What is wrong with `a, "b"`.
const SPACES: &str = "quotes (\") must follow the comma at once; remove the spaces before them";

/// Text cells in named columns.
pub(super) struct Table {
    file: String,
    pub columns: Vec<String>,
    /// All cells, row by row, one after the other, and where each ends: rows of their own would take many times the
    /// memory of the file.
    text: String,
    ends: Vec<usize>,
    /// The line where each row starts, counted from 1.
    lines: Vec<usize>,
}

impl Table {
    /// Read a file; it must have a header and at least two rows.
    pub fn read(path: &Path) -> Result<Self, Error> {
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
        let text = match std::str::from_utf8(bytes) {
            // Spreadsheets start UTF-8 with a byte order mark.
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(e) => {
                let line = 1 + breaks(&bytes[..e.valid_up_to()]);
                return bad(format!(", line {line}: is not UTF-8; save it as CSV with the encoding UTF-8"));
            }
        };
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(text.as_bytes());
        let mut table = Table { file: file.clone(), columns: vec![], text: String::new(), ends: vec![], lines: vec![] };
        let (mut at, mut line, mut record) = (0, 1, StringRecord::new());
        let unreadable = |e| mistake(format!("{file}: cannot be read ({e}); is it a CSV file?"));
        while reader.read_record(&mut record).map_err(unreadable)? {
            // The reader counts lines where the previous row ended, including blank lines.
            let mut begin = record.position().map_or(at, |p| p.byte() as usize).clamp(at, text.len());
            begin += text.as_bytes()[begin..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            line += breaks(&text.as_bytes()[at..begin]);
            at = begin;
            if table.columns.is_empty() {
                table.columns = header(&table.file, line, &record)?;
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
            (_, 1) => bad(format!(", line {}: is the only row of data; at least two are needed", table.line(0))),
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

    /// The line where a row starts.
    pub fn line(&self, row: usize) -> usize {
        self.lines[row]
    }

    /// The cells of a column.
    pub fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..self.len()).map(move |row| self.cell(row * self.columns.len() + column))
    }

    /// An error in the file.
    pub fn mistake(&self, what: impl std::fmt::Display) -> Error {
        mistake(format!("{}: {what}", self.file))
    }

    /// An error in a cell.
    pub fn at(&self, row: usize, column: usize, what: &str) -> Error {
        let cell = shown(self.cell(row * self.columns.len() + column));
        let (line, name) = (self.line(row), &self.columns[column]);
        mistake(format!("{}, line {line}, column `{name}`: `{cell}` {what}", self.file))
    }

    /// The column with this name.
    pub fn find(&self, name: &str) -> Result<usize, Error> {
        let name = name.trim();
        if let Some(column) = self.columns.iter().position(|c| c == name) {
            return Ok(column);
        }
        if self.columns.iter().all(|c| c.parse::<f64>().is_ok()) {
            let what = format!("there is no column `{name}`: the first line is numbers; add a header of column names");
            return Err(self.mistake(what));
        }
        let hint = match nearest(name, self.columns.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`? "),
            None => String::new(),
        };
        let mut columns: Vec<String> = self.columns.iter().take(LISTED).map(|c| format!("`{}`", shown(c))).collect();
        if self.columns.len() > LISTED {
            columns.push(format!("and {} more", self.columns.len() - LISTED));
        }
        let columns = columns.join(", ");
        Err(self.mistake(format!("there is no column `{name}`; {hint}choose one of {columns}")))
    }

    /// An error that lists the missing values.
    pub fn refuse_missing(&self) -> Result<(), Error> {
        let width = self.columns.len();
        let gaps = (0..self.ends.len()).filter(|number| is_missing(self.cell(*number)));
        let missing: Vec<(usize, &String)> =
            gaps.map(|number| (self.line(number / width), &self.columns[number % width])).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> =
            missing.iter().take(MISSING).map(|(line, column)| format!("line {line}, column `{column}`")).collect();
        let more = match missing.len().saturating_sub(MISSING) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let (s, them) = if missing.len() == 1 { ("", "it") } else { ("s", "them") };
        let what = format!("missing value{s} ({}{more}); remove those rows or fill {them} in", listed.join("; "));
        Err(self.mistake(what))
    }
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
    if let (1, Some(only)) = (record.len(), record.get(0))
        && let Some(separator) = [(';', "semicolons"), ('\t', "tabs")].iter().find(|s| only.contains(s.0))
    {
        return bad(format!("the header is separated by {}; separate columns by commas", separator.1));
    }
    let mut seen = HashMap::new();
    for (i, name) in record.iter().enumerate() {
        if name.is_empty() {
            return bad(format!("column {} has no name; name it in the header, or drop it", i + 1));
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

fn is_missing(cell: &str) -> bool {
    cell.is_empty() || cell.eq_ignore_ascii_case("na") || cell.parse().is_ok_and(f64::is_nan)
}

/// A cell, or as much of it as fits into a message.
pub(super) fn shown(cell: &str) -> String {
    let mut shown: String = cell.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cell.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Family, load};
    use super::*;
    use std::io::Write;

    pub fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    pub fn table(text: &str) -> Table {
        Table::read(file(text.as_bytes()).path()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The error message for a file, with its name replaced.
    pub fn refused(family: Family, text: &str, target: &str) -> String {
        refused_bytes(family, text.as_bytes(), target)
    }

    fn refused_bytes(family: Family, bytes: &[u8], target: &str) -> String {
        let file = file(bytes);
        said(family, file.path(), target).replace(&file.path().display().to_string(), "FILE")
    }

    fn said(family: Family, path: &Path, target: &str) -> String {
        load(family, path, target).err().expect("refused").to_string()
    }

    fn linear(text: &str) -> String {
        refused(Family::Linear, text, "y")
    }

    #[test]
    fn what_is_not_a_csv_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let shown = folder.path().display();
        let refused = |path: &Path| said(Family::Linear, path, "y");
        assert_eq!(refused(folder.path()), format!("{shown}: is a folder; give a CSV file"));
        let none = folder.path().join("none.csv");
        assert_eq!(refused(&none), format!("{shown}/none.csv: there is no such file; check the path"));
        for empty in ["", "\n\n", "\u{feff}"] {
            assert_eq!(linear(empty), "FILE: is empty; give a CSV file with a header and rows of data");
        }
        let latin = refused_bytes(Family::Linear, b"x,y\r\n1,2\r\n\xe9,3\r\n", "y");
        assert_eq!(latin, "FILE, line 3: is not UTF-8; save it as CSV with the encoding UTF-8");
    }

    #[test]
    fn headers_must_name_every_column_once() {
        assert_eq!(
            linear("x,y,z,x\n1,2,3,4\n"),
            "FILE, line 1: columns 1 and 4 are both called `x`; rename or drop one"
        );
        assert_eq!(linear(",x,y\n1,2,3\n"), "FILE, line 1: column 1 has no name; name it in the header, or drop it");
        assert_eq!(
            linear("x;y\n1;2\n"),
            "FILE, line 1: the header is separated by semicolons; separate columns by commas"
        );
        assert_eq!(
            linear("1,2\n3,4\n5,6\n"),
            "FILE: there is no column `y`: the first line is numbers; add a header of column names"
        );
        assert_eq!(
            refused(Family::Linear, "age,weight\n1,2\n2,3\n", "wieght"),
            "FILE: there is no column `wieght`; did you mean `weight`? choose one of `age`, `weight`"
        );
        assert_eq!(linear("age,sex\n1,2\n2,3\n"), "FILE: there is no column `y`; choose one of `age`, `sex`");
        let wide: Vec<String> = (0..25).map(|i| format!("column{i}")).collect();
        let wide = wide.join(",");
        assert!(linear(&format!("{wide}\n{wide}\n{wide}\n")).ends_with("`column19`, and 5 more"));
        assert_eq!(linear("y\n1\n2\n"), "FILE: `y` is the only column; add columns to predict it from");
    }

    #[test]
    fn rows_must_be_there_and_as_long_as_the_header() {
        assert_eq!(linear("x,y\n"), "FILE: has a header and no rows; add rows of data below it");
        assert_eq!(linear("x,y\n\n1,2\n"), "FILE, line 3: is the only row of data; at least two are needed");
        let remedy = "add or remove fields, and quote texts with commas in them";
        assert_eq!(
            linear("x,y\r\n1,2\r\n\r\n1,2,3\r\n"),
            format!("FILE, line 4: 3 fields where the header has 2; {remedy}")
        );
        assert_eq!(linear("x,y\n1,2\n1\n"), format!("FILE, line 3: 1 field where the header has 2; {remedy}"));
        assert_eq!(
            linear("x,y\n1,2\n\"1,2\n3,4\n"),
            "FILE, line 3: 1 field where the header has 2; is a quote (\") not closed?"
        );
    }

    #[test]
    fn spaces_before_quotes_are_pointed_out() {
        assert_eq!(linear("x, \"y\"\n1,2\n"), format!("FILE, line 1: column 2: {SPACES}"));
        let says = format!("FILE, line 3: 3 fields where the header has 2; {SPACES}");
        assert_eq!(linear("x,y\n1,2\n1, \"2,3\"\n"), says);
    }

    #[test]
    fn missing_values_are_listed() {
        assert_eq!(
            linear("x,y\n1,2\n,3\n"),
            "FILE: missing value (line 3, column `x`); remove those rows or fill it in"
        );
        assert_eq!(
            linear("x,y\nNA,2\n\"a\nb\",nan\n  ,na\nNaN,NaN\n1,2\n"),
            "FILE: missing values (line 2, column `x`; line 3, column `y`; line 5, column `x`; line 5, column `y`; \
             line 6, column `x`; and 1 more); remove those rows or fill them in"
        );
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        let endings = ["\n", "\r\n", "\r"];
        for end in endings {
            let text = ["", "x,y", "1,\"a", "b\"", "", "  ", "2,c", ""].join(end);
            let table = table(&text);
            assert_eq!(table.lines, [3, 7], "{end:?}");
            assert_eq!(table.columns, ["x", "y"]);
            assert_eq!(table.cells(0).collect::<Vec<_>>(), ["1", "2"]);
        }
    }

    #[test]
    fn cells_are_trimmed_and_quotes_undone() {
        let table = table("\u{feff}x ,\"y, z\"\n 1 ,\" a \"\"b\"\"\"\n2,c\n");
        assert_eq!(table.columns, ["x", "y, z"]);
        assert_eq!(table.cells(1).collect::<Vec<_>>(), ["a \"b\"", "c"]);
    }
}
