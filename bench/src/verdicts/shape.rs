//! Normalised densities of u with known means and variances, their coordinates uncorrelated, and exact draws from them.

use super::random::Random;
use super::special::{digamma, trigamma};
use mcvi::{Expr, Scope};
use std::f64::consts::{PI, TAU};

/// A normalised density.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Standard normal.
    Normal,
    /// Multivariate t with this many degrees of freedom, of scale one.
    Student(f64),
    /// Pairs (x, y): x standard normal, y given x normal around bend · (x² − 1). Coordinates left over are standard normal.
    Banana {
        /// The bend of each pair.
        bend: Vec<f64>,
        /// The standard deviation of y given x, of each pair.
        width: Vec<f64>,
    },
    /// v normal with this standard deviation, then coordinates of variance exp v.
    Funnel(f64),
    /// exp(−(r − radius)² / 2 width²) in the first two coordinates, r their distance from 0; the others standard normal.
    Circle {
        /// The radius of the ridge.
        radius: f64,
        /// Its width.
        width: f64,
    },
    /// Independent coordinates: logits of Beta variables, then logs of Gamma variables.
    Transformed {
        /// Both parameters of each Beta.
        beta: Vec<(f64, f64)>,
        /// Shape and rate of each Gamma.
        gamma: Vec<(f64, f64)>,
    },
}

/// Integrals of rⁿ N(r; radius, width²) over r > 0, n = 0 to 3.
fn radial(radius: f64, width: f64) -> [f64; 4] {
    let (x, variance) = (radius / width, width * width);
    let m0 = 0.5 * libm::erfc(-x / 2f64.sqrt());
    let m1 = radius * m0 + width * (-0.5 * x * x).exp() / TAU.sqrt();
    let m2 = radius * m1 + variance * m0;
    [m0, m1, m2, radius * m2 + 2.0 * variance * m1]
}

impl Shape {
    /// ln p(u) of rows of u.
    pub fn log_density<'g>(&self, scope: &Scope<'g>, u: Expr<'g>) -> Expr<'g> {
        let d = u.shape().dims()[1];
        let half_log_tau = 0.5 * TAU.ln();
        match self {
            Shape::Normal => u.square().sum(&[1]) * -0.5 - half_log_tau * d as f64,
            Shape::Student(nu) => {
                let (nu, d) = (*nu, d as f64);
                let constant = libm::lgamma(0.5 * (nu + d)) - libm::lgamma(0.5 * nu) - 0.5 * d * (nu * PI).ln();
                (u.square().sum(&[1]) * (1.0 / nu)).log1p() * (-0.5 * (nu + d)) + constant
            }
            Shape::Banana { bend, width } => {
                let pairs = 2 * bend.len();
                let (x, y) = (u.slice_step(1, 0..pairs, 2), u.slice_step(1, 1..pairs, 2));
                let off = (y - (x.square() - 1.0) * scope.vector(bend)) / scope.vector(width);
                let mut squares = x.square().sum(&[1]) + off.square().sum(&[1]);
                if pairs < d {
                    squares = squares + u.slice(1, pairs..d).square().sum(&[1]);
                }
                let constant = width.iter().map(|w| w.ln()).sum::<f64>() + half_log_tau * d as f64;
                squares * -0.5 - constant
            }
            Shape::Funnel(sd) => {
                let v = u.at(1, 0);
                let squares = u.slice(1, 1..d).square().sum(&[1]) * (-v).exp();
                let of_v = v.square() * (-0.5 / (sd * sd)) - v * (0.5 * (d - 1) as f64);
                of_v - squares * 0.5 - (sd.ln() + half_log_tau * d as f64)
            }
            Shape::Circle { radius, width } => {
                let r = u.slice(1, 0..2).square().sum(&[1]).sqrt();
                let mut log_p = ((r - *radius) * (1.0 / width)).square() * -0.5;
                if d > 2 {
                    log_p = log_p - u.slice(1, 2..d).square().sum(&[1]) * 0.5;
                }
                let ring = TAU.ln() + radial(*radius, *width)[1].ln() + width.ln() + half_log_tau;
                log_p - (ring + half_log_tau * (d - 2) as f64)
            }
            Shape::Transformed { beta, gamma } => {
                let constants = beta.iter().map(|(a, b)| libm::lgamma(a + b) - libm::lgamma(*a) - libm::lgamma(*b));
                let constant = constants.sum::<f64>() - gamma.iter().map(|(k, _)| libm::lgamma(*k)).sum::<f64>();
                let mut log_p = u.sum(&[1]) * 0.0 + constant;
                if !beta.is_empty() {
                    let (a, b): (Vec<f64>, Vec<f64>) = beta.iter().copied().unzip();
                    let x = u.slice(1, 0..beta.len());
                    let terms = x.log_sigmoid() * scope.vector(&a) + (-x).log_sigmoid() * scope.vector(&b);
                    log_p = log_p + terms.sum(&[1]);
                }
                if !gamma.is_empty() {
                    let (shape, rate): (Vec<f64>, Vec<f64>) = gamma.iter().map(|(k, r)| (*k, r.ln())).unzip();
                    let x = u.slice(1, beta.len()..d) + scope.vector(&rate);
                    log_p = log_p + (x * scope.vector(&shape) - x.exp()).sum(&[1]);
                }
                log_p
            }
        }
    }

