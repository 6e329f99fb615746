//! Contours of a function on a grid: marching squares with linear interpolation, joined into lines.

use std::collections::BTreeMap;

/// Values of a function on a rectangular grid; one whose lengths do not fit together is drawn as empty.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Positions along the x axis, monotone.
    pub x: Vec<f64>,
    /// Positions along the y axis, monotone.
    pub y: Vec<f64>,
    /// Values in rows of equal y: `values[j * x.len() + i]` is the one at `(x[i], y[j])`.
    pub values: Vec<f64>,
}

impl Grid {
    /// The values of a function at `n` by `n` evenly spaced points, the ends of both ranges included.
    pub fn tabulate(x: (f64, f64), y: (f64, f64), n: usize, f: impl Fn(f64, f64) -> f64) -> Self {
        let spaced = |(lo, hi): (f64, f64)| -> Vec<f64> {
            (0..n).map(|i| lo + (hi - lo) * i as f64 / n.saturating_sub(1).max(1) as f64).collect()
        };
        let (x, y) = (spaced(x), spaced(y));
        let values = y.iter().flat_map(|&y| x.iter().map(move |&x| (x, y))).map(|(x, y)| f(x, y)).collect();
        Self { x, y, values }
    }

    /// `n` levels evenly spaced between the lowest and the highest finite value, both excluded.
    pub fn levels(&self, n: usize) -> Vec<f64> {
        let finite = self.values.iter().filter(|v| v.is_finite());
        let (lo, hi) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &v| (lo.min(v), hi.max(v)));
        if lo < hi { (1..=n).map(|i| lo + (hi - lo) * i as f64 / (n + 1) as f64).collect() } else { Vec::new() }
    }

    /// The levels of a density on an evenly spaced grid whose contours enclose the given shares of its mass.
    pub fn mass_levels(&self, shares: &[f64]) -> Vec<f64> {
        let mut densities: Vec<f64> = self.values.iter().copied().filter(|v| v.is_finite() && *v > 0.0).collect();
        densities.sort_by(|a, b| b.total_cmp(a));
        let total: f64 = densities.iter().sum();
        let level = |&share: &f64| {
            let mut mass = 0.0;
            densities.iter().copied().find(|density| {
                mass += density;
                mass >= share * total
            })
        };
        shares.iter().filter_map(level).collect()
    }

    /// The lines where the function has a value; closed ones end at the point where they start.
    ///
    /// Lines end at the edge of the grid and at values that are not a number.
    pub fn contour(&self, level: f64) -> Vec<Vec<(f64, f64)>> {
        let (nx, ny) = (self.x.len(), self.y.len());
        if self.values.len() != nx * ny || !level.is_finite() {
            return Vec::new();
        }
        let mut links = Links::default();
        for j in 0..ny.saturating_sub(1) {
            for i in 0..nx.saturating_sub(1) {
                // Corners and sides counter-clockwise from the lower left corner and the lower side.
                let corner = j * nx + i;
                let values = [corner, corner + 1, corner + nx + 1, corner + nx].map(|k| self.values[k]);
                if values.iter().any(|v| v.is_nan()) {
                    continue;
                }
                let sides = [Side(corner, 1), Side(corner + 1, nx), Side(corner + nx, 1), Side(corner, nx)];
                let above = values.map(|v| v >= level);
                let crossed: Vec<Side> = (0..4).filter(|&k| above[k] != above[(k + 1) % 4]).map(|k| sides[k]).collect();
                match crossed[..] {
                    [a, b] => links.join(a, b),
                    [a, b, c, d] => {
                        // A saddle: the mean decides whether the corners above the level are connected.
                        let centre = values.iter().sum::<f64>() / 4.0 >= level;
                        let pairs = if centre == above[0] { [(a, b), (c, d)] } else { [(a, d), (b, c)] };
                        pairs.into_iter().for_each(|(a, b)| links.join(a, b));
                    }
                    _ => {}
                }
            }
        }
        links
            .lines()
            .into_iter()
            .map(|line| line.into_iter().map(|side| self.crossing(side, level)).collect())
            .collect()
    }

    /// The closed lines around the area where the function is at least `level`, which may follow the grid's edge.
    pub fn region(&self, level: f64) -> Vec<Vec<(f64, f64)>> {
        let (nx, ny) = (self.x.len(), self.y.len());
        if self.values.len() != nx * ny || nx == 0 || ny == 0 {
            return Vec::new();
        }
        // A rim without extent around the grid, below every level, makes all the lines closed.
        let rimmed = |v: &[f64]| [&v[..1], v, &v[v.len() - 1..]].concat();
        let low = f64::NEG_INFINITY;
        let mut values = vec![low; nx + 2];
        for row in self.values.chunks(nx) {
            values.push(low);
            values.extend(row.iter().map(|&v| if v.is_nan() { low } else { v }));
            values.push(low);
        }
        values.resize((nx + 2) * (ny + 2), low);
        Self { x: rimmed(&self.x), y: rimmed(&self.y), values }.contour(level)
    }

    /// The point on a side of a cell where the function, taken as linear between the ends, has a value.
    fn crossing(&self, Side(from, stride): Side, level: f64) -> (f64, f64) {
        let (nx, to) = (self.x.len(), from + stride);
        let (a, b) = (self.values[from], self.values[to]);
        let share = match (a.is_finite(), b.is_finite()) {
            (true, true) => ((level - a) / (b - a)).clamp(0.0, 1.0),
            (true, false) => 0.0,
            (false, true) => 1.0,
            (false, false) => 0.5,
        };
        let between = |a: f64, b: f64| a + share * (b - a);
        (between(self.x[from % nx], self.x[to % nx]), between(self.y[from / nx], self.y[to / nx]))
    }
}

/// A side of a cell: the index of its first grid point and the distance to that of its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Side(usize, usize);

/// Which crossed sides are next to each other on a contour: two at most, as a side belongs to two cells at most.
#[derive(Default)]
struct Links(BTreeMap<Side, Vec<Side>>);

impl Links {
    fn join(&mut self, a: Side, b: Side) {
        self.0.entry(a).or_default().push(b);
        self.0.entry(b).or_default().push(a);
    }

    /// All the links as lines: the open ones from end to end, then the closed ones.
    fn lines(mut self) -> Vec<Vec<Side>> {
        let ends = self.0.iter().filter(|(_, next)| next.len() == 1).map(|(&side, _)| side);
        let starts: Vec<Side> = ends.chain(self.0.keys().copied()).collect();
        starts.into_iter().filter_map(|start| self.follow(start)).collect()
    }

    /// The line from a side on, its links taken out; none if they have been taken already.
    fn follow(&mut self, start: Side) -> Option<Vec<Side>> {
        let mut line = vec![start];
        let mut here = start;
        while let Some(next) = self.0.get_mut(&here).and_then(Vec::pop) {
            if let Some(back) = self.0.get_mut(&next)
                && let Some(k) = back.iter().position(|&side| side == here)
            {
                back.swap_remove(k);
            }
            line.push(next);
            here = next;
        }
        (line.len() > 1).then_some(line)
    }
}
