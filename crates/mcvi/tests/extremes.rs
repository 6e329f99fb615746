//! Targets, scales and steps at the edges: no panic, an answer or a reason, and never a bound above log Z.

use mcvi::density::Gaussian;
use mcvi::diagnostics::Mean;
use mcvi::fit::{FitReport, Schedule, Settings};
use mcvi::transition::{Hamiltonian, Inverse, Langevin, MetropolisHastings, RandomWalk};
use mcvi::{Approximation, Chain, Diagnostics, Error, FromFn, Initialisation, Scope, Target, fit, target};
use mcvi_expr::{Array, DType, Expr};
use std::sync::Arc;

type Density = for<'g> fn(&Scope<'g>, Expr<'g>) -> Expr<'g>;

/// log √2π.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

/// Independent normals with these means and standard deviations, not normalised, and a constant added.
fn normal(mean: &[f64], sd: &[f64], offset: f64) -> (impl Target + 'static, f64) {
    let log_z = sd.iter().map(|s| s.ln() + HALF_LOG_TAU).sum::<f64>() + offset;
    let (mean, sd) = (mean.to_vec(), sd.to_vec());
    let made = target(mean.len(), move |scope: &Scope<'_>, z: Expr<'_>| {
        ((z - scope.vector(&mean)) / scope.vector(&sd)).square().sum(&[1]) * -0.5 + offset
    });
    (made, log_z)
}

fn quick() -> Settings {
    Settings { iterations: 300, schedule: Schedule::Cosine, ..Settings::default() }
}

fn judge(approximation: &Approximation) -> Diagnostics {
    approximation.draw(4000, 77).unwrap().diagnose()
}

#[track_caller]
fn assert_honest(bound: Mean, log_z: f64, what: &str) {
    assert!(!bound.value.is_nan(), "{what}: {bound:?}");
    let error = if bound.se.is_nan() { 0.0 } else { bound.se };
    assert!(bound.value <= log_z + 3.0 * error + 1e-9 * log_z.abs().max(1.0), "{what}: {bound:?} is above {log_z}");
}

/// The chains that every extreme is tried with.
fn chains() -> Vec<(&'static str, Chain)> {
    let langevin = Langevin::new(Inverse::learned(Gaussian::linear()));
    vec![
        ("diagonal", Chain::new(Gaussian::diagonal())),
        ("full", Chain::new(Gaussian::full())),
        ("Hamiltonian", Chain::hamiltonian(2)),
        ("Langevin", Chain::new(Gaussian::diagonal()).step(langevin)),
        ("Metropolis", Chain::new(Gaussian::diagonal()).step(MetropolisHastings::proposal(RandomWalk))),
    ]
}

/// Build and fit. What cannot be done must be said.
fn fitted(target: impl Target + 'static, chain: Chain) -> Result<(Approximation, FitReport), Error> {
    let mut approximation = Approximation::new(target, chain)?;
    let report = fit(&mut approximation, &quick())?;
    Ok((approximation, report))
}

#[track_caller]
fn assert_says_why(error: &Error) {
    let told = error.to_string();
    assert!(matches!(error, Error::Target { .. } | Error::Fit { .. } | Error::Setting { .. }), "{error:?}");
    assert!(told.len() > 30, "{told}");
}

#[test]
fn coordinates_of_any_scale_are_fitted_exactly() {
    let scales: [(&[f64], &[f64]); 5] = [
        (&[0.0, 0.0], &[1e6, 1e6]),
        (&[0.0, 0.0], &[1e-6, 1e-6]),
        (&[5e6, -3e-6], &[1e6, 1e-6]),
        (&[5.0, 1e3], &[1e-6, 1e-6]),
        (&[3e9], &[1e9]),
    ];
    for (mean, sd) in scales {
        for (name, chain) in chains() {
            let (target, log_z) = normal(mean, sd, 0.0);
            let mut approximation = Approximation::new(target, chain).unwrap();
            fit(&mut approximation, &Settings { iterations: 100, ..quick() }).unwrap();
            let judged = judge(&approximation);
            let what = format!("{name}, means {mean:?}, standard deviations {sd:?}");
            assert_honest(judged.bound, log_z, &what);
            assert!(judged.bound.value > log_z - 0.1, "{what}: {:?}, log Z {log_z}", judged.bound);
            let start = approximation.initialisation();
            assert_eq!(start.warning, None, "{what}");
            let near = start.center.iter().zip(mean).zip(sd).all(|((c, m), s)| (c - m).abs() < 1e-2 * s);
            assert!(near, "{what}: mode at {:?}", start.center);
        }
    }
}

