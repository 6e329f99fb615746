//! The parts of a deep model, as data that is saved with it: decoder, inference network, chain.

use super::model::{LatentModel, Observed};
use crate::chain::{Chain, Sharing};
use crate::density::{Gaussian, Inputs};
use crate::error::{Error, Result};
use crate::limits::{self, positive, within};
use crate::network::{ConvDecoder, ConvEncoder, Dense, FILTER, Network};
use crate::transition::{Hamiltonian, Inverse};
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
        let (hidden, weights) = (self.hidden, self.weights());
        if weights > limits::WEIGHTS {
            let why = format!("with {hidden} of them the model has {weights} weights, more than {}", limits::WEIGHTS);
            return Err(Error::Setting { what: "hidden units", why });
        }
        self.chain().check()
    }

    /// The number of values that are learned.
    pub(super) fn weights(&self) -> usize {
        let (d, pixels, hidden) = (self.latent, self.pixels(), self.hidden);
        let encoder = |more: usize, layers: usize| match self.decoder {
            Kind::Dense => dense(pixels + more, &vec![hidden; layers], 2 * d),
            Kind::Conv => conv(&[&[1], &MAPS[..]].concat()) + dense(self.flat() + more, &[hidden], 2 * d),
        };
        let decoder = match self.decoder {
            Kind::Dense => dense(d, &vec![hidden; self.layers], pixels),
            Kind::Conv => {
                dense(d, &[hidden], self.flat()) + conv(&MAPS.iter().rev().copied().chain([1]).collect::<Vec<_>>())
            }
        };
        let initial = match self.inference {
            Inference::Network => encoder(0, 2),
            Inference::None => 2 * d,
        };
        let momenta = |momentum| match momentum {
            Momentum::Constant => 2 * d,
            Momentum::Network => encoder(d, 1),
            Momentum::Gradient => encoder(2 * d, 1),
        };
        // The step size and the masses, and the two distributions of momenta.
        let step = 1 + d + momenta(self.momentum) + momenta(self.inverse);
        decoder + initial + if self.leapfrogs == 0 { 0 } else { self.steps * step }
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
            Architecture { decoder: Kind::Conv, inverse: Momentum::Gradient, ..small },
        ];
        for architecture in all {
            let made = Deep::new(architecture.clone(), 1).unwrap().params.learned();
            assert_eq!(architecture.weights(), made, "{architecture:?}");
        }
    }

    #[test]
    fn what_does_not_fit_into_memory_is_refused() {
        let says = |architecture: Architecture| architecture.check().unwrap_err().to_string();
        let base = Architecture::default();
        assert!(says(Architecture { steps: 1_000_000_000, ..base.clone() }).contains("not between 1 and 256"));
        assert!(says(Architecture { latent: 1_000_000_000, ..base.clone() }).contains("latent variables"));
        assert!(says(Architecture { image: [usize::MAX, 2], ..base.clone() }).contains("image"));
        assert!(says(Architecture { hidden: 90_000, ..base.clone() }).contains("weights, more than"));
        // Each network would fit, all of them together do not.
        assert!(says(Architecture { hidden: 10_000, steps: 200, ..base.clone() }).contains("weights, more than"));
        assert!(says(Architecture { steps: 256, leapfrogs: 1000, ..base }).contains("gradients of a chain"));
    }
}
