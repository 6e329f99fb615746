//! Locks between processes, which the operating system releases when their holder ends in any way.

use super::is_named;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read, Result, Seek, Write};
use std::path::{Path, PathBuf};

/// A lock on a file that exists for this purpose alone. Dropping it removes the file.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    exclusive: bool,
}

/// Why a lock could not be had.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it: this one, in words.
    Held(String),
    /// The file cannot be created or locked.
    Failed(Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held(holder) => write!(f, "{holder} is writing to it"),
            LockError::Failed(error) => write!(f, "it cannot be locked: {error}"),
        }
    }
}

impl std::error::Error for LockError {}

impl Lock {
    /// Lock a file, which is created if it does not exist; not waiting if another process holds it.
    pub fn acquire(path: impl AsRef<Path>) -> std::result::Result<Self, LockError> {
        let path = path.as_ref();
        loop {
            super::may_fail("open", path).map_err(LockError::Failed)?;
            let mut file = open(path).map_err(LockError::Failed)?;
            let exclusive = match try_lock(&file).map_err(LockError::Failed)? {
                Tried::Held => return Err(LockError::Held(holder(&mut file))),
                Tried::Locked => true,
                Tried::Unsupported => false,
            };
            // A holder that ended in the meantime has removed the file: there may be another by now.
            if is_named(&file, path) {
                let me = format!("process {} on {}\n", std::process::id(), host());
                // Where this is lost, only its name is.
                let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(me.as_bytes()));
                return Ok(Lock { file, path: path.to_owned(), exclusive });
            }
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no other process can hold it; false where the file system knows no locks.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether the lock file is still there. If not, somebody has removed or replaced the folder that it locks.
    pub fn is_in_place(&self) -> bool {
        is_named(&self.file, &self.path)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is locked: whoever opened it before finds that it has no name any more.
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The outcome of trying to lock a file.
pub(super) enum Tried {
    Locked,
    /// Another process holds it.
    Held,
    /// The file system knows no locks.
    Unsupported,
}

/// Lock a file without waiting.
pub(super) fn try_lock(file: &File) -> Result<Tried> {
    match file.try_lock() {
        Ok(()) => Ok(Tried::Locked),
        Err(TryLockError::WouldBlock) => Ok(Tried::Held),
        Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => Ok(Tried::Unsupported),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    // Exclusively, so that a planted link is not followed; an existing file only if it is one.
    match options.clone().create_new(true).open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => match std::fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => Err(Error::new(e.kind(), format!("{} is not a file", path.display()))),
            _ => match options.open(path) {
                // Removed in the meantime by its holder.
                Err(e) if e.kind() == ErrorKind::NotFound => open(path),
                opened => opened,
            },
        },
        created => created,
    }
}

/// Who holds the lock, by what it has written to the file.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.take(200).read_to_string(&mut text);
    match text.trim() {
        "" => "another process".to_owned(),
        name => name.to_owned(),
    }
}

/// The name of this machine.
fn host() -> String {
    let name =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let name = name.unwrap_or_default();
    if name.trim().is_empty() { "this machine".to_owned() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder_who_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::acquire(&path).unwrap();
        let held = Lock::acquire(&path).expect_err("held").to_string();
        assert!(held.starts_with(&format!("process {} on ", std::process::id())), "{held}");
        drop(lock);
        assert!(!path.exists());
        let again = Lock::acquire(&path).unwrap();
        assert!(again.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!again.is_in_place());
        // Somebody else's by now: it stays.
        let other = Lock::acquire(&path).unwrap();
        drop(again);
        assert!(other.is_in_place());
    }

    #[test]
    fn many_threads_hold_it_one_at_a_time() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (holders, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(_lock) = Lock::acquire(&path) else { continue };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        held.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(held.into_inner() > 8);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("lock"), dir.path().join("victim"));
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(Lock::acquire(&path).is_err());
        assert!(!victim.exists());
    }
}
