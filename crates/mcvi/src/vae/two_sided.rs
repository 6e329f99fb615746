//! Bounds from both sides on log p(x) of images simulated from a model: z drawn from the prior is a draw of the posterior given
//! the image that was drawn with it.

use super::checkpoint::Deep;
use super::evaluate::Evaluator;
use super::model::{IMAGES, Observed, ROWS};
use crate::bound::upper_bound;
use crate::compile::Compile;
use crate::diagnostics::mean;
use crate::error::Result;
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::limits::{self, within};
use crate::scope::Choices;
use crate::seed::derive_seed;
use crate::target::Target;
use mcvi_expr::{Array, DType};
use std::ops::ControlFlow;

/// Rows per pass.
const AT_ONCE: usize = 500;
/// Paths of each image and direction; their bounds are averaged.
const PATHS: usize = 16;

/// Bounds on log p(x) of simulated images.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TwoSided {
    /// The images, `[images, pixels]`.
    pub images: Array,
    /// The lower bound of each image.
    pub lower: Vec<f64>,
    /// The upper bound of each image.
    pub upper: Vec<f64>,
}

/// Simulate `count` images and bound log p(x) of each from both sides. The observer gets the number of images that have both, and
/// may stop there.
pub fn two_sided(
    deep: &Deep,
    count: usize,
    seed: u64,
    hardware: Hardware,
    mut observe: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<TwoSided> {
    within("images", count, 1..=limits::DRAWS)?;
    let Deep { architecture, params } = deep;
    let (rows, latent, pixels) = (count.min(AT_ONCE), architecture.latent, architecture.pixels());
    let initialisation = Initialisation::standard(latent);
    let (dtype, choices) = (DType::F32, Choices::Sample);
    let compile = Compile { dtype, rows, choices, initialisation: &initialisation, params, hardware };

    let model = architecture.model(Observed::nothing());
    let (mut simulator, ()) = compile.program(|scope, program| {
        let z = scope.normal([rows, latent]);
        let picture = model.log_odds(&scope.child("target"), z).sigmoid();
        let x = scope.uniform([rows, pixels]).lt(picture);
        Ok((program.seed(derive_seed(seed, "simulated images")).output("z", z).output("x", x), ()))
    })?;
    let (mut z, mut x) = (vec![], vec![]);
    while z.len() < count * latent {
        simulator.run(1)?;
        z.extend(simulator.output("z")?.to_f64());
        x.extend(simulator.output("x")?.to_f64());
    }
    x.truncate(count * pixels);
    let images = Array::new([count, pixels], x)?.cast(dtype);

    let model = architecture.model(Observed::Fed { images: count, fresh: false });
    let (mut backwards, ()) = compile.program(|scope, program| {
        let z = scope.graph().input("z", model.dtype(), [rows, latent]);
        let upper = upper_bound(&model, &architecture.chain(), scope, z)?;
        Ok((program.seed(derive_seed(seed, "upper bound")).output("upper", upper), ()))
    })?;
    backwards.write(IMAGES, &images)?;
    let mut forwards = Evaluator::new(deep, &images, false, seed, hardware)?;
    let mut both = TwoSided { images, lower: vec![], upper: vec![] };
    while both.upper.len() < count && observe(both.upper.len()).is_continue() {
        let first = both.upper.len();
        let which: Vec<i32> = (first..(first + rows).min(count)).map(|i| i as i32).collect();
        both.lower.extend(forwards.evidence(&which, PATHS, |_| ControlFlow::Continue(()))?.bounds);
        // The last pass is filled up with the last image.
        let padded: Vec<usize> = (first..first + rows).map(|i| i.min(count - 1)).collect();
        let at: Vec<f64> = padded.iter().flat_map(|i| &z[i * latent..(i + 1) * latent]).copied().collect();
        backwards.write("z", &Array::new([rows, latent], at)?.cast(dtype))?;
        backwards.write(ROWS, &Array::new(rows, padded.iter().map(|i| *i as i32).collect::<Vec<_>>())?)?;
        let mut paths: Vec<Vec<f64>> = vec![vec![]; which.len()];
        for _ in 0..PATHS {
            backwards.run(1)?;
            let upper = backwards.output("upper")?.to_f64();
            // A path that cannot be followed says nothing.
            let upper = upper.into_iter().map(|u| if u.is_nan() { f64::INFINITY } else { u });
            paths.iter_mut().zip(upper).for_each(|(paths, u)| paths.push(u));
        }
        both.upper.extend(paths.iter().map(|paths| mean(paths).value));
    }
    Ok(both)
}
