//! Hamiltonian dynamics: Algorithm 3 of the paper.

use super::{AnyTransition, ChainState, Diagnostic, Inverse, Moved, StepScope, Transition, counted};
use crate::density::{AnyDensity, Density, Gaussian, Given, Predictor};
use crate::error::Result;
use crate::limits::{self, positive, within};
use crate::network::AnyNetwork;
use crate::params::Params;
use crate::scope::{Initial, Scope};
use crate::target::{Landscape, Point};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};

/// The mass matrix M of the dynamics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mass {
    /// A mass for each coordinate.
    #[default]
    Diagonal,
    /// A full matrix, learned by a factor of its inverse.
    Full,
}

/// k leapfrog steps with learned step size and mass, from a random momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hamiltonian {
    /// Leapfrog steps.
    pub leapfrogs: usize,
    /// The initial step size; by default it follows from the number of leapfrogs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_step_size: Option<f64>,
    /// The mass matrix.
    #[serde(default)]
    pub mass: Mass,
    /// q(v′|x, z), the distribution of the initial momentum.
    #[serde(default = "momentum")]
    pub momentum: AnyDensity,
    /// r(v|x, z), the inverse model of the final momentum.
    #[serde(default = "inverse")]
    pub inverse: Inverse,
}

/// The paper's momentum distribution: linear in z and ∇log p(x, z).
fn momentum() -> AnyDensity {
    Gaussian::linear_in_gradient().into()
}

/// The paper's inverse model, of the same form.
fn inverse() -> Inverse {
    Inverse::learned(Gaussian::linear_in_gradient())
}

impl Hamiltonian {
    /// The parameter that is the logarithm of the step size.
    const LOG_STEP: &str = "log_step";

    /// Diagonal mass, and both momentum distributions linear in z and ∇log p(x, z): the paper's section 3.1.
    pub fn new(leapfrogs: usize) -> Self {
        Hamiltonian {
            leapfrogs,
            initial_step_size: None,
            mass: Mass::Diagonal,
            momentum: momentum(),
            inverse: inverse(),
        }
    }

    /// With another distribution of the initial momentum.
    pub fn momentum(self, momentum: impl Density + 'static) -> Self {
        Hamiltonian { momentum: momentum.into_any(), ..self }
    }

    /// With another inverse model of the final momentum.
    pub fn inverse(self, inverse: Inverse) -> Self {
        Hamiltonian { inverse, ..self }
    }

    /// With another initial step size.
    pub fn initial_step_size(self, size: f64) -> Self {
        Hamiltonian { initial_step_size: Some(size), ..self }
    }

    /// With another mass matrix.
    pub fn mass(self, mass: Mass) -> Self {
        Hamiltonian { mass, ..self }
    }

    /// The dynamics with its parameters.
    pub fn dynamics<'g>(&self, scope: &Scope<'g>) -> Result<Dynamics<'g>> {
        // A trajectory of a quarter period exchanges z and v completely; short steps keep the first leapfrogs stable.
        let step = self.initial_step_size.unwrap_or((1.5 / self.leapfrogs.max(1) as f64).min(0.5));
        let eps = scope.param(Self::LOG_STEP, (), || Initial::new(vec![step.ln()])).exp();
        let (positions, momenta) = (scope.positions(), scope.momenta());
        let d = positions.dim();
        let inverse_mass = match self.mass {
            Mass::Diagonal => {
                let start = || momenta.scale.iter().map(|s| 2.0 * s.ln()).collect();
                let log_mass = scope.param("log_mass", d, || Initial::new(start()));
                InverseMass::Diagonal((-log_mass).exp())
            }
            Mass::Full => {
                let rates = || positions.scale.iter().flat_map(|s| vec![*s; d]).collect();
                let initial = || Initial::scaled(positions.factor().into_owned(), rates());
                let factor = scope.param("inverse_mass_factor", [d, d], initial);
                InverseMass::Full(factor.tril())
            }
        };
        Ok(Dynamics { eps, inverse_mass, leapfrogs: self.leapfrogs })
    }

    /// The final momentum's log density under the inverse model.
    fn log_inverse<'g>(&self, at: &StepScope<'g>, to: Point<'g>, v: Expr<'g>) -> Result<Expr<'g>> {
        let given = Given::momentum(&at.forward, to, at.data);
        match &self.inverse {
            // Run backwards, the dynamics starts with −v.
            Inverse::Reversed => self.momentum.log_density(&at.forward.child("momentum"), &given, -v),
            Inverse::Learned(r) => r.log_density(&at.inverse, &given, v),
        }
    }
}

