//! Tables as Arrow IPC files, also called Feather (version 2), which pandas, polars, R and DuckDB map into memory.
//!
//! Written by hand: a table of numbers needs three small pieces of metadata, for which the crates `arrow-array` and
//! `arrow-ipc`, even without features, bring two dozen others along and add minutes to a build on two cores.
//! See <https://arrow.apache.org/docs/format/Columnar.html>.

use super::flat::{Field, Object, encode};
use super::{Column, rows};
use std::io::{Result, Write};
use std::path::Path;

/// Starts a file, and without the zeros ends it.
const MAGIC: &[u8; 8] = b"ARROW1\0\0";
/// Starts a message.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// `MetadataVersion.V5`.
const VERSION: i16 = 4;
/// `MessageHeader.Schema` and `MessageHeader.RecordBatch`.
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;
/// `Type.FloatingPoint` and `Precision.DOUBLE`.
const FLOATING_POINT: u8 = 3;
const DOUBLE: i16 = 2;
/// The alignment of columns that the format recommends.
const ALIGN: usize = 64;

/// Write a table atomically, as one batch of uncompressed columns without missing values: NaN is a number here.
pub fn write(path: &Path, columns: &[Column]) -> Result<()> {
    mcvi::disk::atomic_write_with(path, |out| write_to(out, columns))
}

fn write_to(out: &mut impl Write, columns: &[Column]) -> Result<()> {
    let rows = rows(columns)?;
    let (size, padded) = (8 * rows, (8 * rows).next_multiple_of(ALIGN));
    let body = padded * columns.len();

    let head = message(SCHEMA, schema(columns), 0, MAGIC.len());
    out.write_all(MAGIC)?;
    out.write_all(&head)?;
    let before = MAGIC.len() + head.len();
    let batch = message(RECORD_BATCH, record_batch(columns.len(), rows, padded), body, before);
    out.write_all(&batch)?;
    for (_, values) in columns {
        for value in values {
            out.write_all(&value.to_le_bytes())?;
        }
        out.write_all(&[0; ALIGN][..padded - size])?;
    }
    // No more messages: the file is also a stream.
    out.write_all(&CONTINUATION)?;
    out.write_all(&[0; 4])?;

    let block = vec![before as i64, batch.len() as i64, body as i64];
    let footer = encode(Object::Table(vec![
        Field::I16(VERSION),
        Field::Offset(schema(columns)),
        Field::Offset(Object::Structs(3, vec![])),
        Field::Offset(Object::Structs(3, block)),
    ]));
    out.write_all(&footer)?;
    out.write_all(&(footer.len() as u32).to_le_bytes())?;
    out.write_all(&MAGIC[..6])
}

/// A message's metadata, prefixed by its length and padded so that what follows is aligned in the file; `before` is the
/// number of bytes already in the file.
fn message(kind: u8, header: Object, body: usize, before: usize) -> Vec<u8> {
    let metadata = encode(Object::Table(vec![
        Field::I16(VERSION),
        Field::U8(kind),
        Field::Offset(header),
        Field::I64(body as i64),
    ]));
    let whole = (before + 8 + metadata.len()).next_multiple_of(ALIGN) - before;
    let mut out = CONTINUATION.to_vec();
    out.extend(((whole - 8) as u32).to_le_bytes());
    out.extend(metadata);
    out.resize(whole, 0);
    out
}

fn schema(columns: &[Column]) -> Object {
    let little_endian = Field::I16(0);
    let fields = columns.iter().map(|(name, _)| {
        Object::Table(vec![
            Field::Offset(Object::Text(name.clone())),
            Field::U8(0), // not nullable
            Field::U8(FLOATING_POINT),
            Field::Offset(Object::Table(vec![Field::I16(DOUBLE)])),
            Field::Absent, // dictionary
            Field::Offset(Object::Objects(vec![])),
        ])
    });
    Object::Table(vec![little_endian, Field::Offset(Object::Objects(fields.collect()))])
}

fn record_batch(columns: usize, rows: usize, padded: usize) -> Object {
    let node = [rows as i64, 0]; // none missing
    let buffers = |i: usize| {
        let at = (i * padded) as i64;
        // The validity bitmap may be omitted if nothing is missing.
        [at, 0, at, 8 * rows as i64]
    };
    Object::Table(vec![
        Field::I64(rows as i64),
        Field::Offset(Object::Structs(2, (0..columns).flat_map(|_| node).collect())),
        Field::Offset(Object::Structs(2, (0..columns).flat_map(buffers).collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    }

    #[test]
    fn columns_lie_aligned_where_the_file_says() {
        for names in [vec!["x"], vec!["theta[0]", "θ", "a much longer name than the others"], vec![]] {
            let columns: Vec<Column> = names.iter().map(|n| (n.to_string(), vec![1.5, f64::NAN, -3.0])).collect();
            let mut bytes = Vec::new();
            write_to(&mut bytes, &columns).expect("writes to memory");
            assert_eq!((&bytes[..8], &bytes[bytes.len() - 6..]), (&MAGIC[..], &MAGIC[..6]));
            // The schema's message, then the batch's, then the body.
            assert_eq!(bytes[8..12], CONTINUATION);
            let batch = 16 + word(&bytes, 12);
            assert_eq!(bytes[batch..batch + 4], CONTINUATION);
            let body = batch + 8 + word(&bytes, batch + 4);
            assert_eq!(body % ALIGN, 0);
            for i in 0..columns.len() {
                let at = body + i * 64;
                assert_eq!(bytes[at..at + 8], 1.5_f64.to_le_bytes());
                assert_eq!(bytes[at + 16..at + 24], (-3.0_f64).to_le_bytes());
            }
            let end = body + 64 * columns.len();
            assert_eq!(bytes[end..end + 8], [255, 255, 255, 255, 0, 0, 0, 0]);
            assert_eq!(end + 8 + word(&bytes, bytes.len() - 10), bytes.len() - 10);
        }
    }

    #[test]
    fn ragged_tables_are_refused() {
        let columns = [("a".to_owned(), vec![]), ("b".to_owned(), vec![1.0])];
        assert!(write_to(&mut Vec::new(), &columns).is_err());
    }
}
