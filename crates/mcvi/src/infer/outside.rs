//! A look from outside: annealing from wide starts down to the target finds places that searches have missed, and estimates
//! log p(x) without the fit.
//!
//! Everything is in coordinates in which the best mode is a standard normal. Where nothing is missed, the estimate exceeds
//! log p(x) by b with probability at most exp(−b), so one well above the fit's says that the fit has missed something.

use super::Request;
use super::budget::Deadline;
use super::modes::{self, Mode};
use super::rays;
use crate::approximation::{Annealed, Draws};
use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::diagnostics::{LogMean, Weights, log_mean_exp};
use crate::error::{Error, Result};
use crate::fit::Settings;
use crate::hardware::Ranks;
use crate::initialisation::Initialisation;
use crate::laplace::{Climber, log_density};
use crate::params::Params;
use crate::scope::Scope;
use crate::seed::derive_seed;
use crate::target::Target;
use crate::whitening::Coordinates;
use crate::wide::WideStart;
use mcvi_expr::{DType, Expr};
use nalgebra::DVector;
use std::sync::Arc;

/// Standard deviations of the wide starts, in those of the modes found.
const WIDE: [f64; 2] = [5.0, 25.0];
/// Work in all, in nanoseconds that log p takes, and the fewest and the most steps of particles it may buy.
const WORK: f64 = 2e8;
const FEWEST: f64 = 1024.0;
const MOST: f64 = 262_144.0;
/// Steps that are too few to say anything, where time is short.
const LEAST: f64 = 256.0;
/// Particles, and places on rays, that are followed to a mode.
const FOLLOWED: usize = 12;
/// Evaluations of log p that each step of a particle takes in all: two gradients, each about three, of four annealings.
const EVALUATIONS: f64 = 24.0;
/// Temperatures of those that only search for places.
const FEW: usize = 32;
/// Rounds of annealing and searching at most: what is found widens the next start.
const ROUNDS: usize = 3;

/// What annealing found.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    /// log p(x).
    pub log_evidence: LogMean,
    /// Where the particles ended.
    pub z: Vec<Vec<f64>>,
    /// Their log weights.
    pub log_weights: Vec<f64>,
    /// Where more particles ended that were annealed faster: their weights say little.
    ends: Vec<Vec<f64>>,
}

/// Mass far from all draws of a fit.
pub(super) struct Elsewhere {
    /// Its share of the mass of the fit.
    pub share: f64,
    /// Where the heaviest particle of it is.
    pub place: Vec<f64>,
}

/// Draws and particles that are compared.
const COMPARED: usize = 1000;
/// Particles are far from all draws if they are further than this times the largest distance of a draw from the others.
const FAR: f64 = 1.5;
/// Particles that count as more than chance.
const SEVERAL: usize = 3;

impl Outside {
    /// The heaviest particles that are further from all draws of a fit than these are from each other, in standard
    /// deviations of its coordinates. None if they are few.
    pub fn elsewhere(&self, draws: &Draws, log_evidence: f64) -> Option<Elsewhere> {
        let mut picked = Weights::smoothed(&draws.log_weights).resample(COMPARED, 1);
        picked.dedup();
        let reference: Vec<&Vec<f64>> = picked.iter().map(|&i| &draws.z[i]).collect();
        let scale = scales(&reference);
        let apart = |a: &[f64], b: &[f64]| -> f64 {
            a.iter().zip(b).zip(&scale).map(|((a, b), s)| ((a - b) / s).powi(2)).sum()
        };
        // Whether none of them is within a distance, but for one of them.
        let is_alone = |z: &[f64], within: f64, but: Option<usize>| {
            reference.iter().enumerate().all(|(j, other)| Some(j) == but || apart(z, other) > within)
        };
        let nearest = |i: usize| {
            let others = reference.iter().enumerate().filter(|(j, _)| *j != i);
            others.map(|(_, other)| apart(reference[i], other)).fold(f64::INFINITY, f64::min)
        };
        // Most draws have one nearer than the furthest so far.
        let largest = (0..reference.len())
            .fold(0.0, |largest, i| if is_alone(reference[i], largest, Some(i)) { nearest(i) } else { largest });
        let limit = FAR * FAR * largest;
        let mut order: Vec<usize> = (0..self.z.len()).filter(|&i| self.log_weights[i].is_finite()).collect();
        order.sort_by(|&a, &b| self.log_weights[b].total_cmp(&self.log_weights[a]));
        order.truncate(COMPARED);
        let top = self.log_weights[*order.first()?];
        let weight = |i: &usize| (self.log_weights[*i] - top).exp();
        let far: Vec<usize> = order.iter().copied().filter(|&i| is_alone(&self.z[i], limit, None)).collect();
        let share = far.iter().map(weight).sum::<f64>() / order.iter().map(weight).sum::<f64>();
        let share = share * (self.log_evidence.value - log_evidence).exp();
        (far.len() >= SEVERAL).then(|| Elsewhere { share, place: self.z[far[0]].clone() })
    }

