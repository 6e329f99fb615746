//! The outcomes as a table, and what they come to.

use super::{Agreement, Fit, Outcome};
use std::fmt::Write;

/// Agreement that is wanted: of values, gradients, and products with the Hessian.
const VALUE: f64 = 1e-10;
const GRADIENT: f64 = 1e-9;
const PRODUCT: f64 = 1e-6;
/// How far means may be from their references, in standard deviations, and standard deviations relatively.
const MEAN: f64 = 0.1;
const SD: f64 = 0.1;
/// Seconds a fit may take.
const SECONDS: f64 = 60.0;

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let n = numbers.len();
    (n > 0).then(|| 0.5 * (numbers[(n - 1) / 2] + numbers[n / 2]))
}

fn percentile(mut numbers: Vec<f64>, share: f64) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let at = (share * numbers.len() as f64).ceil() as usize;
    numbers.get(at.saturating_sub(1)).copied()
}

/// A number in a cell, or a dash.
fn cell(x: Option<f64>, show: impl Fn(f64) -> String) -> String {
    x.map_or("–".to_owned(), show)
}

fn error(x: Option<f64>) -> String {
    x.map_or("NaN".to_owned(), |x| if x == 0.0 { "0".to_owned() } else { format!("{x:.0e}") })
}

/// Whether what is reported agrees with the reference draws.
fn is_right(fit: &Fit) -> bool {
    let within = |e: &Option<(f64, String)>, limit: f64| e.as_ref().is_some_and(|(e, _)| e.abs() <= limit);
    fit.unreported == 0 && within(&fit.mean_error, MEAN) && within(&fit.sd_error, SD)
}

fn agreement_cells(a: &Option<Agreement>) -> [String; 3] {
    let dash = || "–".to_owned();
    match a {
        None => [dash(), dash(), dash()],
        Some(a) if a.has_other_coordinates || a.points == 0 => [dash(), dash(), error(a.product)],
        Some(a) => [error(a.value), error(a.gradient), error(a.product)],
    }
}

fn row(o: &Outcome) -> String {
    let [value, gradient, product] = agreement_cells(&o.agreement);
    let speed = o.speed.as_ref();
    let us = cell(speed.map(|s| 1e6 * s.gradient), |x| format!("{x:.2}"));
    let ratio = cell(speed.and_then(|s| Some(s.gradient / s.reference?)), |x| format!("{x:.2}"));
    let ready = cell(speed.map(|s| 1e3 * (s.lowering + s.compiling)), |x| format!("{x:.0}"));
    let fit = o.fit.as_ref();
    let verdict = match (fit, &o.error) {
        (Some(fit), _) => fit.verdict.clone(),
        (None, Some(_)) => "failed".to_owned(),
        (None, None) => "–".to_owned(),
    };
    let worst = |e: Option<&(f64, String)>| cell(e.map(|e| e.0), |x| format!("{x:.3}"));
    let mean = worst(fit.and_then(|f| f.mean_error.as_ref()));
    let sd = worst(fit.and_then(|f| f.sd_error.as_ref()));
    let seconds = cell(fit.map(|f| f.seconds), |x| format!("{x:.1}"));
    let dim = o.dim.map_or("–".to_owned(), |d| d.to_string());
    format!(
        "| {} | {dim} | {value} | {gradient} | {product} | {ready} | {us} | {ratio} | {verdict} | {mean} | {sd} | {seconds} |\n",
        o.name
    )
}

