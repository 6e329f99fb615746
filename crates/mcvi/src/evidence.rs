//! Targets by which the literature on annealed and learned chains compares bounds on log Z, as its common benchmark code
//! defines them.
//!
//! Tables that are facts of a few lines are here; the others are read from the files in which they are published.

use crate::error::{Error, Result};
use crate::model::{Model, bernoulli_logit, binomial_logit, flat, gamma, normal};
use crate::posteriors;
use std::path::Path;

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
    /// The file with its data, if it has one.
    pub file: Option<&'static str>,
    make: fn(&str) -> Result<Model>,
}

/// A published bound on log Z.
pub struct Published {
    /// The method.
    pub method: &'static str,
    /// Steps of the chain.
    pub steps: usize,
    /// The bound.
    pub bound: f64,
}

const fn cmcd(steps: usize, bound: f64) -> Published {
    Published { method: "CMCD, underdamped (Vargas et al. 2024)", steps, bound }
}

/// All of them.
pub const TARGETS: [EvidenceTarget; 10] = [
    EvidenceTarget {
        name: "sonar",
        about: "logistic regression of 208 sonar returns, standardised, weights N(0, 1): 61 dimensions",
        log_evidence: Some(-108.385),
        published: &[cmcd(8, -113.08), cmcd(256, -108.90)],
        file: Some("sonar.csv"),
        make: |text| logistic(text, Design::Standardised),
    },
    EvidenceTarget {
        name: "ionosphere",
        about: "logistic regression of 351 radar returns, standardised, weights N(0, 1): 35 dimensions",
        log_evidence: Some(-111.61),
        published: &[cmcd(8, -112.79), cmcd(256, -111.81)],
        file: Some("ionosphere.csv"),
        make: |text| logistic(text, Design::Standardised),
    },
    EvidenceTarget {
        name: "german-credit",
        about: "logistic regression of 1000 credits, scaled, without a prior: 25 dimensions",
        log_evidence: Some(-504.486),
        published: &[],
        file: Some("german.data-numeric"),
        make: |text| logistic(text, Design::Scaled { prior: false }),
    },
    EvidenceTarget {
        name: "german-credit-prior",
        about: "the same with weights N(0, 1), which is another target",
        log_evidence: None,
        published: &[],
        file: Some("german.data-numeric"),
        make: |text| logistic(text, Design::Scaled { prior: true }),
    },
    EvidenceTarget {
        name: "seeds",
        about: "germination of seeds on 21 plates, binomial with random effects: 26 dimensions",
        log_evidence: Some(-73.42),
        published: &[cmcd(8, -74.53), cmcd(256, -73.60)],
        file: None,
        make: |_| seeds(),
    },
    EvidenceTarget {
        name: "brownian",
        about: "Brownian motion with unknown scales, observed but for its middle: 32 dimensions",
        log_evidence: Some(1.1),
        published: &[cmcd(8, -0.62), cmcd(256, 0.83)],
        file: None,
        make: |_| brownian(),
    },
    EvidenceTarget {
        name: "funnel",
        about: "Neal's funnel: x ~ N(0, 3²), nine N(0, exp x): 10 dimensions",
        log_evidence: Some(0.0),
        published: &[cmcd(8, -1.06), cmcd(256, -0.23)],
        file: None,
        make: |_| built_in("funnel"),
    },
    EvidenceTarget {
        name: "many-well",
        about: "16 pairs with two wells each, 2¹⁶ modes: 32 dimensions",
        log_evidence: Some(164.6957),
        published: &[],
        file: None,
        make: |_| many_well(),
    },
    EvidenceTarget {
        name: "40-gaussians",
        about: "40 separate normals of equal weight: 2 dimensions",
        log_evidence: Some(0.0),
        published: &[],
        file: Some("gmm40.csv"),
        make: forty_gaussians,
    },
    EvidenceTarget {
        name: "banana",
        about: "a bent normal: x ~ N(0, 1), y ~ N(x²/2, 1): 2 dimensions",
        log_evidence: Some(0.0),
        published: &[],
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

/// Rows of numbers, separated by commas or spaces; all of one length.
fn table(text: &str) -> Result<Vec<Vec<f64>>> {
    let mut rows: Vec<Vec<f64>> = vec![];
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields = line.split([',', ' ', '\t']).map(str::trim).filter(|field| !field.is_empty());
        let row: std::result::Result<Vec<f64>, _> = fields.map(str::parse).collect();
        let fits = |row: &Vec<f64>| {
            row.len() >= 2
                && rows.first().is_none_or(|first| first.len() == row.len())
                && row.iter().all(|x| x.is_finite())
        };
        match row {
            Ok(row) if fits(&row) => rows.push(row),
            _ => return Err(Error::Table { why: format!("line {}: not as many numbers as in the first line", i + 1) }),
        }
    }
    if rows.is_empty() { Err(Error::Table { why: "it is empty".to_owned() }) } else { Ok(rows) }
}

/// How the columns of a logistic regression are prepared.
#[derive(Clone, Copy, PartialEq)]
enum Design {
    /// Centred, and divided by their population standard deviations; weights N(0, 1).
    Standardised,
    /// Divided by their population standard deviations, not centred.
    Scaled { prior: bool },
}

/// Logistic regression with a column of ones in front. The label is the last column, its smaller value (where they are 0 and
/// 1) a failure; where they are 1 and 2, 1 is the success.
fn logistic(text: &str, design: Design) -> Result<Model> {
    let rows = table(text)?;
    let (n, columns) = (rows.len() as f64, rows[0].len() - 1);
    let mut x: Vec<f64> = vec![1.0; rows.len() * (columns + 1)];
    for j in 0..columns {
        let mean = rows.iter().map(|row| row[j]).sum::<f64>() / n;
        let sd = (rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / n).sqrt();
        let sd = if sd > 0.0 { sd } else { 1.0 };
        let center = if design == Design::Standardised { mean } else { 0.0 };
        rows.iter().enumerate().for_each(|(i, row)| x[i * (columns + 1) + j + 1] = (row[j] - center) / sd);
    }
    let y: Vec<f64> = rows.iter().map(|row| if row[columns] == 1.0 { 1.0 } else { 0.0 }).collect();
    let prior = design != Design::Scaled { prior: false };
    Model::new(move |m| {
        let w = m.reals("w", columns + 1, if prior { normal(0.0, 1.0) } else { flat() });
        m.observe("y", &y, bernoulli_logit(w.matmul(m.matrix(columns + 1, &x).t())));
    })
}

/// Crowder (1978), Breslow & Clayton (1993).
fn seeds() -> Result<Model> {
    let germinated = [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3].map(f64::from);
    let seeds = [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7].map(f64::from);
    // Seed of the second kind on plates 12 to 21, extract of the second kind on plates 6 to 11 and 17 to 21.
    let seed: Vec<f64> = (1..=21).map(|plate| f64::from(plate >= 12)).collect();
    let extract: Vec<f64> = (1..=21).map(|plate| f64::from((6..=11).contains(&plate) || plate >= 17)).collect();
    Model::new(move |m| {
        let a = m.reals("a", 4, normal(0.0, 10.0));
        let tau = m.positive("tau", gamma(0.01, 0.01));
        let b = m.reals("b", 21, normal(0.0, tau.powf(-0.5)));
        let (x1, x2) = (m.data(&seed), m.data(&extract));
        let part = |i: usize| a.slice(1, i..i + 1);
        let logit = part(0) + part(1) * x1 + part(2) * x1 * x2 + part(3) * x2 + b;
        m.observe("germinated", &germinated, binomial_logit(m.data(&seeds), logit));
    })
}

/// Brownian motion with unknown scales and a missing middle, as inference_gym has it.
fn brownian() -> Result<Model> {
    let first = [
        0.21592641,
        0.118771404,
        -0.07945447,
        0.037677474,
        -0.27885845,
        -0.1484156,
        -0.3250906,
        -0.22957903,
        -0.44110894,
        -0.09830782,
    ];
    let last = [
        -0.8786016,
        -0.83736074,
        -0.7384849,
        -0.8939254,
        -0.7774566,
        -0.70238715,
        -0.87771565,
        -0.51853573,
        -0.6948214,
        -0.6202789,
    ];
    Model::new(move |m| {
        // Scales by softplus of a free number, LogNormal(0, 2), with the Jacobian.
        let scale = |name: &str| {
            let free = m.flat(name, 1);
            let scale = free.softplus();
            let log = scale.ln();
            m.add(log.square() * -0.125 - log - (2.0 * std::f64::consts::TAU.sqrt()).ln() + free.log_sigmoid());
            scale
        };
        let (step, noise) = (scale("innovation_scale"), scale("observation_scale"));
        let x = m.flat("x", 30);
        let before = x.graph().concat(&[x.slice(1, 0..1) * 0.0, x.slice(1, 0..29)], 1);
        m.add(((x - before) / step).square() * -0.5 - step.ln() - 0.5 * std::f64::consts::TAU.ln());
        m.observe("first", &first, normal(x.slice(1, 0..10), noise));
        m.observe("last", &last, normal(x.slice(1, 20..30), noise));
    })
}

fn many_well() -> Result<Model> {
    Model::new(|m| {
        let (x, v) = (m.flat("x", 16), m.flat("v", 16));
        m.add(x * 0.5 + x.square() * 6.0 - x.square().square() - v.square() * 0.5);
    })
}

fn forty_gaussians(text: &str) -> Result<Model> {
    let means = table(text)?;
    if means[0].len() != 2 {
        return Err(Error::Table { why: format!("{} columns where means have 2", means[0].len()) });
    }
    let (count, means) = (means.len() as f64, means.concat());
    Model::new(move |m| {
        let z = m.flat("z", 2);
        let square = (z.expand(1) - m.matrix(2, &means)).square().sum(&[2]);
        let log_density = (square * -0.5).logsumexp(&[1]) - count.ln() - std::f64::consts::TAU.ln();
        m.add(log_density.expand(1));
    })
}

fn built_in(name: &str) -> Result<Model> {
    let built_in = posteriors::ALL.iter().find(|built_in| built_in.name == name);
    let missing = || Error::Target { why: format!("there is no built-in posterior `{name}`") };
    Ok(built_in.ok_or_else(missing)?.model()?.model)
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
        assert!(target("nothing").err().unwrap().to_string().contains("sonar"));
        assert!(target("sonar").unwrap().model(None).err().unwrap().to_string().contains("sonar.csv"));
    }
}
