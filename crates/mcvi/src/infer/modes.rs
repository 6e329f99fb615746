//! Separate modes, found from overdispersed starting points and compared by location and bound.
//!
//! The log density is maximised from each starting point. If that leads to several places, a Gaussian is fitted at
//! each: fits that end in one place are one mode, and the bound measures the share of the evidence that a mode holds,
//! which its height does not. If there is only one place nothing is fitted here, and the search costs next to nothing.

use super::Request;
use super::budget::Deadline;
use crate::approximation::{Approximation, Diagnostics};
use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::density::Gaussian;
use crate::diagnostics::mean;
use crate::error::{Error, Result};
use crate::fit::{Settings, fit};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::laplace::{Climber, log_density};
use crate::params::Params;
use crate::scope::Choices;
use crate::seed::derive_seed;
use crate::target::Target;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::{Arc, OnceLock};

/// Modes are distinct if they are further apart than this, in standard deviations of the narrower.
const APART: f64 = 4.0;
/// The smallest modes that together hold less than this share of the evidence are not reported.
const SHARE: f64 = 1e-3;
/// The same by height and curvature alone: these are not compared.
const HOPELESS: f64 = 1e-5;
/// Modes that are fitted at most.
pub(super) const MOST: usize = 8;
/// Half-widths of the boxes that starting points are drawn from.
const SPREADS: [f64; 7] = [2.0, 4.0, 8.0, 16.0, 1.0, 32.0, 64.0];
/// How often a starting point is moved half-way to the origin if the density is zero there.
const HALVINGS: usize = 6;
/// Iterations of the fit at each of several modes: the mode and its curvature are a good start.
const ITERATIONS: usize = 500;
/// Seconds that such a fit may take at least.
const LEAST: f64 = 1e-3;
/// Draws with which its bound is estimated.
const DRAWS: usize = 4000;
/// Draws with which initialisations are compared.
const COMPARED: usize = 2000;
/// Draws that show whether one is nearly exact, and how far its bound may then be from log p(x).
const FEW: usize = 100;
const EXACT: f64 = 0.01;
/// Antithetic pairs of draws over which the curvature at the mode is refined, at most and times the dimension.
const PAIRS: usize = 32;
const PAIRS_BY_DIMENSION: usize = 1600;

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
    /// How many starting points led there; none if annealing did.
    pub starts: usize,
    /// Diagnostics of a Gaussian fitted there, its bound first; none if this is the only mode.
    pub diagnostics: Option<Diagnostics>,
    /// Its share of the evidence of all modes found.
    pub share: f64,
    /// The better of its initialisation and the same refined, with its bound; none where nothing could be better.
    best: OnceLock<(Initialisation, Option<f64>)>,
}

impl Mode {
    /// The evidence it holds. The importance-weighted estimate is also a bound in expectation, and the tighter one.
    fn evidence(&self) -> f64 {
        self.diagnostics.as_ref().map_or(self.laplace, |j| j.log_evidence.value)
    }

