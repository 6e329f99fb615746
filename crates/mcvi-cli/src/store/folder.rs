//! Folders of results. [`Staging`] is a new folder that appears complete or not at all: results are written under a
//! hidden name, and the folder is renamed at the end. [`Folder`] may already hold other files, and each new one is
//! written atomically.
//!
//! Whatever has its final name is on disk, even after a power cut.

use crate::interrupts;
use crate::plot::Figure;
use anyhow::{Context, Result, anyhow, bail};
use mcvi::disk::{self, Lock, LockError};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do about a folder that cannot be used.
const REMEDY: &str = "choose another --out, or remove it";

/// A hidden folder beside its final name; removed if dropped before it is committed.
///
/// The final name is locked meanwhile. A process that is killed leaves the hidden folder behind, but never an incomplete
/// folder under the final name; the next process that locks the name removes it.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    folder: PathBuf,
    /// Whether the target exists already, with what [`publish`](Self::publish) has put there.
    published: bool,
    lock: Lock,
}

impl Staging {
    /// Create the hidden folder for `target`, which must not exist or be empty. Parent folders are created.
    pub fn new(target: &Path) -> Result<Self> {
        let resolved = usable(target)?;
        let (Some(parent), Some(name)) = (resolved.parent(), resolved.file_name()) else {
            bail!("{} cannot be an output folder; choose another --out", resolved.display());
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let cannot = || format!("cannot write to the folder {}; choose another --out", parent.display());
        disk::create_dir_all(parent).with_context(cannot)?;
        let lock = Lock::acquire(parent.join(hidden(name, "lock"))).map_err(|error| match error {
            LockError::Held(_) => anyhow!("{}: {error}; wait until it ends, or choose another --out", target.display()),
            LockError::Failed(error) => anyhow::Error::new(error).context(cannot()),
        })?;
        interrupts::remove_at_exit(lock.path());
        // Another process may have finished it before this one held the lock.
        usable(target)?;
        if lock.is_exclusive() {
            remove_leftovers(parent, name);
        }
        let folder = hidden_folder(parent, name).with_context(cannot)?;
        Ok(Self { target: resolved, folder, published: false, lock })
    }

    /// The hidden folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The final folder.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Whether the target exists already.
    pub fn is_published(&self) -> bool {
        self.published
    }

    /// Let the target appear now, with what `write` puts into it, or replace that. The rest is added when it is committed.
    pub fn publish(&mut self, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let cannot = || format!("cannot write to {}", self.target.display());
        let (Some(parent), Some(name)) = (self.folder.parent(), self.target.file_name()) else { bail!(cannot()) };
        let first = hidden_folder(parent, name).with_context(cannot)?;
        let name = || if self.published { self.add(&first) } else { self.rename(&first) };
        let named = || disk::sync_dir_all(&first).and_then(|()| name()).with_context(cannot);
        if let Err(error) = write(&first).and_then(|()| named()) {
            disown(&first);
            return Err(error);
        }
        interrupts::keep_at_exit(&first);
        self.published = true;
        Ok(())
    }

    /// Give everything its final name. If that fails, the results stay under another name, which the error contains: they
    /// may be hours of work.
    pub fn commit(mut self) -> Result<PathBuf> {
        interrupts::keep_at_exit(&self.folder);
        let done = disk::sync_dir_all(&self.folder)
            .and_then(|()| if self.published { self.add(&self.folder) } else { self.rename(&self.folder) });
        if let Err(error) = done {
            let kept = self.keep();
            let (kept, target) = (kept.display(), self.target.display());
            return Err(error).with_context(|| format!("cannot rename {kept} to {target}; the results stay there"));
        }
        // The results are there. That their name could not be synced to disk does not make them lost.
        let _ = disk::sync_dir(self.target.parent().unwrap_or(Path::new("")));
        self.folder = PathBuf::new();
        Ok(self.target.clone())
    }

    /// Give a hidden folder the final name.
    fn rename(&self, folder: &Path) -> std::io::Result<()> {
        disk::rename(folder, &self.target).or_else(|error| {
            // Not every system replaces an empty folder; a non-empty one is never removed.
            match fs::remove_dir(&self.target) {
                Ok(()) => disk::rename(folder, &self.target),
                Err(_) => Err(error),
            }
        })
    }

    /// Move everything in a hidden folder to the target. A file that is there is replaced.
    fn add(&self, folder: &Path) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            disk::rename(entry.path(), self.target.join(entry.file_name()))?;
        }
        let _ = fs::remove_dir(folder);
        disk::sync_dir(&self.target)
    }

    /// Give the hidden folder a name that no other process takes for a left-over.
    fn keep(&mut self) -> PathBuf {
        let folder = std::mem::take(&mut self.folder);
        let name = folder.file_name().map(|name| name.to_string_lossy().trim_start_matches('.').to_owned());
        let visible = folder.with_file_name(name.unwrap_or_default());
        if fs::rename(&folder, &visible).is_ok() { visible } else { folder }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        interrupts::keep_at_exit(self.lock.path());
        if !self.folder.as_os_str().is_empty() {
            disown(&self.folder);
        }
    }
}

