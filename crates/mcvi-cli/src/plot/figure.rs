//! A figure: panels in a grid, laid out so that their frames line up and no text is cut off.

use std::path::Path;

use super::axis::Axis;
use super::draw::Frame;
use super::legend::{Legend, Styles};
use super::output;
use super::panel::Panel;
use super::style::{AXIS_LABEL, FIGURE_TITLE, INK, LEADING, PANEL_TITLE, SMALL};
use super::svg::{Anchor, Svg, text_width, wrap};

/// White space around the figure.
const MARGIN: f64 = 14.0;
/// White space between panels, without their labels.
const BETWEEN: f64 = 18.0;

/// Panels in a grid with a common legend where that is possible.
#[derive(Clone, Debug)]
pub struct Figure {
    title: String,
    columns: usize,
    size: Option<(f64, f64)>,
    panels: Vec<Panel>,
}

impl Figure {
    /// A figure without panels; the title may be empty.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), columns: 1, size: None, panels: Vec::new() }
    }

    /// How many panels stand side by side: one unless set.
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// The size in pixels of every panel's data area, without labels.
    ///
    /// It is 480 by 300 unless set, and less for several columns; from 60 to 4000 either way.
    pub fn panel_size(mut self, width: f64, height: f64) -> Self {
        let known = width.is_finite() && height.is_finite();
        self.size = known.then(|| (width.clamp(60.0, 4000.0), height.clamp(60.0, 4000.0)));
        self
    }

    /// Adds a panel: rows fill from left to right.
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// The figure as an SVG document.
    pub fn to_svg(&self) -> String {
        let styles = Styles::new(&self.panels);
        let columns = self.columns.min(self.panels.len()).max(1);
        let size = self.size.unwrap_or(match columns {
            1 => (480.0, 300.0),
            2 => (330.0, 240.0),
            _ => (250.0, 200.0),
        });

        let common = Legend::new(&self.panels, &styles, f64::INFINITY).len();
        let most = self.panels.chunks(1).map(|panel| Legend::new(panel, &styles, f64::INFINITY).len()).max();
        let shared = self.panels.len() > 1 && Some(common) == most;
        let cells: Vec<Cell<'_>> = self.panels.iter().map(|panel| Cell::new(panel, &styles, size, shared)).collect();
        let rows: Vec<&[Cell<'_>]> = cells.chunks(columns).collect();

        let sides: Vec<(f64, f64)> = (0..columns)
            .map(|c| {
                let column = || rows.iter().filter_map(|row| row.get(c));
                (greatest(column().map(Cell::left)), greatest(column().map(Cell::right)))
            })
            .collect();
        let between = BETWEEN * (columns - 1) as f64;
        let inner = sides.iter().map(|(left, right)| left + size.0 + right).sum::<f64>() + between;
        let title = wrap(&self.title, FIGURE_TITLE, inner);
        let legend = Legend::new(if shared { &self.panels } else { &[] }, &styles, inner);
        // Nothing but a single long word can be wider than the panels.
        let title_width = greatest(title.iter().map(|line| text_width(line, FIGURE_TITLE)));
        let inner = inner.max(title_width).max(legend.width());

        let mut svg = Svg::default();
        let mut y = MARGIN;
        svg.lines((MARGIN + inner / 2.0, y + 0.5 * FIGURE_TITLE), &title, FIGURE_TITLE, Anchor::Middle);
        y += block(&title, FIGURE_TITLE, 8.0);
        legend.draw(&mut svg, MARGIN + (inner - legend.width()) / 2.0, y);
        y += if legend.len() > 0 { legend.height() + 4.0 } else { 0.0 };
        for (r, row) in rows.iter().enumerate() {
            let title = greatest(row.iter().map(|cell| block(&cell.title, PANEL_TITLE, 5.0)));
            let legend = greatest(row.iter().map(|cell| cell.legend.height()));
            let top = y + title + legend + 4.0;
            let mut x = MARGIN;
            for (cell, (left, right)) in row.iter().zip(&sides) {
                let lower = y + title - block(&cell.title, PANEL_TITLE, 5.0) + 0.5 * PANEL_TITLE;
                svg.lines((x + left, lower), &cell.title, PANEL_TITLE, Anchor::Start);
                cell.legend.draw(&mut svg, x + left, y + title);
                cell.draw(&mut svg, &styles, x + left, top);
                x += left + size.0 + right + BETWEEN;
            }
            y = top + size.1 + greatest(row.iter().map(Cell::bottom)) + if r + 1 < rows.len() { BETWEEN } else { 0.0 };
        }
        svg.document((inner + 2.0 * MARGIN).ceil(), (y + MARGIN).ceil())
    }

    /// The figure as a PNG image with two pixels for each of the SVG's.
    pub fn to_png(&self) -> std::io::Result<Vec<u8>> {
        output::png(&self.to_svg())
    }

    /// Writes `path` with `.svg` and with `.png` appended, each atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        let (svg, path) = (self.to_svg(), path.as_ref());
        output::write(path, "svg", svg.as_bytes())?;
        output::write(path, "png", &output::png(&svg)?)
    }
}

