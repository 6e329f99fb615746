//! What a model is written with: data, parameters, generated quantities.

use super::{Constraint, Distribution, Value, flat};
use crate::scope::Scope;
use mcvi_expr::{Array, DType, Expr, Graph};
use std::cell::{Ref, RefCell, RefMut};
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
    pub constraint: Constraint<'g>,
    /// Elements of a vector, or rows of a matrix.
    pub size: usize,
    pub value: Expr<'g>,
    pub prior: Distribution<'g>,
    /// Of each row; none where it is flat.
    pub log_prior: Option<Expr<'g>>,
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

/// What has been written so far.
pub(super) struct Written<'g> {
    pub log_density: Expr<'g>,
    pub declared: Vec<Declared<'g>>,
    pub observed: Vec<Observed<'g>>,
    pub generated: Vec<(String, Expr<'g>)>,
    pub mistake: Option<String>,
    pub subsampled: bool,
    /// Sizes of what is noise.
    pub noise: Vec<usize>,
    /// The first extent of everything added to the log density.
    pub added: Vec<Option<usize>>,
    /// Free numbers that belong to parameters declared already.
    next: usize,
}

/// What the input for noise is called.
pub(super) fn noise_name(number: usize) -> String {
    format!("noise/{number}")
}

/// A model under construction. Every quantity has a row for each posterior draw: scalars are `[rows, 1]`, vectors
/// `[rows, k]`, matrices `[rows, k, k]`; data `[n]` broadcasts against them.
///
/// All methods take `&self`, so that one call can stand inside another:
/// `m.observe("y", &y, normal(b.matmul(m.matrix(…)), s))`.
pub struct Builder<'g> {
    pub(super) scope: Scope<'g>,
    source: Source<'g>,
    pub(super) rows: usize,
    /// Other values for observations, by name.
    pub(super) replaced: Rc<BTreeMap<String, Vec<f64>>>,
    /// Of what is added, in order: what has no rows, whatever its first extent.
    rowless: Vec<bool>,
    /// Whether something is drawn, so that noise is an input.
    draws: bool,
    written: RefCell<Written<'g>>,
}

impl<'g> Builder<'g> {
    pub(super) fn new(
        scope: Scope<'g>,
        source: Source<'g>,
        rows: usize,
        replaced: Rc<BTreeMap<String, Vec<f64>>>,
    ) -> Self {
        let log_density = scope.graph().full(scope.dtype(), [rows], 0.0);
        let written = Written {
            log_density,
            declared: vec![],
            observed: vec![],
            generated: vec![],
            mistake: None,
            subsampled: false,
            noise: vec![],
            added: vec![],
            next: 0,
        };
        Builder { scope, source, rows, replaced, rowless: vec![], draws: false, written: RefCell::new(written) }
    }

    /// The same, knowing what of all that is added has no rows: as many data as rows look alike.
    pub(super) fn knowing(self, rowless: &[bool]) -> Self {
        Builder { rowless: rowless.to_vec(), ..self }
    }

    /// The same, to draw with it.
    pub(super) fn drawing(self) -> Self {
        Builder { draws: true, ..self }
    }

