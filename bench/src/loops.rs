//! Models with a recursion, as a loop and written out: how long they take to compile and to run.

use mcvi_expr::{Array, DType, Device, Expr, Graph, Program, ProgramBuilder, Result, grad};
use std::time::Instant;

/// Points evaluated side by side.
pub const ROWS: usize = 16;

/// A log density of each row of z, whose recursion is a loop or written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The forward algorithm of a hidden Markov model with three states, in log space.
    Hmm,
    /// GARCH(1,1).
    Garch,
}

/// How a recursion is expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `Graph::scan`.
    Loop,
    /// `Graph::scan_checkpointed`.
    Checkpointed,
    /// Written out.
    Unrolled,
}

impl Model {
    /// Arguments of the density.
    pub fn dimension(self) -> usize {
        match self {
            Model::Hmm => 13,
            Model::Garch => 4,
        }
    }

    /// Iterations.
    pub fn length(self) -> usize {
        match self {
            Model::Hmm => 416,
            Model::Garch => 200,
        }
    }

    fn data(self, graph: &Graph) -> Expr<'_> {
        let t = graph.arange(DType::F64, self.length());
        (t * 0.37).sin() + (t * 1.7).cos() * 0.5
    }

    /// The log density of each row of `z`.
    pub fn log_density<'g>(self, z: Expr<'g>, form: Form) -> Expr<'g> {
        let graph = z.graph();
        let y = self.data(graph);
        match self {
            Model::Hmm => {
                let logits = z.slice(1, 0..9).reshape([ROWS, 3, 3]);
                let transition = logits - logits.logsumexp(&[2]).reshape([ROWS, 3, 1]);
                let (means, log_sd) = (z.slice(1, 9..12), z.slice(1, 12..13));
                let start = graph.full(DType::F64, [ROWS, 3], -(3f64.ln()));
                let last = recursion(form, self.length(), &[start], y, |c, y| {
                    let emission = ((y - means) * (-log_sd).exp()).square() * -0.5 - log_sd;
                    vec![(c[0].reshape([ROWS, 3, 1]) + transition).logsumexp(&[1]) + emission]
                });
                last[0].logsumexp(&[1]) - z.square().sum(&[1]) * 0.5
            }
            Model::Garch => {
                let part = |i: usize| z.slice(1, i..i + 1).reshape([ROWS]);
                let (mean, constant) = (part(0), part(1).exp());
                let (last_error, last_variance) = (part(2).sigmoid() * 0.5, part(3).sigmoid() * 0.5);
                let zero = graph.full(DType::F64, [ROWS], 0.0);
                let last = recursion(form, self.length(), &[zero + 1.0, zero, zero], y, |c, y| {
                    let variance = constant + last_error * c[1].square() + last_variance * c[0];
                    let error = y - mean;
                    vec![variance, error, c[2] - variance.ln() * 0.5 - error.square() / variance * 0.5]
                });
                last[2] - z.square().sum(&[1]) * 0.5
            }
        }
    }

    fn slope<'g>(self, z: Expr<'g>, form: Form) -> Result<Expr<'g>> {
        Ok(grad(self.log_density(z, form).sum_all(), &[z])?[0])
    }

    /// One Hamiltonian step of two leapfrogs, with the gradient of its bound in where it starts and in the step size.
    pub fn builder(self, graph: &Graph, form: Form) -> Result<ProgramBuilder<'_>> {
        let shape = [ROWS, self.dimension()];
        let (start, v) = (graph.input("z", DType::F64, shape), graph.input("v", DType::F64, shape));
        let step = graph.input("step", DType::F64, ());
        let (mut z, mut v) = (start, v + self.slope(start, form)? * (step * 0.5));
        for i in 0..2 {
            z = z + v * step;
            v = v + self.slope(z, form)? * if i == 0 { step } else { step * 0.5 };
        }
        let bound = (self.log_density(z, form) - v.square().sum(&[1]) * 0.5).sum_all();
        let d = grad(bound, &[start, step])?;
        Ok(graph.program().output("bound", bound).output("dz", d[0]).output("dstep", d[1]))
    }

    /// The same compiled for a device, on one thread if that is the CPU, with a point to start from.
    pub fn program(self, form: Form, device: Device) -> Result<Program> {
        let graph = Graph::new();
        let mut program = self.builder(&graph, form)?.device(device).threads(1).compile()?;
        let shape = [ROWS, self.dimension()];
        let n = ROWS * self.dimension();
        let point = |by: f64| (0..n).map(|i| 0.5 * ((i as f64) * by).sin()).collect::<Vec<f64>>();
        program.write("z", &Array::new(shape, point(1.3))?)?;
        program.write("v", &Array::new(shape, point(0.7))?)?;
        program.write("step", &Array::scalar(0.01))?;
        Ok(program)
    }
}

/// The last carries of a recursion over the elements of y.
fn recursion<'g>(
    form: Form,
    length: usize,
    carry: &[Expr<'g>],
    y: Expr<'g>,
    body: impl Fn(&[Expr<'g>], Expr<'g>) -> Vec<Expr<'g>>,
) -> Vec<Expr<'g>> {
    let graph = y.graph();
    let once = |c: &[Expr<'g>], x: &[Expr<'g>]| (body(c, x[0]), vec![]);
    match form {
        Form::Loop => graph.scan(length, carry, &[y], once).0,
        Form::Checkpointed => graph.scan_checkpointed(length, carry, &[y], once).0,
        Form::Unrolled => (0..length).fold(carry.to_vec(), |c, t| body(&c, y.slice(0, t..t + 1).reshape([0usize; 0]))),
    }
}

/// What was measured of a program.
#[derive(Debug)]
pub struct Times {
    /// Seconds to build the graph, differentiate and compile.
    pub compile_s: f64,
    /// Median microseconds of an evaluation.
    pub run_us: f64,
    /// Bytes of memory.
    pub bytes: usize,
    /// The bound, for comparison.
    pub bound: f64,
    /// Its derivative in the step size.
    pub slope: f64,
}

/// Compile a model in several forms and run them in turns, for about `seconds` in all.
pub fn measure(model: Model, forms: &[Form], device: Device, seconds: f64) -> Result<Vec<Times>> {
    let (mut programs, mut compiled) = (vec![], vec![]);
    for &form in forms {
        let start = Instant::now();
        programs.push(model.program(form, device)?);
        compiled.push(start.elapsed().as_secs_f64());
    }
    let mut times = vec![vec![]; forms.len()];
    let all = Instant::now();
    while times[0].len() < 5 || all.elapsed().as_secs_f64() < seconds {
        for (program, times) in programs.iter_mut().zip(&mut times) {
            let start = Instant::now();
            program.run(5)?;
            times.push(start.elapsed().as_secs_f64() / 5.0);
        }
    }
    let mut results = vec![];
    for ((mut program, compile_s), mut times) in programs.into_iter().zip(compiled).zip(times) {
        times.sort_by(f64::total_cmp);
        let mut number = |name: &str| Ok(program.output(name)?.to_f64()[0]);
        let (bound, slope) = (number("bound")?, number("dstep")?);
        results.push(Times {
            compile_s,
            run_us: times[times.len() / 2] * 1e6,
            bytes: program.memory_bytes(),
            bound,
            slope,
        });
    }
    Ok(results)
}
