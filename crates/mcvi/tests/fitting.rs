//! Fitting, saving and loading: the same every time, better than before, and clear about what is wrong.

use mcvi::density::Gaussian;
use mcvi::fit::{FitReport, Optimiser, Schedule, Settings, StopReason, TracePoint, Training};
use mcvi::transition::{Hamiltonian, Inverse, MetropolisHastings, RandomWalk};
use mcvi::{Approximation, Chain, Error, FromFn, Initialisation, Scope, fit, fit_observed, target};
use mcvi_expr::{Array, Expr};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

type Density = for<'g> fn(&Scope<'g>, Expr<'g>) -> Expr<'g>;

/// log 2π.
const LOG_Z: f64 = 1.837_877_066_409_345_3;

/// A standard normal about (3, −1), not normalised.
fn shifted() -> FromFn<Density> {
    target(2, |scope, z| (z - scope.vector(&[3.0, -1.0])).square().sum(&[1]) * -0.5)
}

/// A Gaussian about the origin with half the width, to be fitted by gradients alone.
fn off_target() -> Approximation {
    let start = Initialisation::new(&[2.0, 0.0], &[0.5, 0.5]).unwrap();
    Approximation::from(Arc::new(shifted()), Chain::new(Gaussian::diagonal()), start).unwrap()
}

fn bound(approximation: &Approximation) -> f64 {
    approximation.draw(4000, 12).unwrap().diagnose().bound.value
}

/// A folder for this test alone, empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcvi-fitting-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_same_seed_gives_the_same_fit_on_any_number_of_threads() {
    let chains = [
        Chain::hamiltonian(2),
        Chain::new(Gaussian::full()).step(MetropolisHastings::proposal(RandomWalk)).average_last(2),
    ];
    for chain in chains {
        let run = |seed, threads| {
            let approximation = Approximation::new(shifted(), chain.clone()).unwrap();
            let mut approximation = approximation.on(mcvi::Hardware::with_threads(threads));
            let settings = Settings { iterations: 300, draws: 40, seed, ..Settings::default() };
            let report = fit(&mut approximation, &settings).unwrap();
            let bounds: Vec<f64> = report.trace.iter().map(|l| l.bound).collect();
            (approximation.params().clone(), bounds, approximation.draw(2500, 3).unwrap())
        };
        let one = run(5, 1);
        // Bit for bit.
        assert_eq!(one, run(5, 1));
        assert_eq!(one, run(5, 2));
        assert_ne!(one.1, run(6, 1).1);
        assert!(one.1.len() >= 6);
    }
}

#[test]
fn draws_follow_from_their_seed_and_begin_alike() {
    let approximation = Approximation::new(shifted(), Chain::hamiltonian(2)).unwrap();
    let draws = approximation.draw(1500, 7).unwrap();
    assert_eq!(draws, approximation.draw(1500, 7).unwrap());
    assert_ne!(draws.z, approximation.draw(1500, 8).unwrap().z);
    // More draws of the same seed begin with the same ones, and none is repeated.
    assert_eq!(draws.z[..1000], approximation.draw(2000, 7).unwrap().z[..1000]);
    assert_ne!(draws.z[0], draws.z[1000]);
    assert!(matches!(approximation.draw(0, 1), Err(Error::Setting { what: "draws", .. })));
    assert!(matches!(approximation.gradient(0, 1), Err(Error::Setting { what: "draws", .. })));
    let regressed = approximation.clone().regress_inverses(0, 1);
    assert!(matches!(regressed, Err(Error::Setting { what: "draws", .. })));
}

