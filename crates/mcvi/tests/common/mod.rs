//! Targets whose evidence is known, and chains that between them use every transition and every density.
#![allow(dead_code)] // Each test file uses its share.

use mcvi::density::{Bernoulli, Categorical, Covariance, Density, Gaussian, Inputs, Predictor};
use mcvi::path::Power;
use mcvi::transition::{
    AcceptInverse, AcceptModel, Cmcd, Drift, Gibbs, Hamiltonian, Inverse, Langevin, Ldvi, Mass, Mcd,
    MetropolisHastings, OverRelaxation, OverdampedCmcd, RandomWalk, TimeNetwork, Uha, Underdamped,
};
use mcvi::{Approximation, Chain, Conditional, Initialisation, Params, Scope, Sharing, Target};
use mcvi_expr::Expr;
use std::sync::Arc;

/// Means, standard deviations, correlation and offset of [`Tilted`].
const MEAN: [f64; 2] = [1.0, -0.5];
const SD: [f64; 2] = [1.0, 0.5];
const CORRELATION: f64 = 0.4;
const OFFSET: f64 = -3.7;

/// A correlated Gaussian, unnormalised, with an offset.
#[derive(Clone, Copy, Debug)]
pub struct Tilted;

impl Tilted {
    pub fn log_evidence() -> f64 {
        OFFSET + std::f64::consts::TAU.ln() + (SD[0] * SD[1]).ln() + 0.5 * (1.0 - CORRELATION.powi(2)).ln()
    }
}

impl Target for Tilted {
    fn dim(&self) -> usize {
        2
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let e = (z - scope.vector(&MEAN)) / scope.vector(&SD);
        let (a, b) = (e.at(1, 0), e.at(1, 1));
        let square = a.square() + b.square() - a * b * (2.0 * CORRELATION);
        square * (-0.5 / (1.0 - CORRELATION.powi(2))) + OFFSET
    }

    fn conditional<'g>(&self, scope: &Scope<'g>, z: Expr<'g>, i: usize) -> Option<Conditional<'g>> {
        let other = (z.at(1, 1 - i) - MEAN[1 - i]) / SD[1 - i];
        let sd = SD[i] * (1.0 - CORRELATION.powi(2)).sqrt();
        let sd = scope.graph().scalar(scope.dtype(), sd);
        Some(Conditional::Gaussian { mean: other * (SD[i] * CORRELATION) + MEAN[i], sd })
    }
}

/// A skewed density with the tails of a Gaussian; no conditional distribution is known.
#[derive(Clone, Copy, Debug)]
pub struct Skewed;

impl Target for Skewed {
    fn dim(&self) -> usize {
        2
    }

    fn log_density<'g>(&self, _: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let (a, b) = (z.at(1, 0), z.at(1, 1));
        (a.square() + b.square() + a * b) * -0.5 + (a * 2.0 + b - 1.0).log_sigmoid() * 2.0
    }
}

impl Skewed {
    pub fn log_evidence() -> f64 {
        integrate([-9.0, 11.0], |a, b| {
            let logit: f64 = 2.0 * a + b - 1.0;
            -0.5 * (a * a + b * b + a * b) - 2.0 * (-logit).exp().ln_1p()
        })
    }
}

/// Logarithms of two variables, each exponential given the other: skewed, with conditionals known by their quantiles.
#[derive(Clone, Copy, Debug)]
pub struct Exponentials;

impl Target for Exponentials {
    fn dim(&self) -> usize {
        2
    }

    fn log_density<'g>(&self, _: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let (a, b) = (z.at(1, 0), z.at(1, 1));
        a + b - a.exp() - b.exp() - (a + b).exp() * 0.5
    }

    fn conditional<'g>(&self, _: &Scope<'g>, z: Expr<'g>, i: usize) -> Option<Conditional<'g>> {
        let rate = z.at(1, 1 - i).exp() * 0.5 + 1.0;
        Some(Conditional::Quantile {
            quantile: Box::new(move |u| ((-u).log1p() * -1.0 / rate).ln()),
            log_density: Box::new(move |x| rate.ln() + x - rate * x.exp()),
        })
    }
}

