//! Hamiltonian variational inference for stomach cancer mortality in Missouri: DESIGN §6, second workload.

use crate::hvi::{leapfrog, point};
use crate::{Workload, gaussian, noise};
use mcvi_expr::{Array, DType, Expr, Graph, Result, grad};

/// Deaths in each of 20 cities.
const DEATHS: [f64; 20] = [0., 0., 2., 0., 1., 1., 0., 2., 1., 3., 0., 1., 1., 1., 54., 0., 0., 1., 3., 0.];
/// People at risk.
const AT_RISK: [f64; 20] = [
    1083., 855., 3461., 657., 1208., 1025., 527., 1668., 583., 582., 917., 857., 680., 917., 53637., 874., 395., 581.,
    588., 383.,
];

/// Number of parameters.
pub const PARAMETERS: usize = 31;

/// Starting values: q(z₀) near the mode, small steps.
pub fn start() -> Vec<f64> {
    let mut p = vec![0.0; PARAMETERS];
    p[..4].copy_from_slice(&[-6.82, 7.57, -1.5, 0.0]);
    p[PARAMETERS - 1] = 0.1f64.ln();
    p
}

/// log p(x, z) for rows z = (logit η, log K), Albert's prior with both Jacobians.
pub fn log_density<'g>(graph: &'g Graph, z: Expr<'g>) -> Expr<'g> {
    let data = |values: Vec<f64>| graph.literal(Array::new([20], values).expect("20 cities"));
    let y = data(DEATHS.to_vec());
    let n = data(AT_RISK.to_vec());
    let survivors = data(AT_RISK.iter().zip(DEATHS).map(|(n, y)| n - y).collect());
    let (logit, log_k) = (z.slice(1, 0..1), z.slice(1, 1..2));
    let (k, eta) = (log_k.exp(), logit.sigmoid());
    let (a, b) = (k * eta, k * (1.0 - eta));
    let terms = a.lgamma_diff(y) + b.lgamma_diff(survivors) - k.lgamma_diff(n);
    terms.sum(&[1]) + (log_k - log_k.softplus() * 2.0).sum(&[1])
}

/// Build the loss over `draws` rows. `fixed` takes the noise from inputs `e0` and `e1`.
pub fn build<'g>(
    graph: &'g Graph,
    leapfrogs: usize,
    draws: usize,
    initial: Array,
    fixed: bool,
) -> Result<Workload<'g>> {
    let params = graph.state("params", initial);
    // Few and small, so the parameters are one state, and the loss uses parts of it.
    let mut parts: Vec<Expr<'g>> = vec![];
    let mut cut = |shape: &[usize]| {
        let start: usize = parts.iter().map(|p| p.shape().size()).sum();
        let n: usize = shape.iter().product();
        parts.push(params.slice(0, start..start + n).reshape(shape));
        parts[parts.len() - 1]
    };
    let (mean, log_sd) = (cut(&[2]), cut(&[2]));
    let mut momentum = || (cut(&[2, 2]), cut(&[2, 2]), cut(&[2]), cut(&[2]));
    let (q, r) = (momentum(), momentum());
    let (mass, eps) = (cut(&[2]).exp(), cut(&[]).exp());
    let noise = |name, stream| noise(graph, name, stream, DType::F64, [draws, 2], fixed);
    let (e0, e1) = (noise("e0", 0), noise("e1", 1));
    let target = |z| log_density(graph, z);

    let z0 = mean + log_sd.exp() * e0;
    let start = point(&target, z0)?;
    let v_mean = z0.matmul(q.0) + start.gradient.matmul(q.1) + q.2;
    let v = v_mean + q.3.exp() * e1;
    let log_q = gaussian(e0, log_sd) + gaussian(e1, q.3);
    let (end, v) = leapfrog(&target, start, v, eps, mass, leapfrogs)?;
    let r_mean = end.z.matmul(r.0) + end.gradient.matmul(r.1) + r.2;
    let log_r = gaussian((v - r_mean) / r.3.exp(), r.3);
    let bound = end.log_p - log_q + log_r;
    let loss = -bound.mean_all();
    let gradients: Vec<Expr<'g>> = grad(loss, &parts)?.into_iter().map(Expr::flatten).collect();
    Ok(Workload { loss, params: vec![(params, graph.concat(&gradients, 0))], rate: 1e-2 })
}
