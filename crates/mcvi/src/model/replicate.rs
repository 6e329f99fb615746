//! Draws on the host from distributions whose parameters a program computes.

use super::quantity::Quantity;
use super::{Constraint, Distribution, Event, Value};
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use mcvi_expr::{Array, Expr, Graph, Program};
use rand::rngs::StdRng;
use std::ops::Range;

/// Draws from a prior until one lies within the parameter's bounds, at most.
const TRIES: usize = 10_000;

/// What names of outputs for a prior begin with.
const PRIOR: &str = "prior.";

/// Outputs of a program under construction.
pub(super) struct Collector<'g> {
    builder: mcvi_expr::ProgramBuilder<'g>,
    /// Of observations, those that are wanted, if not all.
    rows: Option<Range<usize>>,
}

/// Where the parameters of a distribution are found, to draw from it.
pub(super) struct Replicate<'g> {
    /// What is drawn.
    name: String,
    distribution: Distribution<'g>,
    /// Outputs, with the width of each parameter for one event.
    parameters: Vec<(String, usize)>,
    /// Events for each row.
    events: usize,
    /// Values of one row, or of one event where that is all that is known.
    like: Vec<f64>,
    /// Numbers of one event.
    width: usize,
}

/// Where a bound is found.
enum Bound {
    Number(f64),
    /// The name of an output.
    Output(String),
}

/// The bounds of a parameter.
pub(super) struct Bounds {
    low: Bound,
    high: Bound,
    /// Whether a bound itself is allowed.
    closed: bool,
}

/// The same as numbers, for each element of each row.
struct Limits {
    low: Vec<f64>,
    high: Vec<f64>,
    closed: bool,
}

impl<'g> Collector<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        Collector { builder: graph.program(), rows: None }
    }

    pub fn compile(self, hardware: Hardware) -> Result<Program> {
        Ok(hardware.program(self.builder).compile()?)
    }

    fn add(&mut self, name: &str, value: Expr<'g>) {
        let builder = std::mem::replace(&mut self.builder, value.graph().program());
        self.builder = builder.output(name, value);
    }

    pub fn quantity(&mut self, name: &str, shape: Vec<usize>, value: Expr<'g>) -> Quantity {
        self.add(name, value);
        Quantity { name: name.to_owned(), shape, values: vec![] }
    }

    /// Make the parameters of an observation's distribution known, one for each of its events.
    pub fn observation(
        &mut self,
        name: &str,
        of: &Distribution<'g>,
        log_likelihood: Expr<'g>,
        data: &Array,
    ) -> Replicate<'g> {
        let dims = data.shape().dims();
        let (events, event) = dims.split_at(dims.len().saturating_sub(of.event_dim()));
        let like = data.to_f64();
        self.distribution(name, of, log_likelihood, (events.iter().product(), event, like), false)
    }

    /// The same for some of the observations.
    pub fn some_observations(
        &mut self,
        name: &str,
        of: &Distribution<'g>,
        log_likelihood: Expr<'g>,
        (data, rows): (&Array, Range<usize>),
    ) -> Replicate<'g> {
        self.rows = Some(rows.clone());
        let all = self.observation(name, of, log_likelihood, data);
        let width = all.width;
        let like = all.like[rows.start * width..rows.end * width].to_vec();
        Replicate { events: rows.len(), like, ..all }
    }

    /// Make the parameters of a prior known. Every row of the parameter is one event, or one for each element.
    pub fn prior(&mut self, name: &str, of: &Distribution<'g>, value: Expr<'g>) -> Replicate<'g> {
        let dims = value.shape();
        let dims = dims.dims().get(1..).unwrap_or_default();
        let (events, event) = dims.split_at(dims.len().saturating_sub(of.event_dim()));
        let like = vec![0.5; event.iter().product()];
        self.distribution(&format!("{PRIOR}{name}"), of, value, (events.iter().product(), event, like), true)
    }

    /// Make the bounds of a parameter known.
    pub fn bounds(&mut self, name: &str, constraint: Constraint<'g>, value: Expr<'g>) -> Bounds {
        let (low, high) = match constraint {
            Constraint::Positive | Constraint::NearZero { .. } | Constraint::PositiveOrdered => {
                (Value::Number(0.0), Value::Number(f64::INFINITY))
            }
            Constraint::Lower(low) => (low, Value::Number(f64::INFINITY)),
            Constraint::Upper(high) => (Value::Number(f64::NEG_INFINITY), high),
            Constraint::Interval(low, high) => (low, high),
            _ => (Value::Number(f64::NEG_INFINITY), Value::Number(f64::INFINITY)),
        };
        let mut bound = |which: &str, bound: Value<'g>| match bound {
            Value::Number(number) => Bound::Number(number),
            Value::Expr(expr) => {
                let output = format!("{name}.{which}");
                self.add(&output, expr.broadcast_to(value.shape()));
                Bound::Output(output)
            }
        };
        let closed = matches!(constraint, Constraint::Interval(..));
        Bounds { low: bound("low", low), high: bound("high", high), closed }
    }

    fn distribution(
        &mut self,
        name: &str,
        of: &Distribution<'g>,
        beside: Expr<'g>,
        (events, event, like): (usize, &[usize], Vec<f64>),
        is_prior: bool,
    ) -> Replicate<'g> {
        let rows = beside.shape().dims().first().copied().unwrap_or(1);
        let parameters = of.parameters().iter().zip(of.parameter_dims()).enumerate().map(|(i, (p, rank))| {
            let p = p.expr(beside);
            // A vector is as long as the value it belongs to; of a distribution of numbers, as it is.
            let extents: Vec<usize> = match event.last() {
                Some(k) => vec![*k; *rank],
                None => p.shape().dims()[p.shape().rank().saturating_sub(*rank)..].to_vec(),
            };
            // What has a row for each vector lacks the axis of events.
            let lacks = is_prior && !event.is_empty() && p.shape().rank() == 1 + rank;
            let p = if lacks { p.expand(1) } else { p };
            let to = [&[rows, events], extents.as_slice()].concat();
            let p = p.broadcast_to(to);
            let p = self.rows.clone().and_then(|rows| p.rows(1, rows)).unwrap_or(p);
            (format!("{name}.{i}"), p, extents.iter().product())
        });
        let parameters: Vec<(String, Expr<'g>, usize)> = parameters.collect();
        let known = parameters.iter().all(|(_, p, _)| p.error().is_none());
        let mut outputs = vec![];
        for (name, p, width) in parameters.into_iter().filter(|_| known) {
            self.add(&name, p);
            outputs.push((name, width));
        }
        let width = event.iter().product();
        let name = name.trim_start_matches(PRIOR).to_owned();
        Replicate { name, distribution: of.clone(), parameters: outputs, events, like, width }
    }
}

