//! A hierarchical model: eight schools (Rubin 1981), non-centred, with generated quantities.
//!
//! Expect mu near 4.4 ± 3.3, tau near 3.6, and the first school's effect pulled from 28 to about 6.

use mcvi::Result;
use mcvi::infer::{Request, infer};
use mcvi::model::{Model, half_cauchy, normal};

const EFFECTS: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
const ERRORS: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];

/// Fit it and print every marginal.
pub fn main() -> Result<()> {
    let schools = Model::new(|m| {
        let mu = m.real("mu", normal(0.0, 5.0));
        let tau = m.positive("tau", half_cauchy(5.0));
        let eta = m.reals("eta", 8, normal(0.0, 1.0));
        let theta = m.generated("theta", mu + tau * eta);
        m.observe("y", &EFFECTS, normal(theta, m.data(&ERRORS)));
    })?;
    let posterior = infer(schools, &Request::default())?;
    let summaries = posterior.summaries()?;
    println!("{}\n{summaries}", posterior.verdict.kind.word());
    let mean = |name: &str| summaries.0.iter().find(|(n, _)| n == name).map(|(_, s)| s.mean).unwrap_or(f64::NAN);
    assert!((mean("mu") - 4.4).abs() < 0.5 && (mean("theta[1]") - 6.2).abs() < 1.0);
    Ok(())
}