/// A table with a row for each posterior, and counts before it.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let lowered = outcomes.iter().filter(|o| o.dim.is_some()).count();
    let _ = writeln!(text, "- {lowered} of {} posteriors are lowered", outcomes.len());
    densities(outcomes, &mut text);
    let all: Vec<(&Outcome, &Fit)> = outcomes.iter().filter_map(|o| Some((o, o.fit.as_ref()?))).collect();
    let with: Vec<_> = all.iter().copied().filter(|(_, f)| f.compared > 0).collect();
    for (what, fits) in [("fits of posteriors with reference draws", &with), ("all fits", &all)] {
        if !fits.is_empty() {
            let count = |verdict: &str| fits.iter().filter(|(_, f)| f.verdict == verdict).count();
            let seconds: Vec<f64> = fits.iter().map(|(_, f)| f.seconds).collect();
            let slow = seconds.iter().filter(|s| **s > SECONDS).count();
            let _ = writeln!(
                text,
                "- {}: {} good, {} reweight, {} do-not-trust of {what}; median {:.1} s, 90 % within {:.1} s, {slow} longer than {SECONDS} s",
                fits.len(),
                count("good"),
                count("reweight"),
                count("do-not-trust"),
                median(seconds.clone()).unwrap_or(f64::NAN),
                percentile(seconds, 0.9).unwrap_or(f64::NAN),
            );
        }
    }
    if !with.is_empty() {
        let usable = |f: &Fit| f.verdict == "good" || f.verdict == "reweight";
        let right = with.iter().filter(|(_, f)| usable(f) && is_right(f)).count();
        let wrong = with.iter().filter(|(_, f)| f.verdict == "good" && !is_right(f)).count();
        let _ = writeln!(
            text,
            "- good or reweight, with all means within {MEAN} sd and all sds within {:.0} %: {right} of {}; good and not so: {wrong}",
            100.0 * SD,
            with.len()
        );
    }
    let head = "posterior | dimensions | value | gradient | Hessian | ms to ready | µs a gradient | of stanli | verdict | mean, sd | sd | s";
    let _ = write!(text, "\n| {head} |\n|{}\n", "---|".repeat(head.split('|').count()));
    outcomes.iter().for_each(|o| text += &row(o));
    notes(outcomes, &mut text);
    text
}

/// Counts of densities that agree, and the speed.
fn densities(outcomes: &[Outcome], text: &mut String) {
    let found: Vec<&Agreement> = outcomes.iter().filter_map(|o| o.agreement.as_ref()).collect();
    let compared: Vec<_> = found.iter().filter(|a| !a.has_other_coordinates && a.points > 0).collect();
    let count = |f: fn(&Agreement) -> Option<f64>, limit: f64| {
        compared.iter().filter(|a| f(a).is_some_and(|e| e <= limit)).count()
    };
    if !compared.is_empty() {
        let products = found.iter().filter(|a| a.product.is_some_and(|e| e <= PRODUCT)).count();
        let _ = writeln!(
            text,
            "- {} compared: {} values within {VALUE:.0e}, {} gradients within {GRADIENT:.0e}; {products} of {} products with the Hessian within {PRODUCT:.0e} of differences",
            compared.len(),
            count(|a| a.value, VALUE),
            count(|a| a.gradient, GRADIENT),
            found.len(),
        );
    }
    let speeds: Vec<_> = outcomes.iter().filter_map(|o| o.speed.as_ref()).collect();
    if let Some(ready) = median(speeds.iter().map(|s| s.lowering + s.compiling).collect()) {
        let most = speeds.iter().map(|s| s.lowering + s.compiling).fold(0.0, f64::max);
        let _ = writeln!(text, "- read, lowered and compiled in {:.0} ms (median), {most:.2} s (most)", 1e3 * ready);
    }
    if let Some(ratio) = median(speeds.iter().filter_map(|s| Some(s.gradient / s.reference?)).collect()) {
        let _ = writeln!(text, "- a gradient of a row takes {ratio:.2} of stanli's time (median)");
    }
}

/// What failed, and why fits are not trusted.
fn notes(outcomes: &[Outcome], text: &mut String) {
    let mut list = vec![];
    for o in outcomes {
        if let Some(why) = &o.error {
            list.push(format!("- {}: {why}", o.name));
        }
        if let Some(fit) = o.fit.as_ref().filter(|f| f.verdict == "do-not-trust" || (f.compared > 0 && !is_right(f))) {
            let off = |e: &Option<(f64, String)>| e.as_ref().map_or("–".to_owned(), |(x, n)| format!("{x:.3} ({n})"));
            let (mean, sd) = (off(&fit.mean_error), off(&fit.sd_error));
            let reasons = fit.reasons.join("; ");
            list.push(format!("- {}: {}, mean {mean}, sd {sd}, {}: {reasons}", o.name, fit.verdict, fit.chain));
        }
    }
    if !list.is_empty() {
        *text += &format!("\n{}\n", list.join("\n"));
    }
}
