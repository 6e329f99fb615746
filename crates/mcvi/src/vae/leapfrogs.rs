//! The effect of each leapfrog of a trained chain: the same chain, stopped after fewer of them.

use super::checkpoint::Deep;
use super::evaluate::Evaluator;
use crate::diagnostics::{Mean, mean};
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use mcvi_expr::Array;

/// A trained chain, stopped after each number of leapfrogs.
#[derive(Clone, Debug)]
pub struct LeapfrogCurve {
    /// The bound of q(z₀|x) alone, without any momentum.
    pub start: Mean,
    /// After 0, 1, … leapfrogs, of every step if steps are Hamiltonian, up to all of them. Empty if there is no step.
    pub after: Vec<Stopped>,
}

/// A chain that stops after some leapfrogs. Standard errors are over images.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// The number of leapfrogs.
    pub leapfrogs: usize,
    /// The bound. It is a bound for any number of leapfrogs, but the chain has learned to end after all of them: after fewer
    /// r(v|x, z) may be a poor model of the momenta, or an annealed step far from the posterior, and the bound is low for
    /// that reason alone.
    pub bound: Mean,
    /// The bound minus that of q(z₀|x) alone, image by image.
    pub gain: Mean,
    /// log p(x, z), which r does not influence.
    pub log_joint: Mean,
    /// log p(x, z) minus log p(x, z₀), image by image.
    pub climb: Mean,
}

/// Follow a trained chain leapfrog by leapfrog over `images`, `[images, pixels]`, with this many draws of each. The
/// observer gets how many of the numbers of leapfrogs, from 0 to all, are done.
pub fn leapfrog_curve(
    deep: &Deep,
    images: &Array,
    (fresh, draws): (bool, usize),
    (seed, hardware): (u64, Hardware),
    mut observe: impl FnMut(usize),
) -> Result<LeapfrogCurve> {
    let count = images.shape().dims()[0];
    if count == 0 || draws == 0 {
        return Err(Error::Setting { what: "leapfrogs", why: "need at least one image and one draw".to_owned() });
    }
    let which: Vec<i32> = (0..count as i32).flat_map(|i| std::iter::repeat_n(i, draws)).collect();
    let each = |values: &[f64]| values.chunks(draws).map(|of| mean(of).value).collect::<Vec<f64>>();
    let less = |a: &[f64], b: &[f64]| mean(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>());

    // Always the same seed, so that all start from the same positions and momenta.
    let mut run = |leapfrogs: usize| -> Result<[Vec<f64>; 3]> {
        let chain = deep.architecture.chain_of(leapfrogs);
        let mut evaluator = Evaluator::of_chain(deep, &chain, which.len(), images, fresh, (seed, hardware))?;
        let recorded = evaluator.record(&which, &["bound", "log_p", "first"])?;
        observe(leapfrogs + 1);
        Ok([0, 1, 2].map(|i| each(&recorded[i])))
    };
    // Zero leapfrogs move nothing: this log p is that of z₀.
    let [bound0, log_p0, first] = run(0)?;
    let stopped = |leapfrogs: usize, bound: &[f64], log_p: &[f64]| Stopped {
        leapfrogs,
        bound: mean(bound),
        gain: less(bound, &first),
        log_joint: mean(log_p),
        climb: less(log_p, &log_p0),
    };
    let all = deep.architecture.leapfrogs;
    let mut after = if all > 0 { vec![stopped(0, &bound0, &log_p0)] } else { vec![] };
    for leapfrogs in 1..=all {
        let [bound, log_p, _] = run(leapfrogs)?;
        after.push(stopped(leapfrogs, &bound, &log_p));
    }
    Ok(LeapfrogCurve { start: mean(&first), after })
}

#[cfg(test)]
mod tests {
    use super::super::architecture::{Architecture, Kernel};
    use super::*;

    fn model(leapfrogs: usize) -> (Deep, Array) {
        model_with(Kernel::Hamiltonian, leapfrogs)
    }

