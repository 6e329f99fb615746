//! A chain: an initial distribution and any number of steps, each a transition with its inverse model.
//!
//! A chain is a value: it can be compared, printed, and written in a settings file or beside a fit.

use crate::density::{AnyDensity, Categorical, Density, Gaussian};
use crate::error::{Error, Result};
use crate::limits::{self, within};
use crate::params::{Param, Params};
use crate::target::path::{AnyPath, Path};
use crate::transition::{AnyTransition, Hamiltonian, Transition, Uha};
use mcvi_expr::Array;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Steps of a kind that are not made fewer for training.
const COARSEST: usize = 8;

/// q(z₀|x) and the transitions that follow it.
///
/// ```
/// use mcvi::Chain;
///
/// let chain: Chain = serde_json::from_str(
///     r#"{ "initial": { "kind": "gaussian", "covariance": "full" },
///          "steps": [{ "count": 2, "transition": { "kind": "hamiltonian", "leapfrogs": 3 } }] }"#,
/// ).unwrap();
/// assert_eq!(chain.to_string(), "2 Hamiltonian steps of 3 leapfrogs");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Chain {
    pub(crate) initial: AnyDensity,
    steps: Vec<Steps>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) iterates: Iterates,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) annealing: Annealing,
    /// The densities that annealed steps see.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) path: AnyPath,
    /// Whether it runs in whitened coordinates.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) whitened: bool,
}

/// A chain as it is written in a file, not yet within the limits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "standard_initial")]
    initial: AnyDensity,
    #[serde(default)]
    steps: Vec<Steps>,
    #[serde(default)]
    iterates: Iterates,
    #[serde(default)]
    annealing: Annealing,
    #[serde(default)]
    path: AnyPath,
    #[serde(default)]
    whitened: bool,
}

impl TryFrom<Written> for Chain {
    type Error = Error;

    fn try_from(Written { initial, steps, iterates, annealing, path, whitened }: Written) -> Result<Self> {
        let chain = Chain { initial, steps, iterates, annealing, path, whitened };
        chain.size().map(|_| chain)
    }
}

fn standard_initial() -> AnyDensity {
    Gaussian::diagonal().into()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Steps of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    #[serde(default = "one")]
    count: usize,
    #[serde(default)]
    sharing: Sharing,
    transition: AnyTransition,
}

fn one() -> usize {
    1
}

/// Steps of one kind, counted from `first`.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    first: usize,
    steps: &'a Steps,
}

impl<'a> Group<'a> {
    pub fn count(self) -> usize {
        self.steps.count
    }

    /// Step i of them, counted from 0.
    pub fn step(self, i: usize) -> Step<'a> {
        let (first, t) = (self.first, self.first + i);
        let (forward, inverse) = match self.steps.sharing {
            Sharing::Nothing => (t, t),
            Sharing::Transitions => (first, t),
            Sharing::Everything => (first, first),
        };
        let (forward, inverse) = (format!("step{forward}"), format!("step{inverse}.r"));
        Step { transition: &self.steps.transition, forward, inverse, shared: format!("steps{first}") }
    }
}

/// A transition, and the names of its parameters and of its inverse model's.
pub(crate) struct Step<'a> {
    pub transition: &'a AnyTransition,
    pub forward: String,
    pub inverse: String,
    /// What all steps of its kind share.
    pub shared: String,
}

/// Which parameters the steps of one kind share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One set for each step.
    #[default]
    Nothing,
    /// One set for all transitions, an inverse model for each step.
    Transitions,
    /// One set for all steps.
    Everything,
}

/// Which positions of the chain make the approximation: section 4.3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Iterates {
    #[default]
    Last,
    Mixture {
        last: usize,
        #[serde(default)]
        indicator: Option<Categorical>,
    },
}

/// The target that the steps see: section 4.2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Annealing {
    #[default]
    Off,
    Fixed(Vec<f64>),
    Learned,
}

impl Chain {
    /// A chain without steps: the fixed-form approximation q(z₀|x).
    pub fn new(initial: impl Density + 'static) -> Self {
        Chain {
            initial: initial.into_any(),
            steps: vec![],
            iterates: Iterates::default(),
            annealing: Annealing::default(),
            path: AnyPath::default(),
            whitened: false,
        }
    }

    /// Hamiltonian variational inference (Algorithm 3) as in the paper's section 3.1: a diagonal Gaussian, then one
    /// step of this many leapfrogs. With zero leapfrogs, the Gaussian alone.
    pub fn hamiltonian(leapfrogs: usize) -> Self {
        let chain = Chain::new(Gaussian::diagonal());
        if leapfrogs == 0 { chain } else { chain.step(Hamiltonian::new(leapfrogs)) }
    }

