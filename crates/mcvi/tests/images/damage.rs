//! Damaged files: each defect has its message, and no bytes whatever make a reader panic.

use super::write::{amat, bits, gzip, idx, noise, npy, pgm, png, put};
use super::{complaint, read};
use mcvi::data::{Binarization, Dataset, Split};
use rand::{Rng, SeedableRng, rngs::ChaCha8Rng};
use std::path::Path;

/// A small file of every format, under the name that tells it.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let (grey, binary) = (noise(1, 2 * 25, false), noise(2, 2 * 784, true));
    let floats: Vec<u8> = grey.iter().flat_map(|p| (f32::from(*p) / 255.0).to_le_bytes()).collect();
    let six = noise(3, 6 * 4, false);
    vec![
        ("train.bits", bits(&noise(3, 784, true))),
        ("binarized_mnist_train.amat", amat(&binary)),
        ("binarized_mnist_train.amat.gz", gzip(&amat(&binary))),
        ("train-images-idx3-ubyte", idx([6, 2, 2], &six)),
        ("train-images-idx3-ubyte.gz", gzip(&idx([6, 2, 2], &six))),
        ("train.npy", npy("|u1", &[2, 5, 5], &grey)),
        ("train.npy", npy("<f4", &[2, 25], &floats)),
        ("train/a.png", png(10, ::png::ColorType::Grayscale, &grey)),
        ("train/a.pgm", pgm(10, &grey, true)),
        ("train/a.pgm", pgm(10, &grey, false)),
    ]
}

/// What reading the training images of this one file gives.
fn attempt(name: &str, content: &[u8], folder: &Path) -> mcvi::Result<usize> {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    let [images] = Dataset::open(folder)?.read([Split::Train], Binarization::Fixed, 1)?;
    let array = images.array()?;
    assert_eq!(array.shape().dims(), [images.len(), images.pixels()]);
    assert!(array.to_f64().iter().all(|x| (0.0..=1.0).contains(x)));
    Ok(images.len())
}

#[test]
fn truncated_files() {
    for (name, content) in samples() {
        let folder = tempfile::tempdir().unwrap();
        assert!(attempt(name, &content, folder.path()).is_ok(), "{name}");
        for len in 0..content.len() {
            let result = attempt(name, &content[..len], folder.path());
            // Text that ends with a whole line, or before its last end of line or space, is whole.
            let text = name.ends_with(".amat") && len > 0 && (len % 1568 == 0 || len % 1568 == 1567);
            let text = text || name.ends_with(".pgm") && content.starts_with(b"P2") && len + 4 >= content.len();
            assert!(result.is_err() || text, "{name}: {len} of {} bytes", content.len());
        }
    }
}

#[test]
fn corrupt_files() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    for (name, content) in samples() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..400 {
            let mut bytes = content.clone();
            for _ in 0..=below(3) {
                let at = below(bytes.len());
                match below(6) {
                    0 => bytes[at] ^= 1 << below(8),
                    1 => bytes[at] = below(256) as u8,
                    2 => bytes[at] = [0, 0xff, b'9', b'(', b'\'', b','][below(6)],
                    3 => bytes.insert(at, below(256) as u8),
                    4 => drop(bytes.drain(at..(at + below(9)).min(bytes.len()))),
                    _ => bytes.extend((0..below(20)).map(|i| i as u8)),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            // It may be readable or not, but it does not panic.
            let _ = attempt(name, &bytes, folder.path());
        }
        for n in 0..100 {
            let bytes: Vec<u8> = (0..n).map(|_| below(256) as u8).collect();
            let _ = attempt(name, &bytes, folder.path());
        }
    }
}

/// The complaint about a file of this name and content.
fn said(name: &str, content: Vec<u8>) -> String {
    let folder = tempfile::tempdir().unwrap();
    complaint(attempt(name, &content, folder.path()), folder.path())
}

