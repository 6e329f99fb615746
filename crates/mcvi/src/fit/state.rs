//! All that the next step of a fit depends on, as data that can be saved.

use super::{Look, Progress};
use crate::error::Result;
use crate::record::{Record, bad};
use mcvi_expr::Array;
use std::path::Path;

const FORMAT: &str = "mcvi fit 1";

/// Looks after which a stage ends although its iterates still move, to begin with.
const PATIENCE: usize = 5;

/// A fit that was put away. [`Fit::resume`](super::Fit::resume) takes it up again.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The settings, less what may change from one time to the next.
    pub(super) asked: String,
    /// What the training holds.
    pub(super) training: Vec<(String, Array)>,
    /// The best parameters met with their scales, and the bound of each draw they are judged by.
    pub(super) best: Vec<(String, Array, Vec<f64>)>,
    pub(super) best_bounds: Vec<f64>,
    pub(super) course: Course,
}

/// What the loop around the iterations keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    /// Whether a lower rate no longer improved the bound.
    pub converged: bool,
    /// Iterations taken, and those that enter the present average.
    pub iterations: usize,
    pub averaged: usize,
    /// As in the report.
    pub diverged: usize,
    pub skipped: usize,
    pub rescues: usize,
    pub seconds: f64,
    pub trace: Vec<Look>,
    /// What the iterations since the last look came to.
    pub seen: Progress,
    pub stage: Stage,
}

/// Iterations at one rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stage {
    pub rate: f64,
    /// How often the rate was lowered.
    pub lowered: usize,
    /// Looks after which the stage ends although its iterates still move.
    pub patience: usize,
    /// The parameters at each look.
    pub iterates: Vec<Vec<f64>>,
    /// At which look they are judged next.
    pub next: usize,
}

impl Stage {
    /// Looks at the parameters before their stationarity is judged.
    pub const LOOKS: usize = 20;
}

impl Course {
    pub fn new(rate: f64) -> Self {
        Course {
            converged: false,
            iterations: 0,
            averaged: 0,
            diverged: 0,
            skipped: 0,
            rescues: 0,
            seconds: 0.0,
            trace: vec![],
            seen: Progress::default(),
            stage: Stage { rate, lowered: 0, patience: PATIENCE, iterates: vec![], next: Stage::LOOKS },
        }
    }
}

impl State {
    /// Iterations so far.
    pub fn iterations(&self) -> usize {
        self.course.iterations
    }

    /// Write it to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.record()?.write(path.as_ref(), FORMAT)
    }

    /// Read it back.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        State::from_record(&Record::open(path, FORMAT, "the state of a fit")?).map_err(|why| bad(path, why))
    }

    pub(crate) fn record(&self) -> Result<Record> {
        let (c, s) = (&self.course, &self.course.stage);
        let mut record = Record::default();
        record.say("asked", &self.asked);
        record.say("converged", c.converged);
        for (name, n) in [
            ("iterations", c.iterations),
            ("averaged", c.averaged),
            ("diverged", c.diverged),
            ("skipped", c.skipped),
            ("rescues", c.rescues),
            ("seen.diverged", c.seen.diverged),
            ("seen.skipped", c.seen.skipped),
            ("stage.lowered", s.lowered),
            ("stage.patience", s.patience),
            ("stage.next", s.next),
        ] {
            record.say(name, n);
        }
        // Debug, unlike Display, does not write three hundred digits; both come back bit for bit.
        record.say("seconds", format!("{:?}", c.seconds));
        record.say("stage.rate", format!("{:?}", s.rate));
        let looks =
            c.trace.iter().flat_map(|l| [l.iteration as f64, l.iterations as f64, l.bound, l.se, l.rate, l.seconds]);
        record.keep_list("trace", looks.collect())?;
        record.keep_list("seen", c.seen.bounds.clone())?;
        record.say("stage.looks", s.iterates.len());
        record.keep_list("stage.iterates", s.iterates.concat())?;
        record.keep_list("best bounds", self.best_bounds.clone())?;
        self.training.iter().for_each(|(name, array)| record.keep(&format!("training/{name}"), array.clone()));
        for (name, value, scale) in &self.best {
            record.keep(&format!("best/{name}"), value.clone());
            record.keep_list(&format!("scale/{name}"), scale.clone())?;
        }
        Ok(record)
    }

    /// What [`record`](Self::record) made; the error says what is wrong with it.
    pub(crate) fn from_record(record: &Record) -> Result<Self, String> {
        let look = |l: &[f64; 6]| Look {
            iteration: l[0] as usize,
            iterations: l[1] as usize,
            bound: l[2],
            se: l[3],
            rate: l[4],
            seconds: l[5],
        };
        let trace = record.list("trace").as_chunks().0.iter().map(look).collect();
        let number = |name: &str| record.read::<usize>(name);
        let (looks, iterates) = (number("stage.looks")?, record.list("stage.iterates"));
        // There may be no numbers to look at, and yet looks.
        let width = iterates.len() / looks.max(1);
        let stage = Stage {
            rate: record.read("stage.rate")?,
            lowered: number("stage.lowered")?,
            patience: number("stage.patience")?,
            iterates: (0..looks).map(|i| iterates[i * width..(i + 1) * width].to_vec()).collect(),
            next: number("stage.next")?,
        };
        let seen = Progress {
            bounds: record.list("seen"),
            diverged: number("seen.diverged")?,
            skipped: number("seen.skipped")?,
            first_skipped: None,
        };
        let course = Course {
            converged: record.read("converged")?,
            iterations: number("iterations")?,
            averaged: number("averaged")?,
            diverged: number("diverged")?,
            skipped: number("skipped")?,
            rescues: number("rescues")?,
            seconds: record.read("seconds")?,
            trace,
            seen,
            stage,
        };
        let scales = record.part("scale");
        let best = record.part("best").arrays.into_iter().map(|(name, value)| {
            let scale = scales.list(&name);
            (name, value, scale)
        });
        Ok(State {
            asked: record.read("asked")?,
            training: record.part("training").arrays,
            best: best.collect(),
            best_bounds: record.list("best bounds"),
            course,
        })
    }
}
