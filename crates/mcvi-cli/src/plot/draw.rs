//! Drawing of a panel's inside: grid, axis lines, tick labels and the series.

use super::axis::Axis;
use super::contour::Grid;
use super::legend::{SeriesStyle, Styles};
use super::panel::{Kind, Panel, Series};
use super::style::{CAP, DODGE, GRID, MUTED, SMALL, SPINE};
use super::svg::{Anchor, Stroke, Svg};

type Point = (f64, f64);

/// The rectangle of a panel on the page, with the axes along its sides.
pub struct Frame<'a> {
    /// The page's x of the left side.
    pub left: f64,
    /// The page's y of the upper side.
    pub top: f64,
    /// The width on the page.
    pub width: f64,
    /// The height on the page.
    pub height: f64,
    /// The axis along the lower side.
    pub x: &'a Axis,
    /// The axis along the left side.
    pub y: &'a Axis,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> Option<f64> {
        Some(self.left + self.width * self.x.place(value)?)
    }

    fn y(&self, value: f64) -> Option<f64> {
        Some(self.top + self.height * (1.0 - self.y.place(value)?))
    }

    fn at(&self, (x, y): Point) -> Option<Point> {
        Some((self.x(x)?, self.y(y)?))
    }

    /// Where a point is on the page, unless it is outside the frame.
    fn inside(&self, (x, y): Point) -> Option<Point> {
        if self.x.contains(x) && self.y.contains(y) { self.at((x, y)) } else { None }
    }

    /// Draws the grid, the axis lines and the tick labels.
    pub fn draw_axes(&self, svg: &mut Svg) {
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        for (value, label) in &self.x.ticks {
            if let Some(x) = self.x(*value) {
                svg.polyline(&[(x, self.top), (x, bottom)], Stroke::solid(GRID, 1.0));
                svg.text((x, bottom + 6.0 + SMALL / 2.0), label, SMALL, Anchor::Middle, MUTED, false);
            }
        }
        for (value, label) in &self.y.ticks {
            if let Some(y) = self.y(*value) {
                svg.polyline(&[(self.left, y), (right, y)], Stroke::solid(GRID, 1.0));
                svg.text((self.left - 7.0, y), label, SMALL, Anchor::End, MUTED, false);
            }
        }
    }

    /// Draws the series: areas first, then lines, both cut off at the frame, then the axis lines and the markers.
    pub fn draw_series(&self, svg: &mut Svg, panel: &Panel, styles: &Styles<'_>) {
        let series = || panel.series.iter().enumerate().map(|(i, s)| (s, styles.of(s, i)));
        svg.begin_clip(self.left - 1.0, self.top - 1.0, self.width + 2.0, self.height + 2.0);
        series().for_each(|(series, style)| self.draw_areas(svg, series, style));
        series().for_each(|(series, style)| self.draw_lines(svg, series, style));
        svg.end_clip();
        let bottom = self.top + self.height;
        let corner = [(self.left, self.top), (self.left, bottom), (self.left + self.width, bottom)];
        svg.polyline(&corner, Stroke::solid(SPINE, 1.0));
        series().for_each(|(series, style)| self.draw_marks(svg, series, style, shift(panel, series)));
        if !panel.series.iter().any(|series| self.shows(&series.kind)) {
            let centre = (self.left + self.width / 2.0, self.top + self.height / 2.0);
            svg.text(centre, "no data", SMALL, Anchor::Middle, MUTED, false);
        }
    }

    fn draw_areas(&self, svg: &mut Svg, series: &Series, style: SeriesStyle) {
        match &series.kind {
            Kind::Band(bounds) => {
                let both = |&(x, lo, hi): &(f64, f64, f64)| Some([self.at((x, lo))?, self.at((x, hi))?]);
                for run in runs(bounds.iter().map(both)) {
                    let outline: Vec<Point> = run.iter().map(|p| p[0]).chain(run.iter().rev().map(|p| p[1])).collect();
                    svg.area([&outline[..]], style.color, 0.2);
                }
            }
            Kind::Contours(grid, levels) if series.filled => {
                for (level, rank) in ranked(levels) {
                    let loops = self.contour_lines(grid.region(level));
                    svg.area(loops.iter().map(Vec::as_slice), style.color.area(rank), 1.0);
                }
            }
            _ => {}
        }
    }

    fn draw_lines(&self, svg: &mut Svg, series: &Series, style: SeriesStyle) {
        let stroke = |color, width| Stroke { color, width, dash: style.dash };
        match &series.kind {
            Kind::Line(points) => {
                for run in runs(points.iter().map(|p| self.at(*p))) {
                    svg.polyline(&run, stroke(style.color, 1.8));
                }
            }
            Kind::Horizontal(y) => {
                if let Some(y) = self.y(*y) {
                    svg.polyline(&[(self.left, y), (self.left + self.width, y)], stroke(style.color, 1.4));
                }
            }
            Kind::Contours(grid, levels) => {
                for (level, rank) in ranked(levels) {
                    for line in self.contour_lines(grid.contour(level)) {
                        svg.polyline(&line, stroke(style.color.contour(rank), if series.filled { 0.8 } else { 1.4 }));
                    }
                }
            }
            Kind::Points(_) | Kind::Errors(_) | Kind::Band(_) => {}
        }
    }

    fn draw_marks(&self, svg: &mut Svg, series: &Series, style: SeriesStyle, shift: f64) {
        match &series.kind {
            Kind::Points(points) => svg.dots(points.iter().filter_map(|p| self.inside(*p)), 2.0, style.color, 0.45),
            Kind::Line(points) => {
                // A point without neighbours would not be seen as a line.
                let alone = runs(points.iter().map(|p| self.at(*p).map(|_| *p))).into_iter().filter(|r| r.len() == 1);
                let alone: Vec<Point> = alone.flatten().collect();
                let marked = if series.markers { points } else { &alone };
                marked.iter().filter_map(|p| self.inside(*p)).for_each(|at| marker(svg, at, style));
            }
            Kind::Errors(points) => {
                for &(x, y, se) in points {
                    let Some(at) = self.x(x).filter(|_| self.x.contains(x)).map(|x| x + shift) else { continue };
                    self.draw_bar(svg, at, (y - 2.0 * se.abs(), y + 2.0 * se.abs()), style);
                    if let Some((_, y)) = self.inside((x, y)) {
                        marker(svg, (at, y), style);
                    }
                }
            }
            Kind::Band(_) | Kind::Horizontal(_) | Kind::Contours(..) => {}
        }
    }

    /// Draws an error bar with caps at those of its ends that are inside the frame.
    fn draw_bar(&self, svg: &mut Svg, x: f64, (lo, hi): (f64, f64), style: SeriesStyle) {
        let (Some(lower), Some(upper)) = (self.y(lo), self.y(hi)) else { return };
        let (top, bottom) = (self.top, self.top + self.height);
        if upper > bottom || lower < top {
            return;
        }
        let stroke = Stroke::solid(style.color, 1.4);
        svg.polyline(&[(x, lower.min(bottom)), (x, upper.max(top))], stroke);
        for end in [lower, upper].into_iter().filter(|end| (top..=bottom).contains(end)) {
            svg.polyline(&[(x - CAP, end), (x + CAP, end)], stroke);
        }
    }

    fn contour_lines(&self, lines: Vec<Vec<Point>>) -> Vec<Vec<Point>> {
        lines.into_iter().map(|line| line.into_iter().filter_map(|p| self.at(p)).collect()).collect()
    }

    /// Whether something of a series can be drawn at all.
    fn shows(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Line(points) | Kind::Points(points) => points.iter().any(|p| self.at(*p).is_some()),
            Kind::Errors(points) => points.iter().any(|&(x, y, _)| self.at((x, y)).is_some()),
            Kind::Band(bounds) => bounds.iter().any(|&(x, lo, hi)| self.at((x, lo)).and(self.at((x, hi))).is_some()),
            Kind::Horizontal(y) => self.y(*y).is_some(),
            Kind::Contours(Grid { x, y, values }, _) => !values.is_empty() && values.len() == x.len() * y.len(),
        }
    }
}

