//! Reading images: every format gives back what was written, and every defect is named.

mod damage;
mod write;

use mcvi::Error;
use mcvi::data::{Binarization, Dataset, Format, Images, Split};
use std::path::Path;
use write::{amat, bits, gzip, idx, noise, npy, pgm, png, put};

const ALL: [Split; 3] = Split::ALL;

fn read(folder: &Path) -> Result<[Images; 3], Error> {
    Dataset::open(folder)?.read(ALL, Binarization::Fresh, 1)
}

/// The message of an error about data, which must name path, found, expected and remedy.
fn complaint<T: std::fmt::Debug>(result: Result<T, Error>, path: &Path) -> String {
    match result.unwrap_err() {
        Error::Data { path: at, found, expected, remedy } => {
            assert!(at.contains(path.to_str().unwrap()), "{at}");
            assert!(!found.is_empty() && !expected.is_empty() && !remedy.is_empty());
            format!("found {found}; expected {expected}; {remedy}")
        }
        other => panic!("{other}"),
    }
}

/// Images of 28×28 in three splits of these sizes.
fn sets(binary: bool, sizes: [usize; 3]) -> [Images; 3] {
    [0, 1, 2].map(|i| Images::new(28, 28, noise(i as u64, sizes[i] * 784, binary)).unwrap())
}

/// Grey bytes of images.
fn bytes(images: &Images) -> Vec<u8> {
    (0..images.len()).flat_map(|i| images.row(i)).map(|x| (x * 255.0).round() as u8).collect()
}

#[test]
fn images_in_memory() {
    let grey = noise(5, 7 * 15, false);
    let images = Images::new(3, 5, grey.clone()).unwrap();
    assert_eq!((images.len(), images.height(), images.width(), images.pixels()), (7, 3, 5, 15));
    assert!(!images.is_binary());
    let array = images.array().unwrap();
    assert_eq!(array.shape().dims(), [7, 15]);
    let want: Vec<f32> = grey.iter().map(|p| f32::from(*p) / 255.0).collect();
    assert_eq!(array.as_slice::<f32>().unwrap(), want);
    assert_eq!(images.row(2), want[30..45]);
    assert_eq!(images.batch(&[2, 6, 2]).unwrap().as_slice::<f32>().unwrap()[15..30], want[90..105]);
    let (head, tail) = (images.take(0..3).unwrap(), images.take(3..7).unwrap());
    assert_eq!(head.joined(&tail).unwrap(), images);
    assert_eq!(head.joined(&tail).unwrap().checksum(), images.checksum());
    assert_ne!(head.checksum(), tail.checksum());

    // Fifteen pixels do not fill two bytes: what is left over must not matter.
    let binary = Images::new(3, 5, noise(5, 7 * 15, true)).unwrap();
    assert!(binary.is_binary());
    assert_eq!(bytes(&binary), noise(5, 7 * 15, true));
    assert_eq!(binary.take(0..2).unwrap().joined(&binary.take(2..7).unwrap()).unwrap(), binary);
    assert_eq!(
        Images::from_bits(1, 3, vec![0b1010_1111]).unwrap(),
        Images::from_bits(1, 3, vec![0b1010_0000]).unwrap()
    );
    let both = binary.joined(&images).unwrap();
    assert!(!both.is_binary());
    assert_eq!((both.row(3), both.row(9)), (binary.row(3), images.row(2)));

    assert!(images.batch(&[7]).is_err() && images.batch(&[-1]).is_err());
    assert!(images.take(3..8).is_err() && images.take(3..3).is_err());
    assert!(images.joined(&Images::new(5, 3, grey.clone()).unwrap()).is_err());
    for (h, w) in [(0, 5), (5, 0), (31, 8), (usize::MAX, 2), (usize::MAX, usize::MAX)] {
        assert!(Images::new(h, w, grey.clone()).is_err() && Images::from_bits(h, w, grey.clone()).is_err());
    }
    assert!(Images::new(2, 2, vec![]).is_err());
}

#[test]
fn fixed_binarization() {
    let n = 40_000;
    for p in [0u8, 51, 128, 255] {
        // One pixel in between, so that the images are grey.
        let grey: Vec<u8> = std::iter::once(77).chain(std::iter::repeat_n(p, n - 1)).collect();
        let images = Images::new(1, n, grey).unwrap();
        let drawn = images.binarized(3, Split::Train);
        assert!(drawn.is_binary());
        assert_eq!(drawn, images.binarized(3, Split::Train));
        assert_eq!(drawn, drawn.binarized(9, Split::Test));
        let white = f64::from(drawn.row(0)[1..].iter().sum::<f32>()) / (n - 1) as f64;
        let mean = f64::from(p) / 255.0;
        assert!((white - mean).abs() <= 4.0 * (mean * (1.0 - mean) / n as f64).sqrt(), "{p}: {white}");
        if p == 128 {
            assert_ne!(drawn, images.binarized(4, Split::Train));
            assert_ne!(drawn, images.binarized(3, Split::Valid));
        }
    }
    // Never to change: a run says by its seed which images it saw.
    let eight = Images::new(1, 8, vec![128; 8]).unwrap().binarized(7, Split::Test);
    assert_eq!(eight.row(0), WANT_EIGHT);
}

