//! One contract for every transition: finite numbers, rows that do not touch, gradients that are those of the value.

mod common;

use common::{Case, On, Starts};
use mcvi::density::{Density, Gaussian, Given};
use mcvi::paper::gaussian::{BivariateGaussian, Sampler, chain};
use mcvi::transition::{ChainState, Diagnostic, Hamiltonian, Inverse, Mass, Moved, StepScope, Transition};
use mcvi::{Approximation, Chain, Draws, Group, Initial, Landscape, Result, Scope};
use mcvi_expr::{Array, Expr};

/// Every column of numbers a draw has, by name.
fn columns(draws: &Draws) -> Vec<(String, Vec<f64>)> {
    let mut columns = vec![
        ("L".to_owned(), draws.log_weights.clone()),
        ("log p".to_owned(), draws.log_p.clone()),
        ("first".to_owned(), draws.first.clone()),
    ];
    for i in 0..draws.z[0].len() {
        columns.push((format!("z[{i}]"), draws.z.iter().map(|z| z[i]).collect()));
    }
    for (t, step) in draws.steps.iter().enumerate() {
        columns.push((format!("log α of step {t}"), step.clone()));
        for (name, values) in &draws.diagnostics[t] {
            columns.push((format!("{name} of step {t}"), values.clone()));
        }
    }
    columns
}

#[test]
fn all_numbers_are_finite_and_one_a_draw() {
    for case in common::all(&Starts::default()) {
        for (what, values) in columns(&case.approximation().draw(1500, 3).unwrap()) {
            assert_eq!(values.len(), 1500, "{}: {what}", case.name);
            assert!(values.iter().all(|x| x.is_finite()), "{}: {what}", case.name);
        }
    }
}

/// Noise belongs to elements, not to batches: one row alone does what it does among others.
#[test]
fn a_batch_is_its_rows() {
    for case in common::all(&Starts::default()) {
        let approximation = case.approximation();
        let many = columns(&approximation.draw(9, 4).unwrap());
        for few in [1, 4] {
            for ((what, many), (_, few)) in many.iter().zip(columns(&approximation.draw(few, 4).unwrap())) {
                assert_near(&many[..few.len()], &few, 1e-9, &format!("{}: {what}", case.name));
            }
        }
    }
}

/// A start that is given row by row, one row of it moved.
#[derive(Clone, Copy, Debug)]
struct Rows {
    moved: Option<usize>,
}

impl Density for Rows {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let (rows, d) = (given.rows, given.units.dim());
        let mut z: Vec<f64> = scattered(1).take(rows * d).collect();
        if let Some(i) = self.moved.filter(|i| *i < rows) {
            z[i * d..(i + 1) * d].iter_mut().for_each(|z| *z += 0.3);
        }
        let z = scope.graph().literal(Array::new([rows, d], z)?);
        Ok((z, self.log_density(scope, given, z)?))
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, z: Expr<'g>) -> Result<Expr<'g>> {
        // A broad Gaussian, so that bridges have a density to start from.
        let start = Gaussian::fixed(&vec![0.0; given.units.dim()], &vec![2.0; given.units.dim()]);
        start.log_density(scope, given, z)
    }
}

#[test]
fn moving_one_row_moves_no_other() {
    let (rows, moved) = (6, 2);
    let cases = |moved| common::all(&Starts::all(Rows { moved }));
    for (case, other) in cases(None).iter().zip(cases(Some(moved))) {
        let (one, mut other) = (case.approximation(), other.approximation());
        *other.params_mut() = one.params().clone();
        let (one, other) = (columns(&one.draw(rows, 8).unwrap()), columns(&other.draw(rows, 8).unwrap()));
        let mut changed = false;
        for ((what, one), (_, other)) in one.iter().zip(&other) {
            for i in (0..rows).filter(|i| *i != moved) {
                assert_eq!(one[i], other[i], "{}: {what} of row {i}", case.name);
            }
            changed |= one[moved] != other[moved];
        }
        assert!(changed, "{}", case.name);
    }
}

#[test]
fn gradients_are_those_of_the_bound() {
    common::all(&Starts::default()).iter().for_each(check_gradients);
}

