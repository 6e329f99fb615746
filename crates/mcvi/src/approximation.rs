//! A chain for a target, with its parameters: what is fitted, drawn from, grown and saved.

use crate::bound::lower_bound;
use crate::chain::{Annealing, Chain, Iterates};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::regression::Regression;
use crate::scope::{Choices, Scope};
use crate::start::Start;
use crate::target::Target;
use crate::transition::Transition;
use mcvi_expr::Graph;
use std::sync::Arc;

/// Forward draws from which linear-Gaussian inverse models start.
const PILOT: usize = 4000;

/// An approximation to the posterior: a chain, and the parameters it has at present.
#[derive(Clone)]
pub struct Approximation {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) chain: Chain,
    pub(crate) start: Start,
    pub(crate) params: Params,
}

impl Approximation {
    /// A chain for a target, started from the target: centre and scales from its mode and the curvature there,
    /// inverse models by regression.
    pub fn new(target: impl Target + 'static, chain: Chain) -> Result<Self> {
        let target: Arc<dyn Target> = Arc::new(target);
        let start = Start::laplace(target.as_ref(), &Params::default(), None)?;
        Approximation::from(target, chain, start)
    }

    /// The same with a centre and scales given.
    pub fn from(target: Arc<dyn Target>, chain: Chain, start: Start) -> Result<Self> {
        Approximation::with_params(target, chain, start, Params::default())
    }

    /// The same with values for some of the parameters; the rest start from the target.
    pub(crate) fn with_params(target: Arc<dyn Target>, chain: Chain, start: Start, params: Params) -> Result<Self> {
        if target.dim() == 0 {
            return Err(Error::Target { why: "it has no coordinates".to_owned() });
        }
        if start.center.len() != target.dim() {
            let why = format!("it has {} coordinates, the target {}", start.center.len(), target.dim());
            return Err(Error::Setting { what: "start", why });
        }
        let mut made = Approximation { target, chain: chain.clone(), start, params }.with_chain(chain)?;
        made.regress_inverses(PILOT, 0)?;
        Ok(made)
    }

    /// Algorithm 4, line 2: the same approximation, held as it is, with one more step to be learned.
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
        let chain = self.chain.clone().step(transition);
        Approximation::with_params(self.target.clone(), chain, self.start.clone(), params)
    }

    /// The same parameters in another chain; what it needs beyond them starts from the target.
    pub fn with_chain(&self, chain: Chain) -> Result<Self> {
        let graph = Graph::new();
        let scope = Scope::new(&graph, 2, self.target.dtype(), Choices::Sample, &self.start, &self.params)?;
        lower_bound(self.target.as_ref(), &chain, &scope)?;
        Ok(Approximation { chain, params: scope.finish()?, ..self.clone() })
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The parameters, to be changed.
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

    /// Where the target was found to lie.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// Set every linear-Gaussian inverse model to its best for the chain as it is, by regression over `draws` draws.
    pub fn regress_inverses(&mut self, draws: usize, seed: u64) -> Result<()> {
        if draws == 0 {
            return Err(Error::Setting { what: "draws", why: "at least one is needed".to_owned() });
        }
        self.params = Regression::new(self, draws, seed)?.solve(&self.params)?;
        Ok(())
    }
}