    /// The best of the Laplace approximation, the same refined and, if it is the only mode, the standard normal: a mode may
    /// lie far from the mass, as a funnel's does. Where the Laplace approximation is nearly exact, as with much data, nothing is
    /// compared.
    pub(super) fn best_initialisation(
        &self,
        target: &Arc<dyn Target>,
        only: bool,
        request: &Request,
    ) -> Result<Initialisation> {
        let seed = request.settings.seed;
        let bounds = |at: &Initialisation, draws: usize| -> Result<Vec<f64>> {
            let chain = Chain::new(Gaussian::diagonal()).whitened();
            let plain = Approximation::initialised(target.clone(), chain, at.clone(), request.hardware)?;
            plain.bounds(draws, Choices::Sample, seed)
        };
        let bound = |at: &Initialisation| -> Result<f64> {
            let bound = mean(&bounds(at, COMPARED)?).value;
            // NaN where the density has a peak so narrow that nothing is finite there.
            Ok(if bound.is_nan() { f64::NEG_INFINITY } else { bound })
        };
        // Done once: every iteration of the refinement takes a Hessian for each draw.
        if self.best.get().is_none() {
            let se = mean(&bounds(&self.initialisation, FEW)?).se;
            // Of log-normal weights the mean log is half its variance below the log mean.
            let best = if 0.5 * se * se * (FEW as f64) < EXACT {
                (self.initialisation.clone(), None)
            } else {
                let pairs = (PAIRS_BY_DIMENSION / target.dim()).clamp(4, PAIRS);
                let refined = self.initialisation.refined(target.as_ref(), &Params::default(), pairs, seed)?;
                let (as_is, better) = (bound(&self.initialisation)?, bound(&refined)?);
                if better > as_is { (refined, Some(better)) } else { (self.initialisation.clone(), Some(as_is)) }
            };
            self.best.get_or_init(|| best);
        }
        let standard = Initialisation::standard(target.dim());
        Ok(match self.best.get() {
            Some((_, Some(reached))) if only && bound(&standard)? > *reached => standard,
            Some((best, _)) => best.clone(),
            None => self.initialisation.clone(),
        })
    }
}

/// Fit a Gaussian at each of several places, and compare the modes they lead to. That of the largest evidence comes first.
pub(super) fn compare_all(
    target: &Arc<dyn Target>,
    places: Vec<Mode>,
    gaussian: &Chain,
    settings: &Settings,
    hardware: Hardware,
) -> Result<Vec<Mode>> {
    let mut modes = without_the_negligible(places, HOPELESS, |m| m.laplace);
    if modes.len() > 1 {
        modes = compare(target, modes, gaussian, settings, hardware)?;
    }
    let best = modes[0].evidence();
    let total: f64 = modes.iter().map(|m| (m.evidence() - best).exp()).sum();
    modes.iter_mut().for_each(|m| m.share = (m.evidence() - best).exp() / total);
    Ok(modes)
}

/// The modes in the order of their evidence, without the last ones, which hold no more than a share of it together. The first is
/// kept whatever its evidence is, even if it is NaN.
fn without_the_negligible(mut modes: Vec<Mode>, share: f64, evidence: impl Fn(&Mode) -> f64) -> Vec<Mode> {
    modes.sort_by(|a, b| evidence(b).total_cmp(&evidence(a)));
    let Some(best) = modes.first().map(&evidence) else { return modes };
    let shares: Vec<f64> = modes.iter().map(|m| (evidence(m) - best).exp()).collect();
    let total: f64 = shares.iter().sum();
    let mut left = total;
    let kept = shares.iter().position(|s| {
        let negligible = left <= share * total;
        left -= s;
        negligible
    });
    modes.truncate(kept.unwrap_or(modes.len()).max(1));
    modes
}

