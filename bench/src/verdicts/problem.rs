//! A random target with its exact answers.

use super::affine::Affine;
use super::random::Random;
use super::shape::Shape;
use mcvi::{BayesianModel, Expr, Scope, target};
use serde_json::Value;
use std::sync::Arc;

/// A target of which everything is known.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The name of its family.
    pub family: &'static str,
    /// Its number in the family.
    pub index: usize,
    /// What was drawn for it, by name.
    pub parameters: Value,
    /// log p(x): the density is multiplied by exp of it.
    pub log_z: f64,
    /// The normalised density.
    pub density: Density,
}

/// A normalised density of z.
#[derive(Clone, Debug)]
pub enum Density {
    /// A shape, moved, stretched and rotated.
    Single(Affine, Shape),
    /// A mixture of Gaussians.
    Mixture(Vec<Component>),
}

/// A Gaussian of a mixture.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its share of the mass.
    pub mass: f64,
    /// The map from a standard normal.
    pub map: Affine,
}

impl Component {
    /// ln (mass · density) of z.
    fn log_density(&self, z: &[f64]) -> f64 {
        let squares: f64 = self.map.inverse(z).iter().map(|u| u * u).sum();
        self.constant() - 0.5 * squares
    }

    fn constant(&self) -> f64 {
        self.mass.ln() - self.map.log_det() - 0.5 * self.map.dim() as f64 * std::f64::consts::TAU.ln()
    }
}

impl Problem {
    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        match &self.density {
            Density::Single(map, _) => map.dim(),
            Density::Mixture(components) => components.first().map_or(0, |c| c.map.dim()),
        }
    }

    /// The components of a mixture; none of another density.
    pub fn components(&self) -> &[Component] {
        match &self.density {
            Density::Single(..) => &[],
            Density::Mixture(components) => components,
        }
    }

    /// Exact means and standard deviations of all coordinates.
    pub fn moments(&self) -> (Vec<f64>, Vec<f64>) {
        match &self.density {
            Density::Single(map, shape) => {
                let (mean, variance) = shape.moments(map.dim());
                map.moments(&mean, &variance)
            }
            Density::Mixture(components) => {
                let d = self.dim();
                let spread = |c: &Component| c.map.moments(&vec![0.0; d], &vec![1.0; d]).1;
                let sds: Vec<Vec<f64>> = components.iter().map(spread).collect();
                let mean = |i: usize| components.iter().map(|c| c.mass * c.map.centre[i]).sum::<f64>();
                let variance = |i: usize| {
                    let mean = mean(i);
                    let of =
                        |(c, sd): (&Component, &Vec<f64>)| c.mass * (sd[i].powi(2) + (c.map.centre[i] - mean).powi(2));
                    components.iter().zip(&sds).map(of).sum::<f64>()
                };
                ((0..d).map(mean).collect(), (0..d).map(|i| variance(i).sqrt()).collect())
            }
        }
    }

    /// An exact draw.
    pub fn draw(&self, random: &mut Random) -> Vec<f64> {
        match &self.density {
            Density::Single(map, shape) => map.forward(&shape.draw(map.dim(), random)),
            Density::Mixture(components) => {
                let (u, mut left) = (random.normals(self.dim()), random.uniform());
                let chosen = components.iter().find(|c| {
                    left -= c.mass;
                    left < 0.0
                });
                chosen.or(components.last()).map_or(vec![], |c| c.map.forward(&u))
            }
        }
    }

    /// The probability of each component given z. Averaged over exact draws it is the component's mass.
    pub fn responsibilities(&self, z: &[f64]) -> Vec<f64> {
        let log: Vec<f64> = self.components().iter().map(|c| c.log_density(z)).collect();
        let top = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = log.iter().map(|l| (l - top).exp()).sum();
        log.iter().map(|l| (l - top).exp() / total).collect()
    }

    /// log p(x, z) of rows of z.
    pub fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        match &self.density {
            Density::Single(map, shape) => {
                shape.log_density(scope, map.inverse_expr(scope, z)) + (self.log_z - map.log_det())
            }
            Density::Mixture(components) => {
                let part = |c: &Component| {
                    let squares = c.map.inverse_expr(scope, z).square().sum(&[1]);
                    (squares * -0.5 + c.constant()).expand(1)
                };
                let parts: Vec<Expr<'g>> = components.iter().map(part).collect();
                scope.graph().concat(&parts, 1).logsumexp(&[1]) + self.log_z
            }
        }
    }

    /// As a model for inference, which learns nothing of it but log p(x, z).
    pub fn model(&self) -> Arc<dyn BayesianModel> {
        let problem = self.clone();
        Arc::new(target(self.dim(), move |scope, z| problem.log_density(scope, z)))
    }
}