/// Computed by another implementation, in Python.
const WANT_EIGHT: [f32; 8] = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];

#[test]
fn packed_bits_and_amat() {
    let wanted = sets(true, [12, 3, 4]);
    let folder = tempfile::tempdir().unwrap();
    for (split, images) in ALL.iter().zip(&wanted) {
        put(folder.path(), &format!("{split}.bits"), bits(&bytes(images)));
    }
    assert_eq!(Dataset::open(folder.path()).unwrap().format(), Format::Bits);
    assert_eq!(read(folder.path()).unwrap(), wanted);

    for zipped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        for (split, images) in ALL.iter().zip(&wanted) {
            let text = amat(&bytes(images));
            let name = format!("binarized_mnist_{split}.amat");
            if zipped {
                put(folder.path(), &format!("{name}.gz"), gzip(&text));
            } else {
                put(folder.path(), &name, text);
            }
        }
        assert_eq!(Dataset::open(folder.path()).unwrap().format(), Format::Amat);
        assert_eq!(read(folder.path()).unwrap(), wanted);
    }
}

#[test]
fn idx_files() {
    let [train, _, test] = sets(false, [13, 1, 4]);
    for zipped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        for (name, images) in [("train", &train), ("t10k", &test)] {
            let file = idx([images.len(), 28, 28], &bytes(images));
            let name = format!("{name}-images-idx3-ubyte");
            if zipped {
                put(folder.path(), &format!("{name}.gz"), gzip(&file));
            } else {
                put(folder.path(), &name, file);
            }
        }
        let [a, b, c] = read(folder.path()).unwrap();
        assert_eq!((a.len(), b.len(), &c), (11, 2, &test));
        assert_eq!(a.joined(&b).unwrap(), train);
        let data = Dataset::open(folder.path()).unwrap();
        assert_eq!(data.format(), Format::Idx);
        let [fixed] = data.read([Split::Valid], Binarization::Fixed, 8).unwrap();
        assert_eq!(fixed, b.binarized(8, Split::Valid));
    }
}

#[test]
fn npy_arrays() {
    let wanted = sets(false, [7, 1, 2]);
    let folder = tempfile::tempdir().unwrap();
    for (split, images) in ALL.iter().zip(&wanted) {
        put(folder.path(), &format!("{split}.npy"), npy("|u1", &[images.len(), 28, 28], &bytes(images)));
    }
    assert_eq!(read(folder.path()).unwrap(), wanted);

    let file = folder.path().join("some.npy");
    let grey = noise(4, 13 * 6, false);
    let one = Images::new(2, 3, grey.clone()).unwrap();
    let by = |f: &dyn Fn(f64) -> Vec<u8>, scale: f64| -> Vec<u8> {
        grey.iter().flat_map(|p| f(f64::from(*p) / scale)).collect()
    };
    let rows = [
        ("|u1", grey.clone()),
        ("<f4", by(&|x| (x as f32).to_le_bytes().to_vec(), 255.0)),
        (">f4", by(&|x| (x as f32).to_be_bytes().to_vec(), 1.0)),
        ("<f8", by(&|x| x.to_le_bytes().to_vec(), 1.0)),
        (">f8", by(&|x| x.to_be_bytes().to_vec(), 255.0)),
    ];
    for (descr, content) in rows {
        std::fs::write(&file, npy(descr, &[13, 2, 3], &content)).unwrap();
        let [train, valid, test] = read(&file).unwrap();
        assert_eq!((train.len(), valid.len(), test.len()), (9, 2, 2));
        assert_eq!(train.joined(&valid).unwrap().joined(&test).unwrap(), one, "{descr}");
    }

    // Zeros and ones in any type are binary; square images may be flat.
    let ones: Vec<u8> = noise(4, 12 * 9, true).iter().map(|p| p / 255).collect();
    let floats: Vec<u8> = ones.iter().flat_map(|p| f32::from(*p).to_le_bytes()).collect();
    for (descr, content) in [("|u1", &ones), ("|b1", &ones), ("<f4", &floats)] {
        std::fs::write(&file, npy(descr, &[12, 9], content)).unwrap();
        let [train] = Dataset::open(&file).unwrap().read([Split::Train], Binarization::Fresh, 0).unwrap();
        assert!(train.is_binary() && train.height() == 3);
        assert_eq!(bytes(&train), noise(4, 12 * 9, true)[..8 * 9]);
    }
}

