//! The report's figures: training by epochs, and the chain by leapfrogs.

use crate::plot::{Figure, Panel};
use crate::report::figures::counted;
use crate::vae::curves::range;
use mcvi::diagnostics::Mean;
use mcvi::vae::{EpochReport, LeapfrogCurve, Stopped};

/// Bounds, learning rate, latent variables in use and step sizes by epoch. `best` is the epoch that was kept.
pub fn curves(epochs: &[EpochReport], best: Option<&EpochReport>, latent: usize) -> Figure {
    let of = |part: &[EpochReport], y: fn(&EpochReport) -> f64| -> Vec<(f64, f64)> {
        part.iter().map(|e| (e.epoch as f64, y(e))).collect()
    };
    let bound = |title: &str, part: &[EpochReport]| {
        let band: Vec<(f64, f64, f64)> = part
            .iter()
            .map(|e| (e.epoch as f64, e.valid_bound - 2.0 * e.valid_se, e.valid_bound + 2.0 * e.valid_se))
            .collect();
        let bounds = part.iter().flat_map(|e| [e.train_bound, e.valid_bound]);
        let (low, high) = range(bounds, 0.02).unwrap_or((-1.0, 0.0));
        let panel = Panel::new(title).x_label("epoch").y_label("bound, nats").y_range(low, high);
        let panel = panel.line("training images", &of(part, |e| e.train_bound)).color(1).dashed();
        let panel = panel.band("validation images ± 2 standard errors", &band).color(0);
        let panel = panel.line("validation images ± 2 standard errors", &of(part, |e| e.valid_bound)).color(0);
        match best {
            Some(e) => panel.line("the epoch kept", &[(e.epoch as f64, e.valid_bound)]).color(6).markers(),
            None => panel,
        }
    };
    let mut figure = Figure::new("").columns(2).panel(bound("All epochs", epochs));
    // The second half has a panel of its own, since the beginning is far below it.
    if epochs.len() >= 8 {
        figure = figure.panel(bound("The second half", &epochs[epochs.len() / 2..]));
    }
    let rate = Panel::new("Learning rate").x_label("epoch").y_label("rate");
    let figure = figure.panel(rate.line("", &of(epochs, |e| e.rate)).color(0));
    let active = Panel::new("Latent variables in use").x_label("epoch").y_label("latent variables");
    let active = active.line("", &of(epochs, |e| e.active as f64)).color(0).horizontal("", latent as f64);
    let mut figure = figure.panel(active.y_range(0.0, 1.08 * latent as f64));
    let steps = epochs.last().map_or(0, |e| e.step_sizes.len());
    if steps > 0 {
        let panel = Panel::new("Step sizes").x_label("epoch").y_label("step size ε");
        figure = figure.panel((0..steps).fold(panel, |panel, t| {
            let sizes: Vec<(f64, f64)> =
                epochs.iter().filter_map(|e| Some((e.epoch as f64, *e.step_sizes.get(t)?))).collect();
            let label = if steps > 1 { format!("step {}", t + 1) } else { String::new() };
            panel.line(label, &sizes)
        }));
    }
    figure
}

/// The bound and log p(x, z) of a chain that stops after each number of leapfrogs.
pub fn leapfrogs(profile: &LeapfrogCurve) -> Figure {
    let points = |of: fn(&Stopped) -> Mean| -> Vec<(f64, f64, f64)> {
        profile.after.iter().map(|s| (s.leapfrogs as f64, of(s).value, of(s).se)).collect()
    };
    let panel = |title: &str, label: &str, points: &[(f64, f64, f64)]| {
        let line: Vec<(f64, f64)> = points.iter().map(|&(x, y, _)| (x, y)).collect();
        let panel = Panel::new(title).x_label("leapfrogs").y_label(label).line("", &line).color(0);
        counted(panel.errors("mean ± 2 standard errors", points).color(0), 0, profile.after.len().saturating_sub(1))
    };
    let gain =
        panel("The bound", "bound − bound of q(z₀|x), nats", &points(|s| s.gain)).horizontal("q(z₀|x) alone", 0.0);
    let climb = panel("log p(x, z)", "log p(x, z) − log p(x, z₀), nats", &points(|s| s.climb));
    Figure::new("").columns(2).panel(gain).panel(climb.horizontal("z₀", 0.0))
}
