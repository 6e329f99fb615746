//! The posteriors of a posteriordb folder: whether each is lowered, its log density and gradient beside Stan's, and its fit
//! beside reference draws. Nothing is judged here but by the verdict.

mod density;
mod fit;
mod folder;
mod table;

pub use density::{Agreement, Reference, Speed};
pub use fit::Fit;
pub use folder::{Entry, Moments, entries};
pub use table::markdown;

use mcvi::Hardware;
use mcvi_stan::{Posterior, Program, StanModel};
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// What came of a posterior.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// The name of its program.
    pub program: String,
    /// Why it was not lowered, or what failed after that.
    pub error: Option<String>,
    /// Unconstrained parameters; none if it was not lowered.
    pub dim: Option<usize>,
    /// Operations on arrays of its log density.
    pub operations: usize,
    /// Beside the references; none without them.
    pub agreement: Option<Agreement>,
    /// What it takes.
    pub speed: Option<Speed>,
    /// The fit, if there was one.
    pub fit: Option<Fit>,
}

/// What is to be done for each posterior.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seconds for the fit; none for no fit.
    pub seconds: Option<f64>,
    /// What it runs on; log densities are compared and timed on one thread.
    pub hardware: Hardware,
    /// Whether log densities are compared and timed.
    pub densities: bool,
}

/// Do it for one.
pub fn run(entry: &Entry, reference: Option<&Reference>, plan: Plan) -> Outcome {
    let mut outcome = Outcome { name: entry.name.clone(), program: entry.program(), ..Outcome::default() };
    let done = catch_unwind(AssertUnwindSafe(|| follow(entry, reference, plan, &mut outcome)));
    outcome.error = match done {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Some(format!("panicked: {}", text.unwrap_or_default()))
        }
    };
    outcome
}

fn follow(entry: &Entry, reference: Option<&Reference>, plan: Plan, outcome: &mut Outcome) -> Result<(), String> {
    let text = std::fs::read_to_string(&entry.program_file).map_err(|e| e.to_string())?;
    let data = entry.data().map_err(|e| format!("{e:#}"))?;
    let start = Instant::now();
    let program = Program::read(&outcome.program, &text, &|_| None).map_err(|e| first(&e))?;
    let posterior = Posterior::new(&program, &data).map_err(|e| first(&e))?;
    let lowered = start.elapsed().as_secs_f64();
    outcome.dim = Some(posterior.dim());
    outcome.operations = posterior.operations();
    if plan.densities {
        let engine = |e: mcvi_expr::Error| e.to_string();
        outcome.speed = Some(density::speed(&posterior, lowered, reference, plan.hardware.device).map_err(engine)?);
        if let Some(reference) = reference {
            outcome.agreement = density::agreement(&posterior, reference, plan.hardware.device).map_err(engine)?;
        }
    }
    if let Some(seconds) = plan.seconds {
        let model = StanModel::compile(&text, &data).map_err(|e| first(&e))?;
        outcome.fit = Some(fit::fit(model, &entry.moments, seconds, plan.hardware)?);
    }
    Ok(())
}

/// The first of some mistakes, on one line.
fn first(mistakes: &mcvi_stan::Diagnostics) -> String {
    let Some(first) = mistakes.list.first() else { return String::new() };
    format!("line {}: {}", mistakes.sources.line(first.span), first.message)
}
