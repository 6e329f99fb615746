//! A mixture of chains, one from each mode: an indicator m says which chain is run, and r(m|z) guesses it from where the
//! chain has ended.
//!
//! Algorithm 1 with the indicator drawn first, as in section 4.3:
//! L = log p(x, z_T) + log r(m|z_T) + log r_m(path|z_T) − log w_m − log q_m(path), which is the bound of part m plus
//! log r(m|z_T) − log w_m. The weights w are the parts' shares of the evidence, and r is Bayes' rule for Gaussians with the
//! moments of the parts. The bound holds whatever they are.

use super::{Approximation, Draws};
use crate::chain::Chain;
use crate::diagnostics::log_mean_exp;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::seed::derive_seed;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Draws of each part by which weights and r are learned.
const PILOT: usize = 10_000;
/// Iterations of the weights: r depends on them.
const ITERATIONS: usize = 20;

/// A mixture of approximations to one target. With one part it is that part.
#[derive(Clone)]
pub struct Mixture {
    parts: Vec<Part>,
}

#[derive(Clone)]
pub(super) struct Part {
    pub approximation: Approximation,
    pub weight: f64,
    /// The mean and covariance of its draws.
    pub moments: Initialisation,
}

impl From<Approximation> for Mixture {
    fn from(approximation: Approximation) -> Self {
        // With one part r is 1, whatever the moments.
        let moments = Initialisation::standard(approximation.target.dim());
        Mixture { parts: vec![Part { approximation, weight: 1.0, moments }] }
    }
}

impl Mixture {
    /// Learn the weights of approximations, at least one, to the same target by the same chain.
    pub fn new(approximations: Vec<Approximation>, seed: u64) -> Result<Self> {
        let mut rest = approximations.into_iter();
        let first = rest.next().ok_or_else(|| Error::Setting { what: "mixture", why: "it has no parts".to_owned() })?;
        let mut parts = Mixture::from(first).parts;
        parts.extend(rest.flat_map(|part| Mixture::from(part).parts));
        let mut mixture = Mixture { parts };
        if mixture.parts.len() > 1 {
            mixture.learn(derive_seed(seed, "mixture"))?;
        }
        Ok(mixture)
    }

    /// As it was saved.
    pub(super) fn from_parts(parts: Vec<Part>) -> Self {
        Mixture { parts }
    }

