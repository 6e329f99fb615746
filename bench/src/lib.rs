//! The workloads that speed is measured on. Most are built directly from expressions: Hamiltonian variational inference for a
//! deep generative model, for the beta-binomial model of stomach cancer mortality, and for models with a recursion. Annealed
//! steps for a logistic regression are built by the library. `verdicts` and `posteriordb`
//! measure something else: how often inference is right.

pub mod hvi;
pub mod loops;
pub mod posteriordb;
pub mod sonar;
pub mod stomach;
pub mod vae;
pub mod verdicts;

use mcvi_expr::{Array, DType, Device, Expr, Graph, Program, ProgramBuilder, Result};

/// A training problem: the loss, and the states it is minimised over with their gradients.
pub struct Workload<'g> {
    /// What is minimised.
    pub loss: Expr<'g>,
    /// Parameters and the gradient for each, of the same shape.
    pub params: Vec<(Expr<'g>, Expr<'g>)>,
    /// Adam's learning rate.
    pub rate: f64,
}

/// Cuts a flat vector of starting values into parameters, one after the other.
pub struct Cutter<'g> {
    graph: &'g Graph,
    values: Vec<f64>,
    dtype: DType,
    next: usize,
    /// The states cut so far.
    pub params: Vec<Expr<'g>>,
}

impl<'g> Cutter<'g> {
    /// Cut `flat` into states of `graph`.
    pub fn new(graph: &'g Graph, flat: &Array) -> Self {
        Cutter { graph, values: flat.to_f64(), dtype: flat.dtype(), next: 0, params: vec![] }
    }

    /// The next array, as a state.
    pub fn state<const N: usize>(&mut self, shape: [usize; N]) -> Result<Expr<'g>> {
        let n: usize = shape.iter().product();
        let values = self.values.get(self.next..self.next + n).unwrap_or_default();
        let initial = Array::new(shape, values)?.cast(self.dtype);
        let state = self.graph.state(&format!("p{}", self.params.len()), initial);
        self.next += n;
        self.params.push(state);
        Ok(state)
    }
}

impl<'g> Workload<'g> {
    /// The gradient as one flat vector.
    pub fn gradient(&self) -> Expr<'g> {
        let parts: Vec<Expr<'_>> = self.params.iter().map(|(_, g)| g.flatten()).collect();
        self.loss.graph().concat(&parts, 0)
    }

    /// A program whose step draws noise, evaluates the loss and its gradient, and takes a step of Adam.
    pub fn training(&self, threads: usize) -> Result<Program> {
        self.training_on(Device::Cpu, threads)
    }

    /// The same on another device.
    pub fn training_on(&self, device: Device, threads: usize) -> Result<Program> {
        self.describe()?.device(device).threads(threads).compile()
    }

    /// The same before it is compiled.
    pub fn describe(&self) -> Result<ProgramBuilder<'g>> {
        let graph = self.loss.graph();
        let dtype = self.loss.dtype();
        let t = graph.state("adam.t", Array::zeros(dtype, ())?);
        let (b1, b2, eps) = (0.9, 0.999, 1e-8);
        let t1 = t + 1.0;
        // The two bias corrections, as scalars.
        let c1 = self.rate / (1.0 - (t1 * f64::ln(b1)).exp());
        let c2 = (1.0 / (1.0 - (t1 * f64::ln(b2)).exp())).sqrt();
        let mut program = graph.program().output("loss", self.loss).update(t, t1).seed(1);
        for (i, &(p, g)) in self.params.iter().enumerate() {
            let zeros = Array::zeros(dtype, p.shape())?;
            let m = graph.state(&format!("adam.m{i}"), zeros.clone());
            let v = graph.state(&format!("adam.v{i}"), zeros);
            let m1 = m * b1 + g * (1.0 - b1);
            let v1 = v * b2 + g.square() * (1.0 - b2);
            let p1 = p - m1 * c1 / (v1.sqrt() * c2 + eps);
            program = program.update(p, p1).update(m, m1).update(v, v1);
        }
        Ok(program)
    }
}

/// Log density of a diagonal Gaussian at `mean + exp(log_sd) · e`, summed over the last axis.
pub fn gaussian<'g>(e: Expr<'g>, log_sd: Expr<'g>) -> Expr<'g> {
    let last = e.shape().rank() - 1;
    let d = e.shape().dims()[last] as f64;
    (e.square() * -0.5 - log_sd).sum(&[last]) - 0.5 * d * std::f64::consts::TAU.ln()
}

/// Standard normal noise, or an input of the same shape where `fixed`.
pub fn noise<'g>(graph: &'g Graph, name: &str, stream: u32, dtype: DType, shape: [usize; 2], fixed: bool) -> Expr<'g> {
    if fixed { graph.input(name, dtype, shape) } else { graph.normal(stream, dtype, shape) }
}