impl Exponentials {
    pub fn log_evidence() -> f64 {
        integrate([-30.0, 5.0], |a: f64, b: f64| a + b - a.exp() - b.exp() - 0.5 * (a + b).exp())
    }
}

/// log ∫∫ exp(f), both variables in the same interval, by the trapezoid rule.
fn integrate(range: [f64; 2], f: impl Fn(f64, f64) -> f64) -> f64 {
    let n = 1500;
    let step = (range[1] - range[0]) / f64::from(n);
    let at = |i: i32| range[0] + step * f64::from(i);
    let sum: f64 = (0..=n).flat_map(|i| (0..=n).map(move |j| (i, j))).map(|(i, j)| f(at(i), at(j)).exp()).sum();
    (sum * step * step).ln()
}

/// What is known of the weights exp(L) of a chain's draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Their mean is the evidence, and their tail light enough to see it.
    Tame,
    /// Their mean is the evidence, but hard to see.
    Heavy,
    /// Their mean is below the evidence: r(a|zₜ) r(d|a, zₜ) takes rejections for possible that are not, as
    /// acceptance of d is certain.
    Below,
}

/// A chain for a target of known evidence.
pub struct Case {
    pub name: &'static str,
    pub target: Arc<dyn Target>,
    pub log_evidence: f64,
    pub chain: Chain,
    pub weights: Weights,
}

impl Case {
    pub fn new(name: &'static str, on: On, chain: Chain) -> Self {
        let (target, log_evidence): (Arc<dyn Target>, f64) = match on {
            On::Tilted => (Arc::new(Tilted), Tilted::log_evidence()),
            On::Skewed => (Arc::new(Skewed), Skewed::log_evidence()),
            On::Exponentials => (Arc::new(Exponentials), Exponentials::log_evidence()),
        };
        Case { name, target, log_evidence, chain, weights: Weights::Tame }
    }

    fn weights(self, weights: Weights) -> Self {
        Case { weights, ..self }
    }

    pub fn approximation(&self) -> Approximation {
        let start = Initialisation::laplace(self.target.as_ref(), &Params::default(), None).unwrap();
        Approximation::from(self.target.clone(), self.chain.clone(), start).unwrap()
    }
}

#[derive(Clone, Copy, Debug)]
pub enum On {
    Tilted,
    Skewed,
    Exponentials,
}

/// Where chains start.
pub struct Starts {
    /// Off [`Tilted`] and wider: weights vary, but their variance is finite.
    pub wide: Chain,
    /// The same for [`Skewed`].
    pub broad: Chain,
    /// To be learned.
    pub learned: Chain,
}

impl Default for Starts {
    fn default() -> Self {
        Starts {
            wide: Chain::new(Gaussian::fixed(&[0.6, -0.2], &[1.4, 0.8])),
            broad: Chain::new(Gaussian::fixed(&[0.9, -0.2], &[1.2, 1.4])),
            learned: Chain::new(Gaussian::diagonal()),
        }
    }
}

impl Starts {
    /// Every chain from the same density.
    pub fn all(density: impl Density + 'static) -> Self {
        let chain = Chain::new(density);
        Starts { wide: chain.clone(), broad: chain.clone(), learned: chain }
    }
}

pub fn linear() -> Gaussian {
    Gaussian::linear()
}

pub fn linear_full() -> Gaussian {
    Gaussian::new(Predictor::Linear(Inputs::POSITION), Covariance::Full)
}

pub fn network() -> Gaussian {
    Gaussian::network(Inputs::GRADIENT, &[6])
}

fn odds(predictor: Predictor) -> Bernoulli {
    Bernoulli { log_odds: predictor }
}

/// r(a|zₜ) r(d|a, zₜ).
pub fn accept_first(density: impl Density + Clone + 'static) -> AcceptInverse {
    let accept = odds(Predictor::Linear(Inputs::POSITION));
    AcceptInverse::AcceptFirst { accept, accepted: density.clone().into_any(), rejected: density.into_any() }
}

/// r(d|zₜ) r(a|d, zₜ), all learned.
pub fn discarded_first(density: impl Density + 'static) -> AcceptInverse {
    let accept = odds(Predictor::dense(Inputs::POSITION, &[5]));
    AcceptInverse::DiscardedFirst { discarded: Inverse::learned(density), accept: AcceptModel::Learned(accept) }
}

