//! Many small grey images side by side in one picture: samples, reconstructions, data.

use super::output::write;
use base64::Engine;
use std::io::{Error, Result};
use std::path::Path;

/// The grey between the images, distinct from both black and white.
const GROUND: u8 = 160;
/// The same as a pixel value: an image of this grey alone cannot be seen.
pub const NOTHING: f32 = GROUND as f32 / 255.0;
/// Maximum width and height of a picture.
const LARGEST: usize = 1 << 15;

/// Layout of images of one size: row by row, from the left.
///
/// ```
/// use mcvi_cli::plot::Tiles;
///
/// let (black, white) = (vec![0.0; 784], vec![1.0; 784]);
/// let png = Tiles::new(28, 28).columns(2).scale(3).png(&[black, white])?;
/// assert!(png.starts_with(b"\x89PNG"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tiles {
    height: usize,
    width: usize,
    columns: Option<usize>,
    gap: usize,
    scale: usize,
}

impl Tiles {
    /// Images with this many rows and columns of pixels. By default they are drawn at twice their size, one pixel
    /// apart, in a roughly square grid.
    pub fn new(height: usize, width: usize) -> Self {
        Tiles { height, width, columns: None, gap: 1, scale: 2 }
    }

    /// The number of images per row.
    pub fn columns(self, columns: usize) -> Self {
        Tiles { columns: Some(columns), ..self }
    }

    /// The gap between images, in image pixels.
    pub fn gap(self, gap: usize) -> Self {
        Tiles { gap, ..self }
    }

    /// The height and width of an image pixel in pixels of the picture.
    pub fn scale(self, scale: usize) -> Self {
        Tiles { scale, ..self }
    }

    /// The picture as a PNG file. Pixels range from 0 (black) to 1 (white). Values outside are clamped, and NaN is
    /// black.
    pub fn png(&self, images: &[Vec<f32>]) -> Result<Vec<u8>> {
        let (height, width, picture) = self.picture(images)?;
        encode(height, width, &picture)
    }

    /// The same picture as an SVG document that embeds the PNG, for pages with figures.
    pub fn to_svg(&self, images: &[Vec<f32>]) -> Result<String> {
        // Enlarged by the viewer, so that the page stays small.
        let (height, width, picture) = Tiles { scale: 1, ..self.clone() }.picture(images)?;
        let (shown_height, shown_width) = (height * self.scale, width * self.scale);
        let data = base64::engine::general_purpose::STANDARD.encode(encode(height, width, &picture)?);
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{shown_width}\" height=\"{shown_height}\" \
             viewBox=\"0 0 {width} {height}\">\n<image width=\"{width}\" height=\"{height}\" \
             style=\"image-rendering: pixelated\" href=\"data:image/png;base64,{data}\"/>\n</svg>\n"
        ))
    }

    fn picture(&self, images: &[Vec<f32>]) -> Result<(usize, usize, Vec<u8>)> {
        let pixels = self.height.saturating_mul(self.width);
        if let Some((i, image)) = images.iter().enumerate().find(|(_, image)| image.len() != pixels) {
            let (h, w, len) = (self.height, self.width, image.len());
            return Err(Error::other(format!("image {i} has {len} pixels, tiles of {h}×{w} need {pixels}")));
        }
        let columns = self.columns.unwrap_or_else(|| images.len().isqrt());
        if images.is_empty() || pixels == 0 || columns == 0 || self.scale == 0 {
            return Err(Error::other("a picture needs images, pixels, columns and a scale, all at least 1"));
        }
        let columns = columns.min(images.len());
        let rows = images.len().div_ceil(columns);
        let extent = |tiles: usize, tile: usize| {
            let gaps = (tiles - 1).saturating_mul(self.gap);
            tiles.saturating_mul(tile).saturating_add(gaps).saturating_mul(self.scale)
        };
        let (height, width) = (extent(rows, self.height), extent(columns, self.width));
        if height > LARGEST || width > LARGEST {
            let why =
                format!("a picture of {height}×{width} pixels is too large; draw fewer images or a smaller scale");
            return Err(Error::other(why));
        }
        let mut picture = vec![GROUND; height * width];
        for (i, image) in images.iter().enumerate() {
            let step = |tile: usize| tile.saturating_add(self.gap); // a single image has no gap, whatever it is
            let (top, left) = (i / columns * step(self.height), i % columns * step(self.width));
            for (y, row) in image.chunks_exact(self.width).enumerate() {
                let line: Vec<u8> = row.iter().flat_map(|x| std::iter::repeat_n(level(*x), self.scale)).collect();
                for k in 0..self.scale {
                    let start = ((top + y) * self.scale + k) * width + left * self.scale;
                    picture[start..start + line.len()].copy_from_slice(&line);
                }
            }
        }
        Ok((height, width, picture))
    }

    /// Write the picture to `path.png` atomically.
    pub fn save(&self, path: impl AsRef<Path>, images: &[Vec<f32>]) -> Result<()> {
        write(path.as_ref(), "png", &self.png(images)?)
    }
}

