//! Files as others write them.

use rand::{Rng, SeedableRng, rngs::ChaCha8Rng};
use std::io::Write;
use std::path::Path;

/// Pixels by seed: grey, or black and white.
pub fn noise(seed: u64, n: usize, binary: bool) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = vec![0; n];
    rng.fill_bytes(&mut bytes);
    if binary {
        bytes.iter_mut().for_each(|b| *b = if *b > 200 { 255 } else { 0 });
    }
    bytes
}

pub fn put(folder: &Path, name: &str, content: Vec<u8>) {
    std::fs::write(folder.join(name), content).unwrap();
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub fn bits(pixels: &[u8]) -> Vec<u8> {
    pixels.chunks(8).map(|eight| eight.iter().fold(0, |byte, p| byte << 1 | p >> 7)).collect()
}

pub fn amat(grey: &[u8]) -> Vec<u8> {
    let line = |image: &[u8]| image.iter().map(|p| if *p > 0 { "1" } else { "0" }).collect::<Vec<_>>().join(" ") + "\n";
    grey.chunks(784).map(line).collect::<String>().into_bytes()
}

pub fn idx(dims: [usize; 3], grey: &[u8]) -> Vec<u8> {
    let head = [0x803, dims[0], dims[1], dims[2]];
    let mut file: Vec<u8> = head.iter().flat_map(|x| (*x as u32).to_be_bytes()).collect();
    file.extend(grey);
    file
}

pub fn npy(descr: &str, shape: &[usize], content: &[u8]) -> Vec<u8> {
    let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
    let shape = shape.join(", ");
    let mut head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // NumPy fills up with spaces to a multiple of 64.
    while (head.len() + 11) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((head.len() as u16).to_le_bytes());
    file.extend(head.bytes());
    file.extend(content);
    file
}

pub fn png(width: u32, color: png::ColorType, samples: &[u8]) -> Vec<u8> {
    let mut file = vec![];
    let height = samples.len() as u32 / width / color.samples() as u32;
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(samples).unwrap();
    writer.finish().unwrap();
    file
}

pub fn pgm(width: usize, grey: &[u8], text: bool) -> Vec<u8> {
    let head = format!("{}\n# a comment\n{width} {}\n255\n", if text { "P2" } else { "P5" }, grey.len() / width);
    let mut file = head.into_bytes();
    if text {
        file.extend(grey.iter().flat_map(|p| format!("{p} ").into_bytes()));
    } else {
        file.extend(grey);
    }
    file
}
