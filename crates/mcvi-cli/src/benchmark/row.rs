//! Rows of the comparison, as JSON and as Markdown beside published bounds.

use crate::number::{fixed, json_number, with_error};
use mcvi::diagnostics::{LogMean, Mean};
use mcvi::evidence::EvidenceTarget;
use serde_json::{Value, json};

/// What one kernel achieved on one target.
pub struct Row {
    /// The target.
    pub target: &'static EvidenceTarget,
    /// The kernel.
    pub kernel: String,
    /// Steps, or temperatures.
    pub steps: usize,
    /// The seed.
    pub seed: u64,
    /// The mean of the log weights.
    pub bound: Mean,
    /// log Z from the weights.
    pub log_evidence: LogMean,
    /// k̂ of the weights.
    pub pareto_k: f64,
    /// Seconds, all told, without the draws by which it is judged.
    pub seconds: f64,
    /// Gradients of log p a draw.
    pub gradients: usize,
}

impl Row {
    fn json(&self) -> Value {
        let n = json_number;
        json!({
            "target": self.target.name,
            "kernel": self.kernel,
            "steps": self.steps,
            "seed": self.seed,
            "bound": { "value": n(self.bound.value), "se": n(self.bound.se) },
            "log_evidence": { "value": n(self.log_evidence.value), "se": n(self.log_evidence.se) },
            "pareto_k": n(self.pareto_k),
            "seconds": n(self.seconds),
            "gradients_per_draw": self.gradients,
            "exact": self.target.log_evidence,
        })
    }

    fn markdown(&self) -> String {
        let evidence = Mean { value: self.log_evidence.value, se: self.log_evidence.se, n: 0 };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.0} |\n",
            self.target.name,
            self.kernel,
            self.steps,
            self.gradients,
            with_error(self.bound, 3),
            with_error(evidence, 3),
            self.target.log_evidence.map_or(String::new(), |z| fixed(z, 3)),
            fixed(self.pareto_k, 2),
            self.seconds,
        )
    }
}

/// The targets of some rows, each once.
pub fn targets(rows: &[Row]) -> Vec<&'static EvidenceTarget> {
    let mut targets: Vec<&'static EvidenceTarget> = vec![];
    for row in rows {
        if targets.iter().all(|target| target.name != row.target.name) {
            targets.push(row.target);
        }
    }
    targets
}

/// All rows, what is published of their targets, and the targets that failed.
pub fn json(rows: &[Row], failed: &[Value]) -> Value {
    let published = targets(rows).into_iter().flat_map(|target| {
        target.published.iter().map(|p| {
            json!({ "target": target.name, "method": p.method, "source": p.source, "steps": p.steps, "bound": p.bound })
        })
    });
    let published: Vec<Value> = published.collect();
    json!({ "rows": rows.iter().map(Row::json).collect::<Vec<_>>(), "published": published, "failed": failed })
}

/// All rows as a Markdown table, and another of what is published of their targets.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = "| target | kernel | steps | gradients | bound | log Z by weights | exact | k̂ | seconds |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    rows.iter().for_each(|row| text += &row.markdown());
    let targets = targets(rows);
    if targets.iter().any(|target| !target.published.is_empty()) {
        text += "\n| target | published | source | steps | bound |\n|---|---|---|---|---|\n";
    }
    for target in targets {
        for p in target.published {
            // Half a unit of the last digit that log Z is known to.
            let above = target.log_evidence.is_some_and(|z| p.bound > z + 0.05);
            let remark = if above { ", above log Z: no bound on this target" } else { "" };
            text += &format!(
                "| {} | {} | {} | {} | {}{remark} |\n",
                target.name,
                p.method,
                p.source,
                p.steps,
                fixed(p.bound, 2)
            );
        }
    }
    text.trim_end().to_owned()
}