#[test]
fn pictures_in_folders() {
    let wanted = sets(false, [3, 1, 2]);
    let folder = tempfile::tempdir().unwrap();
    for (split, images) in ALL.iter().zip(&wanted) {
        let inner = folder.path().join(split.to_string());
        std::fs::create_dir(&inner).unwrap();
        for (i, image) in bytes(images).chunks(784).enumerate() {
            put(&inner, &format!("{i}.png"), png(28, ::png::ColorType::Grayscale, image));
        }
        put(&inner, "labels.txt", b"3 1 4".to_vec());
    }
    assert_eq!(Dataset::open(folder.path()).unwrap().format(), Format::Pictures);
    assert_eq!(read(folder.path()).unwrap(), wanted);

    let folder = tempfile::tempdir().unwrap();
    let [images, ..] = sets(false, [6, 1, 1]);
    for (i, image) in bytes(&images).chunks(784).enumerate() {
        let repeat = |n: usize| image.iter().flat_map(|p| std::iter::repeat_n(*p, n)).collect::<Vec<u8>>();
        let opaque = |n: usize| image.iter().flat_map(|p| [vec![*p; n], vec![255]].concat()).collect::<Vec<u8>>();
        let (name, file) = match i {
            0 => ("0.pgm", pgm(28, image, true)),
            1 => ("1.PGM", pgm(28, image, false)),
            2 => ("2.png", png(28, ::png::ColorType::Rgb, &repeat(3))),
            3 => ("3.png", png(28, ::png::ColorType::Rgba, &opaque(3))),
            4 => ("4.png", png(28, ::png::ColorType::GrayscaleAlpha, &opaque(1))),
            _ => ("5.png", png(28, ::png::ColorType::Grayscale, image)),
        };
        put(folder.path(), name, file);
    }
    let [train, valid, test] = read(folder.path()).unwrap();
    assert_eq!(train.joined(&valid).unwrap().joined(&test).unwrap(), images);
}

#[test]
fn folders_that_do_not_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let said = complaint(Dataset::open(path), path);
    assert!(said.contains("an empty folder") && said.contains("Larochelle") && said.contains("train.bits"), "{said}");
    let said = complaint(Dataset::open(path.join("none")), path);
    assert!(said.contains("nothing there") && said.contains("Larochelle"), "{said}");
    put(path, "notes.txt", vec![]);
    assert!(complaint(Dataset::open(path), path).contains("notes.txt"));
    assert!(complaint(Dataset::open(path.join("notes.txt")), path).contains("give the folder"));

    put(path, "train.bits", vec![1; 98]);
    put(path, "valid.bits", vec![1; 98]);
    put(path, "look.png", vec![]);
    let said = complaint(read(path), path);
    assert!(said.contains("no images of the test split") && said.contains("test.bits"), "{said}");
    assert!(said.contains("Larochelle"), "{said}");
    put(path, "train.npy", vec![]);
    let said = complaint(Dataset::open(path), path);
    assert!(said.contains("packed bits and NumPy"), "{said}");
}

#[test]
fn known_sets_are_held_to_their_checksums() {
    let folder = tempfile::tempdir().unwrap();
    for (split, n) in ALL.iter().zip([50_000, 10_000, 10_000]) {
        put(folder.path(), &format!("{split}.bits"), vec![0; 98 * n]);
        let data = Dataset::open(folder.path()).unwrap();
        let said = complaint(data.read([*split], Binarization::Fresh, 0), folder.path());
        assert!(said.contains("corrupt") && said.contains("get it again"), "{said}");
    }
}

/// The real files, where they are: `MCVI_DATA` is a folder with `binarized_mnist` and `mnist` in it.
#[test]
fn published_files() {
    let Some(folder) = std::env::var_os("MCVI_DATA") else {
        eprintln!("skipped: MCVI_DATA does not name a folder with binarized_mnist and mnist");
        return;
    };
    for (name, set) in [("binarized_mnist", "binarized MNIST"), ("mnist", "MNIST")] {
        let sets = read(&Path::new(&folder).join(name)).unwrap();
        for (split, images) in ALL.iter().zip(&sets) {
            assert_eq!(images.known(), Some(format!("{set}, {split}")));
        }
        // As text the same images come out, and pass the same check.
        if name == "binarized_mnist" {
            let text = tempfile::tempdir().unwrap();
            put(text.path(), "binarized_mnist_valid.amat.gz", gzip(&amat(&bytes(&sets[1]))));
            let data = Dataset::open(text.path()).unwrap();
            assert_eq!(data.read([Split::Valid], Binarization::Fresh, 0).unwrap()[0], sets[1]);
        }
    }
}