    /// Differentiable annealed importance sampling (Zhang et al. 2021): this chain, then [`Uha`] steps of one leapfrog that share
    /// their parameters, at equally spaced temperatures.
    pub fn dais(self, steps: usize) -> Self {
        let betas: Vec<f64> = (1..=steps).map(|t| t as f64 / steps as f64).collect();
        self.steps(steps, Sharing::Everything, Uha::new(1)).annealed(&betas)
    }

    /// Add a step with parameters of its own.
    pub fn step(self, transition: impl Transition + 'static) -> Self {
        self.steps(1, Sharing::Nothing, transition)
    }

    /// Add `count` steps of one kind.
    pub fn steps(mut self, count: usize, sharing: Sharing, transition: impl Transition + 'static) -> Self {
        let transition = transition.into_any();
        match self.steps.last_mut() {
            // Equal chains are equal values, however they were written.
            Some(last) if last.transition == transition && [last.sharing, sharing] == [Sharing::Nothing; 2] => {
                last.count += count;
            }
            _ => self.steps.push(Steps { count, sharing, transition }),
        }
        self
    }

    /// Approximate by the last `count` positions instead of the last one: a mixture, with q(w) = r(w) uniform.
    pub fn average_last(self, count: usize) -> Self {
        Chain { iterates: Iterates::Mixture { last: count, indicator: None }, ..self }
    }

    /// The same with a learned model r(w|x, z) of which position a draw came from.
    pub fn average_last_with(self, count: usize, indicator: Categorical) -> Self {
        Chain { iterates: Iterates::Mixture { last: count, indicator: Some(indicator) }, ..self }
    }

    /// Let step t see the bridge (1 − βₜ) log q₀(z) + βₜ log p(x, z), with these βₜ; the last should be 1.
    pub fn annealed(self, temperatures: &[f64]) -> Self {
        Chain { annealing: Annealing::Fixed(temperatures.to_vec()), ..self }
    }

    /// The same with learned 0 < β₁ < … < β_T = 1, initially equally spaced.
    pub fn annealed_learned(self) -> Self {
        Chain { annealing: Annealing::Learned, ..self }
    }

    /// With another path of bridges than the geometric one.
    pub fn along(self, path: impl Path + 'static) -> Self {
        Chain { path: path.into_any(), ..self }
    }

    /// Run in whitened coordinates y, where z = c + Ly with the centre c and the covariance LLᵀ of the initialisation.
    pub fn whitened(self) -> Self {
        Chain { whitened: true, ..self }
    }

    /// Whether it runs in whitened coordinates.
    pub fn is_whitened(&self) -> bool {
        self.whitened
    }

    /// The initial distribution alone.
    pub(crate) fn initial_alone(&self) -> Self {
        Chain { whitened: self.whitened, ..Chain::new(self.initial.clone()) }
    }

    /// The chain that learned drifts were added to, with the same names of parameters: to be trained before this one.
    /// None if it has no such steps.
    pub fn contained(&self) -> Option<Chain> {
        let steps = self.steps.iter().map(|s| (s, s.transition.contained()));
        let simpler = steps.clone().any(|(_, contained)| contained.is_some());
        let steps = steps
            .map(|(s, contained)| Steps { transition: contained.unwrap_or_else(|| s.transition.clone()), ..s.clone() });
        simpler.then(|| Chain { steps: steps.collect(), ..self.clone() })
    }

    /// The chain to be trained before this one: with half as many steps while there are many and a network has to be learned for
    /// them, then without the network.
    pub(crate) fn before(&self) -> Option<Chain> {
        self.contained().map(|contained| self.coarser().unwrap_or(contained))
    }

    /// The chain of half as many steps, each twice as large, if that leaves enough of them and steps can be halved again.
    fn coarser(&self) -> Option<Chain> {
        let halves = |s: &Steps| {
            s.count.is_multiple_of(2)
                && s.count / 2 >= COARSEST
                && s.sharing == Sharing::Nothing
                && s.transition.halved("", 0.0).is_some()
        };
        let free = !matches!(self.annealing, Annealing::Fixed(_)) && self.iterates == Iterates::Last;
        let steps = self.steps.iter().map(|s| Steps { count: s.count / 2, ..s.clone() }).collect();
        (free && self.steps.iter().all(halves)).then(|| Chain { steps, ..self.clone() })
    }

