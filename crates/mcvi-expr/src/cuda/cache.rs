//! Machine code kept between runs, in a folder that only its owner can write to.
//!
//! What is read here runs on the GPU. A file counts only if nobody else can have written it, and if it is the one that
//! was sealed for the same source. Whatever is wrong, the answer is to compile again: a cache is never a failure.

use sha2::{Digest, Sha256};
use std::ffi::{OsString, c_int};
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The value of an environment variable, if it is an absolute path. Others would mean the current folder, which may be
/// anybody's.
pub(super) fn absolute(variable: impl Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Where the code of one source is kept.
pub(super) struct Cached {
    folder: PathBuf,
    key: [u8; 32],
}

impl Cached {
    /// Named by everything the code depends on. `MCVI_CACHE` names another folder, or none if it is empty.
    pub(super) fn new(
        (source, processor, (major, minor)): (&str, &str, (c_int, c_int)),
        variable: impl Fn(&str) -> Option<OsString> + Copy,
    ) -> Option<Self> {
        if variable("MCVI_CACHE").is_some_and(|folder| folder.is_empty()) {
            return None;
        }
        let folder = absolute(variable, "MCVI_CACHE")
            .or_else(|| Some(absolute(variable, "XDG_CACHE_HOME")?.join("mcvi")))
            .or_else(|| Some(absolute(variable, "HOME")?.join(".cache").join("mcvi")))?;
        let mut key = Sha256::new();
        for part in [env!("CARGO_PKG_VERSION"), processor, &format!("{major}.{minor}"), source] {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        Some(Cached { folder, key: key.finalize().into() })
    }

    fn file(&self, extension: &str) -> PathBuf {
        let name: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name).with_extension(extension)
    }

    /// The code, if it is there, whole and ours.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        if !is_ours(&std::fs::metadata(&self.folder).ok()?) {
            return None;
        }
        let mut file = File::open(self.file("cubin")).ok()?;
        // Asked of the file that was opened, so that it cannot be another by now.
        if !is_ours(&file.metadata().ok()?) {
            return None;
        }
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).ok()?;
        unseal(&self.key, bytes)
    }

    /// Keep code, and its source for those who want to read it.
    pub(super) fn write(&self, code: &[u8], source: &str) -> std::io::Result<()> {
        create(&self.folder)?;
        if !is_ours(&std::fs::metadata(&self.folder)?) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        self.place("cubin", &seal(&self.key, code))?;
        self.place("cu", source.as_bytes())
    }

    /// A file appears whole or not at all, also where several processes and threads compile the same.
    fn place(&self, extension: &str, bytes: &[u8]) -> std::io::Result<()> {
        let to = self.file(extension);
        // Keyed by the system's random numbers.
        let temporary = to.with_extension(format!("{:016x}.part", RandomState::new().hash_one(extension)));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        drop(file);
        let placed = written.and_then(|()| std::fs::rename(&temporary, &to));
        if placed.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        placed
    }
}

