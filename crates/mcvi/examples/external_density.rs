//! A log density that lives elsewhere: any function with its gradient and its Hessian-vector product.
//!
//! Here it is a Gaussian written by hand, as a simulator or another language would offer it: expect the exact log Z.

use mcvi::infer::{Request, infer};
use mcvi::{External, Result, target};
use std::sync::Arc;

const PRECISION: [[f64; 2]; 2] = [[2.0, 0.8], [0.8, 1.5]];

/// −½ zᵀPz.
struct Simulator;

fn times(v: &[f64]) -> [f64; 2] {
    PRECISION.map(|row| row[0] * v[0] + row[1] * v[1])
}

impl External for Simulator {
    fn name(&self) -> &str {
        "simulator"
    }
    fn dimension(&self) -> usize {
        2
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        Ok(-0.5 * (times(z)[0] * z[0] + times(z)[1] * z[1]))
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        gradient.copy_from_slice(&times(z).map(|g| -g));
        self.value(z)
    }
    // A chain differentiates through the gradient: it needs this too.
    fn has_hessian_vector(&self) -> bool {
        true
    }
    fn hessian_vector(&self, _: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        product.copy_from_slice(&times(v).map(|g| -g));
        Ok(())
    }
}

/// Infer it.
pub fn main() -> Result<()> {
    let posterior = infer(target(2, |_, z| z.external(Arc::new(Simulator))), &Request::default())?;
    let determinant = PRECISION[0][0] * PRECISION[1][1] - PRECISION[0][1] * PRECISION[1][0];
    let (exact, found) = (std::f64::consts::TAU.ln() - 0.5 * determinant.ln(), posterior.diagnostics.log_evidence);
    println!("log Z = {exact:.4}, found {:.4} ± {:.4}", found.value, found.se);
    println!("{}", posterior.summaries()?);
    assert!((found.value - exact).abs() < 0.01);
    Ok(())
}