    /// Search from particles that are far from all modes: the heaviest, and those where the density is highest.
    fn follow(&self, target: &dyn Target, climber: &mut Climber<'_>, places: &mut Vec<Mode>) -> Result<()> {
        let heights = log_density(target, &self.ends)?;
        for (from, values) in [(&self.z, &self.log_weights), (&self.ends, &heights)] {
            let mut order: Vec<usize> = (0..from.len()).filter(|&i| values[i].is_finite()).collect();
            order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
            let mut left = FOLLOWED;
            for i in order {
                if left == 0 {
                    break;
                }
                if !places.iter().any(|place| modes::within(&place.initialisation, &from[i])) {
                    left -= 1;
                    follow(target, climber, places, &from[i])?;
                }
            }
        }
        Ok(())
    }
}

/// The standard deviation of each coordinate.
fn scales(points: &[&Vec<f64>]) -> Vec<f64> {
    let (n, d) = (points.len() as f64, points.first().map_or(0, |z| z.len()));
    let sd = |i: usize| {
        let mean = points.iter().map(|z| z[i]).sum::<f64>() / n;
        (points.iter().map(|z| (z[i] - mean).powi(2)).sum::<f64>() / n).sqrt().max(f64::MIN_POSITIVE)
    };
    (0..d).map(sd).collect()
}

/// Search for modes: from starting points, then from where annealing ends. `cost` is how many nanoseconds log p takes.
pub(super) fn search(
    (model, target): (&Arc<dyn BayesianModel>, &Arc<dyn Target>),
    gaussian: &Chain,
    request: &Request,
    cost: f64,
    deadline: Deadline,
) -> Result<(Vec<Mode>, Option<Outside>)> {
    let params = Params::default();
    let mut climber = Climber::new(target.as_ref(), &params)?;
    let mut places = modes::climb((model.as_ref(), target.as_ref()), &mut climber, request, deadline)?;
    let (mut outside, mut seen, mut pace) = (None, 0, 0.0);
    for round in 0..ROUNDS {
        // From every place that is new.
        while seen < places.len().min(modes::MOST) {
            let from = places[seen].initialisation.clone();
            let seed = derive_seed(request.settings.seed, &format!("rays {seen}"));
            let effort = (cost, 1.0 / (seen + 1) as f64, FOLLOWED);
            let beyond = rays::beyond(target.as_ref(), &from, effort, (seed, deadline), request.hardware)?;
            pace = beyond.pace;
            for place in beyond.places {
                follow(target.as_ref(), &mut climber, &mut places, &place)?;
            }
            seen += 1;
        }
        let timely = deadline.times(EVALUATIONS * pace).unwrap_or(MOST);
        let work = (WORK / cost).clamp(FEWEST, MOST).min(timely);
        if work < LEAST {
            break;
        }
        let seed = derive_seed(request.settings.seed, &format!("outside {round}"));
        let Some(found) = look(target, &places, work, seed, request)? else { break };
        let known = places.len();
        found.follow(target.as_ref(), &mut climber, &mut places)?;
        outside = Some(found);
        if places.len() == known {
            break;
        }
    }
    let settings = Settings { seconds: deadline.left(), ..request.settings.clone() };
    // Its program holds the data; the next one does too.
    drop(climber);
    let modes = modes::compare_all(target, places, gaussian, &settings, request.hardware)?;
    Ok((modes, outside))
}

