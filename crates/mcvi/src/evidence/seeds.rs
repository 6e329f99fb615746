//! Germination of seeds on 21 plates.

use crate::error::Result;
use crate::model::{Model, binomial_logit, gamma, normal};

/// Crowder (1978), Breslow & Clayton (1993).
pub(super) fn seeds() -> Result<Model> {
    let germinated = [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3].map(f64::from);
    let seeds = [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7].map(f64::from);
    // Seed of the second kind on plates 12 to 21, extract of the second kind on plates 6 to 11 and 17 to 21.
    let seed: Vec<f64> = (1..=21).map(|plate| f64::from(plate >= 12)).collect();
    let extract: Vec<f64> = (1..=21).map(|plate| f64::from((6..=11).contains(&plate) || plate >= 17)).collect();
    Model::new(move |m| {
        let a = m.reals("a", 4, normal(0.0, 10.0));
        let tau = m.positive("tau", gamma(0.01, 0.01));
        let b = m.reals("b", 21, normal(0.0, tau.powf(-0.5)));
        let (x1, x2) = (m.data(&seed), m.data(&extract));
        let part = |i: usize| a.slice(1, i..i + 1);
        let logit = part(0) + part(1) * x1 + part(2) * x1 * x2 + part(3) * x2 + b;
        m.observe("germinated", &germinated, binomial_logit(m.data(&seeds), logit));
    })
}
