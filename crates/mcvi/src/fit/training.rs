//! Running, saving and restoring the iterations of Algorithm 2.

use super::iteration::{DECAY, Iteration, RATE, SECOND, WEIGHT};
use super::settings::Settings;
use crate::approximation::Approximation;
use crate::error::{Error, Result};
use crate::params::Params;
use crate::scope::{PACKED, unpack, write};
use mcvi_expr::{Array, DType, Program, Run};

/// The counters of a saved state: the program's step, iterations taken, iterations since the optimiser was reset, and
/// whether draws that are not finite are skipped.
const COUNTERS: &str = "fit.counters";

/// A compiled iteration, with its optimiser's state and the average of its iterates.
pub struct Training {
    pub(super) program: Program,
    pub(super) settings: Settings,
    dtype: DType,
    feeds_second: bool,
    decays: bool,
    /// Iterations taken, in total and since the optimiser was reset.
    t: usize,
    remembered: usize,
    /// Names of the states that hold learned parameters.
    leaves: Vec<String>,
    skip_non_finite: bool,
}

/// The results of some iterations.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct IterationStats {
    /// The bound's estimate of each iteration, over its finite draws.
    pub bounds: Vec<f64>,
    /// Draws whose bound was not finite.
    pub diverged: usize,
    /// Iterations whose gradient was not finite and counted as zero.
    pub skipped: usize,
    /// The first of them, counted from the first iteration of this run.
    pub first_skipped: Option<usize>,
}

impl Training {
    /// Compile an iteration. If the bound of a draw is not finite, the gradient counts as zero.
    pub fn new(approximation: &Approximation, settings: &Settings) -> Result<Self> {
        Training::compile(approximation, settings, false)
    }

    /// The same iteration from the same state, but leaving out draws whose bound is not finite instead of skipping the
    /// step. It takes an extra pass: no gradient can be computed before all bounds are known.
    pub fn skip_non_finite(&mut self, approximation: &Approximation) -> Result<Self> {
        let mut other = Training::compile(approximation, &self.settings, true)?;
        for (name, value) in self.program.states()? {
            other.program.write(&name, &value)?;
        }
        other.program.set_step(self.program.step());
        (other.t, other.remembered) = (self.t, self.remembered);
        Ok(other)
    }

    /// Everything the next iteration depends on, by name: parameters, the optimiser's moments, averages, counters.
    pub fn state(&mut self) -> Result<Vec<(String, Array)>> {
        let mut state = self.program.states()?;
        let counters =
            [self.program.step() as f64, self.t as f64, self.remembered as f64, f64::from(self.skip_non_finite)];
        state.push((COUNTERS.to_owned(), Array::new(counters.len(), counters.to_vec())?));
        Ok(state)
    }

    /// Restore a state that [`state`](Self::state) returned, of the same approximation and settings: the next iteration
    /// is, bit for bit, the one that would have followed. If the state does not fit, nothing is changed.
    pub fn restore(&mut self, approximation: &Approximation, state: &[(String, Array)]) -> Result<()> {
        let counters = state.iter().find(|(name, _)| name == COUNTERS).map(|(_, value)| value.to_f64());
        let Some(&[step, t, remembered, skip_non_finite]) = counters.as_deref() else {
            return Err(Error::Params { why: format!("the state of a fit needs four numbers as `{COUNTERS}`") });
        };
        let mut values = vec![];
        for (name, is) in self.program.states()? {
            let Some((_, value)) = state.iter().find(|(n, _)| *n == name) else {
                return Err(Error::Params { why: format!("the state of a fit lacks `{name}`") });
            };
            if (value.dtype(), value.shape()) != (is.dtype(), is.shape()) {
                let (is, got) = (format!("{} {}", is.dtype(), is.shape()), (value.dtype(), value.shape()));
                let why = format!("`{name}` is {is}, in the state given it is {} {}", got.0, got.1);
                return Err(Error::Params { why });
            }
            values.push((name, value));
        }
        if self.skip_non_finite != (skip_non_finite != 0.0) {
            *self = Training::compile(approximation, &self.settings, skip_non_finite != 0.0)?;
        }
        for (name, value) in values {
            self.program.write(&name, value)?;
        }
        self.program.set_step(step as u64);
        (self.t, self.remembered) = (t as usize, remembered as usize);
        Ok(())
    }