/// Fit a Gaussian at each; those that end in one place are merged.
fn compare(
    target: &Arc<dyn Target>,
    modes: Vec<Mode>,
    gaussian: &Chain,
    settings: &Settings,
    hardware: Hardware,
) -> Result<Vec<Mode>> {
    // Each has its share of the time, if that is limited.
    let seconds = settings.seconds.map(|s| (s / modes.len() as f64).max(LEAST));
    let settings = Settings { iterations: ITERATIONS, seconds, ..settings.clone() };
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
        match known.iter_mut().find(|(other, _)| are_close(other, &place)) {
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
    Ok(without_the_negligible(known.into_iter().map(|(_, mode)| mode).collect(), SHARE, Mode::evidence))
}

/// The places that searches from several starting points led to, that of the largest Laplace evidence first: the origin, draws
/// from the prior if there is one, and points ever wider around the origin, since free parameters are mostly of order one.
pub(super) fn climb(
    (model, target): (&dyn BayesianModel, &dyn Target),
    climber: &mut Climber<'_>,
    request: &Request,
    deadline: Deadline,
) -> Result<Vec<Mode>> {
    let (starts, seed) = (request.starts, request.settings.seed);
    let d = model.dim();
    let mut rng = StdRng::seed_from_u64(derive_seed(seed, "starts"));
    let mut prior = prior(model, starts / 2, derive_seed(seed, "prior starts")).into_iter();
    let mut modes: Vec<Mode> = vec![];
    let mut first_error = None;
    for i in 0..starts {
        if deadline.is_over() && !modes.is_empty() {
            break;
        }
        let spread = if i == 0 { 0.0 } else { SPREADS[(i - 1) % SPREADS.len()] };
        let wide: Vec<f64> = (0..d).map(|_| spread * (2.0 * rng.random::<f64>() - 1.0)).collect();
        let mut guess = if i % 2 == 1 { prior.next().unwrap_or(wide) } else { wide };
        for _ in 0..=HALVINGS {
            match climber.climb(&guess) {
                Ok(found) => {
                    add(target, &mut modes, found, 1)?;
                    break;
                }
                Err(error @ Error::Expr(_)) => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                    // Nearer to the origin it may be finite.
                    guess.iter_mut().for_each(|x| *x *= 0.5);
                }
            }
            if spread == 0.0 {
                break;
            }
        }
    }
    modes.sort_by(|a, b| b.laplace.total_cmp(&a.laplace));
    if modes.is_empty() {
        let why = "its log density is finite at none of the places tried; is it −∞ or NaN everywhere?".to_owned();
        return Err(match first_error {
            // A single bad starting point does not mean that all are.
            None | Some(Error::Target { .. }) => Error::Target { why },
            Some(other) => other,
        });
    }
    // A search that did not converge found no mode; only the best place is kept in any case.
    let mut first = true;
    modes.retain(|m| std::mem::take(&mut first) || m.initialisation.warning.is_none());
    Ok(modes)
}

/// Draws from the prior in free coordinates; none where there is no proper prior, or where it cannot be drawn from.
fn prior(model: &dyn BayesianModel, count: usize, seed: u64) -> Vec<Vec<f64>> {
    let drawn = if count == 0 { return vec![] } else { model.prior_parameters(count, seed) };
    drawn.and_then(|parameters| model.unconstrained(&parameters)).unwrap_or_default()
}

/// Add a place that `starts` starting points led to, or count them if it is known.
pub(super) fn add(
    target: &dyn Target,
    modes: &mut Vec<Mode>,
    initialisation: Initialisation,
    starts: usize,
) -> Result<()> {
    let log_density = log_density(target, std::slice::from_ref(&initialisation.center))?[0];
    if !log_density.is_finite() {
        return Ok(());
    }
    let d = initialisation.center.len();
    let laplace = log_density + initialisation.log_det() + 0.5 * d as f64 * std::f64::consts::TAU.ln();
    match modes.iter_mut().find(|m| are_close(&m.initialisation, &initialisation)) {
        Some(known) => known.starts += starts,
        None => modes.push(Mode {
            initialisation,
            log_density,
            laplace,
            starts,
            diagnostics: None,
            share: 1.0,
            best: OnceLock::new(),
        }),
    }
    Ok(())
}

/// Whether each of two centres is close to the other: a narrow mode on the flank of a wide one is a mode of its own.
fn are_close(one: &Initialisation, other: &Initialisation) -> bool {
    distance(one, &other.center) < APART && distance(other, &one.center) < APART
}

/// Whether a point may be a draw of a Gaussian.
pub(super) fn within(this: &Initialisation, z: &[f64]) -> bool {
    let d = z.len() as f64;
    distance(this, z).powi(2) < d + APART * (2.0 * d).sqrt() + APART * APART
}

/// The distance of a point from the centre, in standard deviations.
fn distance(this: &Initialisation, z: &[f64]) -> f64 {
    this.standardised(z).norm()
}
