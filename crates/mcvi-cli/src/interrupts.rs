//! Signals that ask the process to end: Ctrl-C, SIGTERM (Slurm, containers, `timeout`) and SIGHUP. The first one stops the
//! current work, so that what there is can be saved and shown; the second ends the process.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The number of Ctrl-C's signal.
const SIGINT: i32 = 2;

/// The first signal that was received; 0 if none was.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// What to remove if a second signal ends the process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// Receives signals from its creation on.
pub struct Interrupts(());

impl Interrupts {
    pub fn new() -> Self {
        static LISTENING: Once = Once::new();
        // Without a handler, a signal ends the process at once.
        LISTENING.call_once(listen);
        Interrupts(())
    }

    /// Whether the work is to stop.
    pub fn any(&self) -> bool {
        RECEIVED.load(Ordering::SeqCst) != 0
    }

    /// Whether an observer goes on.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.any() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The outcome of a command that has done what it could: an error that only sets the exit code if a signal stopped it.
    pub fn outcome(&self, stopped: bool) -> anyhow::Result<()> {
        match RECEIVED.load(Ordering::SeqCst) {
            signal if stopped && signal != 0 => Err(Stopped(signal).into()),
            _ => Ok(()),
        }
    }
}

/// A command was stopped by a signal, after it had delivered what there was.
#[derive(Debug)]
pub struct Stopped(i32);

impl Stopped {
    /// The exit code that shells give to a process ended by this signal.
    pub fn exit_code(&self) -> u8 {
        128 + self.0 as u8
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by signal {}", self.0)
    }
}

impl std::error::Error for Stopped {}

/// Remove this file or folder if a second signal ends the process.
pub fn remove_at_exit(path: &Path) {
    unfinished().push(path.to_owned());
}

/// Keep it after all.
pub fn keep_at_exit(path: &Path) {
    unfinished().retain(|unfinished| unfinished != path);
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn receive(signal: i32) {
    if RECEIVED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        for path in unfinished().iter() {
            // Other threads may be writing there: a folder that is filled meanwhile is removed again.
            for _ in 0..100 {
                let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
                if !path.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        std::process::exit(128 + signal);
    }
}

#[cfg(unix)]
fn listen() {
    use signal_hook::consts::{SIGHUP, SIGTERM};
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) {
        std::thread::spawn(move || signals.forever().for_each(receive));
    }
}

/// Whether a signal was ignored when the process started, as `nohup` does with SIGHUP.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to memory for the answer, and nothing is changed without a new action. A structure of zeros
    // is valid.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

#[cfg(not(unix))]
fn listen() {
    let _ = ctrlc::set_handler(|| receive(SIGINT));
}
