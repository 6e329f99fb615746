//! A model of your own, with named parameters, priors and observations: from data to a table and a verdict.
//!
//! Ten counts from a Poisson distribution whose log rate is linear in x. Expect the verdict good and a slope near 0.3.

use mcvi::Result;
use mcvi::infer::{Request, infer};
use mcvi::model::{Model, normal, poisson_log};

const X: [f64; 10] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
const COUNTS: [f64; 10] = [1.0, 0.0, 3.0, 2.0, 4.0, 4.0, 9.0, 6.0, 12.0, 17.0];

/// Fit it and print what a command would.
pub fn main() -> Result<()> {
    let model = Model::new(|m| {
        let intercept = m.real("intercept", normal(0.0, 2.0));
        let slope = m.real("slope", normal(0.0, 1.0));
        m.observe("count", &COUNTS, poisson_log(intercept + slope * m.data(&X)));
    })?;
    let posterior = infer(model, &Request::default())?;
    println!("{}: {}", posterior.verdict.kind.word(), posterior.verdict.reasons.join("; "));
    println!("log p(x) ≥ {:.3} by {}", posterior.diagnostics.bound.value, posterior.approximation.chain());
    let summaries = posterior.summaries()?;
    println!("{summaries}");
    let slope = summaries.0[1].1;
    assert!((slope.mean - 0.3).abs() < 3.0 * slope.sd);
    Ok(())
}
