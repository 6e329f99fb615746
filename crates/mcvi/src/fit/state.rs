//! Everything that the next step of a fit depends on, as data that can be saved.

use super::machine::CHUNK;
use super::{IterationStats, Schedule, Settings, TracePoint};
use crate::error::Result;
use crate::record::{Format, Record, bad, finite};
use mcvi_expr::Array;
use std::path::Path;

/// Version 1 did not hold the settings as data; before version 3 the automatic schedule had stages in place of rounds.
const FORMAT: Format = Format { name: "mcvi fit", version: 3, what: "the state of a fit" };

/// More than any count of a fit.
const MOST: usize = 1 << 56;

/// A saved fit, to be resumed by [`Fit::resume`](super::Fit::resume).
#[derive(Clone, Debug, PartialEq)]
pub struct FitState {
    /// The settings, except for limits that may change when it is resumed; none in a file of version 1.
    pub(super) settings: Option<Settings>,
    /// The kind of device it ran on.
    pub(super) device: Option<String>,
    /// The state of the training.
    pub(super) training: Vec<(String, Array)>,
    /// The best parameters so far with their scales, and the bound of each draw they are compared by.
    pub(super) best: Vec<(String, Array, Vec<f64>)>,
    pub(super) best_bounds: Vec<f64>,
    pub(super) loop_state: LoopState,
}

/// The state of the loop around the iterations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoopState {
    /// Whether the last round no longer improved the bound.
    pub converged: bool,
    /// Iterations taken, and those in the current average.
    pub iterations: usize,
    pub averaged: usize,
    /// As in the report.
    pub diverged: usize,
    pub skipped: usize,
    pub rescues: usize,
    pub seconds: f64,
    pub trace: Vec<TracePoint>,
    /// The results of the iterations since the last trace point.
    pub seen: IterationStats,
    pub round: Round,
}

/// Iterations in which the learning rate falls to zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// Iterations before it.
    pub start: usize,
    /// Iterations that it takes.
    pub length: usize,
}

impl Round {
    /// The first one: it ends at a trace point.
    pub fn first(length: usize) -> Self {
        Round { start: 0, length: length.next_multiple_of(CHUNK) }
    }

    pub fn end(self) -> usize {
        self.start + self.length
    }
}

impl LoopState {
    pub fn new(first_round: usize) -> Self {
        LoopState {
            converged: false,
            iterations: 0,
            averaged: 0,
            diverged: 0,
            skipped: 0,
            rescues: 0,
            seconds: 0.0,
            trace: vec![],
            seen: IterationStats::default(),
            round: Round::first(first_round),
        }
    }
}

impl FitState {
    /// Iterations so far.
    pub fn iterations(&self) -> usize {
        self.loop_state.iterations
    }

    /// Write it to a file atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.record()?.write(path.as_ref(), FORMAT)
    }

    /// Read it back.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        FitState::from_record(&Record::open(path, FORMAT)?).map_err(|why| bad(path, why))
    }

    pub(crate) fn record(&self) -> Result<Record> {
        let c = &self.loop_state;
        let mut record = Record::default();
        record.set_json("settings", &self.settings)?;
        record.set_json("device", &self.device)?;
        record.set_text("converged", c.converged);
        for (name, n) in [
            ("iterations", c.iterations),
            ("averaged", c.averaged),
            ("diverged", c.diverged),
            ("skipped", c.skipped),
            ("rescues", c.rescues),
            ("seen.diverged", c.seen.diverged),
            ("seen.skipped", c.seen.skipped),
            ("round.start", c.round.start),
            ("round.length", c.round.length),
        ] {
            record.set_text(name, n);
        }
        record.set_json("seconds", &c.seconds)?;
        let points =
            c.trace.iter().flat_map(|l| [l.iteration as f64, l.iterations as f64, l.bound, l.se, l.rate, l.seconds]);
        record.set_list("trace", points.collect())?;
        record.set_list("seen", c.seen.bounds.clone())?;
        record.set_list("best bounds", self.best_bounds.clone())?;
        self.training.iter().for_each(|(name, array)| record.set_array(&format!("training/{name}"), array.clone()));
        for (name, value, scale) in &self.best {
            record.set_array(&format!("best/{name}"), value.clone());
            record.set_list(&format!("scale/{name}"), scale.clone())?;
        }
        Ok(record)
    }

    /// Restore what [`record`](Self::record) made, or say what is wrong with it.
    pub(crate) fn from_record(record: &Record) -> Result<Self, String> {
        let point = |l: &[f64; 6]| TracePoint {
            iteration: l[0] as usize,
            iterations: l[1] as usize,
            bound: l[2],
            se: l[3],
            rate: l[4],
            seconds: l[5],
        };
        let trace: Vec<TracePoint> = record.list("trace").as_chunks().0.iter().map(point).collect();
        let number = |name: &str| {
            let n = record.read::<usize>(name)?;
            if n <= MOST { Ok(n) } else { Err(format!("is damaged: `{n}` cannot be its `{name}`")) }
        };
        let iterations = number("iterations")?;
        let seen = IterationStats {
            bounds: record.list("seen"),
            diverged: number("seen.diverged")?,
            skipped: number("seen.skipped")?,
            first_skipped: None,
        };
        let start = iterations.saturating_sub(seen.bounds.len());
        let round = match record.version {
            1 | 2 => Round { start, ..Round::first(iterations.max(Settings::default().first_round)) },
            _ => Round { start: number("round.start")?, length: number("round.length")? },
        };
        let seconds: f64 = record.read("seconds")?;
        let (settings, device): (Option<Settings>, _) = match record.version {
            1 => (None, None),
            _ => (record.json("settings")?, record.json("device")?),
        };
        // Only the automatic schedule has rounds. They end at a trace point.
        let is_within = round.start <= iterations && iterations <= round.end();
        let is_possible = is_within && (round.end() - start).is_multiple_of(CHUNK);
        let has_rounds = settings.as_ref().is_none_or(|settings| settings.schedule == Schedule::Automatic);
        if seen.bounds.len() >= CHUNK || has_rounds && !is_possible || !(seconds >= 0.0 && seconds.is_finite()) {
            return Err("is damaged: its counters contradict each other".to_owned());
        }
        let loop_state = LoopState {
            converged: record.read("converged")?,
            iterations,
            averaged: number("averaged")?,
            diverged: number("diverged")?,
            skipped: number("skipped")?,
            rescues: number("rescues")?,
            seconds,
            trace,
            seen,
            round,
        };
        let (scales, best) = (record.part("scale"), record.part("best").arrays);
        best.iter().try_for_each(|(name, array)| finite(name, array))?;
        let best = best.into_iter().map(|(name, value)| {
            let scale = scales.list(&name);
            (name, value, scale)
        });
        Ok(FitState {
            settings,
            device,
            training: record.part("training").arrays,
            best: best.collect(),
            best_bounds: record.list("best bounds"),
            loop_state,
        })
    }
}
