//! A start wide enough to hold all modes, and annealed importance sampling from there.
//!
//! A chain that is learned from one mode knows nothing of the others. Annealing from a wide Gaussian visits all that a search
//! from many places can find, and needs nothing learned: its mean log weight is a bound, and E exp(L) = p(x).

use crate::approximation::{Annealed, Approximation};
use crate::chain::Chain;
use crate::density::Gaussian;
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::seed::derive_seed;
use crate::target::{Landscape, Target};
use crate::transition::{ChainState, Diagnostic, Moved, StepScope, Transition};
use crate::units::Units;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};
use std::sync::Arc;

/// Standard deviations of the starting points of searches for modes: unconstrained parameters are mostly of order one, but
/// modes may be far out.
const SPREADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
/// Size of a leapfrog in standard deviations: four of five are accepted.
const STEP: f64 = 1.2;
/// Searches from each.
const SEARCHES: usize = 32;

/// Where all modes are, and how wide each is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WideStart {
    /// The centre of the modes.
    pub center: Vec<f64>,
    /// The standard deviation of each coordinate of a Gaussian that holds them all.
    pub wide: Vec<f64>,
    /// The standard deviation of each coordinate within a mode, the others held fixed: the median over modes.
    pub narrow: Vec<f64>,
}

impl WideStart {
    /// Search for modes from starting points that are drawn ever more widely around the origin. The start has twice the
    /// variance of the modes found: that between them and that within.
    pub fn find(target: &dyn Target, seed: u64) -> Result<Self> {
        let d = target.dim();
        let mut rng = StdRng::seed_from_u64(derive_seed(seed, "wide start"));
        let (mut modes, mut elsewhere, mut error) = (vec![], vec![], None);
        for spread in SPREADS {
            for _ in 0..SEARCHES {
                let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
                let guess: Vec<f64> = (0..d).map(|_| spread * normal()).collect();
                match Initialisation::laplace(target, &Params::default(), Some(&guess)) {
                    Ok(mode) if mode.warning.is_none() => modes.push(mode.positions()),
                    Ok(place) => elsewhere.push(place.positions()),
                    Err(Error::Target { why }) => error = Some(Error::Target { why }),
                    Err(error) => return Err(error),
                }
            }
        }
        // Where a search has not converged there is no mode, but it is better than nothing.
        let modes = if modes.is_empty() { elsewhere } else { modes };
        if modes.is_empty() {
            let why = "its log density is finite at none of the places tried".to_owned();
            return Err(error.unwrap_or(Error::Target { why }));
        }
        let n = modes.len() as f64;
        let mean = |of: &dyn Fn(&Units) -> f64| modes.iter().map(of).sum::<f64>() / n;
        let center: Vec<f64> = (0..d).map(|i| mean(&|mode| mode.center[i])).collect();
        let variance = |i: usize| mean(&|mode| (mode.center[i] - center[i]).powi(2) + mode.scale[i].powi(2));
        let wide = (0..d).map(|i| (2.0 * variance(i)).sqrt()).collect();
        let narrow = (0..d).map(|i| median(modes.iter().map(|mode| mode.conditional[i]).collect())).collect();
        Ok(WideStart { center, wide, narrow })
    }

    /// Anneal from the start to the target through this many temperatures with Hamiltonian steps of one leapfrog that are
    /// accepted or rejected. Where modes are narrower than the start, temperatures are dense near β = 0.
    pub fn anneal(
        &self,
        target: Arc<dyn Target>,
        temperatures: usize,
        chains: usize,
        seed: u64,
        hardware: Hardware,
    ) -> Result<Annealed> {
        let chain = Chain::new(Gaussian::fixed(&self.center, &self.wide));
        let start = Initialisation::new(&self.center, &self.wide)?;
        let approximation = Approximation::initialised(target, chain, start, hardware)?;
        // For one Gaussian the precision of the bridge should rise by the same factor at every temperature, to the square of
        // this ratio in all; walls between modes close later and want more temperatures there. The ratio itself serves both.
        let rise = self.wide.iter().zip(&self.narrow).map(|(w, n)| w / n).fold(1.0, f64::max);
        let beta = |t: usize| (rise.powf(t as f64 / temperatures as f64) - 1.0) / (rise - 1.0);
        let even = |t: usize| t as f64 / temperatures as f64;
        let betas: Vec<f64> =
            (1..temperatures).map(|t| if rise > 1.01 { beta(t) } else { even(t) }).chain([1.0]).collect();
        approximation.anneal(&Tempered { wide: self.wide.clone(), narrow: self.narrow.clone() }, &betas, chains, seed)
    }

    /// Gradients that each draw takes: at both ends of every leapfrog.
    pub fn gradients(temperatures: usize) -> usize {
        2 * temperatures
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A leapfrog on a bridge, accepted or rejected. Its step follows the width of the bridge, which falls from that of the wide
/// start to that of a mode.
#[derive(Debug)]
struct Tempered {
    wide: Vec<f64>,
    narrow: Vec<f64>,
}

impl Transition for Tempered {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let scope = &at.forward;
        let precision = |sd: &[f64]| scope.vector(&sd.iter().map(|s| s.powi(-2)).collect::<Vec<_>>());
        let (wide, narrow) = (precision(&self.wide), precision(&self.narrow));
        let precision = target.bridge.as_ref().map_or(narrow, |bridge| wide + bridge.beta * (narrow - wide));
        // Errors of the energy add up over coordinates: this keeps acceptance the same in any dimension.
        let eps = precision.powf(-0.5) * STEP * (self.wide.len() as f64).powf(-1.0 / 6.0);
        let v = scope.normal([state.rows(), self.wide.len()]);
        let from = target.at(state.z)?;
        let half = v + eps * from.gradient * 0.5;
        let to = target.at(state.z + eps * half)?;
        let end = half + eps * to.gradient * 0.5;
        let log_accept = to.log_p - from.log_p + ((v.square() - end.square()) * 0.5).sum(&[1]);
        // A proposal where the density is not finite is rejected.
        let log_accept = log_accept.eq(log_accept).select(log_accept, f64::NEG_INFINITY);
        let accepted = scope.uniform([state.rows()]).ln().lt(log_accept);
        let z = accepted.expand(1).select(to.z, from.z);
        let acceptance = log_accept.exp().min(1.0);
        Ok(Moved::new(state.at(z), accepted * 0.0).with(Diagnostic::Acceptance, acceptance))
    }

    fn gradients(&self) -> usize {
        2
    }
}
