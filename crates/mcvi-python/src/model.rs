//! Models of all kinds as one opaque object.

use crate::errors::{Failure, exception};
use crate::log_density::LogDensity;
use crate::python_model::PythonModel;
use crate::{arrays, errors};
use mcvi::regression::Regression;
use mcvi::{BayesianModel, Hardware};
use mcvi_stan::{ProgramData, ProgramText, StanModel};
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;

/// A posterior with named parameters.
#[pyclass(frozen, module = "mcvi._mcvi")]
pub struct Model {
    pub model: Arc<dyn BayesianModel>,
    pub failure: Failure,
    /// The object of Python that it is made from, if it is.
    pub object: Option<Py<PyAny>>,
    /// Whether its log density is a call of Python.
    pub calls_python: bool,
    /// The regression that it is, for predictions.
    pub regression: Option<Regression>,
}

impl Model {
    pub fn native(model: Arc<dyn BayesianModel>) -> Self {
        Model { model, failure: Failure::default(), object: None, calls_python: false, regression: None }
    }
}

#[pymethods]
impl Model {
    /// Its name.
    #[getter]
    fn name(&self) -> String {
        self.model.about().name
    }

    /// What it is, in a line.
    #[getter]
    fn description(&self) -> String {
        self.model.about().description
    }

    /// Remarks on data and priors.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.model.about().notes
    }

    /// The number of free coordinates.
    #[getter]
    fn dim(&self) -> usize {
        self.model.dim()
    }

    /// The object of Python that it is made from, if it is.
    #[getter]
    fn python_object(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.object.as_ref().map(|object| object.clone_ref(py))
    }

    /// Whether its log density is a call of Python.
    #[getter]
    fn calls_python(&self) -> bool {
        self.calls_python
    }

    /// Name, shape and labels along each axis of every parameter.
    fn parameters(&self) -> Vec<(String, Vec<usize>, Vec<Vec<String>>)> {
        self.model.parameters().into_iter().map(|p| (p.name, p.shape, p.labels)).collect()
    }

    /// log p(x, z) at each row of z.
    fn log_density<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let z = arrays::rows(z)?;
        let values = py.detach(|| mcvi::log_density(self.model.as_ref(), &z));
        let values = values.map_err(|e| errors::exception_of(py, &e.into(), &self.failure))?;
        let rows = values.len();
        arrays::array(py, values, &[rows])
    }

    /// Parameters and generated quantities at each row of z; with a seed, also log likelihoods and predictions.
    #[pyo3(signature = (z, seed=None))]
    fn quantities<'py>(
        &self,
        py: Python<'py>,
        z: &Bound<'py, PyAny>,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let z = arrays::rows(z)?;
        let all = py.detach(|| self.model.quantities(&z, seed, Hardware::default()));
        arrays::quantities(py, &all.map_err(|e| errors::exception_of(py, &e.into(), &self.failure))?)
    }
}

/// A model by name, as `mcvi fit NAME --data FILE --target COLUMN` has it.
#[pyfunction]
#[pyo3(signature = (name, data=None, target=None))]
pub fn open_model(py: Python<'_>, name: &str, data: Option<PathBuf>, target: Option<&str>) -> PyResult<Model> {
    let options = mcvi_cli::fit::RegressionOptions::of_target(target);
    let opened = py.detach(|| mcvi_cli::fit::open_model(name, data.as_deref(), &options));
    opened.map(Model::native).map_err(|e| exception(py, &e))
}

/// A Stan program, a file or text, with data, a file or a text of JSON.
#[pyfunction]
#[pyo3(signature = (file=None, text=None, data_file=None, data=None))]
pub fn stan_model(
    py: Python<'_>,
    file: Option<PathBuf>,
    text: Option<String>,
    data_file: Option<PathBuf>,
    data: Option<&str>,
) -> PyResult<Model> {
    let program = match (file, text) {
        (Some(file), _) => ProgramText::File(file),
        (None, text) => ProgramText::Text(text.unwrap_or_default()),
    };
    let opened = py.detach(|| {
        let data = match data_file {
            Some(file) => ProgramData::File(file),
            None => ProgramData::Values(serde_json::from_str(data.unwrap_or("{}"))?),
        };
        StanModel::from_parts(program, data).map_err(|e| mcvi_cli::mistaken(e.into()))
    });
    opened.map(|model| Model::native(Arc::new(model))).map_err(|e| exception(py, &e))
}

/// A model that is an object with the methods of `mcvi.Model`; its log density is the one given, or else calls of the object.
#[pyfunction]
#[pyo3(signature = (object, log_density=None))]
pub fn python_model(object: &Bound<'_, PyAny>, log_density: Option<PyRef<'_, LogDensity>>) -> PyResult<Model> {
    let program = log_density.map(|density| density.program.clone());
    let calls_python = program.is_none();
    let model = PythonModel::new(object, program)?;
    let failure = model.function().failure.clone();
    let object = Some(object.clone().unbind());
    Ok(Model { model: Arc::new(model), failure, object, calls_python, regression: None })
}