/// Draws a marker, whose shape depends on the slot so that it can be told apart without colours.
pub fn marker(svg: &mut Svg, (x, y): Point, style: SeriesStyle) {
    let polygon = |corners: u32, radius: f64, turn: f64| -> Vec<Point> {
        let angle = |k: u32| std::f64::consts::TAU * (f64::from(k) / f64::from(corners) + turn);
        (0..corners).map(|k| (x + radius * angle(k).sin(), y - radius * angle(k).cos())).collect()
    };
    let outline = match style.slot % 4 {
        0 => polygon(24, 3.8, 0.0),
        1 => polygon(4, 4.8, 0.125),
        2 => polygon(3, 5.0, 0.0),
        _ => polygon(4, 4.8, 0.0),
    };
    svg.rimmed(&outline, style.color);
}

/// The horizontal shift of a series with error bars that stands beside others at the same x. Among lines there is
/// none: points should lie on them.
fn shift(panel: &Panel, series: &Series) -> f64 {
    if panel.series.iter().any(|s| matches!(s.kind, Kind::Line { .. })) {
        return 0.0;
    }
    let xs = |s: &Series| -> Vec<f64> {
        if let Kind::Errors(points) = &s.kind { points.iter().map(|p| p.0).collect() } else { Vec::new() }
    };
    let own = xs(series);
    let beside: Vec<&Series> = panel.series.iter().filter(|s| xs(s).iter().any(|x| own.contains(x))).collect();
    let place = beside.iter().position(|s| std::ptr::eq(*s, series)).unwrap_or(0);
    (place as f64 - 0.5 * beside.len().saturating_sub(1) as f64) * DODGE
}

/// Levels with their ranks from 0 to 1; a single one has the middle rank.
fn ranked(levels: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let last = levels.len().saturating_sub(1);
    levels.iter().enumerate().map(move |(i, &level)| (level, if last == 0 { 0.5 } else { i as f64 / last as f64 }))
}

/// The runs of neighbouring items that exist.
fn runs<T>(items: impl Iterator<Item = Option<T>>) -> Vec<Vec<T>> {
    let mut runs = vec![Vec::new()];
    for item in items {
        match (item, runs.last_mut()) {
            (Some(item), Some(run)) => run.push(item),
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}
