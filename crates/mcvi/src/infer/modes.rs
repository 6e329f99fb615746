//! Separate modes, found from overdispersed starting points and compared by location and bound.
//!
//! The log density is maximised from each starting point. If that leads to several places, a Gaussian is fitted at
//! each: fits that end in one place are one mode, and the bound measures the share of the evidence that a mode holds,
//! which its height does not. If there is only one place nothing is fitted here, and the search costs next to nothing.

use crate::approximation::{Approximation, Diagnostics};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::fit::{Settings, fit};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::laplace::log_density;
use crate::params::Params;
use crate::seed::derive_seed;
use crate::target::Target;
use nalgebra::{DMatrix, DVector};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

/// Modes are distinct if they are further apart than this, in standard deviations of either.
const APART: f64 = 4.0;
/// Modes with less than this share of the evidence are not reported.
const SHARE: f64 = 1e-3;
/// Modes with less than this share by height and curvature alone are not fitted.
const HOPELESS: f64 = 1e-6;
/// Iterations of the fit at each of several modes: the mode and its curvature are a good start.
const ITERATIONS: usize = 500;
/// Draws with which its bound is estimated.
const DRAWS: usize = 4000;

/// A local maximum of the log density.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mode {
    /// Its location and width.
    pub initialisation: Initialisation,
    /// The log density there.
    pub log_density: f64,
    /// The evidence of a Gaussian there.
    pub laplace: f64,
    /// How many starting points led there.
    pub starts: usize,
    /// Diagnostics of a Gaussian fitted there, its bound first; none if this is the only mode.
    pub diagnostics: Option<Diagnostics>,
    /// Its share of the evidence of all modes found.
    pub share: f64,
}

impl Mode {
    /// The evidence it holds. The importance-weighted estimate is also a bound in expectation, and the tighter one.
    fn evidence(&self) -> f64 {
        self.diagnostics.as_ref().map_or(self.laplace, |j| j.log_evidence.value)
    }
}

/// Search from several starting points. Returns the modes found, that of the largest evidence first.
pub(super) fn find(
    target: &Arc<dyn Target>,
    starts: usize,
    gaussian: &Chain,
    settings: &Settings,
    hardware: Hardware,
) -> Result<Vec<Mode>> {
    let mut modes = climb(target.as_ref(), starts, settings.seed)?;
    if modes.len() > 1 {
        modes = compare(target, modes, gaussian, settings, hardware)?;
    }
    let total: f64 = modes.iter().map(|m| (m.evidence() - modes[0].evidence()).exp()).sum();
    let best = modes[0].evidence();
    modes.iter_mut().for_each(|m| m.share = (m.evidence() - best).exp() / total);
    Ok(modes)
}

/// Fit a Gaussian at each; those that end in one place are merged.
fn compare(
    target: &Arc<dyn Target>,
    modes: Vec<Mode>,
    gaussian: &Chain,
    settings: &Settings,
    hardware: Hardware,
) -> Result<Vec<Mode>> {
    let settings = Settings { iterations: ITERATIONS, seconds: None, ..settings.clone() };
    let mut known: Vec<(Initialisation, Mode)> = vec![];
    for mode in modes {
        let mut plain =
            Approximation::initialised(target.clone(), gaussian.clone(), mode.initialisation.clone(), hardware)?;
        match fit(&mut plain, &settings) {
            // If it cannot be fitted, use the Gaussian it started from.
            Ok(_) | Err(Error::Fit { .. }) => {}
            Err(error) => return Err(error),
        }
        let draws = plain.draw(DRAWS, derive_seed(settings.seed, "modes"))?;
        let (place, mode) = (Initialisation::moments(&draws.z), Mode { diagnostics: Some(draws.diagnose()), ..mode });
        match known.iter_mut().find(|(other, _)| close(other, &place) || close(&place, other)) {
            Some((at, same)) => {
                let starts = same.starts + mode.starts;
                if mode.evidence() > same.evidence() {
                    (*at, *same) = (place, mode);
                }
                same.starts = starts;
            }
            None => known.push((place, mode)),
        }
    }
    let mut modes: Vec<Mode> = known.into_iter().map(|(_, mode)| mode).collect();
    modes.sort_by(|a, b| b.evidence().total_cmp(&a.evidence()));
    let best = modes[0].evidence();
    // The first is kept whatever its evidence is, even if it is NaN.
    let mut first = true;
    modes.retain(|m| std::mem::take(&mut first) || m.evidence() > best + SHARE.ln());
    Ok(modes)
}

/// The places that searches from several starting points led to, that of the largest Laplace evidence first.
fn climb(target: &dyn Target, starts: usize, seed: u64) -> Result<Vec<Mode>> {
    let d = target.dim();
    let mut rng = StdRng::seed_from_u64(derive_seed(seed, "starts"));
    let mut modes: Vec<Mode> = vec![];
    let mut first_error = None;
    for i in 0..starts {
        // The origin first, then increasingly wide around it: free parameters are mostly of order one.
        let spread = if i == 0 { 0.0 } else { 1.0 + 5.0 * i as f64 / starts as f64 };
        let guess: Vec<f64> = (0..d).map(|_| spread * (2.0 * rng.random::<f64>() - 1.0)).collect();
        match Initialisation::laplace(target, &Params::default(), Some(&guess)) {
            Ok(found) => add(target, &mut modes, found)?,
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
            // A single bad starting point does not mean that all are.
            None | Some(Error::Target { .. }) => Error::Target { why },
            Some(other) => other,
        });
    };
    // A search that did not converge found no mode; only the best place is kept in any case.
    let mut keep = modes
        .iter()
        .map(|m| m.laplace > best + HOPELESS.ln() && m.initialisation.warning.is_none())
        .collect::<Vec<_>>();
    keep[0] = true;
    let mut kept = keep.into_iter();
    modes.retain(|_| kept.next().unwrap_or(false));
    Ok(modes)
}

fn add(target: &dyn Target, modes: &mut Vec<Mode>, initialisation: Initialisation) -> Result<()> {
    let log_density = log_density(target, std::slice::from_ref(&initialisation.center))?[0];
    if !log_density.is_finite() {
        return Ok(());
    }
    let d = initialisation.center.len();
    let factor = initialisation.positions().factor().into_owned();
    let log_det: f64 = (0..d).map(|i| 2.0 * factor[i * d + i].ln()).sum();
    let laplace = log_density + 0.5 * log_det + 0.5 * d as f64 * std::f64::consts::TAU.ln();
    match modes
        .iter_mut()
        .find(|m| close(&m.initialisation, &initialisation) || close(&initialisation, &m.initialisation))
    {
        Some(known) => known.starts += 1,
        None => modes.push(Mode { initialisation, log_density, laplace, starts: 1, diagnostics: None, share: 1.0 }),
    }
    Ok(())
}

/// Whether another centre is close to this one.
fn close(this: &Initialisation, other: &Initialisation) -> bool {
    let d = this.center.len();
    let units = this.positions();
    let factor = DMatrix::from_row_slice(d, d, &units.factor());
    let apart = DVector::from_fn(d, |i, _| other.center[i] - this.center[i]);
    factor.solve_lower_triangular(&apart).is_some_and(|e| e.norm() < APART)
}
