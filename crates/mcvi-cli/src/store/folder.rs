//! Folders of results: a new one that is whole or not there ([`Staging`]: results gather under a hidden name and take the
//! final one at the end), or one that may hold others already and gets files that are each whole ([`Folder`]).
//!
//! What has its final name is on the disk, also after a power cut.

use crate::plot::Figure;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do about a folder that cannot be used.
const REMEDY: &str = "choose another --out, or remove it";

/// A hidden folder beside the one it will become; gone when dropped before that.
///
/// A process that is killed leaves the hidden folder behind, never a part under the final name.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    folder: PathBuf,
    /// Whether to leave the hidden folder alone: it has its final name, or holds results that could not get it.
    keep: bool,
}

impl Staging {
    /// Initialisation a folder that will be `target`, which must not be there yet, or be empty. Folders above it are made.
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
                // Another run of this process, or one killed long ago under the same number.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).with_context(cannot),
            }
        }
        bail!("{} is full of folders of runs that were killed; remove those named .*.mcvi-*", parent.display())
    }

    /// Where to write for now.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// What the folder will be called.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Give the folder its final name. Where that fails the results stay under the hidden one, which the error names:
    /// hours of work may be in it.
    pub fn commit(mut self) -> Result<PathBuf> {
        self.keep = true;
        sync(&self.folder).with_context(|| format!("cannot write to {}", self.folder.display()))?;
        let renamed = fs::rename(&self.folder, &self.target).or_else(|error| {
            // Not every system replaces an empty folder; a full one is never removed.
            match fs::remove_dir(&self.target) {
                Ok(()) => fs::rename(&self.folder, &self.target),
                Err(_) => Err(error),
            }
        });
        let (folder, target) = (self.folder.display(), self.target.display());
        renamed
            .with_context(|| format!("cannot rename {folder} to {target}; the results are whole, but stay there"))?;
        // The results are there; that their name is not on the disk yet is no reason to call them lost.
        let _ = mcvi::sync_folder(self.target.parent().unwrap_or(Path::new("")));
        Ok(self.target.clone())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.keep {
            // Whatever made the run end early is what to report.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// See to it that everything in a folder is on the disk.
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

/// A folder for files that are each whole.
pub struct Folder {
    path: PathBuf,
    written: Vec<PathBuf>,
}

impl Folder {
    /// Made if it is not there, and found writable before any work is done.
    pub fn new(path: PathBuf) -> Result<Self> {
        let cannot = || format!("cannot write to the folder {}; choose another with --out", path.display());
        fs::create_dir_all(&path).with_context(cannot)?;
        let probe = path.join(format!(".mcvi-{}", std::process::id()));
        fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).with_context(cannot)?;
        Ok(Folder { path, written: vec![] })
    }

    /// What has been written.
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

    /// Save an object as text.
    pub fn json(&mut self, name: &str, value: &Value) -> Result<()> {
        let path = self.path.join(name);
        mcvi::atomic_write(&path, format!("{value:#}\n").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.written.push(path);
        Ok(())
    }
}

/// The target, links in it followed if it is there; an error unless it is absent or an empty folder.
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
        bail!("{shown} is there and not a folder; {REMEDY}");
    }
    let mut entries = fs::read_dir(&target).with_context(|| format!("cannot read the folder {shown}; {REMEDY}"))?;
    if entries.next().is_some() {
        bail!("the folder {shown} is there and not empty; {REMEDY}");
    }
    // Replaced under the shell that stands in it, the shell would be nowhere.
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
            format!("the folder {} is there and not empty; choose another --out, or remove it", target.display());
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
        let said = |target: &Path| format!("{:#}", Staging::new(target).expect_err("impossible"));
        assert!(said(&file).contains("is there and not a folder; choose another --out, or remove it"));
        assert!(said(&file.join("sub")).contains("choose another --out"), "{}", said(&file.join("sub")));
        assert!(said(Path::new("/")).contains("choose another --out"));
        // Nothing can be made here, not even by root.
        #[cfg(target_os = "linux")]
        assert!(said(Path::new("/proc/mcvi/out")).starts_with("cannot write to the folder /proc/mcvi; choose another"));
    }
}
