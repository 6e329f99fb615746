//! The parts of a deep model, as data that is saved with it: decoder, inference network, chain.

use super::model::{LatentModel, Observed};
use crate::chain::{Chain, Sharing};
use crate::density::{Gaussian, Inputs};
use crate::error::{Error, Result};
use crate::network::{ConvDecoder, ConvEncoder, Dense, Network};
use crate::transition::{Hamiltonian, Inverse};
use mcvi_expr::Array;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Numbers of feature maps of the convolutions, as in the paper's section 3.2.
const MAPS: [usize; 3] = [16, 32, 32];

/// Maximum number of weights of one network that fits into ordinary memory, with what training keeps for each.
const MOST_WEIGHTS: u64 = 1 << 28;

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
    /// Steps of Hamiltonian dynamics.
    pub steps: usize,
    /// Leapfrogs per step; with zero there is no step.
    pub leapfrogs: usize,
    /// q(v′|x, z₀).
    pub momentum: Momentum,
    /// r(v|x, z).
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
        self.image[0] * self.image[1]
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
        let counts = [
            ("image", self.pixels(), 1 << 20),
            ("hidden units", self.hidden, 100_000),
            ("latent variables", self.latent, 10_000),
            ("steps", self.steps, 100),
        ];
        for (what, n, most) in counts {
            if n == 0 || n > most {
                return Err(Error::Setting { what, why: format!("{n} is not between 1 and {most}") });
            }
        }
        for (what, n, most) in [("layers", self.layers, 20), ("leapfrogs", self.leapfrogs, 1000)] {
            if n > most {
                return Err(Error::Setting { what, why: format!("{n} is more than {most}") });
            }
        }
        let (hidden, layers) = (self.hidden as u64, self.layers.max(2) as u64);
        let weights = hidden * (layers * hidden + self.pixels() as u64 + self.latent as u64);
        if weights > MOST_WEIGHTS {
            let why = format!("{hidden} make about {weights} weights in one network, more than {MOST_WEIGHTS}");
            return Err(Error::Setting { what: "hidden units", why });
        }
        if !(self.initial_step_size > 0.0 && self.initial_step_size.is_finite()) {
            return Err(Error::Setting {
                what: "step size",
                why: format!("{} is not positive", self.initial_step_size),
            });
        }
        Ok(())
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

    /// The chain that approximates p(z|x): Algorithm 3 after q(z₀|x).
    pub fn chain(&self) -> Chain {
        self.chain_of(self.leapfrogs)
    }

    /// The same with another number of leapfrogs, and with a step even if that is zero.
    pub(super) fn chain_of(&self, leapfrogs: usize) -> Chain {
        let chain = match self.inference {
            Inference::Network => Chain::new(self.gaussian(Inputs::OBSERVED, 2)),
            Inference::None => Chain::new(Gaussian::diagonal()),
        };
        if self.leapfrogs == 0 {
            return chain;
        }
        let step = Hamiltonian::new(leapfrogs).initial_step_size(self.initial_step_size);
        let step = step.momentum(self.momenta(self.momentum)).inverse(Inverse::learned(self.momenta(self.inverse)));
        chain.steps(self.steps, Sharing::Nothing, step)
    }

    fn momenta(&self, momentum: Momentum) -> Gaussian {
        match momentum {
            Momentum::Constant => Gaussian::diagonal(),
            Momentum::Network => self.gaussian(Inputs::DATA, 1),
            Momentum::Gradient => self.gaussian(Inputs { gradient: true, ..Inputs::DATA }, 1),
        }
    }

    fn gaussian(&self, inputs: Inputs, layers: usize) -> Gaussian {
        let (image, hidden) = (self.image, self.hidden);
        match self.decoder {
            Kind::Dense => Gaussian::from_network(inputs, Dense { hidden: vec![hidden; layers] }),
            Kind::Conv => Gaussian::from_network(inputs, ConvEncoder { image, maps: MAPS.to_vec(), hidden }),
        }
    }
}