/// The gradient of every learned parameter against a central difference, in a direction that no element is left out of.
fn check_gradients(case: &Case) {
    let (draws, seed, h) = (7, 5, 1e-5);
    let mut approximation = case.approximation();
    // Networks that are zero to begin with have no gradient but in their last layer: move them away from there.
    let zeros = approximation.params().iter().filter(|(_, p)| p.learned && p.value.to_f64().iter().all(|x| *x == 0.0));
    for (name, shape) in zeros.map(|(name, p)| (name.to_owned(), p.value.shape().clone())).collect::<Vec<_>>() {
        let moved = scattered(6).map(|x| 0.05 * x).take(shape.size()).collect::<Vec<_>>();
        approximation.params_mut().set(&name, Array::new(shape, moved).unwrap()).unwrap();
    }
    let (_, gradients) = approximation.gradient(draws, seed).unwrap();
    assert_eq!(gradients.iter().map(|g| g.1.len()).sum::<usize>(), approximation.params().learned(), "{}", case.name);
    for (name, gradient) in gradients {
        let param = approximation.params().get(&name).unwrap().clone();
        // In units of what matters.
        let direction = param.scale.iter().zip(scattered(2)).map(|(s, x)| s * x.signum() * (x.abs() + 0.5));
        let direction: Vec<f64> = direction.collect();
        let mut value = |by: f64| {
            let moved = param.value.to_f64().iter().zip(&direction).map(|(x, d)| x + by * d).collect::<Vec<_>>();
            let moved = Array::new(param.value.shape().clone(), moved).unwrap();
            approximation.params_mut().set(&name, moved).unwrap();
            approximation.gradient(draws, seed).unwrap().0
        };
        let difference = (value(h) - value(-h)) / (2.0 * h);
        approximation.params_mut().set(&name, param.value.clone()).unwrap();
        let slope = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        assert_near(&[slope], &[difference], 1e-5, &format!("{}: gradient of {name}", case.name));
    }
}

/// Numbers without structure in (−1, 1).
fn scattered(first: usize) -> impl Iterator<Item = f64> {
    (first..).map(|i| (i as f64 * 0.618_033_988_749_895).fract() * 2.0 - 1.0)
}

/// Regression is for inverse models: q, which some of them evaluate, stays as it is.
#[test]
fn regression_changes_inverse_models_only() {
    for case in common::all(&Starts::default()) {
        let mut approximation = case.approximation();
        let before = approximation.params().clone();
        approximation.regress_inverses(1000, 9).unwrap();
        for (name, param) in approximation.params().iter().filter(|(_, p)| p.group != Group::Inverse) {
            assert_eq!(Some(param), before.get(name), "{}: {name}", case.name);
        }
    }
}

/// Tells the gradient that a step sees.
#[derive(Clone, Debug)]
struct Probe;

impl Transition for Probe {
    fn apply<'g>(&self, _: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let at = target.at(state.z)?;
        let moved = Moved::new(state, at.log_p * 0.0).with(Diagnostic::Other("d0"), at.gradient.at(1, 0));
        Ok(moved.with(Diagnostic::Other("d1"), at.gradient.at(1, 1)))
    }
}

/// A sweep joins coordinates and a target takes them apart: the gradient must not get lost between the two.
#[test]
fn a_step_after_a_sweep_sees_the_gradient() {
    let target = BivariateGaussian::default();
    let chain = chain(Sampler::Gibbs, 2).step(Probe);
    let draws = Approximation::new(target, chain).unwrap().draw(50, 1).unwrap();
    let (across, along) = (target.sigma1.powi(-2), target.sigma2.powi(-2));
    for (i, z) in draws.z.iter().enumerate() {
        let (difference, sum) = (across * (z[0] - z[1]), along * (z[0] + z[1]));
        let seen = [draws.diagnostics[2][0].1[i], draws.diagnostics[2][1].1[i]];
        assert_near(&seen, &[-difference - sum, difference - sum], 1e-12, "gradient");
    }
}

/// A density that takes its one parameter apart.
#[derive(Clone, Debug)]
struct Parts;

impl Density for Parts {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let z = scope.normal([given.rows, given.units.dim()]);
        Ok((z, self.log_density(scope, given, z)?))
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, _: &Given<'g>, z: Expr<'g>) -> Result<Expr<'g>> {
        let both = scope.param("both", 4, || Initial::new(vec![0.1, 0.2, 0.3, 0.4]));
        let (mean, log_sd) = (both.slice(0, 0..2), both.slice(0, 2..4));
        Ok((((z - mean) / log_sd.exp()).square() * -0.5 - log_sd).sum(&[1]))
    }
}

#[test]
fn parts_of_a_parameter_have_gradients() {
    let chain = Starts::default().broad.step(common::langevin(Inverse::learned(Parts)));
    check_gradients(&Case::new("parts", On::Skewed, chain));
}

/// Leapfrogs there and back.
#[derive(Clone, Debug)]
struct ThereAndBack(Hamiltonian);

impl Transition for ThereAndBack {
    fn apply<'g>(&self, at: &StepScope<'g>, state: ChainState<'g>, target: &Landscape<'_, 'g>) -> Result<Moved<'g>> {
        let dynamics = self.0.dynamics(&at.forward)?;
        let (from, v) = (target.at(state.z)?, at.forward.normal(state.z.shape()));
        let (there, w) = dynamics.run(target, from, v)?;
        let (back, u) = dynamics.reverse(target, there, w)?;
        let distance = |a: Expr<'g>, b: Expr<'g>| (a - b).abs().max_over(&[1]);
        let moved = Moved::new(state.at(back.z), back.log_p * 0.0)
            .with(Diagnostic::Other("went"), distance(there.z, from.z))
            .with(Diagnostic::Other("z"), distance(back.z, from.z))
            .with(Diagnostic::Other("v"), distance(u, v));
        Ok(moved.with(Diagnostic::EnergyChange, dynamics.energy(there, w) - dynamics.energy(from, v)))
    }
}

