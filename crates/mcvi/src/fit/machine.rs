//! Algorithm 2 as a state machine: [`Fit::step`] takes a fit from one point of its trace to the next.
//!
//! All that a step depends on is in [`FitState`], so a fit that is saved and resumed goes on, bit for bit, as if it had
//! never stopped. Points of the trace fall on multiples of [`CHUNK`] iterations; a fit saved between two of them keeps what
//! it has seen since the last.

use super::settings::{Schedule, Settings};
use super::state::{Course, FitState, Stage};
use super::training::Training;
use super::warm_start::warm_start;
use super::{FitReport, StopReason, TracePoint};
use crate::approximation::{Approximation, Bounds, InverseRegression};
use crate::diagnostics::{Mean, mean, split_r_hat, zero_weights};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::scope::Choices;
use crate::seed::derive_seed;
use std::time::Instant;

/// Iterations between points of the trace.
const CHUNK: usize = 50;
/// Split R̂ below which iterates count as stationary.
const STATIONARY: f64 = 1.2;
/// The factor by which the rate is lowered.
const LOWER: f64 = 0.3;
/// Draws by which averages are compared.
const COMPARED: usize = 4000;
/// Draws from which inverse models are regressed.
const REGRESSED: usize = 4000;
/// The last iterates weigh most in the average: Shamir & Zhang (2013), polynomial decay.
const DECAY: f64 = 3.0;
/// How often a fit that has lost its way is taken back to the best place met.
const RESCUES: usize = 5;

/// A fit under way.
pub struct Fit {
    settings: Settings,
    approximation: Approximation,
    training: Training,
    judge: Judge,
    best: Best,
    course: Course,
    begun: Instant,
    /// Seconds an iteration has taken of late.
    pace: f64,
}

impl Fit {
    /// Compile, and improve the start where that is asked for.
    pub fn new(approximation: &Approximation, settings: &Settings) -> Result<Self> {
        settings.check()?;
        let begun = Instant::now();
        let training = Training::new(approximation, settings)?;
        let mut judge = Judge::new(approximation, settings)?;
        let params = approximation.params.clone();
        let best = Best { bounds: judge.compared.evaluate(&params, COMPARED)?, params };
        let course = Course::new(settings.rate);
        let (settings, approximation) = (settings.clone(), approximation.clone());
        let mut made = Fit { settings, approximation, training, judge, best, course, begun, pace: 0.0 };
        if made.settings.warm_start
            && let Some(start) = warm_start(&made.approximation, &made.settings)?
        {
            made.judge.consider(&mut made.best, start)?;
            made.training.set(&made.best.params)?;
        }
        Ok(made)
    }

    /// Resume a fit of the same approximation. The settings may allow another time and, unless the rate follows from it,
    /// another number of iterations.
    pub fn resume(approximation: &Approximation, settings: &Settings, state: &FitState) -> Result<Self> {
        settings.check()?;
        let begun = Instant::now();
        if let Some(saved) = state.settings.as_ref().filter(|saved| **saved != settings.identity()) {
            let why = format!("it was saved with other settings: {}", differences(saved, &settings.identity()));
            return Err(Error::Setting { what: "state of a fit", why });
        }
        if let Some(device) = state.device.as_ref().filter(|device| *device != approximation.hardware.kind()) {
            let why = format!("it was saved on {device}, and this is {}", approximation.hardware.kind());
            return Err(Error::Setting { what: "state of a fit", why });
        }
        let other = |error: Error| Error::Setting {
            what: "state of a fit",
            why: format!("it is one of another model or chain, or damaged: {error}"),
        };
        let mut params = approximation.params.clone();
        for (name, value, scale) in &state.best {
            params.set(name, value.clone()).and_then(|()| params.set_scale(name, scale)).map_err(other)?;
        }
        let mut training = Training::new(approximation, settings)?;
        training.restore(approximation, &state.training).map_err(other)?;
        let width = training.packed()?.len();
        let table = state.course.stage.iterates.iter().all(|p| p.len() == width);
        if !table || state.best_bounds.len() != COMPARED || state.best.len() != params.iter().count() {
            return Err(other(Error::Params { why: "not all of it is there".to_owned() }));
        }
        Ok(Fit {
            settings: settings.clone(),
            approximation: approximation.clone(),
            training,
            judge: Judge::new(approximation, settings)?,
            best: Best { params, bounds: state.best_bounds.clone() },
            course: state.course.clone(),
            begun,
            pace: 0.0,
        })
    }

    /// All that the next step depends on.
    pub fn state(&mut self) -> Result<FitState> {
        let best =
            self.best.params.iter().map(|(name, p)| (name.to_owned(), p.value.clone(), p.scale.clone())).collect();
        Ok(FitState {
            settings: Some(self.settings.identity()),
            device: Some(self.approximation.hardware.kind().to_owned()),
            training: self.training.state()?,
            best,
            best_bounds: self.best.bounds.clone(),
            course: Course { seconds: self.seconds(), ..self.course.clone() },
        })
    }