    /// Mean and variance of each of d coordinates.
    pub fn moments(&self, d: usize) -> (Vec<f64>, Vec<f64>) {
        let mut moments = vec![(0.0, 1.0); d];
        match self {
            Shape::Normal => {}
            Shape::Student(nu) => moments.fill((0.0, nu / (nu - 2.0))),
            Shape::Banana { bend, width } => {
                for (i, (b, w)) in bend.iter().zip(width).enumerate() {
                    moments[2 * i + 1].1 = w * w + 2.0 * b * b;
                }
            }
            Shape::Funnel(sd) => {
                moments.fill((0.0, (0.5 * sd * sd).exp()));
                moments[0].1 = sd * sd;
            }
            Shape::Circle { radius, width } => {
                let m = radial(*radius, *width);
                moments[..2].fill((0.0, 0.5 * m[3] / m[1]));
            }
            Shape::Transformed { beta, gamma } => {
                let logits = beta.iter().map(|(a, b)| (digamma(*a) - digamma(*b), trigamma(*a) + trigamma(*b)));
                let logs = gamma.iter().map(|(k, rate)| (digamma(*k) - rate.ln(), trigamma(*k)));
                moments = logits.chain(logs).collect();
            }
        }
        moments.into_iter().unzip()
    }

    /// An exact draw of d coordinates.
    pub fn draw(&self, d: usize, random: &mut Random) -> Vec<f64> {
        let mut u = random.normals(d);
        match self {
            Shape::Normal => {}
            Shape::Student(nu) => {
                let factor = (nu / (2.0 * random.log_gamma(0.5 * nu).exp())).sqrt();
                u.iter_mut().for_each(|u| *u *= factor);
            }
            Shape::Banana { bend, width } => {
                for (i, (b, w)) in bend.iter().zip(width).enumerate() {
                    u[2 * i + 1] = b * (u[2 * i].powi(2) - 1.0) + w * u[2 * i + 1];
                }
            }
            Shape::Funnel(sd) => {
                u[0] *= sd;
                let factor = (0.5 * u[0]).exp();
                u[1..].iter_mut().for_each(|u| *u *= factor);
            }
            Shape::Circle { radius, width } => {
                // By rejection: p(r) ∝ r N(r; radius, width²), and no normal draw is beyond 9 sds.
                let r = loop {
                    let r = radius + width * random.normal();
                    if random.uniform() * (radius + 9.0 * width) < r {
                        break r;
                    }
                };
                let angle = TAU * random.uniform();
                (u[0], u[1]) = (r * angle.cos(), r * angle.sin());
            }
            Shape::Transformed { beta, gamma } => {
                let mut coordinates = u.iter_mut();
                for ((a, b), u) in beta.iter().zip(&mut coordinates) {
                    *u = random.log_gamma(*a) - random.log_gamma(*b);
                }
                for ((k, rate), u) in gamma.iter().zip(&mut coordinates) {
                    *u = random.log_gamma(*k) - rate.ln();
                }
            }
        }
        u
    }
}
