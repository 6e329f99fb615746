//! Posteriors with named parameters: everything that inference, reports, stores and commands need to know about a
//! model.

use crate::conditional_effect::ConditionalEffect;
use crate::error::{Error, Result};
use crate::hardware::{Hardware, Ranks};
use crate::in_parts::InParts;
use crate::laplace::log_density;
use crate::model::{Model, Quantities, Quantity};
use crate::scope::Scope;
use crate::target::{Conditional, FromFn, Target};
use mcvi_expr::{DType, Expr};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A target whose coordinates represent named parameters, which may be constrained.
///
/// Every method has a default that suits a target without names: one parameter `z`, and nothing else known. So a custom
/// target takes one line, `impl BayesianModel for Mine {}`, and overrides one method for each thing it knows beyond
/// that.
pub trait BayesianModel: Target {
    /// Its name, and remarks for readers of its results.
    fn about(&self) -> About {
        About::default()
    }

    /// The parameters, in the order of the free coordinates.
    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::new("z", vec![self.dim()], self.dim())]
    }

    /// Names of the axes of parameters, quantities and observations, and labels along them, where it has any.
    fn axes(&self) -> Axes {
        Axes::default()
    }

    /// The names of parameters that only the computation needs: results list them last.
    fn internal(&self) -> Vec<String> {
        vec![]
    }

    /// The name of each element of each parameter, as in Stan: `theta[1]`, `L[1,2]`.
    fn names(&self) -> Vec<String> {
        self.parameters().iter().flat_map(Parameter::names).collect()
    }

    /// Constrained parameters and generated quantities for draws z of the free coordinates. With a seed, also the log
    /// likelihood of each observation and replicated observations.
    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, _hardware: Hardware) -> Result<Quantities> {
        let _ = seed;
        let z = Quantity { name: "z".to_owned(), shape: vec![self.dim()], values: z.concat() };
        Ok(Quantities { parameters: vec![z], ..Quantities::default() })
    }

    /// The observations.
    fn observations(&self) -> Result<Vec<Quantity>> {
        Ok(vec![])
    }

    /// Draws of the parameters from the prior, and of observations given them; [`Error::CannotDraw`] if there is no
    /// proper prior.
    fn prior(&self, _count: usize, _seed: u64) -> Result<Quantities> {
        Err(Error::CannotDraw { name: "z".to_owned(), why: "the model has no prior of its own".to_owned() })
    }

    /// The same draws of the parameters alone.
    fn prior_parameters(&self, count: usize, seed: u64) -> Result<Vec<Quantity>> {
        Ok(self.prior(count, seed)?.parameters)
    }

    /// How the expected response depends on columns of the data, by free draws z, where the model is a regression.
    fn conditional_effects(&self, _z: &[Vec<f64>], _hardware: Hardware) -> Result<Vec<ConditionalEffect>> {
        Ok(vec![])
    }

    /// The free coordinates of draws of the parameters, such as those of [`prior`](Self::prior).
    fn unconstrained(&self, _parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        Err(Error::Target { why: "it does not know the free coordinates of its parameters".to_owned() })
    }

    /// The same model with other observations of the same size, for simulated data.
    fn observing(&self, _observations: &[(String, Vec<f64>)]) -> Result<Arc<dyn BayesianModel>> {
        Err(Error::Target { why: "it cannot be given other observations".to_owned() })
    }

    /// What a saved run needs to reopen the model and its data; none if the model exists only in a program.
    fn source(&self) -> Option<Source> {
        None
    }

    /// A digest of all data behind the model.
    fn data_digest(&self) -> Result<String> {
        let mut digest = DataDigest::default();
        for o in self.observations()? {
            digest.add(&o.name, &o.values);
        }
        Ok(digest.finish())
    }
}

/// The name of a model, and remarks for readers of its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// A one-line description.
    pub description: String,
    /// Remarks on the data and the priors.
    pub notes: Vec<String>,
    /// log p(x), where it is known.
    pub log_evidence: Option<f64>,
}

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The shape of its value, constrained: empty for a number.
    pub shape: Vec<usize>,
    /// Number of free coordinates.
    pub free: usize,
    /// Labels along each axis of the shape; empty if elements are numbered.
    pub labels: Vec<Vec<String>>,
}

impl Parameter {
    /// A parameter whose elements are numbered.
    pub fn new(name: &str, shape: Vec<usize>, free: usize) -> Self {
        Parameter { name: name.to_owned(), shape, free, labels: vec![] }
    }

    /// With labels along each axis.
    pub fn labelled(self, labels: Vec<Vec<String>>) -> Self {
        Parameter { labels, ..self }
    }

    /// The name of each element.
    pub fn names(&self) -> Vec<String> {
        Quantity { name: self.name.clone(), shape: self.shape.clone(), values: vec![] }.names()
    }
}

