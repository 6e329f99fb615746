//! A model: what its parameters are called, and its log density.

use super::builder::{Builder, Declared, Observed, Source, Written};
use super::quantity::{Declaration, Quantity};
use crate::error::{Error, Result};
use crate::hardware::Ranks;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::{Choices, Scope};
use crate::target::Target;
use mcvi_expr::{DType, Expr, Graph};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Writes a model with a [`Builder`]. Functions do.
trait Define: Send + Sync {
    fn define<'g>(&self, m: &Builder<'g>);
}

impl<F: for<'g> Fn(&Builder<'g>) + Send + Sync> Define for F {
    fn define<'g>(&self, m: &Builder<'g>) {
        self(m);
    }
}

/// Named, constrained parameters with priors, and observations.
///
/// ```
/// use mcvi::model::{Model, half_cauchy, normal};
///
/// let (y, sigma) = ([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]);
/// let schools = Model::new(move |m| {
///     let mu = m.real("mu", normal(0.0, 5.0));
///     let tau = m.positive("tau", half_cauchy(5.0));
///     let eta = m.reals("eta", 8, normal(0.0, 1.0));
///     let theta = m.generated("theta", mu + tau * eta);
///     let sigma = m.data(&sigma);
///     m.observe("y", &y, normal(theta, sigma));
/// })?;
/// assert_eq!(schools.names()[2], "eta[1]");
/// # Ok::<(), mcvi::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    define: Arc<dyn Define>,
    pub(super) parameters: Vec<Declaration>,
    pub(super) dim: usize,
    subsampled: bool,
    /// Other values for observations, by name.
    replaced: BTreeMap<String, Vec<f64>>,
    /// Of all that is added to the log density, in order: what has no rows.
    rowless: Vec<bool>,
    /// The ranks that share its observations.
    pub(super) ranks: Option<Ranks>,
}

impl Model {
    /// A model from the function that writes it. The function is run twice to check it.
    pub fn new(define: impl for<'g> Fn(&Builder<'g>) + Send + Sync + 'static) -> Result<Self> {
        let define: Arc<dyn Define> = Arc::new(define);
        // What has rows is what changes with their number: data may by chance be as many as there are rows.
        let (mut model, two) = Model::check(&define, 2)?;
        let (_, three) = Model::check(&define, 3)?;
        model.rowless = two.iter().zip(&three).map(|(two, three)| two == three).collect();
        Ok(model)
    }

    /// The model, not yet knowing what has no rows, and the first extent of all that is added to its log density.
    fn check(define: &Arc<dyn Define>, rows: usize) -> Result<(Self, Vec<Option<usize>>)> {
        let graph = Graph::new();
        let scope = scope(&graph, rows, 1, Choices::Sample)?;
        let m = write(&**define, Builder::new(scope.clone(), Source::Nothing, rows, Rc::default()));
        let bad = |why: String| Err(Error::Target { why });
        if let Some(mistake) = m.mistake {
            return bad(mistake);
        }
        scope.finish()?;
        if let Some(error) = m.log_density.error() {
            return Err(error.into());
        }
        for (name, value) in &m.generated {
            if let Some(error) = value.error() {
                return bad(format!("`{name}`: {error}"));
            }
            if value.shape().dims().first().is_some_and(|first| *first != rows && *first != 1) {
                return bad(format!("`{name}` has shape {}, no row for each draw", value.shape()));
            }
        }
        let dim = m.declared.iter().map(|d| d.constraint.free(d.size)).sum();
        if dim == 0 {
            return bad("it declares no parameter that can vary".to_owned());
        }
        let declare = |d: &Declared<'_>| Declaration::new(&d.name, d.constraint, d.size);
        let (parameters, subsampled) = (m.declared.iter().map(declare).collect(), m.subsampled);
        let (rowless, replaced) = (vec![], BTreeMap::new());
        let define = define.clone();
        Ok((Model { define, parameters, dim, subsampled, replaced, rowless, ranks: None }, m.added))
    }

    /// The same model, where each of these ranks computes what follows from its own rows of the data.
    pub(crate) fn shared_by(self, ranks: Option<Ranks>) -> Self {
        Model { ranks, ..self }
    }

    /// The same model of other observations, of as many values each: for simulated data.
    pub fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Self> {
        let known = self.observations()?;
        for (name, values) in observations {
            let Some(old) = known.iter().find(|k| k.name == *name) else {
                return Err(Error::Target { why: format!("it observes no `{name}`") });
            };
            if old.values.len() != values.len() {
                let why = format!("`{name}` has {} values, {} were given", old.values.len(), values.len());
                return Err(Error::Target { why });
            }
        }
        Ok(Model { replaced: observations.iter().cloned().collect(), ..self.clone() })
    }

    /// All that the model writes.
    pub(super) fn write<'g>(&self, m: Builder<'g>) -> Written<'g> {
        write(&*self.define, m)
    }

    pub(super) fn replaced(&self) -> Rc<BTreeMap<String, Vec<f64>>> {
        Rc::new(self.replaced.clone())
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Declaration] {
        &self.parameters
    }

    /// The name of each element of each parameter.
    pub fn names(&self) -> Vec<String> {
        self.parameters.iter().flat_map(Declaration::names).collect()
    }

    /// The observations, each with its shape.
    pub fn observations(&self) -> Result<Vec<Quantity>> {
        let graph = Graph::new();
        let m = self.write(Builder::new(scope(&graph, 1, 1, Choices::Sample)?, Source::Nothing, 1, self.replaced()));
        let quantity = |o: &Observed<'_>| Quantity {
            name: o.name.clone(),
            shape: o.data.shape().dims().to_vec(),
            values: o.data.to_f64(),
        };
        Ok(m.observed.iter().map(quantity).collect())
    }
}

impl Target for Model {
    fn dim(&self) -> usize {
        self.dim
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let rows = z.shape().dims().first().copied().unwrap_or(1);
        let m = Builder::new(scope.clone(), Source::Free(z), rows, self.replaced()).knowing(&self.rowless);
        self.write(m).log_density
    }

    fn is_subsampled(&self) -> bool {
        self.subsampled
    }

    fn ranks(&self) -> Option<Ranks> {
        self.ranks
    }
}

fn write<'g>(define: &dyn Define, m: Builder<'g>) -> Written<'g> {
    define.define(&m);
    m.finish()
}

pub(super) fn scope<'g>(graph: &'g Graph, rows: usize, dim: usize, choices: Choices) -> Result<Scope<'g>> {
    Scope::new(graph, rows, DType::F64, choices, &Initialisation::standard(dim), &Params::default())
}
