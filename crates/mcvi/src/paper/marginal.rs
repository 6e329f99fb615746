//! The exact distribution of z_T after one Hamiltonian step in two dimensions, by numerical integration.
//!
//! The dynamics preserves volume, so q(z_T, v_T) = q₀(z₀) q(v′|z₀) at the inverse image (z₀, v′) of (z_T, v_T).
//! Integrating over v_T gives the density of z_T, and with it KL and R² without Monte Carlo error, and the gap due to
//! the inverse model. Integrands are smooth and vanish at the edges, so sums over a regular grid converge very fast.

use crate::approximation::Approximation;
use crate::density::{Density, Given};
use crate::error::{Error, Result};
use crate::scope::Choices;
use crate::target::Landscape;
use crate::transition::{Hamiltonian, Inverse};
use mcvi_expr::{Array, DType, Program, grad};

/// Number of momenta on either side of the inverse model's mean, and their distance in its standard deviations.
const REACH: i32 = 13;
const SPACING: f64 = 0.5;
/// Grid points along each axis.
const ACROSS: usize = 50;
/// Positions per evaluation.
const AT_ONCE: usize = 10;

/// Log densities on a regular grid of positions.
#[derive(Clone, Debug)]
pub struct Marginal {
    /// First coordinates.
    pub x: Vec<f64>,
    /// Second coordinates.
    pub y: Vec<f64>,
    /// log q(z_T) at every (x, y), y by y.
    pub log_q: Vec<f64>,
    /// log p(x, z) there.
    pub log_p: Vec<f64>,
    /// The share of q inside the grid: 1 except for integration error.
    pub mass: f64,
    /// KL(q(z_T) ‖ p).
    pub kl: f64,
    /// E KL[q(v|z_T) ‖ r(v|z_T)], the cost of the inverse model.
    pub r_gap: f64,
    /// R² of Salimans & Knowles (2013) with the exact q(z_T).
    pub r2: f64,
}

/// Integrate. `step` is the chain's only step, if it has one; `log_evidence` is log p(x).
pub fn marginal(
    approximation: &Approximation,
    step: Option<&Hamiltonian>,
    log_evidence: f64,
    seed: u64,
) -> Result<Marginal> {
    if approximation.target.dim() != 2 || approximation.chain.len() != usize::from(step.is_some()) {
        let why = "numerical integration is for two dimensions and at most one Hamiltonian step".to_owned();
        return Err(Error::Setting { what: "marginal", why });
    }
    let (x, y) = grid(approximation, seed)?;
    let places: Vec<[f64; 2]> = y.iter().flat_map(|&y| x.iter().map(move |&x| [x, y])).collect();
    let cell = (x[1] - x[0]) * (y[1] - y[0]);
    let at = match step {
        None => at_start(approximation, &places)?,
        Some(step) => after_step(approximation, step, &places)?,
    };

    let weight = |a: &At| (a.log_q + cell.ln()).exp();
    let mass: f64 = at.iter().map(weight).sum();
    let expect = |f: &dyn Fn(&At) -> f64| {
        // Where q vanishes, f does not contribute, whatever it is.
        at.iter().filter(|a| weight(a) > 0.0).map(|a| weight(a) * f(a)).sum::<f64>() / mass
    };
    let variance = |f: &dyn Fn(&At) -> f64| {
        let mean = expect(f);
        expect(&|a| (f(a) - mean).powi(2))
    };
    Ok(Marginal {
        kl: expect(&|a| a.log_q - a.log_p) + log_evidence,
        r_gap: expect(&|a| a.r_gap),
        r2: 1.0 - variance(&|a| a.log_p - a.log_q) / variance(&|a| a.log_p),
        mass,
        log_q: at.iter().map(|a| a.log_q).collect(),
        log_p: at.iter().map(|a| a.log_p).collect(),
        x,
        y,
    })
}

/// Results at one position.
struct At {
    log_q: f64,
    log_p: f64,
    /// KL[q(v|z) ‖ r(v|z)].
    r_gap: f64,
}

/// A grid that contains all draws with room to spare.
fn grid(approximation: &Approximation, seed: u64) -> Result<(Vec<f64>, Vec<f64>)> {
    let draws = approximation.draw(20_000, seed)?;
    let axis = |i: usize| -> Result<Vec<f64>> {
        let (low, high) =
            draws.z.iter().map(|z| z[i]).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), z| (l.min(z), h.max(z)));
        let room = 0.15 * (high - low);
        if !room.is_finite() || room == 0.0 {
            return Err(Error::Fit { why: "some draws are not finite: there is no marginal to integrate".to_owned() });
        }
        let (low, high) = (low - room, high + room);
        Ok((0..ACROSS).map(|k| low + (high - low) * k as f64 / (ACROSS - 1) as f64).collect())
    };
    Ok((axis(0)?, axis(1)?))
}

/// Without a step, q(z₀) itself.
fn at_start(approximation: &Approximation, places: &[[f64; 2]]) -> Result<Vec<At>> {
    let Approximation { target, chain, .. } = approximation;
    let (mut program, ()) = approximation.compile(places.len(), Choices::Sample).program(|scope, program| {
        let z = scope.graph().literal(Array::new([places.len(), 2], places.concat())?);
        let log_p = crate::target::evaluate(target.as_ref(), &scope.child("target"), z)?;
        let q0 = scope.child("q0");
        let log_q = chain.initial.log_density(&q0, &Given::nothing(&q0, None), z)?;
        Ok((program.output("log_p", log_p).output("log_q", log_q), ()))
    })?;
    program.run(1)?;
    let (p, q) = (program.output("log_p")?.to_f64(), program.output("log_q")?.to_f64());
    Ok(p.into_iter().zip(q).map(|(log_p, log_q)| At { log_q, log_p, r_gap: 0.0 }).collect())
}

