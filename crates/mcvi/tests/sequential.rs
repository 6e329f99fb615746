//! Section 4.4, Algorithm 4: a chain grown step by step from an existing fit, everything before it held as it is.

use mcvi::density::Gaussian;
use mcvi::diagnostics::Mean;
use mcvi::fit::{Objective, Schedule, Settings};
use mcvi::transition::{Hamiltonian, Inverse, Langevin};
use mcvi::{Approximation, Chain, Error, FromFn, Scope, fit, grow, target};
use mcvi_expr::Expr;

/// log 2π.
const LOG_TAU: f64 = 1.837_877_066_409_345_3;

type Density = for<'g> fn(&Scope<'g>, Expr<'g>) -> Expr<'g>;

/// A banana: z¹ ~ N(0, 1), z² ~ N((z¹)², ½²), not normalised.
fn banana() -> FromFn<Density> {
    target(2, |_, z| {
        let (a, b) = (z.at(1, 0), z.at(1, 1));
        a.square() * -0.5 - (b - a.square()).square() * 2.0
    })
}

const BANANA: f64 = LOG_TAU - std::f64::consts::LN_2;

/// Two coordinates with correlation 0.95, not normalised: log Z = log 2π + ½ log(1 − 0.95²).
fn correlated() -> FromFn<Density> {
    target(2, |_, z| {
        let (a, b) = (z.at(1, 0), z.at(1, 1));
        (a.square() + b.square() - a * b * 1.9) * (-0.5 / (1.0 - 0.95 * 0.95))
    })
}

fn quick() -> Settings {
    Settings { iterations: 400, schedule: Schedule::Cosine, ..Settings::default() }
}

fn bound(approximation: &Approximation) -> Mean {
    approximation.draw(20_000, 99).unwrap().diagnose().bound
}

/// Grow by three steps, and see that each stage keeps what it should.
fn grow_and_check(mut approximation: Approximation, log_z: f64) -> Vec<(Mean, bool)> {
    let mut stages = vec![(bound(&approximation), true)];
    for t in 1..=3 {
        let before = approximation.params().clone();
        let steps = approximation.chain().len();
        let (grown, stage) = grow(&approximation, Hamiltonian::new(1), &quick()).unwrap();
        let after = bound(&grown);
        // The same draws of the chain so far, so the difference has the new step's error at most.
        let last = stages[t - 1].0;
        let error = (last.se.powi(2) + after.se.powi(2)).sqrt();
        assert!(after.value > last.value - 2.0 * error, "stage {t}: {after:?} after {last:?}");
        assert!(after.value < log_z + 3.0 * after.se, "stage {t}: {after:?} is above {log_z}");
        assert_eq!(grown.chain().len(), steps + usize::from(stage.kept));
        assert_eq!(stage.kept, stage.gain.value > 0.0);
        if stage.kept {
            // What the stage said it gained is what the bound has risen by.
            let risen = after.value - last.value;
            assert!((risen - stage.gain.value).abs() < 4.0 * (error + stage.gain.se), "{risen}, said {:?}", stage.gain);
            assert!(grown.params().learned() > 0);
        }
        for (name, param) in before.iter() {
            assert_eq!(grown.params().values(name).unwrap(), param.value.to_f64(), "stage {t} has changed `{name}`");
        }
        approximation = grown;
        stages.push((after, stage.kept));
    }
    stages
}

#[test]
fn stages_improve_a_gaussian_that_misses_correlation_and_never_worsen_it() {
    let log_z = LOG_TAU + 0.5 * (1.0f64 - 0.95 * 0.95).ln();
    let mut approximation = Approximation::new(correlated(), Chain::new(Gaussian::diagonal())).unwrap();
    fit(&mut approximation, &quick()).unwrap();
    let stages = grow_and_check(approximation, log_z);
    let (first, second) = (stages[0].0, stages[1].0);
    // Diagonal: the gap is −½ log(1 − 0.95²) = 1.16 nats.
    assert!((log_z - first.value - 1.164).abs() < 0.05, "{first:?}");
    assert!(stages[1].1 && second.value > first.value + 0.2, "{second:?} after {first:?}");
}

#[test]
fn stages_improve_a_banana() {
    let mut approximation = Approximation::new(banana(), Chain::new(Gaussian::diagonal())).unwrap();
    fit(&mut approximation, &quick()).unwrap();
    let stages = grow_and_check(approximation, BANANA);
    let (first, last) = (stages[0].0, stages[3].0);
    assert!(last.value > first.value + 0.1, "{last:?} after {first:?}");
}

#[test]
fn a_saved_fit_is_grown_like_the_one_in_memory() {
    let folder = std::env::temp_dir().join(format!("mcvi-sequential-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("fit.safetensors");
    let chain = || Chain::hamiltonian(1);
    let mut approximation = Approximation::new(correlated(), chain()).unwrap();
    fit(&mut approximation, &quick()).unwrap();
    approximation.save(&path).unwrap();
    let loaded = Approximation::load(&path, correlated()).unwrap();
    assert_eq!(loaded.chain(), &chain());
    let other = Approximation::load_with(&path, correlated(), Chain::hamiltonian(2)).err().unwrap().to_string();
    assert!(other.contains("of another chain: a Hamiltonian step of 1 leapfrog ("), "{other}");
    let step = || Langevin::new(Inverse::learned(Gaussian::linear()));
    let (grown, stage) = grow(&approximation, step(), &quick()).unwrap();
    let (again, same) = grow(&loaded, step(), &quick()).unwrap();
    assert_eq!(stage.gain, same.gain);
    assert_eq!(grown.draw(100, 1).unwrap(), again.draw(100, 1).unwrap());

    // A grown chain is saved and loaded as well, and draws the same.
    let longer = approximation.grown(Hamiltonian::new(1)).unwrap();
    longer.save(&path).unwrap();
    let loaded = Approximation::load_with(&path, correlated(), longer.chain().clone()).unwrap();
    assert_eq!(longer.draw(100, 1).unwrap(), loaded.draw(100, 1).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_step_that_does_not_help_is_taken_away_again() {
    // The approximation is exact: no step can improve it.
    let normal = target(1, |_, z| z.square().sum(&[1]) * -0.5);
    let exact = Approximation::new(normal, Chain::new(Gaussian::fixed(&[0.0], &[1.0]))).unwrap();
    let step = Langevin::new(Inverse::learned(Gaussian::diagonal()));
    let (grown, stage) = grow(&exact, step, &quick()).unwrap();
    assert!(stage.gain.value < 3.0 * stage.gain.se, "{:?}", stage.gain);
    assert_eq!(grown.chain().len(), usize::from(stage.kept));
    assert!(!stage.kept);
}

#[test]
fn an_annealed_chain_cannot_grow() {
    for chain in [Chain::hamiltonian(1).annealed(&[1.0]), Chain::hamiltonian(1).annealed_learned()] {
        let approximation = Approximation::new(correlated(), chain).unwrap();
        let error = grow(&approximation, Hamiltonian::new(1), &quick()).err().unwrap();
        assert!(matches!(error, Error::Setting { what: "chain", .. }), "{error}");
    }
}

#[test]
fn the_last_step_alone_cannot_be_learned_where_there_is_none() {
    let mut approximation = Approximation::new(correlated(), Chain::new(Gaussian::diagonal())).unwrap();
    let error = fit(&mut approximation, &Settings { objective: Objective::LastStep, ..quick() }).unwrap_err();
    assert!(matches!(error, Error::Setting { what: "objective", .. }), "{error}");
}
