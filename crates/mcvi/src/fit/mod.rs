//! Algorithm 2: maximise the bound by stochastic gradients.
//!
//! # When to stop
//!
//! With [`Schedule::Automatic`] the rule is that of Dhaka et al. (2020), "Robust, Accurate Stochastic Optimization for
//! Variational Inference", with the decreasing rates of Welandawe et al. (2022), "Robust, Automated, and Accurate
//! Black-box Variational Inference". At a constant rate the iterates of a stochastic optimiser become stationary and
//! wander about the optimum. They count as stationary when the split R̂ of every parameter, over the latter half of the
//! iterates at this rate, is below a threshold. Their average then replaces them, its bound is estimated with the same
//! noise each time, and the rate is lowered. The fit ends when a lower rate has improved the bound by less than the
//! tolerance or the error of the difference, or when it has taken all iterations allowed. What is returned is the
//! best average met.

mod optimiser;
mod profile;
mod settings;
mod training;

pub use optimiser::Optimiser;
pub use settings::{Objective, Schedule, Settings};
pub use training::{Progress, Training, WARMTH};

use crate::approximation::Approximation;
use crate::diagnostics::{Mean, mean, split_r_hat, zero_weights};
use crate::draws::Bounds;
use crate::error::{Error, Result};
use crate::params::Params;
use crate::regression::Regression;
use crate::scope::Choices;
use std::ops::ControlFlow;
use std::time::Instant;

/// Iterations between looks at the parameters.
const CHUNK: usize = 50;
/// Looks at the parameters before their stationarity is judged.
const LOOKS: usize = 20;
/// Split R̂ below which iterates count as stationary.
const STATIONARY: f64 = 1.2;
/// The factor by which the rate is lowered.
const LOWER: f64 = 0.3;
/// Looks after which a stage ends although its iterates still move, to begin with.
const PATIENCE: usize = 5;
/// Averages are judged by draws of another seed than the one they were trained with.
const JUDGES: u64 = 0x0B0B_0B0B_0B0B;
/// Draws by which averages are compared.
const COMPARED: usize = 4000;
/// Draws from which inverse models are regressed.
const REGRESSED: usize = 4000;
/// The last iterates weigh most in the average: Shamir & Zhang (2013), polynomial decay.
const DECAY: f64 = 3.0;
/// How often a fit that has lost its way is taken back to the best place met.
const RESCUES: usize = 5;

/// Why a fit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A lower rate no longer improved the bound.
    Converged,
    /// All iterations were used.
    Exhausted,
    /// The observer asked for it.
    Interrupted,
}

/// What an observer sees while a fit runs.
#[derive(Clone, Debug)]
pub struct Look {
    /// Iterations so far.
    pub iteration: usize,
    /// Most iterations.
    pub iterations: usize,
    /// Mean of the bound's estimates since the last look; −∞ where a draw had no weight.
    pub bound: f64,
    /// Its standard error.
    pub se: f64,
    /// The learning rate.
    pub rate: f64,
    /// Seconds since the start.
    pub seconds: f64,
}

/// How a fit went.
#[derive(Clone, Debug)]
pub struct FitReport {
    /// Why it ended.
    pub ending: Ending,
    /// Iterations taken.
    pub iterations: usize,
    /// Seconds taken.
    pub seconds: f64,
    /// What the observer saw.
    pub trace: Vec<Look>,
    /// Draws whose bound was not finite, over all iterations.
    pub diverged: usize,
    /// Iterations without a step, because the gradient was not finite.
    pub skipped: usize,
    /// How often the fit was taken back to the best place met, with a lower rate.
    pub rescues: usize,
}

/// Maximise the bound over everything that is learned.
pub fn fit(approximation: &mut Approximation, settings: &Settings) -> Result<FitReport> {
    fit_observed(approximation, settings, |_| ControlFlow::Continue(()))
}

/// The same, with an observer that sees every look and may end the fit.
pub fn fit_observed(
    approximation: &mut Approximation,
    settings: &Settings,
    observe: impl FnMut(&Look) -> ControlFlow<()>,
) -> Result<FitReport> {
    settings.check()?;
    let mut run = Fit::new(approximation, settings, observe)?;
    let ending = match settings.schedule {
        Schedule::Automatic => run.automatic()?,
        _ => run.scheduled()?,
    };
    run.finish(approximation, ending)
}

