//! Saving a fit and loading it again, to draw more from later or to grow.

use crate::approximation::Approximation;
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::params::{Param, Params};
use crate::record::{Record, bad};
use crate::start::Start;
use crate::target::Target;
use mcvi_expr::Array;
use std::path::Path;
use std::sync::Arc;

const FORMAT: &str = "mcvi 1";
const CENTER: &str = "start.center";
const COVARIANCE: &str = "start.covariance";

impl Approximation {
    /// Write all parameters to a file. A file of that name is replaced in one go, never left half-written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut record = Record::default();
        for (name, p) in self.params.iter() {
            record.keep(name, p.value.clone());
            record.keep(&scale_of(name), Array::new(p.scale.len(), p.scale.clone())?);
        }
        let d = self.start.center.len();
        record.keep(CENTER, Array::new(d, self.start.center.clone())?);
        record.keep(COVARIANCE, Array::new([d, d], self.start.covariance.clone())?);
        let frozen: Vec<&str> = self.params.iter().filter(|(_, p)| !p.learned).map(|(name, _)| name).collect();
        record.say("chain", format!("{:?}", self.chain));
        record.say("frozen", frozen.join("\n"));
        record.write(path.as_ref(), FORMAT)
    }

    /// Read a fit of the same chain to the same target.
    pub fn load(path: impl AsRef<Path>, target: impl Target + 'static, chain: Chain) -> Result<Self> {
        let path = path.as_ref();
        let record = Record::open(path, FORMAT, "a saved fit")?;
        let no = |why: String| Err(Error::File { path: path.display().to_string(), why });
        if record.word("chain") != Some(&format!("{chain:?}")) {
            let other = record.word("chain").unwrap_or("unknown");
            return no(format!("holds a fit of another chain: {other}; this one is {chain:?}"));
        }
        let read = |name: &str| record.array(name).map_err(|why| bad(path, why));
        let (center, covariance) = (read(CENTER)?.to_f64(), read(COVARIANCE)?.to_f64());
        let start = Start { center, covariance, warning: None, seed: 0 };
        if start.center.len() != target.dim() {
            return no(format!("is a fit in {} dimensions, the target has {}", start.center.len(), target.dim()));
        }
        if start.covariance.len() != target.dim().pow(2) {
            return no(format!("`{COVARIANCE}` is no matrix of {} rows", target.dim()));
        }
        // The chain says what parameters there are; the file has their values.
        let mut made = Approximation::from(Arc::new(target), chain, start)?;
        let frozen: Vec<&str> = record.word("frozen").map_or(vec![], |names| names.split('\n').collect());
        let mut params = Params::default();
        for (name, param) in made.params.iter() {
            let value = read(name)?.clone();
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
