//! A density of your own as q(z₀): a Student t with learned location and scale, for a posterior with heavy tails.
//!
//! The target is a Cauchy distribution cut at 1000, for which the weights of a Gaussian have no finite variance. Expect a
//! Pareto k̂ above 0.7 for the Gaussian and well below it for the Student t.

use mcvi::density::{Density, Gaussian, Given};
use mcvi::fit::Settings;
use mcvi::{Approximation, Chain, Expr, Initial, Result, Scope, fit, target};

/// Degrees of freedom.
const NU: f64 = 1.0;

/// One coordinate: location + scale · t.
#[derive(Debug)]
struct StudentT;

impl StudentT {
    fn parts<'g>(scope: &Scope<'g>) -> (Expr<'g>, Expr<'g>) {
        let location = scope.param("location", 1, || Initial::new(vec![0.0]));
        (location, scope.param("log_scale", 1, || Initial::new(vec![0.0])))
    }
}

impl Density for StudentT {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let (location, log_scale) = StudentT::parts(scope);
        // With one degree of freedom, t is the ratio of two normals: noise, transformed.
        let t = scope.normal([given.rows, 1]) / scope.normal([given.rows, 1]);
        let z = location + log_scale.exp() * t;
        Ok((z, self.log_density(scope, given, z)?))
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, _: &Given<'g>, z: Expr<'g>) -> Result<Expr<'g>> {
        let (location, log_scale) = StudentT::parts(scope);
        let t = (z - location) / log_scale.exp();
        let log_density = (t.square() / NU).log1p() * (-0.5 * (NU + 1.0)) - std::f64::consts::PI.ln() - log_scale;
        Ok(log_density.sum(&[1]))
    }
}

/// Compare the two.
pub fn main() -> Result<()> {
    let pareto_k = |chain: Chain| -> Result<f64> {
        let cauchy = target(1, |_, z| {
            let log_p = -((z - 2.0) / 0.5).square().log1p();
            (log_p - (z / 1000.0).square() * 0.5).sum(&[1])
        });
        let mut approximation = Approximation::new(cauchy, chain)?;
        fit(&mut approximation, &Settings { iterations: 2000, ..Settings::default() })?;
        Ok(approximation.draw(20_000, 3)?.diagnose().pareto_k)
    };
    let (gaussian, student) = (pareto_k(Chain::new(Gaussian::diagonal()))?, pareto_k(Chain::new(StudentT))?);
    println!("Pareto k̂ of a Gaussian {gaussian:.2}, of a Student t {student:.2}");
    assert!(gaussian > 0.7 && student < 0.5);
    Ok(())
}
