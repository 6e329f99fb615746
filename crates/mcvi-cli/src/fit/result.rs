//! The result of a fit, as text and as JSON.

use crate::number::{fixed, json_number, with_error};
use crate::output::say;
use crate::ranks;
use crate::store::Column;
use anyhow::Result;
use mcvi::Draws;
use mcvi::diagnostics::{LogMean, Mean, SummaryTable};
use mcvi::fit::StopReason;
use mcvi::infer::{Advice, Attempt, Fitted, Posterior, PredictiveCheck, Statistic, VerdictKind};
use mcvi::model::{Quantities, Quantity};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Instant;

/// Parameters shown in the terminal.
const SHOWN: usize = 24;

/// A posterior with its verdict, and what the command derives from it.
pub struct Outcome {
    /// The posterior.
    pub posterior: Posterior,
    /// Marginals of parameters and generated quantities.
    pub summaries: SummaryTable,
    /// An estimate of an upper bound on log p(x); none where draws cannot be reweighted or the chain has no way back.
    pub upper: Option<Mean>,
    /// The draws to write.
    pub draws: Draws,
    /// Whether they have equal weight.
    pub is_resampled: bool,
    /// Whether the model fits the data.
    pub checks: Vec<PredictiveCheck>,
    /// How many draws were asked for.
    pub count: usize,
    /// What the fit took.
    pub seconds: f64,
    /// For how many of the draws the log likelihood of each observation and replicated data are written; none for as many as
    /// take little space.
    pub pointwise: Option<usize>,
    /// By when all is to be written, if time is limited.
    pub deadline: Option<Instant>,
}

/// Draws by which it is estimated.
const UPPER: usize = 2000;

impl Outcome {
    /// `count` draws are written: of equal weight where they can be reweighted, unless raw ones are asked for.
    pub fn new(posterior: Posterior, draws: (usize, bool), seconds: f64) -> Result<Self> {
        Outcome::within(posterior, draws, seconds, None)
    }

    /// The same, but what is not necessary is left out where no seconds are left for it.
    pub fn within(posterior: Posterior, (count, raw): (usize, bool), seconds: f64, left: Option<f64>) -> Result<Self> {
        let since = Instant::now();
        let mut summaries = posterior.summaries()?;
        let internal = posterior.model.internal();
        summaries.0.sort_by_key(|(name, _)| is_internal(&internal, name));
        let left = || left.map(|left| ranks::agreed(left - since.elapsed().as_secs_f64()));
        let upper = match left() {
            Some(left) if left <= 0.0 => None,
            _ => posterior.upper_estimate(UPPER, 1).unwrap_or_default().filter(|u| u.value.is_finite()),
        };
        let checks = posterior.predictive_checks_within(1, left())?;
        let resampled = posterior.resampled(count, 1).filter(|_| !raw);
        let is_resampled = resampled.is_some();
        let draws = resampled.unwrap_or_else(|| posterior.draws.pick(&(0..count).collect::<Vec<_>>()));
        Ok(Outcome {
            posterior,
            summaries,
            upper,
            draws,
            is_resampled,
            checks,
            count,
            seconds,
            pointwise: None,
            deadline: None,
        })
    }

    /// Seconds until all is to be written, if time is limited.
    pub fn seconds_left(&self) -> Option<f64> {
        self.deadline.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// log p(x) by importance weights, with its error.
    pub fn evidence(&self) -> String {
        let LogMean { value, se } = self.posterior.diagnostics.log_evidence;
        with_error(Mean { value, se, n: self.posterior.draws.z.len() }, 4)
    }

    /// The verdict in a sentence.
    pub fn headline(&self) -> &'static str {
        match self.posterior.verdict.kind {
            VerdictKind::Good => "The approximation is good: its bound and its summaries can be used as they are.",
            VerdictKind::Reweight => "Usable with the draws reweighted, as the summaries here are.",
            VerdictKind::DoNotTrust => "Do not trust this approximation.",
        }
    }

    /// What the model misses of the data, in words. It has nothing to do with the approximation.
    pub fn missed(&self) -> Vec<String> {
        let missed = |c: &PredictiveCheck| {
            let (what, name) = (c.statistic.words(), &c.name);
            let number = |x: f64| match c.statistic {
                Statistic::Zeros => format!("{:.0} %", 100.0 * x),
                _ => fixed(x, 2),
            };
            format!("the {what} of {name}: {} observed, {} predicted", number(c.observed), number(c.predicted))
        };
        self.checks.iter().filter(|c| c.is_missed()).map(missed).collect()
    }

