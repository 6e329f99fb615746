//! A log density that the engine computes itself, as an object of Python.

use crate::arrays;
use crate::expression::{Program, names};
use mcvi_expr::{Array, DType, Graph, grad};
use numpy::{PyArrayDyn, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// A log density of rows of points, made of array operations.
#[pyclass(frozen, module = "mcvi._mcvi")]
pub struct LogDensity {
    pub program: Arc<Program>,
}

/// Values `[rows]`, gradients and Hessian-vector products `[rows, dim]`.
type Derivatives<'py> = (Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>);

#[pymethods]
impl LogDensity {
    /// From the text of its operations and the arrays they refer to, of float64 or int32.
    #[new]
    fn new(text: &str, arrays: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let arrays = arrays.iter().map(constant).collect::<PyResult<_>>()?;
        let program = Program::read(text, arrays).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(LogDensity { program: Arc::new(program) })
    }

    /// Values, gradients and the products of the Hessian at each row of z with the same row of v.
    fn derivatives<'py>(
        &self,
        py: Python<'py>,
        z: &Bound<'py, PyAny>,
        v: &Bound<'py, PyAny>,
    ) -> PyResult<Derivatives<'py>> {
        let ((z, shape), (v, _)) = (arrays::numbers(z)?, arrays::numbers(v)?);
        let computed = py.detach(|| self.compute(&shape, z, v));
        let [values, gradients, products] = computed.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let rows = &shape[..1];
        Ok((
            arrays::array(py, values, rows)?,
            arrays::array(py, gradients, &shape)?,
            arrays::array(py, products, &shape)?,
        ))
    }
}

impl LogDensity {
    fn compute(&self, shape: &[usize], z: Vec<f64>, v: Vec<f64>) -> mcvi_expr::Result<[Vec<f64>; 3]> {
        let graph = Graph::new();
        let (at, along) = (graph.input("z", DType::F64, shape), graph.input("v", DType::F64, shape));
        let values = self.program.build(at)?;
        let gradients = grad(values.sum_all(), &[at])?[0];
        let products = grad((gradients * along).sum_all(), &[at])?[0];
        let program = graph.program().threads(1);
        let mut program =
            program.output("values", values).output("gradients", gradients).output("products", products).compile()?;
        for (name, array) in [("z", Array::new(shape, z)?), ("v", Array::new(shape, v)?)] {
            program.write(name, &array)?;
        }
        program.run(1)?;
        let mut read = |name| program.output(name).map(|array| array.to_f64());
        Ok([read("values")?, read("gradients")?, read("products")?])
    }
}

/// The names of the functions that work element by element.
#[pyfunction]
pub fn expression_functions() -> Vec<&'static str> {
    names()
}

fn constant(array: &Bound<'_, PyAny>) -> PyResult<Array> {
    let made = match array.extract::<PyReadonlyArrayDyn<'_, i32>>() {
        Ok(whole) => Array::new(whole.as_array().shape(), whole.as_array().iter().copied().collect::<Vec<_>>()),
        Err(_) => {
            let (numbers, shape) = arrays::numbers(array)?;
            Array::new(shape, numbers)
        }
    };
    made.map_err(|e| PyValueError::new_err(e.to_string()))
}
