//! All fits of a set in two tables: one row for each fit, and one for each parameter of each fit.

use super::read;
use crate::many::SetFolder;
use crate::output::print_result;
use anyhow::{Context, Result, anyhow};
use mcvi::disk;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// Fits shown in the terminal.
const SHOWN: usize = 20;

/// The columns of the table of fits, and where they are in a summary.
const COLUMNS: [(&str, &str); 12] = [
    ("name", "/name"),
    ("verdict", "/verdict"),
    ("bound", "/bound/value"),
    ("bound_se", "/bound/se"),
    ("log_evidence", "/log_evidence/value"),
    ("log_evidence_se", "/log_evidence/se"),
    ("pareto_k", "/pareto_k"),
    ("ess_fraction", "/ess_fraction"),
    ("divergences", "/divergences"),
    ("iterations", "/iterations"),
    ("seed", "/seed"),
    ("error", "/error"),
];

/// The results of all fits of a set.
pub struct Joined {
    fits: Vec<Value>,
}

/// Read the results of all fits.
pub fn joined(folder: &SetFolder) -> Result<Joined> {
    let one = |name: &String| {
        read(&folder.item(name))?.ok_or_else(|| anyhow!("{} has no result", folder.item(name).display()))
    };
    Ok(Joined { fits: folder.manifest.items.iter().map(one).collect::<Result<_>>()? })
}

impl Joined {
    /// Write the tables.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let rows = self.fits.iter().map(|fit| COLUMNS.iter().map(|(_, path)| field(fit.pointer(path))).collect());
        table(&folder.join("fits.csv"), &COLUMNS.map(|(name, _)| name), rows)?;
        let names = ["mean", "sd", "q05", "q50", "q95"];
        let parameters = self.fits.iter().flat_map(|fit| {
            let parameters = fit["parameters"].as_object().into_iter().flatten();
            parameters.map(|(parameter, summary)| {
                let numbers = names.map(|name| field(summary.get(name)));
                [vec![field(fit.get("name")), parameter.clone()], numbers.to_vec()].concat()
            })
        });
        let header = [["name", "parameter"].as_slice(), &names].concat();
        table(&folder.join("summaries.csv"), &header, parameters)
    }

    fn verdict(fit: &Value) -> &str {
        fit["verdict"].as_str().unwrap_or("failed")
    }

    fn counts(&self) -> [(&'static str, usize); 4] {
        let count = |verdict| self.fits.iter().filter(|fit| Joined::verdict(fit) == verdict).count();
        ["good", "reweight", "do-not-trust", "failed"].map(|verdict| (verdict, count(verdict)))
    }

    pub fn print(&self, json: bool, folder: &Path) -> Result<()> {
        let verdicts: serde_json::Map<String, Value> =
            self.counts().iter().map(|(v, n)| ((*v).to_owned(), json!(n))).collect();
        print_result(json, &json!({ "verdicts": verdicts, "fits": self.fits }), &self.text(folder))
    }

    fn text(&self, folder: &Path) -> String {
        let counts = self.counts().map(|(verdict, n)| format!("{n} {verdict}")).join(", ");
        let mut text = format!("{} data sets fitted: {counts}.\n\n", self.fits.len());
        // What needs attention comes first.
        let urgency =
            |fit: &&Value| ["failed", "do-not-trust", "reweight"].iter().position(|v| *v == Joined::verdict(fit));
        let mut fits: Vec<&Value> = self.fits.iter().collect();
        fits.sort_by_key(|fit| urgency(fit).unwrap_or(usize::MAX));
        let name = |fit: &Value| fit["name"].as_str().unwrap_or_default().to_owned();
        let width = fits.iter().take(SHOWN).map(|fit| name(fit).chars().count()).max().unwrap_or(0).clamp(4, 32);
        let _ = writeln!(text, "{:<width$}  {:<12}{:>14}{:>8}{:>11}", "", "verdict", "log p(x) ≥", "k̂ ", "effective");
        for fit in fits.iter().take(SHOWN) {
            let _ = match fit["error"].as_str() {
                Some(error) => writeln!(text, "{:<width$}  failed: {error}", name(fit)),
                None => {
                    let number = |path: &str, scale: f64, digits: usize| {
                        let value = fit.pointer(path).and_then(Value::as_f64);
                        value.map_or("–".to_owned(), |x| format!("{:.digits$}", scale * x))
                    };
                    let (bound, k) = (number("/bound/value", 1.0, 3), number("/pareto_k", 1.0, 2));
                    let effective = number("/ess_fraction", 100.0, 0);
                    writeln!(
                        text,
                        "{:<width$}  {:<12}{bound:>14}{k:>7}{effective:>9} %",
                        name(fit),
                        Joined::verdict(fit)
                    )
                }
            };
        }
        if fits.len() > SHOWN {
            let _ = writeln!(text, "… and {} more", fits.len() - SHOWN);
        }
        let shown = folder.display();
        let _ =
            write!(text, "\nWritten to {shown}: fits.csv, summaries.csv, and a folder for each fit in {shown}/fits.");
        text
    }
}

/// A value as a field of a table; what is not known is empty.
fn field(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn table(path: &Path, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
    let mut writer = csv::Writer::from_writer(vec![]);
    writer.write_record(header)?;
    rows.into_iter().try_for_each(|row| writer.write_record(row))?;
    let bytes = writer.into_inner().map_err(|e| anyhow!("{e}"))?;
    disk::atomic_write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))
}
