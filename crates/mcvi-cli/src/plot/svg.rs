//! A writer of the few SVG elements that figures need, with escaped text and measured text widths.

use std::fmt::{Display, Write};

use super::style::{Color, INK, WHITE};

/// Advance widths of the characters ' ' to '~' of DejaVu Sans, in 2048ths of the text size.
#[rustfmt::skip]
const ADVANCES: [u16; 95] = [
    651, 821, 942, 1716, 1303, 1946, 1597, 563, 799, 799, 1024, 1716, 651, 739, 651, 690, 1303, 1303, 1303, 1303, 1303,
    1303, 1303, 1303, 1303, 1303, 690, 690, 1716, 1716, 1716, 1087, 2048, 1401, 1405, 1430, 1577, 1294, 1178, 1587,
    1540, 604, 604, 1343, 1141, 1767, 1532, 1612, 1235, 1612, 1423, 1300, 1251, 1499, 1401, 2025, 1403, 1251, 1403, 799,
    690, 799, 1716, 1024, 1024, 1255, 1300, 1126, 1300, 1260, 721, 1300, 1298, 569, 569, 1186, 569, 1995, 1298, 1253,
    1300, 1300, 842, 1067, 803, 1298, 1212, 1675, 1212, 1212, 1075, 1303, 690, 1303, 1716,
];

/// The width of a text in pixels: exact for ASCII (but for kerning), near for other characters.
pub fn text_width(text: &str, size: f64) -> f64 {
    let advance = |c: char| match c {
        ' '..='~' => ADVANCES[c as usize - 32],
        '⁰'..='₎' | '²' | '³' | '¹' => 821,
        '·' => 651,
        '∇' | '×' | '±' | '−' | '≤' | '≥' | '→' => 1716,
        '—' => 2048,
        _ => 1340,
    };
    text.chars().map(|c| f64::from(advance(c))).sum::<f64>() * size / 2048.0
}

/// Breaks a text at spaces into lines no wider than `width` where words permit; an empty text has no line.
pub fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(" ", size) + text_width(word, size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Text with the characters replaced that XML reserves or forbids.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most two decimals.
struct Num(f64);

impl Display for Num {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounded = (self.0 * 100.0).round() / 100.0;
        write!(f, "{}", if rounded.is_finite() { rounded + 0.0 } else { 0.0 })
    }
}

/// Horizontal alignment of a text at its position.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// The text starts there.
    Start,
    /// The text has its middle there.
    Middle,
    /// The text ends there.
    End,
}

/// How a line is drawn.
#[derive(Clone, Copy)]
pub struct Stroke<'a> {
    /// The colour.
    pub color: Color,
    /// The width in pixels.
    pub width: f64,
    /// The dash pattern, if it is not solid.
    pub dash: Option<&'a str>,
}

impl Stroke<'_> {
    /// An unbroken line.
    pub fn solid(color: Color, width: f64) -> Self {
        Self { color, width, dash: None }
    }
}

/// The body of an SVG document under construction.
#[derive(Default)]
pub struct Svg(String);

impl Svg {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(element);
        self.0.push('\n');
    }

    /// The whole document with a white background.
    pub fn document(&self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{WHITE}\"/>\n{}</svg>\n",
            self.0
        )
    }

    /// Text whose vertical middle is at `y`, rotated a quarter turn to the left if `upward`.
    pub fn text(&mut self, (x, y): (f64, f64), text: &str, size: f64, anchor: Anchor, color: Color, upward: bool) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, drop, turn) = (Num(x), Num(y), Num(0.36 * size), if upward { " rotate(-90)" } else { "" });
        let text = escape(text);
        self.put(format_args!(
            "<text transform=\"translate({x} {y}){turn}\" y=\"{drop}\" font-size=\"{size}\" \
             fill=\"{color}\"{anchor}>{text}</text>"
        ));
    }

    /// Several lines of upright text below each other, the first one's middle at `y`.
    pub fn lines(&mut self, (x, y): (f64, f64), lines: &[String], size: f64, anchor: Anchor) {
        for (i, line) in lines.iter().enumerate() {
            self.text((x, y + i as f64 * size * super::style::LEADING), line, size, anchor, INK, false);
        }
    }

    /// A line through the points.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke<'_>) {
        let (path, color, width) = (path([points]), stroke.color, Num(stroke.width));
        let dash = stroke.dash.map(|d| format!(" stroke-dasharray=\"{d}\"")).unwrap_or_default();
        self.put(format_args!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>"
        ));
    }

    /// A filled area bounded by closed lines; a line within another one makes a hole.
    pub fn area<'a>(&mut self, loops: impl IntoIterator<Item = &'a [(f64, f64)]>, color: Color, opacity: f64) {
        let path = path(loops);
        self.put(format_args!(
            "<path d=\"{path}\" fill=\"{color}\" fill-rule=\"evenodd\" fill-opacity=\"{opacity}\"/>"
        ));
    }

    /// A filled shape with a thin white rim.
    pub fn rimmed(&mut self, outline: &[(f64, f64)], color: Color) {
        let path = path([outline]);
        self.put(format_args!("<path d=\"{path}Z\" fill=\"{color}\" stroke=\"{WHITE}\" stroke-width=\"0.8\"/>"));
    }

    /// Translucent dots.
    pub fn dots(&mut self, centres: impl IntoIterator<Item = (f64, f64)>, radius: f64, color: Color, opacity: f64) {
        self.put(format_args!("<g fill=\"{color}\" fill-opacity=\"{opacity}\">"));
        for (x, y) in centres {
            self.put(format_args!("<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>", Num(x), Num(y)));
        }
        self.put(format_args!("</g>"));
    }

    /// Starts a part of the drawing that is cut off at a rectangle, with coordinates as outside of it.
    pub fn begin_clip(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let (x, y, w, h) = (Num(x), Num(y), Num(width), Num(height));
        self.put(format_args!("<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">"));
    }

    /// Ends the part that [`Svg::begin_clip`] started.
    pub fn end_clip(&mut self) {
        self.put(format_args!("</svg>"));
    }
}

/// The path data of lines, each starting anew.
fn path<'a>(lines: impl IntoIterator<Item = &'a [(f64, f64)]>) -> String {
    let mut data = String::new();
    for line in lines {
        for (i, &(x, y)) in line.iter().enumerate() {
            let _ = write!(data, "{}{} {}", if i == 0 { 'M' } else { 'L' }, Num(x), Num(y));
        }
    }
    data
}
