//! Algorithm 2 as a state machine: [`Fit::step`] takes a fit from one trace point to the next.
//!
//! Everything a step depends on is in [`FitState`], so a fit that is saved and resumed continues, bit for bit, as if it
//! had never stopped. Trace points fall on multiples of [`CHUNK`] iterations; a fit saved between two of them keeps the
//! results since the last one.

use super::settings::{Schedule, Settings};
use super::state::{FitState, LoopState, Round};
use super::training::Training;
use super::warm_start::warm_start;
use super::{FitReport, StopReason, TracePoint};
use crate::approximation::{Approximation, Bounds, InverseRegression};
use crate::diagnostics::{Mean, mean, zero_weights};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::scope::Choices;
use crate::seed::derive_seed;
use std::time::Instant;

/// Iterations between trace points.
pub(super) const CHUNK: usize = 50;
/// The factor by which the learning rate is lowered after a rescue.
const LOWER: f64 = 0.3;
/// Draws with which averages are compared.
const COMPARED: usize = 4000;
/// Draws for the regression of inverse models.
const REGRESSED: usize = 4000;
/// The last iterates have the largest weight in the average: Shamir & Zhang (2013), polynomial decay.
const DECAY: f64 = 3.0;
/// How often a fit that has diverged is reset to the best parameters so far.
const RESCUES: usize = 5;

/// A fit in progress.
pub struct Fit {
    settings: Settings,
    approximation: Approximation,
    training: Training,
    judge: Judge,
    best: Best,
    loop_state: LoopState,
    started: Instant,
    /// Seconds per iteration, of the last iterations.
    pace: f64,
}

impl Fit {
    /// Compile, and run the warm start if requested.
    pub fn new(approximation: &Approximation, settings: &Settings) -> Result<Self> {
        settings.check()?;
        let started = Instant::now();
        let training = Training::new(approximation, settings)?;
        let mut judge = Judge::new(approximation, settings)?;
        let params = approximation.params.clone();
        let best = Best { bounds: judge.compared.evaluate(&params, COMPARED)?, params };
        let loop_state = LoopState::new(settings.first_round);
        let (settings, approximation) = (settings.clone(), approximation.clone());
        let mut fit = Fit { settings, approximation, training, judge, best, loop_state, started, pace: 0.0 };
        if fit.settings.warm_start
            && let Some(start) = warm_start(&fit.approximation, &fit.settings)?
        {
            fit.judge.consider(&mut fit.best, start)?;
            fit.training.set(&fit.best.params)?;
        }
        Ok(fit)
    }

    /// Resume a fit of the same approximation. The time limit may change, and so may the number of iterations, unless
    /// the learning rate depends on it.
    pub fn resume(approximation: &Approximation, settings: &Settings, state: &FitState) -> Result<Self> {
        settings.check()?;
        let started = Instant::now();
        if let Some(saved) = state.settings.as_ref().filter(|saved| **saved != settings.identity()) {
            let why = format!("it was saved with other settings: {}", differences(saved, &settings.identity()));
            return Err(Error::Setting { what: "state of a fit", why });
        }
        if let Some(device) = state.device.as_ref().filter(|device| *device != approximation.hardware.kind()) {
            let why = format!(
                "it was saved on {device}, and this is {}; resume it on {device}",
                approximation.hardware.kind()
            );
            return Err(Error::Setting { what: "state of a fit", why });
        }
        let other = |error: Error| Error::Setting {
            what: "state of a fit",
            why: format!("it is the state of another model or chain, or damaged: {error}"),
        };
        let mut params = approximation.params.clone();
        for (name, value, scale) in &state.best {
            params.set(name, value.clone()).and_then(|()| params.set_scale(name, scale)).map_err(other)?;
        }
        let mut training = Training::new(approximation, settings)?;
        training.restore(approximation, &state.training).map_err(other)?;
        if state.best_bounds.len() != COMPARED || state.best.len() != params.iter().count() {
            return Err(other(Error::Params { why: "it is incomplete".to_owned() }));
        }
        Ok(Fit {
            settings: settings.clone(),
            approximation: approximation.clone(),
            training,
            judge: Judge::new(approximation, settings)?,
            best: Best { params, bounds: state.best_bounds.clone() },
            loop_state: state.loop_state.clone(),
            started,
            pace: 0.0,
        })
    }

