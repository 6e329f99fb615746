//! Draws on the host from distributions whose parameters a program computes.

use super::quantity::Quantity;
use super::{Constraint, Distribution, Family};
use crate::error::Result;
use mcvi_expr::{Array, Expr, Graph, Program};
use rand::rngs::StdRng;

/// Draws from a prior until one lies within the parameter's bounds, at most.
const TRIES: usize = 10_000;

/// Outputs of a program under construction.
pub(super) struct Collector<'g> {
    builder: mcvi_expr::ProgramBuilder<'g>,
}

/// Where the parameters of a distribution are found, to draw from it.
pub(super) struct Sampler {
    family: Family,
    /// Outputs, with the width of each parameter for one element.
    parameters: Vec<(String, usize)>,
    /// Elements for each row.
    elements: usize,
    /// A further parameter that densities read off their value.
    extra: Option<Vec<f64>>,
}

impl<'g> Collector<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        Collector { builder: graph.program() }
    }

    pub fn compile(self) -> Result<Program> {
        Ok(self.builder.compile()?)
    }

    fn add(&mut self, name: &str, value: Expr<'g>) {
        let builder = std::mem::replace(&mut self.builder, value.graph().program());
        self.builder = builder.output(name, value);
    }

    pub fn quantity(&mut self, name: &str, shape: Vec<usize>, value: Expr<'g>) -> Quantity {
        self.add(name, value);
        Quantity { name: name.to_owned(), shape, values: vec![] }
    }

    /// Make a distribution's parameters known, one for each element it is a distribution of. Of a parameter every row
    /// is one vector, of data every row has all of them.
    pub fn distribution(
        &mut self,
        name: &str,
        of: &Distribution<'g>,
        elements: Expr<'g>,
        data: &Array,
        is_parameter: bool,
    ) -> Sampler {
        let rows = elements.shape().dims()[0];
        let dims = data.shape().dims();
        let last = dims.last().copied().unwrap_or(1);
        // Axes of one event, for each parameter: none for families of single numbers.
        let (event, extra): (Vec<Vec<usize>>, _) = match of.family {
            Family::CategoricalLogit => (vec![vec![0]], None),
            Family::MultinomialLogit => {
                let trials = data.to_f64().chunks(last).map(|c| c.iter().sum()).collect();
                (vec![vec![last]], Some(trials))
            }
            Family::Dirichlet => (vec![vec![last]], None),
            Family::MultivariateNormalCholesky => (vec![vec![last], vec![last, last]], None),
            Family::LkjCholesky => (vec![vec![]], Some(vec![last as f64])),
            _ => (vec![], None),
        };
        let count = match of.family {
            Family::LkjCholesky => 1,
            Family::MultinomialLogit | Family::Dirichlet | Family::MultivariateNormalCholesky => {
                if is_parameter {
                    1
                } else {
                    dims[..dims.len() - 1].iter().product()
                }
            }
            _ if elements.shape().rank() > 1 => elements.shape().size() / rows,
            _ => 1,
        };
        let parameters = of.parameters.iter().enumerate().map(|(i, p)| {
            let p = p.expr(elements);
            let mut event = event.get(i).cloned().unwrap_or_default();
            if event == [0] {
                event = vec![p.shape().dims().last().copied().unwrap_or(1)];
            }
            let width = event.iter().product();
            let to = [vec![rows, count], event.clone()].concat();
            // What has a row for each vector lacks the axis of elements.
            let lacks = is_parameter && !event.is_empty() && p.shape().rank() == 1 + event.len();
            let p = if lacks { p.expand(1) } else { p };
            (format!("{name}.{i}"), p.broadcast_to(to), width)
        });
        let parameters: Vec<(String, Expr<'g>, usize)> = parameters.collect();
        let known = parameters.iter().all(|(_, p, _)| p.error().is_none());
        let mut outputs = vec![];
        for (name, p, width) in parameters.into_iter().filter(|_| known) {
            self.add(&name, p);
            outputs.push((name, width));
        }
        Sampler { family: of.family, parameters: outputs, elements: count, extra }
    }
}

impl Sampler {
    /// Draw for the first `rows` rows.
    pub fn draw(&self, program: &mut Program, rows: usize, rng: &mut StdRng, into: &mut Vec<f64>) -> Result<()> {
        self.draw_within(Constraint::Real, program, rows, rng, into)
    }

    /// The same, cut off at the bounds of a constraint. What lies outside nearly always is left out.
    pub fn draw_within(
        &self,
        bounds: Constraint,
        program: &mut Program,
        rows: usize,
        rng: &mut StdRng,
        into: &mut Vec<f64>,
    ) -> Result<()> {
        let inside = |x: f64| match bounds {
            Constraint::Positive => x > 0.0,
            Constraint::Lower(low) => x > low,
            Constraint::Upper(high) => x < high,
            Constraint::Interval(low, high) => (low..=high).contains(&x),
            _ => true,
        };
        let values: Vec<(Vec<f64>, usize)> = self
            .parameters
            .iter()
            .map(|(name, width)| Ok((program.output(name)?.to_f64(), *width)))
            .collect::<Result<_>>()?;
        for i in 0..rows * self.elements {
            let mut parameters: Vec<&[f64]> = values.iter().map(|(v, w)| &v[i * w..(i + 1) * w]).collect();
            let extra = self.extra.as_ref().map(|e| [e[i % self.elements % e.len()]]);
            if let Some(extra) = &extra {
                parameters.push(extra);
            }
            let tries = (0..TRIES).map(|_| self.family.draw(&parameters, rng));
            let mut kept = tries.skip_while(|drawn| !drawn.iter().all(|x| x.is_nan() || inside(*x)));
            match kept.next() {
                Some(drawn) => into.extend(drawn),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}
