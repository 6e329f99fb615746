//! The parts of a deep model, as data that is saved with it: decoder, inference network, chain.

use super::model::{LatentModel, Observed};
use crate::chain::{Chain, Sharing};
use crate::density::{Gaussian, Inputs};
use crate::error::{Error, Result};
use crate::limits::{self, positive, within};
use crate::network::{AnyNetwork, ConvDecoder, ConvEncoder, Dense, FILTER, Network};
use crate::target::Landscape;
use crate::transition::{
    AnyTransition, ChainState, Cmcd, Hamiltonian, Inverse, Ldvi, Moved, StepScope, TimeNetwork, Transition, Uha, WAVES,
};
use mcvi_expr::Array;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Numbers of feature maps of the convolutions, as in the paper's section 3.2.
const MAPS: [usize; 3] = [16, 32, 32];

/// The kind of network between latent variables and images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Fully connected layers.
    Dense,
    /// Convolutions of 5 × 5, with strides on the way in and upsampling on the way out.
    Conv,
}

/// The initial distribution of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inference {
    /// q(z₀|x) is a network of the image.
    Network,
    /// One Gaussian for all images.
    None,
}

/// The transitions of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Hamiltonian steps of several leapfrogs, each with a momentum of its own: Algorithm 3.
    #[default]
    #[serde(alias = "hmc")]
    Hamiltonian,
    /// Uncorrected Hamiltonian annealing: every leapfrog is a step, on a bridge from q(z₀|x) to p(x, z), that keeps part of the
    /// momentum.
    Uha,
    /// The same with momenta whose spread is a network of the image, the position and the time.
    RiemannianUha,
    /// Langevin diffusion variational inference: UHA with a drift in its inverse model, a network of the image, the position,
    /// the gradient, the momentum and the time.
    Ldvi,
    /// Controlled Monte Carlo diffusion, underdamped: UHA with such a drift forwards and backwards.
    Cmcd,
}

impl Kernel {
    fn is_default(&self) -> bool {
        *self == Kernel::default()
    }
}

/// What a distribution of momenta depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Momentum {
    /// Nothing: one Gaussian.
    Constant,
    /// The image and the position, as in the paper.
    Network,
    /// These, and the gradient ∇log p(x, z) as well.
    Gradient,
}

/// A deep model and its approximate posterior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Architecture {
    /// Height and width of an image.
    pub image: [usize; 2],
    /// The kind of all networks.
    pub decoder: Kind,
    /// Hidden layers of a dense decoder.
    pub layers: usize,
    /// Units of each hidden layer.
    pub hidden: usize,
    /// Latent variables.
    pub latent: usize,
    /// The initial distribution of the chain.
    pub inference: Inference,
    /// The transitions of the chain.
    #[serde(skip_serializing_if = "Kernel::is_default")]
    pub kernel: Kernel,
    /// Hamiltonian steps.
    pub steps: usize,
    /// Leapfrogs per Hamiltonian step, or in all with another kernel; with zero there is no step.
    pub leapfrogs: usize,
    /// q(v′|x, z₀) of a Hamiltonian step.
    pub momentum: Momentum,
    /// r(v|x, z) of a Hamiltonian step.
    pub inverse: Momentum,
    /// The initial step size.
    #[serde(alias = "first_step")]
    pub initial_step_size: f64,
}

impl Default for Architecture {
    fn default() -> Self {
        Architecture {
            image: [28, 28],
            decoder: Kind::Dense,
            layers: 2,
            hidden: 300,
            latent: 32,
            inference: Inference::Network,
            kernel: Kernel::Hamiltonian,
            steps: 1,
            leapfrogs: 4,
            momentum: Momentum::Constant,
            inverse: Momentum::Network,
            initial_step_size: 0.1,
        }
    }
}

impl Architecture {
    /// Pixels of an image.
    pub fn pixels(&self) -> usize {
        self.image[0].saturating_mul(self.image[1])
    }

    /// The number of images in an array `[images, pixels]`.
    pub(super) fn count(&self, images: &Array) -> Result<usize> {
        match *images.shape().dims() {
            [count, pixels] if pixels == self.pixels() => Ok(count),
            _ => {
                let why = format!("need the shape [images, {}], got {}", self.pixels(), images.shape());
                Err(Error::Setting { what: "images", why })
            }
        }
    }