/// The hidden name of something that belongs to a folder being written.
fn hidden(name: &OsStr, what: &str) -> OsString {
    [OsStr::new("."), name, OsStr::new(MARK), OsStr::new(what)].into_iter().collect()
}

/// What distinguishes hidden names from others.
const MARK: &str = ".mcvi-";

/// A new hidden folder, which is removed if the process is ended.
fn hidden_folder(parent: &Path, name: &OsStr) -> std::io::Result<PathBuf> {
    loop {
        let folder = parent.join(hidden(name, &disk::random_name()));
        // Before it exists, so that a signal never finds it unknown. The name is random: nobody else's has it.
        interrupts::remove_at_exit(&folder);
        match disk::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) => {
                interrupts::keep_at_exit(&folder);
                if e.kind() != ErrorKind::AlreadyExists {
                    return Err(e);
                }
            }
        }
    }
}

/// Remove a hidden folder.
fn disown(folder: &Path) {
    interrupts::keep_at_exit(folder);
    // The error to report is the one that ended the run.
    let _ = disk::remove_dir_all(folder);
}

/// Remove what killed processes have left of this folder. The lock says that they are not running.
fn remove_leftovers(parent: &Path, name: &OsStr) {
    let prefix = hidden(name, "");
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let left = entry.file_name();
        let random = left.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        // Version 0.1 used the number of the process and of the attempt.
        let ours = random.is_some_and(|r| r != b"lock" && r.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-'));
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = disk::remove_dir_all(entry.path());
        }
    }
}

/// A folder in which each file is written atomically.
pub struct Folder {
    path: PathBuf,
    written: Vec<PathBuf>,
}

impl Folder {
    /// Created if missing, and checked to be writable before any work is done.
    pub fn new(path: PathBuf) -> Result<Self> {
        let cannot = || format!("cannot write to the folder {}; choose another with --out", path.display());
        disk::create_dir_all(&path).with_context(cannot)?;
        let probe = path.join(format!(".mcvi-{}", disk::random_name()));
        disk::write_new(&probe, b"").and_then(|()| disk::remove_file(&probe)).with_context(cannot)?;
        Ok(Folder { path, written: vec![] })
    }

    /// The files written so far.
    pub fn written(self) -> Vec<PathBuf> {
        self.written
    }

    /// Save a figure as SVG and PNG.
    pub fn figure(&mut self, name: &str, figure: &Figure) -> Result<()> {
        let stem = self.path.join(name);
        figure.save(&stem).with_context(|| format!("cannot write {}", stem.display()))?;
        self.written.extend(["svg", "png"].map(|e| self.path.join(format!("{name}.{e}"))));
        Ok(())
    }

