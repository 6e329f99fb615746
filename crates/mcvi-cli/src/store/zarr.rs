//! Draws as a Zarr store in ArviZ's layout: a group for each kind of result, in it an array for each variable and one
//! for the coordinates of each dimension.
//!
//! The format is version 2 with consolidated metadata: the one that `arviz.from_zarr` of the 0.x series (whose zarr
//! is older than 3) and of the 1.x series both open, and `xarray.open_datatree` as well. Chunks are raw: draws are
//! noise, which hardly compresses, and so any program can read them without a codec. Those in single precision, which are there to
//! save space, are compressed by zlib.

use super::invalid;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use mcvi::disk;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Result, Write};
use std::path::Path;

/// Maximum chunk size in bytes, if slices along one dimension allow: small enough to read at once.
const CHUNK: usize = 1 << 26;
/// Level of compression: noise gains nothing from a higher one.
const LEVEL: u32 = 1;
/// Whole numbers up to this are exact in single precision.
const WHOLE: f64 = 16_777_216.0;

/// One kind of result, such as `posterior`.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// ArviZ's name for it: `posterior`, `log_likelihood`, `observed_data`, and so on.
    pub name: String,
    /// Attributes of the group, such as `inference_library`.
    pub attributes: Map<String, Value>,
    /// Its arrays. Coordinates may be omitted: a dimension without any counts from zero.
    pub variables: Vec<Variable>,
}

/// An array with named dimensions.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name, unique in its group.
    pub name: String,
    /// Names and lengths of the dimensions, the last of which varies fastest; none for a single number.
    pub dims: Vec<(String, usize)>,
    /// The values; their number is the product of the dimensions' lengths.
    pub values: Values,
}

/// The values of an array.
#[derive(Clone, Debug)]
pub enum Values {
    /// Real numbers.
    F64(Vec<f64>),
    /// Real numbers in single precision, compressed.
    F32(Vec<f32>),
    /// Whole numbers.
    I64(Vec<i64>),
    /// Texts, such as labels of coordinates.
    Text(Vec<String>),
}

impl Variable {
    /// The same in single precision, unless whole numbers are too large for it.
    pub fn compact(self) -> Self {
        let exact = |v: &f64| v.fract() != 0.0 || v.abs() <= WHOLE;
        match self.values {
            Values::F64(values) if values.iter().all(exact) => {
                let values = Values::F32(values.into_iter().map(|v| v as f32).collect());
                Variable { values, ..self }
            }
            values => Variable { values, ..self },
        }
    }
}

impl Values {
    /// How chunks are compressed.
    fn compressor(&self) -> Value {
        match self {
            Self::F32(_) => json!({ "id": "zlib", "level": LEVEL }),
            _ => Value::Null,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    fn data_type(&self) -> String {
        match self {
            Self::F64(_) => "<f8".to_owned(),
            Self::F32(_) => "<f4".to_owned(),
            Self::I64(_) => "<i8".to_owned(),
            Self::Text(_) => format!("<U{}", self.width() / 4),
        }
    }

    /// Bytes of an element. Texts are as NumPy has them: code points of four bytes, all as long as the longest.
    fn width(&self) -> usize {
        match self {
            Self::F64(_) | Self::I64(_) => 8,
            Self::F32(_) => 4,
            Self::Text(values) => 4 * values.iter().map(|v| v.chars().count()).max().unwrap_or(0).max(1),
        }
    }

    /// Write a range of values, padded with zeros to the length of a chunk.
    fn write(&self, out: &mut impl Write, from: usize, to: usize, chunk: usize) -> Result<()> {
        match self {
            Self::F64(values) => values[from..to].iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
            Self::F32(values) => values[from..to].iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
            Self::I64(values) => values[from..to].iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
            Self::Text(values) => values[from..to].iter().try_for_each(|v| {
                let mut bytes: Vec<u8> = v.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
                bytes.resize(self.width(), 0);
                out.write_all(&bytes)
            })?,
        }
        let nothing = vec![0; self.width()];
        (to - from..chunk).try_for_each(|_| out.write_all(&nothing))
    }
}

/// Write a store, which is a folder, with these groups. They are checked before anything is written.
pub fn write(path: &Path, groups: &[Group]) -> Result<()> {
    write_chunked(path, groups, CHUNK)
}

fn write_chunked(path: &Path, groups: &[Group], chunk: usize) -> Result<()> {
    distinct("group", groups.iter().map(|group| group.name.as_str()), "the store")?;
    let coordinates: Vec<Vec<Variable>> = groups.iter().map(coordinates).collect::<Result<_>>()?;

    let mut store = Store { path, metadata: Map::new() };
    disk::create_dir_all(path)?;
    store.document("", ".zgroup", json!({ "zarr_format": 2 }))?;
    store.document("", ".zattrs", json!({}))?;
    for (group, coordinates) in groups.iter().zip(coordinates) {
        disk::create_dir(path.join(&group.name))?;
        store.document(&group.name, ".zgroup", json!({ "zarr_format": 2 }))?;
        store.document(&group.name, ".zattrs", Value::Object(group.attributes.clone()))?;
        for variable in coordinates.iter().chain(&group.variables) {
            store.array(&group.name, variable, chunk)?;
        }
    }
    // Last, so that a reader finds everything it lists.
    let all = json!({ "metadata": store.metadata, "zarr_consolidated_format": 1 });
    disk::write_new(path.join(".zmetadata"), format!("{all:#}\n").as_bytes())
}

/// Coordinates for those of a group's dimensions that have none yet; an error if the group is inconsistent.
fn coordinates(group: &Group) -> Result<Vec<Variable>> {
    let names = || group.variables.iter().map(|variable| variable.name.as_str());
    let place = format!("group {}", group.name);
    distinct("variable", names(), &place)?;
    let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
    for Variable { name, dims, values } in &group.variables {
        let count = dims.iter().try_fold(1_usize, |count, (_, length)| count.checked_mul(*length));
        if count != Some(values.len()) {
            let shape: Vec<String> = dims.iter().map(|(dim, length)| format!("{dim}: {length}")).collect();
            let (n, shape) = (values.len(), shape.join(", "));
            return Err(invalid(format!("{place}: {name} has {n} values, which do not fill ({shape})")));
        }
        distinct("dimension", dims.iter().map(|(dim, _)| dim.as_str()), &format!("{place}, {name}"))?;
        for (dim, length) in dims {
            let known = *lengths.entry(dim).or_insert(*length);
            if known != *length {
                return Err(invalid(format!("{place}: {dim} has the length {known}, but {length} in {name}")));
            }
        }
    }
    let missing = lengths.into_iter().filter(|(dim, _)| !names().any(|name| name == *dim));
    let count = |(dim, length): (&str, usize)| Variable {
        name: dim.to_owned(),
        dims: vec![(dim.to_owned(), length)],
        values: Values::I64((0..length as i64).collect()),
    };
    Ok(missing.map(count).collect())
}

/// Check that names are valid and unique.
fn distinct<'a>(kind: &str, names: impl Iterator<Item = &'a str>, place: &str) -> Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(invalid(format!("{place}: a {kind} cannot be called {name:?}")));
        }
        if !seen.insert(name) {
            return Err(invalid(format!("{place}: there are two of the {kind} {name}")));
        }
    }
    Ok(())
}