    /// Parameters of this chain for the one whose coarser chain it is: every step becomes two of half the size.
    pub(crate) fn halved(&self, params: &Params) -> Result<Params> {
        let mut halved = Params::default();
        let numbered = |name: &str, kind: &str| -> Option<(usize, String)> {
            let (number, rest) = name.strip_prefix(kind)?.split_once('.')?;
            Some((number.parse().ok()?, rest.to_owned()))
        };
        for (name, param) in params.iter() {
            if let Some((first, rest)) = numbered(name, "steps") {
                halved.insert(&format!("steps{}.{rest}", 2 * first - 1), param.clone());
            } else if let Some((t, rest)) = numbered(name, "step") {
                let Some(step) = self.each_step().nth(t - 1) else { continue };
                let smaller = |x: f64| step.transition.halved(&rest, x).unwrap_or(x);
                let values = param.value.to_f64().into_iter().map(smaller).collect::<Vec<_>>();
                let value = Array::new(param.value.shape().clone(), values)?.cast(param.value.dtype());
                for t in [2 * t - 1, 2 * t] {
                    halved.insert(&format!("step{t}.{rest}"), Param { value: value.clone(), ..param.clone() });
                }
            } else if name == "beta.logits" {
                // The same increment twice: the softmax makes halves of it.
                let twice = |xs: &[f64]| xs.iter().flat_map(|x| [*x, *x]).collect::<Vec<_>>();
                let values = twice(&param.value.to_f64());
                let value = Array::new(values.len(), values)?.cast(param.value.dtype());
                halved.insert(name, Param { value, scale: twice(&param.scale), ..param.clone() });
            } else {
                halved.insert(name, param.clone());
            }
        }
        Ok(halved)
    }

    /// The steps by kind, in order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let mut first = 1;
        self.steps.iter().map(move |steps| {
            let group = Group { first, steps };
            first += steps.count;
            group
        })
    }

    /// The steps one by one, in order.
    pub(crate) fn each_step(&self) -> impl Iterator<Item = Step<'_>> {
        self.groups().flat_map(|group| (0..group.count()).map(move |i| group.step(i)))
    }

    /// The number of steps T.
    pub fn len(&self) -> usize {
        self.steps.iter().map(|s| s.count).sum()
    }

    /// Whether the chain is its initial distribution alone.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gradients of the target that a pass through the chain takes, including the one at its end.
    pub fn gradients(&self) -> usize {
        1 + self.steps.iter().map(|s| s.count * s.transition.gradients()).sum::<usize>()
    }

    /// An error if it is beyond the [`limits`]. A chain read from a file is not.
    pub fn check(&self) -> Result<()> {
        self.size().map(drop)
    }

    /// The weights between hidden layers of its networks: fewer numbers than it has parameters. An error if it is
    /// beyond the [`limits`].
    pub(crate) fn size(&self) -> Result<usize> {
        let (mut count, mut gradients, mut weights) = (0usize, 0usize, self.initial.size()?);
        for Steps { count: n, sharing, transition } in &self.steps {
            let each = transition.size()?;
            count = count.saturating_add(*n);
            gradients = gradients.saturating_add(n.saturating_mul(transition.gradients()));
            // A network in time serves all steps.
            let is_shared = *sharing != Sharing::Nothing || transition.contained().is_some();
            let sets = if is_shared { 1.min(*n) } else { *n };
            weights = weights.saturating_add(sets.saturating_mul(each));
        }
        within("steps of a chain", count, 0..=limits::STEPS)?;
        within("gradients of a chain", gradients, 0..=limits::GRADIENTS)?;
        if let Iterates::Mixture { indicator: Some(indicator), .. } = &self.iterates {
            weights = weights.saturating_add(indicator.log_odds.size()?);
        }
        crate::network::weights(weights)
    }

    /// Whether a network is part of it.
    pub fn has_network(&self) -> bool {
        self.initial.has_network() || self.steps.iter().any(|s| s.transition.has_network())
    }

    /// The step size of every transition that has one, in the order of the steps; a shared one appears once.
    pub fn step_sizes(&self, params: &Params) -> Vec<f64> {
        let mut seen = vec![];
        let sizes = self.each_step().filter_map(|step| {
            let new = !seen.contains(&step.forward);
            seen.push(step.forward.clone());
            step.transition.step_size(params, &step.forward).filter(|_| new)
        });
        sizes.collect()
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            let gaussian = matches!(&self.initial, AnyDensity::Gaussian(q) if !q.has_network());
            return f.write_str(if gaussian { "a Gaussian alone" } else { "q(z₀|x) alone" });
        }
        for (i, Steps { count, transition, .. }) in self.steps.iter().enumerate() {
            let (name, details) = transition.name();
            let then = if i == 0 { "" } else { ", then " };
            match count {
                1 if name.starts_with(['a', 'e', 'i', 'o', 'u']) => write!(f, "{then}an {name}")?,
                1 => write!(f, "{then}a {name}")?,
                n => write!(f, "{then}{n} {name}s")?,
            }
            if !details.is_empty() {
                write!(f, " {details}")?;
            }
        }
        match &self.annealing {
            Annealing::Off => {}
            Annealing::Fixed(_) => f.write_str(", annealed")?,
            Annealing::Learned => f.write_str(", annealed at learned temperatures")?,
        }
        match &self.iterates {
            Iterates::Last => Ok(()),
            Iterates::Mixture { last, .. } => write!(f, ", the last {last} positions averaged"),
        }
    }
}