fn level(x: f32) -> u8 {
    (x.clamp(0.0, 1.0) * 255.0).round() as u8
}

fn encode(height: usize, width: usize, picture: &[u8]) -> Result<Vec<u8>> {
    let mut file = vec![];
    // Both are at most `LARGEST`.
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(picture)?;
    writer.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(file: &[u8]) -> (usize, usize, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut picture = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut picture).unwrap();
        assert_eq!(frame.color_type, png::ColorType::Grayscale);
        (frame.height as usize, frame.width as usize, picture)
    }

    #[test]
    fn pixels_are_where_they_belong() {
        // Three images of 2×3, in two columns, twice as large.
        let images = [vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0], vec![-1.0, 2.0, f32::NAN, 0.5, 0.0, 1.0], vec![1.0; 6]];
        let (height, width, picture) = decode(&Tiles::new(2, 3).columns(2).scale(2).png(&images).unwrap());
        assert_eq!((height, width), (2 * 5, 2 * 7));
        let g = GROUND;
        #[rustfmt::skip]
        let want = [
            [0, 51, 102, g, 0, 255, 0],
            [153, 204, 255, g, 128, 0, 255],
            [g, g, g, g, g, g, g],
            [255, 255, 255, g, g, g, g],
            [255, 255, 255, g, g, g, g],
        ];
        for (y, line) in picture.chunks(width).enumerate() {
            for (x, p) in line.iter().enumerate() {
                assert_eq!(*p, want[y / 2][x / 2], "{y}, {x}");
            }
        }
        let (height, width, picture) = decode(&Tiles::new(2, 3).gap(0).scale(1).png(&images[2..]).unwrap());
        assert_eq!((height, width, picture), (2, 3, vec![255; 6]));
        let svg = Tiles::new(2, 3).columns(2).scale(4).to_svg(&images).unwrap();
        assert!(svg.contains("width=\"28\" height=\"20\" viewBox=\"0 0 7 5\""), "{svg}");
        let data = svg.split_once("base64,").unwrap().1.split_once('"').unwrap().0;
        let file = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        assert_eq!(decode(&file).2, want.concat());
        assert_eq!(level(NOTHING), GROUND);
        let square = vec![vec![0.0; 4]; 16];
        assert_eq!(decode(&Tiles::new(2, 2).gap(0).scale(1).png(&square).unwrap()).1, 8);
    }

    #[test]
    fn mistakes_are_errors() {
        let tiles = Tiles::new(2, 2);
        let one = [vec![0.0; 4]];
        assert!(tiles.png(&[vec![0.0; 5]]).unwrap_err().to_string().contains("5 pixels"));
        assert!(tiles.png(&[]).is_err());
        assert!(tiles.clone().columns(0).png(&one).is_err());
        assert!(tiles.clone().scale(0).png(&one).is_err());
        assert!(tiles.clone().scale(usize::MAX).png(&one).unwrap_err().to_string().contains("too large"));
        assert!(tiles.columns(2).gap(usize::MAX).png(&[one[0].clone(), one[0].clone()]).is_err());
        assert!(Tiles::new(2, 2).gap(usize::MAX).png(&one).is_ok());
        assert!(Tiles::new(0, 2).png(&[vec![]]).is_err());
    }
}
