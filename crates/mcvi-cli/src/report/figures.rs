//! The report's figures. Non-finite draws are left out, and large data are thinned.

use super::histogram::{Bins, quantile, sorted};
use crate::number::fixed;
use crate::plot::{Figure, Panel};
use mcvi::diagnostics::RELIABLE_K;
use mcvi::{ConditionalEffect, Places};

/// Maximum number of marginals.
pub const MARGINALS: usize = 12;
/// Maximum number of intervals.
pub const INTERVALS: usize = 30;
/// Maximum number of parameters shown in pairs.
pub const PAIRED: usize = 4;
/// Maximum number of dots in a panel.
const DOTS: usize = 800;
/// Maximum number of points along a line: more than there are pixels would not help.
const POINTS: usize = 300;

/// The bound while fitting: points `(iteration, bound, standard error)`. The second half has a panel of its own, since
/// the beginning is often far below it.
pub fn bound_trace(trace: &[(f64, f64, f64)]) -> Figure {
    let panel = |title: &str, part: &[(f64, f64, f64)]| {
        let part = thinned(part, POINTS);
        let line: Vec<(f64, f64)> = part.iter().map(|&(x, y, _)| (x, y)).collect();
        let band: Vec<(f64, f64, f64)> = part.iter().map(|&(x, y, se)| (x, y - 2.0 * se, y + 2.0 * se)).collect();
        let panel = Panel::new(title).x_label("iteration").y_label("bound on log p(x)");
        panel.band("bound ± 2 standard errors", &band).line("bound ± 2 standard errors", &line)
    };
    if trace.len() < 8 {
        return Figure::new("").panel(panel("", trace));
    }
    let half = &trace[trace.len() / 2..];
    Figure::new("").columns(2).panel(panel("All iterations", trace)).panel(panel("The second half", half))
}

/// Histograms of the first [`MARGINALS`] parameters, with the central 90% of each filled.
pub fn marginals(parameters: &[(String, Vec<f64>)]) -> Figure {
    let shown = &parameters[..parameters.len().min(MARGINALS)];
    let panel = |(name, draws): &(String, Vec<f64>)| {
        let bins = Bins::new(draws, draws.len());
        let heights = bins.density(draws);
        let draws = sorted(draws);
        let (q05, q95) = (quantile(&draws, 0.05), quantile(&draws, 0.95));
        // A whole number lies inside or outside as a whole: half a bin would be misleading.
        let (from, to) = if bins.whole { (q05.ceil() - 0.5, q95.floor() + 0.5) } else { (q05, q95) };
        let band: Vec<(f64, f64, f64)> = heights
            .iter()
            .enumerate()
            .map(|(i, &height)| (bins.edge(i).max(from), bins.edge(i + 1).min(to), height))
            .filter(|(lo, hi, _)| lo < hi)
            .flat_map(|(lo, hi, height)| [(lo, 0.0, height), (hi, 0.0, height)])
            .collect();
        let top = heights.iter().copied().fold(0.0, f64::max);
        let panel = Panel::new(name.as_str()).y_label(if bins.whole { "share" } else { "density" });
        let panel = panel.band("central 90%", &band).color(0).line("draws", &bins.outline(&heights)).color(0);
        if top > 0.0 { panel.y_range(0.0, 1.06 * top) } else { panel }
    };
    shown.iter().map(panel).fold(Figure::new("").columns(shown.len().clamp(1, 3)), Figure::panel)
}

/// Medians and central 90 % intervals of parameters, one below the other, from `(name, 5 %, median, 95 %)`.
pub fn forest(rows: &[(String, f64, f64, f64)]) -> Figure {
    let place = |i: usize| -(i as f64);
    let ticks: Vec<(f64, &str)> = rows.iter().enumerate().map(|(i, row)| (place(i), row.0.as_str())).collect();
    let panel = Panel::new("").y_ticks(&ticks).y_range(place(rows.len()) + 0.4, 0.6);
    let panel = rows.iter().enumerate().fold(panel, |panel, (i, &(_, low, _, high))| {
        panel.line("central 90%", &[(low, place(i)), (high, place(i))]).color(0)
    });
    let medians = rows.iter().enumerate().map(|(i, row)| {
        let y = place(i);
        (row.2, y)
    });
    let panel = medians.fold(panel, |panel, at| panel.line("median", &[at]).color(1).markers());
    Figure::new("").panel_size(480.0, 22.0 * rows.len() as f64 + 30.0).panel(panel)
}

