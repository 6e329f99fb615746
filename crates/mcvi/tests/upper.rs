//! Upper bounds by paths drawn backwards, against exact evidence and exact draws.

mod common;

use common::{Case, On, Starts, Tilted};
use mcvi::density::Gaussian;
use mcvi::diagnostics::mean;
use mcvi::infer::{ChainChoice, Request, infer};
use mcvi::transition::{Gibbs, Hamiltonian, Inverse, Ldvi, MetropolisHastings, OverRelaxation, RandomWalk, Uha};
use mcvi::{Approximation, Chain, Error, Initialisation, Mixture, Params, Scope, Sharing, Target};
use mcvi_expr::{Array, Expr};
use nalgebra::{DMatrix, DVector};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Exp1, Gamma, StandardNormal};
use std::f64::consts::TAU;
use std::sync::Arc;

fn normal(rng: &mut StdRng) -> f64 {
    rng.sample(StandardNormal)
}

/// Exact draws from a target, the latter two by rejection.
fn exact(on: On, count: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut draw = || loop {
        let (a, b, u): (_, _, f64) = (normal(&mut rng), normal(&mut rng), rng.random());
        match on {
            On::Tilted => {
                let correlated = 0.4 * a + 0.84f64.sqrt() * b;
                return vec![1.0 + a, 0.5 * correlated - 0.5];
            }
            On::Skewed => {
                // The Gaussian factor has the precision (1, ½; ½, 1).
                let z = [a / 0.75f64.sqrt(), b - 0.5 * a / 0.75f64.sqrt()];
                let logit: f64 = 2.0 * z[0] + z[1] - 1.0;
                if u < (1.0 + (-logit).exp()).powi(-2) {
                    return z.to_vec();
                }
            }
            On::Exponentials => {
                let [x, y]: [f64; 2] = [rng.sample(Exp1), rng.sample(Exp1)];
                if u < (-0.5 * x * y).exp() {
                    return vec![x.ln(), y.ln()];
                }
            }
        }
    };
    (0..count).map(|_| draw()).collect()
}

fn on(case: &Case) -> On {
    match case.log_evidence {
        x if x == Tilted::log_evidence() => On::Tilted,
        x if x == common::Skewed::log_evidence() => On::Skewed,
        _ => On::Exponentials,
    }
}

/// Numbers without structure in (−1, 1).
fn scattered() -> impl Iterator<Item = f64> {
    (1..).map(|i| (f64::from(i) * 0.618_033_988_749_895).fract() * 2.0 - 1.0)
}

