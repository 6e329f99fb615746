//! What a model is written with: parameters, observations, generated quantities.

use super::{Constraint, Distribution, Family};
use crate::scope::{Choices, Scope};
use mcvi_expr::{Array, DType, Expr, Graph};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where the values of parameters come from.
pub(super) enum Source<'g> {
    /// Nowhere: only their names and sizes are asked for.
    Nothing,
    /// Free numbers, to be constrained: `[rows, dim]`.
    Free(Expr<'g>),
    /// Inputs of the program, one for each parameter, already constrained.
    Inputs,
}

/// A parameter that was declared.
pub(super) struct Declared<'g> {
    pub name: String,
    pub constraint: Constraint,
    /// Elements of a vector, or rows of a matrix.
    pub size: usize,
    pub value: Expr<'g>,
    pub prior: Distribution<'g>,
}

/// An observation that was made.
pub(super) struct Observed<'g> {
    pub name: String,
    /// `[n]`, or `[n, k]` for vectors.
    pub data: Array,
    pub distribution: Distribution<'g>,
    /// `[rows, n]`.
    pub log_likelihood: Expr<'g>,
}

/// A model under construction. Every quantity has a row for each posterior draw: scalars are `[rows, 1]`, vectors
/// `[rows, k]`, matrices `[rows, k, k]`; data `[n]` broadcasts against them.
pub struct Builder<'g> {
    scope: Scope<'g>,
    source: Source<'g>,
    next: usize,
    pub(super) log_density: Expr<'g>,
    pub(super) declared: Vec<Declared<'g>>,
    pub(super) observed: Vec<Observed<'g>>,
    pub(super) generated: Vec<(String, Expr<'g>)>,
    pub(super) mistake: Option<String>,
    pub(super) subsampled: bool,
    /// Other values for observations, by name.
    replaced: Rc<BTreeMap<String, Vec<f64>>>,
    rows: usize,
    /// The first extent of everything added to the log density.
    pub(super) added: Vec<Option<usize>>,
    /// Of what is added, in order: what has no rows, whatever its first extent.
    rowless: Vec<bool>,
}

/// Some of the observations, drawn anew for each gradient; see [`Builder::minibatch`].
pub struct Minibatch<'g> {
    /// Of how many.
    n: usize,
    index: Option<Expr<'g>>,
    scale: f64,
}

impl<'g> Minibatch<'g> {
    /// The drawn elements of data `[n, …]`.
    pub fn of(&self, data: Expr<'g>) -> Expr<'g> {
        self.index.map_or(data, |index| data.take(0, index))
    }
}

impl<'g> Builder<'g> {
    pub(super) fn new(
        scope: Scope<'g>,
        source: Source<'g>,
        rows: usize,
        replaced: Rc<BTreeMap<String, Vec<f64>>>,
    ) -> Self {
        let log_density = scope.graph().full(scope.dtype(), [rows], 0.0);
        Builder {
            scope,
            source,
            next: 0,
            log_density,
            declared: vec![],
            observed: vec![],
            generated: vec![],
            mistake: None,
            subsampled: false,
            replaced,
            rows,
            added: vec![],
            rowless: vec![],
        }
    }

    /// The same, knowing what of all that is added has no rows: as many data as rows look alike.
    pub(super) fn knowing(self, rowless: &[bool]) -> Self {
        Builder { rowless: rowless.to_vec(), ..self }
    }

    /// The graph expressions are built in.
    pub fn graph(&self) -> &'g Graph {
        self.scope.graph()
    }