/// Axes with names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axes {
    /// The names of the axes of a quantity, by its name.
    pub names: BTreeMap<String, Vec<String>>,
    /// The labels along an axis, by its name.
    pub labels: BTreeMap<String, Vec<String>>,
}

impl Axes {
    /// The names of the axes of a quantity of this shape: its own, or else numbered.
    pub fn of(&self, name: &str, shape: &[usize]) -> Vec<String> {
        let named = self.names.get(name).filter(|names| names.len() == shape.len());
        named.cloned().unwrap_or_else(|| (0..shape.len()).map(|i| format!("{name}_dim_{i}")).collect())
    }
}

/// Where a model comes from: who can open it, and the settings needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Who can open it: `built-in`, `regression`.
    pub kind: String,
    /// What is needed: a name, files, settings.
    #[serde(flatten)]
    pub settings: serde_json::Map<String, Value>,
}

impl Source {
    /// From settings, given as a JSON object.
    pub fn new(kind: &str, settings: Value) -> Self {
        let settings = if let Value::Object(map) = settings { map } else { serde_json::Map::new() };
        Source { kind: kind.to_owned(), settings }
    }
}

/// A digest of named numbers.
#[derive(Default)]
pub struct DataDigest(Sha256);

impl DataDigest {
    /// Add numbers under a name.
    pub fn add(&mut self, name: &str, values: &[f64]) {
        self.begin(name, values.len());
        self.extend(values);
    }

    /// Begin so many numbers under a name, which follow.
    pub fn begin(&mut self, name: &str, count: usize) {
        self.0.update(name);
        self.0.update([0]);
        self.0.update(count.to_le_bytes());
    }

    /// Some of those numbers.
    pub fn extend(&mut self, values: &[f64]) {
        values.iter().for_each(|x| self.0.update(x.to_le_bytes()));
    }

    /// The digest, in hexadecimal digits.
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// Relative tolerance between two computations of the same number: processors round differently.
const ROUNDING: f64 = 1e-9;

/// Identifies a model and its data. It is saved with a run, and checked whenever the run is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The name of each element of each parameter.
    names: Vec<String>,
    /// A digest of the data.
    data: String,
    /// The log density at a few points, as text: it need not be finite.
    log_density: Vec<String>,
}

impl Fingerprint {
    /// The fingerprint of a model. All ranks that share its data call it together.
    pub fn of(model: &dyn BayesianModel) -> Result<Self> {
        // No two coordinates are alike, so that swapped ones show.
        let place =
            |scale: f64| (0..model.dim()).map(|i| scale * (0.1 + (0.618_034 * (i + 1) as f64).fract())).collect();
        let places: Vec<Vec<f64>> = [0.01, -0.1, 0.3].map(place).to_vec();
        // By parts, as it is fitted: ranks may hold no more than their own.
        let by_parts = InParts::new(model, Hardware { ranks: model.ranks(), ..Hardware::default() });
        let log_density = log_density(&by_parts, &places)?.iter().map(f64::to_string).collect();
        Ok(Fingerprint { names: model.names(), data: model.data_digest()?, log_density })
    }

    /// How a model differs from this fingerprint; none if it does not.
    pub fn difference(&self, model: &dyn BayesianModel) -> Result<Option<String>> {
        let now = Fingerprint::of(model)?;
        if self.names != now.names {
            let show = |names: &[String]| names.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
            return Ok(Some(format!("its parameters were {}, now they are {}", show(&self.names), show(&now.names))));
        }
        if self.data != now.data {
            return Ok(Some("its data have changed".to_owned()));
        }
        let same = |was: &String, is: &String| match (was.parse::<f64>(), is.parse::<f64>()) {
            (Ok(was), Ok(is)) => {
                was == is || (was - is).abs() <= ROUNDING * was.abs().max(1.0) || (was.is_nan() && is.is_nan())
            }
            _ => false,
        };
        let all = self.log_density.len() == now.log_density.len();
        let same = all && self.log_density.iter().zip(&now.log_density).all(|(was, is)| same(was, is));
        Ok((!same).then(|| "its log density has changed: the data or the model are not the same".to_owned()))
    }
}

impl<F> BayesianModel for FromFn<F> where F: for<'g> Fn(&Scope<'g>, Expr<'g>) -> Expr<'g> + Send + Sync {}

