//! Writing to disk: files that appear whole or not at all, and locks that a crash releases.
//!
//! Everything that mcvi writes goes through the functions of this module, so that tests can make each of them fail in turn
//! (`fault.rs`).

mod fault;
mod lock;
mod write;

pub use lock::{Lock, LockError};
pub use write::{atomic_write, atomic_write_with};

use fault::may_fail;
use std::fs;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

/// A file that is being written.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    path: PathBuf,
}

impl File {
    /// Create a file. There must be nothing under this name, not even a link.
    pub fn create_new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        may_fail("open", path)?;
        Ok(File { file: fs::File::create_new(path)?, path: path.to_owned() })
    }

    /// Open a device, a pipe or an existing file to append to it.
    fn append(path: &Path) -> Result<Self> {
        may_fail("open", path)?;
        Ok(File { file: fs::OpenOptions::new().append(true).open(path)?, path: path.to_owned() })
    }

    /// Make sure that the contents survive a power cut.
    pub fn sync(&self) -> Result<()> {
        may_fail("sync", &self.path)?;
        self.file.sync_all()
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        may_fail("write", &self.path)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

/// Write a new file in a folder that nobody else sees yet: it need not be atomic, and is synced with the folder.
pub fn write_new(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    File::create_new(path)?.write_all(bytes)
}

/// Rename a file or a folder.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    may_fail("rename", to.as_ref())?;
    fs::rename(from, to)
}

/// Remove a file.
pub fn remove_file(path: impl AsRef<Path>) -> Result<()> {
    may_fail("remove", path.as_ref())?;
    fs::remove_file(path)
}

/// Remove a folder with all its contents.
pub fn remove_dir_all(path: impl AsRef<Path>) -> Result<()> {
    may_fail("remove", path.as_ref())?;
    fs::remove_dir_all(path)
}

/// Create a folder. There must be nothing under this name.
pub fn create_dir(path: impl AsRef<Path>) -> Result<()> {
    may_fail("create", path.as_ref())?;
    fs::create_dir(path)
}

/// Create a folder and its parents, where they are missing.
pub fn create_dir_all(path: impl AsRef<Path>) -> Result<()> {
    may_fail("create", path.as_ref())?;
    fs::create_dir_all(path)
}

/// Make sure that the names in a folder survive a power cut.
pub fn sync_dir(folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    may_fail("sync", folder)?;
    // On other systems a folder cannot be opened like a file, and does not need to be.
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Make sure that a folder and everything in it survive a power cut.
pub fn sync_dir_all(folder: impl AsRef<Path>) -> Result<()> {
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_dir_all(entry.path())?;
        } else {
            // Opened for writing, which some systems insist on.
            File::append(&entry.path())?.sync()?;
        }
    }
    sync_dir(folder)
}

/// Sixteen random hexadecimal digits, for a name that nobody can guess.
pub fn random_name() -> String {
    use std::hash::{BuildHasher, Hasher};
    // Every hasher has a key of its own, from the randomness of the operating system.
    format!("{:016x}", std::hash::RandomState::new().build_hasher().finish())
}

/// Whether a path still names this open file.
fn is_named(file: &fs::File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |m: fs::Metadata| (m.dev(), m.ino());
        match (file.metadata(), fs::symlink_metadata(path)) {
            (Ok(file), Ok(named)) => identity(file) == identity(named),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}
