//! log p(x) by importance sampling, by annealing and by integration over two latent variables.

use crate::{SIDE, brief, quarters, small};
use mcvi::Hardware;
use mcvi::diagnostics::mean;
use mcvi::vae::{AnnealSettings, Architecture, Deep, Evaluator, Kernel, Trainer, annealed_evidence, two_sided};
use mcvi_expr::{Array, Data};
use std::ops::ControlFlow;

fn trained(architecture: &Architecture) -> Deep {
    let (train, valid) = (quarters(400, 1), quarters(200, 2));
    let mut trainer =
        Trainer::new(architecture, &brief(15), (&train, &valid, "quarters"), Hardware::default()).unwrap();
    for _ in 0..15 {
        trainer.epoch(|_| ControlFlow::Continue(())).unwrap();
    }
    trainer.model()
}

/// log ∫ p(x|z) p(z) dz over a grid of z, with the decoder written out by hand.
fn integrated(deep: &Deep, images: &Array) -> Vec<f64> {
    let values = |name: &str| deep.params.values(&format!("target.{name}")).unwrap();
    let (w1, b1) = (values("layer1.z"), values("layer1.bias"));
    let (w2, b2) = (values("output.hidden"), values("output.bias"));
    let (hidden, pixels) = (b1.len(), b2.len());
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let (cells, reach) = (300, 7.0);
    let step = 2.0 * reach / f64::from(cells);
    let mut terms: Vec<Vec<f64>> = vec![vec![]; images.shape().dims()[0]];
    for i in 0..cells * cells {
        let z = [i / cells, i % cells].map(|k| -reach + (f64::from(k) + 0.5) * step);
        let h: Vec<f64> = (0..hidden).map(|j| softplus(z[0] * w1[j] + z[1] * w1[hidden + j] + b1[j])).collect();
        let odds: Vec<f64> =
            (0..pixels).map(|k| b2[k] + (0..hidden).map(|j| h[j] * w2[j * pixels + k]).sum::<f64>()).collect();
        let prior = -0.5 * (z[0] * z[0] + z[1] * z[1]) - std::f64::consts::TAU.ln() + 2.0 * step.ln();
        for (x, terms) in images.to_f64().chunks(pixels).zip(&mut terms) {
            terms.push(prior + x.iter().zip(&odds).map(|(x, o)| x * o - softplus(*o)).sum::<f64>());
        }
    }
    let log_sum = |terms: &Vec<f64>| {
        let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + terms.iter().map(|t| (t - most).exp()).sum::<f64>().ln()
    };
    terms.iter().map(log_sum).collect()
}

fn some(images: &Array, count: usize) -> Array {
    let Data::F32(values) = images.data() else { panic!("images are single precision") };
    Array::new([count, SIDE * SIDE], values[..count * SIDE * SIDE].to_vec()).unwrap()
}

#[test]
fn all_estimates_agree_with_integration_over_two_latents() {
    for leapfrogs in [0, 3] {
        let deep = trained(&Architecture { latent: 2, leapfrogs, ..small() });
        let images = some(&quarters(50, 3), 6);
        let exact = integrated(&deep, &images);
        let which: Vec<i32> = (0..6).collect();
        let mut evaluator = Evaluator::new(&deep, &images, false, 5, Hardware::default()).unwrap();
        let evidence = evaluator.evidence(&which, 4000, |_| ControlFlow::Continue(())).unwrap();
        let settings = AnnealSettings { temperatures: 200, chains: 64, ..AnnealSettings::default() };
        let annealed = annealed_evidence(&deep, &images, settings, |_| {}).unwrap();
        assert!((0.4..0.95).contains(&annealed.accept), "{}", annealed.accept);
        for (i, exact) in exact.iter().enumerate() {
            // Importance sampling of 4000 draws: its error is that of the mean weight, below 0.1 where q covers p.
            let (is, ais) = (evidence.log_p[i] - exact, annealed.log_p[i] - exact);
            assert!(is.abs() < 0.15, "{leapfrogs} leapfrogs, image {i}: {is} from {exact}");
            assert!(ais.abs() < 4.0 * annealed.se[i] + 0.01, "image {i}: {ais} ± {}", annealed.se[i]);
            assert!(evidence.bounds[i] < exact + 0.02);
        }
    }
}

