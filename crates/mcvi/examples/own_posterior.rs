//! A posterior of your own, as a log density of rows of z: Hamiltonian variational inference at the level of the paper.
//!
//! Expect a bound within 0.1 of log Z = log 2π = 1.838, and Pareto k̂ below 0.7.

use mcvi::fit::Settings;
use mcvi::{Approximation, Chain, Result, fit, target};

/// Fit a banana with one HMC step of four leapfrogs.
pub fn main() -> Result<()> {
    let banana = target(2, |_, z| {
        let (a, b) = (z.at(1, 0), z.at(1, 1));
        (a.square() + (b - a.square() * 0.5).square()) * -0.5
    });
    let mut approximation = Approximation::new(banana, Chain::hamiltonian(4))?;
    fit(&mut approximation, &Settings { iterations: 4000, ..Settings::default() })?;
    let diagnostics = approximation.draw(20_000, 7)?.diagnose();
    let log_z = std::f64::consts::TAU.ln();
    println!("log Z = {log_z:.3} ≥ {:.3} ± {:.3}", diagnostics.bound.value, diagnostics.bound.se);
    println!("Pareto k̂ {:.2}, {:.0} effective draws of 20000", diagnostics.pareto_k, diagnostics.effective);
    assert!(diagnostics.bound.value > log_z - 0.1 && diagnostics.bound.value < log_z + 3.0 * diagnostics.bound.se);
    Ok(())
}
