//! Distributions of vectors and matrices.

use super::continuous::log_power;
use super::sample::dirichlet as draw_dirichlet;
use super::{Distribution, Event, Support, Value, all, last, within};
use mcvi_expr::{DType, Expr};
use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};
use std::f64::consts::{PI, TAU};

/// The Dirichlet distribution of vectors `[.., k]` that sum to 1.
pub fn dirichlet<'g>(concentration: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("dirichlet", [concentration.into()], |x, [concentration]| {
        let Some(&k) = x.shape().dims().last() else { return x.sum(&[0]) };
        let axis = last(x);
        let powers = log_power(x, x.ln(), concentration - 1.0);
        // A single concentration stands for k equal ones.
        let mut dims = concentration.shape().dims().to_vec();
        match dims.last_mut() {
            Some(extent) if *extent == 1 => *extent = k,
            Some(_) => {}
            None => dims.push(k),
        }
        let concentration = concentration.broadcast_to(dims);
        let along = [last(concentration)];
        let constant = concentration.sum(&along).lgamma() - concentration.lgamma().sum(&along);
        let is_simplex = all(x.ge(0.0)) * (x.sum(&[axis]) - 1.0).abs().le(tolerance(x));
        within(is_simplex, powers.sum(&[last(powers)]) + constant)
    })
    .with_support(Support::Simplex)
    .with_event_dims(1, [1])
    .with_event_sampler(|event, rng| draw_dirichlet(event.parameters.first()?, rng))
}

/// Normal vectors `[.., k]` with mean `[.., k]` and covariance L Lᵀ, where `lower` is L, `[.., k, k]`.
pub fn multivariate_normal_cholesky<'g>(mean: impl Into<Value<'g>>, lower: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("multivariate_normal_cholesky", [mean.into(), lower.into()], |x, [mean, lower]| {
        let error = x - mean;
        let mut lead = lower.shape().dims().to_vec();
        let (rank, k) = (error.shape().rank(), lead.last().copied().unwrap_or(1));
        // Where vectors share a factor they are the columns of one right side, and the factor is not copied for each.
        let shared = rank >= 2 && (lead.len() == 2 || lead.len() > 2 && lead[lead.len() - 3] == 1);
        let squares = if shared {
            if lead.len() > 2 {
                lead.remove(lead.len() - 3);
            }
            let scaled = lower.reshape(lead).solve_lower(error.t());
            scaled.square().sum(&[last(scaled).saturating_sub(1)])
        } else {
            let scaled = lower.solve_lower(error.expand(rank));
            scaled.at(last(scaled), 0).square().sum(&[last(scaled).saturating_sub(1)])
        };
        let logs = lower.diagonal().ln();
        squares * -0.5 - logs.sum(&[last(logs)]) - 0.5 * k as f64 * TAU.ln()
    })
    .with_event_dims(1, [1, 2])
    .with_event_sampler(draw_normal)
}

/// The lower Cholesky factor `[.., k, k]` of a correlation matrix with density ∝ det^(`eta` − 1); `eta` is a
/// scalar parameter, `[.., 1]`.
pub fn lkj_cholesky<'g>(eta: impl Into<Value<'g>>) -> Distribution<'g> {
    Distribution::new("lkj_cholesky", [eta.into()], |x, [eta]| {
        let diagonal = x.diagonal();
        let Some(&k) = diagonal.shape().dims().last() else { return diagonal };
        // Row j of L, counted from 0, contributes L_jj^(K − 1 − j + 2(η − 1)), but for the first, which is always 1;
        // the constant is Π_j Γ(η + (K − 1)/2) / [π^(j/2) Γ(η + (K − 1 − j)/2)] (Lewandowski, Kurowicka & Joe, 2009).
        let j = x.graph().arange(x.dtype(), k);
        let below = (k - 1) as f64 - j;
        let power = j.gt(0.0).select(below + (eta - 1.0) * 2.0, 0.0);
        let constant = (eta + below * 0.5).lgamma_diff(j * 0.5) - j * (0.5 * PI.ln());
        let terms = power * diagonal.ln() + constant;

        let norms = x.square().sum(&[last(x)]);
        let above = (x - x.tril()).abs().sum(&[last(x)]);
        let valid = diagonal.gt(0.0) * above.eq(0.0) * (norms - 1.0).abs().le(tolerance(x));
        within(all(valid), terms.sum(&[last(terms)]))
    })
    .with_support(Support::CorrelationCholesky)
    .with_event_dims(2, [0])
    .with_event_sampler(draw_correlation_cholesky)
}

/// How far from 1 a sum may be by rounding alone.
fn tolerance(x: Expr<'_>) -> f64 {
    if x.dtype() == DType::F64 { 1e-8 } else { 1e-4 }
}

fn draw_normal(event: &Event<'_>, rng: &mut dyn Rng) -> Option<Vec<f64>> {
    let &[mean, lower] = event.parameters else { return None };
    let k = mean.len();
    if lower.len() != k * k {
        return None;
    }
    let noise: Vec<f64> = (0..k).map(|_| StandardNormal.sample(rng)).collect();
    let row = |i: usize| lower[i * k..=i * k + i].iter().zip(&noise).map(|(l, e)| l * e).sum::<f64>();
    Some((0..k).map(|i| mean[i] + row(i)).collect())
}

/// By canonical partial correlations (Lewandowski, Kurowicka & Joe, 2009, section 2.4).
fn draw_correlation_cholesky(event: &Event<'_>, rng: &mut dyn Rng) -> Option<Vec<f64>> {
    let (eta, k) = (*event.parameters.first()?.first()?, event.like.len().isqrt());
    let mut factor = vec![0.0; k * k];
    for i in 0..k {
        let mut left: f64 = 1.0; // of the row's squared length
        for j in 0..i {
            let shape = eta + 0.5 * (k - 2 - j) as f64;
            let p = draw_dirichlet(&[shape, shape], rng)?;
            factor[i * k + j] = (p[0] - p[1]) * left.sqrt();
            left *= 4.0 * p[0] * p[1]; // 1 − (p − q)², with p + q = 1
        }
        factor[i * k + i] = left.sqrt();
    }
    Some(factor)
}
