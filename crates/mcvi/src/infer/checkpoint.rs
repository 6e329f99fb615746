//! The state of an inference, to be saved and resumed.

use super::{ChainChoice, ladder};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::FitState;
use crate::initialisation::Initialisation;
use crate::laplace::log_density;
use crate::record::{Format, Record, bad, finite};
use crate::target::Target;
use mcvi_expr::Array;
use std::cmp::Ordering;
use std::path::Path;

/// Version 1 held the chains as four numbers, and the settings of the fits as text.
const FORMAT: Format = Format { name: "mcvi inference", version: 2, what: "the state of a fit" };
/// More chains than any ladder has.
const MOST_RUNGS: usize = 64;
/// Relative tolerance between two computations of the same number: processors round differently.
const ROUNDING: f64 = 1e-9;

/// The state of every fit of an inference. An empty one is the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    origin: Option<Origin>,
    pub(super) rungs: Vec<Rung>,
}

/// The common initialisation of all fits, and the log density there, by which another model or other data are detected.
#[derive(Clone, Debug, PartialEq)]
struct Origin {
    initialisation: Initialisation,
    log_density: f64,
}

/// A chain that was tried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rung {
    pub chain: Chain,
    pub iterations: usize,
    /// The state of its fit, or why it failed.
    pub state: std::result::Result<FitState, String>,
}

impl Checkpoint {
    /// The state before the first fit.
    pub(super) fn new(target: &dyn Target, initialisation: &Initialisation) -> Result<Self> {
        let log_density = log_density(target, std::slice::from_ref(&initialisation.center))?[0];
        let origin = Origin { initialisation: initialisation.clone(), log_density };
        Ok(Checkpoint { origin: Some(origin), rungs: vec![] })
    }

    /// Iterations over all fits so far.
    pub fn iterations(&self) -> usize {
        self.rungs.iter().map(|r| r.iterations).sum()
    }

    /// The last chain that was tried.
    pub fn chain(&self) -> Option<&Chain> {
        self.rungs.last().map(|rung| &rung.chain)
    }

    /// The initialisation, if any fit has started. An error if it was for another target.
    pub(super) fn initialisation(&self, target: &dyn Target) -> Result<Option<Initialisation>> {
        let Some(Origin { initialisation, log_density: was }) = &self.origin else { return Ok(None) };
        let other = |why: String| Err(Error::Setting { what: "state of a fit", why });
        let (saved, d) = (initialisation.center.len(), target.dim());
        if saved != d {
            return other(format!("it is the state of another model: it has {saved} dimensions, this one {d}"));
        }
        let is = log_density(target, std::slice::from_ref(&initialisation.center))?[0];
        if *was != is && (was - is).abs().partial_cmp(&(ROUNDING * was.abs().max(1.0))) != Some(Ordering::Less) {
            return other(format!(
                "it is the state of another model, or of other data: its initial log density was {was}, and is now {is}"
            ));
        }
        Ok(Some(initialisation.clone()))
    }

    /// Check that its rungs are the first of this ladder. Where the chains are ours to choose, they stay as they were chosen
    /// then, perhaps by an earlier version.
    pub(super) fn agree(&self, choice: &ChainChoice, ladder: &mut [Chain]) -> Result<()> {
        for (i, rung) in self.rungs.iter().enumerate() {
            match ladder.get_mut(i) {
                Some(chain) if *choice == ChainChoice::Auto => chain.clone_from(&rung.chain),
                Some(chain) if *chain == rung.chain => {}
                other => {
                    let requested = other.map_or("nothing more".to_owned(), |chain| chain.to_string());
                    let why =
                        format!("it is the state of another chain: {}, where {requested} was requested", rung.chain);
                    return Err(Error::Setting { what: "state of a fit", why });
                }
            }
        }
        Ok(())
    }

    /// Write it to a file atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut record = Record::default();
        if let Some(Origin { initialisation, log_density }) = &self.origin {
            let d = initialisation.center.len();
            record.set_array("center", Array::new(d, initialisation.center.clone())?);
            record.set_array("covariance", Array::new([d, d], initialisation.covariance().into_owned())?);
            record.set_text("seed", initialisation.seed);
            record.set_array("log_density", Array::scalar(*log_density));
        }
        record.set_text("rungs", self.rungs.len());
        for (i, rung) in self.rungs.iter().enumerate() {
            let mut part = match &rung.state {
                Ok(state) => state.record()?,
                Err(why) => {
                    let mut part = Record::default();
                    part.set_text("failed", rung.iterations);
                    part.set_text("why", why);
                    part
                }
            };
            part.set_json("chain", &rung.chain)?;
            record.add(&i.to_string(), part);
        }
        record.write(path.as_ref(), FORMAT)
    }

    /// Read it back.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Checkpoint::from_record(&Record::open(path, FORMAT)?).map_err(|why| bad(path, why))
    }

    /// The same from the bytes of a file.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        Checkpoint::from_record(&Record::from_bytes(bytes, path, FORMAT)?).map_err(|why| bad(path, why))
    }

    fn from_record(record: &Record) -> Result<Self, String> {
        let (center, covariance) = (record.array("center")?, record.array("covariance")?.to_f64());
        finite("center", center)?;
        let center = center.to_f64();
        let rung = |i: usize| -> Result<Rung, String> {
            let part = record.part(&i.to_string());
            let chain = match record.version {
                1 => ladder::hamiltonian(
                    center.len(),
                    part.read("full_covariance")?,
                    part.read("steps")?,
                    part.read("leapfrogs")?,
                    part.read("hidden")?,
                ),
                _ => part.json("chain")?,
            };
            chain.check().map_err(|e| e.to_string())?;
            if part.text("failed").is_some() {
                let iterations = part.read::<u32>("failed")? as usize;
                let why = part.text("why").unwrap_or("it could not be fitted").to_owned();
                return Ok(Rung { chain, iterations, state: Err(why) });
            }
            let state = FitState::from_record(&part)?;
            Ok(Rung { chain, iterations: state.iterations(), state: Ok(state) })
        };
        if covariance.len() != center.len().pow(2) {
            return Err(format!("its `covariance` is not a matrix of {} rows", center.len()));
        }
        let rungs: usize = record.read("rungs")?;
        if rungs > MOST_RUNGS {
            return Err(format!("is damaged: it cannot hold {rungs} chains"));
        }
        let rungs = (0..rungs).map(rung).collect::<Result<_, String>>()?;
        let log_density = match record.version {
            1 => record.read("log_density")?,
            _ => record.array("log_density")?.to_f64()[0],
        };
        let mut initialisation = Initialisation::with_covariance(&center, &covariance).map_err(|e| e.to_string())?;
        initialisation.seed = record.read("seed")?;
        Ok(Checkpoint { origin: Some(Origin { initialisation, log_density }), rungs })
    }
}
