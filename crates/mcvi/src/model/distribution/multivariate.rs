//! Log densities of vectors and matrices.

use super::continuous::log_power;
use super::{all, last, within};
use mcvi_expr::{DType, Expr};
use std::f64::consts::{PI, TAU};

/// How far from 1 a sum may be by rounding alone.
fn tolerance(x: Expr<'_>) -> f64 {
    if x.dtype() == DType::F64 { 1e-8 } else { 1e-4 }
}

#[track_caller]
pub(super) fn dirichlet<'g>(x: Expr<'g>, concentration: Expr<'g>) -> Expr<'g> {
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
}

#[track_caller]
pub(super) fn normal_cholesky<'g>(x: Expr<'g>, mean: Expr<'g>, lower: Expr<'g>) -> Expr<'g> {
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
}

#[track_caller]
pub(super) fn lkj_cholesky<'g>(x: Expr<'g>, eta: Expr<'g>) -> Expr<'g> {
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
}
