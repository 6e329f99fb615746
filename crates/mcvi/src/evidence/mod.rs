//! Targets by which the literature on annealed and learned chains compares bounds on log Z, as its common benchmark code
//! defines them.
//!
//! Tables that are facts of a few lines are here; the others are read from the files in which they are published.

mod brownian;
mod cox;
mod logistic;
mod seeds;
mod synthetic;
mod table;

use crate::error::{Error, Result};
use crate::model::Model;
use brownian::brownian;
use cox::cox_process;
use logistic::{Design, logistic};
use seeds::seeds;
use std::path::Path;
use synthetic::{built_in, forty_gaussians, many_well};

/// A target, with what is known of it.
pub struct EvidenceTarget {
    /// Its name.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    /// log Z, where it is known exactly or to the digits given.
    pub log_evidence: Option<f64>,
    /// Published bounds.
    pub published: &'static [Published],
    /// Whether its modes are so far apart that no chain from one Gaussian reaches them all.
    pub multimodal: bool,
    /// The file with its data, if it has one.
    pub file: Option<&'static str>,
    make: fn(&str) -> Result<Model>,
}

/// A published bound on log Z.
pub struct Published {
    /// The method.
    pub method: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Steps of the chain.
    pub steps: usize,
    /// The bound.
    pub bound: f64,
}

const fn ldvi(steps: usize, bound: f64) -> Published {
    Published { method: "LDVI", source: "Geffner & Domke 2023", steps, bound }
}

const fn cmcd(steps: usize, bound: f64) -> Published {
    Published { method: "CMCD, underdamped", source: "Vargas et al. 2024", steps, bound }
}

/// All of them.
pub const TARGETS: [EvidenceTarget; 11] = [
    EvidenceTarget {
        name: "sonar",
        about: "logistic regression of 208 sonar returns, standardised, weights N(0, 1): 61 dimensions",
        log_evidence: Some(-108.385),
        published: &[ldvi(8, -116.27), ldvi(256, -109.05), cmcd(8, -113.08), cmcd(256, -108.90)],
        multimodal: false,
        file: Some("sonar.csv"),
        make: |text| logistic(text, Design::Standardised),
    },
    EvidenceTarget {
        name: "ionosphere",
        about: "logistic regression of 351 radar returns, standardised, weights N(0, 1): 35 dimensions",
        log_evidence: Some(-111.61),
        published: &[ldvi(8, -114.66), ldvi(256, -111.87), cmcd(8, -112.79), cmcd(256, -111.81)],
        multimodal: false,
        file: Some("ionosphere.csv"),
        make: |text| logistic(text, Design::Standardised),
    },
    EvidenceTarget {
        name: "german-credit",
        about: "logistic regression of 1000 credits, scaled, without a prior: 25 dimensions",
        log_evidence: Some(-504.486),
        published: &[],
        multimodal: false,
        file: Some("german.data-numeric"),
        make: |text| logistic(text, Design::Scaled { prior: false }),
    },
    EvidenceTarget {
        name: "german-credit-prior",
        about: "the same with weights N(0, 1), which is another target",
        log_evidence: None,
        published: &[],
        multimodal: false,
        file: Some("german.data-numeric"),
        make: |text| logistic(text, Design::Scaled { prior: true }),
    },
    EvidenceTarget {
        name: "seeds",
        about: "germination of seeds on 21 plates, binomial with random effects: 26 dimensions",
        log_evidence: Some(-73.42),
        published: &[ldvi(8, -74.96), ldvi(256, -73.59), cmcd(8, -74.53), cmcd(256, -73.60)],
        multimodal: false,
        file: None,
        make: |_| seeds(),
    },
    EvidenceTarget {
        name: "brownian",
        about: "Brownian motion with unknown scales, observed but for its middle: 32 dimensions",
        log_evidence: Some(1.1),
        published: &[ldvi(8, -1.24), ldvi(256, 0.85), cmcd(8, -0.62), cmcd(256, 0.83)],
        multimodal: false,
        file: None,
        make: |_| brownian(),
    },
    EvidenceTarget {
        name: "funnel",
        about: "Neal's funnel: x ~ N(0, 3²), nine N(0, exp x): 10 dimensions",
        log_evidence: Some(0.0),
        published: &[cmcd(8, -1.06), cmcd(256, -0.23)],
        multimodal: false,
        file: None,
        make: |_| built_in("funnel"),
    },
    EvidenceTarget {
        name: "lgcp",
        about: "log-Gaussian Cox process of 126 pine saplings on a grid of 40 by 40: 1600 dimensions",
        // Annealed importance sampling from the best Gaussian by an independent program (numpy): 501.78 ± 0.03.
        log_evidence: Some(501.8),
        published: &[ldvi(8, 448.0), ldvi(256, 501.0), cmcd(8, 452.0), cmcd(256, 509.0)],
        multimodal: false,
        file: Some("pines.csv"),
        make: cox_process,
    },
    EvidenceTarget {
        name: "many-well",
        about: "16 pairs with two wells each, 2¹⁶ modes: 32 dimensions",
        log_evidence: Some(164.6957),
        published: &[],
        multimodal: true,
        file: None,
        make: |_| many_well(),
    },
    EvidenceTarget {
        name: "40-gaussians",
        about: "40 separate normals of equal weight: 2 dimensions",
        log_evidence: Some(0.0),
        published: &[],
        multimodal: true,
        file: Some("gmm40.csv"),
        make: forty_gaussians,
    },
    EvidenceTarget {
        name: "banana",
        about: "a bent normal: x ~ N(0, 1), y ~ N(x²/2, 1): 2 dimensions",
        log_evidence: Some(0.0),
        published: &[],
        multimodal: false,
        file: None,
        make: |_| built_in("banana"),
    },
];

