//! Named arrays and texts, as a file in the safetensors format.

use crate::disk::atomic_write;
use crate::error::{Error, Result};
use mcvi_expr::{Array, Data};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

/// The only entry of the header. It holds all texts, so that equal contents give equal bytes.
const HEADER: &str = "mcvi";
/// The name of the text that states the kind of file and the version of its format.
const FORMAT: &str = "format";
/// The name of the text that holds the checksum.
const DIGEST: &str = "sha256";

/// A kind of file. Older versions can be read; newer ones are refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// The kind, as stated in the file.
    pub name: &'static str,
    /// The version that is written.
    pub version: u64,
    /// Its name in messages.
    pub what: &'static str,
}

impl Format {
    /// The version of a file whose kind is `tag`; none if that is another kind.
    fn version_of(self, tag: &str) -> Option<u64> {
        tag.strip_prefix(self.name)?.strip_prefix(' ')?.parse().ok()
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// The version of the format it was read from; 0 if it was not read.
    pub version: u64,
    pub arrays: Vec<(String, Array)>,
    pub texts: Vec<(String, String)>,
}

impl Record {
    pub fn set_array(&mut self, name: &str, array: Array) {
        self.arrays.push((name.to_owned(), array));
    }

    /// Add a list of numbers, which may be empty although an array may not.
    pub fn set_list(&mut self, name: &str, values: Vec<f64>) -> Result<()> {
        if !values.is_empty() {
            self.set_array(name, Array::new(values.len(), values)?);
        }
        Ok(())
    }

    /// A list of numbers, which may be empty.
    pub fn list(&self, name: &str) -> Vec<f64> {
        self.array(name).map_or(vec![], Array::to_f64)
    }

    pub fn set_text(&mut self, name: &str, text: impl ToString) {
        self.texts.push((name.to_owned(), text.to_string()));
    }

    /// Add data as JSON.
    pub fn set_json(&mut self, name: &str, data: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(data).map_err(|e| Error::Params { why: format!("{name}: {e}") })?;
        self.set_text(name, text);
        Ok(())
    }

    /// Data from JSON, or what is wrong.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name).ok_or_else(|| format!("it does not say `{name}`"))?;
        serde_json::from_str(text).map_err(|e| format!("its `{name}` cannot be read: {e}"))
    }

    /// Add another record as a part of this one.
    pub fn add(&mut self, part: &str, record: Record) {
        let within = |name: String| format!("{part}/{name}");
        self.arrays.extend(record.arrays.into_iter().map(|(name, array)| (within(name), array)));
        self.texts.extend(record.texts.into_iter().map(|(name, text)| (within(name), text)));
    }

    /// A part, as a record of its own.
    pub fn part(&self, part: &str) -> Record {
        let within = |name: &str| name.strip_prefix(part)?.strip_prefix('/').map(str::to_owned);
        let arrays = self.arrays.iter().filter_map(|(name, array)| Some((within(name)?, array.clone())));
        let texts = self.texts.iter().filter_map(|(name, text)| Some((within(name)?, text.clone())));
        Record { version: self.version, arrays: arrays.collect(), texts: texts.collect() }
    }

    /// An array, or what is wrong.
    pub fn array(&self, name: &str) -> Result<&Array, String> {
        let found = self.arrays.iter().find(|(n, _)| n == name);
        found.map(|(_, array)| array).ok_or_else(|| format!("it has no array `{name}`"))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
    }