    /// What was written, once it is all there.
    pub(super) fn finish(self) -> Written<'g> {
        self.written.into_inner()
    }

    /// What has been written so far. Nothing of the user's runs while it is borrowed.
    fn written(&self) -> Ref<'_, Written<'g>> {
        self.written.borrow()
    }

    pub(super) fn write(&self) -> RefMut<'_, Written<'g>> {
        self.written.borrow_mut()
    }

    /// The graph expressions are built in.
    pub fn graph(&self) -> &'g Graph {
        self.scope.graph()
    }

    /// A constant vector.
    pub fn data(&self, values: &[f64]) -> Expr<'g> {
        self.scope.vector(values)
    }

    /// A constant array, shared with the programs made of it instead of copied: for large data.
    pub fn array(&self, array: &Array) -> Expr<'g> {
        self.graph().literal(array.cast(self.scope.dtype()))
    }

    /// Rows of a constant array of `total` rows, from number `first` on: other ranks hold the others.
    pub(crate) fn rows_of(&self, array: &Array, first: usize, total: usize) -> Expr<'g> {
        self.graph().rows_of(array.cast(self.scope.dtype()), first, total)
    }

    /// A constant matrix, row by row: `[rows, columns]`.
    pub fn matrix(&self, columns: usize, values: &[f64]) -> Expr<'g> {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        match Array::new([rows, columns], values.to_vec()) {
            Ok(array) => self.array(&array),
            Err(error) => {
                self.fail(format!("a matrix of {columns} columns: {error}"));
                self.graph().scalar(self.scope.dtype(), 0.0)
            }
        }
    }

    /// Group numbers, counted from 0, to pick group effects with: `effect.take(1, index)`.
    pub fn index(&self, groups: &[usize]) -> Expr<'g> {
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
    pub fn real(&self, name: &str, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Real, 1, prior)
    }

    /// A vector of real numbers.
    pub fn reals(&self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Real, size, prior)
    }

    /// A positive number.
    ///
    /// The prior is taken as it is and not divided by its mass above 0: `m.positive("s", normal(0.0, 1.0))` has the
    /// posterior of `m.positive("s", half_normal(1.0))`, but half its density and so half the evidence. Stan does the same
    /// with a declared bound. See [the module's conventions](super#conventions).
    pub fn positive(&self, name: &str, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Positive, 1, prior)
    }

    /// A vector of positive numbers.
    pub fn positives(&self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Positive, size, prior)
    }

    /// A number above a bound, Stan's `<lower=bound>`. The bound is a number or an expression, of data or of parameters
    /// declared before; bounded vectors are made with [`Builder::parameter`].
    pub fn lower(&self, name: &str, bound: impl Into<Value<'g>>, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::lower(bound), 1, prior)
    }

    /// A number below a bound, Stan's `<upper=bound>`.
    pub fn upper(&self, name: &str, bound: impl Into<Value<'g>>, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::upper(bound), 1, prior)
    }

    /// A number between two others, Stan's `<lower=low, upper=high>`.
    pub fn interval(
        &self,
        name: &str,
        low: impl Into<Value<'g>>,
        high: impl Into<Value<'g>>,
        prior: Distribution<'g>,
    ) -> Expr<'g> {
        self.parameter(name, Constraint::interval(low, high), 1, prior)
    }

    /// A vector that rises.
    pub fn ordered(&self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Ordered, size, prior)
    }

    /// A vector of positive numbers that rises.
    pub fn positive_ordered(&self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::PositiveOrdered, size, prior)
    }

    /// Probabilities that sum to one.
    pub fn simplex(&self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::Simplex, size, prior)
    }

    /// The Cholesky factor of a correlation matrix, `[rows, size, size]`.
    pub fn correlation_cholesky(&self, name: &str, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.parameter(name, Constraint::CorrelationCholesky, size, prior)
    }

    /// Real numbers with a [`flat`] prior, for log densities given as they are: `m.add(log_density)`.
    pub fn flat(&self, name: &str, size: usize) -> Expr<'g> {
        self.parameter(name, Constraint::Real, size, flat())
    }

    /// Any parameter: of `size` elements, or rows of a matrix.
    pub fn parameter(&self, name: &str, constraint: Constraint<'g>, size: usize, prior: Distribution<'g>) -> Expr<'g> {
        self.check_name(name);
        if let Some(mistake) = constraint.mistake() {
            self.fail(format!("`{name}` can have no value: {mistake}"));
        }
        if size == 0 {
            self.fail(format!("`{name}` has no elements"));
            return self.graph().full(self.scope.dtype(), [self.rows, 1], 0.0);
        }
        let (free, next) = (constraint.free(size), self.written().next);
        let dtype = self.scope.dtype();
        let (value, jacobian) = match &self.source {
            Source::Nothing => constraint.constrain(self.graph().full(dtype, [self.rows, free.max(1)], 0.0), size),
            Source::Free(z) if free == 0 => constraint.constrain(z.slice(1, 0..1), size),
            Source::Free(z) => constraint.constrain(z.slice(1, next..next + free), size),
            Source::Inputs => {
                let shape = constraint.shape(self.rows, size);
                (self.graph().input(name, dtype, shape), self.graph().full(dtype, [self.rows], 0.0))
            }
        };
        if let Some(error) = value.error() {
            self.fail(format!("`{name}`: its bounds do not fit a value of shape [rows, {size}]: {error}"));
        }
        self.write().next += free;
        self.count(jacobian);
        if let Some(mistake) = prior.mistake().or_else(|| prior.conflict(constraint)) {
            self.fail(format!("the prior of `{name}`: {mistake}"));
        }
        let log_prior = (!prior.is_flat()).then(|| self.per_row(prior.log_density(value)));
        if let Some(log_prior) = log_prior {
            if let Some(error) = log_prior.error() {
                self.fail(format!("`{name}`, {}, does not fit its prior, {prior:?}: {error}", value.shape()));
            }
            self.count(log_prior);
        }
        self.write().declared.push(Declared { name: name.to_owned(), constraint, size, value, prior, log_prior });
        value
    }

    /// Standard normal numbers that are no parameters, for quantities that are drawn given the parameters: `[rows, size]`. A
    /// draw has the same ones wherever its quantities are computed. The log density must not depend on them.
    pub(crate) fn noise(&self, size: usize) -> Expr<'g> {
        let (dtype, number) = (self.scope.dtype(), self.written().noise.len());
        self.write().noise.push(size);
        if self.draws {
            self.graph().input(&noise_name(number), dtype, [self.rows, size])
        } else {
            self.graph().full(dtype, [self.rows, size], 0.0)
        }
    }

    /// Rows of every quantity.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether parameters and observations are drawn from the prior, and nothing is known of them.
    pub(crate) fn is_prior(&self) -> bool {
        self.draws && matches!(self.source, Source::Inputs)
    }

    /// Add any term to the log density: one number a row, or several to be summed.
    ///
    /// A term has no name, no pointwise log likelihood, no predictions and no part in draws from the prior. What is the
    /// density of data or of a parameter is better a distribution of one's own ([`Distribution::new`]) or a
    /// [`mixture`](super::mixture()), which keep all four.
    pub fn add(&self, log_density: Expr<'g>) {
        let rowless = self.rowless.get(self.written().added.len()).is_some_and(|r| *r);
        self.write().added.push(log_density.shape().dims().first().copied());
        let total = if rowless { log_density.sum_all().broadcast_to([self.rows]) } else { self.per_row(log_density) };
        self.count(total);
    }

    /// A quantity to be reported beside the parameters.
    pub fn generated(&self, name: &str, value: Expr<'g>) -> Expr<'g> {
        self.check_name(name);
        self.write().generated.push((name.to_owned(), value));
        value
    }

    /// Count one number a row towards the log density.
    pub(super) fn count(&self, term: Expr<'g>) {
        let so_far = self.written().log_density;
        self.write().log_density = so_far + term;
    }

    /// The sum over everything but rows.
    pub(super) fn per_row(&self, e: Expr<'g>) -> Expr<'g> {
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

    pub(super) fn check_name(&self, name: &str) {
        let written = self.written();
        let taken = written.declared.iter().any(|d| d.name == name)
            || written.observed.iter().any(|o| o.name == name)
            || written.generated.iter().any(|g| g.0 == name);
        drop(written);
        if taken {
            self.fail(format!("the name `{name}` is used twice"));
        }
        if name.is_empty() || name.contains(['[', ']', '/', ',']) {
            self.fail(format!("`{name}` is no name: use letters, digits and underscores"));
        }
    }

    /// Remember a mistake; the first is what is reported.
    pub(super) fn fail(&self, mistake: String) {
        self.write().mistake.get_or_insert(mistake);
    }
}
