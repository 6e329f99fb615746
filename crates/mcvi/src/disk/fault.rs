//! Injected faults: the n-th operation on the disk fails, as a full or broken disk would make it fail.
//!
//! In debug builds only, by `MCVI_FAULT=n`, counting from 1. The fault is announced on standard error, so that a test can
//! tell a run that survived it from one that had fewer operations.

use std::io::Result;
use std::path::Path;

/// An error if this operation is the one that is to fail.
#[cfg(debug_assertions)]
pub(super) fn may_fail(operation: &str, path: &Path) -> Result<()> {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    static FAULT: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var("MCVI_FAULT").ok()?.parse().ok());
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let Some(fault) = *FAULT else { return Ok(()) };
    if DONE.fetch_add(1, Ordering::SeqCst) + 1 != fault {
        return Ok(());
    }
    let what = format!("injected fault {fault}: {operation} {}", path.display());
    eprintln!("{what}");
    Err(std::io::Error::new(std::io::ErrorKind::StorageFull, what))
}

#[cfg(not(debug_assertions))]
pub(super) fn may_fail(_: &str, _: &Path) -> Result<()> {
    Ok(())
}
