//! Which images an evaluation is of: whether they are the run's own, and how many of them the model was trained on.

use super::folder::RunFolder;
use super::settings::ResolvedConfig;
use anyhow::Result;
use mcvi::data::{Binarization, Dataset, Images, Split};
use mcvi::vae::TrainingCheckpoint;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where the images of an evaluation come from.
pub struct Provenance {
    /// Their folder, as an absolute path.
    pub folder: PathBuf,
    /// Identifies them in any format; grey images as they are before binarization.
    pub checksum: String,
    /// Whether they are this split of the data that the run was trained with.
    pub own: bool,
    /// Which of them the model was trained on. None if the training images cannot be had.
    learned: Option<Vec<bool>>,
}

impl Provenance {
    /// Of some images of a split, in the run's own folder of images or in another one.
    pub fn of(run: &RunFolder, other: Option<&Path>, split: Split, which: &[i32]) -> Result<Self> {
        let settings = run.settings()?.resolve([1, 1])?;
        let folder = other.unwrap_or(&settings.data);
        let [images] = plain(folder, [split])?;
        let (checksum, trained) = (images.checksum(), trained_on(run));
        // The folder may have been moved, or have other images by now.
        let verdict = |folder: &Path| is_of(folder, &settings, trained.as_deref());
        let home = verdict(&settings.data);
        let origin = match (home, other) {
            (Some(true), _) => Some(settings.data.as_path()),
            (_, Some(other)) if verdict(other) == Some(true) && trained.is_some() => Some(other),
            _ => None,
        };
        let own = match (origin, other) {
            (Some(origin), _) if origin == folder => true,
            (Some(origin), _) => plain(origin, [split]).is_ok_and(|[own]| own.checksum() == checksum),
            // Images that cannot be compared are taken for what the settings say they are.
            (None, None) => home.is_none(),
            (None, Some(_)) => false,
        };
        let by_name = own && (split == Split::Train || split == Split::Valid && settings.training.join);
        let mut sums = trained.as_deref().unwrap_or("").split(' ');
        let by_checksum = sums.next() == Some(&checksum) || settings.training.join && sums.next() == Some(&checksum);
        let learned = match origin.map(|origin| training_images(origin, settings.training.join)) {
            Some(Ok(training)) => Some(occurring(&images, which, &training)),
            _ => (by_name || by_checksum).then(|| vec![true; which.len()]),
        };
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(Provenance { folder, checksum, own, learned })
    }

    /// How many of the first images the model was trained on, if that is known.
    pub fn learned(&self, first: usize) -> Option<usize> {
        Some(self.learned.as_ref()?.iter().take(first).filter(|learned| **learned).count())
    }
}

/// Splits as they are in the files: grey images stay grey.
fn plain<const N: usize>(folder: &Path, splits: [Split; N]) -> Result<[Images; N]> {
    Ok(Dataset::open(folder)?.read(splits, Binarization::Fresh, 0)?)
}

/// All images that the run learns from.
fn training_images(folder: &Path, joined: bool) -> Result<Vec<Images>> {
    if joined {
        return Ok(plain(folder, [Split::Train, Split::Valid])?.into());
    }
    Ok(plain(folder, [Split::Train])?.into())
}

/// The checksums of the images that the run was trained with, from its checkpoint.
fn trained_on(run: &RunFolder) -> Option<String> {
    ["checkpoint.safetensors", "checkpoint.previous.safetensors"].into_iter().find_map(|name| {
        let path = run.path().join(name);
        let checkpoint = TrainingCheckpoint::from_bytes(&std::fs::read(&path).ok()?, &path).ok()?;
        Some(checkpoint.data).filter(|data| !data.is_empty())
    })
}

/// Whether a folder has the images with these checksums; none if it cannot be read. Without checksums, any will do.
fn is_of(folder: &Path, settings: &ResolvedConfig, trained: Option<&str>) -> Option<bool> {
    let splits = [Split::Train, Split::Valid];
    let read = Dataset::open(folder)
        .and_then(|data| data.read(splits, settings.binarization.library(), settings.training.seed));
    let [train, valid] = read.ok()?;
    Some(trained.is_none_or(|trained| trained == super::session::checksums(&train, &valid)))
}

/// Which of some images occur among others.
fn occurring(images: &Images, which: &[i32], others: &[Images]) -> Vec<bool> {
    let key = |images: &Images, i: usize| -> Vec<u8> {
        images.row(i).into_iter().map(|pixel| (255.0 * pixel).round() as u8).collect()
    };
    let mut wanted: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (place, i) in which.iter().enumerate() {
        wanted.entry(key(images, *i as usize)).or_default().push(place);
    }
    let same_size = |other: &&Images| (other.height(), other.width()) == (images.height(), images.width());
    let all = others.iter().filter(same_size).flat_map(|other| (0..other.len()).map(move |i| key(other, i)));
    let mut found = vec![false; which.len()];
    all.filter_map(|image| wanted.remove(&image)).flatten().for_each(|place| found[place] = true);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_among_others_whatever_their_order_and_kind() {
        let some = Images::new(1, 2, vec![0, 255, 255, 255, 255, 255, 0, 0]).expect("images");
        let grey = Images::new(1, 2, vec![255, 255, 7, 9, 255, 255]).expect("images");
        assert!(some.is_binary() && !grey.is_binary());
        let all = [0, 1, 2, 3];
        assert_eq!(occurring(&some, &all, std::slice::from_ref(&grey)), [false, true, true, false]);
        assert_eq!(occurring(&some, &[3, 1], std::slice::from_ref(&grey)), [false, true]);
        assert_eq!(occurring(&some, &all, &[grey.clone(), some.clone()]), [true; 4]);
        assert_eq!(occurring(&some, &all, &[Images::new(2, 1, vec![255; 2]).expect("an image")]), [false; 4]);
        assert_eq!(occurring(&some, &all, &[]), [false; 4]);
    }
}