    /// Why the fit is complete, if it is.
    pub fn complete(&self) -> Option<StopReason> {
        let exhausted = self.course.iterations >= self.settings.iterations;
        if self.course.converged { Some(StopReason::Converged) } else { exhausted.then_some(StopReason::MaxIterations) }
    }

    /// Iterations so far.
    pub fn iterations(&self) -> usize {
        self.course.iterations
    }

    /// Seconds an iteration has taken of late; 0 before the first.
    pub(super) fn pace(&self) -> f64 {
        self.pace
    }

    fn seconds(&self) -> f64 {
        self.course.seconds + self.begun.elapsed().as_secs_f64()
    }

    /// Up to the next point of the trace, but at most `most` iterations. Returns the point, if it was reached and is worth
    /// showing.
    pub fn step(&mut self, most: usize) -> Result<Option<TracePoint>> {
        if self.complete().is_some() {
            return Ok(None);
        }
        let left = self.settings.iterations - self.course.iterations;
        let n = CHUNK.saturating_sub(self.course.seen.bounds.len()).min(left).min(most);
        let averaged = self.course.averaged;
        let weights: Vec<f64> = (1..=n).map(|i| (1.0 + DECAY) / ((averaged + i) as f64 + DECAY)).collect();
        let begun = Instant::now();
        let rate = rate(&self.settings, &self.course);
        let done = self.training.run(n, rate, &weights)?;
        self.pace = begun.elapsed().as_secs_f64() / n.max(1) as f64;
        let course = &mut self.course;
        course.averaged += n;
        course.iterations += n;
        course.diverged += done.diverged;
        course.skipped += done.skipped;
        course.seen.bounds.extend(done.bounds);
        course.seen.diverged += done.diverged;
        course.seen.skipped += done.skipped;
        if course.seen.bounds.len() < CHUNK {
            return Ok(None);
        }
        let point = self.point();
        let seen = std::mem::take(&mut self.course.seen);
        if seen.diverged > 0 && !self.training.skips_non_finite() {
            self.training = self.training.skip_non_finite(&self.approximation)?;
        }
        let lost = seen.skipped == CHUNK || seen.diverged == CHUNK * self.settings.draws;
        if lost {
            self.rescue()?;
        } else {
            self.course.trace.push(point.clone());
        }
        if self.settings.schedule == Schedule::Automatic {
            self.advance()?;
        }
        Ok((!lost).then_some(point))
    }

    /// What there is to see since the last point.
    fn point(&self) -> TracePoint {
        let seen = &self.course.seen;
        // Gradients leave out draws without weight; a bound does not.
        let bound = match seen.diverged {
            0 => mean(&seen.bounds),
            _ => Mean { value: f64::NEG_INFINITY, se: f64::NAN, n: seen.bounds.len() },
        };
        TracePoint {
            iteration: self.course.iterations,
            iterations: self.settings.iterations,
            bound: bound.value,
            se: bound.se,
            rate: rate(&self.settings, &self.course)(self.training.iterations().saturating_sub(1)),
            seconds: self.seconds(),
        }
    }

    /// Back to the best place met.
    fn rescue(&mut self) -> Result<()> {
        self.course.rescues += 1;
        if self.course.rescues > RESCUES {
            let why = "no draw has a finite bound or gradient, from the start values on; the log density may be \
                       −∞ or NaN where the chain goes: try a start nearer to its mass, a smaller learning rate, or \
                       fewer leapfrogs";
            return Err(Error::Fit { why: why.to_owned() });
        }
        self.training.set(&self.best.params)?;
        self.training.forget()?;
        self.course.averaged = 0;
        self.course.stage.iterates.clear();
        Ok(())
    }

    /// The rule of the module's documentation: whether this rate has done its work, and what comes then.
    fn advance(&mut self) -> Result<()> {
        let stage = &mut self.course.stage;
        stage.iterates.push(self.training.packed()?);
        let n = stage.iterates.len();
        let mut settled = false;
        if n >= stage.next {
            settled = stationary(&stage.iterates[n / 2..]);
            stage.next = n + n / 4;
        }
        if !settled && n < stage.patience {
            return Ok(());
        }
        let average = self.training.average(&self.approximation.params)?;
        let (gain, se) = self.judge.compare(&mut self.best, average)?;
        let worth = gain >= self.settings.tolerance.max(2.0 * se);
        // Go on from the best place met: its inverse models fit the chain.
        self.training.set(&self.best.params)?;
        let stage = &self.course.stage;
        self.course.converged = !worth && stage.lowered >= 2;
        self.course.averaged = 0;
        let same = Stage { iterates: vec![], next: Stage::POINTS, ..*stage };
        self.course.stage = if worth && !settled {
            same
        } else {
            Stage { rate: stage.rate * LOWER, lowered: stage.lowered + 1, patience: stage.patience * 6, ..same }
        };
        Ok(())
    }

