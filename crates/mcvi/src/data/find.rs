//! The format of a folder, recognised by its file names, and the location of each split.

use super::file::{Source, unreadable};
use super::known::WHERE;
use super::{Binarization, Images, Split, amat, bits, idx, npy, pictures, wrong};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// File formats of images.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Packed bits of 28×28 pixels.
    Bits,
    /// Larochelle's text files.
    Amat,
    /// The format of MNIST.
    Idx,
    /// NumPy arrays.
    Npy,
    /// PNG and PGM pictures.
    Pictures,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Bits => "packed bits",
            Format::Amat => "AMAT",
            Format::Idx => "IDX",
            Format::Npy => "NumPy",
            Format::Pictures => "pictures",
        })
    }
}

impl Format {
    /// The formats with a file for each split.
    const NAMED: [Format; 4] = [Format::Bits, Format::Amat, Format::Idx, Format::Npy];

    /// The possible file names of a split, the preferred one first.
    ///
    /// Uncompressed files come first: they are there because somebody has unpacked the others.
    fn names(self, split: Split) -> Vec<String> {
        match (self, split) {
            (Format::Bits, _) => vec![format!("{split}.bits")],
            (Format::Amat, _) => ["", ".gz"].map(|z| format!("binarized_mnist_{split}.amat{z}")).to_vec(),
            // Some tools write a dot for the second hyphen.
            (Format::Idx, Split::Train | Split::Test) => {
                let set = if split == Split::Train { "train" } else { "t10k" };
                ["-idx3-ubyte", ".idx3-ubyte", "-idx3-ubyte.gz", ".idx3-ubyte.gz"]
                    .map(|end| format!("{set}-images{end}"))
                    .to_vec()
            }
            (Format::Idx, Split::Valid) => self.names(Split::Train),
            (Format::Npy, _) => vec![format!("{split}.npy")],
            (Format::Pictures, _) => vec![split.to_string()],
        }
    }

    /// Read the bytes of one file, or of one picture.
    #[doc(hidden)]
    pub fn parse(self, bytes: Vec<u8>, split: Split) -> Result<Images> {
        let (path, len) = (Path::new("bytes"), bytes.len() as u64);
        let source = |bytes| Source::new(path, std::io::Cursor::new(bytes), len);
        match self {
            Format::Bits => bits::parse(bytes, path, split),
            Format::Amat => amat::read(source(bytes)?, split),
            Format::Idx => idx::read(source(bytes)?),
            Format::Npy => npy::read(source(bytes)?),
            Format::Pictures => pictures::parse(&bytes, path),
        }
    }

    fn read(self, path: &Path, split: Split) -> Result<Images> {
        match self {
            Format::Bits => bits::read(path, split),
            Format::Amat => amat::read(Source::open(path)?, split),
            Format::Idx => idx::read(Source::open(path)?),
            Format::Npy => npy::read(Source::open(path)?),
            Format::Pictures => pictures::read(path),
        }
    }
}

/// Images on disk: their location and format, not yet read.
#[derive(Clone, Debug)]
pub struct Dataset {
    path: PathBuf,
    format: Format,
    /// One file or folder with everything, to be split into sixths.
    whole: bool,
}

