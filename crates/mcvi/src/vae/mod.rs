//! Deep generative models: auto-encoders whose approximate posterior is a Markov chain, the paper's section 3.2.
//!
//! An [`Architecture`] describes a model. It makes a [`Target`](crate::Target), log p(x, z) of the images, and a
//! [`Chain`](crate::Chain), as for any single posterior, whose densities are networks of the image. A [`Trainer`]
//! learns both together, and an [`Evaluator`] estimates bounds and log p(x).

mod anneal;
mod architecture;
mod checkpoint;
mod evaluate;
mod leapfrogs;
mod model;
mod settings;
mod train;
mod two_sided;

pub use anneal::{AnnealSettings, AnnealedEvidence, annealed_evidence};
pub use architecture::{Architecture, Inference, Kernel, Kind, Momentum};
pub use checkpoint::{Deep, TrainingCheckpoint};
pub use evaluate::{Evaluator, Evidence};
pub use leapfrogs::{LeapfrogCurve, Stopped, leapfrog_curve};
pub use model::{IMAGES, LatentModel, Observed, ROWS};
pub use settings::{Decay, TrainSettings};
pub use train::{EpochReport, Progress, Tick, Trainer};
pub use two_sided::{TwoSided, two_sided};
