//! While a fit runs: a progress bar on a terminal, and Ctrl-C.

use indicatif::{ProgressBar, ProgressStyle};
use mcvi::fit::Look;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Shows how a fit is going, and ends it when asked to.
pub struct Watch {
    bar: ProgressBar,
    interrupts: Arc<AtomicUsize>,
}

impl Watch {
    /// `unfinished` is a folder to remove where a second Ctrl-C ends everything.
    pub fn new(iterations: usize, unfinished: Option<PathBuf>) -> Self {
        let bar = ProgressBar::new(iterations as u64);
        let style = ProgressStyle::with_template("{bar:20} {percent:>3}% {eta} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        let interrupts = Arc::new(AtomicUsize::new(0));
        let counted = interrupts.clone();
        // The first Ctrl-C ends the optimisation, a second everything. Without a handler it ends everything at once.
        let _ = ctrlc::set_handler(move || {
            if counted.fetch_add(1, Ordering::SeqCst) > 0 {
                let _ = unfinished.as_ref().map(std::fs::remove_dir_all);
                std::process::exit(130);
            }
        });
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
        match self.interrupts.load(Ordering::SeqCst) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
