//! Whether the model fits the data, apart from whether the approximation fits the model: statistics of the observations
//! beside those of data replicated from the posterior (Gelman, Meng & Stern 1996).

use super::Posterior;
use crate::error::Result;
use crate::hardware::agreed;
use crate::model::Quantity;
use crate::seed::derive_seed;
use serde::Serialize;
use std::time::Instant;

/// Numbers in all replicates at most, and replicates at most and at least.
const NUMBERS: usize = 20_000_000;
const MOST: usize = 2000;
const FEWEST: usize = 100;
/// Numbers in replicates that are there at once.
const AT_ONCE: usize = 4_000_000;
/// Replicates by which time is planned.
const PILOT: usize = 10;
/// A p-value this close to 0 or 1 says that the model misses something.
const EXTREME: f64 = 0.005;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The standard deviation.
    Sd,
    /// The share of zeros, where some observations or replicates are zero and all are whole numbers.
    Zeros,
    /// The smallest number.
    Smallest,
    /// The largest number.
    Largest,
}

impl Statistic {
    const ALL: [Statistic; 5] =
        [Statistic::Mean, Statistic::Sd, Statistic::Zeros, Statistic::Smallest, Statistic::Largest];

    /// In words, after "the".
    pub fn words(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::Sd => "standard deviation",
            Statistic::Zeros => "share of zeros",
            Statistic::Smallest => "smallest",
            Statistic::Largest => "largest",
        }
    }

    fn of(self, y: &[f64]) -> f64 {
        let n = y.len() as f64;
        let mean = || y.iter().sum::<f64>() / n;
        match self {
            Statistic::Mean => mean(),
            Statistic::Sd => {
                let mean = mean();
                (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n).sqrt()
            }
            Statistic::Zeros => y.iter().filter(|y| **y == 0.0).count() as f64 / n,
            Statistic::Smallest => y.iter().copied().fold(f64::INFINITY, f64::min),
            Statistic::Largest => y.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// A statistic of the observations beside that of replicated data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PredictiveCheck {
    /// The observations.
    pub name: String,
    /// The statistic.
    pub statistic: Statistic,
    /// Its value.
    pub observed: f64,
    /// Its mean over replicated data.
    pub predicted: f64,
    /// The probability that replicated data have a larger value, half of ties included.
    pub p_value: f64,
}

impl PredictiveCheck {
    /// Whether the model misses this.
    pub fn is_missed(&self) -> bool {
        !(EXTREME..=1.0 - EXTREME).contains(&self.p_value)
    }
}

impl Posterior {
    /// Posterior predictive checks of all observations, with draws of equal weight where they can be reweighted. None where
    /// the model cannot replicate its data.
    pub fn predictive_checks(&self, seed: u64) -> Result<Vec<PredictiveCheck>> {
        self.predictive_checks_within(seed, None)
    }

    /// The same with fewer replicates if so many seconds do not suffice, and none if they suffice for too few.
    pub fn predictive_checks_within(&self, seed: u64, seconds: Option<f64>) -> Result<Vec<PredictiveCheck>> {
        let observations = self.model.observations()?;
        let size: usize = observations.iter().map(|o| o.values.len()).sum();
        if size == 0 {
            return Ok(vec![]);
        }
        let count = (NUMBERS / size).clamp(FEWEST, MOST).min(self.draws.z.len());
        let timely = match seconds {
            Some(seconds) => agreed(self.model.ranks(), seconds / self.replicate_pace(seed)?) as usize,
            None => usize::MAX,
        };
        if timely < FEWEST.min(count) {
            return Ok(vec![]);
        }
        let count = count.min(timely);
        let z = self.resampled(count, seed).map_or_else(|| self.draws.z[..count].to_vec(), |draws| draws.z);
        let mut all: Vec<Replicates<'_>> = observations.iter().map(Replicates::of).collect();
        for (i, z) in z.chunks((AT_ONCE / size).max(1)).enumerate() {
            let part = if i == 0 { String::new() } else { format!(" {i}") };
            let seed = derive_seed(seed, &format!("predictive checks{part}"));
            let replicated = self.model.quantities(z, Some(seed), self.approximation.hardware())?.predictive;
            for of in &mut all {
                replicated.iter().filter(|q| q.name == of.observed.name).for_each(|q| of.add(q));
            }
        }
        Ok(all.iter().flat_map(Replicates::checks).collect())
    }
}

impl Posterior {
    /// Seconds for a replicate.
    fn replicate_pace(&self, seed: u64) -> Result<f64> {
        let (since, count) = (Instant::now(), PILOT.min(self.draws.z.len()));
        self.quantities(count, seed)?;
        Ok(since.elapsed().as_secs_f64() / count as f64)
    }
}

/// The statistics of some observations, and of their replicates, which may be too many to be kept.
struct Replicates<'a> {
    observed: &'a Quantity,
    /// Of each replicate.
    statistics: Vec<[f64; Statistic::ALL.len()]>,
    /// Whether all numbers are whole, all zero or one, and any zero.
    whole: bool,
    binary: bool,
    zeros: bool,
}

