//! Figures of a paper as SVG and PNG: grids of panels with lines, points, error bars, bands and contours.
//!
//! A [`Figure`] is a grid of [`Panel`]s, a panel holds series added in drawing order, and every series has a legend
//! label, which may be empty. A label has one colour in all the panels of a figure, and the legend is drawn once above
//! the panels if one panel has all the labels, else above each panel: never over the data.
//!
//! ```ignore
//! Figure::new("Evidence lower bound")
//!     .panel(Panel::new("").x_label("iteration").y_label("ELBO").line("HMC, T = 4", &curve).horizontal("log p(x)", 1.3))
//!     .save("out/elbo")?;
//! ```
//!
//! [`Tiles`] lays out small images beside each other.
//!
//! Values that are not finite (or not positive on a logarithmic axis) are left out, and a line breaks there.

mod axis;
mod contour;
mod draw;
mod figure;
mod legend;
mod output;
mod panel;
mod style;
mod svg;
#[cfg(test)]
mod tests;
mod tiles;

pub use contour::Grid;
pub use figure::Figure;
pub use panel::Panel;
pub use tiles::{NOTHING, Tiles};