    /// A text parsed as a value, or what is wrong.
    pub fn read<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name).ok_or_else(|| format!("it does not say `{name}`"))?;
        text.parse().map_err(|_| format!("`{text}` cannot be its `{name}`"))
    }

    /// Write it atomically.
    pub fn write(&self, path: &Path, format: Format) -> Result<()> {
        let bytes = self.to_bytes(format).map_err(|e| bad(path, e))?;
        atomic_write(path, &bytes).map_err(|e| bad(path, e))
    }

    /// As the bytes of a file that any reader of safetensors opens, with a checksum over all of it.
    pub fn to_bytes(&self, format: Format) -> Result<Vec<u8>> {
        let broken = |e: safetensors::SafeTensorError| Error::Params { why: e.to_string() };
        let mut raw: Vec<_> =
            self.arrays.iter().map(|(name, array)| (name.as_str(), array.shape(), raw(array))).collect();
        raw.sort_by_key(|(name, ..)| *name);
        let tensors = raw.iter().map(|(name, shape, (dtype, bytes))| {
            TensorView::new(*dtype, shape.dims().to_vec(), bytes).map(|view| (*name, view)).map_err(broken)
        });
        let tensors: Vec<(&str, TensorView<'_>)> = tensors.collect::<Result<_>>()?;
        let mut texts: BTreeMap<String, String> = self.texts.iter().cloned().collect();
        texts.insert(FORMAT.to_owned(), format!("{} {}", format.name, format.version));
        let digest = digest(&texts, tensors.iter().map(|(name, view)| (*name, view.data())));
        texts.insert(DIGEST.to_owned(), digest);
        let header = serde_json::to_string(&texts).map_err(|e| Error::Params { why: e.to_string() })?;
        safetensors::serialize(tensors, Some(HashMap::from([(HEADER.to_owned(), header)]))).map_err(broken)
    }

    /// Read a file of this format.
    pub fn open(path: &Path, format: Format) -> Result<Self> {
        Record::from_bytes(&std::fs::read(path).map_err(|e| bad(path, e))?, path, format)
    }

    /// Read what [`to_bytes`](Self::to_bytes) wrote; a single flipped bit is detected.
    pub fn from_bytes(bytes: &[u8], path: &Path, format: Format) -> Result<Self> {
        let what = format.what;
        let broken = |why: String| Error::Damaged { path: path.display().to_string(), why };
        let damaged = |e: &dyn std::fmt::Display| broken(format!("is not {what}, or damaged: {e}"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(&e))?;
        let text = header.metadata().as_ref().and_then(|meta| meta.get(HEADER)).map_or("{}", String::as_str);
        let mut texts: BTreeMap<String, String> = serde_json::from_str(text).map_err(|e| damaged(&e))?;
        let Some(version) = texts.get(FORMAT).and_then(|tag| format.version_of(tag)) else {
            return Err(broken(format!("is not {what}")));
        };
        if version > format.version {
            return Err(Error::Newer { path: path.display().to_string(), found: version, known: format.version });
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| damaged(&e))?;
        let stated = texts.remove(DIGEST).unwrap_or_default();
        let mut views = tensors.tensors();
        views.sort_by(|a, b| a.0.cmp(&b.0));
        if digest(&texts, views.iter().map(|(name, view)| (name.as_str(), view.data()))) != stated {
            return Err(broken("is damaged: its contents do not have the checksum it states".to_owned()));
        }
        let arrays = views.iter().map(|(name, view)| {
            let array = array(view).ok_or_else(|| damaged(&format!("`{name}` is of an unsupported type")))?;
            Ok((name.clone(), array))
        });
        Ok(Record { version, arrays: arrays.collect::<Result<_>>()?, texts: texts.into_iter().collect() })
    }
}

/// A checksum over everything in a file, in a fixed order.
fn digest<'a>(texts: &BTreeMap<String, String>, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Sha256::new();
    for (key, value) in texts {
        hash.update(key);
        hash.update([0]);
        hash.update(value);
        hash.update([0]);
    }
    for (name, bytes) in tensors {
        hash.update(name);
        hash.update([0]);
        hash.update(bytes);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// What is wrong with an array of parameters that are not all finite.
pub(crate) fn finite(name: &str, array: &Array) -> Result<(), String> {
    let all = match array.data() {
        Data::F32(d) => d.iter().all(|x| x.is_finite()),
        Data::F64(d) => d.iter().all(|x| x.is_finite()),
        Data::I32(_) => true,
    };
    if all { Ok(()) } else { Err(format!("is damaged: `{name}` has numbers that are not finite")) }
}

/// What is wrong with arrays that hold fewer numbers than are needed: found out before memory is taken for those.
pub(crate) fn enough(arrays: &[(String, Array)], needed: usize) -> Result<(), String> {
    let held: usize = arrays.iter().map(|(_, array)| array.shape().size()).sum();
    if held >= needed { Ok(()) } else { Err(format!("is damaged: it holds {held} numbers where {needed} are needed")) }
}

/// The error of a damaged file.
pub(crate) fn damaged(path: &Path, why: String) -> Error {
    Error::Damaged { path: path.display().to_string(), why }
}

/// The error of a file.
pub(crate) fn bad(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::File { path: path.display().to_string(), why: why.to_string() }
}

fn raw(array: &Array) -> (Dtype, Vec<u8>) {
    match array.data() {
        Data::F32(d) => (Dtype::F32, d.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Data::F64(d) => (Dtype::F64, d.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Data::I32(d) => (Dtype::I32, d.iter().flat_map(|x| x.to_le_bytes()).collect()),
    }
}

fn array(tensor: &TensorView<'_>) -> Option<Array> {
    let (shape, bytes) = (tensor.shape().to_vec(), tensor.data());
    let made = match tensor.dtype() {
        Dtype::F32 => Array::new(shape, bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>()),
        Dtype::F64 => Array::new(shape, bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect::<Vec<_>>()),
        Dtype::I32 => Array::new(shape, bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect::<Vec<_>>()),
        _ => return None,
    };
    made.ok()
}

/// The bytes of a record with the checksum and the lengths that belong to its contents, as far as those can be made
/// out: what a damaged or forged file looks like to a reader behind the checksum.
#[doc(hidden)]
pub fn reseal(bytes: &[u8]) -> Vec<u8> {
    sealed(bytes).unwrap_or_else(|| bytes.to_vec())
}

fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut values = serde_json::Deserializer::from_slice(bytes.get(8..)?).into_iter::<Value>();
    let mut header = values.next()?.ok()?;
    let at = 8 + values.byte_offset();
    let padding = bytes[at..].iter().take_while(|byte| **byte == b' ').count();
    let mut data = bytes[at + padding..].to_vec();
    let place = |value: &Value| {
        let ends = value.get("data_offsets")?.as_array()?;
        Some(ends.first()?.as_u64()? as usize..ends.get(1)?.as_u64()? as usize)
    };
    let mut views: Vec<(String, Range<usize>)> = header
        .as_object()?
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, value)| Some((name.clone(), place(value)?)))
        .collect::<Option<_>>()?;
    views.sort_by(|a, b| a.0.cmp(&b.0));
    let len = views.iter().map(|(_, range)| range.end).max().unwrap_or(0);
    if len <= 2 * bytes.len() {
        data.resize(len, 0);
    }
    let views = views.iter().map(|(name, range)| Some((name.as_str(), data.get(range.clone())?)));
    let views = views.collect::<Option<Vec<_>>>()?;
    let meta = header.get("__metadata__")?.get(HEADER)?.as_str()?;
    let mut texts: BTreeMap<String, String> = serde_json::from_str(meta).ok()?;
    texts.remove(DIGEST);
    let digest = digest(&texts, views.into_iter());
    texts.insert(DIGEST.to_owned(), digest);
    header["__metadata__"][HEADER] = serde_json::to_string(&texts).ok()?.into();
    let header = header.to_string();
    let header = format!("{header:width$}", width = header.len().next_multiple_of(8));
    Some([&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat())
}
