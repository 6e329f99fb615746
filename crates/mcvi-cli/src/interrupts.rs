//! Ctrl-C: the first one stops the current work, the second ends the process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts how often Ctrl-C was pressed.
pub struct Interrupts(Arc<AtomicUsize>);

impl Interrupts {
    /// `unfinished` is a folder to remove if a second Ctrl-C ends the process.
    pub fn new(unfinished: Option<PathBuf>) -> Self {
        let interrupts = Arc::new(AtomicUsize::new(0));
        let counted = interrupts.clone();
        // Without a handler, Ctrl-C ends the process at once.
        let _ = ctrlc::set_handler(move || {
            if counted.fetch_add(1, Ordering::SeqCst) > 0 {
                let _ = unfinished.as_ref().map(std::fs::remove_dir_all);
                std::process::exit(130);
            }
        });
        Interrupts(interrupts)
    }

    /// Whether Ctrl-C was pressed.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}