    /// Returns the first invalid setting as an error.
    pub fn check(&self) -> Result<()> {
        within("image", self.pixels(), 1..=limits::PIXELS)?;
        within("hidden units", self.hidden, 1..=limits::HIDDEN)?;
        within("latent variables", self.latent, 1..=limits::LATENT)?;
        within("layers", self.layers, 0..=limits::LAYERS)?;
        within("steps", self.steps, 1..=limits::STEPS)?;
        within("leapfrogs", self.leapfrogs, 0..=limits::LEAPFROGS)?;
        positive("step size", self.initial_step_size)?;
        self.check_kernel()?;
        let (hidden, weights) = (self.hidden, self.weights());
        if weights > limits::WEIGHTS {
            let why = format!("with {hidden} of them the model has {weights} weights, more than {}", limits::WEIGHTS);
            return Err(Error::Setting { what: "hidden units", why });
        }
        self.chain().check()
    }

    /// Refuse settings of Hamiltonian steps where there are none.
    fn check_kernel(&self) -> Result<()> {
        let usual = Architecture::default();
        if self.kernel == usual.kernel {
            return Ok(());
        }
        if self.steps != usual.steps {
            let why = format!(
                "there would be {} Hamiltonian steps, but with another kernel every leapfrog is a step of its own; give their \
                 number as leapfrogs",
                self.steps
            );
            return Err(Error::Setting { what: "steps", why });
        }
        if (self.momentum, self.inverse) != (usual.momentum, usual.inverse) {
            let why = "momentum and inverse describe the momenta of Hamiltonian steps, but other kernels keep theirs from step to \
                       step; omit both, or use the kernel `hamiltonian`";
            return Err(Error::Setting { what: "kernel", why: why.to_owned() });
        }
        Ok(())
    }

    /// The number of values that are learned.
    pub(super) fn weights(&self) -> usize {
        let (d, pixels, hidden) = (self.latent, self.pixels(), self.hidden);
        let encoder = |more: usize, layers: usize, outputs: usize| match self.decoder {
            Kind::Dense => dense(pixels + more, &vec![hidden; layers], outputs),
            Kind::Conv => conv(&[&[1], &MAPS[..]].concat()) + dense(self.flat() + more, &[hidden], outputs),
        };
        let decoder = match self.decoder {
            Kind::Dense => dense(d, &vec![hidden; self.layers], pixels),
            Kind::Conv => {
                dense(d, &[hidden], self.flat()) + conv(&MAPS.iter().rev().copied().chain([1]).collect::<Vec<_>>())
            }
        };
        let initial = match self.inference {
            Inference::Network => encoder(0, 2, 2 * d),
            Inference::None => 2 * d,
        };
        let momenta = |momentum| match momentum {
            Momentum::Constant => 2 * d,
            Momentum::Network => encoder(d, 1, 2 * d),
            Momentum::Gradient => encoder(2 * d, 1, 2 * d),
        };
        // Step size, share of the momentum that is kept, temperature and masses of every step; one network for all.
        let annealed = |network: usize| self.leapfrogs * (3 + d) + network;
        let chain = match self.kernel {
            _ if self.leapfrogs == 0 => 0,
            // The step size and the masses, and the two distributions of momenta.
            Kernel::Hamiltonian => self.steps * (1 + d + momenta(self.momentum) + momenta(self.inverse)),
            Kernel::Uha => annealed(0),
            Kernel::RiemannianUha => annealed(encoder(d + WAVES, 1, d)),
            Kernel::Ldvi | Kernel::Cmcd => annealed(encoder(3 * d + WAVES, 1, d)),
        };
        decoder + initial + chain
    }

    /// The numbers between the convolutions and the hidden layer.
    fn flat(&self) -> usize {
        let [h, w] = self.image.map(|n| MAPS.iter().fold(n, |n, _| n.div_ceil(2)));
        MAPS[MAPS.len() - 1] * h * w
    }

