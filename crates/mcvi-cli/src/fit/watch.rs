//! While a fit runs: a progress bar on a terminal.

use crate::watch::Interrupts;
use indicatif::{ProgressBar, ProgressStyle};
use mcvi::fit::Look;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// Shows how a fit is going, and ends it when asked to.
pub struct Watch {
    bar: ProgressBar,
    interrupts: Interrupts,
}

impl Watch {
    /// `unfinished` is a folder to remove where a second Ctrl-C ends everything.
    pub fn new(iterations: usize, unfinished: Option<PathBuf>) -> Self {
        let bar = ProgressBar::new(iterations as u64);
        let style = ProgressStyle::with_template("{bar:20} {percent:>3}% {eta} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        let interrupts = Interrupts::new(unfinished);
        Watch { bar, interrupts }
    }

    pub fn look(&self, name: &str, look: &Look) -> ControlFlow<()> {
        if look.iteration < self.bar.position() as usize {
            self.bar.reset();
        }
        self.bar.set_length(look.iterations as u64);
        self.bar.set_position(look.iteration as u64);
        let speed = look.iteration as f64 / look.seconds.max(1e-9);
        self.bar.set_message(format!("bound {:.3} ± {:.3}, {speed:.0}/s, {name}", look.bound, look.se));
        if self.interrupts.any() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
