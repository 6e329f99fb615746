//! Numbers of the library as arrays of NumPy, and back.

use mcvi::model::{Quantities, Quantity};
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Numbers in rows as an array of this shape.
pub fn array<'py>(py: Python<'py>, values: Vec<f64>, shape: &[usize]) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    PyArray1::from_vec(py, values).reshape(shape.to_vec())
}

/// Draws of the coordinates as an array.
pub fn matrix<'py>(py: Python<'py>, z: &[f64], columns: usize) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    array(py, z.to_vec(), &[z.len() / columns.max(1), columns])
}

/// The numbers of an array of float64, and its shape.
pub fn numbers(value: &Bound<'_, PyAny>) -> PyResult<(Vec<f64>, Vec<usize>)> {
    let array: PyReadonlyArrayDyn<'_, f64> = value.extract().map_err(|_| {
        let class = value.get_type();
        PyTypeError::new_err(format!("an array of float64 is needed, not {class}"))
    })?;
    let array = array.as_array();
    let mut values = Vec::with_capacity(array.len());
    match array.as_slice() {
        Some(all) => values.extend_from_slice(all),
        None if array.ndim() == 0 => values.extend(array.iter()),
        // Parts of a larger array lie together row by row.
        None => array.rows().into_iter().for_each(|row| match row.as_slice() {
            Some(row) => values.extend_from_slice(row),
            None => values.extend(row),
        }),
    }
    Ok((values, array.shape().to_vec()))
}

/// Rows of an array `[draws, columns]`.
pub fn rows(value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f64>>> {
    let (values, shape) = numbers(value)?;
    let columns = shape.get(1).copied().unwrap_or(1).max(1);
    Ok(values.chunks(columns).map(<[f64]>::to_vec).collect())
}

/// A quantity as an array with an axis for draws.
pub fn quantity<'py>(py: Python<'py>, q: &Quantity) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let draws = q.values.len() / q.size().max(1);
    let shape: Vec<usize> = std::iter::once(draws).chain(q.shape.iter().copied()).collect();
    array(py, q.values.clone(), &shape)
}

/// Quantities by name, for each kind.
pub fn quantities<'py>(py: Python<'py>, all: &Quantities) -> PyResult<Bound<'py, PyDict>> {
    let kinds = [
        ("parameters", &all.parameters),
        ("generated", &all.generated),
        ("log_likelihood", &all.log_likelihood),
        ("predictive", &all.predictive),
    ];
    let out = PyDict::new(py);
    for (kind, list) in kinds {
        let named = PyDict::new(py);
        for q in list {
            named.set_item(&q.name, quantity(py, q)?)?;
        }
        out.set_item(kind, named)?;
    }
    Ok(out)
}

/// Quantities from Python: of each kind, arrays by name.
pub fn from_python(all: &Bound<'_, PyAny>) -> PyResult<Quantities> {
    let all = all.cast::<PyDict>()?;
    let list = |kind: &str| -> PyResult<Vec<Quantity>> {
        let Some(named) = all.get_item(kind)? else { return Ok(vec![]) };
        named.cast::<PyDict>()?.iter().map(|(name, value)| named_quantity(name.extract()?, &value, 1)).collect()
    };
    Ok(Quantities {
        parameters: list("parameters")?,
        generated: list("generated")?,
        log_likelihood: list("log_likelihood")?,
        predictive: list("predictive")?,
        ..Quantities::default()
    })
}

/// An array as a quantity; so many of its axes are not part of its shape.
pub fn named_quantity(name: String, value: &Bound<'_, PyAny>, axes: usize) -> PyResult<Quantity> {
    let (values, shape) = numbers(value)?;
    Ok(Quantity { name, shape: shape.get(axes..).unwrap_or_default().to_vec(), values })
}