struct Fit<'a, F> {
    settings: &'a Settings,
    approximation: Approximation,
    observe: F,
    training: Training,
    compared: Bounds,
    regression: Regression,
    like: Params,
    best: Params,
    best_bounds: Vec<f64>,
    report: FitReport,
    begun: Instant,
    /// Iterations that enter the present average.
    averaged: usize,
}

impl<'a, F: FnMut(&Look) -> ControlFlow<()>> Fit<'a, F> {
    fn new(approximation: &Approximation, settings: &'a Settings, observe: F) -> Result<Self> {
        let begun = Instant::now();
        let training = Training::new(approximation, settings)?;
        let mut compared = Bounds::new(approximation, settings.objective, Choices::Sample, settings.seed ^ JUDGES)?;
        let regression = Regression::new(approximation, REGRESSED, settings.seed ^ 0x5EED)?;
        let best_bounds = compared.evaluate(&approximation.params, COMPARED)?;
        let report = FitReport {
            ending: Ending::Exhausted,
            iterations: 0,
            seconds: 0.0,
            trace: vec![],
            diverged: 0,
            skipped: 0,
            rescues: 0,
        };
        let (like, best) = (approximation.params.clone(), approximation.params.clone());
        let mut made = Fit {
            settings,
            approximation: approximation.clone(),
            observe,
            training,
            compared,
            regression,
            like,
            best,
            best_bounds,
            report,
            begun,
            averaged: 0,
        };
        if settings.warm_start
            && let Some(start) = profile::profile(approximation, settings)?
        {
            made.consider(start)?;
            made.training.set(&made.best)?;
        }
        Ok(made)
    }

    fn left(&self) -> usize {
        self.settings.iterations - self.report.iterations
    }

    /// Some iterations, told to the observer. Breaks with why the fit is over.
    fn look(&mut self, rate: impl Fn(usize) -> f64) -> Result<ControlFlow<Ending>> {
        let n = CHUNK.min(self.left());
        if n == 0 {
            return Ok(ControlFlow::Break(Ending::Exhausted));
        }
        let weights = (1..=n).map(|i| (1.0 + DECAY) / ((self.averaged + i) as f64 + DECAY));
        let weights: Vec<f64> = weights.collect();
        let done = self.training.run(n, &rate, &weights)?;
        self.averaged += n;
        self.report.iterations += n;
        self.report.diverged += done.diverged;
        self.report.skipped += done.skipped;
        if done.diverged > 0 && !self.training.is_careful() {
            self.training = self.training.careful(&self.approximation)?;
        }
        if done.skipped == n || done.diverged == n * self.settings.draws {
            return self.rescue();
        }
        // Gradients leave out draws without weight; a bound does not.
        let bound = match done.diverged {
            0 => mean(&done.bounds),
            _ => Mean { value: f64::NEG_INFINITY, se: f64::NAN, n: done.bounds.len() },
        };
        let look = Look {
            iteration: self.report.iterations,
            iterations: self.settings.iterations,
            bound: bound.value,
            se: bound.se,
            rate: rate(self.training.iterations().saturating_sub(1)),
            seconds: self.begun.elapsed().as_secs_f64(),
        };
        let go_on = (self.observe)(&look);
        self.report.trace.push(look);
        Ok(match go_on {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(Ending::Interrupted),
        })
    }

    /// Back to the best place met.
    fn rescue(&mut self) -> Result<ControlFlow<Ending>> {
        self.report.rescues += 1;
        if self.report.rescues > RESCUES {
            let why = "no draw has a finite bound or gradient, from the start values on; the log density may be \
                       −∞ or NaN where the chain goes: try a start nearer to its mass, a smaller learning rate, or \
                       fewer leapfrogs";
            return Err(Error::Fit { why: why.to_owned() });
        }
        self.training.set(&self.best)?;
        self.training.forget()?;
        self.averaged = 0;
        Ok(ControlFlow::Continue(()))
    }

