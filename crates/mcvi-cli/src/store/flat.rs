//! A minimal FlatBuffers writer, for Arrow's metadata: just the tables, strings and vectors that are needed.
//!
//! Offsets point forward, so whatever a table refers to follows it, and the offset is filled in once that is placed.

/// A field of a table, in the order of its schema.
pub enum Field {
    /// Absent: readers use the default.
    Absent,
    /// A byte, a bool, or the tag of a union.
    U8(u8),
    /// A 16-bit integer or enum.
    I16(i16),
    /// A 64-bit integer.
    I64(i64),
    /// An object placed elsewhere.
    Offset(Object),
}

/// Something that an offset can point to.
pub enum Object {
    /// A table with its fields.
    Table(Vec<Field>),
    /// A text.
    Text(String),
    /// A vector of offsets.
    Objects(Vec<Object>),
    /// A vector of structs of this many 64-bit words each.
    Structs(usize, Vec<i64>),
}

/// A buffer with this table as its root.
pub fn encode(root: Object) -> Vec<u8> {
    let mut out = vec![0; 4];
    point(&mut out, 0, root);
    out
}

/// Place an object and fill in the offset to it.
fn point(out: &mut Vec<u8>, from: usize, object: Object) {
    let at = place(out, object);
    set_u32(out, from, at - from);
}

/// Append an object and return its position.
fn place(out: &mut Vec<u8>, object: Object) -> usize {
    match object {
        Object::Table(fields) => place_table(out, fields),
        Object::Text(text) => {
            let at = start(out, 0, 4);
            push_u32(out, text.len());
            out.extend(text.as_bytes());
            out.push(0);
            at
        }
        Object::Objects(objects) => {
            let at = start(out, 0, 4);
            push_u32(out, objects.len());
            let mut slot = out.len();
            out.resize(slot + 4 * objects.len(), 0);
            for object in objects {
                point(out, slot, object);
                slot += 4;
            }
            at
        }
        Object::Structs(words, values) => {
            // The words, not the count before them, need to be aligned.
            let at = start(out, 4, 8);
            push_u32(out, values.len() / words);
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            at
        }
    }
}

fn place_table(out: &mut Vec<u8>, fields: Vec<Field>) -> usize {
    // The first four bytes of a table are the distance back to its vtable.
    let mut size = 4_usize;
    let places: Vec<usize> = fields
        .iter()
        .map(|field| match field.size() {
            0 => 0,
            width => {
                let place = size.next_multiple_of(width);
                size = place + width;
                place
            }
        })
        .collect();
    let list = 4 + 2 * places.len();
    let at = start(out, list, 8) + list;
    push_u16(out, list);
    push_u16(out, size);
    places.iter().for_each(|place| push_u16(out, *place));
    push_u32(out, list);
    out.resize(at + size, 0);
    for (field, place) in fields.into_iter().zip(places) {
        let from = at + place;
        match field {
            Field::Absent => {}
            Field::U8(value) => out[from] = value,
            Field::I16(value) => out[from..from + 2].copy_from_slice(&value.to_le_bytes()),
            Field::I64(value) => out[from..from + 8].copy_from_slice(&value.to_le_bytes()),
            Field::Offset(object) => point(out, from, object),
        }
    }
    at
}

impl Field {
    fn size(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::U8(_) => 1,
            Self::I16(_) => 2,
            Self::Offset(_) => 4,
            Self::I64(_) => 8,
        }
    }
}

/// Pad until the position `skip` bytes further on is aligned. Returns the position where those bytes start.
fn start(out: &mut Vec<u8>, skip: usize, align: usize) -> usize {
    let at = (out.len() + skip).next_multiple_of(align) - skip;
    out.resize(at, 0);
    at
}

// Metadata are never four gigabytes long, which is the only limit of FlatBuffers.
fn push_u32(out: &mut Vec<u8>, value: usize) {
    out.extend((value as u32).to_le_bytes());
}

fn push_u16(out: &mut Vec<u8>, value: usize) {
    out.extend((value as u16).to_le_bytes());
}

fn set_u32(out: &mut [u8], at: usize, value: usize) {
    out[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_laid_out_as_specified() {
        let bytes = encode(Object::Table(vec![Field::U8(7), Field::Absent, Field::Offset(Object::Text("ab".into()))]));
        // The root is at 16; its vtable starts at 6, so that the table is aligned.
        assert_eq!(bytes[..4], [16, 0, 0, 0]);
        assert_eq!(bytes[6..16], [10, 0, 12, 0, 4, 0, 0, 0, 8, 0]);
        assert_eq!(bytes[16..28], [10, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(bytes[28..], [2, 0, 0, 0, b'a', b'b', 0]);
    }

    #[test]
    fn words_are_aligned_wherever_they_follow() {
        for name in ["", "a", "abcd", "abcdefg"] {
            let text = Field::Offset(Object::Text(name.into()));
            let bytes = encode(Object::Table(vec![text, Field::Offset(Object::Structs(2, vec![-1, -1]))]));
            assert_eq!(bytes.len() % 8, 0);
            assert_eq!(bytes[bytes.len() - 16..], [255; 16]);
            assert_eq!(bytes[bytes.len() - 20..bytes.len() - 16], [1, 0, 0, 0]);
        }
    }
}