impl Dataset {
    /// Open a folder, or a single `.npy` file, and recognise its format by the file names.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let made = |format, whole| Ok(Dataset { path: path.to_owned(), format, whole });
        let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => wrong(path, "nothing there", "a folder of images", WHERE),
            _ => unreadable(path, &e),
        })?;
        if !meta.is_dir() {
            if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
                return made(Format::Npy, true);
            }
            let remedy = "give the folder the file is in";
            return Err(wrong(path, "a single file", "a folder, or one .npy file", remedy));
        }
        let names = names(path)?;
        let has = |format: Format| {
            Split::ALL.iter().any(|split| format.names(*split).iter().any(|name| names.contains(name)))
        };
        match Format::NAMED.into_iter().filter(|format| has(*format)).collect::<Vec<_>>()[..] {
            [format] => return made(format, false),
            [] => {}
            [one, other, ..] => {
                let (found, remedy) =
                    (format!("files of two formats, {one} and {other}"), "give each a folder of its own");
                return Err(wrong(path, found, "one format", remedy));
            }
        }
        // Pictures come last: a picture beside data in another format is an illustration.
        if Split::ALL.iter().any(|split| path.join(split.to_string()).is_dir()) {
            return made(Format::Pictures, false);
        }
        if names.iter().any(|name| pictures::is_picture(Path::new(name))) {
            return made(Format::Pictures, true);
        }
        let expected = "train.bits, binarized_mnist_train.amat, train-images-idx3-ubyte (both also .gz), train.npy \
            and their like for valid and test, folders train, valid and test of .png or .pgm pictures, or such pictures";
        Err(wrong(path, listed(&names), expected, WHERE))
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The folder or file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Read splits, all of one size and either all binary or all grey. The seed is for [`Binarization::Fixed`].
    pub fn read<const N: usize>(
        &self,
        splits: [Split; N],
        binarization: Binarization,
        seed: u64,
    ) -> Result<[Images; N]> {
        // Two splits may be in one file, which is read once.
        let mut files: Vec<(PathBuf, Images)> = vec![];
        let mut sets: Vec<Images> = vec![];
        for split in splits {
            let path = self.place(split)?;
            let at = match files.iter().position(|(file, _)| *file == path) {
                Some(at) => at,
                None => {
                    let images = self.format.read(&path, split)?;
                    if let Some((other, first)) = files.first() {
                        same_size((other, first), (&path, &images))?;
                    }
                    files.push((path, images));
                    files.len() - 1
                }
            };
            let (path, images) = &files[at];
            sets.push(match self.part(split, images.len()) {
                None => images.clone(),
                Some(part) if part.is_empty() => {
                    let found = format!("{} images", images.len());
                    let remedy = "add images, or give the splits separately";
                    return Err(wrong(path, found, "at least 6, to be split into sixths", remedy));
                }
                Some(part) => images.take(part)?,
            });
        }
        if sets.iter().any(|images| !images.is_binary()) {
            // A few images may be black and white by chance.
            sets.iter_mut().for_each(|images| *images = images.grey());
        }
        if binarization == Binarization::Fixed {
            sets.iter_mut().zip(splits).for_each(|(images, split)| *images = images.binarized(seed, split));
        }
        Ok(sets.try_into().expect("a set was read for each split"))
    }

    /// The file or folder of a split.
    fn place(&self, split: Split) -> Result<PathBuf> {
        if self.whole {
            return Ok(self.path.clone());
        }
        let names = self.format.names(split);
        let found = names.iter().map(|name| self.path.join(name)).find(|path| path.exists());
        found.ok_or_else(|| {
            let file = names.join(" or ");
            let remedy = match self.format {
                Format::Bits | Format::Amat | Format::Idx => WHERE.to_owned(),
                Format::Npy | Format::Pictures => format!("put the images of the {split} split there"),
            };
            wrong(&self.path, format!("no images of the {split} split"), file, remedy)
        })
    }

    /// Which images of its file belong to a split; none means all of them.
    fn part(&self, split: Split, n: usize) -> Option<Range<usize>> {
        let sixth = n / 6;
        match (self.whole, self.format, split) {
            (true, _, Split::Train) => Some(0..if sixth == 0 { 0 } else { n - 2 * sixth }),
            (true, _, Split::Valid) => Some(n - 2 * sixth..n - sixth),
            (true, _, Split::Test) => Some(n - sixth..n),
            (false, Format::Idx, Split::Train) => Some(0..if sixth == 0 { 0 } else { n - sixth }),
            (false, Format::Idx, Split::Valid) => Some(n - sixth..n),
            _ => None,
        }
    }
}

fn same_size((one, a): (&Path, &Images), (other, b): (&Path, &Images)) -> Result<(), Error> {
    if (a.height(), a.width()) == (b.height(), b.width()) {
        return Ok(());
    }
    let found = format!("images of {}×{}", b.height(), b.width());
    let expected = format!("{}×{} as in {}", a.height(), a.width(), one.display());
    Err(wrong(other, found, expected, "all splits must have one size"))
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let failed = |e| unreadable(folder, &e);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())).collect()
}

/// The first few names, to show that the wrong folder was given.
fn listed(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 6;
    if names.is_empty() {
        return "an empty folder".to_owned();
    }
    let first: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    format!("no known images ({}{more})", first.join(", "))
}