/// How the expected response depends on each column.
pub fn effects(effects: &[ConditionalEffect], response: &str) -> Figure {
    let panel = |effect: &ConditionalEffect| {
        let (x, names): (Vec<f64>, &[String]) = match &effect.places {
            Places::Numbers(places) => (places.clone(), &[]),
            Places::Levels(levels) => ((0..levels.len()).map(|i| i as f64).collect(), levels),
        };
        let panel = Panel::new("").x_label(effect.column.as_str()).y_label(response);
        let panel = effect.curves.iter().enumerate().fold(panel, |panel, (slot, curve)| {
            let points: Vec<(f64, f64)> = x.iter().zip(&curve.quantiles).map(|(x, q)| (*x, q[1])).collect();
            let label = if curve.label.is_empty() { "median and central 90%" } else { &curve.label };
            if names.is_empty() {
                let band: Vec<(f64, f64, f64)> =
                    x.iter().zip(&curve.quantiles).map(|(x, q)| (*x, q[0], q[2])).collect();
                return panel.band(label, &band).color(slot).line(label, &points).color(slot);
            }
            let panel = x
                .iter()
                .zip(&curve.quantiles)
                .fold(panel, |panel, (x, q)| panel.line(label, &[(*x, q[0]), (*x, q[2])]).color(slot));
            points.into_iter().fold(panel, |panel, at| panel.line(label, &[at]).color(slot).markers())
        });
        let ticks: Vec<(f64, &str)> = names.iter().enumerate().map(|(i, name)| (i as f64, name.as_str())).collect();
        if names.is_empty() { panel } else { panel.x_ticks(&ticks).x_range(-0.5, names.len() as f64 - 0.5) }
    };
    let columns = effects.len().clamp(1, 2);
    effects.iter().map(panel).fold(Figure::new("").columns(columns), Figure::panel)
}

/// Draws of each two of the first [`PAIRED`] parameters against each other.
pub fn pairs(parameters: &[(String, Vec<f64>)]) -> Figure {
    let shown = &parameters[..parameters.len().min(PAIRED)];
    let mut figure = Figure::new("").columns(if shown.len() < 3 { 1 } else { 3 });
    for (j, (below, y)) in shown.iter().enumerate() {
        for (left, x) in &shown[..j] {
            let both: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
            let panel = Panel::new("").x_label(left.as_str()).y_label(below.as_str());
            figure = figure.panel(panel.points("", &thinned(&both, DOTS)).color(0));
        }
    }
    figure
}