#[test]
fn every_optimiser_and_every_schedule_improves_the_bound() {
    let before = bound(&off_target());
    let optimisers = [
        (Optimiser::default(), 0.03),
        (Optimiser::Sgd { momentum: 0.0 }, 0.03),
        (Optimiser::Sgd { momentum: 0.9 }, 0.01),
        (Optimiser::RmsProp { decay: 0.9 }, 0.03),
        (Optimiser::AdaGrad, 0.3),
    ];
    let schedules = [Schedule::Automatic, Schedule::Constant, Schedule::Cosine, Schedule::Halving(300)];
    for (optimiser, rate) in optimisers {
        for schedule in schedules {
            let mut approximation = off_target();
            let settings = Settings { optimiser, rate, schedule, iterations: 1000, ..Settings::default() };
            let report = fit(&mut approximation, &settings).unwrap();
            let after = bound(&approximation);
            assert!(after > before + 0.5, "{optimiser:?}, {schedule:?}: {after} after {before}");
            assert!(after > LOG_Z - 0.05 && after < LOG_Z + 1e-9, "{optimiser:?}, {schedule:?}: {after}");
            assert!((report.iterations, report.diverged, report.skipped, report.rescues) <= (1000, 0, 0, 0));
            let rates: Vec<f64> = report.trace.iter().map(|l| l.rate).collect();
            let rises = rates.windows(2).filter(|w| w[1] > w[0]).count();
            assert_eq!(rises, usize::from(schedule == Schedule::Automatic), "{schedule:?}: {rates:?}");
            let (first, last) = (&report.trace[0], &report.trace[report.trace.len() - 1]);
            match schedule {
                Schedule::Constant => assert_eq!(first.rate, last.rate),
                Schedule::Cosine => assert!(last.rate < 1e-4 * rate, "{}", last.rate),
                Schedule::Halving(every) => {
                    let expected = rate * 0.5f64.powf((last.iteration - 1) as f64 / every as f64);
                    assert!((last.rate - expected).abs() < 1e-9 * rate, "{} is not {expected}", last.rate);
                }
                // Two rounds: the first ends at a rate of zero.
                Schedule::Automatic => assert!(report.trace[9].rate < 1e-4 * rate, "{rates:?}"),
            }
        }
    }
}

#[test]
fn an_automatic_fit_ends_by_itself_at_the_best_bound() {
    let mut approximation = off_target();
    let report = fit(&mut approximation, &Settings::default()).unwrap();
    assert_eq!(report.stop_reason, StopReason::Converged);
    assert!(report.iterations < 20_000, "{}", report.iterations);
    let after = bound(&approximation);
    assert!((after - LOG_Z).abs() < 1e-3, "{after}");
    let mean = approximation.params().values("q0.bias").unwrap();
    assert!((mean[0] - 3.0).abs() < 0.05 && (mean[1] + 1.0).abs() < 0.05, "{mean:?}");
}

#[test]
fn a_fit_never_returns_worse_than_it_was_given() {
    // Rates that throw the parameters about: what is kept is the best place met.
    let exact = || Approximation::new(shifted(), Chain::new(Gaussian::diagonal())).unwrap();
    for rate in [0.3, 3.0, 30.0] {
        for schedule in [Schedule::Constant, Schedule::Automatic] {
            let mut approximation = exact();
            let settings = Settings { rate, schedule, iterations: 300, ..Settings::default() };
            if let Ok(report) = fit(&mut approximation, &settings) {
                assert!(report.iterations <= 300);
            }
            let after = bound(&approximation);
            assert!(after > LOG_Z - 1e-2, "rate {rate}, {schedule:?}: {after}");
        }
    }
}