/// The target of this name.
pub fn target(name: &str) -> Result<&'static EvidenceTarget> {
    TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        Error::Setting { what: "target", why: format!("there is no `{name}`; there are: {}", names.join(", ")) }
    })
}

impl EvidenceTarget {
    /// The model, with its data from this folder.
    pub fn model(&self, folder: Option<&Path>) -> Result<Model> {
        let Some(file) = self.file else { return (self.make)("") };
        let Some(folder) = folder else {
            let why = format!("{} needs its data; give the folder that has {file}", self.name);
            return Err(Error::Setting { what: "data", why });
        };
        let path = folder.join(file);
        let bad = |why: String| Error::File { path: path.display().to_string(), why };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(e.to_string()))?;
        (self.make)(&text).map_err(|e| match e {
            Error::Table { why } => bad(why),
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laplace::log_density;
    use crate::target::Target;

    /// Log densities where every coordinate is 0.1, summed term by term in Python.
    const SEEDS: f64 = -126.99119734267646;
    const BROWNIAN: f64 = -42.63652682641414;

    #[test]
    fn densities_are_those_of_the_definitions() {
        let seeds = target("seeds").unwrap().model(None).unwrap();
        assert_eq!(seeds.dim(), 26);
        let brownian = target("brownian").unwrap().model(None).unwrap();
        assert_eq!(brownian.dim(), 32);
        let at = |model: &Model, z: Vec<f64>| log_density(model, &[z]).unwrap()[0];
        assert!((at(&seeds, vec![0.1; 26]) - SEEDS).abs() < 1e-6, "{}", at(&seeds, vec![0.1; 26]));
        assert!((at(&brownian, vec![0.1; 32]) - BROWNIAN).abs() < 1e-6, "{}", at(&brownian, vec![0.1; 32]));
        let many = target("many-well").unwrap().model(None).unwrap();
        assert!((at(&many, vec![1.0; 32]) - 16.0 * (0.5 + 6.0 - 1.0 - 0.5)).abs() < 1e-9);
    }

    #[test]
    fn what_is_wrong_with_a_table_is_named() {
        assert!(logistic("", Design::Standardised).is_err());
        assert!(logistic("1,2,1\n1,1\n", Design::Standardised).err().unwrap().to_string().contains("line 2"));
        assert!(forty_gaussians("1,2,3\n").is_err());
        assert!(cox_process("\"\",\"x\",\"y\"\n").is_err());
        assert!(cox_process("n,x,y\n1,0.5,0.5\n2,0.5,1.5\n").err().unwrap().to_string().contains("line 3"));
        assert!(target("nothing").err().unwrap().to_string().contains("sonar"));
        assert!(target("sonar").unwrap().model(None).err().unwrap().to_string().contains("sonar.csv"));
    }
}
