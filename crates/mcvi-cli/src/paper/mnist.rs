//! `mcvi paper mnist`: Table 1 of the paper beside the runs found in a folder.

mod found;
mod rows;

pub use found::Results;

use crate::mistake::Mistake;
use crate::number::{counted, fixed};
use crate::output::{print_result, say};
use crate::vae::{Estimate, beyond, duration, learned_momentum};
use anyhow::Result;
use clap::Args;
use found::{Found, SAMPLES, TEST_IMAGES};
use mcvi::vae::Architecture;
use rows::{QUOTED, ROWS, Row};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Default folders of runs.
const PLACES: [&str; 2] = ["results/table1", "runs"];
/// Width of the terminal.
const WIDTH: usize = 80;

#[derive(Args)]
pub struct Options {
    /// Folders of runs, of result files, or both; or a run's own folder. [default: results/table1 and runs]
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs grouped by the row they belong to.
struct Table {
    runs: Vec<Vec<Found>>,
    /// Runs that belong to no row.
    others: Vec<Found>,
    /// The folders that were searched.
    places: Vec<PathBuf>,
    /// Errors from runs that could not be read.
    wrong: Vec<String>,
}

pub fn run(options: &Options) -> Result<()> {
    let mut places = options.folders.clone();
    if let Some(absent) = places.iter().find(|path| !path.is_dir()) {
        let why = format!("{} is not a folder; give one that holds runs of `mcvi vae train`", absent.display());
        return Err(Mistake(why).into());
    }
    if places.is_empty() {
        places = PLACES.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    }
    let mut table = Table { runs: ROWS.iter().map(|_| vec![]).collect(), others: vec![], places, wrong: vec![] };
    for place in &table.places {
        let (found, wrong) = found::search(place)?;
        for run in found {
            let row = ROWS.iter().position(|row| row.has(&run.architecture) && run.binarized_mnist != Some(false));
            row.map_or(&mut table.others, |row| &mut table.runs[row]).push(run);
        }
        table.wrong.extend(wrong);
    }
    // Joined runs have no validation images left to be compared by; their settings were chosen before.
    let by = |run: &Found| match run.results.valid_bound {
        _ if run.joined() => f64::INFINITY,
        bound => bound.unwrap_or(f64::NEG_INFINITY),
    };
    table.runs.iter_mut().for_each(|runs| runs.sort_by(|a, b| by(b).total_cmp(&by(a))));
    table.wrong.iter().for_each(|wrong| say(&format!("left out: {wrong}")));
    print_result(options.json, &table.as_json(), &table.as_text())
}

impl Table {
    fn as_text(&self) -> String {
        let mut text = "Table 1: binarized MNIST, nats per image of the test set. The paper's rows, and\n\
                        below each the runs found, joined ones (*) and the best by validation first.\n"
            .to_owned();
        if self.places.is_empty() {
            let _ = writeln!(text, "No runs: there is no folder {}.", PLACES.join(" or "));
        }
        self.places.iter().for_each(|place| {
            let _ = writeln!(text, "Runs from {}", place.display());
        });
        text.push('\n');
        line(&mut text, ["", "bound", "log p(x)", "gap", "epochs", "time", "seed"].map(str::to_owned));
        let mut heading = "";
        for (row, runs) in ROWS.iter().zip(&self.runs) {
            if row.heading() != heading {
                heading = row.heading();
                let _ = writeln!(text, "{heading}");
            }
            line(&mut text, paper_cells(&format!("  {}", row.name()), Some(row.bound), Some(row.log_p)));
            runs.iter().for_each(|run| line(&mut text, cells(run)));
        }
        let _ = writeln!(text, "Other methods, quoted by the paper from Gregor et al. (2015)");
        for (name, bound, log_p) in QUOTED {
            line(&mut text, paper_cells(&format!("  {name}"), bound, log_p));
        }
        if !self.others.is_empty() {
            let _ = writeln!(text, "Runs that belong to none of these rows");
            self.others.iter().for_each(|run| line(&mut text, cells(run)));
        }
        text += &self.notes();
        text.trim_end().to_owned()
    }

    fn all(&self) -> impl Iterator<Item = &Found> {
        self.runs.iter().flatten().chain(&self.others)
    }

    /// Notes on the runs, and the rows that are missing.
    fn notes(&self) -> String {
        let mut text = "\n".to_owned();
        let mut more: Vec<&str> = self.all().flat_map(|run| beyond(&run.architecture)).collect();
        more.sort_unstable();
        more.dedup();
        if !more.is_empty() {
            let _ = writeln!(text, "+ goes beyond the paper's chain:");
            more.iter().for_each(|more| {
                let _ = writeln!(text, "  {more}");
            });
        }
        if self.all().any(|run| mark(&run.architecture) == '~') {
            let _ = writeln!(text, "~ q(v′|x, z₀) is a network of image and position; the paper does not say");
        }
        if self.all().any(Found::joined) {
            let _ = writeln!(text, "* also trained on the validation images");
        }
        for run in self.all() {
            if let Some(from) = &run.results.settings.from {
                let from = from.file_name().unwrap_or(from.as_os_str()).to_string_lossy();
                let before = run.results.epochs_before;
                let after = before.map_or(String::new(), |epochs| format!(", after {}", counted(epochs, "epoch")));
                let _ = writeln!(text, "{}: started from the weights of {from}{after}", run.name());
            }
        }
        for run in &self.others {
            let _ = writeln!(text, "{}: {}", run.name(), odd(run));
        }
        for run in self.all() {
            match run.results.images {
                Some(n) if n != TEST_IMAGES => {
                    let _ = writeln!(text, "{}: evaluated on {n} images, not {TEST_IMAGES}", run.name());
                }
                Some(_) => {}
                None if run.results.bound.is_some() => {}
                None => {
                    let _ =
                        writeln!(text, "{}: not evaluated yet: mcvi vae evaluate {}", run.name(), run.path.display());
                }
            }
        }
        for run in self.all() {
            if let Some(n) = run.results.samples.filter(|n| *n < SAMPLES) {
                let samples = counted(n, "sample");
                let _ = writeln!(text, "{}: evaluated with {samples} per image, not {SAMPLES}", run.name());
            }
        }
        let missing: Vec<&Row> =
            ROWS.iter().zip(&self.runs).filter(|(_, runs)| runs.is_empty()).map(|(row, _)| row).collect();
        if !missing.is_empty() {
            let _ = writeln!(
                text,
                "Missing: {} of {} rows. To train them (then: mcvi vae evaluate RUN):",
                missing.len(),
                ROWS.len()
            );
            for row in missing {
                let (out, options) = row.training();
                let command = format!("  mcvi vae train --data DIR --out {out}");
                let apart = if command.len() + 1 + options.len() <= WIDTH { " " } else { " \\\n      " };
                let _ = writeln!(text, "{command}{apart}{options}");
            }
        }
        text
    }