    /// The model p(x, z) of some images.
    pub fn model(&self, observed: Observed) -> LatentModel {
        let (image, hidden) = (self.image, self.hidden);
        let decoder: Arc<dyn Network> = match self.decoder {
            Kind::Dense => Arc::new(Dense { hidden: vec![hidden; self.layers] }),
            Kind::Conv => Arc::new(ConvDecoder { image, maps: MAPS.to_vec(), hidden }),
        };
        LatentModel { latent: self.latent, pixels: self.pixels(), decoder, observed }
    }

    /// The chain that approximates p(z|x): steps of the kernel after q(z₀|x).
    pub fn chain(&self) -> Chain {
        self.chain_of(self.leapfrogs)
    }

    /// The same stopped after some leapfrogs, of every step if it is Hamiltonian, and with steps even if that is zero.
    pub(super) fn chain_of(&self, leapfrogs: usize) -> Chain {
        let chain = match self.inference {
            Inference::Network => Chain::new(self.gaussian(Inputs::OBSERVED, 2)),
            Inference::None => Chain::new(Gaussian::diagonal()),
        };
        if self.leapfrogs == 0 {
            return chain;
        }
        let uha = || Uha::new(1).initial_step_size(self.initial_step_size);
        let drift = || self.in_time(Inputs { gradient: true, ..Inputs::DATA });
        let step: AnyTransition = match self.kernel {
            Kernel::Hamiltonian => {
                let step = Hamiltonian::new(leapfrogs).initial_step_size(self.initial_step_size);
                let inverse = Inverse::learned(self.momenta(self.inverse));
                return chain.steps(
                    self.steps,
                    Sharing::Nothing,
                    step.momentum(self.momenta(self.momentum)).inverse(inverse),
                );
            }
            Kernel::Uha => uha().into(),
            Kernel::RiemannianUha => uha().spread(self.in_time(Inputs::DATA)).into(),
            Kernel::Ldvi => Ldvi { uha: uha(), drift: drift() }.into(),
            Kernel::Cmcd => Cmcd { uha: uha(), drift: drift() }.into(),
        };
        // Steps that are left out stay in the chain, so that the others keep their times and temperatures.
        let chain = (0..leapfrogs).fold(chain, |chain, _| chain.step(step.clone()));
        (leapfrogs..self.leapfrogs).fold(chain, |chain, _| chain.step(Stay)).annealed_learned()
    }

    fn momenta(&self, momentum: Momentum) -> Gaussian {
        match momentum {
            Momentum::Constant => Gaussian::diagonal(),
            Momentum::Network => self.gaussian(Inputs::DATA, 1),
            Momentum::Gradient => self.gaussian(Inputs { gradient: true, ..Inputs::DATA }, 1),
        }
    }

    fn gaussian(&self, inputs: Inputs, layers: usize) -> Gaussian {
        Gaussian::from_network(inputs, self.encoder(layers))
    }

    /// A network in time that sees the image.
    fn in_time(&self, inputs: Inputs) -> TimeNetwork {
        TimeNetwork { inputs, network: self.encoder(1) }
    }

    /// A network of the image and other features.
    fn encoder(&self, layers: usize) -> AnyNetwork {
        let (image, hidden) = (self.image, self.hidden);
        match self.decoder {
            Kind::Dense => Dense { hidden: vec![hidden; layers] }.into_any(),
            Kind::Conv => ConvEncoder { image, maps: MAPS.to_vec(), hidden }.into_any(),
        }
    }
}

/// A step that leaves everything as it is.
#[derive(Debug)]
struct Stay;

impl Transition for Stay {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, _target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let nothing = at.forward.graph().full(at.forward.dtype(), state.rows(), 0.0);
        Ok(Moved::new(state, nothing))
    }

    fn gradients(&self) -> usize {
        0
    }
}

/// Weights and biases of linear layers.
fn dense(inputs: usize, hidden: &[usize], outputs: usize) -> usize {
    let (mut inputs, mut sum) = (inputs, 0);
    for width in hidden.iter().chain([&outputs]) {
        sum += (inputs + 1) * width;
        inputs = *width;
    }
    sum
}

/// Weights and biases of convolutions between these numbers of feature maps.
fn conv(maps: &[usize]) -> usize {
    maps.windows(2).map(|m| (m[0] * FILTER * FILTER + 1) * m[1]).sum()
}