    /// Save a JSON object.
    pub fn json(&mut self, name: &str, value: &Value) -> Result<()> {
        let path = self.path.join(name);
        disk::atomic_write(&path, format!("{value:#}\n").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.written.push(path);
        Ok(())
    }
}

/// The target, with links resolved if it exists. An error unless it is absent or an empty folder.
fn usable(target: &Path) -> Result<PathBuf> {
    let shown = target.display();
    let target = match target.canonicalize() {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound && target.symlink_metadata().is_ok() => {
            bail!("{shown} is a link to nothing; {REMEDY}")
        }
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(target.to_owned()),
        Err(e) => return Err(e).with_context(|| format!("cannot use the folder {shown}; choose another --out")),
    };
    if !target.is_dir() {
        bail!("{shown} exists and is not a folder; {REMEDY}");
    }
    let mut entries = fs::read_dir(&target).with_context(|| format!("cannot read the folder {shown}; {REMEDY}"))?;
    if entries.next().is_some() {
        bail!("the folder {shown} exists and is not empty; {REMEDY}");
    }
    // Replacing the current folder would leave the shell in a folder that no longer exists.
    if std::env::current_dir().and_then(|here| here.canonicalize()).is_ok_and(|here| here == target) {
        bail!("{shown} is the current folder; choose another --out, such as one in it");
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_folder_is_there_once_it_is_whole() {
        let base = tempfile::tempdir().expect("a folder");
        let target = base.path().join("made/here");
        let staging = Staging::new(&target).expect("staging");
        fs::write(staging.path().join("a"), "b").expect("written");
        assert!(!target.exists());
        assert!(names(&base.path().join("made")).iter().all(|name| name.starts_with(".here.mcvi-")));
        assert_eq!(staging.commit().expect("committed"), target);
        assert_eq!(names(&base.path().join("made")), ["here"]);
        assert_eq!(fs::read_to_string(target.join("a")).expect("read"), "b");
    }

    #[test]
    fn dropped_halfway_it_leaves_nothing() {
        let base = tempfile::tempdir().expect("a folder");
        let staging = Staging::new(&base.path().join("out")).expect("staging");
        fs::create_dir(staging.path().join("sub")).expect("made");
        fs::write(staging.path().join("sub/a"), "b").expect("written");
        drop(staging);
        assert!(names(base.path()).is_empty());
    }

    #[test]
    fn killed_halfway_it_leaves_nothing_under_the_final_name() {
        let base = tempfile::tempdir().expect("a folder");
        let target = base.path().join("out");
        // What a killed process leaves, by this version and by 0.1.
        for left in [".out.mcvi-0123456789abcdef", ".out.mcvi-4711-0"] {
            fs::create_dir(base.path().join(left)).expect("made");
            fs::write(base.path().join(left).join("a"), "half").expect("written");
        }
        fs::write(base.path().join(".out.mcvi-lock"), "process 4711 on earth\n").expect("written");
        let again = Staging::new(&target).expect("the next run is not disturbed");
        again.commit().expect("committed");
        assert!(names(&target).is_empty(), "nothing of the killed run");
        assert_eq!(names(base.path()), ["out"], "the next run removes what it left");
    }

    #[test]
    fn a_folder_has_one_writer() {
        let base = tempfile::tempdir().expect("a folder");
        let target = base.path().join("out");
        let staging = Staging::new(&target).expect("staging");
        let error = Staging::new(&target).expect_err("taken").to_string();
        let me = format!("process {} on ", std::process::id());
        assert!(error.contains(&me) && error.contains("is writing to it; wait"), "{error}");
        staging.commit().expect("committed");
        assert_eq!(names(base.path()), ["out"]);
    }

    #[test]
    fn what_is_published_early_is_completed_later() {
        let base = tempfile::tempdir().expect("a folder");
        let target = base.path().join("out");
        let mut staging = Staging::new(&target).expect("staging");
        let failed = staging.publish(|folder| Ok(fs::write(folder.join("no/where"), "1")?));
        assert!(failed.is_err() && !target.exists());
        staging.publish(|folder| Ok(fs::write(folder.join("state"), "1")?)).expect("published");
        assert_eq!(names(&target), ["state"]);
        let failed = staging.publish(|folder| Ok(fs::write(folder.join("no/where"), "1")?));
        assert!(failed.is_err() && fs::read_to_string(target.join("state")).expect("read") == "1");
        staging.publish(|folder| Ok(fs::write(folder.join("state"), "1.5")?)).expect("published again");
        assert_eq!(fs::read_to_string(target.join("state")).expect("read"), "1.5");
        fs::write(staging.path().join("state"), "2").expect("written");
        fs::create_dir(staging.path().join("sub")).expect("made");
        staging.commit().expect("committed");
        assert_eq!((names(&target).len(), names(base.path())), (2, vec!["out".to_owned()]));
        assert_eq!(fs::read_to_string(target.join("state")).expect("read"), "2");
    }

    #[test]
    fn an_empty_folder_is_replaced_and_a_full_one_is_not() {
        let base = tempfile::tempdir().expect("a folder");
        let target = base.path().join("out");
        fs::create_dir(&target).expect("made");
        let staging = Staging::new(&target).expect("staging");
        fs::write(staging.path().join("a"), "b").expect("written");
        staging.commit().expect("committed");
        assert_eq!(names(&target), ["a"]);
        let error = Staging::new(&target).expect_err("not empty").to_string();
        let says =
            format!("the folder {} exists and is not empty; choose another --out, or remove it", target.display());
        assert_eq!(error, says);
        assert_eq!(names(base.path()), ["out"]);
    }

    #[test]
    fn results_survive_a_target_that_appears_meanwhile() {
        let base = tempfile::tempdir().expect("a folder");
        let target = base.path().join("out");
        let staging = Staging::new(&target).expect("staging");
        fs::write(staging.path().join("a"), "b").expect("written");
        fs::create_dir(&target).expect("made");
        fs::write(target.join("other"), "c").expect("written");
        let error = staging.commit().expect_err("taken").to_string();
        let kept = names(base.path()).into_iter().find(|name| name.starts_with("out.mcvi-")).expect("kept");
        assert!(error.contains(&kept), "{error}");
        assert_eq!((names(&target), names(&base.path().join(kept))), (vec!["other".to_owned()], vec!["a".to_owned()]));
    }

    #[test]
    fn impossible_places_are_named() {
        let base = tempfile::tempdir().expect("a folder");
        let file = base.path().join("file");
        fs::write(&file, "a").expect("written");
        let message = |target: &Path| format!("{:#}", Staging::new(target).expect_err("impossible"));
        assert!(message(&file).contains("exists and is not a folder; choose another --out, or remove it"));
        assert!(message(&file.join("sub")).contains("choose another --out"), "{}", message(&file.join("sub")));
        assert!(message(Path::new("/")).contains("choose another --out"));
        // Nothing can be made here, not even by root.
        #[cfg(target_os = "linux")]
        assert!(
            message(Path::new("/proc/mcvi/out")).starts_with("cannot write to the folder /proc/mcvi; choose another")
        );
    }
}