macro_rules! pointer {
    ($($pointer:ty),*) => {$(
        impl<T: Target + ?Sized> Target for $pointer {
            fn dim(&self) -> usize {
                (**self).dim()
            }
            fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
                (**self).log_density(scope, z)
            }
            fn log_likelihood<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Option<Expr<'g>> {
                (**self).log_likelihood(scope, z)
            }
            fn conditional<'g>(&self, scope: &Scope<'g>, z: Expr<'g>, coordinate: usize) -> Option<Conditional<'g>> {
                (**self).conditional(scope, z, coordinate)
            }
            fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
                (**self).data(scope)
            }
            fn is_subsampled(&self) -> bool {
                (**self).is_subsampled()
            }
            fn ranks(&self) -> Option<Ranks> {
                (**self).ranks()
            }
            fn dtype(&self) -> DType {
                (**self).dtype()
            }
        }
    )*};
}
pointer!(Arc<T>, &T);

impl<T: BayesianModel + ?Sized> BayesianModel for Arc<T> {
    fn about(&self) -> About {
        (**self).about()
    }
    fn parameters(&self) -> Vec<Parameter> {
        (**self).parameters()
    }
    fn internal(&self) -> Vec<String> {
        (**self).internal()
    }
    fn axes(&self) -> Axes {
        (**self).axes()
    }
    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, hardware: Hardware) -> Result<Quantities> {
        (**self).quantities(z, seed, hardware)
    }
    fn observations(&self) -> Result<Vec<Quantity>> {
        (**self).observations()
    }
    fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        (**self).prior(count, seed)
    }
    fn prior_parameters(&self, count: usize, seed: u64) -> Result<Vec<Quantity>> {
        (**self).prior_parameters(count, seed)
    }
    fn conditional_effects(&self, z: &[Vec<f64>], hardware: Hardware) -> Result<Vec<ConditionalEffect>> {
        (**self).conditional_effects(z, hardware)
    }
    fn unconstrained(&self, parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        (**self).unconstrained(parameters)
    }
    fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Arc<dyn BayesianModel>> {
        (**self).observing(observations)
    }
    fn source(&self) -> Option<Source> {
        (**self).source()
    }
    fn data_digest(&self) -> Result<String> {
        (**self).data_digest()
    }
}

impl BayesianModel for Model {
    fn parameters(&self) -> Vec<Parameter> {
        Model::parameters(self).iter().map(|p| Parameter::new(&p.name, p.shape(), p.free())).collect()
    }
    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, hardware: Hardware) -> Result<Quantities> {
        self.follow(z, seed, hardware)
    }
    fn observations(&self) -> Result<Vec<Quantity>> {
        Model::observations(self)
    }
    fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        Model::prior(self, count, seed)
    }
    fn prior_parameters(&self, count: usize, seed: u64) -> Result<Vec<Quantity>> {
        Ok(self.draw_prior(count, seed, false)?.parameters)
    }
    fn unconstrained(&self, parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        Model::unconstrained(self, parameters)
    }
    fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Arc<dyn BayesianModel>> {
        Ok(Arc::new(Model::observing(self, observations)?))
    }
}

/// A model with a description: its source, and remarks on its results.
#[derive(Clone)]
pub struct DescribedModel {
    /// The model.
    pub model: Model,
    /// Its name, and remarks.
    pub about: About,
    /// Where it comes from.
    pub source: Source,
    /// Labels of the elements of some parameters, by name, along each axis.
    pub labels: Vec<(String, Vec<Vec<String>>)>,
    /// A digest of data that the model holds besides its observations.
    pub data_digest: Option<String>,
}

impl Target for DescribedModel {
    fn dim(&self) -> usize {
        self.model.dim()
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        self.model.log_density(scope, z)
    }
    fn is_subsampled(&self) -> bool {
        self.model.is_subsampled()
    }
    fn ranks(&self) -> Option<Ranks> {
        self.model.ranks()
    }
}

impl BayesianModel for DescribedModel {
    fn about(&self) -> About {
        self.about.clone()
    }
    fn parameters(&self) -> Vec<Parameter> {
        let labelled = |p: Parameter| match self.labels.iter().find(|(name, _)| *name == p.name) {
            Some((_, labels)) => p.labelled(labels.clone()),
            None => p,
        };
        BayesianModel::parameters(&self.model).into_iter().map(labelled).collect()
    }
    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, hardware: Hardware) -> Result<Quantities> {
        BayesianModel::quantities(&self.model, z, seed, hardware)
    }
    fn observations(&self) -> Result<Vec<Quantity>> {
        self.model.observations()
    }
    fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        self.model.prior(count, seed)
    }
    fn prior_parameters(&self, count: usize, seed: u64) -> Result<Vec<Quantity>> {
        self.model.prior_parameters(count, seed)
    }
    fn unconstrained(&self, parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        self.model.unconstrained(parameters)
    }
    fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Arc<dyn BayesianModel>> {
        BayesianModel::observing(&self.model, observations)
    }
    fn source(&self) -> Option<Source> {
        Some(self.source.clone())
    }
    fn data_digest(&self) -> Result<String> {
        self.data_digest.clone().map_or_else(|| self.model.data_digest(), Ok)
    }
}