    /// As it is written to `summary.json`.
    pub fn json(&self) -> Value {
        let (j, n) = (&self.posterior.diagnostics, json_number);
        let parameters: Map<String, Value> = self
            .summaries
            .0
            .iter()
            .map(|(name, s)| {
                // What the tails do not allow to be estimated is not there.
                let known = |x: f64, is_known: bool| if is_known { n(x) } else { Value::Null };
                let summary = json!({
                    "mean": known(s.mean, s.has_mean), "sd": known(s.sd, s.has_sd), "q05": n(s.q05), "q50": n(s.q50), "q95": n(s.q95),
                });
                (name.clone(), summary)
            })
            .collect();
        json!({
            "model": self.posterior.model.about().name,
            "bound": { "value": n(j.bound.value), "se": n(j.bound.se) },
            "log_evidence": { "value": n(j.log_evidence.value), "se": n(j.log_evidence.se) },
            "upper_estimate": self.upper.map(|u| json!({ "value": n(u.value), "se": n(u.se) })),
            "pareto_k": n(j.pareto_k),
            "ess_fraction": n(self.posterior.effective_share()),
            "r2_path": n(j.r2_path),
            "divergences": j.diverged,
            "predictive": self.checks,
            "verdict": self.posterior.verdict.kind.word(),
            "reasons": self.posterior.verdict.reasons,
            "advice": self.posterior.verdict.advice.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "summaries": if self.posterior.is_reweightable() { "reweighted" } else { "raw" },
            "outside": self.posterior.outside.map(|o| json!({ "log_evidence": n(o.value), "se": n(o.se) })),
            "modes": self.posterior.modes.len(),
            "attempts": self.posterior.attempts.iter().map(attempt_json).collect::<Vec<_>>(),
            "interrupted": self.posterior.stop_reason == StopReason::Interrupted,
            "iterations": self.posterior.iterations,
            "seconds": n(self.seconds),
            "parameters": parameters,
        })
    }

    /// As it is printed.
    pub fn text(&self) -> String {
        let (j, v, about) = (&self.posterior.diagnostics, &self.posterior.verdict, self.posterior.model.about());
        let mut text = format!("{}: {}\n", about.name, about.description);
        for note in &about.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "\nVerdict: {}. {}", v.kind.word(), self.headline());
        for reason in &v.reasons {
            let _ = writeln!(text, "  because {reason}");
        }
        for next in &v.advice {
            let _ = writeln!(text, "  next: {}", advice(*next));
        }
        for missed in self.missed() {
            let _ = writeln!(text, "The model, not its approximation, misses {missed}.");
        }
        let known = about.log_evidence.map_or_else(String::new, |z| format!(" (exact {})", fixed(z, 4)));
        let _ = writeln!(text, "\nlog p(x) ≥ {}, a lower bound", with_error(j.bound, 4));
        let _ = writeln!(text, "log p(x) ≈ {} by importance weights{known}", self.evidence());
        if let Some(upper) = self.upper {
            let _ = writeln!(
                text,
                "log p(x) ≲ {}, an estimate from above by the chain run backwards",
                with_error(upper, 4)
            );
        }
        let _ = writeln!(
            text,
            "Pareto k̂ {}, effective draws {:.0} %, R² of paths {:.3}, {} divergences",
            fixed(j.pareto_k, 2),
            100.0 * self.posterior.effective_share(),
            j.r2_path,
            j.diverged
        );
        let _ = writeln!(
            text,
            "{}, {} iterations, {:.1} s{}",
            self.posterior.approximation.chain(),
            self.posterior.iterations,
            self.seconds,
            match self.posterior.stop_reason {
                StopReason::Converged | StopReason::Sufficient | StopReason::MaxIterations => "",
                StopReason::Budget => ", stopped by the budget",
                StopReason::Interrupted => ", interrupted",
            }
        );
        if self.posterior.attempts.len() > 1 {
            let _ = writeln!(text, "\nTried, in order:");
        }
        for (i, attempt) in self.posterior.attempts.iter().enumerate().filter(|_| self.posterior.attempts.len() > 1) {
            let kept = if i == self.posterior.kept { " (kept)" } else { "" };
            let _ = writeln!(text, "  {}{kept}\n    {}", attempt.chain, attempt_text(attempt));
        }
        let kind = if self.posterior.is_reweightable() { "Reweighted" } else { "Raw" };
        // Those that only the computation needs come last.
        let internal = self.posterior.model.internal();
        let own = self.summaries.0.iter().take(SHOWN).filter(|(name, _)| !is_internal(&internal, name));
        let own = SummaryTable(own.cloned().collect());
        let (count, shown) = (own.0.len(), own.to_string());
        let _ = writeln!(text, "\n{kind} summaries\n{shown}");
        if self.summaries.0.len() > count {
            let _ = writeln!(text, "… and {} more; --json or --out has them all", self.summaries.0.len() - count);
        }
        text.trim_end().to_owned()
    }
}