/// r(d|zₜ) learned, r(a|d, zₜ) the probability of accepting the way back.
pub fn discarded_learned(density: impl Density + 'static) -> AcceptInverse {
    AcceptInverse::DiscardedFirst { discarded: Inverse::learned(density), accept: AcceptModel::Reversed }
}

/// r(d|zₜ) reversed, r(a|d, zₜ) learned.
pub fn accept_learned() -> AcceptInverse {
    let accept = AcceptModel::Learned(odds(Predictor::Linear(Inputs::GRADIENT)));
    AcceptInverse::DiscardedFirst { discarded: Inverse::Reversed, accept }
}

pub fn gibbs(inverse: Inverse) -> Gibbs {
    Gibbs::new(inverse)
}

pub fn relaxed(inverse: Inverse) -> OverRelaxation {
    OverRelaxation::new(inverse)
}

pub fn langevin(inverse: Inverse) -> Langevin {
    Langevin::new(inverse)
}

/// Gibbs sampling and over-relaxation.
pub fn sweeps(starts: &Starts) -> Vec<Case> {
    let wide = || starts.wide.clone();
    let learned = || starts.learned.clone();
    let case = |name, chain| Case::new(name, On::Tilted, chain);
    let learn = |density: Gaussian| gibbs(Inverse::learned(density));
    let relax = || relaxed(Inverse::learned(linear_full()));
    vec![
        case("Gibbs, constant diagonal inverse", wide().step(learn(Gaussian::diagonal()))),
        case("Gibbs, constant full inverse", wide().step(learn(Gaussian::full()))),
        case("Gibbs, constant inverse of low rank", wide().step(learn(Gaussian::low_rank(1)))),
        case("Gibbs, linear inverse", wide().step(learn(linear()))),
        case("Gibbs, linear full inverse, T = 2", wide().steps(2, Sharing::Nothing, learn(linear_full()))),
        case("Gibbs, inverse linear in the gradient", wide().step(learn(Gaussian::linear_in_gradient()))),
        case("Gibbs, network inverse", wide().step(learn(network()))),
        case("Gibbs, reversed", learned().step(gibbs(Inverse::Reversed))),
        Case::new("Gibbs by quantiles, linear inverse", On::Exponentials, learned().step(learn(linear_full())))
            .weights(Weights::Heavy),
        Case::new("Gibbs by quantiles, reversed", On::Exponentials, learned().step(gibbs(Inverse::Reversed)))
            .weights(Weights::Heavy),
        case("over-relaxation, linear inverse", wide().step(relaxed(Inverse::learned(linear())))),
        case("over-relaxation, one α, T = 2", wide().steps(2, Sharing::Transitions, relax())),
        case("over-relaxation, everything shared, T = 2", wide().steps(2, Sharing::Everything, relax()))
            .weights(Weights::Heavy),
        case("over-relaxation, reversed", wide().step(relaxed(Inverse::Reversed))),
    ]
}

/// Underdamped Langevin dynamics with momenta at rest, reversed.
fn kicked(kicks: usize) -> Underdamped {
    Underdamped { momentum: Gaussian::momenta_at_rest().into(), inverse: Inverse::Reversed, ..Underdamped::new(kicks) }
}

/// A network in time.
fn in_time() -> TimeNetwork {
    TimeNetwork::new(Inputs::GRADIENT, &[5])
}

