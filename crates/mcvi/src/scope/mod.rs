//! Where a chain is built: a graph, its rows, and parameters by name.
//!
//! A chain is a description. The same description is built once to find the names and initial values of its parameters,
//! again with few rows for training, and again with many for drawing. A [`Scope`] carries what differs.

mod columns;
mod initial;
mod packing;

pub(crate) use columns::one_number;
pub use initial::Initial;
pub(crate) use packing::{PACKED, is_packed, pack, unpack, write};

use crate::error::{Error, Result};
use crate::initialisation::Initialisation;
use crate::params::{Group, Param, Params};
use crate::units::Units;
use mcvi_expr::{Array, DType, Expr, Graph, Shape};
use packing::place;
use std::cell::{OnceCell, Ref, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// How discrete choices (accept or reject, which iterate) enter the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// Average over all of them: the bound stays differentiable.
    Average,
    /// Draw one: as needed for draws and their weights, and an unbiased estimate of the same bound.
    Sample,
}

/// How the gradient of a chain's bound is estimated. Values are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimator {
    /// Through draws, as transformations of noise.
    #[default]
    Pathwise,
    /// The same without the score of a draw's own density, whose expectation is zero (Roeder, Wu & Duvenaud 2017, "Sticking the
    /// landing").
    StickingTheLanding,
    /// Through densities, with draws held fixed.
    FixedPath,
}

/// Values and the features to predict them from, recorded when a linear-Gaussian inverse model was evaluated.
pub(crate) struct Observation<'g> {
    /// Scope of the density.
    pub path: String,
    /// Features, each [rows, k]; the intercept is implied.
    pub features: Vec<(&'static str, Expr<'g>)>,
    /// Rows of values.
    pub value: Expr<'g>,
    /// Rows that count (1) and rows that do not (0).
    pub weight: Option<Expr<'g>>,
}

struct Build<'g> {
    graph: &'g Graph,
    rows: usize,
    dtype: DType,
    choices: Choices,
    positions: Arc<Units>,
    momenta: Arc<Units>,
    standard: OnceCell<Arc<Units>>,
    seed: u64,
    params: RefCell<Params>,
    packed: Option<Expr<'g>>,
    exprs: RefCell<HashMap<String, Expr<'g>>>,
    shared: RefCell<HashMap<String, Expr<'g>>>,
    observations: RefCell<Vec<Observation<'g>>>,
    error: RefCell<Option<Error>>,
}

/// A place in the graph under construction: names of parameters are relative to it.
#[derive(Clone)]
pub struct Scope<'g> {
    build: Rc<Build<'g>>,
    path: String,
    group: Group,
    /// Whether positions are whitened, so that their units are standard.
    whitened: bool,
    estimator: Estimator,
    /// Whether derivatives do not reach parameters.
    stopped: bool,
    /// Parameters that a loop goes through, by their names in its first step.
    looped: Rc<HashMap<String, Expr<'g>>>,
    /// Which part of the rows it is, and of how many.
    part: (usize, usize),
}

/// Noise streams that a part may use.
const STREAMS: u32 = 1 << 20;

impl<'g> Scope<'g> {
    /// Build over `rows` rows with the parameters known so far; further ones are added on demand.
    pub(crate) fn new(
        graph: &'g Graph,
        rows: usize,
        dtype: DType,
        choices: Choices,
        start: &Initialisation,
        params: &Params,
    ) -> Result<Self> {
        let (packed, exprs) = place(graph, params)?;
        let build = Build {
            graph,
            rows,
            dtype,
            choices,
            positions: Arc::new(start.positions()),
            momenta: Arc::new(start.momenta()),
            standard: OnceCell::new(),
            seed: start.seed,
            params: RefCell::new(params.clone()),
            packed,
            exprs: RefCell::new(exprs),
            shared: RefCell::default(),
            observations: RefCell::default(),
            error: RefCell::default(),
        };
        Ok(Scope {
            build: Rc::new(build),
            path: String::new(),
            group: Group::Target,
            whitened: false,
            estimator: Estimator::default(),
            stopped: false,
            looped: Rc::default(),
            part: (0, 1),
        })
    }

