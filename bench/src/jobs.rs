//! Many jobs, several at a time, each outcome written to a file as soon as it is there.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An outcome as a line of JSON.
pub fn line(outcome: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(outcome)? + "\n")
}

/// Outcomes that earlier runs left in files, one a line.
pub fn read<R: serde::de::DeserializeOwned>(paths: &[impl AsRef<Path>]) -> Result<Vec<R>> {
    let mut outcomes = vec![];
    for path in paths {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        for (i, line) in text.lines().enumerate() {
            let at = || format!("line {} of {}", i + 1, path.display());
            outcomes.push(serde_json::from_str(line).with_context(at)?);
        }
    }
    Ok(outcomes)
}

/// Do every job, at most `threads` at a time; each outcome is passed to `report` with the number of those done.
pub fn all<T: Sync, R: Serialize + Send>(
    items: &[T],
    threads: usize,
    file: Option<&Path>,
    work: impl Fn(&T) -> R + Sync,
    report: impl Fn(usize, &R) + Sync,
) -> Result<Vec<R>> {
    let create = |path: &Path| File::create(path).with_context(|| format!("creating {}", path.display()));
    let file = file.map(create).transpose()?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new((vec![], file)));
    let run = || -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = work(item);
            let Ok(mut done) = done.lock() else { bail!("another thread panicked") };
            if let Some(file) = &mut done.1 {
                file.write_all(line(&outcome)?.as_bytes())?;
            }
            report(done.0.len() + 1, &outcome);
            done.0.push(outcome);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a job panicked"),
            }
        }
        Ok(())
    })?;
    match done.into_inner() {
        Ok((outcomes, _)) => Ok(outcomes),
        Err(_) => bail!("a job panicked"),
    }
}
