//! Atomic writing of files.

use super::{
    File, is_named,
    lock::{Tried, try_lock},
    may_fail, random_name, rename, sync_dir,
};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

/// Write or replace a file atomically: readers, even after a crash or a power cut, find the old content or all of the
/// new, never a part. A device or a pipe is written to instead.
pub fn atomic_write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    atomic_write_with(path, |file| file.write_all(bytes))
}

/// The same for content that is written piece by piece.
pub fn atomic_write_with(path: impl AsRef<Path>, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    match Destination::of(path.as_ref())? {
        Destination::Stream => {
            let mut file = BufWriter::new(File::append(path.as_ref())?);
            write(&mut file)?;
            file.flush()
        }
        Destination::File { path, permissions } => {
            remove_leftovers(&path);
            let temporary = Temporary::new(&path)?;
            let mut file = BufWriter::new(temporary.file);
            let written = write(&mut file).and_then(|()| {
                let file = file.into_inner()?;
                if let Some(permissions) = permissions {
                    file.file.set_permissions(permissions)?;
                }
                // Without this the new name may reach the disk before the new content.
                file.sync()?;
                // The file is locked until it has its name.
                rename(&temporary.path, &path)
            });
            if let Err(error) = written {
                // The error to report is the first one, not that cleaning up failed too.
                let _ = fs::remove_file(&temporary.path);
                return Err(error);
            }
            sync_dir(path.parent().unwrap_or(Path::new("")))
        }
    }
}

/// What is under the name of a file to be written.
enum Destination {
    /// A file, or nothing: replaced. Links are resolved, and the permissions of what is replaced are kept.
    File { path: PathBuf, permissions: Option<fs::Permissions> },
    /// A device, a pipe or an open file: written to.
    Stream,
}

impl Destination {
    fn of(path: &Path) -> Result<Self> {
        let refused = |why: &str| Err(Error::new(ErrorKind::InvalidInput, why.to_owned()));
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_ok() => {
                return refused("it is a link to nothing");
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Ok(Destination::File { path: path.to_owned(), permissions: None });
            }
            Err(e) => return Err(e),
        };
        if found.is_dir() {
            return refused("it is a folder");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            let kind = found.file_type();
            if kind.is_fifo() || kind.is_char_device() {
                return Ok(Destination::Stream);
            }
            if !kind.is_file() {
                return refused("it is neither a file, a pipe nor a character device");
            }
            // A file under a name such as /dev/stdout is somebody's open file. /dev/shm is a folder like any other.
            let path = std::path::absolute(path)?;
            if path.starts_with("/proc") || path.starts_with("/dev") && !path.starts_with("/dev/shm") {
                return Ok(Destination::Stream);
            }
        }
        Ok(Destination::File { path: fs::canonicalize(path)?, permissions: Some(found.permissions()) })
    }
}

/// A new file beside the one that it will replace.
struct Temporary {
    file: File,
    path: PathBuf,
}

impl Temporary {
    fn new(path: &Path) -> Result<Self> {
        loop {
            let temporary = path.with_file_name(format!("{}{}{SUFFIX}", prefix(path), random_name()));
            let file = match File::create_new(&temporary) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            // Locked, so that others can tell it from what a killed process has left. Before that, one of them may have
            // taken it for such.
            if !matches!(try_lock(&file.file)?, Tried::Held) && is_named(&file.file, &temporary) {
                return Ok(Temporary { file, path: temporary });
            }
        }
    }
}

/// The end of the names of temporary files.
const SUFFIX: &str = ".tmp";

/// The beginning of the names of a file's temporary files.
fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    format!(".{}.", name.chars().take(40).collect::<String>())
}

/// Remove temporary files of this file that belong to no living process.
fn remove_leftovers(path: &Path) {
    let prefix = prefix(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Where the folder cannot be read, or a file cannot be removed, another process may be able to do it.
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(SUFFIX));
        if random.is_some_and(|random| random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit())) {
            remove_leftover(&entry.path());
        }
    }
}

fn remove_leftover(path: &Path) {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return;
    }
    let Ok(file) = fs::OpenOptions::new().append(true).open(path) else { return };
    // Removed while it is locked, so that a process that has just created it knows. Where there are no locks nobody knows.
    if matches!(try_lock(&file), Ok(Tried::Locked)) && may_fail("remove", path).is_ok() {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let left = dir.path().join(".a.csv.0123456789abcdef.tmp");
        for other in [".b.csv.0123456789abcdef.tmp", ".a.csv.mine.tmp", "a.csv.tmp"] {
            fs::write(dir.path().join(other), "x").unwrap();
        }
        fs::write(&left, "half").unwrap();
        let writing = Temporary::new(&path).unwrap();
        atomic_write(&path, b"whole").unwrap();
        assert!(!left.exists() && writing.path.exists());
        assert_eq!((names(dir.path()).len(), fs::read(&path).unwrap()), (5, b"whole".to_vec()));
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        atomic_write(&path, b"old").unwrap();
        let failed = atomic_write_with(&path, |file| {
            file.write_all(b"new")?;
            Err(Error::other("half-way"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "half-way");
        assert_eq!((names(dir.path()), fs::read(&path).unwrap()), (vec!["a".to_owned()], b"old".to_vec()));
        // A name of the greatest length leaves room for the temporary file's.
        let long = dir.path().join("é".repeat(127));
        atomic_write(&long, b"new").unwrap();
        assert!(long.exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_devices_and_permissions_are_respected() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "old").unwrap();
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink(at("file"), at("link")).unwrap();
        atomic_write(at("link"), b"new").unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
        assert_eq!(fs::metadata(at("file")).unwrap().permissions().mode() & 0o777, 0o600);

        symlink(at("nowhere"), at("dangling")).unwrap();
        assert!(atomic_write(at("dangling"), b"x").unwrap_err().to_string().contains("a link to nothing"));
        assert!(!at("nowhere").exists());
        assert!(atomic_write(dir.path(), b"x").unwrap_err().to_string().contains("a folder"));
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(atomic_write(at("socket"), b"x").unwrap_err().to_string().contains("neither a file"));

        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = at("pipe");
            move || fs::read(pipe).unwrap()
        });
        atomic_write(at("pipe"), b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());

        atomic_write("/dev/null", b"x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        #[cfg(target_os = "linux")]
        assert_eq!(atomic_write("/dev/full", b"x").unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