/// Anneal from wide starts around the places found. None if that fails.
fn look(target: &Arc<dyn Target>, places: &[Mode], work: f64, seed: u64, request: &Request) -> Result<Option<Outside>> {
    let best = places[0].best_initialisation(target, places.len() == 1, request)?;
    let standardised = Arc::new(Standardised { target: target.clone(), at: best });
    let d = target.dim();
    // The modes in these coordinates: their centres, and standard deviations given the others.
    let centers: Vec<DVector<f64>> =
        places.iter().map(|p| standardised.at.standardised(&p.initialisation.center)).collect();
    let center = centers.iter().sum::<DVector<f64>>() / centers.len() as f64;
    let between = |i: usize| centers.iter().map(|c| (c[i] - center[i]).powi(2)).sum::<f64>() / centers.len() as f64;
    let narrow = places.iter().map(|p| standardised.narrowest(&p.initialisation)).fold(1.0, f64::min);
    let searched = (work / (WIDE.len() * FEW) as f64) as usize;
    let weighed = ((work / 16.0).sqrt() as usize).max(16);
    let anneal = |wide: f64, temperatures: usize, particles: usize, seed: u64| {
        let start = WideStart {
            center: center.as_slice().to_vec(),
            wide: (0..d).map(|i| (wide * wide + 2.0 * between(i)).sqrt()).collect(),
            narrow: vec![narrow; d],
        };
        match start.anneal(standardised.clone(), temperatures, particles, seed, request.hardware) {
            Ok(annealed) => Ok(Some(annealed)),
            // A target that cannot be evaluated so far out can still be fitted.
            Err(Error::Fit { .. } | Error::Target { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    };
    // Many particles at few temperatures find places, few at many temperatures find how much mass there is.
    let (mut best, mut ends) = (None::<Outside>, vec![]);
    for wide in WIDE {
        ends.extend(anneal(wide, FEW, searched, derive_seed(seed, "places"))?.map_or(vec![], |annealed| annealed.z));
        let Some(annealed) = anneal(wide, 4 * weighed, weighed, derive_seed(seed, "mass"))? else { continue };
        let log_evidence = log_mean_exp(&annealed.log_weights);
        if log_evidence.value.is_finite() && best.as_ref().is_none_or(|b| log_evidence.value > b.log_evidence.value) {
            let Annealed { z, log_weights, .. } = annealed;
            best = Some(Outside { log_evidence, z, log_weights, ends: vec![] });
        }
    }
    Ok(best.map(|mut best| {
        best.z.iter_mut().for_each(|y| *y = standardised.at.original(y));
        best.ends = ends.iter().map(|y| standardised.at.original(y)).collect();
        best
    }))
}

/// Search for a mode from a place, and add it where it is new.
fn follow(target: &dyn Target, climber: &mut Climber<'_>, places: &mut Vec<Mode>, from: &[f64]) -> Result<()> {
    match climber.climb(from) {
        Ok(place) if place.warning.is_none() => modes::add(target, places, place, 0),
        Ok(_) | Err(Error::Target { .. } | Error::Fit { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A target as a function of y, where z = c + Ly.
struct Standardised {
    target: Arc<dyn Target>,
    at: Initialisation,
}

impl Standardised {
    /// The smallest standard deviation of a mode in any direction.
    fn narrowest(&self, mode: &Initialisation) -> f64 {
        let (d, here) = (mode.center.len(), &self.at.center);
        // With L of these coordinates and M of the mode, the norm of M⁻¹L bounds the largest precision.
        let column = |i: usize| {
            let unit: Vec<f64> = (0..d).map(|j| f64::from(i == j)).collect();
            let to = self.at.original(&unit);
            let moved: Vec<f64> = (0..d).map(|j| mode.center[j] + (to[j] - here[j])).collect();
            mode.standardised(&moved).norm_squared()
        };
        let mean = (0..d).map(column).sum::<f64>() / d as f64;
        if mean.is_finite() { mean.sqrt().recip() } else { 1.0 }
    }
}

impl Target for Standardised {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, y: Expr<'g>) -> Expr<'g> {
        let array = |_: &str, shape, values: &dyn Fn() -> Vec<f64>| scope.vector(&values()).reshape(shape);
        let coordinates = Coordinates::new(&self.at.positions(), array);
        self.target.log_density(scope, coordinates.original(y)) + coordinates.log_volume()
    }

    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        self.target.data(scope)
    }

    fn is_subsampled(&self) -> bool {
        self.target.is_subsampled()
    }
    fn ranks(&self) -> Option<Ranks> {
        self.target.ranks()
    }

    fn dtype(&self) -> DType {
        self.target.dtype()
    }
}
