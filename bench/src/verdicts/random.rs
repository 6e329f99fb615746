//! The random numbers that targets are made of. They are a function of a family's name and a target's index alone, and must
//! not be changed: results of the campaign are compared over the years.

use std::f64::consts::TAU;

/// A generator of random numbers: SplitMix64 (Steele, Lea and Flood 2014), written out because those of libraries change.
pub struct Random(u64);

impl Random {
    /// The generator of a target.
    pub fn new(family: &str, index: usize) -> Self {
        // FNV-1a of the name, then the index.
        let name =
            family.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut random = Random(name);
        random.0 = random.bits() ^ (index as u64).wrapping_mul(0xd134_2543_de82_ef95);
        random
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Uniform on (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Uniform on an interval.
    pub fn between(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Its logarithm is uniform.
    pub fn log_between(&mut self, (low, high): (f64, f64)) -> f64 {
        self.between((low.ln(), high.ln())).exp()
    }

    /// A whole number from `low` to `high`, both included.
    pub fn integer(&mut self, low: usize, high: usize) -> usize {
        low + ((high + 1 - low) as f64 * self.uniform()) as usize
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }

    /// Standard normals.
    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }

    /// The log of a Gamma variable of this shape and rate 1 (Marsaglia and Tsang 2000).
    pub fn log_gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.log_gamma(shape + 1.0) + self.uniform().ln() / shape;
        }
        let d = shape - 1.0 / 3.0;
        loop {
            let x = self.normal();
            let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
                return (d * v).ln();
            }
        }
    }

    /// A random rotation (or reflection), row by row: Gram-Schmidt on normals.
    pub fn rotation(&mut self, d: usize) -> Vec<f64> {
        let mut rows: Vec<Vec<f64>> = vec![];
        while rows.len() < d {
            let mut row = self.normals(d);
            // Twice, because once is not orthogonal to rounding in many dimensions.
            for _ in 0..2 {
                for other in &rows {
                    let along: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                    row.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
                }
                let norm = row.iter().map(|a| a * a).sum::<f64>().sqrt();
                row.iter_mut().for_each(|a| *a /= norm);
            }
            rows.push(row);
        }
        rows.concat()
    }
}