/// Histograms of the observed data and of data sets replicated from the fitted model, each of the same size. Integers
/// get one bar per value.
pub fn predictive_check(observed: &[f64], replicates: &[Vec<f64>]) -> Figure {
    let pooled: Vec<f64> = observed.iter().chain(replicates.iter().flatten()).copied().collect();
    let bins = Bins::new(&pooled, observed.len());
    let each: Vec<Vec<f64>> = replicates.iter().map(|data| bins.density(data)).collect();
    let drawn = |share: f64| -> Vec<f64> {
        let column = |i: usize| sorted(&each.iter().map(|heights| heights[i]).collect::<Vec<f64>>());
        (0..bins.count).map(|i| quantile(&column(i), share)).collect()
    };
    let (low, middle, high) = (bins.outline(&drawn(0.05)), bins.outline(&drawn(0.5)), bins.outline(&drawn(0.95)));
    let band: Vec<(f64, f64, f64)> = low.iter().zip(&high).map(|(&(x, lo), &(_, hi))| (x, lo, hi)).collect();
    let heights = bins.density(observed);
    let panel =
        Panel::new("").x_label("value").y_label(if bins.whole && bins.width == 1.0 { "share" } else { "density" });
    let panel = panel.band("predictive: median and central 90%", &band).color(0);
    let panel = panel.line("predictive: median and central 90%", &middle).color(0);
    let panel = if bins.whole && bins.count <= 30 {
        // So few that each can be seen: marks distinguish them from the outline even without colour.
        let marks: Vec<(f64, f64)> =
            heights.iter().enumerate().map(|(i, &y)| (bins.edge(i) + bins.width / 2.0, y)).collect();
        panel.line("observed", &marks).color(1).dashed().markers()
    } else {
        panel.line("observed", &bins.outline(&heights)).color(1).dashed()
    };
    let top = heights.iter().copied().chain(high.iter().map(|p| p.1)).fold(0.0, f64::max);
    Figure::new("").panel(if top > 0.0 { panel.y_range(0.0, 1.06 * top) } else { panel })
}

/// The contributions of the initial distribution and of each step of the chain to the bound: `(mean, standard error)`
/// of the initial bound, and of log α for each step. They add up to the bound.
pub fn contributions(initial: (f64, f64), steps: &[(f64, f64)]) -> Figure {
    let mut sum = initial.0;
    let after = steps.iter().enumerate().map(|(i, (mean, _))| {
        sum += mean;
        ((i + 1) as f64, sum)
    });
    let bounds: Vec<(f64, f64)> = std::iter::once((0.0, initial.0)).chain(after).collect();
    let each: Vec<(f64, f64, f64)> = steps.iter().enumerate().map(|(i, &(y, se))| ((i + 1) as f64, y, se)).collect();
    let total = Panel::new("Bound after each step").x_label("steps").y_label("bound on log p(x)");
    let total = total.line("", &bounds).color(0).markers();
    let total = total.errors("initial bound ± 2 standard errors", &[(0.0, initial.0, initial.1)]).color(1);
    let own = Panel::new("Contribution of each step").x_label("step").y_label("E log α");
    let own = own.errors("E log α ± 2 standard errors", &each).color(0).horizontal("no gain", 0.0);
    Figure::new("").columns(2).panel(counted(total, 0, steps.len())).panel(counted(own, 1, steps.len()))
}

/// Gives the x axis whole-number ticks, which the automatic ticks of a short axis are not.
pub fn counted(panel: Panel, from: usize, to: usize) -> Panel {
    let names: Vec<(f64, String)> = (from..=to).map(|i| (i as f64, i.to_string())).collect();
    let ticks: Vec<(f64, &str)> = names.iter().map(|(at, name)| (*at, name.as_str())).collect();
    let panel = if to <= 16 { panel.x_ticks(&ticks) } else { panel };
    panel.x_range(from as f64 - 0.5, to.max(from) as f64 + 0.5)
}

