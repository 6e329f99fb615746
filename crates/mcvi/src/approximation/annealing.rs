//! Annealed importance sampling with any number of temperatures (section 4.2): the program of one step, run in a loop.
//!
//! With the reversed transition as inverse model, Algorithm 1 telescopes to L = Σₜ (βₜ − βₜ₋₁) log[p(x, zₜ₋₁) /
//! q₀(zₜ₋₁)]. (The paper prints zₜ in place of zₜ₋₁, which is not a lower bound.) The only requirement is that step t
//! leaves the bridge pₜ invariant, as Metropolis–Hastings and Gibbs steps do.

use super::Approximation;
use crate::density::{Density, Given};
use crate::error::{Error, Result};
use crate::params::Group;
use crate::scope::Choices;
use crate::seed::derive_seed;
use crate::target::{Bridge, Landscape, evaluate};
use crate::transition::{ChainState, Diagnostic, StepScope, Transition};
use mcvi_expr::{Array, Run};

/// The result of annealing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Annealed {
    /// The final positions.
    pub z: Vec<Vec<f64>>,
    /// The log weight of each chain. Its mean is a lower bound, and E exp(L) = p(x).
    pub log_weights: Vec<f64>,
    /// Mean acceptance probability at each temperature, if the transition accepts or rejects.
    pub accept: Option<Vec<f64>>,
}

impl Approximation {
    /// Anneal from q(z₀|x) to the target through 0 = β₀ < β₁ ≤ … ≤ β_T = 1, one step of `transition` at each βₜ.
    ///
    /// The transition must leave its target invariant. Its parameters are set from the target's curvature and are not
    /// learned. For a chain that learns them, see [`Chain::annealed`](crate::Chain::annealed).
    pub fn anneal(&self, transition: &dyn Transition, betas: &[f64], chains: usize, seed: u64) -> Result<Annealed> {
        let rising = betas.windows(2).all(|w| w[0] <= w[1]);
        if betas.is_empty() || !rising || betas[0] < 0.0 || betas[betas.len() - 1] != 1.0 {
            let why = "needs temperatures that rise from 0 or more to 1".to_owned();
            return Err(Error::Setting { what: "temperatures", why });
        }
        if chains == 0 {
            return Err(Error::Setting { what: "chains", why: "at least one is needed".to_owned() });
        }
        if self.chain.whitened {
            let why =
                "it runs in whitened coordinates, where annealing is not available; anneal from its Gaussian in the \
                       target's own"
                    .to_owned();
            return Err(Error::Setting { what: "chain", why });
        }
        let first = Approximation { chain: self.chain.initial_alone(), ..self.clone() }.draw(chains, seed)?;

        let (target, dtype, d) = (self.target.as_ref(), self.target.dtype(), self.target.dim());
        let first = first.z.concat();
        let (mut program, accepts) = self.compile(chains, Choices::Sample).program(|scope, program| {
            let graph = scope.graph();
            let z = graph.state("z", Array::new([chains, d], first)?.cast(dtype));
            let weight = graph.state("weight", Array::zeros(dtype, chains)?);
            let (beta, step) = (graph.input("beta", dtype, ()), graph.input("step", dtype, ()));
            let (target_scope, q0) =
                (scope.child("target").group(Group::Target), scope.child("q0").group(Group::Initial));
            let data = target.data(&target_scope);
            let given = Given::nothing(&q0, data);
            let log_q0 = |z| self.chain.initial.log_density(&q0, &given, z);
            let gain = step * (evaluate(target, &target_scope, z)? - log_q0(z)?);
            // Nothing is gained or lost if the temperature does not change, even where log p = −∞.
            let gain = step.eq(0.0).select(0.0, gain);
            let bridge = Bridge { path: &self.chain.path, beta, log_q0: Box::new(log_q0) };
            let landscape = Landscape { target, scope: target_scope.clone(), bridge: Some(bridge), known: None };
            let (forward, inverse) = (scope.child("anneal"), scope.child("anneal.r"));
            let at = StepScope {
                forward,
                inverse,
                shared: scope.child("anneal.shared"),
                time: beta,
                start: beta - step,
                data,
            };
            let moved = transition.apply(&at, ChainState::new(z), &landscape)?;
            let program =
                program.seed(derive_seed(seed, "annealing")).update(z, moved.state.z).update(weight, weight + gain);
            let accept = moved.diagnostics.iter().find(|(kind, _)| *kind == Diagnostic::Acceptance);
            Ok(match accept {
                Some((_, accept)) => (program.output("accept", accept.mean_all()), true),
                None => (program, false),
            })
        })?;
        let n = betas.len();
        let column = |values: Vec<f64>| -> Result<Array> { Ok(Array::new(n, values)?.cast(dtype)) };
        let before = std::iter::once(&0.0).chain(betas);
        let steps = column(betas.iter().zip(before).map(|(b, before)| b - before).collect())?;
        let betas = column(betas.to_vec())?;
        let mut run = Run::steps(n).feed("beta", &betas).feed("step", &steps);
        if accepts {
            run = run.record("accept");
        }
        let recorded = program.execute(&run)?;
        // A weight that is NaN counts as nothing, as everywhere.
        let weight = |w: f64| if w.is_nan() { f64::NEG_INFINITY } else { w };
        Ok(Annealed {
            z: program.read("z")?.to_f64().chunks(d).map(<[f64]>::to_vec).collect(),
            log_weights: program.read("weight")?.to_f64().into_iter().map(weight).collect(),
            accept: recorded.first().map(Array::to_f64),
        })
    }
}
