//! What a fit came to, for people and for programs.

use super::problem::Problem;
use crate::number::{fixed, json_number, with_error};
use crate::store::Column;
use anyhow::Result;
use mcvi::Draws;
use mcvi::diagnostics::{LogMean, Mean};
use mcvi::infer::{Ended, Posterior, Summary, VerdictKind, Weights, summarise};
use mcvi::model::{Quantities, Quantity};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Pareto k̂ up to which reweighting is sound.
const SOUND: f64 = 0.7;
/// Parameters shown in the terminal.
const SHOWN: usize = 24;

/// A judged posterior in the units of its model.
pub struct Outcome {
    pub name: String,
    pub about: String,
    pub notes: Vec<String>,
    pub log_evidence: Option<f64>,
    pub posterior: Posterior,
    /// Marginals of parameters and generated quantities.
    pub summaries: Vec<(String, Summary)>,
    /// Whether these are reweighted.
    pub reweighted: bool,
    /// As many draws as were asked for, with what follows from them.
    pub written: Quantities,
    pub count: usize,
    pub seconds: f64,
}

impl Outcome {
    pub fn new(problem: &Problem, posterior: Posterior, seed: u64, count: usize, seconds: f64) -> Result<Self> {
        let draws = &posterior.draws;
        let all = problem.model.constrained(&draws.z)?;
        let reweighted = posterior.judgement.pareto_k <= SOUND && posterior.judgement.lost == 0;
        let weights =
            if reweighted { Weights::smoothed(&draws.log_weights) } else { Weights::even(draws.log_weights.len()) };
        let columns =
            all.parameters.iter().chain(&all.generated).flat_map(|q| {
                q.names().into_iter().enumerate().map(|(i, name)| (name, q.column(i))).collect::<Vec<_>>()
            });
        let summaries = columns.map(|(name, column)| (name, summarise(&column, &weights))).collect();
        let written = problem.model.quantities(&draws.z[..count.min(draws.z.len())], seed)?;
        Ok(Outcome {
            name: problem.name.clone(),
            about: problem.about.clone(),
            notes: problem.notes.clone(),
            log_evidence: problem.log_evidence,
            posterior,
            summaries,
            reweighted,
            written,
            count,
            seconds,
        })
    }

    /// The share of draws that the weights leave.
    pub fn share(&self) -> f64 {
        self.posterior.judgement.effective / self.posterior.draws.z.len() as f64
    }

    /// log p(x) by importance weights, with its error.
    pub fn evidence(&self) -> String {
        let LogMean { value, se } = self.posterior.judgement.log_evidence;
        with_error(Mean { value, se, n: self.posterior.draws.z.len() }, 4)
    }

