//! A model whose log density is a function of Python: what inference asks of it, it asks its object.

use crate::arrays::{self, from_python, named_quantity};
use crate::expression::Program;
use crate::function::PythonFunction;
use mcvi::model::{Quantities, Quantity};
use mcvi::{About, Axes, BayesianModel, Error, Expr, External, Hardware, Parameter, Result, Scope, Source, Target};
use pyo3::prelude::*;
use serde_json::json;
use std::sync::Arc;

/// An object with the methods of `mcvi.Model`.
pub struct PythonModel {
    function: Arc<PythonFunction>,
    /// The log density, where it needs no call of Python.
    program: Option<Arc<Program>>,
    about: About,
    parameters: Vec<Parameter>,
    observations: Vec<Quantity>,
    axes: Axes,
}

/// A parameter as Python describes it: name, shape, number of free coordinates, labels along each axis.
type Described = (String, Vec<usize>, usize, Vec<Vec<String>>);

impl PythonModel {
    pub fn new(object: &Bound<'_, PyAny>, program: Option<Arc<Program>>) -> PyResult<Self> {
        let name: String = object.getattr("name")?.extract()?;
        let about = About {
            name: name.clone(),
            description: object.getattr("description")?.extract()?,
            notes: object.getattr("notes")?.extract()?,
            log_evidence: None,
        };
        let parameters: Vec<Described> = object.call_method0("_parameters")?.extract()?;
        let observed: Vec<(String, Bound<'_, PyAny>)> = object.call_method0("_observations")?.extract()?;
        let (names, labels) = object.call_method0("_axes")?.extract()?;
        let dim = object.getattr("dim")?.extract()?;
        Ok(PythonModel {
            function: Arc::new(PythonFunction::new(object.clone().unbind(), name, dim)),
            program,
            about,
            parameters: parameters
                .into_iter()
                .map(|(name, shape, free, labels)| Parameter::new(&name, shape, free).labelled(labels))
                .collect(),
            observations: observed
                .into_iter()
                .map(|(name, values)| named_quantity(name, &values, 0))
                .collect::<PyResult<_>>()?,
            axes: Axes { names, labels },
        })
    }

    pub fn function(&self) -> &PythonFunction {
        &self.function
    }

    /// What a method of the object returns.
    fn ask<R>(&self, call: impl Fn(&Bound<'_, PyAny>) -> PyResult<R>) -> Result<R> {
        let asked = self.function.failure.attach(|py| call(self.function.object.bind(py)));
        asked.map_err(|why| Error::Target { why: format!("{}: {why}", self.function.name) })
    }
}

impl Target for PythonModel {
    fn dim(&self) -> usize {
        self.function.dim
    }

    fn log_density<'g>(&self, _: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let built = self.program.as_ref().and_then(|program| program.build(z).ok());
        built.unwrap_or_else(|| z.external(self.function.clone() as Arc<dyn External>))
    }
}

impl BayesianModel for PythonModel {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn axes(&self) -> Axes {
        self.axes.clone()
    }

    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, _: Hardware) -> Result<Quantities> {
        let all = z.concat();
        self.ask(|object| {
            let z = arrays::matrix(object.py(), &all, self.function.dim)?;
            from_python(&object.call_method1("_quantities", (z, seed))?)
        })
    }

    fn observations(&self) -> Result<Vec<Quantity>> {
        Ok(self.observations.clone())
    }

    fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        let drawn = self.ask(|object| {
            let drawn = object.call_method1("_prior", (count, seed))?;
            if drawn.is_none() { Ok(None) } else { from_python(&drawn).map(Some) }
        })?;
        let why = "the model has no prior of its own".to_owned();
        drawn.ok_or_else(|| Error::CannotDraw { name: self.function.name.clone(), why })
    }

    fn source(&self) -> Option<Source> {
        Some(Source::new(mcvi_cli::fit::PYTHON, json!({ "name": self.function.name })))
    }
}
