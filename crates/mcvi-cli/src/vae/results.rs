//! The results of training and evaluation in a run's folder, read back, and how they are formatted.

use crate::number::{fixed, with_error};
use mcvi::diagnostics::Mean;
use mcvi::vae::{Architecture, Inference, Kernel, Momentum};
use serde::{Deserialize, Serialize};

/// An estimate with its standard error; non-finite numbers are `null`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Estimate {
    pub value: Option<f64>,
    #[serde(default)]
    pub se: Option<f64>,
}

impl Estimate {
    /// As text, with its standard error if it has one.
    pub fn text(&self, places: usize) -> String {
        match *self {
            Estimate { value: None, .. } => "−∞".to_owned(),
            Estimate { value: Some(value), se: None } => fixed(value, places),
            Estimate { value: Some(value), se: Some(se) } => with_error(Mean { value, se, n: 0 }, places),
        }
    }
}

/// The result of `mcvi vae evaluate`.
#[derive(Clone, Debug, Deserialize)]
pub struct Evaluation {
    pub images: usize,
    pub samples: usize,
    pub bound: Estimate,
    pub log_p: Estimate,
    pub annealed: Option<Annealed>,
    /// The images; older files do not name them.
    #[serde(default)]
    pub data: Option<EvaluatedData>,
    /// How many of the images the model was trained on; none if that is not known.
    #[serde(default)]
    pub learned_images: Option<usize>,
}

/// Identifies the images of an evaluation.
#[derive(Clone, Debug, Deserialize)]
pub struct EvaluatedData {
    pub folder: String,
    pub checksum: String,
}

impl Evaluation {
    /// The name of its file.
    pub fn file(split: impl std::fmt::Display) -> String {
        format!("evaluation-{split}.json")
    }
}

/// The result of annealing.
#[derive(Clone, Debug, Deserialize)]
pub struct Annealed {
    pub images: usize,
    pub temperatures: usize,
    pub log_p: Estimate,
    pub minus_importance_sampling: Estimate,
}

/// How training ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Summary {
    pub epochs: usize,
    pub best_epoch: Option<usize>,
    pub valid_bound: Option<f64>,
    pub seconds: f64,
}

impl Summary {
    /// The name of its file.
    pub const FILE: &'static str = "summary.json";
}

/// How a model's chain differs from the paper's, which is a Hamiltonian step whose r(v|x, z) is a network of the image and the
/// position. Empty if it does not; a model without leapfrogs has no momenta.
pub fn beyond(architecture: &Architecture) -> Vec<&'static str> {
    let mut more = vec![];
    if architecture.leapfrogs > 0 {
        match architecture.kernel {
            Kernel::Hamiltonian => {}
            Kernel::Uha => return vec!["UHA: annealed steps of one leapfrog that keep their momentum"],
            Kernel::RiemannianUha => return vec!["Riemannian UHA: UHA with momenta spread by a network"],
            Kernel::Ldvi => return vec!["LDVI: UHA with a learned drift in its inverse"],
            Kernel::Cmcd => return vec!["CMCD: UHA with a learned drift in both directions"],
        }
        match (architecture.momentum, architecture.inference) {
            (Momentum::Constant, _) | (Momentum::Network, Inference::Network) => {}
            (Momentum::Network, Inference::None) => {
                more.push("q(v′|x, z₀) is a network, though there is no inference network")
            }
            (Momentum::Gradient, _) => more.push("q(v′|x, z₀) is a network that also sees ∇log p(x, z)"),
        }
        match architecture.inverse {
            Momentum::Constant => more.push("r(v) is one Gaussian"),
            Momentum::Network => {}
            Momentum::Gradient => more.push("r(v|x, z) also sees ∇log p(x, z)"),
        }
    }
    more
}

/// Whether q(v′|x, z₀) is a network, which the paper neither states nor excludes.
pub fn learned_momentum(architecture: &Architecture) -> bool {
    architecture.leapfrogs > 0 && architecture.momentum == Momentum::Network
}

/// A time in the unit that suits it: "41 s", "12 min", "3.4 h".
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 99.5 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_that_do_not_name_their_images_are_read() {
        let old = r#"{"split": "test", "images": 60, "samples": 5, "bound": {"value": -20.5, "se": 0.1},
            "log_p": {"value": null, "se": null}, "gap": null, "seed": 1, "learned_from": false}"#;
        let read: Evaluation = serde_json::from_str(old).expect("an evaluation");
        assert!(read.images == 60 && read.data.is_none() && read.learned_images.is_none());
    }
}
