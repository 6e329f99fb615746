//! `mcvi paper claims`: claims made in the text of sections 3 and 4, measured and printed beside the sentence.

mod cost;
mod section3;
mod section4;

use crate::output::Common;
use crate::progress;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
}

/// A claim of the paper and the measurement.
struct Claim {
    /// A short title.
    name: &'static str,
    /// The section of the paper.
    section: &'static str,
    /// The sentence in the paper.
    sentence: &'static str,
    /// The measurements, as a table.
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The measurements, as JSON.
    data: Value,
    /// Whether it holds here.
    holds: bool,
    /// The conclusion.
    finding: String,
}

pub fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut folder = common.folder()?;
    let (seed, bar) = (common.seed, progress::bar(7, "Claims"));
    let mut claims = vec![];
    let mut add = |claim: Claim| {
        bar.set_message(claim.name);
        bar.inc(1);
        claims.push(claim);
    };
    let models = section3::models(seed)?;
    add(section3::gradient_variance(&models, seed)?);
    add(cost::per_iteration()?);
    let (claim, figure) = cost::wall_clock(seed)?;
    add(claim);
    add(section4::detailed_balance(seed)?);
    add(section4::annealing(seed)?);
    add(section4::averaging(seed)?);
    add(section4::local_and_joint(seed)?);
    bar.finish_and_clear();
    if let Some(folder) = &mut folder {
        folder.figure("wall_clock", &figure)?;
    }
    let result = json!({ "claims": claims.iter().map(Claim::as_json).collect::<Vec<_>>() });
    let text: String = claims.iter().map(Claim::as_text).collect();
    common.finish(folder, &result, text.trim_end())
}

impl Claim {
    fn as_json(&self) -> Value {
        json!({
            "name": self.name,
            "section": self.section,
            "sentence": self.sentence,
            "measured": self.data,
            "holds": self.holds,
            "finding": self.finding,
        })
    }

    fn as_text(&self) -> String {
        let mut text = format!("§{} {}\n\n", self.section, self.name);
        for line in wrap(&format!("“{}”", self.sentence), 74) {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
        let chars = |s: &str| s.chars().count();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|j| self.rows.iter().map(|r| chars(&r[j])).chain([chars(self.columns[j])]).max().unwrap_or(0))
            .collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            for (cell, width) in cells.zip(&widths) {
                let _ = write!(text, "  {}{cell}", " ".repeat(width - chars(cell)));
            }
            text.push('\n');
        };
        line(&mut self.columns.iter().copied());
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str));
        }
        let verdict = if self.holds { "Holds here" } else { "Does not hold here" };
        text.push('\n');
        for line in wrap(&format!("{verdict}: {}", self.finding), 78) {
            let _ = writeln!(text, "{line}");
        }
        text.push_str("\n\n");
        text
    }
}

/// Break a text into lines of at most this many characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}
