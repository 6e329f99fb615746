//! A file of text with a header, read row by row into columns: every row as long as the header, every row with its line number.
//!
//! Cells become numbers as they are read, so that a table takes eight bytes for each, whatever the size of the file.

use super::column::{Cells, Growing, Reader};
use super::lines::Lines;
use super::mistake;
use crate::error::Error;
use crate::limits;
use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use flate2::bufread::MultiGzDecoder;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// What is wrong with `a, "b"`.
const SPACES: &str = "quotes (\") must follow the comma at once; remove the spaces before them";
/// Bytes that are read at once.
const BUFFER: usize = 1 << 16;
/// Rows by which it is estimated how many there are.
const SAMPLE: usize = 4096;

/// Lines of a kind that a message lists.
const LISTED: usize = 10;

/// Named columns of cells.
pub(super) struct Table {
    pub columns: Vec<(String, Cells)>,
    pub rows: usize,
    pub lines: Lines,
}

/// Where a table is read from, more than once if need be.
enum Source<'a> {
    Bytes(&'a [u8]),
    File(&'a Path),
}

impl Table {
    /// Read a file, or standard input if it is called `-`; it must have a header and rows. `na` stands for missing values.
    pub fn read(path: &Path, na: &[String]) -> Result<Self, Error> {
        if path == Path::new("-") {
            let mut bytes = vec![];
            let read = io::stdin().take(limits::UNPACKED as u64).read_to_end(&mut bytes);
            read.map_err(|e| mistake(format!("standard input: cannot be read ({e})")))?;
            return Table::parse(&bytes, "standard input", na);
        }
        let file = path.display().to_string();
        let bad = |what: &str| Err(mistake(format!("{file}: {what}")));
        if path.is_dir() {
            return bad("is a folder; give a CSV file");
        }
        let opened = File::open(path).and_then(|opened| Ok((opened.metadata()?.is_file(), opened)));
        match opened {
            Ok((true, _)) => Table::of(&Source::File(path), &file, na),
            // It may be read once only.
            Ok((false, stream)) => {
                let mut bytes = vec![];
                match stream.take(limits::UNPACKED as u64 + 1).read_to_end(&mut bytes) {
                    Ok(len) if len > limits::UNPACKED => bad("does not end; give a CSV file"),
                    Ok(_) => Table::parse(&bytes, &file, na),
                    Err(e) => bad(&format!("cannot be read ({e}); check the path and its permissions")),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => bad("there is no such file; check the path"),
            Err(e) => bad(&format!("cannot be read ({e}); check the path and its permissions")),
        }
    }

    /// Read the bytes of a file.
    pub fn parse(bytes: &[u8], file: &str, na: &[String]) -> Result<Self, Error> {
        Table::of(&Source::Bytes(bytes), file, na)
    }

    fn of(source: &Source<'_>, file: &str, na: &[String]) -> Result<Self, Error> {
        let (names, mut columns, lines) = Rows::open(source, file)?.all(na, |_| Growing::default())?;
        let mixed: Vec<bool> = columns.iter().map(|column| matches!(column, Growing::Mixed)).collect();
        if mixed.contains(&true) {
            let begin = |i: usize| if mixed[i] { Growing::texts() } else { Growing::Skipped };
            let (_, again, now) = Rows::open(source, file)?.all(na, begin)?;
            if now != lines || again.len() != columns.len() {
                return Err(mistake(format!("{file}: has changed while it was read; read it again")));
            }
            columns.iter_mut().zip(again).filter(|(_, again)| !matches!(again, Growing::Skipped)).for_each(
                |(column, again)| {
                    *column = again;
                },
            );
        }
        match (names.len(), lines.len()) {
            (0, _) => Err(mistake(format!("{file}: is empty; give a CSV file with a header and rows of data"))),
            (_, 0) => Err(mistake(format!("{file}: has a header and no rows; add rows of data below it"))),
            (_, rows) => {
                // R and pandas leave the header of row names empty: no formula can ask for them.
                let named = names.into_iter().zip(columns).filter(|(name, _)| !name.is_empty());
                Ok(Table { columns: named.map(|(name, column)| (name, column.cells())).collect(), rows, lines })
            }
        }
    }
}

/// The rows of a file, one after the other.
struct Rows<'a> {
    file: &'a str,
    reader: csv::Reader<Window<'a>>,
    semicolons: bool,
    gzipped: bool,
    record: StringRecord,
    /// Bytes in all, if that is known.
    len: Option<u64>,
    /// Where the last row starts: the byte and the line.
    at: u64,
    line: usize,
}

impl<'a> Rows<'a> {
    fn open(source: &Source<'a>, file: &'a str) -> Result<Self, Error> {
        let unreadable =
            |e: io::Error| mistake(format!("{file}: cannot be read ({e}); check the path and its permissions"));
        let (mut bytes, len): (Box<dyn BufRead + 'a>, u64) = match source {
            Source::Bytes(bytes) => (Box::new(*bytes), bytes.len() as u64),
            Source::File(path) => {
                let file = File::open(path).map_err(unreadable)?;
                let len = file.metadata().map_err(unreadable)?.len();
                (Box::new(BufReader::with_capacity(BUFFER, file)), len)
            }
        };
        let gzipped = bytes.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
        if gzipped {
            let unpacked = Unpacked { bytes: MultiGzDecoder::new(bytes), left: limits::UNPACKED };
            bytes = Box::new(BufReader::with_capacity(BUFFER, unpacked));
        }
        let mut head = vec![];
        while head.trim_ascii().is_empty() && bytes.read_until(b'\n', &mut head).map_err(|e| damaged(file, &e))? > 0 {}
        // Spreadsheets start UTF-8 with a byte order mark.
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).to_vec();
        let separator = separator(&String::from_utf8_lossy(&head));
        let window = Window { bytes: Box::new(Cursor::new(head).chain(bytes)), seen: vec![], first: 0 };
        let mut reader = ReaderBuilder::new();
        let reader = reader.has_headers(false).flexible(true).trim(Trim::All).delimiter(separator);
        let reader = reader.buffer_capacity(BUFFER).from_reader(window);
        let (semicolons, record) = (separator == b';', StringRecord::new());
        let len = Some(len).filter(|_| !gzipped);
        Ok(Rows { file, reader, semicolons, gzipped, record, len, at: 0, line: 1 })
    }

    /// Go to the next row; says whether there is one.
    fn next(&mut self) -> Result<bool, Error> {
        match self.reader.read_record(&mut self.record) {
            Ok(false) => Ok(false),
            Ok(true) => {
                // The reader counts lines where the previous row ended, including blank lines.
                let begin = self.record.position().map_or(self.at, csv::Position::byte).max(self.at);
                let text = self.reader.get_mut().since(self.at);
                let ended = ((begin - self.at) as usize).min(text.len());
                let blank = text[ended..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
                self.line += breaks(&text[..ended + blank]);
                self.at += (ended + blank) as u64;
                Ok(true)
            }
            Err(e) => Err(self.unreadable(&e)),
        }
    }

    fn unreadable(&mut self, e: &csv::Error) -> Error {
        match e.kind() {
            ErrorKind::Utf8 { .. } => {
                let text = self.reader.get_mut().since(self.at);
                let valid = std::str::from_utf8(text).map_or_else(|e| e.valid_up_to(), str::len);
                let line = self.line + breaks(&text[..valid]);
                self.mistake(&format!(", line {line}: is not UTF-8; save it as CSV with the encoding UTF-8"))
            }
            ErrorKind::Io(e) if self.gzipped => damaged(self.file, e),
            _ => self.mistake(&format!(": cannot be read ({e}); is it a CSV file?")),
        }
    }

    fn mistake(&self, what: &str) -> Error {
        mistake(format!("{}{what}", self.file))
    }

    /// The names of the columns, the columns, and where rows start. `begin` says how a column is begun.
    fn all(
        mut self,
        na: &[String],
        begin: impl Fn(usize) -> Growing,
    ) -> Result<(Vec<String>, Vec<Growing>, Lines), Error> {
        if !self.next()? {
            return Ok((vec![], vec![], Lines::default()));
        }
        let names = header(self.file, self.line, &self.record)?;
        let mut columns: Vec<Growing> = names
            .iter()
            .enumerate()
            .map(|(i, name)| if name.is_empty() { Growing::Skipped } else { begin(i) })
            .collect();
        let (mut lines, reader) = (Lines::default(), Reader { na, decimal_commas: self.semicolons });
        let mut bad: Option<(String, Vec<usize>)> = None;
        while self.next().or_else(|error| if bad.is_some() { Ok(false) } else { Err(error) })? {
            if self.record.len() == names.len() {
                if lines.len() == SAMPLE
                    && let Some(len) = self.len
                {
                    // Columns that grow would take up to twice their size.
                    let rows = len / (self.at / SAMPLE as u64).max(1);
                    columns.iter_mut().for_each(|column| column.reserve(rows as usize));
                }
                lines.push(self.line);
                columns.iter_mut().zip(&self.record).for_each(|(column, cell)| column.push(cell, &reader));
            } else if self.record.iter().any(|cell| !cell.is_empty()) || self.record.len() > 1 {
                match &mut bad {
                    Some((_, more)) => more.push(self.line),
                    None => bad = Some((ragged(self.line, &self.record, names.len()), vec![])),
                }
            }
        }
        match bad {
            None => Ok((names, columns, lines)),
            Some((first, more)) if more.is_empty() => Err(self.mistake(&first)),
            Some((first, more)) => {
                let places = super::listed(more.iter().map(usize::to_string), LISTED);
                Err(self.mistake(&format!("{first}; {} more such lines: {places}", more.len())))
            }
        }
    }
}

/// What has been read of a file, from a place on.
struct Window<'a> {
    bytes: Box<dyn Read + 'a>,
    seen: Vec<u8>,
    /// The place of the first byte.
    first: u64,
}

impl Window<'_> {
    /// What has been read from a byte on. What comes before it is forgotten.
    fn since(&mut self, byte: u64) -> &[u8] {
        let from = ((byte - self.first) as usize).min(self.seen.len());
        if from > BUFFER {
            self.seen.drain(..from);
            self.first += from as u64;
            return &self.seen;
        }
        &self.seen[from..]
    }
}

