//! Separate modes, found from overdispersed starts.

use crate::error::{Error, Result};
use crate::params::Params;
use crate::start::{Start, log_density};
use crate::target::Target;
use nalgebra::{DMatrix, DVector};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A mode is another one if it is more standard deviations away than this, in the units of either.
const APART: f64 = 4.0;
/// Modes with less than this share of the evidence are not worth a word.
const SHARE: f64 = 1e-3;

/// A place where the log density is highest around.
#[derive(Clone, Debug)]
pub struct Mode {
    /// Where, and how wide.
    pub start: Start,
    /// The log density there.
    pub log_density: f64,
    /// The evidence a Gaussian there would have.
    pub laplace: f64,
    /// How many of the starts led there.
    pub starts: usize,
}

/// Climb from several places; the modes found, the one of the largest Laplace evidence first.
pub fn find(target: &dyn Target, starts: usize, seed: u64) -> Result<Vec<Mode>> {
    let d = target.dim();
    let mut rng = StdRng::seed_from_u64(seed ^ 0x30DE5);
    let mut modes: Vec<Mode> = vec![];
    let mut first_error = None;
    for i in 0..starts {
        // The origin first, then wider and wider around it: free numbers of a model are mostly of order one.
        let spread = if i == 0 { 0.0 } else { 1.0 + 5.0 * i as f64 / starts as f64 };
        let guess: Vec<f64> = (0..d).map(|_| spread * (2.0 * rng.random::<f64>() - 1.0)).collect();
        match Start::laplace(target, &Params::default(), Some(&guess)) {
            Ok(start) => add(target, &mut modes, start)?,
            Err(error @ Error::Expr(_)) => return Err(error),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    modes.sort_by(|a, b| b.laplace.total_cmp(&a.laplace));
    let Some(best) = modes.first().map(|m| m.laplace) else {
        let why = "its log density is finite at none of the places tried; is it −∞ or NaN everywhere?".to_owned();
        return Err(match first_error {
            // That a single place was bad does not say that all were.
            None | Some(Error::Target { .. }) => Error::Target { why },
            Some(other) => other,
        });
    };
    // Where a search did not settle it found no mode; only the best place is kept whatever it is.
    let mut keep = modes.iter().map(|m| m.laplace > best + SHARE.ln() && m.start.warning.is_none()).collect::<Vec<_>>();
    keep[0] = true;
    let mut kept = keep.into_iter();
    modes.retain(|_| kept.next().unwrap_or(false));
    Ok(modes)
}

fn add(target: &dyn Target, modes: &mut Vec<Mode>, start: Start) -> Result<()> {
    let log_density = log_density(target, std::slice::from_ref(&start.center))?[0];
    if !log_density.is_finite() {
        return Ok(());
    }
    let d = start.center.len();
    let covariance = DMatrix::from_row_slice(d, d, &start.covariance);
    let log_det = covariance.clone().cholesky().map_or(0.0, |c| 2.0 * c.l().diagonal().map(f64::ln).sum());
    let laplace = log_density + 0.5 * log_det + 0.5 * d as f64 * std::f64::consts::TAU.ln();
    match modes.iter_mut().find(|m| close(&m.start, &start) || close(&start, &m.start)) {
        Some(known) => known.starts += 1,
        None => modes.push(Mode { start, log_density, laplace, starts: 1 }),
    }
    Ok(())
}

/// Whether another centre lies within reach of this one.
fn close(this: &Start, other: &Start) -> bool {
    let d = this.center.len();
    let covariance = DMatrix::from_row_slice(d, d, &this.covariance);
    let apart = DVector::from_fn(d, |i, _| other.center[i] - this.center[i]);
    covariance.cholesky().is_some_and(|c| apart.dot(&c.solve(&apart)).sqrt() < APART)
}