impl Transition for Hamiltonian {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let from = target.at(state.z)?;
        let dynamics = self.dynamics(&at.forward)?;
        // Alg. 3, line 4: draw the initial momentum.
        let given = Given::momentum(&at.forward, from, at.data);
        let (v0, log_q) = self.momentum.draw_for_gradient(&at.forward.child("momentum"), &given)?;
        // Line 5: the dynamics preserves volume, so there is no Jacobian.
        let (to, v) = dynamics.run(target, from, v0)?;
        // Line 6, without the log p terms.
        let log_r = self.log_inverse(at, to, v)?;
        let delta_h = dynamics.energy(to, v) - dynamics.energy(from, v0);
        Ok(Moved::new(state.at(to.z), log_r - log_q).with(Diagnostic::EnergyChange, delta_h))
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let to = target.at(state.z)?;
        let dynamics = self.dynamics(&at.forward)?;
        let q = at.forward.child("momentum");
        let given = Given::momentum(&at.forward, to, at.data);
        // Alg. 3 from its end: draw the final momentum by the inverse model,
        let (v, log_r) = match &self.inverse {
            Inverse::Reversed => self.momentum.draw(&q, &given).map(|(v, log_r)| (-v, log_r))?,
            Inverse::Learned(r) => r.draw(&at.inverse, &given)?,
        };
        // follow the dynamics back to the initial one, and evaluate its density.
        let (from, v0) = dynamics.reverse(target, to, v)?;
        let log_q = self.momentum.log_density(&q, &Given::momentum(&at.forward, from, at.data), v0)?;
        Ok(Moved::new(state.at(from.z), log_r - log_q))
    }

    fn holds_path(&self) -> bool {
        true
    }

    fn name(&self) -> (String, String) {
        let networks = match &self.momentum {
            AnyDensity::Gaussian(Gaussian {
                mean: Predictor::Network { network: AnyNetwork::Dense(dense), .. },
                ..
            }) => {
                let widths: Vec<String> = dense.hidden.iter().map(usize::to_string).collect();
                format!(", momenta by networks of {} units", widths.join(" + "))
            }
            momentum if momentum.has_network() => ", momenta by networks".to_owned(),
            _ => String::new(),
        };
        ("Hamiltonian step".to_owned(), format!("of {}{networks}", counted(self.leapfrogs, "leapfrog")))
    }

    fn gradients(&self) -> usize {
        self.leapfrogs + 1
    }

    fn has_network(&self) -> bool {
        self.momentum.has_network() || self.inverse.has_network()
    }

    fn size(&self) -> Result<usize> {
        within("leapfrogs", self.leapfrogs, 0..=limits::LEAPFROGS)?;
        self.initial_step_size.map_or(Ok(()), |size| positive("step size", size))?;
        Ok(self.momentum.size()? + self.inverse.size()?)
    }

    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        params.number(&format!("{forward}.{}", Self::LOG_STEP)).ok().map(f64::exp)
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}

enum InverseMass<'g> {
    Diagonal(Expr<'g>),
    /// Lower triangular L with M⁻¹ = LLᵀ.
    Full(Expr<'g>),
}

/// Hamiltonian dynamics with H = ½ vᵀM⁻¹v − log p(x, z), by the leapfrog integrator.
pub struct Dynamics<'g> {
    eps: Expr<'g>,
    inverse_mass: InverseMass<'g>,
    leapfrogs: usize,
}

impl<'g> Dynamics<'g> {
    /// Follow the dynamics. The last gradient of a leapfrog is the first of the next, so k leapfrogs take k + 1
    /// gradients.
    pub fn run(&self, target: &Landscape<'_, 'g>, from: Point<'g>, v: Expr<'g>) -> Result<(Point<'g>, Expr<'g>)> {
        if self.leapfrogs == 0 {
            return Ok((from, v));
        }
        let half = self.eps * 0.5;
        let mut at = from;
        let mut v = v + half * at.gradient;
        for i in 1..=self.leapfrogs {
            at = target.at(at.z + self.velocity(v, self.eps))?;
            // The half kick that ends one leapfrog and the one that starts the next are combined.
            v = v + if i < self.leapfrogs { self.eps } else { half } * at.gradient;
        }
        Ok((at, v))
    }

    /// Follow the dynamics backwards.
    pub fn reverse(&self, target: &Landscape<'_, 'g>, from: Point<'g>, v: Expr<'g>) -> Result<(Point<'g>, Expr<'g>)> {
        let (to, v) = self.run(target, from, -v)?;
        Ok((to, -v))
    }

    /// M⁻¹v times a factor.
    fn velocity(&self, v: Expr<'g>, factor: Expr<'g>) -> Expr<'g> {
        match self.inverse_mass {
            InverseMass::Diagonal(inverse) => factor * inverse * v,
            InverseMass::Full(l) => v.matmul(l).matmul(l.t()) * factor,
        }
    }

    /// H(z, v) of each row.
    pub fn energy(&self, at: Point<'g>, v: Expr<'g>) -> Expr<'g> {
        let kinetic = match self.inverse_mass {
            InverseMass::Diagonal(inverse) => v.square() * inverse,
            InverseMass::Full(l) => v.matmul(l).square(),
        };
        kinetic.sum(&[1]) * 0.5 - at.log_p
    }
}