impl Read for Window<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.bytes.read(to)?;
        self.seen.extend_from_slice(&to[..n]);
        Ok(n)
    }
}

/// Unpacked bytes, up to a limit.
struct Unpacked<R> {
    bytes: R,
    left: usize,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let damage = |e: io::Error| io::Error::other(format!("gzipped data with damage ({e})"));
        let n = self.bytes.read(to).map_err(damage)?;
        let too_many = || io::Error::other(format!("unpacks to more than {} bytes", limits::UNPACKED));
        self.left = self.left.checked_sub(n).ok_or_else(too_many)?;
        Ok(n)
    }
}

fn damaged(file: &str, e: &io::Error) -> Error {
    mistake(format!("{file}: {e}; get the file again"))
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

/// The names of columns, if they are distinct.
fn header(file: &str, line: usize, record: &StringRecord) -> Result<Vec<String>, Error> {
    let bad = |what: String| Err(mistake(format!("{file}, line {line}: {what}")));
    let mut seen = HashMap::new();
    for (i, name) in record.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
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
    let feeds = bytes.iter().filter(|b| **b == b'\n').count();
    if !bytes.contains(&b'\r') {
        return feeds;
    }
    let lone =
        bytes.windows(2).filter(|w| w[0] == b'\r' && w[1] != b'\n').count() + usize::from(bytes.ends_with(b"\r"));
    feeds + lone
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
mod tests {
    use super::*;

    fn parse(text: impl AsRef<[u8]>) -> Table {
        Table::parse(text.as_ref(), "f", &["?".to_owned()]).unwrap_or_else(|e| panic!("{e}"))
    }

    fn refused(text: impl AsRef<[u8]>) -> String {
        Table::parse(text.as_ref(), "f", &[]).map(|_| ()).expect_err("a mistake").to_string()
    }

    #[test]
    fn texts_after_numbers_stay_as_they_are_written() {
        let table = parse("a,b,c\n1,01,\n2,1.0,?\n3,x,NA\n?,01,z\n");
        let Cells::Numbers(a) = &table.columns[0].1 else { panic!("numbers") };
        assert!(a[..3] == [1.0, 2.0, 3.0] && a[3].is_nan());
        let texts = |values: &[Option<&str>]| Cells::texts(values.iter().copied());
        assert_eq!(table.columns[1].1, texts(&[Some("01"), Some("1.0"), Some("x"), Some("01")]));
        assert_eq!(table.columns[2].1, texts(&[None, None, None, Some("z")]));
    }

    #[test]
    fn rows_have_the_lines_where_they_start_however_long_the_file_is() {
        for end in ["\n", "\r\n", "\r"] {
            let (mut text, mut line, mut lines) = (format!("\u{feff}a,b{end}"), 2, vec![]);
            for i in 0..20_000 {
                match i % 7 {
                    0 => {
                        text += &format!("{end}{end}{i},x{end}");
                        lines.push(line + 2);
                        line += 3;
                    }
                    1 => {
                        text += &format!("{i},\"two{end}lines\"{end}");
                        lines.push(line);
                        line += 2;
                    }
                    _ => {
                        text += &format!("{i},x{end}");
                        lines.push(line);
                        line += 1;
                    }
                }
            }
            let table = parse(&text);
            assert!((0..table.rows).map(|row| table.lines.of(row).expect("a line")).eq(lines), "{end:?}");
            assert_eq!(table.lines.of(table.rows), None);
            let said = refused(format!("{text}1,2,3{end}"));
            assert!(said.contains(&format!("f, line {line}: 3 fields")), "{said}");
            let said = refused(format!("{text}1,2,3{end}1,2{end}4,5,6,7{end}8{end}"));
            let more = format!("f, line {line}: 3 fields where the header has 2");
            assert!(
                said.contains(&more) && said.ends_with(&format!("2 more such lines: {}, {}", line + 2, line + 3)),
                "{said}"
            );
            let mut bytes = text.into_bytes();
            bytes.extend(b"1,\xff");
            assert!(refused(bytes).contains(&format!("f, line {line}: is not UTF-8")));
        }
    }

    #[test]
    fn damaged_and_endless_files_are_refused() {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        let text: String = (0..30_000).map(|i| format!("{i},{}\n", i * i % 977)).collect();
        std::io::Write::write_all(&mut packed, format!("a,b\n{text}").as_bytes()).expect("packed");
        let packed = packed.finish().expect("packed");
        assert_eq!(parse(&packed).rows, 30_000);
        assert!(refused(&packed[..packed.len() / 2]).contains("f: gzipped data with damage"));
        assert!(refused("").contains("f: is empty") && refused("a,b\n").contains("no rows"));
    }
}