    fn model_with(kernel: Kernel, leapfrogs: usize) -> (Deep, Array) {
        let (image, hidden, latent) = ([4, 4], 8, 3);
        let architecture = Architecture { image, hidden, latent, kernel, leapfrogs, ..Architecture::default() };
        let pixels = (0..60 * 16).map(|i| f32::from(u8::from(i * i % 7 > 3))).collect::<Vec<f32>>();
        (Deep::new(architecture, 3).unwrap(), Array::new([60, 16], pixels).unwrap())
    }

    #[test]
    fn it_begins_with_the_start_and_ends_with_the_whole_chain() {
        let (deep, images) = model(3);
        let mut done = vec![];
        let profile =
            leapfrog_curve(&deep, &images, (false, 2), (5, Hardware::with_threads(1)), |n| done.push(n)).unwrap();
        assert_eq!(done, [1, 2, 3, 4]);
        assert_eq!(profile.after.iter().map(|s| s.leapfrogs).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!((profile.after[0].climb.value, profile.after[0].climb.se), (0.0, 0.0));
        let which: Vec<i32> = (0..60).flat_map(|i| [i, i]).collect();
        let whole =
            Evaluator::new(&deep, &images, false, 5, Hardware::with_threads(1)).unwrap().bounds(&which).unwrap();
        assert!((profile.after[3].bound.value - mean(&whole).value).abs() < 1e-6);
        for s in &profile.after {
            assert!((s.gain.value - (s.bound.value - profile.start.value)).abs() < 1e-6, "{s:?}");
            let climb = s.log_joint.value - profile.after[0].log_joint.value;
            assert!((s.climb.value - climb).abs() < 1e-6, "{s:?}");
        }
    }

    #[test]
    fn a_chain_that_keeps_its_momentum_can_stop_after_any_leapfrog() {
        for kernel in [Kernel::Uha, Kernel::RiemannianUha, Kernel::Ldvi, Kernel::Cmcd] {
            let (mut deep, images) = model_with(kernel, 3);
            // Networks in time are zero to begin with.
            let names: Vec<String> = deep.params.iter().map(|(name, _)| name.to_owned()).collect();
            for name in names.iter().filter(|name| name.ends_with("output.hidden") && name.starts_with("steps1")) {
                let value = &deep.params.get(name).unwrap().value;
                let other = (0..value.shape().size()).map(|i| 0.1 * (i as f32).sin()).collect::<Vec<f32>>();
                let other = Array::new(value.shape().clone(), other).unwrap();
                deep.params.set(name, other).unwrap();
            }
            let hardware = Hardware::with_threads(1);
            let profile = leapfrog_curve(&deep, &images, (false, 1), (5, hardware), |_| {}).unwrap();
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{kernel:?}: {a} {b}");
            // Before the first leapfrog there is no momentum to explain.
            near(profile.after[0].bound.value, profile.start.value);
            near(profile.after[0].climb.value, 0.0);
            let which: Vec<i32> = (0..60).collect();
            let whole = Evaluator::new(&deep, &images, false, 5, hardware).unwrap().bounds(&which).unwrap();
            near(profile.after[3].bound.value, mean(&whole).value);
        }
    }

    #[test]
    fn without_a_chain_there_is_only_the_start() {
        let (deep, images) = model(0);
        let profile = leapfrog_curve(&deep, &images, (false, 1), (5, Hardware::with_threads(1)), |_| {}).unwrap();
        assert!(profile.after.is_empty());
        let which: Vec<i32> = (0..60).collect();
        let bounds =
            Evaluator::new(&deep, &images, false, 5, Hardware::with_threads(1)).unwrap().bounds(&which).unwrap();
        assert!((profile.start.value - mean(&bounds).value).abs() < 1e-6);
        assert!(leapfrog_curve(&deep, &images, (false, 0), (5, Hardware::with_threads(1)), |_| {}).is_err());
    }
}