/// An approximation whose networks are not zero but of this size, so that a mistake in their use shows.
fn approximation(case: &Case, size: f64) -> Approximation {
    let mut approximation = case.approximation();
    let zeros = approximation.params().iter().filter(|(_, p)| p.learned && p.value.to_f64().iter().all(|x| *x == 0.0));
    for (name, shape) in zeros.map(|(name, p)| (name.to_owned(), p.value.shape().clone())).collect::<Vec<_>>() {
        let moved = scattered().map(|x| size * x).take(shape.size()).collect::<Vec<_>>();
        approximation.params_mut().set(&name, Array::new(shape, moved).unwrap()).unwrap();
    }
    approximation
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// With a = p r/(Z q) of a path, E a/(1 + a) over paths drawn forwards is E 1/(1 + a) over those drawn backwards (Bennett 1976):
/// both have finite variance whatever the tails, so that every kernel can be tested, with the position where its paths end.
#[test]
fn paths_there_and_back_have_one_density_ratio() {
    let mut refused = vec![];
    for case in common::all(&Starts::default()) {
        let approximation = approximation(&case, 1.0);
        let n = 8000;
        let z = exact(on(&case), n, 3);
        let upper = match approximation.upper_bounds(&z, 5) {
            Err(Error::NoWayBack { .. }) => {
                refused.push(case.name);
                continue;
            }
            other => other.unwrap(),
        };
        let draws = approximation.draw(n, 4).unwrap();
        for (what, of) in [("1", None), ("z₁", Some(0)), ("z₂", Some(1))] {
            let f = |z: &[f64]| of.map_or(1.0, |i| z[i].tanh());
            let there = draws.z.iter().zip(&draws.log_weights).map(|(z, l)| f(z) * sigmoid(l - case.log_evidence));
            let back = z.iter().zip(&upper).map(|(z, u)| f(z) * sigmoid(case.log_evidence - u));
            let (there, back) = (mean(&there.collect::<Vec<_>>()), mean(&back.collect::<Vec<_>>()));
            let se = there.se.hypot(back.se);
            let far = (there.value - back.value) / se;
            assert!(far.abs() < 4.5, "{}, {what}: {} there, {} back, {far} se", case.name, there.value, back.value);
            assert!(se < 0.02, "{}: se {se}", case.name);
        }
        let upper = mean(&upper);
        assert!(upper.value >= case.log_evidence - 4.0 * upper.se, "{}: E U is {}", case.name, upper.value);
    }
    // Accept/reject and mixtures of iterates, and nothing else.
    let expected = common::accepts(&Starts::default()).len() + 5;
    assert_eq!(refused.len(), expected, "{refused:?}");
}

/// E exp(−U) = 1/Z, from starts narrower than the target, where the tail of exp(−U) is light.
#[test]
fn the_mean_of_the_inverse_is_the_inverse_evidence() {
    let narrow = || Chain::new(Gaussian::fixed(&[0.8, -0.4], &[0.8, 0.4]));
    let network = || mcvi::transition::TimeNetwork::new(mcvi::density::Inputs::GRADIENT, &[5]);
    for (name, chain) in [
        ("alone", narrow()),
        ("3 leapfrogs", narrow().step(Hamiltonian::new(3))),
        ("2 steps, annealed", narrow().steps(2, Sharing::Nothing, Hamiltonian::new(1)).annealed_learned()),
        ("UHA", narrow().steps(3, Sharing::Nothing, Uha::new(1))),
        ("UHA, then a leapfrog, then UHA", narrow().step(Uha::new(1)).step(Hamiltonian::new(1)).step(Uha::new(2))),
        ("UHA, spread", narrow().steps(3, Sharing::Nothing, Uha::new(2).spread(network())).annealed_learned()),
        ("LDVI", narrow().steps(2, Sharing::Nothing, Ldvi { uha: Uha::new(1), drift: network() })),
    ] {
        let case = Case::new(name, On::Tilted, chain);
        let upper = approximation(&case, 0.3).upper_bounds(&exact(On::Tilted, 20_000, 6), 7).unwrap();
        let inverse = mean(&upper.iter().map(|u| (case.log_evidence - u).exp()).collect::<Vec<_>>());
        assert!((inverse.value - 1.0).abs() < 5.0 * inverse.se, "{name}: Z E exp(−U) is {inverse:?}");
        assert!(inverse.se < 0.03, "{name}: {inverse:?}");
    }
}

/// Where q is the posterior and r undoes every step exactly, U and L are log Z, path by path.
#[test]
fn both_bounds_are_exact_where_nothing_is_approximated() {
    let start = || Chain::new(Gaussian::full());
    let step = || Uha::new(0);
    for (name, chain) in [
        ("alone", start()),
        ("Gibbs", start().step(Gibbs::new(Inverse::Reversed))),
        ("over-relaxation", start().steps(2, Sharing::Nothing, OverRelaxation::new(Inverse::Reversed))),
        ("refreshments", start().steps(3, Sharing::Nothing, step())),
        ("refreshments, whitened", Chain::new(Gaussian::diagonal()).whitened().steps(3, Sharing::Nothing, step())),
        ("refreshments, annealed", start().steps(3, Sharing::Nothing, step()).annealed_learned()),
    ] {
        let case = Case::new(name, On::Tilted, chain);
        let approximation = case.approximation();
        let upper = approximation.upper_bounds(&exact(On::Tilted, 100, 1), 2).unwrap();
        let lower = approximation.draw(100, 3).unwrap().log_weights;
        for bound in upper.iter().chain(&lower) {
            assert!((bound - case.log_evidence).abs() < 1e-6, "{name}: {bound} is not {}", case.log_evidence);
        }
    }
}

/// Rows do not touch, and a batch is its rows.
#[test]
fn a_batch_is_its_rows() {
    let case = Case::new("", On::Skewed, Starts::default().broad.step(Hamiltonian::new(2)).step(Uha::new(1)));
    let (approximation, z) = (case.approximation(), exact(On::Skewed, 9, 1));
    let many = approximation.upper_bounds(&z, 2).unwrap();
    assert_eq!(many, approximation.upper_bounds(&z, 2).unwrap());
    for (one, other) in approximation.upper_bounds(&z[..4], 2).unwrap().iter().zip(&many) {
        assert!((one - other).abs() < 1e-9);
    }
}

#[test]
fn what_cannot_run_backwards_is_refused_by_name() {
    let z = exact(On::Tilted, 3, 1);
    let error = |chain: Chain| {
        let approximation = Approximation::new(Tilted, chain).unwrap();
        approximation.upper_bounds(&z, 1).unwrap_err().to_string()
    };
    let accepted = error(Starts::default().wide.step(MetropolisHastings::proposal(RandomWalk)));
    assert!(accepted.contains("Metropolis") && accepted.contains("not drawn from"), "{accepted}");
    let averaged = error(Starts::default().wide.step(Hamiltonian::new(1)).average_last(2));
    assert!(averaged.contains("mixture of iterates"), "{averaged}");
    let alone = Approximation::new(Tilted, Starts::default().wide).unwrap();
    assert!(alone.upper_bounds(&[vec![1.0]], 1).unwrap_err().to_string().contains("2 coordinates"));
    assert!(alone.upper_bounds(&[], 1).is_err());
}

/// Conjugate linear regression: y ~ N(Xβ, σ²), β ~ N(0, σ²), σ² inverse gamma; z = (β, log σ²).
struct Regression {
    x: DMatrix<f64>,
    y: DVector<f64>,
}

/// Shape and scale of the inverse gamma prior, and the number of observations.
const SHAPE: f64 = 3.0;
const SCALE: f64 = 2.0;
const ROWS: usize = 6;

/// Shape · log scale − log Γ(shape).
fn log_constant() -> f64 {
    SHAPE * SCALE.ln() - 2f64.ln()
}

impl Regression {
    /// y has a multivariate t distribution with the scale matrix I + XXᵀ, times scale/shape.
    fn log_evidence(&self) -> f64 {
        let n = ROWS as f64;
        let factor = (&self.x * self.x.transpose() + DMatrix::identity(ROWS, ROWS)).cholesky().unwrap();
        let log_det = factor.l().diagonal().iter().map(|d| d.ln()).sum::<f64>();
        let square = 0.5 * self.y.dot(&factor.solve(&self.y));
        // log Γ(3 + 6/2) = log 120.
        log_constant() + 120f64.ln() - (SHAPE + 0.5 * n) * (SCALE + square).ln() - log_det - 0.5 * n * TAU.ln()
    }
}

impl Target for Regression {
    fn dim(&self) -> usize {
        self.x.ncols() + 1
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let d = self.x.ncols();
        let x = Array::new([d, ROWS], self.x.as_slice().to_vec()).unwrap();
        let (beta, log_variance) = (z.slice(1, 0..d), z.at(1, d));
        let e = scope.vector(self.y.as_slice()) - beta.matmul(scope.graph().literal(x));
        let squares = (e.square().sum(&[1]) + beta.square().sum(&[1])) * 0.5 + SCALE;
        let n = (d + ROWS) as f64;
        -squares * (-log_variance).exp() - log_variance * (SHAPE + 0.5 * n) - 0.5 * n * TAU.ln() + log_constant()
    }
}

/// Averages of both bounds over simulated data sets bracket that of log p(x), and U is rarely far below it.
#[test]
fn averages_over_simulated_data_bracket_the_evidence() {
    let (sets, d) = (200, 3);
    let uha = Chain::new(Gaussian::diagonal())
        .whitened()
        .steps(4, Sharing::Nothing, Uha { initial_step_size: Some(0.5), ..Uha::new(1) })
        .annealed_learned();
    for chain in [Chain::new(Gaussian::full()).step(Hamiltonian::new(2)), uha] {
        let mut rng = StdRng::seed_from_u64(8);
        let (mut truths, mut lowers, mut uppers, mut singles) = (vec![], vec![], vec![], vec![]);
        for i in 0..sets {
            let x = DMatrix::from_fn(ROWS, d, |_, _| normal(&mut rng));
            let variance = SCALE / rng.sample(Gamma::new(SHAPE, 1.0).unwrap());
            let sd = variance.sqrt();
            let beta = DVector::from_fn(d, |_, _| sd * normal(&mut rng));
            let y = &x * &beta + DVector::from_fn(ROWS, |_, _| sd * normal(&mut rng));
            let z = beta.iter().copied().chain([variance.ln()]).collect();
            let model = Regression { x, y };
            truths.push(model.log_evidence());
            let approximation = Approximation::new(model, chain.clone()).unwrap();
            lowers.push(mean(&approximation.draw(200, i).unwrap().log_weights).value);
            let upper = approximation.upper_bounds(&vec![z; 200], i).unwrap();
            uppers.push(mean(&upper).value);
            singles.push(upper[0]);
        }
        let over = |f: &dyn Fn(usize) -> f64| mean(&(0..truths.len()).map(f).collect::<Vec<_>>());
        let (below, above) = (over(&|i| lowers[i] - truths[i]), over(&|i| uppers[i] - truths[i]));
        assert!(below.value <= 2.0 * below.se && above.value >= -2.0 * above.se, "{chain}: {below:?} {above:?}");
        // Narrow enough to say something, and not so narrow that there is nothing to see.
        let width = above.value - below.value;
        assert!((0.05..1.0).contains(&width), "{chain}: {width}");
        for b in [0.2, 0.5, 1.0, 2.0] {
            let share = over(&|i| f64::from(u8::from(singles[i] < truths[i] - b)));
            assert!(share.value <= (-b).exp(), "{chain}: U is {b} below log Z in {share:?}");
        }
    }
}

/// A mixture of chains is one more variable of the path, the indicator, which r(m|z) draws backwards.
#[test]
fn mixtures_of_chains_run_backwards() {
    let modes = [([-1.5, 0.0], 0.3f64), ([1.5, 0.5], 0.7)];
    let target: Arc<dyn Target> = Arc::new(mcvi::target(2, move |scope, z| {
        let part = |(center, weight): ([f64; 2], f64)| {
            ((z - scope.vector(&center)).square().sum(&[1]) * -0.5 + (weight.ln() - TAU.ln() + 2.0)).expand(1)
        };
        scope.graph().concat(&modes.map(part), 1).logsumexp(&[1])
    }));
    let part = |center: [f64; 2]| {
        let start = Initialisation::laplace(target.as_ref(), &Params::default(), Some(&center)).unwrap();
        Approximation::from(target.clone(), Chain::new(Gaussian::diagonal()).step(Uha::new(1)), start).unwrap()
    };
    let mixture = Mixture::new(modes.map(|(center, _)| part(center)).to_vec(), 1).unwrap();
    let mut rng = StdRng::seed_from_u64(2);
    let exact = (0..20_000).map(|_| {
        let ([a, b], _) = if rng.random_bool(0.3) { modes[0] } else { modes[1] };
        vec![a + normal(&mut rng), b + normal(&mut rng)]
    });
    let z: Vec<Vec<f64>> = exact.collect();
    let (upper, lower) = (mixture.upper_bounds(&z, 3).unwrap(), mixture.draw(20_000, 4).unwrap().log_weights);
    let there = mean(&lower.iter().map(|l| sigmoid(l - 2.0)).collect::<Vec<_>>());
    let back = mean(&upper.iter().map(|u| sigmoid(2.0 - u)).collect::<Vec<_>>());
    assert!((there.value - back.value).abs() < 4.5 * there.se.hypot(back.se), "{there:?} there, {back:?} back");
    let (lower, upper) = (mean(&lower), mean(&upper));
    assert!(lower.value < 2.0 && upper.value > 2.0 && upper.value - lower.value < 1.0, "{lower:?} {upper:?}");
    assert!(mixture.upper_bounds(&[vec![1.0]], 1).is_err());
}

/// On real data the reweighted draws stand for draws of the posterior: an estimate, here of a posterior of known evidence.
#[test]
fn reweighted_draws_give_an_upper_estimate() {
    let skewed = mcvi::target(2, |scope, z| common::Skewed.log_density(scope, z));
    let request = Request { chain: ChainChoice::None, ..Request::default() };
    let posterior = infer(skewed, &request).unwrap();
    let (lower, upper) = (posterior.diagnostics.bound, posterior.upper_estimate(10_000, 3).unwrap().unwrap());
    let log_evidence = common::Skewed::log_evidence();
    assert!(upper.value > log_evidence - 4.0 * upper.se, "{upper:?} is below {log_evidence}");
    assert!(upper.value - lower.value < 0.5 && upper.n == 10_000, "{lower:?} {upper:?}");
}