    /// Its parts, each with its weight.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&Approximation, f64)> {
        self.parts.iter().map(|part| (&part.approximation, part.weight))
    }

    pub(super) fn with_moments(&self) -> &[Part] {
        &self.parts
    }

    /// The chain of every part.
    pub fn chain(&self) -> &Chain {
        &self.parts[0].approximation.chain
    }

    /// The hardware.
    pub fn hardware(&self) -> Hardware {
        self.parts[0].approximation.hardware
    }

    fn learn(&mut self, seed: u64) -> Result<()> {
        let pilots: Vec<Draws> = (0..)
            .zip(&self.parts)
            .map(|(m, p)| p.approximation.draw(PILOT, part_seed(seed, m)))
            .collect::<Result<_>>()?;
        for (part, draws) in self.parts.iter_mut().zip(&pilots) {
            let finite: Vec<Vec<f64>> = draws.z.iter().filter(|z| z.iter().all(|x| x.is_finite())).cloned().collect();
            if !finite.is_empty() {
                part.moments = Initialisation::moments(&finite);
            }
        }
        let gaussians = self.gaussians();
        // log N of every part at every draw of every part.
        let densities: Vec<Vec<Vec<f64>>> = pilots
            .iter()
            .map(|draws| draws.z.iter().map(|z| gaussians.iter().map(|g| g.log_density(z)).collect()).collect())
            .collect();
        for _ in 0..ITERATIONS {
            let weights: Vec<f64> = self.parts.iter().map(|part| part.weight).collect();
            let evidence: Vec<f64> = (0..self.parts.len())
                .map(|m| {
                    let log_weights = pilots[m].log_weights.iter().zip(&densities[m]);
                    log_mean_exp(&log_weights.map(|(l, at)| l + log_r(m, &weights, at)).collect::<Vec<_>>()).value
                })
                .collect();
            let top = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if !top.is_finite() {
                let why = "no part of the mixture has draws of any weight".to_owned();
                return Err(Error::Fit { why });
            }
            let total: f64 = evidence.iter().map(|e| (e - top).exp()).sum();
            for (part, e) in self.parts.iter_mut().zip(evidence) {
                part.weight = (e - top).exp() / total;
            }
        }
        Ok(())
    }

    fn gaussians(&self) -> Vec<Normal> {
        self.parts.iter().map(|part| Normal::new(&part.moments)).collect()
    }

    /// Independent draws. The same seed gives the same draws. Their parts follow each other evenly, so that the first draws
    /// are a mixture as all are.
    pub fn draw(&self, count: usize, seed: u64) -> Result<Draws> {
        if let [only] = &self.parts[..] {
            return only.approximation.draw(count, seed);
        }
        let weights: Vec<f64> = self.parts.iter().map(|part| part.weight).collect();
        let order = order(&weights, count);
        let (mut parts, mut shares) = (vec![], vec![]);
        for (m, part) in self.parts.iter().enumerate() {
            let n = order.iter().filter(|&&of| of == m).count();
            shares.push(n as f64 / count as f64);
            parts.push(if n == 0 { None } else { Some(part.approximation.draw(n, part_seed(seed, m))?) });
        }
        let gaussians = self.gaussians();
        for (m, draws) in parts.iter_mut().enumerate() {
            let Some(draws) = draws else { continue };
            for i in 0..draws.z.len() {
                let at: Vec<f64> = gaussians.iter().map(|g| g.log_density(&draws.z[i])).collect();
                let by_indicator = log_r(m, &weights, &at) - shares[m].ln();
                draws.log_weights[i] += by_indicator;
                draws.first[i] += by_indicator;
            }
        }
        Ok(Draws::interleaved(parts, &order))
    }

    /// The upper bound's estimate U from each row of z, as [`Approximation::upper_bounds`]: the part m is drawn from r(m|z), and
    /// log r(m|z) − log w_m added to its U.
    pub fn upper_bounds(&self, z: &[Vec<f64>], seed: u64) -> Result<Vec<f64>> {
        if let [only] = &self.parts[..] {
            return only.approximation.upper_bounds(z, seed);
        }
        let weights: Vec<f64> = self.parts.iter().map(|part| part.weight).collect();
        self.parts[0].approximation.check_draws(z)?;
        let (gaussians, mut rng) = (self.gaussians(), StdRng::seed_from_u64(derive_seed(seed, "indicator")));
        let mut drawn: Vec<Vec<(usize, f64)>> = vec![vec![]; self.parts.len()];
        for (i, z) in z.iter().enumerate() {
            let at: Vec<f64> = gaussians.iter().map(|g| g.log_density(z)).collect();
            let r: Vec<f64> = (0..self.parts.len()).map(|m| log_r(m, &weights, &at)).collect();
            let (u, mut below): (f64, f64) = (rng.random(), 0.0);
            let reached = r.iter().position(|log_r| {
                below += log_r.exp();
                u < below
            });
            // The probabilities may sum to a little less than 1.
            let m = reached.unwrap_or_else(|| (0..r.len()).max_by(|a, b| r[*a].total_cmp(&r[*b])).unwrap_or(0));
            drawn[m].push((i, r[m] - weights[m].ln()));
        }
        let mut all = vec![f64::INFINITY; z.len()];
        for (m, rows) in drawn.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let from: Vec<Vec<f64>> = rows.iter().map(|(i, _)| z[*i].clone()).collect();
            let upper = self.parts[m].approximation.upper_bounds(&from, part_seed(seed, m))?;
            for ((i, by_indicator), u) in rows.iter().zip(upper).filter(|((_, by_indicator), _)| !by_indicator.is_nan())
            {
                all[*i] = u + by_indicator;
            }
        }
        Ok(all)
    }
}

/// A seed for each part.
fn part_seed(seed: u64, m: usize) -> u64 {
    derive_seed(seed, &format!("part {m}"))
}

/// Which part each draw comes from: as evenly as possible along the sequence.
fn order(weights: &[f64], count: usize) -> Vec<usize> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let draw = |i: usize| {
        let u = ((i as f64 + 0.5) * GOLDEN).fract();
        let mut below = 0.0;
        let reached = weights.iter().position(|w| {
            below += w;
            u < below
        });
        reached.unwrap_or(weights.len() - 1)
    };
    (0..count).map(draw).collect()
}

/// log r(m|z), by the log densities of all parts at z. Where a draw is lost, so is its guess.
fn log_r(m: usize, weights: &[f64], densities: &[f64]) -> f64 {
    let joint: Vec<f64> = weights.iter().zip(densities).map(|(w, l)| w.ln() + l).collect();
    let top = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    joint[m] - top - joint.iter().map(|j| (j - top).exp()).sum::<f64>().ln()
}

/// A Gaussian density, without the constant that all share.
struct Normal {
    at: Initialisation,
    log_det: f64,
}

impl Normal {
    fn new(moments: &Initialisation) -> Self {
        Normal { at: moments.clone(), log_det: moments.log_det() }
    }

    fn log_density(&self, z: &[f64]) -> f64 {
        -0.5 * self.at.standardised(z).norm_squared() - self.log_det
    }
}
