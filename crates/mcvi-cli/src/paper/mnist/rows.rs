//! Table 1 of the paper.

use mcvi::vae::{Architecture, Inference, Kind};

/// One of the paper's own rows.
pub struct Row {
    pub decoder: Kind,
    pub inference: Inference,
    pub leapfrogs: usize,
    pub hidden: usize,
    pub bound: f64,
    pub log_p: f64,
}

const fn row(decoder: Kind, inference: Inference, leapfrogs: usize, hidden: usize, bound: f64, log_p: f64) -> Row {
    Row { decoder, inference, leapfrogs, hidden, bound, log_p }
}

use Inference::{Network, None};
use Kind::{Conv, Dense};

/// The paper's thirteen rows, in its order.
pub const ROWS: [Row; 13] = [
    row(Dense, None, 5, 300, -90.86, -87.16),
    row(Dense, None, 10, 300, -87.60, -85.56),
    row(Dense, Network, 0, 300, -94.18, -88.95),
    row(Dense, Network, 1, 300, -91.70, -88.08),
    row(Dense, Network, 4, 300, -89.82, -86.40),
    row(Dense, Network, 8, 300, -88.30, -85.51),
    row(Conv, Network, 0, 300, -86.66, -83.20),
    row(Conv, Network, 1, 300, -85.40, -82.98),
    row(Conv, Network, 2, 300, -85.17, -82.96),
    row(Conv, Network, 4, 300, -84.94, -82.78),
    row(Conv, Network, 8, 300, -84.81, -82.72),
    row(Conv, Network, 16, 300, -84.11, -82.22),
    row(Conv, Network, 16, 800, -83.49, -81.94),
];

/// What the paper quotes from Gregor et al. (2015): name, bound, log p(x).
pub const QUOTED: [(&str, Option<f64>, Option<f64>); 5] = [
    ("DBN 2hl", Option::None, Some(-84.55)),
    ("EoNADE", Option::None, Some(-85.10)),
    ("DARN 1hl", Some(-88.30), Some(-84.13)),
    ("DARN 12hl", Some(-87.72), Option::None),
    ("DRAW", Some(-80.97), Option::None),
];

impl Row {
    /// The heading it appears under.
    pub fn heading(&self) -> &'static str {
        match (self.decoder, self.inference) {
            (Dense, None) => "Dense, without inference network",
            (Dense, Network) => "Dense, with inference network",
            (Conv, _) => "Convolutional",
        }
    }

    /// Its name in the table.
    pub fn name(&self) -> String {
        let plural = if self.leapfrogs == 1 { "" } else { "s" };
        let wide = if self.hidden == 300 { String::new() } else { format!(", n_h {}", self.hidden) };
        format!("{} leapfrog{plural}{wide}", self.leapfrogs)
    }

    /// Whether a model belongs to this row. What the paper does not state, such as the number of latent variables, may
    /// have any value.
    pub fn has(&self, model: &Architecture) -> bool {
        (self.decoder, self.inference, self.leapfrogs, self.hidden)
            == (model.decoder, model.inference, model.leapfrogs, model.hidden)
            && (model.steps == 1 || model.leapfrogs == 0)
    }

    /// How to train it: the folder and the options.
    pub fn training(&self) -> (String, String) {
        let (mut name, mut options) = (vec![], vec![]);
        match (self.decoder, self.inference) {
            (Dense, Network) => name.push("dense".to_owned()),
            (Dense, None) => {
                name.extend(["dense".to_owned(), "none".to_owned()]);
                options.push("--inference none".to_owned());
            }
            (Conv, _) => {
                name.push("conv".to_owned());
                options.push("--decoder conv".to_owned());
            }
        }
        name.push(self.leapfrogs.to_string());
        options.push(format!("--leapfrogs {}", self.leapfrogs));
        if self.hidden != 300 {
            name.push(self.hidden.to_string());
            options.push(format!("--hidden {}", self.hidden));
        }
        (format!("runs/{}", name.join("-")), options.join(" "))
    }
}