/// Fit and stop after so many looks.
fn interrupted(after: usize) -> (Approximation, FitReport, Vec<TracePoint>) {
    let mut approximation = off_target();
    let mut looks = vec![];
    let settings = Settings { iterations: 5000, schedule: Schedule::Constant, ..Settings::default() };
    let report = fit_observed(&mut approximation, &settings, |look| {
        looks.push(look.clone());
        if looks.len() == after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (approximation, report.unwrap(), looks)
}

#[test]
fn an_observer_sees_progress_and_may_end_the_fit() {
    let before = bound(&off_target());
    for schedule in [Schedule::Automatic, Schedule::Constant] {
        let mut seen = 0;
        let settings = Settings { iterations: 5000, schedule, ..Settings::default() };
        let report = fit_observed(&mut off_target(), &settings, |_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!((report.unwrap().stop_reason, seen), (StopReason::Interrupted, 1));
    }
    let (approximation, report, looks) = interrupted(6);
    assert_eq!(report.stop_reason, StopReason::Interrupted);
    assert_eq!(looks.len(), 6);
    assert_eq!(report.iterations, looks[5].iteration);
    assert_eq!(report.trace.len(), 6);
    assert!(looks.windows(2).all(|w| w[0].iteration < w[1].iteration && w[0].seconds <= w[1].seconds));
    assert!(looks.iter().all(|l| l.iterations == 5000 && l.se > 0.0 && l.bound.is_finite() && l.rate == 0.03));
    assert!(looks[5].bound > looks[0].bound);
    // What was learned until then is kept.
    assert!(bound(&approximation) > before + 0.5);
}

#[test]
fn a_restored_training_takes_the_iterations_that_would_have_followed() {
    let approximation = off_target();
    for optimiser in [Optimiser::default(), Optimiser::Sgd { momentum: 0.9 }] {
        let settings = Settings { optimiser, ..Settings::default() };
        let run =
            |training: &mut Training, n: usize| training.run(n, |_| 0.01, &vec![0.1; n]).expect("iterations").bounds;
        let mut whole = Training::new(&approximation, &settings).expect("a training");
        run(&mut whole, 70);
        let state = whole.state().expect("a state");
        let mut again = Training::new(&approximation, &settings).expect("a training");
        again.restore(&approximation, &state).expect("restored");
        assert_eq!(again.iterations(), 70);
        assert_eq!(run(&mut whole, 33), run(&mut again, 33));
        assert_eq!(whole.state().expect("a state"), again.state().expect("a state"));
        // Also where draws without weight are left out from now on.
        let mut skip_non_finite = whole.skip_non_finite(&approximation).expect("a training");
        again.restore(&approximation, &skip_non_finite.state().expect("a state")).expect("restored");
        assert!(again.skips_non_finite());
        assert_eq!(run(&mut skip_non_finite, 20), run(&mut again, 20));
        let before = again.state().expect("a state");
        let error = again.restore(&approximation, &state[1..]).expect_err("incomplete");
        assert!(error.to_string().contains("the state of a fit lacks `"), "{error}");
        let other = Approximation::new(shifted(), Chain::hamiltonian(2)).expect("another chain");
        let foreign = Training::new(&other, &settings).and_then(|mut t| t.state()).expect("a state");
        assert!(matches!(again.restore(&approximation, &foreign), Err(Error::Params { .. })));
        assert_eq!(before, again.state().expect("a state"), "nothing has changed");
    }
}

#[test]
fn the_transitions_learn_at_a_rate_of_their_own() {
    // Reversed inverses leave nothing to regression, so that only gradients move the parameters.
    let chain = || {
        let step = Hamiltonian::new(2).momentum(Gaussian::diagonal()).inverse(Inverse::Reversed);
        Chain::new(Gaussian::diagonal()).step(step)
    };
    let moved = |transition_rate: f64| {
        let start = Initialisation::new(&[2.0, 0.0], &[0.5, 0.5]).unwrap();
        let mut approximation = Approximation::from(Arc::new(shifted()), chain(), start).unwrap();
        let before = approximation.params().clone();
        let schedule = Schedule::Constant;
        let settings = Settings { transition_rate, schedule, iterations: 50, ..Settings::default() };
        fit(&mut approximation, &settings).unwrap();
        let change = |name: &str| {
            let (a, b) = (before.values(name).unwrap(), approximation.params().values(name).unwrap());
            a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        (change("q0.bias"), change("step1.log_step"), change("step1.momentum.log_sd"))
    };
    let (start, step, momentum) = moved(1e-9);
    assert!(start > 1e-2 && step < 1e-6 && momentum < 1e-6, "{start}, {step}, {momentum}");
    let (start, step, momentum) = moved(1.0);
    assert!(start > 1e-2 && step > 1e-3 && momentum > 1e-3, "{start}, {step}, {momentum}");
}

#[test]
fn clipping_tames_heavy_gradients() {
    // The bound's gradient has a heavy tail: exp(z) under a wide start.
    let heavy: Density = |_, z| z.sum(&[1]) - z.exp().sum(&[1]);
    let run = |clip| {
        let start = Initialisation::new(&[0.0], &[2.0]).unwrap();
        let chain = Chain::new(Gaussian::diagonal());
        let mut approximation = Approximation::from(Arc::new(target(1, heavy)), chain, start).unwrap();
        let optimiser = Optimiser::Sgd { momentum: 0.0 };
        let schedule = Schedule::Constant;
        let settings =
            Settings { clip, optimiser, schedule, rate: 0.1, draws: 1, iterations: 50, ..Settings::default() };
        let mut lowest = f64::INFINITY;
        let _ = fit_observed(&mut approximation, &settings, |look| {
            lowest = lowest.min(look.bound);
            ControlFlow::Continue(())
        });
        (approximation.params().number("q0.bias").unwrap(), lowest)
    };
    let (tight, loose) = (run(0.01), run(1e9));
    assert_ne!(tight, loose);
    // With nothing but tiny steps the parameters stay near where they were.
    assert!(tight.0.abs() < 0.5, "{tight:?}, {loose:?}");
}

#[test]
fn bad_settings_are_named() {
    let good = Settings { iterations: 50, ..Settings::default() };
    let nan = f64::NAN;
    let bad = [
        ("learning rate", Settings { rate: 0.0, ..good.clone() }),
        ("learning rate", Settings { rate: -1.0, ..good.clone() }),
        ("learning rate", Settings { rate: nan, ..good.clone() }),
        ("rate of the transitions", Settings { transition_rate: f64::INFINITY, ..good.clone() }),
        ("clipping", Settings { clip: 0.0, ..good.clone() }),
        ("tolerance", Settings { tolerance: nan, ..good.clone() }),
        ("draws per gradient", Settings { draws: 0, ..good.clone() }),
        ("draws per gradient", Settings { draws: 1_000_000_000, ..good.clone() }),
        ("iterations", Settings { iterations: 0, ..good.clone() }),
        ("schedule", Settings { schedule: Schedule::Halving(0), ..good.clone() }),
    ];
    for (name, settings) in bad {
        let error = fit(&mut off_target(), &settings).unwrap_err();
        assert!(matches!(error, Error::Setting { what, .. } if what == name), "{name}: {error}");
        assert!(error.to_string().starts_with(name), "{error}");
    }
    assert!(fit(&mut off_target(), &good).is_ok());
}

#[test]
fn bad_optimisers_are_named() {
    let nan = f64::NAN;
    let bad = [
        Optimiser::Adam { beta1: 1.0, beta2: 0.999 },
        Optimiser::Adam { beta1: 0.9, beta2: 1.0 },
        Optimiser::Adam { beta1: -0.1, beta2: 0.999 },
        Optimiser::Adam { beta1: 0.9, beta2: nan },
        Optimiser::Sgd { momentum: 1.0 },
        Optimiser::RmsProp { decay: 1.5 },
    ];
    for optimiser in bad {
        let settings = Settings { optimiser, iterations: 50, ..Settings::default() };
        let error = fit(&mut off_target(), &settings);
        assert!(matches!(error, Err(Error::Setting { what: "optimiser", .. })), "{optimiser:?}: {:?}", error.err());
    }
}

#[test]
fn no_threads_are_an_error_or_one() {
    let settings = Settings { iterations: 50, ..Settings::default() };
    match fit(&mut off_target().on(mcvi::Hardware::with_threads(0)), &settings) {
        Ok(report) => assert_eq!(report.iterations, 50),
        Err(error) => assert!(error.to_string().contains("threads"), "{error}"),
    }
}

#[test]
fn nothing_to_learn_is_an_error_that_says_so() {
    let mut approximation = off_target();
    approximation.params_mut().freeze();
    let before = approximation.params().clone();
    let error = fit(&mut approximation, &Settings::default()).unwrap_err();
    assert!(matches!(&error, Error::Fit { why } if why.contains("learned")), "{error}");
    assert_eq!(*approximation.params(), before);
    // A chain that has no parameters at all.
    let chain = Chain::new(Gaussian::fixed(&[0.0, 0.0], &[1.0, 1.0]));
    let mut fixed = Approximation::new(shifted(), chain).unwrap();
    assert!(matches!(fit(&mut fixed, &Settings::default()), Err(Error::Fit { .. })));
}

#[test]
fn frozen_parameters_stay_and_the_rest_learns() {
    let mut approximation = off_target();
    approximation.params_mut().set_learned("q0.log_sd", false);
    fit(&mut approximation, &Settings { iterations: 500, ..Settings::default() }).unwrap();
    let log_sd = approximation.params().values("q0.log_sd").unwrap();
    assert!(log_sd.iter().all(|s| (s - 0.5f64.ln()).abs() < 1e-12), "{log_sd:?}");
    assert!((approximation.params().values("q0.bias").unwrap()[0] - 3.0).abs() < 0.2);
}

#[test]
fn parameters_are_set_by_name_and_shape() {
    let mut approximation = off_target();
    let params = approximation.params_mut();
    let error = params.set("q0.nonsense", Array::scalar(1.0)).unwrap_err();
    assert!(error.to_string().contains("q0.nonsense") && error.to_string().contains("q0.bias"), "{error}");
    let error = params.set("q0.bias", Array::new(3, vec![0.0; 3]).unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Params { why } if why.contains('2') && why.contains('3')), "{error}");
    assert!(params.values("q0.nothing").is_err());
}

#[test]
fn a_saved_fit_draws_the_same_when_loaded() {
    let folder = folder("round");
    let path = folder.join("fit.safetensors");
    let step = MetropolisHastings::hamiltonian(Hamiltonian::new(1));
    let chain = || Chain::new(Gaussian::full()).step(Hamiltonian::new(2)).step(step.clone());
    let mut approximation = Approximation::new(shifted(), chain()).unwrap();
    fit(&mut approximation, &Settings { iterations: 100, ..Settings::default() }).unwrap();
    // Twice: the second replaces the first.
    off_target().save(&path).unwrap();
    approximation.save(&path).unwrap();
    let loaded = Approximation::load_with(&path, shifted(), chain()).unwrap();
    assert_eq!(approximation.draw(1200, 4).unwrap(), loaded.draw(1200, 4).unwrap());
    assert_eq!(approximation.gradient(20, 4).unwrap(), loaded.gradient(20, 4).unwrap());
    let values =
        |a: &Approximation| a.params().iter().map(|(n, p)| (n.to_owned(), p.value.clone())).collect::<Vec<_>>();
    assert_eq!(values(&approximation), values(&loaded));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(files, ["fit.safetensors"], "nothing else is left behind");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn saves_at_the_same_time_do_not_disturb_each_other() {
    let folder = folder("threads");
    let approximation = off_target();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (approximation, path) = (&approximation, folder.join(format!("fit.{}", i / 2)));
            scope.spawn(move || (0..50).for_each(|_| approximation.save(&path).unwrap()));
        }
    });
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_loaded_fit_goes_on_as_the_saved_one_would() {
    let folder = folder("again");
    let path = folder.join("fit.safetensors");
    let start = Initialisation::new(&[2.0, 0.0], &[0.5, 2.0]).unwrap();
    let mut approximation = Approximation::from(Arc::new(shifted()), Chain::hamiltonian(1), start).unwrap();
    let quick = Settings { iterations: 100, ..Settings::default() };
    fit(&mut approximation, &quick).unwrap();
    approximation.params_mut().set_learned("q0", false);
    approximation.save(&path).unwrap();
    let mut loaded = Approximation::load(&path, shifted()).unwrap();
    // Whether a parameter is learned, and its scale, belong to the fit.
    assert_eq!(approximation.params(), loaded.params());
    fit(&mut approximation, &quick).unwrap();
    fit(&mut loaded, &quick).unwrap();
    assert_eq!(approximation.params(), loaded.params());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_that_cannot_be_loaded_say_why() {
    let folder = folder("bad");
    let path = folder.join("fit.safetensors");
    let load = |name: &str, chain: Chain| Approximation::load_with(folder.join(name), shifted(), chain).err().unwrap();
    let chain = || Chain::new(Gaussian::diagonal());

    let error = load("missing", chain());
    assert!(matches!(&error, Error::File { path, .. } if path.ends_with("missing")), "{error}");
    for (name, bytes) in [("empty", vec![]), ("text", b"not a fit at all".to_vec()), ("zeros", vec![0; 1000])] {
        std::fs::write(folder.join(name), bytes).unwrap();
        let error = load(name, chain());
        assert!(matches!(&error, Error::Damaged { path, .. } if path.ends_with(name)), "{error}");
    }
    off_target().save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for (name, length) in [("cut", whole.len() - 8), ("head", 40)] {
        std::fs::write(folder.join(name), &whole[..length]).unwrap();
        assert!(matches!(load(name, chain()), Error::Damaged { .. }));
    }
    // Another program's file of the same format.
    let other = b"\x02\0\0\0\0\0\0\0{}";
    std::fs::write(folder.join("other"), other).unwrap();
    let error = load("other", chain());
    assert!(error.to_string().contains("not a saved fit"), "{error}");

    for chain in [Chain::hamiltonian(1), Chain::new(Gaussian::full())] {
        let error = load("fit.safetensors", chain);
        assert!(error.to_string().contains("another chain"), "{error}");
    }
    let wide = target(5, |_, z| z.square().sum(&[1]) * -0.5);
    let error = Approximation::load_with(&path, wide, chain()).err().unwrap();
    assert!(error.to_string().contains('2') && error.to_string().contains('5'), "{error}");
    assert_eq!(Approximation::load(&path, shifted()).unwrap().chain(), &chain());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_save_that_fails_leaves_what_was_there() {
    let folder = folder("unwritable");
    let nowhere = folder.join("no such folder").join("fit.safetensors");
    let error = off_target().save(&nowhere).unwrap_err();
    assert!(matches!(&error, Error::File { path, .. } if path.contains("no such folder")), "{error}");
    // A folder stands where the file should go.
    let taken = folder.join("taken");
    std::fs::create_dir_all(taken.join("inside")).unwrap();
    let error = off_target().save(&taken).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["taken"], "nothing half-written");
    std::fs::remove_dir_all(&folder).unwrap();
}