#[track_caller]
fn says(name: &str, content: Vec<u8>, parts: &[&str]) {
    let said = said(name, content);
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn defects_of_bits_and_text() {
    says("train.bits", vec![0; 97], &["97 bytes", "multiple of 98"]);
    says("train.bits", vec![], &["0 bytes"]);
    let name = "binarized_mnist_train.amat";
    let whole = amat(&noise(2, 2 * 784, true));
    let put = |at: usize, byte: u8| [&whole[..at], &[byte], &whole[at + 1..]].concat();
    says(name, put(1568 + 4, b'2'), &["`2` at pixel 3 of line 2"]);
    says(name, put(1568 + 3, b'1'), &["`1` at pixel 3 of line 2", "spaces"]);
    says(name, put(1568 + 4, b' '), &["783 pixels in line 2", "784"]);
    says(name, b"0 1 1 0\n".to_vec(), &["4 pixels in line 1", "784", ".npy"]);
    says(name, b"\n \n".to_vec(), &["no images"]);
    let mut zipped = gzip(&whole);
    zipped.truncate(zipped.len() - 3);
    says("binarized_mnist_train.amat.gz", zipped, &["gzip", "damage"]);
}

#[test]
fn defects_of_idx() {
    let name = "train-images-idx3-ubyte";
    let six = noise(3, 24, false);
    let mut labels = idx([6, 2, 2], &six);
    labels[3] = 1;
    says(name, labels, &["00000801", "labels"]);
    says(name, b"<html>not found</html>".to_vec(), &["magic number 3c68746d"]);
    says(name, idx([6, 2, 2], &six[1..]), &["23 bytes", "24 bytes of pixels for 6 images of 2×2"]);
    says(name, idx([6, 2, 1], &six), &["more after"]);
    says(name, idx([0, 2, 2], &[]), &["0 images of 2×2"]);
    says(name, idx([u32::MAX as usize; 3], &six), &["4294967295"]);
    says(name, idx([5, 2, 2], &six[..20]), &["5 images", "at least 6"]);
}

#[test]
fn defects_of_npy() {
    let name = "train.npy";
    says(name, b"PK\x03\x04 an npz file".to_vec(), &["PK", "NumPy"]);
    says(name, npy("<i8", &[1, 4], &[0; 32]), &["`<i8`", "uint8, bool, float32 or float64"]);
    says(name, npy("|u1", &[1, 5], &[0; 5]), &["[1, 5]", "square"]);
    says(name, npy("|u1", &[0, 4], &[]), &["[0, 4]"]);
    says(name, npy("|u1", &[1, 1, 2, 2], &[0; 4]), &["[1, 1, 2, 2]"]);
    says(name, npy("|u1", &[usize::MAX, 2, 2], &[0; 4]), &["shape"]);
    says(name, npy("|u1", &[1 << 60, 2, 2], &[0; 4]), &["4 bytes after the header"]);
    says(name, npy("|u1", &[2, 4], &[0; 7]), &["7 bytes", "2 images of 2×2 in uint8"]);
    says(name, npy("|u1", &[2, 4], &[0; 9]), &["9 bytes"]);
    let floats = |x: [f32; 4]| npy("<f4", &[1, 4], &x.map(f32::to_le_bytes).concat());
    says(name, floats([0.0, 1.0, -0.1, 0.0]), &["-0.1", "image 0", "0 to 1"]);
    says(name, floats([0.0, 1.0, f32::NAN, 0.0]), &["NaN"]);
    says(name, floats([0.0, 256.0, 1.0, 0.0]), &["256"]);
    says(name, floats([0.0, 0.5, 1.5, 0.0]), &["1.5", "not both"]);
    says(name, floats([0.0, 0.5, 2.0, 0.0]), &["2", "not both"]);
    says(name, floats([0.0, 2.0, 0.5, 0.0]), &["0.5", "not both"]);
    let file = npy("|u1", &[1, 4], &[0; 4]);
    let fortran = String::from_utf8_lossy(&file[10..]).replace("False", "True ").into_bytes();
    says(name, [&file[..10], &fortran].concat(), &["Fortran", "ascontiguousarray"]);
}

#[test]
fn defects_of_pictures() {
    says("train/a.png", b"GIF89a".to_vec(), &["no readable PNG"]);
    says("train/a.jpg", vec![], &["another format", "convert"]);
    says("train/a.txt", vec![], &["none", ".png"]);
    says("train/a.png", png(1, ::png::ColorType::Rgb, &[1, 2, 3]), &["colours", "grey"]);
    says("train/a.png", png(1, ::png::ColorType::Rgba, &[1, 1, 1, 254]), &["transparency"]);
    says("train/a.pgm", b"P6 1 1 255 abc".to_vec(), &["another kind"]);
    says("train/a.pgm", b"P5 2 2 255 abc".to_vec(), &["3 pixels of 4"]);
    says("train/a.pgm", b"P5 2 2 255 abcde".to_vec(), &["more after"]);
    says("train/a.pgm", b"P2 2 1 15 3 16".to_vec(), &["16 where 15"]);
    says("train/a.pgm", b"P2 2 1 15 3 x".to_vec(), &["something other"]);
    says("train/a.pgm", b"P2 2".to_vec(), &["header"]);
    let folder = tempfile::tempdir().unwrap();
    for (i, width) in [(0, 2), (1, 4)] {
        put(folder.path(), &format!("{i}.png"), png(width, ::png::ColorType::Grayscale, &noise(1, 8, false)));
    }
    let said = complaint(read(folder.path()), &folder.path().join("1.png"));
    assert!(said.contains("2×4 pixels") && said.contains("4×2 as in"), "{said}");
}

#[test]
fn small_files_that_unpack_to_large_sets() {
    // A thousand names for one picture of a kilobyte.
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "0.png", png(1024, ::png::ColorType::Grayscale, &vec![0; 1 << 20]));
    for i in 1..1100 {
        std::fs::hard_link(folder.path().join("0.png"), folder.path().join(format!("{i}.png"))).unwrap();
    }
    let said = complaint(read(folder.path()), folder.path());
    assert!(said.contains("once unpacked") && said.contains("1024 MiB") && said.contains(".npy"), "{said}");
    says("train/a.png", png(2048, ::png::ColorType::Grayscale, &vec![0; 1 << 21]), &["1024×2048 pixels", "scale"]);
    says("train/a.pgm", b"P5 2000000000 2000000000 255 abc".to_vec(), &["2000000000×2000000000", "scale"]);
    // Text that is nothing but ends of lines, a thousand times.
    let lines = gzip(&vec![b'\n'; 1 << 20]).repeat(1100);
    says("binarized_mnist_train.amat.gz", lines, &["once unpacked", "1024 MiB", ".npy"]);
    says("train-images-idx3-ubyte.gz", gzip(&idx([2 << 20, 28, 28], &[0; 9])), &["once unpacked", "1024 MiB"]);
    says("train-images-idx3-ubyte", idx([1, 1 << 16, 1 << 16], &[0; 9]), &["65536×65536", "scale"]);
    says("train.npy", npy("|u1", &[1, 1025, 1024], &vec![0; 1025 * 1024]), &["1025×1024", "scale"]);
}

