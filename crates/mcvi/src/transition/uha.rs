//! Uncorrected Hamiltonian annealing: leapfrogs whose momentum is kept and partially refreshed from step to step.
//!
//! Geffner & Domke (2021), "MCMC variational inference via uncorrected Hamiltonian annealing"; Zhang et al. (2021),
//! "Differentiable annealed importance sampling and the perils of gradient noise", whose chain (DAIS) is the same in law.
//! Usually on bridges, see [`Chain::annealed_learned`](crate::Chain::annealed_learned).

use super::{AnyTransition, ChainState, Direction, Mass, Momentum, Moved, StepScope, TimeNetwork, Transition, counted};
use crate::error::Result;
use crate::limits::{self, positive, within};
use crate::params::Params;
use crate::scope::{Estimator, Initial, Scope};
use crate::target::{Landscape, Point};
use mcvi_expr::{Expr, Operand};
use serde::{Deserialize, Serialize};

/// A partial refreshment v′ ~ N(γv, 1 − γ²), then k leapfrogs; γ, step size and mass are learned.
///
/// The momentum is in units of M^½, so that steps with masses of their own pass it on. DAIS (Zhang et al.) is the same with
/// one set of parameters for all steps and temperatures that are not learned: [`Chain::dais`](crate::Chain::dais).
///
/// With a learned spread D(z, t), momenta at rest are N(0, D²) and the force is D²∇log p: steps are long where the posterior
/// is wide and short where it is narrow, as in Riemannian Hamiltonian Monte Carlo (Girolami & Calderhead 2011) with a
/// diagonal metric. Kicks depend on the position alone and drifts on the momentum alone, so that volume is still preserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uha {
    /// Leapfrogs of a step.
    #[serde(default = "one")]
    pub leapfrogs: usize,
    /// The initial step size, by default 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_step_size: Option<f64>,
    /// The mass matrix.
    #[serde(default)]
    pub mass: Mass,
    /// Logarithms of the standard deviations D(z, t) of momenta at rest, if they depend on the position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<TimeNetwork>,
}

/// One leapfrog a step, and a diagonal mass.
impl Default for Uha {
    fn default() -> Self {
        Uha::new(1)
    }
}

fn one() -> usize {
    1
}

impl Uha {
    /// The parameter that is the logarithm of the step size.
    const LOG_STEP: &str = "log_step";

    /// With this many leapfrogs a step and a diagonal mass.
    pub fn new(leapfrogs: usize) -> Self {
        Uha { leapfrogs, initial_step_size: None, mass: Mass::Diagonal, spread: None }
    }

    /// With another initial step size.
    pub fn initial_step_size(self, size: f64) -> Self {
        Uha { initial_step_size: Some(size), ..self }
    }

    /// With another mass matrix.
    pub fn mass(self, mass: Mass) -> Self {
        Uha { mass, ..self }
    }

    /// With momenta whose spread depends on the position: logarithms of D(z, t) by this network.
    pub fn spread(self, network: TimeNetwork) -> Self {
        Uha { spread: Some(network), ..self }
    }
}

/// What is learned of a step.
struct Learned<'g> {
    eps: Expr<'g>,
    /// The share γ of the momentum that is kept.
    keep: Expr<'g>,
    /// s = √(1 − γ²).
    sd: Expr<'g>,
    root: Root<'g>,
}