    /// Whether a round has just ended, so that its result is that of a learning rate of zero.
    pub fn is_between_rounds(&self) -> bool {
        let LoopState { iterations, round, .. } = self.loop_state;
        self.settings.schedule == Schedule::Automatic && iterations > 0 && iterations == round.start
    }

    /// Everything that the next step depends on.
    pub fn state(&mut self) -> Result<FitState> {
        let best =
            self.best.params.iter().map(|(name, p)| (name.to_owned(), p.value.clone(), p.scale.clone())).collect();
        Ok(FitState {
            settings: Some(self.settings.identity()),
            device: Some(self.approximation.hardware.kind().to_owned()),
            training: self.training.state()?,
            best,
            best_bounds: self.best.bounds.clone(),
            loop_state: LoopState { seconds: self.seconds(), ..self.loop_state.clone() },
        })
    }

    /// Why the fit is complete, if it is.
    pub fn complete(&self) -> Option<StopReason> {
        let exhausted = self.loop_state.iterations >= self.settings.iterations;
        if self.loop_state.converged {
            Some(StopReason::Converged)
        } else {
            exhausted.then_some(StopReason::MaxIterations)
        }
    }

    /// The settings.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Lower the maximum number of iterations.
    pub(super) fn limit(&mut self, iterations: usize) {
        self.settings.iterations = self.settings.iterations.min(iterations);
    }

    /// Iterations so far.
    pub fn iterations(&self) -> usize {
        self.loop_state.iterations
    }

    /// Seconds per iteration, of the last iterations; 0 before the first.
    pub(super) fn pace(&self) -> f64 {
        self.pace
    }

    fn seconds(&self) -> f64 {
        self.loop_state.seconds + self.started.elapsed().as_secs_f64()
    }

    /// The best so far, as of the end of the last round.
    pub fn best(&self) -> Approximation {
        Approximation { params: self.best.params.clone(), ..self.approximation.clone() }
    }

    /// Run to the next trace point, but for at most `most` iterations. Returns the point if it was reached and has
    /// something to show.
    pub fn step(&mut self, most: usize) -> Result<Option<TracePoint>> {
        if self.complete().is_some() {
            return Ok(None);
        }
        let end = match self.settings.schedule {
            Schedule::Automatic => self.loop_state.round.end().min(self.settings.iterations),
            _ => self.settings.iterations,
        };
        let left = end - self.loop_state.iterations;
        let n = CHUNK.saturating_sub(self.loop_state.seen.bounds.len()).min(left).min(most);
        let averaged = self.loop_state.averaged;
        let weights: Vec<f64> = (1..=n).map(|i| (1.0 + DECAY) / ((averaged + i) as f64 + DECAY)).collect();
        let started = Instant::now();
        let rate = rate(&self.settings, &self.loop_state);
        let done = self.training.run(n, rate, &weights)?;
        self.pace = started.elapsed().as_secs_f64() / n.max(1) as f64;
        let loop_state = &mut self.loop_state;
        loop_state.averaged += n;
        loop_state.iterations += n;
        loop_state.diverged += done.diverged;
        loop_state.skipped += done.skipped;
        loop_state.seen.bounds.extend(done.bounds);
        loop_state.seen.diverged += done.diverged;
        loop_state.seen.skipped += done.skipped;
        if loop_state.seen.bounds.len() < CHUNK {
            return Ok(None);
        }
        let point = self.point();
        let seen = std::mem::take(&mut self.loop_state.seen);
        if seen.diverged > 0 && !self.training.skips_non_finite() {
            self.training = self.training.skip_non_finite(&self.approximation)?;
        }
        let lost = seen.skipped == CHUNK || seen.diverged == CHUNK * self.settings.draws;
        if lost {
            self.rescue()?;
        } else {
            self.loop_state.trace.push(point.clone());
        }
        if self.settings.schedule == Schedule::Automatic {
            self.advance()?;
        }
        Ok((!lost).then_some(point))
    }

    /// The results since the last trace point.
    fn point(&self) -> TracePoint {
        let seen = &self.loop_state.seen;
        // Gradients leave out draws without weight; a bound does not.
        let bound = match seen.diverged {
            0 => mean(&seen.bounds),
            _ => Mean { value: f64::NEG_INFINITY, se: f64::NAN, n: seen.bounds.len() },
        };
        TracePoint {
            iteration: self.loop_state.iterations,
            iterations: self.settings.iterations,
            bound: bound.value,
            se: bound.se,
            rate: rate(&self.settings, &self.loop_state)(self.training.iterations().saturating_sub(1)),
            seconds: self.seconds(),
        }
    }

