//! Bounds and log p(x) of images under a trained model, in bounded memory.

use super::checkpoint::Deep;
use super::model::{IMAGES, Observed, ROWS};
use crate::bound::lower_bound;
use crate::chain::Chain;
use crate::compile::Compile;
use crate::diagnostics::{Mean, log_mean_exp, mean};
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::limits::{self, within};
use crate::params::Params;
use crate::scope::{Choices, Scope, write};
use crate::seed::derive_seed;
use crate::target::Target;
use mcvi_expr::{Array, DType, Expr, Program, Run};
use std::ops::ControlFlow;

/// Rows per pass.
const AT_ONCE: usize = 500;
/// Passes between checks of the observer.
const PASSES: usize = 4;

/// Draws from the approximate posterior of some images, with their bounds, reconstructions and weights.
pub struct Evaluator {
    program: Program,
    rows: usize,
    latent: usize,
    pixels: usize,
    images: usize,
    fresh: bool,
    hardware: Hardware,
}

/// What importance sampling says about a set of images.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evidence {
    /// Importance sampling results for a set of images.
    pub samples: usize,
    /// Samples per image.
    pub bounds: Vec<f64>,
    /// log p(x) of each image, importance-weighted.
    pub log_p: Vec<f64>,
}

impl Evidence {
    /// The mean bound, with its standard error over the images.
    pub fn bound(&self) -> Mean {
        mean(&self.bounds)
    }

    /// The mean log p(x), with its standard error over the images.
    pub fn log_p(&self) -> Mean {
        mean(&self.log_p)
    }
}

impl Evaluator {
    /// For a model and images, `[images, pixels]`.
    pub fn new(deep: &Deep, images: &Array, fresh: bool, seed: u64, hardware: Hardware) -> Result<Self> {
        Self::of_chain(deep, &deep.architecture.chain(), AT_ONCE, images, fresh, (seed, hardware))
    }

    /// The same with another chain over the same parameters, and at most this many rows per pass.
    pub(super) fn of_chain(
        deep: &Deep,
        chain: &Chain,
        rows: usize,
        images: &Array,
        fresh: bool,
        (seed, hardware): (u64, Hardware),
    ) -> Result<Self> {
        let rows = rows.min(AT_ONCE);
        let Deep { architecture, params } = deep;
        let count = architecture.count(images)?;
        let model = architecture.model(Observed::Fed { images: count, fresh });
        let initialisation = Initialisation::standard(architecture.latent);
        let compile = Compile {
            dtype: model.dtype(),
            rows,
            choices: Choices::Sample,
            initialisation: &initialisation,
            params,
            hardware,
        };
        let (mut program, ()) = compile.program(|scope, program| {
            let estimate = lower_bound(&model, chain, scope)?;
            let target = scope.child("target");
            let picture = model.log_odds(&target, estimate.z.opaque()).sigmoid();
            let data = model.data(&target).unwrap_or(picture);
            let program = program.seed(derive_seed(seed, "evaluation")).output("bound", estimate.bound);
            let program = program.output("z", estimate.z).output("picture", picture).output("data", data);
            Ok((program.output("log_p", estimate.log_p).output("first", estimate.first), ()))
        })?;
        program.write(IMAGES, images)?;
        Ok(Evaluator {
            program,
            rows,
            latent: architecture.latent,
            pixels: architecture.pixels(),
            images: count,
            fresh,
            hardware,
        })
    }

    /// Use other weights from now on.
    pub fn set(&mut self, params: &Params) -> Result<()> {
        write(&mut self.program, params)
    }

    /// Use the same noise again.
    pub fn rewind(&mut self) {
        self.program.set_step(0);
    }

    /// The number of images.
    pub fn images(&self) -> usize {
        self.images
    }

    /// The bound of one draw for each of the images `which`.
    pub fn bounds(&mut self, which: &[i32]) -> Result<Vec<f64>> {
        let mut bounds = self.record(which, &["bound"])?.swap_remove(0);
        // NaN counts as −∞.
        bounds.iter_mut().filter(|b| b.is_nan()).for_each(|b| *b = f64::NEG_INFINITY);
        Ok(bounds)
    }

    /// One draw of z for each of the images `which`.
    pub fn draw(&mut self, which: &[i32]) -> Result<Vec<Vec<f64>>> {
        let flat = self.record(which, &["z"])?.swap_remove(0);
        Ok(flat.chunks(self.latent).map(<[f64]>::to_vec).collect())
    }

