//! Tests of ticks, contours, and of the documents and images that come out.

use super::axis::{Axis, labels, ticks};
use super::output::parse;
use super::{Figure, Grid, Panel};

fn labelled(range: (f64, f64), log: bool, length: f64) -> Vec<String> {
    let mut axis = Axis::new(Some(range), log, std::iter::empty());
    axis.set_ticks(length, 55.0, 14.0, |label| 7.0 * label.chars().count() as f64);
    axis.ticks.into_iter().map(|(_, label)| label).collect()
}

#[test]
fn ticks_are_nice_and_cover_the_range() {
    for (lo, hi) in [(0.0, 1.0), (-3.7, 12.2), (1e-9, 3e-9), (-1e8, 1e7), (99.98, 100.03), (-0.1, 0.0)] {
        for count in 2..9 {
            let (ticks, step) = ticks(lo, hi, count);
            let digit = step / 10f64.powf((step.log10() + 1e-9).floor());
            assert!([1.0, 2.0, 5.0].iter().any(|d| (d - digit).abs() < 1e-6), "step {step}");
            let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
            let slack = 1e-5 * step;
            assert!(first >= lo - slack && first - step < lo && last <= hi + slack && last + step > hi, "{ticks:?}");
            assert!(ticks.len() <= count * 4 / 3 + 1);
            assert!(ticks.iter().all(|t| (t / step - (t / step).round()).abs() < 1e-6));
        }
    }
}

#[test]
fn tick_labels_read_well() {
    assert_eq!(labels(&[-0.5, 0.0, 0.5], 0.5), ["−0.5", "0", "0.5"]);
    assert_eq!(labels(&[-100000.0, 0.0, 100000.0], 1e5), ["−10⁵", "0", "10⁵"]);
    assert_eq!(labels(&[0.00005, 0.0001], 0.00005), ["0.5×10⁻⁴", "1.0×10⁻⁴"]);
    assert_eq!(labels(&[1000.2, 1000.4], 0.2), ["1000.2", "1000.4"]);
    assert_eq!(labelled((0.01, 100.0), true, 400.0), ["0.01", "0.1", "1", "10", "100"]);
    assert_eq!(labelled((1.0, 20.0), true, 400.0), ["1", "2", "5", "10", "20"]);
    assert_eq!(labelled((1e-8, 1e8), true, 300.0), ["10⁻⁶", "10⁻³", "1", "10³", "10⁶"]);
    assert_eq!(labelled((100.0, 130.0), true, 200.0), ["100", "110", "120", "130"]);
}

