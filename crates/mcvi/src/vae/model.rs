//! Latent variable models of images: p(z) standard normal, p(x|z) independent pixels with log odds from a decoder.

use crate::network::Network;
use crate::scope::Scope;
use crate::target::Target;
use mcvi_expr::{Array, DType, Expr};
use std::f64::consts::TAU;
use std::sync::Arc;

/// The input that holds all images, `[images, pixels]`, if they are inputs.
pub const IMAGES: &str = "data.images";
/// The input that holds the image index of each row, if they are inputs.
pub const ROWS: &str = "data.rows";

/// The images of a model.
#[derive(Clone, Debug)]
pub enum Observed {
    /// All images are an input of the program, and the image index of each row is another.
    Fed {
        /// The number of images.
        images: usize,
        /// Draw pixels afresh from grey values every time.
        fresh: bool,
    },
    /// These images, one for each row.
    Given(Array),
}

impl Observed {
    /// No images: for a model of which only the parameters are needed.
    pub(super) fn nothing() -> Self {
        Observed::Fed { images: 1, fresh: false }
    }
}

/// A decoder with its images: log p(x, z) of a row is that of its image.
#[derive(Clone, Debug)]
pub struct LatentModel {
    /// The number of latent variables.
    pub latent: usize,
    /// The number of pixels.
    pub pixels: usize,
    /// From latent variables to the log odds of pixels.
    pub decoder: Arc<dyn Network>,
    /// The images.
    pub observed: Observed,
}

impl LatentModel {
    /// The log odds of every pixel: `[rows, pixels]`.
    pub fn log_odds<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        self.decoder.apply(scope, &[("z", z)], self.pixels, 1.0)
    }

    fn images<'g>(&self, scope: &Scope<'g>) -> Expr<'g> {
        let graph = scope.graph();
        match &self.observed {
            Observed::Given(rows) => scope.shared("data", || graph.literal(rows.clone())),
            Observed::Fed { images, fresh } => scope.shared("data", || {
                let whole = scope.root().of_all_parts();
                let all = whole.shared(IMAGES, || graph.input(IMAGES, self.dtype(), [*images, self.pixels]));
                let rows = whole.shared(ROWS, || graph.input(ROWS, DType::I32, scope.rows_of_all()));
                let rows = scope.rows_of_part(rows);
                let grey = all.take(0, rows);
                if *fresh { scope.uniform([scope.rows(), self.pixels]).lt(grey) } else { grey }
            }),
        }
    }
}

impl Target for LatentModel {
    fn dim(&self) -> usize {
        self.latent
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let prior = z.square().sum(&[1]) * -0.5 - 0.5 * self.latent as f64 * TAU.ln();
        self.bernoulli(scope, z) + prior
    }

    fn log_likelihood<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Option<Expr<'g>> {
        Some(self.bernoulli(scope, z))
    }

    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        Some(self.images(scope))
    }

    fn dtype(&self) -> DType {
        DType::F32
    }
}

impl LatentModel {
    /// log p(x|z): Bernoulli pixels.
    fn bernoulli<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let (x, log_odds) = (self.images(scope), self.log_odds(scope, z));
        // If accept paths have split the rows, every path has the same images.
        let paths = z.shape().dims()[0] / x.shape().dims()[0].max(1);
        let x = if paths > 1 { scope.graph().concat(&vec![x; paths], 0) } else { x };
        (x * log_odds - log_odds.softplus()).sum(&[1])
    }
}