/// Hamiltonian and Langevin dynamics without accept/reject.
pub fn dynamics(starts: &Starts) -> Vec<Case> {
    let wide = || starts.wide.clone();
    let broad = || starts.broad.clone();
    let learned = || starts.learned.clone();
    let case = |name, chain| Case::new(name, On::Skewed, chain);
    let tilted = |name, chain| Case::new(name, On::Tilted, chain);
    let hmc = Hamiltonian::new;
    let full = || Inverse::learned(Gaussian::linear_in_gradient().with_full_covariance());
    let constant = || hmc(1).momentum(Gaussian::diagonal()).inverse(Inverse::learned(Gaussian::full()));
    let networks = || hmc(1).momentum(network()).inverse(Inverse::learned(network()));
    vec![
        case("1 leapfrog from a learned start", learned().step(hmc(1))).weights(Weights::Heavy),
        case("1 leapfrog, linear densities", broad().step(hmc(1).momentum(linear()).inverse(full()))),
        tilted("3 leapfrogs, full mass", wide().step(hmc(3).mass(Mass::Full))),
        tilted("1 leapfrog, constant densities", wide().step(constant())),
        case("1 leapfrog, networks", broad().step(networks())),
        case("3 leapfrogs, reversed", broad().step(hmc(3).momentum(Gaussian::full()).inverse(Inverse::Reversed))),
        case("2 steps of 1 leapfrog", broad().steps(2, Sharing::Nothing, hmc(1))),
        tilted("2 steps of 3 leapfrogs, everything shared", wide().steps(2, Sharing::Everything, hmc(3)))
            .weights(Weights::Heavy),
        case("Langevin, inverse linear in the gradient", broad().step(langevin(full()))).weights(Weights::Heavy),
        tilted("Langevin, linear inverse", wide().step(langevin(Inverse::learned(linear())))),
        case("Langevin, network inverse", broad().step(langevin(Inverse::learned(network())))).weights(Weights::Heavy),
        case("Langevin, reversed", broad().step(langevin(Inverse::Reversed))),
        case("underdamped, 2 kicks", broad().step(Underdamped::new(2))),
        case("UHA, 2 steps of 2 leapfrogs", broad().steps(2, Sharing::Nothing, Uha::new(2))),
        tilted("UHA, full mass, shared, T = 3", wide().steps(3, Sharing::Everything, Uha::new(1).mass(Mass::Full))),
        case(
            "UHA, annealed, then a leapfrog",
            broad().steps(3, Sharing::Nothing, Uha::new(1)).step(hmc(1)).annealed_learned(),
        ),
        case("UHA, spread by a network", broad().steps(2, Sharing::Nothing, Uha::new(1).spread(in_time()))),
        case(
            "UHA, whitened, annealed",
            learned().whitened().steps(2, Sharing::Nothing, Uha::new(1)).annealed_learned(),
        )
        .weights(Weights::Heavy),
        case("UHA as a loop", broad().steps(45, Sharing::Nothing, Uha::new(1)).annealed_learned()),
        case(
            "overdamped CMCD as a loop, then a leapfrog",
            broad()
                .steps(41, Sharing::Transitions, OverdampedCmcd { drift: in_time() })
                .step(hmc(1))
                .annealed_learned(),
        )
        .weights(Weights::Heavy),
        tilted("DAIS", wide().dais(3)),
        case("LDVI, T = 2", broad().steps(2, Sharing::Nothing, Ldvi { uha: Uha::new(2), drift: in_time() })),
        case(
            "CMCD, spread by a network, annealed",
            broad()
                .steps(2, Sharing::Transitions, Cmcd { uha: Uha::new(1).spread(in_time()), drift: in_time() })
                .annealed_learned(),
        ),
        case("MCD, T = 2", broad().steps(2, Sharing::Nothing, Mcd { drift: in_time() })),
        case(
            "overdamped CMCD, annealed",
            broad().steps(2, Sharing::Everything, OverdampedCmcd { drift: in_time() }).annealed_learned(),
        ),
        tilted("underdamped, reversed, T = 2", wide().steps(2, Sharing::Transitions, kicked(1))),
    ]
}

