//! `mcvi paper gaussian`: Figure 1.

use crate::number::{fixed, json_number};
use crate::output::Common;
use crate::plot::{Figure, Panel};
use crate::{progress, work};
use anyhow::Result;
use clap::Args;
use mcvi::diagnostics::Mean;
use mcvi::fit::Settings;
use mcvi::paper::gaussian::{BivariateGaussian, Sampler, best_alpha, chain, exact_bound};
use mcvi::transition::OverRelaxation;
use mcvi::{Approximation, Hardware, fit};
use serde_json::{Value, json};
use std::fmt::Write;

/// Fresh draws from which a bound is reported.
const DRAWS: usize = 100_000;

#[derive(Args)]
pub struct Options {
    /// Numbers of sweeps T, each a row of the table.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,3,4,5,6,7,8,9,10,11,12,14,16,18,20",
        value_parser = clap::value_parser!(u16).range(1..=200)
    )]
    sweeps: Vec<u16>,
    #[command(flatten)]
    common: Common,
}

/// What was learned for one sampler.
struct Learned {
    alpha: f64,
    bound: Mean,
    exact: f64,
}

struct Row {
    sweeps: usize,
    gibbs: Learned,
    over: Learned,
    best_alpha: f64,
    best: f64,
}

pub fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut folder = common.folder()?;
    let target = BivariateGaussian::default();
    let mut sweeps: Vec<usize> = options.sweeps.iter().map(|t| usize::from(*t)).collect();
    sweeps.sort_unstable();
    sweeps.dedup();
    // The longest chains first, so that no thread is left with one at the end.
    let fits: Vec<(usize, Sampler)> =
        sweeps.iter().rev().flat_map(|&t| [(t, Sampler::OverRelaxation), (t, Sampler::Gibbs)]).collect();
    let bar = progress::bar(fits.len(), "Figure 1");
    let mut learned = work::all(&fits, common.threads(), |&(t, sampler)| {
        let learned = learn(&target, t, sampler, common.seed)?;
        bar.set_message(format!("{t} sweeps: bound {:.3}", learned.bound.value));
        bar.inc(1);
        Ok(learned)
    })?;
    bar.finish_and_clear();
    let rows: Vec<Row> = sweeps
        .iter()
        .map_while(|&t| {
            let (gibbs, over) = (learned.pop()?, learned.pop()?);
            let (best_alpha, best) = best_alpha(&target, t);
            Some(Row { sweeps: t, gibbs, over, best_alpha, best })
        })
        .collect();
    if let Some(folder) = &mut folder {
        folder.figure("figure1", &figure(&target, &rows))?;
    }
    common.finish(folder, &as_json(&target, &rows), &table(&target, &rows))
}

/// Algorithm 2: learn α and the inverse models; report the bound from fresh draws.
fn learn(target: &BivariateGaussian, sweeps: usize, sampler: Sampler, seed: u64) -> Result<Learned> {
    let mut approximation = Approximation::new(*target, chain(sampler, sweeps))?.on(Hardware::with_threads(1));
    fit(&mut approximation, &Settings { seed, ..Settings::default() })?;
    let alpha = match sampler {
        Sampler::Gibbs => 0.0,
        Sampler::OverRelaxation => {
            approximation.params().number(&format!("step1.{}", OverRelaxation::PARAMETER))?.tanh()
        }
    };
    let bound = approximation.draw(DRAWS, seed.wrapping_add(1))?.diagnose().bound;
    Ok(Learned { alpha, bound, exact: exact_bound(target, sweeps, alpha) })
}

fn table(target: &BivariateGaussian, rows: &[Row]) -> String {
    let mut text = format!(
        "The bound on log Z of a bivariate Gaussian after T sweeps from (−10, −10); log Z = {:.4}.\n\
         Learned by Algorithm 2 (± its standard error), beside the exact bound of a linear\n\
         Gaussian chain: at the learned α, and at the best α there is.\n\n\
         {:>3} │{:^26}│{:^45}\n{:>3} │{:>16}{:>9} │{:>16}{:>9}{:>10}{:>9}\n────┼{}┼{}\n",
        target.log_evidence(),
        "",
        "Gibbs sampling",
        "over-relaxation",
        "T",
        "learned",
        "exact",
        "learned",
        "exact",
        "α (best)",
        "best",
        "─".repeat(26),
        "─".repeat(45),
    );
    for row in rows {
        let learned = |l: &Learned| format!("{} ±{}", fixed(l.bound.value, 4), &format!("{:.4}", l.bound.se)[1..]);
        let alpha = format!("{} ({})", fixed(row.over.alpha, 2), fixed(row.best_alpha, 2));
        let _ = writeln!(
            text,
            "{:>3} │{:>16}{:>9} │{:>15}{:>8} {:>13}{:>8}",
            row.sweeps,
            learned(&row.gibbs),
            fixed(row.gibbs.exact, 4),
            learned(&row.over),
            fixed(row.over.exact, 4),
            alpha,
            fixed(row.best, 4)
        );
    }
    let furthest = |f: &dyn Fn(&Row) -> f64| rows.iter().map(f).fold(0.0, f64::max);
    let _ = write!(
        text,
        "\nFurthest below the optimum: Gibbs {:.4}, over-relaxation {:.4} nat (errors included).",
        furthest(&|r| r.gibbs.exact - r.gibbs.bound.value),
        furthest(&|r| r.best - r.over.bound.value),
    );
    text
}

fn as_json(target: &BivariateGaussian, rows: &[Row]) -> Value {
    let n = json_number;
    let rows = rows.iter().map(|r| {
        json!({
            "sweeps": r.sweeps,
            "gibbs": { "bound": n(r.gibbs.bound.value), "se": n(r.gibbs.bound.se), "exact": n(r.gibbs.exact) },
            "over_relaxation": {
                "alpha": n(r.over.alpha), "bound": n(r.over.bound.value), "se": n(r.over.bound.se),
                "exact": n(r.over.exact), "best_alpha": n(r.best_alpha), "best": n(r.best),
            },
        })
    });
    json!({ "log_z": n(target.log_evidence()), "rows": rows.collect::<Vec<_>>() })
}

fn figure(target: &BivariateGaussian, rows: &[Row]) -> Figure {
    let last = rows.iter().map(|r| r.sweeps).max().unwrap_or(1);
    let exact = |f: &dyn Fn(usize) -> f64| (1..=last).map(|t| (t as f64, f(t))).collect::<Vec<_>>();
    let learned =
        |f: &dyn Fn(&Row) -> Mean| rows.iter().map(|r| (r.sweeps as f64, f(r).value, f(r).se)).collect::<Vec<_>>();
    let panel = Panel::new("")
        .x_label("sweeps T")
        .y_label("lower bound on log Z")
        .line("Gibbs, exact", &exact(&|t| exact_bound(target, t, 0.0)))
        .color(0)
        .errors("Gibbs, learned", &learned(&|r| r.gibbs.bound))
        .color(0)
        .line("over-relaxation, exact at the best α", &exact(&|t| best_alpha(target, t).1))
        .color(1)
        .errors("over-relaxation, learned", &learned(&|r| r.over.bound))
        .color(1)
        .horizontal("log Z", target.log_evidence());
    Figure::new("Bivariate Gaussian: the bound learned by Algorithm 2").panel(panel)
}