#[test]
fn an_offset_of_the_log_density_changes_nothing_but_the_bound() {
    for offset in [1e6, -1e6] {
        for (name, chain) in chains() {
            let (target, log_z) = normal(&[2.0, -30.0], &[1.0, 5.0], offset);
            let (approximation, _) = fitted(target, chain).unwrap();
            let judged = judge(&approximation);
            let what = format!("{name}, offset {offset}");
            assert_honest(judged.bound, log_z, &what);
            assert!(judged.bound.value > log_z - 0.1, "{what}: {:?}, log Z {log_z}", judged.bound);
            let near =
                approximation.initialisation().center.iter().zip([2.0, -30.0]).all(|(c, m)| (c - m).abs() < 0.05);
            assert!(near, "{what}: mode at {:?}", approximation.initialisation().center);
        }
    }
}

#[test]
fn an_offset_does_not_hide_the_slope_towards_a_wide_mode() {
    let (target, _) = normal(&[5e6], &[1e6], 1e6);
    let start = Initialisation::laplace(&target, &mcvi::Params::default(), None).unwrap();
    assert!((start.center[0] - 5e6).abs() < 1e4 || start.warning.is_some(), "{start:?}");
}

#[test]
fn a_start_of_almost_no_width_is_left_again() {
    let start = Gaussian::fixed(&[-3.0, 4.0], &[1e-5, 1e-5]);
    let langevin = Langevin::new(Inverse::learned(Gaussian::linear()));
    let hamiltonian = Hamiltonian::new(3);
    for chain in [Chain::new(start.clone()).step(langevin), Chain::new(start.clone()).step(hamiltonian)] {
        let (target, log_z) = normal(&[0.0, 0.0], &[1.0, 2.0], 0.0);
        let (approximation, _) = fitted(target, chain).unwrap();
        let judged = judge(&approximation);
        assert_honest(judged.bound, log_z, "narrow");
        // Alone, it is at −13.5 + 23 nats below.
        assert!(judged.bound.value > log_z - 6.0, "{:?}", judged.bound);
    }
}

#[test]
fn steps_that_diverge_are_counted_and_never_raise_the_bound() {
    let quartic: Density = |_, z| z.square().square().sum(&[1]) * -0.25 - z.square().sum(&[1]) * 0.5;
    // ∫ exp(−z⁴/4 − z²/2) dz, by the trapezoid rule.
    let log_z = (-8000..8000).map(|i| f64::from(i) * 1e-3).map(|z| (-z.powi(4) / 4.0 - z * z / 2.0).exp() * 1e-3);
    let log_z = log_z.sum::<f64>().ln();
    let hamiltonian = || Hamiltonian::new(4);
    for (name, step) in [("learned", hamiltonian()), ("reversed", hamiltonian().inverse(Inverse::Reversed))] {
        for log_step in [1.0, 3.0, 10.0, 100.0, 700.0, 800.0] {
            let chain = Chain::new(Gaussian::diagonal()).step(step.clone());
            let mut approximation = Approximation::new(target(1, quartic), chain).unwrap();
            approximation.params_mut().set("step1.log_step", Array::new((), vec![log_step]).unwrap()).unwrap();
            let judged = judge(&approximation);
            let what = format!("{name}, log step {log_step}");
            assert_honest(judged.bound, log_z, &what);
            assert!(judged.bound.value < -100.0, "{what}: {:?}", judged.bound);
            assert!(log_step < 2.0 || judged.diverged > 3900, "{what}: {} diverged", judged.diverged);
            assert_eq!(judged.lost > 0, judged.bound.value == f64::NEG_INFINITY, "{what}");
            // A fit from there finds its way back, or says that it does not.
            match fit(&mut approximation, &quick()) {
                Ok(_) => assert_honest(judge(&approximation).bound, log_z, &what),
                Err(error) => assert_says_why(&error),
            }
        }
    }
    // Accept/reject steps stay where they are, and lose nothing.
    let step = MetropolisHastings::hamiltonian(hamiltonian());
    let chain = Chain::new(Gaussian::diagonal()).step(step);
    let mut approximation = Approximation::new(target(1, quartic), chain).unwrap();
    let before = judge(&approximation).bound.value;
    approximation.params_mut().set("step1.log_step", Array::new((), vec![100.0]).unwrap()).unwrap();
    let judged = judge(&approximation);
    assert_eq!((judged.accept[0], judged.lost), (Some(0.0), 0));
    assert!((judged.bound.value - before).abs() < 1e-9, "{:?}, {before}", judged.bound);
    assert!(judged.diverged > 3900, "{}", judged.diverged);
}