/// After the step, with momenta integrated out.
fn after_step(approximation: &Approximation, step: &Hamiltonian, places: &[[f64; 2]]) -> Result<Vec<At>> {
    let units: Vec<[f64; 2]> = (-REACH..=REACH)
        .flat_map(|i| (-REACH..=REACH).map(move |j| [f64::from(i) * SPACING, f64::from(j) * SPACING]))
        .collect();
    let mut frames = Evaluation::new(approximation, step, places.len(), true)?;
    frames.run(&places.concat(), &vec![0.0; 2 * places.len()])?;
    let (log_p, mean, sd) = (frames.read("log_p")?, frames.read("mean")?, frames.read("sd")?);
    let mut joint = Evaluation::new(approximation, step, AT_ONCE * units.len(), false)?;
    let mut found = vec![];
    for first in (0..places.len()).step_by(AT_ONCE) {
        // The last batch is padded with copies.
        let batch: Vec<usize> = (first..first + AT_ONCE).map(|i| i.min(places.len() - 1)).collect();
        let z: Vec<f64> = batch.iter().flat_map(|&i| places[i].repeat(units.len())).collect();
        let momentum = |i: usize, u: &[f64; 2]| [0, 1].map(|k| mean[2 * i + k] + sd[2 * i + k] * u[k]);
        let v: Vec<f64> = batch.iter().flat_map(|&i| units.iter().flat_map(move |u| momentum(i, u))).collect();
        joint.run(&z, &v)?;
        let (log_joint, log_r) = (joint.read("joint")?, joint.read("log_r")?);
        for (b, &i) in batch.iter().enumerate().take(places.len() - first) {
            let rows = b * units.len()..(b + 1) * units.len();
            let cell = (SPACING * SPACING * sd[2 * i] * sd[2 * i + 1]).ln();
            found.push(integrate(&log_joint[rows.clone()], &log_r[rows], cell, log_p[i]));
        }
    }
    Ok(found)
}

/// Integrate q(z, v) over v at one z; every cell of v has the log area given.
fn integrate(log_joint: &[f64], log_r: &[f64], log_cell: f64, log_p: f64) -> At {
    let top = log_joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY || !top.is_finite() {
        return At { log_q: f64::NEG_INFINITY, log_p, r_gap: 0.0 };
    }
    let weights: Vec<f64> =
        log_joint.iter().map(|l| (l - top).exp()).map(|w| if w.is_nan() { 0.0 } else { w }).collect();
    let total: f64 = weights.iter().sum();
    let log_q = top + total.ln() + log_cell;
    let terms = weights.iter().zip(log_joint).zip(log_r).filter(|((w, _), _)| **w > 0.0);
    let r_gap = terms.map(|((w, joint), r)| w / total * (joint - log_q - r)).sum();
    At { log_q, log_p, r_gap }
}

/// log q(z, v) by the inverse image, and the inverse model, compiled over some rows.
struct Evaluation {
    program: Program,
    rows: usize,
}

impl Evaluation {
    /// `frames` asks for log p and the inverse model's mean and standard deviations instead.
    fn new(approximation: &Approximation, step: &Hamiltonian, rows: usize, frames: bool) -> Result<Self> {
        let Approximation { target, chain, .. } = approximation;
        let (program, ()) = approximation.compile(rows, Choices::Sample).program(|scope, program| {
            let graph = scope.graph();
            let (z, v) = (graph.input("z", DType::F64, [rows, 2]), graph.input("v", DType::F64, [rows, 2]));
            let (forward, inverse) = match chain.each_step().next() {
                Some(names) => (scope.child(&names.forward), scope.child(&names.inverse)),
                None => (scope.clone(), scope.clone()),
            };
            let landscape =
                Landscape { target: target.as_ref(), scope: scope.child("target"), bridge: None, known: None };
            let at = landscape.at(z)?;
            let log_r = match &step.inverse {
                Inverse::Learned(r) => r.log_density(&inverse, &Given::momentum(scope, at, None), v)?,
                Inverse::Reversed => {
                    step.momentum.log_density(&forward.child("momentum"), &Given::momentum(scope, at, None), -v)?
                }
            };
            if frames {
                // log r is quadratic in v: its derivatives at zero give the mean and the standard deviations.
                let slope = grad(log_r.sum_all(), &[v])?[0];
                let curvature = grad(slope.sum_all(), &[v])?[0];
                let variance = -curvature.recip();
                let program = program.output("log_p", at.log_p).output("mean", slope * variance);
                return Ok((program.output("sd", variance.sqrt()), ()));
            }
            let (from, v0) = step.dynamics(&forward)?.reverse(&landscape, at, v)?;
            let q0 = scope.child("q0");
            let log_q0 = chain.initial.log_density(&q0, &Given::nothing(&q0, None), from.z)?;
            let given = Given::momentum(scope, from, None);
            let log_qv = step.momentum.log_density(&forward.child("momentum"), &given, v0)?;
            Ok((program.output("joint", log_q0 + log_qv).output("log_r", log_r), ()))
        })?;
        Ok(Evaluation { program, rows })
    }

    fn run(&mut self, z: &[f64], v: &[f64]) -> Result<()> {
        self.program.write("z", &Array::new([self.rows, 2], z.to_vec())?)?;
        // If nothing depends on v it is not an input, and is ignored.
        self.program.write("v", &Array::new([self.rows, 2], v.to_vec())?)?;
        Ok(self.program.run(1)?)
    }

    fn read(&mut self, name: &str) -> Result<Vec<f64>> {
        Ok(self.program.output(name)?.to_f64())
    }
}
