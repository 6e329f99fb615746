//! `mcvi paper stomach-cancer`: Figures 2 and 3.

use crate::number::{fixed, json_number, with_error};
use crate::output::Common;
use crate::plot::{Figure, Grid, Panel};
use crate::{progress, work};
use anyhow::Result;
use clap::{Args, ValueEnum};
use mcvi::fit::Settings;
use mcvi::paper::marginal::{Marginal, marginal};
use mcvi::paper::stomach_cancer::{LOG_EVIDENCE, Momentum, StomachCancer, chain};
use mcvi::{Approximation, Diagnostics, Hardware, fit};
use serde_json::{Value, json};
use std::fmt::Write;

/// Fresh draws from which a bound is reported.
const DRAWS: usize = 200_000;

/// Range of the figure's axes.
const LOGIT: (f64, f64) = (-7.9, -5.6);
const LOG_K: (f64, f64) = (4.5, 14.0);

#[derive(Args)]
pub struct Options {
    /// Numbers of leapfrogs, each a row of the table.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0,1,2,4,8",
        value_parser = clap::value_parser!(u16).range(0..=64)
    )]
    leapfrogs: Vec<u16>,
    /// Form of the means of q(v′|z) and r(v|z).
    #[arg(long, value_name = "KIND", value_enum, default_value = "linear")]
    momentum: MomentumOption,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, ValueEnum)]
enum MomentumOption {
    /// Linear in z and the gradient of log p(x, z).
    Linear,
    /// Constants: the paper's simpler variant.
    Constant,
}

struct Row {
    leapfrogs: usize,
    diagnostics: Diagnostics,
    marginal: Marginal,
    spread: Spread,
    seconds: f64,
}

/// Standard deviations of each coordinate.
struct Spread {
    z0: [f64; 2],
    z_end: [f64; 2],
    /// Of q(v′|z₀) and of r(v|z_T), given z.
    momenta: Option<([f64; 2], [f64; 2])>,
}

pub fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut folder = common.folder()?;
    let momentum = match options.momentum {
        MomentumOption::Linear => Momentum::Linear,
        MomentumOption::Constant => Momentum::Constant,
    };
    let mut leapfrogs: Vec<usize> = options.leapfrogs.iter().map(|l| usize::from(*l)).collect();
    leapfrogs.sort_unstable();
    leapfrogs.dedup();
    leapfrogs.reverse();
    let bar = progress::bar(leapfrogs.len(), "Figures 2 and 3");
    let mut rows = work::all(&leapfrogs, common.threads(), |&leapfrogs| {
        let row = learn(leapfrogs, momentum, common.seed)?;
        bar.set_message(format!("{leapfrogs} leapfrogs: bound {:.3}", row.diagnostics.bound.value));
        bar.inc(1);
        Ok(row)
    })?;
    rows.reverse();
    bar.finish_and_clear();
    if let Some(folder) = &mut folder {
        folder.figure("figure2", &contours(&rows)?)?;
        folder.figure("figure3", &r_squared(&rows))?;
    }
    common.finish(folder, &as_json(&rows), &table(&rows, momentum))
}

fn learn(leapfrogs: usize, momentum: Momentum, seed: u64) -> Result<Row> {
    let (chain, step) = chain(leapfrogs, momentum);
    let mut approximation = Approximation::new(StomachCancer, chain)?.on(Hardware::with_threads(1));
    let report = fit(&mut approximation, &Settings { seed, ..Settings::default() })?;
    let draws = approximation.draw(DRAWS, seed.wrapping_add(1))?;
    let marginal = marginal(&approximation, step.as_ref(), LOG_EVIDENCE, seed)?;
    let sd = |name: &str| -> Result<[f64; 2]> {
        let logs = approximation.params().values(name)?;
        Ok([logs[0].exp(), logs[1].exp()])
    };
    let momenta = match step {
        None => None,
        Some(_) => Some((sd("step1.momentum.log_sd")?, sd("step1.r.log_sd")?)),
    };
    let spread = Spread { z0: sd("q0.log_sd")?, z_end: [0, 1].map(|i| deviation(&draws.z, i)), momenta };
    Ok(Row { leapfrogs, diagnostics: draws.diagnose(), marginal, spread, seconds: report.seconds })
}

