//! All that the next step of a fit depends on, as data that can be saved.

use super::{IterationStats, Settings, TracePoint};
use crate::error::Result;
use crate::record::{Format, Record, bad};
use mcvi_expr::Array;
use std::path::Path;

/// Version 1 did not hold the settings as data.
const FORMAT: Format = Format { name: "mcvi fit", version: 2, what: "the state of a fit" };

/// Points of the trace after which a stage ends although its iterates still move, to begin with.
const PATIENCE: usize = 5;

/// A saved fit. [`Fit::resume`](super::Fit::resume) goes on from it.
#[derive(Clone, Debug, PartialEq)]
pub struct FitState {
    /// The settings, less what may change from one time to the next; none in a file of version 1.
    pub(super) settings: Option<Settings>,
    /// The kind of device it ran on.
    pub(super) device: Option<String>,
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
    pub trace: Vec<TracePoint>,
    /// What the iterations since the last look came to.
    pub seen: IterationStats,
    pub stage: Stage,
}

/// Iterations at one rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stage {
    pub rate: f64,
    /// How often the rate was lowered.
    pub lowered: usize,
    /// Points of the trace after which the stage ends although its iterates still move.
    pub patience: usize,
    /// The parameters at each point of the trace.
    pub iterates: Vec<Vec<f64>>,
    /// At which of them they are judged next.
    pub next: usize,
}

impl Stage {
    /// Points of the trace before stationarity is judged.
    pub const POINTS: usize = 20;
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
            seen: IterationStats::default(),
            stage: Stage { rate, lowered: 0, patience: PATIENCE, iterates: vec![], next: Stage::POINTS },
        }
    }
}

impl FitState {
    /// Iterations so far.
    pub fn iterations(&self) -> usize {
        self.course.iterations
    }

    /// Write it to a file, atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.record()?.write(path.as_ref(), FORMAT)
    }

    /// Read it back.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        FitState::from_record(&Record::open(path, FORMAT)?).map_err(|why| bad(path, why))
    }

    pub(crate) fn record(&self) -> Result<Record> {
        let (c, s) = (&self.course, &self.course.stage);
        let mut record = Record::default();
        record.say_data("settings", &self.settings)?;
        record.say_data("device", &self.device)?;
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
        record.say_data("seconds", &c.seconds)?;
        record.say_data("stage.rate", &s.rate)?;
        let points =
            c.trace.iter().flat_map(|l| [l.iteration as f64, l.iterations as f64, l.bound, l.se, l.rate, l.seconds]);
        record.keep_list("trace", points.collect())?;
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
        let point = |l: &[f64; 6]| TracePoint {
            iteration: l[0] as usize,
            iterations: l[1] as usize,
            bound: l[2],
            se: l[3],
            rate: l[4],
            seconds: l[5],
        };
        let trace = record.list("trace").as_chunks().0.iter().map(point).collect();
        let number = |name: &str| record.read::<usize>(name);
        let (points, iterates) = (number("stage.looks")?, record.list("stage.iterates"));
        // There may be points of the trace without any packed parameter.
        let width = iterates.len() / points.max(1);
        let stage = Stage {
            rate: record.read("stage.rate")?,
            lowered: number("stage.lowered")?,
            patience: number("stage.patience")?,
            iterates: (0..points).map(|i| iterates[i * width..(i + 1) * width].to_vec()).collect(),
            next: number("stage.next")?,
        };
        let seen = IterationStats {
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
        let (settings, device) = match record.version {
            1 => (None, None),
            _ => (record.data("settings")?, record.data("device")?),
        };
        let scales = record.part("scale");
        let best = record.part("best").arrays.into_iter().map(|(name, value)| {
            let scale = scales.list(&name);
            (name, value, scale)
        });
        Ok(FitState {
            settings,
            device,
            training: record.part("training").arrays,
            best: best.collect(),
            best_bounds: record.list("best bounds"),
            course,
        })
    }
}