/// Accept/reject steps.
pub fn accepts(starts: &Starts) -> Vec<Case> {
    let wide = || starts.wide.clone();
    let broad = || starts.broad.clone();
    let learned = || starts.learned.clone();
    let case = |name, chain| Case::new(name, On::Skewed, chain);
    let below = |name, chain| Case::new(name, On::Skewed, chain).weights(Weights::Below);
    let tilted = |name, chain| Case::new(name, On::Tilted, chain);
    let walk = || MetropolisHastings::proposal(RandomWalk);
    let drift = || MetropolisHastings::proposal(Drift);
    let hmc = |n| MetropolisHastings::hamiltonian(Hamiltonian::new(n).momentum(Gaussian::diagonal()));
    let uneven = || MetropolisHastings::hamiltonian(Hamiltonian::new(1).momentum(network()));
    let slope = Gaussian::linear_in_gradient;
    vec![
        case("random walk, reversed", broad().step(walk())),
        tilted("random walk, accept first", wide().step(walk().inverse(accept_first(linear_full()))))
            .weights(Weights::Below),
        tilted("random walk, discarded first", wide().step(walk().inverse(discarded_first(linear())))),
        tilted("random walk, discarded learned", wide().step(walk().inverse(discarded_learned(linear())))),
        case("random walk, accept learned", broad().step(walk().inverse(accept_learned()))),
        case("drift, reversed, T = 2", broad().steps(2, Sharing::Transitions, drift())),
        below("drift, accept first, T = 2", broad().steps(2, Sharing::Nothing, drift().inverse(accept_first(slope())))),
        case("drift, discarded first", learned().step(drift().inverse(discarded_first(network()))))
            .weights(Weights::Heavy),
        case("drift, discarded learned", broad().step(drift().inverse(discarded_learned(slope())))),
        case("accepted 3 leapfrogs, reversed", broad().step(hmc(3))),
        case("accepted 1 leapfrog, momentum by a network, reversed", broad().step(uneven())),
        tilted("accepted 1 leapfrog, accept first", wide().step(hmc(1).inverse(accept_first(linear_full()))))
            .weights(Weights::Below),
        case("accepted 3 leapfrogs, discarded first", learned().step(hmc(3).inverse(discarded_first(slope()))))
            .weights(Weights::Heavy),
        case("accepted 3 leapfrogs, discarded learned", broad().step(hmc(3).inverse(discarded_learned(slope()))))
            .weights(Weights::Heavy),
        tilted("accepted 1 leapfrog, discarded learned", wide().step(hmc(1).inverse(discarded_learned(linear_full()))))
            .weights(Weights::Heavy),
    ]
}

/// Different steps in one chain, several iterates, and bridges.
pub fn mixed(starts: &Starts) -> Vec<Case> {
    let wide = || starts.wide.clone();
    let broad = || starts.broad.clone();
    let learned = || starts.learned.clone();
    let case = |name, chain| Case::new(name, On::Skewed, chain);
    let tilted = |name, chain| Case::new(name, On::Tilted, chain);
    let hmc = Hamiltonian::new;
    let walk = || MetropolisHastings::proposal(RandomWalk);
    let drift = || MetropolisHastings::proposal(Drift);
    let gibbs = || gibbs(Inverse::learned(linear_full()));
    let langevin = || langevin(Inverse::learned(linear_full()));
    let relaxed = || relaxed(Inverse::learned(linear_full()));
    let accepted = || MetropolisHastings::hamiltonian(hmc(2).momentum(Gaussian::full()));
    let indicator = Categorical { log_odds: Predictor::Linear(Inputs::POSITION) };
    vec![
        tilted("Gibbs, then Langevin, then 1 leapfrog", wide().step(gibbs()).step(langevin()).step(hmc(1))),
        tilted("over-relaxation, then accepted leapfrogs", wide().step(relaxed()).step(accepted())),
        case(
            "1 leapfrog, then three accept/reject steps",
            broad()
                .step(hmc(1))
                .steps(2, Sharing::Everything, walk().inverse(accept_first(linear_full())))
                .step(drift().inverse(discarded_learned(linear_full()))),
        )
        .weights(Weights::Below),
        tilted("all iterates", wide().steps(2, Sharing::Nothing, gibbs()).average_last(3)),
        tilted("two iterates, told apart", wide().step(gibbs()).step(walk()).average_last_with(2, indicator)),
        case("bridges at fixed temperatures", broad().steps(2, Sharing::Nothing, hmc(1)).annealed(&[0.5, 1.0])),
        case("bridges at learned temperatures", learned().steps(2, Sharing::Transitions, hmc(1)).annealed_learned())
            .weights(Weights::Heavy),
        case(
            "a power path",
            broad().steps(3, Sharing::Nothing, Uha::new(1)).annealed_learned().along(Power { exponent: 0.5 }),
        ),
        case("bridges with accepts", broad().steps(2, Sharing::Transitions, walk()).annealed(&[0.5, 1.0])),
    ]
}

pub fn all(starts: &Starts) -> Vec<Case> {
    [sweeps(starts), dynamics(starts), accepts(starts), mixed(starts)].into_iter().flatten().collect()
}
