//! A fit that is stopped, put away in a file and taken up again ends, bit for bit, like one that never stopped.

use mcvi::fit::{Allowance, Fit, FitReport, FitState, Optimiser, Schedule, Settings, StopReason};
use mcvi::infer::{Attempt, Budget, ChainChoice, Checkpoint, Posterior, Request, infer, infer_from, infer_observed};
use mcvi::{
    Approximation, BayesianModel, Chain, DescribedModel, Error, Hardware, Mixture, Params, fit_observed, posteriors,
    target,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

fn model(name: &str) -> DescribedModel {
    posteriors::ALL.iter().find(|b| b.name == name).expect("a posterior").model().expect("a model")
}

fn banana() -> Approximation {
    Approximation::new(model("banana"), Chain::hamiltonian(2)).expect("an approximation")
}

/// All of a report but the time it took.
fn timeless(report: &FitReport) -> impl PartialEq + std::fmt::Debug + use<> {
    let trace: Vec<_> = report.trace.iter().map(|l| (l.iteration, l.bound.to_bits(), l.se.to_bits(), l.rate)).collect();
    (report.stop_reason, report.iterations, trace, report.diverged, report.skipped, report.rescues)
}

fn go_on(_: &mcvi::fit::TracePoint) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A file name of this test alone.
fn file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("mcvi-resume-{}-{name}", std::process::id()))
}

/// Fit, put away after each of these numbers of iterations.
fn in_pieces(approximation: &Approximation, settings: &Settings, pieces: &[usize], name: &str) -> (Params, FitReport) {
    let path = file(name);
    let mut fit = Fit::new(approximation, settings).expect("a fit");
    for piece in pieces {
        let ending = fit.run(&mut Allowance::new(Some(*piece), None), go_on).expect("it runs");
        assert_eq!(ending, StopReason::Budget);
        fit.state().expect("a state").save(&path).expect("saved");
        let state = FitState::load(&path).expect("loaded");
        fit = Fit::resume(approximation, settings, &state).expect("resumed");
    }
    std::fs::remove_file(&path).expect("removed");
    let ending = fit.run(&mut Allowance::new(None, None), go_on).expect("it runs");
    fit.finish(ending).expect("an end")
}

#[test]
fn a_fit_in_pieces_is_the_whole_fit() {
    for (i, schedule) in
        [Schedule::Automatic, Schedule::Cosine, Schedule::Halving(300), Schedule::Constant].into_iter().enumerate()
    {
        let optimiser = if i == 3 { Optimiser::RmsProp { decay: 0.99 } } else { Optimiser::default() };
        let settings = Settings { schedule, optimiser, iterations: 2010, draws: 4, ..Settings::default() };
        let mut whole = banana();
        let report = fit_observed(&mut whole, &settings, go_on).expect("a fit");
        let (params, pieces) = in_pieces(&banana(), &settings, &[1, 49, 180, 7, 750], &format!("{i}"));
        assert_eq!(timeless(&report), timeless(&pieces), "{schedule:?}");
        assert_eq!(whole.params(), &params, "{schedule:?}");
        assert!(pieces.iterations > 1000, "{schedule:?}: {}", pieces.iterations);
    }
}

#[test]
fn so_it_is_where_draws_are_lost() {
    // Half of the space has no mass: draws are lost, later ones left out, and the fit is taken back.
    let cliff = || target(1, |_, z| z.gt(0.0).select(z * -1.0, f64::NEG_INFINITY).sum(&[1]));
    let start = mcvi::Initialisation::new(&[0.5], &[1.0]).expect("a start");
    let approximation = Approximation::from(Arc::new(cliff()), Chain::new(mcvi::density::Gaussian::diagonal()), start);
    let approximation = approximation.expect("an approximation");
    let settings = Settings { iterations: 500, ..Settings::default() };
    let mut whole = approximation.clone();
    let report = fit_observed(&mut whole, &settings, go_on).expect("a fit");
    assert!(report.diverged > 0);
    let (params, pieces) = in_pieces(&approximation, &settings, &[30, 40, 230], "cliff");
    assert_eq!((whole.params(), timeless(&report)), (&params, timeless(&pieces)));
}

