//! A look from outside: annealing from wide starts down to the target finds places that searches have missed, and estimates
//! log p(x) without the fit.
//!
//! Everything is in coordinates in which the best mode is a standard normal. Where nothing is missed, the estimate exceeds
//! log p(x) by b with probability at most exp(−b), so one well above the fit's says that the fit has missed something.

use super::Request;
use super::modes::{self, Mode};
use crate::approximation::{Annealed, Draws};
use crate::bayesian_model::BayesianModel;
use crate::chain::Chain;
use crate::diagnostics::{LogMean, Weights, log_mean_exp};
use crate::error::{Error, Result};
use crate::initialisation::Initialisation;
use crate::laplace::log_density;
use crate::params::Params;
use crate::scope::Scope;
use crate::seed::derive_seed;
use crate::target::Target;
use crate::wide::WideStart;
use mcvi_expr::{DType, Expr};
use nalgebra::{DMatrix, DVector};
use std::sync::Arc;

/// Standard deviations of the wide starts, in those of the modes found.
const WIDE: [f64; 2] = [5.0, 25.0];
/// Work in all, in products of numbers, and the fewest and the most steps of particles it may buy.
const WORK: f64 = 4e8;
const FEWEST: f64 = 4096.0;
const MOST: f64 = 262_144.0;
/// Particles that are followed to a mode, the heaviest first.
const FOLLOWED: usize = 12;
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
        let nearest = |z: &[f64], but: Option<usize>| {
            let others = reference.iter().enumerate().filter(|(j, _)| Some(*j) != but);
            others.map(|(_, other)| apart(z, other)).fold(f64::INFINITY, f64::min)
        };
        let limit = FAR * FAR * (0..reference.len()).map(|i| nearest(reference[i], Some(i))).fold(0.0, f64::max);
        let mut order: Vec<usize> = (0..self.z.len()).filter(|&i| self.log_weights[i].is_finite()).collect();
        order.sort_by(|&a, &b| self.log_weights[b].total_cmp(&self.log_weights[a]));
        order.truncate(COMPARED);
        let top = self.log_weights[*order.first()?];
        let weight = |i: &usize| (self.log_weights[*i] - top).exp();
        let far: Vec<usize> = order.iter().copied().filter(|&i| nearest(&self.z[i], None) > limit).collect();
        let share = far.iter().map(weight).sum::<f64>() / order.iter().map(weight).sum::<f64>();
        let share = share * (self.log_evidence.value - log_evidence).exp();
        (far.len() >= SEVERAL).then(|| Elsewhere { share, place: self.z[far[0]].clone() })
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

/// Search for modes: from starting points, then from where annealing ends.
pub(super) fn search(
    model: &Arc<dyn BayesianModel>,
    gaussian: &Chain,
    request: &Request,
) -> Result<(Vec<Mode>, Option<Outside>)> {
    let target = model.clone() as Arc<dyn Target>;
    let mut places = modes::climb(model.as_ref(), request.starts, request.settings.seed)?;
    let mut outside = None;
    for round in 0..ROUNDS {
        let seed = derive_seed(request.settings.seed, &format!("outside {round}"));
        let Some(found) = look(&target, &places, work(model.as_ref())?, seed, request)? else { break };
        let known = places.len();
        follow(target.as_ref(), &mut places, &found)?;
        outside = Some(found);
        if places.len() == known {
            break;
        }
    }
    let modes = modes::compare_all(&target, places, gaussian, &request.settings, request.hardware)?;
    Ok((modes, outside))
}

/// Steps of particles that may be taken.
fn work(model: &dyn BayesianModel) -> Result<f64> {
    let observations: usize = model.observations()?.iter().map(|o| o.values.len()).sum();
    Ok((WORK / (model.dim() * (observations + 10)) as f64).clamp(FEWEST, MOST))
}

