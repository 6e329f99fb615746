//! The two workloads that speed is measured on, built directly from expressions: Hamiltonian variational inference
//! for a deep generative model, and for the beta-binomial model of stomach cancer mortality.

pub mod hvi;
pub mod stomach;
pub mod vae;

use mcvi_expr::{Array, DType, Expr, Graph, Program, Result, grad};

/// A training problem: the loss and the flat vector of parameters it depends on.
pub struct Workload<'g> {
    /// What is minimised.
    pub loss: Expr<'g>,
    /// All parameters, end to end.
    pub params: Expr<'g>,
    /// The parameters as the loss uses them: slices of `params`, in order.
    pub parts: Vec<Expr<'g>>,
    /// Adam's learning rate.
    pub rate: f64,
}

/// Cuts a flat vector into arrays, one after the other.
pub struct Cutter<'g> {
    flat: Expr<'g>,
    next: usize,
    parts: Vec<Expr<'g>>,
}

impl<'g> Cutter<'g> {
    /// Cut `flat`.
    pub fn new(flat: Expr<'g>) -> Self {
        Cutter { flat, next: 0, parts: vec![] }
    }

    /// The next array.
    pub fn cut<const N: usize>(&mut self, shape: [usize; N]) -> Expr<'g> {
        let n: usize = shape.iter().product();
        let part = self.flat.slice(0, self.next..self.next + n).reshape(shape);
        self.next += n;
        self.parts.push(part);
        part
    }

    /// All arrays cut.
    pub fn finish(self) -> Vec<Expr<'g>> {
        assert_eq!(self.next, self.flat.shape().size(), "the layout must use every parameter");
        self.parts
    }
}

impl Workload<'_> {
    /// The gradient as one flat vector.
    pub fn gradient(&self) -> Result<Expr<'_>> {
        let parts: Vec<Expr<'_>> = grad(self.loss, &self.parts)?.into_iter().map(Expr::flatten).collect();
        Ok(self.loss.graph().concat(&parts, 0))
    }

    /// A program whose step draws noise, evaluates the loss and its gradient, and takes a step of Adam.
    pub fn training(&self, threads: usize) -> Result<Program> {
        let graph = self.loss.graph();
        let (p, g) = (self.params, self.gradient()?);
        let (dtype, n) = (p.dtype(), p.shape().size());
        let m = graph.state("adam.m", Array::zeros(dtype, n));
        let v = graph.state("adam.v", Array::zeros(dtype, n));
        let t = graph.state("adam.t", Array::zeros(dtype, ()));
        let (b1, b2, eps) = (0.9, 0.999, 1e-8);
        let t1 = t + 1.0;
        let m1 = m * b1 + g * (1.0 - b1);
        let v1 = v * b2 + g.square() * (1.0 - b2);
        // The two bias corrections, as scalars.
        let c1 = self.rate / (1.0 - (t1 * b1.ln()).exp());
        let c2 = (1.0 / (1.0 - (t1 * f64::ln(b2)).exp())).sqrt();
        let p1 = p - m1 * c1 / (v1.sqrt() * c2 + eps);
        graph
            .program()
            .output("loss", self.loss)
            .update(p, p1)
            .update(m, m1)
            .update(v, v1)
            .update(t, t1)
            .threads(threads)
            .seed(1)
            .compile()
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
