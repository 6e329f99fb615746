//! Folders of results. [`Staging`] is a new folder that appears complete or not at all: results are written under a
//! hidden name, and the folder is renamed at the end. [`Folder`] may already hold other files, and each new one is
//! written atomically.
//!
//! Whatever has its final name is on disk, even after a power cut.

use crate::plot::Figure;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do about a folder that cannot be used.
const REMEDY: &str = "choose another --out, or remove it";

/// A hidden folder beside its final name; removed if dropped before it is committed.
///
/// A process that is killed leaves the hidden folder behind, but never an incomplete folder under the final name.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    folder: PathBuf,
    /// Whether to keep the hidden folder: it has its final name, or holds results that could not be renamed.
    keep: bool,
}

impl Staging {
    /// Create the hidden folder for `target`, which must not exist or be empty. Parent folders are created.
    pub fn new(target: &Path) -> Result<Self> {
        let target = usable(target)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            bail!("{} cannot be an output folder; choose another --out", target.display());
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let cannot = || format!("cannot write to the folder {}; choose another --out", parent.display());
        fs::create_dir_all(parent).with_context(cannot)?;
        for attempt in 0..100 {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".mcvi-{}-{attempt}", std::process::id()));
            let folder = parent.join(hidden);
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { target, folder, keep: false }),
                // Another run of this process, or one that was killed long ago under the same process id.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).with_context(cannot),
            }
        }
        bail!("{} is full of folders of runs that were killed; remove those named .*.mcvi-*", parent.display())
    }

    /// The hidden folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The final folder.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Give the folder its final name. If that fails, the results stay under the hidden name, which the error contains:
    /// they may be hours of work.
    pub fn commit(mut self) -> Result<PathBuf> {
        self.keep = true;
        sync(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        let renamed = fs::rename(&self.folder, &self.target).or_else(|error| {
            // Not every system replaces an empty folder; a non-empty one is never removed.
            match fs::remove_dir(&self.target) {
                Ok(()) => fs::rename(&self.folder, &self.target),
                Err(_) => Err(error),
            }
        });
        let (folder, target) = (self.folder.display(), self.target.display());
        renamed
            .with_context(|| format!("cannot rename {folder} to {target}; the results are complete and stay there"))?;
        // The results are there. That their name could not be synced to disk does not make them lost.
        let _ = mcvi::sync_folder(self.target.parent().unwrap_or(Path::new("")));
        Ok(self.target.clone())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.keep {
            // The error to report is the one that ended the run.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Sync everything in a folder to disk.
fn sync(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        } else {
            // Opened for writing, which some systems insist on.
            fs::OpenOptions::new().append(true).open(entry.path())?.sync_all()?;
        }
    }
    mcvi::sync_folder(folder)
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
        fs::create_dir_all(&path).with_context(cannot)?;
        let probe = path.join(format!(".mcvi-{}", std::process::id()));
        fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).with_context(cannot)?;
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
        mcvi::atomic_write(&path, format!("{value:#}\n").as_bytes())
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
        assert!(names(&base.path().join("made"))[0].starts_with(".here.mcvi-"));
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
        let killed = Staging::new(&target).expect("staging");
        fs::write(killed.path().join("a"), "half").expect("written");
        // A killed process runs no destructor.
        std::mem::forget(killed);
        assert!(!target.exists());
        let again = Staging::new(&target).expect("the next run is not disturbed");
        again.commit().expect("committed");
        assert!(names(&target).is_empty(), "nothing of the killed run");
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
        let hidden = staging.path().to_owned();
        fs::create_dir(&target).expect("made");
        fs::write(target.join("other"), "c").expect("written");
        let error = staging.commit().expect_err("taken").to_string();
        assert!(error.contains(&hidden.display().to_string()), "{error}");
        assert_eq!((names(&target), names(&hidden)), (vec!["other".to_owned()], vec!["a".to_owned()]));
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