    /// A constant vector.
    pub fn data(&self, values: &[f64]) -> Expr<'g> {
        self.scope.vector(values)
    }

    /// A constant matrix, row by row: `[rows, columns]`.
    pub fn matrix(&mut self, columns: usize, values: &[f64]) -> Expr<'g> {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        match Array::new([rows, columns], values.to_vec()) {
            Ok(array) => self.graph().literal(array.cast(self.scope.dtype())),
            Err(error) => {
                self.fail(format!("a matrix of {columns} columns: {error}"));
                self.graph().scalar(self.scope.dtype(), 0.0)
            }
        }
    }

    /// Group numbers, counted from 0, to pick group effects with: `effect.take(1, index)`.
    pub fn index(&mut self, groups: &[usize]) -> Expr<'g> {
        let groups: Vec<i32> = groups.iter().map(|g| i32::try_from(*g).unwrap_or(i32::MAX)).collect();
        match Array::new(groups.len(), groups) {
            Ok(array) => self.graph().literal(array),
            Err(error) => {
                self.fail(format!("an index: {error}"));
                self.graph().arange(DType::I32, 1)
            }
        }
    }

    /// A real number.
    pub fn real(&mut self, name: &str, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Real, 1, prior)
    }

    /// A vector of real numbers.
    pub fn reals(&mut self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Real, size, prior)
    }

    /// A positive number.
    pub fn positive(&mut self, name: &str, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Positive, 1, prior)
    }

    /// A vector of positive numbers.
    pub fn positives(&mut self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Positive, size, prior)
    }

    /// A number between two others.
    pub fn interval(&mut self, name: &str, low: f64, high: f64, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Interval(low, high), 1, prior)
    }

    /// A vector that rises.
    pub fn ordered(&mut self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Ordered, size, prior)
    }

    /// Probabilities that sum to one.
    pub fn simplex(&mut self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Simplex, size, prior)
    }

    /// The Cholesky factor of a correlation matrix, `[rows, size, size]`.
    pub fn correlation_cholesky(&mut self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::CorrelationCholesky, size, prior)
    }

    /// Real numbers without a prior, for log densities given as they are: `m.add(log_density)`.
    pub fn flat(&mut self, name: &str, size: usize) -> Expr<'g> {
        self.declare(name, Constraint::Real, size, None)
    }

    /// Any parameter.
    pub fn parameter(&mut self, name: &str, kind: Constraint, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.declare(name, kind, size, Some(prior))
    }

    fn declare(
        &mut self,
        name: &str,
        constraint: Constraint,
        size: usize,
        prior: Option<Distribution<'g>>,
    ) -> Expr<'g> {
        self.check_name(name);
        match constraint {
            // Asked this way round, NaN is refused.
            Constraint::Interval(low, high) if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) => {
                self.fail(format!("`{name}` can have no value: nothing lies between {low} and {high}"));
            }
            Constraint::Lower(bound) | Constraint::Upper(bound) if bound.is_nan() => {
                self.fail(format!("`{name}` can have no value: its bound is NaN"));
            }
            _ => {}
        }
        if size == 0 {
            self.fail(format!("`{name}` has no elements"));
            return self.graph().full(self.scope.dtype(), [self.rows, 1], 0.0);
        }
        let free = constraint.free(size);
        let dtype = self.scope.dtype();
        let (value, jacobian) = match &self.source {
            Source::Nothing => constraint.constrain(self.graph().full(dtype, [self.rows, free.max(1)], 0.0), size),
            Source::Free(z) if free == 0 => constraint.constrain(z.slice(1, 0..1), size),
            Source::Free(z) => constraint.constrain(z.slice(1, self.next..self.next + free), size),
            Source::Inputs => {
                let shape = match constraint {
                    Constraint::CorrelationCholesky => vec![self.rows, size, size],
                    _ => vec![self.rows, size],
                };
                (self.graph().input(name, dtype, shape), self.graph().full(dtype, [self.rows], 0.0))
            }
        };
        self.next += free;
        self.log_density = self.log_density + jacobian;
        if let Some(prior) = &prior {
            let log_prior = self.per_row(prior.log_density(value));
            self.log_density = self.log_density + log_prior;
        }
        // Improper priors cannot be drawn from: the family without a name says so.
        let prior = prior.unwrap_or_else(|| super::uniform(f64::NEG_INFINITY, f64::INFINITY));
        self.declared.push(Declared { name: name.to_owned(), constraint, size, value, prior });
        value
    }

    /// Data with their distribution; returns the log likelihood of each, `[rows, n]`.
    pub fn observe(&mut self, name: &str, data: &[f64], distribution: Distribution<'g>) -> Expr<'g> {
        let replaced = self.replaced.clone();
        let data = replaced.get(name).map_or(data, Vec::as_slice);
        match Array::new(data.len(), data.to_vec()) {
            Ok(array) => self.observe_array(name, array, distribution),
            Err(error) => {
                self.fail(format!("`{name}`: {error}"));
                self.log_density
            }
        }
    }

    /// Vectors with their distribution, `[n, k]`: multinomial counts, multivariate normal rows.
    pub fn observe_rows(&mut self, name: &str, k: usize, data: &[f64], distribution: Distribution<'g>) -> Expr<'g> {
        let replaced = self.replaced.clone();
        let data = replaced.get(name).map_or(data, Vec::as_slice);
        let n = data.len().checked_div(k).unwrap_or(0);
        match Array::new([n, k], data.to_vec()) {
            Ok(array) => self.observe_array(name, array, distribution),
            Err(error) => {
                self.fail(format!("`{name}`, in rows of {k}: {error}"));
                self.log_density
            }
        }
    }

    /// `size` of `n` observations, drawn anew for each gradient and weighted so that the expected log density is that of
    /// all.
    ///
    /// Draws and diagnostics always use all observations. While training, the bound is unbiased only in expectation
    /// over minibatches, exp(L) is not, and accept probabilities would be wrong: use it with Hamiltonian or Langevin
    /// steps without accept/reject.
    pub fn minibatch(&mut self, n: usize, size: usize) -> Minibatch<'g> {
        if size == 0 || size > n {
            self.fail(format!("a minibatch of {size} out of {n} observations"));
        }
        self.subsampled |= size < n;
        if self.scope.choices() == Choices::Sample || size >= n || size == 0 {
            return Minibatch { n, index: None, scale: 1.0 };
        }
        let drawn = (self.scope.uniform(size) * n as f64).floor().min(n as f64 - 1.0);
        Minibatch { n, index: Some(drawn.cast(DType::I32)), scale: n as f64 / size as f64 }
    }

    /// Observations of a minibatch; `distribution` speaks of the drawn ones, made with [`Minibatch::of`].
    pub fn observe_some(
        &mut self,
        name: &str,
        batch: &Minibatch<'g>,
        data: &[f64],
        distribution: Distribution<'g>,
    ) -> Expr<'g> {
        if data.len() != batch.n {
            self.fail(format!("`{name}` has {} observations, its minibatch is one of {}", data.len(), batch.n));
        }
        if batch.index.is_none() {
            return self.observe(name, data, distribution);
        }
        self.check_name(name);
        let replaced = self.replaced.clone();
        let all = batch.of(self.scope.vector(replaced.get(name).map_or(data, Vec::as_slice)));
        let log_likelihood = self.for_each(distribution.log_density(all), all.shape().dims()[0]);
        let total = self.per_row(log_likelihood) * batch.scale;
        self.log_density = self.log_density + total;
        log_likelihood
    }

    fn observe_array(&mut self, name: &str, data: Array, distribution: Distribution<'g>) -> Expr<'g> {
        self.check_name(name);
        if let Some(i) = data.to_f64().iter().position(|x| x.is_nan()) {
            self.fail(format!("`{name}` is not a number at position {}; leave missing observations out", i + 1));
        }
        let x = self.graph().literal(data.cast(self.scope.dtype()));
        let n = data.shape().dims()[0];
        let log_likelihood = self.for_each(distribution.log_density(x), n);
        self.log_density = self.log_density + self.per_row(log_likelihood);
        self.observed.push(Observed { name: name.to_owned(), data, distribution, log_likelihood });
        log_likelihood
    }

    /// Add to the log density: one number a row, or several to be summed.
    pub fn add(&mut self, log_density: Expr<'g>) {
        let rowless = self.rowless.get(self.added.len()).is_some_and(|r| *r);
        self.added.push(log_density.shape().dims().first().copied());
        let total = if rowless { log_density.sum_all().broadcast_to([self.rows]) } else { self.per_row(log_density) };
        self.log_density = self.log_density + total;
    }

    /// A quantity to be reported beside the parameters.
    pub fn generated(&mut self, name: &str, value: Expr<'g>) -> Expr<'g> {
        self.check_name(name);
        self.generated.push((name.to_owned(), value));
        value
    }

    /// One for each row and observation, also where nothing depends on parameters.
    fn for_each(&self, log_likelihood: Expr<'g>, n: usize) -> Expr<'g> {
        if log_likelihood.error().is_some() || log_likelihood.shape().dims() == [self.rows, n] {
            return log_likelihood;
        }
        log_likelihood.broadcast_to([self.rows, n])
    }

    /// The sum over everything but rows.
    fn per_row(&self, e: Expr<'g>) -> Expr<'g> {
        let shape = e.shape();
        if e.error().is_some() {
            return e;
        }
        // What does not depend on parameters has no rows of its own.
        if shape.rank() == 0 || shape.dims()[0] != self.rows {
            return e.sum_all().broadcast_to([self.rows]);
        }
        e.sum(&(1..shape.rank()).collect::<Vec<_>>())
    }

    fn check_name(&mut self, name: &str) {
        let taken = self.declared.iter().any(|d| d.name == name)
            || self.observed.iter().any(|o| o.name == name)
            || self.generated.iter().any(|g| g.0 == name);
        if taken {
            self.fail(format!("the name `{name}` is used twice"));
        }
        if name.is_empty() || name.contains(['[', ']', '/', ',']) {
            self.fail(format!("`{name}` is no name: use letters, digits and underscores"));
        }
    }

    fn fail(&mut self, mistake: String) {
        self.mistake.get_or_insert(mistake);
    }
}

impl Distribution<'_> {
    /// Whether draws can be made of it: an improper prior has none.
    pub(super) fn is_proper(&self) -> bool {
        let infinite = |p: &super::Value<'_>| matches!(p, super::Value::Number(x) if x.is_infinite());
        !(self.family == Family::Uniform && self.parameters.iter().any(infinite))
    }
}
