//! Independent jobs on several threads, with results in order.

use anyhow::{Result, anyhow};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Run every job, at most `threads` at a time. Returns the first failure, in the order of the jobs.
pub fn all<P: Sync, R: Send>(pieces: &[P], threads: usize, work: impl Fn(&P) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R>>>> = Mutex::new(pieces.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(pieces.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(piece) = pieces.get(i) else { return };
                    let result = work(piece);
                    let failed = result.is_err();
                    if let Ok(mut results) = results.lock() {
                        results[i] = Some(result);
                    }
                    if failed {
                        // No new jobs after a failure.
                        next.store(pieces.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let results = results.into_inner().map_err(|_| anyhow!("a worker stopped unexpectedly"))?;
    results.into_iter().flatten().collect()
}
