//! A log density that is a function of Python, with its derivatives, as the engine calls it: for all rows at once, from
//! threads of its own, which take the interpreter's lock only for the call.

use crate::arrays;
use crate::errors::{Failure, lock};
use mcvi::External;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard};

/// Values and gradients at some rows.
struct Known {
    z: Vec<f64>,
    values: Vec<f64>,
    gradients: Vec<f64>,
}

/// An object with the methods `values`, `values_and_gradients` and `hessian_vectors` of arrays `[rows, dim]`.
pub struct PythonFunction {
    pub object: Py<PyAny>,
    pub name: String,
    pub dim: usize,
    pub failure: Failure,
    /// What was computed last: a chain asks for gradients and values at the same place.
    last: Mutex<Option<Known>>,
}

impl PythonFunction {
    pub fn new(object: Py<PyAny>, name: String, dim: usize) -> Self {
        PythonFunction { object, name, dim, failure: Failure::default(), last: Mutex::new(None) }
    }

    fn known(&self, z: &[f64]) -> Result<MutexGuard<'_, Option<Known>>, String> {
        let mut last = lock(&self.last);
        if last.as_ref().is_none_or(|known| known.z != z) {
            let (values, gradients) = self.failure.attach(|py| {
                let both =
                    self.object.bind(py).call_method1("values_and_gradients", (arrays::matrix(py, z, self.dim)?,))?;
                let (values, gradients): (Bound<'_, PyAny>, Bound<'_, PyAny>) = both.extract()?;
                let rows = z.len() / self.dim;
                let values = self.of_shape(&values, &[rows], "values")?;
                Ok((values, self.of_shape(&gradients, &[rows, self.dim], "gradients")?))
            })?;
            *last = Some(Known { z: z.to_vec(), values, gradients });
        }
        Ok(last)
    }

    fn of_shape(&self, value: &Bound<'_, PyAny>, shape: &[usize], what: &str) -> PyResult<Vec<f64>> {
        let (values, found) = arrays::numbers(value)?;
        if found == shape {
            return Ok(values);
        }
        let why = format!("the {what} of {} have the shape {found:?}, where {shape:?} is needed", self.name);
        Err(PyValueError::new_err(why))
    }
}

impl External for PythonFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.dim
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn has_hessian_vector(&self) -> bool {
        true
    }

    fn value(&self, z: &[f64]) -> Result<f64, String> {
        let mut value = [0.0];
        self.values(z, &mut value).map(|()| value[0])
    }

    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        self.gradients(z, gradient)?;
        self.value(z)
    }

    fn values(&self, z: &[f64], to: &mut [f64]) -> Result<(), String> {
        if let Some(known) = lock(&self.last).as_ref().filter(|known| known.z == z) {
            to.copy_from_slice(&known.values);
            return Ok(());
        }
        let values = self.failure.attach(|py| {
            let values = self.object.bind(py).call_method1("values", (arrays::matrix(py, z, self.dim)?,))?;
            self.of_shape(&values, &[z.len() / self.dim], "values")
        })?;
        to.copy_from_slice(&values);
        Ok(())
    }

    fn gradients(&self, z: &[f64], to: &mut [f64]) -> Result<(), String> {
        if let Some(known) = self.known(z)?.as_ref() {
            to.copy_from_slice(&known.gradients);
        }
        Ok(())
    }

    fn hessian_vectors(&self, z: &[f64], v: &[f64], to: &mut [f64]) -> Result<(), String> {
        // Searches ask for values and gradients alone by a product with nothing.
        if v.iter().all(|v| *v == 0.0) {
            to.fill(0.0);
            return Ok(());
        }
        let products = self.failure.attach(|py| {
            let (z, v) = (arrays::matrix(py, z, self.dim)?, arrays::matrix(py, v, self.dim)?);
            let products = self.object.bind(py).call_method1("hessian_vectors", (&z, v))?;
            self.of_shape(&products, &[to.len() / self.dim, self.dim], "Hessian-vector products")
        })?;
        to.copy_from_slice(&products);
        Ok(())
    }
}
