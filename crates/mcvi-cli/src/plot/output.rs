//! Rendering of SVG to PNG with an embedded font, and atomic writing of files.

use std::io::{Error, Result};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

/// The letters, digits, Greek letters and mathematical signs of DejaVu Sans.
static FONT: &[u8] = include_bytes!("assets/DejaVuSans-subset.ttf");
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    Arc::new(fonts)
});

/// Pixels of the image for each of the drawing's.
const SCALE: f32 = 2.0;

/// The parsed drawing, its texts laid out.
pub fn parse(svg: &str) -> Result<Tree> {
    let options = Options { fontdb: FONTS.clone(), font_family: "DejaVu Sans".to_owned(), ..Options::default() };
    Tree::from_str(svg, &options).map_err(Error::other)
}

/// The drawing as a PNG image.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let tree = parse(svg)?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let pixmap = size.and_then(|size| Pixmap::new(size.width(), size.height()));
    let mut pixmap = pixmap.ok_or_else(|| Error::other("the figure is too large for an image"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(Error::other)
}

/// Writes `path.extension` atomically.
pub fn write(path: &Path, extension: &str, content: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{extension}"));
    mcvi::disk::atomic_write(name, content)
}
