//! The state of an inference, to be saved and resumed.

use super::{ChainChoice, ladder};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::FitState;
use crate::initialisation::Initialisation;
use crate::laplace::log_density;
use crate::limits;
use crate::record::{Format, Record, bad};
use crate::target::Target;
use mcvi_expr::Array;
use std::cmp::Ordering;
use std::path::Path;

/// Version 1 held the chains as four numbers, and the settings of the fits as text; see also the versions of a fit's state, which
/// are counted alike.
const FORMAT: Format = Format { name: "mcvi inference", version: 3, what: "the state of a fit" };
/// More chains than any ladder has.
const MOST_RUNGS: usize = 64;
/// Relative tolerance between two computations of the same number: processors round differently.
const ROUNDING: f64 = 1e-9;

/// The state of every fit of an inference. An empty one is the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// One for each mode that is fitted.
    origins: Vec<Origin>,
    pub(super) rungs: Vec<Rung>,
}

/// The initialisation of the fits of a mode, and the log density there, by which another model or other data are detected.
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
    /// The state of its fit to each mode, as far as they were begun, or why it failed. None where it was not fitted.
    pub states: std::result::Result<Vec<FitState>, String>,
}

impl Origin {
    /// The initialisation. An error if it was for another target.
    fn of(&self, target: &dyn Target) -> Result<Initialisation> {
        let Origin { initialisation, log_density: was } = self;
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
        Ok(initialisation.clone())
    }

    fn record(&self) -> Result<Record> {
        let (mut record, at) = (Record::default(), &self.initialisation);
        at.record(&mut record, "")?;
        record.set_text("seed", at.seed);
        record.set_array("log_density", Array::scalar(self.log_density));
        Ok(record)
    }

    fn from_record(record: &Record) -> Result<Self, String> {
        let log_density = match record.version {
            1 => record.read("log_density")?,
            _ => record.array("log_density")?.to_f64()[0],
        };
        let mut initialisation = Initialisation::recorded(record, "")?;
        initialisation.seed = record.read("seed")?;
        Ok(Origin { initialisation, log_density })
    }
}

impl Checkpoint {
    /// The state before the first fit.
    pub(super) fn new(target: &dyn Target, initialisations: &[Initialisation]) -> Result<Self> {
        let origin = |at: &Initialisation| -> Result<Origin> {
            let log_density = log_density(target, std::slice::from_ref(&at.center))?[0];
            Ok(Origin { initialisation: at.clone(), log_density })
        };
        let origins = initialisations.iter().map(origin).collect::<Result<_>>()?;
        Ok(Checkpoint { origins, rungs: vec![] })
    }

    /// Iterations over all fits so far.
    pub fn iterations(&self) -> usize {
        self.rungs.iter().map(|r| r.iterations).sum()
    }

    /// The last chain that was tried.
    pub fn chain(&self) -> Option<&Chain> {
        self.rungs.last().map(|rung| &rung.chain)
    }

    /// The initialisation at each mode; none if no fit has started. An error if they were for another target.
    pub(super) fn initialisations(&self, target: &dyn Target) -> Result<Vec<Initialisation>> {
        self.origins.iter().map(|origin| origin.of(target)).collect()
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
        // What is of the first mode has no prefix, as where there is only one.
        let mut record = self.origins.first().map_or_else(|| Ok(Record::default()), Origin::record)?;
        record.set_text("modes", self.origins.len());
        for (m, origin) in self.origins.iter().enumerate().skip(1) {
            record.add(&mode(m), origin.record()?);
        }
        record.set_text("rungs", self.rungs.len());
        for (i, rung) in self.rungs.iter().enumerate() {
            let mut part = Record::default();
            match &rung.states {
                Ok(states) => {
                    part = states.first().map_or_else(|| Ok(Record::default()), FitState::record)?;
                    part.set_text("modes", states.len());
                    for (m, state) in states.iter().enumerate().skip(1) {
                        part.add(&mode(m), state.record()?);
                    }
                }
                Err(why) => {
                    part.set_text("failed", rung.iterations);
                    part.set_text("why", why);
                }
            }
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
        let modes = |record: &Record| match record.text("modes") {
            None => Ok(1),
            Some(_) => match record.read("modes")? {
                modes @ 0..=limits::MODES => Ok(modes),
                modes => Err(format!("is damaged: it cannot hold {modes} modes")),
            },
        };
        let first = Origin::from_record(record)?;
        let dim = first.initialisation.center.len();
        let others = (1..modes(record)?).map(|m| Origin::from_record(&record.part(&mode(m))));
        let origins = std::iter::once(Ok(first)).chain(others).collect::<Result<_, String>>()?;
        let rung = |i: usize| -> Result<Rung, String> {
            let part = record.part(&i.to_string());
            let chain = match record.version {
                1 => ladder::hamiltonian(
                    dim,
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
                return Ok(Rung { chain, iterations, states: Err(why) });
            }
            let state = |m: usize| match m {
                0 => FitState::from_record(&part),
                m => FitState::from_record(&part.part(&mode(m))),
            };
            let states: Vec<FitState> = (0..modes(&part)?).map(state).collect::<Result<_, String>>()?;
            Ok(Rung { chain, iterations: states.iter().map(FitState::iterations).sum(), states: Ok(states) })
        };
        let rungs: usize = record.read("rungs")?;
        if rungs > MOST_RUNGS {
            return Err(format!("is damaged: it cannot hold {rungs} chains"));
        }
        let rungs = (0..rungs).map(rung).collect::<Result<_, String>>()?;
        Ok(Checkpoint { origins, rungs })
    }
}

/// The name of what belongs to a mode but the first.
fn mode(m: usize) -> String {
    format!("mode{m}")
}