/// Lines need not have the form in which they are published.
#[test]
fn text_with_other_spaces() {
    let whole = amat(&noise(2, 3 * 784, true));
    let text = String::from_utf8(whole.clone()).unwrap();
    let bare = |content: Vec<u8>| {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "binarized_mnist_train.amat", content);
        let [images] = Dataset::open(folder.path()).unwrap().read([Split::Train], Binarization::Fresh, 1).unwrap();
        images.checksum()
    };
    let plain = bare(whole);
    for other in
        [text.replace('\n', "\r\n"), text.replace(' ', "  "), format!("\n {text}\n\n"), text.trim_end().to_owned()]
    {
        assert_eq!(bare(other.into_bytes()), plain);
    }
    says(
        "binarized_mnist_train.amat",
        text.replacen('\n', " 1\n", 1).into_bytes(),
        &["more than 784 pixels in line 1"],
    );
}

#[test]
fn splits_of_two_sizes() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "train.npy", npy("|u1", &[2, 4], &[0; 8]));
    put(folder.path(), "valid.npy", npy("|u1", &[2, 9], &[0; 18]));
    put(folder.path(), "test.npy", npy("|u1", &[2, 4], &[0; 8]));
    let said = complaint(read(folder.path()), &folder.path().join("valid.npy"));
    assert!(said.contains("3×3") && said.contains("2×2"), "{said}");
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_not_waited_for() {
    for name in ["train.bits", "train.npy", "binarized_mnist_train.amat"] {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(name)).unwrap();
        let tried = Dataset::open(folder.path()).and_then(|data| data.read([Split::Train], Binarization::Fixed, 1));
        assert!(tried.is_err(), "{name}");
    }
}
