//! Saving a fit and loading it again, to draw more from later or to grow.
//!
//! A file is in the safetensors format: every parameter under its name, and what else is needed as text.

use crate::approximation::Approximation;
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::params::{Param, Params};
use crate::start::Start;
use crate::target::Target;
use mcvi_expr::{Array, Data};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Saves so far.
static SAVES: AtomicUsize = AtomicUsize::new(0);

const FORMAT: &str = "mcvi 1";
const CENTER: &str = "start.center";
const COVARIANCE: &str = "start.covariance";

impl Approximation {
    /// Write all parameters to a file. A file of that name is replaced in one go, never left half-written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut arrays: Vec<(String, Array)> =
            self.params.iter().map(|(name, p)| (name.to_owned(), p.value.clone())).collect();
        for (name, p) in self.params.iter() {
            arrays.push((scale_of(name), Array::new(p.scale.len(), p.scale.clone())?));
        }
        let d = self.start.center.len();
        arrays.push((CENTER.to_owned(), Array::new(d, self.start.center.clone())?));
        arrays.push((COVARIANCE.to_owned(), Array::new([d, d], self.start.covariance.clone())?));
        let bytes: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = arrays
            .into_iter()
            .map(|(name, array)| {
                let (dtype, bytes) = raw(&array);
                (name, dtype, array.shape().dims().to_vec(), bytes)
            })
            .collect();
        let tensors = bytes.iter().map(|(name, dtype, shape, bytes)| {
            TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name.as_str(), view)).map_err(|e| bad(path, e))
        });
        let tensors: Vec<(&str, TensorView<'_>)> = tensors.collect::<Result<_>>()?;
        let chain = format!("{:?}", self.chain);
        let frozen: Vec<&str> = self.params.iter().filter(|(_, p)| !p.learned).map(|(name, _)| name).collect();
        let meta = [("format", FORMAT.to_owned()), ("chain", chain), ("frozen", frozen.join("\n"))];
        let meta: HashMap<String, String> = meta.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let file = safetensors::serialize(tensors, Some(meta)).map_err(|e| bad(path, e))?;
        // A name of its own for every save, also where threads save at the same time.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}-{}.tmp", std::process::id(), SAVES.fetch_add(1, Ordering::Relaxed)));
        let written = std::fs::write(&temporary, file).and_then(|()| std::fs::rename(&temporary, path));
        written.map_err(|e| {
            let _ = std::fs::remove_file(&temporary);
            bad(path, e)
        })
    }

    /// Read a fit of the same chain to the same target.
    pub fn load(path: impl AsRef<Path>, target: impl Target + 'static, chain: Chain) -> Result<Self> {
        let path = path.as_ref();
        let file = std::fs::read(path).map_err(|e| bad(path, e))?;
        let no = |why: String| Err(Error::File { path: path.display().to_string(), why });
        let (_, header) = SafeTensors::read_metadata(&file).map_err(|e| bad(path, e))?;
        let meta = header.metadata().clone().unwrap_or_default();
        if meta.get("format").map(String::as_str) != Some(FORMAT) {
            return no(format!("is not a saved fit of this version ({FORMAT})"));
        }
        if meta.get("chain") != Some(&format!("{chain:?}")) {
            return no(format!(
                "holds a fit of another chain: {}; this one is {chain:?}",
                meta.get("chain").map_or("unknown", String::as_str)
            ));
        }
        let tensors = SafeTensors::deserialize(&file).map_err(|e| bad(path, e))?;
        let read = |name: &str| -> Result<Array> {
            let tensor = tensors.tensor(name).map_err(|e| bad(path, e))?;
            array(&tensor).ok_or_else(|| bad(path, format!("`{name}` is of a type that is not used here")))
        };
        let start =
            Start { center: read(CENTER)?.to_f64(), covariance: read(COVARIANCE)?.to_f64(), warning: None, seed: 0 };
        if start.center.len() != target.dim() {
            return no(format!("is a fit in {} dimensions, the target has {}", start.center.len(), target.dim()));
        }
        // The chain says what parameters there are; the file has their values.
        let mut made = Approximation::from(Arc::new(target), chain, start)?;
        let frozen: Vec<&str> = meta.get("frozen").map_or(vec![], |names| names.split('\n').collect());
        let mut params = Params::default();
        for (name, param) in made.params.iter() {
            let value = read(name)?;
            if value.shape() != param.value.shape() || value.dtype() != param.value.dtype() {
                return no(format!("`{name}` has shape {}, the chain needs {}", value.shape(), param.value.shape()));
            }
            let scale = read(&scale_of(name))?.to_f64();
            if scale.len() != param.scale.len() {
                return no(format!("`{name}` has {} scales, the chain needs {}", scale.len(), param.scale.len()));
            }
            params.insert(name, Param { value, scale, learned: !frozen.contains(&name), ..param.clone() });
        }
        made.params = params;
        Ok(made)
    }
}

/// Under what name the scale of a parameter is kept.
fn scale_of(name: &str) -> String {
    format!("scale of {name}")
}

fn bad(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::File { path: path.display().to_string(), why: why.to_string() }
}

pub(crate) fn raw(array: &Array) -> (Dtype, Vec<u8>) {
    match array.data() {
        Data::F32(d) => (Dtype::F32, d.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Data::F64(d) => (Dtype::F64, d.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Data::I32(d) => (Dtype::I32, d.iter().flat_map(|x| x.to_le_bytes()).collect()),
    }
}

pub(crate) fn array(tensor: &TensorView<'_>) -> Option<Array> {
    let (shape, bytes) = (tensor.shape().to_vec(), tensor.data());
    let made = match tensor.dtype() {
        Dtype::F32 => Array::new(shape, bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>()),
        Dtype::F64 => Array::new(shape, bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect::<Vec<_>>()),
        _ => return None,
    };
    made.ok()
}