/// Anneal from wide starts around the places found. None if that fails.
fn look(target: &Arc<dyn Target>, places: &[Mode], work: f64, seed: u64, request: &Request) -> Result<Option<Outside>> {
    let best = places[0].best_initialisation(target, places.len() == 1, request)?;
    let standardised = Arc::new(Standardised::new(target.clone(), &best));
    let d = target.dim();
    // The modes in these coordinates: their centres, and standard deviations given the others.
    let centers: Vec<DVector<f64>> =
        places.iter().map(|p| standardised.standardise(&p.initialisation.center)).collect();
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
        best.z.iter_mut().for_each(|y| *y = standardised.to_original(y));
        best.ends = ends.iter().map(|y| standardised.to_original(y)).collect();
        best
    }))
}

/// Search from particles that are far from all modes: the heaviest, and those where the density is highest.
fn follow(target: &dyn Target, places: &mut Vec<Mode>, found: &Outside) -> Result<()> {
    let heights = log_density(target, &found.ends)?;
    for (from, values) in [(&found.z, &found.log_weights), (&found.ends, &heights)] {
        let mut order: Vec<usize> = (0..from.len()).filter(|&i| values[i].is_finite()).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
        let mut left = FOLLOWED;
        for i in order {
            if left == 0 {
                break;
            }
            if places.iter().any(|place| modes::within(&place.initialisation, &from[i])) {
                continue;
            }
            left -= 1;
            match Initialisation::laplace(target, &Params::default(), Some(&from[i])) {
                Ok(place) if place.warning.is_none() => modes::add(target, places, place, 0)?,
                Ok(_) | Err(Error::Target { .. } | Error::Fit { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A target as a function of y, where z = c + Ly.
struct Standardised {
    target: Arc<dyn Target>,
    center: Vec<f64>,
    /// L, row by row.
    factor: Vec<f64>,
}

impl Standardised {
    fn new(target: Arc<dyn Target>, at: &Initialisation) -> Self {
        Standardised { target, center: at.center.clone(), factor: at.positions().factor().into_owned() }
    }

    fn matrix(&self) -> DMatrix<f64> {
        let d = self.center.len();
        DMatrix::from_row_slice(d, d, &self.factor)
    }

    fn to_original(&self, y: &[f64]) -> Vec<f64> {
        let d = self.center.len();
        let row = |i: usize| self.factor[i * d..=i * d + i].iter().zip(y).map(|(l, y)| l * y).sum::<f64>();
        (0..d).map(|i| self.center[i] + row(i)).collect()
    }

    fn standardise(&self, z: &[f64]) -> DVector<f64> {
        let apart = DVector::from_iterator(z.len(), z.iter().zip(&self.center).map(|(z, c)| z - c));
        self.matrix().solve_lower_triangular(&apart).unwrap_or(apart)
    }

    /// The smallest standard deviation of a mode in any direction.
    fn narrowest(&self, mode: &Initialisation) -> f64 {
        let d = self.center.len();
        let theirs = DMatrix::from_row_slice(d, d, &mode.positions().factor());
        let relative = self.matrix().solve_lower_triangular(&theirs).unwrap_or(theirs);
        // The inverse's norm bounds the largest precision.
        let inverse = relative.clone().try_inverse().map_or(1.0, |m| m.norm() / (d as f64).sqrt());
        inverse.recip()
    }
}

impl Target for Standardised {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, y: Expr<'g>) -> Expr<'g> {
        let d = self.center.len();
        let factor = scope.vector(&self.factor).reshape([d, d]);
        let log_volume: f64 = (0..d).map(|i| self.factor[i * d + i].ln()).sum();
        self.target.log_density(scope, y.matmul(factor.t()) + scope.vector(&self.center)) + log_volume
    }

    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        self.target.data(scope)
    }

    fn is_subsampled(&self) -> bool {
        self.target.is_subsampled()
    }

    fn dtype(&self) -> DType {
        self.target.dtype()
    }
}
