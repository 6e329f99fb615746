//! The style of every label in a figure, and the legends that show it.

use super::draw::marker;
use super::panel::{Kind, Panel, Series};
use super::style::{Color, LEADING, REFERENCE, SMALL, dash};
use super::svg::{Anchor, Stroke, Svg, text_width};

const SWATCH: f64 = 24.0;
const DOT: f64 = 10.0;
const GAP: f64 = 7.0;
const BETWEEN: f64 = 20.0;
const ROW: f64 = SMALL * LEADING + 2.0;

/// The labels of a figure in the order of their first use; a label's place decides its colour.
pub struct Styles<'a> {
    coloured: Vec<&'a str>,
    references: Vec<&'a str>,
}

/// The style of one series.
#[derive(Clone, Copy)]
pub struct SeriesStyle {
    /// The colour, for contours that of the middle level.
    pub color: Color,
    /// The slot of the palette, which also decides the shape of markers.
    pub slot: usize,
    /// The dash pattern of a line that is not solid.
    pub dash: Option<&'static str>,
}

impl<'a> Styles<'a> {
    /// The styles of all labels in some panels.
    pub fn new(panels: &'a [Panel]) -> Self {
        let labels = |coloured| {
            let series = panels.iter().flat_map(|panel| &panel.series);
            distinct(series.filter(|s| s.kind.coloured() == coloured && !s.label.is_empty()).map(|s| s.label.as_str()))
        };
        Self { coloured: labels(true), references: labels(false) }
    }

    /// The style of a series, which may have no label, as the `index`-th of its panel.
    pub fn of(&self, series: &Series, index: usize) -> SeriesStyle {
        let find = |labels: &[&str]| labels.iter().position(|label| *label == series.label).unwrap_or(index);
        if series.kind.coloured() {
            let slot = series.color.unwrap_or_else(|| find(&self.coloured));
            SeriesStyle { color: Color::of(slot), slot, dash: series.dashed.then(|| dash(0)) }
        } else {
            let slot = find(&self.references);
            SeriesStyle { color: series.color.map_or(REFERENCE, Color::of), slot, dash: Some(dash(slot)) }
        }
    }
}

fn distinct<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    labels.fold(Vec::new(), |mut seen, label| {
        if !seen.contains(&label) {
            seen.push(label);
        }
        seen
    })
}

/// A legend: labels with the series that they stand for, in rows.
pub struct Legend<'a> {
    rows: Vec<Vec<Entry<'a>>>,
}

struct Entry<'a> {
    label: &'a str,
    series: Vec<(&'a Series, SeriesStyle)>,
}

impl Entry<'_> {
    /// The width of the sample, less for one that is a single dot.
    fn swatch(&self) -> f64 {
        let dot = |s: &Series| matches!(s.kind, Kind::Points(_) | Kind::Errors(_));
        if self.series.iter().all(|(series, _)| dot(series)) { DOT } else { SWATCH }
    }

    fn width(&self) -> f64 {
        self.swatch() + GAP + text_width(self.label, SMALL)
    }
}

impl<'a> Legend<'a> {
    /// The legend of some panels, its rows about as wide as `width`.
    pub fn new(panels: &'a [Panel], styles: &Styles<'_>, width: f64) -> Self {
        let all = || panels.iter().flat_map(|panel| panel.series.iter().enumerate());
        let labels = distinct(all().map(|(_, series)| series.label.as_str()).filter(|label| !label.is_empty()));
        let mut rows: Vec<Vec<Entry<'a>>> = Vec::new();
        let mut used = 0.0;
        for label in labels {
            // Of the series with this label one of each kind is enough.
            let mut series: Vec<(&Series, SeriesStyle)> = Vec::new();
            for (index, candidate) in all().filter(|(_, series)| series.label == label) {
                let same = |s: &Series| std::mem::discriminant(&s.kind) == std::mem::discriminant(&candidate.kind);
                if !series.iter().any(|(s, _)| same(s)) {
                    series.push((candidate, styles.of(candidate, index)));
                }
            }
            let entry = Entry { label, series };
            used += BETWEEN + entry.width();
            match rows.last_mut() {
                Some(row) if used <= width => row.push(entry),
                _ => {
                    used = entry.width();
                    rows.push(vec![entry]);
                }
            }
        }
        Self { rows }
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// The height with the space below; zero without labels.
    pub fn height(&self) -> f64 {
        if self.rows.is_empty() { 0.0 } else { self.rows.len() as f64 * ROW + 6.0 }
    }

    /// The width of the widest row.
    pub fn width(&self) -> f64 {
        let width = |row: &Vec<Entry<'_>>| row.iter().map(|entry| entry.width() + BETWEEN).sum::<f64>() - BETWEEN;
        self.rows.iter().map(width).fold(0.0, f64::max)
    }

    /// Draws the legend with its upper left corner at a point.
    pub fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        for (i, row) in self.rows.iter().enumerate() {
            let y = top + (i as f64 + 0.5) * ROW;
            let mut x = left;
            for entry in row {
                entry
                    .series
                    .iter()
                    .for_each(|(series, style)| draw_swatch(svg, series, *style, (x, y), entry.swatch()));
                svg.text((x + entry.swatch() + GAP, y), entry.label, SMALL, Anchor::Start, super::style::INK, false);
                x += entry.width() + BETWEEN;
            }
        }
    }
}

/// Draws a sample of a series, its left end at a point.
fn draw_swatch(svg: &mut Svg, series: &Series, style: SeriesStyle, (x, y): (f64, f64), width: f64) {
    let (right, middle) = (x + width, x + width / 2.0);
    let corners = |half: f64| [(x, y - half), (right, y - half), (right, y + half), (x, y + half)];
    let stroke = Stroke { color: style.color, width: 1.8, dash: style.dash };
    match &series.kind {
        Kind::Line(_) | Kind::Horizontal(_) => {
            svg.polyline(&[(x, y), (right, y)], stroke);
            if series.markers {
                marker(svg, (middle, y), style);
            }
        }
        Kind::Points(_) => svg.dots([(middle, y)], 3.0, style.color, 0.8),
        Kind::Errors(_) => {
            svg.polyline(&[(middle, y - 7.0), (middle, y + 7.0)], Stroke::solid(style.color, 1.4));
            marker(svg, (middle, y), style);
        }
        Kind::Band(_) => svg.area([&corners(5.0)[..]], style.color, 0.2),
        Kind::Contours(..) if series.filled => svg.area([&corners(5.0)[..]], style.color.area(0.7), 1.0),
        Kind::Contours(..) => svg.polyline(&[(x, y), (right, y)], stroke),
    }
}
