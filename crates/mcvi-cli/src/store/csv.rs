//! Tables as comma-separated text with every digit that a number needs to be read back as it was.

use super::{Column, rows};
use std::borrow::Cow;
use std::io::{Result, Write};
use std::path::Path;

/// Write a table atomically: a line of names, then a line for each row. Non-finite values are `NaN`, `inf` and `-inf`,
/// which pandas, polars and R all read.
pub fn write(path: &Path, columns: &[Column]) -> Result<()> {
    mcvi::disk::atomic_write_with(path, |out| write_to(out, columns))
}

/// Write a table to any writer.
pub fn write_to(out: &mut impl Write, columns: &[Column]) -> Result<()> {
    let rows = rows(columns)?;
    let between = |i: usize| if i == 0 { "" } else { "," };
    for (i, (name, _)) in columns.iter().enumerate() {
        write!(out, "{}{}", between(i), field(name))?;
    }
    writeln!(out)?;
    for row in 0..rows {
        for (i, (_, values)) in columns.iter().enumerate() {
            // Debug, unlike Display, writes 1e300 without three hundred zeros; both are the shortest that round-trips.
            let digits = format!("{:?}", values[row]);
            write!(out, "{}{}", between(i), digits.strip_suffix(".0").unwrap_or(&digits))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A name, in quotes if it could be read as several fields, as none, or as one without its outer spaces.
fn field(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.contains([',', '"', '\n', '\r']) || name.trim() != name {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(columns: &[Column]) -> String {
        let mut out = Vec::new();
        write_to(&mut out, columns).expect("writes to memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn numbers_come_back_bit_for_bit() {
        let values = vec![0.1, 1.0 / 3.0, -0.0, 1e300, 5e-324, 1e16, f64::MAX, -2.0, 123456.75];
        let out = text(&[("x".to_owned(), values.clone())]);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "x");
        assert_eq!(&lines[1..5], ["0.1", "0.3333333333333333", "-0", "1e300"]);
        for (line, value) in lines[1..].iter().zip(values) {
            assert_eq!(line.parse::<f64>().expect(line).to_bits(), value.to_bits());
        }
    }

    #[test]
    fn names_are_quoted_where_needed() {
        let names = ["a", "b[1,2]", "say \"so\"", "", " c", "two\nlines"];
        let columns: Vec<Column> = names.iter().map(|n| (n.to_string(), vec![f64::NAN, f64::NEG_INFINITY])).collect();
        let out = text(&columns);
        assert!(out.starts_with("a,\"b[1,2]\",\"say \"\"so\"\"\",\"\",\" c\",\"two\nlines\"\nNaN,NaN"), "{out}");
        assert!(out.ends_with("\n-inf,-inf,-inf,-inf,-inf,-inf\n"), "{out}");
    }

    #[test]
    fn ragged_tables_are_refused() {
        let columns = [("a".to_owned(), vec![1.0]), ("b".to_owned(), vec![])];
        let error = write_to(&mut Vec::new(), &columns).expect_err("ragged");
        assert_eq!(
            error.to_string(),
            "column b has 0 values, but column a has 1: all columns of a table must have the same length"
        );
    }
}