/// A store being written.
struct Store<'a> {
    path: &'a Path,
    /// Every document by its path, for readers that want all of them at once.
    metadata: Map<String, Value>,
}

impl Store<'_> {
    fn document(&mut self, folder: &str, name: &str, value: Value) -> Result<()> {
        let key = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        disk::write_new(self.path.join(&key), format!("{value:#}\n").as_bytes())?;
        self.metadata.insert(key, value);
        Ok(())
    }

    fn array(&mut self, group: &str, Variable { name, dims, values }: &Variable, chunk: usize) -> Result<()> {
        let folder = format!("{group}/{name}");
        disk::create_dir(self.path.join(&folder))?;
        let shape: Vec<usize> = dims.iter().map(|(_, length)| *length).collect();
        let slices = Slices::new(&shape, chunk / values.width());
        let description = json!({
            "zarr_format": 2,
            "shape": shape,
            "chunks": slices.chunks,
            "dtype": values.data_type(),
            "order": "C",
            "compressor": values.compressor(),
            // xarray would treat values equal to it as missing.
            "fill_value": null,
            "filters": null,
        });
        self.document(&folder, ".zarray", description)?;
        let names: Vec<&str> = dims.iter().map(|(dim, _)| dim.as_str()).collect();
        self.document(&folder, ".zattrs", json!({ "_ARRAY_DIMENSIONS": names }))?;
        for (i, from) in (0..values.len()).step_by(slices.length).enumerate() {
            let mut out = BufWriter::new(disk::File::create_new(self.path.join(&folder).join(slices.key(i)))?);
            let to = values.len().min(from + slices.length);
            if values.compressor().is_null() {
                values.write(&mut out, from, to, slices.length)?;
            } else {
                // The encoder is slow with a few bytes at a time.
                let mut bytes = vec![];
                values.write(&mut bytes, from, to, slices.length)?;
                let mut packed = ZlibEncoder::new(&mut out, Compression::new(LEVEL));
                packed.write_all(&bytes)?;
                packed.finish()?;
            }
            out.flush()?;
        }
        Ok(())
    }
}

/// How an array is cut along the first dimension that is longer than one, so that each chunk is one run of values.
struct Slices {
    chunks: Vec<usize>,
    cut: Option<usize>,
    /// Values in a chunk.
    length: usize,
}

impl Slices {
    fn new(shape: &[usize], most: usize) -> Self {
        // Chunks are never empty, even those of an array that is.
        let mut chunks: Vec<usize> = shape.iter().map(|length| (*length).max(1)).collect();
        let cut = chunks.iter().position(|length| *length > 1);
        if let Some(cut) = cut {
            let row: usize = chunks[cut + 1..].iter().product();
            let rows = (most / row).clamp(1, chunks[cut]);
            // As even as possible, to minimise the padding of the last chunk.
            chunks[cut] = chunks[cut].div_ceil(chunks[cut].div_ceil(rows));
        }
        let length = chunks.iter().product();
        Self { chunks, cut, length }
    }

    /// The name of a chunk: its place in each dimension.
    fn key(&self, i: usize) -> String {
        let place = |d: usize| if Some(d) == self.cut { i.to_string() } else { "0".to_owned() };
        if self.chunks.is_empty() {
            "0".to_owned()
        } else {
            (0..self.chunks.len()).map(place).collect::<Vec<_>>().join(".")
        }
    }
}

#[cfg(test)]
#[path = "zarr_tests.rs"]
mod tests;
