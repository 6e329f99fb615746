//! Where an inference stood, to be put away and gone on from.

use super::Shape;
use crate::error::{Error, Result};
use crate::fit::State;
use crate::record::{Record, bad};
use crate::start::{Start, log_density};
use crate::target::Target;
use mcvi_expr::Array;
use std::cmp::Ordering;
use std::path::Path;

const FORMAT: &str = "mcvi inference 1";
/// How far, relatively, two computations of the same number may differ: other processors round differently.
const ROUNDING: f64 = 1e-9;

/// Where every fit of an inference stood. An empty one is the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    origin: Option<Origin>,
    pub(super) rungs: Vec<Rung>,
}

/// Where all fits begin, and the log density there: by that another model, or other data, is told.
#[derive(Clone, Debug, PartialEq)]
struct Origin {
    start: Start,
    log_density: f64,
}

/// A rung of the ladder that was set foot on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rung {
    pub shape: Shape,
    pub iterations: usize,
    /// Where its fit stood; none where it could not go on.
    pub state: Option<State>,
}

impl Checkpoint {
    /// Before the first fit.
    pub(super) fn new(target: &dyn Target, start: &Start) -> Result<Self> {
        let log_density = log_density(target, std::slice::from_ref(&start.center))?[0];
        Ok(Checkpoint { origin: Some(Origin { start: start.clone(), log_density }), rungs: vec![] })
    }

    /// Iterations of all fits so far.
    pub fn iterations(&self) -> usize {
        self.rungs.iter().map(|r| r.iterations).sum()
    }

    /// Where all fits begin, if any has. An error where that was with another target.
    pub(super) fn start(&self, target: &dyn Target) -> Result<Option<Start>> {
        let Some(Origin { start, log_density: was }) = &self.origin else { return Ok(None) };
        let other = |why: String| Err(Error::Setting { what: "state of a fit", why });
        let (saved, d) = (start.center.len(), target.dim());
        if saved != d {
            return other(format!("it is one of another model: it has {saved} dimensions, this one {d}"));
        }
        let is = log_density(target, std::slice::from_ref(&start.center))?[0];
        if *was != is && (was - is).abs().partial_cmp(&(ROUNDING * was.abs().max(1.0))) != Some(Ordering::Less) {
            return other(format!(
                "it is one of another model, or of other data: the log density where it begins was {was}, and is {is}"
            ));
        }
        Ok(Some(start.clone()))
    }

    /// That its rungs are the first of this ladder.
    pub(super) fn check(&self, ladder: &[Shape]) -> Result<()> {
        for (i, rung) in self.rungs.iter().enumerate() {
            if ladder.get(i) != Some(&rung.shape) {
                let asked = ladder.get(i).map_or("nothing more".to_owned(), |s| s.name());
                let why = format!("it is one of another chain: {}, where {asked} was asked for", rung.shape.name());
                return Err(Error::Setting { what: "state of a fit", why });
            }
        }
        Ok(())
    }

    /// Write it to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut record = Record::default();
        if let Some(Origin { start, log_density }) = &self.origin {
            let d = start.center.len();
            record.keep("center", Array::new(d, start.center.clone())?);
            record.keep("covariance", Array::new([d, d], start.covariance.clone())?);
            record.say("seed", start.seed);
            record.say("log_density", format!("{log_density:?}"));
        }
        record.say("rungs", self.rungs.len());
        for (i, rung) in self.rungs.iter().enumerate() {
            let Shape { steps, leapfrogs, hidden, full_covariance } = rung.shape;
            let mut part = rung.state.as_ref().map_or_else(|| Ok(Record::default()), State::record)?;
            if rung.state.is_none() {
                part.say("failed", rung.iterations);
            }
            for (name, n) in [("steps", steps), ("leapfrogs", leapfrogs), ("hidden", hidden)] {
                part.say(name, n);
            }
            part.say("full_covariance", full_covariance);
            record.add(&i.to_string(), part);
        }
        record.write(path.as_ref(), FORMAT)
    }

    /// Read it back.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let record = Record::open(path, FORMAT, "the state of a fit")?;
        Checkpoint::from_record(&record).map_err(|why| bad(path, format!("is damaged: {why}")))
    }

    fn from_record(record: &Record) -> Result<Self, String> {
        let rung = |i: usize| -> Result<Rung, String> {
            let part = record.part(&i.to_string());
            let shape = Shape {
                steps: part.read("steps")?,
                leapfrogs: part.read("leapfrogs")?,
                hidden: part.read("hidden")?,
                full_covariance: part.read("full_covariance")?,
            };
            if part.word("failed").is_some() {
                return Ok(Rung { shape, iterations: part.read("failed")?, state: None });
            }
            let state = State::from_record(&part)?;
            Ok(Rung { shape, iterations: state.iterations(), state: Some(state) })
        };
        let (center, covariance) = (record.array("center")?.to_f64(), record.array("covariance")?.to_f64());
        if covariance.len() != center.len().pow(2) {
            return Err(format!("its `covariance` is no matrix of {} rows", center.len()));
        }
        let start = Start { center, covariance, warning: None, seed: record.read("seed")? };
        Ok(Checkpoint {
            origin: Some(Origin { start, log_density: record.read("log_density")? }),
            rungs: (0..record.read("rungs")?).map(rung).collect::<Result<_, String>>()?,
        })
    }
}