    /// The graph expressions are built in.
    pub fn graph(&self) -> &'g Graph {
        self.build.graph
    }

    /// The number of rows: independent chains, or datapoints.
    pub fn rows(&self) -> usize {
        self.build.rows
    }

    /// The same scope for a part of the rows. Parameters are those of all parts; what rows share, and the noise they draw, is each
    /// part's own.
    pub(crate) fn of_part(&self, part: usize, of: usize) -> Self {
        if of > 1 {
            self.graph().streams_from(part as u32 * STREAMS);
        }
        Scope { part: (part, of), ..self.clone() }
    }

    /// The same scope for what all parts share.
    pub fn of_all_parts(&self) -> Self {
        Scope { part: (0, 1), ..self.clone() }
    }

    /// Of an array with an element for every row of every part: those of this part.
    pub fn rows_of_part(&self, all: Expr<'g>) -> Expr<'g> {
        let (part, rows) = (self.part.0, self.rows());
        if self.part.1 == 1 { all } else { all.slice(0, part * rows..(part + 1) * rows) }
    }

    /// The number of rows of all parts.
    pub fn rows_of_all(&self) -> usize {
        self.rows() * self.part.1
    }

    /// The element type of the computation.
    pub fn dtype(&self) -> DType {
        self.build.dtype
    }

    /// How discrete choices enter the bound.
    pub fn choices(&self) -> Choices {
        self.build.choices
    }

    /// The location and scale of positions: those of the target, or standard ones where they are whitened.
    pub fn positions(&self) -> Arc<Units> {
        if self.whitened { self.standard() } else { self.build.positions.clone() }
    }

    /// The typical scale of momenta, or of gradients of the target.
    pub fn momenta(&self) -> Arc<Units> {
        if self.whitened { self.standard() } else { self.build.momenta.clone() }
    }

    fn standard(&self) -> Arc<Units> {
        self.build.standard.get_or_init(|| Arc::new(Units::standard(self.build.positions.dim()))).clone()
    }

    /// The same scope in whitened coordinates.
    pub(crate) fn whitened(&self) -> Self {
        Scope { whitened: true, ..self.clone() }
    }

    /// The same scope with another estimator of gradients.
    pub(crate) fn estimating(&self, estimator: Estimator) -> Self {
        Scope { estimator, ..self.clone() }
    }

    /// How gradients are estimated.
    pub fn estimator(&self) -> Estimator {
        self.estimator
    }

    /// The same scope, whose parameters are constants to derivatives.
    pub(crate) fn stopped(&self) -> Self {
        Scope { stopped: true, ..self.clone() }
    }

    /// A variable just drawn: a constant to derivatives if paths are held fixed.
    pub fn held(&self, drawn: Expr<'g>) -> Expr<'g> {
        if self.estimator == Estimator::FixedPath { drawn.stop_gradient() } else { drawn }
    }

    /// The outermost scope.
    pub(crate) fn root(&self) -> Self {
        Scope { path: String::new(), ..self.clone() }
    }

    /// A scope within this one.
    pub fn child(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Scope { path, ..self.clone() }
    }

    /// The same scope for parameters of another group.
    pub fn group(&self, group: Group) -> Self {
        Scope { group, ..self.clone() }
    }

    /// The same scope for the weights of a network: those in a transition are learned at the rate of other networks,
    /// not at that of its step size.
    pub(crate) fn for_network(&self) -> Self {
        if self.group == Group::Transition { self.group(Group::Network) } else { self.clone() }
    }

    /// A parameter of this scope. The first call sets its initial value; later ones return the same expression.
    pub fn param(&self, name: &str, shape: impl Into<Shape>, initial: impl FnOnce() -> Initial) -> Expr<'g> {
        let param = self.named(name, shape.into(), true, initial);
        if self.stopped { param.stop_gradient() } else { param }
    }

    /// An array that is saved with the parameters, but not learned.
    pub fn fixed(&self, name: &str, shape: impl Into<Shape>, values: impl FnOnce() -> Vec<f64>) -> Expr<'g> {
        self.named(name, shape.into(), false, || Initial::new(values()))
    }

    fn named(&self, name: &str, shape: Shape, learned: bool, initial: impl FnOnce() -> Initial) -> Expr<'g> {
        let path = self.child(name).path;
        let known = self.build.exprs.borrow().get(&path).copied();
        if let Some(expr) = self.looped.get(&path).copied().or(known) {
            if expr.shape() != shape {
                let why = format!("`{path}` has shape {}, the chain asks for {shape}", expr.shape());
                self.fail(Error::Params { why });
            }
            return expr;
        }
        let Initial { values, scale } = initial();
        let value = match Array::new(shape.clone(), values) {
            Ok(array) => array.cast(self.dtype()),
            Err(error) => {
                self.fail(Error::Params { why: format!("`{path}`: {error}") });
                return self.graph().full(self.dtype(), shape, 0.0);
            }
        };
        self.insert(path, Param { value, scale, group: self.group, learned })
    }

    fn insert(&self, path: String, param: Param) -> Expr<'g> {
        let value = param.value.clone();
        let expr = if param.learned { self.graph().state(&path, value) } else { self.graph().literal(value) };
        self.build.params.borrow_mut().insert(&path, param);
        self.build.exprs.borrow_mut().insert(path, expr);
        expr
    }

    /// The parameters of several steps, one row for each: those that the step called `first` has, by their names there. A step
    /// that lacks them gets the values of the first.
    pub(crate) fn stacked(&self, first: &str, steps: &[String]) -> Vec<(String, Expr<'g>)> {
        let params: Vec<(String, Param)> = {
            let params = self.build.params.borrow();
            let of_first = params.iter().filter(|(path, _)| path.starts_with(&format!("{first}.")));
            of_first.map(|(path, p)| (path.to_owned(), p.clone())).collect()
        };
        let stack = |(path, param): (String, Param)| {
            let rows = steps.iter().map(|step| {
                let path = format!("{step}{}", &path[first.len()..]);
                let known = self.build.exprs.borrow().get(&path).copied();
                known.unwrap_or_else(|| self.insert(path, param.clone())).expand(0)
            });
            let rows: Vec<Expr<'g>> = rows.collect();
            (path, self.graph().concat(&rows, 0))
        };
        params.into_iter().map(stack).collect()
    }

    /// The scope of a body, in which these parameters are elements of a loop.
    pub(crate) fn within(&self, looped: impl IntoIterator<Item = (String, Expr<'g>)>) -> Self {
        Scope { looped: Rc::new(looped.into_iter().collect()), ..self.clone() }
    }

    /// An expression that is built once in this graph, however often it is requested: for draws that several places
    /// must share.
    pub fn shared(&self, name: &str, build: impl FnOnce() -> Expr<'g>) -> Expr<'g> {
        let path = match self.part {
            (_, 1) => self.child(name).path,
            (part, _) => format!("{} of part {part}", self.child(name).path),
        };
        let known = self.build.shared.borrow().get(&path).copied();
        known.unwrap_or_else(|| {
            let made = build();
            self.build.shared.borrow_mut().insert(path, made);
            made
        })
    }

    /// Initial weights of a layer with this many inputs: uniform, with standard deviation `gain` over the square root
    /// of that number. They depend on the name and on the seed, and are the same on every machine.
    pub fn weights(&self, name: &str, count: usize, inputs: usize, gain: f64) -> Initial {
        let spread = gain / (inputs.max(1) as f64).sqrt();
        let numbers = initial::spread_numbers(count, &self.child(name).path, self.build.seed);
        Initial::new(numbers.map(|u| u * spread).collect())
    }

    /// Independent standard normal draws.
    pub fn normal(&self, shape: impl Into<Shape>) -> Expr<'g> {
        self.graph().normal(self.graph().fresh_stream(), self.dtype(), shape)
    }

    /// Independent draws from the unit interval.
    pub fn uniform(&self, shape: impl Into<Shape>) -> Expr<'g> {
        self.graph().uniform(self.graph().fresh_stream(), self.dtype(), shape)
    }

    /// A constant vector.
    pub fn vector(&self, values: &[f64]) -> Expr<'g> {
        match Array::new(values.len(), values.to_vec()) {
            Ok(array) => self.graph().literal(array.cast(self.dtype())),
            Err(error) => {
                self.fail(error.into());
                self.graph().scalar(self.dtype(), 0.0)
            }
        }
    }

    /// Record an error; [`Scope::finish`] returns the first.
    pub(crate) fn fail(&self, error: Error) {
        self.build.error.borrow_mut().get_or_insert(error);
    }

    /// The parameters used, or the first error.
    pub(crate) fn finish(&self) -> Result<Params> {
        match self.build.error.borrow_mut().take() {
            Some(error) => Err(error),
            None => Ok(self.build.params.borrow().clone()),
        }
    }

    /// The learned parameters with their expressions.
    pub(crate) fn learned(&self) -> Vec<(String, Param, Expr<'g>)> {
        let (params, exprs) = (self.build.params.borrow(), self.build.exprs.borrow());
        let learned = params.iter().filter(|(_, p)| p.learned);
        learned.map(|(name, p)| (name.to_owned(), p.clone(), exprs[name])).collect()
    }

    /// The state that holds the small learned parameters.
    pub(crate) fn packed_state(&self) -> Result<Expr<'g>> {
        self.build.packed.ok_or_else(|| Error::Params { why: "none is learned".to_owned() })
    }

    /// Record an evaluation of an inverse model. If q itself is evaluated (reversed momenta, bridges) nothing is
    /// recorded: a regression would change the chain.
    pub(crate) fn observe(&self, features: Vec<(&'static str, Expr<'g>)>, value: Expr<'g>, weight: Option<Expr<'g>>) {
        if self.group != Group::Inverse {
            return;
        }
        let path = self.path.clone();
        self.build.observations.borrow_mut().push(Observation { path, features, value, weight });
    }

    pub(crate) fn observations(&self) -> Ref<'_, Vec<Observation<'g>>> {
        self.build.observations.borrow()
    }
}