impl Replicate<'_> {
    /// Draw for the first `rows` rows.
    pub fn draw(&self, program: &mut Program, rows: usize, rng: &mut StdRng, into: &mut Vec<f64>) -> Result<()> {
        self.draw_where(|_, _| true, program, rows, rng, into)
    }

    /// The same, cut off at bounds. What lies outside nearly always is left out.
    pub fn draw_within(
        &self,
        bounds: &Bounds,
        program: &mut Program,
        rows: usize,
        rng: &mut StdRng,
        into: &mut Vec<f64>,
    ) -> Result<()> {
        let limits = bounds.read(program)?;
        self.draw_where(|i, x| limits.contain(i, x), program, rows, rng, into)
    }

    /// Draw each event until all its numbers are as asked, [`TRIES`] times at most.
    fn draw_where(
        &self,
        inside: impl Fn(usize, f64) -> bool,
        program: &mut Program,
        rows: usize,
        rng: &mut StdRng,
        into: &mut Vec<f64>,
    ) -> Result<()> {
        let values: Vec<(Vec<f64>, usize)> = self
            .parameters
            .iter()
            .map(|(name, width)| Ok((program.output(name)?.to_f64(), *width)))
            .collect::<Result<_>>()?;
        for i in 0..rows * self.events {
            let parameters: Vec<&[f64]> = values.iter().map(|(v, w)| &v[i * w..(i + 1) * w]).collect();
            let start = i * self.width % self.like.len().max(1);
            let event =
                Event { parameters: &parameters, like: self.like.get(start..start + self.width).unwrap_or_default() };
            let nothing = || vec![f64::NAN; self.width];
            let tries = (0..TRIES).map(|_| self.distribution.sample(&event, rng).unwrap_or_else(nothing));
            let allowed = |(j, x): (usize, &f64)| x.is_nan() || inside(i * self.width + j, *x);
            let mut kept = tries.skip_while(|drawn| !drawn.iter().enumerate().all(allowed));
            match kept.next() {
                Some(drawn) if drawn.len() != self.width => {
                    let (found, width) = (drawn.len(), self.width);
                    let why = format!("the sampler of {:?} drew {found} numbers, not {width}", self.distribution);
                    return Err(Error::CannotDraw { name: self.name.clone(), why });
                }
                Some(drawn) => into.extend(drawn),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Bounds {
    fn read(&self, program: &mut Program) -> Result<Limits> {
        let mut numbers = |bound: &Bound| match bound {
            Bound::Number(number) => Ok::<_, Error>(vec![*number]),
            Bound::Output(name) => Ok(program.output(name)?.to_f64()),
        };
        Ok(Limits { low: numbers(&self.low)?, high: numbers(&self.high)?, closed: self.closed })
    }
}

impl Limits {
    fn contain(&self, i: usize, x: f64) -> bool {
        // A number stands for all.
        let at = |bound: &[f64]| bound.get(i % bound.len().max(1)).copied().unwrap_or(f64::NAN);
        let (low, high) = (at(&self.low), at(&self.high));
        if self.closed {
            return (low..=high).contains(&x);
        }
        // A draw that overflowed is not outside where there is no bound.
        (low == f64::NEG_INFINITY || low < x) && (high == f64::INFINITY || x < high)
    }
}
