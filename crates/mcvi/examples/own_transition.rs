//! A transition and an inverse model of your own: forward code only; derivatives and training come with it.
//!
//! A banana, b ≈ a², has log Z = 1.145. The best Gaussian's bound is 0.585. One step that bends it by a learned
//! amount, undone by a logistic inverse model, reaches 1.13.

use mcvi::Expr;
use mcvi::density::{Density, Gaussian, Given};
use mcvi::transition::{ChainState, Moved, StepScope, Transition};
use mcvi::{Approximation, Chain, Initial, Landscape, Result, Scope, fit};

/// b′ = b + φ a² + σ e, with φ and σ learned; a stays.
#[derive(Debug)]
pub struct Bend;

impl Transition for Bend {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let phi = at.forward.param("phi", (), || Initial::new(vec![0.0]));
        let log_sigma = at.forward.param("log_sigma", (), || Initial::new(vec![-1.0]));
        let (a, b) = (state.z.slice(1, 0..1), state.z.slice(1, 1..2));
        let e = at.forward.normal(b.shape());
        let z = at.forward.graph().concat(&[a, b + phi * a.square() + log_sigma.exp() * e], 1);
        let log_q = (e.square() * -0.5 - log_sigma).sum(&[1]) - 0.5 * std::f64::consts::TAU.ln();
        let log_r = Logistic.log_density(&at.inverse, &Given::position(&at.inverse, target.at(z)?, at.data), b)?;
        Ok(Moved::new(state.at(z), log_r - log_q))
    }
}

/// The inverse model r(b|a, b′): logistic, its location linear in a² and b′.
#[derive(Debug)]
struct Logistic;

impl Density for Logistic {
    fn draw<'g>(&self, _: &Scope<'g>, _: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        Err(mcvi::Error::Setting { what: "inverse model", why: "it is evaluated, never drawn from".to_owned() })
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, b: Expr<'g>) -> Result<Expr<'g>> {
        let z = given.point.expect("a step ends somewhere").z;
        let c = scope.param("c", 3, || Initial::new(vec![0.0, 0.0, 1.0]));
        let log_scale = scope.param("log_scale", (), || Initial::new(vec![-1.0]));
        let location = c.at(0, 0) + c.at(0, 1) * z.slice(1, 0..1).square() + c.at(0, 2) * z.slice(1, 1..2);
        let x = (b - location) / log_scale.exp();
        Ok((x.log_sigmoid() + (-x).log_sigmoid() - log_scale).sum(&[1]))
    }
}

/// Fit a chain to the banana, and estimate its bound.
pub fn bound(chain: Chain) -> Result<mcvi::diagnostics::Mean> {
    let banana = mcvi::target(2, |_, z| z.at(1, 0).square() * -0.5 - (z.at(1, 1) - z.at(1, 0).square()).square() * 2.0);
    let mut approximation = Approximation::new(banana, chain)?;
    fit(&mut approximation, &Default::default())?;
    Ok(approximation.draw(20_000, 2)?.diagnose().bound)
}

/// Compare a Gaussian with the same, bent.
pub fn main() -> Result<()> {
    let (gaussian, bent) = (Chain::new(Gaussian::diagonal()), Chain::new(Gaussian::diagonal()).step(Bend));
    println!("best Gaussian {:.3}, bent {:.3}", bound(gaussian)?.value, bound(bent)?.value);
    Ok(())
}