/// The importance weights: their logarithms relative to that of their mean, and the share of the total that the largest
/// carry. The title gives k, the estimated shape of their tail.
pub fn weights(log_weights: &[f64], k: f64) -> Figure {
    let known: Vec<f64> = log_weights.iter().copied().filter(|w| !w.is_nan() && *w < f64::INFINITY).collect();
    let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut shares: Vec<f64> = known.iter().map(|w| (w - most).exp()).filter(|w| w.is_finite()).collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    let total: f64 = shares.iter().sum();
    let mean = most + (total / shares.len().max(1) as f64).ln();
    let relative: Vec<f64> = known.iter().map(|w| w - mean).collect();
    let bins = Bins::new(&relative, relative.len());
    let heights = bins.density(&relative);
    let top = heights.iter().copied().fold(0.0, f64::max);

    let mut carried = 0.0;
    let sums = shares.iter().enumerate().map(|(i, w)| {
        carried += w / total;
        ((i + 1) as f64, carried)
    });
    let sums: Vec<(f64, f64)> = sums.collect();
    // Evenly spaced on the logarithmic axis, and always both ends.
    let mut next = 1.0;
    let line = sums.iter().enumerate().filter(|(i, (n, _))| {
        let keep = *n >= next || *i + 1 == sums.len();
        next = if keep { (next * 1.03).max(n + 1.0) } else { next };
        keep
    });
    let line: Vec<(f64, f64)> = line.map(|(_, point)| *point).collect();
    let even: Vec<(f64, f64)> = line.iter().map(|&(n, _)| (n, n / sums.len() as f64)).collect();

    let spread = Panel::new("Log weights").x_label("log weight − log mean weight").y_label("density");
    let spread = spread.line("draws", &bins.outline(&heights)).color(0);
    let spread = if top > 0.0 { spread.y_range(0.0, 1.06 * top) } else { spread };
    let share = Panel::new("Share of the total weight").x_label("draws, the largest first").y_label("share");
    let share = share.line("draws", &line).color(0).line("if all were equal", &even).color(6).dashed();
    let title = match k {
        k if k.is_nan() => "Importance weights".to_owned(),
        k if k == f64::INFINITY => "Importance weights: the shape k of their tail could not be estimated".to_owned(),
        k if k <= RELIABLE_K => format!("Importance weights: k = {}, good up to {RELIABLE_K}", fixed(k, 2)),
        k => format!("Importance weights: k = {}, too high above {RELIABLE_K}", fixed(k, 2)),
    };
    Figure::new(title).columns(2).panel(spread).panel(share.log_x().y_range(0.0, 1.03))
}

/// At most this many items, evenly spaced and including the last.
fn thinned<T: Copy>(items: &[T], most: usize) -> Vec<T> {
    let stride = items.len().div_ceil(most).max(1);
    let mut kept: Vec<T> = items.iter().rev().step_by(stride).copied().collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_nothing_and_of_nonsense_are_drawn() {
        let odd = vec![f64::NAN, f64::INFINITY, 1e308, -1e308, 0.0];
        for draws in [vec![], vec![1.0], vec![f64::NAN; 3], odd.clone()] {
            let named: Vec<(String, Vec<f64>)> = (0..20).map(|i| (format!("a<{i}"), draws.clone())).collect();
            let points: Vec<(f64, f64, f64)> = draws.iter().map(|x| (*x, *x, *x)).collect();
            let steps: Vec<(f64, f64)> = draws.iter().map(|x| (*x, 0.1)).collect();
            for figure in [
                bound_trace(&points),
                marginals(&named),
                marginals(&[]),
                pairs(&named),
                pairs(&named[..1]),
                predictive_check(&draws, &[draws.clone(), odd.clone()]),
                predictive_check(&draws, &[]),
                contributions((f64::NAN, 0.0), &steps),
                weights(&draws, f64::NAN),
            ] {
                let svg = figure.to_svg();
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{draws:?}");
            }
        }
    }

    #[test]
    fn no_more_is_shown_than_promised() {
        let named: Vec<(String, Vec<f64>)> = (0..20).map(|i| (format!("p{i}."), vec![0.5, 1.5, 2.5])).collect();
        let svg = marginals(&named).to_svg();
        assert!(svg.contains(">p11.<") && !svg.contains(">p12.<"));
        assert_eq!(pairs(&named).to_svg().matches("<g fill=").count(), 6);
        assert_eq!(thinned(&(0..1001).collect::<Vec<i32>>(), 100).len(), 91);
        assert_eq!(thinned(&[1, 2, 3], 2), [1, 3]);
    }

    #[test]
    fn the_weights_title_judges() {
        let says = |k: f64, part: &str| weights(&[0.0, 1.0], k).to_svg().contains(part);
        assert!(says(0.31, "k = 0.31, good up to 0.7"));
        assert!(says(0.92, "k = 0.92, too high above 0.7"));
        assert!(says(-0.1, "k = −0.10, good"));
        assert!(says(f64::INFINITY, "could not be estimated"));
    }
}
