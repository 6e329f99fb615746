//! Objectives: their gradients against finite differences, exact values and each other; what is reported; mistakes.

mod common;

use common::{Skewed, Tilted};
use mcvi::density::Gaussian;
use mcvi::diagnostics::mean;
use mcvi::fit::{Objective, Schedule, Settings, fit};
use mcvi::transition::{AnyTransition, Gibbs, Hamiltonian, Inverse, Langevin, Uha};
use mcvi::{Approximation, Chain, Choices, Error, Initialisation, Scope, Sharing, Target};
use mcvi_expr::{Array, Expr};

fn chain(steps: usize, transition: impl Into<AnyTransition>) -> Chain {
    Chain::new(Gaussian::diagonal()).steps(steps, Sharing::Nothing, transition.into())
}

fn langevin() -> Langevin {
    Langevin::new(Inverse::Reversed)
}

/// Each element's mean gradient with its standard error, by name.
fn gradients(of: &Approximation, objective: Objective, samples: usize, seed: u64) -> Vec<(String, Vec<(f64, f64)>)> {
    let spread = of.gradient_spread(objective, 16, samples, seed).unwrap();
    let n = samples as f64;
    let both =
        |s: mcvi::GradientSpread| (s.name, s.mean.iter().zip(&s.variance).map(|(m, v)| (*m, (v / n).sqrt())).collect());
    spread.into_iter().map(both).collect()
}

/// The parameters away from where they start, so that no gradient is zero by chance.
fn moved(target: impl Target + 'static, chain: Chain) -> Approximation {
    let mut moved = Approximation::new(target, chain).unwrap();
    let names: Vec<String> =
        moved.params().iter().filter(|(_, p)| p.learned).map(|(name, _)| name.to_owned()).collect();
    for (i, name) in names.iter().enumerate() {
        shift(&mut moved, name, 0, 0.15 + 0.02 * i as f64);
    }
    moved
}

fn shift(approximation: &mut Approximation, name: &str, element: usize, by: f64) {
    let value = approximation.params().get(name).unwrap().value.clone();
    let mut values = value.to_f64();
    values[element] += by;
    approximation.params_mut().set(name, Array::new(value.shape().clone(), values).unwrap()).unwrap();
}

/// The derivative of a function of the bounds of 1000 draws, in units of the parameter's scale, with the same noise.
fn difference(of: &Approximation, name: &str, element: usize, seed: u64, value: impl Fn(&[f64]) -> f64) -> f64 {
    let scale = of.params().get(name).unwrap().scale[element];
    let at = |by: f64| {
        let mut there = of.clone();
        shift(&mut there, name, element, by * scale);
        value(&there.bounds(1000, Choices::Average, seed).unwrap())
    };
    (at(1e-5) - at(-1e-5)) / 2e-5
}

fn variance(bounds: &[f64]) -> f64 {
    let n = bounds.len() as f64;
    let center = bounds.iter().sum::<f64>() / n;
    bounds.iter().map(|b| (b - center).powi(2)).sum::<f64>() / (n - 1.0)
}

/// The mean over groups of k draws of the log of the mean of their weights.
fn importance_weighted(bounds: &[f64], k: usize) -> Vec<f64> {
    let value = |group: &[f64]| {
        let top = group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        top + (group.iter().map(|b| (b - top).exp()).sum::<f64>() / k as f64).ln()
    };
    bounds.chunks(k).map(value).collect()
}

/// With the same noise the gradient is the derivative of the value.
#[test]
fn the_importance_weighted_gradient_is_the_derivative_of_its_bound() {
    for kernel in [Uha::new(1).into(), AnyTransition::from(langevin())] {
        let model = moved(Skewed, chain(2, kernel).annealed_learned());
        for s in model.gradient_spread(Objective::ImportanceWeighted(5), 1000, 1, 3).unwrap() {
            for (i, g) in s.mean.iter().enumerate() {
                let value = |bounds: &[f64]| mean(&importance_weighted(bounds, 5)).value;
                let d = difference(&model, &s.name, i, 3, value);
                assert!((d - g).abs() < 1e-6 * (1.0 + d.abs()), "{}[{i}]: {g}, by differences {d}", s.name);
            }
        }
    }
}