/// exp(−(z − 1)²/2) for z > 0 and nothing elsewhere.
fn half(elsewhere: f64) -> (FromFn<impl for<'g> Fn(&Scope<'g>, Expr<'g>) -> Expr<'g> + Send + Sync>, f64) {
    let made = target(1, move |_, z| z.at(1, 0).gt(0.0).select((z - 1.0).square().sum(&[1]) * -0.5, elsewhere));
    // log √2π Φ(1).
    (made, HALF_LOG_TAU + 0.841_344_746_068_543f64.ln())
}

#[test]
fn where_the_target_is_nothing_or_not_a_number_draws_have_no_weight() {
    for elsewhere in [f64::NEG_INFINITY, f64::NAN] {
        for (name, chain) in chains() {
            let what = format!("{name}, {elsewhere} on a half-space");
            let (target, log_z) = half(elsewhere);
            let start = Initialisation::new(&[1.0], &[1.0]).unwrap();
            let mut approximation = Approximation::from(Arc::new(target), chain, start).unwrap();
            let before = judge(&approximation);
            // A Gaussian reaches everywhere: the bound is −∞, and it is said how many draws are to blame.
            assert_eq!(before.bound.value, f64::NEG_INFINITY, "{what}: {:?}", before.bound);
            assert!(before.lost > 400, "{what}: {}", before.lost);
            assert!(
                before.log_evidence.value < log_z + 4.0 * before.log_evidence.se,
                "{what}: {:?}",
                before.log_evidence
            );
            match fit(&mut approximation, &quick()) {
                Ok(report) => {
                    assert_honest(judge(&approximation).bound, log_z, &what);
                    assert!(report.diverged > 0, "{what}: {report:?}");
                    // What an observer is shown is a bound as well.
                    for look in &report.trace {
                        assert!(
                            look.bound <= log_z + 5.0 * look.se.max(0.02),
                            "{what}: shown {} at {}",
                            look.bound,
                            look.iteration
                        );
                    }
                }
                Err(error) => assert_says_why(&error),
            }
        }
    }
}

#[test]
fn draws_far_from_an_edge_are_fitted_although_some_could_cross_it() {
    // Eight standard deviations away the edge is never met.
    let far: Density = |_, z| z.at(1, 0).gt(-8.0).select(z.square().sum(&[1]) * -0.5, f64::NEG_INFINITY);
    for (name, chain) in chains() {
        let (approximation, _) = fitted(target(1, far), chain).unwrap();
        let judged = judge(&approximation);
        assert_honest(judged.bound, HALF_LOG_TAU, name);
        assert!(judged.bound.value > HALF_LOG_TAU - 0.1, "{name}: {:?}", judged.bound);
    }
}

