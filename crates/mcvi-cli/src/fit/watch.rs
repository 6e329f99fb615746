//! The progress bar of a fit on a terminal.

use crate::interrupts::Interrupts;
use crate::terminal::escaped;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use mcvi::fit::{StopReason, TracePoint};
use mcvi::infer::Budget;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How far a fit has come.
pub struct Progress {
    budget: Budget,
    started: Instant,
}

impl Progress {
    /// Of a fit that starts now.
    pub fn new(budget: Budget) -> Self {
        Progress { budget, started: Instant::now() }
    }

    /// The share that is done at a point of the trace of a chain, and how it goes, in words.
    pub fn at(&self, chain: &str, point: &TracePoint) -> (f64, String) {
        // Progress in this fit's iterations or in time, whichever is further.
        let most = self.budget.iterations.map_or(point.iterations, |most| most.min(point.iterations));
        let time = self.budget.seconds.map_or(0.0, |s| self.started.elapsed().as_secs_f64() / s);
        let done = (point.iteration as f64 / most as f64).max(time).min(1.0);
        let speed = point.iteration as f64 / point.seconds.max(1e-9);
        (done, format!("bound {:.3} ± {:.3}, {speed:.0}/s, {}", point.bound, point.se, escaped(chain)))
    }
}

/// Shows the progress of a fit, and stops it on a signal.
pub struct Watch {
    bar: ProgressBar,
    interrupts: Interrupts,
    progress: Progress,
}

/// Length of the bar in ticks.
const MARKS: u64 = 10_000;

impl Watch {
    pub fn new(budget: Budget) -> Self {
        let bar = ProgressBar::new(MARKS);
        let style = ProgressStyle::with_template("{bar:20} {percent:>3}% {eta} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Watch { bar, interrupts: Interrupts::new(), progress: Progress::new(budget) }
    }

    pub fn show(&self, name: &str, point: &TracePoint) -> ControlFlow<()> {
        let (done, how) = self.progress.at(name, point);
        let at = (done * MARKS as f64) as u64;
        if at < self.bar.position() {
            self.bar.reset();
        }
        self.bar.set_position(at);
        self.bar.set_message(how);
        self.interrupts.flow()
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The outcome of the command: an error that only sets the exit code if a signal stopped the fit.
    pub fn outcome(&self, stop_reason: StopReason) -> Result<()> {
        self.interrupts.outcome(stop_reason == StopReason::Interrupted)
    }
}