/// What a fit reports is the mean over groups, a bound that is tighter than that of single draws.
#[test]
fn the_importance_weighted_bound_is_reported_and_compared() {
    let settings = Settings { iterations: 1500, ..Settings::default() };
    let fitted = |objective| {
        let mut model = Approximation::new(Skewed, chain(1, Uha::new(1)).annealed_learned()).unwrap();
        let report = fit(&mut model, &Settings { objective, ..settings.clone() }).unwrap();
        (report, model.draw(80_000, 9).unwrap().log_weights)
    };
    let (plain, plain_draws) = fitted(Objective::Bound);
    let (one, one_draws) = fitted(Objective::ImportanceWeighted(1));
    assert_eq!((plain.trace.len(), plain_draws), (one.trace.len(), one_draws.clone()));
    let (report, draws) = fitted(Objective::ImportanceWeighted(8));
    let (tight, loose) = (mean(&importance_weighted(&draws, 8)), mean(&draws));
    let last = report.trace.last().unwrap();
    assert!(
        (last.bound - tight.value).abs() < 4.0 * (last.se.powi(2) + tight.se.powi(2)).sqrt() + 5e-3,
        "{last:?} {tight:?}"
    );
    assert!(tight.value > loose.value + 4.0 * loose.se);
    assert!(tight.value < Skewed::log_evidence() + 4.0 * tight.se);
    let of_plain = mean(&importance_weighted(&one_draws, 8));
    assert!(tight.value > of_plain.value - 4.0 * (tight.se + of_plain.se) - 2e-3, "{tight:?} {of_plain:?}");
}

/// Without the scores, the gradient is in expectation the same.
#[test]
fn sticking_the_landing_is_unbiased() {
    let annealed = |kernel: AnyTransition| chain(2, kernel).whitened().annealed_learned();
    let full = Chain::new(Gaussian::full()).step(Uha::new(1));
    let learned = Langevin::new(Inverse::learned(Gaussian::linear()));
    let chains = [
        annealed(Uha::new(1).into()),
        annealed(langevin().into()),
        full,
        chain(2, learned),
        chain(2, Hamiltonian::new(2)),
    ];
    for chain in chains {
        let model = moved(Skewed, chain.clone());
        let plain = gradients(&model, Objective::Bound, 20_000, 1);
        let other = gradients(&model, Objective::StickingTheLanding, 20_000, 2);
        assert_same(&plain, &other, |_| true, &chain);
    }
}

type Named = Vec<(String, Vec<(f64, f64)>)>;