#[test]
fn automatic_range_has_a_margin_and_is_never_empty() {
    let values = [f64::NAN, 2.0, f64::INFINITY, 4.0, -f64::MAX];
    let axis = Axis::new(None, false, values.into_iter());
    assert!(axis.contains(1.95) && axis.contains(4.05) && !axis.contains(1.8) && !axis.contains(4.2));
    for constant in [0.0, 5.0, -1e-9, 1e12] {
        let axis = Axis::new(Some((1.0, f64::NAN)), false, [constant; 3].into_iter());
        assert_eq!(axis.place(constant), Some(0.5));
    }
    let log = Axis::new(None, true, [-1.0, 0.0, 10.0, 1000.0].into_iter());
    assert!(log.place(0.0).is_none() && (log.place(100.0).unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn contour_of_a_paraboloid_is_one_closed_circle() {
    let grid = Grid::tabulate((-2.0, 2.0), (-2.0, 2.0), 81, |x, y| x * x + y * y);
    let lines = grid.contour(1.0);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].first(), lines[0].last());
    assert!(lines[0].len() > 100);
    assert!(lines[0].iter().all(|(x, y)| (x.hypot(*y) - 1.0).abs() < 1e-3));
    let area: f64 = lines[0].windows(2).map(|p| p[0].0 * p[1].1 - p[1].0 * p[0].1).sum::<f64>() / 2.0;
    assert!((area.abs() - std::f64::consts::PI).abs() < 0.01);
}

#[test]
fn contours_end_at_the_edge_where_regions_follow_it() {
    let grid = Grid::tabulate((-1.0, 1.0), (0.0, 3.0), 5, |x, _| x);
    assert_eq!(grid.contour(0.25).len(), 1);
    assert_ne!(grid.contour(0.25)[0].first(), grid.contour(0.25)[0].last());
    let region = grid.region(0.25);
    assert_eq!(region.len(), 1);
    assert_eq!(region[0].first(), region[0].last());
    let area: f64 = region[0].windows(2).map(|p| p[0].0 * p[1].1 - p[1].0 * p[0].1).sum::<f64>() / 2.0;
    assert!((area.abs() - 0.75 * 3.0).abs() < 1e-9);
    let saddle = Grid { x: vec![0.0, 1.0], y: vec![0.0, 1.0], values: vec![1.0, 0.0, 0.0, 1.0] };
    assert_eq!(saddle.contour(0.5).len(), 2);
}

#[test]
fn mass_levels_enclose_their_share() {
    let grid = Grid::tabulate((-6.0, 6.0), (-6.0, 6.0), 241, |x, y| (-0.5 * (x * x + y * y)).exp());
    let level = grid.mass_levels(&[0.5])[0];
    assert!(
        (level - 0.5).abs() < 0.01,
        "half of a Gaussian's mass is where its density is over half the peak: {level}"
    );
}

/// Figures that are unusual in some way.
fn odd() -> Vec<Figure> {
    let bad = [f64::NAN, f64::INFINITY, -f64::INFINITY, f64::MAX, -f64::MAX, 0.0, f64::MIN_POSITIVE];
    let pairs: Vec<(f64, f64)> = bad.iter().flat_map(|&x| bad.map(|y| (x, y))).collect();
    let triples: Vec<(f64, f64, f64)> = pairs.iter().flat_map(|&(x, y)| bad.map(|z| (x, y, z))).collect();
    let grid = |values: Vec<f64>| Grid { x: vec![0.0, 1.0, f64::NAN], y: vec![0.0, 1.0, 2.0], values };
    let everything = |x: &[(f64, f64)], xs: &[(f64, f64, f64)], values: Vec<f64>| {
        let panel = Panel::new("").line("a", x).markers().dashed().points("b", x).errors("c", xs).band("d", xs);
        let panel = panel.contours("e", &grid(values.clone()), &[0.0, f64::NAN, 1.0]).filled();
        panel.contours("", &grid(values), &[]).horizontal("f", f64::NAN).line("g", &[(1.0, 2.0)]).color(99)
    };
    let mut panels = vec![Panel::new("").dashed(), Panel::new("").line("constant", &[(1.0, 3.0), (2.0, 3.0)])];
    panels.push(everything(&[], &[], vec![]));
    panels.push(everything(&[(1.0, 1.0)], &[(1.0, 1.0, 0.0)], vec![1.0; 9]));
    panels.push(everything(&pairs, &triples, bad.iter().chain(&bad[..2]).copied().collect()));
    panels.push(everything(&pairs, &triples, vec![1.0; 4]).x_range(f64::NAN, 1.0).y_range(2.0, 2.0));
    panels.extend(panels.clone().into_iter().map(|panel| panel.log_x().log_y().x_ticks(&[(f64::NAN, "x")])));
    let mut figures: Vec<Figure> = panels.iter().map(|panel| Figure::new("").panel(panel.clone())).collect();
    figures.push(panels.into_iter().fold(Figure::new("all").columns(4), Figure::panel));
    figures.extend([Figure::new(""), Figure::new("x").columns(0).panel_size(f64::NAN, -1.0).panel(Panel::new("t"))]);
    figures
}

#[test]
fn documents_of_odd_figures_are_well_formed() {
    for figure in odd() {
        let svg = figure.to_svg();
        parse(&svg).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

#[test]
fn text_is_escaped() {
    let svg = Figure::new("p < q & \"r\"").panel(Panel::new("a > b\u{1}").line("</svg>", &[(0.0, 0.0)])).to_svg();
    parse(&svg).unwrap();
    assert!(svg.contains("p &lt; q &amp; &quot;r&quot;") && svg.contains("a &gt; b") && svg.contains("&lt;/svg&gt;"));
}

#[test]
fn labels_have_one_colour_and_one_legend() {
    let panel = |first: &str, second: &str| {
        Panel::new("").line(first, &[(0.0, 1.0), (1.0, 2.0)]).line(second, &[(0.0, 2.0), (1.0, 1.0)])
    };
    let same = Figure::new("").columns(2).panel(panel("A", "B")).panel(panel("B", "A")).to_svg();
    assert_eq!((same.matches(">A</text>").count(), same.matches(">B</text>").count()), (1, 1));
    assert_eq!(same.matches("#0072b2").count(), 3);
    let different = Figure::new("").columns(2).panel(panel("A", "B")).panel(panel("B", "C")).to_svg();
    assert_eq!(different.matches(">B</text>").count(), 2);
}

#[test]
fn saving_writes_both_files_whole() {
    let folder = std::env::temp_dir().join(format!("plot-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let figure = Figure::new("α ≤ β₁").panel(Panel::new("").line("x²", &[(0.0, 0.0), (1.0, 1.0)]));
    figure.save(folder.join("step-0.5")).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["step-0.5.png", "step-0.5.svg"]);
    let svg = std::fs::read_to_string(folder.join("step-0.5.svg")).unwrap();
    let png = std::fs::read(folder.join("step-0.5.png")).unwrap();
    let size = parse(&svg).unwrap().size();
    let number = |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]) as f32;
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!((number(16), number(20)), (2.0 * size.width(), 2.0 * size.height()));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(figure.save(folder.join("none")).is_err());
}
