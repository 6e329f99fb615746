//! The style of the figures: palette, greys, text sizes, spacings and the tints of contour levels.

/// Colour of titles and axis labels.
pub const INK: Color = Color(0x22, 0x22, 0x22);
/// Colour of tick labels and of remarks.
pub const MUTED: Color = Color(0x55, 0x55, 0x55);
/// Colour of reference lines.
pub const REFERENCE: Color = Color(0x44, 0x44, 0x44);
/// Colour of the axis lines.
pub const SPINE: Color = Color(0x99, 0x99, 0x99);
/// Colour of the grid behind the data.
pub const GRID: Color = Color(0xe8, 0xe8, 0xe8);
/// Background, and rim of the markers.
pub const WHITE: Color = Color(0xff, 0xff, 0xff);

/// Text size of the figure's title.
pub const FIGURE_TITLE: f64 = 16.0;
/// Text size of a panel's title.
pub const PANEL_TITLE: f64 = 14.0;
/// Text size of the axis labels.
pub const AXIS_LABEL: f64 = 13.0;
/// Text size of tick labels and legends.
pub const SMALL: f64 = 12.0;
/// Height of a line of text in units of its size.
pub const LEADING: f64 = 1.3;

/// Half width of the caps of error bars.
pub const CAP: f64 = 3.0;
/// Horizontal distance of error bars that would stand at the same x.
pub const DODGE: f64 = 7.0;

/// Okabe and Ito's palette without its yellow, which is too pale for lines on white.
const PALETTE: [Color; 7] = [
    Color(0x00, 0x72, 0xb2),
    Color(0xd5, 0x5e, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xcc, 0x79, 0xa7),
    Color(0xe6, 0x9f, 0x00),
    Color(0x56, 0xb4, 0xe9),
    Color(0x33, 0x33, 0x33),
];

/// Dash patterns of dashed curves (the first) and of reference lines, by their order.
const DASHES: [&str; 4] = ["6 4", "1.5 3", "8 3 1.5 3", "12 4"];

/// An opaque sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Color(pub u8, pub u8, pub u8);

impl Color {
    /// The palette's colour for a slot; slots beyond the palette start over.
    pub fn of(slot: usize) -> Self {
        PALETTE[slot % PALETTE.len()]
    }

    /// The mixture with a share of another colour.
    pub fn mix(self, other: Self, share: f64) -> Self {
        let channel = |a: u8, b: u8| (f64::from(a) + share * (f64::from(b) - f64::from(a))).round() as u8;
        Self(channel(self.0, other.0), channel(self.1, other.1), channel(self.2, other.2))
    }

    /// The colour of a contour line whose level has a rank from 0 (lowest, pale) to 1 (highest, dark).
    pub fn contour(self, rank: f64) -> Self {
        if rank < 0.5 { self.mix(WHITE, 0.5 - rank) } else { self.mix(INK, rank - 0.5) }
    }

    /// The colour of the area above a contour level of that rank.
    pub fn area(self, rank: f64) -> Self {
        self.mix(WHITE, 0.88 - 0.6 * rank)
    }
}

impl std::fmt::Display for Color {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// The dash pattern for a slot, as SVG writes it.
pub fn dash(slot: usize) -> &'static str {
    DASHES[slot % DASHES.len()]
}