    /// The images `which` as the model saw them, and their reconstructions: the probability of every pixel.
    pub fn reconstruct(&mut self, which: &[i32]) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let both = self.record(which, &["data", "picture"])?;
        let rows = |flat: &[f64]| flat.chunks(self.pixels).map(<[f64]>::to_vec).collect::<Vec<_>>();
        Ok(rows(&both[0]).into_iter().zip(rows(&both[1])).collect())
    }

    /// Run over the images `which`, as many at a time as fit. Passes are shared out among the ranks.
    pub(super) fn record(&mut self, which: &[i32], outputs: &[&str]) -> Result<Vec<Vec<f64>>> {
        let (rank, ranks) = self.hardware.rank();
        let (steps, begin) = (which.len().div_ceil(self.rows), self.program.step());
        let mine = rank * steps / ranks..(rank + 1) * steps / ranks;
        self.program.set_step(begin + mine.start as u64);
        let images = (mine.start * self.rows).min(which.len())..(mine.end * self.rows).min(which.len());
        let recorded = match images.is_empty() {
            true => vec![vec![]; outputs.len()],
            false => self.record_here(&which[images], outputs)?,
        };
        self.program.set_step(begin + steps as u64);
        recorded.into_iter().map(|mine| Ok(self.hardware.gather(mine)?.concat())).collect()
    }

    fn record_here(&mut self, which: &[i32], outputs: &[&str]) -> Result<Vec<Vec<f64>>> {
        let steps = which.len().div_ceil(self.rows);
        // The last pass is padded with the first image.
        let mut picks = which.to_vec();
        picks.resize(steps * self.rows, which.first().copied().unwrap_or(0));
        let picks = Array::new([steps, self.rows], picks)?;
        let run = outputs.iter().fold(Run::steps(steps).feed(ROWS, &picks), |run, name| run.record(name));
        let recorded = self.program.execute(&run)?;
        let cut = |array: &Array| {
            let width = array.shape().size() / (steps * self.rows);
            let mut flat = array.to_f64();
            flat.truncate(which.len() * width);
            flat
        };
        Ok(recorded.iter().map(cut).collect())
    }

    /// The bound and log p(x) of the images `which` by importance sampling, with the fitted chain as proposal. The
    /// observer gets the number of images done, and may stop there.
    pub fn evidence(
        &mut self,
        which: &[i32],
        samples: usize,
        mut observe: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Evidence> {
        if self.fresh && samples > 1 {
            let why =
                "several samples of an image need it to be fixed: binarize grey images first (`Images::binarized`)"
                    .to_owned();
            return Err(Error::Setting { what: "images", why });
        }
        within("samples", samples, 1..=limits::DRAWS)?;
        let mut evidence = Evidence { samples, bounds: vec![], log_p: vec![] };
        // One image after the other, each as often as it has samples, cut where a pass is full.
        let mut pairs = which.iter().flat_map(|&i| std::iter::repeat_n(i, samples));
        let mut weights: Vec<f64> = Vec::with_capacity(samples);
        loop {
            let chunk: Vec<i32> = pairs.by_ref().take(PASSES * self.hardware.rank().1 * self.rows).collect();
            if chunk.is_empty() {
                return Ok(evidence);
            }
            for bound in self.bounds(&chunk)? {
                weights.push(bound);
                if weights.len() == samples {
                    evidence.bounds.push(mean(&weights).value);
                    evidence.log_p.push(log_mean_exp(&weights).value);
                    weights.clear();
                }
            }
            if observe(evidence.log_p.len()).is_break() {
                return Ok(evidence);
            }
        }
    }

    /// The activity of each latent variable (Burda et al. 2016): the variance over images of E[z|x], estimated from two
    /// independent draws each, with its standard error.
    pub fn activity(&mut self, which: &[i32]) -> Result<Vec<Mean>> {
        let (a, b) = (self.draw(which)?, self.draw(which)?);
        let n = which.len().max(1) as f64;
        let latent = (0..self.latent).map(|j| {
            let center = a.iter().chain(&b).map(|z| z[j]).sum::<f64>() / (2.0 * n);
            let products: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a[j] - center) * (b[j] - center)).collect();
            mean(&products)
        });
        Ok(latent.collect())
    }

    /// Pictures of draws from the prior: the probability of every pixel, or `binary` pixels drawn with it.
    pub fn sample(deep: &Deep, count: usize, binary: bool, seed: u64) -> Result<Vec<Vec<f64>>> {
        let latent = deep.architecture.latent;
        pictures(
            deep,
            count,
            |scope, picture| {
                let picture = picture(scope.normal([count, latent]));
                if binary { scope.uniform([count, deep.architecture.pixels()]).lt(picture) } else { picture }
            },
            seed,
        )
    }

    /// Pictures of these values of the latent variables: the probability of every pixel.
    pub fn decode(deep: &Deep, z: &[Vec<f64>]) -> Result<Vec<Vec<f64>>> {
        let z = Array::new([z.len(), deep.architecture.latent], z.concat())?.cast(DType::F32);
        pictures(deep, z.shape().dims()[0], |scope, picture| picture(scope.graph().literal(z.clone())), 0)
    }
}

/// Rows of pictures, as a function of what the decoder gives for latent variables.
fn pictures(
    deep: &Deep,
    count: usize,
    make: impl for<'g> Fn(&Scope<'g>, &dyn Fn(Expr<'g>) -> Expr<'g>) -> Expr<'g>,
    seed: u64,
) -> Result<Vec<Vec<f64>>> {
    let Deep { architecture, params } = deep;
    let nothing = Array::zeros(DType::F32, [count, architecture.pixels()])?;
    let model = architecture.model(Observed::Given(nothing));
    let initialisation = Initialisation::standard(architecture.latent);
    let (dtype, choices, hardware) = (model.dtype(), Choices::Sample, Hardware::default());
    let compile = Compile { dtype, rows: count, choices, initialisation: &initialisation, params, hardware };
    let (mut program, ()) = compile.program(|scope, program| {
        let picture = make(scope, &|z| model.log_odds(&scope.child("target"), z).sigmoid());
        Ok((program.seed(seed).output("picture", picture), ()))
    })?;
    program.run(1)?;
    Ok(program.output("picture")?.to_f64().chunks(architecture.pixels()).map(<[f64]>::to_vec).collect())
}