    /// Keep the present average if its bound is better. Returns by how much, and the error of that.
    fn compare(&mut self) -> Result<(f64, f64)> {
        let average = self.training.average(&self.like)?;
        let gain = self.consider(average.clone())?;
        // Given the chain, linear-Gaussian inverses have a closed form: take it where it is better still.
        let regressed = self.regression.solve(&average)?;
        let more = if regressed == average { 0.0 } else { self.consider(regressed)?.0.max(0.0) };
        Ok((gain.0.max(0.0) + more, gain.1))
    }

    /// Keep these parameters if their bound is better.
    fn consider(&mut self, params: Params) -> Result<(f64, f64)> {
        let bounds = self.compared.evaluate(&params, COMPARED)?;
        let differences: Vec<f64> = bounds.iter().zip(&self.best_bounds).map(|(a, b)| a - b).collect();
        let gain = match (mean(&bounds).value.is_finite(), mean(&self.best_bounds).value.is_finite()) {
            (true, true) => mean(&differences),
            (true, false) => Mean { value: f64::INFINITY, se: 0.0, n: 0 },
            // Both are −∞: fewer draws without weight are better.
            (false, false) if zero_weights(&bounds) < zero_weights(&self.best_bounds) => {
                Mean { value: f64::INFINITY, se: 0.0, n: 0 }
            }
            (false, _) => Mean { value: f64::NEG_INFINITY, se: 0.0, n: 0 },
        };
        if gain.value > 0.0 {
            (self.best, self.best_bounds) = (params, bounds);
        }
        Ok((gain.value, gain.se))
    }

    fn automatic(&mut self) -> Result<Ending> {
        let (mut rate, mut lowered, mut patience) = (self.settings.rate, 0, PATIENCE);
        loop {
            let (stationary, ended) = self.stage(rate, patience)?;
            let (gain, se) = self.compare()?;
            if let Some(ending) = ended {
                return Ok(ending);
            }
            let worth = gain >= self.settings.tolerance.max(2.0 * se);
            // Go on from the best place met: its inverse models fit the chain.
            self.training.set(&self.best)?;
            match (worth, stationary) {
                (true, false) => {}
                (false, _) if lowered >= 2 => return Ok(Ending::Converged),
                _ => {
                    rate *= LOWER;
                    lowered += 1;
                    patience *= 6;
                }
            }
        }
    }

    /// Iterate at one rate until the iterates are stationary (true) or patience, in looks, is at its end.
    fn stage(&mut self, rate: f64, patience: usize) -> Result<(bool, Option<Ending>)> {
        let mut iterates: Vec<Vec<f64>> = vec![];
        let mut next = LOOKS;
        self.averaged = 0;
        while iterates.len() < patience {
            let rescued = self.report.rescues;
            let lowered = rate * LOWER.powi(rescued as i32);
            if let ControlFlow::Break(ending) = self.look(|_| lowered)? {
                return Ok((false, Some(ending)));
            }
            if self.report.rescues > rescued {
                iterates.clear();
            }
            iterates.push(self.training.packed()?);
            if iterates.len() >= next {
                if stationary(&iterates[iterates.len() / 2..]) {
                    return Ok((true, None));
                }
                next = iterates.len() + iterates.len() / 4;
            }
        }
        Ok((false, None))
    }

    fn scheduled(&mut self) -> Result<Ending> {
        let Settings { schedule, iterations, rate, .. } = *self.settings;
        let at = move |t: usize| match schedule {
            Schedule::Cosine => rate * 0.5 * (1.0 + (std::f64::consts::PI * t as f64 / iterations as f64).cos()),
            Schedule::Halving(every) => rate * 0.5f64.powf(t as f64 / every as f64),
            Schedule::Constant | Schedule::Automatic => rate,
        };
        loop {
            let lower = LOWER.powi(self.report.rescues as i32);
            if let ControlFlow::Break(ending) = self.look(|t| at(t) * lower)? {
                self.compare()?;
                return Ok(ending);
            }
        }
    }

    fn finish(mut self, approximation: &mut Approximation, ending: Ending) -> Result<FitReport> {
        approximation.params = self.best;
        self.report.ending = ending;
        self.report.seconds = self.begun.elapsed().as_secs_f64();
        Ok(self.report)
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