#[test]
fn a_target_that_is_nothing_everywhere_is_an_error() {
    let nothing: [(&str, Density); 3] = [
        ("−∞", |_, z| z.sum(&[1]) * 0.0 + f64::NEG_INFINITY),
        ("NaN", |_, z| z.sum(&[1]) * f64::NAN),
        ("+∞", |_, z| z.sum(&[1]) * 0.0 + f64::INFINITY),
    ];
    for (what, density) in nothing {
        for (name, chain) in chains() {
            let error = Approximation::new(target(2, density), chain.clone()).err().unwrap();
            assert!(matches!(&error, Error::Target { why } if why.contains("finite")), "{what}, {name}: {error}");
            // The same where no mode was looked for.
            let made = Approximation::from(Arc::new(target(2, density)), chain, Initialisation::standard(2));
            match made.and_then(|mut approximation| fit(&mut approximation, &quick())) {
                Ok(report) => panic!("{what}, {name}: {report:?}"),
                Err(error) => assert_says_why(&error),
            }
        }
    }
}

#[test]
fn a_target_without_a_mode_is_fitted_or_said_to_be_improper() {
    let improper: [(&str, Density); 5] = [
        ("rising", |_, z| z.sum(&[1])),
        ("rising faster", |_, z| z.square().sum(&[1])),
        ("constant", |_, z| z.sum(&[1]) * 0.0),
        ("constant in one direction", |_, z| z.at(1, 0).square() * -0.5),
        ("exponential", |_, z| z.sum(&[1]).exp()),
    ];
    for (what, density) in improper {
        for (name, chain) in chains() {
            match Approximation::new(target(2, density), chain) {
                Ok(mut approximation) => {
                    assert!(approximation.initialisation().warning.is_some(), "{what}, {name}");
                    let usable = approximation.initialisation().covariance().iter().all(|c| c.is_finite());
                    assert!(usable, "{what}, {name}: {:?}", approximation.initialisation());
                    // A chain can spread for ever where nothing holds it: its gradient will do.
                    let endless = name == "Hamiltonian" && what.starts_with("constant");
                    let tried = match endless {
                        true => approximation.gradient(10, 1).map(|_| ()),
                        false => fit(&mut approximation, &quick()).map(|_| ()),
                    };
                    if let Err(error) = tried {
                        assert_says_why(&error);
                    }
                }
                Err(error) => assert_says_why(&error),
            }
        }
    }
}

#[test]
fn a_mode_without_curvature_is_a_start_all_the_same() {
    // exp(−z⁴): Z = 2 Γ(5/4) = 1.8128. A uniform on (−1, 1): Z = 2, where a Gaussian has draws without weight.
    let quartic: Density = |_, z| z.square().square().sum(&[1]) * -1.0;
    let log_z = 1.812_804_954_110_954f64.ln();
    for (name, chain) in chains() {
        let (approximation, _) = fitted(target(1, quartic), chain).unwrap();
        let start = approximation.initialisation();
        assert!(start.covariance()[0].is_finite() && start.covariance()[0] > 0.0, "{name}: {start:?}");
        let judged = judge(&approximation);
        assert_honest(judged.bound, log_z, name);
        assert!(judged.bound.value > log_z - 0.5, "{name}: {:?}", judged.bound);
    }
    let uniform: Density = |_, z| z.abs().lt(1.0).select(z * 0.0, f64::NEG_INFINITY).sum(&[1]);
    for (name, chain) in chains() {
        match fitted(target(1, uniform), chain) {
            Ok((approximation, _)) => assert_honest(judge(&approximation).bound, 2f64.ln(), name),
            Err(error) => assert_says_why(&error),
        }
    }
}

