//! The training step of a variational auto-encoder with one HMC step: DESIGN §6, first workload.

use crate::hvi::{leapfrog, point};
use crate::{Cutter, Workload, gaussian, noise};
use mcvi_expr::{Array, DType, Expr, Graph, Result, grad};
use std::f64::consts::TAU;

const LATENT: usize = 32;
const HIDDEN: usize = 300;
const PIXELS: usize = 784;

/// Number of parameters.
pub fn parameters(leapfrogs: usize) -> usize {
    let decoder = (LATENT + 1) * HIDDEN + (HIDDEN + 1) * HIDDEN + (HIDDEN + 1) * PIXELS;
    let encoder = (PIXELS + 1) * HIDDEN + (HIDDEN + 1) * HIDDEN + (HIDDEN + 1) * 2 * LATENT;
    let inverse = (PIXELS + LATENT + 1) * HIDDEN + (HIDDEN + 1) * 2 * LATENT;
    decoder + encoder + if leapfrogs > 0 { inverse + 3 * LATENT + 1 } else { 0 }
}

/// Mean and log standard deviation from one output layer.
fn halves(x: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    (x.slice(1, 0..LATENT), x.slice(1, LATENT..2 * LATENT))
}

/// Build the loss over a batch. `fixed` takes the noise from inputs `e0` and `e1`.
pub fn build<'g>(
    graph: &'g Graph,
    leapfrogs: usize,
    batch: usize,
    initial: Array,
    fixed: bool,
) -> Result<Workload<'g>> {
    let x = graph.input("x", DType::F32, [batch, PIXELS]);
    let mut cut = Cutter::new(graph, &initial);

    let (w1, b1) = (cut.state([LATENT, HIDDEN])?, cut.state([HIDDEN])?);
    let (w2, b2) = (cut.state([HIDDEN, HIDDEN])?, cut.state([HIDDEN])?);
    let (w3, b3) = (cut.state([HIDDEN, PIXELS])?, cut.state([PIXELS])?);
    let target = |z: Expr<'g>| {
        let h1 = (z.matmul(w1) + b1).softplus();
        let h2 = (h1.matmul(w2) + b2).softplus();
        let logits = h2.matmul(w3) + b3;
        let likelihood = (x * logits - logits.softplus()).sum(&[1]);
        likelihood + z.square().sum(&[1]) * -0.5 - 0.5 * LATENT as f64 * TAU.ln()
    };

    let (e1, c1) = (cut.state([PIXELS, HIDDEN])?, cut.state([HIDDEN])?);
    let (e2, c2) = (cut.state([HIDDEN, HIDDEN])?, cut.state([HIDDEN])?);
    let (e3, c3) = (cut.state([HIDDEN, 2 * LATENT])?, cut.state([2 * LATENT])?);
    let h = (x.matmul(e1) + c1).softplus();
    let h = (h.matmul(e2) + c2).softplus();
    let (mean, log_sd) = halves(h.matmul(e3) + c3);
    let noise0 = noise(graph, "e0", 0, DType::F32, [batch, LATENT], fixed);
    let z0 = mean + log_sd.exp() * noise0;
    let log_q0 = gaussian(noise0, log_sd);

    let bound = if leapfrogs == 0 {
        target(z0) - log_q0
    } else {
        let (rx, rz, rb) = (cut.state([PIXELS, HIDDEN])?, cut.state([LATENT, HIDDEN])?, cut.state([HIDDEN])?);
        let (r2, rb2) = (cut.state([HIDDEN, 2 * LATENT])?, cut.state([2 * LATENT])?);
        let (mass, eps) = (cut.state([LATENT])?.exp(), cut.state([])?.exp());
        let (v_mean, v_log_sd) = (cut.state([LATENT])?, cut.state([LATENT])?);

        let noise1 = noise(graph, "e1", 1, DType::F32, [batch, LATENT], fixed);
        let v = v_mean + v_log_sd.exp() * noise1;
        let log_qv = gaussian(noise1, v_log_sd);
        let (end, v) = leapfrog(&target, point(&target, z0)?, v, eps, mass, leapfrogs)?;
        let h = (x.matmul(rx) + end.z.matmul(rz) + rb).softplus();
        let (r_mean, r_log_sd) = halves(h.matmul(r2) + rb2);
        let log_r = gaussian((v - r_mean) / r_log_sd.exp(), r_log_sd);
        end.log_p - log_q0 + log_r - log_qv
    };
    let loss = -bound.mean_all();
    let gradients = grad(loss, &cut.params)?;
    Ok(Workload { loss, params: cut.params.into_iter().zip(gradients).collect(), rate: 1e-3 })
}