/// Whether an element of a quantity, `z[3]`, is one of these.
pub fn is_internal(internal: &[String], element: &str) -> bool {
    let name = element.split('[').next().unwrap_or(element);
    internal.iter().any(|i| i == name)
}

/// How an attempt went, in words.
pub fn attempt_text(attempt: &Attempt) -> String {
    match &attempt.outcome {
        Err(why) => format!("failed: {why}"),
        Ok(Fitted { verdict, diagnostics: j, report, .. }) => format!(
            "{}, log p(x) ≥ {}, k̂ {}, effective {:.0} %, {:.1} s",
            verdict.kind.word(),
            fixed(j.bound.value, 3),
            fixed(j.pareto_k, 2),
            100.0 * j.effective_share(),
            report.seconds
        ),
    }
}

fn attempt_json(attempt: &Attempt) -> Value {
    let n = json_number;
    let chain = attempt.chain.to_string();
    match &attempt.outcome {
        Err(why) => json!({ "chain": chain, "error": why }),
        Ok(Fitted { verdict, diagnostics: j, report, .. }) => json!({
            "chain": chain,
            "verdict": verdict.kind.word(),
            "reasons": verdict.reasons,
            "bound": { "value": n(j.bound.value), "se": n(j.bound.se) },
            "pareto_k": n(j.pareto_k),
            "ess_fraction": n(j.effective_share()),
            "iterations": report.iterations,
        }),
    }
}

/// Advice in terms of this command's options.
pub fn advice(advice: Advice) -> String {
    match advice {
        Advice::AddChain => format!("{advice} (--chain auto)"),
        Advice::LongerChain => format!("{advice} (--chain FILE; see the guide)"),
        Advice::SmallerSteps => format!("{advice} (--chain hamiltonian --leapfrogs)"),
        Advice::LargerBudget => format!("{advice} (--iterations, --seconds)"),
        other => other.to_string(),
    }
}

/// Say how many draws have diverged. An error if all have.
pub fn check_finite(draws: &Draws) -> Result<()> {
    let diverged = draws.z.iter().filter(|z| z.iter().any(|x| !x.is_finite())).count();
    if diverged == 0 {
        return Ok(());
    }
    let why = format!(
        "{diverged} of {} draws are not finite: the chain of this fit diverges; fit again with smaller steps or fewer \
         leapfrogs",
        draws.z.len()
    );
    if diverged == draws.z.len() {
        return Err(mcvi::Error::Fit { why }.into());
    }
    say(&why);
    Ok(())
}

/// Draws as a table: every element of every parameter and generated quantity, then log p and, unless they have equal weight, the
/// log weight. Those columns are called `log_p` and `log_weight`, with a trailing underscore if a parameter has that name.
pub fn table(quantities: &Quantities, draws: &Draws, is_resampled: bool) -> Vec<Column> {
    let mut columns: Vec<Column> =
        quantities.parameters.iter().chain(&quantities.generated).flat_map(Quantity::columns).collect();
    for (name, values) in [("log_weight", &draws.log_weights), ("log_p", &draws.log_p)] {
        if name == "log_weight" && is_resampled {
            continue;
        }
        // A parameter may already have that name, and keeps it.
        let mut name = name.to_owned();
        while columns.iter().any(|(taken, _)| *taken == name) {
            name.push('_');
        }
        columns.push((name, values.clone()));
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
        let names: Vec<String> = table(&quantities, &draws, false).into_iter().map(|c| c.0).collect();
        assert_eq!(names, ["log_p", "a", "log_p_", "log_weight", "log_p__"]);
    }
}