#[test]
fn a_density_of_the_wrong_shape_is_an_error_with_both_shapes() {
    let wrong: [(&str, Density); 4] = [
        ("[1, 3]", |_, z| z.square() * -0.5),
        ("[]", |_, z| z.square().sum_all() * -0.5),
        ("[3]", |_, z| z.square().sum(&[0]) * -0.5),
        ("[1, 1]", |_, z| z.square().sum(&[1]).expand(1)),
    ];
    for (shape, density) in wrong {
        let error = Approximation::new(target(3, density), Chain::hamiltonian(1)).err().unwrap();
        let told = error.to_string();
        assert!(matches!(error, Error::Target { .. }), "{told}");
        assert!(told.contains(shape) && told.contains("[1, 3]"), "{shape}: {told}");
        let start = Initialisation::standard(3);
        assert!(Approximation::from(Arc::new(target(3, density)), Chain::hamiltonian(1), start).is_err());
    }
    // A mistake inside the expression.
    let inside: Density = |scope, z| (z * scope.vector(&[1.0, 2.0])).sum(&[1]);
    let error = Approximation::new(target(3, inside), Chain::hamiltonian(1)).err().unwrap();
    assert!(error.to_string().contains("[1, 3]") && error.to_string().contains("[2]"), "{error}");
    // No coordinates at all.
    let none: Density = |_, z| z.sum(&[1]);
    assert!(matches!(Approximation::new(target(0, none), Chain::hamiltonian(1)), Err(Error::Target { .. })));
    assert!(
        Approximation::from(Arc::new(target(0, none)), Chain::hamiltonian(1), Initialisation::standard(0)).is_err()
    );
}

#[test]
fn starts_that_make_no_sense_are_errors() {
    for (center, sd) in
        [(vec![], vec![]), (vec![0.0], vec![0.0]), (vec![f64::NAN], vec![1.0]), (vec![0.0], vec![1.0, 1.0])]
    {
        let error = Initialisation::new(&center, &sd).unwrap_err();
        assert!(matches!(error, Error::Setting { what: "initialisation", .. }), "{error}");
    }
    let made = |start| Approximation::from(Arc::new(normal(&[0.0], &[1.0], 0.0).0), Chain::hamiltonian(1), start);
    let error = made(Initialisation::standard(2)).err().unwrap();
    assert!(error.to_string().contains('2') && error.to_string().contains('1'), "{error}");
    for sd in [vec![0.0], vec![f64::NAN], vec![1.0, 1.0]] {
        let chain = Chain::new(Gaussian::fixed(&vec![0.0; sd.len()], &sd));
        let error = Approximation::new(normal(&[0.0], &[1.0], 0.0).0, chain).err().unwrap();
        assert!(error.to_string().contains("standard deviations"), "{error}");
    }
    let error =
        Approximation::new(normal(&[0.0], &[1.0], 0.0).0, Chain::new(Gaussian::fixed(&[f64::NAN], &[1.0]))).err();
    assert!(error.is_some_and(|e| e.to_string().contains("means")), "a mean that is not a number");
}

#[test]
fn one_dimension_and_thirty_are_alike() {
    for (name, chain) in chains() {
        for d in [1, 30] {
            let sd: Vec<f64> = (0..d).map(|i| 10f64.powf(i as f64 / 10.0)).collect();
            let (target, log_z) = normal(&vec![1.0; d], &sd, 0.0);
            let (approximation, _) = fitted(target, chain.clone()).unwrap();
            let judged = judge(&approximation);
            let what = format!("{name}, {d} dimensions");
            assert_honest(judged.bound, log_z, &what);
            assert!(judged.bound.value > log_z - 0.1 * d as f64, "{what}: {:?}, log Z {log_z}", judged.bound);
        }
    }
}

/// A normal about (3, −300) with standard deviations (0.1, 50), computed in single precision.
struct Single;

impl Target for Single {
    fn dim(&self) -> usize {
        2
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        ((z - scope.vector(&[3.0, -300.0])) / scope.vector(&[0.1, 50.0])).square().sum(&[1]) * -0.5
    }
    fn dtype(&self) -> DType {
        DType::F32
    }
}

#[test]
fn single_precision_is_enough_for_a_plain_target() {
    let log_z = 2.0 * HALF_LOG_TAU + 5f64.ln();
    for (name, chain) in chains() {
        let (approximation, report) = fitted(Single, chain).unwrap();
        assert_eq!((report.diverged, report.skipped), (0, 0), "{name}");
        let judged = judge(&approximation);
        assert!((judged.bound.value - log_z).abs() < 0.1, "{name}: {:?}, log Z {log_z}", judged.bound);
    }
}
