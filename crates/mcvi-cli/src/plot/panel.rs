//! A panel: its series, labels, ranges and the options of its axes.

use super::axis::Axis;
use super::contour::Grid;

/// One pair of axes with series; the options [`dashed`](Panel::dashed), [`markers`](Panel::markers),
/// [`filled`](Panel::filled) and [`color`](Panel::color) apply to the series added last.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) series: Vec<Series>,
    x_range: Option<(f64, f64)>,
    y_range: Option<(f64, f64)>,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    log_x: bool,
    log_y: bool,
}

/// Data of a panel with the way to draw it.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it; nothing if empty.
    pub label: String,
    /// The data.
    pub kind: Kind,
    /// The slot of the palette, if chosen.
    pub color: Option<usize>,
    /// Whether lines are dashed.
    pub dashed: bool,
    /// Whether a line's points are marked.
    pub markers: bool,
    /// Whether the areas above contour levels are filled.
    pub filled: bool,
}

/// What a series shows.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A curve through points.
    Line(Vec<(f64, f64)>),
    /// Separate dots.
    Points(Vec<(f64, f64)>),
    /// Points with their standard errors.
    Errors(Vec<(f64, f64, f64)>),
    /// For each x a lower and an upper y.
    Band(Vec<(f64, f64, f64)>),
    /// A reference line at a y.
    Horizontal(f64),
    /// A grid and its levels, ascending.
    Contours(Grid, Vec<f64>),
}

impl Panel {
    /// An empty panel; the title may be empty, too.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Names the x axis.
    pub fn x_label(mut self, label: impl Into<String>) -> Self {
        self.x_label = label.into();
        self
    }

    /// Names the y axis.
    pub fn y_label(mut self, label: impl Into<String>) -> Self {
        self.y_label = label.into();
        self
    }

    /// Fixes the ends of the x axis, which else has the range of the data with a small margin.
    pub fn x_range(mut self, from: f64, to: f64) -> Self {
        self.x_range = Some((from, to));
        self
    }

    /// Fixes the ends of the y axis, which else has the range of the data shown with a small margin.
    pub fn y_range(mut self, from: f64, to: f64) -> Self {
        self.y_range = Some((from, to));
        self
    }

    /// Puts named ticks on the x axis instead of numbers.
    pub fn x_ticks(mut self, ticks: &[(f64, &str)]) -> Self {
        self.x_ticks = ticks.iter().map(|&(at, name)| (at, name.to_owned())).collect();
        self
    }

    /// Puts named ticks on the y axis instead of numbers.
    pub fn y_ticks(mut self, ticks: &[(f64, &str)]) -> Self {
        self.y_ticks = ticks.iter().map(|&(at, name)| (at, name.to_owned())).collect();
        self
    }

    /// Makes the x axis logarithmic.
    pub fn log_x(mut self) -> Self {
        self.log_x = true;
        self
    }

    /// Makes the y axis logarithmic.
    pub fn log_y(mut self) -> Self {
        self.log_y = true;
        self
    }

    /// Adds a curve through points.
    pub fn line(self, label: impl Into<String>, points: &[(f64, f64)]) -> Self {
        self.add(label.into(), Kind::Line(points.to_vec()))
    }

    /// Adds small translucent dots.
    pub fn points(self, label: impl Into<String>, points: &[(f64, f64)]) -> Self {
        self.add(label.into(), Kind::Points(points.to_vec()))
    }

    /// Adds points `(x, y, standard error)` with bars of two standard errors either way.
    ///
    /// Bars of several such series that share an x stand side by side.
    pub fn errors(self, label: impl Into<String>, points: &[(f64, f64, f64)]) -> Self {
        self.add(label.into(), Kind::Errors(points.to_vec()))
    }

    /// Adds a shaded band through `(x, lower, upper)`; a line of the same label has the same colour.
    pub fn band(self, label: impl Into<String>, bounds: &[(f64, f64, f64)]) -> Self {
        self.add(label.into(), Kind::Band(bounds.to_vec()))
    }