#[cfg(test)]
mod tests {
    use super::super::checkpoint::Deep;
    use super::*;

    #[test]
    fn weights_are_counted_without_making_them() {
        let small = Architecture { image: [9, 6], hidden: 7, latent: 3, steps: 2, ..Architecture::default() };
        let all = [
            small.clone(),
            Architecture { layers: 0, inference: Inference::None, ..small.clone() },
            Architecture { leapfrogs: 0, ..small.clone() },
            Architecture { momentum: Momentum::Gradient, inverse: Momentum::Constant, ..small.clone() },
            Architecture { decoder: Kind::Conv, momentum: Momentum::Network, ..small.clone() },
            Architecture { decoder: Kind::Conv, inverse: Momentum::Gradient, ..small.clone() },
        ];
        let kernels = [Kernel::Uha, Kernel::RiemannianUha, Kernel::Ldvi, Kernel::Cmcd];
        let others = [Kind::Dense, Kind::Conv].into_iter().flat_map(|decoder| {
            let small = Architecture { decoder, steps: 1, leapfrogs: 3, ..small.clone() };
            kernels.map(move |kernel| Architecture { kernel, ..small.clone() })
        });
        for architecture in all.into_iter().chain(others) {
            let made = Deep::new(architecture.clone(), 1).unwrap().params.learned();
            assert_eq!(architecture.weights(), made, "{architecture:?}");
        }
    }

    /// The bound of every kernel and its gradient, as source for a GPU; compiled where NVRTC is found.
    #[cfg(feature = "cuda")]
    #[test]
    fn every_kernel_can_be_made_for_a_gpu() {
        use crate::bound::lower_bound;
        use crate::initialisation::Initialisation;
        use crate::scope::{Choices, Scope};
        use mcvi_expr::{DType, Graph, grad};

        let small = Architecture { image: [8, 8], hidden: 16, latent: 4, leapfrogs: 2, ..Architecture::default() };
        let conv = Architecture { decoder: Kind::Conv, ..small.clone() };
        let made = [(small.clone(), Kernel::Uha), (small, Kernel::RiemannianUha), (conv, Kernel::Cmcd)];
        for (architecture, kernel) in made {
            let deep = Deep::new(Architecture { kernel, ..architecture }, 1).unwrap();
            let (graph, start) = (Graph::new(), Initialisation::standard(4));
            let scope = Scope::new(&graph, 10, DType::F32, Choices::Average, &start, &deep.params).unwrap();
            let model = deep.architecture.model(Observed::nothing());
            let bound = lower_bound(&model, &deep.architecture.chain(), &scope).unwrap().bound.sum_all();
            let learned: Vec<_> = scope.learned().into_iter().map(|(_, _, expr)| expr).collect();
            let slopes = grad(bound, &learned).unwrap();
            let program = graph.program().output("bound", bound);
            let program = slopes.iter().enumerate().fold(program, |p, (i, slope)| p.output(&format!("d{i}"), *slope));
            let (source, compiled) = program.cuda_source("sm_90");
            eprintln!("{kernel:?}: {} bytes of source, {compiled:?}", source.len());
            assert!(compiled.is_none_or(|c| c.is_ok()));
        }
    }

    #[test]
    fn what_does_not_fit_into_memory_is_refused() {
        let says = |architecture: Architecture| architecture.check().unwrap_err().to_string();
        let base = Architecture::default();
        let most = format!("not between 1 and {}", limits::STEPS);
        assert!(says(Architecture { steps: 1_000_000_000, ..base.clone() }).contains(&most));
        assert!(says(Architecture { latent: 1_000_000_000, ..base.clone() }).contains("latent variables"));
        assert!(says(Architecture { image: [usize::MAX, 2], ..base.clone() }).contains("image"));
        assert!(says(Architecture { hidden: 90_000, ..base.clone() }).contains("weights, more than"));
        // Each network would fit, all of them together do not.
        assert!(says(Architecture { hidden: 10_000, steps: 200, ..base.clone() }).contains("weights, more than"));
        assert!(says(Architecture { steps: 256, leapfrogs: 1000, ..base }).contains("gradients of a chain"));
    }
}