    /// What the fit has come to: the best parameters met, the present average among them. The fit itself is left as
    /// it is and may go on.
    pub fn finish(&mut self, stop_reason: StopReason) -> Result<(Params, FitReport)> {
        let mut best = self.best.clone();
        if self.course.averaged > 0 {
            let average = self.training.average(&self.approximation.params)?;
            self.judge.compare(&mut best, average)?;
        }
        let mut trace = self.course.trace.clone();
        if !self.course.seen.bounds.is_empty() {
            trace.push(self.point());
        }
        let Course { iterations, diverged, skipped, rescues, .. } = self.course;
        let report = FitReport { stop_reason, iterations, seconds: self.seconds(), trace, diverged, skipped, rescues };
        Ok((best.params, report))
    }
}

/// What differs between two settings, field by field.
fn differences(saved: &Settings, asked: &Settings) -> String {
    let (saved, asked) = (serde_json::json!(saved), serde_json::json!(asked));
    let fields = saved.as_object().into_iter().flatten().filter(|(name, value)| asked[*name] != **value);
    let fields: Vec<String> =
        fields.map(|(name, value)| format!("{name} was {value}, now it is {}", asked[name])).collect();
    fields.join("; ")
}

/// The learning rate of each iteration.
fn rate(settings: &Settings, course: &Course) -> impl Fn(usize) -> f64 + use<> {
    let Settings { schedule, iterations, rate, .. } = *settings;
    let (stage, lower) = (course.stage.rate, LOWER.powi(course.rescues as i32));
    move |t| {
        let rate = match schedule {
            Schedule::Automatic => stage,
            Schedule::Constant => rate,
            Schedule::Cosine => rate * 0.5 * (1.0 + (std::f64::consts::PI * t as f64 / iterations as f64).cos()),
            Schedule::Halving(every) => rate * 0.5f64.powf(t as f64 / every as f64),
        };
        rate * lower
    }
}

/// The best parameters met, with the bound of each draw they are judged by.
#[derive(Clone)]
struct Best {
    params: Params,
    bounds: Vec<f64>,
}

/// Compares parameters by their bounds over the same draws.
struct Judge {
    compared: Bounds,
    regression: InverseRegression,
}

impl Judge {
    fn new(approximation: &Approximation, settings: &Settings) -> Result<Self> {
        let compared =
            Bounds::new(approximation, settings.objective, Choices::Sample, derive_seed(settings.seed, "comparison"))?;
        Ok(Judge {
            compared,
            regression: InverseRegression::new(
                approximation,
                REGRESSED,
                derive_seed(settings.seed, "inverse regression"),
            )?,
        })
    }

    /// Keep an average if its bound is better. Returns by how much, and the error of that.
    fn compare(&mut self, best: &mut Best, average: Params) -> Result<(f64, f64)> {
        let gain = self.consider(best, average.clone())?;
        // Given the chain, linear-Gaussian inverses have a closed form: take it where it is better still.
        let regressed = self.regression.solve(&average)?;
        let more = if regressed == average { 0.0 } else { self.consider(best, regressed)?.0.max(0.0) };
        Ok((gain.0.max(0.0) + more, gain.1))
    }

    /// Keep these parameters if their bound is better.
    fn consider(&mut self, best: &mut Best, params: Params) -> Result<(f64, f64)> {
        let bounds = self.compared.evaluate(&params, COMPARED)?;
        let differences: Vec<f64> = bounds.iter().zip(&best.bounds).map(|(a, b)| a - b).collect();
        let gain = match (mean(&bounds).value.is_finite(), mean(&best.bounds).value.is_finite()) {
            (true, true) => mean(&differences),
            (true, false) => Mean { value: f64::INFINITY, se: 0.0, n: 0 },
            // Both are −∞: fewer draws without weight are better.
            (false, false) if zero_weights(&bounds) < zero_weights(&best.bounds) => {
                Mean { value: f64::INFINITY, se: 0.0, n: 0 }
            }
            (false, _) => Mean { value: f64::NEG_INFINITY, se: 0.0, n: 0 },
        };
        if gain.value > 0.0 {
            *best = Best { params, bounds };
        }
        Ok((gain.value, gain.se))
    }
}

/// Whether every parameter's iterates look the same in both halves.
fn stationary(iterates: &[Vec<f64>]) -> bool {
    let width = iterates.first().map_or(0, Vec::len);
    (0..width).all(|j| {
        let r_hat = split_r_hat(&[iterates.iter().map(|p| p[j]).collect()]);
        r_hat < STATIONARY || r_hat.is_nan()
    })
}