fn deviation(z: &[Vec<f64>], i: usize) -> f64 {
    let n = z.len() as f64;
    let mean = z.iter().map(|z| z[i]).sum::<f64>() / n;
    (z.iter().map(|z| (z[i] - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

fn table(rows: &[Row], momentum: Momentum) -> String {
    let kind = match momentum {
        Momentum::Linear => "means of q(v′|z) and r(v|z) linear in z and ∇log p",
        Momentum::Constant => "means of q(v′) and r(v) constant",
    };
    let mut text = format!(
        "Stomach cancer in 20 cities: one HMC step, {kind}.\n\
         log p(x) = {}. KL, the gap of r and R² by numerical integration, so that\n\
         bound + KL + gap = log p(x) is a check: the last column is its error.\n\n\
         leapfrogs            bound      KL   gap of r     R²  R² path  seconds     check\n",
        fixed(LOG_EVIDENCE, 5)
    );
    for row in rows {
        let (j, m) = (&row.diagnostics, &row.marginal);
        let check = j.bound.value + m.kl + m.r_gap - LOG_EVIDENCE;
        let _ = writeln!(
            text,
            "{:>9}  {:>17} {:>7.4} {:>9.4} {:>7.3} {:>7.3} {:>8.1} {:>5.1} se",
            row.leapfrogs,
            with_error(j.bound, 4),
            m.kl,
            m.r_gap,
            m.r2,
            j.r2_path,
            row.seconds,
            check / j.bound.se
        );
    }
    text.push_str("\nStandard deviations of (logit η, log K), those of momenta given z, and the entropy\n");
    text.push_str("they stand for in nats: lost by v on its way from q(v′) to r(v), gained by z.\n\n");
    text.push_str("leapfrogs         q(z₀)           z_T            q(v′)          r(v)  v lost  z gained\n");
    let pair = |s: &[f64; 2]| format!("{:.3}, {:.3}", s[0], s[1]);
    for row in rows {
        let s = &row.spread;
        let _ = write!(text, "{:>9}  {:>12}  {:>12}", row.leapfrogs, pair(&s.z0), pair(&s.z_end));
        if let (Some((q, r)), Some((lost, gained))) = (&s.momenta, s.entropy_moved()) {
            let (lost, gained) = (fixed(lost, 2), fixed(gained, 2));
            let _ = write!(text, "  {:>15}  {:>12}  {lost:>6}  {gained:>8}", pair(q), pair(r));
        }
        text.push('\n');
    }
    text.push_str("    exact                0.294, 1.426\n\n");
    let moved = rows.iter().filter_map(|r| r.spread.entropy_moved());
    let (with, all) =
        moved.fold((0, 0), |(n, all), (lost, gained)| (n + usize::from(lost > 0.0 && gained > 0.0), all + 1));
    let _ = write!(text, "Entropy moves from v to z in {with} of {all} fits with leapfrogs.");
    text
}

impl Spread {
    /// The entropy v loses and z gains.
    fn entropy_moved(&self) -> Option<(f64, f64)> {
        let change = |from: &[f64; 2], to: &[f64; 2]| (0..2).map(|i| (to[i] / from[i]).ln()).sum::<f64>();
        self.momenta.as_ref().map(|(q, r)| (-change(q, r), change(&self.z0, &self.z_end)))
    }
}

fn as_json(rows: &[Row]) -> Value {
    let n = json_number;
    let rows = rows.iter().map(|row| {
        let (j, m, s) = (&row.diagnostics, &row.marginal, &row.spread);
        json!({
            "leapfrogs": row.leapfrogs,
            "bound": n(j.bound.value),
            "se": n(j.bound.se),
            "kl": n(m.kl),
            "r_gap": n(m.r_gap),
            "r2": n(m.r2),
            "r2_path": n(j.r2_path),
            "pareto_k": n(j.pareto_k),
            "log_p": { "value": n(j.log_evidence.value), "se": n(j.log_evidence.se) },
            "sd": {
                "z0": s.z0, "z_t": s.z_end,
                "q_v": s.momenta.map(|(q, _)| q), "r_v": s.momenta.map(|(_, r)| r),
            },
            "seconds": n(row.seconds),
        })
    });
    json!({ "log_z": LOG_EVIDENCE, "rows": rows.collect::<Vec<_>>() })
}

/// Figure 2: the approximations, and the exact posterior last.
fn contours(rows: &[Row]) -> Result<Figure> {
    let shares = [0.1, 0.3, 0.5, 0.7, 0.9, 0.99];
    let panel = |title: String, grid: &Grid| {
        Panel::new(title)
            .x_label("logit η")
            .y_label("log K")
            .x_range(LOGIT.0, LOGIT.1)
            .y_range(LOG_K.0, LOG_K.1)
            .contours("", grid, &grid.mass_levels(&shares))
            .filled()
    };
    let mut figure = Figure::new("Stomach cancer: approximate posteriors").columns(3);
    for row in rows {
        let m = &row.marginal;
        let values = m.log_q.iter().map(|l| l.exp()).collect();
        let grid = Grid { x: m.x.clone(), y: m.y.clone(), values };
        let title = match row.leapfrogs {
            0 => "no leapfrogs".to_owned(),
            1 => "1 leapfrog".to_owned(),
            n => format!("{n} leapfrogs"),
        };
        figure = figure.panel(panel(title, &grid));
    }
    let exact = exact_posterior()?;
    Ok(figure.panel(panel("exact posterior".to_owned(), &exact)))
}

fn exact_posterior() -> Result<Grid> {
    let axis = |(low, high): (f64, f64)| (0..100).map(|i| low + (high - low) * f64::from(i) / 99.0).collect::<Vec<_>>();
    let (x, y) = (axis((-8.6, -5.0)), axis((4.0, 18.0)));
    let places: Vec<Vec<f64>> = y.iter().flat_map(|&y| x.iter().map(move |&x| vec![x, y])).collect();
    let values = mcvi::log_density(&StomachCancer, &places)?.iter().map(|l| (l - LOG_EVIDENCE).exp()).collect();
    Ok(Grid { x, y, values })
}

/// Figure 3: R² against leapfrogs.
fn r_squared(rows: &[Row]) -> Figure {
    let series = |f: &dyn Fn(&Row) -> f64| rows.iter().map(|r| (r.leapfrogs as f64, f(r))).collect::<Vec<_>>();
    let panel = Panel::new("")
        .x_label("leapfrogs")
        .y_label("R²")
        .line("marginal, exact q(z_T)", &series(&|r| r.marginal.r2))
        .markers()
        .line("path", &series(&|r| r.diagnostics.r2_path))
        .markers()
        .dashed();
    Figure::new("Stomach cancer: R² of the approximations").panel(panel)
}