    /// The verdict in a sentence.
    pub fn headline(&self) -> &'static str {
        match (self.posterior.verdict.kind, self.reweighted) {
            (VerdictKind::Good, _) => "The approximation is good: its bound and its summaries can be used as they are.",
            (VerdictKind::Reweight, _) => "Usable with the draws reweighted, as the summaries here are.",
            (VerdictKind::DoNotTrust, _) => "Do not trust this approximation.",
        }
    }

    pub fn json(&self) -> Value {
        let (j, n) = (&self.posterior.judgement, json_number);
        let parameters: Map<String, Value> = self
            .summaries
            .iter()
            .map(|(name, s)| {
                let summary = json!({
                    "mean": n(s.mean), "sd": n(s.sd), "q05": n(s.q05), "q50": n(s.q50), "q95": n(s.q95),
                });
                (name.clone(), summary)
            })
            .collect();
        json!({
            "model": self.name,
            "bound": { "value": n(j.bound.value), "se": n(j.bound.se) },
            "log_evidence": { "value": n(j.log_evidence.value), "se": n(j.log_evidence.se) },
            "pareto_k": n(j.pareto_k),
            "ess_fraction": n(self.share()),
            "r2_path": n(j.r2_path),
            "divergences": j.diverged,
            "verdict": self.posterior.verdict.kind.word(),
            "reasons": self.posterior.verdict.reasons,
            "summaries": if self.reweighted { "reweighted" } else { "raw" },
            "interrupted": self.posterior.ended == Ended::Interrupted,
            "iterations": self.posterior.iterations,
            "seconds": n(self.seconds),
            "parameters": parameters,
        })
    }

    pub fn text(&self) -> String {
        let (j, v) = (&self.posterior.judgement, &self.posterior.verdict);
        let mut text = format!("{}: {}\n", self.name, self.about);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "\nVerdict: {}. {}", v.kind.word(), self.headline());
        for reason in &v.reasons {
            let _ = writeln!(text, "  because {reason}");
        }
        for next in &v.next {
            let _ = writeln!(text, "  try {next}");
        }
        let known = self.log_evidence.map_or_else(String::new, |z| format!(" (exact {})", fixed(z, 4)));
        let _ = writeln!(text, "\nlog p(x) ≥ {}, a lower bound", with_error(j.bound, 4));
        let _ = writeln!(text, "log p(x) ≈ {} by importance weights{known}", self.evidence());
        let _ = writeln!(
            text,
            "Pareto k̂ {}, effective draws {:.0} %, R² of paths {:.3}, {} divergences",
            fixed(j.pareto_k, 2),
            100.0 * self.share(),
            j.r2_path,
            j.diverged
        );
        let _ = writeln!(
            text,
            "{}, {} iterations, {:.1} s{}",
            self.posterior.shape.name(),
            self.posterior.iterations,
            self.seconds,
            match self.posterior.ended {
                Ended::Finished => "",
                Ended::Budget => ", stopped by the budget",
                Ended::Interrupted => ", interrupted",
            }
        );
        let kind = if self.reweighted { "reweighted" } else { "raw" };
        let width = self.summaries.iter().take(SHOWN).map(|(n, _)| n.chars().count()).max().unwrap_or(4).max(4);
        let _ = writeln!(
            text,
            "\n{:<width$}  {:>10} {:>10} {:>10} {:>10} {:>10}   ({kind} summaries)",
            "", "mean", "sd", "5 %", "50 %", "95 %"
        );
        for (name, s) in self.summaries.iter().take(SHOWN) {
            let cells = [s.mean, s.sd, s.q05, s.q50, s.q95].map(|x| format!("{:>10}", short(x)));
            let _ = writeln!(text, "{name:<width$}  {}", cells.join(" "));
        }
        if self.summaries.len() > SHOWN {
            let _ = writeln!(text, "… and {} more; --json or --out has them all", self.summaries.len() - SHOWN);
        }
        text.trim_end().to_owned()
    }
}

/// A number in about four digits.
fn short(x: f64) -> String {
    let size = x.abs();
    let text = if size != 0.0 && !(1e-3..1e6).contains(&size) {
        format!("{x:.3e}")
    } else {
        let places = if size >= 1000.0 {
            1
        } else if size >= 10.0 {
            2
        } else {
            4
        };
        format!("{x:.places$}")
    };
    text.replace('-', "−")
}

/// Draws as a table: every element of every parameter and generated quantity, then the log weight and log p, as
/// `log_weight` and `log_p` unless a parameter is called that: then with an underscore behind.
pub fn columns(problem: &Problem, draws: &Draws) -> Result<Vec<Column>> {
    Ok(table(&problem.model.constrained(&draws.z)?, draws, draws.z.len()))
}

/// The same from quantities at hand.
pub fn table(quantities: &Quantities, draws: &Draws, count: usize) -> Vec<Column> {
    let elements =
        |q: &Quantity| q.names().into_iter().enumerate().map(|(i, name)| (name, q.column(i))).collect::<Vec<_>>();
    let mut columns: Vec<Column> =
        quantities.parameters.iter().chain(&quantities.generated).flat_map(elements).collect();
    for (name, values) in [("log_weight", &draws.log_weights), ("log_p", &draws.log_p)] {
        // A parameter may have that name already, and keeps it.
        let mut name = name.to_owned();
        while columns.iter().any(|(taken, _)| *taken == name) {
            name.push('_');
        }
        columns.push((name, values[..count].to_vec()));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_of_their_own() {
        let q = |name: &str| Quantity { name: name.to_owned(), shape: vec![], values: vec![1.0] };
        let quantities = Quantities { parameters: vec![q("log_p"), q("a"), q("log_p_")], ..Quantities::default() };
        let one = mcvi::posteriors::ALL[0].model().expect("a model");
        let draws = mcvi::Approximation::new(one, mcvi::Chain::new(mcvi::density::Gaussian::diagonal()));
        let draws = draws.and_then(|a| a.draw(1, 1)).expect("a draw");
        let names: Vec<String> = table(&quantities, &draws, 1).into_iter().map(|c| c.0).collect();
        assert_eq!(names, ["log_p", "a", "log_p_", "log_weight", "log_p__"]);
    }
}
