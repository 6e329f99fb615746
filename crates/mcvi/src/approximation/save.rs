//! Saving a fit and loading it again, to draw more from it or to grow it.

use super::mixture::Part;
use super::{Approximation, Mixture};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::params::{Param, Params};
use crate::record::{Format, Record, bad, damaged, enough, finite};
use crate::target::Target;
use mcvi_expr::Array;
use std::path::Path;
use std::sync::Arc;

/// Version 1 did not hold the chain as data.
const FORMAT: Format = Format { name: "mcvi", version: 2, what: "a saved fit" };
/// How the names of what it starts from begin.
const START: &str = "start.";

impl Approximation {
    /// Write the chain and all parameters to a file. An existing file is replaced atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.record()?.write(path.as_ref(), FORMAT)
    }

    fn record(&self) -> Result<Record> {
        let mut record = Record::default();
        for (name, p) in self.params.iter() {
            record.set_array(name, p.value.clone());
            record.set_array(&scale_of(name), Array::new(p.scale.len(), p.scale.clone())?);
        }
        self.initialisation.record(&mut record, START)?;
        let frozen: Vec<&str> = self.params.iter().filter(|(_, p)| !p.learned).map(|(name, _)| name).collect();
        record.set_json("chain", &self.chain)?;
        record.set_text("frozen", frozen.join("\n"));
        Ok(record)
    }

    /// Read a fit to the same target.
    pub fn load(path: impl AsRef<Path>, target: impl Target + 'static) -> Result<Self> {
        Approximation::read(path.as_ref(), Arc::new(target), None, Hardware::default())
    }

    /// The same for a given chain: for one with custom kinds, which a file cannot hold, or for a file of version 0.1,
    /// which did not hold chains as data. If the file holds a chain, it must be the same one.
    pub fn load_with(path: impl AsRef<Path>, target: impl Target + 'static, chain: Chain) -> Result<Self> {
        Approximation::read(path.as_ref(), Arc::new(target), Some(chain), Hardware::default())
    }

    /// The same, with or without a chain.
    pub fn read(path: &Path, target: Arc<dyn Target>, chain: Option<Chain>, hardware: Hardware) -> Result<Self> {
        Approximation::from_record(&Record::open(path, FORMAT)?, path, target, chain, hardware)
    }

    /// The same from the bytes of a file.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8], path: &Path, target: Arc<dyn Target>, chain: Option<Chain>) -> Result<Self> {
        let record = Record::from_bytes(bytes, path, FORMAT)?;
        Approximation::from_record(&record, path, target, chain, Hardware::with_threads(1))
    }

    fn from_record(
        record: &Record,
        path: &Path,
        target: Arc<dyn Target>,
        chain: Option<Chain>,
        hardware: Hardware,
    ) -> Result<Self> {
        let no = |why: String| Err(Error::File { path: path.display().to_string(), why });
        let saved: Option<Chain> = match record.version {
            1 => None,
            _ => Some(record.json("chain").map_err(|why| bad(path, why))?),
        };
        let chain = match (saved, chain) {
            (Some(saved), Some(chain)) if saved != chain => {
                return no(format!("holds a fit of another chain: {}; this one is {}", whole(&saved), whole(&chain)));
            }
            (_, Some(chain)) | (Some(chain), None) => chain,
            (None, None) => return no("is of version 0.1 and does not hold its chain; give the chain".to_owned()),
        };
        let read = |name: &str| record.array(name).map_err(|why| bad(path, why));
        let read_finite = |name: &str| -> Result<&Array> {
            let array = read(name)?;
            finite(name, array).map(|()| array).map_err(|why| damaged(path, why))
        };
        let (is, needs) = (read(&format!("{START}center"))?.shape().size(), target.dim());
        if is != needs {
            return no(format!("is a fit in {is} dimensions, the target has {needs}"));
        }
        let initialisation = Initialisation::recorded(record, START).map_err(|why| damaged(path, why))?;
        enough(&record.arrays, chain.size()?).map_err(|why| damaged(path, why))?;
        // The chain determines the parameters; the file holds their values.
        let empty = Approximation { target, chain: chain.clone(), initialisation, params: Params::default(), hardware };
        let mut made = empty.with_chain(chain)?;
        let frozen: Vec<&str> = record.text("frozen").map_or(vec![], |names| names.split('\n').collect());
        let mut params = Params::default();
        for (name, param) in made.params.iter() {
            let value = read_finite(name)?.clone();
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

/// How the names of a part's moments begin.
const MOMENTS: &str = "moments.";
/// The most parts of a saved mixture.
const MOST_PARTS: usize = 1000;

impl Mixture {
    /// Write it to a file. An existing file is replaced atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        if let [only] = self.with_moments() {
            return only.approximation.save(path);
        }
        let mut record = Record::default();
        record.set_text("parts", self.parts().len());
        for (m, part) in self.with_moments().iter().enumerate() {
            let mut saved = part.approximation.record()?;
            saved.set_array("weight", Array::scalar(part.weight));
            part.moments.record(&mut saved, MOMENTS)?;
            record.add(&m.to_string(), saved);
        }
        record.write(path.as_ref(), FORMAT)
    }

    /// Read a fit to the same target, of one part or several. If a chain is given and the file holds one, it must be the same.
    pub fn read(path: &Path, target: Arc<dyn Target>, chain: Option<Chain>, hardware: Hardware) -> Result<Self> {
        Mixture::from_record(&Record::open(path, FORMAT)?, path, target, chain, hardware)
    }

    /// The same from the bytes of a file.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8], path: &Path, target: Arc<dyn Target>) -> Result<Self> {
        Mixture::from_record(&Record::from_bytes(bytes, path, FORMAT)?, path, target, None, Hardware::with_threads(1))
    }

    fn from_record(
        record: &Record,
        path: &Path,
        target: Arc<dyn Target>,
        chain: Option<Chain>,
        hardware: Hardware,
    ) -> Result<Self> {
        if record.text("parts").is_none() {
            return Ok(Approximation::from_record(record, path, target, chain, hardware)?.into());
        }
        let count: usize = record.read("parts").map_err(|why| bad(path, why))?;
        if count == 0 || count > MOST_PARTS {
            return Err(damaged(path, format!("it cannot hold {count} parts")));
        }
        let part = |m: usize| -> Result<Part> {
            let saved = record.part(&m.to_string());
            let approximation = Approximation::from_record(&saved, path, target.clone(), chain.clone(), hardware)?;
            let weight = saved.array("weight").map_err(|why| bad(path, why))?.to_f64();
            let moments = Initialisation::recorded(&saved, MOMENTS).map_err(|why| damaged(path, why))?;
            let [weight] = weight[..] else { return Err(damaged(path, "it has no weight".to_owned())) };
            if !(0.0..=1.0).contains(&weight) || moments.center.len() != target.dim() || !moments.is_finite() {
                let d = target.dim();
                return Err(damaged(path, format!("part {m} is not one of a mixture in {d} dimensions")));
            }
            Ok(Part { approximation, weight, moments })
        };
        Ok(Mixture::from_parts((0..count).map(part).collect::<Result<_>>()?))
    }
}

/// A chain in words and in full.
fn whole(chain: &Chain) -> String {
    format!("{chain} ({})", serde_json::json!(chain))
}

/// The name under which the scale of a parameter is saved.
fn scale_of(name: &str) -> String {
    format!("scale of {name}")
}