#[test]
fn hamiltonian_dynamics_is_undone_by_its_reverse() {
    for (leapfrogs, mass) in [(1, Mass::Diagonal), (3, Mass::Diagonal), (1, Mass::Full), (7, Mass::Full)] {
        let step = ThereAndBack(Hamiltonian::new(leapfrogs).mass(mass));
        let approximation = Case::new("", On::Skewed, Starts::default().broad.step(step)).approximation();
        let draws = approximation.draw(500, 6).unwrap();
        let column = |i: usize| draws.diagnostics[0][i].1.clone();
        assert!(column(0).iter().sum::<f64>() > 50.0, "{leapfrogs} leapfrogs go nowhere");
        assert!(column(1).iter().chain(&column(2)).all(|x| *x < 1e-9), "{leapfrogs} leapfrogs, {mass:?}");
    }
}

/// The error of a leapfrog trajectory falls with the square of its step: the integrator is of second order.
#[test]
fn energy_errors_fall_with_the_square_of_the_step() {
    let mean_error = |mass, halvings: i32| {
        let step = ThereAndBack(Hamiltonian::new(4 << halvings).mass(mass));
        let mut approximation = Case::new("", On::Skewed, Starts::default().broad.step(step)).approximation();
        let log_step = Array::scalar((0.1f64 * 0.5f64.powi(halvings)).ln());
        approximation.params_mut().set("step1.log_step", log_step).unwrap();
        let draws = approximation.draw(500, 6).unwrap();
        draws.diagnostics[0][3].1.iter().map(|h| h.abs()).sum::<f64>()
    };
    for mass in [Mass::Diagonal, Mass::Full] {
        let ratio = mean_error(mass, 0) / mean_error(mass, 1);
        assert!((ratio - 4.0).abs() < 0.2, "{mass:?}: halving the step divides the error by {ratio}");
    }
}

#[track_caller]
fn assert_near(ours: &[f64], theirs: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (a, b) in ours.iter().zip(theirs) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {ours:?} is not {theirs:?}");
    }
}

/// A chain is a value: read back from what was written, it is the same one.
#[test]
fn a_chain_is_what_was_written() {
    let mut chains: Vec<Chain> = common::all(&Starts::default()).into_iter().map(|case| case.chain).collect();
    for chain in &chains {
        let text = serde_json::to_string(chain).unwrap();
        let read: Chain = serde_json::from_str(&text).unwrap();
        assert_eq!(*chain, read, "{text}");
        assert_eq!(chain.to_string(), read.to_string());
    }
    let words = |chain: Chain| chain.to_string();
    let start = || Starts::default().wide;
    assert_eq!(words(start()), "a Gaussian alone");
    let mixed = start().step(Hamiltonian::new(1)).steps(2, mcvi::Sharing::Nothing, common::langevin(Inverse::Reversed));
    assert_eq!(words(mixed), "a Hamiltonian step of 1 leapfrog, then 2 Langevin steps");
    assert_eq!(words(start().step(mcvi::transition::Underdamped::new(2))), "an underdamped Langevin step of 2 kicks");
    let count = chains.len();
    chains.dedup();
    assert_eq!(chains.len(), count, "no two of them are the same");
    // What is not written has its default; what is not known is refused.
    let short: Chain =
        serde_json::from_str(r#"{"steps": [{"transition": {"kind": "hamiltonian", "leapfrogs": 4}}]}"#).unwrap();
    assert_eq!(short, Chain::hamiltonian(4));
    for wrong in [
        r#"{"steps": [{"transition": {"kind": "hamiltonian", "leapfrog": 4}}]}"#,
        r#"{"steps": [{"transition": {"kind": "teleport"}}]}"#,
        r#"{"start": {}}"#,
    ] {
        assert!(serde_json::from_str::<Chain>(wrong).is_err(), "{wrong}");
    }
}

/// A file cannot hold a transition of one's own, but knows it again.
#[test]
fn a_transition_of_ones_own_is_known_by_its_identity() {
    let chain = Starts::default().wide.step(Probe);
    let read: Chain = serde_json::from_str(&serde_json::to_string(&chain).unwrap()).unwrap();
    assert_eq!(chain, read);
    assert_ne!(chain, Starts::default().wide.step(ThereAndBack(Hamiltonian::new(1))));
    let error = Approximation::new(common::Tilted, read).err().unwrap().to_string();
    assert!(error.contains("Probe") && error.contains("supply the chain"), "{error}");
    let path = std::env::temp_dir().join(format!("mcvi-own-{}.safetensors", std::process::id()));
    let fitted = Approximation::new(common::Tilted, chain.clone()).unwrap();
    fitted.save(&path).unwrap();
    assert!(Approximation::load(&path, common::Tilted).is_err());
    let again = Approximation::load_with(&path, common::Tilted, chain).unwrap();
    assert_eq!(fitted.draw(50, 1).unwrap(), again.draw(50, 1).unwrap());
    std::fs::remove_file(&path).unwrap();
}
