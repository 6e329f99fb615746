//! Published sets of images, recognised by their pixels.

use super::{Images, Split, wrong};
use crate::error::Result;
use std::path::Path;

/// Where the paper's data are published, for error messages.
pub(super) const WHERE: &str = "binarized MNIST is published as binarized_mnist_train.amat, binarized_mnist_valid.amat \
    and binarized_mnist_test.amat (Hugo Larochelle, Université de Montréal; mirrored widely), grey MNIST as \
    train-images-idx3-ubyte.gz and t10k-images-idx3-ubyte.gz";

struct Known {
    name: &'static str,
    split: Split,
    binary: bool,
    count: usize,
    /// SHA-256 of the pixels, packed if binary.
    digest: &'static str,
}

const fn known(name: &'static str, split: Split, binary: bool, count: usize, digest: &'static str) -> Known {
    Known { name, split, binary, count, digest }
}

/// The binarized ones are the pixels of the `.amat` files whose own SHA-256 begin with ad693b29, 1de3d397 and e6687bfe.
#[rustfmt::skip]
const KNOWN: [Known; 6] = [
    known(BINARIZED, Split::Train, true, 50_000, "727146c35424b019f3e350e1e69faa05644a0abaf787e3f4e1a9632220a13906"),
    known(BINARIZED, Split::Valid, true, 10_000, "a256ac44ae26be720fad8616a05ed6ecfd1619930d9a208379bb2a4405df5b6d"),
    known(BINARIZED, Split::Test, true, 10_000, "9fcd8da6f0fdf09b2ba30fe63a0bb784042a0de82563172530229b983e294ff2"),
    known("MNIST", Split::Train, false, 50_000, "c80ceb24eedca80f31cfca280b8fb911cbb41b9990f998bebd40e26b1ab6d0f8"),
    known("MNIST", Split::Valid, false, 10_000, "2b079632b0defaf508a5ebf8c4ac1e18ce15c8b337da087e9c3e1c84c618d244"),
    known("MNIST", Split::Test, false, 10_000, "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161"),
];
const BINARIZED: &str = "binarized MNIST";

impl Known {
    fn may_be(&self, images: &Images) -> bool {
        (images.height(), images.width()) == (28, 28) && self.count == images.len() && self.binary == images.is_binary()
    }
}

/// The name of the published set.
pub(super) fn name(images: &Images) -> Option<String> {
    let mut candidates = KNOWN.iter().filter(|known| known.may_be(images)).peekable();
    candidates.peek()?;
    let digest = images.digest();
    candidates.find(|known| known.digest == digest).map(|known| format!("{}, {}", known.name, known.split))
}

/// Check images from a file in a format of binarized MNIST: if there are as many, they must be its images.
///
/// There is no such check for IDX files: Fashion-MNIST and others have the same file names and sizes as MNIST.
pub(super) fn check(path: &Path, split: Split, images: &Images) -> Result<()> {
    let Some(known) = KNOWN.iter().find(|k| k.split == split && k.binary && k.may_be(images)) else {
        return Ok(());
    };
    let digest = images.digest();
    if digest == known.digest {
        return Ok(());
    }
    Err(wrong(
        path,
        format!("a corrupt file: its {} images have SHA-256 {digest}", images.len()),
        format!("{} of {BINARIZED}, {split}", known.digest),
        format!("get it again ({WHERE}), or write images of your own as {split}.npy"),
    ))
}