impl Uha {
    fn learned<'g>(&self, scope: &Scope<'g>) -> Learned<'g> {
        let step = self.initial_step_size.unwrap_or(0.1);
        let eps = scope.param(Self::LOG_STEP, (), || Initial::new(vec![step.ln()])).exp();
        let keep = scope.param("logit_keep", (), || Initial::new(vec![1.0])).sigmoid();
        Learned { eps, keep, sd: (1.0 - keep.square()).sqrt(), root: Root::new(self.mass, scope) }
    }

    /// Momenta at rest at a point and a time.
    fn rest<'g>(&self, at: &StepScope<'g>, here: Point<'g>, time: Expr<'g>) -> Result<Rest<'g>> {
        let Some(spread) = &self.spread else { return Ok(Rest::Standard) };
        let log_sd = spread.evaluate(at, "spread", here, time, None)?;
        Ok(Rest::Spread { log_sd, sd: log_sd.exp() })
    }

    /// The step, with refreshments whose means are shifted: forward v′ ~ N(γv + sD f(z, v), s²D²), backward v ~ N(γv′ + sD
    /// b(z, v′), s²D²), s² = 1 − γ². `shift` gives f and b, or nothing.
    pub(super) fn shifted<'g>(
        &self,
        at: &StepScope<'g>,
        state: ChainState<'g>,
        target: &Landscape<'_, 'g>,
        shift: impl Fn(Direction, Point<'g>, Expr<'g>) -> Result<Option<Expr<'g>>>,
    ) -> Result<Moved<'g>> {
        let (scope, Learned { eps, keep, sd, root }) = (&at.forward, self.learned(&at.forward));
        let mut here = target.at(state.z)?;
        let mut rest = self.rest(at, here, at.start)?;

        // The first step draws a momentum of its own; the following ones find theirs.
        let before = state.momentum.unwrap_or_else(|| {
            let v = scope.held(rest.times(scope.normal(state.z.shape())));
            Momentum { v, log_density: rest.log_density(rest.units(v)) }
        });
        let v = rest.units(before.v);
        let mut xi = scope.normal(v.shape());
        let f = shift(Direction::Forward, here, v)?;
        let mut pushed = f.map_or(xi, |f| xi + f);
        let mut refreshed = keep * v + sd * pushed;
        if scope.estimator() == Estimator::FixedPath {
            // The noise is what leads to this momentum.
            refreshed = rest.units(scope.held(rest.times(refreshed)));
            pushed = (refreshed - keep * v) / sd;
            xi = f.map_or(pushed, |f| pushed - f);
        }
        let b = shift(Direction::Backward, here, refreshed)?;
        // Twice log r − log q of the refreshment by coordinate, and what this step takes back.
        let (refreshment, taken_back) = match (f, b) {
            // Without shifts it is reversible: the ratio is log N(v) − log N(v′), and the step before has ended with the first.
            (None, None) => (rest.energies(refreshed), before.log_density - rest.log_density(v)),
            _ => {
                // The noise with which the way back would have drawn v: (v − γv′)/s − b.
                let back = sd * v - keep * pushed;
                (xi.square() - b.map_or(back, |b| back - b).square(), before.log_density)
            }
        };

        // The leapfrogs preserve volume, and are undone exactly.
        let mut v = rest.times(refreshed);
        for _ in 0..self.leapfrogs {
            v = v + rest.kick(&root, eps, here.gradient);
            here = target.at(here.z + root.times(eps, v))?;
            rest = self.rest(at, here, at.time)?;
            v = v + rest.kick(&root, eps, here.gradient);
        }
        // The step ends with the density of its momentum and takes back the one before, so that the sum may stop after any.
        let end = rest.units(v);
        let log_density = rest.log_density(end);
        let log_ratio = (refreshment - rest.energies(end)).sum(&[1]) * 0.5 - taken_back;
        let moved = state.at(here.z).with_momentum(Momentum { v, log_density });
        Ok(Moved::new(moved, log_ratio))
    }

    /// The same from its end: leapfrogs backwards, then v drawn by the backward refreshment.
    pub(super) fn shifted_back<'g>(
        &self,
        at: &StepScope<'g>,
        state: ChainState<'g>,
        target: &Landscape<'_, 'g>,
        shift: impl Fn(Direction, Point<'g>, Expr<'g>) -> Result<Option<Expr<'g>>>,
    ) -> Result<Moved<'g>> {
        let (scope, Learned { eps, keep, sd, root }) = (&at.forward, self.learned(&at.forward));
        // The spread belongs to the time of the step's end, but where the step starts.
        let time = |leapfrogs: usize| if leapfrogs == 0 { at.start } else { at.time };
        let mut here = target.at(state.z)?;
        let mut rest = self.rest(at, here, time(self.leapfrogs))?;

        // The last step draws its momentum from r; those before find theirs.
        let after = state.momentum.unwrap_or_else(|| {
            let v = rest.times(scope.normal(state.z.shape()));
            Momentum { v, log_density: rest.log_density(rest.units(v)) }
        });
        let mut v = after.v;
        for left in (0..self.leapfrogs).rev() {
            v = v - rest.kick(&root, eps, here.gradient);
            here = target.at(here.z - root.times(eps, v))?;
            rest = self.rest(at, here, time(left))?;
            v = v - rest.kick(&root, eps, here.gradient);
        }

        let (refreshed, back) = (rest.units(v), scope.normal(v.shape()));
        let b = shift(Direction::Backward, here, refreshed)?;
        let v = keep * refreshed + sd * b.map_or(back, |b| back + b);
        let f = shift(Direction::Forward, here, v)?;
        let squares = match (f, b) {
            // Without shifts the refreshment is reversible: ξ² − (v − γv′)²/s² = v′² − v².
            (None, None) => refreshed.square() - v.square(),
            _ => {
                // The noise with which the way there would have drawn v′: (v′ − γv)/s − f.
                let xi = (refreshed - keep * v) / sd;
                f.map_or(xi, |f| xi - f).square() - back.square()
            }
        };
        let refreshment = squares.sum(&[1]) * 0.5;
        // As if the chain began here with this momentum: the step before takes that back.
        let log_density = rest.log_density(v);
        let log_ratio = after.log_density + refreshment - log_density;
        let moved = state.at(here.z).with_momentum(Momentum { v: rest.times(v), log_density });
        Ok(Moved::new(moved, log_ratio))
    }
}

/// Momenta at rest: N(0, D²).
enum Rest<'g> {
    /// D = 1.
    Standard,
    Spread {
        log_sd: Expr<'g>,
        sd: Expr<'g>,
    },
}