/// A folder for its owner only; one that exists stays as it is.
fn create(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Whether a file or folder belongs to this user, and no other can write to it.
#[cfg(unix)]
fn is_ours(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: it takes nothing, and cannot fail.
    let user = unsafe { libc::geteuid() };
    metadata.uid() == user && metadata.mode() & 0o022 == 0
}

/// Elsewhere, folders of a user's profile are closed to others by the system.
#[cfg(not(unix))]
fn is_ours(_: &Metadata) -> bool {
    true
}

const SEAL: usize = 8 + 32;

/// Code with its length and checksum after it: the driver reads what it is given without asking how much there is.
fn seal(key: &[u8; 32], code: &[u8]) -> Vec<u8> {
    [code, &(code.len() as u64).to_le_bytes(), &checksum(key, code)].concat()
}

/// The code of a sealed file, if it is whole and was sealed with this key.
fn unseal(key: &[u8; 32], mut file: Vec<u8>) -> Option<Vec<u8>> {
    let length = file.len().checked_sub(SEAL)?;
    let sealed = [&(length as u64).to_le_bytes()[..], &checksum(key, &file[..length])].concat();
    if file[length..] != sealed {
        return None;
    }
    file.truncate(length);
    Some(file)
}

fn checksum(key: &[u8; 32], code: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(key).chain_update(code).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(source: &str, variables: &[(&str, &str)]) -> Option<Cached> {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        Cached::new((source, "sm_90", (12, 8)), variable)
    }

    /// A cache in a new folder in this one.
    fn inside(folder: &Path, source: &str) -> Cached {
        let path = folder.join("made/here");
        cached(source, &[("MCVI_CACHE", path.to_str().expect("UTF-8"))]).expect("a cache")
    }

    #[test]
    fn a_file_is_used_only_if_it_is_whole_and_of_its_source() {
        let (key, code) = ([3; 32], vec![7u8; 1000]);
        let sealed = seal(&key, &code);
        assert_eq!(unseal(&key, sealed.clone()), Some(code));
        assert!((0..sealed.len()).all(|cut| unseal(&key, sealed[..cut].to_vec()).is_none()));
        assert_eq!(unseal(&[4; 32], sealed.clone()), None, "sealed for another source");
        let mut flipped = sealed;
        flipped[500] ^= 1;
        assert_eq!(unseal(&key, flipped), None);
    }

    #[test]
    fn what_is_kept_is_found_again_for_the_same_source_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (inside(folder.path(), "one"), inside(folder.path(), "other"));
        assert_eq!(one.read(), None);
        one.write(b"code", "one").expect("kept");
        assert_eq!(one.read().as_deref(), Some(&b"code"[..]));
        assert_eq!(other.read(), None);
        std::fs::copy(one.file("cubin"), other.file("cubin")).expect("copied");
        assert_eq!(other.read(), None, "the code of one source under the name of another");
        let entries = std::fs::read_dir(&one.folder).expect("a folder").count();
        assert_eq!(entries, 3, "no temporary file stays");
    }

    #[test]
    fn the_cache_is_in_an_absolute_folder_or_nowhere() {
        let folder = |variables: &[(&str, &str)]| cached("", variables).map(|c| c.folder);
        let home = ("HOME", "/home/u");
        assert_eq!(folder(&[home, ("MCVI_CACHE", "")]), None);
        assert_eq!(folder(&[home, ("MCVI_CACHE", "/c")]), Some("/c".into()));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/x")]), Some("/x/mcvi".into()));
        for wrong in ["", "cache", "./cache"] {
            assert_eq!(folder(&[home, ("XDG_CACHE_HOME", wrong)]), Some("/home/u/.cache/mcvi".into()));
            assert_eq!(folder(&[("HOME", wrong)]), None);
        }
        assert_eq!(folder(&[home, ("MCVI_CACHE", "here")]), Some("/home/u/.cache/mcvi".into()));
        assert_eq!(folder(&[]), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_for_its_owner_and_others_are_refused() {
        use std::fs::{Permissions, metadata, set_permissions};
        use std::os::unix::fs::{PermissionsExt, chown};
        let mode = |path: &Path| metadata(path).expect("there").permissions().mode() & 0o777;
        let temporary = tempfile::tempdir().expect("a folder");
        let cache = inside(temporary.path(), "source");
        cache.write(b"code", "source").expect("kept");
        assert_eq!((mode(&cache.folder), mode(cache.folder.parent().expect("made"))), (0o700, 0o700));
        assert_eq!((mode(&cache.file("cubin")), mode(&cache.file("cu"))), (0o600, 0o600));
        for (path, private) in [(cache.folder.clone(), 0o700), (cache.file("cubin"), 0o600)] {
            for open in [0o720, 0o702, 0o777] {
                set_permissions(&path, Permissions::from_mode(open)).expect("ours");
                assert_eq!(cache.read(), None, "{open:o}");
                assert_eq!(cache.write(b"code", "source").is_err(), path == cache.folder, "{open:o}");
            }
            set_permissions(&path, Permissions::from_mode(private)).expect("ours");
            assert!(cache.read().is_some());
        }
        // Only root can give files away; another user finds root's instead.
        if chown(&cache.folder, Some(12345), None).is_ok() {
            assert_eq!(cache.read(), None);
            assert!(cache.write(b"code", "source").is_err());
        } else {
            assert!(!is_ours(&metadata("/").expect("there")));
        }
    }
}
