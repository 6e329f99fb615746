//! Section 3.1: a beta-binomial model for deaths from stomach cancer in 20 cities of Missouri.

use crate::chain::Chain;
use crate::density::Gaussian;
use crate::scope::Scope;
use crate::target::Target;
use crate::transition::{Hamiltonian, Inverse};
use mcvi_expr::{DType, Expr};

/// Deaths in each city.
pub const DEATHS: [f64; 20] = [0., 0., 2., 0., 1., 1., 0., 2., 1., 3., 0., 1., 1., 1., 54., 0., 0., 1., 3., 0.];
/// People at risk.
pub const AT_RISK: [f64; 20] = [
    1083., 855., 3461., 657., 1208., 1025., 527., 1668., 583., 582., 917., 857., 680., 917., 53637., 874., 395., 581.,
    588., 383.,
];

/// log p(x), by numerical integration.
pub const LOG_EVIDENCE: f64 = -570.708_66;

/// The posterior of z = (logit η, log K) under Albert's prior, with both Jacobians.
#[derive(Clone, Copy, Debug, Default)]
pub struct StomachCancer;

impl Target for StomachCancer {
    fn dim(&self) -> usize {
        2
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let survivors: Vec<f64> = AT_RISK.iter().zip(DEATHS).map(|(n, y)| n - y).collect();
        let (y, survivors, n) = (scope.vector(&DEATHS), scope.vector(&survivors), scope.vector(&AT_RISK));
        let (logit, log_k) = (z.slice(1, 0..1), z.slice(1, 1..2));
        let (k, eta) = (log_k.exp(), logit.sigmoid());
        let (a, b) = (k * eta, k * (1.0 - eta));
        let terms = a.lgamma_diff(y) + b.lgamma_diff(survivors) - k.lgamma_diff(n);
        terms.sum(&[1]) + (log_k - log_k.softplus() * 2.0).sum(&[1])
    }

    fn dtype(&self) -> DType {
        DType::F64
    }
}

/// Form of the means of q(v′|z₀) and r(v|z_T).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Momentum {
    /// Linear in z and ∇log p(x, z).
    Linear,
    /// Constants: the section's "even simpler parameterizations".
    Constant,
}

/// The section's approximation: a diagonal Gaussian, and one Hamiltonian step unless there are no leapfrogs. The step
/// is also returned separately.
pub fn chain(leapfrogs: usize, momentum: Momentum) -> (Chain, Option<Hamiltonian>) {
    let chain = Chain::new(Gaussian::diagonal());
    if leapfrogs == 0 {
        return (chain, None);
    }
    let step = match momentum {
        Momentum::Linear => Hamiltonian::new(leapfrogs),
        Momentum::Constant => {
            let step = Hamiltonian::new(leapfrogs).momentum(Gaussian::diagonal());
            step.inverse(Inverse::learned(Gaussian::diagonal()))
        }
    };
    (chain.step(step.clone()), Some(step))
}