/// The largest force, in standard deviations of a momentum at rest: a row that meets a larger one would be lost.
const FORCE: f64 = 30.0;

impl<'g> Rest<'g> {
    /// De.
    fn times(&self, e: Expr<'g>) -> Expr<'g> {
        match self {
            Rest::Standard => e,
            Rest::Spread { sd, .. } => *sd * e,
        }
    }

    /// v/D.
    fn units(&self, v: Expr<'g>) -> Expr<'g> {
        match self {
            Rest::Standard => v,
            Rest::Spread { sd, .. } => v / *sd,
        }
    }

    /// ½εD²M^−½ᵀg, limited where D is learned.
    fn kick(&self, root: &Root<'g>, eps: Expr<'g>, g: Expr<'g>) -> Expr<'g> {
        match self {
            Rest::Standard => root.transposed(eps * 0.5, g),
            Rest::Spread { sd, .. } => eps * 0.5 * (*sd * (*sd * root.transposed(1.0, g)).max(-FORCE).min(FORCE)),
        }
    }

    /// Twice the kinetic energy of momenta De by coordinate: e² + 2 log D.
    fn energies(&self, e: Expr<'g>) -> Expr<'g> {
        match self {
            Rest::Standard => e.square(),
            Rest::Spread { log_sd, .. } => e.square() + *log_sd * 2.0,
        }
    }

    /// log N(De; 0, D²) of each row, without its constant, which cancels.
    fn log_density(&self, e: Expr<'g>) -> Expr<'g> {
        self.energies(e).sum(&[1]) * -0.5
    }
}

impl Transition for Uha {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.shifted(at, state, target, |_, _, _| Ok(None))
    }

    fn reverse<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        self.shifted_back(at, state, target, |_, _, _| Ok(None))
    }

    fn contained(&self) -> Option<AnyTransition> {
        self.spread.as_ref().map(|_| Uha { spread: None, ..self.clone() }.into())
    }

    fn holds_path(&self) -> bool {
        true
    }

    fn is_loopable(&self) -> bool {
        true
    }

    fn name(&self) -> (String, String) {
        let name = if self.spread.is_some() { "Riemannian UHA step" } else { "UHA step" };
        (name.to_owned(), format!("of {}", counted(self.leapfrogs, "leapfrog")))
    }

    /// The gradient at the start of a step is that at the end of the one before.
    fn gradients(&self) -> usize {
        self.leapfrogs
    }

    fn size(&self) -> Result<usize> {
        within("leapfrogs", self.leapfrogs, 0..=limits::LEAPFROGS)?;
        self.initial_step_size.map_or(Ok(()), |size| positive("step size", size))?;
        self.spread.as_ref().map_or(Ok(0), TimeNetwork::size)
    }

    /// Two leapfrogs of half the size, with refreshments that together keep as much of the momentum.
    fn halved(&self, name: &str, value: f64) -> Option<f64> {
        Some(match name {
            Self::LOG_STEP => value - std::f64::consts::LN_2,
            "logit_keep" => {
                let keep = (1.0 + (-value).exp()).recip().sqrt();
                (keep / (1.0 - keep)).ln()
            }
            _ => value,
        })
    }

    fn step_size(&self, params: &Params, forward: &str) -> Option<f64> {
        params.number(&format!("{forward}.{}", Self::LOG_STEP)).ok().map(f64::exp)
    }

    fn into_any(self) -> AnyTransition {
        self.into()
    }
}

/// M^−½, which maps momenta in units of M^½ to velocities.
enum Root<'g> {
    Diagonal(Expr<'g>),
    /// Lower triangular L with M⁻¹ = LLᵀ.
    Full(Expr<'g>),
}

impl<'g> Root<'g> {
    fn new(mass: Mass, scope: &Scope<'g>) -> Self {
        let positions = scope.positions();
        let d = positions.dim();
        match mass {
            Mass::Diagonal => {
                let start = || Initial::new(positions.conditional.iter().map(|s| s.ln()).collect());
                Root::Diagonal(scope.param("log_scale", d, start).exp())
            }
            Mass::Full => {
                let rates = || positions.scale.iter().flat_map(|s| vec![*s; d]).collect();
                let start = || Initial::scaled(positions.factor().into_owned(), rates());
                Root::Full(scope.param("scale_factor", [d, d], start).tril())
            }
        }
    }

    /// sM^−½v.
    fn times(&self, s: impl Operand<'g>, v: Expr<'g>) -> Expr<'g> {
        match *self {
            Root::Diagonal(scale) => scale * s.operand(scale) * v,
            Root::Full(l) => v.matmul(l.t()) * s.operand(l),
        }
    }

    /// sM^−½ᵀg.
    fn transposed(&self, s: impl Operand<'g>, g: Expr<'g>) -> Expr<'g> {
        match *self {
            Root::Diagonal(scale) => scale * s.operand(scale) * g,
            Root::Full(l) => g.matmul(l) * s.operand(l),
        }
    }
}