    /// Reset to the best parameters so far.
    fn rescue(&mut self) -> Result<()> {
        self.loop_state.rescues += 1;
        if self.loop_state.rescues > RESCUES {
            let why = "no draw has a finite bound or gradient, from the initial values on; the log density may \
                       be −∞ or NaN where the chain goes: try an initialisation nearer to its mass, a lower learning \
                       rate, or fewer leapfrogs";
            return Err(Error::Fit { why: why.to_owned() });
        }
        self.training.set(&self.best.params)?;
        self.training.forget()?;
        self.loop_state.averaged = 0;
        self.loop_state.round.start = self.loop_state.iterations;
        Ok(())
    }

    /// The rule in the module's documentation: whether the round is over, and what follows.
    fn advance(&mut self) -> Result<()> {
        let LoopState { iterations, round, .. } = self.loop_state;
        if iterations < round.end() {
            return Ok(());
        }
        let average = self.training.average(&self.approximation.params)?;
        let (gain, se) = self.judge.compare(&mut self.best, average)?;
        // Continue from the best parameters so far: their inverse models fit the chain. What the optimiser remembers may be
        // of a start where gradients were much larger.
        self.training.set(&self.best.params)?;
        self.training.forget()?;
        self.loop_state.averaged = 0;
        let worth = gain >= self.settings.tolerance.max(2.0 * se);
        self.loop_state.converged = !worth && round.length > self.settings.first_round;
        self.loop_state.round = Round { start: iterations, length: round.length.saturating_mul(self.settings.growth) };
        Ok(())
    }

    /// The result of the fit: the best parameters so far, including the current average. The fit itself is unchanged
    /// and may continue.
    pub fn finish(&mut self, stop_reason: StopReason) -> Result<(Params, FitReport)> {
        let mut best = self.best.clone();
        if self.loop_state.averaged > 0 {
            let average = self.training.average(&self.approximation.params)?;
            self.judge.compare(&mut best, average)?;
        }
        let mut trace = self.loop_state.trace.clone();
        if !self.loop_state.seen.bounds.is_empty() {
            trace.push(self.point());
        }
        let LoopState { iterations, diverged, skipped, rescues, .. } = self.loop_state;
        let report = FitReport { stop_reason, iterations, seconds: self.seconds(), trace, diverged, skipped, rescues };
        Ok((best.params, report))
    }
}

/// The differences between two settings, field by field.
fn differences(saved: &Settings, given: &Settings) -> String {
    let (saved, given) = (serde_json::json!(saved), serde_json::json!(given));
    let fields = saved.as_object().into_iter().flatten().filter(|(name, value)| given[*name] != **value);
    let fields: Vec<String> =
        fields.map(|(name, value)| format!("{name} was {value}, now it is {}", given[name])).collect();
    fields.join("; ")
}

/// The learning rate of each iteration.
fn rate(settings: &Settings, loop_state: &LoopState) -> impl Fn(usize) -> f64 + use<> {
    let Settings { schedule, iterations, rate, .. } = *settings;
    let (round, lower) = (loop_state.round, LOWER.powi(loop_state.rescues as i32));
    let cosine = |t: usize, of: usize| 0.5 * (1.0 + (std::f64::consts::PI * t as f64 / of as f64).cos());
    move |t| {
        let rate = match schedule {
            Schedule::Automatic => rate * cosine(t - round.start.min(t), round.length),
            Schedule::Constant => rate,
            Schedule::Cosine => rate * cosine(t, iterations),
            Schedule::Halving(every) => rate * 0.5f64.powf(t as f64 / every as f64),
        };
        rate * lower
    }
}

/// The best parameters so far, with the bound of each draw they are compared by.
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

    /// Keep an average if its bound is better. Returns the improvement and its standard error.
    fn compare(&mut self, best: &mut Best, average: Params) -> Result<(f64, f64)> {
        let gain = self.consider(best, average.clone())?;
        // Given the chain, linear-Gaussian inverses have a closed form: use it if it is better still.
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