fn assert_same(a: &Named, b: &Named, which: impl Fn(&str) -> bool, chain: &Chain) {
    let mut compared = 0;
    for ((name, a), (_, b)) in a.iter().zip(b).filter(|(a, _)| which(&a.0)) {
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let se = a.1.hypot(b.1);
            assert!((a.0 - b.0).abs() < 4.5 * se + 1e-9, "{chain}, {name}[{i}]: {a:?} and {b:?}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "{chain}");
}

/// Whether a parameter is one of q alone.
type OfQ = fn(&str) -> bool;

/// Parameters of q alone have the bound's gradient (Richter et al. 2020). Those of the inverse path alone do not change draws: theirs
/// is the derivative of the variance with the same noise. The share of the momentum that is kept does not matter to a given path.
#[test]
fn the_log_variance_gradient_is_that_of_the_bound_for_q() {
    let learned = Langevin::new(Inverse::learned(Gaussian::linear()));
    let cases: [(Chain, OfQ); 4] = [
        (Chain::new(Gaussian::full()), |_| true),
        (chain(1, Uha::new(2)), |name| name.starts_with("q0.")),
        (chain(1, learned), |name| !name.contains(".r.")),
        (chain(1, Hamiltonian::new(2)), |name| name.starts_with("q0.") || name.contains(".momentum.")),
    ];
    for (chain, of_q) in cases {
        let model = moved(Skewed, chain.clone());
        let plain = gradients(&model, Objective::Bound, 20_000, 1);
        let other = gradients(&model, Objective::LogVariance, 20_000, 2);
        assert_same(&plain, &other, of_q, &chain);
        for s in model.gradient_spread(Objective::LogVariance, 1000, 1, 3).unwrap().iter().filter(|s| !of_q(&s.name)) {
            for (i, g) in s.mean.iter().enumerate() {
                let kept = s.name.ends_with("logit_keep");
                let d = if kept { 0.0 } else { difference(&model, &s.name, i, 3, |b| -0.5 * variance(b)) };
                assert!((d - g).abs() < 1e-5 * (1.0 + d.abs()), "{chain}, {}[{i}]: {g}, by differences {d}", s.name);
            }
        }
    }
}

/// A standard normal in one dimension: paths are Gaussian and L is quadratic in them.
#[derive(Clone, Copy, Debug)]
struct Standard;

impl Target for Standard {
    fn dim(&self) -> usize {
        1
    }

    fn log_density<'g>(&self, _: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        z.square().sum(&[1]) * -0.5
    }
}

/// log N(x; m, s²) without 2π, which cancels.
fn normal(x: f64, m: f64, s: f64) -> f64 {
    -0.5 * ((x - m) / s).powi(2) - s.ln()
}

/// A path from noise, and L of a path, both from parameters: log_sd of q₀, then two numbers or three a step.
type Paths = (fn(&[f64], &[f64]) -> Vec<f64>, fn(&[f64], &[f64]) -> f64);

fn leapfrog(z: f64, v: f64, p: &[f64]) -> (f64, f64) {
    let (scale, eps) = (p[0].exp(), p[1].exp());
    let v = v - eps * 0.5 * scale * z;
    let z = z + eps * scale * v;
    (z, v - eps * 0.5 * scale * z)
}

fn keep(p: &[f64]) -> (f64, f64) {
    let keep = 1.0 / (1.0 + (-p[2]).exp());
    (keep, (1.0 - keep * keep).sqrt())
}

/// Paths (z₀, v₀, v′₁, v′₂, …) of UHA.
const UHA: Paths = (
    |e, p| {
        let (mut z, mut v) = (p[0].exp() * e[0], e[1]);
        let mut path = vec![z, v];
        for (e, p) in e[2..].iter().zip(p[1..].chunks(3)) {
            path.push(keep(p).0 * v + keep(p).1 * e);
            (z, v) = leapfrog(z, path[path.len() - 1], p);
        }
        path
    },
    |path, p| {
        let (mut z, mut v) = (path[0], path[1]);
        let mut ratio = -normal(z, 0.0, p[0].exp()) - normal(v, 0.0, 1.0);
        for (drawn, p) in path[2..].iter().zip(p[1..].chunks(3)) {
            let (keep, sd) = keep(p);
            ratio += normal(v, keep * drawn, sd) - normal(*drawn, keep * v, sd);
            (z, v) = leapfrog(z, *drawn, p);
        }
        ratio + normal(z, 0.0, 1.0) + normal(v, 0.0, 1.0)
    },
);

/// Paths (z₀, z₁, …) of Langevin dynamics.
const LANGEVIN: Paths = (
    |e, p| {
        let mut path = vec![p[0].exp() * e[0]];
        for (e, log_sd) in e[1..].iter().zip(&p[1..]) {
            let (z, sd) = (path[path.len() - 1], log_sd.exp());
            path.push(z - 0.5 * sd * sd * z + sd * e);
        }
        path
    },
    |path, p| {
        let steps = path.windows(2).zip(&p[1..]).map(|(z, log_sd)| {
            let sd = log_sd.exp();
            let to = |z: f64| z - 0.5 * sd * sd * z;
            normal(z[0], to(z[1]), sd) - normal(z[1], to(z[0]), sd)
        });
        steps.sum::<f64>() - normal(path[0], 0.0, p[0].exp()) + normal(path[path.len() - 1], 0.0, 1.0)
    },
);

/// −½ ∂Var L for paths of q at these parameters, exactly: Var xᵀAx = 2 tr (AΣ)².
fn exact((draw, log_weight): Paths, noise: usize, params: &[f64], j: usize) -> f64 {
    let unit = |i: usize| (0..noise).map(|k| f64::from(k == i)).collect::<Vec<f64>>();
    let columns: Vec<Vec<f64>> = (0..noise).map(|i| draw(&unit(i), params)).collect();
    let half_variance = |p: &[f64]| {
        // In terms of noise: A of the form, by its values at unit vectors and their sums.
        let form = |a: &[f64], b: &[f64]| {
            let sum: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
            let zero = log_weight(&vec![0.0; noise], p);
            0.5 * (log_weight(&sum, p) - log_weight(a, p) - log_weight(b, p) + zero)
        };
        columns.iter().flat_map(|a| columns.iter().map(move |b| form(a, b).powi(2))).sum::<f64>()
    };
    let at = |by: f64| {
        let mut p = params.to_vec();
        p[j] += by;
        half_variance(&p)
    };
    -(at(1e-5) - at(-1e-5)) / 2e-5
}

/// Where parameters change both what is drawn and its inverse, against the exact expectation; many steps run as a loop.
#[test]
fn the_log_variance_gradient_is_exact_in_expectation() {
    type Kernel<'a> = (AnyTransition, Paths, &'a [&'a str], usize);
    let uha: Kernel<'_> = (Uha::new(1).into(), UHA, &["log_scale", "log_step", "logit_keep"], 2);
    let overdamped: Kernel<'_> = (langevin().into(), LANGEVIN, &["log_sd"], 1);
    for ((kernel, paths, names, first), steps, samples) in
        [(&uha, 3, 40_000), (&overdamped, 3, 40_000), (&uha, 45, 4000), (&overdamped, 45, 4000)]
    {
        let chain = chain(steps, kernel.clone());
        let mut model = Approximation::new(Standard, chain.clone()).unwrap();
        let own = (1..=steps).flat_map(|t| names.iter().map(move |name| format!("step{t}.{name}")));
        let names: Vec<String> = std::iter::once("q0.log_sd".to_owned()).chain(own).collect();
        for (i, name) in names.iter().enumerate() {
            shift(&mut model, name, 0, 0.25 - 0.03 * (i % 9) as f64);
        }
        let params: Vec<f64> = names.iter().map(|name| model.params().values(name).unwrap()[0]).collect();
        let found = gradients(&model, Objective::LogVariance, samples, 5);
        for (j, name) in names.iter().enumerate() {
            let (g, se) = found.iter().find(|(n, _)| n == name).unwrap().1[0];
            let expected = exact(*paths, first + steps, &params, j) * model.params().get(name).unwrap().scale[0];
            assert!((g - expected).abs() < 4.5 * se + 1e-6, "{chain}, {name}: {g} ± {se}, exactly {expected}");
        }
    }
}

/// Where q is exact, every sample of these gradients is zero; the plain one fluctuates.
#[test]
fn gradients_vanish_where_q_is_exact() {
    let model = Approximation::new(Tilted, Chain::new(Gaussian::full())).unwrap();
    let total = |objective| -> f64 {
        let spread = model.gradient_spread(objective, 4, 200, 1).unwrap();
        spread.iter().flat_map(|s| s.variance.iter().zip(&s.mean).map(|(v, m)| v + m * m)).sum()
    };
    assert!(total(Objective::Bound) > 0.1);
    assert!(total(Objective::StickingTheLanding) < 1e-10);
    assert!(total(Objective::LogVariance) < 1e-10);
}

/// In coordinates in which there is one optimum, each ends at the bound that the plain one reaches. All report bounds.
#[test]
fn fits_agree() {
    let fitted = |objective, chain: &Chain| {
        let mut model = Approximation::new(Skewed, chain.clone()).unwrap();
        let settings = Settings { objective, iterations: 5000, ..Settings::default() };
        let report = fit(&mut model, &settings).unwrap();
        let last = report.trace.last().unwrap();
        assert!(last.bound < Skewed::log_evidence() + 4.0 * last.se, "{objective:?}: {last:?}");
        model.draw(20_000, 9).unwrap().log_weights
    };
    for chain in [chain(2, Uha::new(1)).whitened().annealed_learned(), Chain::new(Gaussian::full())] {
        let plain = fitted(Objective::Bound, &chain);
        for objective in [Objective::StickingTheLanding, Objective::LogVariance] {
            let differences: Vec<f64> = fitted(objective, &chain).iter().zip(&plain).map(|(a, b)| a - b).collect();
            let gain = mean(&differences);
            assert!(gain.value > -4.0 * gain.se - 2e-3, "{chain}, {objective:?}: {gain:?}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    let fails = |chain: Chain, objective, draws| {
        let mut model = Approximation::new(Tilted, chain).unwrap();
        fit(&mut model, &Settings { objective, draws, iterations: 10, ..Settings::default() }).unwrap_err()
    };
    let gaussian = || Chain::new(Gaussian::diagonal());
    for (k, draws) in [(3, 16), (0, 16), (32, 16)] {
        let error = fails(gaussian(), Objective::ImportanceWeighted(k), draws);
        assert!(matches!(error, Error::Setting { .. }), "{error}");
    }
    let error = fails(gaussian().step(Uha::new(1)).step(Gibbs::new(Inverse::Reversed)), Objective::LogVariance, 16);
    let text = error.to_string();
    assert!(matches!(error, Error::Step { step: 2, .. }) && text.contains("Gibbs") && text.contains("UHA"), "{text}");
    assert!(matches!(fails(gaussian(), Objective::LogVariance, 1), Error::Setting { .. }));
    let averaged = gaussian().step(Uha::new(1)).average_last(2);
    assert!(matches!(fails(averaged, Objective::LogVariance, 16), Error::Setting { what: "objective", .. }));
}

/// The table of docs/evidence.md: `cargo test --release -p mcvi --test objectives -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement of minutes"]
fn variances_of_gradients() {
    let objectives =
        [Objective::Bound, Objective::StickingTheLanding, Objective::LogVariance, Objective::ImportanceWeighted(4)];
    let settings = Settings::default();
    for name in ["seeds", "funnel"] {
        let model = mcvi::evidence::target(name).unwrap().model(None).unwrap();
        let mut start = Approximation::new(model, Chain::new(Gaussian::full())).unwrap();
        fit(&mut start, &settings).unwrap();
        let moments = Initialisation::moments(&start.draw(20_000, 2).unwrap().z);
        let uha = chain(8, Uha::new(1)).whitened().annealed_learned();
        let begin = start.restarted(uha, moments).unwrap();
        let total = |of: &Approximation, objective| -> (f64, f64) {
            let spread = of.gradient_spread(objective, 16, 2000, 7).unwrap();
            let sum = |which: &dyn Fn(&str) -> bool| {
                spread.iter().filter(|s| which(&s.name)).flat_map(|s| &s.variance).sum::<f64>()
            };
            (sum(&|_| true), sum(&|name| name.starts_with("q0.")))
        };
        let mut fitted = begin.clone();
        fit(&mut fitted, &settings).unwrap();
        let plain = [&begin, &fitted].map(|of| total(of, Objective::Bound));
        for objective in objectives {
            let ratio = [&begin, &fitted].map(|of| total(of, objective));
            let mut own = begin.clone();
            let limited =
                Settings { objective, iterations: 10_000, schedule: Schedule::Cosine, rate: 0.01, ..settings.clone() };
            let report = fit(&mut own, &limited).unwrap();
            let draws = own.draw(100_000, 11).unwrap();
            let (weighted, draws) = (mean(&importance_weighted(&draws.log_weights, 4)), draws.diagnose());
            println!(
                "{name} {objective:?}: start {:.3} (q0 {:.3}), fitted {:.3} (q0 {:.3}); own fit {:.3} ± {:.3}, of 4 draws {:.3} ± {:.3}, k̂ {:.2}, {:.0} s",
                ratio[0].0 / plain[0].0,
                ratio[0].1 / plain[0].1,
                ratio[1].0 / plain[1].0,
                ratio[1].1 / plain[1].1,
                draws.bound.value,
                draws.bound.se,
                weighted.value,
                weighted.se,
                draws.pareto_k,
                report.seconds
            );
        }
    }
}