#[test]
fn an_interrupted_fit_goes_on_and_what_it_delivers_does_not_disturb_it() {
    let settings = Settings { iterations: 3000, ..Settings::default() };
    let mut whole = banana();
    let report = fit_observed(&mut whole, &settings, go_on).expect("a fit");
    let mut fit = Fit::new(&banana(), &settings).expect("a fit");
    let mut looks = 0;
    let ending = fit.run(&mut Allowance::new(None, None), |_| {
        looks += 1;
        if looks == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(ending.expect("it runs"), StopReason::Interrupted);
    assert_eq!(fit.finish(StopReason::Interrupted).expect("so far").1.iterations, 350);
    let mut again = Fit::resume(&banana(), &settings, &fit.state().expect("a state")).expect("resumed");
    let ending = again.run(&mut Allowance::new(None, None), go_on).expect("it runs");
    let (params, pieces) = again.finish(ending).expect("an end");
    assert_eq!((whole.params(), timeless(&report)), (&params, timeless(&pieces)));
}

#[test]
fn states_that_do_not_belong_are_refused() {
    let settings = Settings { iterations: 100, ..Settings::default() };
    let state = Fit::new(&banana(), &settings).and_then(|mut fit| fit.state()).expect("a state");
    let refused = |approximation: &Approximation, settings: &Settings, says: &str| {
        let error = Fit::resume(approximation, settings, &state).map(|_| ()).expect_err(says);
        assert!(matches!(error, Error::Setting { .. }) && error.to_string().contains(says), "{error}");
    };
    refused(&banana(), &Settings { seed: 2, ..settings.clone() }, "other settings");
    refused(&banana(), &Settings { rate: 0.1, ..settings.clone() }, "other settings");

    let schools = Approximation::new(model("eight-schools"), Chain::hamiltonian(2)).expect("an approximation");
    refused(&schools, &settings, "another model or chain");
    let longer = Approximation::new(model("banana"), Chain::hamiltonian(3)).expect("an approximation");
    assert!(Fit::resume(&longer, &settings, &state).is_ok(), "told apart by shape only");
    // Time and threads may be others, and so may the number of iterations.
    let more = Settings { iterations: 200, seconds: Some(9.0), ..settings.clone() };
    assert!(Fit::resume(&banana(), &more, &state).is_ok());
    // Not where the rate follows from it.
    let cosine = Settings { schedule: Schedule::Cosine, ..settings };
    let state = Fit::new(&banana(), &cosine).and_then(|mut fit| fit.state()).expect("a state");
    let more = Settings { iterations: 200, ..cosine };
    assert!(matches!(Fit::resume(&banana(), &more, &state), Err(Error::Setting { .. })));
}

fn request(chain: ChainChoice, iterations: Option<usize>) -> Request {
    let mut request = Request { chain, budget: Budget { iterations, seconds: None }, ..Request::default() };
    // A ladder of short rungs, the last of which is the longest chain.
    request.settings.iterations = 400;
    request
}

fn assert_same(a: &Posterior, b: &Posterior) {
    assert_eq!((a.approximation.chain(), a.kept), (b.approximation.chain(), b.kept));
    assert_eq!((a.iterations, a.stop_reason), (b.iterations, b.stop_reason));
    assert!(a.draws == b.draws && a.diagnostics == b.diagnostics && a.verdict == b.verdict);
    let params =
        |p: &Posterior| p.approximation.parts().map(|(part, w)| (part.params().clone(), w)).collect::<Vec<_>>();
    assert!(params(a) == params(b), "other parameters");
    // Bit by bit, since a bound of −∞ has no error and NaN equals nothing.
    let bits = |m: mcvi::diagnostics::Mean| (m.value.to_bits(), m.se.to_bits());
    let outcome = |a: &Attempt| a.outcome.clone().map(|f| (bits(f.diagnostics.bound), timeless(&f.report)));
    let outcomes = |p: &Posterior| p.attempts.iter().map(outcome).collect::<Vec<_>>();
    assert_eq!(outcomes(a), outcomes(b));
}

#[test]
fn the_ladder_goes_on_from_the_rung_it_stood_on() {
    let funnel = || -> Arc<dyn BayesianModel> { Arc::new(model("funnel")) };
    let whole = infer(model("funnel"), &request(ChainChoice::Auto, None)).expect("a posterior");
    assert!(whole.attempts.len() == 5 && whole.stop_reason.is_complete(), "every rung is tried");
    let path = file("ladder");
    let mut checkpoint = Checkpoint::default();
    // Within the first rung, at its end, and within each of the others.
    for (total, rungs) in [(130, 1), (400, 1), (777, 2), (1010, 3), (1333, 4), (1777, 5)] {
        let part =
            infer_from(funnel(), &request(ChainChoice::Auto, Some(total)), &checkpoint, |_| ControlFlow::Continue(()));
        let part = part.expect("a posterior");
        assert_eq!((part.stop_reason, part.iterations, part.attempts.len()), (StopReason::Budget, total, rungs));
        assert!(part.verdict.reasons.iter().any(|r| r.contains("budget")), "{:?}", part.verdict);
        // To stop there at once is the same as to stop on the way.
        if total == 777 {
            assert_same(&part, &infer(model("funnel"), &request(ChainChoice::Auto, Some(777))).expect("one"));
        }
        part.checkpoint.save(&path).expect("saved");
        checkpoint = Checkpoint::load(&path).expect("loaded");
        assert_eq!(checkpoint.iterations(), total);
    }
    let request = request(ChainChoice::Auto, None);
    let end = infer_from(funnel(), &request, &checkpoint, |_| ControlFlow::Continue(())).expect("a posterior");
    assert_same(&whole, &end);
    // Nothing is left to do: it stays as it is.
    let again = infer_from(funnel(), &request, &end.checkpoint, |_| panic!("a look")).expect("a posterior");
    assert_same(&whole, &again);

    let refused = |target: Arc<dyn BayesianModel>, request: &Request, says: &str| {
        let tried = infer_from(target, request, &checkpoint, |_| ControlFlow::Continue(()));
        let error = tried.map(|_| ()).expect_err(says);
        assert!(matches!(error, Error::Setting { .. }) && error.to_string().contains(says), "{error}");
    };
    refused(Arc::new(model("banana")), &request, "10 dimensions, this one 2");
    let shifted = target(10, |_, z| (z - 1.0).square().sum(&[1]) * -0.5);
    refused(Arc::new(shifted), &request, "another model, or of other data");
    refused(funnel(), &Request { chain: ChainChoice::None, ..request.clone() }, "where nothing more was requested");
    let chain = ChainChoice::Hamiltonian { steps: 1, leapfrogs: 2 };
    refused(funnel(), &Request { chain, ..request.clone() }, "another chain: a Gaussian alone, where a Hamiltonian");

    let bytes = std::fs::read(&path).expect("read");
    // One bit, in the middle of some array, is enough.
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for damaged in [&bytes[..bytes.len() / 2], &bytes[..20], &[], &flipped] {
        std::fs::write(&path, damaged).expect("written");
        let error = Checkpoint::load(&path).expect_err("damaged");
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    std::fs::remove_file(&path).expect("removed");
    assert!(matches!(Checkpoint::load(&path), Err(Error::File { .. })));
}

#[test]
fn a_mixture_is_saved_and_goes_on() {
    let mixture = || -> Arc<dyn BayesianModel> { Arc::new(model("gaussian-mixture")) };
    let chain = ChainChoice::Hamiltonian { steps: 1, leapfrogs: 2 };
    let whole = infer(mixture(), &request(chain.clone(), None)).expect("a posterior");
    assert_eq!(whole.approximation.parts().len(), 2);
    let (path, mut checkpoint) = (file("mixture"), Checkpoint::default());
    // Within the fit of the first mode, at its end, and within that of the second.
    for total in [130, 400, 555] {
        let limited = request(chain.clone(), Some(total));
        let part = infer_from(mixture(), &limited, &checkpoint, |_| ControlFlow::Continue(())).expect("a posterior");
        assert_eq!((part.stop_reason, part.iterations), (StopReason::Budget, total));
        part.checkpoint.save(&path).expect("saved");
        checkpoint = Checkpoint::load(&path).expect("loaded");
    }
    let end = infer_from(mixture(), &request(chain, None), &checkpoint, |_| ControlFlow::Continue(()));
    assert_same(&whole, &end.expect("a posterior"));

    whole.approximation.save(&path).expect("saved");
    let read = Mixture::read(&path, Arc::new(model("gaussian-mixture")), None, Hardware::default()).expect("read");
    assert_eq!(read.draw(1000, 5).expect("draws"), whole.approximation.draw(1000, 5).expect("draws"));
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn an_interrupted_inference_goes_on() {
    let schools = || -> Arc<dyn BayesianModel> { Arc::new(model("eight-schools")) };
    let request = Request {
        settings: Settings { iterations: 1500, ..Settings::default() },
        chain: ChainChoice::Hamiltonian { steps: 1, leapfrogs: 2 },
        ..Request::default()
    };
    let whole = infer(model("eight-schools"), &request).expect("a posterior");
    let mut looks = 0;
    let part = infer_observed(schools(), &request, |_, _| {
        looks += 1;
        if looks == 11 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let part = part.expect("a posterior");
    assert_eq!((part.stop_reason, part.iterations), (StopReason::Interrupted, 550));
    let end = infer_from(schools(), &request, &part.checkpoint, |_| ControlFlow::Continue(()));
    assert_same(&whole, &end.expect("a posterior"));
}

#[test]
fn a_time_budget_ends_a_fit_cleanly_and_its_iterations_repeat_it() {
    let begun = Instant::now();
    let settings =
        Settings { seconds: Some(0.3), iterations: 10_000_000, schedule: Schedule::Constant, ..Settings::default() };
    let mut approximation = banana();
    let report = fit_observed(&mut approximation, &settings, go_on).expect("a fit");
    assert!(report.stop_reason == StopReason::Budget && report.iterations > 0 && begun.elapsed().as_secs_f64() < 3.0);
    let same = Settings { seconds: None, iterations: report.iterations, ..settings };
    let mut repeated = banana();
    let mut again = fit_observed(&mut repeated, &same, go_on).expect("a fit");
    // The same but for the reason: the one used up its time, the other its iterations.
    assert_eq!(again.stop_reason, StopReason::MaxIterations);
    again.stop_reason = StopReason::Budget;
    assert_eq!((approximation.params(), timeless(&report)), (repeated.params(), timeless(&again)));

    // However short it is, something is delivered; the long chain with networks is not begun in vain.
    for seconds in [1e-9, 1.0] {
        let request = Request { budget: Budget { iterations: None, seconds: Some(seconds) }, ..Request::default() };
        let begun = Instant::now();
        let timed = infer(model("funnel"), &request).expect("a posterior");
        assert!(begun.elapsed().as_secs_f64() < seconds + 5.0);
        assert_eq!(timed.stop_reason, StopReason::Budget);
        assert!((1..5).contains(&timed.attempts.len()), "{} attempts", timed.attempts.len());
    }
    for budget in [
        Budget { iterations: Some(0), seconds: None },
        Budget { iterations: None, seconds: Some(0.0) },
        Budget { iterations: None, seconds: Some(f64::NAN) },
    ] {
        let request = Request { budget, ..Request::default() };
        assert!(matches!(infer(model("banana"), &request), Err(Error::Setting { .. })));
    }
}