    /// Adds a dashed reference line across the panel.
    pub fn horizontal(self, label: impl Into<String>, y: f64) -> Self {
        self.add(label.into(), Kind::Horizontal(y))
    }

    /// Adds contour lines of a function, the higher the level the darker; automatic axes end where the grid ends.
    pub fn contours(self, label: impl Into<String>, grid: &Grid, levels: &[f64]) -> Self {
        let mut levels: Vec<f64> = levels.iter().copied().filter(|level| level.is_finite()).collect();
        levels.sort_by(f64::total_cmp);
        self.add(label.into(), Kind::Contours(grid.clone(), levels))
    }

    /// Draws the last curve or the last contour lines dashed.
    pub fn dashed(self) -> Self {
        self.change(|series| series.dashed = true)
    }

    /// Marks the points of the last curve.
    pub fn markers(self) -> Self {
        self.change(|series| series.markers = true)
    }

    /// Fills the areas between the last contour lines.
    pub fn filled(self) -> Self {
        self.change(|series| series.filled = true)
    }

    /// Gives the last series the palette's colour of a slot (0 blue, 1 vermilion, 2 green, 3 purple, 4 orange,
    /// 5 sky blue, 6 black, then over again) instead of the next free one.
    pub fn color(self, slot: usize) -> Self {
        self.change(|series| series.color = Some(slot))
    }

    fn add(mut self, label: String, kind: Kind) -> Self {
        self.series.push(Series { label, kind, color: None, dashed: false, markers: false, filled: false });
        self
    }

    fn change(mut self, option: impl FnOnce(&mut Series)) -> Self {
        if let Some(last) = self.series.last_mut() {
            option(last);
        }
        self
    }

    /// Both axes, still without ticks.
    pub(super) fn axes(&self) -> (Axis, Axis) {
        let bounds = || self.series.iter().flat_map(|series| series.kind.bounds());
        let grids =
            || self.series.iter().filter_map(|s| if let Kind::Contours(grid, _) = &s.kind { Some(grid) } else { None });
        let (x_grid, y_grid) = (extent(grids().flat_map(|g| &g.x)), extent(grids().flat_map(|g| &g.y)));
        let x = Axis::new(self.x_range.or(x_grid), self.log_x, bounds().filter_map(|(x, _)| x));
        let shown = bounds().filter(|(at, _)| self.x_range.is_none() || at.is_none_or(|at| x.contains(at)));
        let y = Axis::new(self.y_range.or(y_grid), self.log_y, shown.map(|(_, y)| y));
        (x, y)
    }

    /// The named ticks of the x axis and of the y axis, if there are any.
    pub(super) fn named_ticks(&self) -> [Option<&[(f64, String)]>; 2] {
        [&self.x_ticks, &self.y_ticks].map(|ticks| (!ticks.is_empty()).then_some(&ticks[..]))
    }
}

/// The ends of some positions, if there are any.
fn extent<'a>(positions: impl Iterator<Item = &'a f64>) -> Option<(f64, f64)> {
    positions.fold(None, |ends, &p| Some(ends.map_or((p, p), |(lo, hi): (f64, f64)| (lo.min(p), hi.max(p)))))
}

impl Kind {
    /// The points that the axes should reach with a margin, without an x where any will do.
    fn bounds(&self) -> Vec<(Option<f64>, f64)> {
        match self {
            Self::Line(points) | Self::Points(points) => points.iter().map(|&(x, y)| (Some(x), y)).collect(),
            Self::Errors(points) => {
                points.iter().flat_map(|&(x, y, se)| [y - 2.0 * se, y, y + 2.0 * se].map(|y| (Some(x), y))).collect()
            }
            Self::Band(bounds) => bounds.iter().flat_map(|&(x, lo, hi)| [lo, hi].map(|y| (Some(x), y))).collect(),
            Self::Horizontal(y) => vec![(None, *y)],
            Self::Contours(..) => Vec::new(),
        }
    }

    /// Whether a series of this kind has a colour of the palette unless given one.
    pub fn coloured(&self) -> bool {
        !matches!(self, Self::Horizontal(_))
    }
}