    fn compile(approximation: &Approximation, settings: &Settings, skip_non_finite: bool) -> Result<Self> {
        let Iteration { program, leaves, feeds_second, decays } =
            Iteration::compile(approximation, settings, skip_non_finite)?;
        let (settings, dtype) = (settings.clone(), approximation.target.dtype());
        Ok(Training { program, settings, dtype, feeds_second, decays, t: 0, remembered: 0, leaves, skip_non_finite })
    }

    /// Set an input of the target, for all iterations to come.
    pub fn write(&mut self, input: &str, value: &Array) -> Result<()> {
        Ok(self.program.write(input, value)?)
    }

    /// Take some iterations at a learning rate. Iterates enter their average, if there is one, with these weights.
    pub fn run(&mut self, iterations: usize, rate: impl Fn(usize) -> f64, weights: &[f64]) -> Result<IterationStats> {
        self.run_with(iterations, rate, weights, &[])
    }

    /// The same, with further inputs that change between iterations: arrays with one row for each.
    pub fn run_with(
        &mut self,
        iterations: usize,
        rate: impl Fn(usize) -> f64,
        weights: &[f64],
        inputs: &[(&str, &Array)],
    ) -> Result<IterationStats> {
        let decays = (0..iterations).map(|i| rate(self.t + i) * self.settings.weight_decay).collect();
        let rates = (0..iterations).map(|i| self.settings.optimiser.rates(rate(self.t + i), self.remembered + i + 1));
        let (rates, seconds): (Vec<f64>, Vec<f64>) = rates.unzip();
        let column = |values: Vec<f64>| -> Result<Array> { Ok(Array::new(iterations, values)?.cast(self.dtype)) };
        let (rates, seconds, decays) = (column(rates)?, column(seconds)?, column(decays)?);
        let weights = if self.settings.average { Some(column(weights.to_vec())?) } else { None };
        let mut run = Run::steps(iterations).feed(RATE, &rates);
        if let Some(weights) = &weights {
            run = run.feed(WEIGHT, weights);
        }
        if self.feeds_second {
            run = run.feed(SECOND, &seconds);
        }
        if self.decays {
            run = run.feed(DECAY, &decays);
        }
        for (input, rows) in inputs {
            run = run.feed(input, rows);
        }
        let run = run.record("bound").record("diverged").record("usable");
        let recorded = self.program.execute(&run)?;
        self.t += iterations;
        self.remembered += iterations;
        Ok(IterationStats {
            bounds: recorded[0].to_f64(),
            diverged: recorded[1].to_f64().iter().sum::<f64>() as usize,
            skipped: recorded[2].to_f64().iter().filter(|u| **u == 0.0).count(),
            first_skipped: recorded[2].to_f64().iter().position(|u| *u == 0.0),
        })
    }

    /// The time of an iteration by kernel: median nanoseconds on one thread.
    pub fn profile(&mut self, iterations: usize) -> Result<Vec<(String, f64)>> {
        Ok(self.program.profile(iterations)?)
    }

    /// Whether draws whose bound is not finite are left out.
    pub fn skips_non_finite(&self) -> bool {
        self.skip_non_finite
    }

    /// Iterations taken so far.
    pub fn iterations(&self) -> usize {
        self.t
    }

    /// The average of the iterates, as parameters.
    pub fn average(&mut self, like: &Params) -> Result<Params> {
        self.collect(like, |name| format!("fit.average.{name}"))
    }

    /// The current parameters.
    pub fn params(&mut self, like: &Params) -> Result<Params> {
        self.collect(like, str::to_owned)
    }

    fn collect(&mut self, like: &Params, state: impl Fn(&str) -> String) -> Result<Params> {
        let mut params = like.clone();
        for name in self.leaves.clone() {
            let value = self.program.read(&state(&name))?;
            match name.as_str() {
                PACKED => unpack(&mut params, &value.to_f64())?,
                name => params.set(name, value)?,
            }
        }
        Ok(params)
    }

    /// Continue from other parameters.
    pub fn set(&mut self, params: &Params) -> Result<()> {
        write(&mut self.program, params)
    }

    /// Reset the optimiser: forget all previous gradients.
    pub fn forget(&mut self) -> Result<()> {
        for (name, value) in self.program.states()? {
            if name.starts_with("fit.") {
                self.program.write(&name, &Array::zeros(value.dtype(), value.shape().clone())?)?;
            }
        }
        self.remembered = 0;
        Ok(())
    }
}