impl<'a> Replicates<'a> {
    fn of(observed: &'a Quantity) -> Self {
        let mut none = Replicates { observed, statistics: vec![], whole: true, binary: true, zeros: false };
        none.look_at(&observed.values);
        none
    }

    fn look_at(&mut self, y: &[f64]) {
        self.whole &= y.iter().all(|y| y.fract() == 0.0);
        self.binary &= y.iter().all(|y| *y == 0.0 || *y == 1.0);
        self.zeros |= y.contains(&0.0);
    }

    /// Count replicates that are as large as the observations.
    fn add(&mut self, replicated: &Quantity) {
        let size = replicated.size();
        if size > 0 && size == self.observed.values.len() {
            self.look_at(&replicated.values);
            let rows = replicated.values.chunks(size);
            self.statistics.extend(rows.map(|row| Statistic::ALL.map(|statistic| statistic.of(row))));
        }
    }

    fn checks(&self) -> Vec<PredictiveCheck> {
        let told = |statistic: Statistic| match statistic {
            _ if self.statistics.is_empty() => false,
            Statistic::Mean => true,
            // One of two values: their mean says everything.
            Statistic::Zeros => self.whole && self.zeros && !self.binary,
            _ => !self.binary && self.observed.values.len() > 1,
        };
        let check = |(i, statistic): (usize, Statistic)| {
            let value = statistic.of(&self.observed.values);
            let theirs = || self.statistics.iter().map(|of| of[i]);
            let n = self.statistics.len() as f64;
            let larger: f64 = theirs().map(|t| if t > value { 1.0 } else { f64::from(t == value) * 0.5 }).sum();
            PredictiveCheck {
                name: self.observed.name.clone(),
                statistic,
                observed: value,
                predicted: theirs().sum::<f64>() / n,
                p_value: larger / n,
            }
        };
        Statistic::ALL.into_iter().enumerate().filter(|(_, statistic)| told(*statistic)).map(check).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::{Request, infer};
    use crate::model::{Model, normal, poisson_log};

    /// The checks of these counts under one Poisson rate.
    fn of_counts(y: &[f64]) -> Vec<PredictiveCheck> {
        let y = y.to_vec();
        let model = Model::new(move |m| {
            let log_rate = m.real("log_rate", normal(0.0, 2.0));
            m.observe("y", &y, poisson_log(log_rate));
        });
        let posterior = infer(model.expect("a model"), &Request::default()).expect("a posterior");
        posterior.predictive_checks(1).expect("checks")
    }

    #[test]
    fn what_a_model_misses_is_found() {
        // As many zeros as there would be with the rate of the others halved.
        let inflated: Vec<f64> = (0..60).map(|i| if i % 3 == 0 { 0.0 } else { 3.0 + f64::from(i % 4) }).collect();
        let checks = of_counts(&inflated);
        let check = |s: Statistic| checks.iter().find(|c| c.statistic == s).expect("told");
        assert!(check(Statistic::Zeros).is_missed(), "{checks:?}");
        assert!((check(Statistic::Zeros).observed - 1.0 / 3.0).abs() < 1e-12);
        // The rate is free, so the mean is right.
        assert!(
            !check(Statistic::Mean).is_missed() && (check(Statistic::Mean).p_value - 0.5).abs() < 0.1,
            "{checks:?}"
        );

        let plain = [2.0, 3.0, 1.0, 0.0, 4.0, 2.0, 2.0, 5.0, 1.0, 3.0, 0.0, 2.0];
        assert!(of_counts(&plain).iter().all(|c| !c.is_missed()), "{:?}", of_counts(&plain));
    }
}
