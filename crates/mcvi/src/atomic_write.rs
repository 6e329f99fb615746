//! Atomic writing of files.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files written so far.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// Write or replace a file atomically: readers, even after a crash or a power cut, find the old content or all of the
/// new, never a part.
pub fn atomic_write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    atomic_write_with(path, |file| file.write_all(bytes))
}

/// The same for content that is written piece by piece.
pub fn atomic_write_with(path: impl AsRef<Path>, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let path = path.as_ref();
    // A unique name for every write, even if threads or processes write the same file at the same time.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}-{}.tmp", std::process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed)));
    let temporary = PathBuf::from(temporary);
    let written = File::create(&temporary).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        // Without this the new name may reach the disk before the new content.
        file.into_inner()?.sync_all()
    });
    written.and_then(|()| std::fs::rename(&temporary, path)).inspect_err(|_| {
        // The error to report is the first one, not that cleaning up failed too.
        let _ = std::fs::remove_file(&temporary);
    })?;
    sync_folder(path.parent().unwrap_or(Path::new("")))
}

/// Make sure that the names in a folder survive a power cut.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // On other systems a folder cannot be opened like a file, and does not need to be.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
