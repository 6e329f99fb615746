//! The figure: bounds against gradients per draw, a panel for each target.

use super::row::{Row, targets};
use crate::plot::{Figure, Panel};
use mcvi::evidence::{EvidenceTarget, Published};

/// Bounds of all rows, beside published ones and log Z.
pub fn figure(rows: &[Row]) -> Figure {
    let targets = targets(rows);
    let columns = match targets.len() {
        1 | 2 | 4 => targets.len().min(2),
        _ => 3,
    };
    // Labels in one order in all panels, so that each has one colour.
    let kernels = distinct(rows.iter().map(|row| row.kernel.as_str()));
    let methods = distinct(targets.iter().flat_map(|target| target.published).map(|p| p.method));
    let panels = targets.iter().map(|target| panel(target, rows, &kernels, &methods));
    panels.fold(Figure::new("Bounds on log Z").columns(columns), Figure::panel)
}

fn panel(target: &EvidenceTarget, rows: &[Row], kernels: &[&str], methods: &[&str]) -> Panel {
    let mut panel = Panel::new(target.name).x_label("gradients per draw").y_label("bound").log_x();
    for (slot, kernel) in kernels.iter().enumerate() {
        let rows = rows.iter().filter(|row| row.target.name == target.name && row.kernel == *kernel);
        let mut points: Vec<_> = rows.map(|row| (row.gradients as f64, row.bound.value, row.bound.se)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !points.is_empty() {
            let line: Vec<_> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
            panel = panel.line(*kernel, &line).color(slot).errors(*kernel, &points).color(slot);
        }
    }
    for (i, method) in methods.iter().enumerate() {
        // A step of theirs takes one gradient, and there is one at the end.
        let point = |p: &Published| ((p.steps + 1) as f64, p.bound);
        let points: Vec<_> = target.published.iter().filter(|p| p.method == *method).map(point).collect();
        if !points.is_empty() {
            let label = format!("{method} (published)");
            panel = panel.line(label, &points).color(kernels.len() + i).dashed().markers();
        }
    }
    match target.log_evidence {
        Some(log_z) => panel.horizontal("log Z", log_z),
        None => panel,
    }
}

fn distinct<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    labels.fold(vec![], |mut seen, label| {
        if !seen.contains(&label) {
            seen.push(label);
        }
        seen
    })
}