/// A panel with everything that decides how much space it needs around its frame.
struct Cell<'a> {
    panel: &'a Panel,
    size: (f64, f64),
    x: Axis,
    y: Axis,
    title: Vec<String>,
    x_label: Vec<String>,
    y_label: Vec<String>,
    legend: Legend<'a>,
}

impl<'a> Cell<'a> {
    fn new(panel: &'a Panel, styles: &Styles<'_>, size: (f64, f64), shared: bool) -> Self {
        let (mut x, mut y) = panel.axes();
        let [of_x, of_y] = panel.named_ticks();
        match of_x {
            Some(ticks) => x.set_custom_ticks(ticks),
            None => x.set_ticks(size.0, 42.0, 14.0, |label| text_width(label, SMALL)),
        }
        match of_y {
            Some(ticks) => y.set_custom_ticks(ticks),
            None => y.set_ticks(size.1, 36.0, 14.0, |_| SMALL),
        }
        let legend = Legend::new(if shared { &[] } else { std::slice::from_ref(panel) }, styles, size.0);
        Self {
            panel,
            size,
            x,
            y,
            title: wrap(&panel.title, PANEL_TITLE, size.0),
            x_label: wrap(&panel.x_label, AXIS_LABEL, size.0),
            y_label: wrap(&panel.y_label, AXIS_LABEL, size.1),
            legend,
        }
    }

    /// The width of the labels at the left of the frame.
    fn left(&self) -> f64 {
        self.tick_width() + block(&self.y_label, AXIS_LABEL, 6.0)
    }

    fn tick_width(&self) -> f64 {
        greatest(self.y.ticks.iter().map(|(_, label)| text_width(label, SMALL))) + 8.0
    }

    /// How far labels, title and legend stick out at the right of the frame.
    fn right(&self) -> f64 {
        let half = |(value, label): &(f64, String)| {
            self.x.place(*value).unwrap_or(0.0) * self.size.0 + text_width(label, SMALL) / 2.0
        };
        let title = self.title.iter().map(|line| text_width(line, PANEL_TITLE));
        let reach = self.x.ticks.iter().map(half).chain(title).chain([self.legend.width()]);
        greatest(reach.map(|reach| reach - self.size.0))
    }

    /// The height of the labels below the frame.
    fn bottom(&self) -> f64 {
        6.0 + SMALL + 2.0 + block(&self.x_label, AXIS_LABEL, 6.0)
    }

    /// Draws the frame with its upper left corner at a point, and the labels around it.
    fn draw(&self, svg: &mut Svg, styles: &Styles<'_>, left: f64, top: f64) {
        let (width, height) = self.size;
        let frame = Frame { left, top, width, height, x: &self.x, y: &self.y };
        frame.draw_axes(svg);
        frame.draw_series(svg, self.panel, styles);
        let below = top + height + 6.0 + SMALL + 8.0 + 0.5 * AXIS_LABEL;
        svg.lines((left + width / 2.0, below), &self.x_label, AXIS_LABEL, Anchor::Middle);
        for (i, line) in self.y_label.iter().rev().enumerate() {
            let x = left - self.tick_width() - 6.0 - (i as f64 + 0.5) * AXIS_LABEL * LEADING;
            svg.text((x, top + height / 2.0), line, AXIS_LABEL, Anchor::Middle, INK, true);
        }
    }
}

/// The height of lines of text with a gap below; zero without lines.
fn block(lines: &[String], size: f64, gap: f64) -> f64 {
    if lines.is_empty() { 0.0 } else { lines.len() as f64 * size * LEADING + gap }
}

/// The greatest of some lengths, zero without any.
fn greatest(lengths: impl Iterator<Item = f64>) -> f64 {
    lengths.fold(0.0, f64::max)
}