#[test]
fn importance_sampling_agrees_with_annealing() {
    let deep = trained(&small());
    let images = some(&quarters(50, 4), 24);
    let which: Vec<i32> = (0..24).collect();
    let mut evaluator = Evaluator::new(&deep, &images, false, 5, Hardware::default()).unwrap();
    let evidence = evaluator.evidence(&which, 2000, |_| ControlFlow::Continue(())).unwrap();
    let settings = AnnealSettings { temperatures: 200, chains: 32, ..AnnealSettings::default() };
    let annealed = annealed_evidence(&deep, &images, settings, |_| {}).unwrap();
    let differences: Vec<f64> = annealed.log_p.iter().zip(&evidence.log_p).map(|(a, b)| a - b).collect();
    let difference = mean(&differences);
    assert!(difference.value.abs() < 4.0 * difference.se + 0.02, "{difference:?}");
    assert!(evidence.bound().value < evidence.log_p().value);
}

/// Averages of both bounds over simulated images bracket that of log p(x), found by integration.
#[test]
fn bounds_from_both_sides_bracket_simulated_images() {
    for kernel in [Kernel::Hamiltonian, Kernel::Uha] {
        let deep = trained(&Architecture { latent: 2, kernel, ..small() });
        let both = two_sided(&deep, 60, 3, Hardware::default(), |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((both.lower.len(), both.upper.len()), (60, 60));
        let exact = integrated(&deep, &both.images);
        let over = |bounds: &[f64]| mean(&bounds.iter().zip(&exact).map(|(b, e)| b - e).collect::<Vec<_>>());
        let (lower, upper) = (over(&both.lower), over(&both.upper));
        assert!(lower.value < 2.0 * lower.se && upper.value > -2.0 * upper.se, "{lower:?} {upper:?}");
        // Tight enough to say something.
        assert!(upper.value - lower.value < 2.0, "{lower:?} {upper:?}");
    }
}

#[test]
fn bounds_from_both_sides_can_be_broken_off() {
    let deep = Deep::new(small(), 1).unwrap();
    let some = |most| {
        let until = |done| if done < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        two_sided(&deep, 600, 3, Hardware::default(), until).unwrap()
    };
    let (all, some) = (some(600), some(500));
    assert_eq!((all.lower.len(), some.lower.len()), (600, 500));
    assert_eq!((some.lower, some.upper), (all.lower[..500].to_vec(), all.upper[..500].to_vec()));
}

#[test]
fn an_evaluation_can_be_broken_off_and_does_not_depend_on_threads() {
    let deep = Deep::new(small(), 1).unwrap();
    let images = quarters(20, 5);
    let which: Vec<i32> = (0..20).collect();
    let run = |threads| {
        let mut evaluator = Evaluator::new(&deep, &images, false, 1, Hardware::with_threads(threads)).unwrap();
        evaluator
            .evidence(&which, 300, |done| if done >= 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            .unwrap()
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one.log_p, two.log_p);
    assert!((5..20).contains(&one.log_p.len()));
}

#[test]
fn samples_of_images_that_change_are_refused() {
    let deep = Deep::new(small(), 1).unwrap();
    let images = quarters(3, 5);
    let mut evaluator = Evaluator::new(&deep, &images, true, 1, Hardware::with_threads(1)).unwrap();
    let error = evaluator.evidence(&[0, 1], 10, |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(error.contains("binarized"), "{error}");
    assert!(Evaluator::new(&deep, &Array::new((), vec![0f32]).unwrap(), false, 1, Hardware::with_threads(1)).is_err());
}
