//! A chain for a target together with its parameters: what is fitted, drawn from, grown and saved.

mod annealing;
mod draws;
mod gradient;
mod inverse_regression;
mod mixture;
mod save;
mod upper;

pub use annealing::Annealed;
pub(crate) use draws::Bounds;
pub use draws::{Diagnostics, Draws};
pub(crate) use gradient::Followed;
pub use gradient::{GradientSpread, NamedValues};
pub(crate) use inverse_regression::InverseRegression;
pub use mixture::Mixture;

use crate::bound::{Estimate, lower_bound};
use crate::chain::{Annealing, Chain, Iterates};
use crate::compile::Compile;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::{Choices, Scope};
use crate::target::Target;
use crate::transition::Transition;
use mcvi_expr::{Program, ProgramBuilder};
use std::sync::Arc;

/// Forward draws used to initialise linear-Gaussian inverse models.
const PILOT: usize = 4000;

/// An approximation to the posterior: a chain and its current parameters.
#[derive(Clone)]
pub struct Approximation {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) chain: Chain,
    pub(crate) initialisation: Initialisation,
    pub(crate) params: Params,
    pub(crate) hardware: Hardware,
}

impl Approximation {
    /// A chain for a target, initialised from the target: centre and scales from its mode and the curvature there,
    /// inverse models by regression.
    pub fn new(target: impl Target + 'static, chain: Chain) -> Result<Self> {
        let target: Arc<dyn Target> = Arc::new(target);
        let initialisation = Initialisation::laplace(target.as_ref(), &Params::default(), None)?;
        Approximation::from(target, chain, initialisation)
    }

    /// The same with a custom initialisation.
    pub fn from(target: Arc<dyn Target>, chain: Chain, initialisation: Initialisation) -> Result<Self> {
        Approximation::initialised(target, chain, initialisation, Hardware::default())
    }

    /// The same on the given hardware.
    pub fn initialised(
        target: Arc<dyn Target>,
        chain: Chain,
        initialisation: Initialisation,
        hardware: Hardware,
    ) -> Result<Self> {
        Approximation { target, chain, initialisation, params: Params::default(), hardware }.started()
    }

    /// With initial values for all parameters that it does not have yet, and inverse models by regression.
    fn started(self) -> Result<Self> {
        let (has, needs) = (self.initialisation.center.len(), self.target.dim());
        if needs == 0 {
            return Err(Error::Target { why: "it has no coordinates".to_owned() });
        }
        if has != needs {
            let why = format!("it has {has} coordinates, the target {needs}");
            return Err(Error::Setting { what: "initialisation", why });
        }
        let mut started = self.with_chain(self.chain.clone())?;
        started.regress_inverses(PILOT, 0)?;
        Ok(started)
    }

    /// The same on other hardware, on which everything from now on is computed.
    pub fn on(self, hardware: Hardware) -> Self {
        Approximation { hardware, ..self }
    }

    /// Algorithm 4, line 2: the same approximation with its parameters frozen, and one more step to be learned.
    pub fn grown(&self, transition: impl Transition + 'static) -> Result<Self> {
        if !matches!(self.chain.annealing, Annealing::Off) {
            let why = "an annealed chain cannot grow: its temperatures end with its last step".to_owned();
            return Err(Error::Setting { what: "chain", why });
        }
        if !matches!(self.chain.iterates, Iterates::Last) {
            let why = "a chain whose iterates are averaged cannot grow; grow it first, then average".to_owned();
            return Err(Error::Setting { what: "chain", why });
        }
        let mut params = self.params.clone();
        params.freeze();
        Approximation { chain: self.chain.clone().step(transition), params, ..self.clone() }.started()
    }

    /// The same parameters in another chain. Any further parameters it needs are initialised from the target.
    pub fn with_chain(&self, chain: Chain) -> Result<Self> {
        chain.check()?;
        let target = self.target.as_ref();
        let params = self.compile(2, Choices::Sample).params(|scope| lower_bound(target, &chain, scope).map(drop))?;
        Ok(Approximation { chain, params, ..self.clone() })
    }

    /// The chain that this one was trained before, with its parameters: with networks added, or with every step halved.
    pub(crate) fn extended(&self, chain: Chain) -> Result<Self> {
        let finer = chain.len() > self.chain.len();
        let params = if finer { self.chain.halved(&self.params)? } else { self.params.clone() };
        Approximation { params, ..self.clone() }.with_chain(chain)
    }

    /// Another chain with the same initialisation, before anything is learned.
    pub(crate) fn fresh(&self, chain: Chain) -> Result<Self> {
        Approximation { chain, params: Params::default(), ..self.clone() }.started()
    }

    /// Another chain for the same target and hardware, with another initialisation.
    pub fn restarted(&self, chain: Chain, initialisation: Initialisation) -> Result<Self> {
        if !initialisation.is_finite() {
            let why =
                "it is not finite: some of the draws it was made from have diverged; does every parameter have a \
                       proper prior?"
                    .to_owned();
            return Err(Error::Setting { what: "initialisation", why });
        }
        Approximation::initialised(self.target.clone(), chain, initialisation, self.hardware)
    }

    /// What its programs are built from.
    pub(crate) fn compile(&self, rows: usize, choices: Choices) -> Compile<'_> {
        Compile {
            dtype: self.target.dtype(),
            rows,
            choices,
            initialisation: &self.initialisation,
            params: &self.params,
            hardware: self.hardware,
        }
    }

    /// A program around Algorithm 1: `build` adds outputs computed from the estimate.
    pub(crate) fn program<T>(
        &self,
        rows: usize,
        choices: Choices,
        build: impl for<'g> FnOnce(&Scope<'g>, Estimate<'g>, ProgramBuilder<'g>) -> Result<(ProgramBuilder<'g>, T)>,
    ) -> Result<(Program, T)> {
        self.compile(rows, choices).program(|scope, program| {
            let estimate = lower_bound(self.target.as_ref(), &self.chain, scope)?;
            build(scope, estimate, program)
        })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The parameters, mutably.
    pub fn params_mut(&mut self) -> &mut Params {
        &mut self.params
    }

    /// The chain.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The target.
    pub fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// The initialisation: the location and scale of the target.
    pub fn initialisation(&self) -> &Initialisation {
        &self.initialisation
    }

    /// The hardware it is computed on.
    pub fn hardware(&self) -> Hardware {
        self.hardware
    }

    /// Set every linear-Gaussian inverse model to its optimum for the current chain, by regression over `draws` draws.
    pub fn regress_inverses(&mut self, draws: usize, seed: u64) -> Result<()> {
        if draws == 0 {
            return Err(Error::Setting { what: "draws", why: "at least one is needed".to_owned() });
        }
        self.params = InverseRegression::new(self, draws, seed)?.solve(&self.params)?;
        Ok(())
    }
}