    fn as_json(&self) -> Value {
        let rows = ROWS.iter().zip(&self.runs).map(|(row, runs)| {
            let (out, options) = row.training();
            json!({
                "decoder": row.decoder,
                "inference": row.inference,
                "leapfrogs": row.leapfrogs,
                "hidden": row.hidden,
                "paper": {"bound": row.bound, "log_p": row.log_p, "gap": round(row.log_p - row.bound)},
                "runs": runs.iter().map(run_json).collect::<Vec<_>>(),
                "missing": runs.is_empty(),
                "train": format!("mcvi vae train --data DIR --out {out} {options}"),
            })
        });
        let quoted = QUOTED.iter().map(|(name, bound, log_p)| json!({"name": name, "bound": bound, "log_p": log_p}));
        json!({
            "rows": rows.collect::<Vec<_>>(),
            "quoted": quoted.collect::<Vec<_>>(),
            "others": self.others.iter().map(run_json).collect::<Vec<_>>(),
            "places": self.places,
            "left_out": self.wrong,
        })
    }
}

/// Why a run belongs to no row.
fn odd(run: &Found) -> String {
    if run.binarized_mnist == Some(false) {
        return "trained on other images than binarized MNIST".to_owned();
    }
    let a = &run.architecture;
    let parts = json!([a.decoder, a.inference]);
    let part = |i: usize| parts[i].as_str().unwrap_or_default().to_owned();
    let steps = if a.steps == 1 { String::new() } else { format!(" --steps {}", a.steps) };
    format!("--decoder {} --inference {} --leapfrogs {} --hidden {}{steps}", part(0), part(1), a.leapfrogs, a.hidden)
}

/// A run's results in the format of result files, with derived values.
fn run_json(run: &Found) -> Value {
    let mut value = serde_json::to_value(&run.results).unwrap_or_default();
    value["name"] = json!(run.name());
    value["path"] = json!(run.path);
    value["seed"] = json!(run.seed());
    value["gap"] = json!(run.gap());
    value["beyond_paper"] = json!(beyond(&run.architecture));
    value["binarized_mnist"] = json!(run.binarized_mnist);
    value
}

/// Marks what a chain has that the paper's does not (+), or that the paper does not mention (~).
fn mark(architecture: &Architecture) -> char {
    match architecture {
        a if !beyond(a).is_empty() => '+',
        a if learned_momentum(a) => '~',
        _ => ' ',
    }
}

/// The paper's numbers have two decimals.
fn round(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

fn paper_cells(name: &str, bound: Option<f64>, log_p: Option<f64>) -> [String; 7] {
    let shown = |x: Option<f64>| x.map_or(String::new(), |x| fixed(x, 2));
    let gap = log_p.zip(bound).map(|(p, b)| p - b);
    let none = String::new;
    [name.to_owned(), shown(bound), shown(log_p), shown(gap), none(), none(), none()]
}

fn cells(run: &Found) -> [String; 7] {
    let results = &run.results;
    let shown = |e: Option<Estimate>| e.map_or("—".to_owned(), |e| e.text(2).replace(" ± ", "±"));
    let epochs = match results.best_epoch {
        Some(best) => format!("{best}/{}", results.epochs),
        None => results.epochs.to_string(),
    };
    let joined = if run.joined() { "*" } else { " " };
    [
        format!(" {joined}{} {}", mark(&run.architecture), run.name()),
        shown(results.bound),
        shown(results.log_p),
        run.gap().map_or("—".to_owned(), |gap| fixed(gap, 2)),
        epochs,
        results.seconds.map_or(String::new(), duration),
        run.seed().to_string(),
    ]
}

/// One line of the table: a name, truncated if it is too long, and numbers.
fn line(text: &mut String, cells: [String; 7]) {
    const WIDTHS: [usize; 7] = [27, 13, 13, 6, 8, 7, 5];
    let mut written = String::new();
    for (i, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        let long = cell.chars().count() > width;
        let cut = if i == 0 && long { cell.chars().take(width - 1).chain(['…']).collect() } else { cell.clone() };
        let _ = if i == 0 { write!(written, "{cut:<width$}") } else { write!(written, "{cut:>width$}") };
    }
    let _ = writeln!(text, "{}", written.trim_end());
}
